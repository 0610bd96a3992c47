//! What handles point to, and how many there are of a node, counted without the trace's lock.
//!
//! A node's own count, which the lock guards, has 1 for all its handles together; how many there are beyond the first
//! stands in the node's [`Anchor`]. Cloning a handle and dropping one that is not the last touch nothing else. Only under
//! the lock does a node come to have handles, or lose the last: then its number here is 0, and stays 0 while the lock is
//! held, since only who holds a handle may raise it. So nothing is freed that a clone could bring back.
//!
//! A handle is two words that the compiler keeps in registers, which is why it has a pointer where it could have an index.
//! Anchors stand in chunks of doubling size that, like their device, live as long as the process.

use std::sync::atomic::{AtomicU32, Ordering};

use super::NodeId;
use crate::dtype::{ALL_DTYPES, DType};
use crate::runtime::Device;

/// What the handles of a node point to.
pub(crate) struct Anchor {
    /// None for a literal that no device knows yet.
    pub(super) device: Option<Device>,
    /// The node, or the literal's type; and [`LOCAL`] for a local array of zeros.
    number: u32,
    pub(super) others: Others,
}

impl Anchor {
    /// What literals of a type point to, which no device knows yet.
    #[inline]
    pub(super) fn literal(dtype: DType) -> &'static Anchor {
        &LITERALS[dtype as usize]
    }

    /// What local arrays of zeros of a type point to, which no device knows yet.
    pub(super) fn zeros(dtype: DType) -> &'static Anchor {
        &ZEROS[dtype as usize]
    }

    /// Whether it is one of a local array, of an anchor without a device.
    #[inline]
    pub(super) fn is_local(&self) -> bool {
        debug_assert!(self.device.is_none());
        self.number & LOCAL != 0
    }

    /// The node, of an anchor with a device.
    #[inline]
    pub(crate) fn id(&self) -> NodeId {
        debug_assert!(self.device.is_some());
        NodeId(self.number)
    }

    /// The type, of an anchor without a device.
    #[inline]
    pub(super) fn dtype(&self) -> DType {
        debug_assert!(self.device.is_none());
        DType::from_index(self.number as u8)
    }
}

const LOCAL: u32 = 1 << 8;

static LITERALS: [Anchor; ALL_DTYPES.len()] = by_type(0);
static ZEROS: [Anchor; ALL_DTYPES.len()] = by_type(LOCAL);

const fn by_type(flag: u32) -> [Anchor; ALL_DTYPES.len()] {
    let mut all =
        [const { Anchor { device: None, number: 0, others: Others(AtomicU32::new(0)) } }; ALL_DTYPES.len()];
    let mut at = 0;
    while at < all.len() {
        all[at].number = at as u32 | flag;
        at += 1;
    }
    all
}

/// The anchors of a device's nodes.
pub(super) struct Anchors {
    device: Option<Device>,
    chunks: Vec<&'static [Anchor]>,
}

/// Binary logarithm of the first chunk's length.
const FIRST: u32 = 10;
/// So that the last chunk ends where the numbers of nodes do.
pub(super) const MAX_NODES: usize = (1 << 32) - (1 << FIRST);

impl Anchors {
    pub(super) fn new() -> Anchors {
        Anchors { device: None, chunks: Vec::new() }
    }

    /// Says whose nodes they are, before there are any.
    pub(super) fn belong_to(&mut self, device: Device) {
        self.device = Some(device);
    }

    /// Makes room for a node; nodes come in the order of their numbers.
    pub(super) fn reserve(&mut self, id: NodeId) {
        let (chunk, _) = position(id);
        if chunk == self.chunks.len() {
            let anchor =
                |at: u32| Anchor { device: self.device, number: id.0 + at, others: Others::default() };
            self.chunks.push((0..1 << (chunk as u32 + FIRST)).map(anchor).collect::<Vec<_>>().leak());
        }
    }

    /// That of a node.
    #[inline]
    pub(super) fn of(&self, id: NodeId) -> &'static Anchor {
        let (chunk, at) = position(id);
        &self.chunks[chunk][at]
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

#[cfg(test)]
mod tests {
    use loom::sync::atomic::AtomicU32 as LoomU32;
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    use super::*;

    atomic!(LoomU32);

    /// One node as slab and lock treat it.
    struct Model {
        others: Others<LoomU32>,
        node: Mutex<ModelNode>,
        notes: Mutex<u32>,
    }

    #[derive(Default)]
    struct ModelNode {
        refs: u32,
        held: bool,
        freed: bool,
    }

    impl Model {
        /// A node with so many counts of operands, and a handle.
        fn new(uses: u32) -> Arc<Model> {
            let node = ModelNode { refs: uses + 1, held: true, freed: false };
            Arc::new(Model { others: Others(LoomU32::new(0)), node: Mutex::new(node), notes: Mutex::new(0) })
        }

        fn clone_handle(&self) {
            self.others.share();
        }

        fn drop_handle(&self) {
            if self.others.give_back() {
                return;
            }
            match self.node.try_lock() {
                Ok(mut node) => self.drop_locked(&mut node),
                Err(_) => *self.notes.lock().unwrap() += 1,
            }
        }

        fn drop_locked(&self, node: &mut ModelNode) {
            if self.others.give_back() {
                return;
            }
            assert!(node.held, "the last handle is given back once");
            node.held = false;
            self.release(node);
        }

        fn release(&self, node: &mut ModelNode) {
            node.refs -= 1;
            if node.refs == 0 {
                assert!(!node.freed && !node.held, "a node is freed once, and without handles");
                assert_eq!(self.others.0.load(Ordering::Relaxed), 0, "a freed node has no handles");
                node.freed = true;
            }
        }

        /// What tracing an equal op does: the node is found by its key, unless it is gone.
        fn find(&self) -> bool {
            let mut node = self.node.lock().unwrap();
            if node.freed {
                return false;
            }
            if node.held {
                self.others.share();
            } else {
                node.held = true;
                node.refs += 1;
            }
            true
        }

        /// After all threads: reads the notes; whether the node is gone.
        fn settle(&self) -> bool {
            let mut node = self.node.lock().unwrap();
            for _ in 0..*self.notes.lock().unwrap() {
                self.drop_locked(&mut node);
            }
            node.freed
        }
    }

    #[test]
    fn clones_of_several_threads_end_once() {
        loom::model(|| {
            let model = Model::new(0);
            model.clone_handle();
            let other = {
                let model = Arc::clone(&model);
                thread::spawn(move || {
                    model.clone_handle();
                    model.drop_handle();
                    model.drop_handle();
                })
            };
            model.drop_handle();
            other.join().unwrap();
            assert!(model.settle());
        });
    }

    #[test]
    fn a_node_found_again_lives() {
        loom::model(|| {
            let model = Model::new(0);
            let other = {
                let model = Arc::clone(&model);
                thread::spawn(move || {
                    // A handle that was found keeps the node, whatever the other thread drops.
                    if model.find() {
                        assert!(!model.node.lock().unwrap().freed);
                        model.drop_handle();
                    }
                })
            };
            model.drop_handle();
            other.join().unwrap();
            assert!(model.settle());
        });
    }

    #[test]
    fn an_operand_outlives_its_handles() {
        loom::model(|| {
            let model = Model::new(1);
            let other = {
                let model = Arc::clone(&model);
                thread::spawn(move || {
                    assert!(model.find(), "the operand's count keeps it");
                    model.drop_handle();
                })
            };
            model.drop_handle();
            other.join().unwrap();
            assert!(!model.settle());
            let mut node = model.node.lock().unwrap();
            assert!(!node.held);
            model.release(&mut node);
            assert!(node.freed);
        });
    }

    #[test]
    fn more_handles_than_can_be_counted_are_refused_and_change_nothing() {
        let others = Others(AtomicU32::new(MOST));
        let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| others.share()));
        assert!(refused.is_err());
        assert_eq!(others.0.into_inner(), MOST);
    }

    #[test]
    fn every_node_has_an_anchor_of_its_own() {
        let mut anchors = Anchors::new();
        (0..5000).for_each(|n| anchors.reserve(NodeId(n)));
        assert!((0..5000).all(|n| anchors.of(NodeId(n)).number == n));
        let last = position(NodeId(MAX_NODES as u32 - 1));
        assert_eq!(last, (21, (1 << 31) - 1));
    }
}
