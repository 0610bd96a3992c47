//! The rules of the language.
//!
//! # The rules
//! **Values.** Each is defined exactly once, before it is used, and used only where it is in scope: later in its
//! own block and in the blocks nested there; a loop's body also sees the values of the condition. The finish sees
//! none of the body's.
//!
//! **Types.** Ops of classes `Lane` and `Math` follow the op table. `counter` is u32 or u64. Reads and writes of memory
//! have the parameter's type, `lookup` the table's. Indices are integers, masks and conditions bool. The index of a
//! `lookup` has at least as many bits as the table needs. `atomic_inc` works on integers; a scatter that combines
//! takes what its combining op takes. Bits of constants that lie outside their type are zero.
//!
//! **Local arrays.** Of values that are local arrays only `local_read` and `local_write` take one, as their first operand, and
//! loops, `if`s and `switch`es, whose lists then agree in lengths too; `local_zeros` and `local_write` give one. An array has at most
//! [`MAX_LOCAL_BYTES`]. They have no place in an `if_any`.
//!
//! **Parameters.** Instructions name parameters and tables that exist. `param` reads a scalar; `load` an `in` or `inout`;
//! `load_scalar` an `in`; `gather` an `in` or `inout`; effects change an `inout`; `store` writes an `out`. Each `out` is stored
//! exactly once, at the top level of the body or of the finish. Scalars have neither `min_len` nor `spans_lanes`.
//! Tables have 2^k elements.
//!
//! **Shapes.** `loop` has two blocks: the first has the state as parameters and yields one bool; the second has no parameters
//! and yields the next state; initial values, state and results agree in number and types. `if` has one operand and
//! two blocks, `if_any` one block and a fallback for each result; these blocks have no parameters and yield
//! the results. `switch` is like `if` with 1 to [`MAX_CASES`] + 1 blocks and an integer. At most [`MAX_NESTING`] regions are nested. No other instruction has blocks. Only instructions that name
//! something, literals, and `local_zeros`, whose length it is, have an `imm`; only what has an index can be `in_bounds`.
//!
//! **Places.** Reductions stand at the top level of the body and define nothing. The body yields nothing and has no
//! parameters. There is a finish if there are reductions; its parameters are theirs in number, order and types. The
//! finish knows no lanes and no order among them: no effect, reduction, nor reading of an `inout`, and, unless there are
//! several segments, no `counter` or `load`.
//! A `reduce` has as many identities as values, and a block whose parameters are two states and that yields one; in the
//! block is nothing but ops on lanes, literals, `lookup` and `if_any`. Identities, and what the block uses from outside,
//! are defined by `literal`, `param` or `load_scalar`.
//! An `if_any` block is pure and ends: in it are no effects, no readings of an `inout`, no `store` and no `loop`.
//!
//! **Ops.** Those of class `Trace`, and `lane_count`, are not part of the kernel language.

use super::print::{Constant, Place, line_of};
use super::{
    Block, Inst, MAX_CASES, MAX_LOCAL_BYTES, MAX_NESTING, Param, ParamKind, Program, Segments, Value,
};
use crate::dtype::DType;
use crate::error::Error;
use crate::op::{Class, Op};

/// Checks a program against the rules of the language, in time linear in its size.
///
/// # Errors
/// [`Error::Verify`]: the line of the printed program, the instruction's text, and the rule that it breaks.
pub fn verify(program: &Program) -> Result<(), Error> {
    let mut verifier = Verifier {
        program,
        scope: vec![Scope::Undefined; program.values.len()],
        order: vec![Order::default(); program.values.len()],
        definitions: 0,
        enclosed: 0,
        defined: Vec::new(),
        stored: vec![false; program.params.len()],
    };
    verifier.program().map_err(|broken| Error::Verify(broken.message(program)))
}

/// A broken rule and where.
struct Broken<'a> {
    place: Place<'a>,
    rule: String,
}

impl Broken<'_> {
    fn message(&self, program: &Program) -> String {
        let line = line_of(program, self.place);
        let text = program.to_string();
        let text = line.checked_sub(1).and_then(|at| text.lines().nth(at)).unwrap_or_default();
        format!("line {line}: `{}`: {}", text.trim().trim_end_matches(" {"), self.rule)
    }
}

type Checked<'a> = Result<(), Broken<'a>>;

#[derive(Clone, Copy, PartialEq)]
enum Scope {
    Undefined,
    Visible,
    Left,
}

/// How a value was defined.
#[derive(Clone, Copy, Default)]
struct Order {
    /// Counts definitions.
    number: u32,
    /// By an instruction whose value is the same on all lanes by itself.
    is_fixed: bool,
}

/// Where a block stands.
#[derive(Clone, Copy)]
struct Context {
    in_finish: bool,
    in_if_any: bool,
    /// In the block of a `reduce`.
    in_combine: bool,
    /// The number of regions around it.
    depth: usize,
}

struct Verifier<'a> {
    program: &'a Program,
    scope: Vec<Scope>,
    order: Vec<Order>,
    definitions: u32,
    /// In the block of a `reduce`: values with lower numbers are seen only if they are fixed.
    enclosed: u32,
    /// The visible values in order of definition.
    defined: Vec<Value>,
    /// Which `out` parameters have their store.
    stored: Vec<bool>,
}

impl<'a> Verifier<'a> {
    fn program(&mut self) -> Checked<'a> {
        let program = self.program;
        self.params_and_tables()?;
        self.local_arrays()?;

        let body = &program.body;
        let top = Context { in_finish: false, in_if_any: false, in_combine: false, depth: 0 };
        ensure(body.params.is_empty() && body.yields.is_empty(), Place::End(body), || {
            "the body has no parameters and yields nothing".to_owned()
        })?;
        self.scoped(body, top)?;

        if let Some(finish) = &program.finish {
            self.finish_header(finish)?;
            self.scoped(finish, Context { in_finish: true, ..top })?;
        } else if let Some(inst) = body.insts.iter().find(|i| i.op.class() == Class::Reduce) {
            return broken(Place::Inst(inst), "a program with a reduction needs a finish".to_owned());
        }

        for (k, param) in program.params.iter().enumerate() {
            ensure(param.kind != ParamKind::Out || self.stored[k], Place::Param(k), || {
                "an `out` parameter is stored once, this one never".to_owned()
            })?;
        }
        Ok(())
    }

    fn params_and_tables(&self) -> Checked<'a> {
        for (k, param) in self.program.params.iter().enumerate() {
            let no_memory = param.kind == ParamKind::Scalar;
            ensure(!no_memory || param.min_len == 0 && !param.spans_lanes, Place::Param(k), || {
                "a scalar has neither `min_len` nor `spans_lanes`".to_owned()
            })?;
        }
        for (k, table) in self.program.tables.iter().enumerate() {
            ensure(table.bits.len().is_power_of_two(), Place::Table(k), || {
                format!("the length of a table is a power of two, not {}", table.bits.len())
            })?;
            if let Some(&bits) = table.bits.iter().find(|&&b| b & !table.dtype.mask() != 0) {
                return broken(Place::Table(k), outside(table.dtype, bits));
            }
        }
        Ok(())
    }

    fn local_arrays(&self) -> Checked<'a> {
        let program = self.program;
        let bytes = |value: &Value, len: u32| self.dtype(*value).map_or(0, |t| t.size() * len as usize);
        let too_large = |(value, len): &(&Value, &u32)| bytes(value, **len) > MAX_LOCAL_BYTES;
        let Some((value, len)) = program.locals.iter().filter(too_large).min() else { return Ok(()) };
        let message = format!(
            "{value} is an array of {len} elements a lane, {} bytes; at most {MAX_LOCAL_BYTES} are possible",
            bytes(value, *len)
        );
        broken(Place::End(&program.body), message)
    }

    fn finish_header(&self, finish: &'a Block) -> Checked<'a> {
        ensure(finish.yields.is_empty(), Place::End(finish), || "the finish yields nothing".to_owned())?;
        let reduced = self.program.reduce_insts().flat_map(Inst::reduced);
        let wanted: Vec<Option<DType>> = reduced.map(|&value| self.dtype(value)).collect();
        let given: Vec<Option<DType>> = finish
            .params
            .iter()
            .map(|&p| self.dtype(p).filter(|_| self.program.local_len(p).is_none()))
            .collect();
        ensure(wanted == given, Place::Finish, || {
            let names = |types: &[Option<DType>]| {
                types.iter().map(|t| t.map_or("_", DType::name)).collect::<Vec<_>>().join(", ")
            };
            format!("the reductions give ({}), the finish takes ({})", names(&wanted), names(&given))
        })
    }

    /// A block whose values are not visible after it.
    fn scoped(&mut self, block: &'a Block, context: Context) -> Checked<'a> {
        let outer = self.defined.len();
        self.block(block, context)?;
        self.leave(outer);
        Ok(())
    }

    fn leave(&mut self, outer: usize) {
        for value in self.defined.drain(outer..) {
            self.scope[value.index()] = Scope::Left;
        }
    }

    /// A block; its values stay visible.
    fn block(&mut self, block: &'a Block, context: Context) -> Checked<'a> {
        let start = block.insts.first().map_or(Place::End(block), Place::Inst);
        self.define(&block.params, start)?;
        for inst in &block.insts {
            self.inst(inst, context)?;
        }
        self.uses(&block.yields, Place::End(block))
    }

    fn inst(&mut self, inst: &'a Inst, context: Context) -> Checked<'a> {
        let here = Place::Inst(inst);
        self.uses(&inst.args, here)?;
        let rule = self.place(inst, context).and_then(|()| self.form(inst)).and_then(|()| self.types(inst));
        if let Err(rule) = rule {
            return broken(here, rule);
        }
        self.blocks(inst, context)?;
        if inst.op == Op::Store {
            let stored = &mut self.stored[inst.param().index()];
            ensure(!*stored, here, || format!("{} is stored a second time", inst.param()))?;
            *stored = true;
        }
        self.define(&inst.results, here)?;
        if matches!(inst.op, Op::Literal | Op::Param | Op::LoadScalar) {
            self.order[inst.result().index()].is_fixed = true;
        }
        Ok(())
    }

    /// Where ops may stand.
    fn place(&self, inst: &Inst, context: Context) -> Result<(), String> {
        let (op, class) = (inst.op, inst.op.class());
        let fail = |why: &str| Err(format!("`{}` {why}", op.name()));
        if matches!(class, Class::Trace | Class::Across) || op == Op::LaneCount {
            return fail("is not part of the kernel language");
        }
        let reads_inout = matches!(op, Op::Load | Op::Gather)
            && self.param(inst).is_some_and(|p| p.kind == ParamKind::InOut);
        if class == Class::Reduce && (context.depth > 0 || context.in_finish) {
            return fail("stands only at the top level of the body");
        }
        if op == Op::Store && context.depth > 0 {
            return fail("stands only at the top level of the body or the finish");
        }
        let by_lane = matches!(op, Op::Counter | Op::Load) && self.program.segments == Segments::All;
        if context.in_finish && (by_lane || class == Class::Effect || reads_inout) {
            return fail(if reads_inout {
                "of an `inout` parameter has no meaning in the finish"
            } else {
                "has no meaning in the finish, which knows no lanes"
            });
        }
        if context.in_if_any && class == Class::Local {
            return fail("cannot stand in an `if_any`");
        }
        if context.in_if_any && (class == Class::Effect || op == Op::Loop || reads_inout) {
            return fail("cannot stand in an `if_any`, whose block is pure and may run on any lane");
        }
        let combines =
            matches!(class, Class::Lane | Class::Math) || matches!(op, Op::Literal | Op::Lookup | Op::IfAny);
        if context.in_combine && !combines {
            return fail(
                "cannot stand in the block of a `reduce`, which combines values and does nothing else",
            );
        }
        Ok(())
    }

    /// Numbers of operands, results and blocks, and the parts that only some ops have.
    fn form(&self, inst: &Inst) -> Result<(), String> {
        let (op, class) = (inst.op, inst.op.class());
        let (operands, results) = match op {
            Op::Loop => (inst.args.len()..=inst.args.len(), inst.args.len()),
            Op::If | Op::Switch => (1..=1, inst.results.len()),
            Op::IfAny => (inst.results.len() + 1..=inst.results.len() + 1, inst.results.len()),
            Op::Store => (1..=1, 0),
            Op::Gather => (1..=2, 1),
            Op::LocalRead => (2..=3, 1),
            Op::LocalWrite => (3..=4, 1),
            _ if class == Class::Effect => {
                (op.element_operands() + 1..=op.element_operands() + 2, usize::from(op.gives_old()))
            }
            Op::Reduce => (inst.args.len()..=inst.args.len(), 0),
            _ if class == Class::Reduce => (1..=1, 0),
            _ => (op.arity()..=op.arity(), 1),
        };
        let blocks = match op {
            Op::Loop | Op::If => 2,
            Op::IfAny | Op::Reduce => 1,
            Op::Switch => inst.blocks.len().clamp(1, MAX_CASES + 1),
            _ => 0,
        };
        for (what, wanted, got) in [
            ("operand", operands, inst.args.len()),
            ("result", results..=results, inst.results.len()),
            ("block", blocks..=blocks, inst.blocks.len()),
        ] {
            if !wanted.contains(&got) {
                let (low, high) = wanted.into_inner();
                let wanted = if low == high { low.to_string() } else { format!("{low} or {high}") };
                let plural = if high == 1 { "" } else { "s" };
                return Err(format!("`{}` has {wanted} {what}{plural}, not {got}", op.name()));
            }
        }
        let indexed = matches!(class, Class::Read | Class::Effect);
        if inst.in_bounds && !indexed && !matches!(op, Op::LocalRead | Op::LocalWrite) {
            return Err(format!("`{}` has no index to be `in_bounds`", op.name()));
        }
        let names_param = indexed || matches!(op, Op::Param | Op::Load | Op::LoadScalar | Op::Store);
        if names_param && self.param(inst).is_none() {
            return Err(format!("there is no parameter {}", inst.imm));
        }
        if op == Op::Lookup && inst.imm >= self.program.tables.len() as u64 {
            return Err(format!("there is no table {}", inst.imm));
        }
        let names = names_param || matches!(op, Op::Lookup | Op::Literal | Op::LocalZeros);
        if !names && inst.imm != 0 && inst.float_mode().is_none() {
            return Err(format!("`{}` names nothing, but has the number {}", op.name(), inst.imm));
        }
        Ok(())
    }

    /// Types and kinds of parameters, after [`form`](Self::form) said that all parts are there.
    fn types(&self, inst: &Inst) -> Result<(), String> {
        let op = inst.op;
        if let Some(undefined) = inst.results.iter().find(|&&r| self.dtype(r).is_none()) {
            return Err(format!("{undefined} has no type"));
        }
        self.local_types(inst)?;
        let args: smallvec::SmallVec<[DType; 4]> = inst.args.iter().map(|&a| self.program.dtype(a)).collect();
        let result = inst.results.first().map(|&r| self.program.dtype(r));
        match op {
            Op::Literal => {
                let dtype = self.program.dtype(inst.result());
                if inst.imm & !dtype.mask() != 0 {
                    return Err(outside(dtype, inst.imm));
                }
            }
            Op::Counter if !matches!(result, Some(DType::U32 | DType::U64)) => {
                return Err("`counter` is u32 or u64".to_owned());
            }
            Op::Param => self.kind(inst, &[ParamKind::Scalar], result)?,
            Op::Load => self.kind(inst, &[ParamKind::In, ParamKind::InOut], result)?,
            Op::LoadScalar => self.kind(inst, &[ParamKind::In], result)?,
            Op::Store => self.kind(inst, &[ParamKind::Out], Some(args[0]))?,
            Op::Gather => self.kind(inst, &[ParamKind::In, ParamKind::InOut], result)?,
            Op::AtomicInc => {
                self.kind(inst, &[ParamKind::InOut], result)?;
                want(result.is_some_and(DType::is_int), || "`atomic_inc` works on integers".to_owned())?;
            }
            Op::Lookup => {
                let table = &self.program.tables[inst.table().index()];
                want(result == Some(table.dtype), || {
                    format!("{} has {} elements", inst.table(), table.dtype)
                })?;
                let bits = table.bits.len().trailing_zeros();
                want(args[0].is_int() && args[0].bits() >= bits, || {
                    format!("the index is an integer of at least {bits} bits, not {}", args[0])
                })?;
            }
            Op::Switch => {
                want(args[0].is_int(), || format!("the number of a block is an integer, not {}", args[0]))?;
            }
            Op::If | Op::IfAny => {
                want(args[0] == DType::Bool, || format!("the condition is bool, not {}", args[0]))?;
            }
            _ => {}
        }
        match op.class() {
            Class::Lane | Class::Math => {
                let wanted = self.program.dtype(inst.result());
                let got = op.result_type(&args, wanted)?;
                want(got == wanted, || format!("`{}` of these operands is {got}, not {wanted}", op.name()))?;
            }
            Class::Reduce if op == Op::Reduce => {
                let fixed = |value: &&Value| !self.order[value.index()].is_fixed;
                if let Some(varying) = inst.identity().iter().find(fixed) {
                    return Err(varying_in_combine(*varying));
                }
            }
            Class::Reduce => {
                op.result_type(&args, args[0])?;
            }
            Class::Effect if op != Op::AtomicInc => {
                self.kind(inst, &[ParamKind::InOut], Some(args[0]))?;
                for got in args[1..op.element_operands()].iter().copied().chain(result) {
                    let message = || format!("`{}` of {} has elements of {got}", op.name(), args[0]);
                    want(got == args[0], message)?;
                }
                if let Some(combine) = op.combine() {
                    combine.result_type(&[args[0], args[0]], args[0])?;
                }
            }
            _ => {}
        }
        if matches!(op.class(), Class::Read | Class::Effect) || matches!(op, Op::LocalRead | Op::LocalWrite) {
            let index = self.program.dtype(inst.index());
            want(index.is_int(), || format!("the index is an integer, not {index}"))?;
            let mask = inst.mask().map_or(DType::Bool, |m| self.program.dtype(m));
            want(mask == DType::Bool, || format!("the mask is bool, not {mask}"))?;
        }
        Ok(())
    }

    /// Local arrays stand where they may, and those that an op reads and gives agree.
    fn local_types(&self, inst: &Inst) -> Result<(), String> {
        let (op, len) = (inst.op, |value: Value| self.program.local_len(value));
        if self.program.locals.is_empty() && op.class() != Class::Local || matches!(op, Op::Loop) {
            return Ok(());
        }
        let array = matches!(op, Op::LocalRead | Op::LocalWrite).then(|| inst.args[0]);
        if let Some(array) = array {
            want(len(array).is_some(), || format!("{array} is no local array"))?;
        }
        let misplaced = inst.args.iter().skip(usize::from(array.is_some())).find(|&&arg| len(arg).is_some());
        if let Some(misplaced) = misplaced {
            return Err(format!("`{}` takes no local array, which {misplaced} is", op.name()));
        }
        let result = match op {
            Op::If | Op::Switch => return Ok(()),
            _ if op.class() == Class::Local => Some(inst.result()),
            _ => inst.results.iter().copied().find(|&result| len(result).is_some()),
        };
        let Some(result) = result else { return Ok(()) };
        let element = |value: Value| (self.program.dtype(value), None);
        let shape = |value: Value| (self.program.dtype(value), len(value));
        let name = |(dtype, len): (DType, Option<u32>)| match len {
            Some(len) => format!("{dtype}[{len}]"),
            None => dtype.to_string(),
        };
        let wanted = match op {
            Op::LocalZeros => (self.program.dtype(result), u32::try_from(inst.imm).ok()),
            Op::LocalRead => element(inst.args[0]),
            Op::LocalWrite => {
                let (array, value) = (inst.args[0], inst.args[1]);
                want(element(value) == element(array), || {
                    format!("{value} is {}, the elements are {}", name(element(value)), name(element(array)))
                })?;
                shape(array)
            }
            _ => element(result),
        };
        want(shape(result) == wanted, || {
            format!("`{}` gives {}, not {}", op.name(), name(wanted), name(shape(result)))
        })
    }

    /// The parameter is of one of these kinds and has this element type.
    fn kind(&self, inst: &Inst, kinds: &[ParamKind], dtype: Option<DType>) -> Result<(), String> {
        let (id, param) = (inst.param(), self.program.params[inst.param().index()]);
        want(kinds.contains(&param.kind), || {
            let kinds: Vec<&str> = kinds.iter().map(|k| k.name()).collect();
            let kinds = kinds.join("` or `");
            format!(
                "`{}` takes a parameter that is `{kinds}`, {id} is `{}`",
                inst.op.name(),
                param.kind.name()
            )
        })?;
        want(dtype == Some(param.dtype), || {
            format!("{id} has elements of type {}, not {}", param.dtype, dtype.map_or("_", DType::name))
        })
    }

    /// The nested blocks.
    fn blocks(&mut self, inst: &'a Inst, context: Context) -> Checked<'a> {
        if inst.blocks.is_empty() {
            return Ok(());
        }
        ensure(context.depth < MAX_NESTING, Place::Inst(inst), || {
            format!("regions are nested deeper than {MAX_NESTING}")
        })?;
        let nested = Context { depth: context.depth + 1, ..context };
        match &inst.blocks[..] {
            [condition, body] if inst.op == Op::Loop => {
                self.agree("state", &condition.params, "initial values", &inst.args, Place::Inst(inst))?;
                self.agree("results", &inst.results, "state", &condition.params, Place::Inst(inst))?;
                let outer = self.defined.len();
                self.block(condition, nested)?;
                ensure(
                    matches!(condition.yields[..], [c] if self.dtype(c) == Some(DType::Bool) && self.program.local_len(c).is_none()),
                    Place::End(condition),
                    || "the condition of a loop yields one bool".to_owned(),
                )?;
                self.no_params(body)?;
                self.scoped(body, nested)?;
                self.agree("next state", &body.yields, "state", &condition.params, Place::End(body))?;
                self.leave(outer);
                Ok(())
            }
            [combine] if inst.op == Op::Reduce => {
                let states = inst.reduced().iter().chain(inst.identity()).copied();
                let states: Vec<Value> = states.collect();
                self.agree("identities", inst.identity(), "values", inst.reduced(), Place::Inst(inst))?;
                self.agree("two states", &combine.params, "operands", &states, Place::Inst(inst))?;
                self.enclosed = self.definitions;
                self.scoped(combine, Context { in_combine: true, ..nested })?;
                self.enclosed = 0;
                self.agree("combined values", &combine.yields, "values", inst.reduced(), Place::End(combine))
            }
            blocks => {
                let in_if_any = context.in_if_any || inst.op == Op::IfAny;
                for block in blocks {
                    self.no_params(block)?;
                    self.scoped(block, Context { in_if_any, ..nested })?;
                    self.agree("values", &block.yields, "results", &inst.results, Place::End(block))?;
                }
                if inst.op == Op::IfAny {
                    self.agree("fallbacks", &inst.args[1..], "results", &inst.results, Place::Inst(inst))?;
                }
                Ok(())
            }
        }
    }

    fn no_params(&self, block: &'a Block) -> Checked<'a> {
        let start = block.insts.first().map_or(Place::End(block), Place::Inst);
        ensure(block.params.is_empty(), start, || "this block has no parameters".to_owned())
    }

    /// Two lists have the same length and types.
    fn agree(&self, a_name: &str, a: &[Value], b_name: &str, b: &[Value], place: Place<'a>) -> Checked<'a> {
        ensure(a.len() == b.len(), place, || {
            format!("the {a_name} are {} in number, the {b_name} {}", a.len(), b.len())
        })?;
        for (&a, &b) in a.iter().zip(b) {
            let shape = |value: Value| (self.dtype(value), self.program.local_len(value));
            ensure(shape(a) == shape(b), place, || {
                let name = |v| self.dtype(v).map_or("_", DType::name).to_owned();
                let name = |v| self.program.local_len(v).map_or(name(v), |len| format!("{}[{len}]", name(v)));
                format!("{a} of the {a_name} is {}, {b} of the {b_name} is {}", name(a), name(b))
            })?;
        }
        Ok(())
    }

    fn uses(&self, values: &[Value], place: Place<'a>) -> Checked<'a> {
        for &value in values {
            let scope = self.scope.get(value.index()).copied().unwrap_or(Scope::Undefined);
            ensure(scope == Scope::Visible, place, || match scope {
                Scope::Left => format!("{value} is out of scope"),
                _ => format!("{value} is used before it is defined"),
            })?;
            let Order { number, is_fixed } = self.order[value.index()];
            ensure(number >= self.enclosed || is_fixed, place, || varying_in_combine(value))?;
        }
        Ok(())
    }

    fn define(&mut self, values: &[Value], place: Place<'a>) -> Checked<'a> {
        for &value in values {
            let Some(scope) = self.scope.get_mut(value.index()) else {
                return broken(place, format!("{value} has no type"));
            };
            ensure(*scope == Scope::Undefined, place, || format!("{value} is defined a second time"))?;
            *scope = Scope::Visible;
            self.order[value.index()].number = self.definitions;
            self.definitions += 1;
            self.defined.push(value);
        }
        Ok(())
    }

    fn dtype(&self, value: Value) -> Option<DType> {
        self.program.values.get(value.index()).copied()
    }

    fn param(&self, inst: &Inst) -> Option<&Param> {
        usize::try_from(inst.imm).ok().and_then(|at| self.program.params.get(at))
    }
}

fn varying_in_combine(value: Value) -> String {
    format!("{value} is used to combine states, but is no `literal`, `param` or `load_scalar`")
}

fn outside(dtype: DType, bits: u64) -> String {
    format!("{} has bits outside {dtype}", Constant(dtype, bits))
}

fn want(condition: bool, rule: impl FnOnce() -> String) -> Result<(), String> {
    if condition { Ok(()) } else { Err(rule()) }
}

fn ensure<'a>(condition: bool, place: Place<'a>, rule: impl FnOnce() -> String) -> Checked<'a> {
    if condition { Ok(()) } else { broken(place, rule()) }
}

fn broken<'a>(place: Place<'a>, rule: String) -> Checked<'a> {
    Err(Broken { place, rule })
}

/// Rules whose breach has no text form; the others are tested by file cases.
#[cfg(test)]
mod tests {

    use super::*;
    use crate::ir::{Builder, ParamId, Table};

    #[track_caller]
    fn check(program: &Program, rule: &str) {
        let error = verify(program).expect_err("a broken rule").to_string();
        assert!(error.contains(rule), "{error}");
    }

    /// A program whose body holds what `build` makes.
    fn with<T>(build: impl FnOnce(&mut Builder) -> T) -> Program {
        let mut builder = Builder::new();
        build(&mut builder);
        builder.finish(false)
    }

    #[test]
    fn blocks_are_counted() {
        for (op, blocks, rule) in [
            (Op::If, 1, "`if` has 2 blocks, not 1"),
            (Op::Switch, 0, "`switch` has 1 block, not 0"),
            (Op::Loop, 0, "`loop` has 2 blocks, not 0"),
            (Op::Loop, 3, "`loop` has 2 blocks, not 3"),
            (Op::IfAny, 2, "`if_any` has 1 block, not 2"),
            (Op::Reduce, 0, "`reduce` has 1 block, not 0"),
            (Op::Reduce, 2, "`reduce` has 1 block, not 2"),
            (Op::Not, 1, "`not` has 0 blocks, not 1"),
        ] {
            let program = with(|b| {
                let condition = b.literal(DType::Bool, 1);
                let args: &[Value] = if op == Op::Loop { &[] } else { &[condition] };
                let results: &[DType] = if op == Op::Not { &[DType::Bool] } else { &[] };
                b.inst(op, 0, args, results, vec![Block::default(); blocks]);
            });
            check(&program, rule);
        }
    }

    #[test]
    fn loops_agree_in_number() {
        let program = with(|b| {
            let value = b.literal(DType::Bool, 1);
            b.open_block(&[]);
            let condition = b.close_block(&[value]);
            b.inst(Op::Loop, 0, &[value], &[DType::Bool], vec![condition, Block::default()]);
        });
        check(&program, "the state are 0 in number, the initial values 1");
    }

    #[test]
    fn values_have_types() {
        let mut program = with(|b| b.counter(DType::U32));
        program.values.clear();
        check(&program, "line 2: `v0: _ = counter`: v0 has no type");
        program.values = vec![DType::U32];
        program.body.insts[0].op = Op::Neg;
        program.body.insts[0].args = [Value(9)].into();
        check(&program, "v9 is used before it is defined");
    }

    #[test]
    fn only_what_names_something_has_a_number() {
        let mut program = with(|b| b.counter(DType::U32));
        program.body.insts[0].imm = 3;
        check(&program, "`counter` names nothing, but has the number 3");
        let program = with(|b| b.inst(Op::Param, 1 << 32, &[], &[DType::U32], vec![]));
        check(&program, "there is no parameter 4294967296");
        let mut program = with(|b| {
            let index = b.literal(DType::U32, 0);
            b.inst(Op::Lookup, 1 << 32, &[index], &[DType::U32], vec![]);
        });
        program.tables.push(Table { dtype: DType::U32, bits: vec![0] });
        check(&program, "there is no table 4294967296");
    }

    #[test]
    fn scalars_have_no_length() {
        let mut program = with(|b| b.param(ParamKind::Scalar, DType::U32));
        assert!(verify(&program).is_ok());
        program.params[ParamId(0).index()].min_len = 1;
        check(&program, "line 1: `param p0: scalar u32 min_len 1`");
    }
}
