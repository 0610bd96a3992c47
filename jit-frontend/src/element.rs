//! Classes of element types: which methods an array has.

use half::f16;
pub use jit_core::dtype::{DType, Element};
use jit_core::op::scalar;

mod sealed {
    pub trait Sealed {}
}

/// A number: every element type but bool.
pub trait Num: Element + sealed::Sealed {}

/// A number with a sign: the signed integers and the floats.
pub trait Signed: Num {}

/// An integer.
pub trait Int: Num + Bits {}

/// Bits with a meaning of their own: the integers and bool.
pub trait Bits: Element + sealed::Sealed {}

/// A floating-point number: f16, f32, f64.
pub trait Float: Signed + crate::Texel<Value = Self> {
    /// The nearest value.
    fn from_f64(value: f64) -> Self {
        Self::from_bits(scalar::cast(DType::F64, Self::DTYPE, value.to_bits()))
    }
}

/// An integer whose products fit another integer type.
pub trait Widen: Int {
    /// The type of twice the width, as signed as this one.
    type Wide: Int;
}

macro_rules! classes {
    ($($class:ident: $($ty:ty)*;)*) => { $($(impl $class for $ty {})*)* };
}

classes! {
    Num: i8 u8 i16 u16 i32 u32 i64 u64 f16 f32 f64;
    Signed: i8 i16 i32 i64 f16 f32 f64;
    Int: i8 u8 i16 u16 i32 u32 i64 u64;
    Bits: bool i8 u8 i16 u16 i32 u32 i64 u64;
    Float: f16 f32 f64;
}

macro_rules! sealed {
    ($($ty:ty)*) => { $(impl sealed::Sealed for $ty {})* };
}

sealed! { bool i8 u8 i16 u16 i32 u32 i64 u64 f16 f32 f64 }

macro_rules! widen {
    ($($ty:ty => $wide:ty;)*) => { $(impl Widen for $ty { type Wide = $wide; })* };
}

widen! { i8 => i16; u8 => u16; i16 => i32; u16 => u32; i32 => i64; u32 => u64; }
