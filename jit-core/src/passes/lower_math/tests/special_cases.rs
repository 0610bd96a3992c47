//! NaN, infinities, zeros, the ends of the range, and C99's table for `pow`.

use super::{evaluate, lowered, value};
use crate::dtype::{ALL_DTYPES, DType, format_bits, is_nan};
use crate::op::{Op, scalar};

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

/// For each float type in which the arguments are exact: the result, sign of zero included.
fn check(op: Op, args: &[f64], expected: f64) {
    for dtype in ALL_DTYPES.into_iter().filter(|d| d.is_float()) {
        check_type(op, dtype, args, expected);
    }
}

fn check_type(op: Op, dtype: DType, args: &[f64], expected: f64) {
    let bits = |x: f64| scalar::cast(DType::F64, dtype, x.to_bits());
    if args.iter().any(|&x| !x.is_nan() && value(dtype, bits(x)) != x) {
        return;
    }
    let operands: Vec<Vec<u64>> = args.iter().map(|&x| vec![bits(x)]).collect();
    let result = evaluate(&lowered(op, dtype), &operands)[0];
    let equal = result == bits(expected) || expected.is_nan() && is_nan(dtype, result);
    let name = op.name();
    assert!(equal, "{name} {dtype} of {args:?} is {}, not {expected:?}", format_bits(dtype, result));
}

#[test]
fn reciprocals() {
    for op in [Op::Recip, Op::Rsqrt] {
        check(op, &[0.0], INF);
        check(op, &[-0.0], -INF);
        check(op, &[INF], 0.0);
        check(op, &[NAN], NAN);
        check(op, &[1.0], 1.0);
    }
    check(Op::Recip, &[-INF], -0.0);
    check(Op::Recip, &[-4.0], -0.25);
    check(Op::Rsqrt, &[-INF], NAN);
    check(Op::Rsqrt, &[-1.0], NAN);
    check(Op::Rsqrt, &[4.0], 0.5);
    check_type(Op::Rsqrt, DType::F32, &[2f64.powi(-148)], 2f64.powi(74));
    check_type(Op::Rsqrt, DType::F64, &[2f64.powi(-1074)], 2f64.powi(537));
}

#[test]
fn sines() {
    for op in [Op::Sin, Op::Cos] {
        check(op, &[INF], NAN);
        check(op, &[-INF], NAN);
        check(op, &[NAN], NAN);
    }
    check(Op::Sin, &[0.0], 0.0);
    check(Op::Sin, &[-0.0], -0.0);
    check(Op::Cos, &[0.0], 1.0);
    check(Op::Cos, &[-0.0], 1.0);
    // Denormal numbers are their own sines.
    check_type(Op::Sin, DType::F32, &[2f64.powi(-149)], 2f64.powi(-149));
    check_type(Op::Sin, DType::F32, &[-2f64.powi(-130)], -2f64.powi(-130));
    check_type(Op::Sin, DType::F64, &[5e-324], 5e-324);
    check_type(Op::Sin, DType::F64, &[-5e-324], -5e-324);
}

#[test]
fn exponentials() {
    check(Op::Exp, &[0.0], 1.0);
    check(Op::Exp, &[-0.0], 1.0);
    check(Op::Exp, &[INF], INF);
    check(Op::Exp, &[-INF], 0.0);
    check(Op::Exp, &[NAN], NAN);
    check(Op::Exp, &[12.0], 12f64.exp());
    check(Op::Exp, &[1024.0], INF);
    check(Op::Exp, &[-1024.0], 0.0);
    check_type(Op::Exp, DType::F32, &[f64::from(f32::MAX)], INF);
    check_type(Op::Exp, DType::F32, &[-f64::from(f32::MAX)], 0.0);
    check_type(Op::Exp, DType::F64, &[f64::MAX], INF);
    check_type(Op::Exp, DType::F64, &[-f64::MAX], 0.0);
    // The last arguments with finite and non-zero results, and their neighbours.
    check_type(Op::Exp, DType::F32, &[88.75], INF);
    check_type(Op::Exp, DType::F32, &[-103.5], 2f64.powi(-149));
    check_type(Op::Exp, DType::F32, &[-104.0], 0.0);
    check_type(Op::Exp, DType::F64, &[709.8], INF);
    check_type(Op::Exp, DType::F64, &[-745.0], 5e-324);
    check_type(Op::Exp, DType::F64, &[-745.2], 0.0);
}

#[test]
fn logarithms() {
    check(Op::Ln, &[1.0], 0.0);
    check(Op::Ln, &[0.0], -INF);
    check(Op::Ln, &[-0.0], -INF);
    check(Op::Ln, &[INF], INF);
    check(Op::Ln, &[-INF], NAN);
    check(Op::Ln, &[-1.0], NAN);
    check(Op::Ln, &[NAN], NAN);
    check_type(Op::Ln, DType::F32, &[-2f64.powi(-149)], NAN);
    check_type(Op::Ln, DType::F64, &[5e-324], 5e-324f64.ln());
    check_type(Op::Ln, DType::F64, &[f64::MAX], f64::MAX.ln());
}

/// C99, annex F.10.4.4.
#[test]
fn powers() {
    let check = |x: f64, y: f64, expected: f64| check(Op::Pow, &[x, y], expected);
    let any = [NAN, INF, -INF, 0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 1024.0, -7.0];
    for x in any {
        check(x, 0.0, 1.0);
        check(x, -0.0, 1.0);
        check(1.0, x, 1.0);
        check(x, 1.0, x);
        if x != 0.0 {
            check(x, NAN, if x == 1.0 { 1.0 } else { NAN });
        }
        if x != 0.0 && !x.is_nan() {
            check(NAN, x, NAN);
        }
    }
    for odd in [1.0, 3.0, 5.0, 1023.0] {
        check(0.0, odd, 0.0);
        check(-0.0, odd, -0.0);
        check(0.0, -odd, INF);
        check(-0.0, -odd, -INF);
        check(-INF, odd, -INF);
        check(-INF, -odd, -0.0);
        check(-1.0, odd, -1.0);
        check(-1.0, -odd, -1.0);
    }
    for even in [0.5, 1.5, 2.0, 4.0, 1024.0, 2f64.powi(100), INF] {
        check(0.0, even, 0.0);
        check(-0.0, even, 0.0);
        check(0.0, -even, INF);
        check(-0.0, -even, INF);
        check(-INF, even, INF);
        check(-INF, -even, 0.0);
        check(INF, even, INF);
        check(INF, -even, 0.0);
        if even.fract() == 0.0 || even == INF {
            check(-1.0, even, 1.0);
            check(-1.0, -even, 1.0);
        }
    }
    for (x, y) in [(-1.0, 0.5), (-2.0, 1.5), (-0.25, -0.5), (-8.0, 0.375)] {
        check(x, y, NAN);
    }
    for small in [0.5, -0.5, 0.0, -0.0, 0.75] {
        check(small, INF, 0.0);
        check(small, -INF, INF);
    }
    for large in [1.5, -1.5, 2.0, -1024.0, INF, -INF] {
        check(large, INF, INF);
        check(large, -INF, 0.0);
    }
    check(2.0, 10.0, 1024.0);
    check(-2.0, 3.0, -8.0);
    check(-2.0, -2.0, 0.25);
    check(2.0, 2048.0, INF);
    check(-2.0, 2047.0, -INF);
    check(2.0, -2048.0, 0.0);
    check(-2.0, -2047.0, -0.0);
    check_type(Op::Pow, DType::F32, &[2.0, -149.0], 2f64.powi(-149));
    check_type(Op::Pow, DType::F32, &[-2.0, -149.0], -2f64.powi(-149));
    check_type(Op::Pow, DType::F32, &[2f64.powi(-149), 0.5], f64::from((2f64.powf(-74.5)) as f32));
    check_type(Op::Pow, DType::F64, &[2.0, -1074.0], 5e-324);
    check_type(Op::Pow, DType::F64, &[5e-324, 0.5], 5e-324f64.sqrt());
    check_type(Op::Pow, DType::F64, &[5e-324, -1.0], INF);
    check_type(Op::Pow, DType::F64, &[f64::MAX, -1.0], 1.0 / f64::MAX);
    // Odd integers stop at 2^24 and 2^53.
    check_type(Op::Pow, DType::F32, &[-1.0, 16_777_215.0], -1.0);
    check_type(Op::Pow, DType::F32, &[-1.0, 16_777_216.0], 1.0);
    check_type(Op::Pow, DType::F64, &[-1.0, 9_007_199_254_740_991.0], -1.0);
    check_type(Op::Pow, DType::F64, &[-1.0, 9_007_199_254_740_992.0], 1.0);
}

/// 2^n, also for the denormal numbers of f64.
fn two_to(n: i32) -> f64 {
    if n < -1022 { f64::from_bits(1 << (n + 1074)) } else { f64::from_bits(((n + 1023) as u64) << 52) }
}

/// Arguments and results of a function of one operand.
fn table(op: Op, rows: &[(f64, f64)]) {
    for &(x, expected) in rows {
        check(op, &[x], expected);
    }
    check(op, &[NAN], NAN);
}

/// A function that keeps the sign, of which the smallest numbers are their own results.
fn odd_and_near_identity(op: Op) {
    table(op, &[(0.0, 0.0), (-0.0, -0.0)]);
    for tiny in [two_to(-24), -two_to(-24), two_to(-22)] {
        check_type(op, DType::F16, &[tiny], tiny);
    }
    for tiny in [two_to(-149), -two_to(-149), 3.0 * two_to(-149), two_to(-130), -two_to(-126)] {
        check_type(op, DType::F32, &[tiny], tiny);
    }
    for tiny in [5e-324, -5e-324, 1.5e-323, two_to(-1030), -two_to(-1022), 1e-300] {
        check_type(op, DType::F64, &[tiny], tiny);
    }
}

/// C99, annex F.10.1 and F.10.2, F.10.5, F.10.8.
#[test]
fn near_identities() {
    let odd = [Op::Tan, Op::Asin, Op::Atan, Op::Sinh, Op::Tanh, Op::Asinh, Op::Atanh, Op::ExpM1, Op::Ln1p];
    odd.into_iter().for_each(odd_and_near_identity);
    table(Op::Erf, &[(0.0, 0.0), (-0.0, -0.0)]);
    table(Op::Cbrt, &[(0.0, 0.0), (-0.0, -0.0)]);
}

#[test]
fn tangents() {
    table(Op::Tan, &[(INF, NAN), (-INF, NAN)]);
    // The nearest floats to pi/4 and pi/2.
    check_type(Op::Tan, DType::F32, &[f64::from(std::f32::consts::FRAC_PI_2)], -22_877_332.0);
    check_type(Op::Tan, DType::F64, &[std::f64::consts::FRAC_PI_2], 16_331_239_353_195_370.0);
    check_type(Op::Tan, DType::F64, &[-std::f64::consts::FRAC_PI_2], -16_331_239_353_195_370.0);
}

#[test]
fn inverse_trigonometric_functions() {
    use std::f64::consts::{FRAC_PI_2, FRAC_PI_3, FRAC_PI_4, FRAC_PI_6, PI};
    table(Op::Asin, &[(1.0, FRAC_PI_2), (-1.0, -FRAC_PI_2)]);
    check_type(Op::Asin, DType::F32, &[0.5], FRAC_PI_6);
    table(Op::Acos, &[(1.0, 0.0), (-1.0, PI), (0.0, FRAC_PI_2), (-0.0, FRAC_PI_2)]);
    check_type(Op::Acos, DType::F32, &[0.5], FRAC_PI_3);
    for op in [Op::Asin, Op::Acos] {
        table(op, &[(2.0, NAN), (-1.5, NAN), (INF, NAN), (-INF, NAN), (1024.0, NAN)]);
        for sign in [1.0, -1.0] {
            check_type(op, DType::F32, &[sign * f64::from(1f32.next_up())], NAN);
            check_type(op, DType::F64, &[sign * 1f64.next_up()], NAN);
            check_type(op, DType::F64, &[sign * f64::MAX], NAN);
        }
    }
    check_type(Op::Acos, DType::F64, &[5e-324], FRAC_PI_2);
    table(Op::Atan, &[(1.0, FRAC_PI_4), (-1.0, -FRAC_PI_4), (INF, FRAC_PI_2), (-INF, -FRAC_PI_2)]);
    check_type(Op::Atan, DType::F32, &[f64::from(f32::MAX)], FRAC_PI_2);
    check_type(Op::Atan, DType::F64, &[f64::MAX], FRAC_PI_2);
    check_type(Op::Atan, DType::F64, &[-1e200], -FRAC_PI_2);
}

/// C99, annex F.10.1.4.
#[test]
fn angles_of_vectors() {
    use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};
    let check = |y: f64, x: f64, expected: f64| {
        check(Op::Atan2, &[y, x], expected);
        check(Op::Atan2, &[-y, x], -expected);
    };
    let positive = [1.0, 0.5, 1024.0, two_to(-24), two_to(-149), 5e-324, two_to(127), f64::MAX];
    check(0.0, 0.0, 0.0);
    check(0.0, -0.0, PI);
    check(INF, INF, FRAC_PI_4);
    check(INF, -INF, 3.0 * FRAC_PI_4);
    check(0.0, INF, 0.0);
    check(0.0, -INF, PI);
    check(INF, 0.0, FRAC_PI_2);
    check(INF, -0.0, FRAC_PI_2);
    for size in positive {
        check(0.0, size, 0.0);
        check(0.0, -size, PI);
        check(size, 0.0, FRAC_PI_2);
        check(size, -0.0, FRAC_PI_2);
        check(size, INF, 0.0);
        check(size, -INF, PI);
        check(INF, size, FRAC_PI_2);
        check(INF, -size, FRAC_PI_2);
        check(size, size, FRAC_PI_4);
        check(size, -size, 3.0 * FRAC_PI_4);
    }
    for other in [0.0, -0.0, 1.0, -1.0, INF, -INF, NAN] {
        check(NAN, other, NAN);
        check(other, NAN, NAN);
    }
    // Neither over- nor underflow on the way.
    check_type(Op::Atan2, DType::F64, &[f64::MAX, 1.5e308], f64::MAX.atan2(1.5e308));
    check_type(Op::Atan2, DType::F64, &[1e-300, 1e300], 0.0);
    check_type(Op::Atan2, DType::F64, &[-1e-300, 1e300], -0.0);
    check_type(Op::Atan2, DType::F64, &[-1e-300, -1e300], -PI);
    check_type(Op::Atan2, DType::F64, &[1e-320, 1.0], 1e-320);
    check_type(Op::Atan2, DType::F64, &[1e300, 1e-300], FRAC_PI_2);
    check_type(Op::Atan2, DType::F32, &[two_to(-149), 3.0 * two_to(-149)], (1f64 / 3.0).atan());
}

/// C99, annex F.10.2.
#[test]
fn hyperbolic_functions() {
    table(Op::Sinh, &[(INF, INF), (-INF, -INF), (1024.0, INF), (-1024.0, -INF)]);
    table(Op::Cosh, &[(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, INF), (1024.0, INF), (-1024.0, INF)]);
    table(Op::Tanh, &[(INF, 1.0), (-INF, -1.0), (32.0, 1.0), (-1024.0, -1.0)]);
    table(Op::Asinh, &[(INF, INF), (-INF, -INF)]);
    table(
        Op::Acosh,
        &[(1.0, 0.0), (INF, INF), (0.5, NAN), (0.0, NAN), (-0.0, NAN), (-2.0, NAN), (-INF, NAN)],
    );
    table(Op::Atanh, &[(1.0, INF), (-1.0, -INF), (2.0, NAN), (-1.5, NAN), (INF, NAN), (-INF, NAN)]);
    for op in [Op::Sinh, Op::Cosh] {
        // The last arguments with finite results, and their neighbours.
        check_type(op, DType::F32, &[f64::from(89.415_985_f32)], f64::from(89.415_985_f32).cosh());
        check_type(op, DType::F32, &[89.437_5], INF);
        check_type(op, DType::F32, &[f64::from(f32::MAX)], INF);
        check_type(op, DType::F64, &[710.475_860_073_944], INF);
        check_type(op, DType::F64, &[f64::MAX], INF);
    }
    check_type(Op::Sinh, DType::F64, &[710.5], INF);
    check_type(Op::Tanh, DType::F64, &[f64::MAX], 1.0);
    // ln(2 x) where 2 x is no float.
    check_type(Op::Asinh, DType::F64, &[f64::MAX], 710.475_860_073_944);
    check_type(Op::Acosh, DType::F64, &[f64::MAX], 710.475_860_073_944);
    check_type(Op::Asinh, DType::F32, &[f64::from(f32::MAX)], f64::from(f32::MAX).ln() + 2f64.ln());
    check_type(Op::Atanh, DType::F32, &[f64::from(1f32.next_up())], NAN);
    check_type(Op::Atanh, DType::F64, &[-1f64.next_up()], NAN);
    check_type(Op::Acosh, DType::F32, &[f64::from(1f32.next_down())], NAN);
    check_type(Op::Acosh, DType::F64, &[-f64::MAX], NAN);
}

/// C99, annex F.10.3.
#[test]
fn exponentials_of_other_forms() {
    table(Op::Exp2, &[(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, 0.0), (10.0, 1024.0), (-3.0, 0.125)]);
    check(Op::Exp2, &[2048.0], INF);
    check(Op::Exp2, &[-2048.0], 0.0);
    for (dtype, lowest, highest) in [(DType::F32, -149, 127), (DType::F64, -1074, 1023)] {
        for n in lowest..=highest {
            check_type(Op::Exp2, dtype, &[f64::from(n)], two_to(n));
        }
        check_type(Op::Exp2, dtype, &[f64::from(lowest - 1)], 0.0);
        check_type(Op::Exp2, dtype, &[f64::from(highest + 1)], INF);
    }
    table(Op::ExpM1, &[(INF, INF), (-INF, -1.0), (1024.0, INF), (-1024.0, -1.0)]);
    check_type(Op::ExpM1, DType::F32, &[88.75], INF);
    check_type(Op::ExpM1, DType::F32, &[f64::from(f32::MAX)], INF);
    check_type(Op::ExpM1, DType::F32, &[-f64::from(f32::MAX)], -1.0);
    check_type(Op::ExpM1, DType::F64, &[709.8], INF);
    check_type(Op::ExpM1, DType::F64, &[f64::MAX], INF);
    check_type(Op::ExpM1, DType::F64, &[-f64::MAX], -1.0);
}

/// C99, annex F.10.3.
#[test]
fn logarithms_of_other_forms() {
    for op in [Op::Log2, Op::Log10] {
        table(op, &[(1.0, 0.0), (0.0, -INF), (-0.0, -INF), (INF, INF), (-1.0, NAN), (-INF, NAN)]);
        check_type(op, DType::F32, &[-two_to(-149)], NAN);
    }
    for (dtype, lowest, highest) in
        [(DType::F16, -24, 15), (DType::F32, -149, 127), (DType::F64, -1074, 1023)]
    {
        for n in lowest..=highest {
            check_type(Op::Log2, dtype, &[two_to(n)], f64::from(n));
        }
    }
    for n in 0..=22 {
        check(Op::Log10, &[10f64.powi(n)], f64::from(n));
    }
    check_type(Op::Log10, DType::F64, &[5e-324], 5e-324f64.log10());
    table(Op::Ln1p, &[(-1.0, -INF), (-2.0, NAN), (INF, INF), (-INF, NAN), (1024.0, 1025f64.ln())]);
    check_type(Op::Ln1p, DType::F32, &[f64::from((-1f32).next_down())], NAN);
    check_type(Op::Ln1p, DType::F64, &[f64::MAX], f64::MAX.ln());
    check_type(Op::Ln1p, DType::F64, &[-f64::MAX], NAN);
    check_type(Op::Ln1p, DType::F64, &[(-1f64).next_up()], 2f64.powi(-53).ln());
}

/// C99, annex F.10.4 and F.10.8.
#[test]
fn roots_and_error_functions() {
    table(Op::Cbrt, &[(INF, INF), (-INF, -INF)]);
    for n in -12..=12 {
        check(Op::Cbrt, &[f64::from(n).powi(3)], f64::from(n));
        check(Op::Cbrt, &[two_to(3 * n)], two_to(n));
        check(Op::Cbrt, &[-two_to(3 * n)], -two_to(n));
    }
    check_type(Op::Cbrt, DType::F32, &[two_to(-147)], two_to(-49));
    check_type(Op::Cbrt, DType::F64, &[two_to(-1074)], two_to(-358));
    check_type(Op::Cbrt, DType::F64, &[two_to(1023)], two_to(341));

    for (x, y, expected) in [
        (3.0, 4.0, 5.0),
        (-5.0, 12.0, 13.0),
        (0.0, -0.0, 0.0),
        (-0.0, -0.0, 0.0),
        (0.0, -7.0, 7.0),
        (INF, NAN, INF),
        (NAN, -INF, INF),
        (INF, 1.0, INF),
        (-INF, INF, INF),
        (NAN, 1.0, NAN),
        (0.0, NAN, NAN),
        (3.0 * two_to(100), 4.0 * two_to(100), 5.0 * two_to(100)),
        (3.0 * two_to(-149), 4.0 * two_to(-149), 5.0 * two_to(-149)),
        (3.0 * two_to(1000), 4.0 * two_to(1000), 5.0 * two_to(1000)),
        (3.0 * two_to(-1074), 4.0 * two_to(-1074), 5.0 * two_to(-1074)),
        (f64::MAX, f64::MAX, INF),
        (f64::MAX, 1.0, f64::MAX),
        (5e-324, 1.0, 1.0),
        (5e-324, 0.0, 5e-324),
    ] {
        check(Op::Hypot, &[x, y], expected);
        check(Op::Hypot, &[y, x], expected);
    }

    table(Op::Erf, &[(INF, 1.0), (-INF, -1.0), (8.0, 1.0), (-8.0, -1.0), (1024.0, 1.0)]);
    table(Op::Erfc, &[(0.0, 1.0), (-0.0, 1.0), (INF, 0.0), (-INF, 2.0), (32.0, 0.0), (-8.0, 2.0)]);
    check_type(Op::Erf, DType::F64, &[f64::MAX], 1.0);
    check_type(Op::Erfc, DType::F64, &[f64::MAX], 0.0);
    check_type(Op::Erfc, DType::F64, &[-f64::MAX], 2.0);
    check_type(Op::Erfc, DType::F32, &[10.25], 0.0);
    check_type(Op::Erfc, DType::F64, &[27.25], 0.0);
    check_type(Op::Erf, DType::F64, &[5e-324], 5e-324);
    check_type(Op::Erfc, DType::F64, &[5e-324], 1.0);
}
