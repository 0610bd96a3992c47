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
    pub(crate) executor: Executor,
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
    /// What the next batch must wait for, beside the tail; its error is that batch's.
    waits: Events,
    /// What the next batch with work is ordered after anyway, and gets the error of.
    inputs: Events,
}

/// A batch that has its place in a stream, and runs once it is dropped.
pub(crate) struct Ticket {
    event: Event,
    after: Events,
    /// Whether the submitting thread runs it if it can: handing it over would cost more.
    small: bool,
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
    pub(crate) fn default_stream(&self, device: Device) -> &Stream {
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
        let first = self.failed.lock().iter_mut().find_map(Option::take);
        first.map_or(Ok(()), Err)
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
        device.shared().streams.default_stream(device);
        Stream::of(device)
    }

    /// The stream that evaluations of this thread on a device go to.
    pub fn current(device: Device) -> Stream {
        let entered = CURRENT.with_borrow(|stack| stack.iter().rfind(|s| s.device() == device).cloned());
        entered.unwrap_or_else(|| device.shared().streams.default_stream(device).clone())
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
        let tail = {
            let lanes = self.streams().lanes.lock();
            let lane = &lanes.lanes[self.0.number as usize];
            lane.waits.is_empty().then(|| lane.tail.clone())
        };
        match tail {
            Some(tail) => tail.unwrap_or_else(Event::complete),
            None => self.submit(Vec::new(), false),
        }
    }

    /// As [`record`](Self::record), with the time at which it happens, for [`Event::elapsed_since`].
    pub fn record_timed(&self) -> Event {
        self.submit(Vec::new(), true)
    }

    /// Makes what is submitted from here on wait for an event, of any device. If the event fails, the next batch does.
    /// The host does not wait.
    pub fn wait(&self, event: &Event) {
        if event.has_succeeded() {
            return;
        }
        let mut lanes = self.streams().lanes.lock();
        let lane = &mut lanes.lanes[self.0.number as usize];
        let device = self.0.device.number();
        let covered = event.point().is_some_and(|p| p.device == device && lane.known.covers(p));
        if covered || event.is_open() {
            lane.inputs.retain(|e| !e.has_succeeded());
            lane.inputs.push(event.clone());
        } else {
            lane.learn(event, device);
            lane.waits.push(event.clone());
        }
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
        wait_all(&[self.record()])?;
        let error = self.streams().failed.lock().get_mut(self.0.number as usize).and_then(Option::take);
        error.map_or(Ok(()), Err)
    }

    /// Its number on its device; a later stream may get it again.
    pub(crate) fn number(&self) -> u32 {
        self.0.number
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
        self.place(work, reads, writes, small, false)
    }

    /// Runs a batch that touches no storage.
    pub(crate) fn submit(&self, work: Vec<Work>, timed: bool) -> Event {
        let small = work.is_empty();
        self.place(work, &[], &[], small, timed).event.clone()
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

    fn place(
        &self,
        work: Vec<Work>,
        reads: &[&Arc<Storage>],
        writes: &[&Arc<Storage>],
        small: bool,
        timed: bool,
    ) -> Ticket {
        let device = self.0.device.number();
        let mut lanes = self.streams().lanes.lock();
        let lane = &mut lanes.lanes[self.0.number as usize];
        let mut after = Events::new();
        let mut inputs = std::mem::take(&mut lane.waits);
        after.extend(inputs.iter().cloned());
        if work.is_empty() {
            // It stands for what comes before it; what comes next gets the errors too.
            lane.inputs.extend(inputs.iter().cloned());
        } else {
            inputs.append(&mut lane.inputs);
        }
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
        let batch = Batch { stream: Some(self.clone()), work, after: after.clone(), inputs, executor };
        let event = Event::of_batch(batch, Some(point), lane.known.clone(), timed);
        for storage in reads {
            storage.points().add_read(&event);
        }
        for storage in writes {
            storage.points().set_written(&event);
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
        // Every batch holds its stream, so all have run.
        let streams = &self.device.shared().streams;
        let mut failed = streams.failed.lock();
        if let Some(error) = failed.get_mut(self.number as usize) {
            *error = None;
        }
        drop(failed);
        let mut lanes = streams.lanes.lock();
        let lane = &mut lanes.lanes[self.number as usize];
        // What it was told to wait for and did not is no order for who gets the number next.
        let told = (std::mem::take(&mut lane.waits), std::mem::take(&mut lane.inputs));
        lane.known = lane.tail.as_ref().map_or_else(Clock::default, |tail| tail.known().clone());
        lanes.free.push(self.number);
        drop(lanes);
        drop(told);
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
