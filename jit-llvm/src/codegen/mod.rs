//! From a program to an LLVM module with a function `body` and perhaps a `finish` and a `fold`.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`frame`] | the two functions: arguments, the loop over lanes, its masked tail |
//! | [`uniform`] | which values are the same on all lanes, and so scalar code |
//! | [`emit`] | the vocabulary: LLVM instructions on scalars and vectors alike |
//! | [`lane`], [`cast`], [`remainder`] | templates of the pure ops |
//! | [`memory`], [`atomic`] | loads and stores by lane and at indices, tables, read-modify-write |
//! | [`local`] | arrays that each lane has for itself |
//! | [`row`] | accesses at indices that count with the lanes |
//! | [`control`] | loops and branches by lane mask |
//! | [`switch`] | switches: a jump for all lanes with one number |
//! | [`reduction`] | accumulators and their folding |
//! | [`columns`] | the rows of a strip of columns, for reductions of columns |

mod atomic;
mod cast;
mod columns;
mod control;
mod emit;
mod frame;
mod lane;
mod local;
mod memory;
mod reduction;
mod remainder;
mod row;
mod switch;
mod uniform;

use std::collections::HashMap;
use std::rc::Rc;

pub(crate) use columns::{STRIP, Strip};
use emit::{Emit, Form, Val};
pub(crate) use frame::{ALONE, BODY, COPIED, FINISH, FOLD, STREAMS, may_stream};
use inkwell::context::Context;
use inkwell::module::Module;
use inkwell::values::{GlobalValue, IntValue, PointerValue};
use jit_core::dtype::DType;
use jit_core::error::Error;
use jit_core::ir::{Block, Inst, ParamId, ParamKind, Places, Program, TableId, Value};
use jit_core::op::{Class, Op};
use row::Step;

use crate::target::Target;

/// The functions of a program in a module of that context.
pub(crate) fn build_module<'c>(
    context: &'c Context,
    program: &Program,
    target: &Target,
    width: u32,
) -> Result<Rc<Module<'c>>, Error> {
    let module = Rc::new(context.create_module("kernel"));
    let width = lanes_of_a_vector(program, target, width);
    let target = Rc::new(target.clone());
    frame::body(context, &module, &target, width, program)?;
    if let Some(finish) = &program.finish {
        frame::finish(context, &module, &target, width, program, finish)?;
    }
    if program.body.insts.iter().any(|inst| inst.op == Op::Reduce) {
        frame::fold(context, &module, &target, width, program)?;
    }
    Ok(module)
}

/// Programs of small elements take more lanes at a time, so that their vectors are as long as those of others. Accesses
/// at indices have vectors of addresses, which are long enough; and tails need masks for small elements.
fn lanes_of_a_vector(program: &Program, target: &Target, width: u32) -> u32 {
    let computes_wider = |inst: &Inst| {
        let f16 = |v: &Value| program.dtype(*v) == DType::F16;
        matches!(inst.op.class(), Class::Lane | Class::Reduce) && inst.args.iter().any(f16)
    };
    fn any(block: &Block, test: &impl Fn(&Inst) -> bool) -> bool {
        block.insts.iter().any(|inst| test(inst) || inst.blocks.iter().any(|nested| any(nested, test)))
    }
    let indexed = |inst: &Inst| {
        matches!(inst.op.class(), Class::Read | Class::Effect | Class::Local) || inst.op == Op::Lookup
    };
    let largest = program.values.iter().map(|t| t.size() as u32).max().unwrap_or(4);
    if largest >= 4 || !target.masks_bytes || any(&program.body, &|i| indexed(i) || computes_wider(i)) {
        return width;
    }
    width * 4 / largest
}

/// A function under construction.
struct Gen<'c, 'p> {
    program: &'p Program,
    /// Where instructions go.
    e: Emit<'c>,
    /// The end of the function's entry: what all lanes share and no instruction of the loop changes.
    entry: Emit<'c>,
    forms: Vec<Form>,
    /// How values change from lane to lane; of a finish nothing is known.
    steps: Vec<Step>,
    /// In the loop over the few lanes that another loop left.
    remainder: bool,
    values: Vec<Option<Val<'c>>>,
    /// Vectors of uniform values of the entry, made when first asked for.
    splats: HashMap<Value, Val<'c>>,
    /// Values computed in the entry.
    hoisted: Vec<bool>,
    args: Vec<Argument<'c>>,
    bounds: HashMap<(u32, memory::Bound), Val<'c>>,
    tables: HashMap<TableId, GlobalValue<'c>>,
    /// Whether full vectors are stored past the caches. Only a body asks.
    streams: Option<IntValue<'c>>,
    /// Whether no other thread runs lanes. Only a body with atomic accesses asks.
    alone: Option<IntValue<'c>>,
    /// Whether no other thread has the memory of the parameters `copied`.
    unshared: Option<IntValue<'c>>,
    copied: Vec<ParamId>,
    lanes: Lanes<'c>,
    /// Where local arrays are stored, and the memory of each slot.
    places: Places,
    slots: Vec<PointerValue<'c>>,
    /// Accumulators, by slot.
    accumulators: Vec<PointerValue<'c>>,
    /// Which of them lanes have.
    placement: reduction::Placement<'c>,
    /// Where a vector of lanes has its accumulators at hand: one for each slot.
    registers: Option<Vec<Val<'c>>>,
    /// What masked-off scalar loads read: zeros.
    zeros: Option<PointerValue<'c>>,
    /// What masked-off lanes write where each has a store of its own.
    sink: Option<PointerValue<'c>>,
}

/// A parameter's argument.
#[derive(Clone, Copy)]
enum Argument<'c> {
    Scalar(Val<'c>),
    Memory {
        base: PointerValue<'c>,
        /// In elements, as i64.
        len: Val<'c>,
    },
}

/// The lanes that instructions run for.
#[derive(Clone, Copy)]
struct Lanes<'c> {
    /// The first one's index within the launch, as i64.
    first: Val<'c>,
    /// The global index of the launch's lane 0, as i64.
    base: Val<'c>,
    /// Those that exist; absent if all do.
    existing: Option<Val<'c>>,
    /// Those that take part here; absent if all do. In a finish always absent: control flow there is scalar.
    active: Option<Val<'c>>,
    /// Whether their stores go past the caches, where any may: all of them exist then.
    past_caches: Option<IntValue<'c>>,
    /// The form of a mask: vectors in a body, one lane in a finish.
    form: Form,
}

impl<'c> Gen<'c, '_> {
    fn block(&mut self, block: &Block) -> Result<(), Error> {
        block.insts.iter().try_for_each(|inst| self.inst(inst))
    }

    fn inst(&mut self, inst: &Inst) -> Result<(), Error> {
        if inst.results.first().is_some_and(|r| self.hoisted[r.index()]) {
            return Ok(());
        }
        let value = match inst.op {
            Op::Literal => self.e.const_bits(self.program.dtype(inst.result()), inst.imm, Form::Uniform),
            Op::Counter => self.counter(self.program.dtype(inst.result())),
            Op::Param => self.scalar_argument(inst.param()),
            Op::Load => self.load(inst.param()),
            Op::LoadScalar => self.load_scalar(&self.e, inst.param()),
            Op::Store => {
                self.store(inst.param(), inst.args[0]);
                return Ok(());
            }
            Op::Lookup => self.lookup(inst),
            Op::Gather => self.gather(inst),
            Op::Scatter => {
                self.scatter(inst);
                return Ok(());
            }
            Op::AtomicInc => self.atomic_inc(inst)?,
            Op::Exchange | Op::CompareExchange => self.exchange(inst)?,
            Op::LocalZeros => return Ok(()),
            Op::LocalRead => self.local_read(inst),
            Op::LocalWrite => {
                self.local_write(inst);
                return Ok(());
            }
            Op::Loop => return self.run_loop(inst),
            Op::If => return self.run_if(inst),
            Op::Switch => return self.run_switch(inst),
            Op::IfAny => return self.run_if_any(inst),
            op if op.class() == Class::Effect => return self.combining_scatter(inst),
            op if op.class() == Class::Lane => self.lane_op(inst)?,
            op => return Err(unsupported(op, self.type_for_messages(inst))),
        };
        self.set(inst.result(), value);
        Ok(())
    }

    fn lane_op(&self, inst: &Inst) -> Result<Val<'c>, Error> {
        let form = self.forms[inst.result().index()];
        let (ty, out) = self.lane_types(inst);
        let args: Vec<_> = inst.args.iter().map(|&a| self.e.shaped(self.get(a), form)).collect();
        lane::lane_op(&self.e, inst.op, ty, out, &args)
    }

    /// Computes in the entry what is pure and the same on all lanes, so that the loop over lanes does not repeat it.
    fn hoist(&mut self, block: &Block) -> Result<(), Error> {
        for inst in &block.insts {
            // A float remainder needs blocks of its own, which the entry has not.
            let plain = inst.op.class() == Class::Lane && inst.op != Op::Rem;
            let constant = |p: ParamId| self.program.params[p.index()].kind == ParamKind::In;
            let pure = match inst.op {
                Op::Literal | Op::Param => true,
                Op::LoadScalar => constant(inst.param()),
                _ => plain,
            };
            let [result] = inst.results[..] else { continue };
            if !pure || !inst.args.iter().all(|a| self.hoisted[a.index()]) {
                continue;
            }
            let value = match inst.op {
                Op::Literal => self.entry.const_bits(self.program.dtype(result), inst.imm, Form::Uniform),
                Op::Param => self.scalar_argument(inst.param()),
                Op::LoadScalar => self.load_scalar(&self.entry, inst.param()),
                _ => {
                    let (ty, out) = self.lane_types(inst);
                    let args: Vec<_> = inst.args.iter().map(|&a| self.get(a)).collect();
                    lane::lane_op(&self.entry, inst.op, ty, out, &args)?
                }
            };
            self.values[result.index()] = Some(value);
            self.hoisted[result.index()] = true;
        }
        Ok(())
    }

    /// The type of the operands (of `select`: of what it chooses from) and of the result.
    fn lane_types(&self, inst: &Inst) -> (DType, DType) {
        let last = *inst.args.last().expect("an op on lanes has operands");
        (self.program.dtype(last), self.program.dtype(inst.result()))
    }

    fn counter(&self, dtype: DType) -> Val<'c> {
        let first = self.e.add(self.lanes.base, self.lanes.first);
        let first = self.e.narrow(first, dtype.bits());
        match self.lanes.form {
            Form::Uniform => first,
            Form::Varying => self.e.add(self.e.splat(first), self.e.iota(dtype.bits())),
        }
    }

    fn set(&mut self, value: Value, val: Val<'c>) {
        self.values[value.index()] = Some(self.e.shaped(val, self.forms[value.index()]));
    }

    fn get(&self, value: Value) -> Val<'c> {
        self.values[value.index()].expect("a value is defined before it is used")
    }

    /// The value with an element per lane, or in a finish as it is.
    fn lanes_of(&mut self, value: Value) -> Val<'c> {
        let val = self.get(value);
        if self.lanes.form == Form::Uniform {
            return val;
        }
        if !self.hoisted[value.index()] {
            return self.e.splat(val);
        }
        let entry = &self.entry;
        *self.splats.entry(value).or_insert_with(|| entry.splat(val))
    }

    /// Both masks; absent stands for all lanes.
    fn both(&self, a: Option<Val<'c>>, b: Option<Val<'c>>) -> Option<Val<'c>> {
        match (a, b) {
            (Some(a), Some(b)) => Some(self.e.and(a, b)),
            (a, b) => a.or(b),
        }
    }

    /// A mask that is there.
    fn mask_or_all(&self, mask: Option<Val<'c>>) -> Val<'c> {
        mask.unwrap_or_else(|| self.e.const_int(1, 1, self.lanes.form))
    }

    fn type_for_messages(&self, inst: &Inst) -> DType {
        let value = inst.results.first().or(inst.args.first());
        value.map_or(DType::Bool, |&v| self.program.dtype(v))
    }
}

fn unsupported(op: Op, dtype: DType) -> Error {
    Error::Unsupported { op: op.name(), dtype, backend: "cpu" }
}
