//! Exponential functions.
//!
//! x = n ln2 + r with |r| <= ln2 / 2, after Cody and Waite; exp(r) by a polynomial; 2^n by integer ops, in two
//! factors so that results below the normal range are rounded once.

use std::f64::consts::{LN_2, LOG2_E};

use super::emit::Expr;
use super::layout::power_of_two;
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

/// (2^r - 1) / r in powers of r on |r| <= 1/2 (Remez, see `approximations.py`): the relative error of 2^r is 2^-31.9 ...
const EXP2_F32: [f64; 7] = [
    0.693_147_182_464_599_6,
    0.240_226_507_186_889_65,
    0.055_504_050_105_810_165,
    0.009_618_088_603_019_714,
    0.001_333_791_995_421_052,
    0.000_154_525_550_897_233_2,
    1.433_666_693_628_765_6e-5,
];

/// ... and 2^-55.6.
const EXP2_F64: [f64; 12] = [
    LN_2,
    0.240_226_506_959_100_72,
    0.055_504_108_664_821_69,
    0.009_618_129_107_628_33,
    0.001_333_355_814_639_264_3,
    0.000_154_035_303_936_411_26,
    1.525_273_385_437_825_2e-5,
    1.321_548_659_468_478_7e-6,
    1.017_805_191_482_554e-7,
    7.054_974_525_990_453e-9,
    4.456_574_908_417_286e-10,
    2.562_540_319_150_599_5e-11,
];

/// e^x.
pub(super) fn exp(x: Expr<'_>) -> Expr<'_> {
    let c = Constants::of(x);
    let (n, rest) = reduce(c.clamp(x));
    let r = n.count.mul_add(-c.ln2[1], rest);
    n.scale(power(r, &c))
}

/// e^x for -80 <= x <= 80: neither the argument nor the exponent of the result leaves its range.
pub(super) fn exp_moderate(x: Expr<'_>) -> Expr<'_> {
    let c = Constants::of(x);
    let (n, rest) = reduce(x);
    let r = n.count.mul_add(-c.ln2[1], rest);
    power(r, &c) * n.power_of_two(0)
}

/// e^(x + low) to more bits than x has, where low is small against x.
pub(super) fn exp_sum<'e>(x: Expr<'e>, low: Expr<'e>) -> Expr<'e> {
    let (n, r, rest) = reduce_pair(x, low);
    n.scale(r + rest + 1.0)
}

/// e^(x + low) * (factor + factor_low) for a factor near 1, rounded once, also below the normal range.
pub(super) fn exp_sum_times<'e>(
    x: Expr<'e>,
    low: Expr<'e>,
    factor: Expr<'e>,
    factor_low: Expr<'e>,
) -> Expr<'e> {
    let (n, r, rest) = reduce_pair(x, low);
    let power = r + 1.0;
    let power_low = (r - (power - 1.0)) + rest;
    n.scale(power.mul_add(factor, power.mul_add(factor_low, power_low * factor)))
}

/// e^x - 1 = (2^n - 1) + 2^n (e^r - 1), all of it halved until the end, so that 2^n does not overflow.
pub(super) fn exp_m1(x: Expr<'_>) -> Expr<'_> {
    let c = Constants::of(x);
    // Below this the result is -1.
    let lowest = if x.dtype() == DType::F32 { -20.0 } else { -40.0 };
    let (n, r, r_low) = reduce_sum(clamp(x, lowest, c.highest));
    let half = n.power_of_two(-1);
    let tail = (r * r).mul_add(r.polynomial(c.q), r_low);
    let one = x.float(0.5);
    let whole = half - one;
    // What the subtraction lost, whichever of the two was larger.
    let larger = half.gt(one);
    let lost = larger.select(half - whole, half) - larger.select(one, whole + one);
    let product = half * r;
    let sum = whole + product;
    let low = product - (sum - whole);
    let near = sum + (low + half.mul_add(tail, lost));
    // Half of a denormal number may not be one; and -0 is its own result. (e^x - 1 = x + x^2 / 2 + ..)
    x.abs().lt(power_of_two(-x.layout().mantissa - 3)).select(x, near + near)
}

/// 2^x.
pub(super) fn exp2(x: Expr<'_>) -> Expr<'_> {
    let layout = x.layout();
    // Beyond these the result is 0 or infinity, as it is at them.
    let (lowest, highest) = if x.dtype() == DType::F32 { (-151.0, 129.0) } else { (-1076.0, 1025.0) };
    let x = clamp(x, lowest, highest);
    let shifter = layout.shifter() + 2.0 * layout.bias as f64;
    let shifted = x + shifter;
    let count = shifted - shifter;
    let r = x - count;
    let rest = if x.dtype() == DType::F32 { r.polynomial(&EXP2_F32) } else { r.polynomial(&EXP2_F64) };
    Twos { count, shifted }.scale(r.mul_add(rest, 1.0))
}

impl Constants {
    fn of(x: Expr<'_>) -> Constants {
        if x.dtype() == DType::F32 { F32 } else { F64 }
    }

    fn clamp<'e>(&self, x: Expr<'e>) -> Expr<'e> {
        clamp(x, self.lowest, self.highest)
    }
}

/// NaN passes.
fn clamp(x: Expr<'_>, lowest: f64, highest: f64) -> Expr<'_> {
    let x = x.lt(lowest).select(lowest, x);
    x.gt(highest).select(highest, x)
}

/// e^r. Horner's rule down to the constant loses less than a sum of 1 + r and the rest.
fn power<'e>(r: Expr<'e>, c: &Constants) -> Expr<'e> {
    r.mul_add(r.mul_add(r.polynomial(c.q), 1.0), 1.0)
}

/// n, and x - n ln2 but for the low part of ln2.
fn reduce(x: Expr<'_>) -> (Twos<'_>, Expr<'_>) {
    let layout = x.layout();
    let c = Constants::of(x);
    // The low bits of the rounded number are n + 2 bias.
    let shifter = layout.shifter() + 2.0 * layout.bias as f64;
    let shifted = x.mul_add(LOG2_E, shifter);
    let count = shifted - shifter;
    let rest = count.mul_add(-c.ln2[0], x);
    (Twos { count, shifted }, rest)
}

/// n, r and a smaller rest with e^(x + low) = 2^n (1 + r + rest).
fn reduce_pair<'e>(x: Expr<'e>, low: Expr<'e>) -> (Twos<'e>, Expr<'e>, Expr<'e>) {
    let c = Constants::of(x);
    let (n, rest) = reduce(c.clamp(x));
    let small = n.count.mul_add(-c.ln2[1], low);
    let r = rest + small;
    let r_low = small - (r - rest);
    (n, r, (r * r).mul_add(r.polynomial(c.q), r_low))
}

/// n, and x - n ln2 as a sum of two floats.
pub(super) fn reduce_sum(x: Expr<'_>) -> (Twos<'_>, Expr<'_>, Expr<'_>) {
    let (n, rest) = reduce(x);
    let small = n.count * -Constants::of(x).ln2[1];
    let r = rest + small;
    let r_low = small - (r - rest);
    (n, r, r_low)
}

/// A number of factors 2.
pub(super) struct Twos<'e> {
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

    /// 2^(count + more), which must be in the normal range.
    pub(super) fn power_of_two(&self, more: i64) -> Expr<'e> {
        let layout = self.shifted.layout();
        ((self.shifted.bits() + (more - layout.bias)) << layout.mantissa).float_of_bits()
    }

    /// 2^(more - count), or 0 where that is below the normal range; count + more is at most the bias.
    pub(super) fn inverse_power_of_two(&self, more: i64) -> Expr<'e> {
        let layout = self.shifted.layout();
        let field = layout.shifter_bits() + 3 * layout.bias + more;
        let field = self.shifted.emitter().int(layout.int, field) - self.shifted.bits();
        (field.max(0) << layout.mantissa).float_of_bits()
    }
}
