//! Programs of the kernel language: passes and code generators against the interpreter.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use jit_core::backend::PassLevel;
use jit_core::interp::{Interpreter, Mode};
use jit_core::ir::verify;
use jit_core::passes::{self, Bounds, Options};
use jit_llvm::LlvmBackend;
use proptest::collection::vec;
use proptest::strategy::{Strategy as _, ValueTree as _};

use crate::devices::{llvm, message};
use crate::random_ir::{assert_equal, case, case_of_independent_lanes};
use crate::random_programs::runner;

/// The longest tape.
const TAPE: usize = 900;

/// Checks the program of a seed. A failure says what is wrong, and shows the program.
pub(crate) fn check(seed: [u8; 32]) -> Result<(), String> {
    let tapes = vec(proptest::num::u32::ANY, 0..TAPE);
    let tape = tapes.new_tree(&mut runner(seed, 1)).expect("no tape is refused").current();
    catch_unwind(AssertUnwindSafe(|| check_tape(&tape))).map_err(|panic| message(&*panic))
}

fn check_tape(tape: &[u32]) {
    let interpreter = Interpreter::new(Mode::Lowered);
    let options = Options { bounds: Bounds::Off, ..Options::default() };
    // Lanes of the first may see what others do, so that their order matters; the interpreter's is one of those.
    for (case, order_matters) in [(case(tape), true), (case_of_independent_lanes(tape), false)] {
        let program = &case.program;
        verify(program).unwrap_or_else(|e| panic!("the generator broke a rule: {e}\n{program}"));
        let mut optimised = program.clone();
        passes::run(&mut optimised, PassLevel::Full, &options, &mut |_, _| {});
        let expected = case.run(&interpreter, program);
        assert_equal(&optimised, &expected, &case.run(&interpreter, &optimised));
        if !order_matters {
            let backend = &code_generators()[tape.len() % 3];
            assert_equal(&optimised, &expected, &case.run(&**backend, &optimised));
        }
    }
}

/// One for each width.
fn code_generators() -> &'static [Arc<LlvmBackend>; 3] {
    static BACKENDS: OnceLock<[Arc<LlvmBackend>; 3]> = OnceLock::new();
    BACKENDS.get_or_init(|| [4, 8, 16].map(llvm))
}
