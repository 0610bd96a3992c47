//! Arrays that each lane has for itself: what they hold, on every device and for every type, against plain Rust.

mod misuse;
mod programs;
mod switches;
mod values;

use jit_core::dtype::{DType, Element};
use jit_core::runtime::Device;
use jit_core::trace::Var;
use jit_frontend::{Array, LocalArray};

use crate::host::upload;

/// Numbers of lanes around the widths of vectors.
const LANES: [usize; 9] = [0, 1, 3, 4, 5, 15, 16, 17, 33];

/// An array of these elements.
fn array<T: Element>(device: Device, values: &[T]) -> Array<T> {
    Array::from_var(upload(device, values))
}

/// A number that belongs to the device, so that loops whose state has nothing else run there.
fn number<T: Element>(device: Device, value: T) -> Array<T> {
    Array::from_var(Var::full(device, T::DTYPE, value.to_bits(), 1))
}

/// 0, 1, 2, ... of u32.
fn lanes(device: Device, n: usize) -> Array<u32> {
    Array::from_var(Var::counter(device, DType::U32, n as u64))
}

/// The elements of an array, evaluated.
#[track_caller]
fn host<T: Element>(array: &Array<T>) -> Vec<T> {
    array.to_vec().expect("evaluation")
}

fn zeros<T: Element, const N: usize>() -> LocalArray<T, N> {
    LocalArray::zeros()
}
