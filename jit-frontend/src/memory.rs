//! Gather and scatter: elements at indices.
//!
//! Indices are integers of any type. An index out of bounds (a negative one is) reads 0 and writes nothing.

use jit_core::error::Error;
use jit_core::op::Op;

use crate::Array;
use crate::element::{Bits, Element, Int, Num};
use crate::operand::Operand;

impl<T: Element> Array<T> {
    /// The elements at these indices, 0 (false) where out of bounds; as many as there are indices.
    ///
    /// # Panics
    /// If `self` is a value that each lane of an open loop or branch has for itself.
    #[track_caller]
    pub fn gather<I: Int>(&self, index: impl Operand<I>) -> Array<T> {
        Array::from_var(self.var.gather(&index.operand(), None))
    }

    /// The elements at these indices, 0 (false) where out of bounds or where the mask is false.
    ///
    /// # Panics
    /// As [`gather`](Self::gather).
    #[track_caller]
    pub fn gather_masked<I: Int>(&self, index: impl Operand<I>, mask: impl Operand<bool>) -> Array<T> {
        Array::from_var(self.var.gather(&index.operand(), Some(&mask.operand())))
    }
}

/// Calls a macro with the kinds of scatter: by the trait that elements must have, the methods' names, the op, what it does.
macro_rules! for_each_scatter {
    ($callback:ident) => {
        $callback! {
            Element {
                scatter scatter_masked Scatter "Stores values at indices";
            }
            Num {
                scatter_add scatter_add_masked ScatterAdd "Adds values to the elements at indices";
                scatter_mul scatter_mul_masked ScatterMul "Multiplies the elements at indices by values";
                scatter_min scatter_min_masked ScatterMin "Puts the smaller of element and value at indices";
                scatter_max scatter_max_masked ScatterMax "Puts the larger of element and value at indices";
                scatter_minimum scatter_minimum_masked ScatterMinimum "As `scatter_min`, but a NaN wins";
                scatter_maximum scatter_maximum_masked ScatterMaximum "As `scatter_max`, but a NaN wins";
            }
            Bits {
                scatter_and scatter_and_masked ScatterAnd "Combines elements at indices with values by `and`";
                scatter_or scatter_or_masked ScatterOr "Combines elements at indices with values by `or`";
                scatter_xor scatter_xor_masked ScatterXor "Combines elements at indices with values by exclusive `or`";
            }
        }
    };
}
pub(crate) use for_each_scatter;

macro_rules! scatters {
    ($($class:ident { $($name:ident $masked:ident $op:ident $doc:literal;)* })*) => {$(
        /// Each makes this handle a new version of the array and leaves its clones as they were. Several values for one
        /// element: a plain scatter keeps one of them, the others combine all of them, in no particular order.
        ///
        /// Inside the closure of a loop or branch arrays cannot be written (it panics); a [`Buffer`](crate::Buffer) can.
        impl<T: $class> Array<T> {$(
            #[doc = concat!($doc, ".")]
            ///
            /// # Panics
            /// At the caller's line on a literal that has no device, for sizes that do not fit, or inside a loop or branch.
            #[track_caller]
            pub fn $name<I: Int>(&mut self, value: impl Operand<T>, index: impl Operand<I>) {
                self.var.scatter(Op::$op, &value.operand(), &index.operand(), None);
            }

            #[doc = concat!($doc, ", where the mask is true.")]
            ///
            /// # Panics
            #[doc = concat!("As [`", stringify!($name), "`](Self::", stringify!($name), ").")]
            #[track_caller]
            pub fn $masked<I: Int>(
                &mut self,
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

/// That an index of the host lies within an array.
pub(crate) fn check_index(op: &'static str, index: usize, size: u64) -> Result<(), Error> {
    if (index as u64) < size {
        return Ok(());
    }
    Err(Error::OutOfBounds { op, location: String::new(), index: index as i128, size })
}
