//! The pure ops on lanes: one template for each op of the table and each kind of type, with exactly the meaning
//! of `jit_core::op::scalar`.
//!
//! LLVM leaves some cases undefined (shifts past the width, division by zero, floats out of an integer's range):
//! the templates keep such operands away from the instruction, also in lanes that are masked off, and choose
//! the language's result by `select`. No instruction carries fast-math flags.

use inkwell::{FloatPredicate, IntPredicate};
use jit_core::dtype::DType;
use jit_core::error::Error;
use jit_core::op::Op;

use super::cast;
use super::emit::{Emit, Form, Val, element_bits, form};
use super::remainder::float_remainder;
use super::unsupported;

/// The op on operands of type `ty` (of `select`: the type of what it chooses from) with a result of type `out`.
/// All operands have one form.
pub(super) fn lane_op<'c>(
    e: &Emit<'c>,
    op: Op,
    ty: DType,
    out: DType,
    args: &[Val<'c>],
) -> Result<Val<'c>, Error> {
    match op {
        Op::Select => return Ok(e.select(args[0], args[1], args[2])),
        Op::Cast => return cast::cast(e, ty, out, args[0]),
        Op::Bitcast => return Ok(e.bitcast(args[0], e.register(out, form(args[0])))),
        _ => {}
    }
    match ty {
        DType::F16 => half_op(e, op, args),
        DType::F32 | DType::F64 => float_op(e, op, ty, args),
        _ => int_op(e, op, ty, args),
    }
}

fn int_op<'c>(e: &Emit<'c>, op: Op, ty: DType, args: &[Val<'c>]) -> Result<Val<'c>, Error> {
    let a = args[0];
    let b = args.get(1).copied().unwrap_or(a);
    let bits = ty.bits();
    let signed = ty.is_signed();
    let constant = |value: u64| e.int_like(a, value & ty.mask());
    let either = |s: IntPredicate, u: IntPredicate| if signed { s } else { u };
    Ok(match op {
        Op::Neg => e.sub(constant(0), a),
        Op::Not => e.not(a),
        Op::Abs if signed => {
            let negative = e.icmp(IntPredicate::SLT, a, constant(0));
            e.select(negative, e.sub(constant(0), a), a)
        }
        Op::Abs => a,
        Op::CountOnes => count(e, e.math("llvm.ctpop", &[a])),
        Op::LeadingZeros => count(e, zeros(e, "llvm.ctlz", a)),
        Op::TrailingZeros => count(e, zeros(e, "llvm.cttz", a)),
        Op::ReverseBits => e.math("llvm.bitreverse", &[a]),
        Op::Add => e.add(a, b),
        Op::Sub => e.sub(a, b),
        Op::Mul => e.mul(a, b),
        Op::Div => divide(e, ty, a, b).0,
        Op::Rem => divide(e, ty, a, b).1,
        Op::MulHi => mul_hi(e, ty, a, b),
        Op::Min | Op::Minimum => e.math(if signed { "llvm.smin" } else { "llvm.umin" }, &[a, b]),
        Op::Max | Op::Maximum => e.math(if signed { "llvm.smax" } else { "llvm.umax" }, &[a, b]),
        Op::And => e.and(a, b),
        Op::Or => e.or(a, b),
        Op::Xor => e.xor(a, b),
        Op::Shl => {
            let within = e.icmp(IntPredicate::ULT, b, constant(u64::from(bits)));
            e.select(within, e.shl(a, b), constant(0))
        }
        Op::Shr if signed => e.ashr(a, e.math("llvm.umin", &[b, constant(u64::from(bits) - 1)])),
        Op::Shr => {
            let within = e.icmp(IntPredicate::ULT, b, constant(u64::from(bits)));
            e.select(within, e.lshr(a, b), constant(0))
        }
        Op::MulAdd => e.add(e.mul(a, b), args[2]),
        Op::Eq => e.icmp(IntPredicate::EQ, a, b),
        Op::Ne => e.icmp(IntPredicate::NE, a, b),
        Op::Lt => e.icmp(either(IntPredicate::SLT, IntPredicate::ULT), a, b),
        Op::Le => e.icmp(either(IntPredicate::SLE, IntPredicate::ULE), a, b),
        Op::Gt => e.icmp(either(IntPredicate::SGT, IntPredicate::UGT), a, b),
        Op::Ge => e.icmp(either(IntPredicate::SGE, IntPredicate::UGE), a, b),
        _ => return Err(unsupported(op, ty)),
    })
}

fn zeros<'c>(e: &Emit<'c>, name: &str, a: Val<'c>) -> Val<'c> {
    // The flag says that 0 has a result: the width.
    let defined_at_zero = e.const_int(1, 0, Form::Uniform);
    e.intrinsic(name, &[a.get_type()], &[a, defined_at_zero])
}

/// A number of bits as u32.
fn count<'c>(e: &Emit<'c>, a: Val<'c>) -> Val<'c> {
    match element_bits(a) {
        32 => a,
        64 => e.trunc(a, 32),
        _ => e.zext(a, 32),
    }
}

/// Quotient and remainder.
fn divide<'c>(e: &Emit<'c>, ty: DType, a: Val<'c>, b: Val<'c>) -> (Val<'c>, Val<'c>) {
    let (zero, one) = (e.int_like(a, 0), e.int_like(a, 1));
    let ones = e.int_like(a, ty.mask());
    let by_zero = e.icmp(IntPredicate::EQ, b, zero);
    // MIN / -1 is MIN / 1, and both leave no remainder.
    let mut unit = by_zero;
    if ty.is_signed() {
        let min = e.int_like(a, 1 << (ty.bits() - 1));
        let overflow = e.and(e.icmp(IntPredicate::EQ, a, min), e.icmp(IntPredicate::EQ, b, ones));
        unit = e.or(unit, overflow);
    }
    let divisor = e.select(unit, one, b);
    let quotient = match form(a) {
        // Vectors have no integer division; a constant divisor becomes a multiplication all the same.
        Form::Varying if ty.bits() <= 32 && !is_constant(b) => quotient_by_float(e, ty, a, divisor),
        _ if ty.is_signed() => e.sdiv(a, divisor),
        _ => e.udiv(a, divisor),
    };
    let remainder = e.sub(a, e.mul(quotient, divisor));
    (e.select(by_zero, ones, quotient), e.select(by_zero, a, remainder))
}

/// The quotient by way of floats. An inexact `a / b` is at least `1 / b` below the next integer, and rounding moves
/// it by at most `2^(n - p) / b` (n bits an integer, p bits precision), which is less: truncation is exact.
fn quotient_by_float<'c>(e: &Emit<'c>, ty: DType, a: Val<'c>, b: Val<'c>) -> Val<'c> {
    let wide = if ty.bits() <= 16 { 32 } else { 64 };
    if ty.is_signed() {
        e.narrow(e.fptosi(e.fdiv(e.sitofp(a, wide), e.sitofp(b, wide)), 32), ty.bits())
    } else {
        e.narrow(e.fptoui(e.fdiv(e.uitofp(a, wide), e.uitofp(b, wide)), 32), ty.bits())
    }
}

fn is_constant(a: Val<'_>) -> bool {
    inkwell::values::BasicValue::is_const(&a)
}

fn mul_hi<'c>(e: &Emit<'c>, ty: DType, a: Val<'c>, b: Val<'c>) -> Val<'c> {
    let bits = ty.bits();
    if bits < 64 {
        let wide = |v| if ty.is_signed() { e.sext(v, 2 * bits) } else { e.zext(v, 2 * bits) };
        let product = e.mul(wide(a), wide(b));
        return e.trunc(e.lshr(product, e.int_like(product, u64::from(bits))), bits);
    }
    // Four products of halves; the sums of the middle ones cannot overflow.
    let half = e.int_like(a, 32);
    let low = |v| e.and(v, e.int_like(a, 0xffff_ffff));
    let high = |v| e.lshr(v, half);
    let middle = e.add(e.mul(high(a), low(b)), high(e.mul(low(a), low(b))));
    let other = e.add(e.mul(low(a), high(b)), low(middle));
    let unsigned = e.add(e.add(e.mul(high(a), high(b)), high(middle)), high(other));
    if !ty.is_signed() {
        return unsigned;
    }
    let sign = e.int_like(a, 63);
    let correction = e.add(e.and(e.ashr(a, sign), b), e.and(e.ashr(b, sign), a));
    e.sub(unsigned, correction)
}

fn float_op<'c>(e: &Emit<'c>, op: Op, ty: DType, args: &[Val<'c>]) -> Result<Val<'c>, Error> {
    let a = args[0];
    let b = args.get(1).copied().unwrap_or(a);
    Ok(match op {
        Op::Neg => e.fneg(a),
        Op::Abs => e.math("llvm.fabs", &[a]),
        Op::CopySign => e.math("llvm.copysign", &[a, b]),
        Op::Sqrt => e.math("llvm.sqrt", &[a]),
        Op::Floor => e.math("llvm.floor", &[a]),
        Op::Ceil => e.math("llvm.ceil", &[a]),
        Op::Trunc => e.math("llvm.trunc", &[a]),
        Op::Round => e.math("llvm.round", &[a]),
        Op::RoundTiesEven => e.math("llvm.roundeven", &[a]),
        Op::Add => e.fadd(a, b),
        Op::Sub => e.fsub(a, b),
        Op::Mul => e.fmul(a, b),
        Op::Div => e.fdiv(a, b),
        Op::Rem if e.target.fma => float_remainder(e, a, b),
        Op::MulAdd if e.target.fma => e.math("llvm.fma", &[a, b, args[2]]),
        Op::Min => extreme(e, Extreme { least: true, nan_wins: false }, a, b),
        Op::Max => extreme(e, Extreme { least: false, nan_wins: false }, a, b),
        Op::Minimum => extreme(e, Extreme { least: true, nan_wins: true }, a, b),
        Op::Maximum => extreme(e, Extreme { least: false, nan_wins: true }, a, b),
        Op::Eq => e.fcmp(FloatPredicate::OEQ, a, b),
        Op::Ne => e.fcmp(FloatPredicate::UNE, a, b),
        Op::Lt => e.fcmp(FloatPredicate::OLT, a, b),
        Op::Le => e.fcmp(FloatPredicate::OLE, a, b),
        Op::Gt => e.fcmp(FloatPredicate::OGT, a, b),
        Op::Ge => e.fcmp(FloatPredicate::OGE, a, b),
        _ => return Err(unsupported(op, ty)),
    })
}

/// Which of two floats an op chooses.
#[derive(Clone, Copy)]
struct Extreme {
    least: bool,
    /// Else a number does.
    nan_wins: bool,
}

/// The smaller or larger float, -0 below +0.
///
/// `a < b ? a : b` is one instruction, right but for a NaN on one side and for zeros of both signs; a constant leaves little
/// of that to set right.
fn extreme<'c>(e: &Emit<'c>, which: Extreme, a: Val<'c>, b: Val<'c>) -> Val<'c> {
    let (a, b) = if e.constant_bits(a).is_some() { (b, a) } else { (a, b) };
    let wins = if which.least { FloatPredicate::OLT } else { FloatPredicate::OGT };
    let negative_zero: u64 = 1 << (element_bits(b) - 1);
    let infinity = if element_bits(b) == 32 { 0x7f80_0000 } else { 0x7ff0_0000_0000_0000 };
    let is_number = |bits: &u64| bits & !negative_zero <= infinity;
    let constant = e.constant_bits(b).filter(is_number);
    // With a constant the other operand is the one that may be NaN. Without, what this chooses is wrong if `b` is NaN.
    let chosen = match which.nan_wins {
        true => e.select(e.fcmp(wins, b, a), b, a),
        false => e.select(e.fcmp(wins, a, b), a, b),
    };
    let Some(bits) = constant else {
        let instead = if which.nan_wins { b } else { a };
        let chosen = e.select(e.fcmp(FloatPredicate::UNO, b, b), instead, chosen);
        return zeros_in_order(e, which, a, b, chosen);
    };
    // Of equal operands this chose `a` if NaN wins, else `b`.
    let zero_wins = bits == if which.least { negative_zero } else { 0 };
    match bits & !negative_zero == 0 && zero_wins == which.nan_wins {
        true => zeros_in_order(e, which, a, b, chosen),
        false => chosen,
    }
}

/// Equal operands differ at most in the sign of zero: the smaller has the bits of either, the larger those of both.
fn zeros_in_order<'c>(e: &Emit<'c>, which: Extreme, a: Val<'c>, b: Val<'c>, chosen: Val<'c>) -> Val<'c> {
    let bits = |x| e.bitcast(x, e.int(element_bits(x), form(x)));
    let together = if which.least { e.or(bits(a), bits(b)) } else { e.and(bits(a), bits(b)) };
    e.select(e.fcmp(FloatPredicate::OEQ, a, b), e.bitcast(together, a.get_type()), chosen)
}

/// f16 ops act on the bits, or are the f32 op rounded once.
fn half_op<'c>(e: &Emit<'c>, op: Op, args: &[Val<'c>]) -> Result<Val<'c>, Error> {
    let a = args[0];
    let sign = e.int_like(a, 0x8000);
    let magnitude = e.int_like(a, 0x7fff);
    match op {
        Op::Neg => return Ok(e.xor(a, sign)),
        Op::Abs => return Ok(e.and(a, magnitude)),
        Op::CopySign => return Ok(e.or(e.and(a, magnitude), e.and(args[1], sign))),
        _ => {}
    }
    let wide: Result<Vec<_>, Error> =
        args.iter().map(|&a| cast::cast(e, DType::F16, DType::F32, a)).collect();
    let result = float_op(e, op, DType::F32, &wide?)?;
    match op {
        Op::Eq | Op::Ne | Op::Lt | Op::Le | Op::Gt | Op::Ge => Ok(result),
        _ => cast::cast(e, DType::F32, DType::F16, result),
    }
}
