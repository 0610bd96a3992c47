//! IEEE 754: round to nearest even, denormals kept, comparisons with NaN, the two kinds of minimum.

use half::f16;
use jit_core::dtype::{DType, Element};
use jit_core::op::Op;

use super::check::{Column, bits, check, column};
use super::exact::{self, Number, Rounding, decode, encode};
use super::grid::{FLOATS, float_grid, pairs, triples};

/// Rounds as an op of that type does: f16 is the f32 result rounded once more.
pub(super) fn rounded(dtype: DType, value: Number) -> u64 {
    match dtype {
        DType::F16 => encode(dtype, decode(DType::F32, encode(DType::F32, value))),
        _ => encode(dtype, value),
    }
}

fn against(op: Op, result: fn(Number, Number) -> Number) {
    for dtype in FLOATS {
        let [a, b] = pairs(dtype, &float_grid(dtype));
        let row = |(&a, &b)| rounded(dtype, result(decode(dtype, a), decode(dtype, b)));
        let expected = a.bits.iter().zip(&b.bits).map(row).collect();
        check(op, &[a, b], &Column { dtype, bits: expected });
    }
}

fn unary_against(op: Op, more: &[f64], result: impl Fn(Number) -> Number) {
    for dtype in FLOATS {
        let mut a = float_grid(dtype);
        a.extend(more.iter().map(|v| encode(dtype, decode(DType::F64, Element::to_bits(*v)))));
        let expected = a.iter().map(|&a| rounded(dtype, result(decode(dtype, a)))).collect();
        check(op, &[bits(dtype, &a)], &Column { dtype, bits: expected });
    }
}

#[test]
fn sums_and_products_are_rounded_once_to_even() {
    let up = 1.0 + f32::EPSILON;
    let half = f32::EPSILON / 2.0;
    check(
        Op::Add,
        &[column(&[1.0f32, up, 1.0]), column(&[half, half, f32::from_bits(half.to_bits() + 1)])],
        &column(&[1.0f32, up + f32::EPSILON, up]),
    );
    check(
        Op::Mul,
        &[column(&[f64::MIN_POSITIVE, 1e300]), column(&[0.25f64, 1e300])],
        &column(&[f64::MIN_POSITIVE / 4.0, f64::INFINITY]),
    );
    against(Op::Add, exact::add);
    against(Op::Sub, |a, b| exact::add(a, exact::neg(b)));
    against(Op::Mul, exact::mul);
}

#[test]
fn denormals_are_kept() {
    let (small, normal) = (f32::from_bits(1), f32::MIN_POSITIVE);
    check(
        Op::Add,
        &[column(&[small, normal]), column(&[small, -small])],
        &column(&[f32::from_bits(2), f32::from_bits(0x007f_ffff)]),
    );
    check(Op::Mul, &[column(&[normal]), column(&[0.5f32])], &column(&[f32::from_bits(0x0040_0000)]));
    check(
        Op::Add,
        &[column(&[f16::from_bits(1)]), column(&[f16::from_bits(1)])],
        &column(&[f16::from_bits(2)]),
    );
    check(Op::Gt, &[column(&[small]), column(&[0.0f32])], &column(&[true]));
}

#[test]
fn division_is_correctly_rounded() {
    check(
        Op::Div,
        &[column(&[1.0f32, 1.0, -1.0, 0.0]), column(&[3.0f32, 0.0, 0.0, 0.0])],
        &column(&[f32::from_bits(0x3eaa_aaab), f32::INFINITY, f32::NEG_INFINITY, f32::NAN]),
    );
    check(
        Op::Div,
        &[column(&[1.0f64, 5e-324]), column(&[49.0f64, 2.0])],
        &column(&[f64::from_bits(0x3f94_e5e0_a72f_0539), 0.0]),
    );
    against(Op::Div, exact::div);
}

#[test]
fn square_roots_are_correctly_rounded() {
    check(
        Op::Sqrt,
        &[column(&[2.0f32, -0.0, -1.0, 4.0])],
        &column(&[f32::from_bits(0x3fb5_04f3), -0.0, f32::NAN, 2.0]),
    );
    check(Op::Sqrt, &[column(&[2.0f64])], &column(&[f64::from_bits(0x3ff6_a09e_667f_3bcd)]));
    unary_against(Op::Sqrt, &[2.0, 5.0, 6.0, 1e-5, 12345.0, 0.7], exact::sqrt);
}

#[test]
fn random_operands_are_rounded_once() {
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for dtype in FLOATS {
        // Exponents near one another, so that most results round within the range.
        let mut number = || {
            let exponent = match dtype {
                DType::F16 => (next() % 12 + 10) << 10,
                DType::F32 => (next() % 40 + 107) << 23,
                _ => (next() % 80 + 983) << 52,
            };
            let fraction = next() & (exact::infinity(dtype) - 1) & !exact::infinity(dtype);
            exponent | fraction | if next() & 1 == 1 { exact::sign(dtype) } else { 0 }
        };
        let [a, b, c] = [(); 3].map(|()| Column { dtype, bits: (0..24).map(|_| number()).collect() });
        let row = |f: &dyn Fn(Number, Number, Number) -> Number| Column {
            dtype,
            bits: (0..24)
                .map(|r| {
                    let [x, y, z] = [&a, &b, &c].map(|column| decode(dtype, column.bits[r]));
                    rounded(dtype, f(x, y, z))
                })
                .collect(),
        };
        check(Op::Add, &[a.clone(), b.clone()], &row(&|x, y, _| exact::add(x, y)));
        check(Op::Mul, &[a.clone(), b.clone()], &row(&|x, y, _| exact::mul(x, y)));
        check(Op::Div, &[a.clone(), b.clone()], &row(&|x, y, _| exact::div(x, y)));
        check(Op::Rem, &[a.clone(), b.clone()], &row(&|x, y, _| exact::rem(x, y)));
        check(Op::Sqrt, std::slice::from_ref(&a), &row(&|x, _, _| exact::sqrt(x)));
        check(Op::MulAdd, &[a.clone(), b.clone(), c.clone()], &row(&exact::mul_add));
    }
}

#[test]
fn comparisons_are_false_with_nan_but_for_ne() {
    let (a, b) = ([f32::NAN, 1.0, f32::NAN, -0.0], [f32::NAN, f32::NAN, 1.0, 0.0]);
    let rows: [(Op, [bool; 4]); 6] = [
        (Op::Eq, [false, false, false, true]),
        (Op::Ne, [true, true, true, false]),
        (Op::Lt, [false, false, false, false]),
        (Op::Le, [false, false, false, true]),
        (Op::Gt, [false, false, false, false]),
        (Op::Ge, [false, false, false, true]),
    ];
    for (op, expected) in rows {
        check(op, &[column(&a), column(&b)], &column(&expected));
        check(op, &[column(&a.map(f64::from)), column(&b.map(f64::from))], &column(&expected));
        check(op, &[column(&a.map(f16::from_f32)), column(&b.map(f16::from_f32))], &column(&expected));
    }
}

#[test]
fn comparisons_order_numbers() {
    for dtype in FLOATS {
        let [a, b] = pairs(dtype, &float_grid(dtype));
        let order = |&a: &u64, &b: &u64| line(dtype, a).zip(line(dtype, b)).map(|(x, y)| x.cmp(&y));
        use std::cmp::Ordering::{Equal, Greater, Less};
        let ops: [(Op, &[std::cmp::Ordering]); 5] = [
            (Op::Eq, &[Equal]),
            (Op::Lt, &[Less]),
            (Op::Le, &[Less, Equal]),
            (Op::Gt, &[Greater]),
            (Op::Ge, &[Greater, Equal]),
        ];
        for (op, holds) in ops {
            let row = |(a, b)| u64::from(order(a, b).is_some_and(|o| holds.contains(&o)));
            let expected = a.bits.iter().zip(&b.bits).map(row).collect();
            check(op, &[a.clone(), b.clone()], &Column { dtype: DType::Bool, bits: expected });
        }
        let row = |(a, b)| u64::from(order(a, b) != Some(Equal));
        let expected = a.bits.iter().zip(&b.bits).map(row).collect();
        check(Op::Ne, &[a.clone(), b.clone()], &Column { dtype: DType::Bool, bits: expected });
    }
}

/// The place of a number on the line of floats, both zeros at 0; none for NaN.
pub(super) fn line(dtype: DType, bits: u64) -> Option<i128> {
    let magnitude = i128::from(bits & !exact::sign(dtype));
    let number = magnitude <= i128::from(exact::infinity(dtype));
    number.then_some(if bits & exact::sign(dtype) != 0 { -magnitude } else { magnitude })
}

#[test]
fn min_and_max_ignore_nan_and_order_zeros() {
    let (a, b) = ([f32::NAN, 1.0, f32::NAN, -0.0, 0.0], [2.0, f32::NAN, f32::NAN, 0.0, -0.0]);
    check(Op::Min, &[column(&a), column(&b)], &column(&[2.0f32, 1.0, f32::NAN, -0.0, -0.0]));
    check(Op::Max, &[column(&a), column(&b)], &column(&[2.0f32, 1.0, f32::NAN, 0.0, 0.0]));
    extremes(Op::Min, Op::Max, |a, b| if exact_nan(a) { b } else { a }.1);
}

#[test]
fn minimum_and_maximum_propagate_nan_and_order_zeros() {
    let (a, b) = ([f32::NAN, 1.0, f32::NAN, -0.0, 0.0], [2.0, f32::NAN, f32::NAN, 0.0, -0.0]);
    let nan = f32::NAN;
    check(Op::Minimum, &[column(&a), column(&b)], &column(&[nan, nan, nan, -0.0f32, -0.0]));
    check(Op::Maximum, &[column(&a), column(&b)], &column(&[nan, nan, nan, 0.0f32, 0.0]));
    extremes(Op::Minimum, Op::Maximum, |a, b| if exact_nan(a) { a } else { b }.1);
}

fn exact_nan((dtype, bits): (DType, u64)) -> bool {
    line(dtype, bits).is_none()
}

/// Both ops on all pairs; `with_nan` says what comes out if an operand is NaN.
fn extremes(least: Op, greatest: Op, with_nan: fn((DType, u64), (DType, u64)) -> u64) {
    for dtype in FLOATS {
        let [a, b] = pairs(dtype, &float_grid(dtype));
        // -0 lies just below +0.
        let place = |x: u64| line(dtype, x).map(|p| (p, x & exact::sign(dtype) == 0));
        for (op, greater) in [(least, false), (greatest, true)] {
            let row = |(&x, &y): (&u64, &u64)| match (place(x), place(y)) {
                (Some(p), Some(q)) => {
                    if (p > q) == greater {
                        x
                    } else {
                        y
                    }
                }
                _ => with_nan((dtype, x), (dtype, y)),
            };
            let expected = a.bits.iter().zip(&b.bits).map(row).collect();
            check(op, &[a.clone(), b.clone()], &Column { dtype, bits: expected });
        }
    }
}

#[test]
fn round_goes_half_away_and_round_ties_even_half_to_even() {
    let a = [0.5f32, 1.5, 2.5, -0.5, -1.5, -2.5, 0.499_999_97, 8_388_607.5, -0.2, f32::NAN];
    check(
        Op::Round,
        &[column(&a)],
        &column(&[1.0f32, 2.0, 3.0, -1.0, -2.0, -3.0, 0.0, 8_388_608.0, -0.0, f32::NAN]),
    );
    check(
        Op::RoundTiesEven,
        &[column(&a)],
        &column(&[0.0f32, 2.0, 2.0, -0.0, -2.0, -2.0, 0.0, 8_388_608.0, -0.0, f32::NAN]),
    );
    let below_half = f64::from_bits(0.5f64.to_bits() - 1);
    check(Op::Round, &[column(&[below_half, -below_half])], &column(&[0.0f64, -0.0]));
}

#[test]
fn integral_values_keep_the_sign_of_zero() {
    check(Op::Floor, &[column(&[-0.0f32, -0.5, 0.5])], &column(&[-0.0f32, -1.0, 0.0]));
    check(Op::Ceil, &[column(&[-0.0f32, -0.5, 0.5])], &column(&[-0.0f32, -0.0, 1.0]));
    check(Op::Trunc, &[column(&[-0.0f32, -0.5, 0.5])], &column(&[-0.0f32, -0.0, 0.0]));
    let more = [0.25, -0.25, 1.75, -1.75, 511.5, 512.5, 1023.5, 4_194_303.5, 4_503_599_627_370_495.5, -3.5];
    for (op, rounding) in [
        (Op::Floor, Rounding::Down),
        (Op::Ceil, Rounding::Up),
        (Op::Trunc, Rounding::ToZero),
        (Op::Round, Rounding::HalfAway),
        (Op::RoundTiesEven, Rounding::HalfEven),
    ] {
        unary_against(op, &more, |x| exact::integral(x, rounding));
    }
}

#[test]
fn remainders_are_exact() {
    check(
        Op::Rem,
        &[column(&[5.5f32, -5.5, 5.5, -4.0, 1.0]), column(&[2.0f32, 2.0, -2.0, 2.0, f32::INFINITY])],
        &column(&[1.5f32, -1.5, 1.5, -0.0, 1.0]),
    );
    check(
        Op::Rem,
        &[column(&[1.0f32, f32::INFINITY, f32::NAN]), column(&[0.0f32, 1.0, 1.0])],
        &column(&[f32::NAN; 3]),
    );
    // 2^1023 mod 3 * 2^-1074 and others of huge ratio.
    check(
        Op::Rem,
        &[column(&[f64::from_bits(0x7fe0_0000_0000_0000), f64::MAX]), column(&[1.5e-323f64, 5e-324])],
        &column(&[1e-323f64, 0.0]),
    );
    check(Op::Rem, &[column(&[f32::MAX]), column(&[f32::from_bits(3)])], &column(&[0.0f32]));
    check(Op::Rem, &[column(&[1e30f32]), column(&[7.0f32])], &column(&[1.0f32]));
    against(Op::Rem, exact::rem);
}

#[test]
fn mul_add_rounds_once() {
    // (1 + e)(1 - e) - 1 = -e^2 is lost if the product is rounded.
    let e = f32::EPSILON;
    check(Op::MulAdd, &[column(&[1.0 + e]), column(&[1.0 - e]), column(&[-1.0f32])], &column(&[-(e * e)]));
    let e = f64::EPSILON;
    check(Op::MulAdd, &[column(&[1.0 + e]), column(&[1.0 - e]), column(&[-1.0f64])], &column(&[-(e * e)]));
    for dtype in FLOATS {
        let all = float_grid(dtype);
        let some: Vec<u64> = all.iter().copied().step_by(3).chain([0, exact::sign(dtype)]).collect();
        let args = triples(dtype, &some);
        let row = |r: usize| {
            let [a, b, c] = [0, 1, 2].map(|k| decode(dtype, args[k].bits[r]));
            rounded(dtype, exact::mul_add(a, b, c))
        };
        let expected = (0..args[0].bits.len()).map(row).collect();
        check(Op::MulAdd, &args, &Column { dtype, bits: expected });
    }
}

#[test]
fn f16_mul_add_is_the_f32_op_rounded_once_more() {
    let [a, b, c] = f16_double_rounding();
    let [x, y, z] = [a, b, c].map(|v| decode(DType::F16, v));
    let once = encode(DType::F16, exact::mul_add(x, y, z));
    let twice = rounded(DType::F16, exact::mul_add(x, y, z));
    assert_ne!(once, twice, "a witness");
    check(
        Op::MulAdd,
        &[bits(DType::F16, &[a]), bits(DType::F16, &[b]), bits(DType::F16, &[c])],
        &bits(DType::F16, &[twice]),
    );
}

/// Operands of `mul_add` on f16 where the rounding to f32 makes a tie.
fn f16_double_rounding() -> [u64; 3] {
    // The product 2^-11 - 2^-26 = (217 * 2^-13) * (151 * 2^-13) puts the sum just below the middle between
    // 1 + 2^-10 and 1 + 2^-9; f32 rounds it to the middle, which then goes up to even.
    let one_and_ulp = 1.0 + 1.0 / 1024.0;
    [217.0 / 8192.0, 151.0 / 8192.0, one_and_ulp]
        .map(|v: f64| encode(DType::F16, decode(DType::F64, v.to_bits())))
}

#[test]
fn f16_ops_are_the_f32_op_rounded_once() {
    let (a, b) = ([2048.0f32, 65504.0, 65504.0], [1.0f32, 15.996, 16.0]);
    let half = |v: &[f32]| column(&v.iter().map(|&v| f16::from_f32(v)).collect::<Vec<_>>());
    check(Op::Add, &[half(&a), half(&b)], &half(&[2048.0, 65504.0, f32::INFINITY]));
}

#[test]
fn neg_abs_and_copysign_act_on_bits() {
    for dtype in FLOATS {
        let sign = exact::sign(dtype);
        let a = float_grid(dtype);
        let map = |f: &dyn Fn(u64) -> u64| bits(dtype, &a.iter().map(|&a| f(a)).collect::<Vec<_>>());
        check(Op::Neg, &[bits(dtype, &a)], &map(&|a| a ^ sign));
        check(Op::Abs, &[bits(dtype, &a)], &map(&|a| a & !sign));
        let [a, b] = pairs(dtype, &a);
        let row = |(&a, &b)| a & !sign | b & sign;
        let expected = a.bits.iter().zip(&b.bits).map(row).collect();
        check(Op::CopySign, &[a, b], &Column { dtype, bits: expected });
    }
}
