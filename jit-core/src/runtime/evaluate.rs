//! From roots to a submitted batch of kernels.
//!
//! One critical section writes the canonical form, finds or makes the plan and snapshots what it refers to; compiling
//! and allocating happen outside of it; a second one turns the nodes into evaluated ones. The nodes that the plan
//! evaluates are retained in between, so a concurrent drop cannot free them; and tracing reaches no operands of
//! operands meanwhile, so that nobody gets hold of memory that the plan overwrites.

use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::backend::Arg;
use crate::dtype::DType;
use crate::error::Error;
use crate::ir::{Outline, ParamKind};
use crate::plan::{self, Canonical, Memory, Source, Step};
use crate::runtime::cache::{KernelEntry, MAX_LOADED, Variant};
use crate::runtime::compiler::{Loaded, PreparedKernel};
use crate::runtime::lane::{Batch, Work};
use crate::runtime::structures::Structures;
use crate::runtime::{CacheOutcome, Device, Event, KernelCache, KernelRecord, Storage};
use crate::trace::{NodeId, Trace};

/// The planning state of a device: caches and buffers that are reused.
#[derive(Default)]
pub(crate) struct Evaluator {
    canonical: Canonical,
    plans: Structures<CachedPlan>,
    kernels: KernelCache,
    last: Option<LastKernel>,
}

type LastKernel = (Arc<KernelEntry>, Arc<Variant>);

/// How many words of canonical forms are kept: 32 MiB.
const MAX_WORDS: usize = 1 << 22;

struct CachedPlan {
    steps: Vec<CachedStep>,
    slots: Vec<(DType, u32)>,
    evaluated: Vec<(u32, Memory)>,
}

enum CachedStep {
    Copy { from: Memory, to: Memory },
    Launch { kernel: Arc<KernelEntry>, literals: Vec<u32>, args: Vec<Source>, lanes: Option<u32> },
}

/// What goes to make room.
#[expect(dead_code, reason = "held only to be dropped")]
enum Unloaded {
    Structure(Arc<KernelEntry>),
    Kernel(Arc<Loaded>),
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
    let result = evaluate_and_collect(device, roots, &mut Vec::new());
    device.shared().compiler.report_trouble();
    result
}

/// `unloaded` gets code that is no longer needed, for the caller to drop when no lock is held.
fn evaluate_and_collect(device: Device, roots: &[NodeId], unloaded: &mut Vec<Unloaded>) -> Result<(), Error> {
    let shared = device.shared();
    let mut evaluator = shared.evaluator.lock();
    let evaluator = &mut *evaluator;
    evaluator.make_room(shared.compiler.loaded(), unloaded);
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
    /// The last kernel launched.
    pub(crate) fn last_kernel(&self) -> Option<LastKernel> {
        self.last.clone()
    }

    /// Number of kernel structures.
    pub(crate) fn kernels(&self) -> usize {
        self.kernels.len()
    }

    /// Forgets plans, structures and code while there is too much of them.
    fn make_room(&mut self, loaded: usize, unloaded: &mut Vec<Unloaded>) {
        drop(self.plans.evict(MAX_WORDS));
        if self.kernels.is_over_full() {
            // Plans hold structures.
            drop(self.plans.evict(self.plans.weight() / 2));
            unloaded.extend(self.kernels.evict_structures().into_iter().map(Unloaded::Structure));
        }
        unloaded.extend(self.kernels.unload(loaded, MAX_LOADED).into_iter().map(Unloaded::Kernel));
    }

    fn snapshot(&mut self, trace: &mut Trace, roots: &[NodeId], fuse: bool) -> Option<Snapshot> {
        let roots: Vec<NodeId> = roots.iter().copied().filter(|&r| !trace.node(r).is_evaluated()).collect();
        if roots.is_empty() {
            return None;
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
        let Evaluator { canonical, plans, kernels, .. } = self;
        plans.get_or_insert_with(&canonical.words, |_| {
            let plan = plan::plan(trace, canonical, roots, fuse);
            let mut steps = Vec::new();
            let mut holes = Vec::new();
            for step in plan.steps {
                steps.push(match step {
                    Step::Copy { from, to } => CachedStep::Copy { from, to },
                    Step::Launch(stage) => {
                        let numbers: FxHashMap<_, _> = stage.literals.iter().copied().collect();
                        let kernel = kernels.entry(stage.program, &mut holes);
                        let literals = holes.iter().map(|h| numbers[&h.value]).collect();
                        CachedStep::Launch { kernel, literals, args: stage.args, lanes: stage.lanes }
                    }
                });
            }
            CachedPlan { steps, slots: plan.slots, evaluated: plan.evaluated }
        })
    }

    /// Compiles what is new, allocates, and writes down the work.
    fn prepare(&mut self, device: Device, snapshot: &Snapshot, done: &Event) -> Result<Prepared, Error> {
        let shared = device.shared();
        let backend = &*shared.backend;
        let entries = snapshot.plan.steps.iter().filter_map(|step| match step {
            CachedStep::Launch { kernel, .. } => Some(&**kernel),
            CachedStep::Copy { .. } => None,
        });
        let wanted: Vec<_> =
            entries.zip(&snapshot.launches).map(|(entry, data)| (entry, &*data.literals)).collect();
        let mut kernels = shared.compiler.prepare(&wanted).into_iter();
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
                    let mut prepared = kernels.next().expect("one kernel a launch")?;
                    let mut counts = data.counts.iter();
                    let mut args: Vec<Arg> = sources
                        .iter()
                        .map(|source| match *source {
                            Source::Memory(memory) => storage(memory).arg(),
                            Source::Count(_) => Arg::Scalar(*counts.next().expect("one count a source")),
                        })
                        .collect();
                    prepared.variant.push_literals(&data.literals, &mut args);
                    shared.compiler.check_lengths(entry, &mut prepared, &args, data.lanes)?;
                    let PreparedKernel { variant, loaded, cache, time } = prepared;
                    let outline = &loaded.outline;
                    for (param, source) in outline.params.iter().zip(sources) {
                        if let (ParamKind::InOut, &Source::Memory(memory @ Memory::Leaf(_))) =
                            (param.kind, source)
                        {
                            written.push(Arc::clone(storage(memory)));
                        }
                    }
                    effort = effort.saturating_add(launch_effort(outline, data.lanes));
                    records.push(record(device, entry.number, outline, &args, data.lanes, cache, time));
                    self.last = Some((Arc::clone(entry), variant));
                    let kernel = Arc::clone(&loaded.kernel);
                    work.push(Work::Kernel { kernel, args, lanes: data.lanes });
                }
            }
        }
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

fn launch_effort(outline: &Outline, lanes: u64) -> u64 {
    if outline.has_loop { u64::MAX } else { lanes.saturating_mul(outline.instructions) }
}

fn record(
    device: Device,
    kernel: u64,
    outline: &Outline,
    args: &[Arg],
    lanes: u64,
    cache: CacheOutcome,
    compile_time: Duration,
) -> KernelRecord {
    let memories = outline.params.iter().zip(args).filter_map(|(param, arg)| match arg {
        Arg::Scalar(_) => None,
        Arg::Memory { len, .. } => Some((param, len * param.dtype.size() as u64)),
    });
    let reads = |kind: ParamKind| matches!(kind, ParamKind::In | ParamKind::InOut);
    let writes = |kind: ParamKind| matches!(kind, ParamKind::Out | ParamKind::InOut);
    KernelRecord {
        kernel,
        backend: device.kind(),
        lanes,
        ops: outline.instructions as usize,
        inputs: memories.clone().filter(|(p, _)| reads(p.kind)).count(),
        outputs: memories.clone().filter(|(p, _)| writes(p.kind)).count(),
        bytes: memories.map(|(_, bytes)| bytes).sum(),
        cache,
        compile_time,
    }
}
