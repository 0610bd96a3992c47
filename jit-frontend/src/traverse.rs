//! [`Traverse`]: values made of arrays and buffers.

use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use half::f16;
pub use jit_core::trace::{BufferVar, Var};

use crate::element::Element;
use crate::{Array, Buffer};

/// A value made of arrays and buffers (its *leaves*): what loops carry, branches take and return, and what
/// [`eval`](crate::eval), [`select`](crate::select), [`gather`](crate::gather()) work on.
///
/// Usually derived:
///
#[cfg_attr(feature = "derive", doc = "```")]
#[cfg_attr(not(feature = "derive"), doc = "```ignore")]
/// # use jit_frontend as jit;
/// use jit::prelude::*;
///
/// #[derive(Clone, Traverse)]
/// struct Ray<R> {
///     origin: Vec3<R>,
///     direction: Vec3<R>,
///     /// No leaf, but part of the structure.
///     #[traverse(skip)]
///     medium: u32,
///     /// Neither.
///     #[traverse(ignore)]
///     name: String,
/// }
/// ```
///
/// Fields marked `skip` must be `Hash + Clone`; they enter [`static_key`](Self::static_key), so a loop's body must leave
/// them as they are. Fields marked `ignore` must be `Clone`. Plain numbers are no leaves either: they are copied and enter
/// the key.
pub trait Traverse: Sized {
    /// Shows every leaf to the visitor, in a fixed order.
    fn visit(&self, visitor: &mut dyn Visitor);

    /// The same value with other leaves, which the rebuilder gives, in the order of [`visit`](Self::visit).
    fn rebuild(&self, rebuilder: &mut dyn Rebuilder) -> Self;

    /// Hashes what is no leaf and yet part of the structure: lengths, variants, skipped fields.
    fn static_key(&self, state: &mut dyn Hasher);
}

/// Sees the leaves of a value.
pub trait Visitor {
    /// An array.
    fn array(&mut self, array: &Var);

    /// A buffer.
    fn buffer(&mut self, buffer: &BufferVar);
}

/// Replaces the leaves of a value.
pub trait Rebuilder {
    /// What stands for this array; of the same type.
    fn array(&mut self, old: &Var) -> Var;

    /// What stands for this buffer; of the same type.
    fn buffer(&mut self, old: &BufferVar) -> BufferVar {
        old.clone()
    }
}

impl<T: Element> Traverse for Array<T> {
    fn visit(&self, visitor: &mut dyn Visitor) {
        visitor.array(self.as_var());
    }

    fn rebuild(&self, rebuilder: &mut dyn Rebuilder) -> Self {
        Array::from_var(rebuilder.array(self.as_var()))
    }

    fn static_key(&self, _state: &mut dyn Hasher) {}
}

impl<T: Element> Traverse for Buffer<T> {
    fn visit(&self, visitor: &mut dyn Visitor) {
        visitor.buffer(self.var());
    }

    fn rebuild(&self, rebuilder: &mut dyn Rebuilder) -> Self {
        Buffer::from_var(rebuilder.buffer(self.var()))
    }

    fn static_key(&self, _state: &mut dyn Hasher) {}
}

macro_rules! plain {
    ($($ty:ty: |$v:ident| $key:expr;)*) => {$(
        impl Traverse for $ty {
            fn visit(&self, _visitor: &mut dyn Visitor) {}

            fn rebuild(&self, _rebuilder: &mut dyn Rebuilder) -> Self {
                *self
            }

            fn static_key(&self, mut state: &mut dyn Hasher) {
                let $v = *self;
                $key.hash(&mut state);
            }
        }
    )*};
}

plain! {
    (): |v| v; bool: |v| v;
    i8: |v| v; u8: |v| v; i16: |v| v; u16: |v| v; i32: |v| v; u32: |v| v; i64: |v| v; u64: |v| v;
    isize: |v| v; usize: |v| v; f16: |v| v.to_bits(); f32: |v| v.to_bits(); f64: |v| v.to_bits();
}

macro_rules! tuples {
    ($(($($name:ident $index:tt),+);)*) => {$(
        impl<$($name: Traverse),+> Traverse for ($($name,)+) {
            fn visit(&self, visitor: &mut dyn Visitor) {
                $(self.$index.visit(visitor);)+
            }

            fn rebuild(&self, rebuilder: &mut dyn Rebuilder) -> Self {
                ($(self.$index.rebuild(rebuilder),)+)
            }

            fn static_key(&self, state: &mut dyn Hasher) {
                $(self.$index.static_key(state);)+
            }
        }
    )*};
}

tuples! {
    (A 0);
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, D 3);
    (A 0, B 1, C 2, D 3, E 4);
    (A 0, B 1, C 2, D 3, E 4, F 5);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11);
}

impl<A: Traverse, const N: usize> Traverse for [A; N] {
    fn visit(&self, visitor: &mut dyn Visitor) {
        self.iter().for_each(|a| a.visit(visitor));
    }

    fn rebuild(&self, rebuilder: &mut dyn Rebuilder) -> Self {
        std::array::from_fn(|i| self[i].rebuild(rebuilder))
    }

    fn static_key(&self, state: &mut dyn Hasher) {
        self.iter().for_each(|a| a.static_key(state));
    }
}

impl<A: Traverse> Traverse for Vec<A> {
    fn visit(&self, visitor: &mut dyn Visitor) {
        self.iter().for_each(|a| a.visit(visitor));
    }

    fn rebuild(&self, rebuilder: &mut dyn Rebuilder) -> Self {
        self.iter().map(|a| a.rebuild(rebuilder)).collect()
    }

    fn static_key(&self, state: &mut dyn Hasher) {
        state.write_usize(self.len());
        self.iter().for_each(|a| a.static_key(state));
    }
}

impl<A: Traverse> Traverse for Option<A> {
    fn visit(&self, visitor: &mut dyn Visitor) {
        self.iter().for_each(|a| a.visit(visitor));
    }

    fn rebuild(&self, rebuilder: &mut dyn Rebuilder) -> Self {
        self.as_ref().map(|a| a.rebuild(rebuilder))
    }

    fn static_key(&self, state: &mut dyn Hasher) {
        state.write_u8(u8::from(self.is_some()));
        self.iter().for_each(|a| a.static_key(state));
    }
}

impl<A> Traverse for PhantomData<A> {
    fn visit(&self, _visitor: &mut dyn Visitor) {}

    fn rebuild(&self, _rebuilder: &mut dyn Rebuilder) -> Self {
        PhantomData
    }

    fn static_key(&self, _state: &mut dyn Hasher) {}
}

impl<A: Traverse> Traverse for Box<A> {
    fn visit(&self, visitor: &mut dyn Visitor) {
        (**self).visit(visitor);
    }

    fn rebuild(&self, rebuilder: &mut dyn Rebuilder) -> Self {
        Box::new((**self).rebuild(rebuilder))
    }

    fn static_key(&self, state: &mut dyn Hasher) {
        (**self).static_key(state);
    }
}
