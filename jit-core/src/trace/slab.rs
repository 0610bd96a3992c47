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

    /// Symmetric in the operands of commutative ops, so that `a + b` finds `b + a`; the operands themselves
    /// keep program order (sorting them would make the canonical form depend on which slots were free).
    #[inline]
    fn hash(&self) -> u32 {
        let [a, b, c, d] = self.operands.map(|n| u64::from(n.0));
        let (a, b) = if self.op.is_commutative() && b < a { (b, a) } else { (a, b) };
        let kind = self.op as u64 | (self.dtype as u64) << 8 | self.size << 16;
        let x = folded_multiply(a | b << 32, kind ^ 0x9e37_79b9_7f4a_7c15);
        let y = folded_multiply(c | d << 32 ^ x, self.payload ^ 0xd1b5_4a32_d192_ed03);
        (y ^ y >> 32) as u32
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
        let watched = scope != 0 || matches!(key.op, Op::Data | Op::Loop | Op::If | Op::Version | Op::Result);
        let slot = &mut self.nodes[id.index()];
        self.free = slot.next;
        slot.hash = hash;
        slot.refs = 1;
        slot.op = key.op;
        slot.dtype = key.dtype;
        slot.flags = LIVE | flags | if watched { WATCHED } else { 0 };
        slot.operand_count = key.operand_count;
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
