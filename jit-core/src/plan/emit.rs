//! The program of one stage.

use rustc_hash::{FxBuildHasher, FxHashMap};
use smallvec::SmallVec;

use super::schedule::{Schedule, StageKey};
use super::{Memory, Source, Stage};
use crate::dtype::DType;
use crate::ir::{Block, Builder, ParamId, ParamKind, Value};
use crate::op::{Class, Op};
use crate::trace::NodeId;

/// Builds the kernel of a stage.
pub(super) fn emit(schedule: &Schedule<'_>, key: StageKey) -> Stage {
    let work = &schedule.stages[&key];
    // Most programs are long because they are the only one.
    let expected = schedule.topological.len() / schedule.stages.len();
    let mut emitter = Emitter {
        schedule,
        key,
        builder: Builder::with_capacity(expected),
        values: FxHashMap::with_capacity_and_hasher(expected, FxBuildHasher),
        params: FxHashMap::default(),
        memories: FxHashMap::default(),
        args: Vec::new(),
        literals: Vec::new(),
        in_finish: false,
    };
    for &(literal, memory) in &work.fills {
        let value = emitter.value(literal);
        emitter.store(memory, value, schedule.node(literal).dtype);
    }
    let mut reductions = Vec::new();
    for &sink in &work.sinks {
        emitter.sink(sink, &mut reductions);
    }
    let with_finish = !reductions.is_empty();
    if with_finish {
        emitter.finish(&reductions, &work.finish);
    }
    let Emitter { builder, args, literals, .. } = emitter;
    Stage { program: builder.finish(with_finish), literals, args, lanes: work.lanes }
}

struct Emitter<'a> {
    schedule: &'a Schedule<'a>,
    key: StageKey,
    builder: Builder,
    /// Values by node, in the blocks that are open.
    values: FxHashMap<NodeId, Value>,
    params: FxHashMap<(Source, ParamKind), ParamId>,
    /// Parameters of the `memory` nodes of open regions.
    memories: FxHashMap<NodeId, ParamId>,
    args: Vec<Source>,
    literals: Vec<(Value, u32)>,
    in_finish: bool,
}

impl Emitter<'_> {
    fn sink(&mut self, number: u32, reductions: &mut Vec<u32>) {
        let id = self.schedule.canonical.order[number as usize];
        let node = self.schedule.node(number);
        if node.op.class() == Class::Reduce {
            let arg = self.need(node.operands[0]);
            self.builder.inst(node.op, 0, &[arg], &[], vec![]);
            reductions.push(number);
            return;
        }
        self.evaluate(id);
        if self.schedule.in_memory[number as usize] {
            let value = self.values[&id];
            self.store(self.schedule.memory[&number], value, node.dtype);
        }
    }

    fn finish(&mut self, reductions: &[u32], nodes: &[u32]) {
        let types: Vec<DType> = reductions.iter().map(|&r| self.schedule.node(r).dtype).collect();
        let params = self.builder.start_finish(&types);
        self.in_finish = true;
        self.values.clear();
        for (&reduction, &param) in reductions.iter().zip(&params) {
            self.values.insert(self.schedule.canonical.order[reduction as usize], param);
        }
        for (&reduction, &param) in reductions.iter().zip(&params) {
            if self.schedule.in_memory[reduction as usize] {
                self.store(self.schedule.memory[&reduction], param, self.schedule.node(reduction).dtype);
            }
        }
        for &number in nodes {
            let value = self.value(number);
            self.store(self.schedule.memory[&number], value, self.schedule.node(number).dtype);
        }
    }

    fn value(&mut self, number: u32) -> Value {
        self.need(self.schedule.canonical.order[number as usize])
    }

    fn need(&mut self, id: NodeId) -> Value {
        self.evaluate(id);
        self.values[&id]
    }

    /// Emits a node and what it needs into the innermost block, operands first, without recursion but over
    /// nested regions.
    fn evaluate(&mut self, id: NodeId) {
        let mut stack = vec![(id, false)];
        while let Some((id, expanded)) = stack.pop() {
            if self.values.contains_key(&id) {
                continue;
            }
            if expanded || self.comes_from_memory(id) {
                self.emit(id);
                continue;
            }
            stack.push((id, true));
            for &operand in self.schedule.lane_operands(id).iter().rev() {
                if !self.values.contains_key(&operand) {
                    stack.push((operand, false));
                }
            }
        }
    }

    /// Whether this kernel reads the node's value from memory instead of computing it.
    fn comes_from_memory(&self, id: NodeId) -> bool {
        let node = self.schedule.trace.node(id);
        if node.scope != 0 {
            return false;
        }
        if matches!(node.op, Op::Data | Op::Version) || node.op.class() == Class::Reduce {
            return true;
        }
        let number = node.number as usize;
        self.schedule.in_memory[number] && self.schedule.home[number].is_some_and(|h| h.0 < self.key.0)
    }

    fn emit(&mut self, id: NodeId) {
        let node = self.schedule.trace.node(id);
        if self.comes_from_memory(id) {
            let param = self.param(self.schedule.memory[&node.number], ParamKind::In, node.dtype);
            let scalar = node.size == 1 || self.in_finish;
            let value = self.builder.read(if scalar { Op::LoadScalar } else { Op::Load }, param);
            self.values.insert(id, value);
            return;
        }
        let operands: SmallVec<[Value; 4]> = match node.op {
            Op::Loop | Op::If | Op::Result => SmallVec::new(),
            _ => self.schedule.lane_operands(id).iter().map(|o| self.values[o]).collect(),
        };
        let value = match node.op {
            Op::Literal => {
                let value = self.builder.literal(node.dtype, node.payload);
                self.literals.push((value, node.number));
                value
            }
            Op::Counter => self.builder.counter(node.dtype),
            Op::LaneCount => {
                let param = self.source(Source::Count(node.number), ParamKind::Scalar, DType::U64);
                self.builder.read(Op::Param, param)
            }
            Op::Gather => {
                let param = self.memory(node.operands[0], id, 0, false);
                self.builder.gather(param, operands[0], operands.get(1).copied())
            }
            Op::AtomicInc => {
                let param = self.memory(node.operands[0], id, 0, true);
                self.builder.inst(Op::AtomicInc, u64::from(param.0), &operands, &[node.dtype], vec![])[0]
            }
            op if op.class() == Class::Effect => {
                let param = self.memory(node.operands[0], id, 0, true);
                self.builder.scatter(op, param, operands[0], operands[1], operands.get(2).copied());
                // Marks the effect as done; nothing ever uses the value.
                operands[0]
            }
            Op::Loop | Op::If => return self.region(id),
            Op::Result => {
                debug_assert!(self.values.contains_key(&id), "a region emits its results");
                return;
            }
            op => self.builder.inst(op, 0, &operands, &[node.dtype], vec![])[0],
        };
        self.values.insert(id, value);
    }

    fn region(&mut self, id: NodeId) {
        let trace = self.schedule.trace;
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
        let arguments: Vec<Value> =
            region.operands[..region.arguments].iter().map(|o| self.values[o]).collect();
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
        for (i, &value) in values.iter().enumerate() {
            if let Some(result) = trace.part(id, Op::Result, i as u64) {
                self.values.insert(result, value);
            }
        }
        // Marks the region as done; a region without results has nothing that could be used.
        self.values.insert(id, values.first().copied().unwrap_or(Value(u32::MAX)));
    }

    fn loop_blocks(&mut self, scope: u32) -> (Vec<Block>, Vec<NodeId>) {
        let trace = self.schedule.trace;
        let scope = trace.scopes.get(scope);
        let types: Vec<DType> = scope.placeholders.iter().map(|&p| trace.node(p).dtype).collect();
        let params = self.builder.open_block(&types);
        self.values.extend(scope.placeholders.iter().copied().zip(params));
        let (before, after) = scope.sequence.split_at(scope.condition_sequence);
        before.iter().for_each(|&n| self.evaluate(n));
        let condition = self.need(scope.condition.expect("a closed loop has a condition"));
        let condition = self.builder.close_block(&[condition]);
        self.builder.open_block(&[]);
        after.iter().for_each(|&n| self.evaluate(n));
        let yields: Vec<Value> = scope.yields.iter().map(|&y| self.need(y)).collect();
        let body = self.builder.close_block(&yields);
        (vec![condition, body], scope.yields.clone())
    }

    fn branch(&mut self, scope: u32, arguments: &[Value]) -> Block {
        let scope = self.schedule.trace.scopes.get(scope);
        self.values.extend(scope.placeholders.iter().copied().zip(arguments.iter().copied()));
        self.builder.open_block(&[]);
        scope.sequence.iter().for_each(|&n| self.evaluate(n));
        let yields: Vec<Value> = scope.yields.iter().map(|&y| self.need(y)).collect();
        self.builder.close_block(&yields)
    }

    /// The parameter for the memory that `user` reads or writes.
    fn memory(&mut self, memory: NodeId, user: NodeId, which: u64, written: bool) -> ParamId {
        if let Some(&param) = self.memories.get(&memory) {
            return param;
        }
        let dtype = self.schedule.trace.node(memory).dtype;
        if written {
            let location = self.schedule.written(self.schedule.number(user), which);
            return self.param(location, ParamKind::InOut, dtype);
        }
        self.param(self.schedule.memory[&self.schedule.number(memory)], ParamKind::In, dtype)
    }

    fn store(&mut self, memory: Memory, value: Value, dtype: DType) {
        let param = self.param(memory, ParamKind::Out, dtype);
        self.builder.store(param, value);
    }

    fn param(&mut self, memory: Memory, kind: ParamKind, dtype: DType) -> ParamId {
        self.source(Source::Memory(memory), kind, dtype)
    }

    fn source(&mut self, source: Source, kind: ParamKind, dtype: DType) -> ParamId {
        if let Some(&param) = self.params.get(&(source, kind)) {
            return param;
        }
        let param = self.builder.param(kind, dtype);
        self.params.insert((source, kind), param);
        self.args.push(source);
        param
    }
}
