//! Regions while they are traced and after.
//!
//! A *scope* is a block under construction or closed: the body of a loop (with its condition), one side of a branch or
//! one block of a switch. Scope 0 is the top level. A *region* is the record of a `loop`, `if` or `switch` node: its scopes
//! and operands.

use std::panic::Location;

use smallvec::SmallVec;

use super::node::{Node, NodeId, ORDERED};
use super::{At, Division, Key, Misuse, PlaceKey, Trace};
use crate::dtype::DType;
use crate::op::Op;

/// What a scope is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ScopeKind {
    Root,
    Loop,
    Branch,
    /// One block of a switch.
    Case,
    /// The closure that combines two states of a reduction.
    Combine,
}

/// A block of a region.
pub(crate) struct Scope {
    pub(crate) parent: u32,
    pub(crate) kind: ScopeKind,
    /// The state of a loop, the arguments of a branch.
    pub(crate) placeholders: Vec<NodeId>,
    /// Effects, ordered reads and regions with memory, in program order.
    pub(crate) sequence: Vec<NodeId>,
    /// Of a loop: how many of `sequence` belong to the condition.
    pub(crate) condition_sequence: usize,
    /// Of a loop: what decides whether to go on.
    pub(crate) condition: Option<NodeId>,
    /// The new state, or the branch's results.
    pub(crate) yields: Vec<NodeId>,
    slots: Vec<Slot>,
    depth: u32,
    pub(super) width: u64,
    /// Live nodes that name this scope; its number is not given out again before they are gone.
    nodes: u32,
    closed: bool,
    dead: bool,
    opened: &'static Location<'static>,
    /// Counts the scopes opened on the device.
    serial: u64,
}

/// A buffer used in a scope.
#[derive(Clone, Copy)]
struct Slot {
    /// The place, held until the region closes: its current version may be this very region's.
    place: Option<PlaceKey>,
    /// The `memory` node.
    node: NodeId,
    written: bool,
    /// Its position among the region's memories, known when the region closes.
    which: u64,
}

/// The record of a `loop`, `if`, `switch` or `reduce` node.
pub(crate) struct Region {
    /// One scope for a loop or reduction, two for a branch; of a switch the last one is for what has no other.
    pub(crate) scopes: SmallVec<[u32; 2]>,
    /// A branch's condition, a switch's index; then initial state or arguments (of a reduction: the lanes' states and the identity); then
    /// memories; then what is captured.
    pub(crate) operands: Vec<NodeId>,
    /// Number of operands before the memories.
    pub(crate) arguments: usize,
    /// For each memory operand whether the region writes it.
    pub(crate) memories: Vec<bool>,
    /// Number of results.
    pub(crate) results: usize,
    /// Of a `reduce` node.
    pub(crate) reduces: Option<Reduces>,
}

/// What a `reduce` node combines.
#[derive(Clone, Copy)]
pub(crate) struct Reduces {
    /// The number of lanes.
    pub(crate) lanes: u64,
    pub(crate) division: Division,
    /// A reduction that has no value for no lanes, by its name.
    pub(crate) partial: Option<&'static str>,
}

impl Region {
    /// The nodes of its scopes whose counts it holds, other than its operands.
    pub(crate) fn inner<'a>(&'a self, scopes: &'a Scopes) -> impl Iterator<Item = NodeId> + 'a {
        self.scopes.iter().flat_map(|&scope| {
            let scope = scopes.get(scope);
            let slots = scope.slots.iter().map(|s| s.node);
            let lists =
                scope.placeholders.iter().chain(&scope.sequence).chain(&scope.condition).chain(&scope.yields);
            lists.copied().chain(slots)
        })
    }

    /// Of a reduction: the lanes' states.
    pub(crate) fn states(&self) -> &[NodeId] {
        &self.operands[..self.arguments / 2]
    }

    /// The memory operands.
    pub(crate) fn memory_operands(&self) -> &[NodeId] {
        &self.operands[self.arguments..self.arguments + self.memories.len()]
    }

    /// Whether it changes memory.
    pub(crate) fn writes(&self) -> bool {
        self.memories.contains(&true)
    }
}

/// All scopes and regions of a trace.
pub(crate) struct Scopes {
    scopes: Vec<Scope>,
    free_scopes: Vec<u32>,
    regions: Vec<Option<Region>>,
    free_regions: Vec<u32>,
    /// How many scopes have been opened.
    opened: u64,
}

/// The deepest nesting of regions.
pub(crate) const MAX_DEPTH: u32 = 255;

impl Scopes {
    pub(crate) fn new() -> Scopes {
        let root = Scope::new(0, ScopeKind::Root, 0, 1, Location::caller());
        Scopes {
            scopes: vec![root],
            free_scopes: Vec::new(),
            regions: Vec::new(),
            free_regions: Vec::new(),
            opened: 0,
        }
    }

    pub(crate) fn get(&self, scope: u32) -> &Scope {
        &self.scopes[scope as usize]
    }

    pub(crate) fn get_mut(&mut self, scope: u32) -> &mut Scope {
        &mut self.scopes[scope as usize]
    }

    pub(crate) fn region(&self, payload: u64) -> &Region {
        self.regions[payload as usize].as_ref().expect("the region of a live node")
    }

    /// The inner one of two scopes that must both be open around `current`; `None` if `b` is not.
    pub(crate) fn innermost(&self, a: u32, b: u32, current: u32) -> Option<u32> {
        let depth = self.scopes[b as usize].depth;
        let mut at = current;
        while self.scopes[at as usize].depth > depth {
            at = self.scopes[at as usize].parent;
        }
        (at == b).then(|| if self.scopes[a as usize].depth > depth { a } else { b })
    }

    /// Whether a scope has effects, or reads in order, or names a buffer.
    pub(crate) fn touches_memory(&self, scope: u32) -> bool {
        let scope = &self.scopes[scope as usize];
        !scope.sequence.is_empty() || !scope.slots.is_empty()
    }

    /// The `memory` nodes of a closed scope, and which memory of the region each is.
    pub(crate) fn memory_nodes(&self, scope: u32) -> Vec<(NodeId, u64)> {
        let slots = &self.scopes[scope as usize].slots;
        slots.iter().map(|s| (s.node, s.which)).collect()
    }

    /// The deeper one of two scopes.
    pub(crate) fn deeper(&self, a: u32, b: u32) -> u32 {
        if self.scopes[a as usize].depth > self.scopes[b as usize].depth { a } else { b }
    }

    /// Makes the region around a scope (and the regions around it) `size` lanes wide. The error is the width that
    /// it already has.
    pub(crate) fn merge_width(&mut self, scope: u32, size: u64) -> Result<(), u64> {
        let mut at = scope;
        while at != 0 {
            let scope = &mut self.scopes[at as usize];
            if scope.width == size {
                return Ok(());
            }
            if scope.width != 1 {
                return Err(scope.width);
            }
            scope.width = size;
            at = scope.parent;
        }
        Ok(())
    }

    /// The serial number of the outermost scope that a scope is in.
    pub(crate) fn outermost_serial(&self, scope: u32) -> u64 {
        let mut at = self.get(scope);
        while at.parent != 0 {
            at = self.get(at.parent);
        }
        at.serial
    }

    /// Whether each lane of so many decides for itself how often the scope runs.
    pub(crate) fn runs_lanes(&self, scope: u32, size: u64) -> bool {
        let scope = self.get(scope);
        matches!(scope.kind, ScopeKind::Loop | ScopeKind::Branch | ScopeKind::Case)
            && (size == 1 || size == scope.width)
    }

    pub(crate) fn node_made(&mut self, scope: u32) {
        self.scopes[scope as usize].nodes += 1;
    }

    pub(crate) fn node_freed(&mut self, scope: u32) {
        self.scopes[scope as usize].nodes -= 1;
        self.reuse(scope);
    }

    /// `loop opened at file:line`, for messages.
    pub(crate) fn describe(&self, scope: u32) -> String {
        let (kind, opened) = self.opened(scope);
        format!("{kind} opened at {opened}")
    }

    /// The kind of a region, and where it was opened.
    pub(crate) fn opened(&self, scope: u32) -> (&'static str, At) {
        let Scope { kind, opened, .. } = &self.scopes[scope as usize];
        let kind = match kind {
            ScopeKind::Loop => "loop",
            ScopeKind::Combine => "reduction",
            ScopeKind::Case => "switch",
            _ => "branch",
        };
        (kind, opened)
    }

    /// Frees the record of a dead region node; its operands and the contents of its scopes go to `dying`.
    pub(crate) fn free_region(
        &mut self,
        payload: u64,
        dying: &mut Vec<NodeId>,
        mut release_place: impl FnMut(PlaceKey) -> Option<NodeId>,
    ) {
        let region = self.regions[payload as usize].take().expect("a live region");
        self.free_regions.push(payload as u32);
        dying.extend(region.operands);
        for scope in region.scopes {
            self.free_scope(scope, dying, &mut release_place);
        }
    }

    fn free_scope(
        &mut self,
        scope: u32,
        dying: &mut Vec<NodeId>,
        release_place: &mut impl FnMut(PlaceKey) -> Option<NodeId>,
    ) {
        let record = &mut self.scopes[scope as usize];
        dying.append(&mut record.placeholders);
        dying.append(&mut record.sequence);
        dying.append(&mut record.yields);
        dying.extend(record.condition.take());
        for slot in record.slots.drain(..) {
            dying.push(slot.node);
            dying.extend(slot.place.and_then(&mut *release_place));
        }
        record.dead = true;
        self.reuse(scope);
    }

    fn reuse(&mut self, scope: u32) {
        let record = &mut self.scopes[scope as usize];
        if record.dead && record.nodes == 0 {
            record.dead = false;
            self.free_scopes.push(scope);
        }
    }

    pub(super) fn open(&mut self, mut scope: Scope) -> u32 {
        self.opened += 1;
        scope.serial = self.opened;
        match self.free_scopes.pop() {
            Some(at) => {
                self.scopes[at as usize] = scope;
                at
            }
            None => {
                self.scopes.push(scope);
                self.scopes.len() as u32 - 1
            }
        }
    }

    pub(super) fn add_region(&mut self, region: Region) -> u64 {
        match self.free_regions.pop() {
            Some(at) => {
                self.regions[at as usize] = Some(region);
                u64::from(at)
            }
            None => {
                self.regions.push(Some(region));
                self.regions.len() as u64 - 1
            }
        }
    }
}

impl Scope {
    pub(super) fn new(parent: u32, kind: ScopeKind, depth: u32, width: u64, opened: At) -> Scope {
        Scope {
            parent,
            kind,
            placeholders: Vec::new(),
            sequence: Vec::new(),
            condition_sequence: 0,
            condition: None,
            yields: Vec::new(),
            slots: Vec::new(),
            depth,
            width,
            nodes: 0,
            closed: false,
            dead: false,
            opened,
            serial: 0,
        }
    }
}

impl Trace {
    /// Opens a scope inside `current` with a placeholder for each argument. The caller gets the scope; counts on
    /// the placeholders stay with it.
    pub(crate) fn open_scope(
        &mut self,
        current: u32,
        kind: ScopeKind,
        condition: Option<NodeId>,
        arguments: &[NodeId],
        at: At,
    ) -> Result<u32, Misuse> {
        let depth = self.scopes.get(current).depth + 1;
        if depth > MAX_DEPTH {
            return Err(Misuse::new(format!("regions nest at most {MAX_DEPTH} deep")));
        }
        let op = match kind {
            ScopeKind::Loop => Op::Loop,
            ScopeKind::Case => Op::Switch,
            _ => Op::If,
        };
        if self.scopes.get(current).kind == ScopeKind::Combine {
            return Err(Misuse::new(format!(
                "`{}` inside a {}: the closure that combines two states may only compute; use `select` there",
                op.name(),
                self.scopes.describe(current)
            )));
        }
        let mut width = 1;
        for &argument in condition.iter().chain(arguments) {
            let node = self.node(argument);
            if node.scope != 0 && self.scopes.innermost(0, node.scope, current).is_none() {
                return Err(self.foreign(op, argument));
            }
            if node.size != 1 && width != 1 && node.size != width {
                let all: Vec<NodeId> = condition.iter().chain(arguments).copied().collect();
                return Err(self.size_mismatch(op, &all));
            }
            if node.size != 1 {
                width = node.size;
            }
        }
        if let Some(dtype) = condition.map(|condition| self.node(condition).dtype) {
            match op {
                Op::Switch if !dtype.is_int() => {
                    return Err(Misuse::new(format!(
                        "a switch takes an index of an integer type, got {dtype}"
                    )));
                }
                Op::If if dtype != DType::Bool => {
                    return Err(Misuse::new(format!("a branch takes a mask of bool, got {dtype}")));
                }
                _ => {}
            }
        }
        let outer = self.scopes.get(current).width;
        if current != 0 && width != 1 {
            self.scopes.merge_width(current, width).map_err(|w| self.width_mismatch(op, w, width))?;
        }
        let width = if width == 1 { outer } else { width };
        let scope = self.scopes.open(Scope::new(current, kind, depth, width, at));
        if let Some(condition) = condition {
            self.refuse_locals(op, &[condition])?;
        }
        for (i, &argument) in arguments.iter().enumerate() {
            let Node { dtype, size, local, .. } = *self.node(argument);
            let key = Key::new(Op::Placeholder, dtype, size, &[], i as u64);
            let node = self.slab.insert(&key, scope, at);
            self.slab.get_mut(node).local = local;
            self.scopes.node_made(scope);
            self.scopes.get_mut(scope).placeholders.push(node);
        }
        Ok(scope)
    }

    /// Ends the condition of a loop; takes the caller's count on `condition`.
    pub(crate) fn end_condition(&mut self, scope: u32, condition: NodeId) -> Result<(), Misuse> {
        let (dtype, size) = (self.node(condition).dtype, self.node(condition).size);
        let node_scope = self.node(condition).scope;
        let record = self.scopes.get_mut(scope);
        record.condition = Some(condition);
        record.condition_sequence = record.sequence.len();
        if dtype != DType::Bool {
            return Err(Misuse::new(format!("a loop's condition must be bool, got {dtype}")));
        }
        self.refuse_locals(Op::Loop, &[condition])?;
        if node_scope != 0 && self.scopes.innermost(0, node_scope, scope).is_none() {
            return Err(self.foreign(Op::Loop, condition));
        }
        if size != 1 {
            self.scopes.merge_width(scope, size).map_err(|w| self.width_mismatch(Op::Loop, w, size))?;
        }
        Ok(())
    }

    /// Ends a scope with what it yields, whose types must be those of `expected`; takes the caller's counts.
    pub(crate) fn end_scope(
        &mut self,
        scope: u32,
        yields: Vec<NodeId>,
        expected: &[DType],
    ) -> Result<(), Misuse> {
        let record = self.scopes.get_mut(scope);
        let op = match record.kind {
            ScopeKind::Loop => Op::Loop,
            ScopeKind::Combine => Op::Reduce,
            ScopeKind::Case => Op::Switch,
            _ => Op::If,
        };
        record.yields = yields;
        record.closed = true;
        let yields = record.yields.clone();
        let types: Vec<DType> = yields.iter().map(|&y| self.node(y).dtype).collect();
        if types != expected {
            let list = |types: &[DType]| types.iter().map(|t| t.name()).collect::<Vec<_>>().join(", ");
            let what = match op {
                Op::Loop => "a loop's body must return the state's types",
                Op::Reduce => "the closure that combines two states must return the state's types",
                Op::Switch => "all callables of a switch must return the same types",
                _ => "both sides of a branch must return the same types",
            };
            return Err(Misuse::new(format!("{what} ({}), got ({})", list(expected), list(&types))));
        }
        if op == Op::Loop {
            let state = self.scopes.get(scope).placeholders.clone();
            self.same_locals("a loop's body must return the state's", &state, &yields)?;
        }
        for &y in &yields {
            let (size, node_scope) = (self.node(y).size, self.node(y).scope);
            if node_scope != 0 && self.scopes.innermost(0, node_scope, scope).is_none() {
                return Err(self.foreign(op, y));
            }
            if size != 1 {
                self.scopes.merge_width(scope, size).map_err(|w| self.width_mismatch(op, w, size))?;
            }
        }
        Ok(())
    }

    /// Gives up a scope whose closure failed: everything is as before it was opened.
    pub(crate) fn abandon_scope(&mut self, scope: u32) {
        let mut dying = Vec::new();
        let Trace { scopes, places, .. } = self;
        scopes.free_scope(scope, &mut dying, &mut |place| super::release_place(places, place));
        for node in dying {
            self.release(node);
        }
    }

    /// Closes a region: makes its node from ended scopes, binds its memories, and advances the places it
    /// writes. Returns its results, with a count on each for the caller. Takes over the scopes.
    pub(crate) fn close_region(
        &mut self,
        op: Op,
        current: u32,
        scopes: &[u32],
        condition: Option<NodeId>,
        arguments: &[NodeId],
        at: At,
    ) -> Vec<NodeId> {
        let mut width = 1;
        for &scope in scopes {
            let w = self.scopes.get(scope).width;
            width = if w == 1 { width } else { w };
        }
        let mut operands: Vec<NodeId> = condition.iter().chain(arguments).copied().collect();
        let argument_count = operands.len();

        // One memory for each place that any of the scopes uses.
        let mut memories: Vec<(PlaceKey, bool)> = Vec::new();
        for &scope in scopes {
            for i in 0..self.scopes.get(scope).slots.len() {
                let slot = self.scopes.get(scope).slots[i];
                let place = slot.place.expect("a region closes once");
                let found = memories.iter().position(|m| m.0 == place);
                let which = found.unwrap_or_else(|| {
                    memories.push((place, false));
                    memories.len() - 1
                });
                memories[which].1 |= slot.written;
                self.scopes.get_mut(scope).slots[i].which = which as u64;
                self.slab.get_mut(slot.node).payload = which as u64;
            }
        }
        for &(place, written) in &memories {
            operands.push(self.bind(current, place, written));
        }
        let bound = operands.len();
        self.captures(scopes, &mut operands);
        for &operand in &operands[..] {
            self.retain(operand);
        }

        let yields = self.scopes.get(scopes[0]).yields.clone();
        let region = Region {
            scopes: scopes.into(),
            arguments: argument_count,
            memories: memories.iter().map(|m| m.1).collect(),
            results: yields.len(),
            operands,
            reduces: None,
        };
        debug_assert_eq!(bound, region.arguments + region.memories.len());
        let record = self.scopes.add_region(region);
        let node = self.slab.insert(&Key::new(op, DType::Bool, width, &[], record), current, at);
        if current != 0 {
            self.scopes.node_made(current);
        }
        if !memories.is_empty() {
            self.slab.get_mut(node).flags |= ORDERED;
            if current != 0 {
                self.retain(node);
                self.scopes.get_mut(current).sequence.push(node);
            }
        }

        let results: Vec<NodeId> = yields
            .iter()
            .enumerate()
            .map(|(i, &y)| {
                let Node { dtype, local, .. } = *self.node(y);
                let id =
                    self.slab.insert(&Key::new(Op::Result, dtype, width, &[node], i as u64), current, at);
                self.slab.get_mut(id).local = local;
                if current != 0 {
                    self.scopes.node_made(current);
                }
                self.parts.insert((node, Op::Result, i as u64), id);
                id
            })
            .collect();
        if current == 0 {
            for (i, &(place, written)) in memories.iter().enumerate() {
                if written {
                    let (dtype, size) = (self.places[place].dtype, self.places[place].size);
                    self.retain(node);
                    let version = self.version(node, i as u64, dtype, size, at);
                    self.set_current(place, version);
                }
            }
        }
        for &scope in scopes {
            for i in 0..self.scopes.get(scope).slots.len() {
                if let Some(place) = self.scopes.get_mut(scope).slots[i].place.take() {
                    self.release_place(place);
                }
            }
        }
        self.release(node);
        results
    }

    /// The memory of a place as seen in a scope: its `memory` node (no count for the caller). At the top level: its
    /// current version.
    pub(crate) fn bind(&mut self, scope: u32, place: PlaceKey, written: bool) -> NodeId {
        if scope == 0 {
            return self.places[place].current;
        }
        if let Some(slot) = self.scopes.get_mut(scope).slots.iter_mut().find(|s| s.place == Some(place)) {
            slot.written |= written;
            return slot.node;
        }
        let (dtype, size) = (self.places[place].dtype, self.places[place].size);
        let opened = self.scopes.get(scope).opened;
        let node = self.slab.insert(&Key::new(Op::Memory, dtype, size, &[], 0), scope, opened);
        self.scopes.node_made(scope);
        self.retain_place(place);
        self.scopes.get_mut(scope).slots.push(Slot { place: Some(place), node, written, which: 0 });
        node
    }

    /// Appends to `operands` everything from outside that the scopes' nodes use.
    pub(super) fn captures(&mut self, scopes: &[u32], operands: &mut Vec<NodeId>) {
        let stamp = self.new_stamp();
        let mut stack: Vec<NodeId> = Vec::new();
        for &scope in scopes {
            let record = self.scopes.get(scope);
            stack.extend(record.yields.iter().rev());
            stack.extend(record.sequence.iter().rev());
            stack.extend(record.condition);
        }
        while let Some(id) = stack.pop() {
            let node = self.slab.get_mut(id);
            if node.stamp == stamp {
                continue;
            }
            node.stamp = stamp;
            let node = self.slab.get(id);
            if !scopes.contains(&node.scope) {
                operands.push(id);
                continue;
            }
            match node.op {
                Op::Loop | Op::If | Op::Switch | Op::Reduce => {
                    stack.extend(self.scopes.region(node.payload).operands.iter().rev())
                }
                _ => stack.extend(node.operands().iter().rev()),
            }
        }
    }
}
