//! The memory of a launch as slices, which several threads share by parts.

use std::marker::PhantomData;
use std::ops::{Deref, Range};

use jit_core::backend::Arg;

/// Elements that are read.
#[derive(Clone, Copy)]
pub(super) struct Input<'a, T>(&'a [T]);

impl<T> Input<'_, T> {
    /// # Safety
    /// The argument is memory that holds elements of that type, all of whose bit patterns are values, and nobody writes to
    /// it while this value lives.
    pub(super) unsafe fn new(arg: Arg) -> Self {
        let Arg::Memory { ptr, len } = arg else { return Input(&[]) };
        // SAFETY: the caller promises it; the pointer is aligned and not null also for no elements.
        Input(unsafe { std::slice::from_raw_parts(ptr.cast(), len as usize) })
    }
}

impl<T> Deref for Input<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.0
    }
}

/// Elements that are written, each part by one thread.
#[derive(Clone, Copy)]
pub(super) struct Output<'a, T> {
    ptr: *mut T,
    len: usize,
    memory: PhantomData<&'a mut [T]>,
}

// SAFETY: who takes parts of it promises that they are apart.
unsafe impl<T: Send> Send for Output<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Output<'_, T> {}

impl<'a, T> Output<'a, T> {
    /// A slice that several threads write.
    pub(super) fn over(slice: &'a mut [T]) -> Self {
        Output { ptr: slice.as_mut_ptr(), len: slice.len(), memory: PhantomData }
    }

    /// # Safety
    /// The argument is memory with room for elements of that type, all of whose bit patterns are values, and nobody else
    /// touches it while this value lives.
    pub(super) unsafe fn new(arg: Arg) -> Self {
        let Arg::Memory { ptr, len } = arg else {
            return Output { ptr: std::ptr::NonNull::dangling().as_ptr(), len: 0, memory: PhantomData };
        };
        Output { ptr: ptr.cast(), len: len as usize, memory: PhantomData }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Some of them.
    ///
    /// # Safety
    /// No other part that is in use has any of them.
    #[expect(clippy::mut_from_ref, reason = "the caller sees to it that parts are apart")]
    pub(super) unsafe fn part(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.len, "a part of the output");
        // SAFETY: it lies in memory that `new`'s caller promised; the caller promises that it is nobody else's.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.add(range.start), range.len()) }
    }
}
