//! The exponential function.
//!
//! x = n ln2 + r with |r| <= ln2 / 2, after Cody and Waite; exp(r) by a polynomial; 2^n by integer ops, in two
//! factors so that results below the normal range are rounded once.

use std::f64::consts::{LN_2, LOG2_E};

use super::emit::Expr;
use crate::dtype::DType;

struct Constants {
    /// Beyond these the result is 0 or infinity, as it is at them.
    lowest: f64,
    highest: f64,
    /// ln2 in two parts of full precision. n times the first is subtracted exactly by `mul_add`, since the
    /// difference is small and a multiple of the last bit of both.
    ln2: [f64; 2],
    /// (exp(r) - 1 - r) / r^2 in powers of r.
    q: &'static [f64],
}

const F32: Constants = Constants {
    lowest: -104.0,
    highest: 89.0,
    ln2: [0.693_147_182_464_599_6, -1.904_654_212_125_933_6e-9],
    q: &Q_F32,
};

const F64: Constants =
    Constants { lowest: -746.0, highest: 710.0, ln2: [LN_2, 2.319_046_813_846_299_6e-17], q: &Q_F64 };

/// (exp(r) - 1 - r) / r^2 on |r| <= ln2 / 2, interpolated at Chebyshev nodes: the error of exp(r) is 2^-32.6 ...
const Q_F32: [f64; 6] = [
    0.500_000_001_353_873,
    0.166_666_666_817_042_15,
    0.041_666_464_197_405_69,
    0.008_333_310_844_647_862,
    0.001_393_373_071_579_208_3,
    0.000_198_910_804_639_988_43,
];

/// ... and 2^-61.7.
const Q_F64: [f64; 11] = [
    0.5,
    0.166_666_666_666_666_7,
    0.041_666_666_666_666_67,
    0.008_333_333_333_326_084,
    0.001_388_888_888_888_371_1,
    0.000_198_412_698_750_022_8,
    2.480_158_732_567_746e-5,
    2.755_725_517_000_089e-6,
    2.755_727_347_871_858e-7,
    2.510_531_272_962_210_3e-8,
    2.091_475_532_589_32e-9,
];

/// e^x.
pub(super) fn exp(x: Expr<'_>) -> Expr<'_> {
    let (c, n, rest) = reduce(x);
    let r = n.count.mul_add(-c.ln2[1], rest);
    // Horner's rule down to the constant loses less than a sum of 1 + r and the rest.
    let power = r.mul_add(r.mul_add(r.polynomial(c.q), 1.0), 1.0);
    n.scale(power)
}

/// e^(x + low) to more bits than it has, where low is small against x.
pub(super) fn exp_sum<'e>(x: Expr<'e>, low: Expr<'e>) -> Expr<'e> {
    let (c, n, rest) = reduce(x);
    let small = n.count.mul_add(-c.ln2[1], low);
    let r = rest + small;
    let r_low = small - (r - rest);
    let power = r + (r * r).mul_add(r.polynomial(c.q), r_low) + 1.0;
    n.scale(power)
}

/// n, and x - n ln2 but for the low part of ln2. NaN passes.
fn reduce(x: Expr<'_>) -> (Constants, Twos<'_>, Expr<'_>) {
    let c = if x.dtype() == DType::F32 { F32 } else { F64 };
    let layout = x.layout();
    let x = x.lt(c.lowest).select(c.lowest, x);
    let x = x.gt(c.highest).select(c.highest, x);
    // The low bits of the rounded number are n + 2 bias.
    let shifter = layout.shifter() + 2.0 * layout.bias as f64;
    let shifted = x.mul_add(LOG2_E, shifter);
    let count = shifted - shifter;
    let rest = count.mul_add(-c.ln2[0], x);
    (c, Twos { count, shifted }, rest)
}

/// A number of factors 2.
struct Twos<'e> {
    count: Expr<'e>,
    shifted: Expr<'e>,
}

impl<'e> Twos<'e> {
    /// x * 2^count for x near 1.
    fn scale(self, x: Expr<'e>) -> Expr<'e> {
        let mantissa = x.layout().mantissa;
        let sum = self.shifted.bits();
        // floor(count / 2) + bias and the rest + bias: the exponent fields of the two factors. The shift left
        // drops what stands above.
        let half = sum >> 1;
        let rest = sum - half;
        x * (half << mantissa).float_of_bits() * (rest << mantissa).float_of_bits()
    }
}
