//! Which kernel computes what.
//!
//! Every node gets a *level*: the number of kernels that must have run before it can be computed. A *stage* is a
//! level and a number of lanes; all work of one stage is one kernel. Demand then flows from what must be stored
//! (roots, boundaries, effects) to operands, so that pure elementwise work lands in every stage that needs it.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::canonical::Canonical;
use super::emit::emit;
use super::writes::{Write, WriteMode};
use super::{Memory, Plan, Step};
use crate::dtype::DType;
use crate::op::{Class, Op};
use crate::trace::{Node, NodeId, Trace};

/// A stage: its level, and its number of lanes while planning (equal sizes stay equal in later uses of the plan).
pub(super) type StageKey = (u32, u64);

/// Makes the plan for a canonical form. `fuse` off makes each node a kernel of its own.
pub(crate) fn plan(trace: &Trace, canonical: &Canonical, roots: &[NodeId], fuse: bool) -> Plan {
    let mut schedule = Schedule::new(trace, canonical, roots, fuse);
    schedule.settle();
    schedule.locate();
    let mut steps = Vec::new();
    let levels: Vec<StageKey> = schedule.stages.keys().copied().collect();
    for (i, &key) in levels.iter().enumerate() {
        if i == 0 || levels[i - 1].0 != key.0 {
            for write in schedule
                .writes
                .iter()
                .filter(|w| w.copies() && schedule.home[w.writer as usize].is_some_and(|h| h.0 == key.0))
            {
                steps.push(Step::Copy { from: schedule.memory[&write.target], to: write.location() });
            }
        }
        steps.push(Step::Launch(Box::new(emit(&schedule, key))));
    }
    let evaluated = schedule.evaluated();
    Plan { steps, slots: schedule.slots, evaluated }
}

/// What a stage has to do, in terms of nodes.
#[derive(Default)]
pub(super) struct StageWork {
    /// Nodes computed here for their own sake, in topological order: stored values, reductions, effects, regions.
    pub(super) sinks: Vec<u32>,
    /// Literals stored as the first contents of a written memory.
    pub(super) fills: Vec<(u32, Memory)>,
    /// Size-1 nodes computed after the reductions.
    pub(super) finish: Vec<u32>,
    /// A node that has the stage's number of lanes, none for one lane.
    pub(super) lanes: Option<u32>,
}

pub(super) struct Schedule<'a> {
    pub(super) trace: &'a Trace,
    pub(super) canonical: &'a Canonical,
    fuse: bool,
    /// Top-level nodes, operands first.
    pub(super) topological: Vec<u32>,
    /// Nodes whose elements must exist in memory after their stage.
    pub(super) in_memory: Vec<bool>,
    /// Nodes that are read by index.
    pub(super) gathered: Vec<bool>,
    level: Vec<u32>,
    pub(super) least_level: Vec<u32>,
    /// The first level at which a kernel of another number of lanes can compute a node: what it is computed from must
    /// be in memory wherever that happens once only.
    foreign_level: Vec<u32>,
    /// The stage that computes a node that is computed once.
    pub(super) home: Vec<Option<StageKey>>,
    /// The stages that need a node's lanes.
    pub(super) demand: Vec<SmallVec<[StageKey; 1]>>,
    pub(super) stages: BTreeMap<StageKey, StageWork>,
    pub(super) writes: Vec<Write>,
    pub(super) memory: FxHashMap<u32, Memory>,
    slots: Vec<(DType, u32)>,
    lane_operands: FxHashMap<NodeId, Vec<NodeId>>,
}

impl<'a> Schedule<'a> {
    fn new(trace: &'a Trace, canonical: &'a Canonical, roots: &[NodeId], fuse: bool) -> Self {
        let n = canonical.order.len();
        let mut schedule = Schedule {
            trace,
            canonical,
            fuse,
            topological: Vec::with_capacity(n),
            in_memory: vec![false; n],
            gathered: vec![false; n],
            level: vec![0; n],
            least_level: vec![0; n],
            foreign_level: vec![0; n],
            home: vec![None; n],
            demand: std::iter::repeat_with(SmallVec::new).take(n).collect(),
            stages: BTreeMap::new(),
            writes: Vec::new(),
            memory: FxHashMap::default(),
            slots: Vec::new(),
            lane_operands: FxHashMap::default(),
        };
        schedule.collect_regions();
        schedule.sort(roots);
        schedule.find_boundaries(roots);
        let kept = schedule.find_kept();
        schedule.find_writes(&kept);
        schedule
    }

    pub(super) fn number(&self, id: NodeId) -> u32 {
        self.trace.node(id).number
    }

    pub(super) fn node(&self, number: u32) -> &'a Node {
        self.trace.node(self.canonical.order[number as usize])
    }

    /// The nodes whose value on a lane this node uses on the same lane.
    pub(super) fn lane_operands(&self, id: NodeId) -> SmallVec<[NodeId; 4]> {
        let node = self.trace.node(id);
        match node.op {
            Op::Gather => node.operands()[1..].into(),
            Op::Version => SmallVec::new(),
            Op::Loop | Op::If => self.lane_operands[&id].as_slice().into(),
            op if op.class() == Class::Effect => node.operands()[1..].into(),
            _ => node.operands().into(),
        }
    }

    /// Finds, inner regions first, what each region uses lane by lane from outside.
    fn collect_regions(&mut self) {
        let regions: Vec<NodeId> = self
            .canonical
            .order
            .iter()
            .copied()
            .filter(|&id| self.trace.node(id).op.class() == Class::Region)
            .collect();
        // An inner region is discovered through the outer one, so it has the larger number.
        for &id in regions.iter().rev() {
            let region = self.trace.scopes.region(self.trace.node(id).payload);
            let mut found: Vec<NodeId> = region.operands[..region.arguments].to_vec();
            let mut seen: FxHashSet<NodeId> = found.iter().copied().collect();
            let mut inside: FxHashSet<NodeId> = FxHashSet::default();
            let mut stack: Vec<NodeId> = region.inner(&self.trace.scopes).collect();
            stack.reverse();
            while let Some(at) = stack.pop() {
                if !region.scopes.contains(&self.trace.node(at).scope) {
                    if seen.insert(at) {
                        found.push(at);
                    }
                } else if inside.insert(at) {
                    stack.extend(self.lane_operands(at).iter().rev());
                }
            }
            self.lane_operands.insert(id, found);
        }
    }

    /// Everything a node needs, lanes and memory.
    pub(super) fn dependencies(&self, id: NodeId) -> &'a [NodeId] {
        let node = self.trace.node(id);
        match node.op {
            Op::Loop | Op::If => &self.trace.scopes.region(node.payload).operands,
            _ => node.operands(),
        }
    }

    fn sort(&mut self, roots: &[NodeId]) {
        let mut done = vec![false; self.canonical.order.len()];
        // Parts of effects are in the order without being operands of a root.
        let tops = self.canonical.order.iter().copied().filter(|&id| self.trace.node(id).scope == 0);
        let mut stack: Vec<(NodeId, bool)> = tops.rev().map(|id| (id, false)).collect();
        stack.extend(roots.iter().rev().map(|&id| (id, false)));
        while let Some((id, expanded)) = stack.pop() {
            let number = self.number(id) as usize;
            if done[number] {
                continue;
            }
            if expanded {
                done[number] = true;
                self.topological.push(number as u32);
                continue;
            }
            stack.push((id, true));
            for &operand in self.dependencies(id).iter().rev() {
                if !done[self.number(operand) as usize] {
                    stack.push((operand, false));
                }
            }
        }
    }

    fn find_boundaries(&mut self, roots: &[NodeId]) {
        for &id in &self.canonical.order {
            let node = self.trace.node(id);
            if node.op == Op::Gather && self.trace.node(node.operands[0]).op != Op::Memory {
                let source = self.number(node.operands[0]) as usize;
                self.gathered[source] = true;
                self.in_memory[source] = true;
            }
        }
        for &root in roots {
            let number = self.number(root) as usize;
            self.in_memory[number] = !self.trace.node(root).is_evaluated() || self.in_memory[number];
        }
        let targets = self.memory_targets();
        for i in 0..self.topological.len() {
            let number = self.topological[i];
            let node = self.node(number);
            let alone = !self.fuse
                && !matches!(node.op, Op::Literal | Op::LaneCount)
                && !matches!(node.op.class(), Class::Region)
                && (node.op.class() != Class::Effect || node.op == Op::AtomicInc);
            // What can only be had now: results of regions and effects that somebody still holds.
            let now_or_never = matches!(node.op, Op::Result | Op::AtomicInc)
                && self.canonical.held_outside(self.trace, number);
            let target = targets.contains(&number);
            if alone || now_or_never || target {
                self.in_memory[number as usize] = true;
            }
            if matches!(node.op, Op::Data | Op::Version) {
                self.in_memory[number as usize] = false;
            }
        }
    }

    /// What top-level effects and regions name as memory and that must be stored for them.
    fn memory_targets(&self) -> FxHashSet<u32> {
        let mut targets = FxHashSet::default();
        for &number in &self.topological {
            for (target, written) in self.memories_of(number) {
                // A literal that is written is stored afresh for its writer.
                if !(written && self.trace.node(target).is_literal()) {
                    targets.insert(self.number(target));
                }
            }
        }
        targets
    }

    /// Levels, then demand, until every write in place comes after the readers of what it overwrites.
    fn settle(&mut self) {
        loop {
            self.assign_levels();
            self.stages.clear();
            self.home.fill(None);
            self.demand.iter_mut().for_each(SmallVec::clear);
            self.assign_stages();
            if !self.resolve_hazards() {
                return;
            }
        }
    }

    fn assign_levels(&mut self) {
        for i in 0..self.topological.len() {
            let number = self.topological[i];
            let id = self.canonical.order[number as usize];
            let node = self.node(number);
            let width = self.width(number);
            let mut level = self.least_level[number as usize];
            let mut foreign = 0;
            match node.op {
                Op::Version | Op::Result => {
                    level = level.max(self.level[self.number(node.operands[0]) as usize])
                }
                _ => {
                    for operand in self.lane_operands(id) {
                        let operand = self.number(operand);
                        level = level.max(self.lane_level(operand, width));
                        foreign = foreign.max(self.foreign_level[operand as usize]);
                    }
                    for &operand in self.dependencies(id) {
                        let operand = self.number(operand);
                        let is_memory = self.gathered[operand as usize] && self.reads_by_index(id);
                        if is_memory {
                            level = level.max(self.memory_level(operand));
                        }
                    }
                    for (target, _) in self.memories_of(number) {
                        level = level.max(self.memory_level(self.number(target)));
                    }
                }
            }
            self.level[number as usize] = level;
            self.foreign_level[number as usize] = match node.op {
                Op::Literal | Op::Data | Op::LaneCount => 0,
                Op::Version | Op::Result | Op::AtomicInc => level + 1,
                _ if node.op.class() == Class::Reduce => level + 1,
                _ => level.max(foreign),
            };
        }
    }

    fn reads_by_index(&self, id: NodeId) -> bool {
        matches!(self.trace.node(id).op, Op::Gather | Op::Loop | Op::If)
    }

    /// The number of lanes of the kernel that computes a node.
    fn width(&self, number: u32) -> u64 {
        let node = self.node(number);
        match node.op.class() {
            Class::Reduce => self.trace.node(node.operands[0]).size,
            _ if node.op == Op::Result => self.trace.node(node.operands[0]).size,
            _ => node.size,
        }
    }

    /// The first level at which a kernel of `width` lanes can use a node's value.
    fn lane_level(&self, number: u32, width: u64) -> u32 {
        let node = self.node(number);
        let level = self.level[number as usize];
        match node.op {
            Op::Literal | Op::Data | Op::LaneCount => 0,
            Op::Version => level + 1,
            _ if node.op.class() == Class::Reduce => level + 1,
            _ if self.width(number) != width => self.foreign_level[number as usize],
            _ if !self.fuse && self.in_memory[number as usize] => level + 1,
            _ => level,
        }
    }

    /// The first level at which a kernel can read a node's elements by index.
    fn memory_level(&self, number: u32) -> u32 {
        match self.node(number).op {
            Op::Data => 0,
            _ => self.level[number as usize] + 1,
        }
    }

    fn assign_stages(&mut self) {
        for i in (0..self.topological.len()).rev() {
            let number = self.topological[i];
            let id = self.canonical.order[number as usize];
            let node = self.node(number);
            let own = (self.level[number as usize], self.width(number));
            let stored = self.in_memory[number as usize];
            match node.op.class() {
                Class::Reduce | Class::Effect => {
                    if self.demand[number as usize].iter().any(|&d| d != own) {
                        self.in_memory[number as usize] = true;
                    }
                    self.set_home(number, own);
                }
                Class::Region => {
                    let home = self.region_home(number, own);
                    self.set_home(number, home);
                    for result in self.results_of(id) {
                        let elsewhere = self.demand[result as usize].iter().any(|&d| d != home);
                        if elsewhere || self.in_memory[result as usize] {
                            self.in_memory[result as usize] = true;
                            self.set_home(result, home);
                        }
                    }
                }
                _ if matches!(node.op, Op::Result | Op::Version | Op::Data) => continue,
                _ if stored => {
                    if let Some(stage) = self.finishing_stage(number) {
                        self.home[number as usize] = Some(stage);
                        self.stage(stage, number).finish.push(number);
                    } else {
                        self.set_home(number, own);
                    }
                }
                _ => {}
            }
            // Later stages load what its home stored; others compute it again.
            let home = self.home[number as usize];
            let again = |d: &&StageKey| home.is_none_or(|h| d.0 <= h.0 && **d != h);
            let here: SmallVec<[StageKey; 2]> =
                home.into_iter().chain(self.demand[number as usize].iter().filter(again).copied()).collect();
            for operand in self.lane_operands(id) {
                let operand = self.number(operand);
                for &stage in &here {
                    if !self.demand[operand as usize].contains(&stage) {
                        self.demand[operand as usize].push(stage);
                    }
                }
            }
        }
        for work in self.stages.values_mut() {
            work.sinks.reverse();
            work.finish.reverse();
        }
        for write in &self.writes {
            if write.mode == WriteMode::Fill {
                let key = (0, self.node(write.target).size);
                let target = write.target;
                self.stages.entry(key).or_default().lanes = (key.1 != 1).then_some(target);
            }
        }
    }

    fn set_home(&mut self, number: u32, home: StageKey) {
        self.home[number as usize] = Some(home);
        self.stage(home, number).sinks.push(number);
    }

    fn stage(&mut self, key: StageKey, member: u32) -> &mut StageWork {
        let node = self.node(member);
        let sized = match node.op.class() {
            Class::Reduce => self.number(node.operands[0]),
            _ if node.op == Op::Result => self.number(node.operands[0]),
            _ => member,
        };
        let fits = self.node(sized).size == key.1;
        let work = self.stages.entry(key).or_default();
        if key.1 != 1 && fits {
            work.lanes = Some(sized);
        }
        work
    }

    fn results_of(&self, region: NodeId) -> Vec<u32> {
        let count = self.trace.scopes.region(self.trace.node(region).payload).results;
        let part = |i| self.trace.part(region, Op::Result, i as u64);
        (0..count).filter_map(part).map(|id| self.number(id)).collect()
    }

    /// A pure region that one kernel alone needs runs there; else it runs once, and its results are stored.
    fn region_home(&self, number: u32, own: StageKey) -> StageKey {
        let id = self.canonical.order[number as usize];
        if self.trace.scopes.region(self.node(number).payload).writes() {
            return own;
        }
        let mut stages: SmallVec<[StageKey; 4]> = SmallVec::new();
        for result in self.results_of(id) {
            if self.in_memory[result as usize] {
                stages.push(own);
            }
            stages.extend(self.demand[result as usize].iter().copied());
        }
        match stages.first() {
            Some(&first) if stages.iter().all(|&s| s == first) && first.1 == own.1 => first,
            _ => own,
        }
    }

    /// If a stored size-1 node needs nothing but the reductions of one kernel and what exists before it: that
    /// kernel.
    fn finishing_stage(&self, number: u32) -> Option<StageKey> {
        if !self.fuse || self.node(number).size != 1 || !self.node(number).op.is_lane() {
            return None;
        }
        let mut stage = None;
        let mut seen = FxHashSet::default();
        let mut stack = vec![number];
        while let Some(at) = stack.pop() {
            if !seen.insert(at) {
                continue;
            }
            let node = self.node(at);
            match node.op {
                Op::Literal | Op::LaneCount | Op::Data => {}
                op if op.class() == Class::Reduce => {
                    let home = (self.level[at as usize], self.width(at));
                    if stage.is_some_and(|s| s != home) {
                        return None;
                    }
                    stage = Some(home);
                }
                op if op.is_lane() && node.size == 1 => {
                    stack.extend(node.operands().iter().map(|&o| self.number(o)));
                }
                _ => return None,
            }
        }
        stage
    }

    /// Gives every node in memory its place there.
    fn locate(&mut self) {
        for i in 0..self.topological.len() {
            let number = self.topological[i];
            let node = self.node(number);
            if node.op == Op::Data {
                self.memory.insert(number, Memory::Leaf(number));
            } else if self.in_memory[number as usize] {
                let slot = self.new_slot(node.dtype, number);
                self.memory.insert(number, slot);
            }
            // Operands come first, so a writer's targets have been located.
            for w in 0..self.writes.len() {
                if self.writes[w].writer != number {
                    continue;
                }
                let target = self.writes[w].target;
                let location = match self.writes[w].mode {
                    WriteMode::InPlace => self.memory[&target],
                    _ => self.new_slot(self.node(target).dtype, target),
                };
                self.writes[w].location = Some(location);
                if self.writes[w].mode == WriteMode::Fill {
                    let key = (0, self.node(target).size);
                    self.stages.get_mut(&key).expect("made with the stages").fills.push((target, location));
                }
                let id = self.canonical.order[number as usize];
                if let Some(version) = self.trace.part(id, Op::Version, self.writes[w].which) {
                    let version = self.number(version);
                    self.memory.insert(version, location);
                }
            }
        }
    }

    fn new_slot(&mut self, dtype: DType, sized: u32) -> Memory {
        self.slots.push((dtype, sized));
        Memory::Slot(self.slots.len() as u32 - 1)
    }

    /// Nodes with their own elements in memory when all is done.
    fn evaluated(&self) -> Vec<(u32, Memory)> {
        let overwritten: FxHashSet<u32> =
            self.writes.iter().filter(|w| w.mode == WriteMode::InPlace).map(|w| w.target).collect();
        let keeps = |&&number: &&u32| {
            let node = self.node(number);
            !node.is_evaluated() && self.memory.contains_key(&number) && !overwritten.contains(&number)
        };
        self.topological.iter().filter(keeps).map(|&n| (n, self.memory[&n])).collect()
    }
}
