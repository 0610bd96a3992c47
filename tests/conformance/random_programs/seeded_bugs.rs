//! Random programs find faults: each of those that are planted in the interpreter shows within 1,000 programs.

use std::io::Write as _;
use std::sync::Arc;

use jit_core::interp::{ALL_SEEDED_BUGS, Interpreter, SeededBug};
use jit_core::runtime::{Device, DeviceOptions};
use proptest::strategy::{Strategy, ValueTree};

use super::program::Program;
use super::replay::{Outcome, Pace};
use super::resolve::resolve;
use super::sketch::sketches;
use super::{difference, outcome, runner};
use crate::devices;

/// So many programs must suffice for each.
const PROGRAMS: usize = 1000;

#[test]
fn random_programs_find_each_seeded_bug() {
    let mut runner = runner([3; 32], 1);
    let cases: Vec<(Program, Outcome)> = (0..PROGRAMS)
        .map(|_| {
            let sketch = sketches().new_tree(&mut runner).expect("a sketch").current();
            let program = resolve(&sketch);
            let expected = outcome(&program, devices::all()[0], Pace::Lazy).expect("the reference runs");
            (program, expected)
        })
        .collect();
    assert_eq!(ALL_SEEDED_BUGS.len(), 23);
    let found = ALL_SEEDED_BUGS.iter().map(|&bug| (bug, found_after(bug, &cases)));
    let found: Vec<(SeededBug, Option<usize>)> = found.collect();
    let _ = writeln!(std::io::stdout(), "bugs by the program that shows them: {found:?}");
    let missed: Vec<SeededBug> = found.iter().filter(|f| f.1.is_none()).map(|f| f.0).collect();
    assert!(missed.is_empty(), "not found by {PROGRAMS} programs: {missed:?}");
}

/// The number of programs that it takes to notice a bug.
fn found_after(bug: SeededBug, cases: &[(Program, Outcome)]) -> Option<usize> {
    let device = Device::new(Arc::new(Interpreter::with_bug(bug)), DeviceOptions::default());
    let shows = |(program, expected): &(Program, Outcome)| {
        outcome(program, device, Pace::Lazy).map_or(true, |got| difference(program, expected, &got).is_err())
    };
    cases.iter().position(shows).map(|at| at + 1)
}
