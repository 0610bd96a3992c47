//! Reciprocals.

use super::emit::Expr;

/// 1 / x.
pub(super) fn recip(x: Expr<'_>) -> Expr<'_> {
    x.float(1.0) / x
}

/// 1 / sqrt(x), by the two correctly rounded ops and one step of Newton's iteration.
///
/// The two roundings alone leave up to 1.5 ulp. The residual 1 - x r^2 is taken through the product x r split
/// into two parts, so that nothing in it underflows for any x. At 0 and infinity it is NaN, and 1 / sqrt(x)
/// is right as it stands.
pub(super) fn rsqrt(x: Expr<'_>) -> Expr<'_> {
    let r = recip(x.sqrt());
    let minus_p = -(x * r);
    let minus_p_low = -(x.mul_add(r, minus_p));
    let residual = minus_p_low.mul_add(r, minus_p.mul_add(r, 1.0));
    let corrected = (r * 0.5).mul_add(residual, r);
    corrected.eq(corrected).select(corrected, r)
}
