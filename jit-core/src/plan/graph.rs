//! The reachable nodes by their canonical numbers, and what each is computed from.

use rustc_hash::{FxHashMap, FxHashSet};

use super::canonical::Canonical;
use crate::op::{Class, Op};
use crate::trace::{Node, NodeId, Trace};

/// A trace as one plan sees it.
pub(super) struct Graph<'a> {
    pub(super) trace: &'a Trace,
    pub(super) canonical: &'a Canonical,
    /// What the nodes do.
    ops: Vec<Op>,
    /// The operands of all nodes, and where those of each are.
    operands: Vec<u32>,
    rows: Vec<Row>,
    /// What is gathered from, other than by the memory nodes of regions.
    pub(super) gathered: Vec<u32>,
    /// Whether there are effects or regions.
    pub(super) has_memory_users: bool,
}

/// Where a node's operands are: its dependencies are `start..end`, its lane operands go from `lanes` to the next node's
/// `start`. For most nodes these are the same, for effects and gathers the latter are the end of the former.
#[derive(Clone, Copy)]
struct Row {
    start: u32,
    end: u32,
    lanes: u32,
}

impl<'a> Graph<'a> {
    pub(super) fn new(trace: &'a Trace, canonical: &'a Canonical) -> Graph<'a> {
        let n = canonical.order.len();
        let mut graph = Graph {
            trace,
            canonical,
            ops: Vec::with_capacity(n),
            operands: Vec::with_capacity(2 * n),
            rows: Vec::with_capacity(n + 1),
            gathered: Vec::new(),
            has_memory_users: false,
        };
        let regions = Regions::of(trace, canonical);
        for &id in &canonical.order {
            let node = trace.node(id);
            let start = graph.operands.len();
            let mut lanes = start;
            match node.op {
                Op::Loop | Op::If | Op::Switch => {
                    graph.push_operands(&trace.scopes.region(node.payload).operands);
                    lanes = graph.operands.len();
                    graph.has_memory_users = true;
                }
                _ => graph.push_operands(node.operands()),
            }
            if node.op == Op::Reduce {
                let region = trace.scopes.region(node.payload);
                graph.push_operands(&region.operands);
                // The kernel that combines states reads what else it uses as it is.
                let read = region.operands[region.states().len()..].iter();
                let read = read.filter(|&&id| !matches!(trace.node(id).op, Op::Literal | Op::LaneCount));
                graph.gathered.extend(read.map(|&id| trace.node(id).number));
            }
            let end = graph.operands.len();
            match node.op {
                Op::Loop | Op::If | Op::Switch => graph.push_operands(&regions.0[&id]),
                Op::Version => lanes = end,
                Op::Gather => {
                    lanes += 1;
                    if trace.node(node.operands[0]).op != Op::Memory {
                        graph.gathered.push(graph.operands[start]);
                    }
                }
                op if op.class() == Class::Effect => {
                    lanes += 1;
                    graph.has_memory_users = true;
                }
                op if op.class() == Class::Across => {
                    lanes = end;
                    graph.gathered.push(graph.operands[start]);
                }
                _ => {}
            }
            graph.ops.push(node.op);
            graph.rows.push(Row { start: start as u32, end: end as u32, lanes: lanes as u32 });
        }
        let end = graph.operands.len() as u32;
        graph.rows.push(Row { start: end, end, lanes: end });
        graph
    }

    fn push_operands(&mut self, ids: &[NodeId]) {
        // One by one: a call for a few words would cost more than the words.
        for &id in ids {
            self.operands.push(self.trace.node(id).number);
        }
    }

    /// How many nodes there are, those inside of regions included.
    pub(super) fn len(&self) -> usize {
        self.canonical.order.len()
    }

    pub(super) fn id(&self, number: u32) -> NodeId {
        self.canonical.order[number as usize]
    }

    pub(super) fn number(&self, id: NodeId) -> u32 {
        self.trace.node(id).number
    }

    /// Whether a live node is reachable; others have no number here.
    pub(super) fn contains(&self, id: NodeId) -> bool {
        self.canonical.order.get(self.number(id) as usize) == Some(&id)
    }

    pub(super) fn node(&self, number: u32) -> &'a Node {
        self.trace.node(self.id(number))
    }

    pub(super) fn op(&self, number: u32) -> Op {
        self.ops[number as usize]
    }

    /// Whether a node is the result of a reduction.
    pub(super) fn is_reduced(&self, number: u32) -> bool {
        match self.op(number) {
            Op::Reduce => false,
            Op::Result => self.is_state(number),
            op => op.class() == Class::Reduce,
        }
    }

    /// Whether a node is a part of the state of a reduction by a closure.
    pub(super) fn is_state(&self, number: u32) -> bool {
        self.op(number) == Op::Result && self.trace.node(self.node(number).operands[0]).op == Op::Reduce
    }

    /// The nodes whose value on a lane this node uses on the same lane.
    pub(super) fn lane_operands(&self, number: u32) -> &[u32] {
        let [row, next] = [self.rows[number as usize], self.rows[number as usize + 1]];
        &self.operands[row.lanes as usize..next.start as usize]
    }

    /// Everything a node needs, lanes and memory.
    pub(super) fn dependencies(&self, number: u32) -> &[u32] {
        let row = self.rows[number as usize];
        &self.operands[row.start as usize..row.end as usize]
    }

    /// The top-level nodes, operands first, in the order of a walk from the roots.
    pub(super) fn sorted(&self, roots: &[NodeId]) -> Vec<u32> {
        let mut sorted = Vec::with_capacity(self.len());
        let mut done = vec![false; self.len()];
        // A node, and which of its operands come next.
        let mut path: Vec<(u32, u32)> = Vec::new();
        // Parts of effects are in the order without being operands of a root.
        let tops = (0..self.len() as u32).filter(|&number| self.node(number).scope == 0);
        for start in roots.iter().map(|&root| self.number(root)).chain(tops) {
            if done[start as usize] {
                continue;
            }
            path.push((start, 0));
            while let Some((number, next)) = path.last_mut() {
                let mut operands = self.dependencies(*number)[*next as usize..].iter();
                if let Some(&open) = operands.find(|&&operand| !done[operand as usize]) {
                    *next = (self.dependencies(*number).len() - operands.len()) as u32;
                    path.push((open, 0));
                } else {
                    done[*number as usize] = true;
                    sorted.push(*number);
                    path.pop();
                }
            }
        }
        sorted
    }
}

/// What each region uses lane by lane from outside.
struct Regions(FxHashMap<NodeId, Vec<NodeId>>);

impl Regions {
    fn of(trace: &Trace, canonical: &Canonical) -> Regions {
        let is_region = |id: &NodeId| trace.node(*id).op.class() == Class::Region;
        let ids: Vec<NodeId> = canonical.order.iter().copied().filter(is_region).collect();
        let mut regions = Regions(FxHashMap::default());
        // An inner region is discovered through the outer one, so it has the larger number.
        for &id in ids.iter().rev() {
            let region = trace.scopes.region(trace.node(id).payload);
            let mut found: Vec<NodeId> = region.operands[..region.arguments].to_vec();
            let mut seen: FxHashSet<NodeId> = found.iter().copied().collect();
            let mut inside: FxHashSet<NodeId> = FxHashSet::default();
            let mut stack: Vec<NodeId> = region.inner(&trace.scopes).collect();
            stack.reverse();
            while let Some(at) = stack.pop() {
                if !region.scopes.contains(&trace.node(at).scope) {
                    if seen.insert(at) {
                        found.push(at);
                    }
                } else if inside.insert(at) {
                    stack.extend(regions.lane_operands(trace, at).iter().rev());
                }
            }
            regions.0.insert(id, found);
        }
        regions
    }

    fn lane_operands<'a>(&'a self, trace: &'a Trace, id: NodeId) -> &'a [NodeId] {
        let node = trace.node(id);
        match node.op {
            op if op == Op::Version || op.class() == Class::Across => &[],
            Op::Loop | Op::If | Op::Switch => &self.0[&id],
            op if op == Op::Gather || op.class() == Class::Effect => &node.operands()[1..],
            _ => node.operands(),
        }
    }
}
