//! From a program to the bytes of an object, or to text for people.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};

use inkwell::context::Context;
use inkwell::module::Module;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{FileType, TargetMachine};
use jit_core::error::Error;
use jit_core::ir::{Block, Program};
use jit_core::op::Op;

use crate::codegen::build_module;
use crate::target::{Machine, Target};

/// Makes code for one processor, with vectors of one width.
pub(crate) struct Compiler {
    target: Target,
    width: u32,
    /// Code generators that nobody uses just now, at most one for each thread that compiled at the same time. Making one,
    /// and what it finds out about the processor with its first function, costs as much as compiling 50 instructions.
    machines: Mutex<Vec<Machine>>,
}

/// What straight-line programs do without, since the trace merges and folds: with loops in the program there are
/// values to be moved out of them.
const PASSES_FOR_LOOPS: &str = "function(early-cse<memssa>,instsimplify,simplifycfg,loop-mssa(licm))";

/// With a switch nothing is moved out of loops: one of those is over the numbers that lanes have, all of its blocks are the
/// same in each trip, and would be run for all lanes ahead of it.
const PASSES_FOR_SWITCHES: &str = "function(early-cse<memssa>,instsimplify,simplifycfg)";

/// Above this many instructions no passes run: what they cost grows faster than what they give.
const MOST_FOR_PASSES: usize = 5000;

/// LLVM's code generator recurses over a block's data flow, codegen over nested blocks, on a stack of its own: callers'
/// may be small. Pages are taken only as they are touched.
const STACK: usize = 256 << 20;

/// Local arrays of a vector of lanes may take this much of the stack in all: 256 of the largest.
const MOST_FOR_LOCALS: u64 = 256 << 20;

impl Compiler {
    pub(crate) fn new(target: Target, width: u32) -> Compiler {
        Compiler { target, width, machines: Mutex::default() }
    }

    /// Lanes of a vector.
    pub(crate) fn width(&self) -> u32 {
        self.width
    }

    /// Everything besides the program that an object depends on.
    pub(crate) fn fingerprint(&self) -> String {
        let (major, minor, patch) = inkwell::support::get_llvm_version();
        let source = env!("SOURCE_HASH");
        format!("{source}, llvm {major}.{minor}.{patch}, {}, {} lanes", self.target, self.width)
    }

    /// The object with a program's functions.
    pub(crate) fn object(&self, program: &Program) -> Result<Vec<u8>, Error> {
        self.emitted(program, FileType::Object)
    }

    /// The functions in the processor's assembly.
    pub(crate) fn assembly(&self, program: &Program) -> Result<String, Error> {
        let text = self.emitted(program, FileType::Assembly)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// The functions in LLVM's language, before any pass.
    pub(crate) fn ir_text(&self, program: &Program) -> Result<String, Error> {
        self.on_a_large_stack(program, || {
            let context = Context::create();
            self.with_machine(|machine| {
                let module = self.module(&context, machine, program)?;
                Ok(module.print_to_string().to_string())
            })
        })
    }

    fn emitted(&self, program: &Program, what: FileType) -> Result<Vec<u8>, Error> {
        self.on_a_large_stack(program, || {
            let context = Context::create();
            self.with_machine(|machine| {
                let module = self.module(&context, machine, program)?;
                if has_regions(&program.body) && program.inst_count() <= MOST_FOR_PASSES {
                    let passes =
                        if has_switch(&program.body) { PASSES_FOR_SWITCHES } else { PASSES_FOR_LOOPS };
                    module
                        .run_passes(passes, machine, PassBuilderOptions::create())
                        .map_err(|e| failed(e.to_string(), program))?;
                }
                let buffer = machine
                    .write_to_memory_buffer(&module, what)
                    .map_err(|e| failed(e.to_string(), program))?;
                Ok(buffer.as_slice().to_vec())
            })
        })
    }

    fn module<'c>(
        &self,
        context: &'c Context,
        machine: &TargetMachine,
        program: &Program,
    ) -> Result<Rc<Module<'c>>, Error> {
        let locals = program.outline().local_bytes * u64::from(self.width);
        if locals > MOST_FOR_LOCALS {
            let message = format!(
                "the local arrays of {} lanes take {locals} bytes of the stack; at most {MOST_FOR_LOCALS} are possible",
                self.width
            );
            return Err(failed(message, program));
        }
        let module = build_module(context, program, &self.target, self.width)?;
        module.set_triple(&machine.get_triple());
        module.set_data_layout(&machine.get_target_data().get_data_layout());
        if cfg!(debug_assertions) {
            module.verify().map_err(|e| failed(format!("{e}\n{}", module.print_to_string()), program))?;
        }
        Ok(module)
    }

    /// Lends a code generator. One whose user panicked is not used again.
    fn with_machine<T>(&self, job: impl FnOnce(&TargetMachine) -> Result<T, Error>) -> Result<T, Error> {
        let machines = || self.machines.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = machines().pop();
        let machine = idle.map_or_else(|| self.target.machine(), Ok)?;
        let result = job(machine.get());
        machines().push(machine);
        result
    }

    /// Runs with room for deep recursion. A panic becomes an error.
    fn on_a_large_stack<T>(
        &self,
        program: &Program,
        job: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        catch_unwind(AssertUnwindSafe(|| stacker::grow(STACK, job))).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Err(failed(text.unwrap_or("code generation panicked").to_owned(), program))
        })
    }
}

fn has_regions(block: &Block) -> bool {
    block.insts.iter().any(|inst| !inst.blocks.is_empty())
}

fn has_switch(block: &Block) -> bool {
    block.insts.iter().any(|inst| inst.op == Op::Switch || inst.blocks.iter().any(has_switch))
}

/// A failure of code generation, with the program that showed it.
pub(crate) fn failed(log: String, program: &Program) -> Error {
    Error::Compile { log, program: program.to_string() }
}
