//! Arithmetic of integers that says where it overflows, or stops at the ends of the range: names as those of the standard
//! library's integers.
//!
//! `checked_` functions give a value and where it is one: `Some` of the standard library, lane by lane. Where it is none,
//! the value is what the operator gives: sums and products wrap, `x / 0` is all ones and `x % 0` is `x`.
//! A mask is as large as what it depends on: of one element for a quotient by a number.

use jit_core::op::Op;

use crate::element::{Int, Signed};
use crate::operand::Operand;
use crate::{Array, Mask};

impl<T: Int> Array<T> {
    /// The sum, and where it does not overflow.
    #[track_caller]
    pub fn checked_add(&self, other: impl Operand<T>) -> (Array<T>, Mask) {
        let (sum, overflows) = self.overflowing_add(other);
        (sum, !overflows)
    }

    /// The difference, and where it does not overflow.
    #[track_caller]
    pub fn checked_sub(&self, other: impl Operand<T>) -> (Array<T>, Mask) {
        let (difference, overflows) = self.overflowing_sub(other);
        (difference, !overflows)
    }

    /// The product, and where it does not overflow.
    #[track_caller]
    pub fn checked_mul(&self, other: impl Operand<T>) -> (Array<T>, Mask) {
        let (product, overflows) = self.overflowing_mul(other);
        (product, !overflows)
    }

    /// The quotient, toward zero, and where there is one: not for a divisor 0, nor for MIN / -1.
    #[track_caller]
    pub fn checked_div(&self, other: impl Operand<T>) -> (Array<T>, Mask) {
        let other = Array::from_var(other.operand().into_owned());
        (self.binary(Op::Div, &other), !self.has_no_quotient(&other))
    }

    /// The remainder with the dividend's sign, and where there is one: not for a divisor 0, nor for MIN % -1.
    #[track_caller]
    pub fn checked_rem(&self, other: impl Operand<T>) -> (Array<T>, Mask) {
        let other = Array::from_var(other.operand().into_owned());
        (self.binary(Op::Rem, &other), !self.has_no_quotient(&other))
    }

    /// The negated number, and where it does not overflow: of unsigned integers only 0.
    #[track_caller]
    pub fn checked_neg(&self) -> (Array<T>, Mask) {
        let fits = if T::DTYPE.is_signed() { self.ne(least::<T>()) } else { self.eq(T::default()) };
        (self.wrapping_neg(), fits)
    }

    /// The wrapped sum, and where it overflows.
    #[track_caller]
    pub fn overflowing_add(&self, other: impl Operand<T>) -> (Array<T>, Mask) {
        let other = Array::from_var(other.operand().into_owned());
        let sum = self.wrapping_add(&other);
        let overflows = if T::DTYPE.is_signed() {
            // The sum's sign is neither operand's.
            let signs =
                self.binary::<T>(Op::Xor, &sum).binary::<T>(Op::And, &other.binary::<T>(Op::Xor, &sum));
            signs.lt(T::default())
        } else {
            sum.lt(self)
        };
        (sum, overflows)
    }

    /// The wrapped difference, and where it overflows.
    #[track_caller]
    pub fn overflowing_sub(&self, other: impl Operand<T>) -> (Array<T>, Mask) {
        let other = Array::from_var(other.operand().into_owned());
        let difference = self.wrapping_sub(&other);
        let overflows = if T::DTYPE.is_signed() {
            // The operands' signs differ, and the difference has not that of the first.
            let signs = self
                .binary::<T>(Op::Xor, &other)
                .binary::<T>(Op::And, &self.binary::<T>(Op::Xor, &difference));
            signs.lt(T::default())
        } else {
            self.lt(&other)
        };
        (difference, overflows)
    }

    /// The wrapped product, and where it overflows.
    #[track_caller]
    pub fn overflowing_mul(&self, other: impl Operand<T>) -> (Array<T>, Mask) {
        let other = Array::from_var(other.operand().into_owned());
        let product = self.wrapping_mul(&other);
        let high = self.mul_hi(&other);
        // Of a product that fits the high half repeats the sign.
        let expected = if T::DTYPE.is_signed() { product.sign_bits() } else { T::default().into() };
        (product, high.ne(&expected))
    }

    /// The sum, or the end of the range that it passes.
    #[track_caller]
    pub fn saturating_add(&self, other: impl Operand<T>) -> Array<T> {
        let (sum, overflows) = self.overflowing_add(other);
        // Both operands have the sign of the first.
        overflows.select(self.end_of_same_sign(), sum)
    }

    /// The difference, or the end of the range that it passes.
    #[track_caller]
    pub fn saturating_sub(&self, other: impl Operand<T>) -> Array<T> {
        let (difference, overflows) = self.overflowing_sub(other);
        let end = if T::DTYPE.is_signed() { self.end_of_same_sign() } else { T::default().into() };
        overflows.select(end, difference)
    }

    /// The product, or the end of the range that it passes.
    #[track_caller]
    pub fn saturating_mul(&self, other: impl Operand<T>) -> Array<T> {
        let other = Array::from_var(other.operand().into_owned());
        let (product, overflows) = self.overflowing_mul(&other);
        overflows.select(self.binary::<T>(Op::Xor, &other).end_of_same_sign(), product)
    }

    /// The same as `/`: MIN / -1 is MIN. (Of a divisor 0, where the standard library panics, all ones.)
    #[track_caller]
    pub fn wrapping_div(&self, other: impl Operand<T>) -> Array<T> {
        self.binary(Op::Div, &other)
    }

    /// The same as `%`: MIN % -1 is 0. (Of a divisor 0, where the standard library panics, the dividend.)
    #[track_caller]
    pub fn wrapping_rem(&self, other: impl Operand<T>) -> Array<T> {
        self.binary(Op::Rem, &other)
    }

    /// A shift left by `n` modulo the width. (`<<` gives 0 past the width.)
    #[track_caller]
    pub fn wrapping_shl(&self, n: impl Operand<u32>) -> Array<T> {
        self.binary(Op::Shl, &wrapped::<T>(n))
    }

    /// A shift right by `n` modulo the width, arithmetic if signed.
    #[track_caller]
    pub fn wrapping_shr(&self, n: impl Operand<u32>) -> Array<T> {
        self.binary(Op::Shr, &wrapped::<T>(n))
    }

    /// Where division has no result in the standard library.
    #[track_caller]
    fn has_no_quotient(&self, divisor: &Array<T>) -> Mask {
        let by_zero = divisor.eq(T::default());
        if !T::DTYPE.is_signed() {
            return by_zero;
        }
        by_zero | (self.eq(least::<T>()) & divisor.eq(T::from_bits(T::DTYPE.mask())))
    }

    /// MAX, or MIN where it is negative.
    #[track_caller]
    fn end_of_same_sign(&self) -> Array<T> {
        if !T::DTYPE.is_signed() {
            return T::from_bits(T::DTYPE.mask()).into();
        }
        self.sign_bits().binary(Op::Xor, &T::from_bits(T::DTYPE.mask() >> 1))
    }

    /// -1 where negative, else 0.
    #[track_caller]
    fn sign_bits(&self) -> Array<T> {
        self.binary(Op::Shr, &T::from_bits(u64::from(T::DTYPE.bits() - 1)))
    }
}

impl<T: Int + Signed> Array<T> {
    /// The same as `abs`: that of MIN is MIN.
    #[track_caller]
    pub fn wrapping_abs(&self) -> Array<T> {
        self.abs()
    }

    /// The absolute value, and where it does not overflow: not for MIN.
    #[track_caller]
    pub fn checked_abs(&self) -> (Array<T>, Mask) {
        (self.abs(), self.ne(least::<T>()))
    }
}

/// The smallest number of a signed type.
fn least<T: Int>() -> T {
    T::from_bits(1 << (T::DTYPE.bits() - 1))
}

#[track_caller]
fn wrapped<T: Int>(n: impl Operand<u32>) -> Array<T> {
    (Array::<u32>::from_var(n.operand().into_owned()) & (T::DTYPE.bits() - 1)).cast()
}
