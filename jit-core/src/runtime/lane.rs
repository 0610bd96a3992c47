//! A stream of a device that runs on the host: a FIFO of batches, worked off by a thread of its own, or by the
//! submitting thread if the batch is small and nothing is queued before it.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::backend::{Arg, CompiledKernel, Launch};
use crate::error::Error;
use crate::runtime::{Event, Storage};

/// One thing to do.
pub(crate) enum Work {
    /// Launches a kernel.
    Kernel {
        /// The kernel.
        kernel: Arc<dyn CompiledKernel>,
        /// Its arguments; their memory is kept by the batch.
        args: Vec<Arg>,
        /// Number of lanes.
        lanes: u64,
    },
    /// Copies all bytes of a storage.
    Copy {
        /// From here.
        from: Arc<Storage>,
        /// To here.
        to: Arc<Storage>,
    },
    /// Runs a function: what tests hold a stream with.
    Call(Box<dyn FnOnce() + Send>),
}

/// Work of one evaluation.
pub(crate) struct Batch {
    pub(crate) work: Vec<Work>,
    /// Everything that the work touches.
    pub(crate) keep: Vec<Arc<Storage>>,
    /// What must have succeeded before; on one lane it is complete by then.
    pub(crate) after: Vec<Event>,
    /// Opened when all is done.
    pub(crate) done: Event,
}

/// A FIFO of batches.
pub(crate) struct Lane(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Batch>,
    /// Somebody is running a batch.
    running: bool,
    has_thread: bool,
    last: Option<Event>,
    /// The first error that nobody has asked for.
    failed: Option<Error>,
}

impl Lane {
    pub(crate) fn new() -> Lane {
        Lane(Arc::new(Shared { state: Mutex::default(), wake: Condvar::new() }))
    }

    /// Queues a batch, or runs it at once if it is small and the lane is open.
    pub(crate) fn submit(&self, batch: Batch, small: bool) {
        let mut state = self.0.state.lock();
        state.last = Some(batch.done.clone());
        if small && !state.running && state.queue.is_empty() {
            state.running = true;
            drop(state);
            batch.run(&self.0);
            self.0.state.lock().running = false;
            self.0.wake.notify_one();
            return;
        }
        state.queue.push_back(batch);
        if !state.has_thread {
            let shared = Arc::clone(&self.0);
            let started =
                std::thread::Builder::new().name("jit-stream".to_owned()).spawn(move || shared.work());
            match started {
                Ok(_) => state.has_thread = true,
                // Without a thread the work is done here and now.
                Err(_) => {
                    while let Some(batch) = state.queue.pop_front() {
                        parking_lot::MutexGuard::unlocked(&mut state, || batch.run(&self.0));
                    }
                }
            }
        }
        drop(state);
        self.0.wake.notify_one();
    }

    /// Waits for everything submitted so far; the first error since the last call.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        match self.last().wait() {
            Err(forbidden @ Error::HostSyncForbidden { .. }) => Err(forbidden),
            _ => self.0.state.lock().failed.take().map_or(Ok(()), Err),
        }
    }

    /// The event of the last batch submitted.
    pub(crate) fn last(&self) -> Event {
        self.0.state.lock().last.clone().unwrap_or_else(Event::complete)
    }
}

impl Shared {
    fn work(&self) {
        let mut state = self.state.lock();
        loop {
            if !state.running
                && let Some(batch) = state.queue.pop_front()
            {
                state.running = true;
                drop(state);
                batch.run(self);
                state = self.state.lock();
                state.running = false;
                continue;
            }
            self.wake.wait(&mut state);
        }
    }
}

impl Batch {
    fn run(self, lane: &Shared) {
        let Batch { work, keep, after, done } = self;
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            for event in after {
                event.wait()?;
            }
            work.into_iter().try_for_each(Work::run)
        }));
        let outcome = outcome.unwrap_or_else(|panic| Err(Error::Execution(panic_message(&*panic))));
        // Memory that only this batch still held goes before anybody hears that it is done.
        drop(keep);
        if let Err(error) = &outcome {
            lane.state.lock().failed.get_or_insert_with(|| error.clone());
        }
        done.open(outcome);
    }
}

impl Work {
    fn run(self) -> Result<(), Error> {
        match self {
            Work::Kernel { kernel, args, lanes } => {
                // SAFETY: the batch keeps the storages that the arguments point into; the plan gave each
                // parameter memory of its kind and length, checked `min_len`, and orders writers after readers on this
                // lane.
                unsafe { kernel.launch(&Launch { args: &args, lanes, base: 0 }) }
            }
            Work::Copy { from, to } => {
                assert_eq!(from.bytes(), to.bytes(), "a copy between storages of one size");
                // SAFETY: both storages are alive, of that size, distinct, and written by nobody else on this lane.
                unsafe { std::ptr::copy_nonoverlapping(from.ptr(), to.ptr(), from.bytes()) };
                Ok(())
            }
            Work::Call(f) => {
                f();
                Ok(())
            }
        }
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("a kernel panicked: {}", text.unwrap_or_else(|| "no message".to_owned()))
}
