//! [`Real`]: one code for numbers and for arrays of numbers, with equal bits.

use std::ops::{
    Add, AddAssign, BitAnd, BitOr, BitXor, Div, DivAssign, Mul, MulAssign, Neg, Not, Rem, Shl, Shr, Sub,
    SubAssign,
};

use jit_core::op::{Op, scalar};

use crate::array::literal;
use crate::element::{Element, Float};
use crate::{Array, Lanes, Mask, Traverse};

/// A real number, or many: `f32`, `f64`, `Array<f32>`, `Array<f64>`, and whatever else implements it.
///
/// Code that is written once for `R: Real` runs on plain numbers (its *scalar twin*, easy to debug and to test) and on
/// arrays, and gives the same bits. Operands and results go by value, as with plain numbers; methods take `self` by
/// reference, so that those of [`Array`] keep precedence where the trait is in scope. Literals are made by
/// [`lit`](Self::lit). What depends on lanes goes through [`select`](Self::select), [`if_else`](crate::if_else),
/// [`while_loop`](crate::while_loop).
///
/// ```
/// use jit_frontend::{Real, while_loop};
///
/// /// Newton's iteration for the cube root.
/// fn cube_root<R: Real>(a: R) -> R {
///     let start = (R::lit(1.0), R::lit(0.0));
///     let a = &a;
///     let (root, _) = while_loop(
///         start,
///         |(_, i)| i.lt(R::lit(30.0)),
///         |(x, i)| {
///             let next = x.clone() - (x.powi(3) - a.clone()) / (R::lit(3.0) * x.clone() * x);
///             (next, i + R::lit(1.0))
///         },
///     );
///     root
/// }
/// assert!((cube_root(8.0f64) - 2.0).abs() < 1e-12);
/// ```
pub trait Real:
    Clone
    + Traverse
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Rem<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + DivAssign
{
    /// What comparisons give: `bool` or [`Mask`].
    type Mask: Truth;

    /// Whole numbers beside it: `i32` or `Array<i32>`.
    type Int: Integer<Mask = Self::Mask>;

    /// The nearest value of this type.
    fn lit(value: f64) -> Self;

    /// `x` where the mask is true, else `y`.
    #[must_use]
    fn select(mask: &Self::Mask, x: Self, y: Self) -> Self;

    /// The whole number: toward zero, saturating, 0 for NaN.
    fn to_int(&self) -> Self::Int;

    /// The nearest value to a whole number.
    fn from_int(value: Self::Int) -> Self;

    /// Where equal.
    fn eq(&self, other: Self) -> Self::Mask;

    /// Where not equal.
    fn ne(&self, other: Self) -> Self::Mask;

    /// Where less.
    fn lt(&self, other: Self) -> Self::Mask;

    /// Where less or equal.
    fn le(&self, other: Self) -> Self::Mask;

    /// Where greater.
    fn gt(&self, other: Self) -> Self::Mask;

    /// Where greater or equal.
    fn ge(&self, other: Self) -> Self::Mask;

    /// Where NaN.
    fn is_nan(&self) -> Self::Mask;

    /// Where neither infinite nor NaN.
    fn is_finite(&self) -> Self::Mask;

    /// Where infinite.
    fn is_infinite(&self) -> Self::Mask;

    /// The smaller one; a number rather than a NaN, -0 below +0.
    #[must_use]
    fn min(&self, other: Self) -> Self;

    /// The larger one; a number rather than a NaN, -0 below +0.
    #[must_use]
    fn max(&self, other: Self) -> Self;

    /// The smaller one; NaN if either is.
    #[must_use]
    fn minimum(&self, other: Self) -> Self;

    /// The larger one; NaN if either is.
    #[must_use]
    fn maximum(&self, other: Self) -> Self;

    /// `self.max(low).min(high)`.
    #[must_use]
    fn clamp(&self, low: Self, high: Self) -> Self;

    /// `self * factor + summand`, rounded once.
    #[must_use]
    fn mul_add(&self, factor: Self, summand: Self) -> Self;

    /// Absolute value.
    #[must_use]
    fn abs(&self) -> Self;

    /// 1 with the sign of the number; NaN for NaN.
    #[must_use]
    fn signum(&self) -> Self;

    /// This magnitude with the sign of another number.
    #[must_use]
    fn copysign(&self, sign: Self) -> Self;

    /// Square root, correctly rounded.
    #[must_use]
    fn sqrt(&self) -> Self;

    /// `1 / sqrt(x)`.
    #[must_use]
    fn rsqrt(&self) -> Self;

    /// `1 / x`, correctly rounded.
    #[must_use]
    fn recip(&self) -> Self;

    /// Sine of an angle in radians.
    #[must_use]
    fn sin(&self) -> Self;

    /// Cosine of an angle in radians.
    #[must_use]
    fn cos(&self) -> Self;

    /// Tangent of an angle in radians.
    #[must_use]
    fn tan(&self) -> Self;

    /// Arcsine in radians; NaN beyond 1.
    #[must_use]
    fn asin(&self) -> Self;

    /// Arccosine in radians; NaN beyond 1.
    #[must_use]
    fn acos(&self) -> Self;

    /// Arctangent in radians.
    #[must_use]
    fn atan(&self) -> Self;

    /// The angle of the vector (`x`, `self`) in radians, from -pi to pi.
    #[must_use]
    fn atan2(&self, x: Self) -> Self;

    /// Hyperbolic sine.
    #[must_use]
    fn sinh(&self) -> Self;

    /// Hyperbolic cosine.
    #[must_use]
    fn cosh(&self) -> Self;

    /// Hyperbolic tangent.
    #[must_use]
    fn tanh(&self) -> Self;

    /// Inverse hyperbolic sine.
    #[must_use]
    fn asinh(&self) -> Self;

    /// Inverse hyperbolic cosine; NaN below 1.
    #[must_use]
    fn acosh(&self) -> Self;

    /// Inverse hyperbolic tangent; NaN beyond 1.
    #[must_use]
    fn atanh(&self) -> Self;

    /// e to the power x.
    #[must_use]
    fn exp(&self) -> Self;

    /// 2 to the power x.
    #[must_use]
    fn exp2(&self) -> Self;

    /// e to the power x, less 1.
    #[must_use]
    fn exp_m1(&self) -> Self;

    /// Natural logarithm.
    #[must_use]
    fn ln(&self) -> Self;

    /// Binary logarithm.
    #[must_use]
    fn log2(&self) -> Self;

    /// Decimal logarithm.
    #[must_use]
    fn log10(&self) -> Self;

    /// Natural logarithm of 1 + x.
    #[must_use]
    fn ln_1p(&self) -> Self;

    /// Cube root.
    #[must_use]
    fn cbrt(&self) -> Self;

    /// `sqrt(self^2 + other^2)`, without overflow on the way.
    #[must_use]
    fn hypot(&self, other: Self) -> Self;

    /// The error function.
    #[must_use]
    fn erf(&self) -> Self;

    /// 1 less the error function.
    #[must_use]
    fn erfc(&self) -> Self;

    /// To a floating-point power.
    #[must_use]
    fn powf(&self, exponent: Self) -> Self;

    /// Largest integral value not above.
    #[must_use]
    fn floor(&self) -> Self;

    /// Smallest integral value not below.
    #[must_use]
    fn ceil(&self) -> Self;

    /// Nearest integral value, halves away from zero.
    #[must_use]
    fn round(&self) -> Self;

    /// Nearest integral value, halves to even.
    #[must_use]
    fn round_ties_even(&self) -> Self;

    /// Integral part, toward zero.
    #[must_use]
    fn trunc(&self) -> Self;

    /// `x - x.trunc()`.
    #[must_use]
    fn fract(&self) -> Self;

    /// From `self` at `t = 0` to `end` at `t = 1`, exact at both.
    #[must_use]
    fn lerp(&self, end: Self, t: Self) -> Self;

    /// 0 where below the edge, else 1.
    #[must_use]
    fn step(&self, edge: Self) -> Self;

    /// Radians to degrees.
    #[must_use]
    fn to_degrees(&self) -> Self;

    /// Degrees to radians.
    #[must_use]
    fn to_radians(&self) -> Self;

    /// To an integer power, by squaring and multiplying from the exponent's lowest bit up.
    #[must_use]
    fn powi(&self, exponent: i32) -> Self;

    /// Sine and cosine of an angle in radians.
    fn sin_cos(&self) -> (Self, Self) {
        (self.sin(), self.cos())
    }
}

/// Truth values that decide about [`Real`] numbers: `bool` or [`Mask`].
pub trait Truth:
    Lanes + Not<Output = Self> + BitAnd<Output = Self> + BitOr<Output = Self> + BitXor<Output = Self>
{
    /// The same on all lanes.
    fn lit(value: bool) -> Self;
}

impl Truth for bool {
    fn lit(value: bool) -> bool {
        value
    }
}

impl Truth for Mask {
    fn lit(value: bool) -> Mask {
        value.into()
    }
}

/// A whole number, or many: `i32`, `u32`, `i64`, `u64` and arrays of these.
///
/// Operators of plain integers are Rust's own, those of arrays wrap and divide by zero without a fault: equal as long as
/// nothing overflows, no divisor is 0, and shifts stay below the width.
pub trait Integer:
    Clone
    + Traverse
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Rem<Output = Self>
    + Not<Output = Self>
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitXor<Output = Self>
    + Shl<Output = Self>
    + Shr<Output = Self>
{
    /// What comparisons give.
    type Mask: Truth;

    /// The value of the low bits.
    fn lit(value: i64) -> Self;

    /// `x` where the mask is true, else `y`.
    #[must_use]
    fn select(mask: &Self::Mask, x: Self, y: Self) -> Self;

    /// Where equal.
    fn eq(&self, other: Self) -> Self::Mask;

    /// Where not equal.
    fn ne(&self, other: Self) -> Self::Mask;

    /// Where less.
    fn lt(&self, other: Self) -> Self::Mask;

    /// Where less or equal.
    fn le(&self, other: Self) -> Self::Mask;

    /// Where greater.
    fn gt(&self, other: Self) -> Self::Mask;

    /// Where greater or equal.
    fn ge(&self, other: Self) -> Self::Mask;

    /// The smaller one.
    #[must_use]
    fn min(&self, other: Self) -> Self;

    /// The larger one.
    #[must_use]
    fn max(&self, other: Self) -> Self;
}

macro_rules! of_array {
    ($($name:ident($($arg:ident),*) -> $result:ty;)*) => {$(
        #[track_caller]
        fn $name(&self $(, $arg: Self)*) -> $result {
            Array::$name(self $(, $arg)*)
        }
    )*};
}

/// Through the array's method on literals, which are folded by the rules of kernels.
macro_rules! of_literal {
    ($($name:ident($($arg:ident),*);)*) => {$(
        fn $name(&self $(, $arg: Self)*) -> Self {
            literal(Array::from(*self).$name($($arg),*).item())
        }
    )*};
}

macro_rules! of_std {
    ($ty:ty: $($name:ident($($arg:ident),*);)*) => {$(
        fn $name(&self $(, $arg: Self)*) -> Self {
            <$ty>::$name(*self $(, $arg)*)
        }
    )*};
}

macro_rules! comparisons {
    ($($name:ident $op:tt)*) => {$(
        fn $name(&self, other: Self) -> bool {
            *self $op other
        }
    )*};
}

macro_rules! real {
    ($($ty:ty)*) => {$(
        impl Real for Array<$ty> {
            type Mask = Mask;
            type Int = Array<i32>;

            fn lit(value: f64) -> Self {
                <$ty as Float>::from_f64(value).into()
            }

            #[track_caller]
            fn select(mask: &Mask, x: Self, y: Self) -> Self {
                mask.select(x, y)
            }

            #[track_caller]
            fn to_int(&self) -> Array<i32> {
                self.cast()
            }

            #[track_caller]
            fn from_int(value: Array<i32>) -> Self {
                value.cast()
            }

            #[track_caller]
            fn powi(&self, exponent: i32) -> Self {
                Array::powi(self, exponent)
            }

            of_array! {
                eq(other) -> Mask;
                ne(other) -> Mask;
                lt(other) -> Mask;
                le(other) -> Mask;
                gt(other) -> Mask;
                ge(other) -> Mask;
                is_nan() -> Mask;
                is_finite() -> Mask;
                is_infinite() -> Mask;
                min(other) -> Self;
                max(other) -> Self;
                minimum(other) -> Self;
                maximum(other) -> Self;
                clamp(low, high) -> Self;
                mul_add(factor, summand) -> Self;
                abs() -> Self;
                signum() -> Self;
                copysign(sign) -> Self;
                sqrt() -> Self;
                rsqrt() -> Self;
                recip() -> Self;
                sin() -> Self;
                cos() -> Self;
                tan() -> Self;
                asin() -> Self;
                acos() -> Self;
                atan() -> Self;
                atan2(x) -> Self;
                sinh() -> Self;
                cosh() -> Self;
                tanh() -> Self;
                asinh() -> Self;
                acosh() -> Self;
                atanh() -> Self;
                exp() -> Self;
                exp2() -> Self;
                exp_m1() -> Self;
                ln() -> Self;
                log2() -> Self;
                log10() -> Self;
                ln_1p() -> Self;
                cbrt() -> Self;
                hypot(other) -> Self;
                erf() -> Self;
                erfc() -> Self;
                powf(exponent) -> Self;
                floor() -> Self;
                ceil() -> Self;
                round() -> Self;
                round_ties_even() -> Self;
                trunc() -> Self;
                fract() -> Self;
                lerp(end, t) -> Self;
                step(edge) -> Self;
                to_degrees() -> Self;
                to_radians() -> Self;
            }
        }

        impl Real for $ty {
            type Mask = bool;
            type Int = i32;

            fn lit(value: f64) -> Self {
                <$ty as Float>::from_f64(value)
            }

            fn select(mask: &bool, x: Self, y: Self) -> Self {
                if *mask { x } else { y }
            }

            fn to_int(&self) -> i32 {
                *self as i32
            }

            fn from_int(value: i32) -> Self {
                value as $ty
            }

            fn is_nan(&self) -> bool {
                <$ty>::is_nan(*self)
            }

            fn is_finite(&self) -> bool {
                <$ty>::is_finite(*self)
            }

            fn is_infinite(&self) -> bool {
                <$ty>::is_infinite(*self)
            }

            fn min(&self, other: Self) -> Self {
                combined(Op::Min, *self, other)
            }

            fn max(&self, other: Self) -> Self {
                combined(Op::Max, *self, other)
            }

            fn minimum(&self, other: Self) -> Self {
                combined(Op::Minimum, *self, other)
            }

            fn maximum(&self, other: Self) -> Self {
                combined(Op::Maximum, *self, other)
            }

            fn clamp(&self, low: Self, high: Self) -> Self {
                Real::min(&Real::max(self, low), high)
            }

            fn fract(&self) -> Self {
                *self - self.trunc()
            }

            fn step(&self, edge: Self) -> Self {
                if *self < edge { 0.0 } else { 1.0 }
            }

            fn powi(&self, exponent: i32) -> Self {
                literal(Array::from(*self).powi(exponent).item())
            }

            comparisons! { eq == ne != lt < le <= gt > ge >= }

            of_std! { $ty:
                mul_add(factor, summand);
                abs();
                signum();
                copysign(sign);
                sqrt();
                recip();
                floor();
                ceil();
                round();
                round_ties_even();
                trunc();
            }

            of_literal! {
                rsqrt();
                sin();
                cos();
                tan();
                asin();
                acos();
                atan();
                atan2(x);
                sinh();
                cosh();
                tanh();
                asinh();
                acosh();
                atanh();
                exp();
                exp2();
                exp_m1();
                ln();
                log2();
                log10();
                ln_1p();
                cbrt();
                hypot(other);
                erf();
                erfc();
                powf(exponent);
                lerp(end, t);
                to_degrees();
                to_radians();
            }
        }
    )*};
}

real! { f32 f64 }

macro_rules! integer {
    ($($ty:ty)*) => {$(
        impl Integer for Array<$ty> {
            type Mask = Mask;

            fn lit(value: i64) -> Self {
                (value as $ty).into()
            }

            #[track_caller]
            fn select(mask: &Mask, x: Self, y: Self) -> Self {
                mask.select(x, y)
            }

            of_array! {
                eq(other) -> Mask;
                ne(other) -> Mask;
                lt(other) -> Mask;
                le(other) -> Mask;
                gt(other) -> Mask;
                ge(other) -> Mask;
                min(other) -> Self;
                max(other) -> Self;
            }
        }

        impl Integer for $ty {
            type Mask = bool;

            fn lit(value: i64) -> Self {
                value as $ty
            }

            fn select(mask: &bool, x: Self, y: Self) -> Self {
                if *mask { x } else { y }
            }

            fn min(&self, other: Self) -> Self {
                Ord::min(*self, other)
            }

            fn max(&self, other: Self) -> Self {
                Ord::max(*self, other)
            }

            comparisons! { eq == ne != lt < le <= gt > ge >= }
        }
    )*};
}

integer! { i32 u32 i64 u64 }

/// An op of kernels on two numbers.
fn combined<T: Element>(op: Op, a: T, b: T) -> T {
    T::from_bits(scalar::evaluate(op, T::DTYPE, T::DTYPE, &[a.to_bits(), b.to_bits()]))
}
