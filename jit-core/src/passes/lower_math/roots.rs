//! The cube root, and the root of a sum of squares. f32 goes through f64, which has the bits to spare.

use super::emit::Expr;
use super::layout::power_of_two;
use crate::dtype::DType;

/// The cube root, by FreeBSD's `s_cbrt.c`: a third of the exponent, a polynomial that is good to 23 bits, one step of
/// Newton's iteration from what is rounded to these.
pub(super) fn cbrt(x: Expr<'_>) -> Expr<'_> {
    if x.dtype() == DType::F32 {
        return cbrt_f64(x.cast(DType::F64), false).cast(DType::F32);
    }
    cbrt_f64(x, true)
}

fn cbrt_f64(x: Expr<'_>, denormals: bool) -> Expr<'_> {
    /// The high words of (1023 - 1023 / 3 - 0.033_068_33) * 2^20, and of the same for numbers times 2^54.
    const THIRD: i64 = 715_094_163;
    const THIRD_OF_DENORMAL: i64 = 696_219_795;
    /// 1 / cbrt(r) on the range of r that the first estimate leaves, to 2^-23.5.
    const P: [f64; 5] = [
        1.875_951_824_271_77,
        -1.884_979_795_433_774_6,
        1.621_429_720_105_354_5,
        -0.758_397_934_778_766,
        0.145_996_192_886_612_45,
    ];
    let size = x.abs();
    let third = size.emitter().int(DType::I64, THIRD << 32);
    let (normal, third) = if denormals {
        let tiny = size.lt(size.layout().min_normal());
        (tiny.select(size * power_of_two(54), size), tiny.select(THIRD_OF_DENORMAL << 32, third))
    } else {
        (size, third)
    };
    // A third of the high word: its product with 2^32 / 3 in the high word.
    let t = ((normal.bits() >> 32) * 0x5555_5556 + third).float_of_bits();
    let r = (t * t) * (t / size);
    let p = r.mul_add(r.mul_add(P[2], P[1]), P[0]);
    let t = t * (r * r * r).mul_add(r.mul_add(P[4], P[3]), p);
    // To 23 bits, so that its square is exact and the step's error is that of its last rounding.
    let t = ((t.bits() + 0x8000_0000) & !0x3fff_ffff).float_of_bits();
    let quotient = size / (t * t);
    let step = (quotient - t) / (t + t + quotient);
    let root = t.mul_add(step, t).copysign(x);
    let regular = size.gt(0.0) & size.lt(f64::INFINITY);
    regular.select(root, x)
}

/// sqrt(x^2 + y^2); infinity if either is, even beside NaN. Squares neither overflow nor vanish: large and small numbers
/// are scaled. What the root lost is had from exact products (Borges, An improved algorithm for hypot(a, b), 2019).
pub(super) fn hypot<'e>(x: Expr<'e>, y: Expr<'e>) -> Expr<'e> {
    let (a, b) = (x.abs(), y.abs());
    let infinite = a.eq(f64::INFINITY) | b.eq(f64::INFINITY);
    let root = if x.dtype() == DType::F32 {
        let (a, b) = (a.cast(DType::F64), b.cast(DType::F64));
        a.mul_add(a, b * b).sqrt().cast(DType::F32)
    } else {
        hypot_f64(a, b)
    };
    infinite.select(f64::INFINITY, root)
}

fn hypot_f64<'e>(a: Expr<'e>, b: Expr<'e>) -> Expr<'e> {
    let swapped = b.gt(a);
    let (a, b) = (swapped.select(b, a), swapped.select(a, b));
    let (large, small) = (a.gt(power_of_two(510)), a.lt(power_of_two(-450)));
    let one = a.float(1.0);
    let scale = large.select(power_of_two(-600), small.select(power_of_two(600), one));
    let back = large.select(power_of_two(600), small.select(power_of_two(-600), one));
    let (a, b) = (a * scale, b * scale);
    let root = a.mul_add(a, b * b).sqrt();
    let square = root * root;
    let a_square = a * a;
    let sum = (-b).mul_add(b, square - a_square);
    let low = root.mul_add(root, -square) - a.mul_add(a, -a_square);
    // The number added only matters where the root is 0.
    let correction = (sum + low) / (root + root + a.layout().min_normal());
    (root - correction) * back
}
