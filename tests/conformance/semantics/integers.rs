//! Integers wrap and are defined everywhere; bool is a bit.

use jit_core::dtype::{ALL_DTYPES, DType};
use jit_core::op::Op;

use super::check::{Column, bits, check, column};
use super::grid::{grid, integer_grid, integers, limits, pairs, triples, value, wrapped};

/// Checks a binary op on all pairs of each integer type against mathematics on whole numbers.
fn against(op: Op, result: impl Fn(DType, i128, i128) -> i128) {
    for dtype in integers() {
        let [a, b] = pairs(dtype, &integer_grid(dtype));
        let row = |(&a, &b)| wrapped(dtype, result(dtype, value(dtype, a), value(dtype, b)));
        let expected = a.bits.iter().zip(&b.bits).map(row).collect();
        check(op, &[a, b], &Column { dtype, bits: expected });
    }
}

/// Checks a unary op; `out` is its type, if not the operand's.
fn unary_against(op: Op, out: Option<DType>, result: impl Fn(DType, u64) -> i128) {
    for dtype in integers() {
        let a = bits(dtype, &integer_grid(dtype));
        let out = out.unwrap_or(dtype);
        let expected = a.bits.iter().map(|&a| wrapped(out, result(dtype, a))).collect();
        check(op, &[a], &Column { dtype: out, bits: expected });
    }
}

#[test]
fn sums_differences_and_products_wrap() {
    check(Op::Add, &[column(&[127i8, -128, 100]), column(&[1i8, -1, 100])], &column(&[-128i8, 127, -56]));
    check(Op::Sub, &[column(&[0u64, 5]), column(&[1u64, 7])], &column(&[u64::MAX, u64::MAX - 1]));
    check(Op::Mul, &[column(&[1i32 << 30, 65_536]), column(&[4i32, 65_537])], &column(&[0i32, 65_536]));
    against(Op::Add, |_, a, b| a + b);
    against(Op::Sub, |_, a, b| a - b);
    // The product of two u64 passes i128, its low bits do not.
    against(Op::Mul, |_, a, b| a.wrapping_mul(b));
}

#[test]
fn neg_and_abs_of_the_least_value_are_itself() {
    check(Op::Neg, &[column(&[i8::MIN, -7, 0, i8::MAX])], &column(&[i8::MIN, 7, 0, -127]));
    check(Op::Abs, &[column(&[i64::MIN, -7, 0, i64::MAX])], &column(&[i64::MIN, 7, 0, i64::MAX]));
    check(Op::Neg, &[column(&[0u16, 1, u16::MAX])], &column(&[0u16, u16::MAX, 1]));
    check(Op::Abs, &[column(&[0u16, 1, u16::MAX])], &column(&[0u16, 1, u16::MAX]));
    unary_against(Op::Neg, None, |t, a| -value(t, a));
    unary_against(Op::Abs, None, |t, a| value(t, a).abs());
}

#[test]
fn division_by_zero_is_all_ones_and_the_remainder_the_dividend() {
    let dividend = [i32::MIN, -5, 0, 5, i32::MAX];
    check(Op::Div, &[column(&dividend), column(&[0i32; 5])], &column(&[-1i32; 5]));
    check(Op::Rem, &[column(&dividend), column(&[0i32; 5])], &column(&dividend));
    check(Op::Div, &[column(&[0u8, 9, 255]), column(&[0u8; 3])], &column(&[255u8; 3]));
    check(Op::Rem, &[column(&[0u8, 9, 255]), column(&[0u8; 3])], &column(&[0u8, 9, 255]));
}

#[test]
fn the_least_value_divided_by_minus_one_is_itself() {
    check(Op::Div, &[column(&[i8::MIN, -127]), column(&[-1i8; 2])], &column(&[i8::MIN, 127]));
    check(Op::Div, &[column(&[i16::MIN]), column(&[-1i16])], &column(&[i16::MIN]));
    check(Op::Div, &[column(&[i32::MIN]), column(&[-1i32])], &column(&[i32::MIN]));
    check(Op::Div, &[column(&[i64::MIN]), column(&[-1i64])], &column(&[i64::MIN]));
    check(Op::Rem, &[column(&[i8::MIN, -127]), column(&[-1i8; 2])], &column(&[0i8; 2]));
    check(Op::Rem, &[column(&[i16::MIN]), column(&[-1i16])], &column(&[0i16]));
    check(Op::Rem, &[column(&[i32::MIN]), column(&[-1i32])], &column(&[0i32]));
    check(Op::Rem, &[column(&[i64::MIN]), column(&[-1i64])], &column(&[0i64]));
}

#[test]
fn quotients_go_toward_zero() {
    let (a, b) = ([7i32, -7, 7, -7], [2i32, 2, -2, -2]);
    check(Op::Div, &[column(&a), column(&b)], &column(&[3i32, -3, -3, 3]));
    check(Op::Rem, &[column(&a), column(&b)], &column(&[1i32, -1, 1, -1]));
    against(Op::Div, |_, a, b| if b == 0 { -1 } else { a / b });
    against(Op::Rem, |_, a, b| if b == 0 { a } else { a % b });
}

#[test]
fn shifts_compare_the_whole_amount() {
    let past = [31i32, 32, 33, 64, 256, i32::MAX, -1, i32::MIN];
    check(Op::Shl, &[column(&[1i32; 8]), column(&past)], &column(&[i32::MIN, 0, 0, 0, 0, 0, 0, 0]));
    check(Op::Shr, &[column(&[i32::MIN; 8]), column(&past)], &column(&[-1i32; 8]));
    check(Op::Shr, &[column(&[i32::MAX; 8]), column(&past)], &column(&[0i32; 8]));
    let past = [63u64, 64, 65, 128, 1 << 32, u64::MAX];
    check(Op::Shl, &[column(&[3u64; 6]), column(&past)], &column(&[1u64 << 63, 0, 0, 0, 0, 0]));
    check(Op::Shr, &[column(&[u64::MAX; 6]), column(&past)], &column(&[1u64, 0, 0, 0, 0, 0]));
    check(Op::Shr, &[column(&[-128i8; 4]), column(&[1i8, 7, 8, -1])], &column(&[-64i8, -1, -1, -1]));
    let amount = |t: DType, b: i128| i128::from(wrapped(t, b)).min(64) as u32;
    against(Op::Shl, |t, a, b| if amount(t, b) >= t.bits() { 0 } else { a << amount(t, b) });
    against(Op::Shr, |t, a, b| a >> amount(t, b));
}

#[test]
fn the_high_half_of_a_product() {
    check(Op::MulHi, &[column(&[i8::MIN, -1, 127]), column(&[i8::MIN, 1, 127])], &column(&[64i8, -1, 63]));
    check(Op::MulHi, &[column(&[u64::MAX]), column(&[u64::MAX])], &column(&[u64::MAX - 1]));
    check(Op::MulHi, &[column(&[i64::MIN]), column(&[i64::MIN])], &column(&[1i64 << 62]));
    against(Op::MulHi, |t, a, b| match t {
        DType::U64 => ((a as u128 * b as u128) >> 64) as i128,
        _ => (a * b) >> t.bits(),
    });
}

#[test]
fn the_four_minima_and_maxima_agree_on_integers() {
    for op in [Op::Min, Op::Minimum] {
        against(op, |_, a, b| if a < b { a } else { b });
    }
    for op in [Op::Max, Op::Maximum] {
        against(op, |_, a, b| if a > b { a } else { b });
    }
}

#[test]
fn bits_are_combined_one_by_one() {
    check(Op::And, &[column(&[0b1100u8]), column(&[0b1010u8])], &column(&[0b1000u8]));
    check(Op::Or, &[column(&[0b1100u8]), column(&[0b1010u8])], &column(&[0b1110u8]));
    check(Op::Xor, &[column(&[0b1100u8]), column(&[0b1010u8])], &column(&[0b0110u8]));
    against(Op::And, |_, a, b| a & b);
    against(Op::Or, |_, a, b| a | b);
    against(Op::Xor, |_, a, b| a ^ b);
    unary_against(Op::Not, None, |t, a| -1 - value(t, a));
}

#[test]
fn bits_are_counted_and_reversed() {
    let a = [0u8, 1, 0x50, 255];
    check(Op::CountOnes, &[column(&a)], &column(&[0u32, 1, 2, 8]));
    check(Op::LeadingZeros, &[column(&a)], &column(&[8u32, 7, 1, 0]));
    check(Op::TrailingZeros, &[column(&a)], &column(&[8u32, 0, 4, 0]));
    check(Op::ReverseBits, &[column(&a)], &column(&[0u8, 0x80, 0x0a, 255]));
    let digits = |t: DType, a: u64| -> Vec<bool> { (0..t.bits()).map(|k| a >> k & 1 == 1).collect() };
    let count = |n: usize| n as i128;
    let u32 = Some(DType::U32);
    unary_against(Op::CountOnes, u32, |t, a| count(digits(t, a).iter().filter(|&&d| d).count()));
    unary_against(Op::LeadingZeros, u32, |t, a| {
        count(digits(t, a).iter().rev().take_while(|&&d| !d).count())
    });
    unary_against(Op::TrailingZeros, u32, |t, a| count(digits(t, a).iter().take_while(|&&d| !d).count()));
    unary_against(Op::ReverseBits, None, |t, a| {
        digits(t, a).iter().fold(0, |value, &digit| value * 2 + i128::from(digit))
    });
}

#[test]
fn integers_and_bools_compare_by_value() {
    type Row = (Op, fn(i128, i128) -> bool);
    let ops: [Row; 6] = [
        (Op::Eq, |a, b| a == b),
        (Op::Ne, |a, b| a != b),
        (Op::Lt, |a, b| a < b),
        (Op::Le, |a, b| a <= b),
        (Op::Gt, |a, b| a > b),
        (Op::Ge, |a, b| a >= b),
    ];
    for dtype in ALL_DTYPES.into_iter().filter(|d| !d.is_float()) {
        let [a, b] = pairs(dtype, &grid(dtype));
        for (op, holds) in ops {
            let row = |(&a, &b)| u64::from(holds(value(dtype, a), value(dtype, b)));
            let expected = a.bits.iter().zip(&b.bits).map(row).collect();
            check(op, &[a.clone(), b.clone()], &Column { dtype: DType::Bool, bits: expected });
        }
    }
}

#[test]
fn bools_have_the_four_logical_ops() {
    let (a, b) = ([false, false, true, true], [false, true, false, true]);
    check(Op::And, &[column(&a), column(&b)], &column(&[false, false, false, true]));
    check(Op::Or, &[column(&a), column(&b)], &column(&[false, true, true, true]));
    check(Op::Xor, &[column(&a), column(&b)], &column(&[false, true, true, false]));
    check(Op::Not, &[column(&a)], &column(&[true, true, false, false]));
}

#[test]
fn mul_add_of_integers_wraps() {
    check(
        Op::MulAdd,
        &[column(&[200u8, i8::MIN as u8]), column(&[2u8, 2]), column(&[100u8, 1])],
        &column(&[244u8, 1]),
    );
    for dtype in integers() {
        let (low, high) = limits(dtype);
        let some = [low, -1, 0, 1, 3, high].map(|v| wrapped(dtype, v));
        let args = triples(dtype, &some);
        let at = |k: usize, row: usize| value(dtype, args[k].bits[row]);
        let row = |r| wrapped(dtype, at(0, r).wrapping_mul(at(1, r)).wrapping_add(at(2, r)));
        let expected = (0..args[0].bits.len()).map(row).collect();
        check(Op::MulAdd, &args, &Column { dtype, bits: expected });
    }
}
