//! Reductions by an op: of all elements, of blocks, or of the rows or columns of a matrix. Lazy.
//!
//! | of | result | |
//! | --- | --- | --- |
//! | `sum()` | 1 element | all elements |
//! | `sum_blocks(n)` | one a block | blocks of `n` elements that follow each other, the last one perhaps shorter; none for no elements |
//! | `sum_rows(cols)` | one a row | a matrix with `cols` columns whose rows follow each other |
//! | `sum_cols(cols)` | `cols` elements | the columns of such a matrix |
//!
//! Floats are combined in an order that depends on the number of elements (of the block, row or column) alone, so results
//! have the same bits on every device. Reductions run together with the operations that make their operand, and with other
//! reductions of the same number of elements, if they are of the same blocks, rows or columns.

use jit_core::op::Op;
use jit_core::trace::Division;

use crate::Array;
use crate::element::{Bits, Element, Num};
use crate::operand::Operand;

impl<T: Element> Array<T> {
    #[track_caller]
    pub(crate) fn reduced(&self, op: Op, division: Division) -> Array<T> {
        Array::from_var(self.var.reduce_by(op, division))
    }

    /// The division into the rows of a matrix with so many columns.
    #[track_caller]
    pub(crate) fn rows_of(&self, cols: usize) -> Division {
        let size = self.var.size();
        assert!(
            cols > 0 && size.is_multiple_of(cols as u64),
            "a matrix of {cols} columns is not made of {size} elements"
        );
        Division::rows(cols as u64)
    }
}

macro_rules! reductions {
    ($($(#[$attr:meta])* $class:ident {
        $($name:ident $blocks:ident $rows:ident $cols:ident $op:ident $doc:literal $of:literal;)*
    })*) => {$(
        $(#[$attr])*
        impl<T: $class> Array<T> {$(
            #[doc = concat!($doc, " all elements", $of)]
            #[track_caller]
            pub fn $name(&self) -> Array<T> {
                self.reduced(Op::$op, Division::ALL)
            }

            #[doc = concat!($doc, " each block of `n` elements", $of, " The last block may be shorter.")]
            ///
            /// # Panics
            /// If `n` is 0.
            #[track_caller]
            pub fn $blocks(&self, n: usize) -> Array<T> {
                self.reduced(Op::$op, Division::rows(n as u64))
            }

            #[doc = concat!($doc, " each row of a row-major matrix with `cols` columns", $of)]
            ///
            /// # Panics
            /// If the elements are not whole rows.
            #[track_caller]
            pub fn $rows(&self, cols: usize) -> Array<T> {
                self.reduced(Op::$op, self.rows_of(cols))
            }

            #[doc = concat!($doc, " each column of a row-major matrix with `cols` columns", $of)]
            ///
            /// # Panics
            /// If the elements are not whole rows.
            #[track_caller]
            pub fn $cols(&self, cols: usize) -> Array<T> {
                self.reduced(Op::$op, Division::columns(cols as u64))
            }
        )*}
    )*};
}

reductions! {
    /// # Panics
    /// Every reduction panics at the caller's line on a value that each lane of an open loop or branch has for itself.
    Num {
        sum sum_blocks sum_rows sum_cols ReduceSum
            "The sum of" "; integers wrap in their own type, f16 accumulates in f32. 0 for no elements.";
        prod prod_blocks prod_rows prod_cols ReduceProd
            "The product of" "; integers wrap in their own type, f16 accumulates in f32. 1 for no elements.";
        reduce_min reduce_min_blocks reduce_min_rows reduce_min_cols ReduceMin
            "The smallest that is no NaN of"
            ". No elements, or only NaN: the largest value there is (infinity for floats).";
        reduce_max reduce_max_blocks reduce_max_rows reduce_max_cols ReduceMax
            "The largest that is no NaN of"
            ". No elements, or only NaN: the smallest value there is (-infinity for floats).";
        reduce_minimum reduce_minimum_blocks reduce_minimum_rows reduce_minimum_cols ReduceMinimum
            "The smallest of" ", NaN if any is.";
        reduce_maximum reduce_maximum_blocks reduce_maximum_rows reduce_maximum_cols ReduceMaximum
            "The largest of" ", NaN if any is.";
    }
    Bits {
        reduce_and reduce_and_blocks reduce_and_rows reduce_and_cols ReduceAnd
            "The bitwise (of truth values: logical) `and` of" ".";
        reduce_or reduce_or_blocks reduce_or_rows reduce_or_cols ReduceOr
            "The bitwise (of truth values: logical) `or` of" ".";
        reduce_xor reduce_xor_blocks reduce_xor_rows reduce_xor_cols ReduceXor
            "The bitwise (of truth values: logical) exclusive `or` of" ".";
    }
}

impl<T: Num> Array<T> {
    /// `(self * other).sum()`, bit for bit.
    #[track_caller]
    pub fn dot(&self, other: impl Operand<T>) -> Array<T> {
        self.binary::<T>(Op::Mul, &other).sum()
    }
}
