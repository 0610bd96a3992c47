//! Handles: what the public layer wraps. A [`Var`] is a value, a [`BufferVar`] a place.
//!
//! Functions here panic at their caller's line when the trace is built wrongly, and return a `Result` when they
//! touch the device.

use std::panic::Location;

use smallvec::SmallVec;

use super::{Anchor, Misuse, NodeId, Trace, check_index_types, evaluated, fold, region};
use crate::dtype::DType;
use crate::error::Error;
use crate::ir::{MAX_LOCAL_BYTES, Program};
use crate::op::Op;
use crate::plan::{self, Canonical, Step};
use crate::runtime::{Device, Event, Stream, evaluate, host_bytes};

/// An array, evaluated or not, or a size-1 literal that no device knows yet.
///
/// Two words that travel in registers.
pub struct Var {
    anchor: &'static Anchor,
    /// The literal's bits, or a node's type.
    bits: u64,
}

const _: () = assert!(size_of::<Var>() == 16);

impl Var {
    /// A size-1 literal; it adopts the device of the first array it meets.
    pub fn literal(dtype: DType, bits: u64) -> Var {
        Var { anchor: Anchor::literal(dtype), bits }
    }

    /// An array of `size` equal elements.
    #[track_caller]
    pub fn full(device: Device, dtype: DType, bits: u64, size: u64) -> Var {
        let at = Location::caller();
        Var::made(device, |t| Ok(t.literal(dtype, bits, size, at)))
    }

    /// The array 0, 1, 2, ... of u32 or u64.
    ///
    /// # Panics
    /// For another type, or a u32 counter of more than 2^32 elements.
    #[track_caller]
    pub fn counter(device: Device, dtype: DType, size: u64) -> Var {
        assert!(matches!(dtype, DType::U32 | DType::U64), "a counter is u32 or u64, not {dtype}");
        assert!(dtype == DType::U64 || size <= 1 << 32, "a u32 counter of {size} elements wraps; use u64");
        let at = Location::caller();
        Var::made(device, |t| Ok(t.counter(dtype, size, at)))
    }

    /// Copies elements to the device; `bytes` are in the host's order. Of a bool, any byte but 0 is true.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    ///
    /// # Panics
    /// At the caller's line if there are not as many bytes as the elements take.
    #[track_caller]
    pub fn upload(device: Device, dtype: DType, len: u64, bytes: &[u8]) -> Result<Var, Error> {
        let needed = len.checked_mul(dtype.size() as u64);
        assert!(
            needed == Some(bytes.len() as u64),
            "uploading {dtype}[{len}] takes {} bytes an element, got {} bytes",
            dtype.size(),
            bytes.len()
        );
        device.upload(dtype, len, bytes, Location::caller())
    }

    /// The element type.
    #[inline]
    pub fn dtype(&self) -> DType {
        match self.anchor.device {
            None => self.anchor.dtype(),
            Some(_) => DType::from_index(self.bits as u8),
        }
    }

    /// The device, unless it is an unbound literal.
    #[inline]
    pub fn device(&self) -> Option<Device> {
        self.anchor.device
    }

    /// Number of elements. Inside a region: 1 where the value may be as wide as the region.
    pub fn size(&self) -> u64 {
        self.device().map_or(1, |d| d.with_trace(|t| t.node(self.id()).size))
    }

    /// An array of `len` zeros for each lane, a *local array*; it adopts the device of the first array it meets.
    ///
    /// # Panics
    /// At the caller's line if it takes more than [`MAX_LOCAL_BYTES`].
    #[track_caller]
    pub fn local_zeros(dtype: DType, len: usize) -> Var {
        let bytes = len.checked_mul(dtype.size());
        assert!(
            bytes.is_some_and(|bytes| bytes <= MAX_LOCAL_BYTES),
            "a local array of {len} elements of {dtype} takes {} bytes a lane; at most {MAX_LOCAL_BYTES} are possible",
            bytes.map_or_else(|| "too many".to_owned(), |bytes| bytes.to_string())
        );
        Var { anchor: Anchor::zeros(dtype), bits: len as u64 }
    }

    /// The number of elements a lane, of a local array.
    pub fn local_len(&self) -> Option<u32> {
        match self.device() {
            None => self.anchor.is_local().then_some(self.bits as u32),
            Some(device) => device.with_trace(|t| t.node(self.id()).local_len()),
        }
    }

    /// Its number of elements as a u64 value that does not become part of any kernel's structure.
    #[track_caller]
    pub fn lane_count(&self) -> Var {
        let at = Location::caller();
        match self.device() {
            None => Var::literal(DType::U64, 1),
            Some(device) => Var::made(device, |t| {
                let size = t.node(self.id()).size;
                Ok(t.lane_count(size, at))
            }),
        }
    }

    /// A number on its device as a u64 value that, unlike a literal, is no part of any kernel's structure.
    #[track_caller]
    pub fn number(&self, number: u64) -> Var {
        let at = Location::caller();
        match self.device() {
            None => Var::literal(DType::U64, number),
            Some(device) => Var::made(device, |t| Ok(t.lane_count(number, at))),
        }
    }

    /// Whether its elements are in memory or are a literal.
    pub fn is_evaluated(&self) -> bool {
        self.device().is_none_or(|d| d.with_trace(|t| t.node(self.id()).is_evaluated()))
    }

    /// If it is a literal of size 1: its bits.
    pub fn literal_bits(&self) -> Option<u64> {
        let Some(device) = self.device() else { return (!self.anchor.is_local()).then(|| self.bits()) };
        device.with_trace(|t| {
            let node = t.node(self.id());
            (node.is_literal() && node.size == 1).then_some(node.payload)
        })
    }

    /// A pure op; `wanted` is what casts convert to, and is ignored by other ops.
    ///
    /// # Panics
    /// At the caller's line if types, sizes, devices or regions do not fit.
    #[track_caller]
    #[inline]
    pub fn apply(op: Op, wanted: DType, args: &[&Var]) -> Var {
        match *args {
            [a] => apply_1(op, wanted, a),
            [a, b] => apply_2(op, wanted, a, b),
            [a, b, c] => apply_3(op, wanted, a, b, c),
            _ => panic!("`{}` on {} operands; ops have 1 to 3", op.name(), args.len()),
        }
    }

    /// Becomes the value of a pure op on itself and another: the same as [`apply`](Self::apply), but that the handle of the
    /// old value is given back at once.
    ///
    /// # Panics
    /// As [`apply`](Self::apply), and stays what it was.
    #[track_caller]
    pub fn apply_assign(&mut self, op: Op, wanted: DType, other: &Var) {
        let at = Location::caller();
        debug_assert!(op.is_lane());
        let Some(device) = self.device().filter(|&d| other.device().is_none_or(|o| o == d)) else {
            *self = apply_n(op, wanted, &[self, other]);
            return;
        };
        let current = region::current(device);
        let old = self.anchor;
        let mut t = device.lock_trace();
        let result = apply_locked(&mut t, current, op, wanted, &[self, other], at);
        if result.is_ok() {
            t.drop_handle(old);
        }
        device.unlock_trace(t);
        match result {
            Ok(value) => {
                std::mem::replace(self, value).into_anchor();
            }
            Err(misuse) => *self = at_active_lanes_or_panic(op, wanted, &[self, other], misuse),
        }
    }

    /// Elements at indices; 0 where masked off or out of bounds.
    ///
    /// # Panics
    /// At the caller's line on misuse.
    #[track_caller]
    pub fn gather(&self, index: &Var, mask: Option<&Var>) -> Var {
        let at = Location::caller();
        let all: SmallVec<[&Var; 3]> = [self, index].into_iter().chain(mask).collect();
        let Some(device) = common_device(Op::Gather, &all) else {
            refuse_zeros(Op::Gather, &all);
            or_panic(check_index_types(Op::Gather, index.dtype(), mask.map(Var::dtype)));
            let inside = index.bits() == 0 && mask.is_none_or(|m| m.bits() != 0);
            return Var::literal(self.dtype(), if inside { self.bits() } else { 0 });
        };
        let current = region::current(device);
        let made = device.with_trace(|t| {
            let ids = bind_all(t, &all, at);
            let id = t.gather(current, ids[0], ids[1], ids.get(2).copied(), at);
            unbind_all(t, &all, &ids);
            id.map(|id| t.hand_out(id))
        });
        match made {
            Ok(elements) => elements,
            Err(misuse) => match evaluated::operands_at_active_lanes(&all[1..]) {
                Some(seen) => self.gather(&seen[0], seen.get(1).map(|mask| &**mask)),
                None => panic_with(misuse),
            },
        }
    }

    /// A scatter of any kind: `self` becomes the version after it; other handles keep theirs.
    ///
    /// # Panics
    /// At the caller's line on misuse, or inside a region, where only buffers can be written.
    #[track_caller]
    pub fn scatter(&mut self, op: Op, value: &Var, index: &Var, mask: Option<&Var>) {
        let at = Location::caller();
        let own = &*self;
        let all: SmallVec<[&Var; 4]> = [own, value, index].into_iter().chain(mask).collect();
        let Some(device) = common_device(op, &all) else {
            panic!(
                "`{}` into a literal that has no device; make the array with `Array::full(.., &device)`",
                op.name()
            );
        };
        if let Some(opened) = region::describe_current() {
            panic!("`{}` on an array inside a {opened}; use a `Buffer` there", op.name());
        }
        if evaluated::is_open() {
            panic!("`{}` on an array inside a loop in evaluated mode; use a `Buffer` there", op.name());
        }
        let version = Var::made(device, |t| {
            if own.device().is_some() {
                t.check_top_level(op.name(), own.id())?;
            }
            let ids = bind_all(t, &all, at);
            let effect = t.effect(0, op, ids[0], &ids[1..2], ids[2], ids.get(3).copied(), at);
            let version = effect.map(|e| {
                let (dtype, size) = (t.node(ids[0]).dtype, t.node(ids[0]).size);
                t.version(e, 0, dtype, size, at)
            });
            unbind_all(t, &all, &ids);
            version
        });
        drop(all);
        *self = version;
    }

    /// Waits for this array alone and copies its elements out, in the host's byte order.
    ///
    /// # Errors
    /// Whatever evaluating it runs into.
    ///
    /// # Panics
    /// Inside a region.
    #[track_caller]
    pub fn read(&self) -> Result<Vec<u8>, Error> {
        self.elements(Event::wait)
    }

    /// As [`read`](Self::read), leaving it to others to ask what lanes did wrong.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    ///
    /// # Panics
    /// As [`read`](Self::read).
    #[track_caller]
    pub fn read_untold(&self) -> Result<Vec<u8>, Error> {
        self.elements(Event::wait_untold)
    }

    #[track_caller]
    fn elements(&self, wait: impl FnOnce(&Event) -> Result<(), Error>) -> Result<Vec<u8>, Error> {
        region::forbid("reading an array");
        assert!(self.local_len().is_none(), "reading a local array as a whole; read its elements");
        let Some(device) = self.device() else {
            return literal_bytes(self.dtype(), self.bits(), 1);
        };
        or_panic(device.with_trace(|t| t.check_top_level("reading an array", self.id())));
        evaluate(device, &[self.id()], &Stream::current(device))?;
        let (storage, payload, size) = device.with_trace(|t| {
            let node = t.node(self.id());
            (t.storage(self.id()).cloned(), node.payload, node.size)
        });
        let Some(storage) = storage else {
            return literal_bytes(self.dtype(), payload, size);
        };
        if let Some(written) = storage.written() {
            wait(&written)?;
        }
        storage.bytes_copy()
    }

    /// Whether [`read`](Self::read) may be called.
    ///
    /// # Errors
    /// [`Error::InsideRegion`] where it would panic.
    pub fn check_readable(&self) -> Result<(), Error> {
        let scope = self.device().map(|d| d.with_trace(|t| (t.node(self.id()).scope, d)));
        let own = scope.filter(|&(scope, _)| scope != 0);
        let opened = own.map(|(scope, d)| d.with_trace(|t| t.scopes.opened(scope))).or_else(region::opened);
        match opened {
            None => Ok(()),
            Some((region, at)) => {
                Err(Error::InsideRegion { what: "reading an array", region, opened: at.to_string() })
            }
        }
    }

    /// The event after which its elements are there; complete for literals and for what was never evaluated.
    pub fn event(&self) -> Event {
        let storage = self.device().and_then(|d| d.with_trace(|t| t.storage(self.id()).cloned()));
        storage.and_then(|s| s.written()).unwrap_or_else(Event::complete)
    }

    /// Names it in dumps. Unbound literals have no name.
    pub fn set_label(&self, label: &str) {
        if let Some(device) = self.device() {
            device.with_trace(|t| t.set_label(self.id(), label));
        }
    }

    /// Names the loop or switch that this is a result of in the history of kernels; nothing if it is no result of any.
    pub fn set_region_name(&self, name: &str) {
        if let Some(device) = self.device() {
            device.with_trace(|t| {
                let node = t.node(self.id());
                if node.op == Op::Result {
                    let of = node.operands[0];
                    t.set_label(of, name);
                }
            });
        }
    }

    /// The same elements, as a value that is no other expression of the program.
    #[track_caller]
    pub fn distinct(&self) -> Var {
        let at = Location::caller();
        match self.device() {
            Some(device) if self.local_len().is_none() => {
                Var::made(device, |t| Ok(t.spread(self.id(), t.node(self.id()).size, at)))
            }
            _ => self.clone(),
        }
    }

    /// What is still to be computed for it, as text.
    pub fn trace(&self) -> String {
        match self.device() {
            None => format!("unbound literal {}\n", self.unbound_text()),
            Some(device) => device.with_trace(|t| t.dump(&[self.id()])),
        }
    }

    /// The programs that evaluating it would launch, in order, as they are before the passes. Launches nothing.
    ///
    /// # Panics
    /// If it belongs to a region.
    #[track_caller]
    pub fn programs(&self) -> Vec<Program> {
        let Some(device) = self.device() else { return Vec::new() };
        or_panic(device.with_trace(|t| {
            t.check_top_level("planning", self.id())?;
            if t.node(self.id()).is_evaluated() {
                return Ok(Vec::new());
            }
            let roots = [self.id()];
            let mut canonical = Canonical::default();
            canonical.write(t, &roots);
            let plan = plan::plan(t, &canonical, &roots, device.shared().options.fuse);
            let launched = plan.steps.into_iter().filter_map(|step| match step {
                Step::Copy { .. } | Step::Across { .. } => None,
                Step::Launch(stage) => Some(stage.program),
            });
            Ok(launched.collect())
        }))
    }

    /// The same value on that device: literals are bound to it.
    ///
    /// # Panics
    /// If it lives on another device.
    #[track_caller]
    pub fn bind(&self, device: Device) -> Var {
        match self.device() {
            Some(own) if own == device => self.clone(),
            Some(own) => panic!("an array of device {} where one of {} is needed", own.name(), device.name()),
            None => {
                let at = Location::caller();
                Var::made(device, |t| Ok(bind_new(t, self, at)))
            }
        }
    }

    /// Whether both are the same node (the same literal, if unbound).
    pub fn same(&self, other: &Var) -> bool {
        std::ptr::eq(self.anchor, other.anchor) && self.bits == other.bits
    }

    /// A handle of the node that `make` gives a count of.
    ///
    /// # Panics
    /// With its message, after the trace is unlocked.
    #[track_caller]
    pub(super) fn made(device: Device, make: impl FnOnce(&mut Trace) -> Result<NodeId, Misuse>) -> Var {
        or_panic(device.with_trace(|t| make(t).map(|id| t.hand_out(id))))
    }

    /// A handle that has been handed out.
    #[inline]
    pub(super) fn new(anchor: &'static Anchor, dtype: DType) -> Var {
        Var { anchor, bits: dtype as u64 }
    }

    /// What it points to; the handle now is the caller's.
    #[inline]
    pub(super) fn into_anchor(self) -> &'static Anchor {
        let anchor = self.anchor;
        std::mem::forget(self);
        anchor
    }

    /// What it is without a device.
    fn unbound_text(&self) -> String {
        match self.anchor.is_local() {
            true => format!("local array of {} zeros", self.bits),
            false => crate::dtype::format_bits(self.dtype(), self.bits()),
        }
    }

    /// Of a literal without a device: its bits.
    pub(super) fn bits(&self) -> u64 {
        debug_assert!(self.anchor.device.is_none());
        self.bits
    }

    #[inline]
    pub(crate) fn id(&self) -> NodeId {
        self.anchor.id()
    }
}

impl Clone for Var {
    #[inline]
    fn clone(&self) -> Var {
        if self.anchor.device.is_some() {
            self.anchor.others.share();
        }
        Var { anchor: self.anchor, bits: self.bits }
    }
}

impl Drop for Var {
    #[inline]
    fn drop(&mut self) {
        if let Some(device) = self.anchor.device
            && !self.anchor.others.give_back()
        {
            device.drop_last(self.anchor);
        }
    }
}

impl std::fmt::Debug for Var {
    /// Never evaluates.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Some(device) = self.device() else {
            return write!(f, "{}[1] literal {}", self.dtype(), self.unbound_text());
        };
        let (op, size, literal) = device.with_trace(|t| {
            let node = t.node(self.id());
            (node.op, node.size, node.is_literal().then_some(node.payload))
        });
        let literal =
            literal.map_or_else(String::new, |b| format!(" {}", crate::dtype::format_bits(self.dtype(), b)));
        let state = if matches!(op, Op::Data | Op::Literal) { "" } else { "lazy " };
        write!(f, "{}[{size}] {state}{}{literal} on {}", self.dtype(), op.name(), device.name())
    }
}

// One function for each number of operands, so that loops over them unroll.

#[track_caller]
fn apply_1(op: Op, wanted: DType, a: &Var) -> Var {
    apply_n(op, wanted, &[a])
}

#[track_caller]
fn apply_2(op: Op, wanted: DType, a: &Var, b: &Var) -> Var {
    apply_n(op, wanted, &[a, b])
}

#[track_caller]
fn apply_3(op: Op, wanted: DType, a: &Var, b: &Var, c: &Var) -> Var {
    apply_n(op, wanted, &[a, b, c])
}

#[track_caller]
#[inline(always)]
fn apply_n<const N: usize>(op: Op, wanted: DType, args: &[&Var; N]) -> Var {
    let at = Location::caller();
    debug_assert!(op.is_lane());
    let Some(device) = common_device(op, args) else {
        return unbound(op, wanted, args);
    };
    let current = region::current(device);
    // No closures: all of it is to become one function.
    let mut t = device.lock_trace();
    let result = apply_locked(&mut t, current, op, wanted, args, at);
    device.unlock_trace(t);
    match result {
        Ok(value) => value,
        Err(misuse) => at_active_lanes_or_panic(op, wanted, args, misuse),
    }
}

/// An op on operands that do not fit, unless they do as the lanes of an evaluated loop see them.
#[track_caller]
#[cold]
fn at_active_lanes_or_panic(op: Op, wanted: DType, args: &[&Var], misuse: Misuse) -> Var {
    match evaluated::operands_at_active_lanes(args) {
        Some(seen) => Var::apply(op, wanted, &seen.iter().map(|arg| &**arg).collect::<SmallVec<[&Var; 3]>>()),
        None => panic_with(misuse),
    }
}

/// Makes the node of an op; the caller gets a handle.
#[inline(always)]
fn apply_locked<const N: usize>(
    t: &mut Trace,
    current: u32,
    op: Op,
    wanted: DType,
    args: &[&Var; N],
    at: &'static Location<'static>,
) -> Result<Var, Misuse> {
    let id = match recent_nodes(t, args) {
        Some(ids) => t.lane_op_inline(current, op, wanted, ids, at)?,
        None => apply_new_literals(t, current, op, wanted, args, at)?,
    };
    Ok(t.hand_out(id))
}

/// The nodes of operands, if those that are unbound were used lately; nothing is counted.
#[inline(always)]
fn recent_nodes<const N: usize>(t: &Trace, args: &[&Var; N]) -> Option<[NodeId; N]> {
    let mut ids = [NodeId::NONE; N];
    for (id, arg) in ids.iter_mut().zip(args) {
        *id = match arg.anchor.device {
            Some(_) => arg.id(),
            None if arg.anchor.is_local() => return None,
            None => t.recent_literal(arg.anchor.dtype(), arg.bits)?,
        };
    }
    Some(ids)
}

#[inline(never)]
fn apply_new_literals<const N: usize>(
    t: &mut Trace,
    current: u32,
    op: Op,
    wanted: DType,
    args: &[&Var; N],
    at: &'static Location<'static>,
) -> Result<NodeId, Misuse> {
    let ids = bind_all(t, args, at);
    let id = t.lane_op(current, op, wanted, std::array::from_fn::<_, N, _>(|i| ids[i]), at);
    unbind_all(t, args, &ids);
    id
}

#[cold]
#[track_caller]
pub(super) fn unbound(op: Op, wanted: DType, args: &[&Var]) -> Var {
    refuse_zeros(op, args);
    let types: SmallVec<[DType; 3]> = args.iter().map(|a| a.dtype()).collect();
    let bits: SmallVec<[u64; 3]> = args.iter().map(|a| a.bits()).collect();
    let dtype = or_panic(op.result_type(&types, wanted).map_err(Misuse::new));
    Var::literal(dtype, fold(op, *types.last().expect("operands"), dtype, &bits))
}

/// That none of these literals is a local array.
#[track_caller]
pub(super) fn refuse_zeros(op: Op, args: &[&Var]) {
    let local = args.iter().any(|arg| arg.device().is_none() && arg.anchor.is_local());
    assert!(!local, "`{}` of a local array; read its elements", op.name());
}

fn literal_bytes(dtype: DType, bits: u64, size: u64) -> Result<Vec<u8>, Error> {
    let bytes = bits.to_ne_bytes();
    let one = if cfg!(target_endian = "big") { &bytes[8 - dtype.size()..] } else { &bytes[..dtype.size()] };
    let mut all = host_bytes(size.saturating_mul(one.len() as u64))?;
    (0..size).for_each(|_| all.extend_from_slice(one));
    Ok(all)
}

/// The device of the bound ones.
#[track_caller]
#[inline]
fn common_device(op: Op, args: &[&Var]) -> Option<Device> {
    let mut device = None;
    for arg in args {
        match (device, arg.device()) {
            (None, own) => device = own,
            (Some(first), Some(own)) if first != own => mixed(op.name(), first, own),
            _ => {}
        }
    }
    device
}

#[track_caller]
#[cold]
pub(super) fn mixed(op: &'static str, first: Device, second: Device) -> ! {
    let (first, second) = (first.name(), second.name());
    panic!("{}", Error::MixedDevices { op, first, second })
}

#[track_caller]
#[inline]
pub(super) fn or_panic<T>(result: Result<T, Misuse>) -> T {
    match result {
        Ok(value) => value,
        Err(misuse) => panic_with(misuse),
    }
}

#[track_caller]
#[cold]
fn panic_with(Misuse(message): Misuse) -> ! {
    panic!("{message}")
}

/// The nodes of operands: unbound ones become literals, with a count until [`unbind_all`].
pub(super) fn bind_all(
    t: &mut Trace,
    args: &[&Var],
    at: &'static Location<'static>,
) -> SmallVec<[NodeId; 4]> {
    args.iter().map(|a| if a.device().is_some() { a.id() } else { bind_new(t, a, at) }).collect()
}

/// The node of what no device knows yet; the caller gets a count on it.
fn bind_new(t: &mut Trace, var: &Var, at: &'static Location<'static>) -> NodeId {
    match var.anchor.is_local() {
        true => t.local_zeros(var.dtype(), var.bits as u32, at),
        false => t.literal(var.dtype(), var.bits(), 1, at),
    }
}

pub(super) fn unbind_all(t: &mut Trace, args: &[&Var], ids: &[NodeId]) {
    for (arg, &id) in args.iter().zip(ids) {
        if arg.device().is_none() {
            t.release(id);
        }
    }
}
