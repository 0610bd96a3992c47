//! From roots to a submitted batch of kernels.
//!
//! One critical section writes the canonical form, finds or makes the plan, snapshots what it refers to, and marks what it
//! evaluates; compiling, allocating and submitting happen outside of it; a second one turns the nodes into evaluated ones.
//! See `flight` for what happens to evaluations that meet, and to tracing meanwhile. A batch has its place in its stream
//! before anybody can see its results, so work on them comes later in every order.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use xxhash_rust::xxh3::xxh3_128;

use crate::backend::Arg;
use crate::dtype::DType;
use crate::error::Error;
use crate::ir::ParamKind;
use crate::op::Class;
use crate::plan::{self, Canonical, Memory, Source, Step};
use crate::runtime::batch::{Span, Work};
use crate::runtime::cache::{KernelEntry, Variant};
use crate::runtime::flight::{Flight, Landing};
use crate::runtime::pool::Reuse;
use crate::runtime::stream::Ticket;
use crate::runtime::{CacheOutcome, Device, FloatMode, KernelCache, KernelRecord, Storage, Stream};
use crate::trace::{NodeId, Trace};

/// What planning remembers of a device: plans and kernels by structure, and buffers that are reused. Locked only by who has
/// locked the trace.
pub(crate) struct Planner {
    canonical: Canonical,
    plans: FxHashMap<u128, Vec<Arc<CachedPlan>>>,
    kernels: KernelCache,
}

/// After so many plans the memory of plans and kernels starts anew.
const MAX_PLANS: usize = 4096;

struct CachedPlan {
    words: Vec<u64>,
    steps: Vec<CachedStep>,
    slots: Vec<(DType, u32)>,
    evaluated: Vec<(u32, Memory)>,
}

enum CachedStep {
    Copy { from: Memory, to: Memory },
    Launch { kernel: Arc<KernelEntry>, literals: Vec<u32>, args: Vec<Source>, lanes: Option<u32> },
}

/// What a plan refers to, taken while the trace was locked.
struct Snapshot {
    plan: Arc<CachedPlan>,
    /// The plan's evaluated nodes; the flight retains them.
    evaluated: SmallVec<[NodeId; 4]>,
    leaves: SmallVec<[(u32, Arc<Storage>); 4]>,
    slot_sizes: SmallVec<[u64; 4]>,
    /// For each launch: values of literals, lanes, counts.
    launches: SmallVec<[LaunchData; 1]>,
}

#[derive(Default)]
struct LaunchData {
    literals: Vec<u64>,
    lanes: u64,
    counts: Vec<u64>,
}

/// What planning found.
enum Planned {
    /// There is nothing to do.
    Nothing,
    /// An earlier evaluation is about to change what this one needs.
    Busy(Arc<Landing>),
    Ready(Box<Snapshot>, Flight),
}

/// Launches whatever the roots still need, on a stream. Does not wait for a device.
pub(crate) fn evaluate(device: Device, roots: &[NodeId], stream: &Stream) -> Result<(), Error> {
    let planner = &device.shared().planner;
    let (snapshot, flight) = loop {
        match device.with_trace(|trace| planner.lock().plan(device, trace, roots)) {
            Planned::Nothing => return Ok(()),
            Planned::Busy(earlier) => earlier.wait(),
            Planned::Ready(snapshot, flight) => break (snapshot, flight),
        }
    };
    let (ticket, slots) = snapshot.submit(device, stream)?;
    device.with_trace(|trace| {
        for (&id, &(_, memory)) in snapshot.evaluated.iter().zip(&snapshot.plan.evaluated) {
            trace.set_evaluated(id, Arc::clone(snapshot.storage(&slots, memory)));
        }
    });
    // Others may go on before a small batch runs here.
    drop(flight);
    drop(ticket);
    Ok(())
}

impl Planner {
    /// Empty caches for kernels compiled in that mode.
    pub(crate) fn new(float_mode: FloatMode) -> Planner {
        let (canonical, plans) = (Canonical::default(), FxHashMap::default());
        Planner { canonical, plans, kernels: KernelCache::new(float_mode) }
    }

    /// Number of kernel structures.
    pub(crate) fn kernels(&self) -> usize {
        self.kernels.len()
    }

    fn plan(&mut self, device: Device, trace: &mut Trace, roots: &[NodeId]) -> Planned {
        let roots: SmallVec<[NodeId; 4]> =
            roots.iter().copied().filter(|&r| !trace.node(r).is_evaluated()).collect();
        if roots.is_empty() {
            return Planned::Nothing;
        }
        self.canonical.write(trace, &roots);
        if let Some(earlier) = trace.flight_among(&self.canonical.order) {
            return Planned::Busy(earlier);
        }
        let plan = self.cached_plan(trace, &roots, device.shared().options.fuse);
        let snapshot = Snapshot::new(trace, plan, &self.canonical.order);
        let mut marked: Vec<NodeId> = snapshot.evaluated.to_vec();
        if self.canonical.has_effects() {
            let effect = |id: &NodeId| matches!(trace.node(*id).op.class(), Class::Effect | Class::Region);
            marked.extend(self.canonical.order.iter().copied().filter(effect));
        }
        let flight = trace.take_off(device, marked, self.canonical.has_effects());
        Planned::Ready(Box::new(snapshot), flight)
    }

    fn cached_plan(&mut self, trace: &Trace, roots: &[NodeId], fuse: bool) -> Arc<CachedPlan> {
        let hash = xxh3_128(bytemuck::cast_slice(&self.canonical.words));
        let same_hash = self.plans.get(&hash);
        if let Some(found) = same_hash.and_then(|s| s.iter().find(|p| p.words == self.canonical.words)) {
            return Arc::clone(found);
        }
        if self.plans.len() >= MAX_PLANS {
            self.plans.clear();
            self.kernels.clear();
        }
        let plan = plan::plan(trace, &self.canonical, roots, fuse);
        let mut steps = Vec::new();
        let mut holes = Vec::new();
        for step in plan.steps {
            steps.push(match step {
                Step::Copy { from, to } => CachedStep::Copy { from, to },
                Step::Launch(stage) => {
                    let numbers: FxHashMap<_, _> = stage.literals.iter().copied().collect();
                    let kernel = self.kernels.entry(stage.program, &mut holes);
                    let literals = holes.iter().map(|h| numbers[&h.value]).collect();
                    CachedStep::Launch { kernel, literals, args: stage.args, lanes: stage.lanes }
                }
            });
        }
        let words = self.canonical.words.clone();
        let cached = Arc::new(CachedPlan { words, steps, slots: plan.slots, evaluated: plan.evaluated });
        self.plans.entry(hash).or_default().push(Arc::clone(&cached));
        cached
    }
}

impl Snapshot {
    fn new(trace: &Trace, plan: Arc<CachedPlan>, order: &[NodeId]) -> Snapshot {
        let node = |number: u32| trace.node(order[number as usize]);
        let mut leaves = SmallVec::<[(u32, Arc<Storage>); 4]>::new();
        let mut seen = FxHashMap::default();
        let mut leaf = |memory: Memory| {
            if let Memory::Leaf(number) = memory {
                seen.entry(number).or_insert_with(|| {
                    let storage = trace.storage(order[number as usize]).expect("a leaf is evaluated");
                    leaves.push((number, Arc::clone(storage)));
                });
            }
        };
        let mut launches = SmallVec::new();
        for step in &plan.steps {
            match step {
                CachedStep::Copy { from, to } => [*from, *to].into_iter().for_each(&mut leaf),
                CachedStep::Launch { literals, args, lanes, .. } => {
                    let mut data = LaunchData {
                        literals: literals.iter().map(|&n| node(n).payload).collect(),
                        lanes: lanes.map_or(1, |n| node(n).size),
                        counts: Vec::new(),
                    };
                    for arg in args {
                        match *arg {
                            Source::Memory(memory) => leaf(memory),
                            Source::Count(number) => data.counts.push(node(number).payload),
                        }
                    }
                    launches.push(data);
                }
            }
        }
        plan.evaluated.iter().for_each(|&(_, memory)| leaf(memory));
        leaves.sort_unstable_by_key(|&(number, _)| number);
        let slot_sizes = plan.slots.iter().map(|&(_, number)| node(number).size).collect();
        let evaluated = plan.evaluated.iter().map(|&(n, _)| order[n as usize]).collect();
        Snapshot { plan, evaluated, leaves, slot_sizes, launches }
    }

    fn storage<'a>(&'a self, slots: &'a [Arc<Storage>], memory: Memory) -> &'a Arc<Storage> {
        match memory {
            Memory::Leaf(number) => {
                let at = self.leaves.binary_search_by_key(&number, |&(number, _)| number);
                &self.leaves[at.expect("a leaf of the snapshot")].1
            }
            Memory::Slot(slot) => &slots[slot as usize],
        }
    }

    /// Compiles what is new, allocates, writes down the work, and gives it its place in the stream. Gives the memory of
    /// the plan's slots.
    fn submit(&self, device: Device, stream: &Stream) -> Result<(Ticket, Vec<Arc<Storage>>), Error> {
        let shared = device.shared();
        let backend = &*shared.backend;
        let mut work = Vec::new();
        let slots = self.allocate(device, stream, &mut work)?;
        let storage = |memory: Memory| self.storage(&slots, memory);
        let mut written: SmallVec<[&Arc<Storage>; 4]> = slots.iter().collect();
        let mut records = SmallVec::<[KernelRecord; 1]>::new();
        let mut last = None;
        let mut effort = 0u64;
        let mut launches = self.launches.iter();
        for step in &self.plan.steps {
            match step {
                CachedStep::Copy { from, to } => {
                    let (from, to) = (storage(*from), storage(*to));
                    effort = effort.saturating_add(from.bytes() as u64);
                    work.push(Work::Copy { from: Span::of(from), to: Span::of(to) });
                }
                CachedStep::Launch { kernel: entry, args: sources, .. } => {
                    let data = launches.next().expect("one snapshot a launch");
                    let (variant, mut cache, mut compile_time) = entry.variant(backend, &data.literals)?;
                    let mut counts = data.counts.iter();
                    let mut args = Vec::with_capacity(variant.program.params.len());
                    args.extend(sources.iter().map(|source| match *source {
                        Source::Memory(memory) => storage(memory).arg(),
                        Source::Count(_) => Arg::Scalar(*counts.next().expect("one count a source")),
                    }));
                    variant.push_literals(&data.literals, &mut args);
                    for (param, source) in variant.program.params.iter().zip(sources) {
                        if let (ParamKind::InOut, &Source::Memory(memory @ Memory::Leaf(_))) =
                            (param.kind, source)
                        {
                            written.push(storage(memory));
                        }
                    }
                    let (kernel, again, time) = entry.kernel(backend, &variant, &args, data.lanes)?;
                    if cache == CacheOutcome::Hit {
                        cache = again;
                    }
                    compile_time += time;
                    effort = effort.saturating_add(launch_effort(&variant, data.lanes));
                    records.push(record(
                        device,
                        entry.number,
                        &variant,
                        &args,
                        data.lanes,
                        cache,
                        compile_time,
                    ));
                    last = Some(variant);
                    work.push(Work::Kernel { kernel, args, lanes: data.lanes });
                }
            }
        }
        // No lock is held here: whoever listens may evaluate and read.
        for r in &records {
            tracing::debug!(kernel = r.kernel, lanes = r.lanes, ops = r.ops, cache = ?r.cache, "launch");
        }
        let mut history = shared.history.lock();
        records.into_iter().for_each(|r| history.push(r));
        drop(history);
        if last.is_some() {
            let before = std::mem::replace(&mut *shared.last.lock(), last);
            drop(before);
        }
        let reads: SmallVec<[&Arc<Storage>; 4]> = self
            .leaves
            .iter()
            .map(|(_, leaf)| leaf)
            .filter(|leaf| !written.iter().any(|w| Arc::ptr_eq(w, leaf)))
            .collect();
        let ticket = stream.enqueue(work, &reads, &written, effort <= SMALL);
        drop((reads, written));
        Ok((ticket, slots))
    }

    /// The memory of the plan's slots.
    fn allocate(
        &self,
        device: Device,
        stream: &Stream,
        work: &mut Vec<Work>,
    ) -> Result<Vec<Arc<Storage>>, Error> {
        let known = stream.known();
        let mut slots = Vec::with_capacity(self.plan.slots.len());
        for (&(dtype, _), &size) in self.plan.slots.iter().zip(&self.slot_sizes) {
            let reuse = Reuse::Stream { device: device.number(), known: &known };
            let storage = device.allocate(dtype, size, reuse)?;
            if device.shared().options.poison {
                work.push(Work::Fill(Span::of(&storage), POISON));
            }
            slots.push(Arc::new(storage));
        }
        Ok(slots)
    }
}

/// What new memory is filled with where that is asked for: no plausible value of any type.
const POISON: u8 = 0xc7;

/// Work up to this many instructions times lanes is done by the submitting thread: handing it over costs more.
const SMALL: u64 = 1 << 14;

fn launch_effort(variant: &Variant, lanes: u64) -> u64 {
    if variant.loops { u64::MAX } else { lanes.saturating_mul(variant.ops as u64) }
}

fn record(
    device: Device,
    kernel: u64,
    variant: &Variant,
    args: &[Arg],
    lanes: u64,
    cache: CacheOutcome,
    compile_time: std::time::Duration,
) -> KernelRecord {
    let memories = variant.program.params.iter().zip(args).filter_map(|(param, arg)| match arg {
        Arg::Scalar(_) => None,
        Arg::Memory { len, .. } => Some((param, len * param.dtype.size() as u64)),
    });
    let reads = |kind: ParamKind| matches!(kind, ParamKind::In | ParamKind::InOut);
    let writes = |kind: ParamKind| matches!(kind, ParamKind::Out | ParamKind::InOut);
    KernelRecord {
        kernel,
        backend: device.kind(),
        lanes,
        ops: variant.ops,
        inputs: memories.clone().filter(|(p, _)| reads(p.kind)).count(),
        outputs: memories.clone().filter(|(p, _)| writes(p.kind)).count(),
        bytes: memories.map(|(_, bytes)| bytes).sum(),
        cache,
        compile_time,
    }
}
