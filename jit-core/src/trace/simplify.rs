//! What is folded while tracing: literals, identities that IEEE 754 allows, chains of casts, constant selects.
//!
//! Nothing here may change a bit of a result (NaN payloads aside): no `x + 0 -> x` (it loses -0), no `x * 0 -> 0`
//! on floats.

use super::{At, Key, NodeId, Trace, fold};
use crate::dtype::{ALL_DTYPES, DType, is_nan};
use crate::op::{Class, Op, scalar};

impl Trace {
    /// A node that already has the value of this op, with a count for the caller.
    pub(super) fn simplified(
        &mut self,
        op: Op,
        dtype: DType,
        size: u64,
        args: &[NodeId],
        at: At,
    ) -> Option<NodeId> {
        let mut bits = [0; 3];
        let mut literals = 0;
        for (slot, &arg) in bits.iter_mut().zip(args) {
            let node = self.node(arg);
            if node.is_literal() {
                *slot = node.payload;
                literals += 1;
            }
        }
        if literals == args.len() {
            let ty = self.node(*args.last()?).dtype;
            return Some(self.literal(dtype, fold(op, ty, dtype, &bits[..args.len()]), size, at));
        }
        if op.class() == Class::Math {
            return None;
        }
        if let Some(bits) = self.constant(op, dtype, args) {
            return Some(self.literal(dtype, bits, size, at));
        }
        let known = match args {
            [a] => self.unary(op, dtype, *a),
            [a, b] => self.binary(op, dtype, *a, *b),
            [c, a, b] if op == Op::Select => self.select(*c, *a, *b),
            _ => None,
        };
        if let Some(known) = known.filter(|&k| self.node(k).size == size && self.node(k).dtype == dtype) {
            self.retain(known);
            return Some(known);
        }
        self.rewritten(op, dtype, size, args, at)
    }

    /// Values that do not depend on the lanes.
    fn constant(&self, op: Op, dtype: DType, args: &[NodeId]) -> Option<u64> {
        let [a, b] = *args else { return None };
        let ty = self.node(a).dtype;
        if ty.is_float() {
            return None;
        }
        let zero = |id| self.is_literal_value(id, 0);
        match op {
            Op::And if zero(a) || zero(b) => Some(0),
            Op::Mul if zero(a) || zero(b) => Some(0),
            Op::Or if self.is_literal_value(a, ty.mask()) || self.is_literal_value(b, ty.mask()) => {
                Some(ty.mask())
            }
            Op::Xor | Op::Sub if a == b => Some(0),
            Op::Eq | Op::Le | Op::Ge if a == b => Some(1),
            Op::Ne | Op::Lt | Op::Gt if a == b => Some(0),
            Op::Shl if self.literal_of(b).is_some_and(|n| n >= u64::from(dtype.bits())) => Some(0),
            Op::Shr
                if !dtype.is_signed() && self.literal_of(b).is_some_and(|n| n >= u64::from(dtype.bits())) =>
            {
                Some(0)
            }
            _ => None,
        }
    }

    fn unary(&self, op: Op, dtype: DType, a: NodeId) -> Option<NodeId> {
        let node = self.node(a);
        match op {
            Op::Cast | Op::Bitcast if node.dtype == dtype => Some(a),
            Op::Abs if node.op == Op::Abs => Some(a),
            Op::Abs if !dtype.is_float() && !dtype.is_signed() => Some(a),
            Op::Floor | Op::Ceil | Op::Trunc | Op::Round | Op::RoundTiesEven if is_rounding(node.op) => {
                Some(a)
            }
            _ if self.in_flight => None,
            Op::Neg | Op::Not | Op::ReverseBits if node.op == op => Some(node.operands[0]),
            Op::Bitcast if node.op == Op::Bitcast && self.node(node.operands[0]).dtype == dtype => {
                Some(node.operands[0])
            }
            // There and back through a type that holds every value.
            Op::Cast if node.op == Op::Cast => {
                let source = node.operands[0];
                (self.node(source).dtype == dtype && holds_all(node.dtype, dtype)).then_some(source)
            }
            _ => None,
        }
    }

    fn binary(&self, op: Op, dtype: DType, a: NodeId, b: NodeId) -> Option<NodeId> {
        let float = dtype.is_float();
        let is = |id: NodeId, bits: u64| self.is_literal_value(id, bits);
        let one = |id: NodeId| is(id, one(dtype));
        match op {
            Op::Add if !float && is(b, 0) => Some(a),
            Op::Add if !float && is(a, 0) => Some(b),
            // x + (-0) and x - (+0) are x, also for x = -0.
            Op::Add if float && is(b, negative_zero(dtype)) => Some(a),
            Op::Add if float && is(a, negative_zero(dtype)) => Some(b),
            Op::Sub if is(b, 0) => Some(a),
            Op::Mul if one(b) => Some(a),
            Op::Mul if one(a) => Some(b),
            Op::Div if one(b) => Some(a),
            Op::Or | Op::Xor if is(b, 0) => Some(a),
            Op::Or | Op::Xor if is(a, 0) => Some(b),
            Op::And if is(b, dtype.mask()) => Some(a),
            Op::And if is(a, dtype.mask()) => Some(b),
            Op::And | Op::Or if a == b => Some(a),
            Op::Min | Op::Max | Op::Minimum | Op::Maximum if a == b => Some(a),
            Op::Shl | Op::Shr if is(b, 0) => Some(a),
            _ => None,
        }
    }

    fn select(&self, condition: NodeId, a: NodeId, b: NodeId) -> Option<NodeId> {
        match self.literal_of(condition) {
            Some(0) => Some(b),
            Some(_) => Some(a),
            None => (a == b).then_some(a),
        }
    }

    /// Cheaper ops with the same value.
    fn rewritten(&mut self, op: Op, dtype: DType, size: u64, args: &[NodeId], at: At) -> Option<NodeId> {
        match (op, args) {
            // Dividing by a power of two is exact multiplication by its reciprocal.
            (Op::Div, &[a, b]) if dtype.is_float() => {
                let bits = exact_reciprocal(dtype, self.literal_of(b)?)?;
                let factor = self.literal(dtype, bits, self.node(b).size, at);
                let scope = self.node(a).scope;
                let product = self.pure(&Key::new(Op::Mul, dtype, size, &[a, factor], 0), scope, at);
                self.release(factor);
                Some(product)
            }
            // A condition asked the other way round.
            (Op::Select, &[c, a, b]) if self.node(c).op == Op::Not && !self.in_flight => {
                let c = self.node(c).operands[0];
                let scope = args.iter().map(|&x| self.node(x).scope).fold(0, |s, t| self.deeper(s, t));
                Some(self.pure(&Key::new(Op::Select, dtype, size, &[c, b, a], 0), scope, at))
            }
            _ => None,
        }
    }

    fn deeper(&self, a: u32, b: u32) -> u32 {
        self.scopes.deeper(a, b)
    }

    fn literal_of(&self, id: NodeId) -> Option<u64> {
        let node = self.node(id);
        node.is_literal().then_some(node.payload)
    }
}

fn is_rounding(op: Op) -> bool {
    matches!(op, Op::Floor | Op::Ceil | Op::Trunc | Op::Round | Op::RoundTiesEven)
}

fn negative_zero(dtype: DType) -> u64 {
    IDENTITIES[dtype as usize].negative_zero
}

fn one(dtype: DType) -> u64 {
    IDENTITIES[dtype as usize].one
}

/// The bits of numbers that some op leaves its other operand alone with, or that decide its result.
struct Identities {
    one: u64,
    negative_zero: u64,
    all_ones: u64,
}

static IDENTITIES: [Identities; ALL_DTYPES.len()] = {
    let mut all = [const { Identities { one: 1, negative_zero: 0, all_ones: 0 } }; ALL_DTYPES.len()];
    let mut at = 0;
    while at < all.len() {
        let dtype = ALL_DTYPES[at];
        all[at].all_ones = dtype.mask();
        match dtype {
            DType::F16 => all[at].one = 0x3c00,
            DType::F32 => all[at].one = 0x3f80_0000,
            DType::F64 => all[at].one = 0x3ff0_0000_0000_0000,
            _ => {}
        }
        if dtype.is_float() {
            all[at].negative_zero = 1 << (dtype.bits() - 1);
        }
        at += 1;
    }
    all
};

/// Whether [`Trace::simplified`] could find anything, given how many operands are known and, of one, its bits. A filter for
/// the most frequent cases, in which it finds nothing.
#[inline]
pub(super) fn may_simplify(op: Op, ty: DType, args: &[NodeId], literals: usize, known: u64) -> bool {
    match *args {
        [a, b] => match literals {
            0 => a == b,
            1 => {
                let Identities { one, negative_zero, all_ones } = IDENTITIES[ty as usize];
                known == 0
                    || known == one
                    || known == negative_zero
                    || known == all_ones
                    || matches!(op, Op::Div | Op::Shl | Op::Shr)
            }
            _ => true,
        },
        [_, _, _] => literals > 0 || op == Op::Select,
        _ => true,
    }
}

/// Whether every value of `narrow` survives a cast to `wide` and back.
fn holds_all(wide: DType, narrow: DType) -> bool {
    let mantissa = |d: DType| match d {
        DType::F16 => 11,
        DType::F32 => 24,
        _ => 53,
    };
    match (wide.is_float(), narrow.is_float()) {
        _ if wide == DType::Bool => narrow == DType::Bool,
        (true, true) => wide.size() >= narrow.size(),
        (true, false) => mantissa(wide) >= narrow.bits(),
        (false, true) => false,
        // Integers wrap, so the low bits come back whatever the signs are.
        (false, false) => wide.bits() >= narrow.bits(),
    }
}

/// The bits of 1 / x if x is a power of two whose reciprocal is a normal number.
fn exact_reciprocal(dtype: DType, bits: u64) -> Option<u64> {
    let x = scalar::as_f64(dtype, bits);
    let reciprocal = scalar::cast(DType::F64, dtype, (1.0 / x).to_bits());
    let power_of_two = x.to_bits() & ((1 << 52) - 1) == 0 && x.is_normal() && !is_nan(dtype, bits);
    let smallest = match dtype {
        DType::F16 => 6.103_515_625e-5,
        DType::F32 => f64::from(f32::MIN_POSITIVE),
        _ => f64::MIN_POSITIVE,
    };
    let back = scalar::as_f64(dtype, reciprocal);
    (power_of_two && back.is_finite() && back.abs() >= smallest && back * x == 1.0).then_some(reciprocal)
}
