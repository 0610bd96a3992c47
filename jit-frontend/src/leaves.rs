//! The leaves of a value, as a list, and a value of given leaves.

use std::hash::{DefaultHasher, Hasher};

use jit_core::runtime::Device;
use jit_core::trace::{BufferVar, Var};

use crate::traverse::{Rebuilder, Traverse, Visitor};

/// The leaves of a value, in order.
#[derive(Default)]
pub(crate) struct Leaves {
    pub(crate) arrays: Vec<Var>,
    pub(crate) buffers: Vec<BufferVar>,
}

impl Leaves {
    pub(crate) fn of(tree: &impl Traverse) -> Leaves {
        let mut leaves = Leaves::default();
        tree.visit(&mut leaves);
        leaves
    }

    /// The arrays and the buffers, each by reference.
    pub(crate) fn by_reference(&self) -> (Vec<&Var>, Vec<&BufferVar>) {
        (self.arrays.iter().collect(), self.buffers.iter().collect())
    }

    /// The device of the first leaf that has one.
    pub(crate) fn device(&self) -> Option<Device> {
        let of_buffer = || self.buffers.first().map(BufferVar::device);
        self.arrays.iter().find_map(Var::device).or_else(of_buffer)
    }
}

impl Visitor for Leaves {
    fn array(&mut self, array: &Var) {
        self.arrays.push(array.clone());
    }

    fn buffer(&mut self, buffer: &BufferVar) {
        self.buffers.push(buffer.clone());
    }
}

/// A value of the structure of `like` with these arrays as leaves, and the same buffers.
///
/// # Panics
/// If their number differs.
#[track_caller]
pub(crate) fn with_arrays<A: Traverse>(like: &A, arrays: impl IntoIterator<Item = Var>) -> A {
    struct Replace<I>(I);
    impl<I: Iterator<Item = Var>> Rebuilder for Replace<I> {
        fn array(&mut self, _old: &Var) -> Var {
            self.0.next().expect("`rebuild` asks for the leaves that `visit` showed")
        }
    }
    let mut replace = Replace(arrays.into_iter());
    let value = like.rebuild(&mut replace);
    assert!(replace.0.next().is_none(), "`rebuild` asks for all leaves that `visit` showed");
    value
}

/// What of a value's structure is not in its leaves.
pub(crate) fn structure(tree: &impl Traverse) -> u64 {
    let mut hasher = DefaultHasher::new();
    tree.static_key(&mut hasher);
    hasher.finish()
}
