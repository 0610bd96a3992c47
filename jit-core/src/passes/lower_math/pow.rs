//! Powers: |x|^y = 2^(y log2 |x|), with a logarithm so exact that the product's error stays below the result's
//! last bit, and the special cases of C99 (annex F.10.4.4) on top.
//!
//! f32 goes through f64, which has the bits to spare. f64 carries the logarithm as a sum of two floats.

use std::f64::consts::LN_2;

use super::emit::Expr;
use super::exp::exp_sum;
use super::layout::Layout;
use crate::dtype::DType;

/// x^y.
pub(super) fn pow<'e>(x: Expr<'e>, y: Expr<'e>) -> Expr<'e> {
    let size = x.abs();
    let power = if x.dtype() == DType::F32 { power_f32(size, y) } else { power_f64(size, y) };
    // 1^y is 1 even for NaN, and (-1)^(+-infinity) is 1; else |x| = 1 comes out as 1 anyway.
    let power = size.eq(1.0).select(1.0, power);

    // Every float that is not finite, or too large to have a half, is an even integer.
    let whole = y.floor().eq(y);
    let half = y * 0.5;
    let odd = whole & half.floor().ne(half);
    let sign = odd.select(x, x.float(0.0));
    let power = power.copysign(sign);
    // A negative number to a fractional power is not real; the bounds leave out -0 and -infinity.
    let unreal = x.lt(0.0) & x.gt(f64::NEG_INFINITY) & !whole;
    let power = unreal.select(f64::NAN, power);
    y.eq(0.0).select(1.0, power)
}

/// a^y for a >= 0, or NaN.
fn power_f32<'e>(a: Expr<'e>, y: Expr<'e>) -> Expr<'e> {
    // log2((1 + s) / (1 - s)) / s in powers of s^2 on the range of s, relative error 2^-37.8.
    const LOG2: [f64; 5] = [
        2.885_390_081_790_048,
        0.961_796_673_368_230_9,
        0.577_083_583_007_008_7,
        0.411_672_687_343_768_55,
        0.340_732_993_242_455_9,
    ];
    // (2^r - 1) / r on |r| <= 1/2, error 2^-33.6.
    const EXP2: [f64; 7] = [
        LN_2,
        0.240_226_509_236_514_95,
        0.055_504_108_840_145_12,
        0.009_618_056_388_057_775,
        0.001_333_350_216_258_813,
        0.000_154_615_607_788_721_35,
        1.529_741_310_727_295e-5,
    ];
    // As f64 every positive f32 is normal, and so is every result that f32 can hold.
    let wide = a.cast(DType::F64);
    let (m, e) = wide.split_normal();
    let s = (m - 1.0) / (m + 1.0);
    let log = s.mul_add((s * s).polynomial(&LOG2), e);
    let log = limits_of_log(wide, log);
    let product = y.cast(DType::F64) * log;
    let product = product.lt(-160.0).select(-160.0, product);
    let product = product.gt(160.0).select(160.0, product);
    // The low bits of the rounded number are n + bias, the exponent field of 2^n.
    let layout = Layout::of(DType::F64);
    let shifter = layout.shifter() + layout.bias as f64;
    let shifted = product + shifter;
    let r = product - (shifted - shifter);
    let power = r.mul_add(r.polynomial(&EXP2), 1.0);
    (power * (shifted.bits() << layout.mantissa).float_of_bits()).cast(DType::F32)
}

/// a^y for a >= 0, or NaN. The logarithm's series is arranged as in SLEEF's `logk`: in sums of two floats up to
/// the term where one suffices.
fn power_f64<'e>(a: Expr<'e>, y: Expr<'e>) -> Expr<'e> {
    // ln2 in two parts, the first a multiple of every exponent.
    const LN2_HIGH: f64 = 0.693_147_180_559_890_3;
    const LN2_LOW: f64 = 5.497_923_018_708_371e-14;
    const TWO_THIRDS_HIGH: f64 = 0.666_666_666_666_666_6;
    const TWO_THIRDS_LOW: f64 = 3.700_743_415_417_188e-17;
    // (ln((1 + s) / (1 - s)) - 2 s - 2/3 s^3) / s^5 in powers of s^2; the relative error of the logarithm is 2^-66.
    const P: [f64; 8] = [
        0.4,
        0.285_714_285_714_293_7,
        0.222_222_222_216_527_65,
        0.181_818_183_360_998_48,
        0.153_845_948_870_071_8,
        0.133_348_087_988_123_4,
        0.117_061_264_645_633_98,
        0.117_243_270_608_467_47,
    ];
    let (m, e) = a.split();
    // s = (m - 1) / (m + 1), the denominator being d + d_low.
    let d = m + 1.0;
    let d_low = m - (d - 1.0);
    let inverse = d.float(1.0) / d;
    let numerator = m - 1.0;
    let s = numerator * inverse;
    let minus_s = -s;
    let s_low = minus_s.mul_add(d_low, minus_s.mul_add(d, numerator)) * inverse;
    // z = s^2.
    let z = s * s;
    let z_low = (s + s).mul_add(s_low, s.mul_add(s, -z));
    // c = 2/3 + z P(z).
    let rest = z * z.polynomial(&P);
    let c = rest + TWO_THIRDS_HIGH;
    let c_low = (rest - (c - TWO_THIRDS_HIGH)) + TWO_THIRDS_LOW;
    // cube = s z, tail = cube c.
    let cube = s * z;
    let cube_low = s_low.mul_add(z, s.mul_add(z_low, s.mul_add(z, -cube)));
    let tail = cube * c;
    let tail_low = cube_low.mul_add(c, cube.mul_add(c_low, cube.mul_add(c, -tail)));
    // log = e ln2 + 2 s + tail: terms of falling size, so each rounding error is had by two subtractions.
    let e_high = e * LN2_HIGH;
    let two_s = s + s;
    let sum = e_high + two_s;
    let sum_low = two_s - (sum - e_high);
    let log = sum + tail;
    let log_low = tail - (log - sum);
    let log_low = log_low + sum_low + e.mul_add(LN2_LOW, (s_low + s_low) + tail_low);

    let log = limits_of_log(a, log);
    let product = y * log;
    let product_low = y.mul_add(log_low, y.mul_add(log, -product));
    // Where the product is infinite or far out of range the low part may be NaN, and does not matter.
    let product_low = product.abs().lt(1000.0).select(product_low, product.float(0.0));
    exp_sum(product, product_low)
}

/// The logarithm of `a` where it is finite, from that of a positive finite number.
fn limits_of_log<'e>(a: Expr<'e>, log: Expr<'e>) -> Expr<'e> {
    let log = a.lt(f64::INFINITY).select(log, a);
    a.eq(0.0).select(f64::NEG_INFINITY, log)
}
