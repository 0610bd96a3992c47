//! Comparisons, and choosing by their outcome.

use jit_core::op::Op;
use jit_core::trace::Var;

use crate::element::{Element, Num};
use crate::operand::Operand;
use crate::{Array, Mask};

/// Each takes an array, a reference to one, or a number, and gives one truth value per element. Floats compare as
/// IEEE 754 has it: a NaN is unequal to everything, itself included.
impl<T: Element> Array<T> {
    /// Where equal.
    #[track_caller]
    pub fn eq(&self, other: impl Operand<T>) -> Mask {
        self.binary(Op::Eq, &other)
    }

    /// Where not equal.
    #[track_caller]
    pub fn ne(&self, other: impl Operand<T>) -> Mask {
        self.binary(Op::Ne, &other)
    }

    /// Where less.
    #[track_caller]
    pub fn lt(&self, other: impl Operand<T>) -> Mask {
        self.binary(Op::Lt, &other)
    }

    /// Where less or equal.
    #[track_caller]
    pub fn le(&self, other: impl Operand<T>) -> Mask {
        self.binary(Op::Le, &other)
    }

    /// Where greater.
    #[track_caller]
    pub fn gt(&self, other: impl Operand<T>) -> Mask {
        self.binary(Op::Gt, &other)
    }

    /// Where greater or equal.
    #[track_caller]
    pub fn ge(&self, other: impl Operand<T>) -> Mask {
        self.binary(Op::Ge, &other)
    }
}

impl Mask {
    /// `x` where true, `y` where false. Both are evaluated for all elements; [`if_else`](crate::if_else) is the branch.
    #[track_caller]
    pub fn select<T: Element>(&self, x: impl Operand<T>, y: impl Operand<T>) -> Array<T> {
        Array::from_var(Var::apply(Op::Select, T::DTYPE, &[&self.var, &x.operand(), &y.operand()]))
    }
}

/// The smaller and the larger of two numbers; -0 is below +0.
impl<T: Num> Array<T> {
    /// The smaller one; a number rather than a NaN.
    #[track_caller]
    pub fn min(&self, other: impl Operand<T>) -> Array<T> {
        self.binary(Op::Min, &other)
    }

    /// The larger one; a number rather than a NaN.
    #[track_caller]
    pub fn max(&self, other: impl Operand<T>) -> Array<T> {
        self.binary(Op::Max, &other)
    }

    /// The smaller one; NaN if either is.
    #[track_caller]
    pub fn minimum(&self, other: impl Operand<T>) -> Array<T> {
        self.binary(Op::Minimum, &other)
    }

    /// The larger one; NaN if either is.
    #[track_caller]
    pub fn maximum(&self, other: impl Operand<T>) -> Array<T> {
        self.binary(Op::Maximum, &other)
    }

    /// `self.max(low).min(high)`: `high` where the bounds cross, `low` for NaN.
    #[track_caller]
    pub fn clamp(&self, low: impl Operand<T>, high: impl Operand<T>) -> Array<T> {
        self.max(low).min(high)
    }
}
