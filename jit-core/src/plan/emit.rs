//! The programs of the stages.

pub(super) mod checks;

use rustc_hash::FxHashMap;

use super::graph::Graph;
use super::schedule::{Schedule, StageWork};
use super::{Constant, Memory, Source, Stage};
use crate::dtype::DType;
use crate::ir::{Block, Builder, ParamId, ParamKind, Segments, Value};
use crate::op::{Class, Op};
use crate::trace::{MAX_OPERANDS, Node, NodeId};

/// Builds the kernels of a schedule.
pub(super) struct Emission<'a> {
    schedule: &'a Schedule<'a>,
    values: Values,
    path: Vec<(u32, u32)>,
    sites: Vec<u32>,
}

impl<'a> Emission<'a> {
    pub(super) fn new(schedule: &'a Schedule<'a>) -> Self {
        Emission { schedule, values: Values::new(schedule.graph.len()), path: Vec::new(), sites: Vec::new() }
    }

    /// The nodes whose indices the kernels test, in the order of their sites.
    pub(super) fn into_sites(self) -> Vec<u32> {
        self.sites
    }

    /// Builds the kernel of a stage, which is about that long.
    pub(super) fn stage(&mut self, work: &StageWork, length: usize) -> Stage {
        let schedule = self.schedule;
        self.values.clear();
        let mut emitter = Emitter {
            schedule,
            graph: schedule.graph,
            level: work.key.level,
            segments: work.key.division.segments(),
            builder: Builder::with_capacity(length),
            values: &mut self.values,
            path: &mut self.path,
            sites: &mut self.sites,
            params: FxHashMap::default(),
            memories: FxHashMap::default(),
            args: Vec::new(),
            by_lane: Vec::new(),
            literals: Vec::new(),
            named: Vec::new(),
            in_finish: false,
        };
        for &(literal, memory) in &work.fills {
            let value = emitter.value(literal);
            emitter.store(memory, value, emitter.graph.node(literal).dtype);
        }
        let mut reductions = Vec::new();
        for &sink in &work.sinks {
            emitter.sink(sink, &mut reductions);
        }
        let with_finish = !reductions.is_empty();
        if with_finish {
            emitter.finish(&reductions, &work.finish);
        }
        let Emitter { builder, args, by_lane, literals, named, .. } = emitter;
        let mut program = builder.finish(with_finish);
        program.segments = work.key.division.segments();
        Stage { program, literals, args, by_lane, lanes: work.lanes, segment: work.segment, named }
    }
}

/// Values by node, in the blocks that are open.
struct Values {
    /// For each node a value, and when it was set.
    slots: Vec<(u32, Value)>,
    now: u32,
}

impl Values {
    fn new(nodes: usize) -> Values {
        Values { slots: vec![(0, Value(0)); nodes], now: 0 }
    }

    fn clear(&mut self) {
        self.now += 1;
    }

    fn get(&self, number: u32) -> Option<Value> {
        let (when, value) = self.slots[number as usize];
        (when == self.now).then_some(value)
    }

    fn set(&mut self, number: u32, value: Value) {
        self.slots[number as usize] = (self.now, value);
    }
}

struct Emitter<'a> {
    schedule: &'a Schedule<'a>,
    graph: &'a Graph<'a>,
    level: u32,
    segments: Segments,
    builder: Builder,
    values: &'a mut Values,
    /// The nodes that are being evaluated, each an operand of the one before, and which of its operands come next.
    path: &'a mut Vec<(u32, u32)>,
    /// The nodes of the plan whose indices are tested.
    sites: &'a mut Vec<u32>,
    params: FxHashMap<(Source, ParamKind, Place), ParamId>,
    /// Parameters of the `memory` nodes of open regions.
    memories: FxHashMap<NodeId, ParamId>,
    args: Vec<Source>,
    /// Which of them are read or stored lane by lane.
    by_lane: Vec<bool>,
    literals: Vec<(Value, Constant)>,
    /// Loops and switches, which may have names.
    named: Vec<u32>,
    in_finish: bool,
}

/// Where in its memory a lane uses a parameter. One and the same parameter may be used in both ways, unless launches are
/// split: what is read and stored lane by lane then moves with the lanes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    OwnElement,
    Anywhere,
}

impl Emitter<'_> {
    fn sink(&mut self, number: u32, reductions: &mut Vec<u32>) {
        let node = self.graph.node(number);
        if node.op == Op::Reduce {
            self.reduce(number);
            reductions.push(number);
            return;
        }
        if node.op.class() == Class::Reduce {
            let arg = self.value(self.graph.number(node.operands[0]));
            self.builder.inst(node.op, 0, &[arg], &[], vec![]);
            reductions.push(number);
            return;
        }
        self.evaluate(number);
        if self.schedule.in_memory[number as usize] {
            let value = self.evaluated(number);
            let memory = self.schedule.memory[&number];
            match node.local_len() {
                Some(len) => self.store_local(memory, value, node, len),
                None => self.store(memory, value, node.dtype),
            }
        }
    }

    fn finish(&mut self, reductions: &[u32], nodes: &[u32]) {
        let types: Vec<DType> = reductions.iter().flat_map(|&r| self.result_types(r)).collect();
        let params = self.builder.start_finish(&types);
        self.in_finish = true;
        self.values.clear();
        let mut rest = &params[..];
        let mut results = Vec::new();
        for &reduction in reductions {
            let (own, others) = rest.split_at(self.result_types(reduction).len());
            rest = others;
            if self.graph.op(reduction) != Op::Reduce {
                results.push((reduction, own[0]));
                continue;
            }
            let id = self.graph.id(reduction);
            for (k, &param) in own.iter().enumerate() {
                let part = self.graph.trace.part(id, Op::Result, k as u64);
                // A part of the state that nobody uses is no node of this graph.
                if let Some(part) = part.filter(|&part| self.graph.contains(part)) {
                    results.push((self.graph.number(part), param));
                }
            }
        }
        results.iter().for_each(|&(number, param)| self.values.set(number, param));
        for (number, param) in results {
            if self.schedule.in_memory[number as usize] {
                self.store(self.schedule.memory[&number], param, self.graph.node(number).dtype);
            }
        }
        for &number in nodes {
            let value = self.value(number);
            self.store(self.schedule.memory[&number], value, self.graph.node(number).dtype);
        }
    }

    /// A reduction by a block.
    fn reduce(&mut self, number: u32) {
        let trace = self.graph.trace;
        let region = trace.scopes.region(self.graph.node(number).payload);
        let operands: Vec<Value> = region.operands.iter().map(|&operand| self.need(operand)).collect();
        let scope = trace.scopes.get(region.scopes[0]);
        let types: Vec<DType> = scope.placeholders.iter().map(|&p| trace.node(p).dtype).collect();
        let params = self.builder.open_block(&types);
        scope.placeholders.iter().zip(params).for_each(|(&placeholder, param)| {
            self.set(placeholder, param);
        });
        let yields: Vec<Value> = scope.yields.iter().map(|&y| self.need(y)).collect();
        let block = self.builder.close_block(&yields);
        self.builder.inst(Op::Reduce, 0, &operands[..region.arguments], &[], vec![block]);
    }

    fn result_types(&self, reduction: u32) -> Vec<DType> {
        let node = self.graph.node(reduction);
        match node.op {
            Op::Reduce => {
                let region = self.graph.trace.scopes.region(node.payload);
                region.states().iter().map(|&state| self.graph.trace.node(state).dtype).collect()
            }
            _ => vec![node.dtype],
        }
    }

    /// The value of a node of the trace.
    fn need(&mut self, id: NodeId) -> Value {
        self.value(self.graph.number(id))
    }

    fn value(&mut self, number: u32) -> Value {
        self.evaluate(number);
        self.evaluated(number)
    }

    fn evaluated(&self, number: u32) -> Value {
        self.values.get(number).expect("operands come first")
    }

    /// Emits a node and what it needs into the innermost block, operands first, without recursion but over
    /// nested regions.
    fn evaluate(&mut self, number: u32) {
        let start = self.path.len();
        self.enter(number);
        while self.path.len() > start {
            let top = self.path.len() - 1;
            let (number, next) = self.path[top];
            if let Some(&operand) = self.graph.lane_operands(number).get(next as usize) {
                self.path[top].1 += 1;
                self.enter(operand);
                continue;
            }
            self.path.pop();
            // A region has set its results.
            if self.values.get(number).is_none() {
                self.emit(number);
            }
        }
    }

    /// Emits a node that needs no other, unless it is there; one that does is walked next.
    fn enter(&mut self, number: u32) {
        if self.values.get(number).is_some() {
            return;
        }
        if self.comes_from_memory(number) {
            self.load(number);
        } else if self.graph.lane_operands(number).is_empty() {
            self.emit(number);
        } else {
            self.path.push((number, 0));
        }
    }

    /// Whether this kernel reads the node's value from memory instead of computing it.
    fn comes_from_memory(&self, number: u32) -> bool {
        let op = self.graph.op(number);
        let stored = || {
            self.schedule.in_memory[number as usize]
                && self.schedule.home_level(number).is_some_and(|home| home < self.level)
        };
        (matches!(op, Op::Data | Op::Version)
            || op.class() == Class::Across
            || self.graph.is_reduced(number)
            || stored())
            && self.graph.node(number).scope == 0
    }

    fn load(&mut self, number: u32) {
        let node = self.graph.node(number);
        let scalar = node.size == 1 || self.in_finish && self.segments == Segments::All;
        let place = if scalar || node.local != 0 { Place::Anywhere } else { Place::OwnElement };
        let source = Source::Memory(self.schedule.memory[&number]);
        let param = self.source(source, ParamKind::In, node.dtype, place);
        let value = match node.local_len() {
            Some(len) => self.load_local(param, node.dtype, scalar, len),
            None => self.builder.read(if scalar { Op::LoadScalar } else { Op::Load }, param),
        };
        self.values.set(number, value);
    }

    fn emit(&mut self, number: u32) {
        let id = self.graph.id(number);
        let node = self.graph.trace.node(id);
        match node.op {
            Op::Loop | Op::If | Op::Switch => return self.region(id),
            Op::Result => unreachable!("a region emits its results"),
            _ => {}
        }
        let mut operands = [Value(0); MAX_OPERANDS];
        let given = self.graph.lane_operands(number);
        for (operand, &from) in operands.iter_mut().zip(given) {
            *operand = self.evaluated(from);
        }
        let operands = &operands[..given.len()];
        self.check_index(number, operands);
        let value = match node.op {
            Op::Literal => {
                let value = self.builder.literal(node.dtype, node.payload);
                self.literals.push((value, Constant::Node(number)));
                value
            }
            Op::Counter => self.builder.counter(node.dtype),
            Op::LaneCount => {
                let param =
                    self.source(Source::Count(number), ParamKind::Scalar, DType::U64, Place::Anywhere);
                self.builder.read(Op::Param, param)
            }
            Op::Gather => {
                let param = self.memory(node.operands[0], id, 0, false);
                self.builder.gather(param, operands[0], operands.get(1).copied())
            }
            op if op.gives_old() => {
                let param = self.memory(node.operands[0], id, 0, true);
                self.builder.value(op, u64::from(param.0), operands, node.dtype)
            }
            Op::LocalZeros => self.builder.local_zeros(node.dtype, node.payload as u32),
            Op::LocalWrite => {
                self.builder.local_write(operands[0], operands[1], operands[2], operands.get(3).copied())
            }
            op if op.class() == Class::Effect => {
                let param = self.memory(node.operands[0], id, 0, true);
                self.builder.scatter(op, param, operands[0], operands[1], operands.get(2).copied());
                // Marks the effect as done; nothing ever uses the value.
                operands[0]
            }
            // Its payload is what compiling may do to its floats.
            op => self.builder.value(op, node.payload, operands, node.dtype),
        };
        self.values.set(number, value);
    }

    fn set(&mut self, id: NodeId, value: Value) {
        debug_assert!(self.graph.contains(id), "{id} has a number in this graph");
        self.values.set(self.graph.number(id), value);
    }

    fn region(&mut self, id: NodeId) {
        let trace = self.graph.trace;
        let node = trace.node(id);
        let region = trace.scopes.region(node.payload);
        for &scope in &region.scopes {
            for (memory, which) in trace.scopes.memory_nodes(scope) {
                let param = match node.scope {
                    0 => {
                        let operand = region.memory_operands()[which as usize];
                        self.memory(operand, id, which, region.memories[which as usize])
                    }
                    _ => self.memories[&region.memory_operands()[which as usize]],
                };
                self.memories.insert(memory, param);
            }
        }
        let arguments: Vec<Value> = region.operands[..region.arguments]
            .iter()
            .map(|&o| self.evaluated(self.graph.number(o)))
            .collect();
        if matches!(node.op, Op::Loop | Op::Switch) {
            self.named.push(self.graph.number(id));
        }
        if node.op == Op::Switch {
            // The last block is for what has no other.
            self.check_switch(self.graph.number(id), arguments[0], region.scopes.len() as u64 - 1);
        }
        let (blocks, results) = if node.op == Op::Loop {
            self.loop_blocks(region.scopes[0])
        } else {
            let branches = region.scopes.iter().map(|&s| self.branch(s, &arguments[1..])).collect::<Vec<_>>();
            let results = trace.scopes.get(region.scopes[0]).yields.clone();
            (branches, results)
        };
        let types: Vec<DType> = results.iter().map(|&r| trace.node(r).dtype).collect();
        let inputs = if node.op == Op::Loop { &arguments[..] } else { &arguments[..1] };
        let values = self.builder.inst(node.op, 0, inputs, &types, blocks);
        for (&value, &result) in values.iter().zip(&results) {
            self.builder.set_local(value, trace.node(result).local_len());
        }
        for (i, &value) in values.iter().enumerate() {
            // A result that nothing here uses is no node of this graph.
            if let Some(result) = trace.part(id, Op::Result, i as u64)
                && self.graph.contains(result)
            {
                self.set(result, value);
            }
        }
        // Marks the region as done; a region without results has nothing that could be used.
        self.set(id, values.first().copied().unwrap_or(Value(u32::MAX)));
    }

    fn loop_blocks(&mut self, scope: u32) -> (Vec<Block>, Vec<NodeId>) {
        let trace = self.graph.trace;
        let scope = trace.scopes.get(scope);
        let types: Vec<DType> = scope.placeholders.iter().map(|&p| trace.node(p).dtype).collect();
        let params = self.builder.open_block(&types);
        for (&placeholder, param) in scope.placeholders.iter().zip(params) {
            self.builder.set_local(param, trace.node(placeholder).local_len());
            self.set(placeholder, param);
        }
        let (before, after) = scope.sequence.split_at(scope.condition_sequence);
        before.iter().for_each(|&n| self.evaluate(self.graph.number(n)));
        let condition = self.need(scope.condition.expect("a closed loop has a condition"));
        let condition = self.builder.close_block(&[condition]);
        self.builder.open_block(&[]);
        after.iter().for_each(|&n| self.evaluate(self.graph.number(n)));
        let yields: Vec<Value> = scope.yields.iter().map(|&y| self.need(y)).collect();
        let body = self.builder.close_block(&yields);
        (vec![condition, body], scope.yields.clone())
    }

    fn branch(&mut self, scope: u32, arguments: &[Value]) -> Block {
        let scope = self.graph.trace.scopes.get(scope);
        scope
            .placeholders
            .iter()
            .zip(arguments)
            .for_each(|(&placeholder, &value)| self.set(placeholder, value));
        self.builder.open_block(&[]);
        scope.sequence.iter().for_each(|&n| self.evaluate(self.graph.number(n)));
        let yields: Vec<Value> = scope.yields.iter().map(|&y| self.need(y)).collect();
        self.builder.close_block(&yields)
    }

    /// The parameter for the memory that `user` reads or writes.
    fn memory(&mut self, memory: NodeId, user: NodeId, which: u64, written: bool) -> ParamId {
        if let Some(&param) = self.memories.get(&memory) {
            return param;
        }
        let dtype = self.graph.trace.node(memory).dtype;
        if written {
            let location = self.schedule.written(self.graph.number(user), which);
            return self.param(location, ParamKind::InOut, dtype);
        }
        self.param(self.schedule.memory[&self.graph.number(memory)], ParamKind::In, dtype)
    }

    /// Reads a local array from memory, where each lane's elements stand together.
    fn load_local(&mut self, param: ParamId, dtype: DType, scalar: bool, len: u32) -> Value {
        let zeros = self.builder.local_zeros(dtype, len);
        let first = self.first_element(scalar, len);
        self.for_each_element(len, Some(zeros), |b, element, array| {
            let at = b.op(Op::Add, &[first, element]);
            let value = b.gather(param, at, None);
            array.map(|array| b.local_write(array, value, element, None))
        })
        .expect("the array that was given")
    }

    fn store_local(&mut self, memory: Memory, array: Value, node: &Node, len: u32) {
        let param = self.param(memory, ParamKind::InOut, node.dtype);
        let first = self.first_element(node.size == 1, len);
        self.for_each_element(len, None, |b, element, _| {
            let at = b.op(Op::Add, &[first, element]);
            let value = b.local_read(array, element, None);
            b.scatter(Op::Scatter, param, value, at, None);
            None
        });
    }

    /// The position of a lane's first element in memory.
    fn first_element(&mut self, scalar: bool, len: u32) -> Value {
        if scalar {
            return self.number(0);
        }
        let lane = self.builder.counter(DType::U64);
        let len = self.number(u64::from(len));
        self.builder.op(Op::Mul, &[lane, len])
    }

    fn number(&mut self, bits: u64) -> Value {
        let value = self.builder.literal(DType::U64, bits);
        self.literals.push((value, Constant::Bits(bits)));
        value
    }

    /// A loop over the numbers below `len`, with a local array as its state or none; gives its last state.
    fn for_each_element(
        &mut self,
        len: u32,
        array: Option<Value>,
        body: impl FnOnce(&mut Builder, Value, Option<Value>) -> Option<Value>,
    ) -> Option<Value> {
        let [zero, one, end] = [0, 1, u64::from(len)].map(|bits| self.number(bits));
        let b = &mut self.builder;
        let init: Vec<Value> = [zero].into_iter().chain(array).collect();
        let types: Vec<DType> = init.iter().map(|&v| b.dtype(v)).collect();
        let local_len = array.map(|_| len);
        let state = b.open_block(&types);
        let (element, array) = (state[0], state.get(1).copied());
        array.into_iter().for_each(|array| b.set_local(array, local_len));
        let goes_on = b.op(Op::Lt, &[element, end]);
        let condition = b.close_block(&[goes_on]);
        b.open_block(&[]);
        let array = body(b, element, array);
        let next = b.op(Op::Add, &[element, one]);
        let next: Vec<Value> = [next].into_iter().chain(array).collect();
        let repeated = b.close_block(&next);
        let results = b.inst(Op::Loop, 0, &init, &types, vec![condition, repeated]);
        let array = results.get(1).copied();
        array.into_iter().for_each(|array| b.set_local(array, local_len));
        array
    }

    fn store(&mut self, memory: Memory, value: Value, dtype: DType) {
        let param = self.source(Source::Memory(memory), ParamKind::Out, dtype, Place::OwnElement);
        self.builder.store(param, value);
    }

    fn param(&mut self, memory: Memory, kind: ParamKind, dtype: DType) -> ParamId {
        self.source(Source::Memory(memory), kind, dtype, Place::Anywhere)
    }

    fn source(&mut self, source: Source, kind: ParamKind, dtype: DType, place: Place) -> ParamId {
        let place = if self.graph.trace.splits { place } else { Place::Anywhere };
        if let Some(&param) = self.params.get(&(source, kind, place)) {
            return param;
        }
        let param = self.builder.param(kind, dtype);
        self.params.insert((source, kind, place), param);
        self.args.push(source);
        self.by_lane.push(place == Place::OwnElement);
        param
    }
}
