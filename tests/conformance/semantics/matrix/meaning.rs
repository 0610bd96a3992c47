//! What primitive ops give: integers by whole numbers, floats computed exactly and rounded once. Shared with no backend.

use jit_core::dtype::DType;
use jit_core::op::Op;

use crate::semantics::casts::by_numbers;
use crate::semantics::exact::{self, Number, Rounding, decode, encode};
use crate::semantics::floats::{line, rounded};
use crate::semantics::grid::{value, wrapped};

/// The result of a primitive op on operands of one type (of `select`: on a bool and two of it).
pub(super) fn of(op: Op, dtype: DType, args: &[u64]) -> u64 {
    if op == Op::Select {
        return if args[0] == 1 { args[1] } else { args[2] };
    }
    if let Some(holds) = comparison(op, dtype, args) {
        return u64::from(holds);
    }
    match dtype {
        _ if dtype.is_float() => float(op, dtype, args),
        _ => wrapped(dtype, integer(op, dtype, args)),
    }
}

/// A conversion by value.
pub(super) fn cast(from: DType, to: DType, bits: u64) -> u64 {
    if from == to { bits } else { by_numbers(from, to, bits) }
}

fn comparison(op: Op, dtype: DType, args: &[u64]) -> Option<bool> {
    let place = |bits: u64| if dtype.is_float() { line(dtype, bits) } else { Some(value(dtype, bits)) };
    if !matches!(op, Op::Eq | Op::Ne | Op::Lt | Op::Le | Op::Gt | Op::Ge) {
        return None;
    }
    let Some((a, b)) = place(args[0]).zip(place(args[1])) else {
        return Some(op == Op::Ne);
    };
    Some(match op {
        Op::Eq => a == b,
        Op::Ne => a != b,
        Op::Lt => a < b,
        Op::Le => a <= b,
        Op::Gt => a > b,
        _ => a >= b,
    })
}

/// Bool is an integer of one bit.
fn integer(op: Op, t: DType, args: &[u64]) -> i128 {
    let [a, b, c] = [0, 1, 2].map(|k| args.get(k).map_or(0, |&bits| value(t, bits)));
    let (width, amount) = (i128::from(t.bits()), i128::from(args.get(1).copied().unwrap_or(0)));
    let digit = |k: &i128| args[0] >> k & 1 == 1;
    match op {
        Op::Neg => -a,
        Op::Not => -1 - a,
        Op::Abs => a.abs(),
        Op::ReverseBits => (0..width).filter(digit).map(|k| 1 << (width - 1 - k)).sum(),
        Op::Add => a + b,
        Op::Sub => a - b,
        // The product of two u64 passes i128, its low bits do not.
        Op::Mul => a.wrapping_mul(b),
        Op::Div => {
            if b == 0 {
                -1
            } else {
                a / b
            }
        }
        Op::Rem => {
            if b == 0 {
                a
            } else {
                a % b
            }
        }
        Op::MulHi if t == DType::U64 => ((a as u128 * b as u128) >> 64) as i128,
        Op::MulHi => (a * b) >> width,
        Op::Min | Op::Minimum => a.min(b),
        Op::Max | Op::Maximum => a.max(b),
        Op::And => a & b,
        Op::Or => a | b,
        Op::Xor => a ^ b,
        Op::Shl => {
            if amount >= width {
                0
            } else {
                a << amount
            }
        }
        Op::Shr => a >> amount.min(64),
        Op::MulAdd => a.wrapping_mul(b).wrapping_add(c),
        other => panic!("what `{}` of {t} gives is not written down", other.name()),
    }
}

/// The number of bits, as u32.
pub(super) fn count_bits(op: Op, t: DType, bits: u64) -> u64 {
    let digits = (0..t.bits()).map(|k| bits >> k & 1 == 1);
    (match op {
        Op::CountOnes => digits.filter(|&d| d).count(),
        Op::LeadingZeros => digits.rev().take_while(|&d| !d).count(),
        _ => digits.take_while(|&d| !d).count(),
    }) as u64
}

fn float(op: Op, t: DType, args: &[u64]) -> u64 {
    let sign = exact::sign(t);
    let [a, b, c] = [0, 1, 2].map(|k| args.get(k).map_or(Number::Nan, |&bits| decode(t, bits)));
    // -0 lies just below +0.
    let place = |bits: u64| line(t, bits).map(|p| (p, bits & sign == 0));
    let extreme = |greatest: bool, propagates: bool| match (place(args[0]), place(args[1])) {
        (Some(p), Some(q)) => {
            if (p > q) == greatest {
                args[0]
            } else {
                args[1]
            }
        }
        (None, None) => args[0],
        (p, _) => {
            if p.is_none() == propagates {
                args[0]
            } else {
                args[1]
            }
        }
    };
    rounded(
        t,
        match op {
            Op::Neg => return args[0] ^ sign,
            Op::Abs => return args[0] & !sign,
            Op::CopySign => return args[0] & !sign | args[1] & sign,
            Op::Min => return extreme(false, false),
            Op::Max => return extreme(true, false),
            Op::Minimum => return extreme(false, true),
            Op::Maximum => return extreme(true, true),
            Op::Sqrt => exact::sqrt(a),
            Op::Floor => exact::integral(a, Rounding::Down),
            Op::Ceil => exact::integral(a, Rounding::Up),
            Op::Trunc => exact::integral(a, Rounding::ToZero),
            Op::Round => exact::integral(a, Rounding::HalfAway),
            Op::RoundTiesEven => exact::integral(a, Rounding::HalfEven),
            Op::Add => exact::add(a, b),
            Op::Sub => exact::add(a, exact::neg(b)),
            Op::Mul => exact::mul(a, b),
            Op::Div => exact::div(a, b),
            Op::Rem => exact::rem(a, b),
            Op::MulAdd => exact::mul_add(a, b, c),
            other => panic!("what `{}` of {t} gives is not written down", other.name()),
        },
    )
}

/// What changes no value that it is combined with; a float sum starts at -0.
pub(super) fn identity(op: Op, t: DType) -> u64 {
    if t.is_float() {
        return match op {
            Op::Add => exact::sign(t),
            Op::Mul => encode(t, exact::integer(1)),
            Op::Min | Op::Minimum => exact::infinity(t),
            _ => exact::infinity(t) | exact::sign(t),
        };
    }
    let (low, high) = if t == DType::Bool { (0, 1) } else { crate::semantics::grid::limits(t) };
    match op {
        Op::Add | Op::Or | Op::Xor => 0,
        Op::Mul => 1,
        Op::And => t.mask(),
        Op::Min | Op::Minimum => wrapped(t, high),
        _ => wrapped(t, low),
    }
}
