//! Memory that changes: which effects write in place, which into a copy, and when.
//!
//! A write goes in place if nobody else can see the old version and everything in the plan that reads it runs in an
//! earlier stage; to that end the writer's level is raised once. Where that does not help the old version is copied.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::Memory;
use super::schedule::Schedule;
use crate::op::{Class, Op};
use crate::trace::NodeId;

/// One memory that a node writes.
pub(super) struct Write {
    pub(super) writer: u32,
    /// Which memory of a region; 0 for an effect.
    pub(super) which: u64,
    pub(super) target: u32,
    pub(super) mode: WriteMode,
    pub(super) location: Option<Memory>,
    raised: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteMode {
    /// The old version is nobody's but the writer's.
    InPlace,
    /// The old version lives on.
    Copy,
    /// The old version is a literal, which is stored afresh.
    Fill,
}

impl Write {
    pub(super) fn location(&self) -> Memory {
        self.location.expect("memory has been located")
    }

    pub(super) fn copies(&self) -> bool {
        self.mode == WriteMode::Copy
    }
}

impl Schedule<'_> {
    /// The memories that a top-level effect or region names, and whether it writes them.
    pub(super) fn memories_of(&self, number: u32) -> SmallVec<[(NodeId, bool); 2]> {
        let node = self.graph.node(number);
        match node.op.class() {
            Class::Effect => [(node.operands[0], true)].into_iter().collect(),
            Class::Region => {
                let region = self.graph.trace.scopes.region(node.payload);
                region.memory_operands().iter().copied().zip(region.memories.iter().copied()).collect()
            }
            _ => SmallVec::new(),
        }
    }

    /// Lists the writes of the plan, each with the cheapest mode that its target's holders allow.
    pub(super) fn find_writes(&mut self, kept: &FxHashSet<u32>) {
        let mut writers: FxHashMap<u32, u32> = FxHashMap::default();
        for i in 0..self.memory_users.len() {
            let writer = self.memory_users[i];
            for (which, (target, written)) in self.memories_of(writer).into_iter().enumerate() {
                if !written {
                    continue;
                }
                let target = self.graph.number(target);
                *writers.entry(target).or_default() += 1;
                let mode = if self.graph.node(target).is_literal() {
                    WriteMode::Fill
                } else if self.graph.node(target).op != Op::Data && self.graph.node(target).op != Op::Version
                {
                    // Computed by this plan and kept by nobody but through its expression.
                    WriteMode::InPlace
                } else if self.graph.canonical.held_outside(self.graph.trace, target) {
                    WriteMode::Copy
                } else {
                    WriteMode::InPlace
                };
                let write =
                    Write { writer, which: which as u64, target, mode, location: None, raised: false };
                self.writes.push(write);
            }
        }
        if self.writes.is_empty() {
            return;
        }
        let roots = self.roots_in_memory();
        for write in &mut self.writes {
            if write.mode == WriteMode::InPlace
                && (writers[&write.target] > 1
                    || roots.contains(&write.target)
                    || kept.contains(&write.target))
            {
                write.mode = WriteMode::Copy;
            }
        }
    }

    /// What nodes that outlive this plan unevaluated still need of it: old versions of memory (returned), and results
    /// that can only be had now (stored from here on).
    ///
    /// Such a node is part of the plan because something else uses it; somebody holds it, and may ask for it later.
    pub(super) fn find_kept(&mut self) -> FxHashSet<u32> {
        let mut kept = FxHashSet::default();
        let writes = |&number: &u32| self.memories_of(number).iter().any(|&(_, written)| written);
        if !self.memory_users.iter().any(writes) {
            return kept;
        }
        let mut seen = FxHashSet::default();
        let outlives = |&n: &u32| {
            !self.in_memory[n as usize]
                && !self.graph.node(n).is_evaluated()
                && self.graph.node(n).op != Op::Version
                && self.graph.canonical.held_outside(self.graph.trace, n)
        };
        let mut stack: Vec<u32> = self.topological.iter().copied().filter(outlives).collect();
        while let Some(number) = stack.pop() {
            for &operand in self.graph.dependencies(number) {
                let node = self.graph.node(operand);
                if !seen.insert(operand) {
                    continue;
                }
                let effect = match node.op {
                    Op::Result => node.operands[0],
                    _ => self.graph.id(operand),
                };
                if self.in_memory[operand as usize] || matches!(node.op, Op::Data | Op::Version) {
                    kept.insert(operand);
                } else if self.memories_of(self.graph.number(effect)).iter().any(|&(_, written)| written) {
                    self.in_memory[operand as usize] = true;
                } else {
                    stack.push(operand);
                }
            }
        }
        kept
    }

    /// Nodes that become evaluated by this plan because somebody holds them.
    fn roots_in_memory(&self) -> FxHashSet<u32> {
        let held = |&n: &u32| {
            self.in_memory[n as usize]
                && !self.graph.node(n).is_literal()
                && self.graph.canonical.held_outside(self.graph.trace, n)
        };
        self.topological.iter().copied().filter(held).collect()
    }

    /// Raises, or turns into copies, writes in place that some reader of the old version does not precede.
    /// Returns whether anything changed.
    pub(super) fn resolve_hazards(&mut self) -> bool {
        let mut readers: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        for write in self.writes.iter().filter(|w| w.mode == WriteMode::InPlace) {
            readers.insert(write.target, Vec::new());
        }
        if readers.is_empty() {
            return false;
        }
        for &number in &self.topological {
            let memories = self.memories_of(number);
            let lanes = self.graph.lane_operands(number);
            for &target in self.graph.dependencies(number) {
                let Some(list) = readers.get_mut(&target) else { continue };
                let only_memory =
                    memories.iter().any(|&(m, written)| self.graph.number(m) == target && written)
                        && !lanes.contains(&target)
                        && !(self.gathered[target as usize]
                            && self.graph.node(number).op.class() == Class::Region);
                if !only_memory {
                    list.push(number);
                }
            }
        }
        let mut changed = false;
        for i in 0..self.writes.len() {
            let Write { writer, target, mode, raised, .. } = self.writes[i];
            if mode != WriteMode::InPlace {
                continue;
            }
            let level = self.home_level(writer).expect("a writer has a home");
            let mut last = None;
            for &reader in &readers[&target] {
                last = last.max(self.last_level(reader));
            }
            // The old version itself may be needed lane by lane in the stage that computes it, never later.
            if last.is_none_or(|last| last < level) {
                continue;
            }
            changed = true;
            if raised {
                self.writes[i].mode = WriteMode::Copy;
                self.least_level[writer as usize] = 0;
            } else {
                self.writes[i].raised = true;
                self.least_level[writer as usize] = last.expect("some reader") + 1;
            }
        }
        changed
    }

    /// The last level at which a node is computed.
    fn last_level(&self, number: u32) -> Option<u32> {
        let home = self.home_level(number);
        let again = self.demand_levels(number).filter(|&d| home.is_none_or(|h| d <= h));
        home.into_iter().chain(again).max()
    }

    /// Where the memory that a writer changes is.
    pub(super) fn written(&self, writer: u32, which: u64) -> Memory {
        let found = self.writes.iter().find(|w| w.writer == writer && w.which == which);
        found.expect("the write is planned").location()
    }
}
