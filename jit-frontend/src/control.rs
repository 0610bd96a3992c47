//! Loops and branches over lanes.
//!
//! The closures run once, on placeholders; the loop or branch itself runs in the kernel, each lane for itself. On plain
//! `bool`s the same functions are an ordinary loop and an ordinary `if`, so that generic code has a scalar twin.

use std::cell::RefCell;

use jit_core::error::Error;
use jit_core::runtime;
pub use jit_core::trace::LoopMode as Mode;
use jit_core::trace::{self, BufferVar};

use crate::leaves::{Leaves, structure, with_arrays};
use crate::{Array, Device, Mask, Traverse, evaluated};

/// Repeats `body` on a state, lane by lane, while `condition` holds; the final state.
///
/// The state is any [`Traverse`] value. Arrays in it may have size 1 or the loop's width; what the body returns must have
/// the state's structure and element types. Arrays captured from outside are read (they cannot be assigned: the
/// closures are `Fn`), [`Buffer`](crate::Buffer)s in the state or captured may be written.
///
/// The loop runs on the device of the state. A state of literals alone adopts the device of the innermost loop or branch that is
/// open on this thread, else [`Device::from_env`]; where that is the wrong one, as it is if the closures capture arrays of
/// another device, start from `Array::full(value, 1, &device)`.
///
/// ```
/// # use jit_frontend as jit;
/// # use jit::prelude::*;
/// # fn main() -> Result<(), jit::Error> {
/// let n = Array::<u32>::arange(6, &Device::interpreter());
/// let (_, steps) = while_loop((n, Array::from(0u32)), |(n, _)| n.gt(1), |(n, steps)| (n / 2, steps + 1));
/// assert_eq!(steps.to_vec()?, [0, 0, 1, 1, 2, 2]);
/// # Ok(())
/// # }
/// ```
///
/// What a closure changes is in the state; a captured array cannot be assigned:
///
/// ```compile_fail,E0594
/// # use jit_frontend::prelude::*;
/// let mut sum = Array::from(0u32);
/// while_loop(Array::from(0u32), |i| i.lt(10), |i| { sum = &sum + &i; i + 1 });
/// ```
///
/// # Panics
/// At the caller's line if structures, types, sizes or devices do not fit. A panic of a closure goes through and leaves
/// everything as it was.
#[track_caller]
pub fn while_loop<S: Traverse, M: Lanes>(state: S, condition: impl Fn(&S) -> M, body: impl Fn(S) -> S) -> S {
    Loop::new(state).run(condition, body)
}

/// A loop with a name, a bound, or a mode; see [`while_loop`].
#[derive(Clone, Debug)]
pub struct Loop<S> {
    state: S,
    name: Option<String>,
    max_iterations: Option<u32>,
    mode: Mode,
}

impl<S: Traverse> Loop<S> {
    /// A loop that starts with this state.
    pub fn new(state: S) -> Loop<S> {
        Loop { state, name: None, max_iterations: None, mode: Mode::Symbolic }
    }

    /// A name for messages, for the results in dumps, and for the kernels in the device's history
    /// ([`KernelRecord::name`](crate::KernelRecord::name)).
    #[must_use]
    pub fn name(mut self, name: &str) -> Loop<S> {
        self.name = Some(name.to_owned());
        self
    }

    /// Lanes stop after that many iterations, with the state that they have then.
    #[must_use]
    pub fn max_iterations(mut self, count: u32) -> Loop<S> {
        self.max_iterations = Some(count);
        self
    }

    /// Whether the closures run once, or in each iteration. Results and effects are the same, bit for bit.
    ///
    /// In [`Mode::Evaluated`] the state that the closures get has the lanes that are left, close together, so that few lanes cost
    /// little; arrays from outside that meet it are gathered at these lanes. The last lane of several may come twice, so that it
    /// is not taken for an array of size 1. Closures may evaluate and read there, and may hold further loops of both modes;
    /// arrays cannot be scattered to, and what belongs to lanes cannot be reduced, scanned or sorted, as in any loop. Local
    /// arrays in the state are copied whenever lanes stop. Such a loop cannot stand in a symbolic loop or branch.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Loop<S> {
        self.mode = mode;
        self
    }

    /// Repeats `body` while `condition` holds; the final state.
    ///
    /// # Panics
    /// As [`while_loop`]. In [`Mode::Evaluated`] also if an evaluation fails, see [`try_run`](Self::try_run).
    #[track_caller]
    pub fn run<M: Lanes>(self, condition: impl Fn(&S) -> M, body: impl Fn(S) -> S) -> S {
        match M::run_loop(self, condition, body) {
            Ok(state) => state,
            Err(error) => panic!("a loop in evaluated mode: {error}"),
        }
    }

    /// As [`run`](Self::run), for loops in [`Mode::Evaluated`], which launch and wait.
    ///
    /// # Errors
    /// What evaluating an iteration runs into. A symbolic loop has none.
    ///
    /// # Panics
    /// As [`while_loop`].
    #[track_caller]
    pub fn try_run<M: Lanes>(self, condition: impl Fn(&S) -> M, body: impl Fn(S) -> S) -> Result<S, Error> {
        M::run_loop(self, condition, body)
    }
}

/// Runs one of two closures on the arguments, lane by lane: `then` where the mask is true, `otherwise` elsewhere.
///
/// Arguments and result are any [`Traverse`] values; both closures must return the same structure and element types. A
/// kernel skips a side that no lane takes; [`Mask::select`](crate::Array::select) evaluates both.
/// Captured arrays and buffers are as in [`while_loop`], and so is the device where neither mask nor arguments have one.
///
/// # Panics
/// At the caller's line if structures, types, sizes or devices do not fit. A panic of a closure goes through and leaves
/// everything as it was.
#[track_caller]
pub fn if_else<M: Lanes, A: Traverse, R: Traverse>(
    mask: &M,
    arguments: A,
    then: impl Fn(A) -> R,
    otherwise: impl Fn(A) -> R,
) -> R {
    mask.branch(arguments, then, otherwise)
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for bool {}
    impl Sealed for crate::Mask {}
}

/// What decides loops and branches: a [`Mask`], for many lanes, or a plain `bool`, with which they are ordinary ones.
pub trait Lanes: Clone + Traverse + sealed::Sealed {
    #[doc(hidden)]
    fn run_loop<S: Traverse>(
        start: Loop<S>,
        condition: impl Fn(&S) -> Self,
        body: impl Fn(S) -> S,
    ) -> Result<S, Error>;

    #[doc(hidden)]
    fn branch<A: Traverse, R: Traverse>(
        &self,
        arguments: A,
        then: impl Fn(A) -> R,
        otherwise: impl Fn(A) -> R,
    ) -> R;
}

impl Lanes for bool {
    fn run_loop<S: Traverse>(
        start: Loop<S>,
        condition: impl Fn(&S) -> bool,
        body: impl Fn(S) -> S,
    ) -> Result<S, Error> {
        let Loop { mut state, max_iterations, .. } = start;
        let mut iterations = 0;
        while max_iterations.is_none_or(|most| iterations < most) && condition(&state) {
            state = body(state);
            iterations += 1;
        }
        Ok(state)
    }

    fn branch<A: Traverse, R: Traverse>(
        &self,
        arguments: A,
        then: impl Fn(A) -> R,
        otherwise: impl Fn(A) -> R,
    ) -> R {
        if *self { then(arguments) } else { otherwise(arguments) }
    }
}

impl Lanes for Mask {
    #[track_caller]
    fn run_loop<S: Traverse>(
        start: Loop<S>,
        condition: impl Fn(&S) -> Mask,
        body: impl Fn(S) -> S,
    ) -> Result<S, Error> {
        let Loop { state, name, max_iterations, mode } = start;
        if mode == Mode::Evaluated {
            return evaluated::run(state, name.as_deref(), max_iterations, condition, body);
        }
        let Some(most) = max_iterations else {
            return Ok(symbolic_loop(state, name.as_deref(), condition, body));
        };
        let counted = (state, Array::from(0u32));
        let (state, _) = symbolic_loop(
            counted,
            name.as_deref(),
            |(state, count)| condition(state) & count.lt(most),
            |(state, count)| (body(state), count + 1),
        );
        Ok(state)
    }

    #[track_caller]
    fn branch<A: Traverse, R: Traverse>(
        &self,
        arguments: A,
        then: impl Fn(A) -> R,
        otherwise: impl Fn(A) -> R,
    ) -> R {
        let leaves = Leaves::of(&arguments);
        // Not by `unwrap_or_else`: the panic of `default_device` would point into the standard library.
        let device = match self.var.device().or_else(|| leaves.device()) {
            Some(device) => device,
            None => default_device(),
        };
        let first: RefCell<Option<(R, Leaves)>> = RefCell::new(None);
        let results = trace::checked_if(
            device,
            &self.var,
            &leaves.arrays,
            |placeholders| {
                let result = then(with_arrays(&arguments, placeholders));
                let leaves = Leaves::of(&result);
                let arrays = leaves.arrays.clone();
                first.replace(Some((result, leaves)));
                Ok(arrays)
            },
            |placeholders| {
                let result = otherwise(with_arrays(&arguments, placeholders));
                let leaves = Leaves::of(&result);
                let first = first.borrow();
                let (expected, before) = first.as_ref().expect("the other closure has run");
                same_structure("the second side of a branch", expected, before, &result, &leaves)?;
                Ok(leaves.arrays)
            },
        );
        let (like, _) = first.into_inner().expect("the closure has run");
        with_arrays(&like, results)
    }
}

#[track_caller]
fn symbolic_loop<S: Traverse>(
    state: S,
    name: Option<&str>,
    condition: impl Fn(&S) -> Mask,
    body: impl Fn(S) -> S,
) -> S {
    let leaves = Leaves::of(&state);
    let device = match leaves.device() {
        Some(device) => device,
        None => default_device(),
    };
    let results = trace::checked_loop(
        device,
        &leaves.arrays,
        |placeholders| Ok(condition(&with_arrays(&state, placeholders.iter().cloned())).var),
        |placeholders| {
            let next = body(with_arrays(&state, placeholders));
            let after = Leaves::of(&next);
            let name = name.map_or_else(String::new, |name| format!(" `{name}`"));
            same_structure(&format!("the body of the loop{name}"), &state, &leaves, &next, &after)?;
            Ok(after.arrays)
        },
    );
    if let Some(name) = name {
        for result in &results {
            result.set_label(name);
            result.set_region_name(name);
        }
    }
    with_arrays(&state, results)
}

/// That two values differ in their arrays alone.
pub(crate) fn same_structure<A: Traverse>(
    what: &str,
    expected: &A,
    before: &Leaves,
    got: &A,
    after: &Leaves,
) -> Result<(), String> {
    let (wanted, arrays) = (before.arrays.len(), after.arrays.len());
    if wanted != arrays {
        return Err(format!("{what} must return {wanted} arrays, got {arrays}"));
    }
    let same_place = |(a, b): (&BufferVar, &BufferVar)| a.same(b);
    let places = before.buffers.iter().zip(&after.buffers);
    if before.buffers.len() != after.buffers.len() || !places.clone().all(same_place) {
        return Err(format!("{what} must return the same buffers; write to them instead of replacing them"));
    }
    if structure(expected) != structure(got) {
        return Err(format!(
            "{what} must return the same structure: lengths, variants, skipped fields and plain numbers cannot depend on lanes"
        ));
    }
    Ok(())
}

/// Where a loop, branch or reduction runs whose operands are all literals.
#[track_caller]
pub(crate) fn default_device() -> runtime::Device {
    if let Some(device) = trace::open_device() {
        return device;
    }
    match Device::from_env() {
        Ok(device) => device.core(),
        Err(error) => panic!("a loop, branch or reduction of literals alone has no device: {error}"),
    }
}
