//! Reductions: their order, a function of the number of elements alone; their identities; NaN and zeros.

use half::f16;
use jit_core::dtype::{ALL_DTYPES, DType};
use jit_core::interp::Mode;
use jit_core::op::Op;
use jit_core::runtime::Device;
use jit_core::trace::{Var, while_loop};

use super::check::{Column, apply, bits, cast, column, same, show};
use super::exact::{self, decode, encode};
use super::grid::{FLOATS, integers, limits, value, wrapped};
use crate::devices::on_each;
use crate::host::{lit, read, read_bits, upload, upload_bits};

/// The numbers of elements around each step of the rule.
const SIZES: [usize; 13] = [1, 2, 3, 64, 127, 128, 129, 1023, 1024, 1025, 2049, 5000, 100_003];

/// The rule, written from its definition: chunks, 128 accumulators in each, halving, and again.
pub(super) fn by_rule<T: Copy>(values: &[T], filler: T, combine: impl Fn(T, T) -> T + Copy) -> T {
    let mut chunk = 1024;
    while chunk < 65536 && chunk * 4096 < values.len() {
        chunk *= 2;
    }
    let mut results = Vec::new();
    for elements in values.chunks(chunk) {
        let mut accumulators = vec![filler; 128];
        for (i, &element) in elements.iter().enumerate() {
            accumulators[i % 128] = combine(accumulators[i % 128], element);
        }
        while accumulators.len() > 1 {
            let upper = accumulators.split_off(accumulators.len() / 2);
            for (k, value) in upper.into_iter().enumerate() {
                accumulators[k] = combine(accumulators[k], value);
            }
        }
        results.push(accumulators[0]);
    }
    match results[..] {
        [one] => one,
        _ => by_rule(&results, filler, combine),
    }
}

/// A reduction gives that value: of an array in memory, of a fused producer, in what follows it, in a loop.
fn check(op: Op, values: &Column, expected: u64) {
    let Column { dtype, bits } = values;
    let n = bits.len();
    let compare = |position: &str, got: Vec<u64>| {
        assert!(
            got.len() == 1 && same(*dtype, expected, got[0], false),
            "{} of {n} {dtype}, {position}: {}, not {}",
            op.name(),
            show(*dtype, got[0]),
            show(*dtype, expected)
        );
    };
    on_each(|device| {
        let array = upload_bits(device, *dtype, bits);
        compare("evaluated", read_bits(&array.reduce(op)));
        if *dtype != DType::Bool {
            let producer = Var::apply(Op::Bitcast, *dtype, &[&upload_bits(device, dtype.unsigned(), bits)]);
            compare("fused", read_bits(&producer.reduce(op)));
        }
        let condition = upload(device, &[true, false]);
        let used = apply(Op::Select, &[&condition, &array.reduce(op), &Var::literal(*dtype, 0)]);
        compare("used by other lanes", read_bits(&used)[..1].to_vec());
        let after = while_loop(
            device,
            &[upload(device, &[0u32]), Var::literal(*dtype, 0)],
            |s| apply(Op::Lt, &[&s[0], &lit(1u32)]),
            |s| vec![apply(Op::Add, &[&s[0], &lit(1u32)]), array.reduce(op)],
        );
        compare("used in a loop", read_bits(&after[1]));
    });
}

/// Numbers of both signs whose magnitudes span about 2^20, so that sums depend on their order.
pub(super) fn numbers(n: usize) -> impl Iterator<Item = f64> {
    (0..n as u64).map(|k| {
        let mixed = (k + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let fraction = (mixed >> 40) as f64 / f64::from(1 << 23) - 1.0;
        fraction * 0.5f64.powi((mixed >> 8 & 0xf) as i32)
    })
}

#[test]
fn float_sums_have_the_order_of_the_rule() {
    for n in SIZES {
        let wide: Vec<f64> = numbers(n).collect();
        let single: Vec<f32> = wide.iter().map(|&v| v as f32).collect();
        check(Op::ReduceSum, &column(&single), by_rule(&single, -0.0, |a, b| a + b).to_bits().into());
        check(Op::ReduceSum, &column(&wide), by_rule(&wide, -0.0, |a, b| a + b).to_bits());
    }
}

#[test]
fn the_order_of_the_rule_is_told_from_others() {
    let values: Vec<f32> = numbers(100_003).map(|v| v as f32).collect();
    let rule = by_rule(&values, -0.0, |a, b| a + b);
    assert_ne!(rule, values.iter().sum::<f32>(), "one after the other");
    let in_eights: f32 = (0..8).map(|k| values.iter().skip(k).step_by(8).sum::<f32>()).sum();
    assert_ne!(rule, in_eights, "eight lanes");
}

#[test]
fn elements_128_apart_share_an_accumulator() {
    let with = |places: &[(usize, f32)]| {
        let mut values = vec![-0.0f32; 129];
        places.iter().for_each(|&(k, v)| values[k] = v);
        column(&values)
    };
    let sum = |places: &[(usize, f32)], expected: f32| {
        check(Op::ReduceSum, &with(places), expected.to_bits().into());
    };
    // 1 meets 1e8 first and is lost; in another accumulator it comes after 1e8 - 1e8.
    sum(&[(0, 1e8), (64, -1e8), (128, 1.0)], 0.0);
    sum(&[(0, 1e8), (64, -1e8), (1, 1.0)], 1.0);
    // Halving adds 64 before 32, and 32 before 1.
    sum(&[(0, 1e8), (32, 1.0), (64, -1e8)], 1.0);
    sum(&[(0, 1e8), (32, -1e8), (64, 1.0)], 0.0);
    sum(&[(0, 1e8), (1, 1.0), (32, -1e8)], 1.0);
}

#[test]
fn the_chunk_grows_past_4096_chunks() {
    for n in [4096 * 1024, 4096 * 1024 + 1] {
        let values: Vec<f32> = numbers(n).map(|v| v as f32).collect();
        let expected = by_rule(&values, -0.0, |a, b| a + b);
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        on_each(|device| {
            let array = Var::upload(device, DType::F32, n as u64, &bytes).expect("memory");
            let got = read::<f32>(&array.reduce(Op::ReduceSum))[0];
            assert_eq!(got.to_bits(), expected.to_bits(), "{n} elements: {got}, not {expected}");
        });
    }
}

#[test]
fn f16_accumulates_in_f32() {
    let half = |v: f32| f16::from_f32(v);
    // In f16 each 2^-11 added to 1 is lost.
    let mut values = vec![half(1.0 / 2048.0); 129];
    values[0] = half(1.0);
    check(Op::ReduceSum, &column(&values), half(1.0625).to_bits().into());
    // The sum passes 65504 on the way.
    check(Op::ReduceSum, &column(&[60000.0, 60000.0, -60000.0].map(half)), half(60000.0).to_bits().into());
    check(
        Op::ReduceProd,
        &column(&[300.0, 300.0, 1.0 / 1024.0].map(half)),
        half(87.890_625).to_bits().into(),
    );
    for n in SIZES {
        let values: Vec<f16> = numbers(n).map(f16::from_f64).collect();
        let wide: Vec<f32> = values.iter().map(|v| v.to_f32()).collect();
        let sum = by_rule(&wide, -0.0, |a, b| a + b);
        check(Op::ReduceSum, &column(&values), encode(DType::F16, decode(DType::F32, sum.to_bits().into())));
    }
}

#[test]
fn float_products_have_the_order_of_the_rule() {
    for n in SIZES {
        let values: Vec<f32> = numbers(n).map(|v| 1.0 + v as f32 * 0.01).collect();
        check(Op::ReduceProd, &column(&values), by_rule(&values, 1.0, |a, b| a * b).to_bits().into());
    }
}

#[test]
fn a_literal_is_summed_as_an_array_is() {
    for n in SIZES {
        let expected = by_rule(&vec![0.1f32; n], -0.0, |a, b| a + b);
        on_each(|device| {
            let got = read::<f32>(
                &Var::full(device, DType::F32, 0.1f32.to_bits().into(), n as u64).reduce(Op::ReduceSum),
            );
            assert_eq!(got, [expected], "{n} times 0.1");
        });
    }
    let n = 10_000_000;
    let expected = by_rule(&vec![0.1f32; n], -0.0, |a, b| a + b);
    let device = Device::interpreter(Mode::Lowered);
    let literal = Var::full(device, DType::F32, 0.1f32.to_bits().into(), n as u64);
    assert_eq!(read::<f32>(&literal.reduce(Op::ReduceSum)), [expected]);
}

#[test]
fn fusion_changes_no_bit_of_a_sum() {
    let (x, y): (Vec<f32>, Vec<f32>) = numbers(5000).map(|v| (v as f32, 1.0 / (v as f32 + 2.0))).unzip();
    let products: Vec<f32> = x.iter().zip(&y).map(|(x, y)| x * y).collect();
    let dot = by_rule(&products, -0.0, |a, b| a + b);
    on_each(|device| {
        let (x, y) = (upload(device, &x), upload(device, &y));
        let product = apply(Op::Mul, &[&x, &y]);
        let (sum, least) = (product.reduce(Op::ReduceSum), product.reduce(Op::ReduceMin));
        let mean = apply(Op::Div, &[&sum, &cast(DType::F32, &product.lane_count())]);
        assert_eq!(read::<f32>(&mean), [dot / 5000.0], "the mean");
        assert_eq!(read::<f32>(&sum), [dot], "the sum");
        let expected = products.iter().copied().fold(f32::INFINITY, f32::min);
        assert_eq!(read::<f32>(&least), [expected], "the least");
    });
}

#[test]
fn sums_of_negative_zeros_are_negative_zero() {
    for dtype in FLOATS {
        for n in [1, 2, 127, 128, 129, 1025] {
            let zeros = bits(dtype, &vec![exact::sign(dtype); n]);
            check(Op::ReduceSum, &zeros, exact::sign(dtype));
            let mut mixed = zeros;
            mixed.bits[n - 1] = 0;
            check(Op::ReduceSum, &mixed, 0);
        }
    }
}

#[test]
fn no_elements_give_the_identity() {
    for dtype in ALL_DTYPES {
        let none = Column { dtype, bits: Vec::new() };
        if dtype == DType::Bool {
            check(Op::ReduceAnd, &none, 1);
            check(Op::ReduceOr, &none, 0);
            check(Op::ReduceXor, &none, 0);
            continue;
        }
        let one = if dtype.is_float() { encode(dtype, exact::integer(1)) } else { 1 };
        let (low, high) = match dtype.is_float() {
            true => (exact::infinity(dtype) | exact::sign(dtype), exact::infinity(dtype)),
            false => (wrapped(dtype, limits(dtype).0), wrapped(dtype, limits(dtype).1)),
        };
        // A float sum of nothing is +0.
        check(Op::ReduceSum, &none, 0);
        check(Op::ReduceProd, &none, one);
        check(Op::ReduceMin, &none, high);
        check(Op::ReduceMinimum, &none, high);
        check(Op::ReduceMax, &none, low);
        check(Op::ReduceMaximum, &none, low);
        if dtype.is_int() {
            check(Op::ReduceAnd, &none, dtype.mask());
            check(Op::ReduceOr, &none, 0);
            check(Op::ReduceXor, &none, 0);
        }
    }
}

#[test]
fn the_mean_of_nothing_is_nan() {
    on_each(|device| {
        let empty = upload::<f32>(device, &[]);
        let count = cast(DType::F32, &empty.lane_count());
        let mean = read::<f32>(&apply(Op::Div, &[&empty.reduce(Op::ReduceSum), &count]))[0];
        assert!(mean.is_nan(), "{mean}");
    });
}

#[test]
fn lane_counts_are_numbers_of_elements() {
    assert_eq!(lit(5f32).lane_count().literal_bits(), Some(1));
    on_each(|device| {
        for n in [0, 1, 2, 1000] {
            let array = Var::full(device, DType::U8, 0, n);
            assert_eq!(read::<u64>(&array.lane_count()), [n]);
        }
    });
}

#[test]
fn integers_reduce_in_their_own_type() {
    check(Op::ReduceSum, &column(&[100i8, 100, 100]), 44);
    check(Op::ReduceSum, &column(&[i16::MAX, 1]), 0x8000);
    check(Op::ReduceProd, &column(&[16u8, 16, 3]), 0);
    for dtype in integers() {
        for n in [1, 2, 129, 1025] {
            let all: Vec<u64> = (0..n as u64)
                .map(|k| (k + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17) & dtype.mask())
                .collect();
            let values = bits(dtype, &all);
            let numbers = || all.iter().map(|&b| value(dtype, b));
            check(Op::ReduceSum, &values, wrapped(dtype, numbers().fold(0, i128::wrapping_add)));
            check(Op::ReduceProd, &values, wrapped(dtype, numbers().fold(1, i128::wrapping_mul)));
            for op in [Op::ReduceMin, Op::ReduceMinimum] {
                check(op, &values, wrapped(dtype, numbers().min().expect("some")));
            }
            for op in [Op::ReduceMax, Op::ReduceMaximum] {
                check(op, &values, wrapped(dtype, numbers().max().expect("some")));
            }
            check(Op::ReduceAnd, &values, all.iter().fold(dtype.mask(), |a, b| a & b));
            check(Op::ReduceOr, &values, all.iter().fold(0, |a, b| a | b));
            check(Op::ReduceXor, &values, all.iter().fold(0, |a, b| a ^ b));
        }
    }
}

#[test]
fn bools_reduce_by_the_logical_ops() {
    for n in [1, 129, 1025] {
        let mut values = vec![true; n];
        check(Op::ReduceAnd, &column(&values), 1);
        check(Op::ReduceXor, &column(&values), n as u64 & 1);
        values[n - 1] = false;
        check(Op::ReduceAnd, &column(&values), 0);
        let mut values = vec![false; n];
        check(Op::ReduceOr, &column(&values), 0);
        values[n / 2] = true;
        check(Op::ReduceOr, &column(&values), 1);
    }
}

#[test]
fn min_and_max_of_all_lanes_ignore_nan() {
    for dtype in FLOATS {
        let number = |v: f64| encode(dtype, decode(DType::F64, v.to_bits()));
        for n in [2, 129, 1030] {
            for at in [0, n / 2, n - 1] {
                let mut values = vec![exact::nan(dtype); n];
                values[at] = number(-2.0);
                for op in [Op::ReduceMin, Op::ReduceMax] {
                    check(op, &bits(dtype, &values), number(-2.0));
                }
                values.fill(number(3.0));
                values[at] = exact::nan(dtype);
                for op in [Op::ReduceMin, Op::ReduceMax] {
                    check(op, &bits(dtype, &values), number(3.0));
                }
            }
        }
    }
}

#[test]
fn min_of_nan_alone_is_the_identity() {
    // A NaN is ignored, however many there are, so what is left is what no elements give.
    for dtype in FLOATS {
        for n in [1, 2, 128, 1025] {
            let values = bits(dtype, &vec![exact::nan(dtype); n]);
            check(Op::ReduceMin, &values, exact::infinity(dtype));
            check(Op::ReduceMax, &values, exact::infinity(dtype) | exact::sign(dtype));
        }
    }
    assert_eq!(lit(f32::NAN).reduce(Op::ReduceMin).literal_bits(), Some(f32::INFINITY.to_bits().into()));
}

#[test]
fn minimum_and_maximum_of_all_lanes_propagate_nan() {
    for dtype in FLOATS {
        for n in [1, 2, 129, 1030] {
            for at in [0, n / 2, n - 1] {
                let mut values = vec![0; n];
                values[at] = exact::nan(dtype);
                check(Op::ReduceMinimum, &bits(dtype, &values), exact::nan(dtype));
                check(Op::ReduceMaximum, &bits(dtype, &values), exact::nan(dtype));
            }
        }
    }
}

#[test]
fn all_four_order_zeros() {
    for dtype in FLOATS {
        for n in [2, 129, 1030] {
            for at in [0, n / 2, n - 1] {
                let mut values = vec![0; n];
                values[at] = exact::sign(dtype);
                for op in [Op::ReduceMin, Op::ReduceMinimum] {
                    check(op, &bits(dtype, &values), exact::sign(dtype));
                }
                let mut values = vec![exact::sign(dtype); n];
                values[at] = 0;
                for op in [Op::ReduceMax, Op::ReduceMaximum] {
                    check(op, &bits(dtype, &values), 0);
                }
            }
        }
    }
}

#[test]
fn sums_propagate_nan_and_infinity() {
    let mut values = vec![1.0f32; 1025];
    values[700] = f32::INFINITY;
    check(Op::ReduceSum, &column(&values), f32::INFINITY.to_bits().into());
    values[3] = f32::NEG_INFINITY;
    check(Op::ReduceSum, &column(&values), f32::NAN.to_bits().into());
    values[3] = f32::NAN;
    check(Op::ReduceSum, &column(&values), f32::NAN.to_bits().into());
}

#[test]
fn one_element_is_its_own_reduction() {
    for dtype in FLOATS {
        for value in super::grid::float_grid(dtype) {
            let value = if decode(dtype, value) == exact::Number::Nan { continue } else { value };
            for op in [Op::ReduceSum, Op::ReduceProd, Op::ReduceMin, Op::ReduceMaximum] {
                check(op, &bits(dtype, &[value]), value);
                assert_eq!(Var::literal(dtype, value).reduce(op).literal_bits(), Some(value));
            }
        }
    }
}
