//! The value of an op on literals, bit for bit what a kernel computes.

use crate::backend::{Arg, Launch};
use crate::dtype::DType;
use crate::interp;
use crate::ir::{Builder, ParamKind};
use crate::op::{Class, Op, scalar};
use crate::passes;

/// The result bits of a pure op. `ty` is the type of the last operand, `out` the result type.
pub(crate) fn fold(op: Op, ty: DType, out: DType, args: &[u64]) -> u64 {
    match op.class() {
        Class::Lane => scalar::evaluate(op, ty, out, args),
        _ => fold_math(op, ty, args),
    }
}

/// Mathematical functions are defined by their lowering, so that is what runs.
fn fold_math(op: Op, ty: DType, args: &[u64]) -> u64 {
    let mut b = Builder::new();
    let out = b.param(ParamKind::Out, ty);
    let values: Vec<_> = args.iter().map(|&bits| b.literal(ty, bits)).collect();
    let value = b.op(op, &values);
    b.store(out, value);
    let mut program = b.finish(false);
    passes::lower_math::run(&mut program);
    let mut result = 0u64;
    let args = [Arg::Memory { ptr: (&raw mut result).cast(), len: 1 }];
    // SAFETY: the one parameter is an output of one element of at most 8 bytes, which `result` holds.
    unsafe { interp::run(&program, &Launch { args: &args, lanes: 1, segment: 0, base: 0 }) };
    // Elements are stored in the host's byte order.
    if cfg!(target_endian = "big") { result >> (64 - 8 * ty.size()) } else { result }
}
