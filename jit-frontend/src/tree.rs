//! Functions on any [`Traverse`] value: evaluating, waiting, choosing, indexing.

use jit_core::error::Error;
use jit_core::op::Op;
use jit_core::trace::{self, Var};

use crate::element::Int;
use crate::event::Event;
use crate::leaves::{Leaves, structure, with_arrays};
use crate::operand::Operand;
use crate::{Mask, Traverse, prints};

/// Launches what the arrays and buffers of a value still need, as one plan of as few kernels as their dependencies allow,
/// on the thread's current [`Stream`](crate::Stream). Does not wait; the event completes when all of them are there.
///
/// # Errors
/// [`Error::MixedDevices`], or what compiling and allocating run into; everything is then as before.
///
/// # Panics
/// Inside the closure of a loop or branch.
#[track_caller]
pub fn eval(tree: &impl Traverse) -> Result<Event, Error> {
    let leaves = Leaves::of(tree);
    let (arrays, buffers) = leaves.by_reference();
    Ok(Event::of(leaves.device(), trace::eval(&arrays, &buffers)?))
}

/// Evaluates a value and makes the host wait for its arrays and buffers, and for nothing else.
///
/// # Errors
/// As [`eval`] and [`Event::wait`].
///
/// # Panics
/// Inside the closure of a loop or branch.
#[track_caller]
pub fn sync(tree: &impl Traverse) -> Result<(), Error> {
    match eval(tree) {
        Ok(event) => event.wait(),
        Err(error) => prints::tell(Leaves::of(tree).device(), Err(error)),
    }
}

/// What the arrays and buffers of a value still need, as a graph in the language of Graphviz (`dot -Tsvg`): a box for each
/// node of the trace, an arrow from each operand, a frame around the closures of loops and branches. Computes nothing.
///
/// # Errors
/// [`Error::MixedDevices`].
pub fn graphviz(tree: &impl Traverse) -> Result<String, Error> {
    let leaves = Leaves::of(tree);
    let (arrays, buffers) = leaves.by_reference();
    trace::graphviz(&arrays, &buffers)
}

/// [`Mask::select`](crate::Array::select) on every array of two values of one structure. Buffers and whatever is no array
/// must be equal.
///
/// # Panics
/// If the structures differ.
#[track_caller]
pub fn select<A: Traverse>(mask: &Mask, x: A, y: A) -> A {
    let (a, b) = (Leaves::of(&x), Leaves::of(&y));
    let same_places = a.buffers.iter().zip(&b.buffers).all(|(a, b)| a.same(b));
    assert!(
        a.arrays.len() == b.arrays.len()
            && a.buffers.len() == b.buffers.len()
            && same_places
            && structure(&x) == structure(&y),
        "`select` between values of different structure; they may differ in their arrays alone"
    );
    let mut chosen = Vec::with_capacity(a.arrays.len());
    for (a, b) in a.arrays.iter().zip(&b.arrays) {
        chosen.push(choose(mask.as_var(), a, b));
    }
    with_arrays(&x, chosen)
}

/// One of two arrays, or of two local arrays, lane by lane.
#[track_caller]
fn choose(mask: &Var, a: &Var, b: &Var) -> Var {
    if a.local_len().is_none() && b.local_len().is_none() {
        return Var::apply(Op::Select, a.dtype(), &[mask, a, b]);
    }
    let device = [mask, a, b].into_iter().find_map(Var::device).or_else(trace::open_device);
    match (device, mask.literal_bits()) {
        (Some(device), _) => trace::if_else(
            device,
            mask,
            &[a.clone(), b.clone()],
            |sides| vec![sides[0].clone()],
            |sides| vec![sides[1].clone()],
        )
        .swap_remove(0),
        // All of them are literals.
        (None, condition) => if condition == Some(0) { b } else { a }.clone(),
    }
}

/// [`Array::gather`](crate::Array::gather) from every array of a value.
///
/// # Panics
/// If the value holds a buffer, which has no elements to stand in its own place.
#[track_caller]
pub fn gather<A: Traverse, I: Int>(tree: &A, index: impl Operand<I>) -> A {
    let leaves = Leaves::of(tree);
    assert!(leaves.buffers.is_empty(), "`gather` from a value that holds buffers; gather from each itself");
    let index = index.operand();
    let mut elements = Vec::with_capacity(leaves.arrays.len());
    for array in &leaves.arrays {
        elements.push(array.gather(&index, None));
    }
    with_arrays(tree, elements)
}

/// [`Array::scatter`](crate::Array::scatter) to every array of a value.
///
/// # Panics
/// If the structures differ, or a value holds a buffer; else as `Array::scatter`.
#[track_caller]
pub fn scatter<A: Traverse, I: Int>(tree: &mut A, value: &A, index: impl Operand<I>) {
    let (mut targets, values) = (Leaves::of(tree), Leaves::of(value));
    assert!(
        targets.buffers.is_empty() && values.buffers.is_empty(),
        "`scatter` of a value that holds buffers; scatter to each itself"
    );
    assert!(
        targets.arrays.len() == values.arrays.len() && structure(tree) == structure(value),
        "`scatter` between values of different structure; they may differ in their arrays alone"
    );
    let index = index.operand();
    for (target, value) in targets.arrays.iter_mut().zip(&values.arrays) {
        target.scatter(Op::Scatter, value, &index, None);
    }
    *tree = with_arrays(tree, targets.arrays);
}
