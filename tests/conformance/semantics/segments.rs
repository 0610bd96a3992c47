//! Reductions of blocks, rows and columns: each is reduced as if it were alone; and reductions by closures.

use jit_core::dtype::{ALL_DTYPES, DType};
use jit_core::op::{ALL_OPS, Class, Op};
use jit_core::reduce;
use jit_core::runtime::Device;
use jit_core::trace::{Division, Reducing, Var, checked_reduction, eval};

use super::check::{apply, same, show};
use super::reductions::{by_rule, numbers};
use crate::devices::on_each;
use crate::host::{lit, read, read_bits, upload, upload_bits};

/// Elements and lengths: of rows around vectors, accumulators and chunks; the last row full, shorter, or the only one.
const ROWS: [(usize, u64); 16] = [
    (0, 4),
    (1, 4),
    (33, 1),
    (50, 7),
    (51, 17),
    (300, 128),
    (300, 129),
    (2600, 100),
    (2046, 1023),
    (2050, 1024),
    (2051, 1025),
    (7000, 2049),
    (5000, 5000),
    (5000, 9000),
    (100_003, 3),
    (100_003, 5000),
];

/// Elements and numbers of columns.
const COLUMNS: [(usize, u64); 14] = [
    (0, 3),
    (1, 1),
    (9, 9),
    (12, 3),
    (17 * 4, 17),
    (127 * 5, 127),
    (129 * 128, 129),
    (3 * 129, 3),
    (2 * 1025, 2),
    (16 * 1030, 16),
    (5 * 5000, 5),
    (130 * 260, 130),
    (20_000, 20_000),
    (4096, 1),
];

/// The elements of each segment, in order.
fn segments(bits: &[u64], division: Division) -> Vec<Vec<u64>> {
    let length = division.length() as usize;
    if division == Division::rows(division.length()) {
        return bits.chunks(length).map(<[u64]>::to_vec).collect();
    }
    (0..length).map(|column| bits.iter().skip(column).step_by(length).copied().collect()).collect()
}

fn divisions() -> impl Iterator<Item = (usize, Division)> {
    let rows = ROWS.iter().map(|&(n, length)| (n, Division::rows(length)));
    rows.chain(COLUMNS.iter().map(|&(n, length)| (n, Division::columns(length))))
}

fn reductions_of(dtype: DType) -> impl Iterator<Item = (Op, Op)> {
    let by_op = |op: &Op| Some((*op, op.combine().filter(|_| op.class() == Class::Reduce)?));
    ALL_OPS.iter().filter_map(by_op).filter(move |(op, _)| op.result_type(&[dtype], dtype).is_ok())
}

/// Elements of a type with all kinds of bits, and for floats mostly numbers.
fn elements(dtype: DType, n: usize) -> Vec<u64> {
    let bits = |k: u64| (k + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) & dtype.mask();
    if !dtype.is_float() {
        return (0..n as u64).map(bits).collect();
    }
    let number = |(k, v): (usize, f64)| match k % 997 {
        996 => bits(k as u64),
        _ => jit_core::op::scalar::cast(DType::F64, dtype, v.to_bits()),
    };
    numbers(n).enumerate().map(number).collect()
}

#[track_caller]
fn compare(what: &str, dtype: DType, expected: &[u64], got: &[u64]) {
    assert_eq!(expected.len(), got.len(), "{what}");
    for (k, (&expected, &got)) in expected.iter().zip(got).enumerate() {
        let (wanted, found) = (show(dtype, expected), show(dtype, got));
        assert!(same(dtype, expected, got, false), "{what}, segment {k}: {found}, not {wanted}");
    }
}

#[test]
fn each_segment_is_reduced_as_if_alone() {
    for dtype in ALL_DTYPES {
        for (n, division) in divisions() {
            let bits = elements(dtype, n);
            let segments = segments(&bits, division);
            let wide = |op: Op| dtype == DType::F16 && matches!(op, Op::ReduceSum | Op::ReduceProd);
            let ops: Vec<(Op, Op)> = reductions_of(dtype).collect();
            let expected: Vec<Vec<u64>> = ops
                .iter()
                .map(|&(op, combine)| {
                    let cast = jit_core::op::scalar::cast;
                    let one = |segment: &Vec<u64>| {
                        if wide(op) {
                            let single = segment.iter().map(|&b| cast(DType::F16, DType::F32, b)).collect();
                            return cast(DType::F32, DType::F16, reduce::fold(combine, DType::F32, single));
                        }
                        reduce::fold(combine, dtype, segment.clone())
                    };
                    segments.iter().map(one).collect()
                })
                .collect();
            on_each(|device| {
                let array = upload_bits(device, dtype, &bits);
                let results: Vec<Var> = ops.iter().map(|&(op, _)| array.reduce_by(op, division)).collect();
                eval(&results.iter().collect::<Vec<_>>(), &[]).expect("evaluation");
                for (((op, _), expected), result) in ops.iter().zip(&expected).zip(&results) {
                    let what = format!("{} of {n} {dtype} by {division:?}", op.name());
                    compare(&what, dtype, expected, &read_bits(result));
                }
            });
        }
    }
}

#[test]
fn float_sums_of_segments_have_the_order_of_the_rule() {
    for (n, division) in divisions() {
        let (wide, single): (Vec<f64>, Vec<f32>) = numbers(n).map(|v| (v, v as f32)).unzip();
        let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<u64>>();
        let of_each = |bits: &[u64], sum: &dyn Fn(&[u64]) -> u64| -> Vec<u64> {
            segments(bits, division).iter().map(|s| if s.is_empty() { 0 } else { sum(s) }).collect()
        };
        let expected = of_each(&bits(&wide), &|s| {
            let values: Vec<f64> = s.iter().map(|&b| f64::from_bits(b)).collect();
            by_rule(&values, -0.0, |a, b| a + b).to_bits()
        });
        let narrow: Vec<u64> = single.iter().map(|v| v.to_bits().into()).collect();
        let expected_narrow = of_each(&narrow, &|s| {
            let values: Vec<f32> = s.iter().map(|&b| f32::from_bits(b as u32)).collect();
            by_rule(&values, -0.0, |a, b| a + b).to_bits().into()
        });
        on_each(|device| {
            let what = format!("the sum of {n} by {division:?}");
            let sum = upload(device, &wide).reduce_by(Op::ReduceSum, division);
            compare(&what, DType::F64, &expected, &read_bits(&sum));
            let sum = upload(device, &single).reduce_by(Op::ReduceSum, division);
            compare(&what, DType::F32, &expected_narrow, &read_bits(&sum));
        });
    }
}

#[test]
fn what_follows_a_segment_is_its_own() {
    // Lanes of results, memory of as many, one number for all, and the segment's number, in the finish and after it.
    on_each(|device| {
        for (n, division) in
            [(1000, Division::rows(30)), (1024, Division::columns(32)), (2048, Division::rows(2048))]
        {
            let bits = elements(DType::U32, n);
            let array = upload_bits(device, DType::U32, &bits);
            let sum = array.reduce_by(Op::ReduceSum, division);
            let count = sum.size();
            let scale = upload(device, &(0..count as u32).map(|k| k * k + 1).collect::<Vec<_>>());
            let number = Var::counter(device, DType::U32, count);
            let one = upload(device, &[7u32]);
            let scaled = apply(Op::Mul, &[&sum, &scale]);
            let result = apply(Op::Add, &[&apply(Op::Add, &[&scaled, &number]), &one]);
            let expected: Vec<u32> =
                segments(&bits, if n == 2048 { Division::rows(n as u64) } else { division })
                    .iter()
                    .zip(0u32..)
                    .map(|(s, k)| {
                        let sum = s.iter().fold(0u32, |a, &b| a.wrapping_add(b as u32));
                        sum.wrapping_mul(k * k + 1).wrapping_add(k).wrapping_add(7)
                    })
                    .collect();
            assert_eq!(read::<u32>(&result), expected, "{division:?}");
        }
    });
}

#[test]
fn results_of_segments_are_gathered_and_broadcast() {
    on_each(|device| {
        let array = upload(device, &(0..100u32).collect::<Vec<_>>());
        let sums = array.reduce_by(Op::ReduceSum, Division::rows(10));
        let index = apply(Op::Div, &[&Var::counter(device, DType::U32, 100), &lit(10u32)]);
        let own = sums.gather(&index, None);
        let left = apply(Op::Sub, &[&own, &array]).reduce_by(Op::ReduceMax, Division::columns(10));
        // The largest in column c is in the last row: sum 945 less 90 + c.
        assert_eq!(read::<u32>(&left), (0..10).map(|c| 945 - 90 - c).collect::<Vec<u32>>());
    });
}

/// `(x, number of lanes)`, where the larger x wins, and of equal ones the counts add up.
fn largest_and_count(states: &[Var], division: Division, device: Device) -> Vec<Var> {
    let reducing = Reducing { name: "largest", division, partial: None };
    let dtype = states[0].dtype();
    checked_reduction(device, &reducing, states, &[Var::literal(dtype, 0), lit(0u32)], |a, b| {
        let more = apply(Op::Gt, &[&a[0], &b[0]]);
        let less = Var::apply(Op::Lt, DType::Bool, &[&a[0], &b[0]]);
        let both = apply(Op::Add, &[&a[1], &b[1]]);
        let more = Var::apply(Op::Bitcast, DType::U8, &[&Var::apply(Op::Cast, DType::U8, &[&more])]);
        let more = Var::apply(Op::Ne, DType::Bool, &[&more, &lit(0u8)]);
        let count = apply(Op::Select, &[&more, &a[1], &apply(Op::Select, &[&less, &b[1], &both])]);
        Ok(vec![apply(Op::Max, &[&a[0], &b[0]]), count])
    })
}

#[test]
fn closures_combine_states_of_every_unsigned_type() {
    for dtype in [DType::U8, DType::U16, DType::U32, DType::U64] {
        for (n, division) in
            divisions().chain([0, 1, 2, 127, 128, 129, 1024, 1025, 70_001].map(|n| (n, Division::ALL)))
        {
            let bits: Vec<u64> = elements(dtype, n).iter().map(|b| b % 23).collect();
            let segments =
                if division == Division::ALL { vec![bits.clone()] } else { segments(&bits, division) };
            let largest: Vec<u64> = segments.iter().map(|s| s.iter().copied().max().unwrap_or(0)).collect();
            let counts: Vec<u64> = segments
                .iter()
                .zip(&largest)
                .map(|(s, most)| s.iter().filter(|b| *b == most).count() as u64)
                .collect();
            on_each(|device| {
                let array = upload_bits(device, dtype, &bits);
                let found = largest_and_count(&[array, lit(1u32)], division, device);
                let what = format!("{n} {dtype} by {division:?}");
                compare(&what, dtype, &largest, &read_bits(&found[0]));
                compare(&what, DType::U32, &counts, &read_bits(&found[1]));
            });
        }
    }
}

/// A sum by a closure has the order of the rule, as its own op has.
#[test]
fn closures_combine_in_the_order_of_the_rule() {
    for (n, division) in divisions().chain([(100_003, Division::ALL), (4096 * 1024 + 1, Division::ALL)]) {
        let values: Vec<f32> = numbers(n).map(|v| v as f32).collect();
        on_each(|device| {
            if n > 200_000 && device.kind() == jit_core::backend::DeviceKind::Interpreter {
                return;
            }
            let array = upload(device, &values);
            let reducing = Reducing { name: "sum", division, partial: None };
            let sum = checked_reduction(
                device,
                &reducing,
                std::slice::from_ref(&array),
                &[lit(-0.0f32)],
                |a, b| Ok(vec![apply(Op::Add, &[&a[0], &b[0]])]),
            );
            let own = array.reduce_by(Op::ReduceSum, division);
            let (sum, own) = (read_bits(&sum[0]), read_bits(&own));
            if n > 0 {
                assert_eq!(sum, own, "{n} by {division:?}");
            }
        });
    }
}

/// Whether an element comes before its identity shows in what does not commute; both devices agree on that too.
#[test]
fn closures_that_do_not_commute_give_the_same_on_every_device() {
    for (n, division) in divisions().chain([1, 3, 130, 5000].map(|n| (n, Division::ALL))) {
        let bits = elements(DType::U32, n);
        let mut all: Vec<Vec<u64>> = Vec::new();
        let results = std::cell::RefCell::new(&mut all);
        on_each(|device| {
            let array = upload_bits(device, DType::U32, &bits);
            let reducing = Reducing { name: "mix", division, partial: None };
            let mixed = checked_reduction(device, &reducing, &[array], &[lit(5u32)], |a, b| {
                Ok(vec![apply(Op::Sub, &[&apply(Op::Mul, &[&a[0], &lit(31u32)]), &b[0]])])
            });
            results.borrow_mut().push(read_bits(&mixed[0]));
        });
        assert!(all.iter().all(|result| *result == all[0]), "{n} by {division:?}");
    }
}

#[test]
fn mathematics_in_closures_is_that_of_everywhere() {
    let values: Vec<f32> = numbers(3000).map(|v| v as f32).collect();
    let mut all: Vec<Vec<u64>> = Vec::new();
    let results = std::cell::RefCell::new(&mut all);
    on_each(|device| {
        let array = upload(device, &values);
        let scale = upload(device, &[0.25f32]);
        let reducing = Reducing { name: "log-sum-exp", division: Division::rows(700), partial: None };
        let total = checked_reduction(device, &reducing, &[array], &[lit(f32::NEG_INFINITY)], |a, b| {
            let most = apply(Op::Max, &[&a[0], &b[0]]);
            let least = apply(Op::Min, &[&a[0], &b[0]]);
            let ratio = apply(Op::Exp, &[&apply(Op::Sub, &[&least, &most])]);
            let wave =
                apply(Op::Mul, &[&apply(Op::Sin, &[&apply(Op::Mul, &[&ratio, &lit(9e5f32)])]), &scale]);
            Ok(vec![apply(Op::Add, &[&most, &apply(Op::Ln, &[&apply(Op::Add, &[&lit(2f32), &wave])])])])
        });
        results.borrow_mut().push(read_bits(&total[0]));
    });
    assert!(all.iter().all(|result| *result == all[0]), "{all:x?}");
    assert_eq!(all[0].len(), 5);
}
