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
    /// The lane operands of all nodes, and where those of each end.
    lanes: Vec<u32>,
    ends: Vec<u32>,
    /// What is gathered from, other than by the memory nodes of regions.
    pub(super) gathered: Vec<u32>,
    /// Whether there are effects or regions.
    pub(super) has_memory_users: bool,
}

impl<'a> Graph<'a> {
    pub(super) fn new(trace: &'a Trace, canonical: &'a Canonical) -> Graph<'a> {
        let n = canonical.order.len();
        let mut graph = Graph {
            trace,
            canonical,
            ops: Vec::with_capacity(n),
            lanes: Vec::with_capacity(2 * n),
            ends: Vec::with_capacity(n),
            gathered: Vec::new(),
            has_memory_users: false,
        };
        let regions = Regions::of(trace, canonical);
        for &id in &canonical.order {
            let node = trace.node(id);
            graph.ops.push(node.op);
            graph.has_memory_users |= matches!(node.op.class(), Class::Effect | Class::Region);
            if node.op == Op::Gather && trace.node(node.operands[0]).op != Op::Memory {
                graph.gathered.push(trace.node(node.operands[0]).number);
            }
            // One by one: a call for a few words would cost more than the words.
            for &operand in regions.lane_operands(trace, id) {
                graph.lanes.push(trace.node(operand).number);
            }
            graph.ends.push(graph.lanes.len() as u32);
        }
        graph
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

    /// The nodes whose value on a lane this node uses on the same lane.
    pub(super) fn lane_operands(&self, number: u32) -> &[u32] {
        let start = match number {
            0 => 0,
            _ => self.ends[number as usize - 1],
        };
        &self.lanes[start as usize..self.ends[number as usize] as usize]
    }

    /// Everything a node needs, lanes and memory.
    pub(super) fn dependencies(&self, id: NodeId) -> &'a [NodeId] {
        let node = self.trace.node(id);
        match node.op {
            Op::Loop | Op::If => &self.trace.scopes.region(node.payload).operands,
            _ => node.operands(),
        }
    }

    /// The top-level nodes, operands first, in the order of a walk from the roots.
    pub(super) fn sorted(&self, roots: &[NodeId]) -> Vec<u32> {
        let mut sorted = Vec::with_capacity(self.len());
        let mut done = vec![false; self.len()];
        // A node, and which of its operands come next.
        let mut path: Vec<(NodeId, u32)> = Vec::new();
        // Parts of effects are in the order without being operands of a root.
        let tops = self.canonical.order.iter().filter(|&&id| self.trace.node(id).scope == 0);
        for &start in roots.iter().chain(tops) {
            if done[self.number(start) as usize] {
                continue;
            }
            path.push((start, 0));
            while let Some((id, next)) = path.last_mut() {
                let operands = &self.dependencies(*id)[*next as usize..];
                let open = operands.iter().position(|&operand| !done[self.number(operand) as usize]);
                if let Some(at) = open {
                    *next += at as u32 + 1;
                    path.push((operands[at], 0));
                } else {
                    let number = self.number(*id);
                    done[number as usize] = true;
                    sorted.push(number);
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
            Op::Version => &[],
            Op::Loop | Op::If => &self.0[&id],
            op if op == Op::Gather || op.class() == Class::Effect => &node.operands()[1..],
            _ => node.operands(),
        }
    }
}
