//! The rules of the language.
use super::Program;
use crate::error::Error;

/// Checks a program against the rules of the language.
///
/// # Errors
/// [`Error::Verify`].
pub fn verify(_program: &Program) -> Result<(), Error> {
    Ok(())
}
