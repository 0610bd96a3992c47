//! Memory of dropped arrays, kept for the next ones: on a host the page faults of fresh memory cost more than most
//! kernels.
//!
//! A storage gives its memory back as soon as its last holder is gone, with the points of work that still touches it.
//! A stream gets memory whose points it is ordered after anyway; memory that would make it wait it gets only when there is
//! no other. The system gets memory back once nothing touches it. Blocks are reused for requests of their size or up to
//! an eighth less.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use parking_lot::Mutex;

use crate::backend::{Allocation, Backend};
use crate::error::Error;
use crate::runtime::Event;
use crate::runtime::clock::Clock;
use crate::runtime::event::{Events, check_host_sync};

/// The free memory of a device, and how much is in use.
pub(crate) struct Pool {
    /// At most this many idle bytes are kept.
    capacity: usize,
    /// At most this many bytes are had from the backend.
    budget: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    free: BTreeMap<usize, Vec<Block>>,
    cached: usize,
    in_use: usize,
}

/// Memory, and the work that may still touch it.
pub(crate) struct Block {
    memory: Allocation,
    pending: Events,
}

/// Whose work a block is for.
#[derive(Clone, Copy)]
pub(crate) enum Reuse<'a> {
    /// The host's, which touches it now.
    Host,
    /// A stream's, of that device, which is ordered after what its clock covers.
    Stream {
        /// The device's number.
        device: u64,
        /// What the stream is ordered after.
        known: &'a Clock,
    },
}

/// Blocks of one size that are looked at before new memory is taken.
const MOST_TRIED: usize = 32;

impl Pool {
    /// A pool that keeps at most `capacity` idle bytes, and has at most `budget` in all.
    pub(crate) fn new(capacity: usize, budget: Option<usize>) -> Pool {
        Pool { capacity, budget: budget.unwrap_or(usize::MAX), state: Mutex::default() }
    }

    /// Memory for `bytes` (> 0) bytes: kept or new. Its contents are unspecified; what is left pending in it the caller
    /// must wait for.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] after everything that is idle was given back to the system.
    pub(crate) fn allocate(
        &self,
        backend: &dyn Backend,
        bytes: usize,
        reuse: Reuse<'_>,
    ) -> Result<Block, Error> {
        if let Some(found) = self.take(bytes, |block| reuse.allows(block)) {
            return Ok(found);
        }
        if let Ok(fresh) = self.fresh(backend, bytes) {
            return Ok(fresh);
        }
        self.trim();
        if let Ok(fresh) = self.fresh(backend, bytes) {
            return Ok(fresh);
        }
        // What is left is memory that a stream must wait for, or the host.
        if let Reuse::Stream { .. } = reuse
            && let Some(found) = self.take(bytes, |_| true)
        {
            return Ok(found);
        }
        while check_host_sync("waiting for memory").is_ok()
            && let Some(pending) = self.pending(bytes)
        {
            for event in pending {
                // How the work went is told to who needs its results.
                drop(event.wait_untold());
            }
            if let Some(found) = self.take(bytes, Block::is_idle) {
                return Ok(found);
            }
            self.trim();
            if let Ok(fresh) = self.fresh(backend, bytes) {
                return Ok(fresh);
            }
        }
        self.fresh(backend, bytes)
    }

    /// Takes memory back. Who had it touches it no more, other than by the work that is pending on it.
    pub(crate) fn give_back(&self, block: Block) {
        let size = block.memory.bytes();
        let mut state = self.state.lock();
        state.in_use -= size;
        state.cached += size;
        state.free.entry(size).or_default().push(block);
        let surplus = if state.cached > self.capacity { state.evict(self.capacity) } else { Vec::new() };
        drop(state);
        // Destroyed without the lock.
        drop(surplus);
    }

    /// Gives everything that is idle back to the system.
    pub(crate) fn trim(&self) {
        let idle = self.state.lock().evict(0);
        drop(idle);
    }

    /// Bytes in use and bytes kept.
    pub(crate) fn totals(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.in_use, state.cached)
    }

    /// The error of a request that cannot be met.
    pub(crate) fn out_of_memory(&self, requested: u64, holders: String) -> Error {
        let (in_use, cached) = self.totals();
        Error::OutOfMemory { requested, in_use: in_use as u64, cached: cached as u64, holders }
    }

    fn take(&self, bytes: usize, usable: impl Fn(&Block) -> bool) -> Option<Block> {
        let mut state = self.state.lock();
        let State { free, cached, in_use } = &mut *state;
        for (&size, blocks) in free.range_mut(fitting(bytes)) {
            // The last one given back is the likeliest to be in a processor's cache.
            let tried = blocks.iter().enumerate().rev().take(MOST_TRIED);
            let Some(at) = tried.into_iter().find(|(_, b)| usable(b)).map(|(at, _)| at) else { continue };
            let mut block = blocks.swap_remove(at);
            if blocks.is_empty() {
                free.remove(&size);
            }
            *cached -= size;
            *in_use += size;
            block.pending.retain(|e| !e.is_open());
            return Some(block);
        }
        None
    }

    fn fresh(&self, backend: &dyn Backend, bytes: usize) -> Result<Block, Error> {
        let size = bytes.next_multiple_of(64);
        {
            let mut state = self.state.lock();
            let in_all = state.in_use.saturating_add(state.cached).saturating_add(size);
            if in_all > self.budget {
                drop(state);
                return Err(self.out_of_memory(bytes as u64, format!("the budget is {} bytes", self.budget)));
            }
            state.in_use += size;
        }
        let result = backend.allocate(size);
        if let Ok(memory) = result {
            debug_assert_eq!(memory.bytes(), size, "backends give what was asked for");
            return Ok(Block { memory, pending: Events::new() });
        }
        self.state.lock().in_use -= size;
        match result {
            Err(Error::OutOfMemory { holders, .. }) => Err(self.out_of_memory(bytes as u64, holders)),
            other => other.map(|memory| Block { memory, pending: Events::new() }),
        }
    }

    /// What must be waited for before the block that is best waited for is idle: one that fits, if there is one, and
    /// then one with the least work on it.
    fn pending(&self, bytes: usize) -> Option<Events> {
        let state = self.state.lock();
        let busy = state.free.iter().flat_map(|(&size, blocks)| blocks.iter().map(move |b| (size, b)));
        let busy = busy.filter(|(_, block)| !block.is_idle());
        let best = busy.min_by_key(|(size, block)| (!fitting(bytes).contains(size), block.pending.len()));
        best.map(|(_, block)| block.pending.iter().filter(|e| !e.is_open()).cloned().collect())
    }
}

/// The sizes of blocks that serve a request.
fn fitting(bytes: usize) -> RangeInclusive<usize> {
    bytes..=bytes.next_multiple_of(64) + bytes / 8
}

impl State {
    /// Takes idle blocks out, large ones first, until no more than `target` bytes are kept or none is idle.
    fn evict(&mut self, target: usize) -> Vec<Block> {
        let mut out = Vec::new();
        let sizes: Vec<usize> = self.free.keys().rev().copied().collect();
        for size in sizes {
            let blocks = self.free.get_mut(&size).expect("a size of the list");
            let mut at = 0;
            while at < blocks.len() && self.cached > target {
                if blocks[at].is_idle() {
                    self.cached -= size;
                    out.push(blocks.remove(at));
                } else {
                    at += 1;
                }
            }
            if blocks.is_empty() {
                self.free.remove(&size);
            }
            if self.cached <= target {
                break;
            }
        }
        out
    }
}

impl Block {
    /// Its first byte.
    pub(crate) fn ptr(&self) -> *mut u8 {
        self.memory.ptr()
    }

    /// What may still touch it, from here on the caller's to wait for.
    pub(crate) fn take_pending(&mut self) -> Events {
        std::mem::take(&mut self.pending)
    }

    /// What may still touch it.
    pub(crate) fn add_pending(&mut self, events: impl Iterator<Item = Event>) {
        self.pending.extend(events.filter(|e| !e.is_open()));
    }

    fn is_idle(&self) -> bool {
        self.pending.iter().all(Event::is_open)
    }
}

impl Reuse<'_> {
    fn allows(self, block: &Block) -> bool {
        block.pending.iter().all(|event| {
            event.is_open()
                || match (self, event.point()) {
                    (Reuse::Stream { device, known }, Some(point)) => {
                        point.device == device && known.covers(point)
                    }
                    _ => false,
                }
        })
    }
}
