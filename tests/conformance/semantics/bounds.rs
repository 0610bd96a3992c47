//! Lanes out of bounds are masked off: gather gives 0, scatter and atomics write nothing and give 0.

use std::collections::BTreeSet;

use jit_core::dtype::{ALL_DTYPES, DType};
use jit_core::op::Op;
use jit_core::trace::{BufferVar, Var, if_else, while_loop};

use super::check::{apply, bits, cast, check_moves, column};
use super::grid::{integer_grid, integers, limits, value, wrapped};
use crate::devices::on_each;
use crate::host::{lit, read, read_bits, upload, upload_bits};

/// Indices of a type around an array of 10 elements and at the type's ends, with what they would alias if cut to 32,
/// 16 or 8 bits.
fn indices(dtype: DType) -> Vec<u64> {
    let (low, high) = limits(dtype);
    let wild = [1 << 8, 1 << 16, 1 << 31, 1 << 32, 1 << 33, 1 << 63].map(|v: i128| v + 1);
    let near = [0, 3, 9, 10, 11, 127, -1, -10, low, low + 1, high - 1, high];
    let fits = |v: &i128| (low..=high).contains(v);
    let negative = wild.map(|v| -v);
    let all = near.into_iter().chain(wild).chain(negative).filter(fits);
    let distinct: BTreeSet<u64> = all.map(|v| wrapped(dtype, v)).collect();
    distinct.into_iter().collect()
}

fn inside(dtype: DType, index: u64) -> bool {
    (0..10).contains(&value(dtype, index))
}

#[test]
fn gathers_out_of_bounds_give_0() {
    let source = [7u16, 11, 13, 17, 19, 23, 29, 31, 37, 41];
    for dtype in integers() {
        let index = bits(dtype, &indices(dtype));
        let row = |&i: &u64| if inside(dtype, i) { source[i as usize] } else { 0 };
        let expected: Vec<u16> = index.bits.iter().map(row).collect();
        on_each(|device| {
            let source = upload(device, &source);
            let evaluated = source.gather(&upload_bits(device, dtype, &index.bits), None);
            assert_eq!(read::<u16>(&evaluated), expected, "{dtype} indices {:x?}", index.bits);
            for (&i, &e) in index.bits.iter().zip(&expected) {
                let literal = source.gather(&Var::literal(dtype, i), None);
                assert_eq!(read::<u16>(&literal), [e], "{dtype} index {i:#x} a literal");
            }
            let computed = Var::apply(
                Op::Not,
                dtype,
                &[&Var::apply(Op::Not, dtype, &[&upload_bits(device, dtype, &index.bits)])],
            );
            assert_eq!(read::<u16>(&source.gather(&computed, None)), expected, "{dtype} indices computed");
            let counted = while_loop(
                device,
                &[upload_bits(device, dtype, &index.bits), lit(0u16), lit(false)],
                |s| apply(Op::Not, &[&s[2]]),
                |s| vec![s[0].clone(), source.gather(&s[0], None), lit(true)],
            );
            assert_eq!(read::<u16>(&counted[1]), expected, "{dtype} indices in a loop");
        });
    }
}

#[test]
fn literals_have_one_element() {
    for dtype in integers() {
        let index = integer_grid(dtype);
        let expected: Vec<u64> = index.iter().map(|&i| if i == 0 { 5 } else { 0 }).collect();
        check_moves("gather from one element", &[bits(dtype, &index)], &bits(DType::I16, &expected), &|v| {
            lit(5i16).gather(&v[0], None)
        });
    }
    check_moves(
        "masked gather from one element",
        &[column(&[0u32, 0, 1]), column(&[true, false, true])],
        &column(&[f32::MAX, 0.0, 0.0]),
        &|v| lit(f32::MAX).gather(&v[0], Some(&v[1])),
    );
}

#[test]
fn every_element_type_has_a_zero() {
    on_each(|device| {
        for dtype in ALL_DTYPES {
            let source = upload_bits(device, dtype, &[1, 1]);
            let got = source.gather(&upload(device, &[2i32, -1, 1]), None);
            assert_eq!(read_bits(&got), [0, 0, 1], "{dtype}");
        }
    });
}

#[test]
fn a_mask_keeps_lanes_from_memory() {
    on_each(|device| {
        let source = upload(device, &[1.0f64, 2.0, 3.0]);
        let mask = upload(device, &[true, false, true, false]);
        let index = upload(device, &[0i64, 1, i64::MAX, i64::MIN]);
        assert_eq!(read::<f64>(&source.gather(&index, Some(&mask))), [1.0, 0.0, 0.0, 0.0]);
        assert_eq!(read::<f64>(&source.gather(&lit(1u8), Some(&mask))), [2.0, 0.0, 2.0, 0.0]);
        assert_eq!(read::<f64>(&source.gather(&index, Some(&lit(false)))), [0.0; 4]);
        assert_eq!(read::<f64>(&source.gather(&index, Some(&lit(true)))), [1.0, 2.0, 0.0, 0.0]);
        let mut target = upload(device, &[0u8; 3]);
        target.scatter(Op::Scatter, &upload(device, &[5u8, 6, 7, 8]), &index, Some(&mask));
        assert_eq!(read::<u8>(&target), [5, 0, 0]);
        target.scatter(Op::ScatterAdd, &lit(1u8), &index, Some(&lit(false)));
        assert_eq!(read::<u8>(&target), [5, 0, 0]);
        let buffer = BufferVar::new(&target);
        let old = buffer.atomic_inc(&index, Some(&mask));
        assert_eq!(read::<u8>(&old), [5, 0, 0, 0]);
        assert_eq!(read::<u8>(&buffer.value()), [6, 0, 0]);
    });
}

#[test]
fn effects_out_of_bounds_write_nothing() {
    for dtype in integers() {
        let index = indices(dtype);
        let mut hits = [0u32; 10];
        index.iter().filter(|&&i| inside(dtype, i)).for_each(|&i| hits[i as usize] += 1);
        on_each(|device| {
            let index = upload_bits(device, dtype, &index);
            let buffer = BufferVar::new(&upload(device, &[0u32; 10]));
            let old = buffer.atomic_inc(&index, None);
            assert_eq!(read::<u32>(&buffer.value()), hits, "atomic_inc at {dtype}");
            assert_eq!(read::<u32>(&old).iter().sum::<u32>(), 0, "old values at {dtype}");
            buffer.scatter(Op::ScatterAdd, &lit(10u32), &index, None);
            assert_eq!(read::<u32>(&buffer.value()), hits.map(|h| 11 * h), "scatter_add at {dtype}");
            let mut array = Var::full(device, DType::U32, 7, 10);
            array.scatter(Op::Scatter, &lit(9u32), &index, None);
            assert_eq!(read::<u32>(&array), hits.map(|h| 7 + 2 * h), "scatter at {dtype}");
        });
    }
}

#[test]
fn effects_at_a_literal_index_follow_the_same_rule() {
    on_each(|device| {
        let buffer = BufferVar::new(&upload(device, &[0u32; 4]));
        for index in [lit(4u32), lit(-1i32), lit((1u64 << 32) + 1), lit(i64::MIN + 2), lit(255u8)] {
            buffer.scatter(Op::Scatter, &lit(1u32), &index, None);
            assert_eq!(read::<u32>(&buffer.atomic_inc(&index, None)), [0]);
        }
        assert_eq!(read::<u32>(&buffer.value()), [0; 4]);
        buffer.scatter(Op::Scatter, &lit(1u32), &lit(3i8), None);
        assert_eq!(read::<u32>(&buffer.value()), [0, 0, 0, 1]);
    });
}

#[test]
fn lanes_off_in_a_region_touch_nothing() {
    on_each(|device| {
        let lane = Var::counter(device, DType::U32, 6);
        let buffer = BufferVar::new(&upload(device, &[10u32, 20, 30]));
        let even = apply(Op::Eq, &[&apply(Op::And, &[&lane, &lit(1u32)]), &lit(0u32)]);
        let seen = if_else(
            device,
            &even,
            &[],
            |_| {
                let old = buffer.gather(&lane, None);
                buffer.scatter(Op::ScatterAdd, &lit(1u32), &lane, None);
                vec![old]
            },
            |_| vec![lit(99u32)],
        );
        assert_eq!(read::<u32>(&seen[0]), [10, 99, 30, 99, 0, 99]);
        assert_eq!(read::<u32>(&buffer.value()), [11, 20, 31]);
    });
}

#[test]
fn what_the_range_pass_proves_holds_for_shorter_memory() {
    on_each(|device| {
        let long = upload(device, &[1u32, 2, 3, 4, 5, 6, 7, 8]);
        let short = upload(device, &[1u32, 2, 3]);
        let lane = Var::counter(device, DType::U32, 8);
        for (source, expected) in [(&long, [1, 2, 3, 4, 5, 6, 7, 8]), (&short, [1, 2, 3, 0, 0, 0, 0, 0])] {
            assert_eq!(read::<u32>(&source.gather(&lane, None)), expected, "the counter");
            let masked = apply(Op::And, &[&apply(Op::Mul, &[&lane, &lit(9u32)]), &lit(7u32)]);
            assert_eq!(read::<u32>(&source.gather(&masked, None)), expected, "x & 7");
            let modulo = apply(Op::Rem, &[&apply(Op::Mul, &[&lane, &lit(9u32)]), &lit(8u32)]);
            assert_eq!(read::<u32>(&source.gather(&modulo, None)), expected, "x % 8");
            let clamped = apply(Op::Min, &[&lane, &lit(7u32)]);
            assert_eq!(read::<u32>(&source.gather(&clamped, None)), expected, "min(x, 7)");
        }
    });
}

#[test]
fn indices_that_wrap_or_are_negative_are_out_of_bounds() {
    const N: u32 = 64;
    type Index = (&'static str, fn(&Var) -> Var, fn(i64) -> i64);
    let rows: [Index; 10] = [
        ("lane - 1", |l| apply(Op::Sub, &[l, &lit(1u32)]), |l| (l - 1) & 0xffff_ffff),
        ("lane * 2^31", |l| apply(Op::Mul, &[l, &lit(1u32 << 31)]), |l| (l << 31) & 0xffff_ffff),
        (
            "i8 of lane * 5",
            |l| cast(DType::I8, &apply(Op::Mul, &[l, &lit(5u32)])),
            |l| i64::from((l * 5) as i8),
        ),
        ("u8 of lane * 5", |l| cast(DType::U8, &apply(Op::Mul, &[l, &lit(5u32)])), |l| (l * 5) & 255),
        (
            "(lane - 20) % 8",
            |l| apply(Op::Rem, &[&apply(Op::Sub, &[&cast(DType::I32, l), &lit(20i32)]), &lit(8i32)]),
            |l| (l - 20) % 8,
        ),
        (
            "(lane - 20) / 4",
            |l| apply(Op::Div, &[&apply(Op::Sub, &[&cast(DType::I32, l), &lit(20i32)]), &lit(4i32)]),
            |l| (l - 20) / 4,
        ),
        (
            "(lane - 20) >> 2",
            |l| apply(Op::Shr, &[&apply(Op::Sub, &[&cast(DType::I64, l), &lit(20i64)]), &lit(2i64)]),
            |l| (l - 20) >> 2,
        ),
        (
            "(lane - 20) & 7",
            |l| apply(Op::And, &[&apply(Op::Sub, &[&cast(DType::I32, l), &lit(20i32)]), &lit(7i32)]),
            |l| (l - 20) & 7,
        ),
        (
            "abs of i8 of lane * 4",
            |l| apply(Op::Abs, &[&cast(DType::I8, &apply(Op::Mul, &[l, &lit(4u32)]))]),
            |l| i64::from(((l * 4) as i8).wrapping_abs()),
        ),
        (
            "clamp(lane - 20, 0, 9)",
            |l| {
                let below =
                    apply(Op::Max, &[&apply(Op::Sub, &[&cast(DType::I32, l), &lit(20i32)]), &lit(0i32)]);
                apply(Op::Min, &[&below, &lit(9i32)])
            },
            |l| (l - 20).clamp(0, 9),
        ),
    ];
    on_each(|device| {
        let lane = Var::counter(device, DType::U32, N.into());
        for len in [1, 5, 8, 10, 64, 200u32] {
            let numbers: Vec<u32> = (1..=len).collect();
            let source = upload(device, &numbers);
            for (what, index, by_numbers) in &rows {
                let row = |l: i64| {
                    let at = by_numbers(l);
                    if (0..i64::from(len)).contains(&at) { at as u32 + 1 } else { 0 }
                };
                let expected: Vec<u32> = (0..i64::from(N)).map(row).collect();
                assert_eq!(read::<u32>(&source.gather(&index(&lane), None)), expected, "{what} of {len}");
            }
        }
    });
}
