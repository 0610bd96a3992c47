//! The lock around a device's trace, and what is given back while somebody else holds it.
//!
//! A drop never waits for the trace: if it finds it locked, it leaves a note for whoever locks it next. Nothing is
//! destroyed while the trace is locked: the holder takes what became free with it when it unlocks.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, MutexGuard};

use crate::runtime::Device;
use crate::trace::{NodeId, PlaceKey, Trace};

/// A trace behind its lock.
pub(crate) struct TraceLock {
    trace: Mutex<Trace>,
    /// What was dropped while the trace was locked.
    deferred: Mutex<Vec<Dropped>>,
    /// Whether `deferred` has anything in it.
    has_deferred: AtomicBool,
}

/// What is given back when a handle or a guard is dropped.
pub(crate) enum Dropped {
    Node(NodeId),
    Place(PlaceKey),
    /// A scope whose closure failed.
    Scope(u32),
}

impl TraceLock {
    pub(crate) fn new(trace: Trace) -> TraceLock {
        TraceLock {
            trace: Mutex::new(trace),
            deferred: Mutex::default(),
            has_deferred: AtomicBool::new(false),
        }
    }

    /// Runs `f` with the trace locked. What it freed is destroyed after the lock is given back.
    #[inline]
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut Trace) -> R) -> R {
        let mut trace = self.trace.lock();
        self.drain_deferred(&mut trace);
        let result = f(&mut trace);
        unlock(trace);
        result
    }

    /// Gives back a handle's count, now or, if the trace is locked, by whoever locks it next. Never blocks on the
    /// trace.
    pub(crate) fn give_back(&self, dropped: Dropped) {
        if let Some(mut trace) = self.trace.try_lock() {
            self.drain_deferred(&mut trace);
            trace.give_back(dropped);
            unlock(trace);
            return;
        }
        self.deferred.lock().push(dropped);
        // Release: whoever sees the flag sees the entry (the list has its own lock besides).
        self.has_deferred.store(true, Ordering::Release);
    }

    #[inline]
    fn drain_deferred(&self, trace: &mut Trace) {
        // Acquire pairs with the store in `give_back`; a flag missed now is seen by the next holder.
        if self.has_deferred.load(Ordering::Acquire) {
            self.drain_list(trace);
        }
    }

    #[cold]
    fn drain_list(&self, trace: &mut Trace) {
        // Cleared before the list is taken: an entry pushed after that sets it again.
        self.has_deferred.store(false, Ordering::Release);
        let list = std::mem::take(&mut *self.deferred.lock());
        for dropped in list {
            trace.give_back(dropped);
        }
    }
}

impl Device {
    /// Runs `f` with the trace locked. What it freed is destroyed after the lock is given back.
    #[inline]
    pub(crate) fn with_trace<R>(&self, f: impl FnOnce(&mut Trace) -> R) -> R {
        self.shared().trace.with(f)
    }

    /// Gives back a handle's count, now or, if the trace is locked, by whoever locks it next. Never blocks on the
    /// trace.
    #[inline]
    pub(crate) fn give_back(&self, dropped: Dropped) {
        self.shared().trace.give_back(dropped);
    }
}

#[inline]
fn unlock(trace: MutexGuard<'_, Trace>) {
    if !trace.garbage.is_empty() {
        unlock_and_destroy(trace);
    }
}

#[cold]
fn unlock_and_destroy(mut trace: MutexGuard<'_, Trace>) {
    let garbage = std::mem::take(&mut trace.garbage);
    drop(trace);
    drop(garbage);
}

impl Trace {
    fn give_back(&mut self, dropped: Dropped) {
        match dropped {
            Dropped::Node(id) => self.release(id),
            Dropped::Place(key) => self.release_place(key),
            Dropped::Scope(scope) => self.abandon_scope(scope),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::dtype::DType;
    use crate::interp::Mode;
    use crate::runtime::Device;
    use crate::trace::{BufferVar, Var};

    #[test]
    fn what_is_dropped_while_the_trace_is_locked_goes_with_the_next_that_locks_it() {
        let device = Device::interpreter(Mode::Lowered);
        let lazy = Var::counter(device, DType::U32, 4).reduce(crate::op::Op::ReduceSum);
        let buffer = BufferVar::new(&Var::full(device, DType::F32, 0, 4));
        let live = device.with_trace(|trace| {
            // A drop that waited for the lock would never come back.
            drop(lazy);
            drop(buffer);
            trace.slab.live()
        });
        assert_eq!(live, 3, "the lock's holder still sees them");
        assert_eq!(device.memory().nodes, 0);
    }
}
