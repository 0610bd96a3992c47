//! Random traced programs mean the same on every device, bit for bit, and wherever they are evaluated.

mod choices;
#[cfg(test)]
mod corpus;
pub(crate) mod coverage;
pub(crate) mod program;
mod reduce;
mod replay;
mod resolve;
#[cfg(test)]
mod seeded_bugs;
mod sketch;
pub(crate) mod text;

use std::cell::{Cell, RefCell};
#[cfg(test)]
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
#[cfg(test)]
use std::sync::Mutex;

#[cfg(test)]
pub(crate) use choices::Choices;
use coverage::Coverage;
use jit_core::runtime::Device;
use program::Program;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use reduce::reduce;
use replay::{Outcome, Pace, replay};
use resolve::resolve;
use sketch::sketches;

use crate::devices;

/// Programs of each of two threads; `JIT_TEST_PROGRAMS` asks for another number.
#[cfg(test)]
const PROGRAMS: u32 = 3000;

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
    let _ = writeln!(std::io::stdout(), "{coverage}");
    let (regions, effects) = coverage.shares();
    assert!(regions >= 30 && effects >= 20 && coverage.mean_live_ops() >= 15, "{coverage}");
    // 120 of each op, with as many programs as there are by default.
    assert!(coverage.rarest().1 >= programs as usize / 25, "{coverage}");
    let [types, constructs] = coverage.rarest_others();
    assert!(types >= programs as usize && constructs >= programs as usize / 50, "{coverage}");
    assert_eq!(coverage.left_out(), [&MADE_IN_TRACES[..], &MADE_IN_KERNELS].concat());
}

/// Ops that no program asks for, since what programs ask for makes them in the trace.
#[cfg(test)]
const MADE_IN_TRACES: [&str; 5] = ["data", "placeholder", "memory", "result", "version"];

/// And those that planning and passes make in kernels.
#[cfg(test)]
const MADE_IN_KERNELS: [&str; 6] = ["param", "load", "load_scalar", "store", "lookup", "if_any"];

/// Runs so many programs on all devices.
#[cfg(test)]
fn check(seed: u8, programs: u32) -> Coverage {
    let mut coverage = Coverage::default();
    match search(&mut runner([seed; 32], programs), 0, &mut coverage) {
        Ok(()) => coverage,
        Err(Found { program, why }) => panic!("seed {seed}: {why}\n{program}"),
    }
}

/// A program on which devices disagree, and how.
pub(crate) struct Found {
    pub(crate) program: Box<Program>,
    pub(crate) why: String,
}

/// Runs a runner's programs on all devices, the first being the `first`th, up to the first failure, which comes in
/// its simplest form.
pub(crate) fn search(runner: &mut TestRunner, first: usize, coverage: &mut Coverage) -> Result<(), Found> {
    let coverage = RefCell::new(coverage);
    let count = Cell::new(first);
    let failed = RefCell::new(None);
    let outcome = runner.run(&sketches(), |sketch| {
        let program = resolve(&sketch);
        // Once something has failed, its simplest form is looked for.
        let run = failed.borrow().as_ref().map(|f: &Failure| f.run);
        let outcome = if let Some(run) = run {
            compare_run(&program, run)
        } else {
            coverage.borrow_mut().add(&program);
            compare(&program, count.replace(count.get() + 1)).map_err(|failure| {
                let why = failure.why.clone();
                *failed.borrow_mut() = Some(failure);
                why
            })
        };
        outcome.map_err(TestCaseError::fail)
    });
    match outcome {
        Ok(()) => Ok(()),
        Err(TestError::Fail(_, sketch)) => {
            let failure = failed.into_inner().expect("a run failed");
            Err(simplest(resolve(&sketch), &failure))
        }
        Err(TestError::Abort(why)) => panic!("gave up: {why}"),
    }
}

fn simplest(program: Program, Failure { run, why }: &Failure) -> Found {
    let Err(first) = compare_run(&program, *run) else {
        return Found { program: program.into(), why: format!("failed once, and not when run again: {why}") };
    };
    let kind = kind(&first);
    let program = reduce(&program, |p| compare_run(p, *run).is_err_and(|why| self::kind(&why) == kind));
    let why = compare_run(&program, *run).err().unwrap_or(first);
    Found { program: program.into(), why }
}

pub(crate) fn runner(seed: [u8; 32], cases: u32) -> TestRunner {
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 1000, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed))
}

/// Compares devices with the reference, and the reference with itself where everything is evaluated at once. Of the
/// code generators, whose compilations take most of the time, each program meets one, and every other one a device that is
/// careful.
fn compare(program: &Program, number: usize) -> Result<(), Failure> {
    let generators = devices::all().len() - 2;
    let generator = 2 + number % generators;
    let careful = number.is_multiple_of(2).then(|| 2 + generators + number / 2 % devices::careful().len());
    [0, 1, generator]
        .into_iter()
        .chain(careful)
        .try_for_each(|run| compare_run(program, run).map_err(|why| Failure { run, why }))
}

/// The run that failed, and what came out.
struct Failure {
    run: usize,
    why: String,
}

/// What is compared with the lazy reference, the fastest first.
fn runs() -> Vec<(Device, Pace)> {
    let [reference, others @ ..] = devices::all() else { unreachable!("there is a reference") };
    let others = others.iter().chain(devices::careful()).map(|&device| (device, Pace::Lazy));
    [(*reference, Pace::Eager)].into_iter().chain(others).collect()
}

fn compare_run(program: &Program, run: usize) -> Result<(), String> {
    let (device, pace) = runs()[run];
    let expected = outcome(program, devices::all()[0], Pace::Lazy)?;
    let got = outcome(program, device, pace)?;
    difference(program, &expected, &got).map_err(|d| format!("{device:?}, {pace:?}: {d}"))
}

/// A message without its numbers: what must stay while a program is reduced.
fn kind(why: &str) -> String {
    let differs = why.contains(" is 0x");
    if differs { String::new() } else { why.chars().filter(|c| !c.is_ascii_digit()).collect() }
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
