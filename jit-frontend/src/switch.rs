//! [`switch`]: one of several closures, lane by lane.

use std::cell::RefCell;

use jit_core::trace::{self, Case};

use crate::control::{default_device, same_structure};
use crate::element::Int;
use crate::leaves::{Leaves, with_arrays};
use crate::{Array, Traverse};

/// Runs, lane by lane, the closure whose position in the list is the index; zeros (false) where the index is negative or
/// past the end, with no effects there (on a checked device that is reported, see
/// [`DeviceBuilder::checked`](crate::DeviceBuilder::checked)).
///
/// Arguments and result are any [`Traverse`] values; all closures must return the same structure and element types. Each is
/// traced once. A kernel holds the code of each closure once, and jumps to those that its lanes take: where neighbouring
/// lanes have one index, a switch of many closures costs as much as the one that is taken. Captured arrays and buffers are as
/// in [`while_loop`](crate::while_loop), and so is the device where neither index nor arguments have one.
///
/// ```
/// # use jit_frontend as jit;
/// # use jit::prelude::*;
/// # fn main() -> Result<(), jit::Error> {
/// let x = Array::<f32>::from_slice(&[1.0, 4.0, 9.0], &Device::interpreter())?;
/// let which = Array::from_slice(&[0u32, 1, 7], &Device::interpreter())?;
/// let y: Array<f32> = switch(&which, x, &[&|x| x + 0.5, &|x| x.sqrt()]);
/// assert_eq!(y.to_vec()?, [1.5, 2.0, 0.0]);
/// # Ok(())
/// # }
/// ```
///
/// # Panics
/// At the caller's line if there is no closure, or structures, types, sizes or devices do not fit. A panic of a closure goes
/// through and leaves everything as it was.
#[track_caller]
pub fn switch<I: Int, A: Traverse, R: Traverse>(
    index: &Array<I>,
    arguments: A,
    callables: &[&dyn Fn(A) -> R],
) -> R {
    assert!(!callables.is_empty(), "`switch` without callables; there is nothing that it could return");
    let leaves = Leaves::of(&arguments);
    let device = match index.as_var().device().or_else(|| leaves.device()) {
        Some(device) => device,
        None => default_device(),
    };
    let first: RefCell<Option<(R, Leaves)>> = RefCell::new(None);
    let (arguments, first_result) = (&arguments, &first);
    let cases = callables.iter().enumerate().map(|(k, callable)| -> Case<'_> {
        Box::new(move |placeholders| {
            let result = callable(with_arrays(arguments, placeholders));
            let leaves = Leaves::of(&result);
            let arrays = leaves.arrays.clone();
            let mut first = first_result.borrow_mut();
            match first.as_ref() {
                None => *first = Some((result, leaves)),
                Some((expected, before)) => {
                    same_structure(&format!("callable {k} of a switch"), expected, before, &result, &leaves)?;
                }
            }
            Ok(arrays)
        })
    });
    let results = trace::checked_switch(device, index.as_var(), &leaves.arrays, cases);
    let (like, _) = first.into_inner().expect("a closure has run");
    with_arrays(&like, results)
}
