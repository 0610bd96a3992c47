//! From roots to a submitted batch of kernels.
//!
//! One critical section writes the canonical form, finds or makes the plan and snapshots what it refers to; compiling
//! and allocating happen outside of it; a second one turns the nodes into evaluated ones. The nodes that the plan
//! evaluates are retained in between, so a concurrent drop cannot free them; and tracing reaches no operands of
//! operands meanwhile, so that nobody gets hold of memory that the plan overwrites.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::xxh3_128;

use crate::backend::Arg;
use crate::dtype::DType;
use crate::error::Error;
use crate::ir::{ParamKind, Program};
use crate::plan::{self, Canonical, Memory, Source, Step};
use crate::runtime::cache::{KernelEntry, Variant};
use crate::runtime::lane::{Batch, Work};
use crate::runtime::{CacheOutcome, Device, Event, FloatMode, KernelCache, KernelRecord, Storage};
use crate::trace::{NodeId, Trace};

/// The planning state of a device: caches and buffers that are reused.
pub(crate) struct Evaluator {
    canonical: Canonical,
    plans: FxHashMap<u128, Vec<Arc<CachedPlan>>>,
    kernels: KernelCache,
    last: Option<Arc<Variant>>,
    /// Compilations since the caches were emptied.
    compiled: usize,
}

/// After so many compilations the caches start anew: kernels hold executable memory, of which a process has a limited
/// number of pieces.
const MAX_KERNELS: usize = 2048;

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
    /// The plan's evaluated nodes, retained.
    evaluated: Vec<NodeId>,
    leaves: FxHashMap<u32, Arc<Storage>>,
    slot_sizes: Vec<u64>,
    /// For each launch: values of literals, lanes, counts.
    launches: Vec<LaunchData>,
}

#[derive(Default)]
struct LaunchData {
    literals: Vec<u64>,
    lanes: u64,
    counts: Vec<u64>,
}

/// Launches whatever the roots still need. Does not wait.
pub(crate) fn evaluate(device: Device, roots: &[NodeId]) -> Result<(), Error> {
    let shared = device.shared();
    let mut evaluator = shared.evaluator.lock();
    let evaluator = &mut *evaluator;
    let fuse = shared.options.fuse;
    let Some(snapshot) = device.with_trace(|trace| evaluator.snapshot(trace, roots, fuse)) else {
        return Ok(());
    };
    let in_flight = InFlight { device, evaluated: &snapshot.evaluated };
    let done = Event::pending();
    let (batch, small, slots, written) = evaluator.prepare(device, &snapshot, &done)?;
    for storage in written {
        *storage.written.lock() = done.clone();
    }
    device.with_trace(|trace| {
        for (&id, &(_, memory)) in snapshot.evaluated.iter().zip(&snapshot.plan.evaluated) {
            let storage = match memory {
                Memory::Leaf(number) => &snapshot.leaves[&number],
                Memory::Slot(slot) => &slots[slot as usize],
            };
            trace.set_evaluated(id, Arc::clone(storage));
        }
    });
    drop(in_flight);
    // Under the evaluator's lock, so that the lane's order is the order of planning.
    shared.lane.submit(batch, small);
    Ok(())
}

/// A plan between its snapshot and its end, whether that is its commit, an error, or a panic of the backend.
struct InFlight<'a> {
    device: Device,
    evaluated: &'a [NodeId],
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.device.with_trace(|trace| {
            trace.in_flight = false;
            self.evaluated.iter().for_each(|&id| trace.release(id));
        });
    }
}

type Prepared = (Batch, bool, Vec<Arc<Storage>>, Vec<Arc<Storage>>);

impl Evaluator {
    /// Empty caches for kernels compiled in that mode.
    pub(crate) fn new(float_mode: FloatMode) -> Evaluator {
        let (canonical, plans) = (Canonical::default(), FxHashMap::default());
        Evaluator { canonical, plans, kernels: KernelCache::new(float_mode), last: None, compiled: 0 }
    }

    /// The program of the last kernel launched.
    pub(crate) fn last_program(&self) -> Option<Program> {
        self.last.as_ref().map(|v| v.program.clone())
    }

    /// Number of kernel structures.
    pub(crate) fn kernels(&self) -> usize {
        self.kernels.len()
    }

    fn snapshot(&mut self, trace: &mut Trace, roots: &[NodeId], fuse: bool) -> Option<Snapshot> {
        let roots: Vec<NodeId> = roots.iter().copied().filter(|&r| !trace.node(r).is_evaluated()).collect();
        if roots.is_empty() {
            return None;
        }
        if self.compiled >= MAX_KERNELS {
            self.compiled = 0;
            self.plans.clear();
            self.kernels.clear();
        }
        self.canonical.write(trace, &roots);
        let plan = self.plan(trace, &roots, fuse);
        let order = &self.canonical.order;
        let node = |number: u32| trace.node(order[number as usize]);
        let mut leaves = FxHashMap::default();
        let mut leaf = |memory: Memory| {
            if let Memory::Leaf(number) = memory {
                leaves.entry(number).or_insert_with(|| {
                    Arc::clone(trace.storage(order[number as usize]).expect("a leaf is evaluated"))
                });
            }
        };
        let mut launches = Vec::new();
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
        let slot_sizes = plan.slots.iter().map(|&(_, number)| node(number).size).collect();
        let evaluated: Vec<NodeId> = plan.evaluated.iter().map(|&(n, _)| order[n as usize]).collect();
        evaluated.iter().for_each(|&id| trace.retain(id));
        trace.in_flight = self.canonical.has_effects();
        Some(Snapshot { plan, evaluated, leaves, slot_sizes, launches })
    }

    fn plan(&mut self, trace: &Trace, roots: &[NodeId], fuse: bool) -> Arc<CachedPlan> {
        let hash = xxh3_128(bytemuck::cast_slice(&self.canonical.words));
        let same_hash = self.plans.entry(hash).or_default();
        if let Some(found) = same_hash.iter().find(|p| p.words == self.canonical.words) {
            return Arc::clone(found);
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
        same_hash.push(Arc::clone(&cached));
        cached
    }

    /// Compiles what is new, allocates, and writes down the work.
    fn prepare(&mut self, device: Device, snapshot: &Snapshot, done: &Event) -> Result<Prepared, Error> {
        let shared = device.shared();
        let backend = &*shared.backend;
        let mut slots = Vec::new();
        for (&(dtype, _), &size) in snapshot.plan.slots.iter().zip(&snapshot.slot_sizes) {
            let storage = Storage::new(backend, &shared.pool, dtype, size, done.clone())?;
            if shared.options.poison {
                storage.poison();
            }
            slots.push(Arc::new(storage));
        }
        let storage = |memory: Memory| match memory {
            Memory::Leaf(number) => &snapshot.leaves[&number],
            Memory::Slot(slot) => &slots[slot as usize],
        };
        let mut work = Vec::new();
        let mut written = Vec::new();
        let mut records = Vec::new();
        let mut effort = 0u64;
        let mut launches = snapshot.launches.iter();
        for step in &snapshot.plan.steps {
            match step {
                CachedStep::Copy { from, to } => {
                    effort = effort.saturating_add(storage(*from).bytes() as u64);
                    work.push(Work::Copy { from: Arc::clone(storage(*from)), to: Arc::clone(storage(*to)) });
                }
                CachedStep::Launch { kernel: entry, args: sources, .. } => {
                    let data = launches.next().expect("one snapshot a launch");
                    let (variant, mut cache, mut compile_time) = entry.variant(backend, &data.literals)?;
                    let mut counts = data.counts.iter();
                    let mut args: Vec<Arg> = sources
                        .iter()
                        .map(|source| match *source {
                            Source::Memory(memory) => storage(memory).arg(),
                            Source::Count(_) => Arg::Scalar(*counts.next().expect("one count a source")),
                        })
                        .collect();
                    variant.push_literals(&data.literals, &mut args);
                    for (param, source) in variant.program.params.iter().zip(sources) {
                        if let (ParamKind::InOut, &Source::Memory(memory @ Memory::Leaf(_))) =
                            (param.kind, source)
                        {
                            written.push(Arc::clone(storage(memory)));
                        }
                    }
                    let (kernel, again, time) = entry.kernel(backend, &variant, &args, data.lanes)?;
                    if cache == CacheOutcome::Hit {
                        cache = again;
                    }
                    compile_time += time;
                    effort = effort.saturating_add(launch_effort(&variant.program, data.lanes));
                    records.push(record(
                        device,
                        entry.number,
                        &variant.program,
                        &args,
                        data.lanes,
                        cache,
                        compile_time,
                    ));
                    self.last = Some(variant);
                    work.push(Work::Kernel { kernel, args, lanes: data.lanes });
                }
            }
        }
        self.compiled += records.iter().filter(|r| r.cache != CacheOutcome::Hit).count();
        let mut history = shared.history.lock();
        records.into_iter().for_each(|r| history.push(r));
        drop(history);
        let keep: Vec<Arc<Storage>> =
            snapshot.leaves.values().cloned().chain(slots.iter().cloned()).collect();
        let after = keep
            .iter()
            .map(|s| s.written.lock().clone())
            .filter(|e| !matches!(e.is_complete(), Ok(true)) && !e.same(done))
            .collect();
        let batch = Batch { work, keep, after, done: done.clone() };
        Ok((batch, effort <= SMALL, slots, written))
    }
}

/// Work up to this many instructions times lanes is done by the submitting thread: handing it over costs more.
const SMALL: u64 = 1 << 14;

fn launch_effort(program: &Program, lanes: u64) -> u64 {
    let mut loops = false;
    program.for_each_inst(&mut |inst| loops |= inst.op == crate::op::Op::Loop);
    if loops { u64::MAX } else { lanes.saturating_mul(program.inst_count() as u64) }
}

fn record(
    device: Device,
    kernel: u64,
    program: &Program,
    args: &[Arg],
    lanes: u64,
    cache: CacheOutcome,
    compile_time: std::time::Duration,
) -> KernelRecord {
    let memories = program.params.iter().zip(args).filter_map(|(param, arg)| match arg {
        Arg::Scalar(_) => None,
        Arg::Memory { len, .. } => Some((param, len * param.dtype.size() as u64)),
    });
    let reads = |kind: ParamKind| matches!(kind, ParamKind::In | ParamKind::InOut);
    let writes = |kind: ParamKind| matches!(kind, ParamKind::Out | ParamKind::InOut);
    KernelRecord {
        kernel,
        backend: device.kind(),
        lanes,
        ops: program.inst_count(),
        inputs: memories.clone().filter(|(p, _)| reads(p.kind)).count(),
        outputs: memories.clone().filter(|(p, _)| writes(p.kind)).count(),
        bytes: memories.map(|(_, bytes)| bytes).sum(),
        cache,
        compile_time,
    }
}
