//! Reductions: of all lanes, of blocks, rows or columns; by an op, or by a closure that combines two states.

use std::panic::Location;

use super::region::{Bound, Open, current, enclosing, handles, placeholders};
use super::scope::{Reduces, Region, Scope};
use super::var::{or_panic, refuse_zeros, unbound};
use super::{At, Key, Misuse, Node, NodeId, ScopeKind, Trace, Var};
use crate::dtype::DType;
use crate::ir::Segments;
use crate::op::{Class, Op, scalar};
use crate::reduce;
use crate::runtime::Device;

/// Which lanes a reduction combines into one result.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Division {
    segments: Segments,
    length: u64,
}

impl Division {
    /// All lanes.
    pub const ALL: Division = Division { segments: Segments::All, length: 0 };

    /// Blocks of `length` lanes that follow each other; the last may be shorter.
    pub const fn rows(length: u64) -> Division {
        Division { segments: Segments::Rows, length }
    }

    /// The columns of a row-major matrix with rows of `length` lanes.
    pub const fn columns(length: u64) -> Division {
        Division { segments: Segments::Columns, length }
    }

    /// How segments lie.
    pub const fn segments(self) -> Segments {
        self.segments
    }

    /// The length of blocks or rows; 0 for all lanes.
    pub const fn length(self) -> u64 {
        self.length
    }

    /// How many results there are for so many lanes.
    pub const fn count(self, lanes: u64) -> u64 {
        self.segments.count(lanes, self.length)
    }

    /// The division of so many lanes with the same segments that says it most simply.
    fn of(self, lanes: u64) -> Division {
        match self.segments {
            Segments::Rows if 0 < lanes && lanes <= self.length => Division::ALL,
            Segments::Columns if self.length == 1 => Division::ALL,
            _ => self,
        }
    }

    /// A number that no other division has.
    pub(crate) const fn word(self) -> u64 {
        self.length << 2 | self.segments as u64
    }

    pub(crate) fn from_word(word: u64) -> Division {
        Division { segments: Segments::ALL[(word & 3) as usize], length: word >> 2 }
    }

    fn check(self, what: &str, lanes: u64) -> Result<(), Misuse> {
        let Division { segments, length } = self;
        let rule = match segments {
            Segments::All => return Ok(()),
            _ if length == 0 => "blocks, rows and columns have at least one element".to_owned(),
            _ if length >= 1 << 62 => format!("a length of {length} is out of range"),
            Segments::Columns if !lanes.is_multiple_of(length) => {
                format!("{lanes} elements are no rows of {length}")
            }
            _ => return Ok(()),
        };
        Err(Misuse::new(format!("`{what}` by {} of {length}: {rule}", segments.name())))
    }
}

impl Trace {
    /// A reduction by an op.
    pub(crate) fn reduce(
        &mut self,
        current: u32,
        op: Op,
        arg: NodeId,
        division: Division,
        at: At,
    ) -> Result<NodeId, Misuse> {
        let Node { dtype, size, .. } = *self.node(arg);
        self.refuse_locals(op, &[arg])?;
        self.check_reduced(op.name(), arg)?;
        division.check(op.name(), size)?;
        if dtype == DType::F16 && matches!(op, Op::ReduceSum | Op::ReduceProd) {
            return self.reduce_in_f32(current, op, arg, division, at);
        }
        let result = op
            .result_type(&[dtype], dtype)
            .map_err(|message| Misuse::new(format!("{message}: {}", self.list(&[arg]))))?;
        let combine = op.combine().expect("a reduction combines");
        let division = division.of(size);
        let count = division.count(size);
        if size == 0 && division != Division::ALL {
            return Ok(self.literal(result, reduce::of_none(combine, dtype), count, at));
        }
        if count == size && self.simplify {
            // The identity still takes part: `min` of one NaN is +infinity, as for a longer array of NaN.
            if dtype.is_float() && matches!(op, Op::ReduceMin | Op::ReduceMax) {
                let identity = self.literal(dtype, scalar::identity(combine, dtype), 1, at);
                let value = self.lane_op(0, combine, dtype, [identity, arg], at);
                self.release(identity);
                return value;
            }
            self.retain(arg);
            return Ok(arg);
        }
        Ok(self.pure(&Key::new(op, result, count, &[arg], division.word()), 0, at))
    }

    /// A sum or product of f16 accumulates in f32 and is rounded once, at the end.
    fn reduce_in_f32(
        &mut self,
        current: u32,
        op: Op,
        arg: NodeId,
        division: Division,
        at: At,
    ) -> Result<NodeId, Misuse> {
        let wide = self.lane_op(current, Op::Cast, DType::F32, [arg], at)?;
        let reduced = self.reduce(current, op, wide, division, at);
        self.release(wide);
        let reduced = reduced?;
        let result = self.lane_op(current, Op::Cast, DType::F16, [reduced], at);
        self.release(reduced);
        result
    }

    fn check_reduced(&self, what: &str, arg: NodeId) -> Result<(), Misuse> {
        let scope = self.node(arg).scope;
        if scope == 0 {
            return Ok(());
        }
        let opened = self.scopes.describe(scope);
        Err(Misuse::new(format!(
            "`{what}` combines lanes, but its operand belongs to a lane of a {opened}; reduce outside of the region"
        )))
    }

    /// Opens the scope of a closure that combines two states of these types.
    fn open_combine(&mut self, types: &[DType], at: At) -> u32 {
        let scope = self.scopes.open(Scope::new(0, ScopeKind::Combine, 1, 1, at));
        for (i, &dtype) in types.iter().chain(types).enumerate() {
            let node = self.slab.insert(&Key::new(Op::Placeholder, dtype, 1, &[], i as u64), scope, at);
            self.scopes.node_made(scope);
            self.scopes.get_mut(scope).placeholders.push(node);
        }
        scope
    }

    /// Number of lanes of a reduction of these states from these identities.
    fn check_states(
        &self,
        reducing: &Reducing<'_>,
        states: &[NodeId],
        identity: &[NodeId],
    ) -> Result<u64, Misuse> {
        let name = reducing.name;
        if states.is_empty() {
            return Err(Misuse::new(format!("`{name}` of no arrays")));
        }
        self.refuse_locals(Op::Reduce, states)?;
        self.refuse_locals(Op::Reduce, identity)?;
        let mut lanes = 1;
        for &state in states {
            self.check_reduced(name, state)?;
            let size = self.node(state).size;
            if size != lanes && size != 1 {
                if lanes != 1 {
                    return Err(self.size_mismatch(Op::Reduce, states));
                }
                lanes = size;
            }
        }
        for (&state, &one) in states.iter().zip(identity) {
            self.check_reduced(name, one)?;
            let (wanted, got) = (self.node(state).dtype, self.node(one).dtype);
            if wanted != got || self.node(one).size != 1 {
                return Err(Misuse::new(format!(
                    "`{name}`: the identity of a state of {wanted} is one {wanted}, got {got}[{}]: {}",
                    self.node(one).size,
                    self.list(&[state, one])
                )));
            }
        }
        if states.len() != identity.len() {
            return Err(Misuse::new(format!(
                "`{name}`: a state of {} arrays, but an identity of {}",
                states.len(),
                identity.len()
            )));
        }
        reducing.division.check(name, lanes)?;
        Ok(lanes)
    }

    /// Whether an ended scope only computes, from what is the same on all lanes.
    fn check_combine(&mut self, name: &str, scope: u32) -> Result<(), Misuse> {
        let pure =
            "the closure that combines two states may only compute: no buffers, gathers, loops or branches";
        if self.scopes.touches_memory(scope) {
            return Err(Misuse::new(format!("`{name}`: {pure}")));
        }
        let stamp = self.new_stamp();
        let mut stack = self.scopes.get(scope).yields.clone();
        while let Some(id) = stack.pop() {
            let node = self.slab.get_mut(id);
            if std::mem::replace(&mut node.stamp, stamp) == stamp {
                continue;
            }
            let Node { op, size, scope: own, .. } = *node;
            if size != 1 {
                return Err(Misuse::new(format!(
                    "`{name}`: the closure that combines two states may capture arrays of size 1 only: {}",
                    self.list(&[id])
                )));
            }
            if own != scope {
                continue;
            }
            if !op.is_lane() && op != Op::Placeholder {
                return Err(Misuse::new(format!("`{name}`: {pure}: {}", self.list(&[id]))));
            }
            stack.extend(self.node(id).operands());
        }
        Ok(())
    }

    /// Makes the node of a reduction from an ended scope, which it takes over. Gives its results, with a count on each.
    fn close_reduction(
        &mut self,
        scope: u32,
        states: &[NodeId],
        identity: &[NodeId],
        reduces: Reduces,
        at: At,
    ) -> Vec<NodeId> {
        let mut operands: Vec<NodeId> = states.iter().chain(identity).copied().collect();
        let arguments = operands.len();
        self.captures(&[scope], &mut operands);
        operands.iter().for_each(|&operand| self.retain(operand));
        let types: Vec<DType> = states.iter().map(|&s| self.node(s).dtype).collect();
        let region = Region {
            scopes: [scope].into_iter().collect(),
            operands,
            arguments,
            memories: Vec::new(),
            results: types.len(),
            reduces: Some(reduces),
        };
        let record = self.scopes.add_region(region);
        let count = reduces.division.count(reduces.lanes);
        let node = self.slab.insert(&Key::new(Op::Reduce, DType::Bool, count, &[], record), 0, at);
        let result = |(i, &dtype): (usize, &DType)| {
            let key = Key::new(Op::Result, dtype, count, &[node], i as u64);
            let id = self.slab.insert(&key, 0, at);
            self.parts.insert((node, Op::Result, i as u64), id);
            id
        };
        let results = types.iter().enumerate().map(result).collect();
        self.release(node);
        results
    }

    /// The number of lanes and the division of a reduction.
    pub(crate) fn reduces(&self, node: &Node) -> Option<(u64, Division)> {
        match node.op {
            Op::Reduce => {
                let Reduces { lanes, division, .. } = self.scopes.region(node.payload).reduces?;
                Some((lanes, division))
            }
            op if op.class() == Class::Reduce => {
                Some((self.node(node.operands[0]).size, Division::from_word(node.payload)))
            }
            _ => None,
        }
    }
}

impl Var {
    /// A reduction of all elements to one.
    ///
    /// # Panics
    /// At the caller's line if the type does not fit or the array belongs to an open region.
    #[track_caller]
    pub fn reduce(&self, op: Op) -> Var {
        self.reduce_by(op, Division::ALL)
    }

    /// A reduction of each segment of a division.
    ///
    /// # Panics
    /// As [`reduce`](Self::reduce); and if a length is 0, or the elements are not whole rows of which there are columns.
    #[track_caller]
    pub fn reduce_by(&self, op: Op, division: Division) -> Var {
        let at = Location::caller();
        let combine = op.combine().filter(|_| op.class() == Class::Reduce);
        let combine = combine.unwrap_or_else(|| panic!("`{}` is no reduction by an op", op.name()));
        super::evaluated::forbid_own(op.name(), &[self]);
        let Some(device) = self.device() else {
            refuse_zeros(op, &[self]);
            or_panic(op.result_type(&[self.dtype()], self.dtype()).map_err(Misuse::new));
            or_panic(division.check(op.name(), 1));
            if self.dtype().is_float() && matches!(op, Op::ReduceMin | Op::ReduceMax) {
                let identity = scalar::identity(combine, self.dtype());
                return unbound(combine, self.dtype(), &[&Var::literal(self.dtype(), identity), self]);
            }
            return self.clone();
        };
        let current = current(device);
        Var::made(device, |t| t.reduce(current, op, self.id(), division, at))
    }
}

/// What a reduction by a closure is, besides its operands.
#[derive(Clone, Copy, Debug)]
pub struct Reducing<'a> {
    /// For messages.
    pub name: &'a str,
    /// What lanes it combines.
    pub division: Division,
    /// There is no value for no elements: evaluating it is an error, which has this name.
    pub partial: Option<&'static str>,
}

/// A reduction of states by a closure that combines two of them. The closure runs once, on placeholders; its message, if
/// it refuses, becomes a panic at the caller's line.
///
/// # Panics
/// At the caller's line if types or sizes do not fit, an operand belongs to an open region, or the closure does something
/// else than compute. A panic of the closure goes through, with the device as it was.
#[track_caller]
pub fn checked_reduction(
    device: Device,
    reducing: &Reducing<'_>,
    states: &[Var],
    identity: &[Var],
    combine: impl FnOnce(&[Var], &[Var]) -> Result<Vec<Var>, String>,
) -> Vec<Var> {
    let at = Location::caller();
    enclosing(device, "reduce");
    let refs: Vec<&Var> = states.iter().chain(identity).collect();
    super::evaluated::forbid_own(reducing.name, &refs);
    let bound = Bound::new(device, &refs, at);
    let (own, ones) = bound.ids.split_at(states.len());
    let types: Vec<DType> = states.iter().map(Var::dtype).collect();
    let (lanes, scope) = or_panic(device.with_trace(|t| {
        let lanes = t.check_states(reducing, own, ones)?;
        Ok((lanes, t.open_combine(&types, at)))
    }));
    let open = Open::enter(device, scope);
    let two = placeholders(device, scope);
    let combined = or_panic(combine(&two[..types.len()], &two[types.len()..]).map_err(Misuse::new));
    drop(two);
    let mut yields = Vec::new();
    for value in combined {
        yields.push(value.bind(device));
    }
    or_panic(device.with_trace(|t| {
        let yields: Vec<NodeId> = yields.into_iter().map(|var| t.take_in(var)).collect();
        t.end_scope(scope, yields, &types)?;
        t.check_combine(reducing.name, scope)
    }));
    open.close();
    let Reducing { division, partial, .. } = *reducing;
    let reduces = Reduces { lanes, division: division.of(lanes), partial };
    device.with_trace(|t| {
        let results = t.close_reduction(scope, own, ones, reduces, at);
        handles(t, results)
    })
}
