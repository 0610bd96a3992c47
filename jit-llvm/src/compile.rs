//! From a program to the bytes of an object, or to text for people.

use std::rc::Rc;

use inkwell::context::Context;
use inkwell::module::Module;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{FileType, TargetMachine};
use jit_core::error::Error;
use jit_core::ir::{Block, Program};

use crate::codegen::build_module;
use crate::target::Target;

/// What straight-line programs do without, since the trace merges and folds: with loops in the program there are
/// values to be moved out of them.
const PASSES_FOR_LOOPS: &str = "function(early-cse<memssa>,instsimplify,simplifycfg,loop-mssa(licm))";

/// Above this many instructions no passes run: what they cost grows faster than what they give.
const MOST_FOR_PASSES: usize = 5000;

/// LLVM's code generator recurses over a block's data flow, codegen over nested blocks.
const STACK: usize = 256 << 20;

/// The object with a program's functions.
pub(crate) fn object(program: &Program, target: &Target, width: u32) -> Result<Vec<u8>, Error> {
    emitted(program, target, width, FileType::Object)
}

/// The functions in the processor's assembly.
pub(crate) fn assembly(program: &Program, target: &Target, width: u32) -> Result<String, Error> {
    let text = emitted(program, target, width, FileType::Assembly)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The functions in LLVM's language, before any pass.
pub(crate) fn ir_text(program: &Program, target: &Target, width: u32) -> Result<String, Error> {
    on_a_large_stack(program, || {
        let context = Context::create();
        let (module, _) = module(&context, program, target, width)?;
        Ok(module.print_to_string().to_string())
    })
}

fn emitted(program: &Program, target: &Target, width: u32, what: FileType) -> Result<Vec<u8>, Error> {
    on_a_large_stack(program, || {
        let context = Context::create();
        let (module, machine) = module(&context, program, target, width)?;
        if has_regions(&program.body) && program.inst_count() <= MOST_FOR_PASSES {
            module
                .run_passes(PASSES_FOR_LOOPS, &machine, PassBuilderOptions::create())
                .map_err(|e| failed(e.to_string(), program))?;
        }
        let buffer =
            machine.write_to_memory_buffer(&module, what).map_err(|e| failed(e.to_string(), program))?;
        Ok(buffer.as_slice().to_vec())
    })
}

fn module<'c>(
    context: &'c Context,
    program: &Program,
    target: &Target,
    width: u32,
) -> Result<(Rc<Module<'c>>, TargetMachine), Error> {
    let machine = target.machine()?;
    let module = build_module(context, program, target, width)?;
    module.set_triple(&machine.get_triple());
    module.set_data_layout(&machine.get_target_data().get_data_layout());
    if cfg!(debug_assertions) {
        module.verify().map_err(|e| failed(format!("{e}\n{}", module.print_to_string()), program))?;
    }
    Ok((module, machine))
}

fn has_regions(block: &Block) -> bool {
    block.insts.iter().any(|inst| !inst.blocks.is_empty())
}

/// Runs on a thread of its own, since callers' stacks may be small. A panic becomes an error.
fn on_a_large_stack<T: Send>(
    program: &Program,
    job: impl FnOnce() -> Result<T, Error> + Send,
) -> Result<T, Error> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("jit-llvm compile".to_owned()).stack_size(STACK);
        let thread =
            thread.spawn_scoped(scope, job).map_err(|e| failed(format!("no thread: {e}"), program))?;
        thread.join().unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Err(failed(text.unwrap_or("code generation panicked").to_owned(), program))
        })
    })
}

/// A failure of code generation, with the program that showed it.
pub(crate) fn failed(log: String, program: &Program) -> Error {
    Error::Compile { log, program: program.to_string() }
}
