//! What operations take beside arrays.

use std::borrow::Cow;

use jit_core::trace::Var;

use crate::Array;
use crate::element::Element;

/// What an operation on `Array<T>` takes as its other operands: an array, a reference to one, or a number.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no operand for an array of `{T}`",
    label = "neither an `Array<{T}>`, nor a reference to one, nor a `{T}`",
    note = "element types are never converted by themselves; use `.cast::<{T}>()`"
)]
pub trait Operand<T: Element> {
    /// The value in the trace; a number is a literal without a device.
    fn operand(&self) -> Cow<'_, Var>;
}

impl<T: Element> Operand<T> for Array<T> {
    fn operand(&self) -> Cow<'_, Var> {
        Cow::Borrowed(&self.var)
    }
}

impl<T: Element> Operand<T> for &Array<T> {
    fn operand(&self) -> Cow<'_, Var> {
        Cow::Borrowed(&self.var)
    }
}

impl<T: Element> Operand<T> for T {
    fn operand(&self) -> Cow<'_, Var> {
        Cow::Owned(Var::literal(T::DTYPE, self.to_bits()))
    }
}
