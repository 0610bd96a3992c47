//! Program to program: what makes kernels smaller and faster.
//!
//! A pass is a free function over `&mut Program`. Given a program that [`verify`](crate::ir::verify()) accepts it leaves
//! one; its header says what it does, what it keeps and what it leaves alone. All but `contract` and `fast`, which must
//! be asked for, keep every bit of every result (of a computed NaN: that it is one). Each takes time about linear in the
//! program and recurs on the nesting of blocks only. [`run`] is the pipeline.

pub mod bounds;
pub mod contract;
pub mod cse;
pub mod dce;
pub mod fast;
pub mod loop_state;
pub mod lower_math;

pub use bounds::Bounds;

use crate::backend::PassLevel;
use crate::float_mode::FloatMode;
use crate::ir::{Program, verify};

/// What the pipeline may do.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// What is done to float arithmetic that carries no mode of its own.
    pub float_mode: FloatMode,
    /// What the range pass may rely on.
    pub bounds: Bounds,
}

/// Runs the passes of a level over a verified program. `observe` sees the program after each, with the pass's name.
pub fn run(
    program: &mut Program,
    level: PassLevel,
    options: &Options,
    observe: &mut dyn FnMut(&'static str, &Program),
) {
    let any_carries_a_mode = program.any_inst(&|inst| inst.float_mode().is_some());
    let mut pass = |name: &'static str, apply: &dyn Fn(&mut Program)| {
        apply(program);
        if cfg!(debug_assertions)
            && let Err(error) = verify(program)
        {
            panic!("the pass {name} broke a program: {error}\n{program}");
        }
        observe(name, program);
    };

    if level == PassLevel::None {
        return;
    }
    let full = level == PassLevel::Full;
    // Before `lower_math`, whose steps count on each rounding.
    let mode = options.float_mode;
    if full && (mode.contracts() || any_carries_a_mode) {
        pass("cse", &cse::run);
        pass("contract", &|program| contract::run(program, mode));
        pass("fast", &|program| fast::run(program, mode));
    }
    pass("lower_math", &lower_math::run);
    if !full {
        return;
    }
    // What `loop_state` finds equal makes more expressions equal, in the loop and after it.
    pass("cse", &cse::run);
    pass("loop_state", &loop_state::run);
    pass("cse", &cse::run);
    pass("dce", &dce::run);
    if options.bounds != Bounds::Off {
        pass("bounds", &|program| bounds::run(program, &options.bounds));
    }
    // Tables of code generators are indexed by value: leave no gaps.
    pass("renumber", &Program::renumber);
}
