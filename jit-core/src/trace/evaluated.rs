//! Loops whose closures run in each iteration, on the lanes that still go round.
//!
//! The state of such a loop is as wide as it has lanes left. Arrays that a closure captures are as wide as the loop was at
//! first: where one meets the state, its elements at the lanes that are left stand for it. An op finds out when its operands
//! have different sizes, which it would otherwise refuse, so that ops outside of such loops do nothing for it. Effects
//! look here first, since they happen once for each lane that is left even if no operand is that wide.
//!
//! A loop of one lane would be one of arrays of size 1, which fit all others. So the last lane of several has companions, which
//! repeat what it does but for effects.

use std::borrow::Cow;
use std::cell::RefCell;
use std::panic::Location;
use std::sync::Arc;

use smallvec::SmallVec;

use super::region::outside_regions;
use super::{NodeId, Trace, Var};
use crate::dtype::DType;
use crate::op::Op;
use crate::runtime::Device;

/// How a loop runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum LoopMode {
    /// The closures run once, on placeholders; the loop is part of a kernel.
    #[default]
    Symbolic,
    /// The closures run in each iteration, on the state of the lanes that still go round. Each iteration launches kernels and
    /// waits for the condition.
    Evaluated,
}

impl LoopMode {
    /// Evaluated, if an evaluated loop is open on this thread.
    pub(crate) fn current() -> LoopMode {
        if is_open() { LoopMode::Evaluated } else { LoopMode::Symbolic }
    }
}

/// The lanes of an evaluated loop.
#[derive(Clone, Debug)]
pub struct ActiveLanes {
    /// How many there were at first, and so the size of captured arrays.
    pub full: u64,
    /// How many there are, a companion included.
    pub width: u64,
    /// Which they are, as u32; all of them in order if absent.
    pub indices: Option<Var>,
    /// Which of them have effects; all of them if absent.
    pub with_effects: Option<Var>,
}

/// An evaluated loop of a thread.
struct OpenLoop {
    device: Device,
    lanes: ActiveLanes,
    name: Option<Arc<str>>,
    /// What each of its lanes has for itself.
    state: Vec<Var>,
}

thread_local! {
    /// The evaluated loops of this thread, outermost first.
    static OPEN: RefCell<Vec<OpenLoop>> = const { RefCell::new(Vec::new()) };
}

/// An open evaluated loop; it ends when this is dropped. Loops end in the order opposite to that in which they began.
#[derive(Debug)]
pub struct EvaluatedLoop {
    depth: usize,
    /// It belongs to its thread.
    thread: std::marker::PhantomData<*const ()>,
}

impl EvaluatedLoop {
    /// Begins a loop (or something else, of which `what` speaks) with so many lanes.
    ///
    /// # Panics
    /// Inside a region.
    #[track_caller]
    pub fn begin(device: Device, what: &str, name: Option<&str>, width: u64) -> EvaluatedLoop {
        super::region::forbid(&format!("{what} in evaluated mode"));
        let lanes = ActiveLanes { full: width, width, indices: None, with_effects: None };
        OPEN.with_borrow_mut(|open| {
            open.push(OpenLoop { device, lanes, name: name.map(Arc::from), state: Vec::new() });
            EvaluatedLoop { depth: open.len(), thread: std::marker::PhantomData }
        })
    }

    /// The lanes that are left.
    pub fn set_lanes(&self, lanes: ActiveLanes) {
        let old = OPEN.with_borrow_mut(|open| std::mem::replace(&mut open[self.depth - 1].lanes, lanes));
        // Its arrays end outside of the borrow.
        drop(old);
    }

    /// What each lane has for itself from here on: no reduction may combine it, nor what is computed from it.
    pub fn set_state(&self, state: &[Var]) {
        let state = state.to_vec();
        let old = OPEN.with_borrow_mut(|open| std::mem::replace(&mut open[self.depth - 1].state, state));
        drop(old);
    }

    /// How many lanes, companions included, stand for one that is left: several, and no number by which an array as wide as an
    /// open loop was at first could be taken for one of them.
    pub fn companion_width(&self) -> u64 {
        OPEN.with_borrow(|open| {
            (2..).find(|width| open.iter().all(|other| other.lanes.full != *width)).expect("some number")
        })
    }

    /// An array as the lanes that are left see it.
    pub fn seen(&self, array: &Var) -> Var {
        at_active_lanes(array).unwrap_or_else(|| array.clone())
    }

    /// Runs a closure as if no evaluated loop were open.
    pub fn paused<R>(&self, f: impl FnOnce() -> R) -> R {
        paused(f)
    }
}

impl Drop for EvaluatedLoop {
    fn drop(&mut self) {
        let ended = OPEN.with_borrow_mut(|open| open.split_off(self.depth - 1));
        drop(ended);
    }
}

/// How many lanes the innermost evaluated loop has left, and which of them have effects; none outside of such loops, and on
/// another device than theirs.
pub fn evaluated_lanes(device: Device) -> Option<(u64, Option<Var>)> {
    OPEN.with_borrow(|open| {
        let OpenLoop { lanes, .. } = open.last().filter(|innermost| innermost.device == device)?;
        Some((lanes.width, lanes.with_effects.clone()))
    })
}

fn paused<R>(f: impl FnOnce() -> R) -> R {
    struct Resume(Vec<OpenLoop>);
    impl Drop for Resume {
        fn drop(&mut self) {
            OPEN.set(std::mem::take(&mut self.0));
        }
    }
    let _resume = Resume(OPEN.take());
    f()
}

/// The name of the innermost evaluated loop of this thread that has one.
pub(crate) fn evaluated_name() -> Option<Arc<str>> {
    OPEN.with_borrow(|open| open.iter().rev().find_map(|innermost| innermost.name.clone()))
}

/// Panics if one of these arrays is computed from what each lane of an evaluated loop has for itself, as in a symbolic loop.
/// What came to be in memory meanwhile counts as an array like any other.
#[track_caller]
pub(super) fn forbid_own(what: &str, arrays: &[&Var]) {
    if !is_open() {
        return;
    }
    let Some(device) = arrays.iter().find_map(|array| array.device()) else { return };
    let own: Vec<Var> = OPEN.with_borrow(|open| {
        let ours = open.iter().filter(|other| other.device == device);
        ours.flat_map(|other| other.state.iter().chain(&other.lanes.indices)).cloned().collect()
    });
    let depends = device.with_trace(|t| {
        let own: Vec<NodeId> = own.iter().filter(|var| var.device().is_some()).map(Var::id).collect();
        let own: Vec<NodeId> = own.into_iter().filter(|&id| !t.node(id).is_literal()).collect();
        let of = arrays.iter().filter(|array| array.device().is_some()).map(|array| array.id());
        t.depends(of.collect(), &own)
    });
    if depends {
        panic!(
            "`{what}` combines lanes, but its operand belongs to the lanes of a loop in evaluated mode; reduce outside of the loop, or let lanes write to a `Buffer`"
        );
    }
}

impl Trace {
    /// Whether nodes are computed from others, other than through memory.
    fn depends(&mut self, mut stack: Vec<NodeId>, others: &[NodeId]) -> bool {
        let stamp = self.new_stamp();
        while let Some(id) = stack.pop() {
            if others.contains(&id) {
                return true;
            }
            let node = self.slab.get_mut(id);
            if std::mem::replace(&mut node.stamp, stamp) == stamp {
                continue;
            }
            let node = self.node(id);
            match node.op {
                Op::Version => {}
                Op::Loop | Op::If | Op::Switch | Op::Reduce => {
                    stack.extend(&self.scopes.region(node.payload).operands);
                }
                _ => stack.extend(node.operands()),
            }
        }
        false
    }
}

/// Whether an evaluated loop is open on this thread.
pub(super) fn is_open() -> bool {
    OPEN.with_borrow(|open| !open.is_empty())
}

/// The operands of an op that did not take them, as the lanes that are left see them; none if these are the same.
#[cold]
#[track_caller]
pub(super) fn operands_at_active_lanes<'a>(args: &[&'a Var]) -> Option<SmallVec<[Cow<'a, Var>; 4]>> {
    if !is_open() {
        return None;
    }
    let seen: SmallVec<[Cow<'a, Var>; 4]> =
        args.iter().map(|&arg| at_active_lanes(arg).map_or(Cow::Borrowed(arg), Cow::Owned)).collect();
    seen.iter().any(|arg| matches!(arg, Cow::Owned(_))).then_some(seen)
}

/// An array that is as wide as an open evaluated loop was at first, at the lanes that are left.
#[track_caller]
pub(super) fn at_active_lanes(array: &Var) -> Option<Var> {
    let device = array.device()?;
    let size = array.size();
    let open: Vec<ActiveLanes> = OPEN.with_borrow(|open| {
        open.iter().filter(|other| other.device == device).map(|other| other.lanes.clone()).collect()
    });
    if size == 1 || open.last().is_none_or(|innermost| innermost.width == size) {
        return None;
    }
    let local = array.local_len();
    let start = open.iter().rposition(|lanes| lanes.full == size && lanes.width != size)?;
    let mut seen = array.clone();
    for indices in open[start..].iter().filter_map(|lanes| lanes.indices.as_ref()) {
        seen = match local {
            // The array belongs to the top level, though a region may be open where it is first needed.
            Some(len) => {
                outside_regions(|| paused(|| seen.flattened(device).unflattened(device, len, indices)))
            }
            None => seen.gather(indices, None),
        };
    }
    Some(seen)
}

/// The operands of an effect, index and perhaps mask last: as the lanes that are left see them, and as wide as these are.
#[track_caller]
pub(super) fn operands_of_effect(device: Device, args: &[&Var], has_mask: bool) -> Option<Vec<Var>> {
    let (width, with_effects) = evaluated_lanes(device)?;
    let mut seen: Vec<Var> =
        args.iter().map(|&arg| at_active_lanes(arg).unwrap_or_else(|| arg.clone())).collect();
    if let Some(with_effects) = with_effects {
        match has_mask {
            true => {
                let mask = seen.last_mut().expect("a mask");
                *mask = Var::apply(Op::And, DType::Bool, &[mask, &with_effects]);
            }
            false => seen.push(with_effects),
        }
    } else if width != 1 && seen.iter().all(|arg| arg.size() == 1) {
        match has_mask {
            true => {
                let at = Location::caller();
                let mask = seen.last_mut().expect("a mask");
                let narrow = mask.bind(device);
                *mask = Var::made(device, |t| Ok(t.spread(narrow.id(), width, at)));
            }
            false => seen.push(Var::full(device, DType::Bool, 1, width)),
        }
    }
    Some(seen)
}
