//! Memory of dropped arrays, kept for the next ones: on a host the page faults of fresh memory cost more than most
//! kernels.
//!
//! A storage gives its memory back when its last holder is gone, and every batch holds what it touches, so what lies
//! here is idle. Blocks are reused for requests of their size or up to an eighth less.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::backend::{Allocation, Backend};
use crate::error::Error;

/// The free memory of a device, and how much is in use.
pub(crate) struct Pool {
    /// At most this many bytes are kept.
    capacity: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    free: BTreeMap<usize, Vec<Allocation>>,
    cached: usize,
    in_use: usize,
}

impl Pool {
    /// A pool that keeps at most `capacity` bytes.
    pub(crate) fn new(capacity: usize) -> Pool {
        Pool { capacity, state: Mutex::default() }
    }

    /// Memory for `bytes` (> 0) bytes: kept or new. Its contents are unspecified.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] after everything kept was given back to the system.
    pub(crate) fn allocate(&self, backend: &dyn Backend, bytes: usize) -> Result<Allocation, Error> {
        if let Some(found) = self.take(bytes) {
            return Ok(found);
        }
        let rounded = bytes.next_multiple_of(64);
        let fresh = backend.allocate(rounded).or_else(|_| {
            self.trim();
            backend.allocate(rounded)
        });
        let mut state = self.state.lock();
        match fresh {
            Ok(block) => {
                state.in_use += block.bytes();
                Ok(block)
            }
            Err(Error::OutOfMemory { requested, holders, .. }) => Err(Error::OutOfMemory {
                requested,
                in_use: state.in_use as u64,
                cached: state.cached as u64,
                holders,
            }),
            Err(other) => Err(other),
        }
    }

    fn take(&self, bytes: usize) -> Option<Allocation> {
        let mut state = self.state.lock();
        let (&size, blocks) = state.free.range_mut(bytes..=bytes.next_multiple_of(64) + bytes / 8).next()?;
        let block = blocks.pop().expect("no list is empty");
        if blocks.is_empty() {
            state.free.remove(&size);
        }
        state.cached -= size;
        state.in_use += size;
        Some(block)
    }

    /// Takes memory back that nobody uses any more.
    pub(crate) fn give_back(&self, block: Allocation) {
        let size = block.bytes();
        let mut state = self.state.lock();
        state.in_use -= size;
        if state.cached + size <= self.capacity {
            state.cached += size;
            state.free.entry(size).or_default().push(block);
            return;
        }
        drop(state);
        // Destroyed without the lock.
        drop(block);
    }

    /// Gives everything kept back to the system.
    pub(crate) fn trim(&self) {
        let mut state = self.state.lock();
        state.cached = 0;
        let free = std::mem::take(&mut state.free);
        drop(state);
        drop(free);
    }

    /// Bytes in use and bytes kept.
    pub(crate) fn totals(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.in_use, state.cached)
    }
}
