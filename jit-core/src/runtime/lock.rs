//! The lock around a device's trace, and what is given back while somebody else holds it.
//!
//! A clone takes no lock, nor does a drop of a handle that is not the last. The drop of the last never waits: if it finds
//! the trace locked, it leaves a note, which the holder reads when it unlocks. Nothing is destroyed while the trace is
//! locked: the holder takes what became free with it when it unlocks.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, MutexGuard};

use crate::runtime::Device;
use crate::trace::{Anchor, NodeId, PlaceKey, Trace};

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
    /// A handle of a node. While the note waits it still counts.
    Handle(&'static Anchor),
    /// A count on a node.
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

    #[inline]
    fn lock(&self) -> MutexGuard<'_, Trace> {
        let mut trace = self.trace.lock();
        if self.has_deferred.load(Ordering::Acquire) {
            self.read_notes(&mut trace);
        }
        trace
    }

    /// Gives back what is probably the last handle of a node.
    fn drop_last(&self, anchor: &'static Anchor) {
        match self.trace.try_lock() {
            Some(mut trace) => {
                trace.drop_handle(anchor);
                self.unlock(trace);
            }
            None => self.leave_note(Dropped::Handle(anchor)),
        }
    }

    fn give_back(&self, dropped: Dropped) {
        match self.trace.try_lock() {
            Some(mut trace) => {
                trace.give_back(dropped);
                self.unlock(trace);
            }
            None => self.leave_note(dropped),
        }
    }

    #[inline]
    fn unlock(&self, trace: MutexGuard<'_, Trace>) {
        if trace.garbage.is_empty() {
            drop(trace);
        } else {
            unlock_and_destroy(trace);
        }
        // Acquire pairs with the exchange in `leave_note`.
        if self.has_deferred.load(Ordering::Acquire) {
            self.read_notes_later();
        }
    }

    #[cold]
    fn leave_note(&self, dropped: Dropped) {
        self.deferred.lock().push(dropped);
        // Whoever sees the flag sees the entry (the list has its own lock besides).
        self.has_deferred.swap(true, Ordering::SeqCst);
        // The holder may have looked just before that. Were it to miss the flag and this to miss the end of its lock, which
        // only a fence in every `unlock` could rule out on paper, the next holder would find the note.
        self.read_notes_later();
    }

    #[cold]
    fn read_notes(&self, trace: &mut Trace) {
        // Cleared before the list is taken: an entry pushed after that sets it again.
        self.has_deferred.store(false, Ordering::Release);
        let list = std::mem::take(&mut *self.deferred.lock());
        for dropped in list {
            trace.give_back(dropped);
        }
    }

    /// Reads the notes unless somebody holds the trace, who will then.
    #[cold]
    fn read_notes_later(&self) {
        while self.has_deferred.load(Ordering::Acquire) {
            let Some(mut trace) = self.trace.try_lock() else { return };
            self.read_notes(&mut trace);
            unlock_and_destroy(trace);
        }
    }
}

#[cold]
fn unlock_and_destroy(mut trace: MutexGuard<'_, Trace>) {
    let garbage = std::mem::take(&mut trace.garbage);
    drop(trace);
    drop(garbage);
}

impl Device {
    /// Runs `f` with the trace locked. What it freed is destroyed after the lock is given back.
    #[inline]
    pub(crate) fn with_trace<R>(&self, f: impl FnOnce(&mut Trace) -> R) -> R {
        let mut trace = self.lock_trace();
        let result = f(&mut trace);
        self.unlock_trace(trace);
        result
    }

    /// The trace, locked. [`unlock_trace`](Self::unlock_trace) is next.
    #[inline]
    pub(crate) fn lock_trace(&self) -> MutexGuard<'static, Trace> {
        self.shared().trace.lock()
    }

    /// Unlocks the trace, and destroys what became free meanwhile.
    #[inline]
    pub(crate) fn unlock_trace(&self, trace: MutexGuard<'_, Trace>) {
        self.shared().trace.unlock(trace);
    }

    /// Gives back what is probably the last handle of a node: as [`give_back`](Self::give_back), but quicker.
    pub(crate) fn drop_last(&self, anchor: &'static Anchor) {
        self.shared().trace.drop_last(anchor);
    }

    /// Gives something back, now or, if the trace is locked, when that ends. Never blocks on the trace.
    pub(crate) fn give_back(&self, dropped: Dropped) {
        self.shared().trace.give_back(dropped);
    }
}

impl Trace {
    fn give_back(&mut self, dropped: Dropped) {
        match dropped {
            Dropped::Handle(anchor) => self.drop_handle(anchor),
            Dropped::Node(id) => self.release(id),
            Dropped::Place(key) => self.release_place(key),
            Dropped::Scope(scope) => self.abandon_scope(scope),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::dtype::DType;
    use crate::interp::Mode;
    use crate::runtime::Device;
    use crate::trace::{BufferVar, Var};

    #[test]
    fn what_is_dropped_while_the_trace_is_locked_goes_when_that_ends() {
        let device = Device::interpreter(Mode::Lowered);
        let lazy = Var::counter(device, DType::U32, 4).reduce(crate::op::Op::ReduceSum);
        let buffer = BufferVar::new(&Var::full(device, DType::F32, 0, 4));
        let array = Var::upload(device, DType::U8, 3, &[1, 2, 3]).expect("memory");
        let storage =
            device.with_trace(|t| Arc::downgrade(t.storage(array.id()).expect("an evaluated array")));
        let live = device.with_trace(|trace| {
            // A drop that waited for the lock would never come back.
            drop(lazy);
            drop(buffer);
            drop(array);
            trace.slab.live()
        });
        assert_eq!(live, 4, "the lock's holder still sees them");
        // Nobody had to lock the trace again.
        assert!(storage.upgrade().is_none(), "the memory is given back");
        assert_eq!(device.memory().nodes, 0);
    }

    #[test]
    fn clones_and_their_drops_need_no_lock() {
        let device = Device::interpreter(Mode::Lowered);
        let lazy = Var::counter(device, DType::U32, 4).reduce(crate::op::Op::ReduceSum);
        let buffer = BufferVar::new(&Var::full(device, DType::F32, 0, 4));
        let lock = &device.shared().trace;
        let trace = device.lock_trace();
        drop((lazy.clone(), buffer.clone()));
        let (other, more) = (lazy.clone(), lazy.clone());
        drop(lazy);
        drop(more);
        assert!(lock.deferred.lock().is_empty(), "all were done with at once");
        drop(other);
        assert_eq!(lock.deferred.lock().len(), 1, "the last one waits for the lock's end");
        device.unlock_trace(trace);
        assert_eq!(device.memory().nodes, 1, "the buffer's");
    }
}
