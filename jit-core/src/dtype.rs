//! Element types of arrays, and the Rust types that represent them on the host.

use half::f16;

/// The type of one array element.
///
/// Bool takes one byte in memory and holds 0 or 1. Inside the compiler a value of any type travels as a
/// `u64` whose low bits are the element's bits and whose other bits are zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum DType {
    /// One byte, 0 or 1.
    Bool,
    /// 8-bit signed integer.
    I8,
    /// 8-bit unsigned integer.
    U8,
    /// 16-bit signed integer.
    I16,
    /// 16-bit unsigned integer.
    U16,
    /// 32-bit signed integer.
    I32,
    /// 32-bit unsigned integer.
    U32,
    /// 64-bit signed integer.
    I64,
    /// 64-bit unsigned integer.
    U64,
    /// IEEE 754 binary16.
    F16,
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
}

/// All element types, in the order of their discriminants.
pub const ALL_DTYPES: [DType; 12] = [
    DType::Bool,
    DType::I8,
    DType::U8,
    DType::I16,
    DType::U16,
    DType::I32,
    DType::U32,
    DType::I64,
    DType::U64,
    DType::F16,
    DType::F32,
    DType::F64,
];

impl DType {
    /// The name used in dumps, errors and the text form of programs.
    pub const fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::I8 => "i8",
            DType::U8 => "u8",
            DType::I16 => "i16",
            DType::U16 => "u16",
            DType::I32 => "i32",
            DType::U32 => "u32",
            DType::I64 => "i64",
            DType::U64 => "u64",
            DType::F16 => "f16",
            DType::F32 => "f32",
            DType::F64 => "f64",
        }
    }

    /// The type of that [`name`](Self::name).
    pub fn from_name(name: &str) -> Option<DType> {
        ALL_DTYPES.into_iter().find(|d| d.name() == name)
    }

    /// The type with this discriminant.
    ///
    /// # Panics
    /// If no type has it.
    pub const fn from_index(index: u8) -> DType {
        ALL_DTYPES[index as usize]
    }

    /// Bytes of one element in memory.
    pub const fn size(self) -> usize {
        match self {
            DType::Bool | DType::I8 | DType::U8 => 1,
            DType::I16 | DType::U16 | DType::F16 => 2,
            DType::I32 | DType::U32 | DType::F32 => 4,
            DType::I64 | DType::U64 | DType::F64 => 8,
        }
    }

    /// Bits of one value: 1 for bool, else eight times [`size`](Self::size).
    pub const fn bits(self) -> u32 {
        match self {
            DType::Bool => 1,
            _ => self.size() as u32 * 8,
        }
    }

    /// f16, f32 or f64.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::F32 | DType::F64)
    }

    /// A signed or unsigned integer; bool is none.
    pub const fn is_int(self) -> bool {
        !self.is_float() && !matches!(self, DType::Bool)
    }

    /// A signed integer.
    pub const fn is_signed(self) -> bool {
        matches!(self, DType::I8 | DType::I16 | DType::I32 | DType::I64)
    }

    /// The unsigned integer of the same size in memory.
    pub const fn unsigned(self) -> DType {
        match self.size() {
            1 => DType::U8,
            2 => DType::U16,
            4 => DType::U32,
            _ => DType::U64,
        }
    }

    /// The mask of the bits that a value of this type may have set.
    pub const fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits())
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::fmt::Debug for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that is an array element. Sealed: exactly the twelve types of [`DType`].
pub trait Element:
    sealed::Sealed
    + Copy
    + Default
    + PartialEq
    + PartialOrd
    + std::fmt::Debug
    + std::fmt::Display
    + Send
    + Sync
    + 'static
{
    /// The element type this Rust type stands for.
    const DTYPE: DType;
    /// The bits of the value, zero-extended.
    fn to_bits(self) -> u64;
    /// The value of these bits; higher bits are ignored (for bool: any set low byte is true).
    fn from_bits(bits: u64) -> Self;
}

macro_rules! element {
    ($($ty:ty, $dtype:ident, |$v:ident| $to:expr, |$b:ident| $from:expr;)*) => {$(
        impl sealed::Sealed for $ty {}
        impl Element for $ty {
            const DTYPE: DType = DType::$dtype;
            #[inline]
            fn to_bits(self) -> u64 { let $v = self; $to }
            #[inline]
            fn from_bits($b: u64) -> Self { $from }
        }
    )*};
}

element! {
    bool, Bool, |v| v as u64, |b| b as u8 != 0;
    i8, I8, |v| v as u8 as u64, |b| b as i8;
    u8, U8, |v| v as u64, |b| b as u8;
    i16, I16, |v| v as u16 as u64, |b| b as i16;
    u16, U16, |v| v as u64, |b| b as u16;
    i32, I32, |v| v as u32 as u64, |b| b as i32;
    u32, U32, |v| v as u64, |b| b as u32;
    i64, I64, |v| v as u64, |b| b as i64;
    u64, U64, |v| v, |b| b;
    f16, F16, |v| v.to_bits() as u64, |b| f16::from_bits(b as u16);
    f32, F32, |v| v.to_bits() as u64, |b| f32::from_bits(b as u32);
    f64, F64, |v| v.to_bits(), |b| f64::from_bits(b);
}

/// Writes a value for people: `1.5`, `-3`, `true`, `NaN`.
pub fn format_bits(dtype: DType, bits: u64) -> String {
    match dtype {
        DType::Bool => bool::from_bits(bits).to_string(),
        DType::I8 => i8::from_bits(bits).to_string(),
        DType::I16 => i16::from_bits(bits).to_string(),
        DType::I32 => i32::from_bits(bits).to_string(),
        DType::I64 => i64::from_bits(bits).to_string(),
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => bits.to_string(),
        DType::F16 => format!("{:?}", f16::from_bits(bits as u16).to_f32()),
        DType::F32 => format!("{:?}", f32::from_bits(bits as u32)),
        DType::F64 => format!("{:?}", f64::from_bits(bits)),
    }
}

/// Whether these bits are a NaN of that type.
pub fn is_nan(dtype: DType, bits: u64) -> bool {
    match dtype {
        DType::F16 => bits & 0x7fff > 0x7c00,
        DType::F32 => bits & 0x7fff_ffff > 0x7f80_0000,
        DType::F64 => bits & 0x7fff_ffff_ffff_ffff > 0x7ff0_0000_0000_0000,
        _ => false,
    }
}
