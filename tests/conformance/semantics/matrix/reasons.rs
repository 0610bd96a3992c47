//! Why an op has no meaning on a type. The list is closed: whatever is refused is refused for one of these.

use jit_core::dtype::DType;

/// Why there is nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Reason {
    NoArithmetic,
    NoSign,
    FloatsOnly,
    IntegersOnly,
    NoBits,
    OtherSize,
    BoolIsOneBit,
    BoolsOnly,
    LaneNumbers,
    NoWiderType,
    RandomTypes,
}

/// All of them, in the order of the legend.
pub(super) const REASONS: [Reason; 11] = [
    Reason::NoArithmetic,
    Reason::NoSign,
    Reason::FloatsOnly,
    Reason::IntegersOnly,
    Reason::NoBits,
    Reason::OtherSize,
    Reason::BoolIsOneBit,
    Reason::BoolsOnly,
    Reason::LaneNumbers,
    Reason::NoWiderType,
    Reason::RandomTypes,
];

impl Reason {
    /// The letter that stands in a cell.
    pub(super) fn letter(self) -> char {
        (b'a' + self as u8) as char
    }

    /// For readers of the table.
    pub(super) fn sentence(self) -> &'static str {
        match self {
            Reason::NoArithmetic => {
                "bool has no arithmetic and no least or greatest value: cast it, or use `and`, `or`, `xor`"
            }
            Reason::NoSign => "unsigned integers have no sign",
            Reason::FloatsOnly => "floats only: cast integers and bools",
            Reason::IntegersOnly => "integers only",
            Reason::NoBits => "integers and bool only: bitcast a float to combine its bits",
            Reason::OtherSize => "types of the same size only",
            Reason::BoolIsOneBit => "bool is a bit that takes a byte: cast it",
            Reason::BoolsOnly => "bool only",
            Reason::LaneNumbers => "lanes are counted in u32 or u64: cast them",
            Reason::NoWiderType => "there is no integer of twice the width",
            Reason::RandomTypes => "random numbers are drawn as u32, f32 or f64: cast them",
        }
    }

    /// The reason that a panic states for refusing a type; none if it states no reason of these.
    pub(super) fn stated(message: &str, dtype: DType) -> Option<Reason> {
        let says = |words: &str| message.contains(words);
        Some(match dtype {
            DType::Bool if says("one numeric type, got (bool") || says("takes numbers, got bool") => {
                Reason::NoArithmetic
            }
            _ if says("takes operands of one float type") => Reason::FloatsOnly,
            _ if says("takes operands of one integer type or bool") && dtype.is_float() => Reason::NoBits,
            _ if says("takes operands of one integer type") => Reason::IntegersOnly,
            _ if says("takes an integer")
                || says("takes integers")
                || says("an index of an integer type") =>
            {
                Reason::IntegersOnly
            }
            _ if says("a type of the same size, not bool")
                && (dtype == DType::Bool || says("`bitcast` to bool")) =>
            {
                Reason::BoolIsOneBit
            }
            _ if says("a type of the same size, not bool") => Reason::OtherSize,
            _ if says("`compress` takes bools") => Reason::BoolsOnly,
            _ if says("a counter is u32 or u64") => Reason::LaneNumbers,
            _ => return None,
        })
    }
}
