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
