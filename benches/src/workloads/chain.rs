//! The chain of operations that tracing and compiling are measured with.

use jit_frontend::{Device, Error, Operand};

use super::F32;
use crate::inputs::{ranged, uniform};

/// `y + a`, `y * b`, `y - c`, `y * b`, over and over: `ops` operations.
pub(super) fn chain(
    x: &F32,
    a: impl Operand<f32> + Copy,
    b: impl Operand<f32> + Copy,
    c: impl Operand<f32> + Copy,
    ops: usize,
) -> F32 {
    let mut y = x.clone();
    for i in 0..ops {
        y = match i % 4 {
            0 => y + a,
            2 => y - c,
            _ => y * b,
        };
    }
    y
}

/// The chain's start and its three operands, 16 elements each.
pub(super) fn operands(device: &Device) -> Result<[F32; 4], Error> {
    Ok([
        F32::from_vec(uniform(16, 1), device)?,
        F32::from_vec(uniform(16, 2), device)?,
        F32::from_vec(ranged(16, 3, 0.5, 1.0), device)?,
        F32::from_vec(uniform(16, 4), device)?,
    ])
}
