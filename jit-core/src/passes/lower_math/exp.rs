//! The exponential function.
//!
//! x = n ln2 + r with |r| <= ln2 / 2, after Cody and Waite; exp(r) by a polynomial; 2^n by integer ops, in two
//! factors so that results below the normal range are rounded once.

use std::f64::consts::{LN_2, LOG2_E};

use super::emit::Expr;
use super::layout::Layout;
use crate::dtype::DType;

/// ln2 in two parts of the format's full precision. n * the first is subtracted exactly by `mul_add`, since
/// the difference is small and a multiple of the last bit of both.
struct Ln2 {
    high: f64,
    low: f64,
}

const LN2_F32: Ln2 = Ln2 { high: 0.693_147_182_464_599_6, low: -1.904_654_212_125_933_6e-9 };
const LN2_F64: Ln2 = Ln2 { high: LN_2, low: 2.319_046_813_846_299_6e-17 };

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
    exp_sum(x, None)
}

/// e^(x + low), where low is small against x: to more bits than e^x.
pub(super) fn exp_sum<'e>(x: Expr<'e>, low: Option<Expr<'e>>) -> Expr<'e> {
    // Beyond these bounds the result is 0 or infinity, as it is at them. NaN passes.
    let (lowest, highest, ln2, q) = match x.dtype() {
        DType::F32 => (-104.0, 89.0, LN2_F32, &Q_F32[..]),
        _ => (-746.0, 710.0, LN2_F64, &Q_F64[..]),
    };
    let x = x.lt(lowest).select(lowest, x);
    let x = x.gt(highest).select(highest, x);
    let shifted = x.mul_add(LOG2_E, shifter(x.layout()));
    let n = shifted - shifter(x.layout());
    let r_high = n.mul_add(-ln2.high, x);
    let (r, r_low) = match low {
        None => (n.mul_add(-ln2.low, r_high), None),
        Some(low) => {
            let small = n.mul_add(-ln2.low, low);
            let r = r_high + small;
            (r, Some(small - (r - r_high)))
        }
    };
    let square = r * r;
    let q = r.polynomial(q);
    let above_one = match r_low {
        None => square.mul_add(q, r),
        Some(low) => r + square.mul_add(q, low),
    };
    scale(above_one + 1.0, shifted)
}

/// The rounding constant of the format, with twice the exponent's bias added.
fn shifter(layout: Layout) -> f64 {
    layout.shifter() + 2.0 * layout.bias as f64
}

/// x * 2^n for x near 1, where the low bits of `shifted` are n + 2 bias.
fn scale<'e>(x: Expr<'e>, shifted: Expr<'e>) -> Expr<'e> {
    let mantissa = x.layout().mantissa;
    let sum = shifted.bits();
    // floor(n / 2) + bias and the rest + bias: the exponent fields of the two factors. The shift left drops
    // what stands above.
    let half = sum >> 1;
    let rest = sum - half;
    x * (half << mantissa).float_of_bits() * (rest << mantissa).float_of_bits()
}
