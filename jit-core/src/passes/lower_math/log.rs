//! The natural logarithm.
//!
//! x = m 2^e with m in [sqrt(1/2), sqrt(2)) by integer ops; f = m - 1 is exact.

use super::emit::Expr;
use crate::dtype::DType;

/// (ln(1 + f) - f + f^2 / 2) / f^3 on the range of f, interpolated at Chebyshev nodes; the relative error of
/// ln(1 + f) is 2^-28.4.
pub(super) const P_F32: [f64; 9] = [
    0.333_333_311_800_300_46,
    -0.249_999_969_579_508_82,
    0.200_007_157_488_921,
    -0.166_678_023_195_012_54,
    0.142_490_576_456_974_8,
    -0.124_256_873_314_511_06,
    0.116_854_199_234_867_4,
    -0.114_797_338_466_376_35,
    0.069_716_114_714_511_82,
];

/// The coefficients Lg1 to Lg7 of fdlibm's `e_log.c`.
pub(super) const LG: [f64; 7] = [
    6.666_666_666_666_735e-1,
    3.999_999_999_940_942e-1,
    2.857_142_874_366_239e-1,
    2.222_219_843_214_978_4e-1,
    1.818_357_216_161_805e-1,
    1.531_383_769_920_937_3e-1,
    1.479_819_860_511_658_6e-1,
];

/// ln x.
pub(super) fn ln(x: Expr<'_>) -> Expr<'_> {
    let (m, e) = x.split();
    let f = m - 1.0;
    let finite = if x.dtype() == DType::F32 { ln_f32(f, e) } else { ln_f64(f, e) };
    // +infinity and NaN are their own logarithm.
    let positive = x.lt(f64::INFINITY).select(finite, x);
    let other = x.eq(0.0).select(f64::NEG_INFINITY, x.float(f64::NAN));
    x.gt(0.0).select(positive, other)
}

/// ln((1 + f) 2^e), the form of Cephes' `logf`: f - f^2/2 + f^3 P(f), with e ln2 in two parts of which
/// the first is a multiple of every e.
fn ln_f32<'e>(f: Expr<'e>, e: Expr<'e>) -> Expr<'e> {
    const LN2_HIGH: f64 = 0.693_145_751_953_125;
    const LN2_LOW: f64 = 1.428_606_765_330_187e-6;
    let square = f * f;
    let low = (f * square).mul_add(f.polynomial(&P_F32), e * LN2_LOW);
    let low = square.mul_add(-0.5, low);
    e.mul_add(LN2_HIGH, f + low)
}

/// ln((1 + f) 2^e) by fdlibm's formula: with s = f / (2 + f), ln(1 + f) = f - (f^2/2 - s (f^2/2 + R(s^2))).
fn ln_f64<'e>(f: Expr<'e>, e: Expr<'e>) -> Expr<'e> {
    const LN2_HIGH: f64 = 0.693_147_180_559_890_3;
    const LN2_LOW: f64 = 5.497_923_018_708_371e-14;
    let s = f / (f + 2.0);
    let z = s * s;
    let half_square = f * f * 0.5;
    let r = z * z.polynomial(&LG);
    let low = s.mul_add(half_square + r, e * LN2_LOW);
    e.mul_add(LN2_HIGH, f - (half_square - low))
}
