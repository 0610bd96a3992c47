//! Where `eval`, reads, drops, clones and hand-overs between threads stand never changes a value: random sequences of
//! calls against a model in plain vectors that does each call at once. Afterwards the device holds nothing.

mod model;
mod world;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use jit_core::runtime::Device;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use world::{Kind, World};

use crate::devices;

/// Cases of each of two threads; `JIT_TEST_PROGRAMS` asks for another number.
const CASES: u32 = 3000;

/// One thing to do.
#[derive(Clone, Debug)]
enum Action {
    /// A call, and what it chooses its operands by.
    Call(Kind, [u16; 8]),
    /// Half of everything goes to a second thread; both go on, then all comes back.
    Split([u16; 8], Vec<Action>, Vec<Action>),
}

#[test]
fn values_do_not_depend_on_where_work_is_done() {
    let cases = std::env::var("JIT_TEST_PROGRAMS").ok().and_then(|n| n.parse().ok()).unwrap_or(CASES);
    std::thread::scope(|scope| {
        for seed in [11, 12] {
            scope.spawn(move || check(seed, cases));
        }
    });
}

fn check(seed: u8, cases: u32) {
    // Devices of this thread alone, so that what they hold can be counted.
    let all = devices::fresh();
    let count = Cell::new(0);
    let failed = Cell::new(None);
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 5000, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]));
    let outcome = runner.run(&vec(actions(1), 1..40), |actions| {
        let number = count.replace(count.get() + 1);
        // Planning is the same everywhere, so the interpreter does the most, the code generators by turns a little.
        let mut on = vec![0];
        match number % 8 {
            0 | 4 => on.push(1),
            2 => on.push(2 + number / 8 % (all.len() - 2)),
            _ => {}
        }
        if let Some(device) = failed.get() {
            on = vec![device];
        }
        for device in on {
            if let Err(why) = run(all[device], &actions) {
                failed.set(Some(device));
                return Err(TestCaseError::fail(why));
            }
        }
        Ok(())
    });
    match outcome {
        Ok(()) => {}
        // The calls are listed in the message.
        Err(TestError::Fail(why, _)) => panic!("seed {seed}: {why}"),
        Err(TestError::Abort(why)) => panic!("seed {seed}: gave up: {why}"),
    }
}

fn run(device: Device, actions: &[Action]) -> Result<(), String> {
    let before = device.memory();
    let mut world = World::new(device);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        act_all(&mut world, actions)?;
        world.read_everything()
    }));
    let outcome = outcome.unwrap_or_else(|panic| Err(devices::message(&*panic)));
    let calls = world.calls();
    drop(world);
    outcome.map_err(|why| format!("on {device:?}: {why}, after\n{calls}"))?;
    let after = device.memory();
    if (after.nodes, after.storages) != (before.nodes, before.storages) {
        return Err(format!("on {device:?}: {before:?} became {after:?}, after\n{calls}"));
    }
    Ok(())
}

fn act_all(world: &mut World, actions: &[Action]) -> Result<(), String> {
    for action in actions {
        match action {
            Action::Call(kind, choices) => world.call(*kind, choices)?,
            Action::Split(choices, here, there) => {
                let mut other = world.split(choices);
                let (ours, theirs) = std::thread::scope(|scope| {
                    let theirs = scope.spawn(|| {
                        let outcome = act_all(&mut other, there);
                        (other, outcome)
                    });
                    let ours = act_all(world, here);
                    (ours, theirs.join())
                });
                let (other, theirs) = theirs.map_err(|panic| devices::message(&*panic))?;
                world.merge(other);
                ours.and(theirs)?;
            }
        }
    }
    Ok(())
}

fn actions(splits: u32) -> BoxedStrategy<Action> {
    let call = (kinds(), any::<[u16; 8]>()).prop_map(|(kind, choices)| Action::Call(kind, choices));
    if splits == 0 {
        return call.boxed();
    }
    let split = (any::<[u16; 8]>(), vec(actions(splits - 1), 0..8), vec(actions(splits - 1), 1..8))
        .prop_map(|(choices, here, there)| Action::Split(choices, here, there));
    prop_oneof![40 => call, 1 => split].boxed()
}

fn kinds() -> impl Strategy<Value = Kind> {
    let weighted = Kind::ALL.iter().map(|&(weight, kind)| (weight, Just(kind))).collect();
    prop::strategy::Union::new_weighted(weighted)
}
