//! Reductions: all elements to one. Lazy; the result has size 1.
//!
//! Floats are combined in an order that depends on the number of elements alone, so results have the same bits on every
//! device. Reductions run together with the operations that make their operand.

use jit_core::dtype::DType;
use jit_core::op::Op;

use crate::element::{Bits, Element, Float, Num};
use crate::operand::Operand;
use crate::{Array, Mask};

impl<T: Element> Array<T> {
    #[track_caller]
    fn reduced(&self, op: Op) -> Array<T> {
        Array::from_var(self.var.reduce(op))
    }
}

/// # Panics
/// Every reduction panics at the caller's line on a value that each lane of an open loop or branch has for itself.
impl<T: Num> Array<T> {
    /// The sum of all elements; integers wrap in their own type, f16 accumulates in f32. 0 for no elements.
    #[track_caller]
    pub fn sum(&self) -> Array<T> {
        self.reduced(Op::ReduceSum)
    }

    /// The product of all elements; integers wrap in their own type, f16 accumulates in f32. 1 for no elements.
    #[track_caller]
    pub fn prod(&self) -> Array<T> {
        self.reduced(Op::ReduceProd)
    }

    /// `(self * other).sum()`, bit for bit.
    #[track_caller]
    pub fn dot(&self, other: impl Operand<T>) -> Array<T> {
        self.binary::<T>(Op::Mul, &other).sum()
    }

    /// The smallest element that is no NaN. No elements, or only NaN: the largest value there is (infinity for floats).
    #[track_caller]
    pub fn reduce_min(&self) -> Array<T> {
        self.reduced(Op::ReduceMin)
    }

    /// The largest element that is no NaN. No elements, or only NaN: the smallest value there is (-infinity for floats).
    #[track_caller]
    pub fn reduce_max(&self) -> Array<T> {
        self.reduced(Op::ReduceMax)
    }

    /// The smallest element, NaN if any is.
    #[track_caller]
    pub fn reduce_minimum(&self) -> Array<T> {
        self.reduced(Op::ReduceMinimum)
    }

    /// The largest element, NaN if any is.
    #[track_caller]
    pub fn reduce_maximum(&self) -> Array<T> {
        self.reduced(Op::ReduceMaximum)
    }
}

impl<T: Float> Array<T> {
    /// The sum divided by the number of elements; f16 in f32. NaN for no elements.
    #[track_caller]
    pub fn mean(&self) -> Array<T> {
        if T::DTYPE == DType::F16 {
            return self.cast::<f32>().mean().cast();
        }
        // Not a literal: the size is no part of a kernel's structure.
        let count = Array::<u64>::from_var(self.var.lane_count());
        self.sum() / count.cast::<T>()
    }
}

impl<T: Bits> Array<T> {
    /// All elements combined by `and`.
    #[track_caller]
    pub fn reduce_and(&self) -> Array<T> {
        self.reduced(Op::ReduceAnd)
    }

    /// All elements combined by `or`.
    #[track_caller]
    pub fn reduce_or(&self) -> Array<T> {
        self.reduced(Op::ReduceOr)
    }

    /// All elements combined by exclusive `or`.
    #[track_caller]
    pub fn reduce_xor(&self) -> Array<T> {
        self.reduced(Op::ReduceXor)
    }
}

impl Mask {
    /// Whether any element is true.
    #[track_caller]
    pub fn any(&self) -> Mask {
        self.reduced(Op::ReduceOr)
    }

    /// Whether all elements are true; true for no elements.
    #[track_caller]
    pub fn all(&self) -> Mask {
        self.reduced(Op::ReduceAnd)
    }

    /// How many elements are true.
    ///
    /// # Panics
    /// For 2^32 elements and more; [`count_u64`](Self::count_u64) counts those.
    #[track_caller]
    pub fn count(&self) -> Array<u32> {
        let size = self.var.size();
        assert!(size < 1 << 32, "`count` of {size} elements may not fit u32; use `count_u64`");
        self.cast::<u32>().sum()
    }

    /// How many elements are true.
    #[track_caller]
    pub fn count_u64(&self) -> Array<u64> {
        self.cast::<u64>().sum()
    }
}
