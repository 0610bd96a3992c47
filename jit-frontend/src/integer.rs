//! Bits and wide products of integers. (`+`, `-`, `*` wrap; `x / 0` is all ones and `x % 0` is `x`.)

use jit_core::dtype::DType;
use jit_core::op::Op;
use jit_core::trace::Var;

use crate::Array;
use crate::element::{Int, Widen};
use crate::operand::Operand;

impl<T: Int> Array<T> {
    /// Number of set bits.
    #[track_caller]
    pub fn count_ones(&self) -> Array<u32> {
        self.unary(Op::CountOnes)
    }

    /// Number of zero bits above the highest set bit; the width for 0.
    #[track_caller]
    pub fn leading_zeros(&self) -> Array<u32> {
        self.unary(Op::LeadingZeros)
    }

    /// Number of zero bits below the lowest set bit; the width for 0.
    #[track_caller]
    pub fn trailing_zeros(&self) -> Array<u32> {
        self.unary(Op::TrailingZeros)
    }

    /// The bits in reverse order.
    #[track_caller]
    pub fn reverse_bits(&self) -> Array<T> {
        self.unary(Op::ReverseBits)
    }

    /// The high half of the double-width product.
    #[track_caller]
    pub fn mul_hi(&self, other: impl Operand<T>) -> Array<T> {
        self.binary(Op::MulHi, &other)
    }

    /// To an integer power, by squaring and multiplying; wraps. 1 for the exponent 0, also of 0.
    #[track_caller]
    pub fn pow(&self, exponent: u32) -> Array<T> {
        match self.power(exponent) {
            Some(power) => power,
            None => self.full_like(T::from_bits(1)),
        }
    }

    /// The bits moved up by `n` modulo the width; those that fall out come in below.
    #[track_caller]
    pub fn rotate_left(&self, n: impl Operand<u32>) -> Array<T> {
        let n = Array::<u32>::from_var(n.operand().into_owned());
        self.rotated(Op::Shl, Op::Shr, &n)
    }

    /// The bits moved down by `n` modulo the width; those that fall out come in above.
    #[track_caller]
    pub fn rotate_right(&self, n: impl Operand<u32>) -> Array<T> {
        let n = Array::<u32>::from_var(n.operand().into_owned());
        self.rotated(Op::Shr, Op::Shl, &n)
    }

    /// The same as `+`, under the name that integers of the standard library have for it.
    #[track_caller]
    pub fn wrapping_add(&self, other: impl Operand<T>) -> Array<T> {
        self.binary(Op::Add, &other)
    }

    /// The same as `-`.
    #[track_caller]
    pub fn wrapping_sub(&self, other: impl Operand<T>) -> Array<T> {
        self.binary(Op::Sub, &other)
    }

    /// The same as `*`.
    #[track_caller]
    pub fn wrapping_mul(&self, other: impl Operand<T>) -> Array<T> {
        self.binary(Op::Mul, &other)
    }

    /// Two's complement, also of unsigned integers.
    #[track_caller]
    pub fn wrapping_neg(&self) -> Array<T> {
        self.unary(Op::Neg)
    }

    #[track_caller]
    fn rotated(&self, there: Op, back: Op, n: &Array<u32>) -> Array<T> {
        // Unsigned, so that nothing but zeros is shifted in. A shift back by the whole width gives 0, as it should.
        let wide = T::DTYPE.unsigned();
        let bits = Var::apply(Op::Bitcast, wide, &[&self.var]);
        let n = n & (T::DTYPE.bits() - 1);
        let rest = T::DTYPE.bits() - &n;
        let (n, rest) = (Var::apply(Op::Cast, wide, &[&n.var]), Var::apply(Op::Cast, wide, &[&rest.var]));
        let there = Var::apply(there, wide, &[&bits, &n]);
        let back = Var::apply(back, wide, &[&bits, &rest]);
        let both = Var::apply(Op::Or, wide, &[&there, &back]);
        Array::from_var(Var::apply(Op::Bitcast, T::DTYPE, &[&both]))
    }
}

impl<T: Widen> Array<T> {
    /// The whole product, in the type of twice the width.
    #[track_caller]
    pub fn mul_wide(&self, other: impl Operand<T>) -> Array<T::Wide> {
        let wide: DType = <T::Wide as jit_core::dtype::Element>::DTYPE;
        let other = Var::apply(Op::Cast, wide, &[&other.operand()]);
        self.cast::<T::Wide>() * Array::from_var(other)
    }
}
