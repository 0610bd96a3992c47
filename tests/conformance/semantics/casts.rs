//! Casts are Rust's `as`, each rounded once; bitcast moves bits.

use half::f16;
use jit_core::dtype::{ALL_DTYPES, DType};
use jit_core::op::Op;
use jit_core::trace::Var;

use super::check::{Column, apply, bits, cast, check, check_expression, check_moves, column};
use super::exact::{self, Number, decode, encode};
use super::grid::{FLOATS, grid, integers, limits, value, wrapped};

/// Values of a type at which casts to any type do something of note.
fn boundaries(dtype: DType) -> Vec<u64> {
    let mut all = grid(dtype);
    if dtype.is_float() {
        // The ends of every integer type and what is next to them, and halves there.
        for power in [7, 8, 15, 16, 24, 31, 32, 53, 63, 64] {
            let at = encode(
                dtype,
                Number::Finite(exact::Finite {
                    negative: false,
                    mantissa: 1,
                    exponent: power,
                    inexact: false,
                }),
            );
            let mut near = vec![at - 1, at];
            near.extend((at < exact::infinity(dtype)).then_some(at + 1));
            all.extend(near.iter().flat_map(|&v| [v, v | exact::sign(dtype)]));
        }
        for v in [127.5f64, 128.0, 128.5, 255.5, 255.99, -0.99, -128.5, -129.0, 65504.0, 65519.99, 65520.0] {
            all.push(encode(dtype, decode(DType::F64, v.to_bits())));
        }
    } else if dtype != DType::Bool {
        for power in [7, 8, 10, 11, 15, 16, 24, 25, 31, 32, 53, 54, 62] {
            for delta in [-1, 0, 1] {
                all.push(wrapped(dtype, (1i128 << power) + delta));
            }
        }
        all.extend(
            [0x0100_0001u64, 0x0100_0003, 65519, 65520, (1 << 53) + 1, (1 << 53) + 3]
                .map(|v| wrapped(dtype, i128::from(v))),
        );
        all.extend(
            [0x8000_0080_0000_0001u64, 0x8000_0000_0000_0401, 0x4000_0040_0000_0001]
                .map(|v| v & dtype.mask()),
        );
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// `as`, by whole numbers.
pub(super) fn by_numbers(from: DType, to: DType, bits: u64) -> u64 {
    let number = if from.is_float() { decode(from, bits) } else { exact::integer(value(from, bits)) };
    if to.is_float() {
        return encode(to, number);
    }
    if to == DType::Bool {
        return u64::from(!matches!(number, Number::Finite(exact::Finite { mantissa: 0, .. })));
    }
    if from.is_float() {
        let (low, high) = limits(to);
        return wrapped(to, exact::to_integer(number, low, high));
    }
    wrapped(to, value(from, bits))
}

#[test]
fn all_pairs_of_types_convert_by_value() {
    for from in ALL_DTYPES {
        let values = boundaries(from);
        for to in ALL_DTYPES.into_iter().filter(|&to| to != from) {
            let expected: Vec<u64> = values.iter().map(|&v| by_numbers(from, to, v)).collect();
            check(Op::Cast, &[bits(from, &values)], &bits(to, &expected));
        }
    }
}

#[test]
fn a_cast_to_the_same_type_moves_bits() {
    for dtype in ALL_DTYPES {
        let values = grid(dtype);
        check_moves("cast to itself", &[bits(dtype, &values)], &bits(dtype, &values), &|v| {
            cast(dtype, &v[0])
        });
    }
}

#[test]
fn floats_saturate_to_integers_and_nan_gives_0() {
    let a = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 300.7, -300.7, -0.9, 3e9, 1e20];
    check(Op::Cast, &[column(&a)], &column(&[0i8, 127, -128, 127, -128, 0, 127, 127]));
    check(Op::Cast, &[column(&a)], &column(&[0u8, 255, 0, 255, 0, 0, 255, 255]));
    check(Op::Cast, &[column(&a)], &column(&[0i32, i32::MAX, i32::MIN, 300, -300, 0, i32::MAX, i32::MAX]));
    check(Op::Cast, &[column(&a)], &column(&[0u32, u32::MAX, 0, 300, 0, 0, 3_000_000_000, u32::MAX]));
    check(Op::Cast, &[column(&a)], &column(&[0u64, u64::MAX, 0, 300, 0, 0, 3_000_000_000, u64::MAX]));
}

#[test]
fn nan_is_true() {
    check(
        Op::Cast,
        &[column(&[f32::NAN, 0.0, -0.0, 1e-45, 0.5])],
        &column(&[true, false, false, true, true]),
    );
    check(Op::Cast, &[column(&[f64::NAN, 0.0, -0.0, 5e-324])], &column(&[true, false, false, true]));
    check(Op::Cast, &[column(&[0i64, 1 << 32, i64::MIN])], &column(&[false, true, true]));
    check(Op::Cast, &[column(&[0u8, 2, 255])], &column(&[false, true, true]));
    check(Op::Cast, &[column(&[false, true])], &column(&[0.0f32, 1.0]));
}

#[test]
fn integers_wrap_to_narrower_ones_and_extend_by_their_own_sign() {
    check(Op::Cast, &[column(&[-1i8, 127, -128])], &column(&[u64::MAX, 127, u64::MAX - 127]));
    check(Op::Cast, &[column(&[200u8])], &column(&[-56i8]));
    check(Op::Cast, &[column(&[200u8])], &column(&[200i64]));
    check(Op::Cast, &[column(&[0x1_8000_00ffu64])], &column(&[0x8000_00ffu32 as i32]));
}

#[test]
fn f64_rounds_to_f16_once() {
    // Just above the middle of 1 and 1 + 2^-10; through f32 it would be the middle, which goes to even.
    let above = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
    // Just below the middle of 1 + 2^-10 and 1 + 2^-9.
    let below = 1.0 + 3.0 * 2f64.powi(-11) - 2f64.powi(-40);
    // Denormals: just above half of the smallest.
    let tiny = 2f64.powi(-25) + 2f64.powi(-60);
    check(
        Op::Cast,
        &[column(&[above, below, tiny, 2f64.powi(-25), 65_519.999_999, 65520.0])],
        &column(&[0x3c01u16, 0x3c01, 1, 0, 0x7bff, 0x7c00].map(f16::from_bits)),
    );
}

#[test]
fn integers_round_to_floats_once() {
    // Just above the middle of two f32; through f64 it would be the middle.
    check(Op::Cast, &[column(&[0x8000_0080_0000_0001u64])], &column(&[f32::from_bits(0x5f00_0001)]));
    check(
        Op::Cast,
        &[column(&[0x4000_0040_0000_0001i64, -0x4000_0040_0000_0001])],
        &column(&[f32::from_bits(0x5e80_0001), f32::from_bits(0xde80_0001)]),
    );
    check(
        Op::Cast,
        &[column(&[16_777_217u32, 16_777_219, u32::MAX])],
        &column(&[16_777_216.0f32, 16_777_220.0, 4_294_967_296.0]),
    );
    check(
        Op::Cast,
        &[column(&[(1i64 << 53) + 1, i64::MAX])],
        &column(&[9_007_199_254_740_992.0f64, 9_223_372_036_854_775_808.0]),
    );
    check(
        Op::Cast,
        &[column(&[2049u32, 2051, 65519, 65520])],
        &column(&[0x6800u16, 0x6802, 0x7bff, 0x7c00].map(f16::from_bits)),
    );
}

#[test]
fn casts_there_and_back_lose_what_the_type_between_cannot_hold() {
    let through = |via: DType, from: Column, expected: Column| {
        let to = expected.dtype;
        check_expression(&format!("{} through {via}", from.dtype), &[from], &expected, &|v| {
            cast(to, &cast(via, &v[0]))
        });
    };
    through(DType::F32, column(&[16_777_217i32, i32::MAX]), column(&[16_777_216i32, i32::MAX]));
    through(DType::F64, column(&[16_777_217i32, i32::MIN]), column(&[16_777_217i32, i32::MIN]));
    through(DType::F16, column(&[2049i16, -2051, 2047]), column(&[2048i16, -2052, 2047]));
    through(DType::I8, column(&[200u8, 7]), column(&[200u8, 7]));
    through(DType::I8, column(&[300i32, -1, 128]), column(&[44i32, -1, -128]));
    through(DType::U32, column(&[-1i64, 1 << 40]), column(&[0xffff_ffffi64, 0]));
    through(DType::U32, column(&[-1i32, 5]), column(&[-1i32, 5]));
    through(DType::Bool, column(&[7i32, 0]), column(&[1i32, 0]));
    through(DType::U8, column(&[true, false]), column(&[true, false]));
    through(DType::U8, column(&[256u32, 255]), column(&[false, true]));
    through(DType::F32, column(&[0.1f64, 1e300]), column(&[f64::from(0.1f32), f64::INFINITY]));
    through(DType::F16, column(&[0.1f32, 70_000.0]), column(&[0.099_975_586f32, f32::INFINITY]));
    through(DType::I32, column(&[1.5f32, -0.5, f32::NAN]), column(&[1.0f32, 0.0, 0.0]));
    through(DType::I64, column(&[1.5f64, -0.0]), column(&[1.0f64, 0.0]));
    // Two casts in one direction are not one: the first saturates.
    through(DType::I8, column(&[300.0f32, -300.0]), column(&[127i32, -128]));
    through(DType::I32, column(&[300.0f32, -1.0]), column(&[44u8, 255]));
    through(DType::F32, column(&[1.0 + 2f64.powi(-11) + 2f64.powi(-40)]), column(&[f16::from_f32(1.0)]));
}

#[test]
fn bitcast_moves_bits() {
    check(Op::Bitcast, &[column(&[1.0f32, -0.0])], &column(&[0x3f80_0000u32, 0x8000_0000]));
    check(
        Op::Bitcast,
        &[column(&[0x7f80_0001u32, 0xffc0_0005])],
        &bits(DType::F32, &[0x7f80_0001, 0xffc0_0005]),
    );
    check(Op::Bitcast, &[column(&[-1i8])], &column(&[255u8]));
    for from in FLOATS.into_iter().chain(integers()) {
        let values = grid(from);
        for to in FLOATS.into_iter().chain(integers()).filter(|to| to.size() == from.size()) {
            check(Op::Bitcast, &[bits(from, &values)], &bits(to, &values));
        }

        let round_trip = |v: &[Var]| {
            let there = Var::apply(Op::Bitcast, from.unsigned(), &[&v[0]]);
            Var::apply(Op::Bitcast, from, &[&apply(Op::Not, &[&apply(Op::Not, &[&there])])])
        };
        check_moves("bits there and back", &[bits(from, &values)], &bits(from, &values), &round_trip);
    }
}
