//! Traces the closures of loops, branches and switches.
//!
//! The innermost open region is known per thread. A guard abandons it if a closure panics, so that the device stays
//! usable and everything is as it was.

use std::cell::Cell;
use std::panic::Location;

use super::var::{bind_all, or_panic};
use super::{At, Misuse, NodeId, ScopeKind, Trace, Var, evaluated};
use crate::dtype::DType;
use crate::ir::MAX_CASES;
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

/// Panics, at the caller's line, if a region is open on this thread.
///
/// # Panics
/// That is what it is for.
#[track_caller]
pub fn forbid_inside_regions(what: &str) {
    forbid(what);
}

/// Runs a closure as if no region were open on this thread: for what is made of values of the top level alone, and belongs there.
pub fn outside_regions<R>(f: impl FnOnce() -> R) -> R {
    struct Reopen(Option<(Device, u32)>);
    impl Drop for Reopen {
        fn drop(&mut self) {
            OPEN.set(self.0);
        }
    }
    let _reopen = Reopen(OPEN.take());
    f()
}

/// The device of this thread's innermost open region.
pub fn open_device() -> Option<Device> {
    OPEN.get().map(|(device, _)| device)
}

/// A number for the outermost open region of this thread that grows from one region to the next of a device.
pub fn open_serial() -> Option<u64> {
    OPEN.get().map(|(device, scope)| device.with_trace(|t| t.scopes.outermost_serial(scope)))
}

/// Inside a region: the number of the kernel's lane that runs it, as u64.
///
/// # Panics
/// Outside of every region of the device, where lanes have no number of their own.
#[track_caller]
pub fn lane_index(device: Device) -> Var {
    let at = Location::caller();
    let scope = current(device);
    assert!(scope != 0, "the index of a region's lane outside of every region; use a counter");
    Var::made(device, |t| Ok(t.lane_index(scope, at)))
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
    let scope = open_scope(device, outer, ScopeKind::Loop, None, &initial.ids, at);
    let open = Open::enter(device, scope);
    let types: Vec<DType> = state.iter().map(Var::dtype).collect();

    let test = or_panic(condition(&placeholders(device, scope)).map_err(Misuse::new));
    let test = evaluated::at_active_lanes(&test).unwrap_or(test).bind(device);
    or_panic(device.with_trace(|t| {
        let test = t.take_in(test);
        t.end_condition(scope, test)
    }));
    let mut next = Vec::new();
    for value in or_panic(body(placeholders(device, scope)).map_err(Misuse::new)) {
        next.push(evaluated::at_active_lanes(&value).unwrap_or(value).bind(device));
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
    let branch = Branch { device, kind: ScopeKind::Branch, outer, condition, args, at };
    let (first, types) = branch.trace(then, None);
    let (second, _) = branch.trace(otherwise, Some(&types));
    or_panic(device.with_trace(|t| {
        t.same_yielded_locals(&[&first, &second].map(|side| side.scope.expect("a side that ended")))
    }));
    let scopes = [first.take(), second.take()];
    device.with_trace(|t| {
        let results = t.close_region(Op::If, outer, &scopes, Some(condition), args, at);
        handles(t, results)
    })
}

/// A symbolic switch: each closure runs once, on placeholders for the arguments. A lane gets what the closure gives whose
/// number its index is, and zeros if there is none. The index has any integer type.
///
/// # Panics
/// As [`while_loop`]; if there are no closures. The message of a closure that refuses becomes a panic.
#[track_caller]
pub fn checked_switch<'f>(
    device: Device,
    index: &Var,
    arguments: &[Var],
    cases: impl IntoIterator<Item = Case<'f>>,
) -> Vec<Var> {
    let at = Location::caller();
    let outer = enclosing(device, "switch");
    let all: Vec<&Var> = std::iter::once(index).chain(arguments).collect();
    let bound = Bound::new(device, &all, at);
    let (condition, args) = (bound.ids[0], &bound.ids[1..]);
    let branch = Branch { device, kind: ScopeKind::Case, outer, condition, args, at };
    let mut sides: Vec<Ended> = Vec::new();
    let mut types: Option<Vec<DType>> = None;
    for case in cases {
        let (side, given) = branch.trace(case, types.as_deref());
        types.get_or_insert(given);
        sides.push(side);
    }
    let Some(types) = types else { or_panic(Err(Misuse::new("a switch without callables".to_owned()))) };
    if sides.len() > MAX_CASES {
        or_panic::<()>(Err(Misuse::new(format!("a switch of more than {MAX_CASES} callables"))));
    }
    let lens = device.with_trace(|t| t.yielded_locals(sides[0].scope.expect("a side that ended")));
    let zeros = types.iter().zip(lens).map(|(&dtype, len)| match len {
        Some(len) => Var::local_zeros(dtype, len as usize),
        None => Var::literal(dtype, 0),
    });
    let zeros: Vec<Var> = zeros.collect();
    sides.push(branch.trace(|_| Ok(zeros), Some(&types)).0);
    let scopes: Vec<u32> = sides.iter().map(|side| side.scope.expect("a side that ended")).collect();
    or_panic(device.with_trace(|t| t.same_yielded_locals(&scopes)));
    sides.into_iter().for_each(|side| {
        side.take();
    });
    device.with_trace(|t| {
        let results = t.close_region(Op::Switch, outer, &scopes, Some(condition), args, at);
        handles(t, results)
    })
}

/// What a switch does for one number.
pub type Case<'f> = Box<dyn FnOnce(Vec<Var>) -> Result<Vec<Var>, String> + 'f>;

/// What the sides of a branch or switch share.
struct Branch<'a> {
    device: Device,
    kind: ScopeKind,
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
        let Branch { device, kind, outer, condition, args, at } = *self;
        let scope = open_scope(device, outer, kind, Some(condition), args, at);
        let open = Open::enter(device, scope);
        let mut yields = Vec::new();
        for value in or_panic(body(placeholders(device, scope)).map_err(Misuse::new)) {
            yields.push(evaluated::at_active_lanes(&value).unwrap_or(value).bind(device));
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

/// Opens a scope; in an evaluated loop it has as many lanes as are left there.
#[track_caller]
fn open_scope(
    device: Device,
    outer: u32,
    kind: ScopeKind,
    condition: Option<NodeId>,
    arguments: &[NodeId],
    at: At,
) -> u32 {
    let lanes = evaluated::evaluated_lanes(device).map(|(width, _)| width).filter(|&width| width != 1);
    or_panic(device.with_trace(|t| {
        let scope = t.open_scope(outer, kind, condition, arguments, at)?;
        if let Some(width) = lanes
            && let Err(own) = t.scopes.merge_width(scope, width)
        {
            let misuse =
                t.width_mismatch(if kind == ScopeKind::Loop { Op::Loop } else { Op::If }, width, own);
            t.abandon_scope(scope);
            return Err(misuse);
        }
        Ok(scope)
    }))
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
        let seen = evaluated::operands_at_active_lanes(vars);
        if let Some(seen) = &seen {
            let refs: Vec<&Var> = seen.iter().map(|var| &**var).collect();
            let mut bound = Bound::new(device, &refs, at);
            // Those that were made for this hold their nodes no longer than these.
            device.with_trace(|t| bound.ids.iter().for_each(|&id| t.retain(id)));
            bound.made.extend(bound.ids.clone());
            return bound;
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

/// A side of a branch while others are traced; abandoned unless taken.
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
