//! The reachable graph as flat words.
//!
//! Nodes are numbered breadth first from the roots. The order is canonical but not topological; whoever needs
//! operands first computes that on a miss. Literals are typed holes unless special, at least where they are so in kernel
//! programs; sizes are classes in
//! order of appearance, and 1 is structure.

use crate::ir::is_special;
use crate::op::{Class, Op};
use crate::trace::{NodeId, Reduces, Trace, across};

/// The canonical form of what some roots need, with the order it was written in. Reused between evaluations.
#[derive(Default)]
pub(crate) struct Canonical {
    /// The words; equal words mean equal work up to sizes and literal values.
    pub(crate) words: Vec<u64>,
    /// Every reachable node; the position is its number.
    pub(crate) order: Vec<NodeId>,
    /// How many counts on each node are held within this graph.
    pub(crate) edges: Vec<u32>,
    /// The distinct sizes other than 1, in order of appearance.
    sizes: Vec<u64>,
    /// Results of regions: those that somebody holds are stored when the region runs.
    results: Vec<u32>,
    /// Whether memory changes.
    effects: bool,
    /// Whether there is a reduction that has no value.
    partial: bool,
}

const SPECIAL: u64 = 1 << 24;
const LOCAL: u64 = 1 << 25;

/// Where a word has an op's float mode.
const MODE: u32 = 25;

impl Canonical {
    /// Writes the canonical form of `roots`.
    pub(crate) fn write(&mut self, trace: &mut Trace, roots: &[NodeId]) {
        self.words.clear();
        self.order.clear();
        self.edges.clear();
        self.sizes.clear();
        self.results.clear();
        self.effects = false;
        self.partial = false;
        // Mostly enough, so that long lists are not copied as they grow; but no more, since this may be a small part of a
        // large trace.
        let expected = trace.slab.live().min(1 << 14);
        self.order.reserve(expected);
        self.edges.reserve(expected);
        self.words.reserve(2 * expected);
        let stamp = trace.new_stamp();
        self.words.push(roots.len() as u64);
        for &root in roots {
            let number = self.visit(trace, stamp, root);
            self.words.push(number);
        }
        let mut at = 0;
        while at < self.order.len() {
            self.node(trace, stamp, at);
            at += 1;
        }
        // Where memory changes, whether anybody outside holds a node decides what is copied and what is stored. Without
        // effects it decides nothing, and is no structure.
        if self.effects {
            let held = (0..self.order.len() as u32).filter(|&n| self.held_outside(trace, n));
            let held: Vec<u64> = held.map(u64::from).collect();
            self.words.extend(held);
        } else {
            for &number in &self.results {
                self.words.push(u64::from(number) << 1 | u64::from(self.held_outside(trace, number)));
            }
        }
    }

    /// Whether memory changes.
    pub(crate) fn has_effects(&self) -> bool {
        self.effects
    }

    /// A reduction of no elements that has no value, by its name.
    pub(crate) fn without_value(&self, trace: &Trace) -> Option<&'static str> {
        let found =
            |&&id: &&NodeId| trace.node(id).op == Op::Reduce && is_of_none(trace, trace.node(id).payload);
        let id = self.partial.then(|| self.order.iter().find(found)).flatten()?;
        trace.scopes.region(trace.node(*id).payload).reduces?.partial
    }

    /// Whether anything outside of this graph holds a count on a node.
    pub(crate) fn held_outside(&self, trace: &Trace, number: u32) -> bool {
        trace.node(self.order[number as usize]).refs > self.edges[number as usize]
    }

    fn visit(&mut self, trace: &mut Trace, stamp: u32, id: NodeId) -> u64 {
        let node = trace.slab.get_mut(id);
        if node.stamp != stamp {
            node.stamp = stamp;
            node.number = self.order.len() as u32;
            self.order.push(id);
            self.edges.push(0);
        }
        u64::from(node.number)
    }

    fn edge(&mut self, trace: &mut Trace, stamp: u32, id: NodeId) -> u64 {
        let number = self.visit(trace, stamp, id);
        self.edges[number as usize] += 1;
        number
    }

    fn node(&mut self, trace: &mut Trace, stamp: u32, at: usize) {
        let id = self.order[at];
        let node = trace.node(id);
        let (op, dtype, size, payload, count) =
            (node.op, node.dtype, node.size, node.payload, node.operand_count as usize);
        let (operands, local) = (node.operands, node.local);
        let class = self.size_class(size);
        let mut word = op as u64 | (dtype as u64) << 8 | (count as u64) << 16 | class << 32;
        if local != 0 {
            word |= LOCAL;
            self.words.push(u64::from(local));
        }
        match op {
            Op::Literal if is_special(dtype, payload, true) => self.words.extend([word | SPECIAL, payload]),
            Op::LaneCount => {
                let class = self.size_class(payload);
                self.words.extend([word, class]);
            }
            _ if op.class() == Class::Reduce => {
                let (lanes, division) = trace.reduces(trace.node(id)).expect("a reduction");
                let (lanes, length) = (self.size_class(lanes), self.size_class(division.length()));
                self.words.extend([word, division.segments() as u64 | lanes << 2 | length << 33]);
                self.partial |= op == Op::Reduce && is_of_none(trace, payload);
            }
            Op::Placeholder | Op::Memory | Op::Result | Op::Version => self.words.extend([word, payload]),
            _ if op.class() == Class::Across => {
                // How long sequences are is no structure.
                self.words.extend([word, across::structure(payload)]);
            }
            // A lane op's payload is what compiling may do to its floats.
            op if payload != 0 && op.is_lane() => self.words.push(word | payload << MODE),
            _ => self.words.push(word),
        }
        let mut packed = 0;
        for (i, &operand) in operands[..count].iter().enumerate() {
            let number = self.edge(trace, stamp, operand);
            packed = packed << 32 | number;
            if i % 2 == 1 || i + 1 == count {
                self.words.push(packed);
                packed = 0;
            }
        }
        match op.class() {
            Class::Region => self.region(trace, stamp, id, payload),
            Class::Reduce if op == Op::Reduce => self.region(trace, stamp, id, payload),
            Class::Effect => {
                self.effects = true;
                if trace.node(id).scope == 0 {
                    self.part(trace, stamp, id, Op::Version, 0);
                }
            }
            _ => {}
        }
    }

    fn region(&mut self, trace: &mut Trace, stamp: u32, id: NodeId, record: u64) {
        let region = trace.scopes.region(record);
        // All counts stand before the lists, so that equal words mean equal lists.
        let counts = [
            region.scopes.len(),
            region.operands.len(),
            region.arguments,
            region.memories.len(),
            region.results,
        ];
        let mut header: Vec<u64> = counts.map(|c| c as u64).to_vec();
        header.extend(region.memories.iter().map(|&w| u64::from(w)));
        for &number in &region.scopes {
            let scope = trace.scopes.get(number);
            header.extend([
                trace.scopes.memory_nodes(number).len() as u64,
                scope.placeholders.len() as u64,
                scope.sequence.len() as u64,
                scope.condition_sequence as u64,
                u64::from(scope.condition.is_some()),
                scope.yields.len() as u64,
            ]);
        }
        let results = region.results;
        let versions: Vec<usize> = (0..region.memories.len()).filter(|&i| region.memories[i]).collect();
        let members: Vec<NodeId> =
            region.operands.iter().copied().chain(region.inner(&trace.scopes)).collect();
        let top_level = trace.node(id).scope == 0;
        self.words.extend(header);
        for member in members {
            let number = self.edge(trace, stamp, member);
            self.words.push(number);
        }
        if top_level {
            for which in versions {
                self.part(trace, stamp, id, Op::Version, which as u64);
            }
            for which in 0..results {
                if let Some(number) = self.part(trace, stamp, id, Op::Result, which as u64) {
                    self.results.push(number);
                }
            }
        }
    }

    /// Visits a live version or result, so that evaluating its effect evaluates it too.
    fn part(&mut self, trace: &mut Trace, stamp: u32, of: NodeId, op: Op, which: u64) -> Option<u32> {
        let part = trace.part(of, op, which);
        match part {
            None => {
                self.words.push(u64::MAX);
                None
            }
            Some(part) => {
                let number = self.visit(trace, stamp, part);
                self.words.push(number);
                Some(number as u32)
            }
        }
    }

    fn size_class(&mut self, size: u64) -> u64 {
        if size == 1 {
            return 0;
        }
        let at = self.sizes.iter().position(|&s| s == size).unwrap_or_else(|| {
            self.sizes.push(size);
            self.sizes.len() - 1
        });
        at as u64 + 1
    }
}

/// Whether results of a reduction have no elements and then no value.
fn is_of_none(trace: &Trace, record: u64) -> bool {
    let of_none =
        |reduces: Reduces| reduces.partial.is_some() && reduces.lanes == 0 && reduces.division.count(0) > 0;
    trace.scopes.region(record).reduces.is_some_and(of_none)
}
