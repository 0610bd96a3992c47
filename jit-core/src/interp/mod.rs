//! The reference interpreter: slow, obvious, a full backend.
//!
//! It walks the program once per lane, one lane after the other, with [`scalar::evaluate`] for every op. It has
//! three modes ([`Mode`]): the lowered program (what code generators must equal bit for bit), the program as
//! traced with only its mathematics lowered (what the passes must equal), and the program with mathematics
//! done by the host's f64 library (against which accuracy is measured, never bits).

mod builtins;
mod local;
mod memory;
mod reduction;
#[cfg(feature = "seeded-bugs")]
mod seeded;

use std::rc::Rc;
use std::sync::Arc;

use memory::Memory;
use rustc_hash::{FxHashMap, FxHashSet};
#[cfg(feature = "seeded-bugs")]
pub use seeded::{ALL_SEEDED_BUGS, SeededBug};

use crate::backend::{
    Allocation, Backend, Caps, CompiledKernel, DeviceKind, Launch, PassLevel, allocate_host,
};
use crate::builtin::Builtin;
use crate::dtype::DType;
use crate::error::Error;
use crate::ir::{Block, Inst, Program, Value};
use crate::op::{Class, Op, scalar};

/// What the interpreter is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// Runs fused programs after all passes, as a code generator gets them.
    #[default]
    Lowered,
    /// Runs each node of an unsimplified trace as a kernel of its own, mathematics lowered op by op.
    NodeByNode,
    /// Like `NodeByNode`, with mathematical functions by the host's library in f64.
    Oracle,
}

/// The interpreter as a backend.
pub struct Interpreter {
    caps: Caps,
    #[cfg(feature = "seeded-bugs")]
    bug: Option<SeededBug>,
}

impl Interpreter {
    /// An interpreter in that mode.
    pub fn new(mode: Mode) -> Self {
        let (name, passes) = match mode {
            Mode::Lowered => ("reference interpreter", PassLevel::Full),
            Mode::NodeByNode => ("reference interpreter, node by node", PassLevel::LowerOnly),
            Mode::Oracle => ("reference interpreter, f64 library", PassLevel::None),
        };
        Interpreter {
            caps: Caps { kind: DeviceKind::Interpreter, description: name.to_owned(), passes },
            #[cfg(feature = "seeded-bugs")]
            bug: None,
        }
    }

    /// The reference with a fault.
    #[cfg(feature = "seeded-bugs")]
    pub fn with_bug(bug: SeededBug) -> Self {
        Interpreter { bug: Some(bug), ..Interpreter::new(Mode::Lowered) }
    }
}

impl Backend for Interpreter {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn compile(&self, program: &Program) -> Result<Arc<dyn CompiledKernel>, Error> {
        Ok(Arc::new(Kernel {
            program: program.clone(),
            #[cfg(feature = "seeded-bugs")]
            bug: self.bug,
        }))
    }

    fn builtin(&self, builtin: Builtin) -> Result<Arc<dyn CompiledKernel>, Error> {
        Ok(Arc::new(builtins::Kernel(builtin)))
    }

    fn allocate(&self, bytes: usize) -> Result<Allocation, Error> {
        allocate_host(bytes)
    }
}

struct Kernel {
    program: Program,
    #[cfg(feature = "seeded-bugs")]
    bug: Option<SeededBug>,
}

impl CompiledKernel for Kernel {
    unsafe fn launch(&self, launch: &Launch<'_>) -> Result<(), Error> {
        // SAFETY: the caller promises what `new` asks for.
        let lane = unsafe { Lane::new(&self.program, launch) };
        #[cfg(feature = "seeded-bugs")]
        let lane = Lane { bug: self.bug, ..lane };
        lane.run_all(launch.lanes, launch.segment);
        Ok(())
    }
}

/// Runs a program over all lanes of a launch, then its finish.
///
/// # Safety
/// As for [`CompiledKernel::launch`].
pub unsafe fn run(program: &Program, launch: &Launch<'_>) {
    // SAFETY: the caller promises what `new` asks for.
    unsafe { Lane::new(program, launch) }.run_all(launch.lanes, launch.segment);
}

/// One lane in execution.
struct Lane<'a> {
    program: &'a Program,
    memory: Memory<'a>,
    values: Vec<u64>,
    /// The values that are local arrays, and those that nothing needs once they were written to.
    locals: FxHashMap<Value, Rc<Vec<u64>>>,
    spent: FxHashSet<Value>,
    /// The lane within the launch.
    index: u64,
    base: u64,
    #[cfg(feature = "seeded-bugs")]
    bug: Option<SeededBug>,
}

impl<'a> Lane<'a> {
    /// # Safety
    /// As for [`CompiledKernel::launch`], while this value lives.
    unsafe fn new(program: &'a Program, launch: &Launch<'a>) -> Self {
        Lane {
            program,
            // SAFETY: the caller promises that the arguments are valid and match the parameters.
            memory: unsafe { Memory::new(program, launch.args) },
            values: vec![0; program.values.len()],
            locals: FxHashMap::default(),
            spent: local::spent_by_writes(program),
            index: 0,
            base: launch.base,
            #[cfg(feature = "seeded-bugs")]
            bug: None,
        }
    }

    fn block(&mut self, block: &Block) {
        for inst in &block.insts {
            // Whoever runs the lanes takes what they reduce.
            if inst.op.class() != Class::Reduce {
                self.inst(inst);
            }
        }
    }

    fn inst(&mut self, inst: &Inst) {
        match inst.op {
            Op::Loop => return self.run_loop(inst),
            Op::If => {
                #[cfg(feature = "seeded-bugs")]
                if self.has(SeededBug::OtherSideHappens) && self.get(inst.args[0]) != 0 {
                    self.block(&inst.blocks[1]);
                }
                let taken = &inst.blocks[usize::from(self.get(inst.args[0]) == 0)];
                self.block(taken);
                return self.assign(&inst.results, &taken.yields);
            }
            Op::Switch => {
                // A negative number is past any.
                let cases = inst.blocks.len() as u64 - 1;
                let number = self.as_index(inst.args[0]).min(cases);
                #[cfg(feature = "seeded-bugs")]
                let number = if self.has(SeededBug::SwitchClamps) && cases > 0 {
                    number.min(cases - 1)
                } else {
                    number
                };
                let taken = &inst.blocks[number as usize];
                self.block(taken);
                return self.assign(&inst.results, &taken.yields);
            }
            Op::IfAny => {
                if self.get(inst.args[0]) == 0 {
                    return self.assign(&inst.results, &inst.args[1..]);
                }
                self.block(&inst.blocks[0]);
                return self.assign(&inst.results, &inst.blocks[0].yields);
            }
            _ => {}
        }
        let value = match inst.op {
            Op::Literal => inst.imm,
            Op::Counter => (self.base + self.index) & self.program.dtype(inst.result()).mask(),
            Op::Param => self.memory.scalar(inst.param()),
            Op::Load => self.memory.read(inst.param(), self.index),
            Op::LoadScalar => self.memory.read(inst.param(), 0),
            Op::Store => return self.memory.write(inst.param(), self.index, self.get(inst.args[0])),
            Op::Lookup => {
                let bits = &self.program.tables[inst.table().index()].bits;
                bits[self.get(inst.args[0]) as usize & (bits.len() - 1)]
            }
            Op::Gather => self.element(inst).map_or(0, |at| self.memory.read(inst.param(), at)),
            Op::AtomicInc => match self.element(inst) {
                None => 0,
                Some(at) => {
                    let old = self.memory.read(inst.param(), at);
                    let mask = self.program.dtype(inst.result()).mask();
                    self.memory.write(inst.param(), at, old.wrapping_add(1) & mask);
                    #[cfg(feature = "seeded-bugs")]
                    let old = if self.has(SeededBug::AtomicIncGivesNew) { (old + 1) & mask } else { old };
                    old
                }
            },
            Op::Exchange | Op::CompareExchange => self.exchange(inst),
            Op::LocalZeros => return self.local_zeros(inst),
            Op::LocalRead => self.local_read(inst),
            Op::LocalWrite => return self.local_write(inst),
            _ if inst.op.class() == Class::Effect => return self.scatter(inst),
            _ => self.evaluate(inst),
        };
        self.values[inst.result().index()] = value;
    }

    fn run_loop(&mut self, inst: &Inst) {
        let [condition, body] = &inst.blocks[..] else { unreachable!("a loop has two blocks") };
        self.assign(&condition.params, &inst.args);
        #[cfg(feature = "seeded-bugs")]
        if self.has(SeededBug::LoopRunsOnce) {
            self.block(condition);
            if self.get(condition.yields[0]) == 0 {
                self.block(body);
                self.assign(&condition.params, &body.yields);
            }
        }
        loop {
            self.block(condition);
            if self.get(condition.yields[0]) == 0 {
                break;
            }
            self.block(body);
            self.assign(&condition.params, &body.yields);
        }
        self.assign(&inst.results, &condition.params);
    }

    fn scatter(&mut self, inst: &Inst) {
        let Some(at) = self.element(inst) else { return };
        let value = self.get(inst.args[0]);
        let combined = match inst.op.combine() {
            None => value,
            Some(op) => {
                let ty = self.program.dtype(inst.args[0]);
                self.compute(op, ty, ty, &[self.memory.read(inst.param(), at), value])
            }
        };
        self.memory.write(inst.param(), at, combined);
    }

    fn exchange(&mut self, inst: &Inst) -> u64 {
        let Some(at) = self.element(inst) else { return 0 };
        let old = self.memory.read(inst.param(), at);
        let (expected, value) = match inst.op {
            Op::CompareExchange => (self.get(inst.args[0]), inst.args[1]),
            _ => (old, inst.args[0]),
        };
        if old == expected {
            self.memory.write(inst.param(), at, self.get(value));
        }
        old
    }

    /// An index as u64: a negative one is past any length.
    fn index_of(&self, inst: &Inst) -> u64 {
        self.as_index(inst.index())
    }

    /// An integer as u64: a negative one is past any length.
    fn as_index(&self, value: Value) -> u64 {
        let ty = self.program.dtype(value);
        scalar::cast(ty, if ty.is_signed() { DType::I64 } else { DType::U64 }, self.get(value))
    }

    /// The element an indexed memory op touches, if its mask and the bounds allow it.
    fn element(&self, inst: &Inst) -> Option<u64> {
        #[cfg(feature = "seeded-bugs")]
        if let Some(wrong) = self.wrong_element(inst) {
            return wrong;
        }
        if inst.mask().is_some_and(|m| self.get(m) == 0) {
            return None;
        }
        let at = self.index_of(inst);
        let inside = at < self.memory.len(inst.param());
        assert!(
            inside || !inst.in_bounds,
            "{} of {} breaks the promise `in_bounds`",
            inst.op.name(),
            inst.param()
        );
        inside.then_some(at)
    }

    fn evaluate(&self, inst: &Inst) -> u64 {
        let mut args = [0; 3];
        for (slot, &arg) in args.iter_mut().zip(&inst.args) {
            *slot = self.get(arg);
        }
        let args = &args[..inst.args.len()];
        let ty = self.program.dtype(*inst.args.last().expect("an op on lanes has operands"));
        if inst.op.class() == Class::Math {
            return library(inst.op, ty, args);
        }
        self.compute(inst.op, ty, self.program.dtype(inst.result()), args)
    }

    fn compute(&self, op: Op, ty: DType, out: DType, args: &[u64]) -> u64 {
        #[cfg(feature = "seeded-bugs")]
        if let Some(wrong) = self.bug.and_then(|bug| bug.evaluate(op, ty, out, args)) {
            return wrong;
        }
        scalar::evaluate(op, ty, out, args)
    }

    fn get(&self, value: Value) -> u64 {
        self.values[value.index()]
    }

    /// Assigns in parallel: all sources are read before any target is written.
    fn assign(&mut self, targets: &[Value], sources: &[Value]) {
        #[cfg(feature = "seeded-bugs")]
        if self.has(SeededBug::LoopStateSequential) {
            for (target, source) in targets.iter().zip(sources) {
                self.values[target.index()] = self.get(*source);
            }
            return self.assign_locals(targets, sources);
        }
        let values: smallvec::SmallVec<[u64; 16]> = sources.iter().map(|&s| self.get(s)).collect();
        for (target, value) in targets.iter().zip(values) {
            self.values[target.index()] = value;
        }
        self.assign_locals(targets, sources);
    }
}

/// A mathematical function by the host's library in f64, rounded to the type: the accuracy oracle.
pub(crate) fn library(op: Op, ty: DType, args: &[u64]) -> u64 {
    let x = scalar::as_f64(ty, args[0]);
    let value = match op {
        Op::Rsqrt => 1.0 / x.sqrt(),
        Op::Recip => 1.0 / x,
        Op::Sin => x.sin(),
        Op::Cos => x.cos(),
        Op::Exp => x.exp(),
        Op::Ln => x.ln(),
        Op::Pow => x.powf(scalar::as_f64(ty, args[1])),
        Op::Tan => x.tan(),
        Op::Asin => x.asin(),
        Op::Acos => x.acos(),
        Op::Atan => x.atan(),
        Op::Atan2 => x.atan2(scalar::as_f64(ty, args[1])),
        Op::Sinh => x.sinh(),
        Op::Cosh => x.cosh(),
        Op::Tanh => x.tanh(),
        // Those of the standard library are sums that overflow or cancel.
        Op::Asinh => libm::asinh(x),
        Op::Acosh if x < 1.0 => f64::NAN,
        Op::Acosh => libm::acosh(x),
        Op::Atanh => libm::atanh(x),
        Op::Exp2 => x.exp2(),
        Op::ExpM1 => x.exp_m1(),
        Op::Log2 => x.log2(),
        Op::Log10 => x.log10(),
        Op::Ln1p => x.ln_1p(),
        Op::Cbrt => x.cbrt(),
        Op::Hypot => x.hypot(scalar::as_f64(ty, args[1])),
        Op::Erf => libm::erf(x),
        Op::Erfc => libm::erfc(x),
        other => unreachable!("`{}` is no mathematical function", other.name()),
    };
    scalar::cast(DType::F64, ty, value.to_bits())
}
