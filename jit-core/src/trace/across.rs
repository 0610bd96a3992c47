//! Scans, sorting, compression: nodes that builtins compute.

use std::panic::Location;

use super::{At, Key, Misuse, Node, NodeId, Trace, Var};
use crate::builtin::Builtin;
use crate::dtype::DType;
use crate::op::{Class, Op};

// The payload of a scan: two flags, the combining op, and the length of a sequence. Of others it is 0.
const EXCLUSIVE: u64 = 1;
const REVERSE: u64 = 2;
const COMBINE: u32 = 2;
const LENGTH: u32 = 4;
const COMBINES: [Op; 3] = [Op::Add, Op::Min, Op::Max];

/// What of a payload is structure: all but the length.
pub(crate) fn structure(payload: u64) -> u64 {
    payload & ((1 << LENGTH) - 1)
}

/// What computes a node whose operand has that type, and the number that it is launched with.
pub(crate) fn builtin(node: &Node, operand: DType) -> (Builtin, u64) {
    of(node.op, node.dtype, node.payload, operand)
}

fn of(op: Op, dtype: DType, payload: u64, operand: DType) -> (Builtin, u64) {
    let builtin = match op {
        Op::Scan => Builtin::Scan {
            combine: COMBINES[(payload >> COMBINE) as usize & 3],
            dtype: operand,
            exclusive: payload & EXCLUSIVE != 0,
            reverse: payload & REVERSE != 0,
        },
        Op::Sort => Builtin::Sort { dtype: operand },
        Op::Argsort => Builtin::Argsort { dtype: operand, index: dtype },
        Op::Compress => Builtin::Compress { index: dtype },
        other => unreachable!("`{}` is no builtin", other.name()),
    };
    (builtin, payload >> LENGTH)
}

impl Var {
    /// Running totals of a combining op, `add`, `min` or `max`: of sequences of `length` elements if that is given. They run
    /// from the end if `reverse`, and leave an element out of its own total if `exclusive`.
    ///
    /// # Panics
    /// At the caller's line if the type is bool, the length 0, or the array belongs to an open region.
    #[track_caller]
    pub fn scan(&self, combine: Op, exclusive: bool, reverse: bool, length: Option<u64>) -> Var {
        let kind = COMBINES.iter().position(|&op| op == combine).expect("a scan is of `add`, `min` or `max`");
        assert!(length != Some(0), "`scan` of sequences of 0 elements; their length must be at least 1");
        assert!(
            self.dtype() != DType::Bool,
            "`scan` takes numbers, got bool; cast it to an integer type first"
        );
        // Longer ones are as good as the longest.
        let length = length.unwrap_or(0).min(u64::MAX >> LENGTH);
        let flags = (u64::from(exclusive) * EXCLUSIVE) | (u64::from(reverse) * REVERSE);
        let payload = flags | (kind as u64) << COMBINE | length << LENGTH;
        self.across(Op::Scan, self.dtype(), None, payload)
    }

    /// The elements in ascending order, NaN last and -0 before +0.
    ///
    /// # Panics
    /// At the caller's line if the array belongs to an open region.
    #[track_caller]
    pub fn sort(&self) -> Var {
        self.across(Op::Sort, self.dtype(), None, 0)
    }

    /// The indices that put the elements in that order; equal ones keep theirs. Of type u32 or u64.
    ///
    /// # Panics
    /// As [`sort`](Self::sort).
    #[track_caller]
    pub fn argsort(&self, index: DType) -> Var {
        assert!(matches!(index, DType::U32 | DType::U64), "indices are u32 or u64, not {index}");
        self.across(Op::Argsort, index, None, 0)
    }

    /// The indices of what is true, ascending, in `room` elements (without it: as many as there are bools): the first ones
    /// if there are more, zeros after them if there are fewer. Of type u32 or u64.
    ///
    /// # Panics
    /// At the caller's line for another type than bool, or if the array belongs to an open region.
    #[track_caller]
    pub fn compress(&self, index: DType, room: Option<u64>) -> Var {
        assert!(matches!(index, DType::U32 | DType::U64), "indices are u32 or u64, not {index}");
        assert!(self.dtype() == DType::Bool, "`compress` takes bools, got {}", self.dtype());
        self.across(Op::Compress, index, room, 0)
    }

    #[track_caller]
    fn across(&self, op: Op, dtype: DType, size: Option<u64>, payload: u64) -> Var {
        let at = Location::caller();
        super::evaluated::forbid_own(op.name(), &[self]);
        let Some(device) = self.device() else {
            // The only element of a literal that no device has: what it gives is a literal as well.
            let (builtin, number) = of(op, dtype, payload, self.dtype());
            let room = size.unwrap_or(1);
            assert!(room == 1, "`{}` of a literal that has no device, to {room} elements", op.name());
            return Var::literal(dtype, builtin.reference(&[self.bits()], 1, number)[0]);
        };
        Var::made(device, |t| t.across(op, self.id(), dtype, size, payload, at))
    }
}

impl Trace {
    fn across(
        &mut self,
        op: Op,
        operand: NodeId,
        dtype: DType,
        size: Option<u64>,
        payload: u64,
        at: At,
    ) -> Result<NodeId, Misuse> {
        debug_assert!(op.class() == Class::Across);
        let node = self.node(operand);
        let own = node.size;
        if node.scope != 0 {
            let opened = self.scopes.describe(node.scope);
            return Err(Misuse::new(format!(
                "`{}` moves elements across lanes, but its operand belongs to a lane of a {opened}; do it outside of the region",
                op.name()
            )));
        }
        Ok(self.pure(&Key::new(op, dtype, size.unwrap_or(own), &[operand], payload), 0, at))
    }
}
