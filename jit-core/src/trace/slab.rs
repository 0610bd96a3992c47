//! The nodes of a device: a slab with a free list, hash-consing by chains through the nodes, plain counts.
//!
//! The key of a node lives in the node, so the table is one list of chain heads; nothing is allocated per op
//! once the slab has grown, and a million dead nodes are freed without recursion.

use std::panic::Location;

use super::node::{IN_TABLE, LIVE, MAX_OPERANDS, Node, NodeId};
use crate::dtype::DType;
use crate::op::Op;

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
    fn hash(&self) -> u32 {
        let [a, b, c, d] = self.operands.map(|n| u64::from(n.0));
        let (a, b) = if self.op.is_commutative() && b < a { (b, a) } else { (a, b) };
        let kind = self.op as u64 | (self.dtype as u64) << 8 | self.size << 16;
        let x = folded_multiply(a | b << 32, kind ^ 0x9e37_79b9_7f4a_7c15);
        let y = folded_multiply(c | d << 32 ^ x, self.payload ^ 0xd1b5_4a32_d192_ed03);
        (y ^ y >> 32) as u32
    }

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
    locations: Vec<Option<&'static Location<'static>>>,
    /// Recently used literals: most operands of `x + 1.0` are found here.
    memo: [(u64, DType, u32, u32); MEMO],
    /// Nodes whose count fell to 0, on their way out.
    dying: Vec<NodeId>,
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
            memo: [(0, DType::Bool, NIL, 0); MEMO],
            dying: Vec::new(),
        }
    }

    /// Number of live nodes.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// The live nodes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        let all = self.nodes.iter().enumerate().map(|(at, node)| (NodeId(at as u32), node));
        all.filter(|(_, node)| node.flags & LIVE != 0)
    }

    pub(crate) fn get(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    pub(crate) fn get_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.index()]
    }

    pub(crate) fn location(&self, id: NodeId) -> Option<&'static Location<'static>> {
        self.locations[id.index()]
    }

    pub(crate) fn retain(&mut self, id: NodeId) {
        self.nodes[id.index()].refs += 1;
    }

    /// The pure node of that key, found or made; the caller gets a count on it.
    pub(crate) fn intern(&mut self, key: &Key, scope: u32, location: &'static Location<'static>) -> NodeId {
        let hash = key.hash();
        let mut at = self.heads[hash as usize & (self.heads.len() - 1)];
        while at != NIL {
            let node = &mut self.nodes[at as usize];
            if node.hash == hash && key.matches(node) {
                node.refs += 1;
                return NodeId(at);
            }
            at = node.next;
        }
        let id = self.insert(key, scope, location);
        if self.in_table >= self.heads.len() {
            self.grow_table();
        }
        self.in_table += 1;
        let bucket = hash as usize & (self.heads.len() - 1);
        let node = &mut self.nodes[id.index()];
        node.hash = hash;
        node.flags |= IN_TABLE;
        node.next = self.heads[bucket];
        self.heads[bucket] = id.0;
        id
    }

    /// A node of its own, whatever else there is; the caller gets a count on it. Counts its operands.
    pub(crate) fn insert(&mut self, key: &Key, scope: u32, location: &'static Location<'static>) -> NodeId {
        for &operand in &key.operands[..key.operand_count as usize] {
            self.nodes[operand.index()].refs += 1;
        }
        self.live += 1;
        let node = Node {
            hash: 0,
            generation: 0,
            refs: 1,
            op: key.op,
            dtype: key.dtype,
            flags: LIVE,
            operand_count: key.operand_count,
            size: key.size,
            operands: key.operands,
            payload: key.payload,
            scope,
            stamp: 0,
            number: 0,
            next: NIL,
        };
        if self.free == NIL {
            assert!(self.nodes.len() < NIL as usize, "a device holds at most 2^32 - 1 nodes");
            self.nodes.push(node);
            self.locations.push(Some(location));
            return NodeId(self.nodes.len() as u32 - 1);
        }
        let id = NodeId(self.free);
        let slot = &mut self.nodes[id.index()];
        self.free = slot.next;
        let generation = slot.generation.wrapping_add(1);
        *slot = Node { generation, ..node };
        self.locations[id.index()] = Some(location);
        id
    }

    /// A size-1 literal; the caller gets a count on it.
    pub(crate) fn literal(
        &mut self,
        dtype: DType,
        bits: u64,
        location: &'static Location<'static>,
    ) -> NodeId {
        let slot = (bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize & (MEMO - 1);
        let (memo_bits, memo_dtype, index, generation) = self.memo[slot];
        if index != NIL && memo_bits == bits && memo_dtype == dtype {
            let node = &mut self.nodes[index as usize];
            // The content is tested too, since 32 bits of generation wrap.
            if node.generation == generation
                && node.flags & LIVE != 0
                && node.is_literal()
                && (node.payload, node.dtype, node.size) == (bits, dtype, 1)
            {
                node.refs += 1;
                return NodeId(index);
            }
        }
        let id = self.intern(&Key::new(Op::Literal, dtype, 1, &[], bits), 0, location);
        self.memo[slot] = (bits, dtype, id.0, self.nodes[id.index()].generation);
        id
    }

    /// Gives back a count. A node whose count falls to 0 is freed, and so on down; `on_free` sees each before
    /// its operands are let go and may hand back further nodes whose count it held.
    pub(crate) fn release(
        &mut self,
        id: NodeId,
        mut on_free: impl FnMut(NodeId, &mut Node, &mut Vec<NodeId>),
    ) {
        let mut next = Some(id);
        while let Some(id) = next.take().or_else(|| self.dying.pop()) {
            let node = &mut self.nodes[id.index()];
            debug_assert!(node.refs > 0 && node.flags & LIVE != 0, "{id} was released too often");
            node.refs -= 1;
            if node.refs > 0 {
                continue;
            }
            self.remove_from_table(id);
            let node = &mut self.nodes[id.index()];
            on_free(id, node, &mut self.dying);
            // The last operand goes on in a register; most nodes have one that lives on besides.
            for &operand in node.operands() {
                if let Some(waiting) = next.replace(operand) {
                    self.dying.push(waiting);
                }
            }
            node.flags = 0;
            node.operand_count = 0;
            node.next = self.free;
            self.free = id.0;
            self.live -= 1;
        }
    }

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
