//! Which kernel computes what.
//!
//! Every node gets a *level*: the number of kernels that must have run before it can be computed. A *stage* is a
//! level and a number of lanes; all work of one stage is one kernel. Demand then flows from what must be stored
//! (roots, boundaries, effects) to operands, so that pure elementwise work lands in every stage that needs it.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::canonical::Canonical;
use super::demand::{Demand, StageId};
use super::emit::Emission;
use super::graph::Graph;
use super::writes::{Write, WriteMode};
use super::{Memory, Plan, Step};
use crate::dtype::DType;
use crate::op::{Class, Op};
use crate::trace::{Division, Node, NodeId, Trace};

/// What work has in common that is one kernel. The numbers are those while planning; equal ones stay equal in later uses of
/// the plan.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct StageKey {
    pub(super) level: u32,
    /// The number of lanes.
    pub(super) lanes: u64,
    /// What lanes its reductions combine.
    pub(super) division: Division,
}

impl StageKey {
    /// That of work lane by lane.
    fn of_lanes(level: u32, lanes: u64) -> StageKey {
        StageKey { level, lanes, division: Division::ALL }
    }
}

/// Makes the plan for a canonical form. `fuse` off makes each node a kernel of its own.
pub(crate) fn plan(trace: &Trace, canonical: &Canonical, roots: &[NodeId], fuse: bool) -> Plan {
    let graph = Graph::new(trace, canonical);
    let mut schedule = Schedule::new(&graph, roots, fuse);
    schedule.settle();
    schedule.locate();
    let mut steps = Vec::new();
    let mut stages: Vec<(&StageWork, usize)> = schedule.stages.iter().zip(schedule.lengths()).collect();
    stages.sort_unstable_by_key(|(work, _)| (work.key.level, work.key.lanes, work.key.division.word()));
    let mut emission = Emission::new(&schedule);
    let mut last = None;
    for (work, length) in stages {
        let level = work.key.level;
        if last != Some(level) {
            for write in schedule.writes.iter().filter(|w| w.copies()) {
                if schedule.home_level(write.writer) == Some(level) {
                    steps.push(Step::Copy { from: schedule.memory[&write.target], to: write.location() });
                }
            }
        }
        last = Some(level);
        steps.push(match work.across {
            Some(number) => schedule.across(number),
            None => Step::Launch(Box::new(emission.stage(work, length))),
        });
    }
    let sites = emission.into_sites();
    let evaluated = schedule.evaluated();
    Plan { steps, slots: schedule.slots, evaluated, sites }
}

/// What a stage has to do, in terms of nodes.
pub(super) struct StageWork {
    pub(super) key: StageKey,
    /// Nodes computed here for their own sake, in topological order: stored values, reductions, effects, regions.
    pub(super) sinks: Vec<u32>,
    /// Literals stored as the first contents of a written memory.
    pub(super) fills: Vec<(u32, Memory)>,
    /// Size-1 nodes computed after the reductions.
    pub(super) finish: Vec<u32>,
    /// A node that has the stage's number of lanes, none for one lane.
    pub(super) lanes: Option<u32>,
    /// The node that a builtin computes, alone.
    pub(super) across: Option<u32>,
    /// A reduction by the stage's division, none for one of all lanes.
    pub(super) segment: Option<u32>,
}

/// When a node can be computed and used.
#[derive(Clone, Copy, Default)]
struct Levels {
    /// The first level at which it can be computed.
    own: u32,
    /// The first level at which a kernel of its number of lanes can use its value.
    lane: u32,
    /// The same for a kernel of another number of lanes, which computes it itself: what it is computed from must be in
    /// memory wherever that happens once only.
    foreign: u32,
    /// The same for a kernel of its number of lanes that reduces segments: it is not the one of other such lanes, and
    /// cannot do again what has effects.
    segmented: u32,
}

pub(super) struct Schedule<'a> {
    pub(super) graph: &'a Graph<'a>,
    fuse: bool,
    /// Top-level nodes, operands first.
    pub(super) topological: Vec<u32>,
    /// Those that name memory: effects and regions.
    pub(super) memory_users: Vec<u32>,
    /// Nodes whose elements must exist in memory after their stage.
    pub(super) in_memory: Vec<bool>,
    /// Nodes that are read by index.
    pub(super) gathered: Vec<bool>,
    levels: Vec<Levels>,
    pub(super) least_level: Vec<u32>,
    /// The stage that computes a node that is computed once.
    home: Vec<StageId>,
    /// The stages that need a node's lanes.
    demand: Demand,
    pub(super) stages: Vec<StageWork>,
    stage_ids: FxHashMap<StageKey, StageId>,
    pub(super) writes: Vec<Write>,
    pub(super) memory: FxHashMap<u32, Memory>,
    slots: Vec<(DType, u32)>,
}

impl<'a> Schedule<'a> {
    fn new(graph: &'a Graph<'a>, roots: &[NodeId], fuse: bool) -> Self {
        let n = graph.len();
        let topological = graph.sorted(roots);
        let names_memory = |n: &u32| matches!(graph.op(*n).class(), Class::Effect | Class::Region);
        let memory_users = match graph.has_memory_users {
            true => topological.iter().copied().filter(names_memory).collect(),
            false => Vec::new(),
        };
        let mut schedule = Schedule {
            graph,
            fuse,
            topological,
            memory_users,
            in_memory: vec![false; n],
            gathered: vec![false; n],
            levels: vec![Levels::default(); n],
            least_level: vec![0; n],
            home: vec![StageId::NONE; n],
            demand: Demand::new(n),
            stages: Vec::new(),
            stage_ids: FxHashMap::default(),
            writes: Vec::new(),
            memory: FxHashMap::default(),
            slots: Vec::new(),
        };
        schedule.find_boundaries(roots);
        let kept = schedule.find_kept();
        schedule.find_writes(&kept);
        schedule
    }

    /// The level of the stage that computes a node, if it is computed once.
    pub(super) fn home_level(&self, number: u32) -> Option<u32> {
        Some(self.key(self.home[number as usize].some()?).level)
    }

    /// About how many instructions each stage gets: one for each of the nodes that it needs, and the stores.
    pub(super) fn lengths(&self) -> Vec<usize> {
        let mut lengths: Vec<usize> =
            self.stages.iter().map(|work| 2 * work.sinks.len() + 2 * work.fills.len()).collect();
        self.demand.all().for_each(|stage| lengths[stage.index()] += 1);
        lengths
    }

    /// The levels of the stages that need a node's lanes.
    pub(super) fn demand_levels(&self, number: u32) -> impl Iterator<Item = u32> {
        self.demand.of(number).map(|stage| self.key(stage).level)
    }

    fn find_boundaries(&mut self, roots: &[NodeId]) {
        for &source in &self.graph.gathered {
            self.gathered[source as usize] = true;
            self.in_memory[source as usize] = true;
        }
        for &root in roots {
            let number = self.graph.number(root) as usize;
            self.in_memory[number] = !self.graph.trace.node(root).is_evaluated() || self.in_memory[number];
        }
        let targets = self.memory_targets();
        for i in 0..self.topological.len() {
            let number = self.topological[i];
            let op = self.graph.op(number);
            let alone = !self.fuse
                && !matches!(op, Op::Literal | Op::LaneCount | Op::LocalZeros | Op::Reduce)
                && !matches!(op.class(), Class::Region)
                && (op.class() != Class::Effect || op.gives_old());
            // What can only be had now: results of regions and effects that somebody still holds.
            let now_or_never = (op == Op::Result || op.gives_old())
                && self.graph.canonical.held_outside(self.graph.trace, number);
            let target = !targets.is_empty() && targets.contains(&number);
            if alone || now_or_never || target {
                self.in_memory[number as usize] = true;
            }
            if matches!(op, Op::Data | Op::Version) {
                self.in_memory[number as usize] = false;
            }
        }
    }

    /// What top-level effects and regions name as memory and that must be stored for them.
    fn memory_targets(&self) -> FxHashSet<u32> {
        let mut targets = FxHashSet::default();
        for &number in &self.memory_users {
            for (target, written) in self.memories_of(number) {
                // A literal that is written is stored afresh for its writer.
                if !(written && self.graph.trace.node(target).is_literal()) {
                    targets.insert(self.graph.number(target));
                }
            }
        }
        targets
    }

    /// Levels, then demand, until every write in place comes after the readers of what it overwrites.
    fn settle(&mut self) {
        loop {
            self.assign_levels();
            self.assign_stages();
            if !self.resolve_hazards() {
                return;
            }
            self.stages.clear();
            self.stage_ids.clear();
            self.home.fill(StageId::NONE);
            self.demand.clear();
        }
    }

    fn assign_levels(&mut self) {
        for i in 0..self.topological.len() {
            let number = self.topological[i];
            let op = self.graph.op(number);
            let mut own = self.least_level[number as usize];
            let (mut foreign, mut segmented) = (0, 0);
            let reduces_segments = self.division(number) != Division::ALL;
            match op {
                Op::Version | Op::Result => {
                    own = own.max(self.level(self.graph.number(self.graph.node(number).operands[0])));
                }
                _ => {
                    for &operand in self.graph.lane_operands(number) {
                        let levels = self.levels[operand as usize];
                        let same = levels.lane == levels.foreign || self.width(operand) == self.width(number);
                        own = own.max(match (same, reduces_segments) {
                            (true, false) => levels.lane,
                            (true, true) => levels.segmented,
                            (false, _) => levels.foreign,
                        });
                        foreign = foreign.max(levels.foreign);
                        segmented = segmented.max(levels.segmented);
                    }
                }
            }
            let class = op.class();
            if matches!(class, Class::Read | Class::Region | Class::Across) {
                for &operand in self.graph.dependencies(number) {
                    if self.gathered[operand as usize] {
                        own = own.max(self.memory_level(operand));
                    }
                }
            }
            if op == Op::Reduce {
                let states = self.graph.trace.scopes.region(self.graph.node(number).payload).states().len();
                for &operand in &self.graph.lane_operands(number)[states..] {
                    if self.gathered[operand as usize] {
                        own = own.max(self.memory_level(operand));
                    }
                }
            }
            if matches!(class, Class::Effect | Class::Region) {
                for (target, _) in self.memories_of(number) {
                    own = own.max(self.memory_level(self.graph.number(target)));
                }
            }
            let stored = !self.fuse && self.in_memory[number as usize];
            let lane = own + u32::from(stored);
            let later = own + 1;
            let (lane, foreign, segmented) = match op {
                Op::Literal | Op::Data | Op::LaneCount => (0, 0, 0),
                Op::Version => (later, later, later),
                _ if matches!(class, Class::Reduce | Class::Across) || self.graph.is_state(number) => {
                    (later, later, later)
                }
                Op::Result => (lane, later, self.segmented_level(number).max(lane)),
                _ if op.gives_old() => (lane, later, later),
                _ => (lane, own.max(foreign), lane.max(segmented)),
            };
            self.levels[number as usize] = Levels { own, lane, foreign, segmented };
        }
    }

    /// When a kernel that reduces segments can use a region's result: a pure region can run again there.
    fn segmented_level(&self, result: u32) -> u32 {
        let region = self.graph.number(self.graph.node(result).operands[0]);
        let Levels { own, segmented, .. } = self.levels[region as usize];
        match self.graph.trace.scopes.region(self.graph.node(region).payload).writes() {
            true => own + 1,
            false => segmented,
        }
    }

    fn level(&self, number: u32) -> u32 {
        self.levels[number as usize].own
    }

    /// The number of lanes of the kernel that computes a node.
    fn width(&self, number: u32) -> u64 {
        let node = self.graph.node(number);
        let work = if node.op == Op::Result { self.graph.trace.node(node.operands[0]) } else { node };
        self.graph.trace.reduces(work).map_or(work.size, |(lanes, _)| lanes)
    }

    /// The first level at which a kernel can read a node's elements by index.
    fn memory_level(&self, number: u32) -> u32 {
        match self.graph.op(number) {
            Op::Data => 0,
            _ => self.level(number) + 1,
        }
    }

    fn assign_stages(&mut self) {
        for i in (0..self.topological.len()).rev() {
            let number = self.topological[i];
            let op = self.graph.op(number);
            match op.class() {
                Class::Reduce | Class::Effect => {
                    let own = self.own_stage(number);
                    if self.is_needed_outside(number, own) {
                        self.in_memory[number as usize] = true;
                    }
                    self.set_home(number, own);
                    if op == Op::Reduce {
                        for state in self.results_of(self.graph.id(number)) {
                            if self.is_needed_outside(state, own) {
                                self.in_memory[state as usize] = true;
                            }
                            self.home[state as usize] = self.home[number as usize];
                        }
                    }
                }
                Class::Region => {
                    let home = self.region_home(number);
                    self.set_home(number, home);
                    for result in self.results_of(self.graph.id(number)) {
                        if self.in_memory[result as usize] || self.is_needed_outside(result, home) {
                            self.in_memory[result as usize] = true;
                            self.set_home(result, home);
                        }
                    }
                }
                Class::Across => {
                    self.in_memory[number as usize] = true;
                    let key = StageKey::of_lanes(self.level(number), self.width(number));
                    let (lanes, segment) = (None, None);
                    let (sinks, fills, finish) = (Vec::new(), Vec::new(), Vec::new());
                    self.home[number as usize] = StageId(self.stages.len() as u32);
                    self.stages.push(StageWork {
                        key,
                        sinks,
                        fills,
                        finish,
                        lanes,
                        segment,
                        across: Some(number),
                    });
                }
                _ if matches!(op, Op::Result | Op::Version | Op::Data) => continue,
                _ if self.in_memory[number as usize] => {
                    if let Some(key) = self.finishing_stage(number) {
                        let stage = self.stage(key, number);
                        self.home[number as usize] = stage;
                        self.stages[stage.index()].finish.push(number);
                    } else {
                        self.set_home(number, self.own_stage(number));
                    }
                }
                _ => {}
            }
            self.pass_demand_on(number);
        }
        for work in &mut self.stages {
            work.sinks.reverse();
            work.finish.reverse();
        }
        for i in 0..self.writes.len() {
            let Write { mode, target, .. } = self.writes[i];
            if mode == WriteMode::Fill {
                let key = StageKey::of_lanes(0, self.graph.node(target).size);
                let stage = self.stage_of_key(key);
                self.stages[stage.index()].lanes = (key.lanes != 1).then_some(target);
            }
        }
    }

    /// Demands the operands of a node in the stages that compute it.
    fn pass_demand_on(&mut self, number: u32) {
        let graph = self.graph;
        let operands = graph.lane_operands(number);
        let Some(home) = self.home[number as usize].some() else {
            for &operand in operands {
                self.demand.pass_on(number, operand);
            }
            return;
        };
        // Later stages load what its home stored; others compute it again.
        let level = self.key(home).level;
        let again = self.demand.of(number).filter(|&stage| self.key(stage).level <= level && stage != home);
        let here: SmallVec<[StageId; 4]> = std::iter::once(home).chain(again).collect();
        for &operand in operands {
            here.iter().for_each(|&stage| self.demand.add(operand, stage));
        }
    }

    /// The stage in which a node is computed if it is computed once.
    fn own_stage(&self, number: u32) -> StageKey {
        let division = self.division(number);
        StageKey { level: self.level(number), lanes: self.width(number), division }
    }

    /// What lanes the kernel that computes a node combines.
    fn division(&self, number: u32) -> Division {
        self.graph.trace.reduces(self.graph.node(number)).map_or(Division::ALL, |(_, division)| division)
    }

    fn is_needed_outside(&self, number: u32, home: StageKey) -> bool {
        self.demand.of(number).any(|stage| self.key(stage) != home)
    }

    fn set_home(&mut self, number: u32, home: StageKey) {
        let stage = self.stage(home, number);
        self.home[number as usize] = stage;
        self.stages[stage.index()].sinks.push(number);
    }

    fn key(&self, stage: StageId) -> StageKey {
        self.stages[stage.index()].key
    }

    /// The stage with that key, which `member` is about to be part of.
    fn stage(&mut self, key: StageKey, member: u32) -> StageId {
        let sized = self.sized(member);
        let fits = self.graph.node(sized).size == key.lanes;
        let stage = self.stage_of_key(key);
        let work = &mut self.stages[stage.index()];
        if key.lanes != 1 && fits {
            work.lanes = Some(sized);
        }
        if key.division != Division::ALL && self.graph.op(member).class() == Class::Reduce {
            work.segment = Some(member);
        }
        stage
    }

    /// A node with as many elements as the kernel that computes `member` has lanes.
    fn sized(&self, member: u32) -> u32 {
        let node = self.graph.node(member);
        match node.op {
            Op::Reduce => {
                let states = self.graph.trace.scopes.region(node.payload).states();
                let states = states.iter().map(|&state| self.graph.number(state));
                let widest = states.clone().find(|&state| self.graph.node(state).size != 1);
                widest.or(states.clone().next()).expect("a reduction has a state")
            }
            op if op == Op::Result || op.class() == Class::Reduce => self.graph.number(node.operands[0]),
            _ => member,
        }
    }

    fn stage_of_key(&mut self, key: StageKey) -> StageId {
        *self.stage_ids.entry(key).or_insert_with(|| {
            let (sinks, fills, finish) = (Vec::new(), Vec::new(), Vec::new());
            let (lanes, segment, across) = (None, None, None);
            self.stages.push(StageWork { key, sinks, fills, finish, lanes, segment, across });
            StageId(self.stages.len() as u32 - 1)
        })
    }

    fn results_of(&self, region: NodeId) -> Vec<u32> {
        let count = self.graph.trace.scopes.region(self.graph.trace.node(region).payload).results;
        let part = |i| self.graph.trace.part(region, Op::Result, i as u64);
        (0..count).filter_map(part).map(|id| self.graph.number(id)).collect()
    }

    /// A pure region that one kernel alone needs runs there; else it runs once, and its results are stored.
    fn region_home(&self, number: u32) -> StageKey {
        let own = self.own_stage(number);
        if self.graph.trace.scopes.region(self.graph.node(number).payload).writes() {
            return own;
        }
        let mut only = None;
        for result in self.results_of(self.graph.id(number)) {
            let stored = self.in_memory[result as usize].then_some(own);
            for stage in self.demand.of(result).map(|stage| self.key(stage)).chain(stored) {
                if *only.get_or_insert(stage) != stage {
                    return own;
                }
            }
        }
        only.filter(|stage| stage.lanes == own.lanes).unwrap_or(own)
    }

    /// If a stored node needs nothing but the reductions of one kernel and what exists before it, segment by segment: that
    /// kernel.
    fn finishing_stage(&self, number: u32) -> Option<StageKey> {
        let Node { op, size, .. } = *self.graph.node(number);
        if !self.fuse || !(op.is_lane() || op == Op::LocalRead) {
            return None;
        }
        let mut stage: Option<StageKey> = None;
        let mut counts_segments = false;
        let mut seen = FxHashSet::default();
        let mut stack = vec![number];
        while let Some(at) = stack.pop() {
            if !seen.insert(at) {
                continue;
            }
            let node = self.graph.node(at);
            match node.op {
                Op::Literal | Op::LaneCount | Op::Data => {}
                Op::Counter => counts_segments = true,
                _ if self.graph.is_reduced(at) => {
                    let by = if node.op == Op::Result { self.graph.number(node.operands[0]) } else { at };
                    let home = self.own_stage(by);
                    if node.size != size || stage.is_some_and(|s| s != home) {
                        return None;
                    }
                    stage = Some(home);
                }
                // A finish has no lanes that could report an index.
                op if (op.is_lane() || op.class() == Class::Local && !self.graph.trace.checked)
                    && (node.size == size || node.size == 1) =>
                {
                    stack.extend(node.operands().iter().map(|&o| self.graph.number(o)));
                }
                _ => return None,
            }
        }
        // With one segment there are no lanes in the finish.
        stage.filter(|stage| stage.division != Division::ALL || size == 1 && !counts_segments)
    }

    /// Gives every node in memory its place there.
    fn locate(&mut self) {
        // In the order of their writers.
        let mut writes = (0..self.writes.len()).peekable();
        for i in 0..self.topological.len() {
            let number = self.topological[i];
            if self.graph.op(number) == Op::Data {
                self.memory.insert(number, Memory::Leaf(number));
            } else if self.in_memory[number as usize] {
                let slot = self.new_slot(self.graph.node(number).dtype, number);
                self.memory.insert(number, slot);
            }
            // Operands come first, so a writer's targets have been located.
            while let Some(w) = writes.next_if(|&w| self.writes[w].writer == number) {
                let target = self.writes[w].target;
                let location = match self.writes[w].mode {
                    WriteMode::InPlace => self.memory[&target],
                    _ => self.new_slot(self.graph.node(target).dtype, target),
                };
                self.writes[w].location = Some(location);
                if self.writes[w].mode == WriteMode::Fill {
                    let key = StageKey::of_lanes(0, self.graph.node(target).size);
                    let stage = self.stage_ids[&key];
                    self.stages[stage.index()].fills.push((target, location));
                }
                let id = self.graph.id(number);
                if let Some(version) = self.graph.trace.part(id, Op::Version, self.writes[w].which) {
                    let version = self.graph.number(version);
                    self.memory.insert(version, location);
                }
            }
        }
    }

    /// What computes a node by a builtin.
    fn across(&self, number: u32) -> Step {
        let from = self.graph.number(self.graph.node(number).operands[0]);
        Step::Across { number, operand: from, from: self.memory[&from], to: self.memory[&number] }
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
            // Most nodes are nowhere, and need no look-up.
            (self.in_memory[number as usize] || self.graph.op(number) == Op::Version)
                && !self.graph.node(number).is_evaluated()
                && self.memory.contains_key(&number)
                && !overwritten.contains(&number)
        };
        self.topological.iter().filter(keeps).map(|&n| (n, self.memory[&n])).collect()
    }
}
