//! What each op means on one lane, written once: the constant folder and the interpreter both call it, and
//! the code generators are tested against it bit for bit.

use half::f16;

use super::Op;
use crate::dtype::{DType, Element};

/// The result bits of a [`Class::Lane`](super::Class::Lane) op. `ty` is the type of the last operand (for
/// all ops but `select` every operand has it), `out` the result type.
///
/// # Panics
/// If the op is not one of that class or does not take these types.
pub fn evaluate(op: Op, ty: DType, out: DType, args: &[u64]) -> u64 {
    match op {
        Op::Select => return if args[0] != 0 { args[1] } else { args[2] },
        Op::Cast => return cast(ty, out, args[0]),
        Op::Bitcast => return args[0],
        _ => {}
    }
    match ty {
        DType::Bool => bool_op(op, args),
        DType::I8 => i8::int_op(op, args),
        DType::U8 => u8::int_op(op, args),
        DType::I16 => i16::int_op(op, args),
        DType::U16 => u16::int_op(op, args),
        DType::I32 => i32::int_op(op, args),
        DType::U32 => u32::int_op(op, args),
        DType::I64 => i64::int_op(op, args),
        DType::U64 => u64::int_op(op, args),
        DType::F16 => f16_op(op, args),
        DType::F32 => f32::float_op(op, args),
        DType::F64 => f64::float_op(op, args),
    }
}

/// The value that leaves every other value unchanged under a combining op; what missing lanes of a reduction
/// contribute. For float addition it is -0.0.
///
/// # Panics
/// If `op` combines nothing.
pub fn identity(op: Op, ty: DType) -> u64 {
    let (low, high) = if ty.is_float() {
        (cast(DType::F64, ty, f64::NEG_INFINITY.to_bits()), cast(DType::F64, ty, f64::INFINITY.to_bits()))
    } else if ty.is_signed() {
        (1 << (ty.bits() - 1), ty.mask() >> 1)
    } else {
        (0, ty.mask())
    };
    match op {
        Op::Add if ty.is_float() => cast(DType::F64, ty, (-0.0f64).to_bits()),
        Op::Add | Op::Or | Op::Xor => 0,
        Op::And => ty.mask(),
        Op::Mul => cast(DType::U32, ty, 1),
        Op::Min | Op::Minimum => high,
        Op::Max | Op::Maximum => low,
        other => panic!("`{}` combines nothing", other.name()),
    }
}

fn bool_op(op: Op, args: &[u64]) -> u64 {
    let a = args[0];
    match op {
        Op::Not => a ^ 1,
        Op::And => a & args[1],
        Op::Or => a | args[1],
        Op::Xor => a ^ args[1],
        _ => compare(op, &a, &args[1]),
    }
}

fn compare<T: PartialOrd>(op: Op, a: &T, b: &T) -> u64 {
    u64::from(match op {
        Op::Eq => a == b,
        Op::Ne => a != b,
        Op::Lt => a < b,
        Op::Le => a <= b,
        Op::Gt => a > b,
        Op::Ge => a >= b,
        _ => panic!("`{}` has no meaning on one lane of this type", op.name()),
    })
}

trait IntOp {
    fn int_op(op: Op, args: &[u64]) -> u64;
}

macro_rules! int_op {
    ($($ty:ty, $wide:ty;)*) => {$(
        impl IntOp for $ty {
            fn int_op(op: Op, args: &[u64]) -> u64 {
                let a = <$ty>::from_bits(args[0]);
                let b = <$ty>::from_bits(args.get(1).copied().unwrap_or(0));
                // The shift amount is compared as unsigned: a negative one is past the width.
                let amount = args.get(1).copied().unwrap_or(0);
                let past = amount >= u64::from(<$ty>::BITS);
                let value: $ty = match op {
                    Op::Neg => a.wrapping_neg(),
                    Op::Not => !a,
                    // In a type that holds both signs, since this is one body for signed and unsigned types.
                    Op::Abs => if (a as i128) < 0 { a.wrapping_neg() } else { a },
                    Op::CountOnes => return u64::from(a.count_ones()),
                    Op::LeadingZeros => return u64::from(a.leading_zeros()),
                    Op::TrailingZeros => return u64::from(a.trailing_zeros()),
                    Op::ReverseBits => a.reverse_bits(),
                    Op::Add => a.wrapping_add(b),
                    Op::Sub => a.wrapping_sub(b),
                    Op::Mul => a.wrapping_mul(b),
                    Op::Div => if b == 0 { !0 } else { a.wrapping_div(b) },
                    Op::Rem => if b == 0 { a } else { a.wrapping_rem(b) },
                    Op::MulHi => ((a as $wide * b as $wide) >> <$ty>::BITS) as $ty,
                    Op::Min | Op::Minimum => a.min(b),
                    Op::Max | Op::Maximum => a.max(b),
                    Op::And => a & b,
                    Op::Or => a | b,
                    Op::Xor => a ^ b,
                    Op::Shl => if past { 0 } else { a << amount },
                    Op::Shr => if past { a >> (<$ty>::BITS - 1) >> 1 } else { a >> amount },
                    Op::MulAdd => a.wrapping_mul(b).wrapping_add(<$ty>::from_bits(args[2])),
                    _ => return compare(op, &a, &b),
                };
                value.to_bits()
            }
        }
    )*};
}

int_op! {
    i8, i16; u8, u16; i16, i32; u16, u32; i32, i64; u32, u64; i64, i128; u64, u128;
}

trait FloatOp {
    fn float_op(op: Op, args: &[u64]) -> u64;
}

macro_rules! float_op {
    ($($ty:ty, $sign:literal;)*) => {$(
        impl FloatOp for $ty {
            fn float_op(op: Op, args: &[u64]) -> u64 {
                const SIGN: u64 = 1 << $sign;
                let a = <$ty as Element>::from_bits(args[0]);
                let b = <$ty as Element>::from_bits(args.get(1).copied().unwrap_or(0));
                let value: $ty = match op {
                    Op::Neg => return args[0] ^ SIGN,
                    Op::Abs => return args[0] & !SIGN,
                    Op::CopySign => return args[0] & !SIGN | args[1] & SIGN,
                    Op::Sqrt => a.sqrt(),
                    Op::Floor => a.floor(),
                    Op::Ceil => a.ceil(),
                    Op::Trunc => a.trunc(),
                    Op::Round => a.round(),
                    Op::RoundTiesEven => a.round_ties_even(),
                    Op::Add => a + b,
                    Op::Sub => a - b,
                    Op::Mul => a * b,
                    Op::Div => a / b,
                    Op::Rem => a % b,
                    Op::MulAdd => a.mul_add(b, <$ty as Element>::from_bits(args[2])),
                    Op::Min => if a.is_nan() { b } else if b.is_nan() || ordered_le(a, b) { a } else { b },
                    Op::Max => if a.is_nan() { b } else if b.is_nan() || ordered_le(b, a) { a } else { b },
                    Op::Minimum => if a.is_nan() || !b.is_nan() && ordered_le(a, b) { a } else { b },
                    Op::Maximum => if a.is_nan() || !b.is_nan() && ordered_le(b, a) { a } else { b },
                    _ => return compare(op, &a, &b),
                };
                return Element::to_bits(value);

                /// `a <= b` for numbers, with -0 < +0.
                fn ordered_le(a: $ty, b: $ty) -> bool {
                    a < b || a == b && (a.is_sign_negative() || b.is_sign_positive())
                }
            }
        }
    )*};
}

float_op! { f32, 31; f64, 63; }

/// f16 ops are the f32 op rounded once.
fn f16_op(op: Op, args: &[u64]) -> u64 {
    const SIGN: u64 = 1 << 15;
    match op {
        Op::Neg => return args[0] ^ SIGN,
        Op::Abs => return args[0] & !SIGN,
        Op::CopySign => return args[0] & !SIGN | args[1] & SIGN,
        _ => {}
    }
    let mut wide = [0; 3];
    for (w, a) in wide.iter_mut().zip(args) {
        *w = cast(DType::F16, DType::F32, *a);
    }
    let result = f32::float_op(op, &wide[..args.len()]);
    if matches!(op, Op::Eq | Op::Ne | Op::Lt | Op::Le | Op::Gt | Op::Ge) {
        return result;
    }
    cast(DType::F32, DType::F16, result)
}

/// Conversion by value, as Rust's `as`, each rounded once.
pub fn cast(from: DType, to: DType, bits: u64) -> u64 {
    if from == to {
        return bits;
    }
    if to == DType::Bool {
        return u64::from(if from.is_float() { as_f64(from, bits) != 0.0 } else { bits != 0 });
    }
    match (from.is_float(), to) {
        // Every f16 and f32 is an f64; an f64 that came from an integer of 32 bits or less is exact, and one
        // that came from a larger integer rounds only where f16 overflows anyway.
        (_, DType::F16) => u64::from(f64_to_f16(as_f64(from, bits))),
        (true, DType::F32) => u64::from((as_f64(from, bits) as f32).to_bits()),
        (true, DType::F64) => as_f64(from, bits).to_bits(),
        (true, _) => float_to_int(to, as_f64(from, bits)),
        (false, DType::F32) if from.is_signed() => u64::from((sign_extend(from, bits) as f32).to_bits()),
        (false, DType::F32) => u64::from((bits as f32).to_bits()),
        (false, DType::F64) => as_f64(from, bits).to_bits(),
        (false, _) if from.is_signed() => sign_extend(from, bits) as u64 & to.mask(),
        (false, _) => bits & to.mask(),
    }
}

fn sign_extend(ty: DType, bits: u64) -> i64 {
    let shift = 64 - ty.bits();
    (bits << shift) as i64 >> shift
}

/// The value as f64: exact for floats and integers of up to 53 bits, else rounded once.
pub(crate) fn as_f64(ty: DType, bits: u64) -> f64 {
    match ty {
        DType::F16 => f16::from_bits(bits as u16).to_f64(),
        DType::F32 => f64::from(f32::from_bits(bits as u32)),
        DType::F64 => f64::from_bits(bits),
        _ if ty.is_signed() => sign_extend(ty, bits) as f64,
        _ => bits as f64,
    }
}

fn float_to_int(to: DType, value: f64) -> u64 {
    match to {
        DType::I8 => (value as i8).to_bits(),
        DType::U8 => (value as u8).to_bits(),
        DType::I16 => (value as i16).to_bits(),
        DType::U16 => (value as u16).to_bits(),
        DType::I32 => (value as i32).to_bits(),
        DType::U32 => (value as u32).to_bits(),
        DType::I64 => (value as i64).to_bits(),
        DType::U64 => value as u64,
        other => panic!("{other} is no integer type"),
    }
}

/// Rounds an f64 to f16 once, to nearest even. (`half` goes through f32 where the processor converts only
/// from there, which rounds twice.)
pub(crate) fn f64_to_f16(value: f64) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 48) as u16 & 0x8000;
    let magnitude = f64::from_bits(bits & !(1 << 63));
    if magnitude.is_nan() {
        return sign | 0x7e00;
    }
    if magnitude >= 65520.0 {
        return sign | 0x7c00;
    }
    if magnitude < f64::from_bits((1023 - 14) << 52) {
        // Subnormal result: a multiple of 2^-24. The product is exact, the rounding is to nearest even.
        return sign | (magnitude * f64::from_bits((1023 + 24) << 52)).round_ties_even() as u16;
    }
    // Normal result: drop 42 of 52 mantissa bits; a carry out of the mantissa moves the exponent as it should.
    let rounded = (magnitude.to_bits() + ((1 << 41) - 1) + (magnitude.to_bits() >> 42 & 1)) >> 42;
    sign | (rounded - ((1023 - 15) << 10)) as u16
}
