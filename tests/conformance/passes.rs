//! Passes keep every bit: random programs on the interpreter, before and after.

use jit_core::backend::PassLevel;
use jit_core::interp::{Interpreter, Mode};
use jit_core::ir::{Program, parse, verify};
use jit_core::op::{Class, Op};
use jit_core::passes::{self, Bounds, Options};
use jit_core::runtime::FloatMode;
use proptest::collection::vec;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::launch::Argument;
use crate::random_ir::{Case, assert_equal, case};

const CASES: u32 = 3000;

#[test]
fn passes_keep_every_bit() {
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let statistics = std::cell::RefCell::new(Statistics::default());
    let outcome = runner.run(&vec(proptest::num::u32::ANY, 0..700), |tape| {
        check(&case(&tape), &mut statistics.borrow_mut());
        Ok(())
    });
    let statistics = statistics.into_inner();
    if let Err(proptest::test_runner::TestError::Fail(why, tape)) = outcome {
        panic!("{why}\n{}", case(&tape).program);
    }
    // A generator that makes nothing useful must be noticed.
    assert!(statistics.is_useful(), "{statistics:?}");
}

/// What the programs of a run had and what became of it.
#[derive(Debug, Default)]
struct Statistics {
    insts: usize,
    dropped: usize,
    loops: usize,
    branches: usize,
    effects: usize,
    promises: usize,
    local_writes: usize,
}

impl Statistics {
    fn is_useful(&self) -> bool {
        let each = CASES as usize;
        let enough = [
            self.insts / 20,
            self.dropped / 5,
            self.loops,
            self.branches,
            self.effects,
            self.promises,
            self.local_writes,
        ];
        enough.iter().all(|&count| count > each / 4)
    }

    fn count(&mut self, before: &Program, after: &Program) {
        self.insts += before.inst_count();
        self.dropped += before.inst_count().saturating_sub(after.inst_count());
        after.for_each_inst(&mut |inst| {
            self.loops += usize::from(inst.op == Op::Loop);
            self.branches += usize::from(matches!(inst.op, Op::If | Op::Switch | Op::IfAny));
            self.effects += usize::from(inst.op.class() == Class::Effect);
            self.promises += usize::from(inst.in_bounds);
            self.local_writes += usize::from(inst.op == Op::LocalWrite);
        });
    }
}

fn check(case: &Case, statistics: &mut Statistics) {
    let program = &case.program;
    verify(program).unwrap_or_else(|e| panic!("the generator broke a rule: {e}\n{program}"));
    assert!(parse(&program.to_string()).expect("its own text") == *program, "reading back changes it");

    let lens = case.arguments.iter().map(|argument| match argument {
        Argument::Scalar(_) => 0,
        Argument::Memory(elements) => elements.len() as u64,
    });
    let bounds = Bounds::Within { lens: lens.collect(), counter_end: case.size.base + case.size.lanes };
    let mut optimised = program.clone();
    let options = Options { float_mode: FloatMode::Strict, bounds };
    passes::run(&mut optimised, PassLevel::Full, &options, &mut |_, _| {});
    statistics.count(program, &optimised);

    let interpreter = Interpreter::new(Mode::Lowered);
    assert_equal(&optimised, &case.run(&interpreter, program), &case.run(&interpreter, &optimised));
}
