//! How many handles name a node, counted without the trace's lock.
//!
//! A node's own count, which the lock guards, has 1 for all its handles together; how many there are beyond the first
//! stands here. Cloning a handle and dropping one that is not the last touch nothing else. Only under the lock does a
//! node come to have handles, or lose the last: then its number here is 0, and stays 0 while the lock is held, since only
//! who holds a handle may raise it. So nothing is freed that a clone could bring back.
//!
//! Numbers stand in chunks of doubling size that never move.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::NodeId;

/// For each node the number of its handles beyond the first.
pub(crate) struct Handles {
    chunks: [OnceLock<Box<[Others]>>; CHUNKS],
}

/// Binary logarithm of the first chunk's length.
const FIRST: u32 = 10;
/// Together they have room for every node.
const CHUNKS: usize = (u32::BITS - FIRST + 1) as usize;

impl Handles {
    pub(super) fn new() -> Handles {
        Handles { chunks: [const { OnceLock::new() }; CHUNKS] }
    }

    /// Makes room for a node.
    pub(super) fn reserve(&self, id: NodeId) {
        let (chunk, _) = position(id);
        let length = 1 << (chunk as u32 + FIRST);
        self.chunks[chunk].get_or_init(|| std::iter::repeat_with(Others::default).take(length).collect());
    }

    /// Those of a node.
    #[inline]
    pub(crate) fn of(&self, id: NodeId) -> &Others {
        let (chunk, at) = position(id);
        let chunk = self.chunks[chunk].get().expect("there is room for every node");
        &chunk[at]
    }
}

/// The chunk of a node's number, and where in the chunk.
#[inline]
fn position(id: NodeId) -> (usize, usize) {
    let at = u64::from(id.0) + (1 << FIRST);
    let top = at.ilog2();
    ((top - FIRST) as usize, (at ^ 1 << top) as usize)
}

/// How many handles a node has beyond the first.
#[derive(Default)]
pub(crate) struct Others<A = AtomicU32>(A);

/// So far below an overflow that all threads at once do not reach it between the test and the way back.
const MOST: u32 = 1 << 31;

impl<A: Atomic> Others<A> {
    /// One handle more, for who has one.
    ///
    /// # Panics
    /// If there are 2^31 already; all stay valid.
    #[inline]
    pub(crate) fn share(&self) {
        // Relaxed: the handle that is cloned keeps the node alive, and whoever passes the clone on synchronises.
        if self.0.fetch_add(1, Ordering::Relaxed) >= MOST {
            self.too_many();
        }
    }

    #[cold]
    fn too_many(&self) -> ! {
        self.0.fetch_sub(1, Ordering::Relaxed);
        panic!("an array has more than 2^31 handles");
    }

    /// Gives a handle back unless it is the only one; whether it did. If it did not and the trace is locked, the handle
    /// stays the only one while that lasts.
    #[inline]
    pub(crate) fn give_back(&self) -> bool {
        // Acquire, here and in the exchange that fails: whoever finds itself the last comes after what the others did.
        let mut now = self.0.load(Ordering::Acquire);
        while now > 0 {
            // Release: what this handle was used for comes before the end of the last one.
            match self.0.compare_exchange_weak(now, now - 1, Ordering::Release, Ordering::Acquire) {
                Ok(_) => return true,
                Err(seen) => now = seen,
            }
        }
        false
    }
}

/// What the counts need of an atomic, so that a model checker can bring its own.
pub(crate) trait Atomic {
    fn load(&self, order: Ordering) -> u32;
    fn fetch_add(&self, n: u32, order: Ordering) -> u32;
    fn fetch_sub(&self, n: u32, order: Ordering) -> u32;
    fn compare_exchange_weak(
        &self,
        old: u32,
        new: u32,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u32, u32>;
}

macro_rules! atomic {
    ($atomic:ty) => {
        impl Atomic for $atomic {
            #[inline]
            fn load(&self, order: Ordering) -> u32 {
                self.load(order)
            }

            #[inline]
            fn fetch_add(&self, n: u32, order: Ordering) -> u32 {
                self.fetch_add(n, order)
            }

            #[inline]
            fn fetch_sub(&self, n: u32, order: Ordering) -> u32 {
                self.fetch_sub(n, order)
            }

            #[inline]
            fn compare_exchange_weak(
                &self,
                old: u32,
                new: u32,
                success: Ordering,
                failure: Ordering,
            ) -> Result<u32, u32> {
                self.compare_exchange_weak(old, new, success, failure)
            }
        }
    };
}

atomic!(AtomicU32);
