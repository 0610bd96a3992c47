//! Hyperbolic functions.
//!
//! With x = n ln2 + r, A = (2^n + 2^-n) / 2 and B = (2^n - 2^-n) / 2: sinh x = B cosh r + A sinh r and
//! cosh x = A cosh r + B sinh r. Near 0 that is the series of sinh alone, so no bits cancel anywhere. The leading terms
//! are summed with what they lose.

use super::emit::Expr;
use super::exp::reduce_sum;
use crate::dtype::DType;

/// (sinh r - r) / r^3 in powers of r^2 on |r| <= ln2 / 2 (Remez, see `approximations.py`): the relative error of sinh r
/// is 2^-34.3, ...
const SINH_F32: [f64; 3] = [0.166_666_671_633_720_4, 0.008_333_175_443_112_85, 0.000_199_741_189_135_238_53];

/// ... that of cosh r with (cosh r - 1) / r^2 is 2^-33.2; ...
const COSH_F32: [f64; 3] = [0.5, 0.041_666_459_292_173_386, 0.001_393_542_625_010_013_6];

/// ... in f64 2^-59.7 ...
const SINH_F64: [f64; 6] = [
    0.166_666_666_666_666_66,
    0.008_333_333_333_333_337,
    0.000_198_412_698_412_532_07,
    2.755_731_926_518_998_4e-6,
    2.505_205_678_933_955_4e-8,
    1.609_082_045_203_265_3e-10,
];

/// ... and 2^-64.7.
const COSH_F64: [f64; 6] = [
    0.5,
    0.041_666_666_666_666_71,
    0.001_388_888_888_886_393_1,
    2.480_158_736_340_526e-5,
    2.755_724_181_676_093e-7,
    2.092_442_791_823_529e-9,
];

/// The hyperbolic sine.
pub(super) fn sinh(x: Expr<'_>) -> Expr<'_> {
    let half = Halves::of(x, overflow(x)).sinh().high;
    // Half of a denormal number may not be one; and -0 is its own result.
    x.abs().lt(x.layout().negligible()).select(x, (half + half).copysign(x))
}

/// The hyperbolic cosine.
pub(super) fn cosh(x: Expr<'_>) -> Expr<'_> {
    let half = Halves::of(x, overflow(x)).cosh().high;
    half + half
}

/// The hyperbolic tangent.
pub(super) fn tanh(x: Expr<'_>) -> Expr<'_> {
    // Beyond this it is 1.
    let halves = Halves::of(x, if x.dtype() == DType::F32 { 10.0 } else { 22.0 });
    let (sinh, cosh) = (halves.sinh(), halves.cosh());
    let quotient = sinh.high / cosh.high;
    let residual = sinh.low - quotient.mul_add(cosh.low, quotient.mul_add(cosh.high, -sinh.high));
    let result = (quotient + residual / cosh.high).copysign(x);
    x.abs().lt(x.layout().negligible()).select(x, result)
}

/// From here on both are infinite.
fn overflow(x: Expr<'_>) -> f64 {
    if x.dtype() == DType::F32 { 89.6 } else { 710.6 }
}

/// What sinh x / 2 and cosh x / 2 consist of: halves, so that 2^n does not overflow before they do.
struct Halves<'e> {
    /// A / 2.
    a: Sum<'e>,
    /// B / 2.
    b: Sum<'e>,
    r: Expr<'e>,
    /// sinh r - r.
    sinh_rest: Expr<'e>,
    /// cosh r - 1.
    cosh_rest: Expr<'e>,
}

/// A sum of two floats, the second below the rounding of the first.
#[derive(Clone, Copy)]
struct Sum<'e> {
    high: Expr<'e>,
    low: Expr<'e>,
}

impl<'e> Sum<'e> {
    /// x + y, where x is 0 or not smaller.
    fn of(x: Expr<'e>, y: Expr<'e>) -> Sum<'e> {
        let high = x + y;
        Sum { high, low: y - (high - x) }
    }
}

impl<'e> Halves<'e> {
    fn of(x: Expr<'e>, limit: f64) -> Halves<'e> {
        let size = x.abs();
        let (n, r, r_low) = reduce_sum(size.gt(limit).select(limit, size));
        let up = n.power_of_two(-2);
        let down = n.inverse_power_of_two(-2);
        let z = r * r;
        let (sinh, cosh) = if x.dtype() == DType::F32 {
            (z.polynomial(&SINH_F32), z.polynomial(&COSH_F32))
        } else {
            (z.polynomial(&SINH_F64), z.polynomial(&COSH_F64))
        };
        Halves {
            a: Sum::of(up, down),
            b: Sum::of(up, -down),
            r,
            sinh_rest: (r * z).mul_add(sinh, r_low),
            cosh_rest: z * cosh,
        }
    }

    fn sinh(&self) -> Sum<'e> {
        self.sum(self.b, self.a)
    }

    fn cosh(&self) -> Sum<'e> {
        self.sum(self.a, self.b)
    }

    /// even * cosh r + odd * sinh r; `even` is 0 or larger than odd * r.
    fn sum(&self, even: Sum<'e>, odd: Sum<'e>) -> Sum<'e> {
        let product = odd.high * self.r;
        let product_low = odd.high.mul_add(self.r, -product) + odd.low.mul_add(self.r, even.low);
        let sum = Sum::of(even.high, product);
        let rest = odd.high.mul_add(self.sinh_rest, even.high.mul_add(self.cosh_rest, product_low));
        Sum::of(sum.high, sum.low + rest)
    }
}
