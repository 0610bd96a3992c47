//! How the blocks of a launch are shared out over threads.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

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
        let party = Party::open(&drain);
        for _ in 0..workers {
            let party = Arc::clone(&party);
            self.workers.spawn(move || party.join());
        }
        let closing = Closing(&party);
        drain();
        drop(closing);
        if let Some(panic) = party.state().panic.take() {
            resume_unwind(panic);
        }
    }
}

/// Work that threads join while it is open. The caller waits for those that have joined, and not for those that were to
/// but are busy elsewhere: with what other streams run, for one.
struct Party {
    work: *const (dyn Fn() + Sync),
    state: Mutex<Guests>,
    left: Condvar,
}

#[derive(Default)]
struct Guests {
    present: usize,
    closed: bool,
    panic: Option<Box<dyn Any + Send>>,
}

/// Closes a party when the caller is done, also by a panic.
struct Closing<'a>(&'a Party);

// SAFETY: the work may be called from several threads at once, and `Closing` keeps it alive while any does.
unsafe impl Send for Party {}
// SAFETY: as above.
unsafe impl Sync for Party {}

impl Party {
    /// The caller closes it by dropping a [`Closing`] before `work` goes.
    fn open<'a>(work: &'a (dyn Fn() + Sync + 'a)) -> Arc<Party> {
        let work: *const (dyn Fn() + Sync + 'a) = work;
        // SAFETY: only the lifetime differs; the pointer is followed while the party is open, or somebody is present.
        let work =
            unsafe { std::mem::transmute::<*const (dyn Fn() + Sync + 'a), *const (dyn Fn() + Sync)>(work) };
        Arc::new(Party { work, state: Mutex::default(), left: Condvar::new() })
    }

    fn join(&self) {
        let mut state = self.state();
        if state.closed {
            return;
        }
        state.present += 1;
        drop(state);
        // SAFETY: the party was open when this thread came in, so the caller is in `run`, and stays there until this
        // thread has left.
        let outcome = catch_unwind(AssertUnwindSafe(|| unsafe { (*self.work)() }));
        let mut state = self.state();
        state.present -= 1;
        if let Err(panic) = outcome {
            state.panic.get_or_insert(panic);
        }
        drop(state);
        self.left.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, Guests> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.closed = true;
        while state.present > 0 {
            state = self.0.left.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// All workers are busy with one launch, and another one ends without them.
    #[test]
    fn a_launch_does_not_wait_for_workers_of_another() {
        let pool = Pool::new(3).expect("threads");
        let (inside, release) = (Barrier::new(4), Barrier::new(4));
        std::thread::scope(|scope| {
            let held = scope.spawn(|| {
                pool.run(
                    3,
                    Share::All,
                    || (),
                    |&(), _| {
                        inside.wait();
                        release.wait();
                    },
                    |()| (),
                );
            });
            inside.wait();
            let count = AtomicUsize::new(0);
            // Relaxed: read by the thread that waited for all.
            pool.run(50, Share::All, || (), |&(), _| _ = count.fetch_add(1, Ordering::Relaxed), |()| ());
            assert_eq!(count.load(Ordering::Relaxed), 50);
            release.wait();
            held.join().expect("no panic");
        });
    }

    #[test]
    fn a_panic_of_any_thread_reaches_the_caller() {
        let pool = Pool::new(3).expect("threads");
        for panicking in 0..3 {
            // All three blocks run at once, so that each is another thread's.
            let together = Barrier::new(3);
            let run = || {
                pool.run(
                    3,
                    Share::All,
                    || (),
                    |&(), block| {
                        together.wait();
                        assert!(block != panicking, "planned");
                    },
                    |()| (),
                );
            };
            assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
        }
        pool.run(3, Share::All, || (), |&(), _| (), |()| ());
    }
}
