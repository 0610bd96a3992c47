//! Argument reduction for huge angles, after Payne and Hanek (1983): x 2/pi modulo 4 by integer
//! multiplication with just those bits of 2/pi that matter.
//!
//! x = m 2^q with an integer m. Of the bits of 2/pi those that give multiples of 4 are skipped; what begins with
//! the next one is taken as 64-bit words, so that the wrapped product has 2 bits before the point: the quadrant.

use std::f64::consts::FRAC_PI_2;

use super::emit::Expr;
use super::layout::power_of_two;
use crate::dtype::DType;

/// The first 1216 bits of 2/pi after the point.
const TWO_OVER_PI: [u64; 19] = [
    0xa2f9_836e_4e44_1529,
    0xfc27_57d1_f534_ddc0,
    0xdb62_9599_3c43_9041,
    0xfe51_63ab_debb_c561,
    0xb724_6e3a_424d_d2e0,
    0x0649_2eea_09d1_921c,
    0xfe1d_eb1c_b129_a73e,
    0xe882_35f5_2ebb_4484,
    0xe99c_7026_b45f_7e41,
    0x3991_d639_8353_39f4,
    0x9c84_5f8b_bdf9_283b,
    0x1ff8_97ff_de05_980f,
    0xef2f_118b_5a0a_6d1f,
    0x6d36_7ecf_27cb_09b7,
    0x4f46_3f66_9e5f_ea2d,
    0x7527_bac7_ebe5_f17b,
    0x3d07_39f7_8a52_92ea,
    0x6bfb_5fb1_1f8d_5d08,
    0x5603_3046_fc7b_6bab,
];

/// r, w and k with x = k pi/2 + (r - w), |r| <= pi/4, for finite |x| >= 2^16; any finite r for an infinity.
pub(super) fn reduce_f32<'e>(x: Expr<'e>) -> [Expr<'e>; 3] {
    let bits = x.bits();
    let exponent = (bits >> 23) & 0xff;
    // The mantissa with the sign of x: two's complement carries it through the wrapping products.
    let sign = bits >> 31;
    let m = ((((bits & 0x7f_ffff) | 0x80_0000) ^ sign) - sign).cast(DType::I64);
    let [high, low] = window(exponent, 127 + 23, 16, 4);
    // In units of 2^-62; m < 2^24, so 32 bits of the second word suffice.
    let product = m * high.bitcast(DType::I64) + ((m * (low >> 32).bitcast(DType::I64)) >> 32);
    let (k, fraction) = nearest_quadrant(product);
    let exact = fraction.cast(DType::F64) * (FRAC_PI_2 * power_of_two(-62));
    let r = exact.cast(DType::F32);
    let w = (r.cast(DType::F64) - exact).cast(DType::F32);
    [r, w, k.cast(DType::I32)]
}

/// The same for f64 and |x| >= 2^30.
pub(super) fn reduce_f64<'e>(x: Expr<'e>) -> [Expr<'e>; 3] {
    const FRAC_PI_2_LOW: f64 = 6.123_233_995_736_766e-17;
    let bits = x.bits();
    let exponent = (bits >> 52) & 0x7ff;
    let m = ((bits & ((1 << 52) - 1)) | (1 << 52)).bitcast(DType::U64);
    let [w0, w1, w2] = window(exponent, 1023 + 52, 32, 32);
    // 128 bits of the product of m and 192 bits, in units of 2^-126.
    let top = m.mul_hi(w2);
    let low = m * w1 + top;
    let carry = low.lt(top).cast(DType::U64);
    let high = m * w0 + m.mul_hi(w1) + carry;
    let (k, fraction) = nearest_quadrant(high.bitcast(DType::I64));
    // The fraction as a sum of two floats, from three pieces that convert exactly.
    let a = (fraction >> 32).cast(DType::F64) * power_of_two(-30);
    let b = (fraction & 0xffff_ffff).cast(DType::F64) * power_of_two(-62);
    let c = (low >> 11).cast(DType::F64) * power_of_two(-115);
    let ab = a + b;
    let abc = ab + c;
    let rest = (b - (ab - a)) + (c - (abc - ab));
    let r = abc * FRAC_PI_2;
    let product_low = abc.mul_add(FRAC_PI_2, -r);
    let minus_w = rest.mul_add(FRAC_PI_2, abc.mul_add(FRAC_PI_2_LOW, product_low));
    let sign = x.float(1.0).copysign(x);
    [r * sign, minus_w * -sign, x.lt(0.0).select(-k, k)]
}

/// N words of 2/pi from the bit on that has weight 2^(1 - q), for q = `exponent` - `bias`. The table begins with
/// `zeros` zero bits, enough for the smallest q, and has `words` words, enough for the largest.
fn window<'e, const N: usize>(exponent: Expr<'e>, bias: i64, zeros: usize, words: usize) -> [Expr<'e>; N] {
    let table = shifted_table(zeros, words);
    let start = exponent + (zeros as i64 - 2 - bias);
    let index = (start >> 6).cast(DType::U32);
    let shift = (start & 63).cast(DType::U64);
    let back = shift.emitter().int(DType::U64, 64) - shift;
    let word = |i: i64| {
        let index = if i == 0 { index } else { index + i };
        index.emitter().lookup(DType::U64, &table, index)
    };
    let mut next = word(0);
    std::array::from_fn(|i| {
        let this = next;
        next = word(i as i64 + 1);
        // A shift by 64 gives 0.
        (this << shift) | (next >> back)
    })
}

fn shifted_table(zeros: usize, words: usize) -> Vec<u64> {
    let bits = |i: usize| TWO_OVER_PI.get(i).copied().unwrap_or(0);
    let before = |i: usize| if i == 0 { 0 } else { bits(i - 1) };
    (0..words).map(|i| before(i) << (64 - zeros) | bits(i) >> zeros).collect()
}

/// A number in units of 2^-62, modulo 4, as the nearest integer and the rest.
fn nearest_quadrant<'e>(x: Expr<'e>) -> (Expr<'e>, Expr<'e>) {
    let k = (x + (1 << 61)) >> 62;
    (k, x - (k << 62))
}
