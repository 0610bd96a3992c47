//! The threads that run batches.
//!
//! Only batches whose gates are open come here, so no thread of an executor ever waits for another batch; a stream that is
//! held takes up no thread.

use std::collections::VecDeque;

use crate::runtime::Event;
use crate::runtime::sync::{Condvar, Mutex};

/// A queue of batches that can run, and the threads that work it off. One a device; lives as long as the process.
pub(crate) struct Executor {
    queue: Mutex<Queue>,
    wake: Condvar,
    most_threads: usize,
}

#[derive(Default)]
struct Queue {
    ready: VecDeque<Event>,
    /// Threads that sleep until there is something.
    idle: usize,
    threads: usize,
    /// Somebody who could have no thread works the queue off.
    draining: bool,
}

impl Executor {
    /// An executor without threads: they come with the first batches.
    pub(crate) fn new(most_threads: usize) -> Executor {
        Executor { queue: Mutex::default(), wake: Condvar::new(), most_threads }
    }

    /// Has a thread run the batch of an event, soon.
    pub(crate) fn push(&'static self, event: Event) {
        if !self.add(event) {
            return;
        }
        let started = std::thread::Builder::new().name("jit-stream".to_owned()).spawn(move || self.work());
        if started.is_err() {
            self.lost_a_thread();
        }
    }

    /// Queues it; whether a thread should be started, which then counts as one.
    fn add(&self, event: Event) -> bool {
        let mut queue = self.queue.lock();
        queue.ready.push_back(event);
        if queue.idle > 0 {
            // Counted as awake from here on, so that the next batch gets another thread.
            queue.idle -= 1;
            self.wake.notify_one();
            return false;
        }
        let more = queue.threads < self.most_threads && !queue.draining;
        queue.threads += usize::from(more);
        more
    }

    /// The system has no thread to give. With none at all the work is done here.
    #[cold]
    fn lost_a_thread(&self) {
        let mut queue = self.queue.lock();
        queue.threads -= 1;
        // What becomes ready meanwhile is only queued, so that a long queue is no deep recursion.
        queue.draining = true;
        while queue.threads == 0
            && let Some(event) = queue.ready.pop_front()
        {
            drop(queue);
            event.run();
            queue = self.queue.lock();
        }
        queue.draining = false;
    }

    fn work(&self) {
        loop {
            self.next().run();
        }
    }

    /// The next batch, if there is one.
    #[cfg(all(test, loom))]
    pub(crate) fn take(&self) -> Option<Event> {
        self.queue.lock().ready.pop_front()
    }

    /// The next batch, as soon as there is one.
    pub(crate) fn next(&self) -> Event {
        let mut queue = self.queue.lock();
        loop {
            if let Some(event) = queue.ready.pop_front() {
                return event;
            }
            queue.idle += 1;
            self.wake.wait(&mut queue);
        }
    }
}
