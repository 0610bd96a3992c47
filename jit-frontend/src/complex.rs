//! [`Complex`] numbers of [`Real`] ones.

use std::hash::Hasher;
use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

use crate::Real;
use crate::traverse::{Rebuilder, Traverse, Visitor};

/// A complex number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Complex<A> {
    /// The real part.
    pub re: A,
    /// The imaginary part.
    pub im: A,
}

impl<A> Complex<A> {
    /// `re + i im`.
    pub fn new(re: A, im: A) -> Complex<A> {
        Complex { re, im }
    }
}

impl<R: Real> Complex<R> {
    /// The real number.
    pub fn from_real(re: R) -> Complex<R> {
        Complex { re, im: R::lit(0.0) }
    }

    /// The imaginary unit.
    pub fn i() -> Complex<R> {
        Complex { re: R::lit(0.0), im: R::lit(1.0) }
    }

    /// Of absolute value `r` in the direction `angle`, in radians.
    #[track_caller]
    pub fn from_polar(r: R, angle: R) -> Complex<R> {
        let (sin, cos) = angle.sin_cos();
        Complex { re: r.clone() * cos, im: r * sin }
    }

    /// The complex conjugate.
    #[must_use]
    #[track_caller]
    pub fn conj(&self) -> Complex<R> {
        Complex { re: self.re.clone(), im: -self.im.clone() }
    }

    /// The square of the absolute value, `im * im + re * re`, the first product unrounded. Overflows where
    /// [`abs`](Self::abs) does not.
    #[track_caller]
    pub fn norm_squared(&self) -> R {
        self.im.mul_add(self.im.clone(), self.re.clone() * self.re.clone())
    }

    /// The absolute value. The larger part is taken out of the root, so that nothing overflows or vanishes on the way.
    /// Infinite if either part is, else NaN if either part is.
    #[track_caller]
    pub fn abs(&self) -> R {
        let (re, im) = (self.re.abs(), self.im.abs());
        let large = re.maximum(im.clone());
        let ratio = re.minimum(im.clone()) / large.clone();
        let length = large.clone() * ratio.mul_add(ratio.clone(), R::lit(1.0)).sqrt();
        let length = R::select(&large.eq(R::lit(0.0)), large, length);
        R::select(&(re.is_infinite() | im.is_infinite()), R::lit(f64::INFINITY), length)
    }

    /// The angle to the positive real axis, in -pi..=pi; the signs of zeros count as in [`Real::atan2`].
    #[track_caller]
    pub fn arg(&self) -> R {
        self.im.atan2(self.re.clone())
    }

    /// The principal logarithm: the logarithm of the magnitude, and the angle.
    #[must_use]
    #[track_caller]
    pub fn ln(&self) -> Complex<R> {
        Complex { re: self.abs().ln(), im: self.arg() }
    }

    /// e to the power z.
    #[must_use]
    #[track_caller]
    pub fn exp(&self) -> Complex<R> {
        Complex::from_polar(self.re.exp(), self.im.clone())
    }

    /// The square root with a real part that is not negative; on the cut along the negative real numbers the sign of the
    /// imaginary part decides.
    #[must_use]
    #[track_caller]
    pub fn sqrt(&self) -> Complex<R> {
        let half = R::lit(0.5);
        let root = (half.clone() * self.re.abs() + half.clone() * self.abs()).sqrt();
        let other = half * self.im.abs() / root.clone();
        let zero = root.eq(R::lit(0.0));
        let other = R::select(&zero, self.im.abs(), other);
        let right = self.re.ge(R::lit(0.0));
        Complex {
            re: R::select(&right, root.clone(), other.clone()),
            im: R::select(&right, other, root).copysign(self.im.clone()),
        }
    }

    /// `1 / z`.
    #[must_use]
    #[track_caller]
    pub fn recip(&self) -> Complex<R> {
        Complex::from_real(R::lit(1.0)) / self.clone()
    }

    /// To an integer power, by squaring and multiplying from the exponent's lowest bit up; the reciprocal of that for a
    /// negative one.
    #[must_use]
    #[track_caller]
    pub fn powi(&self, exponent: i32) -> Complex<R> {
        let mut left = exponent.unsigned_abs();
        let mut power: Option<Complex<R>> = None;
        let mut square = self.clone();
        while left > 0 {
            if left & 1 == 1 {
                power = Some(match power {
                    None => square.clone(),
                    Some(power) => power * square.clone(),
                });
            }
            left >>= 1;
            if left > 0 {
                square = square.clone() * square;
            }
        }
        let power = power.unwrap_or_else(|| Complex::from_real(R::lit(1.0)));
        if exponent < 0 { power.recip() } else { power }
    }

    /// Multiplied by a real number.
    #[must_use]
    #[track_caller]
    pub fn scale(&self, factor: &R) -> Complex<R> {
        Complex { re: self.re.clone() * factor.clone(), im: self.im.clone() * factor.clone() }
    }

    /// `x` where the mask is true, else `y`.
    #[must_use]
    #[track_caller]
    pub fn select(mask: &R::Mask, x: Complex<R>, y: Complex<R>) -> Complex<R> {
        Complex { re: R::select(mask, x.re, y.re), im: R::select(mask, x.im, y.im) }
    }
}

impl<R: Real> Add for Complex<R> {
    type Output = Complex<R>;
    #[track_caller]
    fn add(self, other: Complex<R>) -> Complex<R> {
        Complex { re: self.re + other.re, im: self.im + other.im }
    }
}

impl<R: Real> Sub for Complex<R> {
    type Output = Complex<R>;
    #[track_caller]
    fn sub(self, other: Complex<R>) -> Complex<R> {
        Complex { re: self.re - other.re, im: self.im - other.im }
    }
}

impl<R: Real> Mul for Complex<R> {
    type Output = Complex<R>;
    /// `(a c - b d) + i (a d + b c)`, the first product of each sum unrounded.
    #[track_caller]
    fn mul(self, other: Complex<R>) -> Complex<R> {
        let (Complex { re: a, im: b }, Complex { re: c, im: d }) = (self, other);
        Complex { re: a.mul_add(c.clone(), -(b.clone() * d.clone())), im: a.mul_add(d, b * c) }
    }
}

impl<R: Real> Div for Complex<R> {
    type Output = Complex<R>;
    /// Smith's method (Algorithm 116, Communications of the ACM 5(8), 1962): numerator and denominator are divided by the
    /// divisor's larger part, so that no square of it overflows.
    #[track_caller]
    fn div(self, other: Complex<R>) -> Complex<R> {
        let (Complex { re: a, im: b }, Complex { re: c, im: d }) = (self, other);
        let wide = c.abs().ge(d.abs());
        let large = R::select(&wide, c.clone(), d.clone());
        let small = R::select(&wide, d, c);
        let ratio = small.clone() / large.clone();
        let divisor = small.mul_add(ratio.clone(), large);
        // (a + b r) + i (b - a r), or else (b + a r) + i (b r - a).
        let (x, y) = (R::select(&wide, a.clone(), b.clone()), R::select(&wide, b, a));
        let re = y.mul_add(ratio.clone(), x.clone());
        let im = y - x * ratio;
        let im = R::select(&wide, im.clone(), -im);
        Complex { re: re / divisor.clone(), im: im / divisor }
    }
}

impl<R: Real> Neg for Complex<R> {
    type Output = Complex<R>;
    #[track_caller]
    fn neg(self) -> Complex<R> {
        Complex { re: -self.re, im: -self.im }
    }
}

macro_rules! assign {
    ($($trait:ident $method:ident $op:ident;)*) => {$(
        impl<R: Real> $trait for Complex<R> {
            #[track_caller]
            fn $method(&mut self, other: Complex<R>) {
                *self = self.clone().$op(other);
            }
        }
    )*};
}

assign! {
    AddAssign add_assign add;
    SubAssign sub_assign sub;
    MulAssign mul_assign mul;
    DivAssign div_assign div;
}

impl<A: Traverse> Traverse for Complex<A> {
    fn visit(&self, visitor: &mut dyn Visitor) {
        self.re.visit(visitor);
        self.im.visit(visitor);
    }

    fn rebuild(&self, rebuilder: &mut dyn Rebuilder) -> Self {
        Complex { re: self.re.rebuild(rebuilder), im: self.im.rebuild(rebuilder) }
    }

    fn static_key(&self, state: &mut dyn Hasher) {
        self.re.static_key(state);
        self.im.static_key(state);
    }
}
