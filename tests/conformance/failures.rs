//! What fails, fails for whoever asked, and for nobody else; the device goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use jit_core::backend::{Allocation, Backend, Caps, CompiledKernel, Launch};
use jit_core::builtin::Builtin;
use jit_core::dtype::DType;
use jit_core::error::Error;
use jit_core::interp::{Interpreter, Mode};
use jit_core::ir::Program;
use jit_core::op::Op;
use jit_core::runtime::{Device, DeviceOptions};
use jit_core::trace::{BufferVar, Var, eval};
use parking_lot::Mutex;

use crate::host::{lit, read, upload};

/// Which call is to fail: 0 none, 1 the next, 2 the one after that.
#[derive(Default)]
struct Faults {
    compile: AtomicUsize,
    allocate: AtomicUsize,
    launch: AtomicUsize,
    panic: AtomicUsize,
    /// What else happens while a kernel compiles.
    meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

fn due(counter: &AtomicUsize) -> bool {
    // One thread of a test sets and counts these, so any ordering does.
    let left = counter.load(Ordering::Relaxed);
    counter.store(left.saturating_sub(1), Ordering::Relaxed);
    left == 1
}

struct Faulty {
    inner: Interpreter,
    faults: Arc<Faults>,
}

struct Kernel {
    inner: Arc<dyn CompiledKernel>,
    faults: Arc<Faults>,
}

impl Backend for Faulty {
    fn caps(&self) -> &Caps {
        self.inner.caps()
    }

    fn compile(&self, program: &Program) -> Result<Arc<dyn CompiledKernel>, Error> {
        if let Some(meanwhile) = self.faults.meanwhile.lock().take() {
            meanwhile();
        }
        if due(&self.faults.compile) {
            return Err(Error::Compile { log: "planned".to_owned(), program: program.to_string() });
        }
        Ok(Arc::new(Kernel { inner: self.inner.compile(program)?, faults: Arc::clone(&self.faults) }))
    }

    fn builtin(&self, builtin: Builtin) -> Result<Arc<dyn CompiledKernel>, Error> {
        self.inner.builtin(builtin)
    }

    fn allocate(&self, bytes: usize) -> Result<Allocation, Error> {
        if due(&self.faults.allocate) {
            let requested = bytes as u64;
            return Err(Error::OutOfMemory {
                requested,
                in_use: 0,
                cached: 0,
                holders: "planned".to_owned(),
            });
        }
        self.inner.allocate(bytes)
    }
}

impl CompiledKernel for Kernel {
    unsafe fn launch(&self, launch: &Launch<'_>) -> Result<(), Error> {
        assert!(!due(&self.faults.panic), "planned panic");
        if due(&self.faults.launch) {
            return Err(Error::Execution("planned".to_owned()));
        }
        // SAFETY: the caller promises what the inner kernel asks for.
        unsafe { self.inner.launch(launch) }
    }
}

fn faulty() -> (Device, Arc<Faults>) {
    let faults = Arc::new(Faults::default());
    let backend = Faulty { inner: Interpreter::new(Mode::Lowered), faults: Arc::clone(&faults) };
    let options = DeviceOptions { cache_bytes: 0, ..DeviceOptions::default() };
    (Device::new(Arc::new(backend), options), faults)
}

fn add(a: &Var, b: &Var) -> Var {
    Var::apply(Op::Add, a.dtype(), &[a, b])
}

#[test]
fn an_evaluation_that_fails_leaves_the_arrays_as_they_were() {
    let (dev, faults) = faulty();
    let x = upload(dev, &[1u32, 2]);
    let buffer = BufferVar::new(&x);
    let y = add(&x, &lit(5u32));
    let counts = buffer.atomic_inc(&lit(0u32), None);
    let nodes = dev.memory().nodes;
    faults.compile.store(1, Ordering::Relaxed);
    let error = eval(&[&y, &counts], &[&buffer]).expect_err("a failing compiler");
    assert!(error.to_string().contains("planned") && error.to_string().contains("param p0"), "{error}");
    // Three of them: an allocation that fails is tried again after a trim.
    for _ in 0..3 {
        faults.allocate.store(1, Ordering::Relaxed);
        drop(eval(&[&y, &counts], &[&buffer]));
    }
    assert!(dev.memory().nodes <= nodes);
    assert_eq!(read::<u32>(&y), [6, 7]);
    assert_eq!(read::<u32>(&counts), [1]);
    assert_eq!(read::<u32>(&buffer.value()), [2, 2], "the effect ran once");
    assert_eq!(read::<u32>(&x), [1, 2]);
}

#[test]
fn memory_that_is_not_there_is_an_error_that_says_how_much() {
    let (dev, _) = faulty();
    let huge = Var::full(dev, DType::F64, 0, 1 << 60);
    let sum = add(&huge, &Var::apply(Op::Cast, DType::F64, &[&Var::counter(dev, DType::U64, 1 << 60)]));
    let error = eval(&[&sum], &[]).expect_err("no machine has that");
    assert!(matches!(error, Error::OutOfMemory { requested, .. } if requested == 1 << 63), "{error}");
    assert_eq!(read::<u32>(&add(&upload(dev, &[1u32]), &lit(1u32))), [2]);
}

#[test]
fn a_kernel_that_fails_fails_its_readers_and_nobody_else() {
    for panics in [false, true] {
        let (dev, faults) = faulty();
        let x = upload(dev, &[1u32, 2]);
        let fault = if panics { &faults.panic } else { &faults.launch };
        let bad = add(&x, &lit(5u32));
        fault.store(1, Ordering::Relaxed);
        let event = eval(&[&bad], &[]).expect("submission");
        assert!(event.wait().expect_err("a failing kernel").to_string().contains("planned"));
        assert!(bad.read().is_err());
        let dependent = add(&bad, &x);
        assert!(dependent.read().expect_err("an error is handed on").to_string().contains("planned"));
        assert!(dev.sync().is_err(), "sync reports it");
        assert!(dev.sync().is_ok(), "once");
        assert_eq!(read::<u32>(&add(&x, &lit(7u32))), [8, 9]);
    }
}

#[test]
fn an_event_of_several_arrays_carries_the_error_of_any() {
    let (dev, faults) = faulty();
    let x = upload(dev, &[1u32, 2]);
    let (open, gate) = std::sync::mpsc::channel::<()>();
    dev.submit_call(move || gate.recv().expect("opened"));
    faults.launch.store(1, Ordering::Relaxed);
    let bad = add(&x, &lit(5u32));
    let good = add(&x, &lit(6u32));
    drop(eval(&[&bad], &[]).expect("submission"));
    drop(eval(&[&good], &[]).expect("submission"));
    let both = eval(&[&bad, &good], &[]).expect("submission");
    assert!(!both.is_complete().expect("pending"));
    open.send(()).expect("held");
    assert!(both.wait().is_err());
    assert_eq!(read::<u32>(&good), [7, 8]);
}

#[test]
fn reading_more_than_the_host_can_hold_is_an_error() {
    let (dev, _) = faulty();
    let huge = Var::full(dev, DType::F32, 0, 1 << 50);
    let error = huge.read().expect_err("no host has that");
    assert!(matches!(error, Error::OutOfMemory { requested, .. } if requested == 1 << 52), "{error}");
    assert_eq!(read::<u32>(&Var::full(dev, DType::U32, 7, 3)), [7; 3]);
}

#[test]
fn memory_that_a_plan_overwrites_is_out_of_reach_while_it_compiles() {
    let (dev, faults) = faulty();
    let buffer = BufferVar::new(&upload(dev, &[1i32, 2, 3]));
    let negated = Var::apply(Op::Neg, DType::I32, &[&buffer.value()]);
    buffer.scatter(Op::Scatter, &lit(50i32), &Var::counter(dev, DType::U32, 2), None);
    let (send, receive) = std::sync::mpsc::channel();
    let held = negated.clone();
    *faults.meanwhile.lock() = Some(Box::new(move || {
        // Equal to the array that had no handle when the plan was made.
        let twice = Var::apply(Op::Neg, DType::I32, &[&held]);
        send.send(twice).expect("the test waits");
    }));
    eval(&[&negated], &[&buffer]).expect("evaluation").wait().expect("execution");
    assert_eq!(read::<i32>(&receive.recv().expect("sent")), [1, 2, 3]);
    assert_eq!(read::<i32>(&buffer.value()), [50, 50, 3]);
}

#[test]
fn a_compiler_that_panics_leaves_the_arrays_as_they_were() {
    let (dev, faults) = faulty();
    let buffer = BufferVar::new(&upload(dev, &[1u32, 2]));
    let counts = buffer.atomic_inc(&lit(0u32), None);
    let nodes = dev.memory().nodes;
    *faults.meanwhile.lock() = Some(Box::new(|| panic!("planned panic")));
    let outcome =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(eval(&[&counts], &[&buffer]))));
    assert!(outcome.is_err());
    assert_eq!(dev.memory().nodes, nodes);
    assert_eq!(read::<u32>(&counts), [1]);
    assert_eq!(read::<u32>(&buffer.value()), [2, 2], "the effect ran once");
}
