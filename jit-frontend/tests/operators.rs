//! Operators and methods, lane by lane.

use jit_frontend as jit;
use jit_frontend::f16;
use jit_frontend::prelude::*;

use crate::support::{array, on_each, panic_of, values};

/// Every form of a binary operator: value, reference and number on both sides, and assigning.
macro_rules! all_forms {
    ($op:tt $assign:tt $ty:ty: $a:expr, $b:expr => $expected:expr, $scalar:expr => $right:expr, $left:expr) => {{
        let (a, b): (Array<$ty>, Array<$ty>) = (array(&$a), array(&$b));
        let (expected, right, left): (&[$ty], &[$ty], &[$ty]) = (&$expected, &$right, &$left);
        assert_eq!(values(&(&a $op &b)), expected);
        assert_eq!(values(&(a.clone() $op b.clone())), expected);
        assert_eq!(values(&(&a $op b.clone())), expected);
        assert_eq!(values(&(a.clone() $op &b)), expected);
        assert_eq!(values(&(&a $op $scalar)), right);
        assert_eq!(values(&(a.clone() $op $scalar)), right);
        assert_eq!(values(&($scalar $op &a)), left);
        assert_eq!(values(&($scalar $op a.clone())), left);
        let mut c = a.clone();
        c $assign &b;
        assert_eq!(values(&c), expected);
        let mut c = a.clone();
        c $assign b;
        assert_eq!(values(&c), expected);
        let mut c = a;
        c $assign $scalar;
        assert_eq!(values(&c), right);
    }};
}

#[test]
fn arithmetic_in_all_forms() {
    all_forms!(+ += f32: [1.0, 2.5], [3.0, -1.0] => [4.0, 1.5], 0.5f32 => [1.5, 3.0], [1.5, 3.0]);
    all_forms!(- -= f64: [1.0, 2.5], [3.0, -1.0] => [-2.0, 3.5], 0.5f64 => [0.5, 2.0], [-0.5, -2.0]);
    all_forms!(* *= i32: [3, -4], [5, i32::MAX] => [15, -4i32.wrapping_mul(-i32::MAX).wrapping_neg()], 2i32 => [6, -8], [6, -8]);
    all_forms!(/ /= u8: [7, 200], [2, 0] => [3, 255], 3u8 => [2, 66], [0, 0]);
    all_forms!(% %= i64: [7, -7], [4, 0] => [3, -7], 5i64 => [2, -2], [5, 5]);
    let h = f16::from_f32;
    all_forms!(+ += f16: [h(1.0), h(2.0)], [h(0.5), h(-2.0)] => [h(1.5), h(0.0)], h(1.0) => [h(2.0), h(3.0)], [h(2.0), h(3.0)]);
}

#[test]
fn bits_in_all_forms() {
    all_forms!(& &= u32: [0b1100, 7], [0b1010, 2] => [0b1000, 2], 4u32 => [4, 4], [4, 4]);
    all_forms!(| |= i8: [0b1100, -8], [0b0010, 1] => [0b1110, -7], 1i8 => [0b1101, -7], [0b1101, -7]);
    all_forms!(^ ^= bool: [true, false], [true, true] => [false, true], true => [false, true], [false, true]);
    all_forms!(<< <<= u16: [1, 3], [15, 16] => [0x8000, 0], 2u16 => [4, 12], [4, 16]);
    all_forms!(>> >>= i32: [-16, 16], [2, 99] => [-4, 0], 1i32 => [-8, 8], [0, 0]);
}

#[test]
fn literals_take_the_type_of_their_partner() {
    let a: Array<f32> = array(&[1.0, 2.0]);
    assert_eq!(values(&(1.0 - &a * 2.0)), [-1.0, -3.0]);
    let i: Array<u32> = array(&[1, 2]);
    assert_eq!(values(&((1 - &i) << 1 | 1)), [1, u32::MAX]);
    let one: Array<f32> = 1.0.into();
    assert_eq!((one.item().expect("a literal"), one.len(), one.device()), (1.0, 1, None));
    assert_eq!((&one + 2.0).item().expect("a literal"), 3.0);
    assert_eq!(values(&(&one + &a)), [2.0, 3.0]);
}

#[test]
fn sizes_broadcast_or_panic_at_the_callers_line() {
    let (a, b) = (array(&[1.0f32, 2.0, 3.0]), array(&[1.0f32, 2.0]));
    let one = array(&[10.0f32]);
    assert_eq!(values(&(&a + &one)), [11.0, 12.0, 13.0]);
    assert_eq!(values(&(&one * &Array::<f32>::zeros(0, &Device::interpreter()))), [] as [f32; 0]);
    let line = line!() + 1;
    let (message, file, at) = panic_of(|| &a + &b);
    assert!(
        message.contains("`add`") && message.contains("f32[3]") && message.contains("f32[2]"),
        "{message}"
    );
    assert_eq!((file.as_str(), at), (file!(), line));
    for (line, (_, file, at)) in [
        (line!(), panic_of(|| a.lt(&b))),
        (line!(), panic_of(|| a.mul_add(&b, 1.0))),
        (line!(), panic_of(|| a.clamp(&b, 1.0))),
        (line!(), panic_of(|| Vec3::splat(a.clone()).dot(&Vec3::splat(b.clone())))),
        (line!(), panic_of(|| jit::select(&a.lt(1.0), (a.clone(),), (b.clone(),)))),
        (line!(), panic_of(|| a.clone().scatter(&b, a.cast::<i32>()))),
        (line!(), panic_of(|| a.lerp(&b, 0.5))),
        (line!(), panic_of(|| a.bitcast::<u8>())),
    ] {
        assert_eq!((file.as_str(), at), (file!(), line));
    }
}

#[test]
fn comparisons_take_arrays_references_and_numbers() {
    on_each(|dev| {
        let a = Array::from_slice(&[1.0f32, 2.0, f32::NAN], dev).expect("memory");
        let b = Array::from_slice(&[2.0f32, 2.0, f32::NAN], dev).expect("memory");
        assert_eq!(values(&a.eq(&b)), [false, true, false]);
        assert_eq!(values(&a.ne(b.clone())), [true, false, true]);
        assert_eq!(values(&a.lt(2.0)), [true, false, false]);
        assert_eq!(values(&a.le(&b)), [true, true, false]);
        assert_eq!(values(&a.gt(1.5)), [false, true, false]);
        assert_eq!(values(&a.ge(&b)), [false, true, false]);
        let m = a.lt(&b);
        assert_eq!(values(&(!&m | m.eq(true))), [true; 3]);
    });
}

#[test]
fn masks_select_between_arrays_and_numbers() {
    on_each(|dev| {
        let a = Array::from_slice(&[1i32, -2, 3], dev).expect("memory");
        let m = a.gt(0);
        assert_eq!(values(&m.select(&a, 0)), [1, 0, 3]);
        assert_eq!(values(&m.select(7, -&a)), [7, 2, 7]);
        assert_eq!(values(&m.select(1u8, 0u8)), [1, 0, 1]);
        assert_eq!(values(&m.select(true, &m)), values(&m));
        let (x, y) = jit::select(&m, (a.clone(), Array::from(1.0f64)), (-&a, Array::from(2.0)));
        assert_eq!((values(&x), values(&y)), (vec![1, 2, 3], vec![1.0, 2.0, 1.0]));
    });
}

#[test]
fn the_smaller_and_the_larger() {
    on_each(|dev| {
        let a = Array::from_slice(&[1.0f32, f32::NAN, -0.0], dev).expect("memory");
        assert_eq!(values(&a.min(0.0))[..2], [0.0, 0.0]);
        assert!(values(&a.min(0.0))[2].is_sign_negative() && values(&a.max(0.0))[2].is_sign_positive());
        assert!(values(&a.minimum(0.0))[1].is_nan() && values(&a.maximum(0.0))[1].is_nan());
        assert_eq!(values(&a.maximum(0.5))[0], 1.0);
        assert_eq!(values(&a.clamp(-1.0, 0.5)), [0.5, -1.0, -0.0]);
        let i = Array::from_slice(&[-5i8, 5], dev).expect("memory");
        assert_eq!(values(&i.clamp(-1, 1)), [-1, 1]);
    });
}

#[test]
fn integers() {
    on_each(|dev| {
        let a = Array::from_slice(&[0b1011u32, 0, 1 << 31], dev).expect("memory");
        assert_eq!(values(&a.count_ones()), [3, 0, 1]);
        assert_eq!(values(&a.leading_zeros()), [28, 32, 0]);
        assert_eq!(values(&a.trailing_zeros()), [0, 32, 31]);
        assert_eq!(values(&a.reverse_bits()), [0xd000_0000, 0, 1]);
        assert_eq!(values(&a.mul_hi(8)), [0, 0, 4]);
        assert_eq!(values(&a.mul_wide(8)), [88u64, 0, 1 << 34]);
        assert_eq!(values(&a.wrapping_neg()), [0b1011u32.wrapping_neg(), 0, 1 << 31]);
        let s = Array::from_slice(&[-7i16, i16::MIN, 3], dev).expect("memory");
        assert_eq!(values(&s.mul_wide(-2)), [14i32, 65536, -6]);
        assert_eq!(values(&s.wrapping_sub(2).wrapping_add(1).wrapping_mul(2)), [-16, -2, 4]);
        assert_eq!(values(&s.signum()), [-1, -1, 1]);
        assert_eq!(values(&s.abs()), [7, i16::MIN, 3]);
        for n in [0u32, 1, 7, 15, 16, 35] {
            let (left, right) = (s.rotate_left(n), s.rotate_right(Array::from(n)));
            assert_eq!(values(&left), [-7i16, i16::MIN, 3].map(|x| x.rotate_left(n)), "{n}");
            assert_eq!(values(&right), [-7i16, i16::MIN, 3].map(|x| x.rotate_right(n)), "{n}");
        }
        for n in [0u32, 1, 2, 3, 5, 8, 31, u32::MAX] {
            assert_eq!(values(&s.pow(n)), [-7i16, i16::MIN, 3].map(|x| x.wrapping_pow(n)), "{n}");
            assert_eq!(values(&Array::from(0u8).pow(n)), [0u8.pow(n)], "{n}");
        }
    });
}
