//! Float arithmetic by integers: each result is computed exactly (or to far more bits than are kept, with a mark that
//! something is left) and rounded once, to nearest even. The tests' own measure, shared with no backend.

use jit_core::dtype::DType;

/// A decoded float.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Nan,
    Infinite { negative: bool },
    Finite(Finite),
}

/// `mantissa * 2^exponent`, plus something smaller than that of the last bit if `inexact`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Finite {
    pub(crate) negative: bool,
    pub(crate) mantissa: u128,
    pub(crate) exponent: i32,
    pub(crate) inexact: bool,
}

/// Bits of the mantissa with the hidden one, exponent of the smallest denormal, width in bits.
fn format(dtype: DType) -> (u32, i32, u32) {
    match dtype {
        DType::F16 => (11, -24, 16),
        DType::F32 => (24, -149, 32),
        DType::F64 => (53, -1074, 64),
        other => panic!("{other} is no float type"),
    }
}

/// The bits of +infinity.
pub(crate) fn infinity(dtype: DType) -> u64 {
    let (precision, _, width) = format(dtype);
    ((1 << (width - precision)) - 1) << (precision - 1)
}

/// The bits of a quiet NaN.
pub(crate) fn nan(dtype: DType) -> u64 {
    infinity(dtype) | 1 << (format(dtype).0 - 2)
}

/// The sign bit.
pub(crate) fn sign(dtype: DType) -> u64 {
    1 << (format(dtype).2 - 1)
}

/// What the bits of a float stand for.
pub(crate) fn decode(dtype: DType, bits: u64) -> Number {
    let (precision, least, _) = format(dtype);
    let negative = bits & sign(dtype) != 0;
    let magnitude = bits & !sign(dtype);
    if magnitude > infinity(dtype) {
        return Number::Nan;
    }
    if magnitude == infinity(dtype) {
        return Number::Infinite { negative };
    }
    let biased = (magnitude >> (precision - 1)) as i32;
    let fraction = u128::from(magnitude & ((1 << (precision - 1)) - 1));
    let (mantissa, exponent) =
        if biased == 0 { (fraction, least) } else { (fraction | 1 << (precision - 1), least + biased - 1) };
    Number::Finite(Finite { negative, mantissa, exponent, inexact: false })
}

/// The nearest float, to even where two are as near.
pub(crate) fn encode(dtype: DType, value: Number) -> u64 {
    let (precision, least, _) = format(dtype);
    let with_sign =
        |negative: bool, magnitude: u64| if negative { magnitude | sign(dtype) } else { magnitude };
    let Finite { negative, mantissa, exponent, inexact } = match value {
        Number::Nan => return nan(dtype),
        Number::Infinite { negative } => return with_sign(negative, infinity(dtype)),
        Number::Finite(finite) => finite,
    };
    assert!(mantissa < 1 << 127 && (mantissa != 0 || !inexact));
    let length = 128 - mantissa.leading_zeros() as i32;
    let last = (exponent + length - precision as i32).max(least);
    let dropped = last - exponent;
    let mut kept = match dropped {
        ..=0 => {
            assert!(!inexact, "too few bits to round");
            mantissa << -dropped
        }
        1..=127 => {
            let (kept, rest, half) =
                (mantissa >> dropped, mantissa & ((1 << dropped) - 1), 1u128 << (dropped - 1));
            let up = rest > half || rest == half && (inexact || kept & 1 == 1);
            kept + u128::from(up)
        }
        _ => 0,
    };
    let mut last = last;
    if kept == 1 << precision {
        kept >>= 1;
        last += 1;
    }
    if kept < 1 << (precision - 1) {
        return with_sign(negative, kept as u64);
    }
    let biased = (last - least + 1) as u64;
    let magnitude = (biased << (precision - 1)) + (kept as u64 - (1 << (precision - 1)));
    with_sign(negative, magnitude.min(infinity(dtype)))
}

/// An integer.
pub(crate) fn integer(value: i128) -> Number {
    let (negative, mantissa) = (value < 0, value.unsigned_abs());
    Number::Finite(Finite { negative, mantissa, exponent: 0, inexact: false })
}

/// Toward zero, saturated to `low..=high`; NaN gives 0.
pub(crate) fn to_integer(value: Number, low: i128, high: i128) -> i128 {
    match value {
        Number::Nan => 0,
        Number::Infinite { negative } => {
            if negative {
                low
            } else {
                high
            }
        }
        Number::Finite(Finite { negative, mantissa, exponent, .. }) => {
            let magnitude = match exponent {
                ..=-128 => 0,
                -127..=-1 => (mantissa >> -exponent) as i128,
                0..=64 => (mantissa << exponent) as i128,
                _ if mantissa == 0 => 0,
                _ => i128::MAX,
            };
            (if negative { -magnitude } else { magnitude }).clamp(low, high)
        }
    }
}

/// How to make a value integral.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Rounding {
    Down,
    Up,
    ToZero,
    HalfAway,
    HalfEven,
}

/// The integral value, with the sign kept also on zero.
pub(crate) fn integral(value: Number, rounding: Rounding) -> Number {
    let Number::Finite(Finite { negative, mantissa, exponent, inexact: false }) = value else { return value };
    if exponent >= 0 || mantissa == 0 {
        return value;
    }
    let shift = (-exponent).min(127);
    let (whole, rest, half) = (mantissa >> shift, mantissa & ((1 << shift) - 1), 1u128 << (shift - 1));
    let away = match rounding {
        Rounding::Down => negative && rest != 0,
        Rounding::Up => !negative && rest != 0,
        Rounding::ToZero => false,
        Rounding::HalfAway => rest >= half,
        Rounding::HalfEven => rest > half || rest == half && whole & 1 == 1,
    };
    Number::Finite(Finite { negative, mantissa: whole + u128::from(away), exponent: 0, inexact: false })
}

/// The opposite number.
pub(crate) fn neg(value: Number) -> Number {
    match value {
        Number::Nan => Number::Nan,
        Number::Infinite { negative } => Number::Infinite { negative: !negative },
        Number::Finite(finite) => Number::Finite(Finite { negative: !finite.negative, ..finite }),
    }
}

/// The sum.
pub(crate) fn add(a: Number, b: Number) -> Number {
    match (a, b) {
        (Number::Nan, _) | (_, Number::Nan) => Number::Nan,
        (Number::Infinite { negative: x }, Number::Infinite { negative: y }) if x != y => Number::Nan,
        (Number::Infinite { .. }, _) => a,
        (_, Number::Infinite { .. }) => b,
        (Number::Finite(x), Number::Finite(y)) => Number::Finite(sum(x, y)),
    }
}

fn sum(a: Finite, b: Finite) -> Finite {
    if a.mantissa == 0 && b.mantissa == 0 {
        return Finite { negative: a.negative && b.negative, ..a };
    }
    if a.mantissa == 0 {
        return b;
    }
    if b.mantissa == 0 {
        return a;
    }
    // Both at one exponent, with room for 126 bits; what is lower marks the sum as inexact.
    let top = |x: Finite| x.exponent + 127 - x.mantissa.leading_zeros() as i32;
    let (high, low) = if top(a) >= top(b) { (a, b) } else { (b, a) };
    let exponent = high.exponent.min(low.exponent).max(top(high) - 125);
    let high_mantissa = high.mantissa << (high.exponent - exponent);
    let (low_mantissa, inexact) = match exponent - low.exponent {
        below @ 1..=127 => (low.mantissa >> below, low.mantissa & ((1 << below) - 1) != 0),
        128.. => (0, true),
        above => (low.mantissa << -above, false),
    };
    if high.negative == low.negative {
        return Finite { mantissa: high_mantissa + low_mantissa, exponent, inexact, ..high };
    }
    if high_mantissa == low_mantissa {
        return Finite { negative: false, mantissa: 0, exponent, inexact: false };
    }
    if low_mantissa > high_mantissa {
        return Finite { mantissa: low_mantissa - high_mantissa, exponent, inexact, ..low };
    }
    Finite { mantissa: high_mantissa - low_mantissa - u128::from(inexact), exponent, inexact, ..high }
}

/// The product.
pub(crate) fn mul(a: Number, b: Number) -> Number {
    let negative = is_negative(a) != is_negative(b);
    match (a, b) {
        (Number::Nan, _) | (_, Number::Nan) => Number::Nan,
        (Number::Finite(x), Number::Finite(y)) => Number::Finite(Finite {
            negative,
            mantissa: x.mantissa * y.mantissa,
            exponent: x.exponent + y.exponent,
            inexact: false,
        }),
        _ if is_zero(a) || is_zero(b) => Number::Nan,
        _ => Number::Infinite { negative },
    }
}

/// The quotient.
pub(crate) fn div(a: Number, b: Number) -> Number {
    let negative = is_negative(a) != is_negative(b);
    match (a, b) {
        (Number::Nan, _) | (_, Number::Nan) => Number::Nan,
        (Number::Infinite { .. }, Number::Infinite { .. }) => Number::Nan,
        (Number::Infinite { .. }, _) => Number::Infinite { negative },
        (_, Number::Infinite { .. }) => zero(negative),
        (Number::Finite(x), Number::Finite(y)) => {
            if y.mantissa == 0 {
                return if x.mantissa == 0 { Number::Nan } else { Number::Infinite { negative } };
            }
            if x.mantissa == 0 {
                return zero(negative);
            }
            let shift = x.mantissa.leading_zeros() as i32 - 8;
            let dividend = x.mantissa << shift;
            let (mantissa, rest) = (dividend / y.mantissa, dividend % y.mantissa);
            let exponent = x.exponent - shift - y.exponent;
            Number::Finite(Finite { negative, mantissa, exponent, inexact: rest != 0 })
        }
    }
}

/// The square root.
pub(crate) fn sqrt(a: Number) -> Number {
    match a {
        Number::Finite(x) if x.mantissa == 0 => a,
        Number::Finite(x) if !x.negative => {
            let mut shift = x.mantissa.leading_zeros() as i32 - 8;
            shift += (x.exponent - shift) & 1;
            let radicand = x.mantissa << shift;
            let mantissa = radicand.isqrt();
            let inexact = mantissa * mantissa != radicand;
            Number::Finite(Finite { negative: false, mantissa, exponent: (x.exponent - shift) / 2, inexact })
        }
        Number::Infinite { negative: false } => a,
        _ => Number::Nan,
    }
}

/// The remainder of truncated division, with the dividend's sign.
pub(crate) fn rem(a: Number, b: Number) -> Number {
    match (a, b) {
        (Number::Finite(x), Number::Finite(y)) if y.mantissa != 0 => {
            let (mut mantissa, mut exponent) = (x.mantissa, x.exponent);
            if exponent >= y.exponent {
                while exponent > y.exponent {
                    mantissa = mantissa % y.mantissa * 2;
                    exponent -= 1;
                }
                mantissa %= y.mantissa;
            } else if y.exponent - exponent < 64 {
                mantissa %= y.mantissa << (y.exponent - exponent);
            }
            Number::Finite(Finite { mantissa, exponent, ..x })
        }
        (Number::Finite(_), Number::Infinite { .. }) => a,
        _ => Number::Nan,
    }
}

/// `a * b + c`.
pub(crate) fn mul_add(a: Number, b: Number, c: Number) -> Number {
    add(mul(a, b), c)
}

fn zero(negative: bool) -> Number {
    Number::Finite(Finite { negative, mantissa: 0, exponent: 0, inexact: false })
}

fn is_zero(a: Number) -> bool {
    matches!(a, Number::Finite(Finite { mantissa: 0, .. }))
}

fn is_negative(a: Number) -> bool {
    matches!(a, Number::Infinite { negative: true } | Number::Finite(Finite { negative: true, .. }))
}

#[test]
fn exact_arithmetic_agrees_with_the_host_on_random_f64() {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let bits = |x: Number| encode(DType::F64, x);
    for round in 0..20_000 {
        // Half of the rounds with exponents near one another.
        let near = if round % 2 == 0 { 0x401f_ffff_ffff_ffff } else { u64::MAX };
        let [x, y, z] = [next(), next(), next()].map(|v| v & (near | 1 << 63));
        let [a, b, c] = [x, y, z].map(|v| decode(DType::F64, v));
        let [p, q, r] = [x, y, z].map(f64::from_bits);
        let pairs = [
            (bits(add(a, b)), p + q),
            (bits(mul(a, b)), p * q),
            (bits(div(a, b)), p / q),
            (bits(sqrt(a)), p.sqrt()),
            (bits(rem(a, b)), p % q),
            (bits(mul_add(a, b, c)), p.mul_add(q, r)),
            (bits(integral(a, Rounding::HalfEven)), p.round_ties_even()),
        ];
        for (k, (exact, host)) in pairs.into_iter().enumerate() {
            let equal = exact == host.to_bits() || host.is_nan() && f64::from_bits(exact).is_nan();
            assert!(equal, "op {k} on {p:e}, {q:e}, {r:e}: {:e} here, {host:e} there", f64::from_bits(exact));
        }
        let (exact, host) = (encode(DType::F32, a) as u32, p as f32);
        assert!(exact == host.to_bits() || host.is_nan() && f32::from_bits(exact).is_nan(), "{p:e} as f32");
    }
}
