//! Batches: the work of one evaluation.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::backend::{Arg, CompiledKernel, Launch};
use crate::error::Error;
use crate::runtime::event::Events;
use crate::runtime::executor::Executor;
use crate::runtime::history::Run;
use crate::runtime::{Event, Storage, Stream};

/// One thing to do.
pub(crate) enum Work {
    /// Launches a kernel.
    Kernel {
        /// The kernel.
        kernel: Arc<dyn CompiledKernel>,
        /// Its arguments.
        args: Vec<Arg>,
        /// Number of lanes.
        lanes: u64,
        /// Length of its segments.
        segment: u64,
        /// Where to note when it ran.
        run: Option<Arc<Run>>,
    },
    /// Copies all bytes of a storage to another of its size.
    Copy {
        /// From here.
        from: Span,
        /// To here.
        to: Span,
    },
    /// Fills memory with a byte.
    Fill(Span, u8),
    /// Runs a function: what tests hold a stream with.
    Call(Box<dyn FnOnce() + Send>),
}

/// Memory of a storage. Nobody keeps the storage alive for it: the pool gives its memory to others in the order of points,
/// and to the system when all work on it is done.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    ptr: *mut u8,
    bytes: usize,
}

// SAFETY: a span is a plain description of memory; who may touch it when is decided by the order of batches.
unsafe impl Send for Span {}

impl Span {
    /// All of a storage.
    pub(crate) fn of(storage: &Storage) -> Span {
        Span { ptr: storage.ptr(), bytes: storage.bytes() }
    }
}

/// What one evaluation runs, in order.
pub(crate) struct Batch {
    /// Where errors are kept for its `sync`; none for batches of no stream.
    pub(crate) stream: Option<Stream>,
    pub(crate) work: Vec<Work>,
    /// Gates that must be open before.
    pub(crate) after: Events,
    /// Those among the work before whose error is this batch's: they make what it reads.
    pub(crate) inputs: Events,
    pub(crate) executor: &'static Executor,
}

impl Batch {
    /// Gates that must be open before it runs.
    pub(crate) fn after(&self) -> &[Event] {
        &self.after
    }

    /// Who runs it if nobody else does.
    pub(crate) fn executor(&self) -> &'static Executor {
        self.executor
    }

    /// Does the work, up to the first error.
    pub(crate) fn run(self) -> Result<(), Error> {
        let Batch { stream, work, inputs, .. } = self;
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            for input in inputs {
                input.outcome().unwrap_or(Ok(()))?;
            }
            work.into_iter().try_for_each(Work::run)
        }));
        let outcome = outcome.unwrap_or_else(|panic| Err(Error::Execution(panic_message(&*panic))));
        if let (Err(error), Some(stream)) = (&outcome, &stream) {
            stream.keep_error(error);
        }
        outcome
    }
}

impl Work {
    fn run(self) -> Result<(), Error> {
        match self {
            Work::Kernel { kernel, args, lanes, segment, run } => {
                let launch = Launch { args: &args, lanes, segment, base: 0 };
                // SAFETY: the memory of the arguments lives until this batch is done, see `Span`; the plan gave each
                // parameter memory of its kind and length, and checked `min_len`; batches that write what this one
                // reads or writes, and batches that read what it writes, are ordered by the points of the storages.
                let launch = || unsafe { kernel.launch(&launch) };
                match run {
                    Some(run) => run.measure(launch),
                    None => launch(),
                }
            }
            Work::Copy { from, to } => {
                assert_eq!(from.bytes, to.bytes, "a copy between storages of one size");
                // SAFETY: both are of that size, alive and ordered as above; a plan copies between distinct storages.
                unsafe { std::ptr::copy_nonoverlapping(from.ptr, to.ptr, from.bytes) };
                Ok(())
            }
            Work::Fill(span, byte) => {
                // SAFETY: as above; the batch's own kernels write it afterwards.
                unsafe { std::ptr::write_bytes(span.ptr, byte, span.bytes) };
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
