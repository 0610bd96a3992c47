//! [`Buffer`]: a place that is written to.

use std::marker::PhantomData;

use jit_core::error::Error;
use jit_core::op::Op;
use jit_core::trace::{BufferVar, Var};

use crate::element::{Bits, DType, Element, Int, Num};
use crate::memory::{check_index, for_each_scatter};
use crate::operand::Operand;
use crate::{Array, Device, Mask};

/// A place: it names the current version of some memory, and moves on with every write.
///
/// A clone is the same place. Loops and branches write to buffers, whether captured or part of their state; each lane
/// sees its own earlier writes there, those of other lanes in no particular order.
pub struct Buffer<T: Element> {
    pub(crate) var: BufferVar,
    element: PhantomData<fn() -> T>,
}

impl<T: Element> Buffer<T> {
    /// A place of `n` elements, all zero (false).
    ///
    /// # Errors
    /// None today: memory is taken when the buffer is first evaluated, and [`Error::OutOfMemory`] comes from there.
    ///
    /// # Panics
    /// Inside the closure of a loop or branch.
    #[track_caller]
    pub fn zeros(n: usize, device: &Device) -> Result<Buffer<T>, Error> {
        Buffer::from_array(&Array::zeros(n, device))
    }

    /// A place whose current version is this array.
    ///
    /// # Errors
    /// As [`zeros`](Self::zeros).
    ///
    /// # Panics
    /// If the array is a literal without a device, or inside the closure of a loop or branch.
    #[track_caller]
    pub fn from_array(array: &Array<T>) -> Result<Buffer<T>, Error> {
        Ok(Buffer { var: BufferVar::new(&array.var), element: PhantomData })
    }

    /// Number of elements.
    #[expect(clippy::len_without_is_empty, reason = "an empty buffer is no special case")]
    pub fn len(&self) -> usize {
        self.var.size() as usize
    }

    /// The device.
    pub fn device(&self) -> Device {
        Device::from_core(self.var.device())
    }

    /// The current version as a value, which later writes do not change.
    ///
    /// # Panics
    /// Inside the closure of a loop or branch, where no single version is current; gather there.
    #[track_caller]
    pub fn value(&self) -> Array<T> {
        Array::from_var(self.var.value())
    }

    /// Makes an array (or one element for all) the current version.
    ///
    /// # Panics
    /// If size or device differ, or inside the closure of a loop or branch.
    #[track_caller]
    pub fn set(&self, value: impl Operand<T>) {
        self.var.set(&value.operand());
    }

    /// Writes an array (or one element for all) over the elements, in place where nobody holds the version before.
    ///
    /// # Panics
    /// If size or device differ.
    #[track_caller]
    pub fn assign(&self, value: impl Operand<T>) {
        let value = value.operand();
        let (own, size) = (self.var.size(), value.size());
        assert!(
            size == own || size == 1,
            "`assign` of {size} elements to a buffer of {own}; sizes must be equal, or 1"
        );
        let lanes = Var::counter(self.var.device(), DType::U64, own);
        self.var.scatter(Op::Scatter, &value, &lanes, None);
    }

    /// Writes one element.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`].
    #[track_caller]
    pub fn write(&self, index: usize, value: impl Operand<T>) -> Result<(), Error> {
        check_index("write", index, self.var.size())?;
        self.scatter(value, index as u64);
        Ok(())
    }

    /// The elements at these indices, 0 (false) where out of bounds.
    #[track_caller]
    pub fn gather<I: Int>(&self, index: impl Operand<I>) -> Array<T> {
        Array::from_var(self.var.gather(&index.operand(), None))
    }

    /// The elements at these indices, 0 (false) where out of bounds or where the mask is false.
    #[track_caller]
    pub fn gather_masked<I: Int>(&self, index: impl Operand<I>, mask: impl Operand<bool>) -> Array<T> {
        Array::from_var(self.var.gather(&index.operand(), Some(&mask.operand())))
    }

    /// The place in the trace.
    pub fn var(&self) -> &BufferVar {
        &self.var
    }

    /// The handle of a place of this type.
    ///
    /// # Panics
    /// If the place has another element type.
    #[track_caller]
    pub fn from_var(var: BufferVar) -> Buffer<T> {
        assert!(var.dtype() == T::DTYPE, "a buffer of {} made of a place of {}", T::DTYPE, var.dtype());
        Buffer { var, element: PhantomData }
    }
}

macro_rules! scatters {
    ($($class:ident { $($name:ident $masked:ident $op:ident $doc:literal;)* })*) => {$(
        /// Each moves the place on to the version after it. Several values for one element: a plain scatter keeps one of
        /// them, the others combine all of them, in no particular order.
        impl<T: $class> Buffer<T> {$(
            #[doc = concat!($doc, ".")]
            ///
            /// # Panics
            /// At the caller's line for sizes or devices that do not fit.
            #[track_caller]
            pub fn $name<I: Int>(&self, value: impl Operand<T>, index: impl Operand<I>) {
                self.var.scatter(Op::$op, &value.operand(), &index.operand(), None);
            }

            #[doc = concat!($doc, ", where the mask is true.")]
            ///
            /// # Panics
            /// At the caller's line for sizes or devices that do not fit.
            #[track_caller]
            pub fn $masked<I: Int>(
                &self,
                value: impl Operand<T>,
                index: impl Operand<I>,
                mask: impl Operand<bool>,
            ) {
                self.var.scatter(Op::$op, &value.operand(), &index.operand(), Some(&mask.operand()));
            }
        )*}
    )*};
}

for_each_scatter!(scatters);

impl<T: Int> Buffer<T> {
    /// Adds 1 to the elements at indices; gives each lane the value from before its own addition, 0 where out of bounds.
    #[track_caller]
    pub fn atomic_inc<I: Int>(&self, index: impl Operand<I>) -> Array<T> {
        Array::from_var(self.var.atomic_inc(&index.operand(), None))
    }

    /// [`atomic_inc`](Self::atomic_inc) where the mask is true, else 0 and no addition.
    #[track_caller]
    pub fn atomic_inc_masked<I: Int>(&self, index: impl Operand<I>, mask: impl Operand<bool>) -> Array<T> {
        Array::from_var(self.var.atomic_inc(&index.operand(), Some(&mask.operand())))
    }
}

impl<T: Element> Buffer<T> {
    /// Stores values at indices; gives each lane what stood there before, 0 (false) where out of bounds. Lanes that meet at an
    /// element get one another's values, in no particular order.
    ///
    /// # Panics
    /// At the caller's line for sizes or devices that do not fit.
    #[track_caller]
    pub fn exchange<I: Int>(&self, value: impl Operand<T>, index: impl Operand<I>) -> Array<T> {
        Array::from_var(self.var.exchange(&value.operand(), &index.operand(), None))
    }

    /// [`exchange`](Self::exchange) where the mask is true, else 0 (false) and nothing is stored.
    ///
    /// # Panics
    /// As [`exchange`](Self::exchange).
    #[track_caller]
    pub fn exchange_masked<I: Int>(
        &self,
        value: impl Operand<T>,
        index: impl Operand<I>,
        mask: impl Operand<bool>,
    ) -> Array<T> {
        Array::from_var(self.var.exchange(&value.operand(), &index.operand(), Some(&mask.operand())))
    }

    /// Stores values at indices where the expected ones stand, compared by bits (NaN is equal to itself, -0 is not +0). Gives
    /// what stood there before, 0 (false) where out of bounds, and whether the lane stored its value.
    ///
    /// # Panics
    /// At the caller's line for sizes or devices that do not fit.
    #[track_caller]
    pub fn compare_exchange<I: Int>(
        &self,
        expected: impl Operand<T>,
        value: impl Operand<T>,
        index: impl Operand<I>,
    ) -> (Array<T>, Mask) {
        let (expected, index) = (expected.operand(), index.operand());
        let old = self.var.compare_exchange(&expected, &value.operand(), &index, None);
        let stored = self.found(&old, &expected, &index);
        (Array::from_var(old), stored)
    }

    /// [`compare_exchange`](Self::compare_exchange) where the mask is true, else 0 (false), false, and nothing is stored.
    ///
    /// # Panics
    /// As [`compare_exchange`](Self::compare_exchange).
    #[track_caller]
    pub fn compare_exchange_masked<I: Int>(
        &self,
        expected: impl Operand<T>,
        value: impl Operand<T>,
        index: impl Operand<I>,
        mask: impl Operand<bool>,
    ) -> (Array<T>, Mask) {
        let (expected, index, mask) = (expected.operand(), index.operand(), mask.operand());
        let old = self.var.compare_exchange(&expected, &value.operand(), &index, Some(&mask));
        let stored = self.found(&old, &expected, &index) & Array::from_var(mask.into_owned());
        (Array::from_var(old), stored)
    }

    /// Where an index is in bounds and the old element has the expected bits.
    #[track_caller]
    fn found(&self, old: &Var, expected: &Var, index: &Var) -> Mask {
        let bits = |value: &Var| match T::DTYPE {
            DType::F16 => Var::apply(Op::Bitcast, DType::U16, &[value]),
            DType::F32 => Var::apply(Op::Bitcast, DType::U32, &[value]),
            DType::F64 => Var::apply(Op::Bitcast, DType::U64, &[value]),
            _ => value.clone(),
        };
        let equal = Var::apply(Op::Eq, DType::Bool, &[&bits(old), &bits(expected)]);
        // A negative index, read as unsigned, is past any length.
        let index = Var::apply(Op::Cast, DType::U64, &[index]);
        let within = Var::apply(Op::Lt, DType::Bool, &[&index, &self.var.lane_count()]);
        Array::from_var(Var::apply(Op::And, DType::Bool, &[&equal, &within]))
    }
}

impl<T: Element> Clone for Buffer<T> {
    fn clone(&self) -> Buffer<T> {
        Buffer { var: self.var.clone(), element: PhantomData }
    }
}

impl<T: Element> std::fmt::Debug for Buffer<T> {
    /// Never evaluates.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.var.fmt(f)
    }
}
