//! Inverse trigonometric functions.
//!
//! Arcsine and arccosine are reduced as in fdlibm's `e_asin.c`: directly up to 1/2, and by asin x = pi/2 - 2 asin(s) with
//! s = sqrt((1 - x) / 2) beyond. The arctangent is that of a ratio t of at most 1, in f64 of at most 1/2: larger ones
//! are turned by an eighth of a circle, t = (a - b) / (a + b).
//! Polynomials by Remez (see `approximations.py`); every sum whose rounding would matter keeps what it lost.

use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};

use super::emit::Expr;
use super::layout::power_of_two;
use crate::dtype::DType;

/// (asin t - t) / t^3 in powers of t^2 for |t| <= 1/2: the relative error of asin t is 2^-27.6 ...
const ASIN_F32: [f64; 5] = [
    0.166_667_535_901_069_64,
    0.074_952_490_627_765_66,
    0.045_476_660_132_408_14,
    0.024_148_123_338_818_55,
    0.042_219_821_363_687_515,
];

/// ... and 2^-55.7.
const ASIN_F64: [f64; 12] = [
    0.166_666_666_666_653_75,
    0.075_000_000_003_448_34,
    0.044_642_856_821_950_246,
    0.030_381_959_396_427_783,
    0.022_371_751_917_777_356,
    0.017_359_795_909_761_062,
    0.013_884_348_039_739_296,
    0.012_174_957_322_194_976,
    0.006_503_457_308_589_237,
    0.019_594_509_672_165_45,
    -0.016_326_951_985_656_91,
    0.031_981_863_672_542_14,
];

/// (atan t - t) / t^3 in powers of t^2: for |t| <= 1 the relative error of atan t is 2^-27.4 (the last bits are chosen so
/// that atan 1 is correctly rounded) ...
const ATAN_F32: [f64; 9] = [
    -0.333_332_985_639_572_14,
    0.199_985_295_534_133_9,
    -0.142_640_441_656_112_67,
    0.109_511_777_758_598_33,
    -0.084_006_085_991_859_44,
    0.057_910_516_858_100_89,
    -0.031_132_191_419_601_44,
    0.010_890_629_142_522_812,
    -0.001_788_349_240_086_972_7,
];

/// ... and for |t| <= 1/2 it is 2^-57.
const ATAN_F64: [f64; 12] = [
    -0.333_333_333_333_329_8,
    0.199_999_999_999_027_9,
    -0.142_857_142_763_577,
    0.111_111_106_584_087_45,
    -0.090_908_962_138_515_5,
    0.076_920_734_266_928_35,
    -0.066_638_056_346_343_69,
    0.058_582_650_850_055_65,
    -0.051_218_549_491_903_27,
    0.041_860_798_436_218_14,
    -0.027_428_115_296_165_52,
    0.010_112_049_894_258_901,
];

/// The arcsine; NaN beyond 1.
pub(super) fn asin(x: Expr<'_>) -> Expr<'_> {
    let root = Root::of(x);
    let [half_pi, half_pi_low] = in_two(x, FRAC_PI_2);
    let start = Sum {
        high: root.large.select(half_pi, x.float(0.0)),
        low: root.large.select(half_pi_low, x.float(0.0)),
    };
    let t = root.large.select(root.s * -2.0, x.abs());
    let t_low = root.large.select(root.s_low * -2.0, x.float(0.0));
    start.plus_arcsine(t, t_low, root.square).copysign(x)
}

/// The arccosine; NaN beyond 1.
pub(super) fn acos(x: Expr<'_>) -> Expr<'_> {
    let root = Root::of(x);
    let [half_pi, half_pi_low] = in_two(x, FRAC_PI_2);
    let turned = x.lt(0.0);
    let start = [half_pi, half_pi_low].map(|part| {
        let from_end = turned.select(part + part, x.float(0.0));
        root.large.select(from_end, part)
    });
    let start = Sum { high: start[0], low: start[1] };
    let two = turned.select(-2.0, x.float(2.0));
    let t = root.large.select(root.s * two, -x);
    let t_low = root.large.select(root.s_low * two, x.float(0.0));
    start.plus_arcsine(t, t_low, root.square)
}

/// What the arcsine is a series in.
struct Root<'e> {
    /// Where |x| > 1/2.
    large: Expr<'e>,
    /// There (1 - |x|) / 2, else x^2.
    square: Expr<'e>,
    /// Its square root, and what that lost.
    s: Expr<'e>,
    s_low: Expr<'e>,
}

impl<'e> Root<'e> {
    fn of(x: Expr<'e>) -> Root<'e> {
        let size = x.abs();
        let large = size.gt(0.5);
        let square = large.select((x.float(1.0) - size) * 0.5, x * x);
        let s = square.sqrt();
        // The number added only matters where s is 0.
        let s_low = (-s).mul_add(s, square) / (s + s + x.layout().min_normal());
        Root { large, square, s, s_low }
    }
}

/// A sum of two floats.
struct Sum<'e> {
    high: Expr<'e>,
    low: Expr<'e>,
}

impl<'e> Sum<'e> {
    /// The sum and k asin s, with k s = t + t_low for a small integer k and s^2 = square; t is no larger than the
    /// sum, or that is 0.
    fn plus_arcsine(self, t: Expr<'e>, t_low: Expr<'e>, square: Expr<'e>) -> Expr<'e> {
        let p =
            if t.dtype() == DType::F32 { square.polynomial(&ASIN_F32) } else { square.polynomial(&ASIN_F64) };
        let tail = (t * square).mul_add(p, self.low) + t_low;
        let high = self.high + t;
        let lost = t - (high - self.high);
        high + (lost + tail)
    }
}

/// The arctangent.
pub(super) fn atan(x: Expr<'_>) -> Expr<'_> {
    let size = x.abs();
    // Larger numbers have pi/2 as well; infinity would make a NaN.
    let enough = power_of_two(70);
    let size = size.gt(enough).select(enough, size);
    let steep = size.gt(1.0);
    let a = steep.select(1.0, size);
    let b = steep.select(size, x.float(1.0));
    let eighths = steep.select(2.0, x.float(0.0));
    turned_arctangent(a, b, eighths, steep).copysign(x)
}

/// The angle of the vector (x, y), from -pi to pi.
pub(super) fn atan2<'e>(y: Expr<'e>, x: Expr<'e>) -> Expr<'e> {
    let (height, width) = (y.abs(), x.abs());
    let steep = height.gt(width);
    let a = steep.select(width, height);
    let b = steep.select(height, width);
    // In f64 the sum of both must not overflow; what the quotient lost must not be below the smallest number.
    let (small, large) = if x.dtype() == DType::F32 {
        (power_of_two(-90), power_of_two(120))
    } else {
        (power_of_two(-900), power_of_two(1000))
    };
    let [a, b] = (b.gt(large) | b.lt(small)).if_any([a, b], || {
        let scale = b.lt(1.0).select(power_of_two(100), b.float(power_of_two(-100)));
        // Of infinities and zeros the ratio is 1, 0 or NaN.
        let ends = b.eq(f64::INFINITY) | b.eq(0.0);
        let same = b.gt(0.0).select(1.0, b);
        let ratio = a.eq(b).select(same, a * 0.0);
        [ends.select(ratio, a * scale), ends.select(1.0, b * scale)]
    });
    // Also where it is -0.
    let left = x.bits().lt(0);
    let eighths = steep.select(2.0, left.select(4.0, x.float(0.0)));
    turned_arctangent(a, b, eighths, steep ^ left).copysign(y)
}

/// eighths * pi/4 + atan(a / b), or minus that where `back`; 0 <= a <= b, b > 0.
fn turned_arctangent<'e>(a: Expr<'e>, b: Expr<'e>, eighths: Expr<'e>, back: Expr<'e>) -> Expr<'e> {
    let single = a.dtype() == DType::F32;
    let (top, bottom, bottom_low, eighths) = if single {
        (a, b, None, eighths)
    } else {
        let turned = a.gt(b * 0.5);
        let sum = a + b;
        let lost = a - (sum - b);
        let one = back.select(-1.0, a.float(1.0));
        (
            turned.select(a - b, a),
            turned.select(sum, b),
            Some(turned.select(lost, a.float(0.0))),
            turned.select(eighths + one, eighths),
        )
    };
    let t = top / bottom;
    let square = t * t;
    // What the quotient lost, times the derivative 1 / (1 + t^2).
    let minus_t = -t;
    let mut residual = minus_t.mul_add(bottom, top);
    if let Some(low) = bottom_low {
        residual = minus_t.mul_add(low, residual);
    }
    let t_low = residual / bottom.mul_add(square, bottom);
    let (t, t_low) = (back.select(minus_t, t), back.select(-t_low, t_low));
    let p = if single { square.polynomial(&ATAN_F32) } else { square.polynomial(&ATAN_F64) };
    let tail = (t * square).mul_add(p, t_low);
    // In f64 the first part of pi/4 has three bits to spare: its products with `eighths` are exact.
    let [high, low] = if single { in_two(a, FRAC_PI_4) } else { [a.float(EIGHTH_HIGH), a.float(EIGHTH_LOW)] };
    let start = eighths * high;
    let sum = start + t;
    let lost = t - (sum - start);
    sum + eighths.mul_add(low, lost + tail)
}

const EIGHTH_HIGH: f64 = f64::from_bits(FRAC_PI_4.to_bits() & !7);
const EIGHTH_LOW: f64 = (FRAC_PI_4 - EIGHTH_HIGH) + PI_LOW / 4.0;

/// pi less the nearest f64.
const PI_LOW: f64 = 1.224_646_799_147_353_2e-16;

/// pi times the power of two in `multiple`, as two floats.
fn in_two(like: Expr<'_>, multiple: f64) -> [Expr<'_>; 2] {
    let low = match like.dtype() {
        DType::F32 => multiple - f64::from(multiple as f32),
        _ => PI_LOW * (multiple / PI),
    };
    [like.float(multiple), like.float(low)]
}
