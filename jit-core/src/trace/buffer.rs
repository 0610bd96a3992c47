//! Handles of places.

use std::panic::Location;
use std::sync::Arc;

use smallvec::SmallVec;

use super::var::{bind_all, mixed, or_panic, unbind_all};
use super::{Misuse, PlaceKey, Var, evaluated, region};
use crate::dtype::DType;
use crate::op::Op;
use crate::runtime::{Device, Dropped};

/// A place: handles that are clones of each other name the same current version.
#[derive(Clone)]
pub struct BufferVar {
    place: Arc<Held>,
    dtype: DType,
}

/// What the handles of a place share; the last one gives the place back.
struct Held {
    device: Device,
    key: PlaceKey,
}

impl BufferVar {
    /// A place whose current version is this array.
    ///
    /// # Panics
    /// If the array is an unbound literal, or inside a region.
    #[track_caller]
    pub fn new(value: &Var) -> BufferVar {
        region::forbid("making a buffer");
        let device = value.device().expect("a buffer needs a device; bind the literal first");
        let key = or_panic(device.with_trace(|t| {
            t.check_top_level("a buffer", value.id())?;
            if t.node(value.id()).local != 0 {
                return Err(Misuse::new("a buffer of a local array; evaluate its elements".to_owned()));
            }
            t.retain(value.id());
            Ok(t.new_place(value.id()))
        }));
        BufferVar { place: Arc::new(Held { device, key }), dtype: value.dtype() }
    }

    /// A place of zeros. Unlike [`new`](Self::new) also inside a region, to which it does not belong.
    #[track_caller]
    pub fn zeros(device: Device, dtype: DType, size: u64) -> BufferVar {
        let at = Location::caller();
        let key = device.with_trace(|t| {
            let zeros = t.literal(dtype, 0, size, at);
            t.new_place(zeros)
        });
        BufferVar { place: Arc::new(Held { device, key }), dtype }
    }

    /// The current version, after which it is zeros again; nothing that is written meanwhile by others is lost.
    #[track_caller]
    pub fn take(&self) -> Var {
        let at = Location::caller();
        Var::made(self.device(), |t| {
            let (id, size) = (t.place(self.place.key).current, self.size_in(t));
            t.retain(id);
            let zeros = t.literal(self.dtype, 0, size, at);
            t.set_current(self.place.key, zeros);
            Ok(id)
        })
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Number of elements.
    pub fn size(&self) -> u64 {
        self.place.device.with_trace(|t| self.size_in(t))
    }

    /// The device.
    pub fn device(&self) -> Device {
        self.place.device
    }

    /// Whether both are handles of one place.
    pub fn same(&self, other: &BufferVar) -> bool {
        Arc::ptr_eq(&self.place, &other.place)
    }

    /// The current version as a value: later writes do not change it.
    ///
    /// # Panics
    /// Inside a region, where a buffer has no single current version; gather from it instead.
    #[track_caller]
    pub fn value(&self) -> Var {
        if let Some(opened) = region::describe_current() {
            panic!("the value of a buffer inside a {opened}; gather from it instead");
        }
        self.current()
    }

    /// As [`value`](Self::value), for who has made sure that no region is open.
    pub(super) fn current(&self) -> Var {
        Var::made(self.device(), |t| {
            let id = t.place(self.place.key).current;
            t.retain(id);
            Ok(id)
        })
    }

    /// Makes an array of the same type and size the current version.
    ///
    /// # Panics
    /// At the caller's line if type, size or device differ, or inside a region.
    #[track_caller]
    pub fn set(&self, value: &Var) {
        if let Some(opened) = region::describe_current() {
            panic!("setting a buffer inside a {opened}; scatter to it instead");
        }
        let value = value.bind(self.device());
        assert!(value.local_len().is_none(), "setting a buffer to a local array; read its elements");
        let size = self.size();
        assert!(
            value.dtype() == self.dtype,
            "setting a buffer of {} to an array of {}; cast it",
            self.dtype,
            value.dtype()
        );
        let value = if value.size() == size {
            value
        } else if value.size() == 1 {
            let at = Location::caller();
            Var::made(self.device(), |t| Ok(t.spread(value.id(), size, at)))
        } else {
            panic!(
                "setting a buffer of {size} elements to an array of {}; sizes must be equal, or the array's 1",
                value.size()
            );
        };
        or_panic(self.place.device.with_trace(|t| t.check_top_level("setting a buffer", value.id())));
        self.place.device.with_trace(|t| {
            let id = t.take_in(value);
            t.set_current(self.place.key, id);
        });
    }

    /// Elements of the current version at indices. Inside a region: after the lane's own earlier effects.
    ///
    /// # Panics
    /// At the caller's line on misuse.
    #[track_caller]
    pub fn gather(&self, index: &Var, mask: Option<&Var>) -> Var {
        let at = Location::caller();
        let lanes: SmallVec<[&Var; 2]> = [index].into_iter().chain(mask).collect();
        self.same_device("gather", &lanes);
        let current = region::enclosing(self.device(), "gather");
        let made = self.device().with_trace(|t| {
            let ids = bind_all(t, &lanes, at);
            let memory = t.bind(current, self.place.key, false);
            let id = t.gather(current, memory, ids[0], ids.get(1).copied(), at);
            unbind_all(t, &lanes, &ids);
            id.map(|id| t.hand_out(id))
        });
        match made {
            Ok(elements) => elements,
            Err(misuse) => match evaluated::operands_at_active_lanes(&lanes) {
                Some(seen) => self.gather(&seen[0], seen.get(1).map(|mask| &**mask)),
                None => or_panic(Err(misuse)),
            },
        }
    }

    /// A scatter of any kind, once per active lane; the place moves on to the version after it.
    ///
    /// # Panics
    /// At the caller's line on misuse.
    #[track_caller]
    pub fn scatter(&self, op: Op, value: &Var, index: &Var, mask: Option<&Var>) {
        let lanes: SmallVec<[&Var; 3]> = [value, index].into_iter().chain(mask).collect();
        drop(self.effect(op, &lanes, Location::caller()));
    }

    /// Adds 1 to integer elements; gives each active lane the old value.
    ///
    /// # Panics
    /// At the caller's line on misuse.
    #[track_caller]
    pub fn atomic_inc(&self, index: &Var, mask: Option<&Var>) -> Var {
        let lanes: SmallVec<[&Var; 3]> = [index].into_iter().chain(mask).collect();
        self.effect(Op::AtomicInc, &lanes, Location::caller())
    }

    /// Stores elements; gives each active lane the old value, others 0.
    ///
    /// # Panics
    /// At the caller's line on misuse.
    #[track_caller]
    pub fn exchange(&self, value: &Var, index: &Var, mask: Option<&Var>) -> Var {
        let lanes: SmallVec<[&Var; 3]> = [value, index].into_iter().chain(mask).collect();
        self.effect(Op::Exchange, &lanes, Location::caller())
    }

    /// Stores elements where they have the expected bits; gives each active lane the old value, others 0.
    ///
    /// # Panics
    /// At the caller's line on misuse.
    #[track_caller]
    pub fn compare_exchange(&self, expected: &Var, value: &Var, index: &Var, mask: Option<&Var>) -> Var {
        let masked = mask.map(|mask| nowhere_unless(mask, index));
        let index = masked.as_ref().unwrap_or(index);
        self.effect(Op::CompareExchange, &[expected, value, index], Location::caller())
    }

    /// Its number of elements as a u64 value that does not become part of any kernel's structure.
    #[track_caller]
    pub fn lane_count(&self) -> Var {
        let at = Location::caller();
        Var::made(self.device(), |t| {
            let size = t.place(self.place.key).size;
            Ok(t.lane_count(size, at))
        })
    }

    fn size_in(&self, trace: &super::Trace) -> u64 {
        trace.place(self.place.key).size
    }

    #[track_caller]
    fn effect(&self, op: Op, lanes: &[&Var], at: &'static Location<'static>) -> Var {
        self.same_device(op.name(), lanes);
        let current = region::enclosing(self.device(), op.name());
        let has_mask = lanes.len() > op.element_operands() + 1;
        let mut seen = evaluated::operands_of_effect(self.device(), lanes, has_mask);
        if let Some(seen) = &mut seen
            && op == Op::CompareExchange
            && seen.len() > lanes.len()
        {
            let mask = seen.pop().expect("it was added");
            let index = seen.last_mut().expect("an index");
            *index = nowhere_unless(&mask, index);
        }
        let seen: Option<SmallVec<[&Var; 3]>> = seen.as_ref().map(|seen| seen.iter().collect());
        let lanes = seen.as_deref().unwrap_or(lanes);
        Var::made(self.device(), |t| {
            let ids = bind_all(t, lanes, at);
            let target = t.bind(current, self.place.key, true);
            let (values, rest) = ids.split_at(op.element_operands());
            let effect = t.effect(current, op, target, values, rest[0], rest.get(1).copied(), at);
            unbind_all(t, lanes, &ids);
            let effect = effect?;
            if current == 0 {
                let (dtype, size) = (t.place(self.place.key).dtype, t.place(self.place.key).size);
                t.retain(effect);
                let version = t.version(effect, 0, dtype, size, at);
                t.set_current(self.place.key, version);
            }
            Ok(effect)
        })
    }

    #[track_caller]
    fn same_device(&self, op: &'static str, lanes: &[&Var]) {
        if let Some(other) = lanes.iter().filter_map(|v| v.device()).find(|&d| d != self.device()) {
            mixed(op, self.device(), other);
        }
    }
}

/// An index that is out of bounds where the mask is false, for what has no room for a mask: a node has four operands.
#[track_caller]
fn nowhere_unless(mask: &Var, index: &Var) -> Var {
    let dtype = index.dtype();
    assert!(dtype.is_int(), "`compare_exchange` takes an index of an integer type, got {dtype}");
    let index = Var::apply(Op::Cast, DType::I64, &[index]);
    Var::apply(Op::Select, DType::I64, &[mask, &index, &Var::literal(DType::I64, u64::MAX)])
}

impl Drop for Held {
    fn drop(&mut self) {
        self.device.give_back(Dropped::Place(self.key));
    }
}

impl std::fmt::Debug for BufferVar {
    /// Never evaluates.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}[{}] buffer on {}", self.dtype, self.size(), self.device().name())
    }
}
