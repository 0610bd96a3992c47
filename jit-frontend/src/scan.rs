//! Running totals: each element becomes what it and all before it come to. Lazy; as many elements as the array has.
//!
//! Integers wrap, f16 sums accumulate in f32. Float totals are combined in an order that depends on the positions alone
//! (see `jit_core::builtin`), so they are the same on every run and for any number of threads; two devices may differ in
//! rounding. A scan is a kernel of its own: it reads its operand from memory.

use jit_core::op::Op;

use crate::Array;
use crate::element::Num;

/// Defines the forms of a scan: `name(flags): combining op, exclusive, "what it is"`.
macro_rules! scans {
    ($($name:ident $reverse:ident $blocks:ident $blocks_reverse:ident: $op:ident $exclusive:literal $doc:literal;)*) => {
        /// # Panics
        /// Every scan panics at the caller's line on a value that each lane of an open loop or branch has for itself.
        impl<T: Num> Array<T> {$(
            #[doc = $doc]
            #[track_caller]
            pub fn $name(&self) -> Array<T> {
                Array::from_var(self.var.scan(Op::$op, $exclusive, false, None))
            }

            #[doc = concat!("[`", stringify!($name), "`](Self::", stringify!($name), ") from the end: what comes after an element takes the place of what comes before it.")]
            #[track_caller]
            pub fn $reverse(&self) -> Array<T> {
                Array::from_var(self.var.scan(Op::$op, $exclusive, true, None))
            }

            #[doc = concat!("[`", stringify!($name), "`](Self::", stringify!($name), ") of each block of `n` elements for itself; the last one may be shorter.")]
            ///
            /// # Panics
            /// If `n` is 0.
            #[track_caller]
            pub fn $blocks(&self, n: usize) -> Array<T> {
                Array::from_var(self.var.scan(Op::$op, $exclusive, false, Some(n as u64)))
            }

            #[doc = concat!("[`", stringify!($reverse), "`](Self::", stringify!($reverse), ") of each block of `n` elements for itself; the last one may be shorter.")]
            ///
            /// # Panics
            /// If `n` is 0.
            #[track_caller]
            pub fn $blocks_reverse(&self, n: usize) -> Array<T> {
                Array::from_var(self.var.scan(Op::$op, $exclusive, true, Some(n as u64)))
            }
        )*}
    };
}

scans! {
    prefix_sum prefix_sum_reverse prefix_sum_blocks prefix_sum_blocks_reverse:
        Add false "The sum of each element and all before it.";
    exclusive_prefix_sum exclusive_prefix_sum_reverse exclusive_prefix_sum_blocks exclusive_prefix_sum_blocks_reverse:
        Add true "The sum of all elements before each; 0 for the first.";
    prefix_min prefix_min_reverse prefix_min_blocks prefix_min_blocks_reverse:
        Min false "The smallest of each element and all before it. NaN is ignored; before any number it is infinity.";
    prefix_max prefix_max_reverse prefix_max_blocks prefix_max_blocks_reverse:
        Max false "The largest of each element and all before it. NaN is ignored; before any number it is -infinity.";
}
