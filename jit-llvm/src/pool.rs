//! How the blocks of a launch are shared out over threads.

use std::sync::atomic::{AtomicU64, Ordering};

use jit_core::backend::DeviceKind;
use jit_core::error::Error;
use rayon_core::{ThreadPool, ThreadPoolBuilder};

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
}

impl Pool {
    /// A pool on which `threads` threads work at a launch, its caller among them.
    pub(crate) fn new(threads: usize) -> Result<Pool, Error> {
        let workers = ThreadPoolBuilder::new()
            // None would mean as many as there are processors.
            .num_threads((threads - 1).max(1))
            .thread_name(|k| format!("jit-llvm {k}"))
            .build()
            .map_err(|e| Error::NoDevice { kind: DeviceKind::Cpu, why: format!("no worker threads: {e}") })?;
        Ok(Pool { threads, workers })
    }

    /// The number of threads that work at a launch.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// Whether a single thread takes all of so many blocks.
    pub(crate) fn is_alone(&self, blocks: u64, share: Share) -> bool {
        self.threads == 1 || blocks <= 1 || share == Share::Caller
    }

    /// Calls `work` once with each number below `blocks`, and what `start` gave to its thread; on each thread then `end`.
    /// Returns when all calls have.
    pub(crate) fn run<S>(
        &self,
        blocks: u64,
        share: Share,
        start: impl Fn() -> S + Sync,
        work: impl Fn(&S, u64) + Sync,
        end: impl Fn(S) + Sync,
    ) {
        let next = AtomicU64::new(0);
        let drain = || {
            let mut state = None;
            loop {
                // Relaxed: the numbers only have to differ; the scope's end orders the work before what follows.
                let block = next.fetch_add(1, Ordering::Relaxed);
                if block >= blocks {
                    break;
                }
                work(state.get_or_insert_with(&start), block);
            }
            state.into_iter().for_each(&end);
        };
        if self.is_alone(blocks, share) {
            return drain();
        }
        let workers = (self.threads - 1).min(usize::try_from(blocks - 1).unwrap_or(usize::MAX));
        self.workers.in_place_scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|_| drain());
            }
            drain();
        });
    }
}
