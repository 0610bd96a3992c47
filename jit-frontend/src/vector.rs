//! [`Vec2`], [`Vec3`], [`Vec4`]: short vectors of arrays, or of numbers.

use std::hash::Hasher;
use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

use crate::Array;
use crate::traverse::{Rebuilder, Traverse, Visitor};

macro_rules! vector {
    ($($name:ident $n:literal { $first:ident $($field:ident)* } $doc:literal;)*) => {$(
        #[doc = $doc]
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub struct $name<A> {
            /// The first component.
            pub $first: A,
            $(
                /// A component.
                pub $field: A,
            )*
        }

        impl<A> $name<A> {
            /// A vector of these components.
            pub fn new($first: A, $($field: A),*) -> $name<A> {
                $name { $first, $($field),* }
            }

            /// A vector of equal components.
            pub fn splat(value: A) -> $name<A>
            where
                A: Clone,
            {
                $name { $($field: value.clone(),)* $first: value }
            }

            /// The function's results, component by component.
            pub fn map<B>(self, mut f: impl FnMut(A) -> B) -> $name<B> {
                $name { $first: f(self.$first), $($field: f(self.$field)),* }
            }

            /// The function's results on the components of two vectors.
            pub fn zip<B, C>(self, other: $name<B>, mut f: impl FnMut(A, B) -> C) -> $name<C> {
                $name { $first: f(self.$first, other.$first), $($field: f(self.$field, other.$field)),* }
            }

            /// The components.
            pub fn into_array(self) -> [A; $n] {
                [self.$first, $(self.$field),*]
            }
        }

        impl<A> From<[A; $n]> for $name<A> {
            fn from([$first, $($field),*]: [A; $n]) -> $name<A> {
                $name { $first, $($field),* }
            }
        }

        impl<A: Traverse> Traverse for $name<A> {
            fn visit(&self, visitor: &mut dyn Visitor) {
                self.$first.visit(visitor);
                $(self.$field.visit(visitor);)*
            }

            fn rebuild(&self, rebuilder: &mut dyn Rebuilder) -> Self {
                $name { $first: self.$first.rebuild(rebuilder), $($field: self.$field.rebuild(rebuilder)),* }
            }

            fn static_key(&self, state: &mut dyn Hasher) {
                self.$first.static_key(state);
                $(self.$field.static_key(state);)*
            }
        }

        impl<A: Neg<Output = A>> Neg for $name<A> {
            type Output = $name<A>;
            #[track_caller]
            fn neg(self) -> $name<A> {
                $name { $first: -self.$first, $($field: -self.$field),* }
            }
        }

        impl<A: Neg<Output = A> + Clone> Neg for &$name<A> {
            type Output = $name<A>;
            #[track_caller]
            fn neg(self) -> $name<A> {
                -self.clone()
            }
        }

        operators! { $name { $first $($field)* } Add add AddAssign add_assign }
        operators! { $name { $first $($field)* } Sub sub SubAssign sub_assign }
        operators! { $name { $first $($field)* } Mul mul MulAssign mul_assign }
        operators! { $name { $first $($field)* } Div div DivAssign div_assign }
    )*};
}

/// A vector with a vector, or with one scalar for all components; values or references.
macro_rules! operators {
    ($name:ident { $($field:ident)* } $trait:ident $method:ident $assign:ident $assign_method:ident) => {
        impl<A: $trait<Output = A>> $trait for $name<A> {
            type Output = $name<A>;
            #[track_caller]
            fn $method(self, other: $name<A>) -> $name<A> {
                $name { $($field: self.$field.$method(other.$field)),* }
            }
        }

        impl<A: $trait<Output = A> + Clone> $trait<&$name<A>> for $name<A> {
            type Output = $name<A>;
            #[track_caller]
            fn $method(self, other: &$name<A>) -> $name<A> {
                $name { $($field: self.$field.$method(other.$field.clone())),* }
            }
        }

        impl<A: $trait<Output = A> + Clone> $trait<$name<A>> for &$name<A> {
            type Output = $name<A>;
            #[track_caller]
            fn $method(self, other: $name<A>) -> $name<A> {
                $name { $($field: self.$field.clone().$method(other.$field)),* }
            }
        }

        impl<A: $trait<Output = A> + Clone> $trait<&$name<A>> for &$name<A> {
            type Output = $name<A>;
            #[track_caller]
            fn $method(self, other: &$name<A>) -> $name<A> {
                $name { $($field: self.$field.clone().$method(other.$field.clone())),* }
            }
        }

        impl<A: $trait<Output = A> + Clone> $trait<A> for $name<A> {
            type Output = $name<A>;
            #[track_caller]
            fn $method(self, other: A) -> $name<A> {
                $name { $($field: self.$field.$method(other.clone())),* }
            }
        }

        impl<A: $trait<Output = A> + Clone> $trait<&A> for $name<A> {
            type Output = $name<A>;
            #[track_caller]
            fn $method(self, other: &A) -> $name<A> {
                $name { $($field: self.$field.$method(other.clone())),* }
            }
        }

        impl<A: $trait<Output = A> + Clone> $trait<A> for &$name<A> {
            type Output = $name<A>;
            #[track_caller]
            fn $method(self, other: A) -> $name<A> {
                $name { $($field: self.$field.clone().$method(other.clone())),* }
            }
        }

        impl<A: $trait<Output = A> + Clone> $trait<&A> for &$name<A> {
            type Output = $name<A>;
            #[track_caller]
            fn $method(self, other: &A) -> $name<A> {
                $name { $($field: self.$field.clone().$method(other.clone())),* }
            }
        }

        impl<A: Clone, R> $assign<R> for $name<A>
        where
            $name<A>: $trait<R, Output = $name<A>>,
        {
            #[track_caller]
            fn $assign_method(&mut self, other: R) {
                *self = self.clone().$method(other);
            }
        }

        scalar_operators! { $name { $($field)* } $trait $method f32 }
        scalar_operators! { $name { $($field)* } $trait $method f64 }
    };
}

/// A vector of arrays with a plain number, and scalars on the left.
macro_rules! scalar_operators {
    ($name:ident { $($field:ident)* } $trait:ident $method:ident $scalar:ty) => {
        impl $trait<$scalar> for $name<Array<$scalar>> {
            type Output = $name<Array<$scalar>>;
            #[track_caller]
            fn $method(self, other: $scalar) -> $name<Array<$scalar>> {
                $name { $($field: self.$field.$method(other)),* }
            }
        }

        impl $trait<$scalar> for &$name<Array<$scalar>> {
            type Output = $name<Array<$scalar>>;
            #[track_caller]
            fn $method(self, other: $scalar) -> $name<Array<$scalar>> {
                $name { $($field: (&self.$field).$method(other)),* }
            }
        }

        scalar_left! { $name { $($field)* } $trait $method $scalar, $scalar }
        scalar_left! { $name { $($field)* } $trait $method $scalar, Array<$scalar> }
        scalar_left! { $name { $($field)* } $trait $method Array<$scalar>, Array<$scalar> }
        scalar_left! { $name { $($field)* } $trait $method &Array<$scalar>, Array<$scalar> }
    };
}

macro_rules! scalar_left {
    ($name:ident { $($field:ident)* } $trait:ident $method:ident $left:ty, $component:ty) => {
        impl $trait<$name<$component>> for $left {
            type Output = $name<$component>;
            #[track_caller]
            fn $method(self, other: $name<$component>) -> $name<$component> {
                $name { $($field: self.clone().$method(&other.$field)),* }
            }
        }

        impl $trait<&$name<$component>> for $left {
            type Output = $name<$component>;
            #[track_caller]
            fn $method(self, other: &$name<$component>) -> $name<$component> {
                $name { $($field: self.clone().$method(&other.$field)),* }
            }
        }
    };
}

vector! {
    Vec2 2 { x y } "Two components.";
    Vec3 3 { x y z } "Three components.";
    Vec4 4 { x y z w } "Four components.";
}
