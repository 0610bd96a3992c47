//! [`LocalArray`]: an array that each lane has for itself.

use std::hash::Hasher;
use std::marker::PhantomData;

use jit_core::runtime;
use jit_core::trace::{self, Var};

use crate::element::{Element, Int};
use crate::operand::Operand;
use crate::traverse::{Rebuilder, Visitor};
use crate::{Array, Device, Traverse};

/// `N` elements for each lane: a stack, a histogram, a small table. A *value* like an [`Array`]: a clone keeps its own
/// elements, and loops carry it as state, branches take and return it.
///
/// Lanes read and write at indices of their own. An index out of bounds (a negative one is) reads 0 (false) and writes
/// nothing. What elements are read into is an ordinary array, as long as there are lanes. Kernels keep such arrays in
/// memory of their own, 64 KiB a lane at most, and change them in place where nobody can tell.
///
/// Each lane here sorts the digits of a number, by counting them:
///
/// ```
/// # use jit_frontend as jit;
/// # use jit::prelude::*;
/// # fn main() -> Result<(), jit::Error> {
/// let number = Array::from_slice(&[31_415_926u32, 100, 7], &Device::interpreter())?;
/// let (_, counts) = while_loop(
///     (number, LocalArray::<u32, 10>::zeros()),
///     |(rest, _)| rest.gt(0),
///     |(rest, mut counts)| {
///         let digit = &rest % 10;
///         counts.write(&digit, counts.read(&digit) + 1);
///         (rest / 10, counts)
///     },
/// );
/// let (_, _, sorted) = while_loop(
///     (Array::from(0u32), counts, Array::from(0u32)),
///     |(digit, ..)| digit.lt(10),
///     |(digit, mut counts, sorted)| {
///         let left = counts.read(&digit);
///         let some = left.gt(0);
///         counts.write_masked(&digit, &left - 1, &some);
///         (some.select(&digit, &digit + 1), counts, some.select(&sorted * 10 + &digit, &sorted))
///     },
/// );
/// assert_eq!(sorted.to_vec()?, [11_234_569, 1, 7]);
/// # Ok(())
/// # }
/// ```
///
/// [`eval`](crate::eval()) of a local array stores the elements of all lanes in the device's memory, where later kernels find
/// them. That is rarely wanted: arrays computed from it can be evaluated themselves, and then nothing is stored.
pub struct LocalArray<T: Element, const N: usize> {
    var: Var,
    element: PhantomData<fn() -> T>,
}

impl<T: Element, const N: usize> LocalArray<T, N> {
    /// Zeros (false) on every lane. Belongs to no device yet; like a number it adopts that of the first array it meets.
    ///
    /// # Panics
    /// If the elements of a lane take more than 64 KiB.
    #[track_caller]
    pub fn zeros() -> LocalArray<T, N> {
        LocalArray { var: Var::local_zeros(T::DTYPE, N), element: PhantomData }
    }

    /// The lanes' elements at these indices, 0 (false) where out of bounds.
    ///
    /// # Panics
    /// At the caller's line for sizes or devices that do not fit. Literals alone adopt a device as the state of a
    /// [`while_loop`](crate::while_loop) does, and it panics if there is none: where that is the wrong one, index with
    /// `Array::full(0, 1, &device)`.
    #[track_caller]
    pub fn read<I: Int>(&self, index: impl Operand<I>) -> Array<T> {
        self.read_where(&index.operand(), None)
    }

    /// The lanes' elements at these indices, 0 (false) where out of bounds or where the mask is false.
    ///
    /// # Panics
    /// As [`read`](Self::read).
    #[track_caller]
    pub fn read_masked<I: Int>(&self, index: impl Operand<I>, mask: impl Operand<bool>) -> Array<T> {
        self.read_where(&index.operand(), Some(&mask.operand()))
    }

    /// Changes one element of each lane. Clones keep theirs.
    ///
    /// # Panics
    /// As [`read`](Self::read).
    #[track_caller]
    pub fn write<I: Int>(&mut self, index: impl Operand<I>, value: impl Operand<T>) {
        self.write_where(&index.operand(), &value.operand(), None);
    }

    /// Changes one element of each lane where the mask is true. Clones keep theirs.
    ///
    /// # Panics
    /// As [`read`](Self::read).
    #[track_caller]
    pub fn write_masked<I: Int>(
        &mut self,
        index: impl Operand<I>,
        value: impl Operand<T>,
        mask: impl Operand<bool>,
    ) {
        self.write_where(&index.operand(), &value.operand(), Some(&mask.operand()));
    }

    /// Number of elements of a lane.
    #[expect(clippy::len_without_is_empty, reason = "without elements it is no special case")]
    pub fn len(&self) -> usize {
        N
    }

    #[track_caller]
    fn read_where(&self, index: &Var, mask: Option<&Var>) -> Array<T> {
        let device = device_of(&[Some(&self.var), Some(index), mask]);
        Array::from_var(self.var.local_read(index, mask, device))
    }

    #[track_caller]
    fn write_where(&mut self, index: &Var, value: &Var, mask: Option<&Var>) {
        let device = device_of(&[Some(&self.var), Some(index), Some(value), mask]);
        self.var = self.var.local_write(value, index, mask, device);
    }
}

/// Where an operation happens: on the operands' device, else the innermost open loop's or branch's, else the default one.
#[track_caller]
fn device_of(operands: &[Option<&Var>]) -> runtime::Device {
    let own = operands.iter().flatten().find_map(|var| var.device());
    if let Some(device) = own.or_else(trace::open_device) {
        return device;
    }
    match Device::from_env() {
        Ok(device) => device.core(),
        Err(error) => panic!("a local array of literals alone has no device: {error}"),
    }
}

impl<T: Element, const N: usize> Traverse for LocalArray<T, N> {
    fn visit(&self, visitor: &mut dyn Visitor) {
        visitor.array(&self.var);
    }

    fn rebuild(&self, rebuilder: &mut dyn Rebuilder) -> Self {
        let var = rebuilder.array(&self.var);
        assert!(
            var.dtype() == T::DTYPE && var.local_len() == Some(N as u32),
            "a local array of {N} elements of {} made of another value: {var:?}",
            T::DTYPE
        );
        LocalArray { var, element: PhantomData }
    }

    fn static_key(&self, state: &mut dyn Hasher) {
        state.write(b"local array");
        state.write_usize(N);
    }
}

impl<T: Element, const N: usize> Clone for LocalArray<T, N> {
    fn clone(&self) -> Self {
        LocalArray { var: self.var.clone(), element: PhantomData }
    }
}

impl<T: Element, const N: usize> Default for LocalArray<T, N> {
    /// Zeros (false).
    fn default() -> Self {
        LocalArray::zeros()
    }
}

impl<T: Element, const N: usize> std::fmt::Debug for LocalArray<T, N> {
    /// Never evaluates.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.var.fmt(f)
    }
}
