//! The op table: the one place where an operation of the language is declared.
//!
//! Printer, parser, verifier, constant folder and interpreter derive from it. Trace and
//! kernel IR share the ops; [`Class`] says where each may stand.
//!
//! # Adding an op
//! 1. A row in the table `ops!` below: variant, text name, class, number of operands, type rule, one line of doc.
//! 2. Its meaning on one lane in [`scalar::evaluate`], which folder and
//!    interpreter share.
//! 3. A template line in each code generator.
//! 4. A row in the semantics tests; the random-program generator and the printer pick it up by themselves.

pub mod scalar;

use crate::dtype::{ALL_DTYPES, DType};

/// What kind of thing an op is, and so where it may stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// A value without operands.
    Leaf,
    /// A pure function of its operands, lane by lane.
    Lane,
    /// Like `Lane`, but lowered into `Lane` ops by the pass `lower_math` before code is generated.
    Math,
    /// A pure read of memory at an index.
    Read,
    /// Changes memory; executed exactly once per active lane.
    Effect,
    /// Makes, reads or changes an array that each lane has for itself; pure, since such an array is a value.
    Local,
    /// Combines the values of all lanes into one.
    Reduce,
    /// Moves or combines elements across lanes, by a kernel of its own that no program describes.
    Across,
    /// Holds nested blocks.
    Region,
    /// Only in the trace: names a part of another node.
    Trace,
    /// Only in the kernel IR.
    Kernel,
}

/// How the result type follows from the operand types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// All operands and the result have one numeric type.
    Numeric,
    /// All operands and the result have one float type.
    Float,
    /// All operands and the result have one integer type.
    Int,
    /// All operands and the result have one integer type, or are bool.
    Bits,
    /// Two operands of one type, whichever; the result is bool.
    Compare,
    /// One integer operand; the result is u32.
    CountBits,
    /// A bool, then two operands of the result's type.
    Select,
    /// Any operand type, any result type.
    Cast,
    /// Any operand type, a result type of the same size; neither is bool.
    Bitcast,
    /// Checked where the op is built (memory, regions, leaves).
    Special,
}

macro_rules! ops {
    ($($variant:ident $text:literal $class:ident $arity:literal $rule:ident $doc:literal;)*) => {
        /// An operation of the language.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        #[repr(u8)]
        pub enum Op {
            $(#[doc = $doc] $variant,)*
        }

        /// Every op, in the order of the table.
        pub const ALL_OPS: &[Op] = &[$(Op::$variant,)*];

        const TABLE: &[Row] = &[
            $(Row { text: $text, class: Class::$class, arity: $arity, rule: Rule::$rule, doc: $doc },)*
        ];
    };
}

struct Row {
    text: &'static str,
    class: Class,
    arity: u8,
    rule: Rule,
    doc: &'static str,
}

ops! {
    Literal       "literal"        Leaf   0 Special   "A constant, the same on every lane.";
    Counter       "counter"        Leaf   0 Special   "The global lane index (base + i), as u32 or u64.";
    LaneCount     "lane_count"     Leaf   0 Special   "A number of elements known at launch, as u64.";

    Neg           "neg"            Lane   1 Numeric   "Negation; integers wrap, floats flip the sign bit.";
    Not           "not"            Lane   1 Bits      "Bitwise complement; logical for bool.";
    Abs           "abs"            Lane   1 Numeric   "Absolute value; MIN wraps to itself, floats clear the sign bit.";
    Sqrt          "sqrt"           Lane   1 Float     "Square root, correctly rounded.";
    Floor         "floor"          Lane   1 Float     "Largest integral value not above.";
    Ceil          "ceil"           Lane   1 Float     "Smallest integral value not below.";
    Trunc         "trunc"          Lane   1 Float     "Integral part, toward zero.";
    Round         "round"          Lane   1 Float     "Nearest integral value, halves away from zero.";
    RoundTiesEven "round_ties_even" Lane  1 Float     "Nearest integral value, halves to even.";
    CountOnes     "count_ones"     Lane   1 CountBits "Number of set bits.";
    LeadingZeros  "leading_zeros"  Lane   1 CountBits "Number of zero bits above the highest set bit.";
    TrailingZeros "trailing_zeros" Lane   1 CountBits "Number of zero bits below the lowest set bit.";
    ReverseBits   "reverse_bits"   Lane   1 Int       "Bits in reverse order.";
    Cast          "cast"           Lane   1 Cast      "Conversion by value, as Rust's `as`: float to integer saturates, NaN gives 0; to bool: x != 0.";
    Bitcast       "bitcast"        Lane   1 Bitcast   "The same bits under another type of the same size.";

    Add           "add"            Lane   2 Numeric   "Sum; integers wrap.";
    Sub           "sub"            Lane   2 Numeric   "Difference; integers wrap.";
    Mul           "mul"            Lane   2 Numeric   "Product; integers wrap.";
    Div           "div"            Lane   2 Numeric   "Quotient; integers: x / 0 is all ones, MIN / -1 is MIN.";
    Rem           "rem"            Lane   2 Numeric   "Remainder with the dividend's sign (exact fmod); integers: x % 0 is x, MIN % -1 is 0.";
    MulHi         "mul_hi"         Lane   2 Int       "High half of the double-width product.";
    Min           "min"            Lane   2 Numeric   "Smaller value; ignores NaN, -0 < +0.";
    Max           "max"            Lane   2 Numeric   "Larger value; ignores NaN, -0 < +0.";
    Minimum       "minimum"        Lane   2 Numeric   "Smaller value; propagates NaN, -0 < +0.";
    Maximum       "maximum"        Lane   2 Numeric   "Larger value; propagates NaN, -0 < +0.";
    And           "and"            Lane   2 Bits      "Bitwise and.";
    Or            "or"             Lane   2 Bits      "Bitwise or.";
    Xor           "xor"            Lane   2 Bits      "Bitwise exclusive or.";
    Shl           "shl"            Lane   2 Int       "Shift left; 0 if the amount, read as unsigned, is not below the width.";
    Shr           "shr"            Lane   2 Int       "Shift right (arithmetic if signed); past the width 0, or all sign bits.";
    CopySign      "copysign"       Lane   2 Float     "Magnitude of the first, sign bit of the second operand.";
    Eq            "eq"             Lane   2 Compare   "Equal.";
    Ne            "ne"             Lane   2 Compare   "Not equal; true if either is NaN.";
    Lt            "lt"             Lane   2 Compare   "Less.";
    Le            "le"             Lane   2 Compare   "Less or equal.";
    Gt            "gt"             Lane   2 Compare   "Greater.";
    Ge            "ge"             Lane   2 Compare   "Greater or equal.";
    MulAdd        "mul_add"        Lane   3 Numeric   "a * b + c, rounded once (f16: the f32 op rounded once more); integers wrap.";
    Select        "select"         Lane   3 Select    "The second operand where the first is true, else the third.";

    Rsqrt         "rsqrt"          Math   1 Float     "1 / sqrt(x).";
    Recip         "recip"          Math   1 Float     "1 / x, correctly rounded.";
    Sin           "sin"            Math   1 Float     "Sine of an angle in radians.";
    Cos           "cos"            Math   1 Float     "Cosine of an angle in radians.";
    Exp           "exp"            Math   1 Float     "e to the power x.";
    Ln            "ln"             Math   1 Float     "Natural logarithm.";
    Pow           "pow"            Math   2 Float     "The first operand to the power of the second, as C's pow.";
    Tan           "tan"            Math   1 Float     "Tangent of an angle in radians.";
    Asin          "asin"           Math   1 Float     "Arcsine, from -pi/2 to pi/2; NaN beyond 1.";
    Acos          "acos"           Math   1 Float     "Arccosine, from 0 to pi; NaN beyond 1.";
    Atan          "atan"           Math   1 Float     "Arctangent, from -pi/2 to pi/2.";
    Atan2         "atan2"          Math   2 Float     "Angle of the vector (second, first operand), from -pi to pi, as C's atan2.";
    Sinh          "sinh"           Math   1 Float     "Hyperbolic sine.";
    Cosh          "cosh"           Math   1 Float     "Hyperbolic cosine.";
    Tanh          "tanh"           Math   1 Float     "Hyperbolic tangent.";
    Asinh         "asinh"          Math   1 Float     "Inverse hyperbolic sine.";
    Acosh         "acosh"          Math   1 Float     "Inverse hyperbolic cosine; NaN below 1.";
    Atanh         "atanh"          Math   1 Float     "Inverse hyperbolic tangent; NaN beyond 1.";
    Exp2          "exp2"           Math   1 Float     "2 to the power x.";
    ExpM1         "exp_m1"         Math   1 Float     "e to the power x, less 1.";
    Log2          "log2"           Math   1 Float     "Binary logarithm.";
    Log10         "log10"          Math   1 Float     "Decimal logarithm.";
    Ln1p          "ln_1p"          Math   1 Float     "Natural logarithm of 1 + x.";
    Cbrt          "cbrt"           Math   1 Float     "Cube root, also of negative numbers.";
    Hypot         "hypot"          Math   2 Float     "Square root of the sum of the squares, without overflow, as C's hypot.";
    Erf           "erf"            Math   1 Float     "Error function.";
    Erfc          "erfc"           Math   1 Float     "1 less the error function, exact where that is small.";

    Gather        "gather"         Read   3 Special   "Element at an index: source, index, mask; 0 where masked off or out of bounds.";

    Scatter       "scatter"        Effect 4 Special   "Stores an element: target, value, index, mask; nothing where masked off or out of bounds.";
    ScatterAdd    "scatter_add"    Effect 4 Special   "Atomic addition to an element.";
    ScatterMul    "scatter_mul"    Effect 4 Special   "Atomic multiplication of an element.";
    ScatterMin    "scatter_min"    Effect 4 Special   "Atomic `min` with an element.";
    ScatterMax    "scatter_max"    Effect 4 Special   "Atomic `max` with an element.";
    ScatterMinimum "scatter_minimum" Effect 4 Special "Atomic `minimum` with an element.";
    ScatterMaximum "scatter_maximum" Effect 4 Special "Atomic `maximum` with an element.";
    ScatterAnd    "scatter_and"    Effect 4 Special   "Atomic `and` with an element.";
    ScatterOr     "scatter_or"     Effect 4 Special   "Atomic `or` with an element.";
    ScatterXor    "scatter_xor"    Effect 4 Special   "Atomic `xor` with an element.";
    AtomicInc     "atomic_inc"     Effect 3 Special   "Adds 1 to an integer element, gives the old value: target, index, mask; 0 where masked off or out of bounds.";
    Exchange      "exchange"       Effect 4 Special   "Stores an element atomically, gives the old value: target, value, index, mask; 0 where masked off or out of bounds.";
    CompareExchange "compare_exchange" Effect 4 Special "Stores an element atomically if it has the expected bits, gives the old value: target, expected, value, index; 0 where out of bounds (in kernel IR also a mask).";

    LocalZeros    "local_zeros"    Local  0 Special   "An array of zeros for each lane.";
    LocalRead     "local_read"     Local  3 Special   "Element of a lane's own array: array, index, mask; 0 where masked off or out of bounds.";
    LocalWrite    "local_write"    Local  4 Special   "A lane's own array with one element changed: array, value, index, mask; the same where masked off or out of bounds.";

    ReduceSum     "reduce_sum"     Reduce 1 Numeric   "Sum of all lanes.";
    ReduceProd    "reduce_prod"    Reduce 1 Numeric   "Product of all lanes.";
    ReduceMin     "reduce_min"     Reduce 1 Numeric   "`min` of all lanes.";
    ReduceMax     "reduce_max"     Reduce 1 Numeric   "`max` of all lanes.";
    ReduceMinimum "reduce_minimum" Reduce 1 Numeric   "`minimum` of all lanes.";
    ReduceMaximum "reduce_maximum" Reduce 1 Numeric   "`maximum` of all lanes.";
    ReduceAnd     "reduce_and"     Reduce 1 Bits      "`and` of all lanes.";
    ReduceOr      "reduce_or"      Reduce 1 Bits      "`or` of all lanes.";
    ReduceXor     "reduce_xor"     Reduce 1 Bits      "`xor` of all lanes.";

    Reduce        "reduce"         Reduce 0 Special   "States of all lanes, combined by a block: values, then identities.";

    Scan          "scan"           Across 1 Special   "Running totals: of sums, minima or maxima.";
    Sort          "sort"           Across 1 Special   "The elements in ascending order, NaN last.";
    Argsort       "argsort"        Across 1 Special   "The indices that sort the elements, stable.";
    Compress      "compress"       Across 1 Special   "The indices of what is true, ascending; zeros after them.";

    Loop          "loop"           Region 0 Special   "Runs its body while its condition holds on a lane; state assigned in parallel.";
    If            "if"             Region 1 Special   "Runs one of two blocks, lane by lane.";
    Switch        "switch"         Region 1 Special   "Runs the block whose number an integer is, lane by lane, or the last one if it is no other's.";

    Data          "data"           Trace  0 Special   "An evaluated array.";
    Placeholder   "placeholder"    Trace  0 Special   "A lane's state or argument inside a region.";
    Memory        "memory"         Trace  0 Special   "A buffer as seen inside a region.";
    Result        "result"         Trace  1 Special   "One result of a region.";
    Version       "version"        Trace  1 Special   "Memory after an effect or a region.";

    Param         "param"          Kernel 0 Special   "The value of a scalar parameter.";
    Load          "load"           Kernel 0 Special   "The parameter's element at this lane.";
    LoadScalar    "load_scalar"    Kernel 0 Special   "The parameter's element 0, the same on every lane.";
    Store         "store"          Kernel 1 Special   "Writes this lane's element of an output (in a finishing block: element 0).";
    Lookup        "lookup"         Kernel 1 Special   "Element of a constant table of 2^k entries at the index's low k bits.";
    IfAny         "if_any"         Kernel 1 Special   "A cold pure block: its results where the mask is true, else the fallback values; skipped if no lane needs it.";
}

/// The number of operands and, where they all have one type and that is all it takes, the result's.
struct Signature {
    arity: u8,
    uniform: [Option<DType>; ALL_DTYPES.len()],
}

static SIGNATURES: [Signature; TABLE.len()] = {
    let mut all = [const { Signature { arity: 0, uniform: [None; ALL_DTYPES.len()] } }; TABLE.len()];
    let mut op = 0;
    while op < TABLE.len() {
        all[op].arity = TABLE[op].arity;
        let mut at = 0;
        while at < ALL_DTYPES.len() {
            let arg = ALL_DTYPES[at];
            all[op].uniform[arg as usize] = match TABLE[op].rule {
                Rule::Numeric if arg.is_float() || arg.is_int() => Some(arg),
                Rule::Float if arg.is_float() => Some(arg),
                Rule::Int if arg.is_int() => Some(arg),
                Rule::Bits if !arg.is_float() => Some(arg),
                Rule::Compare => Some(DType::Bool),
                Rule::CountBits if arg.is_int() => Some(DType::U32),
                _ => None,
            };
            at += 1;
        }
        op += 1;
    }
    all
};

impl Op {
    #[inline]
    fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// The op with this discriminant.
    ///
    /// # Panics
    /// If no op has it.
    pub const fn from_index(index: u8) -> Op {
        ALL_OPS[index as usize]
    }

    /// The op of that text name.
    pub fn from_name(name: &str) -> Option<Op> {
        ALL_OPS.iter().copied().find(|op| op.name() == name)
    }

    /// The name in dumps, errors and the text form of programs.
    pub fn name(self) -> &'static str {
        self.row().text
    }

    /// What kind of thing the op is.
    #[inline]
    pub fn class(self) -> Class {
        self.row().class
    }

    /// The number of operands in the trace (in kernel IR memory operands are parameters and a mask that is
    /// always true is left out).
    #[inline]
    pub fn arity(self) -> usize {
        self.row().arity as usize
    }

    /// How the result type follows from the operand types.
    #[inline]
    pub fn rule(self) -> Rule {
        self.row().rule
    }

    /// One line of documentation.
    pub fn doc(self) -> &'static str {
        self.row().doc
    }

    /// A pure function of its operands on one lane ([`Class::Lane`] or [`Class::Math`]).
    pub fn is_lane(self) -> bool {
        matches!(self.class(), Class::Lane | Class::Math)
    }

    /// An effect whose result is what the element held before.
    #[inline]
    pub fn gives_old(self) -> bool {
        matches!(self, Op::AtomicInc | Op::Exchange | Op::CompareExchange)
    }

    /// The number of elements that an indexed memory op takes before its index.
    #[inline]
    pub fn element_operands(self) -> usize {
        match self {
            Op::Gather | Op::AtomicInc => 0,
            Op::CompareExchange => 2,
            _ => 1,
        }
    }

    /// The operands may be exchanged without changing a bit of the result.
    #[inline]
    pub fn is_commutative(self) -> bool {
        matches!(
            self,
            Op::Add
                | Op::Mul
                | Op::MulHi
                | Op::Min
                | Op::Max
                | Op::Minimum
                | Op::Maximum
                | Op::And
                | Op::Or
                | Op::Xor
                | Op::Eq
                | Op::Ne
        )
    }

    /// For a reduction or a scatter that combines: the binary op it combines with.
    pub fn combine(self) -> Option<Op> {
        Some(match self {
            Op::ReduceSum | Op::ScatterAdd => Op::Add,
            Op::ReduceProd | Op::ScatterMul => Op::Mul,
            Op::ReduceMin | Op::ScatterMin => Op::Min,
            Op::ReduceMax | Op::ScatterMax => Op::Max,
            Op::ReduceMinimum | Op::ScatterMinimum => Op::Minimum,
            Op::ReduceMaximum | Op::ScatterMaximum => Op::Maximum,
            Op::ReduceAnd | Op::ScatterAnd => Op::And,
            Op::ReduceOr | Op::ScatterOr => Op::Or,
            Op::ReduceXor | Op::ScatterXor => Op::Xor,
            _ => return None,
        })
    }

    /// The result type for these operand types; `wanted` is what casts convert to. The error says what the
    /// op takes.
    #[inline]
    pub fn result_type(self, args: &[DType], wanted: DType) -> Result<DType, String> {
        if let Some((&first, rest)) = args.split_first()
            && rest.iter().all(|&arg| arg == first)
            && let Some(result) = self.uniform_type(args.len(), first)
        {
            return Ok(result);
        }
        self.checked_type(args, wanted)
    }

    /// [`result_type`](Self::result_type) of the common case: operands that all have one type, if that is all it takes.
    #[inline]
    pub(crate) fn uniform_type(self, operands: usize, ty: DType) -> Option<DType> {
        let Signature { arity, uniform } = &SIGNATURES[self as usize];
        if operands == *arity as usize { uniform[ty as usize] } else { None }
    }

    #[inline(never)]
    fn checked_type(self, args: &[DType], wanted: DType) -> Result<DType, String> {
        let same = args.windows(2).all(|w| w[0] == w[1]);
        let first = args.first().copied().unwrap_or(wanted);
        let ok = match self.rule() {
            Rule::Numeric => same && first != DType::Bool,
            Rule::Float => same && first.is_float(),
            Rule::Int => same && first.is_int(),
            Rule::Bits => same && !first.is_float(),
            Rule::Compare => same,
            Rule::CountBits => first.is_int(),
            Rule::Select => args.len() == 3 && first == DType::Bool && args[1] == args[2],
            Rule::Cast => true,
            Rule::Bitcast => first != DType::Bool && wanted != DType::Bool && first.size() == wanted.size(),
            Rule::Special => true,
        };
        if !ok || args.len() != self.arity() {
            let to = if self.rule() == Rule::Bitcast { format!(" to {wanted}") } else { String::new() };
            return Err(format!("`{}`{to} takes {}, got ({})", self.name(), self.takes(), list(args)));
        }
        Ok(match self.rule() {
            Rule::Compare => DType::Bool,
            Rule::CountBits => DType::U32,
            Rule::Select => args[1],
            Rule::Cast | Rule::Bitcast | Rule::Special => wanted,
            _ => first,
        })
    }

    fn takes(self) -> &'static str {
        match self.rule() {
            Rule::Numeric => "operands of one numeric type",
            Rule::Float => "operands of one float type",
            Rule::Int => "operands of one integer type",
            Rule::Bits => "operands of one integer type or bool",
            Rule::Compare => "two operands of one type",
            Rule::CountBits => "an integer",
            Rule::Select => "a bool and two operands of one type",
            Rule::Bitcast => "a type of the same size, not bool",
            Rule::Cast | Rule::Special => "other operands",
        }
    }
}

fn list(types: &[DType]) -> String {
    types.iter().map(|t| t.name()).collect::<Vec<_>>().join(", ")
}
