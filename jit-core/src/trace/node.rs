//! The node of a trace: 64 bytes, one cache line.

use crate::dtype::DType;
use crate::op::Op;

/// A node's slot in its device's trace; printed `%12`. Whoever keeps one holds a count on the node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub(crate) u32);

impl NodeId {
    /// No node.
    pub(crate) const NONE: NodeId = NodeId(u32::MAX);

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

impl std::fmt::Display for NodeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "%{}", self.0)
    }
}

impl std::fmt::Debug for NodeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// The most operands that a node holds itself; regions keep theirs on the side.
pub(crate) const MAX_OPERANDS: usize = 4;

/// One node.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Node {
    /// Hash of the key, valid while `IN_TABLE` is set.
    pub(crate) hash: u32,
    /// Operands, lists and places that name this node, and 1 for its handles together. One that reaches the largest number
    /// keeps it: the node lives for ever.
    pub(crate) refs: u32,
    pub(crate) op: Op,
    pub(crate) dtype: DType,
    pub(crate) flags: u8,
    pub(crate) operand_count: u8,
    /// Of a local array: 1 more than its number of elements; else 0.
    pub(crate) local: u32,
    /// Number of elements (of an effect or local array: of lanes; inside a region 1 means "1 or as wide as the region").
    pub(crate) size: u64,
    pub(crate) operands: [NodeId; MAX_OPERANDS],
    /// A literal's bits; the number that `lane_count` stands for; the key of a `data` node's storage; the position
    /// of a placeholder, result or version; the record of a region or memory; how a reduction divides its lanes.
    pub(crate) payload: u64,
    /// The scope it belongs to; 0 is the top level.
    pub(crate) scope: u32,
    /// The last traversal that visited it.
    pub(crate) stamp: u32,
    /// Its number in that traversal.
    pub(crate) number: u32,
    /// The next node of the same bucket or, in a free slot, the next free slot.
    pub(crate) next: u32,
}

const _: () = assert!(size_of::<Node>() == 64 && align_of::<Node>() == 64);

/// The node can be found by its key.
pub(crate) const IN_TABLE: u8 = 1;
/// The slot is in use.
pub(crate) const LIVE: u8 = 2;
/// Runs in the order of its scope's sequence: an effect, an ordered read, a region with memory.
pub(crate) const ORDERED: u8 = 4;

/// Has a label.
pub(crate) const LABELLED: u8 = 8;
/// An evaluation that has planned it has not committed yet.
pub(crate) const IN_FLIGHT: u8 = 16;
/// Has handles.
pub(crate) const HELD: u8 = 32;
/// Its end concerns more than the slab: it has a label, memory, a scope, a region, or a place among another node's parts.
pub(crate) const WATCHED: u8 = 64;

impl Node {
    #[inline]
    pub(super) fn count(&mut self) {
        self.refs = self.refs.wrapping_add(1);
        if self.refs == 0 {
            self.pin();
        }
    }

    #[cold]
    fn pin(&mut self) {
        self.refs = u32::MAX;
    }

    /// Takes one of several counts away.
    #[inline]
    pub(super) fn uncount(&mut self) {
        if self.refs != u32::MAX {
            self.refs -= 1;
        }
    }

    #[inline]
    pub(crate) fn operands(&self) -> &[NodeId] {
        &self.operands[..self.operand_count as usize]
    }

    #[inline]
    pub(crate) fn is_literal(&self) -> bool {
        self.op == Op::Literal
    }

    /// How many literals it is, and the bits of those.
    #[inline]
    pub(super) fn as_literal(&self) -> (usize, u64) {
        if self.is_literal() { (1, self.payload) } else { (0, 0) }
    }

    /// The number of elements a lane, of a local array.
    pub(crate) fn local_len(&self) -> Option<u32> {
        self.local.checked_sub(1)
    }

    /// The number of elements that it takes in memory.
    pub(crate) fn elements(&self) -> u64 {
        self.local_len().map_or(self.size, |len| self.size.saturating_mul(u64::from(len)))
    }

    /// A literal or an evaluated array.
    pub(crate) fn is_evaluated(&self) -> bool {
        matches!(self.op, Op::Literal | Op::Data)
    }
}
