//! Random traced programs mean the same on every device, bit for bit, and wherever they are evaluated.

mod choices;
mod coverage;
mod program;
mod replay;
mod resolve;
mod sketch;

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use coverage::Coverage;
use jit_core::runtime::Device;
use program::Program;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use replay::{Outcome, Pace, replay};
use resolve::resolve;
use sketch::sketches;

use crate::devices;

/// Programs of each of two threads; `JIT_TEST_PROGRAMS` asks for another number.
const PROGRAMS: u32 = 5000;

#[test]
fn all_devices_agree_on_random_programs() {
    let programs = std::env::var("JIT_TEST_PROGRAMS").ok().and_then(|n| n.parse().ok()).unwrap_or(PROGRAMS);
    let total: Mutex<Coverage> = Mutex::default();
    std::thread::scope(|scope| {
        for seed in [1, 2] {
            let total = &total;
            scope.spawn(move || {
                let coverage = check(seed, programs);
                total.lock().expect("no panic while locked").merge(coverage);
            });
        }
    });
    let coverage = total.into_inner().expect("no panic");
    // Shown where output is not captured, and in failures.
    println!("{coverage}");
    let (regions, effects) = coverage.shares();
    assert!(regions >= 30 && effects >= 20 && coverage.mean_live_ops() >= 15, "{coverage}");
    assert!(coverage.rarest().1 >= 200, "{coverage}");
}

/// Runs so many programs on all devices.
fn check(seed: u8, programs: u32) -> Coverage {
    let coverage = RefCell::new(Coverage::default());
    let outcome = runner(seed, programs).run(&sketches(), |sketch| {
        let program = resolve(&sketch);
        coverage.borrow_mut().add(&program);
        compare(&program).map_err(|why| TestCaseError::fail(format!("{why}\n{program}")))
    });
    match outcome {
        Ok(()) => coverage.into_inner(),
        // The program says it all; the sketch behind it would only be long.
        Err(TestError::Fail(why, _)) => panic!("seed {seed}: {why}"),
        Err(TestError::Abort(why)) => panic!("seed {seed}: gave up: {why}"),
    }
}

fn runner(seed: u8, cases: u32) -> TestRunner {
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 20_000, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]))
}

/// Compares all devices with the reference.
fn compare(program: &Program) -> Result<(), String> {
    let [reference, others @ ..] = devices::all() else { unreachable!("there is a reference") };
    let expected = outcome(program, *reference, Pace::Lazy)?;
    let runs = others.iter().map(|&d| (d, Pace::Lazy)).chain([(*reference, Pace::Eager)]);
    for (device, pace) in runs {
        let got = outcome(program, device, pace)?;
        difference(program, &expected, &got).map_err(|d| format!("{device:?}, {pace:?}: {d}"))?;
    }
    Ok(())
}

fn outcome(program: &Program, device: Device, pace: Pace) -> Result<Outcome, String> {
    catch_unwind(AssertUnwindSafe(|| replay(program, device, pace)))
        .map_err(|panic| format!("{device:?}, {pace:?}: {}", devices::message(&*panic)))
}

fn difference(program: &Program, expected: &Outcome, got: &Outcome) -> Result<(), String> {
    for (which, (want, have)) in expected.0.iter().zip(&got.0).enumerate() {
        let name = match program.outputs.get(which) {
            Some(slot) => format!("{slot:?}"),
            None => format!("{:?}", program.kept[which - program.outputs.len()]),
        };
        if want.len() != have.len() {
            return Err(format!("{name} has {} elements, not {}", have.len(), want.len()));
        }
        if let Some(at) = (0..want.len()).find(|&i| want[i] != have[i]) {
            return Err(format!("{name}[{at}] is {:#x}, not {:#x}", have[at], want[at]));
        }
    }
    Ok(())
}
