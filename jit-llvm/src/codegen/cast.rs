//! Conversions by value, each rounded once.

use inkwell::FloatPredicate;
use jit_core::dtype::DType;
use jit_core::error::Error;
use jit_core::op::Op;

use super::emit::{Emit, Val, element_bits, form};
use super::unsupported;

/// The value under another type, as Rust's `as`.
pub(super) fn cast<'c>(e: &Emit<'c>, from: DType, to: DType, a: Val<'c>) -> Result<Val<'c>, Error> {
    if (from == DType::F16 || to == DType::F16) && from != to && !e.target.f16 {
        return Err(unsupported(Op::Cast, DType::F16));
    }
    Ok(match (from.is_float(), to.is_float()) {
        _ if from == to => a,
        (false, _) if to == DType::Bool => e.icmp(inkwell::IntPredicate::NE, a, e.int_like(a, 0)),
        (false, false) => int_to_int(e, from, to, a),
        (false, true) => int_to_float(e, from, to, a),
        (true, false) => float_to_int(e, to, widened(e, from, a)),
        (true, true) => float_to_float(e, to, widened(e, from, a)),
    })
}

/// An f16's bits as an f32; other floats as they are.
fn widened<'c>(e: &Emit<'c>, from: DType, a: Val<'c>) -> Val<'c> {
    if from == DType::F16 { e.fpext(e.bitcast(a, e.float(16, form(a))), 32) } else { a }
}

fn int_to_int<'c>(e: &Emit<'c>, from: DType, to: DType, a: Val<'c>) -> Val<'c> {
    match from.bits().cmp(&to.bits()) {
        std::cmp::Ordering::Greater => e.trunc(a, to.bits()),
        std::cmp::Ordering::Less if from.is_signed() => e.sext(a, to.bits()),
        std::cmp::Ordering::Less => e.zext(a, to.bits()),
        std::cmp::Ordering::Equal => a,
    }
}

fn int_to_float<'c>(e: &Emit<'c>, from: DType, to: DType, a: Val<'c>) -> Val<'c> {
    // An f16 comes by way of a float that holds the integer exactly, or, past 2^53, one that rounds only where
    // f16 overflows anyway.
    let bits = match to {
        DType::F16 if from.bits() <= 16 => 32,
        DType::F16 => 64,
        _ => to.bits(),
    };
    let value = if from.is_signed() { e.sitofp(a, bits) } else { e.uitofp(a, bits) };
    if to == DType::F16 { float_to_float(e, to, value) } else { value }
}

fn float_to_float<'c>(e: &Emit<'c>, to: DType, a: Val<'c>) -> Val<'c> {
    match (element_bits(a), to) {
        (64, DType::F16) => to_half(e, round_to_odd(e, a)),
        (_, DType::F16) => to_half(e, a),
        (32, DType::F64) => e.fpext(a, 64),
        (64, DType::F32) => e.fptrunc(a, 32),
        _ => a,
    }
}

fn to_half<'c>(e: &Emit<'c>, a: Val<'c>) -> Val<'c> {
    e.bitcast(e.fptrunc(a, 16), e.int(16, form(a)))
}

/// An f64 as the f32 on either side of it with an odd mantissa, if it is not an f32 itself: rounding that again to a
/// type with at least two bits less gives what rounding once would (Boldo and Melquiond, "When double rounding is odd").
fn round_to_odd<'c>(e: &Emit<'c>, a: Val<'c>) -> Val<'c> {
    let nearest = e.fptrunc(a, 32);
    let back = e.fpext(nearest, 64);
    // Both are false for NaN.
    let inexact = e.fcmp(FloatPredicate::ONE, back, a);
    let away = e.fcmp(FloatPredicate::OGT, e.math("llvm.fabs", &[back]), e.math("llvm.fabs", &[a]));
    let bits = e.bitcast(nearest, e.int(32, form(a)));
    let toward_zero = e.sub(bits, e.zext(away, 32));
    e.bitcast(e.or(toward_zero, e.zext(inexact, 32)), nearest.get_type())
}

/// Truncates; saturates out of range; NaN gives 0. To bool: whether it is not 0.
fn float_to_int<'c>(e: &Emit<'c>, to: DType, a: Val<'c>) -> Val<'c> {
    if to == DType::Bool {
        return e.fcmp(FloatPredicate::UNE, a, e.float_like(a, 0.0));
    }
    let bits = to.bits();
    let power = |exponent: u32| 2f64.powi(exponent as i32);
    // Chosen by comparisons that are false for NaN, which processors do in one instruction.
    let at_least = |x, low| e.select(e.fcmp(FloatPredicate::OGT, x, low), x, low);
    let at_most = |x, high| e.select(e.fcmp(FloatPredicate::OLT, x, high), x, high);
    let convert = |x| {
        // Processors convert to 32 and 64 bits.
        if to.is_signed() || bits < 32 {
            e.narrow(e.fptosi(x, bits.max(32)), bits)
        } else {
            e.fptoui(x, bits)
        }
    };
    let number = e.fcmp(FloatPredicate::ORD, a, a);
    let (value_bits, low) = if to.is_signed() { (bits - 1, -power(bits - 1)) } else { (bits, 0.0) };
    let low = e.float_like(a, low);
    let precision = if element_bits(a) == 32 { 24 } else { 53 };
    if value_bits <= precision {
        let highest = e.float_like(a, power(value_bits) - 1.0);
        // For unsigned types the lower bound is what NaN becomes.
        let a = if to.is_signed() { e.select(number, a, e.float_like(a, 0.0)) } else { a };
        return convert(at_most(at_least(a, low), highest));
    }
    // The highest integer is no float: what is above has no conversion, and is not chosen.
    let converted = convert(at_least(a, low));
    let too_high = e.fcmp(FloatPredicate::OGE, a, e.float_like(a, power(value_bits)));
    let result = e.select(too_high, e.int_like(converted, to.mask() >> (bits - value_bits)), converted);
    if to.is_signed() { e.select(number, result, e.int_like(converted, 0)) } else { result }
}
