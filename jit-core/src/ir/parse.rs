//! Reads the text form of a program.
use super::Program;
use crate::error::Error;

/// Reads the text form of a program.
///
/// # Errors
/// [`Error::Parse`] with the line.
pub fn parse(_text: &str) -> Result<Program, Error> {
    Err(Error::Parse { line: 0, message: String::new() })
}
