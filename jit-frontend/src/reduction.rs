//! Reductions by closures: a state of any arrays, what makes a lane's state, and how two states become one.

use jit_core::trace::{Division, Reducing, Var, checked_reduction};

use crate::control::{default_device, same_structure};
use crate::element::Element;
use crate::leaves::{Leaves, with_arrays};
use crate::{Array, Buffer, Traverse};

/// Starts a reduction of arrays by closures.
///
/// `map` makes the state of a lane from the inputs' elements, [`combine`](Reduce::combine) says how two states become one,
/// [`finish`](Combined::finish) what becomes of the last. Inputs and state are any [`Traverse`] values of arrays. It all is
/// one kernel, also with what makes the inputs and with other reductions of as many elements.
///
/// ```
/// # use jit_frontend as jit;
/// # use jit::prelude::*;
/// # fn main() -> Result<(), jit::Error> {
/// let dev = Device::interpreter();
/// let x = Array::from_slice(&[3.0f32, -1.0, 7.0, 4.0], &dev)?;
/// // Smallest and largest in one pass.
/// let none = (Array::from(f32::INFINITY), Array::from(f32::NEG_INFINITY));
/// let range = jit::reduce(&x)
///     .map(|x| (x.clone(), x))
///     .combine(none, |(low, high), (l, h)| (low.min(l), high.max(h)))
///     .finish(|(low, high)| high - low);
/// assert_eq!(range.item()?, 8.0);
/// # Ok(())
/// # }
/// ```
///
/// What combines must be associative and commutative, at least as far as rounding goes: elements meet in the order of all
/// reductions, which is the same everywhere but is not that of their indices. And the identity must change no state.
///
/// It runs on the device of state and identity; where both are literals alone on that which [`while_loop`](crate::while_loop())
/// takes for such.
pub fn reduce<I: Traverse>(inputs: &I) -> Reduce<I> {
    Reduce { state: with_arrays(inputs, Leaves::of(inputs).arrays), division: Division::ALL }
}

/// A reduction whose lanes have a state; see [`reduce`].
#[derive(Clone, Debug)]
#[must_use = "nothing is reduced before it is combined and finished"]
pub struct Reduce<S> {
    state: S,
    division: Division,
}

impl<S: Traverse> Reduce<S> {
    /// Makes the state of a lane.
    pub fn map<U: Traverse>(self, f: impl FnOnce(S) -> U) -> Reduce<U> {
        Reduce { state: f(self.state), division: self.division }
    }

    /// Says how two states become one, and which state changes no other. `combine` runs once, on placeholders. It may only
    /// compute, and use from outside only arrays of size 1: to choose there is [`select`](crate::select()), but no loops,
    /// branches or switches.
    pub fn combine<C: FnOnce(S, S) -> S>(self, identity: S, combine: C) -> Combined<S, C> {
        Combined { state: self.state, identity, combine, division: self.division }
    }
}

/// A reduction that knows how to combine states; see [`reduce`].
#[derive(Clone, Debug)]
#[must_use = "nothing is reduced before it is finished"]
pub struct Combined<S, C> {
    state: S,
    identity: S,
    combine: C,
    division: Division,
}

impl<S: Traverse, C: FnOnce(S, S) -> S> Combined<S, C> {
    /// Reduces each block of `n` elements by itself; the last may be shorter.
    pub fn blocks(self, n: usize) -> Combined<S, C> {
        Combined { division: Division::rows(n as u64), ..self }
    }

    /// Reduces each row of a row-major matrix with `cols` columns by itself.
    ///
    /// # Panics
    /// If the elements are not whole rows.
    #[track_caller]
    pub fn rows(self, cols: usize) -> Combined<S, C> {
        let division = rows_of(&self.state, cols);
        Combined { division, ..self }
    }

    /// Reduces each column of a row-major matrix with `cols` columns by itself.
    pub fn cols(self, cols: usize) -> Combined<S, C> {
        Combined { division: Division::columns(cols as u64), ..self }
    }

    /// What `f` makes of the state of all elements (or of each block). `f` works on ordinary arrays, whose computation still
    /// is part of the kernel.
    ///
    /// # Panics
    /// At the caller's line: if structure, types, sizes or devices do not fit, `combine` does something else than compute, an
    /// input belongs to an open loop or branch, `n` of blocks is 0, or the elements are not whole rows. A panic of a closure
    /// goes through.
    #[track_caller]
    pub fn finish<R>(self, f: impl FnOnce(S) -> R) -> R {
        let Combined { state, identity, combine, division } = self;
        f(reduced_by(&state, &identity, division, Reduced::named("reduce"), combine))
    }

    /// The state of all elements, or of each block.
    ///
    /// # Panics
    /// As [`finish`](Self::finish).
    #[track_caller]
    pub fn value(self) -> S {
        self.finish(|state| state)
    }
}

impl<T: Element, C: FnOnce(Array<T>, Array<T>) -> Array<T>> Combined<Array<T>, C> {
    /// Makes the result the current version of a buffer.
    ///
    /// # Panics
    /// As [`finish`](Self::finish), and if the buffer has another size than the result.
    #[track_caller]
    pub fn into_buffer(self, buffer: &Buffer<T>) {
        buffer.set(self.value());
    }
}

/// A reduction to be used again: what [`reduce`] is told, without the inputs.
///
/// ```
/// # use jit_frontend as jit;
/// # use jit::prelude::*;
/// # fn main() -> Result<(), jit::Error> {
/// let norm = jit::Reduction::new(
///     |x: Array<f32>| &x * &x,
///     Array::from(0.0),
///     |a, b| a + b,
///     |sum: Array<f32>| sum.sqrt(),
/// );
/// let dev = Device::interpreter();
/// assert_eq!(norm.of(&Array::from_slice(&[3.0, 4.0], &dev)?).item()?, 5.0);
/// assert_eq!(norm.blocks(&Array::from_slice(&[3.0, 4.0, 2.0], &dev)?, 2).to_vec()?, [5.0, 2.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Reduction<M, S, C, F> {
    map: M,
    identity: S,
    combine: C,
    finish: F,
}

impl<M, S: Traverse, C: Fn(S, S) -> S, F> Reduction<M, S, C, F> {
    /// A reduction of states that `map` makes, `combine` combines and `finish` turns into results; see [`reduce`].
    pub fn new<I, R>(map: M, identity: S, combine: C, finish: F) -> Reduction<M, S, C, F>
    where
        M: Fn(I) -> S,
        F: Fn(S) -> R,
    {
        Reduction { map, identity, combine, finish }
    }

    /// The result for all elements.
    ///
    /// # Panics
    /// As [`Combined::finish`].
    #[track_caller]
    pub fn of<I: Traverse, R>(&self, inputs: &I) -> R
    where
        M: Fn(I) -> S,
        F: Fn(S) -> R,
    {
        self.run(inputs, Division::ALL)
    }

    /// The result for each block of `n` elements; the last may be shorter.
    ///
    /// # Panics
    /// As [`Combined::finish`].
    #[track_caller]
    pub fn blocks<I: Traverse, R>(&self, inputs: &I, n: usize) -> R
    where
        M: Fn(I) -> S,
        F: Fn(S) -> R,
    {
        self.run(inputs, Division::rows(n as u64))
    }

    /// The result for each row of a row-major matrix with `cols` columns.
    ///
    /// # Panics
    /// As [`Combined::finish`], and if the elements are not whole rows.
    #[track_caller]
    pub fn rows<I: Traverse, R>(&self, inputs: &I, cols: usize) -> R
    where
        M: Fn(I) -> S,
        F: Fn(S) -> R,
    {
        let state = reduce(inputs).map(&self.map).state;
        self.reduced(&state, rows_of(&state, cols))
    }

    /// The result for each column of a row-major matrix with `cols` columns.
    ///
    /// # Panics
    /// As [`Combined::finish`].
    #[track_caller]
    pub fn cols<I: Traverse, R>(&self, inputs: &I, cols: usize) -> R
    where
        M: Fn(I) -> S,
        F: Fn(S) -> R,
    {
        self.run(inputs, Division::columns(cols as u64))
    }

    #[track_caller]
    fn run<I: Traverse, R>(&self, inputs: &I, division: Division) -> R
    where
        M: Fn(I) -> S,
        F: Fn(S) -> R,
    {
        self.reduced(&reduce(inputs).map(&self.map).state, division)
    }

    #[track_caller]
    fn reduced<R>(&self, state: &S, division: Division) -> R
    where
        F: Fn(S) -> R,
    {
        (self.finish)(reduced_by(state, &self.identity, division, Reduced::named("reduce"), &self.combine))
    }
}

/// The division of a state's elements into the rows of a matrix with so many columns.
#[track_caller]
fn rows_of<S: Traverse>(state: &S, cols: usize) -> Division {
    let sizes = Leaves::of(state).arrays.iter().map(Var::size).collect::<Vec<_>>();
    let size = sizes.into_iter().find(|&size| size != 1).unwrap_or(1);
    assert!(
        cols > 0 && size.is_multiple_of(cols as u64),
        "a matrix of {cols} columns is not made of {size} elements"
    );
    Division::rows(cols as u64)
}

/// How a reduction is spoken of.
pub(crate) struct Reduced {
    pub(crate) name: &'static str,
    /// Set if there is no value for no elements.
    pub(crate) partial: Option<&'static str>,
}

impl Reduced {
    pub(crate) fn named(name: &'static str) -> Reduced {
        Reduced { name, partial: None }
    }
}

/// The state of each segment.
#[track_caller]
pub(crate) fn reduced_by<S: Traverse>(
    state: &S,
    identity: &S,
    division: Division,
    Reduced { name, partial }: Reduced,
    combine: impl FnOnce(S, S) -> S,
) -> S {
    let (lane, none) = (Leaves::of(state), Leaves::of(identity));
    assert!(
        lane.buffers.is_empty() && none.buffers.is_empty(),
        "`{name}`: a state is made of arrays, not of buffers"
    );
    if let Err(message) = same_structure(&format!("the identity of `{name}`"), state, &lane, identity, &none)
    {
        panic!("{message}");
    }
    let device = match lane.device().or_else(|| none.device()) {
        Some(device) => device,
        None => default_device(),
    };
    let reducing = Reducing { name, division, partial };
    let results = checked_reduction(device, &reducing, &lane.arrays, &none.arrays, |a, b| {
        let two = [a, b].map(|arrays| with_arrays(state, arrays.iter().cloned()));
        let [a, b] = two;
        let combined = combine(a, b);
        let leaves = Leaves::of(&combined);
        same_structure(&format!("what combines states of `{name}`"), state, &lane, &combined, &leaves)?;
        Ok(leaves.arrays)
    });
    with_arrays(state, results)
}
