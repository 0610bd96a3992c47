//! Random valid programs of the kernel language, made from a tape of numbers: a shorter tape, or one of smaller
//! numbers, gives a simpler program, so that a failing case shrinks.
//!
//! Loops end by construction. What would show the payload or sign of a computed NaN (bitcasts of floats,
//! `copysign`) is left out, since those are unspecified; so are mathematical functions.

use jit_core::backend::Backend;
use jit_core::dtype::{DType, is_nan};
use jit_core::ir::{Block, Builder, ParamId, ParamKind, Program, Segments, Value};
use jit_core::op::{ALL_OPS, Class, Op, Rule, scalar};

use crate::launch::{Argument, Size, launch};

/// A program with arguments for a launch.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) program: Program,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) size: Size,
}

impl Case {
    /// What memory holds after one of its program's forms has run.
    pub(crate) fn run(&self, backend: &dyn Backend, form: &Program) -> Vec<Argument> {
        let kernel = backend.compile(form).unwrap_or_else(|e| panic!("{e}\n{form}"));
        let mut arguments = self.arguments.clone();
        launch(&*kernel, form, &mut arguments, self.size);
        arguments
    }
}

/// Panics unless memory holds equal bits, all NaNs being equal, after a program has run.
pub(crate) fn assert_equal(program: &Program, expected: &[Argument], got: &[Argument]) {
    for (k, param) in program.params.iter().enumerate() {
        let (Argument::Memory(expected), Argument::Memory(got)) = (&expected[k], &got[k]) else { continue };
        let equal = |(&a, &b): (&u64, &u64)| a == b || is_nan(param.dtype, a) && is_nan(param.dtype, b);
        assert!(expected.iter().zip(got).all(equal), "p{k} is {got:x?}, not {expected:x?}\n{program}");
    }
}

/// The case that a tape stands for.
pub(crate) fn case(tape: &[u32]) -> Case {
    any_case(tape, true)
}

/// One in which no lane sees or changes what another does, so that the order of lanes is nothing.
pub(crate) fn case_of_independent_lanes(tape: &[u32]) -> Case {
    any_case(tape, false)
}

fn any_case(tape: &[u32], shares_memory: bool) -> Case {
    let mut generator = Generator {
        shares_memory,
        tape: tape.iter(),
        builder: Builder::new(),
        values: Vec::new(),
        locals: Vec::new(),
        inputs: Vec::new(),
        memory: Vec::new(),
        scalar: ParamId(0),
        arguments: Vec::new(),
        lanes: 0,
        pure: 0,
        budget: 60,
    };
    generator.params();
    generator.body()
}

const TYPES: [DType; 7] =
    [DType::U32, DType::F32, DType::I32, DType::Bool, DType::U8, DType::U64, DType::F16];

/// Kinds of local arrays.
const LOCALS: [(DType, u32); 4] = [(DType::U32, 3), (DType::F32, 2), (DType::U8, 9), (DType::U32, 4)];

/// Regions are nested this deep at most.
const DEPTH: usize = 4;

struct Generator<'a> {
    tape: std::slice::Iter<'a, u32>,
    builder: Builder,
    shares_memory: bool,
    /// What can be used here, of all types.
    values: Vec<Value>,
    /// Local arrays that can be used here.
    locals: Vec<Value>,
    inputs: Vec<ParamId>,
    memory: Vec<ParamId>,
    scalar: ParamId,
    arguments: Vec<Argument>,
    lanes: u64,
    /// The number of `if_any` blocks around.
    pure: usize,
    /// The number of instructions that may still be asked for.
    budget: usize,
}

impl Generator<'_> {
    /// A number below `below`; 0 at the end of the tape.
    fn choose(&mut self, below: usize) -> usize {
        self.tape.next().map_or(0, |&n| n as usize % below)
    }

    fn params(&mut self) {
        self.lanes = [5, 1, 0, 7, 130][self.choose(5)];
        for dtype in [DType::U32, DType::F32, DType::I32, DType::U8] {
            let param = self.builder.param(ParamKind::In, dtype);
            let len = self.lanes as usize + self.choose(300);
            let elements = (0..len).map(|k| self.constant(dtype, k)).collect();
            self.arguments.push(Argument::Memory(elements));
            self.inputs.push(param);
        }
        for dtype in [DType::U32, DType::F32] {
            let param = self.builder.param(ParamKind::InOut, dtype);
            let len = self.lanes as usize + self.choose(9);
            self.arguments.push(Argument::Memory(vec![0; len]));
            self.memory.push(param);
        }
        self.scalar = self.builder.param(ParamKind::Scalar, DType::U32);
        self.arguments.push(Argument::Scalar(3));
    }

    fn body(mut self) -> Case {
        let first = self.builder.counter(DType::U32);
        self.values.push(first);
        self.insts(0);
        if let Some(&array) = self.locals.last() {
            let index = self.index();
            let value = self.builder.local_read(array, index, None);
            self.store(value, self.lanes as usize);
        }
        let outputs = 1 + self.choose(3);
        for _ in 0..outputs {
            let value = self.any_value();
            self.store(value, self.lanes as usize);
        }
        let mut reductions = Vec::new();
        for _ in 0..self.choose(3) {
            let op = self.op(|op| op.class() == Class::Reduce && op.combine().is_some());
            let value = self.operand(op.rule());
            self.builder.inst(op, 0, &[value], &[], vec![]);
            reductions.push(self.builder.dtype(value));
        }
        if self.choose(3) == 2 {
            reductions.extend(self.reduce_by_block());
        }
        let segments = [Segments::All, Segments::Rows, Segments::Columns][self.choose(3)];
        // Columns are of whole rows.
        let lengths: Vec<u64> = (1..=self.lanes.max(3))
            .filter(|&n| segments != Segments::Columns || self.lanes.is_multiple_of(n))
            .collect();
        let segment = lengths[self.choose(lengths.len())];
        let base = [0, 1, 1000][self.choose(3)];
        if !reductions.is_empty() {
            self.values = self.builder.start_finish(&reductions);
            let count = segments.count(self.lanes, segment) as usize;
            for value in self.values.clone() {
                let negated = self.builder.op(Op::Eq, &[value, value]);
                self.store(value, count);
                self.store(negated, count);
            }
            if segments != Segments::All {
                let number = self.builder.counter(DType::U32);
                self.store(number, count);
            }
        }
        let mut program = self.builder.finish(!reductions.is_empty());
        program.segments = segments;
        let size = Size { lanes: self.lanes, segment, base };
        Case { program, arguments: self.arguments, size }
    }

    /// A reduction of two values, the second chosen by the first. Its results' types.
    fn reduce_by_block(&mut self) -> [DType; 2] {
        let values = [self.operand(Rule::Numeric), self.any_value()];
        let types = values.map(|value| self.builder.dtype(value));
        let identity = types.map(|dtype| {
            let bits = self.constant(dtype, 0);
            self.builder.literal(dtype, bits)
        });
        let limit = self.builder.read(Op::Param, self.scalar);
        let params = self.builder.open_block(&[types[0], types[1], types[0], types[1]]);
        let op = [Op::Add, Op::Max, Op::Minimum, Op::Mul][self.choose(4)];
        let combined = self.builder.op(op, &[params[0], params[2]]);
        let less = self.builder.op(Op::Lt, &[params[0], params[2]]);
        let chosen = self.builder.op(Op::Select, &[less, params[1], params[3]]);
        let mut yields = [combined, chosen];
        if types[1] == DType::U32 {
            yields[1] = self.builder.op(Op::Min, &[chosen, limit]);
        }
        let block = self.builder.close_block(&yields);
        self.builder.inst(Op::Reduce, 0, &[values[0], values[1], identity[0], identity[1]], &[], vec![block]);
        types
    }

    fn store(&mut self, value: Value, len: usize) {
        let dtype = self.builder.dtype(value);
        let output = self.builder.param(ParamKind::Out, dtype);
        self.arguments.push(Argument::Memory(vec![0; len]));
        self.builder.store(output, value);
    }

    fn insts(&mut self, depth: usize) {
        let count = self.choose(if depth == 0 { 24 } else { 6 });
        for _ in 0..count.min(self.budget) {
            self.budget = self.budget.saturating_sub(1);
            self.inst(depth);
        }
    }

    fn inst(&mut self, depth: usize) {
        match self.choose(20) {
            0..7 => self.lane_op(),
            7 => self.read_param(),
            8 | 9 => self.gather(),
            10 => self.lookup(),
            11 | 12 if self.pure == 0 && self.shares_memory => self.effect(),
            16..20 if self.pure == 0 => self.local_op(),
            13 if depth < DEPTH && self.pure == 0 => self.run_loop(depth),
            14 if depth < DEPTH && self.choose(2) == 0 => self.branch(depth),
            14 if depth < DEPTH => self.switch(depth),
            15 if depth < DEPTH => self.if_any(depth),
            _ => {
                let dtype = TYPES[self.choose(TYPES.len())];
                let number = self.choose(40);
                let bits = self.constant(dtype, number);
                let value = self.builder.literal(dtype, bits);
                self.values.push(value);
            }
        }
    }

    fn lane_op(&mut self) {
        let op = self.op(|op| op.class() == Class::Lane && !matches!(op, Op::Bitcast | Op::CopySign));
        let value = match op.rule() {
            Rule::Cast => {
                let to = TYPES[self.choose(TYPES.len())];
                let value = self.any_value();
                self.builder.cast(to, value)
            }
            Rule::Select => {
                let mask = self.value(DType::Bool);
                let one = self.any_value();
                let other = self.value(self.builder.dtype(one));
                self.builder.op(op, &[mask, one, other])
            }
            rule => {
                let first = self.operand(rule);
                let dtype = self.builder.dtype(first);
                let mut args = vec![first];
                while args.len() < op.arity() {
                    args.push(self.value(dtype));
                }
                self.builder.op(op, &args)
            }
        };
        self.values.push(value);
    }

    fn read_param(&mut self) {
        let inputs = self.inputs.clone();
        let input = inputs[self.choose(inputs.len())];
        let value = match self.choose(4) {
            0 => self.builder.read(Op::Param, self.scalar),
            1 if self.pure == 0 && self.shares_memory => self.builder.read(Op::Load, self.memory[0]),
            _ => self.builder.read(Op::Load, input),
        };
        self.values.push(value);
    }

    fn gather(&mut self) {
        let (mut params, changing) = (self.inputs.clone(), self.memory.clone());
        if self.pure == 0 && self.shares_memory {
            params.extend(changing);
        }
        let param = params[self.choose(params.len())];
        let (index, mask) = (self.index(), self.mask());
        let value = self.builder.gather(param, index, mask);
        self.values.push(value);
    }

    fn lookup(&mut self) {
        let table = self.builder.table(DType::F32, &[0, 0x3f80_0000, 0x4000_0000, 0x4040_0000]);
        let index = self.index();
        let value = self.builder.lookup(table, index);
        self.values.push(value);
    }

    fn effect(&mut self) {
        let op = self.op(|op| op.class() == Class::Effect);
        let (index, mask) = (self.index(), self.mask());
        if op.gives_old() && op != Op::AtomicInc {
            let which = self.choose(2);
            let dtype = [DType::U32, DType::F32][which];
            let mut args: Vec<Value> = (0..op.element_operands()).map(|_| self.value(dtype)).collect();
            args.extend([index].into_iter().chain(mask));
            let param = u64::from(self.memory[which].0);
            let value = self.builder.inst(op, param, &args, &[dtype], vec![])[0];
            return self.values.push(value);
        }
        if op == Op::AtomicInc {
            let args: Vec<Value> = [index].into_iter().chain(mask).collect();
            let param = u64::from(self.memory[0].0);
            let value = self.builder.inst(op, param, &args, &[DType::U32], vec![])[0];
            return self.values.push(value);
        }
        let bits_only = op.combine().is_some_and(|combine| combine.rule() == Rule::Bits);
        let which = if bits_only { 0 } else { self.choose(2) };
        let value = self.value([DType::U32, DType::F32][which]);
        self.builder.scatter(op, self.memory[which], value, index, mask);
    }

    fn local_op(&mut self) {
        let (dtype, len) = LOCALS[self.choose(LOCALS.len())];
        let array = self.local(dtype, len);
        let (index, mask) = (self.index(), self.mask());
        if self.choose(2) == 0 {
            let value = self.builder.local_read(array, index, mask);
            self.values.push(value);
        } else {
            let value = self.value(dtype);
            let written = self.builder.local_write(array, value, index, mask);
            self.locals.push(written);
        }
    }

    /// A local array: often a new one of those that there are, else zeros.
    fn local(&mut self, dtype: DType, len: u32) -> Value {
        let kind = |&array: &Value| {
            let program = self.builder.program();
            (program.dtype(array), program.local_len(array)) == (dtype, Some(len))
        };
        let fitting: Vec<Value> = self.locals.iter().copied().filter(kind).collect();
        match self.choose(fitting.len().min(3) + 1) {
            0 if fitting.is_empty() => {
                let zeros = self.builder.local_zeros(dtype, len);
                self.locals.push(zeros);
                zeros
            }
            back => fitting[fitting.len() - back.max(1)],
        }
    }

    /// Some kinds of local arrays, for the state of a loop or the results of a branch.
    fn local_kinds(&mut self) -> Vec<(DType, u32)> {
        let count = if self.pure == 0 { self.choose(4) } else { 0 };
        (0..count).map(|_| LOCALS[self.choose(2)]).collect()
    }

    /// A loop over a counter, with further state.
    fn run_loop(&mut self, depth: usize) {
        let zero = self.builder.literal(DType::U32, 0);
        let bounds = [0, 1, 2, 3];
        let bound = bounds[self.choose(4)];
        let bound = self.builder.literal(DType::U32, bound);
        let mut inits = vec![zero];
        for _ in 0..self.choose(4) {
            let init = self.any_value();
            inits.push(init);
        }
        let scalars = inits.len();
        let kinds = self.local_kinds();
        for &(dtype, len) in &kinds {
            let init = self.local(dtype, len);
            inits.push(init);
        }
        let types: Vec<DType> = inits.iter().map(|&v| self.builder.dtype(v)).collect();
        let outside = (self.values.len(), self.locals.len());
        let state = self.builder.open_block(&types);
        self.values.extend(&state[..scalars]);
        for (&array, &(_, len)) in state[scalars..].iter().zip(&kinds) {
            self.builder.set_local(array, Some(len));
            self.locals.push(array);
        }
        self.insts(DEPTH);
        let condition = self.builder.op(Op::Lt, &[state[0], bound]);
        let condition = self.builder.close_block(&[condition]);
        self.builder.open_block(&[]);
        self.insts(depth + 1);
        let one = self.builder.literal(DType::U32, 1);
        let mut next = vec![self.builder.op(Op::Add, &[state[0], one])];
        for &dtype in &types[1..scalars] {
            let value = self.value(dtype);
            next.push(value);
        }
        for &(dtype, len) in &kinds {
            let array = self.local(dtype, len);
            next.push(array);
        }
        let body = self.builder.close_block(&next);
        self.leave(outside);
        self.region(Op::Loop, &inits, &types[..scalars], &kinds, vec![condition, body]);
    }

    fn branch(&mut self, depth: usize) {
        let condition = self.value(DType::Bool);
        let (types, kinds) = (self.result_types(), self.local_kinds());
        let blocks = vec![self.block(depth, &types, &kinds), self.block(depth, &types, &kinds)];
        self.region(Op::If, &[condition], &types, &kinds, blocks);
    }

    fn switch(&mut self, depth: usize) {
        let dtype = [DType::U32, DType::I32, DType::U8, DType::U64][self.choose(4)];
        let index = self.value(dtype);
        // Mostly of a few numbers.
        let index = match self.choose(4) {
            0 => index,
            _ => {
                let mask = self.builder.literal(dtype, 3);
                self.builder.op(Op::And, &[index, mask])
            }
        };
        let (types, kinds) = (self.result_types(), self.local_kinds());
        let count = 1 + self.choose(4);
        let blocks = (0..count).map(|_| self.block(depth, &types, &kinds)).collect();
        self.region(Op::Switch, &[index], &types, &kinds, blocks);
    }

    fn if_any(&mut self, depth: usize) {
        let mut args = vec![self.value(DType::Bool)];
        let types = self.result_types();
        for &dtype in &types {
            let fallback = self.value(dtype);
            args.push(fallback);
        }
        self.pure += 1;
        let block = self.block(depth, &types, &[]);
        self.pure -= 1;
        self.region(Op::IfAny, &args, &types, &[], vec![block]);
    }

    fn result_types(&mut self) -> Vec<DType> {
        (0..self.choose(4)).map(|_| TYPES[self.choose(TYPES.len())]).collect()
    }

    fn block(&mut self, depth: usize, types: &[DType], kinds: &[(DType, u32)]) -> Block {
        let outside = (self.values.len(), self.locals.len());
        self.builder.open_block(&[]);
        self.insts(depth + 1);
        let mut yields: Vec<Value> = types.iter().map(|&dtype| self.value(dtype)).collect();
        for &(dtype, len) in kinds {
            let array = self.local(dtype, len);
            yields.push(array);
        }
        self.leave(outside);
        self.builder.close_block(&yields)
    }

    /// Forgets what a block defined.
    fn leave(&mut self, (values, locals): (usize, usize)) {
        self.values.truncate(values);
        self.locals.truncate(locals);
    }

    /// A region whose results are scalars and then local arrays.
    fn region(
        &mut self,
        op: Op,
        args: &[Value],
        types: &[DType],
        kinds: &[(DType, u32)],
        blocks: Vec<Block>,
    ) {
        let all: Vec<DType> = types.iter().copied().chain(kinds.iter().map(|kind| kind.0)).collect();
        let results = self.builder.inst(op, 0, args, &all, blocks);
        self.values.extend(&results[..types.len()]);
        for (&array, &(_, len)) in results[types.len()..].iter().zip(kinds) {
            self.builder.set_local(array, Some(len));
            self.locals.push(array);
        }
    }

    fn op(&mut self, wanted: impl Fn(Op) -> bool) -> Op {
        let ops: Vec<Op> = ALL_OPS.iter().copied().filter(|&op| wanted(op)).collect();
        ops[self.choose(ops.len())]
    }

    /// A value of a type that the rule takes.
    fn operand(&mut self, rule: Rule) -> Value {
        let fits = |dtype: DType| match rule {
            Rule::Numeric => dtype != DType::Bool,
            Rule::Float => dtype.is_float(),
            Rule::Int | Rule::CountBits => dtype.is_int(),
            Rule::Bits => !dtype.is_float(),
            _ => true,
        };
        let types: Vec<DType> = TYPES.into_iter().filter(|&dtype| fits(dtype)).collect();
        let dtype = types[self.choose(types.len())];
        self.value(dtype)
    }

    fn any_value(&mut self) -> Value {
        let back = self.choose(self.values.len());
        self.values[self.values.len() - 1 - back]
    }

    /// A value of that type: one there is, else one converted from another.
    fn value(&mut self, dtype: DType) -> Value {
        let fitting: Vec<Value> =
            self.values.iter().copied().filter(|&v| self.builder.dtype(v) == dtype).collect();
        if fitting.is_empty() {
            let other = self.any_value();
            return self.builder.cast(dtype, other);
        }
        fitting[fitting.len() - 1 - self.choose(fitting.len())]
    }

    /// An index: often small, sometimes anything.
    fn index(&mut self) -> Value {
        let types = [DType::U32, DType::U8, DType::I32, DType::U64];
        let dtype = types[self.choose(types.len())];
        let index = self.value(dtype);
        match self.choose(3) {
            0 => index,
            1 => {
                let mask = self.builder.literal(dtype, 3);
                self.builder.op(Op::And, &[index, mask])
            }
            _ => {
                let bound = self.builder.literal(dtype, 100);
                self.builder.op(Op::Rem, &[index, bound])
            }
        }
    }

    fn mask(&mut self) -> Option<Value> {
        (self.choose(3) == 1).then(|| self.value(DType::Bool))
    }

    fn constant(&mut self, dtype: DType, number: usize) -> u64 {
        let specials = [f64::NAN, f64::INFINITY, -0.0, 0.1, -1e30, 65504.0];
        match dtype {
            DType::Bool => number as u64 % 2,
            _ if dtype.is_float() => {
                let value = specials.get(number).copied().unwrap_or(number as f64 - 20.0);
                scalar::cast(DType::F64, dtype, value.to_bits())
            }
            _ => {
                (number as u64).wrapping_mul(if number.is_multiple_of(5) { 0x9e37_79b9_7f4a_7c15 } else { 1 })
                    & dtype.mask()
            }
        }
    }
}
