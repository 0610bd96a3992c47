//! The nodes of a device: a slab with a free list, hash-consing by chains through the nodes, counts.
//!
//! The key of a node lives in the node, so the table is one list of chain heads; nothing is allocated per op
//! once the slab has grown, and a million dead nodes are freed without recursion.

use std::panic::Location;

use super::handles::{Anchor, Anchors, MAX_NODES};
use super::node::{HELD, IN_TABLE, LIVE, MAX_OPERANDS, Node, NodeId, WATCHED};
use crate::dtype::DType;
use crate::op::Op;
use crate::runtime::Device;

const NIL: u32 = u32::MAX;
const MEMO: usize = 64;

/// What makes two pure nodes the same.
#[derive(Clone, Copy)]
pub(crate) struct Key {
    pub(crate) op: Op,
    pub(crate) dtype: DType,
    pub(crate) size: u64,
    pub(crate) operands: [NodeId; MAX_OPERANDS],
    pub(crate) operand_count: u8,
    pub(crate) payload: u64,
}

impl Key {
    #[inline]
    pub(crate) fn new(op: Op, dtype: DType, size: u64, operands: &[NodeId], payload: u64) -> Key {
        // Element by element: a call of memcpy for a few bytes would cost more than the rest.
        let mut list = [NodeId::NONE; MAX_OPERANDS];
        for (slot, &operand) in list.iter_mut().zip(operands) {
            *slot = operand;
        }
        Key { op, dtype, size, operands: list, operand_count: operands.len() as u8, payload }
    }

    /// The newer of the first two operands plus a hash of everything else. What is traced in a row mostly differs in its
    /// newest operand, and so lands in neighbouring buckets, which are in the cache; the rest spreads like any hash.
    ///
    /// Symmetric in these two, so that `a + b` finds `b + a`; the operands themselves keep program order (sorting them would
    /// make the canonical form depend on which slots were free).
    #[inline]
    fn hash(&self) -> u32 {
        let [a, b, c, d] = self.operands.map(|n| n.0);
        let (older, newer) = if b < a { (b, a) } else { (a, b) };
        // Of one operand: that one. Its partner is no node, which has the largest number.
        let (older, newer) = if newer == NIL { (newer, older) } else { (older, newer) };
        let kind = self.op as u64 | (self.dtype as u64) << 8 | self.size << 16;
        // Both factors are mixed: the product with a number of all ones, which is what two missing operands are, or with 0
        // would say nothing of the other.
        let rest = u64::from(older) | u64::from(c) << 32;
        let x = folded_multiply(rest ^ 0xa076_1d64_78bd_642f, kind ^ 0x9e37_79b9_7f4a_7c15);
        let y = folded_multiply(u64::from(d) ^ x, self.payload ^ 0xd1b5_4a32_d192_ed03);
        newer.wrapping_add((y ^ y >> 32) as u32)
    }

    #[inline]
    fn matches(&self, node: &Node) -> bool {
        let [a, b, ..] = self.operands;
        let same_operands = node.operands == self.operands
            || self.op.is_commutative() && node.operands[0] == b && node.operands[1] == a;
        node.op == self.op
            && node.dtype == self.dtype
            && node.size == self.size
            && node.payload == self.payload
            && same_operands
    }
}

#[inline]
fn folded_multiply(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// The slab.
pub(crate) struct Slab {
    nodes: Vec<Node>,
    free: u32,
    heads: Vec<u32>,
    in_table: usize,
    live: usize,
    locations: Vec<&'static Location<'static>>,
    /// Recently used literals: most operands of `x + 1.0` are found here. An entry may be stale; the node tells.
    memo: [NodeId; MEMO],
    /// Nodes whose count fell to 0, on their way out.
    dying: Vec<NodeId>,
    anchors: Anchors,
}

impl Slab {
    pub(crate) fn new() -> Slab {
        Slab {
            nodes: Vec::new(),
            free: NIL,
            heads: vec![NIL; 1024],
            in_table: 0,
            live: 0,
            locations: Vec::new(),
            memo: [NodeId::NONE; MEMO],
            dying: Vec::new(),
            anchors: Anchors::new(),
        }
    }

    /// Number of live nodes.
    #[inline]
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// The live nodes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        let all = self.nodes.iter().enumerate().map(|(at, node)| (NodeId(at as u32), node));
        all.filter(|(_, node)| node.flags & LIVE != 0)
    }

    #[inline]
    pub(crate) fn get(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.index()]
    }

    pub(crate) fn location(&self, id: NodeId) -> &'static Location<'static> {
        self.locations[id.index()]
    }

    /// Says whose nodes they are, before there are any.
    pub(crate) fn belong_to(&mut self, device: Device) {
        self.anchors.belong_to(device);
    }

    // ---- counts ----

    #[inline]
    pub(crate) fn retain(&mut self, id: NodeId) {
        self.nodes[id.index()].count();
    }

    /// Turns a count of the caller's into a handle: what it points to, and its type.
    #[inline]
    pub(crate) fn hand_out(&mut self, id: NodeId) -> (&'static Anchor, DType) {
        let node = &mut self.nodes[id.index()];
        let dtype = node.dtype;
        let anchor = self.anchors.of(id);
        if node.flags & HELD == 0 {
            node.flags |= HELD;
        } else {
            anchor.others.share();
            node.uncount();
        }
        (anchor, dtype)
    }

    /// Turns a handle into a count, which the caller gets.
    #[inline]
    pub(crate) fn take_in(&mut self, anchor: &Anchor) {
        let node = &mut self.nodes[anchor.id().index()];
        debug_assert!(node.flags & HELD != 0, "{} has no handle", anchor.id());
        if anchor.others.give_back() {
            node.count();
        } else {
            node.flags &= !HELD;
        }
    }

    /// Gives a handle back. Whether that was all: else [`free`](Self::free) is next.
    #[inline]
    pub(crate) fn drop_handle(&mut self, anchor: &Anchor) -> bool {
        if anchor.others.give_back() {
            return true;
        }
        let id = anchor.id();
        let node = &mut self.nodes[id.index()];
        debug_assert!(node.flags & HELD != 0, "{id} has no handle");
        node.flags &= !HELD;
        self.release_shared(id)
    }

    /// Gives back a count of a node that has others. Whether it has: else nothing happens, and [`free`](Self::free) is
    /// next.
    #[inline]
    pub(crate) fn release_shared(&mut self, id: NodeId) -> bool {
        let node = &mut self.nodes[id.index()];
        debug_assert!(node.refs > 0 && node.flags & LIVE != 0, "{id} was released too often");
        if node.refs == 1 {
            return false;
        }
        node.uncount();
        true
    }

    /// Frees a node whose last count is given back, and in turn what it held the last count on; `on_free` sees each
    /// watched one before its operands are let go and may hand back further nodes whose count it held.
    pub(crate) fn free(&mut self, id: NodeId, on_free: &mut dyn FnMut(NodeId, &Node, &mut Vec<NodeId>)) {
        let mut next = Some(id);
        while let Some(id) = next.take().or_else(|| self.dying.pop()) {
            if self.release_shared(id) {
                continue;
            }
            self.remove_from_table(id);
            let node = &mut self.nodes[id.index()];
            if node.flags & WATCHED != 0 {
                on_free(id, node, &mut self.dying);
            }
            // The last operand goes on in a register; most nodes have one that lives on besides.
            for &operand in node.operands() {
                if let Some(waiting) = next.replace(operand) {
                    self.dying.push(waiting);
                }
            }
            node.refs = 0;
            node.flags = 0;
            node.operand_count = 0;
            node.next = self.free;
            self.free = id.0;
            self.live -= 1;
        }
    }

    // ---- nodes ----

    /// The pure node of that key, found or made; the caller gets a count on it.
    pub(crate) fn intern(&mut self, key: &Key, scope: u32, location: &'static Location<'static>) -> NodeId {
        self.intern_inline(*key, scope, location)
    }

    /// [`intern`](Self::intern) for where the key is partly known to the compiler.
    #[inline(always)]
    pub(crate) fn intern_inline(
        &mut self,
        key: Key,
        scope: u32,
        location: &'static Location<'static>,
    ) -> NodeId {
        let hash = key.hash();
        let mut at = self.heads[hash as usize & (self.heads.len() - 1)];
        while at != NIL {
            let node = &mut self.nodes[at as usize];
            if node.hash == hash && key.matches(node) {
                node.count();
                return NodeId(at);
            }
            at = node.next;
        }
        if self.in_table >= self.heads.len() {
            self.grow_table();
        }
        self.in_table += 1;
        let bucket = hash as usize & (self.heads.len() - 1);
        let next = self.heads[bucket];
        let id = self.insert_inline(&key, scope, location, hash, IN_TABLE, next);
        self.heads[bucket] = id.0;
        id
    }

    /// A node of its own, whatever else there is; the caller gets a count on it. Counts its operands.
    pub(crate) fn insert(&mut self, key: &Key, scope: u32, location: &'static Location<'static>) -> NodeId {
        self.insert_inline(key, scope, location, 0, 0, NIL)
    }

    #[inline(always)]
    fn insert_inline(
        &mut self,
        key: &Key,
        scope: u32,
        location: &'static Location<'static>,
        hash: u32,
        flags: u8,
        next: u32,
    ) -> NodeId {
        for &operand in key.operands.iter().take(key.operand_count as usize) {
            self.retain(operand);
        }
        self.live += 1;
        if self.free == NIL {
            self.add_slot(location);
        }
        let id = NodeId(self.free);
        let watched = scope != 0
            || matches!(
                key.op,
                Op::Data | Op::Loop | Op::If | Op::Switch | Op::Reduce | Op::Version | Op::Result
            );
        let slot = &mut self.nodes[id.index()];
        self.free = slot.next;
        slot.hash = hash;
        slot.refs = 1;
        slot.op = key.op;
        slot.dtype = key.dtype;
        slot.flags = LIVE | flags | if watched { WATCHED } else { 0 };
        slot.operand_count = key.operand_count;
        slot.local = 0;
        slot.size = key.size;
        slot.operands = key.operands;
        slot.payload = key.payload;
        slot.scope = scope;
        slot.stamp = 0;
        slot.next = next;
        self.locations[id.index()] = location;
        id
    }

    /// A free slot more.
    #[cold]
    #[inline(never)]
    fn add_slot(&mut self, location: &'static Location<'static>) {
        assert!(self.nodes.len() < MAX_NODES, "a device holds at most 2^32 - 1024 nodes");
        let id = NodeId(self.nodes.len() as u32);
        self.anchors.reserve(id);
        let Key { op, dtype, size, operands, payload, .. } = Key::new(Op::Literal, DType::Bool, 1, &[], 0);
        self.nodes.push(Node {
            hash: 0,
            refs: 0,
            op,
            dtype,
            flags: 0,
            operand_count: 0,
            local: 0,
            size,
            operands,
            payload,
            scope: 0,
            stamp: 0,
            number: 0,
            next: self.free,
        });
        self.locations.push(location);
        self.free = id.0;
    }

    /// A size-1 literal that was used lately, without a count for the caller.
    #[inline]
    pub(crate) fn recent_literal(&self, dtype: DType, bits: u64) -> Option<NodeId> {
        let id = self.memo[memo_slot(bits)];
        let node = self.nodes.get(id.index())?;
        let same = (node.op, node.dtype, node.payload, node.size) == (Op::Literal, dtype, bits, 1);
        (same && node.flags & IN_TABLE != 0).then_some(id)
    }

    /// A size-1 literal; the caller gets a count on it.
    pub(crate) fn literal(
        &mut self,
        dtype: DType,
        bits: u64,
        location: &'static Location<'static>,
    ) -> NodeId {
        if let Some(id) = self.recent_literal(dtype, bits) {
            self.retain(id);
            return id;
        }
        let id = self.intern(&Key::new(Op::Literal, dtype, 1, &[], bits), 0, location);
        self.memo[memo_slot(bits)] = id;
        id
    }

    // ---- the table ----

    /// Takes a node out of the table, so that it is no longer found by its key.
    pub(crate) fn remove_from_table(&mut self, id: NodeId) {
        let node = &mut self.nodes[id.index()];
        if node.flags & IN_TABLE == 0 {
            return;
        }
        node.flags &= !IN_TABLE;
        let (next, bucket) = (node.next, node.hash as usize & (self.heads.len() - 1));
        self.in_table -= 1;
        if self.heads[bucket] == id.0 {
            self.heads[bucket] = next;
            return;
        }
        let mut at = self.heads[bucket];
        while self.nodes[at as usize].next != id.0 {
            at = self.nodes[at as usize].next;
        }
        self.nodes[at as usize].next = next;
    }

    fn grow_table(&mut self) {
        let length = self.heads.len() * 2;
        self.heads.clear();
        self.heads.resize(length, NIL);
        for (index, node) in self.nodes.iter_mut().enumerate() {
            if node.flags & IN_TABLE != 0 {
                let bucket = node.hash as usize & (length - 1);
                node.next = self.heads[bucket];
                self.heads[bucket] = index as u32;
            }
        }
    }
}

#[inline]
fn memo_slot(bits: u64) -> usize {
    (bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize & (MEMO - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The longest bucket that these keys make in a table of one bucket a key.
    fn longest(keys: impl Iterator<Item = Key>) -> u32 {
        const BUCKETS: usize = 1 << 14;
        let mut counts = vec![0; BUCKETS];
        keys.take(BUCKETS).for_each(|key| counts[key.hash() as usize & (BUCKETS - 1)] += 1);
        counts.into_iter().max().expect("buckets")
    }

    #[test]
    fn buckets_stay_short_whatever_is_traced() {
        let key = |op, operands: &[u32], payload| {
            let ids: Vec<NodeId> = operands.iter().map(|&n| NodeId(n)).collect();
            Key::new(op, DType::F32, 7, &ids, payload)
        };
        let ops = [Op::Add, Op::Mul, Op::Sub, Op::Mul];
        let chain = (0..).map(|i: u32| key(ops[i as usize % 4], &[i + 10, i % 4], 0));
        let unary = (0..).map(|i| key(Op::Sqrt, &[i], 0));
        let fibonacci = (0..).map(|i| key(Op::Add, &[i + 1, i], 0));
        let fan_out = (0..).map(|i| key(Op::Add, &[1 << 20, i], 0));
        let from_one = (0..).map(|i| key(Op::Sub, &[i + 1, 0], 0));
        let pairs = (0..).map(|i: u32| key(Op::Mul, &[i % 128, 128 + i / 128], 0));
        let fused = (0..).map(|i: u32| key(Op::MulAdd, &[0, 1, i + 2], 0));
        let literals = (0..).map(|i: u64| key(Op::Literal, &[], i));
        let many: [(&str, u32); 8] = [
            ("chain", longest(chain)),
            ("unary", longest(unary)),
            ("fibonacci", longest(fibonacci)),
            ("fan out", longest(fan_out)),
            ("from one", longest(from_one)),
            ("pairs", longest(pairs)),
            ("fused", longest(fused)),
            ("literals", longest(literals)),
        ];
        // As random numbers would have it: 8 with 99 % probability.
        for (what, length) in many {
            assert!(length <= 10, "{what}: {length}");
        }
    }

    #[test]
    fn exchanged_operands_have_one_hash() {
        let key = |a, b| Key::new(Op::Add, DType::F32, 7, &[NodeId(a), NodeId(b)], 0);
        assert_eq!(key(3, 9).hash(), key(9, 3).hash());
        assert_ne!(key(3, 9).hash(), key(3, 10).hash());
    }
}
