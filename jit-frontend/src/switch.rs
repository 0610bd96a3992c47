//! [`switch`] and [`Switch`]: one of several closures, lane by lane.

use std::cell::RefCell;

use jit_core::error::Error;
use jit_core::trace::{self, Case};

use crate::control::{Mode, default_device, same_structure};
use crate::element::Int;
use crate::leaves::{Leaves, with_arrays};
use crate::{Array, Traverse, evaluated_switch};

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
    Switch::new(index).run(arguments, callables)
}

/// A switch with a name or a mode; see [`switch`].
#[derive(Clone, Debug)]
pub struct Switch<I: Int> {
    index: Array<I>,
    name: Option<String>,
    mode: Mode,
}

impl<I: Int> Switch<I> {
    /// A switch by this index.
    pub fn new(index: &Array<I>) -> Switch<I> {
        Switch { index: index.clone(), name: None, mode: Mode::Symbolic }
    }

    /// A name for messages, for the results in dumps, and for the kernels in the device's history
    /// ([`KernelRecord::name`](crate::KernelRecord::name)).
    #[must_use]
    pub fn name(mut self, name: &str) -> Switch<I> {
        self.name = Some(name.to_owned());
        self
    }

    /// Whether the closures become parts of one kernel, or kernels of their own. Results and effects are the same, bit for bit.
    ///
    /// In [`Mode::Evaluated`] the host reads the index, and each closure that a lane takes runs once, on the arguments of its
    /// lanes close together; arrays from outside that meet them are gathered at these lanes. The last lane of several may come
    /// twice, so that it is not taken for an array of size 1. Each closure is an evaluation of its own, in which others' lanes
    /// cost nothing: that pays where there are many different closures, much to do in each, and no order in the index. Closures may
    /// evaluate and read there, and may hold loops of both modes; as in any switch arrays cannot be scattered to, and what
    /// belongs to lanes cannot be reduced, scanned or sorted. Such a switch cannot stand in a symbolic loop or branch, and takes
    /// and gives no local arrays.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Switch<I> {
        self.mode = mode;
        self
    }

    /// Runs the switch.
    ///
    /// # Panics
    /// As [`switch`]. In [`Mode::Evaluated`] also if an evaluation fails, see [`try_run`](Self::try_run).
    #[track_caller]
    pub fn run<A: Traverse, R: Traverse>(self, arguments: A, callables: &[&dyn Fn(A) -> R]) -> R {
        match self.try_run(arguments, callables) {
            Ok(result) => result,
            Err(error) => panic!("a switch in evaluated mode: {error}"),
        }
    }

    /// As [`run`](Self::run), for switches in [`Mode::Evaluated`], which launch and wait.
    ///
    /// # Errors
    /// What evaluating the index or a closure runs into. A symbolic switch has none.
    ///
    /// # Panics
    /// As [`switch`].
    #[track_caller]
    pub fn try_run<A: Traverse, R: Traverse>(
        self,
        arguments: A,
        callables: &[&dyn Fn(A) -> R],
    ) -> Result<R, Error> {
        let Switch { index, name, mode } = self;
        assert!(!callables.is_empty(), "`switch` without callables; there is nothing that it could return");
        match mode {
            Mode::Symbolic => Ok(symbolic(&index, name.as_deref(), arguments, callables)),
            Mode::Evaluated => evaluated_switch::run(&index, name.as_deref(), arguments, callables),
        }
    }
}

#[track_caller]
fn symbolic<I: Int, A: Traverse, R: Traverse>(
    index: &Array<I>,
    name: Option<&str>,
    arguments: A,
    callables: &[&dyn Fn(A) -> R],
) -> R {
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
    if let Some(name) = name {
        for result in &results {
            result.set_label(name);
            result.set_region_name(name);
        }
    }
    let (like, _) = first.into_inner().expect("a closure has run");
    with_arrays(&like, results)
}
