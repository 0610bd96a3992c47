//! Mathematics on numbers.
//!
//! What a function gives is the same, bit for bit, on every device. Those of [`Float`] are built on mul_add where that is
//! more accurate, as their comments say.

use jit_core::op::Op;
use jit_core::trace::Var;

use crate::element::{Float, Num, Signed};
use crate::operand::Operand;
use crate::{Array, Mask};

impl<T: Num> Array<T> {
    /// `self * factor + summand`: floats round once, integers wrap.
    #[track_caller]
    pub fn mul_add(&self, factor: impl Operand<T>, summand: impl Operand<T>) -> Array<T> {
        let (factor, summand) = (factor.operand(), summand.operand());
        Array::from_var(Var::apply(Op::MulAdd, T::DTYPE, &[&self.var, &factor, &summand]))
    }

    /// To a power above 0, by squaring and multiplying from the exponent's lowest bit up; none for the exponent 0.
    #[track_caller]
    pub(crate) fn power(&self, exponent: u32) -> Option<Array<T>> {
        let mut left = exponent;
        let mut square = self.clone();
        let mut power: Option<Array<T>> = None;
        while left != 0 {
            if left & 1 == 1 {
                power = Some(match power {
                    None => square.clone(),
                    Some(power) => power * &square,
                });
            }
            left >>= 1;
            if left != 0 {
                square = &square * &square;
            }
        }
        power
    }
}

impl<T: Signed> Array<T> {
    /// Absolute value; the smallest integer wraps to itself.
    #[track_caller]
    pub fn abs(&self) -> Array<T> {
        self.unary(Op::Abs)
    }

    /// Integers: -1, 0 or 1. Floats: 1 with the sign of the number (also of a zero), NaN for NaN.
    #[track_caller]
    pub fn signum(&self) -> Array<T> {
        let one = Array::<i8>::from(1).cast::<T>();
        if T::DTYPE.is_float() {
            let unit = one.binary::<T>(Op::CopySign, self);
            return self.ne(self).select(self, unit);
        }
        let zero = Array::from(T::default());
        self.gt(&zero).select(&one, self.lt(&zero).select(-&one, &zero))
    }
}

impl<T: Float> Array<T> {
    /// Square root, correctly rounded.
    #[track_caller]
    pub fn sqrt(&self) -> Array<T> {
        self.unary(Op::Sqrt)
    }

    /// `1 / sqrt(x)`.
    #[track_caller]
    pub fn rsqrt(&self) -> Array<T> {
        self.unary(Op::Rsqrt)
    }

    /// `1 / x`, correctly rounded.
    #[track_caller]
    pub fn recip(&self) -> Array<T> {
        self.unary(Op::Recip)
    }

    /// Sine of an angle in radians.
    #[track_caller]
    pub fn sin(&self) -> Array<T> {
        self.unary(Op::Sin)
    }

    /// Cosine of an angle in radians.
    #[track_caller]
    pub fn cos(&self) -> Array<T> {
        self.unary(Op::Cos)
    }

    /// Sine and cosine of an angle in radians.
    #[track_caller]
    pub fn sin_cos(&self) -> (Array<T>, Array<T>) {
        (self.sin(), self.cos())
    }

    /// Tangent of an angle in radians.
    #[track_caller]
    pub fn tan(&self) -> Array<T> {
        self.unary(Op::Tan)
    }

    /// Arcsine in radians, from -pi/2 to pi/2; NaN beyond 1.
    #[track_caller]
    pub fn asin(&self) -> Array<T> {
        self.unary(Op::Asin)
    }

    /// Arccosine in radians, from 0 to pi; NaN beyond 1.
    #[track_caller]
    pub fn acos(&self) -> Array<T> {
        self.unary(Op::Acos)
    }

    /// Arctangent in radians, from -pi/2 to pi/2.
    #[track_caller]
    pub fn atan(&self) -> Array<T> {
        self.unary(Op::Atan)
    }

    /// The angle of the vector (`x`, `self`) in radians, from -pi to pi; zeros, infinities and signs as C's `atan2`.
    #[track_caller]
    pub fn atan2(&self, x: impl Operand<T>) -> Array<T> {
        self.binary(Op::Atan2, &x)
    }

    /// Hyperbolic sine.
    #[track_caller]
    pub fn sinh(&self) -> Array<T> {
        self.unary(Op::Sinh)
    }

    /// Hyperbolic cosine.
    #[track_caller]
    pub fn cosh(&self) -> Array<T> {
        self.unary(Op::Cosh)
    }

    /// Hyperbolic tangent.
    #[track_caller]
    pub fn tanh(&self) -> Array<T> {
        self.unary(Op::Tanh)
    }

    /// Inverse hyperbolic sine.
    #[track_caller]
    pub fn asinh(&self) -> Array<T> {
        self.unary(Op::Asinh)
    }

    /// Inverse hyperbolic cosine; NaN below 1.
    #[track_caller]
    pub fn acosh(&self) -> Array<T> {
        self.unary(Op::Acosh)
    }

    /// Inverse hyperbolic tangent; NaN beyond 1.
    #[track_caller]
    pub fn atanh(&self) -> Array<T> {
        self.unary(Op::Atanh)
    }

    /// e to the power x.
    #[track_caller]
    pub fn exp(&self) -> Array<T> {
        self.unary(Op::Exp)
    }

    /// 2 to the power x; exact where that is a power of two.
    #[track_caller]
    pub fn exp2(&self) -> Array<T> {
        self.unary(Op::Exp2)
    }

    /// e to the power x, less 1; to full relative accuracy near 0.
    #[track_caller]
    pub fn exp_m1(&self) -> Array<T> {
        self.unary(Op::ExpM1)
    }

    /// Natural logarithm.
    #[track_caller]
    pub fn ln(&self) -> Array<T> {
        self.unary(Op::Ln)
    }

    /// Binary logarithm; exact for powers of two.
    #[track_caller]
    pub fn log2(&self) -> Array<T> {
        self.unary(Op::Log2)
    }

    /// Decimal logarithm.
    #[track_caller]
    pub fn log10(&self) -> Array<T> {
        self.unary(Op::Log10)
    }

    /// Natural logarithm of 1 + x; to full relative accuracy near 0.
    #[track_caller]
    pub fn ln_1p(&self) -> Array<T> {
        self.unary(Op::Ln1p)
    }

    /// Cube root, also of negative numbers.
    #[track_caller]
    pub fn cbrt(&self) -> Array<T> {
        self.unary(Op::Cbrt)
    }

    /// `sqrt(self^2 + other^2)`, without overflow on the way; infinity if either is, even beside NaN.
    #[track_caller]
    pub fn hypot(&self, other: impl Operand<T>) -> Array<T> {
        self.binary(Op::Hypot, &other)
    }

    /// The error function.
    #[track_caller]
    pub fn erf(&self) -> Array<T> {
        self.unary(Op::Erf)
    }

    /// 1 less the error function; to full relative accuracy where that is small.
    #[track_caller]
    pub fn erfc(&self) -> Array<T> {
        self.unary(Op::Erfc)
    }

    /// To a floating-point power, special cases as C's `pow`.
    #[track_caller]
    pub fn powf(&self, exponent: impl Operand<T>) -> Array<T> {
        self.binary(Op::Pow, &exponent)
    }

    /// To an integer power, by squaring and multiplying from the exponent's lowest bit up; the reciprocal of that for a
    /// negative one.
    #[track_caller]
    pub fn powi(&self, exponent: i32) -> Array<T> {
        let Some(power) = self.power(exponent.unsigned_abs()) else {
            return self.full_like(T::from_f64(1.0));
        };
        if exponent < 0 { power.recip() } else { power }
    }

    /// Largest integral value not above.
    #[track_caller]
    pub fn floor(&self) -> Array<T> {
        self.unary(Op::Floor)
    }

    /// Smallest integral value not below.
    #[track_caller]
    pub fn ceil(&self) -> Array<T> {
        self.unary(Op::Ceil)
    }

    /// Nearest integral value, halves away from zero.
    #[track_caller]
    pub fn round(&self) -> Array<T> {
        self.unary(Op::Round)
    }

    /// Nearest integral value, halves to even.
    #[track_caller]
    pub fn round_ties_even(&self) -> Array<T> {
        self.unary(Op::RoundTiesEven)
    }

    /// Integral part, toward zero.
    #[track_caller]
    pub fn trunc(&self) -> Array<T> {
        self.unary(Op::Trunc)
    }

    /// `x - x.trunc()`.
    #[track_caller]
    pub fn fract(&self) -> Array<T> {
        self - self.trunc()
    }

    /// This magnitude with the sign of another number.
    #[track_caller]
    pub fn copysign(&self, sign: impl Operand<T>) -> Array<T> {
        self.binary(Op::CopySign, &sign)
    }

    /// Where NaN.
    #[track_caller]
    pub fn is_nan(&self) -> Mask {
        self.ne(self)
    }

    /// Where neither infinite nor NaN.
    #[track_caller]
    pub fn is_finite(&self) -> Mask {
        self.abs().lt(T::from_f64(f64::INFINITY))
    }

    /// Where infinite.
    #[track_caller]
    pub fn is_infinite(&self) -> Mask {
        self.abs().eq(T::from_f64(f64::INFINITY))
    }

    /// From `self` at `t = 0` to `end` at `t = 1`, exact at both: `t * end + (self - t * self)`, each with one rounding.
    #[track_caller]
    pub fn lerp(&self, end: impl Operand<T>, t: impl Operand<T>) -> Array<T> {
        let t = Array::<T>::from_var(t.operand().into_owned());
        t.mul_add(end, (-&t).mul_add(self, self))
    }

    /// 0 where below the edge, else 1.
    #[track_caller]
    pub fn step(&self, edge: impl Operand<T>) -> Array<T> {
        self.lt(edge).select(T::from_f64(0.0), T::from_f64(1.0))
    }

    /// Radians to degrees.
    #[track_caller]
    pub fn to_degrees(&self) -> Array<T> {
        self * T::from_f64(180.0 / std::f64::consts::PI)
    }

    /// Degrees to radians.
    #[track_caller]
    pub fn to_radians(&self) -> Array<T> {
        self * T::from_f64(std::f64::consts::PI / 180.0)
    }
}
