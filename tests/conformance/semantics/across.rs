//! Scans, sorting, compression: values that plain Rust finds, over all types and the sizes around chunks and threads.

use std::sync::Arc;

use half::f16;
use jit_core::builtin::Builtin;
use jit_core::dtype::{ALL_DTYPES, DType, is_nan};
use jit_core::op::{Op, scalar};
use jit_core::runtime::{Device, DeviceOptions};
use jit_core::trace::{Var, while_loop};
use jit_llvm::{LlvmBackend, LlvmOptions};

use super::check::{apply, same, show};
use crate::devices::{all, on_each};
use crate::host::{lit, read, read_bits, upload, upload_bits};
use crate::recorder::recorded;

/// Around a few elements, chunks of 1024, what one thread does alone, and many runs of chunks.
const SIZES: [usize; 14] = [0, 1, 2, 15, 16, 17, 1023, 1024, 1025, 5120, 16_384, 16_385, 70_001, 1_100_000];

/// Numbers without a pattern.
fn mixed(k: u64) -> u64 {
    let x = (k + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ x >> 32
}

/// The bits of a number that every type has, or that only floats are asked for.
fn value(dtype: DType, number: f64) -> u64 {
    scalar::cast(DType::F64, dtype, number.to_bits())
}

/// Elements of that type: small numbers of both signs, and rare ones with special values.
fn elements(dtype: DType, n: usize) -> Vec<u64> {
    let special = |k: u64| match (dtype, k % 5) {
        (DType::F16, 0) => 0x7e00,
        (DType::F32, 0) => 0x7fc0_0000,
        (DType::F64, 0) => 0x7ff8 << 48,
        (_, 1) => value(dtype, 0.0),
        (_, 2) if dtype.is_float() => value(dtype, -0.0),
        (_, 3) if dtype.is_float() => value(dtype, f64::INFINITY),
        _ => value(dtype, 1.0),
    };
    (0..n as u64)
        .map(|k| match mixed(k) {
            m if m % 97 == 0 => special(m >> 20),
            m if dtype == DType::Bool => m >> 9 & 1,
            m if dtype.is_float() => value(dtype, ((m >> 11 & 0xff) as f64 - 128.0) / 4.0),
            m => m & dtype.mask(),
        })
        .collect()
}

fn assert_equal(what: &str, dtype: DType, expected: &[u64], got: &[u64]) {
    assert_eq!(expected.len(), got.len(), "{what} of {dtype}");
    for (k, (&e, &g)) in expected.iter().zip(got).enumerate() {
        assert!(
            same(dtype, e, g, false),
            "{what} of {} {dtype}, element {k}: {}, not {}",
            got.len(),
            show(dtype, g),
            show(dtype, e)
        );
    }
}

/// Totals of integers, which do not depend on the order.
fn integer_totals(combine: Op, dtype: DType, sequence: &[u64]) -> Vec<u64> {
    let signed = |bits: u64| {
        if dtype.is_signed() { (bits << (64 - dtype.bits())) as i64 >> (64 - dtype.bits()) } else { 0 }
    };
    let smaller = |a: u64, b: u64| if dtype.is_signed() { signed(a) < signed(b) } else { a < b };
    let join = |a: u64, b: u64| match combine {
        Op::Add => a.wrapping_add(b) & dtype.mask(),
        Op::Min => {
            if smaller(b, a) {
                b
            } else {
                a
            }
        }
        _ => {
            if smaller(a, b) {
                b
            } else {
                a
            }
        }
    };
    let mut total = None;
    sequence
        .iter()
        .map(|&x| {
            let next = total.map_or(x, |t| join(t, x));
            total = Some(next);
            next
        })
        .collect()
}

fn integer_nothing(combine: Op, dtype: DType) -> u64 {
    let largest = if dtype.is_signed() { dtype.mask() >> 1 } else { dtype.mask() };
    match combine {
        Op::Add => 0,
        Op::Min => largest,
        _ => !largest & dtype.mask(),
    }
}

/// The totals of sequences of `length`, by the totals of one.
fn by_sequences(
    values: &[u64],
    length: usize,
    exclusive: bool,
    reverse: bool,
    nothing: u64,
    totals: impl Fn(&[u64]) -> Vec<u64>,
) -> Vec<u64> {
    let mut out = Vec::new();
    for sequence in values.chunks(length.max(1)) {
        let mut sequence = sequence.to_vec();
        if reverse {
            sequence.reverse();
        }
        let mut own = totals(&sequence);
        if exclusive {
            own.pop();
            own.insert(0, nothing);
        }
        if reverse {
            own.reverse();
        }
        out.extend(own);
    }
    out
}

const FORMS: [(bool, bool); 4] = [(false, false), (true, false), (false, true), (true, true)];

#[test]
fn totals_of_integers_are_those_of_a_loop() {
    for dtype in ALL_DTYPES.into_iter().filter(|d| d.is_int()) {
        for n in SIZES {
            // Long ones of two types are enough.
            if n > 100_000 && !matches!(dtype, DType::U32 | DType::I8) {
                continue;
            }
            let values = elements(dtype, n);
            for (combine, (exclusive, reverse)) in [Op::Add, Op::Min, Op::Max].into_iter().zip(FORMS) {
                for length in [None, Some(20_000), Some(1), Some(7), Some(1024), Some(n as u64 + 5)] {
                    // Long ones by what is told apart there.
                    if n > 100_000 && !(combine == Op::Add && matches!(length, None | Some(20_000))) {
                        continue;
                    }
                    let pieces = length.map_or(n, |l| l as usize);
                    let nothing = integer_nothing(combine, dtype);
                    let expected = by_sequences(&values, pieces, exclusive, reverse, nothing, |s| {
                        integer_totals(combine, dtype, s)
                    });
                    on_each(|device| {
                        let array = upload_bits(device, dtype, &values);
                        let got = read_bits(&array.scan(combine, exclusive, reverse, length));
                        assert_equal(&format!("{} by {length:?}", combine.name()), dtype, &expected, &got);
                    });
                }
            }
        }
    }
}

/// Totals that are stored past the caches: of all types, in sequences whose ends lie anywhere in a line.
#[test]
fn totals_stored_past_the_caches_are_the_same() {
    let options = LlvmOptions { threads: Some(3), streaming_above: Some(0), ..Default::default() };
    let backend = LlvmBackend::new(options).expect("LLVM is a requirement of the tests");
    let options = DeviceOptions { poison: true, ..DeviceOptions::default() };
    let streaming = Device::new(Arc::new(backend), options);
    for dtype in ALL_DTYPES.into_iter().filter(|&dtype| dtype != DType::Bool) {
        for (n, length) in [(1025, None), (33_001, None), (70_001, None), (70_001, Some(17_003))] {
            let values = elements(dtype, n);
            for combine in [Op::Add, Op::Min, Op::Max] {
                for (exclusive, reverse) in FORMS {
                    let [expected, got] = [all()[0], streaming].map(|device| {
                        let array = upload_bits(device, dtype, &values);
                        read_bits(&array.scan(combine, exclusive, reverse, length))
                    });
                    let what = format!("{} {exclusive} {reverse} by {length:?}", combine.name());
                    assert_equal(&what, dtype, &expected, &got);
                }
            }
        }
    }
}

/// The rule of float totals, written from its definition.
fn by_rule<T: Copy>(values: &[T], add: impl Fn(T, T) -> T + Copy) -> Vec<T> {
    let mut out = Vec::new();
    let mut offset = None;
    for chunk in values.chunks(1024) {
        let mut local: Vec<T> = Vec::new();
        for &value in chunk {
            let before = local.last().copied();
            local.push(before.map_or(value, |b| add(b, value)));
        }
        out.extend(local.iter().map(|&v| offset.map_or(v, |o| add(o, v))));
        let last = *local.last().expect("no chunk is empty");
        offset = Some(offset.map_or(last, |o| add(o, last)));
    }
    out
}

#[test]
fn totals_of_floats_have_the_order_of_the_rule() {
    for n in SIZES {
        let values: Vec<f32> = (0..n as u64).map(|k| (mixed(k) >> 40) as f32 / 1e6 - 8.0).collect();
        let wide: Vec<f64> = values.iter().map(|&v| f64::from(v) * 1.1).collect();
        let half: Vec<f16> = values.iter().map(|&v| f16::from_f32(v)).collect();
        let single = by_rule(&values, |a, b| a + b);
        let double = by_rule(&wide, |a, b| a + b);
        let widened: Vec<f32> = half.iter().map(|v| v.to_f32()).collect();
        let halves: Vec<f16> = by_rule(&widened, |a, b| a + b).into_iter().map(f16::from_f32).collect();
        on_each(|device| {
            let scan = |v: &Var| v.scan(Op::Add, false, false, None);
            assert_eq!(read::<f32>(&scan(&upload(device, &values))), single, "{n}");
            assert_eq!(read::<f64>(&scan(&upload(device, &wide))), double, "{n}");
            assert_eq!(read::<f16>(&scan(&upload(device, &half))), halves, "{n}");
            let reversed: Vec<f32> = values.iter().rev().copied().collect();
            let mut back = read::<f32>(&upload(device, &reversed).scan(Op::Add, false, true, None));
            back.reverse();
            assert_eq!(back, single, "{n} from the end");
            let mut exclusive = read::<f32>(&upload(device, &values).scan(Op::Add, true, false, None));
            if n > 0 {
                assert_eq!(exclusive.remove(0).to_bits(), 0, "nothing is +0");
                assert_eq!(exclusive, single[..n - 1], "{n} exclusive");
            }
        });
    }
}

#[test]
fn extremes_ignore_nan_and_order_zeros() {
    let nan = f32::NAN;
    on_each(|device| {
        let values = upload(device, &[nan, 3.0f32, nan, -0.0, 0.0, -1.0, nan]);
        let min = read::<f32>(&values.scan(Op::Min, false, false, None));
        let bits = |v: &[f32]| v.iter().map(|x| x.to_bits()).collect::<Vec<u32>>();
        assert_eq!(bits(&min), bits(&[f32::INFINITY, 3.0, 3.0, -0.0, -0.0, -1.0, -1.0]));
        let max = read::<f32>(&values.scan(Op::Max, false, true, None));
        assert_eq!(bits(&max), bits(&[3.0, 3.0, 0.0, 0.0, 0.0, -1.0, f32::NEG_INFINITY]));
        let first = read::<f32>(&values.scan(Op::Max, true, false, None))[0];
        assert_eq!(first, f32::NEG_INFINITY);
        // A sum of nothing but -0 is -0.
        let zeros = read::<f64>(&upload(device, &[-0.0f64; 3]).scan(Op::Add, false, false, None));
        assert!(zeros.iter().all(|z| z.to_bits() == (-0.0f64).to_bits()));
    });
    for dtype in [DType::F16, DType::F32, DType::F64] {
        let values = elements(dtype, 5000);
        let reference = Builtin::Scan { combine: Op::Min, dtype, exclusive: false, reverse: false };
        let expected = reference.reference(&values, values.len(), 0);
        on_each(|device| {
            let got = read_bits(&upload_bits(device, dtype, &values).scan(Op::Min, false, false, None));
            assert_equal("min", dtype, &expected, &got);
        });
    }
}

/// Orders as sorting does, written from the definition.
pub(super) fn before(dtype: DType, a: u64, b: u64) -> std::cmp::Ordering {
    let float = |bits: u64| match dtype {
        DType::F16 => f16::from_bits(bits as u16).to_f64(),
        DType::F32 => f64::from(f32::from_bits(bits as u32)),
        _ => f64::from_bits(bits),
    };
    let signed = |bits: u64| (bits << (64 - dtype.bits())) as i64;
    if !dtype.is_float() {
        return if dtype.is_signed() { signed(a).cmp(&signed(b)) } else { a.cmp(&b) };
    }
    match (is_nan(dtype, a), is_nan(dtype, b)) {
        (false, false) => float(a).total_cmp(&float(b)),
        (a, b) => a.cmp(&b),
    }
}

#[test]
fn every_type_is_sorted_and_ties_keep_their_order() {
    for dtype in ALL_DTYPES {
        for n in SIZES.into_iter().filter(|&n| n <= 70_001) {
            let values = elements(dtype, n);
            let mut order: Vec<u64> = (0..n as u64).collect();
            order.sort_by(|&a, &b| before(dtype, values[a as usize], values[b as usize]));
            let sorted: Vec<u64> = order.iter().map(|&k| values[k as usize]).collect();
            on_each(|device| {
                let array = upload_bits(device, dtype, &values);
                assert_equal("sort", dtype, &sorted, &read_bits(&array.sort()));
                assert_eq!(read_bits(&array.argsort(DType::U32)), order, "argsort of {n} {dtype}");
                if n < 2000 {
                    assert_eq!(read_bits(&array.argsort(DType::U64)), order, "argsort of {n} {dtype}");
                }
            });
        }
    }
}

#[test]
fn what_is_true_is_selected() {
    for n in SIZES {
        for (name, test) in [("none", 0u64), ("all", 1), ("half", 2), ("few", 300)] {
            let mask: Vec<bool> = (0..n as u64).map(|k| test != 0 && mixed(k).is_multiple_of(test)).collect();
            let indices: Vec<u64> = (0..n as u64).filter(|&k| mask[k as usize]).collect();
            let mut padded = indices.clone();
            padded.resize(n, 0);
            on_each(|device| {
                let var = upload(device, &mask);
                assert_eq!(read_bits(&var.compress(DType::U32, None)), padded, "{name} of {n}");
                let exact = var.compress(DType::U64, Some(indices.len() as u64));
                assert_eq!(read_bits(&exact), indices, "{name} of {n}");
                let room = indices.len() as u64 / 2;
                assert_eq!(
                    read_bits(&var.compress(DType::U32, Some(room))),
                    indices[..room as usize],
                    "{name} of {n}"
                );
            });
        }
    }
}

#[test]
fn a_builtin_is_a_launch_between_others() {
    let (device, log) = recorded();
    let x = upload(device, &[3u32, 1, 2]);
    let doubled = apply(Op::Mul, &[&x, &lit(2u32)]);
    let totals = doubled.scan(Op::Add, false, false, None);
    let y = apply(Op::Add, &[&totals, &lit(1u32)]);
    assert_eq!(read::<u32>(&y), [7, 9, 13]);
    let scan = Builtin::Scan { combine: Op::Add, dtype: DType::U32, exclusive: false, reverse: false };
    assert_eq!(*log.builtins.lock(), [(scan, 24)]);
    assert_eq!(log.take().len(), 2, "what makes the operand, and what uses the result");
    let history = device.kernel_history();
    assert_eq!(history.iter().map(|k| (k.lanes, k.bytes)).collect::<Vec<_>>(), [(3, 24), (3, 24), (3, 24)]);
    // The same work of other sizes, and other lengths of sequences: no new plan, no new kernel.
    let kernel = history[1].kernel;
    device.clear_kernel_history();
    let compiled = log.compilations();
    let longer = apply(Op::Mul, &[&upload(device, &[1u32; 10]), &lit(2u32)]);
    let y = apply(Op::Add, &[&longer.scan(Op::Add, false, false, Some(4)), &lit(1u32)]);
    assert_eq!(read::<u32>(&y), [3, 5, 7, 9, 3, 5, 7, 9, 3, 5]);
    assert_eq!(log.compilations(), compiled);
    assert_eq!(device.kernel_history()[1].kernel, kernel);
    // Equal expressions are one, and run once.
    log.builtins.lock().clear();
    let (a, b) = (x.sort(), x.sort());
    assert!(a.same(&b));
    assert_eq!((read::<u32>(&a), read::<u32>(&b)), (vec![1, 2, 3], vec![1, 2, 3]));
    assert_eq!(log.builtins.lock().len(), 1);
}

#[test]
fn old_and_new_versions_of_memory_are_told_apart() {
    on_each(|device| {
        let mut x = upload(device, &[3u32, 1, 2]);
        let before = x.sort();
        x.scatter(Op::Scatter, &lit(0u32), &lit(0u32), None);
        let after = x.scan(Op::Add, false, false, None);
        assert_eq!(read::<u32>(&after), [0, 1, 3]);
        assert_eq!(read::<u32>(&before), [1, 2, 3]);
        // Into the result of a builtin, while it is held and when it is not.
        let sorted = x.sort();
        let mut written = sorted.clone();
        written.scatter(Op::ScatterAdd, &lit(10u32), &lit(1u32), None);
        assert_eq!(read::<u32>(&written), [0, 11, 2]);
        assert_eq!(read::<u32>(&sorted), [0, 1, 2]);
        let mut gone = x.sort();
        gone.scatter(Op::ScatterAdd, &lit(10u32), &lit(1u32), None);
        assert_eq!(read::<u32>(&gone), [0, 11, 2]);
    });
}

#[test]
fn chains_literals_and_regions() {
    on_each(|device| {
        let x = upload(device, &[3i16, -1, 2, 2]);
        let chained =
            x.sort().scan(Op::Add, false, false, None).argsort(DType::U32).scan(Op::Max, false, true, None);
        // -1 2 2 3; -1 1 3 6; 0 1 2 3; 3 3 3 3.
        assert_eq!(read::<u32>(&chained), [3, 3, 3, 3]);
        let full = Var::full(device, DType::F32, 0.5f32.to_bits().into(), 5);
        assert_eq!(read::<f32>(&full.scan(Op::Add, false, false, None)), [0.5, 1.0, 1.5, 2.0, 2.5]);
        let one = lit(f32::NAN).scan(Op::Min, false, false, None);
        assert_eq!(read::<f32>(&one), [f32::INFINITY]);
        assert_eq!(read::<f32>(&lit(2.5f32).scan(Op::Add, true, false, None)), [0.0]);
        // From outside of a loop it may be used inside.
        let s = while_loop(
            device,
            &[upload(device, &[0u32, 1]), lit(0i16)],
            |s| apply(Op::Lt, &[&s[0], &lit(3u32)]),
            |s| {
                vec![
                    apply(Op::Add, &[&s[0], &lit(1u32)]),
                    apply(Op::Add, &[&s[1], &x.sort().gather(&s[0], None)]),
                ]
            },
        );
        assert_eq!(read::<i16>(&s[1]), [-1 + 2 + 2, 2 + 2]);
        let inside = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            while_loop(
                device,
                &[upload(device, &[0u32, 1])],
                |s| apply(Op::Lt, &[&s[0], &lit(3u32)]),
                |s| vec![s[0].sort()],
            )
        }));
        let message = crate::devices::message(&*inside.expect_err("it panics"));
        assert!(message.contains("`sort`") && message.contains("loop"), "{message}");
        assert_eq!(read::<i16>(&x.sort()), [-1, 2, 2, 3], "and the device is as it was");
    });
}

#[test]
fn threads_change_nothing() {
    let values: Vec<f32> = (0..600_000).map(|k| (mixed(k) >> 40) as f32 / 1e6 - 8.0).collect();
    let results: Vec<_> = [1, 2, 3, 7]
        .map(|threads| {
            let options = jit_llvm::LlvmOptions { threads: Some(threads), ..Default::default() };
            let backend = jit_llvm::LlvmBackend::new(options).expect("LLVM is a requirement of the tests");
            let device = Device::new(std::sync::Arc::new(backend), Default::default());
            let x = upload(device, &values);
            let mask = apply(Op::Gt, &[&x, &lit(0.0f32)]);
            [
                x.scan(Op::Add, false, false, None),
                x.sort(),
                x.argsort(DType::U32),
                mask.compress(DType::U32, None),
            ]
            .map(|v| read_bits(&v))
        })
        .into_iter()
        .collect();
    assert!(results.windows(2).all(|pair| pair[0] == pair[1]));
}
