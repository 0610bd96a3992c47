//! Streams: queues of batches that run in order, each beside the others.
//!
//! Batches of different streams are ordered where one touches a storage that another writes, where the program asks for it
//! ([`Stream::wait`]), and nowhere else. A wait is added only where the stream's clock does not say that it is there already.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::error::Error;
use crate::runtime::batch::{Batch, Work};
use crate::runtime::clock::{Clock, Point};
use crate::runtime::event::Events;
use crate::runtime::executor::Executor;
use crate::runtime::{Device, Event, Storage};

/// A stream of a device: what is submitted to it runs in the order of submission. A clone is another handle of it.
///
/// Evaluations go to the thread's current stream, which is the device's default stream outside of [`enter`](Self::enter).
/// An array may be used on any stream, whichever one computes it.
#[derive(Clone)]
pub struct Stream(Arc<Inner>);

struct Inner {
    device: Device,
    number: u32,
}

/// Streams that a device has at most at one time, the default one among them.
pub const MAX_STREAMS: usize = 64;

/// All streams of a device.
pub(crate) struct Streams {
    /// Taken before the points of a storage.
    lanes: Mutex<Lanes>,
    default: OnceLock<Stream>,
    executor: Executor,
    /// For each stream the first error that nobody has asked for.
    failed: Mutex<Vec<Option<Error>>>,
}

#[derive(Default)]
struct Lanes {
    lanes: Vec<Lane>,
    /// Numbers of streams that are gone.
    free: Vec<u32>,
}

/// What is known of a stream's order.
#[derive(Default)]
struct Lane {
    /// The last batch, unless nobody has submitted one.
    tail: Option<Event>,
    sequence: u64,
    known: Clock,
    /// What the next batch must wait for, beside the tail.
    waits: Events,
}

/// A batch that has its place in a stream, and runs once it is dropped.
pub(crate) struct Ticket {
    event: Event,
    after: Events,
    /// Whether the submitting thread runs it if it can: handing it over would cost more.
    small: bool,
}

/// What a batch is for.
#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    /// Work, which fails if an event that was waited for did.
    Work {
        /// Whether the submitting thread does it if it can.
        small: bool,
    },
    /// A point to wait for. The errors before it are still to be told to the next work, and to `sync`.
    Mark {
        /// Whether its event measures time.
        timed: bool,
    },
}

impl Streams {
    /// No stream yet, and no thread.
    pub(crate) fn new() -> Streams {
        // One thread more than would be busy, for streams whose work is a single block.
        let threads = std::thread::available_parallelism().map_or(1, usize::from) + 1;
        Streams {
            lanes: Mutex::default(),
            default: OnceLock::new(),
            executor: Executor::new(threads),
            failed: Mutex::default(),
        }
    }

    /// The default stream.
    pub(crate) fn default(&self, device: Device) -> &Stream {
        self.default.get_or_init(|| Stream::of(device).expect("a device's first stream"))
    }

    /// Waits for everything submitted so far to any stream.
    ///
    /// # Errors
    /// The first error of a batch that no `sync` has told of, or [`Error::HostSyncForbidden`].
    pub(crate) fn sync(&self) -> Result<(), Error> {
        let tails: Vec<Event> = {
            let lanes = self.lanes.lock();
            lanes.lanes.iter().flat_map(|lane| lane.waits.iter().chain(&lane.tail)).cloned().collect()
        };
        wait_all(&tails)?;
        let failed = std::mem::take(&mut *self.failed.lock());
        failed.into_iter().flatten().next().map_or(Ok(()), Err)
    }
}

fn wait_all(events: &[Event]) -> Result<(), Error> {
    for event in events {
        if let Err(forbidden @ Error::HostSyncForbidden { .. }) = event.wait() {
            return Err(forbidden);
        }
    }
    Ok(())
}

impl Stream {
    /// A new stream.
    ///
    /// # Errors
    /// [`Error::Config`] if the device has [`MAX_STREAMS`] streams; drop some.
    pub fn new(device: Device) -> Result<Stream, Error> {
        // The default stream is the first.
        device.shared().streams.default(device);
        Stream::of(device)
    }

    /// The stream that evaluations of this thread on a device go to.
    pub fn current(device: Device) -> Stream {
        let entered = CURRENT.with_borrow(|stack| stack.iter().rfind(|s| s.device() == device).cloned());
        entered.unwrap_or_else(|| device.shared().streams.default(device).clone())
    }

    /// Its device.
    pub fn device(&self) -> Device {
        self.0.device
    }

    /// Runs `f`; evaluations of this thread on the stream's device go to this stream meanwhile.
    pub fn enter<R>(&self, f: impl FnOnce() -> R) -> R {
        struct Leave;
        impl Drop for Leave {
            fn drop(&mut self) {
                // Dropped after the borrow ends: a stream that goes takes locks.
                let left = CURRENT.with_borrow_mut(Vec::pop);
                drop(left);
            }
        }
        CURRENT.with_borrow_mut(|stack| stack.push(self.clone()));
        let _leave = Leave;
        f()
    }

    /// An event that completes when everything submitted so far has run, and every event so far waited for has happened.
    pub fn record(&self) -> Event {
        self.tail().unwrap_or_else(|| self.submit(Vec::new(), Purpose::Mark { timed: false }))
    }

    /// As [`record`](Self::record), with the time at which it happens, for [`Event::elapsed_since`].
    pub fn record_timed(&self) -> Event {
        self.submit(Vec::new(), Purpose::Mark { timed: true })
    }

    /// Makes what is submitted from here on wait for an event, of any device. If the event fails, so does the next work;
    /// what is recorded before that fails as well and takes nothing away. The host does not wait.
    pub fn wait(&self, event: &Event) {
        if event.has_succeeded() {
            return;
        }
        let mut lanes = self.streams().lanes.lock();
        let lane = &mut lanes.lanes[self.0.number as usize];
        lane.learn(event, self.0.device.number());
        // Also where its end is waited for anyway: its error is asked for here.
        lane.waits.push(event.clone());
    }

    /// Makes what is submitted from here on wait for what has been submitted to another stream, of any device.
    pub fn wait_stream(&self, other: &Stream) {
        self.wait(&other.record());
    }

    /// Makes the host wait for everything submitted so far.
    ///
    /// # Errors
    /// The first error of a batch of this stream that no `sync` has told of, or [`Error::HostSyncForbidden`].
    pub fn sync(&self) -> Result<(), Error> {
        // Work, which a failed wait is told to: this tells of it.
        let last = self.tail().unwrap_or_else(|| self.submit(Vec::new(), Purpose::Work { small: true }));
        wait_all(&[last])?;
        let error = self.streams().failed.lock().get_mut(self.0.number as usize).and_then(Option::take);
        error.map_or(Ok(()), Err)
    }

    /// What the next batch is ordered after anyway.
    pub(crate) fn known(&self) -> Clock {
        self.streams().lanes.lock().lanes[self.0.number as usize].known.clone()
    }

    /// Gives a batch that reads and writes these storages its place. It runs once the ticket is dropped; until then its
    /// results may be made known.
    pub(crate) fn enqueue(
        &self,
        work: Vec<Work>,
        reads: &[&Arc<Storage>],
        writes: &[&Arc<Storage>],
        small: bool,
    ) -> Ticket {
        self.place(work, reads, writes, Purpose::Work { small })
    }

    /// Runs a batch that touches no storage.
    pub(crate) fn submit(&self, work: Vec<Work>, purpose: Purpose) -> Event {
        self.place(work, &[], &[], purpose).event.clone()
    }

    /// Keeps the error of a batch for the next `sync`.
    pub(crate) fn keep_error(&self, error: &Error) {
        let mut failed = self.streams().failed.lock();
        let at = self.0.number as usize;
        if failed.len() <= at {
            failed.resize(at + 1, None);
        }
        failed[at].get_or_insert_with(|| error.clone());
    }

    fn of(device: Device) -> Result<Stream, Error> {
        let mut lanes = device.shared().streams.lanes.lock();
        let number = match lanes.free.pop() {
            Some(number) => number,
            None if lanes.lanes.len() == MAX_STREAMS => {
                return Err(Error::Config(format!(
                    "{} has {MAX_STREAMS} streams, which is the most; drop some",
                    device.name()
                )));
            }
            None => {
                lanes.lanes.push(Lane::default());
                lanes.lanes.len() as u32 - 1
            }
        };
        Ok(Stream(Arc::new(Inner { device, number })))
    }

    fn streams(&self) -> &'static Streams {
        &self.0.device.shared().streams
    }

    /// The last batch, as the point after everything; none if waits come after it.
    fn tail(&self) -> Option<Event> {
        let mut lanes = self.streams().lanes.lock();
        let lane = &mut lanes.lanes[self.0.number as usize];
        lane.waits.retain(|e| !e.has_succeeded());
        lane.waits.is_empty().then(|| lane.tail.clone().unwrap_or_else(Event::complete))
    }

    fn place(
        &self,
        work: Vec<Work>,
        reads: &[&Arc<Storage>],
        writes: &[&Arc<Storage>],
        purpose: Purpose,
    ) -> Ticket {
        let device = self.0.device.number();
        let mut lanes = self.streams().lanes.lock();
        let lane = &mut lanes.lanes[self.0.number as usize];
        let mut after = Events::new();
        let mut inputs = std::mem::take(&mut lane.waits);
        let (stream, small, timed) = match purpose {
            Purpose::Work { small } => (Some(self.clone()), small, false),
            Purpose::Mark { timed } => (None, true, timed),
        };
        after.extend(inputs.iter().cloned());
        // A mark fails if one of them does, so the next work need wait for the mark alone.
        let stands_for_waits = matches!(purpose, Purpose::Mark { .. }) && !inputs.is_empty();
        for storage in reads.iter().chain(writes) {
            if let Some(event) = storage.points().pending_write() {
                // Its error is asked for also where its end need not be waited for.
                inputs.push(event.clone());
                lane.wait(event, device, &mut after);
            }
        }
        for storage in writes {
            for event in storage.points().pending_reads() {
                lane.wait(event, device, &mut after);
            }
        }
        after.extend(lane.tail.iter().filter(|e| !e.is_open()).cloned());
        lane.sequence += 1;
        let point = Point { device, stream: self.0.number, sequence: lane.sequence };
        lane.known.add(point);
        let executor = &self.streams().executor;
        let batch = Batch { stream, work, after: after.clone(), inputs, executor };
        let event = Event::of_batch(batch, Some(point), lane.known.clone(), timed);
        for storage in reads {
            storage.points().add_read(&event);
        }
        for storage in writes {
            storage.points().set_written(&event);
        }
        if stands_for_waits {
            lane.waits.push(event.clone());
        }
        lane.tail = Some(event.clone());
        Ticket { event, after, small }
    }
}

impl Lane {
    /// Orders the next batch after an event of work on a storage.
    fn wait(&mut self, event: &Event, device: u64, after: &mut Events) {
        let covered = event.point().is_some_and(|p| p.device == device && self.known.covers(p));
        if !covered && !event.is_open() {
            self.learn(event, device);
            after.push(event.clone());
        }
    }

    fn learn(&mut self, event: &Event, device: u64) {
        if let Some(point) = event.point()
            && point.device == device
        {
            self.known.add(point);
            self.known.merge(event.known());
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.event.start(&self.after) {
            if self.small {
                self.event.run();
            } else {
                self.event.hand_over();
            }
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // All work holds its stream, so it has run.
        let streams = &self.device.shared().streams;
        let mut failed = streams.failed.lock();
        if let Some(error) = failed.get_mut(self.number as usize) {
            *error = None;
        }
        drop(failed);
        let mut lanes = streams.lanes.lock();
        let waits = std::mem::take(&mut lanes.lanes[self.number as usize].waits);
        lanes.free.push(self.number);
        drop(lanes);
        drop(waits);
    }
}

impl PartialEq for Stream {
    fn eq(&self, other: &Stream) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Stream {}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stream({} of {})", self.0.number, self.0.device.name())
    }
}

thread_local! {
    /// The streams that this thread has entered and not left.
    static CURRENT: RefCell<Vec<Stream>> = const { RefCell::new(Vec::new()) };
}

impl Event {
    /// An event that happens when all of these have, with the first error among them.
    pub(crate) fn all(device: Device, mut events: Vec<Event>) -> Event {
        events.retain(|e| !e.has_succeeded());
        events.dedup_by(|a, b| a.same(b));
        if events.len() < 2 {
            return events.pop().unwrap_or_else(Event::complete);
        }
        let after: Events = events.into();
        let executor = &device.shared().streams.executor;
        let batch =
            Batch { stream: None, work: Vec::new(), after: after.clone(), inputs: after.clone(), executor };
        let event = Event::of_batch(batch, None, Clock::default(), false);
        drop(Ticket { event: event.clone(), after, small: true });
        event
    }
}
