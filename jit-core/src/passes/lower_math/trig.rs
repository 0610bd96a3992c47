//! Sine, cosine and tangent.
//!
//! x = k pi/2 + (r - w) with |r| <= pi/4 and w a small remainder, so that the rounding of r costs nothing; then the
//! polynomials for sin and cos on that range, of which k chooses one and its sign.
//!
//! The reduction is Cody and Waite's with `mul_add` and pi/2 in three parts; beyond a limit it is Payne and
//! Hanek's (see `payne_hanek.rs`) in a cold block. The coefficients are those of Cephes (f32) and fdlibm (f64).

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2};

use super::emit::Expr;
use super::payne_hanek::{reduce_f32, reduce_f64};
use crate::dtype::DType;

struct Constants {
    /// Above it the first reduction is too coarse.
    limit: f64,
    /// pi/2 in three parts of full precision, all positive: so the sign of zero survives.
    half_pi: [f64; 3],
    /// (r - sin r) / r^3 in powers of r^2.
    sin: &'static [f64],
    /// (cos r - 1) / r^2 in powers of r^2.
    cos: &'static [f64],
}

const F32: Constants = Constants {
    limit: 65536.0,
    half_pi: [1.570_796_251_296_997, 7.549_789_415_861_596e-8, 5.390_302_953_474_238e-15],
    sin: &[1.666_665_461_1e-1, -8.332_160_873_6e-3, 1.951_529_589_1e-4],
    cos: &[-0.5, 4.166_664_568_298_827e-2, -1.388_731_625_493_765e-3, 2.443_315_711_809_948e-5],
};

const F64: Constants = Constants {
    limit: 1_073_741_824.0,
    half_pi: [FRAC_PI_2, 6.123_233_995_736_765e-17, 1.082_856_673_921_914e-32],
    sin: &[
        1.666_666_666_666_663_2e-1,
        -8.333_333_333_322_49e-3,
        1.984_126_982_985_795e-4,
        -2.755_731_370_707_006_8e-6,
        2.505_076_025_340_686_3e-8,
        -1.589_690_995_211_55e-10,
    ],
    cos: &[
        -0.5,
        4.166_666_666_666_66e-2,
        -1.388_888_888_887_411e-3,
        2.480_158_728_947_673e-5,
        -2.755_731_435_139_066_3e-7,
        2.087_572_321_298_175e-9,
        -1.135_964_755_778_819_5e-11,
    ],
};

/// The arguments that can occur.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Domain {
    /// Any of the type.
    Whole,
    /// Those that come from f16: none is beyond the limit.
    FromF16,
}

/// The sine.
pub(super) fn sin(x: Expr<'_>, domain: Domain) -> Expr<'_> {
    sin_quarters_on(x, 0, domain)
}

/// The cosine.
pub(super) fn cos(x: Expr<'_>, domain: Domain) -> Expr<'_> {
    sin_quarters_on(x, 1, domain)
}

/// The tangent: the quotient of sine and cosine of the reduced angle, each as a sum of two floats.
pub(super) fn tan(x: Expr<'_>, domain: Domain) -> Expr<'_> {
    let c = Constants::of(x);
    let [r, w, k] = reduce(x, &c, domain);
    let square = r * r;
    // sin = r - tail.
    let tail = (r * square).mul_add(square.polynomial(c.sin), w);
    let sin = r - tail;
    let sin_low = (r - sin) - tail;
    // cos = 1 - r^2 / 2 + rest, where the first two terms are had to twice the precision.
    let half_r = r * 0.5;
    let half_square = half_r * r;
    let one = r.float(1.0);
    let start = one - half_square;
    let start_low = (one - start) - half_square - half_r.mul_add(r, -half_square);
    let rest = (square * square).mul_add(square.polynomial(&c.cos[1..]), r.mul_add(w, start_low));
    let cos = start + rest;
    let cos_low = rest - (cos - start);
    // Every odd quarter turn: tan(x + pi/2) = -cos x / sin x.
    let odd = (k & 1).ne(0);
    let top = odd.select(-cos, sin);
    let top_low = odd.select(-cos_low, sin_low);
    let bottom = odd.select(sin, cos);
    let bottom_low = odd.select(sin_low, cos_low);
    let quotient = top / bottom;
    let residual = top_low - quotient.mul_add(bottom_low, quotient.mul_add(bottom, -top));
    let result = quotient + residual / bottom;
    // For the sign of zero, and since the residual of a denormal number says nothing.
    x.abs().lt(x.layout().negligible()).select(x, result)
}

impl Constants {
    fn of(x: Expr<'_>) -> Constants {
        if x.dtype() == DType::F32 { F32 } else { F64 }
    }
}

/// r, w and an integer whose low bits are k.
fn reduce<'e>(x: Expr<'e>, c: &Constants, domain: Domain) -> [Expr<'e>; 3] {
    x.emitter().once_per_angle(x, || {
        let near = reduce_near(x, c);
        match domain {
            Domain::FromF16 => near,
            Domain::Whole => x.abs().gt(c.limit).if_any(near, || reduce_far(x)),
        }
    })
}

/// sin(x + quarters * pi/2).
fn sin_quarters_on(x: Expr<'_>, quarters: i64, domain: Domain) -> Expr<'_> {
    let c = Constants::of(x);
    let [r, w, k] = reduce(x, &c, domain);
    let square = r * r;
    // Written so that each term of sin(-0) is a zero of the sign that the sum needs.
    let sin = r - (r * square).mul_add(square.polynomial(c.sin), w);
    let cos = r.mul_add(r.mul_add(square.polynomial(c.cos), w), 1.0);
    let odd = (k & 1).ne(0);
    let (size, k) =
        if quarters == 0 { (odd.select(cos, sin), k) } else { (odd.select(sin, cos), k + quarters) };
    // Bit 1 of k is the sign.
    let (sign_bit, shift) = if x.dtype() == DType::F32 { (i64::from(i32::MIN), 30) } else { (i64::MIN, 62) };
    (size.bits() ^ ((k << shift) & sign_bit)).float_of_bits()
}

/// r, w and an integer whose low bits are k, for |x| up to the limit; NaN for an infinity.
fn reduce_near<'e>(x: Expr<'e>, c: &Constants) -> [Expr<'e>; 3] {
    let shifter = x.layout().shifter();
    let shifted = x.mul_add(FRAC_2_PI, shifter);
    let n = shifted - shifter;
    let [p1, p2, p3] = c.half_pi;
    // Exact: a small multiple of the last bit of x or of p1.
    let r1 = n.mul_add(-p1, x);
    let minus_product = n * -p2;
    let r = r1 + minus_product;
    // What the addition lost (exactly), what the product lost, and the third part.
    let lost = (r - r1) - minus_product;
    let w = n.mul_add(p3, lost + n.mul_add(p2, minus_product));
    [r, w, shifted.bits()]
}

/// The same for any |x| above the limit.
fn reduce_far(x: Expr<'_>) -> [Expr<'_>; 3] {
    let [r, w, k] = if x.dtype() == DType::F32 { reduce_f32(x) } else { reduce_f64(x) };
    // Adds 0, or NaN for an infinity.
    [x.mul_add(0.0, r), w, k]
}
