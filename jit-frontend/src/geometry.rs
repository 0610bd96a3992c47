//! Geometry of short vectors of [`Real`] numbers.

use crate::{Real, Vec2, Vec3, Vec4};

macro_rules! geometry {
    ($($name:ident { $first:ident $($field:ident)* })*) => {$(
        impl<R: Real> $name<R> {
            /// The dot product: the first components' product, the others added to it by `mul_add` in order.
            #[track_caller]
            pub fn dot(&self, other: &$name<R>) -> R {
                let sum = self.$first.clone() * other.$first.clone();
                $(let sum = self.$field.mul_add(other.$field.clone(), sum);)*
                sum
            }

            /// The dot product with itself.
            #[track_caller]
            pub fn length_squared(&self) -> R {
                self.dot(self)
            }

            /// The Euclidean length.
            #[track_caller]
            pub fn length(&self) -> R {
                self.length_squared().sqrt()
            }

            /// The vector of length 1 in its direction: itself times `length_squared().rsqrt()`.
            #[must_use]
            #[track_caller]
            pub fn normalize(&self) -> $name<R> {
                self * self.length_squared().rsqrt()
            }

            /// The smaller components.
            #[must_use]
            #[track_caller]
            pub fn min(&self, other: &$name<R>) -> $name<R> {
                $name { $first: self.$first.min(other.$first.clone()), $($field: self.$field.min(other.$field.clone())),* }
            }

            /// The larger components.
            #[must_use]
            #[track_caller]
            pub fn max(&self, other: &$name<R>) -> $name<R> {
                $name { $first: self.$first.max(other.$first.clone()), $($field: self.$field.max(other.$field.clone())),* }
            }

            /// The components' absolute values.
            #[must_use]
            #[track_caller]
            pub fn abs(&self) -> $name<R> {
                $name { $first: self.$first.abs(), $($field: self.$field.abs()),* }
            }

            /// The smallest component.
            #[track_caller]
            pub fn min_element(&self) -> R {
                let least = self.$first.clone();
                $(let least = least.min(self.$field.clone());)*
                least
            }

            /// The largest component.
            #[track_caller]
            pub fn max_element(&self) -> R {
                let most = self.$first.clone();
                $(let most = most.max(self.$field.clone());)*
                most
            }

            /// `self * factor + summand`, each component rounded once.
            #[must_use]
            #[track_caller]
            pub fn mul_add(&self, factor: &$name<R>, summand: &$name<R>) -> $name<R> {
                $name {
                    $first: self.$first.mul_add(factor.$first.clone(), summand.$first.clone()),
                    $($field: self.$field.mul_add(factor.$field.clone(), summand.$field.clone()),)*
                }
            }

            /// From `self` at `t = 0` to `end` at `t = 1`, exact at both.
            #[must_use]
            #[track_caller]
            pub fn lerp(&self, end: &$name<R>, t: &R) -> $name<R> {
                $name {
                    $first: self.$first.lerp(end.$first.clone(), t.clone()),
                    $($field: self.$field.lerp(end.$field.clone(), t.clone()),)*
                }
            }

            /// `x` where the mask is true, else `y`.
            #[must_use]
            #[track_caller]
            pub fn select(mask: &R::Mask, x: $name<R>, y: $name<R>) -> $name<R> {
                $name { $first: R::select(mask, x.$first, y.$first), $($field: R::select(mask, x.$field, y.$field)),* }
            }
        }
    )*};
}

geometry! {
    Vec2 { x y }
    Vec3 { x y z }
    Vec4 { x y z w }
}

impl<R: Real> Vec3<R> {
    /// The cross product; each component is `mul_add` of one product and the negated other.
    #[must_use]
    #[track_caller]
    pub fn cross(&self, other: &Vec3<R>) -> Vec3<R> {
        Vec3 {
            x: minor(&self.y, &other.z, &self.z, &other.y),
            y: minor(&self.z, &other.x, &self.x, &other.z),
            z: minor(&self.x, &other.y, &self.y, &other.x),
        }
    }

    /// The direction mirrored at a plane with that normal (of length 1).
    #[must_use]
    #[track_caller]
    pub fn reflect(&self, normal: &Vec3<R>) -> Vec3<R> {
        let twice = R::lit(-2.0) * self.dot(normal);
        normal.mul_add(&Vec3::splat(twice), self)
    }
}

/// `a * b - c * d`, the first product unrounded.
#[track_caller]
fn minor<R: Real>(a: &R, b: &R, c: &R, d: &R) -> R {
    a.mul_add(b.clone(), -(c.clone() * d.clone()))
}
