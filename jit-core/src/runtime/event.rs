//! Events: points in the work of a device that can be waited for.
//!
//! An event is a gate. Most gates belong to a batch of a stream: the batch runs when every gate before it is open, and
//! opens its own, also when it failed; the error goes on to whoever needs its results. Who waits for an event helps, but
//! only by running a batch that this event needs.

use std::cell::Cell;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use crate::error::Error;
use crate::runtime::Device;
use crate::runtime::batch::Batch;
use crate::runtime::clock::{Clock, Point};
use crate::runtime::reports::Findings;
use crate::runtime::sync::{AtomicU8, AtomicUsize, Condvar, Mutex, Ordering};

/// A point in a device's work: complete once everything that it stands for is. Cheap to clone.
#[derive(Clone)]
pub struct Event(Arc<Inner>);

/// Several events, of which most often there are few.
pub(crate) type Events = SmallVec<[Event; 4]>;

const PENDING: u8 = 0;
const COMPLETE: u8 = 1;
const FAILED: u8 = 2;

struct Inner {
    outcome: AtomicU8,
    state: Mutex<State>,
    opened: Condvar,
    /// Gates that are closed and stand before this one's batch, and one more until the batch is started.
    missing: AtomicUsize,
    point: Option<Point>,
    /// What is known to be done once this is.
    known: Clock,
    /// What lanes of the batch do wrong, on checked devices.
    findings: Option<Arc<Findings>>,
    /// When the batch ran, of events that measure time.
    time: Option<OnceLock<Instant>>,
}

#[derive(Default)]
struct State {
    error: Option<Error>,
    /// What opens the gate, until somebody runs it.
    batch: Option<Box<Batch>>,
    dependents: Vec<Event>,
    /// Threads that sleep until it opens.
    sleepers: usize,
}

impl Event {
    /// The event of a batch, which runs after [`start`](Self::start).
    pub(crate) fn of_batch(batch: Batch, point: Option<Point>, known: Clock, timed: bool) -> Event {
        Event::new(Some(Box::new(batch)), point, known, timed)
    }

    /// An event that has happened.
    pub fn complete() -> Event {
        let event = Event::new(None, None, Clock::default(), false);
        event.open(Ok(()));
        event
    }

    /// An event that happens when all of these have, with the first error among them.
    pub(crate) fn all(device: Device, mut events: Vec<Event>) -> Event {
        events.retain(|e| !e.has_succeeded() || e.may_tell());
        events.dedup_by(|a, b| a.same(b));
        if events.len() < 2 {
            return events.pop().unwrap_or_else(Event::complete);
        }
        let after: Events = events.into();
        let executor = &device.shared().streams.executor;
        let mut findings = after.iter().filter_map(Event::findings).peekable();
        let findings = findings.peek().is_some().then(|| Arc::new(Findings::after(findings)));
        let inputs = after.clone();
        let batch =
            Batch { stream: None, work: Vec::new(), after: after.clone(), inputs, executor, findings };
        let event = Event::of_batch(batch, None, Clock::default(), false);
        if event.start(&after) {
            event.run();
        }
        event
    }

    /// Whether it has happened. Never waits.
    ///
    /// # Errors
    /// The error of the work before it.
    pub fn is_complete(&self) -> Result<bool, Error> {
        self.outcome().map_or(Ok(false), |outcome| outcome.map(|()| true))
    }

    /// Makes the host wait until it has happened. The calling thread helps with the work that this event needs, and with
    /// no other.
    ///
    /// # Errors
    /// The error of the work before it; what its lanes did wrong and nobody has been told, on checked devices;
    /// [`Error::HostSyncForbidden`] if it would have to wait inside [`forbid_host_sync`].
    pub fn wait(&self) -> Result<(), Error> {
        self.wait_untold()?;
        self.0.findings.as_ref().and_then(|findings| findings.take()).map_or(Ok(()), Err)
    }

    /// As [`wait`](Self::wait), leaving it to others to ask what lanes did wrong.
    pub(crate) fn wait_untold(&self) -> Result<(), Error> {
        loop {
            if let Some(outcome) = self.outcome() {
                return outcome;
            }
            check_host_sync("waiting for an event")?;
            match self.runnable() {
                Some(needed) => drop(needed.run()),
                None => self.sleep(),
            }
        }
    }

    /// The time between two events, both made by [`Stream::record_timed`](crate::runtime::Stream::record_timed), this one
    /// being the later; zero if it was not.
    ///
    /// # Errors
    /// [`Error::Config`] if either measures no time, or has not happened.
    pub fn elapsed_since(&self, earlier: &Event) -> Result<Duration, Error> {
        let time = |event: &Event| {
            let time = event.0.time.as_ref().ok_or_else(|| {
                Error::Config("an event measures time if `record_timed` made it".to_owned())
            })?;
            let why =
                || Error::Config("a time is asked for before the event happened; wait for it".to_owned());
            time.get().copied().ok_or_else(why)
        };
        Ok(time(self)?.saturating_duration_since(time(earlier)?))
    }

    /// What lanes of its batch do wrong, on checked devices.
    pub(crate) fn findings(&self) -> Option<Arc<Findings>> {
        self.0.findings.clone()
    }

    /// Whether who waits for it may still be told what lanes did wrong.
    pub(crate) fn may_tell(&self) -> bool {
        self.0.findings.as_ref().is_some_and(|findings| findings.may_tell())
    }

    /// Whether both are the same point.
    pub(crate) fn same(&self, other: &Event) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether it has happened, well or not.
    pub(crate) fn is_open(&self) -> bool {
        self.0.outcome.load(Ordering::Acquire) != PENDING
    }

    /// Whether it has happened without an error, so that nobody needs to hear of it again.
    pub(crate) fn has_succeeded(&self) -> bool {
        self.0.outcome.load(Ordering::Acquire) == COMPLETE
    }

    /// How it went, if it has happened.
    pub(crate) fn outcome(&self) -> Option<Result<(), Error>> {
        // Acquire pairs with the store in `open`: who sees the outcome sees what the work wrote.
        match self.0.outcome.load(Ordering::Acquire) {
            PENDING => None,
            COMPLETE => Some(Ok(())),
            _ => Some(Err(self.0.state.lock().error.clone().expect("a failed gate has its error"))),
        }
    }

    /// Its batch's place, if it is a batch's.
    pub(crate) fn point(&self) -> Option<Point> {
        self.0.point
    }

    /// What is known to be done once it has happened.
    pub(crate) fn known(&self) -> &Clock {
        &self.0.known
    }

    /// Lets a batch run as soon as the gates before it are open. Whether that is now; else who opens the last of them
    /// hands it to its executor.
    pub(crate) fn start(&self, after: &[Event]) -> bool {
        for event in after {
            // Relaxed: the one that `new` put there keeps the count above zero meanwhile.
            self.0.missing.fetch_add(1, Ordering::Relaxed);
            if !event.then(self) {
                self.0.missing.fetch_sub(1, Ordering::Relaxed);
            }
        }
        self.arrive()
    }

    /// Runs the batch, unless somebody else does or did; whether it ran. Nothing it waits for may be missing.
    pub(crate) fn run(&self) -> bool {
        let Some(batch) = self.0.state.lock().batch.take() else { return false };
        let outcome = batch.run();
        if let Some(time) = &self.0.time {
            let _ = time.set(Instant::now());
        }
        self.open(outcome);
        true
    }

    /// Lets everybody pass, once.
    pub(crate) fn open(&self, outcome: Result<(), Error>) {
        let mut state = self.0.state.lock();
        if self.0.outcome.load(Ordering::Relaxed) != PENDING {
            return;
        }
        let code = if outcome.is_ok() { COMPLETE } else { FAILED };
        state.error = outcome.err();
        // Release: see `outcome`. Under the lock, so that nobody goes to sleep or adds a dependent after this.
        self.0.outcome.store(code, Ordering::Release);
        let dependents = std::mem::take(&mut state.dependents);
        if state.sleepers > 0 {
            self.0.opened.notify_all();
        }
        drop(state);
        for dependent in dependents {
            if dependent.arrive() {
                dependent.hand_over();
            }
        }
    }

    fn new(batch: Option<Box<Batch>>, point: Option<Point>, known: Clock, timed: bool) -> Event {
        let findings = batch.as_ref().and_then(|batch| batch.findings.clone());
        Event(Arc::new(Inner {
            outcome: AtomicU8::new(PENDING),
            state: Mutex::new(State { batch, ..State::default() }),
            opened: Condvar::new(),
            missing: AtomicUsize::new(1),
            point,
            known,
            findings,
            time: timed.then(OnceLock::new),
        }))
    }

    /// Has `dependent` hear when this opens, unless it is open.
    fn then(&self, dependent: &Event) -> bool {
        if self.is_open() {
            return false;
        }
        let mut state = self.0.state.lock();
        if self.is_open() {
            return false;
        }
        state.dependents.push(dependent.clone());
        true
    }

    /// One gate fewer is missing; whether it was the last.
    fn arrive(&self) -> bool {
        // Release and acquire: what was written before each gate opened is seen by who runs the batch.
        self.0.missing.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Gives the batch to its executor, if nobody has run it yet.
    pub(crate) fn hand_over(&self) {
        let executor = self.0.state.lock().batch.as_ref().map(|b| b.executor());
        if let Some(executor) = executor {
            executor.push(self.clone());
        }
    }

    /// A batch that must run before this opens, and can: this one's, or that of a gate before it.
    fn runnable(&self) -> Option<Event> {
        let mut at = self.clone();
        loop {
            let next = {
                let state = at.0.state.lock();
                let batch = state.batch.as_ref()?;
                // Acquire: see `arrive`.
                if at.0.missing.load(Ordering::Acquire) == 0 {
                    None
                } else {
                    Some(batch.after().iter().find(|e| !e.is_open())?.clone())
                }
            };
            match next {
                None => return Some(at),
                Some(event) => at = event,
            }
        }
    }

    fn sleep(&self) {
        let mut state = self.0.state.lock();
        if !self.is_open() {
            state.sleepers += 1;
            self.0.opened.wait(&mut state);
            state.sleepers -= 1;
        }
    }
}

impl std::fmt::Debug for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = match self.0.outcome.load(Ordering::Relaxed) {
            PENDING => "pending",
            COMPLETE => "complete",
            _ => "failed",
        };
        write!(f, "Event({state})")
    }
}

/// A gate that the host opens: its event holds back whatever waits for it. Dropping it unopened fails the event.
#[derive(Debug)]
pub struct Gate(Event);

impl Gate {
    /// A closed gate.
    #[expect(clippy::new_without_default, reason = "a gate is made to be opened; a default one says nothing")]
    pub fn new() -> Gate {
        Gate(Event::new(None, None, Clock::default(), false))
    }

    /// The event that happens when it is opened.
    pub fn event(&self) -> Event {
        self.0.clone()
    }

    /// Lets everybody pass.
    pub fn open(self) {
        self.0.open(Ok(()));
    }

    /// Opens it with an error, which everything that waits for it gets.
    pub fn fail(self, error: Error) {
        self.0.open(Err(error));
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        if !self.0.is_open() {
            self.0.open(Err(Error::Execution("a gate was dropped before it was opened".to_owned())));
        }
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

/// Whether a wait of the host for a device would be an error here, see [`forbid_host_sync`].
pub fn is_host_sync_forbidden() -> bool {
    FORBIDDEN.get()
}

/// Whether the host may wait here.
pub(crate) fn check_host_sync(what: &'static str) -> Result<(), Error> {
    if FORBIDDEN.get() { Err(Error::HostSyncForbidden { what }) } else { Ok(()) }
}
