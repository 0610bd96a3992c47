//! Every interleaving of gates, batches and the queue of an executor, as far as loom tells them apart. Built with
//! `--cfg loom` alone: `make interleavings`.

use std::sync::Arc;

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use crate::runtime::Event;
use crate::runtime::batch::{Batch, Work};
use crate::runtime::clock::Clock;
use crate::runtime::event::{Events, Gate};
use crate::runtime::executor::Executor;

/// A batch that counts how often it runs, behind these events; started.
fn counting(executor: &'static Executor, after: &[Event]) -> (Event, Arc<AtomicUsize>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&runs);
    let work = vec![Work::Call(Box::new(move || {
        counter.fetch_add(1, Ordering::Relaxed);
    }))];
    let after: Events = after.into();
    let batch =
        Batch { stream: None, work, after: after.clone(), inputs: after.clone(), executor, findings: None };
    let event = Event::of_batch(batch, None, Clock::default(), false);
    if event.start(&after) {
        event.hand_over();
    }
    (event, runs)
}

/// An executor whose batches the test takes out itself.
fn executor() -> &'static Executor {
    Box::leak(Box::new(Executor::new(0)))
}

/// Runs what has been handed over, as a thread of the executor would.
fn work_off(executor: &'static Executor) {
    while let Some(event) = executor.take() {
        event.run();
    }
}

#[test]
fn who_waits_hears_that_a_gate_opens() {
    loom::model(|| {
        let gate = Gate::new();
        let event = gate.event();
        let waiting = thread::spawn(move || event.wait().is_ok());
        gate.open();
        assert!(waiting.join().expect("no panic"));
    });
}

#[test]
fn a_batch_behind_two_gates_runs_once_and_is_waited_for() {
    loom::model(|| {
        let executor = executor();
        let (first, second) = (Gate::new(), Gate::new());
        let (event, runs) = counting(executor, &[first.event(), second.event()]);
        let opening = thread::spawn(move || {
            first.open();
            work_off(executor);
        });
        second.open();
        // Run by this thread, or handed over by the other.
        event.wait().expect("no error");
        opening.join().expect("no panic");
        work_off(executor);
        assert_eq!(runs.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_gate_that_opens_while_a_batch_is_placed_behind_it_is_not_missed() {
    loom::model(|| {
        let executor = executor();
        let gate = Gate::new();
        let event = gate.event();
        let opening = thread::spawn(move || gate.open());
        let (batch, runs) = counting(executor, &[event]);
        opening.join().expect("no panic");
        let handed_over = executor.take().expect("somebody hands it over");
        assert!(executor.take().is_none(), "once");
        assert!(handed_over.run());
        batch.wait().expect("no error");
        assert_eq!(runs.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn two_that_wait_and_an_executor_run_a_batch_once() {
    loom::model(|| {
        let executor = executor();
        let (event, runs) = counting(executor, &[]);
        let other = event.clone();
        let waiting = thread::spawn(move || other.wait().is_ok());
        let handed_over = executor.take().expect("it can run");
        handed_over.run();
        event.wait().expect("no error");
        assert!(waiting.join().expect("no panic"));
        assert_eq!(runs.load(Ordering::Relaxed), 1);
    });
}

/// What one batch wrote the next one sees, whoever runs them.
#[test]
fn errors_and_memory_travel_along() {
    loom::model(|| {
        let executor = executor();
        let gate = Gate::new();
        let (first, runs) = counting(executor, &[gate.event()]);
        let (second, later) = counting(executor, &[first]);
        let failing = thread::spawn(move || {
            gate.fail(crate::error::Error::Execution("planned".to_owned()));
            work_off(executor);
        });
        assert!(second.wait().is_err());
        failing.join().expect("no panic");
        assert_eq!(runs.load(Ordering::Relaxed) + later.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn a_thread_that_sleeps_is_woken_by_a_batch() {
    loom::model(|| {
        let executor = executor();
        let worker = thread::spawn(move || executor.next().run());
        let (event, runs) = counting(executor, &[]);
        let worked = worker.join().expect("no panic");
        event.wait().expect("no error");
        assert!(worked);
        assert_eq!(runs.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn two_threads_and_two_batches_miss_none() {
    loom::model(|| {
        let executor = executor();
        let worker = thread::spawn(move || executor.next().run());
        let (first, runs) = counting(executor, &[]);
        let (second, more) = counting(executor, &[]);
        executor.next().run();
        worker.join().expect("no panic");
        assert!(first.is_open() && second.is_open());
        assert_eq!(runs.load(Ordering::Relaxed) + more.load(Ordering::Relaxed), 2);
    });
}
