//! Events: points in a stream that can be waited for.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::OnceLock;

use parking_lot::{Condvar, Mutex};

use crate::error::Error;

/// A point in a stream's work: complete once everything submitted before it is. Cheap to clone.
#[derive(Clone)]
pub struct Event(Arc<Gate>);

/// Opened once, by the last work item of its batch; carries that batch's error on to whoever waits.
struct Gate {
    outcome: OnceLock<Result<(), Error>>,
    waiting: Mutex<()>,
    opened: Condvar,
}

impl Event {
    /// An event that has not happened.
    pub(crate) fn pending() -> Event {
        let waiting = Mutex::new(());
        Event(Arc::new(Gate { outcome: OnceLock::new(), waiting, opened: Condvar::new() }))
    }

    /// An event that has happened.
    pub fn complete() -> Event {
        let event = Event::pending();
        event.open(Ok(()));
        event
    }

    /// Whether it has happened. Never waits.
    ///
    /// # Errors
    /// The error of the work before it.
    pub fn is_complete(&self) -> Result<bool, Error> {
        self.0.outcome.get().map_or(Ok(false), |outcome| outcome.clone().map(|()| true))
    }

    /// Makes the host wait until it has happened.
    ///
    /// # Errors
    /// The error of the work before it; [`Error::HostSyncForbidden`] if it would have to wait inside
    /// [`forbid_host_sync`].
    pub fn wait(&self) -> Result<(), Error> {
        if let Some(outcome) = self.0.outcome.get() {
            return outcome.clone();
        }
        if FORBIDDEN.get() {
            return Err(Error::HostSyncForbidden { what: "waiting for an event" });
        }
        let mut guard = self.0.waiting.lock();
        loop {
            // Looked at under the lock that `open` takes after setting it, so no wake-up is lost.
            if let Some(outcome) = self.0.outcome.get() {
                return outcome.clone();
            }
            self.0.opened.wait(&mut guard);
        }
    }

    /// Whether both are the same point.
    pub(crate) fn same(&self, other: &Event) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Lets everybody pass.
    pub(crate) fn open(&self, outcome: Result<(), Error>) {
        // A gate is opened once; a second outcome would be a bug, and losing it is the safe way out.
        let _ = self.0.outcome.set(outcome);
        drop(self.0.waiting.lock());
        self.0.opened.notify_all();
    }
}

impl std::fmt::Debug for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = match self.0.outcome.get() {
            None => "pending",
            Some(Ok(())) => "complete",
            Some(Err(_)) => "failed",
        };
        write!(f, "Event({state})")
    }
}

thread_local! {
    static FORBIDDEN: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f`; any wait of the host for a device inside it, on this thread, is an error instead.
pub fn forbid_host_sync<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            FORBIDDEN.set(self.0);
        }
    }
    let _restore = Restore(FORBIDDEN.replace(true));
    f()
}
