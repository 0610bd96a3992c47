//! Arrays that each lane has for itself. They are values: a write makes a node for the array as it is afterwards.
//!
//! Inside a region reads and writes stand in its sequence, so that kernels have them in program order: where an array is
//! read before it is changed, nothing needs a copy.

use std::panic::Location;

use smallvec::SmallVec;

use super::region::{lane_index, while_loop};
use super::var::{bind_all, mixed, or_panic, unbind_all};
use super::{
    At, BufferVar, Key, Misuse, Node, NodeId, ScopeKind, Trace, Var, check_index_types, evaluated, region,
};
use crate::dtype::DType;
use crate::op::Op;
use crate::runtime::Device;

impl Var {
    /// The elements of a local array at indices; 0 where masked off or out of bounds. `device` is that of the
    /// operands, and where it happens if none has one.
    ///
    /// # Panics
    /// At the caller's line on misuse.
    #[track_caller]
    pub fn local_read(&self, index: &Var, mask: Option<&Var>, device: Device) -> Var {
        let operands: SmallVec<[&Var; 4]> = [self, index].into_iter().chain(mask).collect();
        local_op(Op::LocalRead, &operands, device, Location::caller())
    }

    /// A local array with one element of each lane changed; the same where masked off or out of bounds.
    ///
    /// # Panics
    /// At the caller's line on misuse.
    #[track_caller]
    pub fn local_write(&self, value: &Var, index: &Var, mask: Option<&Var>, device: Device) -> Var {
        let operands: SmallVec<[&Var; 4]> = [self, value, index].into_iter().chain(mask).collect();
        local_op(Op::LocalWrite, &operands, device, Location::caller())
    }
}

/// Copies of local arrays, element by element. Not for regions.
impl Var {
    /// The elements of a local array as an array of all of them, where those of a lane stand together.
    pub fn flattened(&self, device: Device) -> Var {
        let len = self.local_len().expect("a local array");
        let flat = BufferVar::zeros(device, self.dtype(), self.size() * u64::from(len));
        for_each_element(device, len, None, |element, _| {
            let at = position(&lane_index(device), len, element);
            flat.scatter(Op::Scatter, &self.local_read(element, None, device), &at, None);
            None
        });
        flat.value()
    }

    /// The local array of `len` elements whose lanes are those at such positions of an array as
    /// [`flattened`](Self::flattened) gives it.
    pub fn unflattened(&self, device: Device, len: u32, lanes: &Var) -> Var {
        let zeros = Var::local_zeros(self.dtype(), len as usize);
        let lanes = Var::apply(Op::Cast, DType::U64, &[lanes]);
        for_each_element(device, len, Some(zeros), |element, local| {
            let value = self.gather(&position(&lanes, len, element), None);
            local.map(|local| local.local_write(&value, element, None, device))
        })
        .expect("the array that was given")
    }
}

/// Where an element of a lane stands among those of all.
fn position(lane: &Var, len: u32, element: &Var) -> Var {
    Var::apply(Op::MulAdd, DType::U64, &[lane, &Var::literal(DType::U64, u64::from(len)), element])
}

/// A loop over the numbers below `len`, with a local array as its state or none; gives its last state.
fn for_each_element(
    device: Device,
    len: u32,
    array: Option<Var>,
    body: impl FnOnce(&Var, Option<&Var>) -> Option<Var>,
) -> Option<Var> {
    let number = |n: u64| Var::literal(DType::U64, n);
    let state: Vec<Var> = [number(0)].into_iter().chain(array).collect();
    let last = while_loop(
        device,
        &state,
        |state| Var::apply(Op::Lt, DType::Bool, &[&state[0], &number(u64::from(len))]),
        |state| {
            let array = body(&state[0], state.get(1));
            [Var::apply(Op::Add, DType::U64, &[&state[0], &number(1)])].into_iter().chain(array).collect()
        },
    );
    last.into_iter().nth(1)
}

#[track_caller]
fn local_op(op: Op, operands: &[&Var], device: Device, at: At) -> Var {
    if let Some(other) = operands.iter().filter_map(|var| var.device()).find(|&d| d != device) {
        mixed(op.name(), device, other);
    }
    let current = region::enclosing(device, op.name());
    let made = device.with_trace(|t| {
        let ids = bind_all(t, operands, at);
        let id = t.local_op(current, op, &ids, at);
        unbind_all(t, operands, &ids);
        id.map(|id| t.hand_out(id))
    });
    match made {
        Ok(var) => var,
        Err(misuse) => match evaluated::operands_at_active_lanes(operands) {
            Some(seen) => {
                let seen: SmallVec<[&Var; 4]> = seen.iter().map(|operand| &**operand).collect();
                local_op(op, &seen, device, at)
            }
            None => or_panic(Err(misuse)),
        },
    }
}

impl Trace {
    /// An array of zeros for each lane.
    pub(super) fn local_zeros(&mut self, dtype: DType, len: u32, at: At) -> NodeId {
        let id = self.pure(&Key::new(Op::LocalZeros, dtype, 1, &[], u64::from(len)), 0, at);
        self.slab.get_mut(id).local = len + 1;
        id
    }

    /// A read of, or a write to, a local array, with its operands in the order of the op table.
    fn local_op(&mut self, current: u32, op: Op, operands: &[NodeId], at: At) -> Result<NodeId, Misuse> {
        let Node { dtype, local, .. } = *self.node(operands[0]);
        if local == 0 {
            return Err(Misuse::new(format!(
                "`{}` takes a local array, got {}",
                op.name(),
                self.list(&operands[..1])
            )));
        }
        self.refuse_locals(op, &operands[1..])?;
        let (value, rest) = match op {
            Op::LocalWrite => (Some(operands[1]), &operands[2..]),
            _ => (None, &operands[1..]),
        };
        let (index, mask) = (rest[0], rest.get(1).copied());
        let typed = check_index_types(op, self.node(index).dtype, mask.map(|m| self.node(m).dtype));
        typed.map_err(|Misuse(message)| Misuse::new(format!("{message}: {}", self.list(rest))))?;
        if let Some(value) = value.filter(|&value| self.node(value).dtype != dtype) {
            return Err(Misuse::new(format!(
                "`{}` of {} values into a local array of {dtype}, cast the values: {}",
                op.name(),
                self.node(value).dtype,
                self.list(&[value])
            )));
        }
        let (size, _) = self.joint_size(op, current, operands)?;
        if current != 0 && size != 1 {
            self.scopes.merge_width(current, size).map_err(|w| self.width_mismatch(op, w, size))?;
        }
        let kept = match mask {
            Some(mask) if self.simplify && self.is_literal_value(mask, 1) => &operands[..operands.len() - 1],
            _ => operands,
        };
        let key = Key::new(op, dtype, size, kept, 0);
        let id = if current == 0 { self.pure(&key, 0, at) } else { self.ordered(&key, current, at) };
        if op == Op::LocalWrite {
            self.slab.get_mut(id).local = local;
        }
        Ok(id)
    }

    /// That no operand is a local array, where those have no meaning.
    pub(super) fn refuse_locals(&self, op: Op, args: &[NodeId]) -> Result<(), Misuse> {
        if args.iter().all(|&arg| self.node(arg).local == 0) {
            return Ok(());
        }
        Err(Misuse::new(format!("`{}` of a local array; read its elements: {}", op.name(), self.list(args))))
    }

    /// That lists of nodes of equal types also agree in which are local arrays, and of how many elements.
    pub(super) fn same_locals(&self, what: &str, expected: &[NodeId], got: &[NodeId]) -> Result<(), Misuse> {
        let len = |id: NodeId| self.node(id).local_len();
        let Some((&one, &other)) = expected.iter().zip(got).find(|&(&a, &b)| len(a) != len(b)) else {
            return Ok(());
        };
        let name = |id: NodeId| match len(id) {
            Some(len) => format!("a local array of {len} elements"),
            None => "an array".to_owned(),
        };
        Err(Misuse::new(format!(
            "{what} local arrays: {} (made at {}) stands where {} is expected",
            name(other),
            self.made_at(&[other]),
            name(one)
        )))
    }

    /// For each value that a scope yields the number of elements a lane, of a local array.
    pub(super) fn yielded_locals(&self, scope: u32) -> Vec<Option<u32>> {
        self.scopes.get(scope).yields.iter().map(|&id| self.node(id).local_len()).collect()
    }

    /// [`same_locals`](Self::same_locals) of what all sides of a branch or switch yield.
    pub(super) fn same_yielded_locals(&self, sides: &[u32]) -> Result<(), Misuse> {
        let first = &*self.scopes.get(sides[0]).yields;
        let what = match self.scopes.get(sides[0]).kind {
            ScopeKind::Case => "all callables of a switch must return the same",
            _ => "both sides of a branch must return the same",
        };
        sides[1..].iter().try_for_each(|&side| self.same_locals(what, first, &self.scopes.get(side).yields))
    }
}
