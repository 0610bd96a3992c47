//! The trace: what has been asked for and not yet computed.
//!
//! A `Trace` is the graph of one device. Its nodes are values: a `scatter` does not change memory, it makes
//! a node for the memory after it ([`Op::Version`]). A *place* (what users call a `Buffer`) names the current
//! version of some memory. Inside a region (loop or branch) a buffer is a `memory` node that is bound to a version when
//! the region closes.
//!
//! - `node`: the 64-byte node; `slab`: storage, hash-consing, counts; `handles`: counts that need no lock.
//! - `scope`: open and closed regions, and where a node belongs.
//! - `simplify`: what is folded while tracing.
//! - `local`: arrays that each lane has for itself.
//! - `evaluated`: loops that run iteration by iteration, on the lanes that are left.
//! - `region`: the closures of loops and branches. `reduction`: reductions, with closures too. `across`: scans, sorting,
//!   compression. `var`, `buffer`: handles.
//! - `fold`: the value of an op on literals. `dump`: the trace as text, `graphviz`: as a picture. `misuse`: what is said about mistakes.

pub(crate) mod across;
mod buffer;
mod dump;
mod eval;
mod evaluated;
mod fold;
mod graphviz;
mod handles;
mod local;
mod misuse;
mod node;
mod reduction;
mod region;
mod scope;
mod simplify;
mod slab;
mod var;

use std::panic::Location;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use slotmap::{Key as _, KeyData, SlotMap, new_key_type};

pub use buffer::BufferVar;
pub use eval::{eval, eval_on, graphviz};
pub(crate) use evaluated::evaluated_name;
pub use evaluated::{ActiveLanes, EvaluatedLoop, LoopMode, evaluated_lanes};
pub(crate) use fold::fold;
pub(crate) use handles::Anchor;
pub(crate) use misuse::Misuse;
pub use node::NodeId;
pub(crate) use node::{IN_FLIGHT, MAX_OPERANDS, Node, ORDERED};
pub use reduction::{Division, Reducing, checked_reduction};
pub use region::{
    Case, checked_if, checked_loop, checked_switch, forbid_inside_regions, if_else, lane_index, open_device,
    open_serial, outside_regions, while_loop,
};
pub(crate) use scope::{Reduces, ScopeKind};
use simplify::may_simplify;
pub(crate) use slab::{Key, Slab};
pub use var::Var;

use crate::dtype::DType;
use crate::float_mode;
use crate::op::{Class, Op};
use crate::runtime::{Flights, Holder, Storage};

new_key_type! {
    /// A place: what a buffer's handles name.
    pub(crate) struct PlaceKey;
    pub(crate) struct StorageKey;
}

/// What a buffer's handles name: the current version of some memory.
pub(crate) struct Place {
    pub(crate) current: NodeId,
    pub(crate) dtype: DType,
    pub(crate) size: u64,
    /// Handles, and slots of open scopes.
    refs: u32,
}

/// The graph of one device.
pub(crate) struct Trace {
    pub(crate) slab: Slab,
    pub(crate) scopes: scope::Scopes,
    places: SlotMap<PlaceKey, Place>,
    storages: SlotMap<StorageKey, Arc<Storage>>,
    /// Storage whose last node is gone; dropped after the lock is given back.
    pub(crate) garbage: Vec<Arc<Storage>>,
    /// The live `version` and `result` nodes of each effect and region, by position.
    parts: FxHashMap<(NodeId, Op, u64), NodeId>,
    /// Names that users gave, for dumps.
    labels: FxHashMap<NodeId, Box<str>>,
    /// Whether to fold, simplify and merge equal nodes; off only where the passes are checked against it.
    simplify: bool,
    /// Whether lanes report indices that lie outside.
    pub(crate) checked: bool,
    /// Whether kernels are launched on a part of their lanes at a time.
    pub(crate) splits: bool,
    /// Evaluations between planning and commit.
    pub(crate) flights: Flights,
    /// Whether one of them overwrites memory. It counts on nobody getting hold of nodes that had no handle, so
    /// simplification then leaves operands of operands alone.
    pub(crate) in_flight: bool,
    stamp: u32,
}

type At = &'static Location<'static>;

impl Trace {
    pub(crate) fn new(simplify: bool, checked: bool, splits: bool) -> Trace {
        Trace {
            slab: Slab::new(),
            scopes: scope::Scopes::new(),
            places: SlotMap::with_key(),
            storages: SlotMap::with_key(),
            garbage: Vec::new(),
            parts: FxHashMap::default(),
            labels: FxHashMap::default(),
            simplify,
            checked,
            splits,
            flights: Flights::default(),
            in_flight: false,
            stamp: 0,
        }
    }

    #[inline]
    pub(crate) fn node(&self, id: NodeId) -> &Node {
        self.slab.get(id)
    }

    /// A stamp that no node carries yet.
    pub(crate) fn new_stamp(&mut self) -> u32 {
        self.stamp = self.stamp.wrapping_add(1);
        self.stamp
    }

    // ---- leaves ----

    pub(crate) fn literal(&mut self, dtype: DType, bits: u64, size: u64, at: At) -> NodeId {
        if size == 1 && self.simplify {
            return self.slab.literal(dtype, bits, at);
        }
        self.pure(&Key::new(Op::Literal, dtype, size, &[], bits), 0, at)
    }

    /// A size-1 literal that was used lately, without a count for the caller.
    #[inline]
    pub(crate) fn recent_literal(&self, dtype: DType, bits: u64) -> Option<NodeId> {
        if self.simplify { self.slab.recent_literal(dtype, bits) } else { None }
    }

    pub(crate) fn counter(&mut self, dtype: DType, size: u64, at: At) -> NodeId {
        if size == 1 {
            // Of one lane; used by many it is still 0 on each.
            return self.literal(dtype, 0, 1, at);
        }
        self.pure(&Key::new(Op::Counter, dtype, size, &[], 0), 0, at)
    }

    /// The kernel's lane, as what each lane of an open region sees.
    fn lane_index(&mut self, scope: u32, at: At) -> NodeId {
        let id = self.slab.insert(&Key::new(Op::Counter, DType::U64, 1, &[], 0), scope, at);
        self.scopes.node_made(scope);
        id
    }

    pub(crate) fn lane_count(&mut self, count: u64, at: At) -> NodeId {
        self.pure(&Key::new(Op::LaneCount, DType::U64, 1, &[], count), 0, at)
    }

    /// An evaluated array over a storage.
    pub(crate) fn data(&mut self, dtype: DType, size: u64, storage: Arc<Storage>, at: At) -> NodeId {
        let key = self.storages.insert(storage);
        self.slab.insert(&Key::new(Op::Data, dtype, size, &[], key.data().as_ffi()), 0, at)
    }

    /// The storage of an evaluated array.
    pub(crate) fn storage(&self, id: NodeId) -> Option<&Arc<Storage>> {
        let node = self.slab.get(id);
        (node.op == Op::Data)
            .then(|| self.storages.get(StorageKey::from(KeyData::from_ffi(node.payload))))
            .flatten()
    }

    /// Number and bytes of all storages.
    pub(crate) fn storage_totals(&self) -> (usize, u64) {
        (self.storages.len(), self.storages.values().map(|s| s.bytes() as u64).sum())
    }

    /// The arrays in memory.
    pub(crate) fn holders(&self) -> Vec<Holder> {
        let data = self.slab.iter().filter(|(_, node)| node.op == Op::Data);
        data.map(|(id, node)| Holder {
            bytes: node.elements() * node.dtype.size() as u64,
            dtype: node.dtype,
            len: node.size,
            label: self.label(id).map(str::to_owned),
            made_at: self.slab.location(id),
        })
        .collect()
    }

    /// Turns a lazy node into an evaluated one: it lets go of its operands.
    pub(crate) fn set_evaluated(&mut self, id: NodeId, storage: Arc<Storage>) {
        self.slab.remove_from_table(id);
        let key = self.storages.insert(storage);
        let node = self.slab.get_mut(id);
        let operands: smallvec::SmallVec<[NodeId; 4]> = node.operands().into();
        if matches!(node.op, Op::Version | Op::Result) {
            self.parts.remove(&(node.operands[0], node.op, node.payload));
        }
        node.op = Op::Data;
        node.operand_count = 0;
        node.operands = [NodeId::NONE; MAX_OPERANDS];
        node.payload = key.data().as_ffi();
        node.flags = node.flags & !ORDERED | node::WATCHED;
        for operand in operands {
            self.release(operand);
        }
    }

    /// Names a node in dumps; the last name counts.
    pub(crate) fn set_label(&mut self, id: NodeId, label: &str) {
        self.slab.get_mut(id).flags |= node::LABELLED | node::WATCHED;
        self.labels.insert(id, label.into());
    }

    pub(crate) fn label(&self, id: NodeId) -> Option<&str> {
        self.labels.get(&id).map(|l| &**l)
    }

    // ---- counts ----

    #[inline]
    pub(crate) fn retain(&mut self, id: NodeId) {
        self.slab.retain(id);
    }

    #[inline]
    pub(crate) fn release(&mut self, id: NodeId) {
        if !self.slab.release_shared(id) {
            self.free(id);
        }
    }

    /// Turns a count of the caller's into a handle.
    #[inline]
    pub(crate) fn hand_out(&mut self, id: NodeId) -> Var {
        let (anchor, dtype) = self.slab.hand_out(id);
        Var::new(anchor, dtype)
    }

    /// Turns a handle into a count, which the caller gets.
    pub(crate) fn take_in(&mut self, var: Var) -> NodeId {
        let anchor = var.into_anchor();
        self.slab.take_in(anchor);
        anchor.id()
    }

    /// Gives a handle back.
    #[inline]
    pub(crate) fn drop_handle(&mut self, anchor: &Anchor) {
        if !self.slab.drop_handle(anchor) {
            self.free(anchor.id());
        }
    }

    /// Frees a node whose last count is given back, and in turn what it held the last count on.
    #[inline(never)]
    fn free(&mut self, id: NodeId) {
        let Trace { slab, scopes, storages, garbage, places, parts, labels, .. } = self;
        let mut watched = |id: NodeId, node: &Node, dying: &mut Vec<NodeId>| {
            if node.flags & node::LABELLED != 0 {
                labels.remove(&id);
            }
            match node.op {
                Op::Data => {
                    let key = StorageKey::from(KeyData::from_ffi(node.payload));
                    garbage.extend(storages.remove(key));
                }
                Op::Loop | Op::If | Op::Switch | Op::Reduce => {
                    scopes.free_region(node.payload, dying, |place| release_place(places, place))
                }
                Op::Version | Op::Result => {
                    parts.remove(&(node.operands[0], node.op, node.payload));
                }
                _ => {}
            }
            if node.scope != 0 {
                scopes.node_freed(node.scope);
            }
        };
        slab.free(id, &mut watched);
    }

    // ---- ops ----

    /// A pure function of its operands, lane by lane.
    #[inline(never)]
    pub(crate) fn lane_op<const N: usize>(
        &mut self,
        current: u32,
        op: Op,
        wanted: DType,
        args: [NodeId; N],
        at: At,
    ) -> Result<NodeId, Misuse> {
        self.lane_op_inline(current, op, wanted, args, at)
    }

    /// [`lane_op`](Self::lane_op) for where most of what is traced comes through. What is rare is called with copies of
    /// the operands, so that they can stay in registers.
    #[inline(always)]
    pub(crate) fn lane_op_inline<const N: usize>(
        &mut self,
        current: u32,
        op: Op,
        wanted: DType,
        args: [NodeId; N],
        at: At,
    ) -> Result<NodeId, Misuse> {
        let first = self.slab.get(args[0]);
        let (ty, mut size, mut scopes) = (first.dtype, first.size, first.scope);
        let (mut same_type, mut local) = (true, first.local);
        let (mut literals, mut known) = first.as_literal();
        for &arg in &args[1..] {
            let node = self.slab.get(arg);
            if node.size != size && node.size != 1 {
                if size != 1 {
                    return Err(self.size_mismatch(op, &{ args }));
                }
                size = node.size;
            }
            same_type &= node.dtype == ty;
            local |= node.local;
            scopes |= node.scope;
            let (literal, bits) = node.as_literal();
            literals += literal;
            known |= bits;
        }
        let dtype = match op.uniform_type(N, ty) {
            Some(dtype) if same_type && local == 0 => dtype,
            _ => self.lane_type(op, wanted, args)?,
        };
        let scope = if scopes == 0 { 0 } else { self.merged_scope(current, op, size, args)? };
        if self.simplify
            && may_simplify(op, ty, &args, literals, known)
            && let Some(known) = self.simplified(op, dtype, size, &{ args }, at)
        {
            return Ok(known);
        }
        let mode = if ty.is_float() { float_mode::carried(op) } else { 0 };
        if scope != 0 || !self.simplify {
            return Ok(self.pure(&Key::new(op, dtype, size, &args, mode), scope, at));
        }
        Ok(self.slab.intern_inline(Key::new(op, dtype, size, &args, mode), 0, at))
    }

    /// Element of `source` at each index, 0 where masked off or out of bounds.
    pub(crate) fn gather(
        &mut self,
        current: u32,
        source: NodeId,
        index: NodeId,
        mask: Option<NodeId>,
        at: At,
    ) -> Result<NodeId, Misuse> {
        self.refuse_locals(Op::Gather, &[source])?;
        let ordered = self.node(source).op == Op::Memory;
        if self.node(source).scope != 0 && !ordered {
            return Err(Misuse::new(format!(
                "gather from a value that each lane of a region computes for itself (made at {}); gather from an array made outside",
                self.made_at(&[source])
            )));
        }
        let mut operands = smallvec::SmallVec::<[NodeId; 4]>::from_slice(&[source, index]);
        if !self.simplify || mask.is_some_and(|m| !self.is_literal_value(m, 1)) {
            operands.extend(mask);
        }
        let (size, mut scope) = self.check_indexed(Op::Gather, current, &[], index, mask)?;
        let dtype = self.node(source).dtype;
        if ordered {
            // It runs on every lane, also if nothing uses it.
            if size != 1 {
                self.scopes
                    .merge_width(current, size)
                    .map_err(|w| self.width_mismatch(Op::Gather, w, size))?;
            }
            scope = current;
        } else if self.simplify && operands.len() == 2 {
            let (source_node, index_node) = (self.node(source), self.node(index));
            if index_node.op == Op::Counter && index_node.size == source_node.size && source_node.size == size
            {
                self.retain(source);
                return Ok(source);
            }
        }
        let key = Key::new(Op::Gather, dtype, size, &operands, 0);
        if !ordered && self.checked && scope != current && self.scopes.runs_lanes(current, size) {
            // Of the lanes that get here alone, even if it is the same on each round: others have nothing to report.
            let id = self.slab.insert(&key, current, at);
            self.scopes.node_made(current);
            return Ok(id);
        }
        if !ordered {
            return Ok(self.pure(&key, scope, at));
        }
        Ok(self.ordered(&key, scope, at))
    }

    /// A scatter or `atomic_inc` on a memory: the effect's node.
    #[expect(clippy::too_many_arguments, reason = "the operands of the op")]
    pub(crate) fn effect(
        &mut self,
        current: u32,
        op: Op,
        target: NodeId,
        values: &[NodeId],
        index: NodeId,
        mask: Option<NodeId>,
        at: At,
    ) -> Result<NodeId, Misuse> {
        let dtype = self.node(target).dtype;
        self.refuse_locals(op, &[target])?;
        self.check_effect(op, dtype, values)?;
        let (size, _) = self.check_indexed(op, current, values, index, mask)?;
        let mut operands = smallvec::SmallVec::<[NodeId; 4]>::new();
        operands.push(target);
        operands.extend_from_slice(values);
        operands.push(index);
        if !self.simplify || mask.is_some_and(|m| !self.is_literal_value(m, 1)) {
            operands.extend(mask);
        }
        let key = Key::new(op, dtype, size, &operands, 0);
        Ok(self.ordered(&key, current, at))
    }

    /// The memory after an effect or a region; the caller gives its count on `effect`.
    pub(crate) fn version(&mut self, effect: NodeId, which: u64, dtype: DType, size: u64, at: At) -> NodeId {
        let version = self.slab.insert(&Key::new(Op::Version, dtype, size, &[effect], which), 0, at);
        self.parts.insert((effect, Op::Version, which), version);
        self.release(effect);
        version
    }

    /// The live `version` or `result` node at that position of an effect or region.
    pub(crate) fn part(&self, of: NodeId, op: Op, which: u64) -> Option<NodeId> {
        self.parts.get(&(of, op, which)).copied()
    }

    /// One element spread over `size` lanes.
    pub(crate) fn spread(&mut self, value: NodeId, size: u64, at: At) -> NodeId {
        let node = self.node(value);
        let (dtype, payload, scope) = (node.dtype, node.payload, node.scope);
        if node.is_literal() {
            return self.literal(dtype, payload, size, at);
        }
        // `select(true, x, x)` with a wide condition; simplification would see through it.
        let condition = self.literal(DType::Bool, 1, size, at);
        let id = self.pure(&Key::new(Op::Select, dtype, size, &[condition, value, value], 0), scope, at);
        self.release(condition);
        id
    }

    // ---- places ----

    /// A new place whose current version is `node`; takes the caller's count on it.
    pub(crate) fn new_place(&mut self, node: NodeId) -> PlaceKey {
        let Node { dtype, size, .. } = *self.node(node);
        self.places.insert(Place { current: node, dtype, size, refs: 1 })
    }

    pub(crate) fn place(&self, key: PlaceKey) -> &Place {
        &self.places[key]
    }

    /// Makes `node` the current version; takes the caller's count on it.
    pub(crate) fn set_current(&mut self, key: PlaceKey, node: NodeId) {
        let old = std::mem::replace(&mut self.places[key].current, node);
        self.release(old);
    }

    pub(crate) fn retain_place(&mut self, key: PlaceKey) {
        self.places[key].refs += 1;
    }

    pub(crate) fn release_place(&mut self, key: PlaceKey) {
        if let Some(current) = release_place(&mut self.places, key) {
            self.release(current);
        }
    }

    // ---- within ----

    /// The result type of an op on operands of different types, or one that it does not take.
    #[inline(never)]
    fn lane_type<const N: usize>(&self, op: Op, wanted: DType, args: [NodeId; N]) -> Result<DType, Misuse> {
        self.refuse_locals(op, &args)?;
        op.result_type(&args.map(|arg| self.node(arg).dtype), wanted)
            .map_err(|message| Misuse::new(format!("{message}: {}", self.list(&args))))
    }

    /// The innermost scope of operands of which some belong to regions; all must be open. Makes it wide enough.
    #[inline(never)]
    fn merged_scope<const N: usize>(
        &mut self,
        current: u32,
        op: Op,
        size: u64,
        args: [NodeId; N],
    ) -> Result<u32, Misuse> {
        let mut scope = 0;
        for arg in args {
            let own = self.node(arg).scope;
            if own != 0 {
                scope = self.scopes.innermost(scope, own, current).ok_or_else(|| self.foreign(op, arg))?;
            }
        }
        if size != 1 {
            self.scopes.merge_width(scope, size).map_err(|w| self.width_mismatch(op, w, size))?;
        }
        Ok(scope)
    }

    /// A node without effects: shared with an equal one.
    fn pure(&mut self, key: &Key, scope: u32, at: At) -> NodeId {
        let live = self.slab.live();
        let id =
            if self.simplify { self.slab.intern(key, scope, at) } else { self.slab.insert(key, scope, at) };
        if scope != 0 && self.slab.live() != live {
            self.scopes.node_made(scope);
        }
        id
    }

    /// A node that runs in order with the other effects of its scope.
    fn ordered(&mut self, key: &Key, scope: u32, at: At) -> NodeId {
        let id = self.slab.insert(key, scope, at);
        self.slab.get_mut(id).flags |= ORDERED;
        if scope != 0 {
            self.scopes.node_made(scope);
            self.retain(id);
            self.scopes.get_mut(scope).sequence.push(id);
        }
        id
    }

    /// Size and scope of an op with a value, an index and a mask.
    fn check_indexed(
        &mut self,
        op: Op,
        current: u32,
        values: &[NodeId],
        index: NodeId,
        mask: Option<NodeId>,
    ) -> Result<(u64, u32), Misuse> {
        check_index_types(op, self.node(index).dtype, mask.map(|m| self.node(m).dtype)).map_err(
            |Misuse(message)| {
                let operands: smallvec::SmallVec<[NodeId; 2]> = [index].into_iter().chain(mask).collect();
                Misuse::new(format!("{message}: {}", self.list(&operands)))
            },
        )?;
        let lanes: smallvec::SmallVec<[NodeId; 4]> =
            values.iter().copied().chain([index]).chain(mask).collect();
        self.refuse_locals(op, &lanes)?;
        let (size, scope) = self.joint_size(op, current, &lanes)?;
        let merged = if op.class() == Class::Effect { current } else { scope };
        if merged != 0 && size != 1 {
            self.scopes.merge_width(merged, size).map_err(|w| self.width_mismatch(op, w, size))?;
        }
        Ok((size, scope))
    }

    /// The size of operands together, and the innermost scope of them.
    fn joint_size(&self, op: Op, current: u32, lanes: &[NodeId]) -> Result<(u64, u32), Misuse> {
        let mut size = 1;
        let mut scope = 0;
        for &arg in lanes {
            let node = self.node(arg);
            if node.size != size && node.size != 1 {
                if size != 1 {
                    return Err(self.size_mismatch(op, lanes));
                }
                size = node.size;
            }
            if node.scope != 0 {
                scope =
                    self.scopes.innermost(scope, node.scope, current).ok_or_else(|| self.foreign(op, arg))?;
            }
        }
        Ok((size, scope))
    }

    fn check_effect(&self, op: Op, target: DType, values: &[NodeId]) -> Result<(), Misuse> {
        for &value in values {
            let dtype = self.node(value).dtype;
            if dtype != target {
                return Err(Misuse::new(format!(
                    "`{}` of {dtype} values into memory of {target}, cast the values: {}",
                    op.name(),
                    self.list(&[value])
                )));
            }
        }
        let fits = match op.combine() {
            None if op == Op::AtomicInc && !target.is_int() => Err("it takes integers".to_owned()),
            None => Ok(target),
            Some(combine) => combine.result_type(&[target, target], target),
        };
        if let Err(why) = fits {
            return Err(Misuse::new(format!("`{}` has no meaning on memory of {target}: {why}", op.name())));
        }
        Ok(())
    }

    /// Whether a node is a literal with these bits.
    pub(crate) fn is_literal_value(&self, id: NodeId, bits: u64) -> bool {
        let node = self.node(id);
        node.is_literal() && node.payload == bits
    }
}

/// What every op with an index takes.
fn check_index_types(op: Op, index: DType, mask: Option<DType>) -> Result<(), Misuse> {
    if !index.is_int() {
        return Err(Misuse::new(format!("`{}` takes an index of an integer type, got {index}", op.name())));
    }
    match mask {
        Some(mask) if mask != DType::Bool => {
            Err(Misuse::new(format!("`{}` takes a mask of bool, got {mask}", op.name())))
        }
        _ => Ok(()),
    }
}

fn release_place(places: &mut SlotMap<PlaceKey, Place>, key: PlaceKey) -> Option<NodeId> {
    let place = &mut places[key];
    place.refs -= 1;
    (place.refs == 0).then(|| places.remove(key).expect("the place is there").current)
}
