//! [`Quaternion`]s of [`Real`] numbers.

use std::hash::Hasher;
use std::ops::{Add, Mul, Neg, Sub};

use crate::traverse::{Rebuilder, Traverse, Visitor};
use crate::{Matrix, Real, Vec3, Vec4};

/// A quaternion `w + x i + y j + z k`; of length 1, a rotation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quaternion<A> {
    /// The vector part.
    pub v: Vec3<A>,
    /// The scalar part.
    pub w: A,
}

impl<A> Quaternion<A> {
    /// `w + x i + y j + z k`.
    pub fn new(x: A, y: A, z: A, w: A) -> Quaternion<A> {
        Quaternion { v: Vec3 { x, y, z }, w }
    }
}

impl<R: Real> Quaternion<R> {
    /// The rotation that changes nothing.
    pub fn identity() -> Quaternion<R> {
        Quaternion { v: Vec3::splat(R::lit(0.0)), w: R::lit(1.0) }
    }

    /// The rotation by an angle in radians about an axis of length 1, counterclockwise where the axis points at the viewer.
    #[track_caller]
    pub fn from_axis_angle(axis: &Vec3<R>, angle: &R) -> Quaternion<R> {
        let (sin, cos) = (angle.clone() * R::lit(0.5)).sin_cos();
        Quaternion { v: axis * sin, w: cos }
    }

    /// Of the opposite vector part; the opposite rotation.
    #[must_use]
    #[track_caller]
    pub fn conj(&self) -> Quaternion<R> {
        Quaternion { v: -&self.v, w: self.w.clone() }
    }

    fn components(&self) -> Vec4<R> {
        let Vec3 { x, y, z } = self.v.clone();
        Vec4 { x, y, z, w: self.w.clone() }
    }

    /// The dot product of the components x, y, z, w, as [`Vec4::dot`].
    #[track_caller]
    pub fn dot(&self, other: &Quaternion<R>) -> R {
        self.components().dot(&other.components())
    }

    /// The length of the components.
    #[track_caller]
    pub fn length(&self) -> R {
        self.dot(self).sqrt()
    }

    /// The quaternion of length 1 in its direction.
    #[must_use]
    #[track_caller]
    pub fn normalize(&self) -> Quaternion<R> {
        self.scale(&self.dot(self).rsqrt())
    }

    /// The quaternion whose product with it is 1: the conjugate over the length's square.
    #[must_use]
    #[track_caller]
    pub fn inverse(&self) -> Quaternion<R> {
        self.conj().scale(&self.dot(self).recip())
    }

    /// Each component multiplied by a number.
    #[must_use]
    #[track_caller]
    pub fn scale(&self, factor: &R) -> Quaternion<R> {
        Quaternion { v: &self.v * factor, w: self.w.clone() * factor.clone() }
    }

    /// A vector rotated by this quaternion of length 1: `p + 2 w (v x p) + 2 v x (v x p)`.
    #[track_caller]
    pub fn rotate(&self, p: &Vec3<R>) -> Vec3<R> {
        let t = self.v.cross(p) * R::lit(2.0);
        t.mul_add(&Vec3::splat(self.w.clone()), p) + self.v.cross(&t)
    }

    /// The rotation at `t` in 0..=1 on the shorter way from `self` to `other`, both of length 1, at constant speed
    /// (K. Shoemake, *Animating rotation with quaternion curves*, SIGGRAPH 1985). Where the two are nearly the same it
    /// interpolates linearly and normalizes, which differs by less than rounding.
    #[must_use]
    #[track_caller]
    pub fn slerp(&self, other: &Quaternion<R>, t: &R) -> Quaternion<R> {
        let cosine = self.dot(other);
        // Both signs of a quaternion are the same rotation; one of them is near.
        let other = other.scale(&R::lit(1.0).copysign(cosine.clone()));
        let cosine = cosine.abs();
        let rest = R::lit(1.0) - t.clone();
        let near = cosine.gt(R::lit(0.9995));
        let linear = (self.scale(&rest) + other.scale(t)).normalize();
        // Half the angle is accurate also where the cosine is near 1.
        let angle = R::select(&near, R::lit(1.0), cosine).acos();
        let sine = R::select(&near, R::lit(1.0), angle.sin());
        let [from, to] = [rest, t.clone()].map(|part| (part * angle.clone()).sin() / sine.clone());
        Quaternion::select(&near, linear, self.scale(&from) + other.scale(&to))
    }

    /// The matrix that rotates as this quaternion of length 1.
    #[track_caller]
    pub fn to_matrix(&self) -> Matrix<R, 3, 3> {
        let [x, y, z] = [Vec3::new(1.0, 0.0, 0.0), Vec3::new(0.0, 1.0, 0.0), Vec3::new(0.0, 0.0, 1.0)]
            .map(|axis| self.rotate(&axis.map(R::lit)).into_array());
        Matrix::from_columns([x, y, z])
    }

    /// `x` where the mask is true, else `y`.
    #[must_use]
    #[track_caller]
    pub fn select(mask: &R::Mask, x: Quaternion<R>, y: Quaternion<R>) -> Quaternion<R> {
        Quaternion { v: Vec3::select(mask, x.v, y.v), w: R::select(mask, x.w, y.w) }
    }
}

impl<R: Real> Mul for Quaternion<R> {
    type Output = Quaternion<R>;
    /// The rotation by `other`, then by `self`.
    #[track_caller]
    fn mul(self, other: Quaternion<R>) -> Quaternion<R> {
        let turned = self.v.cross(&other.v);
        let turned = other.v.mul_add(&Vec3::splat(self.w.clone()), &turned);
        let v = self.v.mul_add(&Vec3::splat(other.w.clone()), &turned);
        Quaternion { w: self.w.mul_add(other.w, -self.v.dot(&other.v)), v }
    }
}

impl<R: Real> Add for Quaternion<R> {
    type Output = Quaternion<R>;
    #[track_caller]
    fn add(self, other: Quaternion<R>) -> Quaternion<R> {
        Quaternion { v: self.v + other.v, w: self.w + other.w }
    }
}

impl<R: Real> Sub for Quaternion<R> {
    type Output = Quaternion<R>;
    #[track_caller]
    fn sub(self, other: Quaternion<R>) -> Quaternion<R> {
        Quaternion { v: self.v - other.v, w: self.w - other.w }
    }
}

impl<R: Real> Neg for Quaternion<R> {
    type Output = Quaternion<R>;
    #[track_caller]
    fn neg(self) -> Quaternion<R> {
        Quaternion { v: -self.v, w: -self.w }
    }
}

impl<A: Traverse> Traverse for Quaternion<A> {
    fn visit(&self, visitor: &mut dyn Visitor) {
        self.v.visit(visitor);
        self.w.visit(visitor);
    }

    fn rebuild(&self, rebuilder: &mut dyn Rebuilder) -> Self {
        Quaternion { v: self.v.rebuild(rebuilder), w: self.w.rebuild(rebuilder) }
    }

    fn static_key(&self, state: &mut dyn Hasher) {
        self.v.static_key(state);
        self.w.static_key(state);
    }
}
