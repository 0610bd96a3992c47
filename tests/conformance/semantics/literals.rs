//! Constants are no part of a kernel's identity but where they must be: a structure that is met again with other
//! constants computes with those.

use half::f16;
use jit_core::dtype::{DType, Element};
use jit_core::op::Op;
use jit_core::trace::{BufferVar, Var, while_loop};

use super::check::{apply, same};
use crate::devices::on_each;
use crate::host::{lit, read, upload};

/// Asks for `op(x, c)` and `op(c, x)` with one constant after the other.
fn sequence<T: Element>(op: Op, values: &[T], constants: &[T], expected: impl Fn(T, T) -> T) {
    on_each(|device| {
        let x = upload(device, values);
        for &c in constants {
            let right: Vec<T> = values.iter().map(|&v| expected(v, c)).collect();
            let left: Vec<T> = values.iter().map(|&v| expected(c, v)).collect();
            let compare = |got: Vec<T>, want: &[T], what: &str| {
                let equal = |(g, w): (&T, &T)| same(T::DTYPE, w.to_bits(), g.to_bits(), false);
                let equal = got.iter().zip(want).all(equal);
                assert!(equal, "{} with {c} {what}: {got:?}, not {want:?}", op.name());
            };
            compare(read::<T>(&apply(op, &[&x, &lit(c)])), &right, "on the right");
            compare(read::<T>(&apply(op, &[&lit(c), &x])), &left, "on the left");
        }
    });
}

#[test]
fn float_constants_change_from_call_to_call() {
    let values = [0.0f32, -0.0, 1.0, -3.5, 1e30, f32::INFINITY];
    let constants = [
        2.5,
        3.5,
        0.1,
        0.0,
        -0.0,
        1.0,
        -1.0,
        2.0,
        0.5,
        -4.0,
        f32::INFINITY,
        f32::NAN,
        7.0,
        1e-40,
        f32::MAX,
        2.5,
    ];
    sequence(Op::Add, &values, &constants, |a, b| a + b);
    sequence(Op::Sub, &values, &constants, |a, b| a - b);
    sequence(Op::Mul, &values, &constants, |a, b| a * b);
    sequence(Op::Div, &values, &constants, |a, b| a / b);
    sequence(Op::Rem, &values, &constants, |a, b| a % b);
    let half = |v: &[f32]| v.iter().map(|&v| f16::from_f32(v)).collect::<Vec<_>>();
    let sum = |a: f16, b: f16| f16::from_f32(a.to_f32() + b.to_f32());
    sequence(Op::Add, &half(&values), &half(&constants), sum);
    let wide = |v: &[f32]| v.iter().map(|&v| f64::from(v)).collect::<Vec<_>>();
    sequence(Op::Mul, &wide(&values), &wide(&constants), |a, b| a * b);
}

#[test]
fn integer_constants_change_from_call_to_call() {
    let values = [0i32, 1, -1, 7, -100, i32::MAX, i32::MIN];
    let constants = [3, 5, 6, 7, 10, 0, 1, -1, 2, 8, -16, 1 << 30, i32::MIN, i32::MAX, 31, 32, 33, -3, 3];
    sequence(Op::Add, &values, &constants, i32::wrapping_add);
    sequence(Op::Mul, &values, &constants, i32::wrapping_mul);
    sequence(Op::Div, &values, &constants, |a, b| if b == 0 { -1 } else { a.wrapping_div(b) });
    sequence(Op::Rem, &values, &constants, |a, b| if b == 0 { a } else { a.wrapping_rem(b) });
    let inside = |b: i32| (0..32).contains(&b);
    sequence(Op::Shl, &values, &constants, |a, b| if inside(b) { a << b } else { 0 });
    sequence(Op::Shr, &values, &constants, |a, b| a >> if inside(b) { b } else { 31 });
    sequence(Op::And, &values, &constants, |a, b| a & b);
    sequence(Op::Max, &values, &constants, i32::max);
    let values = [0u64, 1, 99, u64::MAX, 1 << 40];
    let constants = [3, 10, 641, 0, 1, 2, 1 << 33, 1 << 63, u64::MAX, 12_345_678_901];
    sequence(Op::Div, &values, &constants, |a, b| a.checked_div(b).unwrap_or(u64::MAX));
    sequence(Op::Rem, &values, &constants, |a, b| a.checked_rem(b).unwrap_or(a));
}

#[test]
fn constants_that_were_equal_may_differ_next_time() {
    on_each(|device| {
        let x = upload(device, &[1.0f64, 2.0, 3.0]);
        for (a, b) in
            [(3.0, 3.0), (3.0, 5.0), (5.0, 3.0), (5.0, 5.0), (0.0, -0.0), (-0.0, 0.0), (1.0, 1.0), (1.0, 7.0)]
        {
            let y = apply(Op::Sub, &[&apply(Op::Mul, &[&x, &lit(a)]), &lit(b)]);
            let expected = [1.0, 2.0, 3.0].map(|x: f64| x * a - b);
            assert_eq!(read::<f64>(&y), expected, "x * {a} - {b}");
        }
        let n = upload(device, &[10u32, 20, 30]);
        for (a, b) in [(3u32, 3u32), (3, 4), (4, 3), (0, 0), (0, 1), (1, 0), (9, 9), (11, 12)] {
            let y = apply(Op::Xor, &[&apply(Op::Add, &[&n, &lit(a)]), &lit(b)]);
            assert_eq!(read::<u32>(&y), [10, 20, 30].map(|n| (n + a) ^ b), "(n + {a}) ^ {b}");
        }
    });
}

#[test]
fn the_trip_count_changes_from_call_to_call() {
    on_each(|device| {
        let x = upload(device, &[1u32, 2, 3]);
        for n in [3u32, 4, 5, 6, 7, 0, 1, 2, 100, 3] {
            let out = while_loop(
                device,
                &[lit(0u32), x.clone()],
                |s| Var::apply(Op::Lt, DType::Bool, &[&s[0], &lit(n)]),
                |s| vec![apply(Op::Add, &[&s[0], &lit(1u32)]), apply(Op::Add, &[&s[1], &lit(n)])],
            );
            assert_eq!(read::<u32>(&out[1]), [1, 2, 3].map(|x| x + n * n), "{n} times");
        }
    });
}

#[test]
fn indices_masks_and_values_change_from_call_to_call() {
    on_each(|device| {
        let numbers = [10u32, 11, 12, 13];
        let x = upload(device, &numbers);
        for index in [0i32, 1, 2, 3, 4, -1, i32::MAX, 2] {
            let expected = numbers.get(index as usize).copied().unwrap_or(0);
            assert_eq!(read::<u32>(&x.gather(&lit(index), None)), [expected], "gather at {index}");
            let wide = upload(device, &[0i32, 1]);
            let shifted = x.gather(&apply(Op::Add, &[&wide, &lit(index)]), None);
            let at = |k: i32| numbers.get(index.wrapping_add(k) as usize).copied().unwrap_or(0);
            assert_eq!(read::<u32>(&shifted), [at(0), at(1)], "gather from {index}");
            for mask in [true, false] {
                let buffer = BufferVar::new(&x);
                buffer.scatter(Op::ScatterAdd, &lit(index as u32), &lit(index), Some(&lit(mask)));
                let mut expected = numbers;
                if let Some(element) = expected.get_mut(index as usize).filter(|_| mask) {
                    *element = element.wrapping_add(index as u32);
                }
                assert_eq!(read::<u32>(&buffer.value()), expected, "scatter_add at {index}, {mask}");
            }
        }
        for (k, condition) in [true, false, false, true].into_iter().enumerate() {
            let chosen = Var::apply(Op::Select, DType::U32, &[&lit(condition), &x, &lit(k as u32)]);
            let first = if condition { 10 } else { k as u32 };
            assert_eq!(read::<u32>(&chosen)[0], first);
        }
    });
}

#[test]
fn sizes_change_from_call_to_call() {
    on_each(|device| {
        for n in [5u64, 1, 0, 2, 1000, 33, 1, 5] {
            let lane = Var::counter(device, DType::U32, n);
            let y = apply(Op::Mul, &[&lane, &lit(3u32)]);
            let mean = apply(
                Op::Add,
                &[&Var::apply(Op::Cast, DType::U64, &[&y]).reduce(Op::ReduceSum), &y.lane_count()],
            );
            assert_eq!(read::<u64>(&mean), [3 * n * n.saturating_sub(1) / 2 + n], "{n} lanes");
            assert_eq!(read::<u32>(&y), (0..n as u32).map(|k| 3 * k).collect::<Vec<_>>());
        }
        let huge = Var::full(device, DType::U8, 0, 1 << 40);
        assert_eq!(read::<u64>(&huge.lane_count()), [1 << 40]);
    });
}
