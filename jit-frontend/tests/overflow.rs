//! Integers that overflow: every function against the standard library's of that name.

use jit_frontend::Mask;
use jit_frontend::prelude::*;

use crate::support::{on_each, values};

/// All pairs of some numbers, as two columns.
fn pairs<T: Copy>(some: &[T]) -> (Vec<T>, Vec<T>) {
    some.iter().flat_map(|&a| some.iter().map(move |&b| (a, b))).unzip()
}

/// The mask is where the standard library has a value, and there it is that.
fn check_some<T: PartialEq + std::fmt::Debug>(
    name: &str,
    got: (Vec<T>, Vec<bool>),
    expected: Vec<Option<T>>,
) {
    for (lane, ((value, some), expected)) in got.0.into_iter().zip(got.1).zip(expected).enumerate() {
        assert_eq!(some.then_some(value), expected, "{name}, lane {lane}");
    }
}

macro_rules! check_type {
    ($ty:ident, $some:expr $(, $signed:ident)?) => {{
        let (a, b) = pairs::<$ty>(&$some);
        on_each(|dev| {
            let (x, y) = (
                Array::from_slice(&a, dev).expect("memory"),
                Array::from_slice(&b, dev).expect("memory"),
            );
            let name = stringify!($ty);
            let each = |f: fn($ty, $ty) -> Option<$ty>| -> Vec<Option<$ty>> {
                a.iter().zip(&b).map(|(&a, &b)| f(a, b)).collect()
            };
            let both = |(value, some): (Array<$ty>, Mask)| (values(&value), values(&some));
            check_some(name, both(x.checked_add(&y)), each($ty::checked_add));
            check_some(name, both(x.checked_sub(&y)), each($ty::checked_sub));
            check_some(name, both(x.checked_mul(&y)), each($ty::checked_mul));
            check_some(name, both(x.checked_div(&y)), each($ty::checked_div));
            check_some(name, both(x.checked_rem(&y)), each($ty::checked_rem));
            check_some(name, both(x.checked_neg()), each(|a, _| a.checked_neg()));

            let each = |f: fn($ty, $ty) -> $ty| -> Vec<$ty> {
                a.iter().zip(&b).map(|(&a, &b)| f(a, b)).collect()
            };
            let check = |function: &str, got: &Array<$ty>, expected: Vec<$ty>| {
                assert_eq!(values(got), expected, "{name}, {function}");
            };
            check("overflowing_add", &x.overflowing_add(&y).0, each($ty::wrapping_add));
            check("overflowing_sub", &x.overflowing_sub(&y).0, each($ty::wrapping_sub));
            check("overflowing_mul", &x.overflowing_mul(&y).0, each($ty::wrapping_mul));
            check("saturating_add", &x.saturating_add(&y), each($ty::saturating_add));
            check("saturating_sub", &x.saturating_sub(&y), each($ty::saturating_sub));
            check("saturating_mul", &x.saturating_mul(&y), each($ty::saturating_mul));
            check("wrapping_add", &x.wrapping_add(&y), each($ty::wrapping_add));
            check("wrapping_sub", &x.wrapping_sub(&y), each($ty::wrapping_sub));
            check("wrapping_mul", &x.wrapping_mul(&y), each($ty::wrapping_mul));
            check("wrapping_neg", &x.wrapping_neg(), each(|a, _| a.wrapping_neg()));
            let quotients = each(|a, b| if b == 0 { !0 } else { a.wrapping_div(b) });
            check("wrapping_div", &x.wrapping_div(&y), quotients);
            let remainders = each(|a, b| if b == 0 { a } else { a.wrapping_rem(b) });
            check("wrapping_rem", &x.wrapping_rem(&y), remainders);
            let n = y.cast::<u32>();
            check("wrapping_shl", &x.wrapping_shl(&n), each(|a, n| a.wrapping_shl(n as u32)));
            check("wrapping_shr", &x.wrapping_shr(&n), each(|a, n| a.wrapping_shr(n as u32)));
            check("wrapping_shr by a number", &x.wrapping_shr(67), each(|a, _| a.wrapping_shr(67)));
            $(
                check("wrapping_abs", &x.wrapping_abs(), each(|a, _| $signed::wrapping_abs(a)));
                let expected = a.iter().map(|&a| $signed::checked_abs(a)).collect();
                check_some(name, both(x.checked_abs()), expected);
            )?
        });
    }};
}

/// The ends of the range, its quarters, small numbers, roots of the end.
macro_rules! some {
    ($ty:ident) => {{
        let (min, max) = ($ty::MIN, $ty::MAX);
        let root = (max as f64).sqrt() as $ty;
        let minus = |n: $ty| (0 as $ty).wrapping_sub(n);
        let near_ends =
            [min, min + 1, min + 2, max, max - 1, max - 2, max / 2, max / 2 + 1, max / 4, min / 2];
        let small = [0, 1, 2, 3, 7, 10, minus(1), minus(2), minus(3), minus(10)];
        let roots = [root, root + 1, root - 1, minus(root), minus(root) - 1, root / 2, root / 2 + 1];
        [&near_ends[..], &small[..], &roots[..]].concat()
    }};
}

#[test]
fn bytes_in_every_combination() {
    check_type!(u8, (u8::MIN..=u8::MAX).collect::<Vec<_>>());
    check_type!(i8, (i8::MIN..=i8::MAX).collect::<Vec<_>>(), i8);
}

#[test]
fn wider_integers_at_the_ends_of_their_range() {
    check_type!(u16, some!(u16));
    check_type!(u32, some!(u32));
    check_type!(u64, some!(u64));
    check_type!(i16, some!(i16), i16);
    check_type!(i32, some!(i32), i32);
    check_type!(i64, some!(i64), i64);
}

#[test]
fn a_number_is_an_operand() {
    on_each(|dev| {
        let x = Array::from_slice(&[250u8, 3], dev).expect("memory");
        let (sum, fits) = x.checked_add(10);
        assert_eq!((values(&sum), values(&fits)), (vec![4, 13], vec![false, true]));
        assert_eq!(values(&x.saturating_add(10)), [255, 13]);
        assert_eq!(values(&x.saturating_sub(10)), [240, 0]);
        let (quotient, some) = x.checked_div(0);
        // The divisor alone decides that.
        assert_eq!((values(&quotient), values(&some)), (vec![255, 255], vec![false]));
    });
}
