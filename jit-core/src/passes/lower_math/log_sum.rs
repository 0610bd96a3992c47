//! Logarithms that keep relative accuracy where they are small, or have another base: of 1 + f as a sum of two floats,
//! by the formulas of `log.rs`, and what is made of it.

use std::f64::consts::{LOG2_E, LOG10_E};

use super::emit::Expr;
use super::layout::power_of_two;
use super::log::{LG, P_F32};
use crate::dtype::DType;

/// log2(e) and log10(e) less the nearest f64.
const LOG2_E_LOW: f64 = 2.035_527_374_093_103_3e-17;
const LOG10_E_LOW: f64 = 1.098_319_650_216_765e-17;

/// ln(2) in two parts, the first so short that its products with exponents are exact.
const LN2_F32: [f64; 2] = [0.693_145_751_953_125, 1.428_606_820_309_417_3e-6];
const LN2_F64: [f64; 2] = [0.693_147_180_559_890_3, 5.497_923_018_708_371e-14];

/// log10(2) likewise.
const LOG10_2_F32: [f64; 2] = [0.301_025_390_625, 4.605_038_981_195_214e-6];
const LOG10_2_F64: [f64; 2] = [0.301_029_995_663_952_83, 2.836_339_455_104_496_4e-14];

/// A logarithm of 2, and what turns natural logarithms into it.
struct Base {
    of_two: [f64; 2],
    of_e: [f64; 2],
}

/// The binary logarithm; of a power of two it is exact.
pub(super) fn log2(x: Expr<'_>) -> Expr<'_> {
    log(x, &Base { of_two: [1.0, 0.0], of_e: [LOG2_E, LOG2_E_LOW] })
}

/// The decimal logarithm.
pub(super) fn log10(x: Expr<'_>) -> Expr<'_> {
    let of_two = if x.dtype() == DType::F32 { LOG10_2_F32 } else { LOG10_2_F64 };
    log(x, &Base { of_two, of_e: [LOG10_E, LOG10_E_LOW] })
}

fn log<'e>(x: Expr<'e>, base: &Base) -> Expr<'e> {
    let (m, e) = x.split();
    let (high, low) = ln_of_sum(m - 1.0);
    let factor = match x.dtype() {
        DType::F32 => [base.of_e[0], base.of_e[0] - f64::from(base.of_e[0] as f32)],
        _ => base.of_e,
    };
    let scaled = high * factor[0];
    let scaled_low = high.mul_add(factor[0], -scaled) + high.mul_add(factor[1], low * factor[0]);
    let finite = e_times_plus(e, base.of_two, scaled, scaled_low);
    // +infinity and NaN are their own logarithm.
    let positive = x.lt(f64::INFINITY).select(finite, x);
    let other = x.eq(0.0).select(f64::NEG_INFINITY, x.float(f64::NAN));
    x.gt(0.0).select(positive, other)
}

/// ln(1 + x).
pub(super) fn ln_1p(x: Expr<'_>) -> Expr<'_> {
    let one = x.float(1.0);
    let u = x + one;
    // What the sum lost, whichever of the two was larger.
    let larger = x.gt(1.0);
    let lost = larger.select(one, x) - (u - larger.select(x, one));
    let finite = Near { u, lost, y: x, y_low: x.float(0.0) }.ln(None).copysign(x);
    let positive = x.lt(f64::INFINITY).select(finite, x);
    let other = x.eq(-1.0).select(f64::NEG_INFINITY, x.float(f64::NAN));
    x.gt(-1.0).select(positive, other)
}

/// The inverse hyperbolic sine: with a = |x|, ln(1 + (a + a^2 / (1 + sqrt(1 + a^2)))), as in fdlibm's `s_asinh.c`;
/// ln(2 a) for large ones.
pub(super) fn asinh(x: Expr<'_>) -> Expr<'_> {
    let size = x.abs();
    let square = size * size;
    let root = (square + 1.0).sqrt();
    let rest = square / (root + 1.0);
    inverse_hyperbolic(size, size, rest, size.float(0.0)).copysign(x)
}

/// The inverse hyperbolic cosine: with t = x - 1, ln(1 + (t + sqrt(2 t + t^2))), as in fdlibm's `e_acosh.c`; NaN below 1.
pub(super) fn acosh(x: Expr<'_>) -> Expr<'_> {
    let t = x - 1.0;
    let two_t = t + t;
    let square = t.mul_add(t, two_t);
    let square_low = t.mul_add(t, two_t - square);
    let root = square.sqrt();
    // The number added only matters where the root is 0.
    let root_low = (square_low - root.mul_add(root, -square)) / (root + root + x.layout().min_normal());
    let result = inverse_hyperbolic(x, root, t, root_low);
    x.lt(1.0).select(f64::NAN, result)
}

/// ln(1 + (y + z + low)) for y >= z, or ln(2 x) where x is so large that this is the same.
fn inverse_hyperbolic<'e>(x: Expr<'e>, y: Expr<'e>, z: Expr<'e>, low: Expr<'e>) -> Expr<'e> {
    let large = x.gt(power_of_two(if x.dtype() == DType::F32 { 14 } else { 28 }));
    let zero = x.float(0.0);
    let sum = y + z;
    let sum_low = (z - (sum - y)) + low;
    let one = x.float(1.0);
    let u = sum + one;
    let first = sum.gt(1.0);
    let lost = first.select(one, sum) - (u - first.select(sum, one)) + sum_low;
    let near = Near { u: large.select(x, u), lost: large.select(0.0, lost), y: sum, y_low: sum_low };
    let result = near.ln(Some(large.select(1.0, zero)));
    x.lt(f64::INFINITY).select(result, x)
}

/// The inverse hyperbolic tangent: with a = |x|, ln(1 + 2 a / (1 - a)) / 2, as in fdlibm's `e_atanh.c`; NaN beyond 1.
pub(super) fn atanh(x: Expr<'_>) -> Expr<'_> {
    let size = x.abs();
    let one = x.float(1.0);
    let bottom = one - size;
    let bottom_low = (one - bottom) - size;
    let top = size + size;
    let y = top / bottom;
    let minus_y = -y;
    let y_low = minus_y.mul_add(bottom_low, minus_y.mul_add(bottom, top)) / bottom;
    let u = y + one;
    let first = y.gt(1.0);
    let lost = first.select(one, y) - (u - first.select(y, one)) + y_low;
    let result = Near { u, lost, y, y_low }.ln(None) * 0.5;
    let result = size.lt(1.0).select(result, y);
    size.gt(1.0).select(f64::NAN, result).copysign(x)
}

/// A number above 0 in two forms: u + lost, and 1 + (y + y_low), which is more exact where it is near 1.
struct Near<'e> {
    u: Expr<'e>,
    lost: Expr<'e>,
    y: Expr<'e>,
    y_low: Expr<'e>,
}

impl<'e> Near<'e> {
    /// The logarithm of 2^twos times the number.
    fn ln(self, twos: Option<Expr<'e>>) -> Expr<'e> {
        let (m, e) = self.u.split_normal();
        let near = e.eq(0.0);
        let f = near.select(self.y, m - 1.0);
        let relative = near.select(self.y_low, self.lost) / self.u;
        let (high, low) = ln_of_sum(f);
        let e = twos.map_or(e, |twos| e + twos);
        let ln2 = if e.dtype() == DType::F32 { LN2_F32 } else { LN2_F64 };
        e_times_plus(e, ln2, high, low + relative)
    }
}

/// ln(1 + f) = high + low for 1 + f in [sqrt(1/2), sqrt(2)).
fn ln_of_sum(f: Expr<'_>) -> (Expr<'_>, Expr<'_>) {
    let half = f * 0.5;
    let half_square = half * f;
    let high = f - half_square;
    let lost = (f - high) - half_square - half.mul_add(f, -half_square);
    let rest = if f.dtype() == DType::F32 {
        (f * f * f).mul_add(f.polynomial(&P_F32), lost)
    } else {
        let s = f / (f + 2.0);
        let z = s * s;
        s.mul_add(z.mul_add(z.polynomial(&LG), half_square), lost)
    };
    (high, rest)
}

/// e * log + high + low; |high| is less than log.
fn e_times_plus<'e>(e: Expr<'e>, log: [f64; 2], high: Expr<'e>, low: Expr<'e>) -> Expr<'e> {
    let product = e * log[0];
    let sum = product + high;
    let lost = high - (sum - product);
    let low = if log[1] == 0.0 { low } else { e.mul_add(log[1], low) };
    sum + (lost + low)
}

#[cfg(test)]
mod tests {
    use std::f64::consts::{LN_2, LOG10_2};

    use super::*;

    #[test]
    fn short_parts_have_exact_products_with_exponents() {
        for ([short, rest], whole) in [(LN2_F32, LN_2), (LOG10_2_F32, LOG10_2)] {
            assert!((short as f32).to_bits().trailing_zeros() >= 8 && f64::from(short as f32) == short);
            assert!((short + rest - whole).abs() < 1e-16, "{short} + {rest} is not {whole}");
        }
        for ([short, rest], whole) in [(LN2_F64, LN_2), (LOG10_2_F64, LOG10_2)] {
            assert!(short.to_bits().trailing_zeros() >= 11);
            assert!((short - whole + rest).abs() < 1e-16, "{short} + {rest} is not {whole}");
        }
    }
}
