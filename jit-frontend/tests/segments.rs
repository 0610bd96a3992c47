//! Reductions of blocks, rows and columns, and what is built on reductions by closures.

use jit_frontend as jit;
use jit_frontend::prelude::*;
use jit_frontend::{Error, Float, Num, f16};

use crate::support::{array, fresh, on_each, panic_of, values};

#[test]
fn blocks_rows_and_columns() {
    on_each(|dev| {
        let a = Array::from_slice(&[1i32, 2, 3, 4, 5, 6], dev).expect("memory");
        assert_eq!(values(&a.sum_blocks(4)), [10, 11]);
        assert_eq!(values(&a.sum_blocks(1)), [1, 2, 3, 4, 5, 6]);
        assert_eq!(values(&a.sum_blocks(6)), [21]);
        assert_eq!(values(&a.sum_blocks(100)), [21]);
        assert_eq!(values(&a.sum_rows(3)), [6, 15]);
        assert_eq!(values(&a.sum_cols(3)), [5, 7, 9]);
        assert_eq!(values(&a.sum_cols(1)), [21]);
        assert_eq!(values(&a.sum_cols(6)), [1, 2, 3, 4, 5, 6]);
        assert_eq!(values(&a.prod_rows(2)), [2, 12, 30]);
        assert_eq!(values(&a.reduce_min_cols(2)), [1, 2]);
        assert_eq!(values(&a.reduce_max_blocks(4)), [4, 6]);
        assert_eq!(values(&a.reduce_minimum_rows(3)), [1, 4]);
        assert_eq!(values(&a.reduce_maximum_cols(3)), [4, 5, 6]);
        assert_eq!(values(&a.reduce_and_blocks(3)), [0, 4]);
        assert_eq!(values(&a.reduce_or_cols(3)), [5, 7, 7]);
        assert_eq!(values(&a.reduce_xor_rows(3)), [0, 7]);
        let even = (&a % 2).eq(0);
        assert_eq!(values(&even.any_blocks(1)), [false, true, false, true, false, true]);
        assert_eq!(values(&even.all_cols(2)), [false, true]);
        assert_eq!(values(&even.any_rows(3)), [true, true]);
        assert_eq!(values(&even.count_blocks(4)), [2, 1]);
        assert_eq!(values(&even.count_u64_cols(3)), [1, 1, 1]);
        assert_eq!(values(&a.cast::<f32>().mean_blocks(4)), [2.5, 5.5]);
        assert_eq!(values(&a.cast::<f16>().mean_cols(3)), [2.5, 3.5, 4.5].map(f16::from_f32));
        assert_eq!(values(&a.cast::<f64>().var_rows(3)), [2.0 / 3.0; 2]);
        assert_eq!(values(&a.argmax_blocks(4)), [3, 1]);
        assert_eq!(values(&a.argmin_rows(3)), [0, 0]);
        assert_eq!(values(&a.argmax_cols(3)), [1, 1, 1]);
        assert_eq!(values(&a.argmax_u64_rows(2)), [1, 1, 1]);
    });
}

#[test]
fn nothing_in_blocks_rows_and_columns() {
    on_each(|dev| {
        let none = Array::<f32>::from_slice(&[], dev).expect("memory");
        assert_eq!(values(&none.sum_blocks(3)), [] as [f32; 0]);
        assert_eq!(values(&none.sum_rows(3)), [] as [f32; 0]);
        assert_eq!(values(&none.sum_cols(3)), [0.0; 3]);
        assert_eq!(values(&none.reduce_min_cols(2)), [f32::INFINITY; 2]);
        assert!(values(&none.mean_cols(2)).iter().all(|v| v.is_nan()));
        assert!(values(&none.var_cols(2)).iter().all(|v| v.is_nan()));
        assert_eq!(values(&none.var_blocks(2)), [] as [f32; 0]);
        assert!(values(&none.var())[0].is_nan());
        let mask = none.lt(0.0);
        assert_eq!((values(&mask.count_cols(2)), values(&mask.all_cols(2))), (vec![0; 2], vec![true; 2]));
    });
}

#[test]
fn literals_are_blocks_of_one() {
    let one = Array::from(7.0f32);
    assert_eq!(one.sum_blocks(4).item().expect("a literal"), 7.0);
    assert_eq!(one.sum_rows(1).item().expect("a literal"), 7.0);
    assert_eq!(one.argmin().item().expect("a literal"), 0);
    assert_eq!(one.mean_cols(1).item().expect("a literal"), 7.0);
}

#[test]
fn misuse_says_what_to_do() {
    let a = array(&[1.0f32, 2.0, 3.0]);
    for (message, wanted) in [
        (panic_of(|| a.sum_blocks(0)), "at least one element"),
        (panic_of(|| a.sum_cols(0)), "at least one element"),
        (panic_of(|| a.sum_rows(2)), "a matrix of 2 columns is not made of 3 elements"),
        (panic_of(|| a.reduce_min_cols(2)), "3 elements are no rows of 2"),
        (panic_of(|| a.var_blocks(0)), "at least one element"),
        (panic_of(|| a.mean_cols(2)), "3 elements are no rows of 2"),
        (panic_of(|| a.argmin_blocks(0)), "at least one element"),
        (panic_of(|| a.argmax_u64_cols(2)), "3 elements are no rows of 2"),
        (panic_of(|| a.lt(1.0).any_blocks(0)), "at least one element"),
        (panic_of(|| a.lt(1.0).all_cols(2)), "3 elements are no rows of 2"),
        (panic_of(|| a.lt(1.0).count_blocks(0)), "at least one element"),
        (panic_of(|| a.lt(1.0).count_u64_rows(2)), "a matrix of 2 columns"),
    ] {
        assert!(message.0.contains(wanted) && message.1.ends_with("segments.rs"), "{message:?}");
    }
    let dev = fresh();
    let (many, wide) = (Array::<u8>::zeros(1 << 32, &dev), array(&[1.0f32, 2.0]));
    for (message, wanted) in [
        (panic_of(|| many.argmin()), "use `argmin_u64`"),
        (panic_of(|| many.argmax_blocks(5)), "use `argmax_u64`"),
        (panic_of(|| many.eq(0).count()), "use `count_u64`"),
    ] {
        assert!(message.0.contains(wanted) && message.1.ends_with("segments.rs"), "{message:?}");
    }
    let sum = |a: Array<f32>, b: Array<f32>| a + b;
    let effects = Buffer::<f32>::zeros(1, &Device::interpreter()).expect("a buffer");
    for (message, wanted) in [
        (panic_of(|| jit::reduce(&a).combine(0.0.into(), |x, y| x + y + &wide).value()), "size 1 only"),
        (
            panic_of(|| {
                jit::reduce(&a)
                    .combine(0.0.into(), |x, y| {
                        effects.scatter_add(&x, 0u32);
                        x + y
                    })
                    .value()
            }),
            "may only compute",
        ),
        (
            panic_of(|| jit::reduce(&a).combine(0.0.into(), |x, y| x + wide.gather(y.cast::<u32>())).value()),
            "may only compute",
        ),
        (
            panic_of(|| {
                let looped = |x: Array<f32>| while_loop(x, |x| x.lt(9.0), |x| x + 1.0);
                jit::reduce(&a).combine(0.0.into(), |x, y| looped(x) + y).value()
            }),
            "inside a reduction",
        ),
        (
            panic_of(|| jit::reduce(&a).combine(a.clone(), sum).value()),
            "the identity of a state of f32 is one f32",
        ),
        (panic_of(|| jit::reduce(&a).combine(0.0.into(), sum).blocks(0).value()), "at least one element"),
        (
            panic_of(|| {
                while_loop(
                    Array::from(0u32),
                    |i| i.lt(3),
                    |i| jit::reduce(&i).combine(0.into(), |x, y| x + y).value(),
                )
            }),
            "reduce outside of the region",
        ),
    ] {
        assert!(message.0.contains(wanted), "{message:?}");
        assert!(message.1.ends_with("segments.rs"), "{message:?}");
    }
    // A panic of the closure leaves the device as it was.
    let nodes = Device::interpreter().memory().nodes;
    let own = array(&[5.0f32]);
    assert!(
        panic_of(|| jit::reduce(&own).combine(0.0.into(), |_, _| panic!("mine")).value()).0.contains("mine")
    );
    drop(own);
    assert!(Device::interpreter().memory().nodes <= nodes + 8);
}

#[test]
fn rows_and_choices_of_closures() {
    on_each(|dev| {
        // Of each row the value with the largest weight, and the first of several such.
        let (rows, cols) = (7u32, 300u32);
        let weight = |i: u32| i * 37 % 101;
        let i = Array::<u32>::arange((rows * cols) as usize, dev);
        let w = &i * 37 % 101;
        let none = (Array::from(0u32), Array::from(u32::MAX));
        let better = |(w, i): (Array<u32>, Array<u32>), (v, k): (Array<u32>, Array<u32>)| {
            let second = v.gt(&w) | (v.eq(&w) & k.lt(&i));
            jit::select(&second, (v, k), (w, i))
        };
        let best = jit::reduce(&(w.clone(), i.clone())).combine(none.clone(), better).rows(cols as usize);
        let (_, found) = best.value();
        let first = |row: u32| {
            let of_row = (row * cols)..((row + 1) * cols);
            of_row.clone().rev().max_by_key(|&i| weight(i)).expect("a column")
        };
        assert_eq!(values(&found), (0..rows).map(first).collect::<Vec<_>>());
        let reduction = jit::Reduction::new(|s| s, none, better, |(w, _)| w);
        let largest = |row: u32| weight(first(row));
        assert_eq!(
            values(&reduction.rows(&(w, i.clone()), cols as usize)),
            (0..rows).map(largest).collect::<Vec<_>>()
        );
        // A choice among numbers, and mathematics, whose lowered form has branches of its own.
        let x = i.cast::<f32>() / 1000.0;
        let apart = |a: Array<f32>, b: Array<f32>| a.gt(&b).select(&a, &b).sin().asin();
        let most = jit::reduce(&x)
            .map(|x| x.min(1.5))
            .combine(f32::NEG_INFINITY.into(), |a, b| a.gt(&b).select(&a, b));
        assert_eq!(values(&most.rows(cols as usize).value())[..2], [0.299, 0.599]);
        let mathematical =
            jit::reduce(&x).map(|x| x.min(1.0)).combine(0.0.into(), apart).rows(cols as usize).value();
        for (row, got) in values(&mathematical).into_iter().enumerate() {
            let exact = ((row as f32 + 1.0) * 0.3 - 0.001).min(1.0);
            assert!((got - exact).abs() < 1e-4, "row {row}: {got}");
        }
        let (message, file, line) =
            panic_of(|| jit::reduce(&x).combine(0.0.into(), |a, b| a + b).rows(11).value());
        assert!(message.contains("a matrix of 11 columns is not made of 2100 elements"), "{message}");
        assert!(file.ends_with("segments.rs") && line == line!() - 2, "{file}:{line}");
        let branching = |a: Array<f32>, b: Array<f32>| if_else(&a.gt(&b), (a, b), |(a, _)| a, |(_, b)| b);
        let (message, ..) = panic_of(|| jit::reduce(&x).combine(0.0.into(), branching).value());
        assert!(message.contains("if") && message.contains("inside a reduction"), "{message}");
    });
}

#[test]
fn closures_reduce_states() {
    on_each(|dev| {
        let x = Array::from_vec((0..3000).map(|i| ((i * 37) % 1001) as f32 - 500.0).collect(), dev)
            .expect("memory");
        let none = (Array::from(f32::INFINITY), Array::from(f32::NEG_INFINITY), Array::from(0u32));
        let range = jit::reduce(&x)
            .map(|x| (x.clone(), x.clone(), x.gt(0.0).cast::<u32>()))
            .combine(none, |a, b| (a.0.min(b.0), a.1.max(b.1), a.2 + b.2));
        let (low, high, positive) = range.clone().value();
        assert_eq!((values(&low), values(&high)), (vec![-500.0], vec![500.0]));
        let expected: Vec<f32> = values(&x);
        assert_eq!(values(&positive), [expected.iter().filter(|&&v| v > 0.0).count() as u32]);
        let widths = range.clone().blocks(1000).finish(|(low, high, _)| high - low);
        let expected: Vec<f32> = expected
            .chunks(1000)
            .map(|c| c.iter().copied().fold(f32::MIN, f32::max) - c.iter().copied().fold(f32::MAX, f32::min))
            .collect();
        assert_eq!(values(&widths), expected);
        let columns = range.cols(3).finish(|(_, _, n)| n);
        assert_eq!(values(&columns.sum()), values(&positive));
    });
}

#[test]
fn closures_use_what_is_the_same_on_all_lanes() {
    on_each(|dev| {
        let x = Array::<u32>::arange(2000, dev);
        // Sums modulo a number that is a literal, memory, computed, or the result of another reduction.
        let modulus: [Array<u32>; 4] = [
            7.into(),
            Array::from_slice(&[7], dev).expect("memory"),
            Array::from_slice(&[6], dev).expect("memory") + 1,
            x.gather(7u32).reduce_max(),
        ];
        for m in modulus {
            let sum = jit::reduce(&x).map(|x| x % &m).combine(0.into(), |a, b| (a + b) % &m).value();
            assert_eq!(values(&sum), [(0..2000u32).sum::<u32>() % 7]);
        }
    });
}

#[test]
fn results_go_to_buffers_and_reductions_are_used_again() {
    on_each(|dev| {
        let x = Array::from_slice(&[3.0f32, 4.0, 12.0], dev).expect("memory");
        let buffer = Buffer::<f32>::zeros(1, dev).expect("a buffer");
        jit::reduce(&x).map(|x| &x * &x).combine(0.0.into(), |a, b| a + b).into_buffer(&buffer);
        assert_eq!(values(&buffer.value()), [169.0]);
        let norm = jit::Reduction::new(
            |(x, y): (Array<f32>, Array<f32>)| x * y,
            Array::from(0.0),
            |a, b| a + b,
            |sum: Array<f32>| sum.sqrt(),
        );
        let inputs = (x.clone(), x);
        assert_eq!(values(&norm.of(&inputs)), [13.0]);
        assert_eq!(values(&norm.blocks(&inputs, 2)), [5.0, 12.0]);
        assert_eq!(values(&norm.cols(&inputs, 3)), [3.0, 4.0, 12.0]);
    });
}

#[test]
fn the_variance_is_accurate_far_from_zero() {
    // Sums of 12 numbers in 0..1 less 6: nearly normal.
    let normal = |k: u64| {
        let uniform = |j: u64| {
            let mixed = (k * 12 + j + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (mixed >> 11) as f64 / (1u64 << 53) as f64
        };
        (0..12).map(uniform).sum::<f64>() - 6.0
    };
    fn exact<T: Float>(x: &[T], value: impl Fn(&T) -> f64) -> f64 {
        // Around the first element, so that f64 suffices.
        let n = x.len() as f64;
        let mean = x.iter().map(|v| value(v) - value(&x[0])).sum::<f64>() / n;
        x.iter().map(|v| (value(v) - value(&x[0]) - mean).powi(2)).sum::<f64>() / n
    }
    on_each(|dev| {
        let close = |got: f64, expected: f64, tolerance: f64, what: &str| {
            assert!((got / expected - 1.0).abs() < tolerance, "{what}: {got}, not {expected}");
        };
        for n in [2u64, 100, 1025, 100_003] {
            let single: Vec<f32> = (0..n).map(|k| (1e6 + normal(k)) as f32).collect();
            let x = Array::from_vec(single.clone(), dev).expect("memory");
            close(values(&x.var())[0].into(), exact(&single, |&v| v.into()), 1e-6, "f32");
            let double: Vec<f64> = (0..n).map(|k| 1e9 + normal(k)).collect();
            let x = Array::from_vec(double.clone(), dev).expect("memory");
            close(values(&x.var())[0], exact(&double, |&v| v), 1e-9, "f64");
            // A first element far from all others.
            let mut outlier = double;
            outlier[0] = 0.0;
            let x = Array::from_vec(outlier.clone(), dev).expect("memory");
            close(values(&x.var())[0], exact(&outlier, |&v| v), 1e-9, "with an outlier");
            let half: Vec<f16> = (0..n).map(|k| f16::from_f64(100.0 + normal(k))).collect();
            let x = Array::from_vec(half.clone(), dev).expect("memory");
            close(values(&x.var())[0].into(), exact(&half, |v| f64::from(*v)), 1e-3, "f16");
        }
        let same = Array::full(1e30f64, 5000, dev);
        assert_eq!(values(&same.var()), [0.0]);
        assert_eq!(values(&Array::full(-1e200f64, 1, dev).var()), [0.0]);
        for special in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
            for at in [0, 1, 200, 1499] {
                let mut x = vec![1.0f32; 1500];
                x[at] = special;
                let x = Array::from_vec(x, dev).expect("memory");
                assert!(values(&x.var())[0].is_nan(), "{special} at {at}");
            }
        }
    });
}

/// The definition: NaN out, the order of the comparison, the lowest index.
fn first<T: Num>(x: &[T], before: impl Fn(&T, &T) -> bool, is_nan: impl Fn(&T) -> bool) -> u64 {
    let mut found: Option<usize> = None;
    for (i, v) in x.iter().enumerate().filter(|(_, v)| !is_nan(v)) {
        if found.is_none_or(|k| before(v, &x[k])) {
            found = Some(i);
        }
    }
    found.unwrap_or(0) as u64
}

#[test]
fn places_of_the_smallest_and_largest() {
    fn check<T: Num>(
        dev: &Device,
        x: &[T],
        less: impl Fn(&T, &T) -> bool + Copy,
        nan: impl Fn(&T) -> bool + Copy,
    ) {
        let a = Array::from_slice(x, dev).expect("memory");
        let (least, greatest) = (first(x, less, nan), first(x, |a, b| less(b, a), nan));
        assert_eq!(
            (values(&a.argmin()), values(&a.argmax())),
            (vec![least as u32], vec![greatest as u32]),
            "{x:?}"
        );
        assert_eq!(
            (values(&a.argmin_u64()), values(&a.argmax_u64())),
            (vec![least], vec![greatest]),
            "{x:?}"
        );
        for n in [1, 3, 100] {
            let expected: Vec<u32> = x.chunks(n).map(|c| first(c, less, nan) as u32).collect();
            assert_eq!(values(&a.argmin_blocks(n)), expected, "{x:?} by {n}");
        }
    }
    let total = |a: &f32, b: &f32| a.total_cmp(b).is_lt();
    on_each(|dev| {
        let nan = f32::NAN;
        let inf = f32::INFINITY;
        for x in [
            vec![3.0f32, 1.0, 2.0, 1.0, 3.0],
            vec![nan, 5.0, nan, -5.0],
            vec![nan; 300],
            vec![inf; 300],
            vec![nan, inf, inf],
            vec![-inf, nan, -inf],
            vec![0.0, -0.0, 0.0, -0.0],
            vec![-0.0, 0.0],
            vec![-nan, 1.0, f32::MIN_POSITIVE / 4.0, -f32::MIN_POSITIVE / 4.0],
            (0..2500).map(|k| ((k * 7919) % 2503) as f32 - 1000.0).collect(),
        ] {
            check(dev, &x, total, |v| v.is_nan());
            let wide: Vec<f64> = x.iter().map(|&v| v.into()).collect();
            check(dev, &wide, |a, b| a.total_cmp(b).is_lt(), |v| v.is_nan());
            let half: Vec<f16> = x.iter().map(|&v| f16::from_f32(v)).collect();
            check(dev, &half, |a, b| a.total_cmp(b).is_lt(), |v| v.is_nan());
        }
        check(dev, &[i32::MAX, i32::MIN, i32::MAX, i32::MIN], |a, b| a < b, |_| false);
        check(dev, &[u32::MAX; 3], |a, b| a < b, |_| false);
        check(dev, &[0u8, 255, 0, 255], |a, b| a < b, |_| false);
        check(dev, &[i64::MIN, 0, i64::MAX], |a, b| a < b, |_| false);
        check(dev, &[5u16], |a, b| a < b, |_| false);
        check(dev, &[-3i8, -128, 127], |a, b| a < b, |_| false);
    });
}

#[test]
fn the_place_of_nothing_is_an_error_when_read() {
    on_each(|dev| {
        let none = Array::<f32>::from_slice(&[], dev).expect("memory");
        for (place, name) in [(none.argmin(), "argmin"), (none.argmax(), "argmax")] {
            let error = (place + 1).to_vec().expect_err("no value");
            assert!(matches!(error, Error::EmptyReduction { op } if op == name), "{error}");
        }
        let error = none.argmin_u64().item().expect_err("no value");
        assert!(error.to_string().contains("`argmin_u64` of an array without elements"), "{error}");
        assert_eq!(values(&none.argmin_blocks(4)), [] as [u32; 0]);
        assert_eq!(values(&none.sum()), [0.0]);
    });
}

#[test]
fn changed_lengths_are_the_same_kernels() {
    let dev = fresh();
    for (n, block) in [(100usize, 7usize), (1000, 64), (5000, 4999), (90, 9)] {
        let x = Array::<f32>::arange(n, &dev);
        let expected: Vec<f32> =
            (0..n).collect::<Vec<_>>().chunks(block).map(|c| c.iter().sum::<usize>() as f32).collect();
        let got = values(&x.sum_blocks(block));
        assert!(
            got.iter().zip(&expected).all(|(g, e)| (g / e - 1.0).abs() < 1e-6 || g == e),
            "{n} by {block}"
        );
    }
    let kernels: Vec<_> = dev.kernel_history().iter().map(|k| k.kernel).collect();
    assert_eq!(kernels, [kernels[0]; 4]);
}

#[test]
fn statistics_of_one_producer_are_one_kernel() {
    let dev = fresh();
    let x = Array::from_vec((0..5000).map(|k| k as f32).collect(), &dev).expect("memory");
    let y = &x * 0.5 + 1.0;
    let results = (y.mean(), y.var(), y.reduce_min(), y.reduce_max(), y.argmax());
    jit::eval(&results).expect("evaluation");
    let history = dev.kernel_history();
    assert_eq!(history.len(), 1);
    assert_eq!((history[0].inputs, history[0].outputs), (1, 5));
    assert_eq!(history[0].bytes, 4 * 5000 + 4 * 5);
    assert_eq!(values(&results.4), [4999]);
    let expected = (5000.0f64 * 5000.0 - 1.0) / 12.0 / 4.0;
    assert!((f64::from(values(&results.1)[0]) / expected - 1.0).abs() < 1e-6);
    // By rows too, with a division by the number of elements in each.
    let rows = (y.mean_blocks(300), y.var_blocks(300), y.argmin_blocks(300));
    jit::eval(&rows).expect("evaluation");
    assert_eq!(dev.kernel_history().len(), 2);
}
