//! Threads that share a device: what they compute is what one thread would.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use jit_core::backend::{Allocation, Backend, Caps, CompiledKernel};
use jit_core::builtin::Builtin;
use jit_core::dtype::DType;
use jit_core::error::Error;
use jit_core::interp::{Interpreter, Mode};
use jit_core::ir::Program;
use jit_core::op::Op;
use jit_core::runtime::{Device, DeviceOptions, KernelRecord, Stream};
use jit_core::trace::{BufferVar, Var, eval};
use parking_lot::Mutex;

use crate::devices;
use crate::host::{lit, read, upload};

fn op(op: Op, args: &[&Var]) -> Var {
    Var::apply(op, args[0].dtype(), args)
}

fn counted(dev: Device, len: u64) -> Var {
    Var::counter(dev, DType::U32, len)
}

type Hook = Box<dyn FnOnce() + Send>;

/// Starts a thread that reads an array, and gives it time to get to where it waits: it has begun, and this thread then
/// evaluates on the same device what has nothing to do with it.
fn read_meanwhile(dev: Device, array: Var) -> std::thread::JoinHandle<Vec<u32>> {
    let (begun, begins) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        begun.send(()).expect("somebody waits");
        read::<u32>(&array)
    });
    begins.recv().expect("it begins");
    for k in 0..50u32 {
        assert_eq!(read::<u32>(&op(Op::Mul, &[&counted(dev, 100), &lit(k + 2)]))[1], k + 2);
    }
    thread
}

/// An interpreter that does something else while it compiles, and counts.
struct Watched {
    inner: Interpreter,
    compilations: AtomicUsize,
    meanwhile: Mutex<Option<Hook>>,
    failing: AtomicUsize,
}

impl Backend for Watched {
    fn caps(&self) -> &Caps {
        self.inner.caps()
    }

    fn compile(&self, program: &Program) -> Result<Arc<dyn CompiledKernel>, Error> {
        // Relaxed, here and below: the test's threads are joined before it looks.
        self.compilations.fetch_add(1, Ordering::Relaxed);
        let meanwhile = self.meanwhile.lock().take();
        if let Some(meanwhile) = meanwhile {
            meanwhile();
        }
        let left = self.failing.load(Ordering::Relaxed);
        if left > 0 {
            self.failing.store(left - 1, Ordering::Relaxed);
            return Err(Error::Compile { log: "planned".to_owned(), program: String::new() });
        }
        self.inner.compile(program)
    }

    fn builtin(&self, builtin: Builtin) -> Result<Arc<dyn CompiledKernel>, Error> {
        self.inner.builtin(builtin)
    }

    fn allocate(&self, bytes: usize) -> Result<Allocation, Error> {
        self.inner.allocate(bytes)
    }
}

fn watched() -> (Device, Arc<Watched>) {
    let backend = Arc::new(Watched {
        inner: Interpreter::new(Mode::Lowered),
        compilations: AtomicUsize::new(0),
        meanwhile: Mutex::default(),
        failing: AtomicUsize::new(0),
    });
    let options = DeviceOptions { poison: true, ..DeviceOptions::default() };
    (Device::new(Arc::clone(&backend) as Arc<dyn Backend>, options), backend)
}

#[test]
fn one_array_evaluated_by_two_threads_is_computed_once() {
    let (dev, backend) = watched();
    let x = op(Op::Add, &[&counted(dev, 1000), &lit(1u32)]);
    let (send, receive) = std::sync::mpsc::channel();
    let other = x.clone();
    *backend.meanwhile.lock() = Some(Box::new(move || {
        send.send(read_meanwhile(dev, other)).expect("the test waits");
    }));
    assert_eq!(read::<u32>(&x)[999], 1000);
    assert_eq!(receive.recv().expect("sent").join().expect("no panic")[999], 1000);
    let additions = |r: &&KernelRecord| r.lanes == 1000;
    assert_eq!(dev.kernel_history().iter().filter(additions).count(), 1);
}

#[test]
fn who_waits_for_an_evaluation_that_fails_tries_itself() {
    let (dev, backend) = watched();
    let buffer = BufferVar::new(&upload(dev, &[1u32, 2]));
    let counts = buffer.atomic_inc(&lit(0u32), None);
    let (send, receive) = std::sync::mpsc::channel();
    let other = counts.clone();
    let failing = Arc::clone(&backend);
    *backend.meanwhile.lock() = Some(Box::new(move || {
        send.send(read_meanwhile(dev, other)).expect("the test waits");
        failing.failing.store(1, Ordering::Relaxed);
    }));
    assert!(eval(&[&counts], &[&buffer]).is_err());
    assert_eq!(receive.recv().expect("sent").join().expect("no panic"), [1]);
    assert_eq!(read::<u32>(&buffer.value()), [2, 2], "the effect ran once");
}

/// While one thread compiles, others trace, evaluate, read and drop on the same device.
#[test]
fn compiling_holds_nobody_up() {
    let (dev, backend) = watched();
    let ready = op(Op::Add, &[&counted(dev, 10), &lit(5u32)]);
    assert_eq!(read::<u32>(&ready)[0], 5);
    let done = Arc::new(AtomicUsize::new(0));
    let flag = Arc::clone(&done);
    *backend.meanwhile.lock() = Some(Box::new(move || {
        let thread = std::thread::spawn(move || {
            assert_eq!(read::<u32>(&ready)[9], 14);
            let fresh = op(Op::Mul, &[&ready, &ready]);
            assert_eq!(read::<u32>(&fresh)[9], 196);
            drop((ready, fresh));
            assert!(dev.memory().nodes > 0 && dev.last_program().is_some());
        });
        thread.join().expect("it is not held up");
        flag.store(1, Ordering::Relaxed);
    }));
    let x = op(Op::Sub, &[&counted(dev, 1000), &lit(1u32)]);
    assert_eq!(read::<u32>(&x)[1], 0);
    assert_eq!(done.load(Ordering::Relaxed), 1);
}

/// A small program whose result depends on every step; each step makes, shares, evaluates and drops arrays.
struct Walk {
    state: u32,
    own: Vec<Var>,
}

impl Walk {
    fn new(dev: Device, seed: u32) -> Walk {
        let own =
            (0..4).map(|k| op(Op::Add, &[&counted(dev, 1 + u64::from(seed) % 3), &lit(seed + k)])).collect();
        Walk { state: seed.wrapping_mul(2_654_435_761) | 1, own }
    }

    fn next(&mut self, below: u32) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 17;
        self.state ^= self.state << 5;
        (self.state % below) as usize
    }

    /// One step; `others` are arrays that everybody uses.
    fn step(&mut self, dev: Device, others: &[Var], stream: Option<&Stream>) {
        let (at, from) = (self.next(4), self.next(4));
        let other = &others[self.next(others.len() as u32)];
        self.own[at] = match self.next(7) {
            0 => op(Op::Add, &[&self.own[at], &self.own[from]]),
            1 => op(Op::Mul, &[&self.own[at], &lit(3u32)]),
            2 => op(Op::Xor, &[&self.own[from], &other.reduce(Op::ReduceSum)]),
            3 => other.gather(&self.own[at], None),
            4 => {
                let buffer = BufferVar::new(&op(Op::Add, &[&counted(dev, 8), &lit(1u32)]));
                let index = op(Op::And, &[&self.own[at], &lit(7u32)]);
                buffer.scatter(Op::ScatterAdd, &self.own[from], &index, None);
                buffer.value().gather(&index, None)
            }
            5 => self.own[from].clone(),
            _ => {
                let value = self.own[at].clone();
                let run = || drop(eval(&[&value, other], &[]).expect("evaluation"));
                match stream {
                    None => run(),
                    Some(stream) => stream.enter(run),
                }
                value
            }
        };
    }
}

const STEPS: usize = 200;

fn shared_arrays(dev: Device) -> Vec<Var> {
    (0..6u32)
        .map(|k| {
            op(Op::Mul, &[&op(Op::Add, &[&counted(dev, 1 + 3 * u64::from(k)), &lit(k)]), &lit(2 * k + 1)])
        })
        .collect()
}

/// Eight threads trace, evaluate and drop their own and each other's arrays.
#[test]
fn eight_threads_compute_what_one_does() {
    for dev in devices::fresh() {
        let serial: Vec<Vec<Vec<u32>>> = (0..8)
            .map(|seed| {
                let others = shared_arrays(dev);
                let mut walk = Walk::new(dev, seed);
                (0..STEPS).for_each(|_| walk.step(dev, &others, None));
                walk.own.iter().map(read::<u32>).collect()
            })
            .collect();
        dev.sync().expect("no error");
        let before = dev.memory();
        for with_streams in [false, true] {
            let others = shared_arrays(dev);
            let (send, receive) = std::sync::mpsc::channel::<Vec<Var>>();
            std::thread::scope(|s| {
                for seed in 0..8 {
                    let (others, send) = (others.clone(), send.clone());
                    let serial = &serial[seed as usize];
                    s.spawn(move || {
                        let stream = with_streams.then(|| Stream::new(dev).expect("a stream"));
                        let mut walk = Walk::new(dev, seed);
                        (0..STEPS).for_each(|_| walk.step(dev, &others, stream.as_ref()));
                        // Read by this thread, dropped by another.
                        let parallel: Vec<Vec<u32>> = walk.own.iter().map(read::<u32>).collect();
                        assert_eq!(&parallel, serial, "thread {seed} on {dev:?}");
                        send.send(walk.own).expect("the test waits");
                    });
                }
                drop(send);
                receive.iter().for_each(drop);
            });
            drop(others);
            dev.sync().expect("no error");
            let after = dev.memory();
            assert_eq!((after.nodes, after.storages), (before.nodes, before.storages), "on {dev:?}");
        }
    }
}

/// Many threads evaluate the same lazy arrays, whose plans overlap.
#[test]
fn overlapping_evaluations_agree() {
    for dev in devices::fresh() {
        for round in 0..20u32 {
            let buffer = BufferVar::new(&upload(dev, &[round; 16]));
            let old = buffer.value();
            let mut values = vec![op(Op::Add, &[&old, &lit(1u32)])];
            for k in 0..4u32 {
                buffer.scatter(Op::ScatterAdd, &lit(k + 1), &counted(dev, 16), None);
                values.push(op(Op::Mul, &[&buffer.value(), values.last().expect("there is one")]));
            }
            drop(old);
            std::thread::scope(|s| {
                for thread in 0..4usize {
                    let values = &values;
                    s.spawn(move || {
                        let stream = Stream::new(dev).expect("a stream");
                        stream.enter(|| {
                            for k in 0..values.len() {
                                let at = (k * (thread + 1) + thread) % values.len();
                                let expected = expected(round, at);
                                assert_eq!(read::<u32>(&values[at]), [expected; 16], "value {at} on {dev:?}");
                            }
                        });
                    });
                }
            });
            assert_eq!(read::<u32>(&buffer.value()), [round + 10; 16], "each effect ran once");
        }
    }
}

fn expected(round: u32, at: usize) -> u32 {
    let mut memory = round;
    (0..at as u32).fold(round + 1, |product, k| {
        memory += k + 1;
        product.wrapping_mul(memory)
    })
}

/// Hands what is logged to the thread's own listener. One for the whole process: `tracing` keeps per place of logging
/// whether anybody listens, and forgets that while listeners come and go on several threads.
struct Listeners;

thread_local! {
    static LISTENER: Cell<Option<Box<dyn Fn()>>> = const { Cell::new(None) };
}

impl tracing::Subscriber for Listeners {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        // Taken meanwhile: what it evaluates is logged too.
        if let Some(listener) = LISTENER.take() {
            listener();
            LISTENER.set(Some(listener));
        }
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

/// A listener evaluates, reads and prints arrays whenever anything is logged.
#[test]
fn a_logger_may_print_arrays() {
    drop(tracing::subscriber::set_global_default(Listeners));
    for dev in devices::fresh() {
        let array = op(Op::Mul, &[&counted(dev, 100), &lit(2u32)]);
        let seen = Rc::new(RefCell::new(Vec::new()));
        let lines = Rc::clone(&seen);
        let x = op(Op::Sub, &[&counted(dev, 50), &lit(7u32)]);
        let buffer = BufferVar::new(&x);
        let (logged, place) = (x.clone(), buffer.clone());
        LISTENER.set(Some(Box::new(move || {
            // Also what is evaluated by whoever logs.
            assert_eq!(read::<u32>(&logged)[10], 3);
            assert_eq!(read::<u32>(&place.value())[10], 4);
            let fresh = op(Op::Add, &[&array, &lit(1u32)]);
            let line = format!("{fresh:?} {:?} {:?}", read::<u32>(&array), read::<u32>(&fresh));
            lines.borrow_mut().push(line);
        })));
        buffer.scatter(Op::ScatterAdd, &lit(1u32), &counted(dev, 50), None);
        eval(&[&x], &[&buffer]).expect("evaluation").wait().expect("no error");
        assert_eq!(read::<u32>(&buffer.value())[10], 4);
        dev.trim();
        LISTENER.set(None);
        assert!(!seen.borrow().is_empty(), "something is logged on {dev:?}");
    }
}
