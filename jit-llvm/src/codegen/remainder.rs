//! The exact remainder of floats (C's `fmod`), without a library call.
//!
//! Long division in base 2^(p-2), p the precision: the divisor is scaled by a power of two so that the quotient
//! fits a float's integers, one fused multiply-add takes that multiple off (exactly: the rounded quotient is right or
//! one too large, so the difference is smaller than the scaled divisor and a multiple of its last bit), and the scale
//! goes down until it is 1. f32 takes at most 13 steps, f64 at most 42, almost always one.

use inkwell::{FloatPredicate, IntPredicate};

use super::emit::{Emit, Val, element_bits, form};

/// `x - trunc(x / y) * y`, exactly.
pub(super) fn float_remainder<'c>(e: &Emit<'c>, x: Val<'c>, y: Val<'c>) -> Val<'c> {
    let bits = element_bits(x);
    let (mantissa, bias) = if bits == 32 { (23, 127) } else { (52, 1023) };
    let step = mantissa - 1;
    let integer = e.int(bits, form(x));
    let constant = |value: u64| e.const_int(bits, value, form(x));
    let field = |v: Val<'c>| e.lshr(e.bitcast(v, integer), constant(mantissa));
    let power_of_two =
        |k: Val<'c>| e.bitcast(e.shl(e.add(k, constant(bias)), constant(mantissa)), x.get_type());

    let (zero, one) = (e.float_like(x, 0.0), e.float_like(x, 1.0));
    let infinity = e.float_like(x, f64::INFINITY);
    let (ax, ay) = (e.math("llvm.fabs", &[x]), e.math("llvm.fabs", &[y]));
    // Both comparisons are false for NaN.
    let valid = e.and(e.fcmp(FloatPredicate::OLT, ax, infinity), e.fcmp(FloatPredicate::OGT, ay, zero));
    let smaller = e.fcmp(FloatPredicate::OLT, ax, ay);
    // Lanes with nothing to divide take part with 0 / 1.
    let divides = e.and(valid, e.not(smaller));
    let dividend = e.select(divides, ax, zero);
    let divisor = e.select(divides, ay, one);

    // The exponent of a subnormal divisor is found after scaling it up. That of a subnormal dividend may be taken
    // too large, which only lets the division start with a larger scale.
    let subnormal = e.icmp(IntPredicate::EQ, field(divisor), constant(0));
    let scaled_up = e.fmul(divisor, power_of_two(constant(mantissa + 1)));
    let exponent = e.select(subnormal, e.sub(field(scaled_up), constant(mantissa + 1)), field(divisor));
    let distance = e.sub(field(dividend), exponent);
    let at_least_zero = |k: Val<'c>| e.math("llvm.smax", &[k, constant(0)]);
    let start = at_least_zero(e.sub(distance, constant(step)));

    let before = e.here();
    let (again, done) = (e.block("rem.step"), e.block("rem.done"));
    e.jump(again);
    e.continue_at(again);
    let (rest_in, scale_in) = (e.phi(x.get_type()), e.phi(integer));
    let (rest, scale) = (rest_in.as_basic_value(), scale_in.as_basic_value());
    // Up to 2 * bias: too much for one power of two.
    let half = e.lshr(scale, constant(1));
    let multiple = e.fmul(e.fmul(divisor, power_of_two(half)), power_of_two(e.sub(scale, half)));
    let quotient = e.math("llvm.trunc", &[e.fdiv(rest, multiple)]);
    let difference = e.math("llvm.fma", &[e.fneg(quotient), multiple, rest]);
    let negative = e.fcmp(FloatPredicate::OLT, difference, zero);
    let less = e.select(negative, e.fadd(difference, multiple), difference);
    let more = e.any(e.icmp(IntPredicate::SGT, scale, constant(0)));
    rest_in.add_incoming(&[(&dividend, before), (&less, again)]);
    scale_in.add_incoming(&[(&start, before), (&at_least_zero(e.sub(scale, constant(step))), again)]);
    e.branch(more, again, done);

    e.continue_at(done);
    let signed = e.math("llvm.copysign", &[less, x]);
    let result = e.select(divides, signed, x);
    e.select(valid, result, e.float_like(x, f64::NAN))
}
