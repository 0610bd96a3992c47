//! Scatters: one of the values of a duplicate index, every contribution of an atomic.

use half::f16;
use jit_core::dtype::DType;
use jit_core::op::Op;
use jit_core::trace::{BufferVar, Var, while_loop};

use super::check::{Column, apply, bits, column, same, show};
use super::exact::{encode, infinity, integer, nan, sign};
use super::grid::{FLOATS, integers, limits, value, wrapped};
use crate::devices::on_each;
use crate::host::{lit, read, read_bits, upload, upload_bits};

/// A scatter of values into one element that holds `before` leaves `after`: from arrays, from literals one after the
/// other, in a loop.
fn check(op: Op, before: u64, values: &Column, after: u64) {
    let dtype = values.dtype;
    let compare = |position: &str, got: Vec<u64>| {
        let fits = got.len() == 2 && same(dtype, after, got[1], false) && got[0] == before;
        assert!(fits, "{} on {dtype}, {position}: {got:x?}, not {}", op.name(), show(dtype, after));
    };
    on_each(|device| {
        let n = values.bits.len();
        let start = upload_bits(device, dtype, &[before; 2]);
        let array = upload_bits(device, dtype, &values.bits);
        let mut target = start.clone();
        target.scatter(op, &array, &upload(device, &vec![1u32; n]), None);
        compare("an array of values", read_bits(&target));
        let mut target = start.clone();
        target.scatter(op, &array, &lit(1u8), None);
        compare("an array of values at a literal index", read_bits(&target));
        let mut target = start.clone();
        for &value in &values.bits {
            target.scatter(op, &Var::literal(dtype, value), &lit(1i64), None);
        }
        compare("literals", read_bits(&target));
        let buffer = BufferVar::new(&start);
        while_loop(
            device,
            &[lit(0u32)],
            |s| apply(Op::Lt, &[&s[0], &lit(n as u32)]),
            |s| {
                buffer.scatter(op, &array.gather(&s[0], None), &lit(1u32), None);
                vec![apply(Op::Add, &[&s[0], &lit(1u32)])]
            },
        );
        compare("in a loop", read_bits(&buffer.value()));
        assert_eq!(read_bits(&start), [before; 2], "the old version stays");
    });
}

#[test]
fn every_contribution_arrives_once() {
    check(Op::ScatterAdd, 5, &column(&vec![1u32; 1000]), 1005);
    check(Op::ScatterAdd, 1f32.to_bits().into(), &column(&vec![0.5f32; 64]), 33f32.to_bits().into());
    check(Op::ScatterAdd, 1f64.to_bits(), &column(&vec![0.5f64; 64]), 33f64.to_bits());
    let half = |v: f32| f16::from_f32(v);
    check(Op::ScatterAdd, half(1.0).to_bits().into(), &column(&[half(0.5); 64]), half(33.0).to_bits().into());
    check(Op::ScatterMul, 3, &column(&[2i16, -5]), 0xffe2);
    check(Op::ScatterMul, 3f32.to_bits().into(), &column(&[2f32, -0.5]), (-3f32).to_bits().into());
}

#[test]
fn integer_atomics_wrap() {
    for dtype in integers() {
        let (_, high) = limits(dtype);
        check(Op::ScatterAdd, wrapped(dtype, high), &bits(dtype, &[1, 2]), wrapped(dtype, high + 3));
        check(
            Op::ScatterMul,
            wrapped(dtype, high),
            &bits(dtype, &[3, 1]),
            wrapped(dtype, high.wrapping_mul(3)),
        );
    }
}

#[test]
fn the_extremes_of_integers_follow_their_sign() {
    for dtype in integers() {
        let (low, high) = limits(dtype);
        let values = bits(dtype, &[wrapped(dtype, low), 1, wrapped(dtype, high)]);
        for op in [Op::ScatterMin, Op::ScatterMinimum] {
            check(op, 5, &values, wrapped(dtype, low));
        }
        for op in [Op::ScatterMax, Op::ScatterMaximum] {
            check(op, 5, &values, wrapped(dtype, high));
        }
    }
}

#[test]
fn bits_are_combined() {
    for dtype in integers() {
        let all = dtype.mask();
        check(
            Op::ScatterAnd,
            all,
            &bits(dtype, &[0x0f | (all << 4 & !0xff & all), 0x3c | (all << 6 & !0xff & all)]),
            0x0c | (all & !0xff),
        );
        check(Op::ScatterOr, 1, &bits(dtype, &[4, 16]), 21);
        check(Op::ScatterXor, 1, &bits(dtype, &[5, 16, 16]), 4);
    }
    check(Op::ScatterAnd, 1, &column(&[true, false, true]), 0);
    check(Op::ScatterOr, 0, &column(&[false, true, false]), 1);
    check(Op::ScatterXor, 1, &column(&[true, true, true]), 0);
}

#[test]
fn nan_and_infinity_arrive() {
    for dtype in FLOATS {
        let (inf, minus) = (infinity(dtype), infinity(dtype) | sign(dtype));
        check(Op::ScatterAdd, 0, &bits(dtype, &[0, inf]), inf);
        check(Op::ScatterAdd, 0, &bits(dtype, &[inf, minus]), nan(dtype));
        check(Op::ScatterAdd, 0, &bits(dtype, &[0, nan(dtype), 0]), nan(dtype));
        check(Op::ScatterAdd, sign(dtype), &bits(dtype, &[sign(dtype)]), sign(dtype));
        check(Op::ScatterAdd, sign(dtype), &bits(dtype, &[0]), 0);
        check(Op::ScatterMul, 0, &bits(dtype, &[inf]), nan(dtype));
        // Denormals are added like others.
        check(Op::ScatterAdd, 1, &bits(dtype, &[1, 1]), 3);
    }
}

#[test]
fn scatter_min_and_max_ignore_nan() {
    for dtype in FLOATS {
        let one = super::exact::encode(dtype, super::exact::integer(1));
        for op in [Op::ScatterMin, Op::ScatterMax] {
            check(op, one, &bits(dtype, &[nan(dtype)]), one);
            check(op, nan(dtype), &bits(dtype, &[nan(dtype)]), nan(dtype));
        }
        for op in [Op::ScatterMinimum, Op::ScatterMaximum] {
            check(op, one, &bits(dtype, &[one, nan(dtype), one]), nan(dtype));
        }
        let (plus, minus) = (0, sign(dtype));
        for op in [Op::ScatterMin, Op::ScatterMinimum] {
            check(op, plus, &bits(dtype, &[minus, plus]), minus);
            check(op, minus, &bits(dtype, &[plus]), minus);
        }
        for op in [Op::ScatterMax, Op::ScatterMaximum] {
            check(op, minus, &bits(dtype, &[plus, minus]), plus);
            check(op, plus, &bits(dtype, &[minus]), plus);
        }
    }
}

#[test]
fn nan_in_memory_gives_way_to_a_number() {
    for dtype in FLOATS {
        let one = super::exact::encode(dtype, super::exact::integer(1));
        on_each(|device| {
            for op in [Op::ScatterMin, Op::ScatterMax] {
                let mut target = upload_bits(device, dtype, &[nan(dtype), one]);
                target.scatter(op, &Var::literal(dtype, one), &upload(device, &[0u32]), None);
                assert_eq!(read_bits(&target), [one, one], "{} on {dtype}", op.name());
            }
        });
    }
}

#[test]
fn duplicates_of_a_plain_scatter_store_one_of_the_values() {
    on_each(|device| {
        let n = 10_000u64;
        let whole: Vec<u64> = (0..n).map(|k| k.wrapping_mul(0x0101_0101_0101_0101) | 1 << 63).collect();
        let index: Vec<u32> = (0..n as u32).map(|k| k % 3).collect();
        let mut target = Var::full(device, DType::U64, 0, 4);
        target.scatter(Op::Scatter, &upload(device, &whole), &upload(device, &index), None);
        let got = read::<u64>(&target);
        for (k, got) in got[..3].iter().enumerate() {
            assert!(
                whole.iter().skip(k).step_by(3).any(|v| v == got),
                "{got:#x} at {k} is none of the values"
            );
        }
        assert_eq!(got[3], 0);
    });
}

#[test]
fn an_effect_runs_once_per_lane_of_the_broadcast() {
    on_each(|device| {
        let count = |value: &Var, index: &Var, mask: Option<&Var>| {
            let buffer = BufferVar::new(&upload(device, &[0u32; 2]));
            buffer.scatter(Op::ScatterAdd, value, index, mask);
            read::<u32>(&buffer.value())
        };
        let (ones, mask) = (upload(device, &[1u32; 5]), upload(device, &[true; 3]));
        assert_eq!(count(&lit(1u32), &lit(0u32), None), [1, 0]);
        assert_eq!(count(&ones, &lit(0u32), None), [5, 0]);
        assert_eq!(count(&lit(1u32), &ones, None), [0, 5]);
        assert_eq!(count(&lit(1u32), &lit(0u32), Some(&mask)), [3, 0]);
        assert_eq!(count(&ones, &ones, Some(&lit(true))), [0, 5]);
        assert_eq!(count(&Var::full(device, DType::U32, 1, 7), &lit(0u32), None), [7, 0]);
        let buffer = BufferVar::new(&upload(device, &[0u32; 2]));
        let old = buffer.atomic_inc(&lit(1u32), Some(&mask));
        let mut old = read::<u32>(&old);
        old.sort_unstable();
        assert_eq!(old, [0, 1, 2]);
        assert_eq!(read::<u32>(&buffer.value()), [0, 3]);
    });
}

#[test]
fn atomic_inc_gives_every_old_value_once() {
    on_each(|device| {
        let n = 1000;
        let buffer = BufferVar::new(&Var::full(device, DType::U32, 0, 3));
        let index: Vec<u32> = (0..n).map(|k| k % 3).collect();
        let old = read::<u32>(&buffer.atomic_inc(&upload(device, &index), None));
        assert_eq!(read::<u32>(&buffer.value()), [334, 333, 333]);
        for slot in 0..3 {
            let mut got: Vec<u32> = old.iter().skip(slot).step_by(3).copied().collect();
            got.sort_unstable();
            assert!(got.iter().enumerate().all(|(k, &v)| v == k as u32), "slot {slot}: {got:?}");
        }
    });
}

#[test]
fn atomic_inc_wraps_in_every_integer_type() {
    on_each(|device| {
        for dtype in integers() {
            let (low, high) = limits(dtype);
            let buffer = BufferVar::new(&upload_bits(device, dtype, &[wrapped(dtype, high), 4]));
            let old = buffer.atomic_inc(&upload(device, &[0u8, 1, 9]), None);
            assert_eq!(read_bits(&old), [wrapped(dtype, high), 4, 0], "{dtype}");
            assert_eq!(read_bits(&buffer.value()), [wrapped(dtype, low), 5], "{dtype}");
        }
    });
}

#[test]
fn reads_between_effects_see_what_came_before() {
    on_each(|device| {
        let buffer = BufferVar::new(&upload(device, &[1u32, 2]));
        let first = buffer.value();
        let gathered = buffer.gather(&lit(0u32), None);
        buffer.scatter(Op::Scatter, &lit(10u32), &lit(0u32), None);
        let second = buffer.value();
        buffer.scatter(Op::ScatterAdd, &gathered, &upload(device, &[0u32, 1]), None);
        assert_eq!(read::<u32>(&buffer.value()), [11, 3]);
        assert_eq!(read::<u32>(&second), [10, 2]);
        assert_eq!(read::<u32>(&first), [1, 2]);
    });
}

/// Many lanes, more than one thread takes, on neighbours in one word of memory.
const CONTENDED: u64 = 40_000;

#[test]
fn contended_neighbours_lose_nothing() {
    on_each(|device| {
        let lane = Var::counter(device, DType::U32, CONTENDED);
        let index = apply(Op::Rem, &[&lane, &lit(5u32)]);
        for dtype in integers() {
            let share = i128::from(CONTENDED) / 5;
            let buffer = BufferVar::new(&Var::full(device, dtype, 0, 5));
            buffer.scatter(Op::ScatterAdd, &Var::literal(dtype, 1), &index, None);
            let old = buffer.atomic_inc(&index, None);
            assert_eq!(read_bits(&buffer.value()), [wrapped(dtype, 2 * share); 5], "{dtype}");
            let sum: i128 = read_bits(&old).iter().map(|&b| value(dtype, b)).sum();
            // Old values count from `share` on, wrapped.
            let each: i128 = (share..2 * share).map(|v| value(dtype, wrapped(dtype, v))).sum();
            assert_eq!(sum, 5 * each, "old values of {dtype}");
        }
        for dtype in FLOATS {
            // Up to 2048 even f16 counts exactly.
            let few = Var::counter(device, DType::U32, 5 * 2048);
            let buffer = BufferVar::new(&Var::full(device, dtype, 0, 5));
            let one = encode(dtype, integer(1));
            buffer.scatter(
                Op::ScatterAdd,
                &Var::literal(dtype, one),
                &apply(Op::Rem, &[&few, &lit(5u32)]),
                None,
            );
            assert_eq!(read_bits(&buffer.value()), [encode(dtype, integer(2048)); 5], "{dtype}");
        }
    });
}

#[test]
fn contended_extremes_and_bits() {
    on_each(|device| {
        let lane = Var::counter(device, DType::U32, CONTENDED);
        let index = apply(Op::Rem, &[&lane, &lit(3u32)]);
        let last = CONTENDED as u32 - 1;
        for dtype in [DType::I16, DType::U32, DType::I64, DType::F32, DType::F64] {
            let number =
                |v: i128| if dtype.is_float() { encode(dtype, integer(v)) } else { wrapped(dtype, v) };
            // 1000 values again and again, scattered over the lanes.
            let mixed = apply(Op::Rem, &[&apply(Op::Mul, &[&lane, &lit(7919u32)]), &lit(1000u32)]);
            let mixed = Var::apply(Op::Cast, dtype, &[&mixed]);
            let values = |k: u32| (0..=last).filter(move |l| l % 3 == k).map(|l| l * 7919 % 1000);
            for (op, start, pick) in [
                (Op::ScatterMax, -1, true),
                (Op::ScatterMaximum, -1, true),
                (Op::ScatterMin, 5000, false),
                (Op::ScatterMinimum, 5000, false),
            ] {
                let start = if dtype == DType::U32 && start < 0 { 0 } else { start };
                let mut target = Var::full(device, dtype, number(start), 3);
                target.scatter(op, &mixed, &index, None);
                let expected = [0, 1, 2].map(|k| {
                    let found = if pick { values(k).max() } else { values(k).min() };
                    number(found.expect("some").into())
                });
                assert_eq!(read_bits(&target), expected, "{} on {dtype}", op.name());
            }
        }
        let bit = |dtype: DType| {
            let amount = Var::apply(Op::Cast, dtype, &[&apply(Op::Rem, &[&lane, &lit(8u32)])]);
            apply(Op::Shl, &[&Var::literal(dtype, 1), &amount])
        };
        for dtype in integers() {
            let spread = |op: Op, start: u64, value: &Var| {
                let mut target = Var::full(device, dtype, start, 3);
                target.scatter(op, value, &index, None);
                read_bits(&target)
            };
            let bit = bit(dtype);
            assert_eq!(spread(Op::ScatterOr, 0, &bit), [0xff; 3], "scatter_or on {dtype}");
            let cleared = spread(Op::ScatterAnd, dtype.mask(), &apply(Op::Not, &[&bit]));
            assert_eq!(cleared, [dtype.mask() & !0xff; 3], "scatter_and on {dtype}");
            let mut parity = [0u64; 3];
            (0..=last).for_each(|l| parity[l as usize % 3] ^= 1 << (l % 8));
            let mask = dtype.mask();
            assert_eq!(spread(Op::ScatterXor, 0, &bit), parity.map(|p| p & mask), "scatter_xor on {dtype}");
        }
        let mut flags = Var::full(device, DType::Bool, 0, 4);
        let odd = apply(Op::And, &[&lane, &lit(2u32)]);
        flags.scatter(
            Op::ScatterOr,
            &Var::apply(Op::Ne, DType::Bool, &[&odd, &lit(0u32)]),
            &apply(Op::And, &[&lane, &lit(3u32)]),
            None,
        );
        assert_eq!(read_bits(&flags), [0, 0, 1, 1]);
    });
}

#[test]
fn contended_products_keep_every_factor() {
    on_each(|device| {
        let lane = Var::counter(device, DType::U32, CONTENDED);
        let index = apply(Op::Rem, &[&lane, &lit(3u32)]);
        let mut target = Var::full(device, DType::U64, 1, 3);
        let factor = Var::apply(Op::Cast, DType::U64, &[&apply(Op::Or, &[&lane, &lit(1u32)])]);
        target.scatter(Op::ScatterMul, &factor, &index, None);
        let mut expected = [1u64; 3];
        (0..CONTENDED).for_each(|l| expected[l as usize % 3] = expected[l as usize % 3].wrapping_mul(l | 1));
        assert_eq!(read::<u64>(&target), expected);
        // Signs are exact in every order.
        let mut signs = Var::full(device, DType::F32, 1f32.to_bits().into(), 3);
        let negative = Var::apply(Op::Eq, DType::Bool, &[&apply(Op::Rem, &[&lane, &lit(7u32)]), &lit(0u32)]);
        let sign = apply(Op::Select, &[&negative, &lit(-1f32), &lit(1f32)]);
        signs.scatter(Op::ScatterMul, &sign, &index, None);
        let mut expected = [1f32; 3];
        (0..CONTENDED).filter(|l| l % 7 == 0).for_each(|l| expected[l as usize % 3] *= -1.0);
        assert_eq!(read::<f32>(&signs), expected);
    });
}
