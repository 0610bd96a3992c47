//! How the blocks of a launch are shared out over threads.

use std::sync::atomic::{AtomicU64, Ordering};

use jit_core::backend::DeviceKind;
use jit_core::error::Error;
use rayon_core::{ThreadPool, ThreadPoolBuilder};

/// A frame of a long program spills thousands of vectors. Pages are taken only as they are touched.
const STACK: usize = 64 << 20;

/// The worker threads of a backend.
pub(crate) struct Pool {
    threads: usize,
    workers: ThreadPool,
}

/// Who works on a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Share {
    /// The calling thread alone: handing over would cost more than it gains.
    Caller,
    /// The calling thread and the workers.
    All,
    /// Workers alone, for code that needs their large stacks.
    Workers,
}

impl Pool {
    /// A pool on which `threads` threads work at a launch. As many workers: the last one is for launches whose caller does
    /// not take part.
    pub(crate) fn new(threads: usize) -> Result<Pool, Error> {
        let workers = ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|k| format!("jit-llvm {k}"))
            .stack_size(STACK)
            .build()
            .map_err(|e| Error::NoDevice { kind: DeviceKind::Cpu, why: format!("no worker threads: {e}") })?;
        Ok(Pool { threads, workers })
    }

    /// The number of threads that work at a launch.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// Calls `work` once with each number below `blocks`; returns when all calls have.
    pub(crate) fn run(&self, blocks: u64, share: Share, work: impl Fn(u64) + Sync) {
        if share == Share::Caller || share == Share::All && (self.threads == 1 || blocks == 1) {
            return (0..blocks).for_each(work);
        }
        let next = AtomicU64::new(0);
        let drain = || {
            loop {
                // Relaxed: the numbers only have to differ; the scope's end orders the work before what follows.
                let block = next.fetch_add(1, Ordering::Relaxed);
                if block >= blocks {
                    return;
                }
                work(block);
            }
        };
        let caller = share == Share::All;
        let workers = (self.threads - usize::from(caller)).min(blocks as usize).max(usize::from(!caller));
        self.workers.in_place_scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|_| drain());
            }
            if caller {
                drain();
            }
        });
    }
}
