//! Faults that compilers of this kind have had, to be planted on purpose: tests prove with them that random programs
//! would find such a fault. Only with the feature `seeded-bugs`.

use super::Lane;
use crate::dtype::DType;
use crate::ir::Inst;
use crate::op::{Op, scalar};

macro_rules! bugs {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A fault of the interpreter.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum SeededBug {
            $($(#[$doc])* $name,)*
        }

        /// All of them.
        pub const ALL_SEEDED_BUGS: &[SeededBug] = &[$(SeededBug::$name,)*];
    };
}

bugs! {
    /// Shifts use the low bits of the amount, as processors do.
    ShiftAmountMasked,
    /// `min` and `max` give NaN where one operand is.
    MinPropagatesNan,
    /// `min` and friends give the first of two zeros.
    ZerosUnordered,
    /// `select` between bools takes the wrong one.
    BoolSelectSwapped,
    /// Sums of i8 saturate.
    I8SumSaturates,
    /// The remainder of signed integers is never negative.
    RemainderEuclidean,
    /// u64 compares as i64.
    U64ComparesSigned,
    /// A float that an integer type does not hold wraps.
    CastWraps,
    /// f64 becomes f16 by way of f32.
    HalfRoundedTwice,
    /// `mul_add` rounds the product.
    MulAddRoundsProduct,
    /// `copysign` takes the sign by comparing with zero.
    CopySignCompares,
    /// `mul_hi` of signed integers multiplies them as unsigned.
    MulHiUnsigned,
    /// The last element is out of bounds for reads.
    GatherBoundOffByOne,
    /// A negative index counts from the end.
    NegativeIndexFromEnd,
    /// Scatters look at no mask.
    ScatterIgnoresMask,
    /// `atomic_inc` gives the new value.
    AtomicIncGivesNew,
    /// A write to a local array changes the array as it was, too.
    LocalWriteInPlace,
    /// An index past the end of a local array counts from its start.
    LocalIndexWraps,
    /// A loop runs its body once even if its condition fails at first.
    LoopRunsOnce,
    /// The state of a loop is assigned one by one.
    LoopStateSequential,
    /// Where a condition holds, the effects of the other side happen too.
    OtherSideHappens,
    /// A switch takes the last of its numbered blocks for a number out of range.
    SwitchClamps,
    /// The last lane is left out of reductions unless it fills a vector.
    ReductionTail,
}

impl SeededBug {
    /// The wrong value of an op, if the bug is in that op.
    pub(super) fn evaluate(self, op: Op, ty: DType, out: DType, args: &[u64]) -> Option<u64> {
        let right = |op: Op, args: &[u64]| scalar::evaluate(op, ty, out, args);
        let bits = u64::from(ty.bits());
        Some(match (self, op) {
            (SeededBug::ShiftAmountMasked, Op::Shl | Op::Shr) => right(op, &[args[0], args[1] & (bits - 1)]),
            (SeededBug::MinPropagatesNan, Op::Min) => right(Op::Minimum, args),
            (SeededBug::MinPropagatesNan, Op::Max) => right(Op::Maximum, args),
            (SeededBug::ZerosUnordered, Op::Min | Op::Max | Op::Minimum | Op::Maximum)
                if ty.is_float() && args.iter().all(|&a| a << (64 - bits + 1) == 0) =>
            {
                args[0]
            }
            (SeededBug::BoolSelectSwapped, Op::Select) if out == DType::Bool => {
                right(op, &[args[0], args[2], args[1]])
            }
            (SeededBug::I8SumSaturates, Op::Add) if ty == DType::I8 => {
                u64::from((args[0] as i8).saturating_add(args[1] as i8) as u8)
            }
            (SeededBug::RemainderEuclidean, Op::Rem) if ty.is_signed() && args[1] != 0 => {
                let rem = right(op, args);
                let negative = rem >> (bits - 1) != 0;
                if negative { right(Op::Add, &[rem, right(Op::Abs, &[args[1]])]) } else { rem }
            }
            (SeededBug::U64ComparesSigned, Op::Lt | Op::Le | Op::Gt | Op::Ge) if ty == DType::U64 => {
                scalar::evaluate(op, DType::I64, out, args)
            }
            (SeededBug::CastWraps, Op::Cast) if ty.is_float() && out.is_int() => {
                (scalar::as_f64(ty, args[0]) as i128 as u64) & out.mask()
            }
            (SeededBug::HalfRoundedTwice, Op::Cast) if out == DType::F16 => {
                let single = scalar::cast(ty, DType::F32, args[0]);
                scalar::cast(DType::F32, DType::F16, single)
            }
            (SeededBug::MulAddRoundsProduct, Op::MulAdd) if ty.is_float() => {
                right(Op::Add, &[right(Op::Mul, &args[..2]), args[2]])
            }
            (SeededBug::CopySignCompares, Op::CopySign) => {
                let sign = scalar::evaluate(Op::Lt, ty, DType::Bool, &[args[1], 0]);
                right(Op::Abs, args) | sign << (bits - 1)
            }
            (SeededBug::MulHiUnsigned, Op::MulHi) if ty.is_signed() => {
                scalar::evaluate(op, ty.unsigned(), ty.unsigned(), args)
            }
            _ => return None,
        })
    }
}

impl Lane<'_> {
    pub(super) fn has(&self, bug: SeededBug) -> bool {
        self.bug == Some(bug)
    }

    /// The wrong element that an access touches, if the bug is there.
    pub(super) fn wrong_element(&self, inst: &Inst) -> Option<Option<u64>> {
        let reads = inst.op == Op::Gather;
        let masked = inst.mask().is_some_and(|m| self.get(m) == 0);
        let ty = self.program.dtype(inst.index());
        let wide = if ty.is_signed() { DType::I64 } else { DType::U64 };
        let at = scalar::cast(ty, wide, self.get(inst.index()));
        let len = self.memory.len(inst.param());
        match self.bug? {
            SeededBug::ScatterIgnoresMask if !reads && masked => Some((at < len).then_some(at)),
            SeededBug::GatherBoundOffByOne if reads && at.checked_add(1) == Some(len) => Some(None),
            SeededBug::NegativeIndexFromEnd if !masked && ty.is_signed() && at.wrapping_add(len) < at => {
                Some(Some(at.wrapping_add(len)))
            }
            _ => None,
        }
    }

    /// Leaves the last lane out of reductions.
    pub(super) fn spoil_reductions(&mut self, is_tail: bool) {
        if !self.has(SeededBug::ReductionTail) || !is_tail {
            return;
        }
        for inst in self.program.reduce_insts() {
            if let Some(combine) = inst.op.combine() {
                let value = inst.args[0];
                self.values[value.index()] = scalar::identity(combine, self.program.dtype(value));
            }
        }
    }
}
