//! Program to program: what makes kernels smaller and faster without changing a bit of their results.

pub mod lower_math;

/// Lowers.
pub(crate) fn lower(program: &mut crate::ir::Program, level: crate::backend::PassLevel, _assume: bool) -> Result<(), crate::error::Error> {
    if level != crate::backend::PassLevel::None { lower_math::run(program); }
    Ok(())
}
