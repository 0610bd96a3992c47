//! Traces the closures of loops and branches.
//!
//! The innermost open region is known per thread. A guard abandons it if a closure panics, so that the device stays
//! usable and everything is as it was.

use std::cell::Cell;
use std::panic::Location;

use super::var::{bind_all, or_panic};
use super::{At, Misuse, NodeId, ScopeKind, Trace, Var};
use crate::dtype::DType;
use crate::op::Op;
use crate::runtime::{Device, Dropped};

thread_local! {
    /// The innermost open region of this thread.
    static OPEN: Cell<Option<(Device, u32)>> = const { Cell::new(None) };
}

/// The scope that new effects on a device belong to.
#[inline]
pub(super) fn current(device: Device) -> u32 {
    match OPEN.get() {
        Some((d, scope)) if d == device => scope,
        _ => 0,
    }
}

/// As [`current`], for what belongs to the open region even if its operands do not show it: effects, reads of buffers,
/// regions. On another device than that region's they would happen once, now, instead of on the region's lanes.
#[track_caller]
pub(super) fn enclosing(device: Device, op: &'static str) -> u32 {
    match OPEN.get() {
        Some((open, _)) if open != device => super::var::mixed(op, open, device),
        Some((_, scope)) => scope,
        None => 0,
    }
}

/// `loop opened at file:line`, if a region is open on this thread.
pub(super) fn describe_current() -> Option<String> {
    OPEN.get().map(|(device, scope)| device.with_trace(|t| t.scopes.describe(scope)))
}

/// The kind of the innermost open region of this thread, and where it was opened.
pub(super) fn opened() -> Option<(&'static str, At)> {
    OPEN.get().map(|(device, scope)| device.with_trace(|t| t.scopes.opened(scope)))
}

/// Panics if a region is open.
#[track_caller]
pub(super) fn forbid(what: &str) {
    if let Some(opened) = describe_current() {
        panic!("{what} inside a {opened}; finish the region first, or keep the value in its state");
    }
}

/// The device of this thread's innermost open region.
pub fn open_device() -> Option<Device> {
    OPEN.get().map(|(device, _)| device)
}

/// A symbolic loop: `condition` and `body` run once, on placeholders for the state.
///
/// # Panics
/// At the caller's line if types or sizes do not fit; a panic of a closure goes through, with the device as it was.
#[track_caller]
pub fn while_loop(
    device: Device,
    state: &[Var],
    condition: impl FnOnce(&[Var]) -> Var,
    body: impl FnOnce(Vec<Var>) -> Vec<Var>,
) -> Vec<Var> {
    checked_loop(device, state, |s| Ok(condition(s)), |s| Ok(body(s)))
}

/// [`while_loop`] with closures that may refuse: their message becomes a panic at the caller's line.
///
/// # Panics
/// As [`while_loop`].
#[track_caller]
pub fn checked_loop(
    device: Device,
    state: &[Var],
    condition: impl FnOnce(&[Var]) -> Result<Var, String>,
    body: impl FnOnce(Vec<Var>) -> Result<Vec<Var>, String>,
) -> Vec<Var> {
    let at = Location::caller();
    let outer = enclosing(device, "loop");
    let refs: Vec<&Var> = state.iter().collect();
    let initial = Bound::new(device, &refs, at);
    let scope = or_panic(device.with_trace(|t| t.open_scope(outer, ScopeKind::Loop, None, &initial.ids, at)));
    let open = Open::enter(device, scope);
    let types: Vec<DType> = state.iter().map(Var::dtype).collect();

    let test = or_panic(condition(&placeholders(device, scope)).map_err(Misuse::new)).bind(device);
    or_panic(device.with_trace(|t| {
        let test = t.take_in(test);
        t.end_condition(scope, test)
    }));
    let mut next = Vec::new();
    for value in or_panic(body(placeholders(device, scope)).map_err(Misuse::new)) {
        next.push(value.bind(device));
    }
    or_panic(device.with_trace(|t| {
        let next = next.into_iter().map(|var| t.take_in(var)).collect();
        t.end_scope(scope, next, &types)
    }));

    open.close();
    device.with_trace(|t| {
        let results = t.close_region(Op::Loop, outer, &[scope], None, &initial.ids, at);
        handles(t, results)
    })
}

/// A symbolic branch: both closures run once, on placeholders for the arguments.
///
/// # Panics
/// As [`while_loop`].
#[track_caller]
pub fn if_else(
    device: Device,
    mask: &Var,
    arguments: &[Var],
    then: impl FnOnce(Vec<Var>) -> Vec<Var>,
    otherwise: impl FnOnce(Vec<Var>) -> Vec<Var>,
) -> Vec<Var> {
    checked_if(device, mask, arguments, |a| Ok(then(a)), |a| Ok(otherwise(a)))
}

/// [`if_else`] with closures that may refuse: their message becomes a panic at the caller's line.
///
/// # Panics
/// As [`while_loop`].
#[track_caller]
pub fn checked_if(
    device: Device,
    mask: &Var,
    arguments: &[Var],
    then: impl FnOnce(Vec<Var>) -> Result<Vec<Var>, String>,
    otherwise: impl FnOnce(Vec<Var>) -> Result<Vec<Var>, String>,
) -> Vec<Var> {
    let at = Location::caller();
    let outer = enclosing(device, "if");
    let all: Vec<&Var> = std::iter::once(mask).chain(arguments).collect();
    let bound = Bound::new(device, &all, at);
    let (condition, args) = (bound.ids[0], &bound.ids[1..]);
    let branch = Branch { device, outer, condition, args, at };
    let (first, types) = branch.trace(then, None);
    let (second, _) = branch.trace(otherwise, Some(&types));
    or_panic(device.with_trace(|t| {
        t.same_yielded_locals([&first, &second].map(|side| side.scope.expect("a side that ended")))
    }));
    let scopes = [first.take(), second.take()];
    device.with_trace(|t| {
        let results = t.close_region(Op::If, outer, &scopes, Some(condition), args, at);
        handles(t, results)
    })
}

/// What both sides of a branch share.
struct Branch<'a> {
    device: Device,
    outer: u32,
    condition: NodeId,
    args: &'a [NodeId],
    at: At,
}

impl Branch<'_> {
    /// Traces one side, whose results must have the `expected` types.
    #[track_caller]
    fn trace(
        &self,
        body: impl FnOnce(Vec<Var>) -> Result<Vec<Var>, String>,
        expected: Option<&[DType]>,
    ) -> (Ended, Vec<DType>) {
        let Branch { device, outer, condition, args, at } = *self;
        let scope = or_panic(
            device.with_trace(|t| t.open_scope(outer, ScopeKind::Branch, Some(condition), args, at)),
        );
        let open = Open::enter(device, scope);
        let mut yields = Vec::new();
        for value in or_panic(body(placeholders(device, scope)).map_err(Misuse::new)) {
            yields.push(value.bind(device));
        }
        let types: Vec<DType> = yields.iter().map(Var::dtype).collect();
        or_panic(device.with_trace(|t| {
            let yields = yields.into_iter().map(|var| t.take_in(var)).collect();
            t.end_scope(scope, yields, expected.unwrap_or(&types))
        }));
        open.close();
        (Ended { device, scope: Some(scope) }, types)
    }
}

/// Handles of a scope's placeholders.
pub(super) fn placeholders(device: Device, scope: u32) -> Vec<Var> {
    device.with_trace(|t| {
        let ids = t.scopes.get(scope).placeholders.clone();
        ids.iter().for_each(|&id| t.retain(id));
        handles(t, ids)
    })
}

/// Handles of nodes on which the caller has counts.
pub(super) fn handles(t: &mut Trace, ids: Vec<NodeId>) -> Vec<Var> {
    ids.into_iter().map(|id| t.hand_out(id)).collect()
}

/// Operands as nodes; those that were unbound are held until dropped.
pub(super) struct Bound {
    pub(super) ids: Vec<NodeId>,
    device: Device,
    made: Vec<NodeId>,
}

impl Bound {
    #[track_caller]
    pub(super) fn new(device: Device, vars: &[&Var], at: At) -> Bound {
        for var in vars {
            if let Some(other) = var.device()
                && other != device
            {
                panic!("a region of device {} got an array of {}", device.name(), other.name());
            }
        }
        let ids: Vec<NodeId> = device.with_trace(|t| bind_all(t, vars, at).into_vec());
        let made = vars.iter().zip(&ids).filter(|(v, _)| v.device().is_none()).map(|(_, &id)| id).collect();
        Bound { ids, device, made }
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        self.made.iter().for_each(|&id| self.device.give_back(Dropped::Node(id)));
    }
}

/// An open scope of this thread; abandoned unless closed.
pub(super) struct Open {
    device: Device,
    scope: u32,
    outer: Option<(Device, u32)>,
    closed: bool,
}

impl Open {
    pub(super) fn enter(device: Device, scope: u32) -> Open {
        Open { device, scope, outer: OPEN.replace(Some((device, scope))), closed: false }
    }

    pub(super) fn close(mut self) {
        self.closed = true;
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        OPEN.set(self.outer);
        if !self.closed {
            self.device.give_back(Dropped::Scope(self.scope));
        }
    }
}

/// A branch's first side while the second is traced; abandoned unless taken.
struct Ended {
    device: Device,
    scope: Option<u32>,
}

impl Ended {
    fn take(mut self) -> u32 {
        self.scope.take().expect("taken once")
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        if let Some(scope) = self.scope {
            self.device.give_back(Dropped::Scope(scope));
        }
    }
}
