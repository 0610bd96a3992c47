//! From roots to a submitted batch of kernels.
//!
//! One critical section writes the canonical form, finds or makes the plan, snapshots what it refers to, and marks what it
//! evaluates; compiling, allocating and submitting happen outside of it; a second one turns the nodes into evaluated ones.
//! See `flight` for what happens to evaluations that meet, and to tracing meanwhile. A batch has its place in its stream
//! before anybody can see its results, so work on them comes later in every order.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::backend::Arg;
use crate::builtin::Builtin;
use crate::dtype::DType;
use crate::error::Error;
use crate::ir::{Hole, Outline, ParamKind};
use crate::op::Class;
use crate::plan::{self, Canonical, Constant, Memory, Source, Step};
use crate::runtime::batch::{Span, Work};
use crate::runtime::cache::{KernelEntry, MAX_LOADED};
use crate::runtime::compiler::PreparedKernel;
use crate::runtime::flight::{Flight, Landing};
use crate::runtime::history::Run;
use crate::runtime::parts::Part;
use crate::runtime::pool::Reuse;
use crate::runtime::reports::{Inspection, Site};
use crate::runtime::stream::Ticket;
use crate::runtime::structures::Structures;
use crate::runtime::{CacheOutcome, Device, KernelCache, KernelRecord, Storage, Stream};
use crate::trace::{self, LoopMode, NodeId, Trace};

/// What planning remembers of a device: plans and kernels by structure, and buffers that are reused. Locked by who has
/// locked the trace, or briefly by who locks nothing else.
#[derive(Default)]
pub(crate) struct Planner {
    canonical: Canonical,
    plans: Structures<CachedPlan>,
    kernels: KernelCache,
}

/// How many words of canonical forms are kept: 32 MiB.
const MAX_WORDS: usize = 1 << 22;

struct CachedPlan {
    steps: Vec<CachedStep>,
    slots: Vec<(DType, u32)>,
    evaluated: Vec<(u32, Memory)>,
    sites: Vec<u32>,
}

enum CachedStep {
    Copy {
        from: Memory,
        to: Memory,
    },
    Launch {
        kernel: Arc<KernelEntry>,
        literals: Vec<Constant>,
        args: Vec<Source>,
        by_lane: Vec<bool>,
        lanes: Option<u32>,
        segment: Option<u32>,
        named: Vec<u32>,
    },
    Across {
        number: u32,
        operand: u32,
        from: Memory,
        to: Memory,
    },
}

/// What a plan refers to, taken while the trace was locked.
struct Snapshot {
    plan: Arc<CachedPlan>,
    /// The plan was made for this evaluation.
    is_new: bool,
    /// The plan's evaluated nodes; the flight retains them.
    evaluated: SmallVec<[NodeId; 4]>,
    leaves: SmallVec<[(u32, Arc<Storage>); 4]>,
    slot_sizes: SmallVec<[u64; 4]>,
    /// For each launch: values of literals, lanes, counts.
    launches: SmallVec<[LaunchData; 1]>,
    /// The accesses whose indices are tested.
    sites: Vec<Site>,
    /// For each launch of a builtin: which, and the number that it gets.
    across: SmallVec<[(Builtin, u64); 1]>,
}

#[derive(Default)]
struct LaunchData {
    literals: Vec<u64>,
    lanes: u64,
    segment: u64,
    counts: Vec<u64>,
    name: Option<Arc<str>>,
}

/// What planning found.
enum Planned {
    /// There is nothing to do.
    Nothing,
    /// An earlier evaluation is about to change what this one needs.
    Busy(Arc<Landing>),
    /// A reduction of that name has no elements, and no value for that.
    WithoutValue(&'static str),
    Ready(Box<Snapshot>, Flight),
}

/// Launches whatever the roots still need, on a stream. Does not wait for a device.
pub(crate) fn evaluate(device: Device, roots: &[NodeId], stream: &Stream) -> Result<(), Error> {
    let result = launch(device, roots, stream);
    let shared = device.shared();
    if shared.compiler.loaded() > MAX_LOADED {
        let unloaded = shared.planner.lock().kernels.unload(shared.compiler.loaded(), MAX_LOADED);
        drop(unloaded);
    }
    shared.compiler.report_trouble();
    result
}

fn launch(device: Device, roots: &[NodeId], stream: &Stream) -> Result<(), Error> {
    let planner = &device.shared().planner;
    let (mut snapshot, flight) = loop {
        match device.with_trace(|trace| planner.lock().plan(device, trace, roots)) {
            Planned::Nothing => return Ok(()),
            Planned::Busy(earlier) => earlier.wait(),
            Planned::WithoutValue(op) => return Err(Error::EmptyReduction { op }),
            Planned::Ready(snapshot, flight) => break (snapshot, flight),
        }
    };
    let (ticket, slots, records) = snapshot.submit(device, stream)?;
    // Cloned only for who listens.
    let logged = if tracing::enabled!(tracing::Level::DEBUG) { records.clone() } else { SmallVec::new() };
    let mut history = device.shared().history.lock();
    records.into_iter().for_each(|r| history.push(r));
    drop(history);
    device.with_trace(|trace| {
        for (&id, &(_, memory)) in snapshot.evaluated.iter().zip(&snapshot.plan.evaluated) {
            trace.set_evaluated(id, Arc::clone(snapshot.storage(&slots, memory)));
        }
    });
    // Others may go on before a small batch runs here.
    drop(flight);
    drop(ticket);
    // Whoever listens may evaluate and read, also what was evaluated here.
    for r in &logged {
        tracing::debug!(kernel = r.kernel, lanes = r.lanes, ops = r.ops, cache = ?r.cache, "launch");
    }
    if snapshot.is_new {
        let plans = planner.lock().forget_plans();
        drop(plans);
        let structures = planner.lock().kernels.evict_structures();
        drop(structures);
    }
    Ok(())
}

type Records = SmallVec<[KernelRecord; 1]>;
type Submitted = (Ticket, Vec<Arc<Storage>>, Records);

impl Planner {
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
        if let Some(op) = self.canonical.without_value(trace) {
            return Planned::WithoutValue(op);
        }
        let plans = self.plans.len();
        let plan = self.cached_plan(trace, &roots, device.shared().options.fuse);
        let is_new = self.plans.len() > plans;
        let snapshot = Snapshot::new(trace, plan, is_new, &self.canonical.order);
        let mut marked: Vec<NodeId> = snapshot.evaluated.to_vec();
        if self.canonical.has_effects() {
            let effect = |id: &NodeId| matches!(trace.node(*id).op.class(), Class::Effect | Class::Region);
            marked.extend(self.canonical.order.iter().copied().filter(effect));
        }
        let flight = trace.take_off(device, marked, self.canonical.has_effects());
        Planned::Ready(Box::new(snapshot), flight)
    }

    fn cached_plan(&mut self, trace: &Trace, roots: &[NodeId], fuse: bool) -> Arc<CachedPlan> {
        let Planner { canonical, plans, kernels } = self;
        plans.get_or_insert_with(&canonical.words, |_| {
            let plan = plan::plan(trace, canonical, roots, fuse);
            let mut steps = Vec::new();
            let mut holes = Vec::new();
            for step in plan.steps {
                steps.push(match step {
                    Step::Copy { from, to } => CachedStep::Copy { from, to },
                    Step::Across { number, operand, from, to } => {
                        CachedStep::Across { number, operand, from, to }
                    }
                    Step::Launch(stage) => {
                        let kernel = kernels.entry(stage.program, &mut holes);
                        // Both in the order of the program's text; some literals are no holes.
                        let mut all = stage.literals.iter();
                        let node =
                            |hole: &Hole| all.find(|(value, _)| *value == hole.value).map(|&(_, node)| node);
                        let literals = holes.iter().map(node).collect::<Option<_>>();
                        let literals = literals.expect("a hole is one of the stage's literals");
                        let plan::Stage { args, by_lane, lanes, segment, named, .. } = *stage;
                        CachedStep::Launch { kernel, literals, args, by_lane, lanes, segment, named }
                    }
                });
            }
            CachedPlan { steps, slots: plan.slots, evaluated: plan.evaluated, sites: plan.sites }
        })
    }

    /// Takes plans out while they or their structures are too many. The caller drops them where that may take time, and
    /// then takes the structures, which plans hold.
    fn forget_plans(&mut self) -> Vec<Arc<CachedPlan>> {
        let mut plans = self.plans.evict(MAX_WORDS);
        if self.kernels.is_over_full() {
            plans.extend(self.plans.evict(self.plans.weight() / 2));
        }
        plans
    }
}

impl Snapshot {
    fn new(trace: &Trace, plan: Arc<CachedPlan>, is_new: bool, order: &[NodeId]) -> Snapshot {
        let node = |number: u32| trace.node(order[number as usize]);
        let literal = |constant: &Constant| match *constant {
            Constant::Node(number) => node(number).payload,
            Constant::Bits(bits) => bits,
        };
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
        let mut across = SmallVec::new();
        for step in &plan.steps {
            match step {
                CachedStep::Copy { from, to } => [*from, *to].into_iter().for_each(&mut leaf),
                CachedStep::Across { number, operand, from, to } => {
                    [*from, *to].into_iter().for_each(&mut leaf);
                    across.push(trace::across::builtin(node(*number), node(*operand).dtype));
                }
                CachedStep::Launch { literals, args, lanes, segment, named, .. } => {
                    let mut data = LaunchData {
                        literals: literals.iter().map(literal).collect(),
                        lanes: lanes.map_or(1, |n| node(n).size),
                        segment: segment
                            .and_then(|n| trace.reduces(node(n)))
                            .map_or(0, |(_, division)| division.length()),
                        counts: Vec::new(),
                        name: names(trace, named.iter().map(|&number| order[number as usize])),
                    };
                    for arg in args {
                        match *arg {
                            Source::Memory(memory) => leaf(memory),
                            Source::Count(number) => data.counts.push(node(number).payload),
                            Source::Size(number) => data.counts.push(node(number).size),
                            Source::Report => {}
                        }
                    }
                    launches.push(data);
                }
            }
        }
        plan.evaluated.iter().for_each(|&(_, memory)| leaf(memory));
        leaves.sort_unstable_by_key(|&(number, _)| number);
        let slot_sizes = plan.slots.iter().map(|&(_, number)| node(number).elements()).collect();
        let evaluated = plan.evaluated.iter().map(|&(n, _)| order[n as usize]).collect();
        let sites = Site::all(trace, order, &plan.sites);
        Snapshot { plan, is_new, evaluated, leaves, slot_sizes, launches, across, sites }
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
    fn submit(&mut self, device: Device, stream: &Stream) -> Result<Submitted, Error> {
        let shared = device.shared();
        let entries = self.plan.steps.iter().filter_map(|step| match step {
            CachedStep::Launch { kernel, .. } => Some(&**kernel),
            CachedStep::Copy { .. } | CachedStep::Across { .. } => None,
        });
        let wanted: SmallVec<[_; 4]> =
            entries.zip(&self.launches).map(|(entry, data)| (entry, &*data.literals)).collect();
        let mut kernels = shared.compiler.prepare(&wanted).into_iter();
        let mut work = Vec::new();
        let slots = self.allocate(device, stream, &mut work)?;
        let report = self.report(device, stream, &mut work)?;
        let sites = std::mem::take(&mut self.sites);
        let snapshot = &*self;
        let storage = |memory: Memory| snapshot.storage(&slots, memory);
        let mut written: SmallVec<[&Arc<Storage>; 4]> = slots.iter().chain(&report).collect();
        let mut records = Records::new();
        let mut last = None;
        let mut effort = 0u64;
        let mut launches = self.launches.iter();
        let mut across = self.across.iter();
        for step in &self.plan.steps {
            match step {
                CachedStep::Copy { from, to } => {
                    let (from, to) = (storage(*from), storage(*to));
                    effort = effort.saturating_add(from.bytes() as u64);
                    work.push(Work::Copy { from: Span::of(from), to: Span::of(to) });
                }
                CachedStep::Across { from, to, .. } => {
                    let &(builtin, number) = across.next().expect("one snapshot a builtin");
                    let start = Instant::now();
                    let (kernel_number, kernel, cache) = shared.builtins.get(&*shared.backend, builtin)?;
                    let time = if cache == CacheOutcome::Hit { Duration::ZERO } else { start.elapsed() };
                    let (from, to) = (storage(*from), storage(*to));
                    let [Arg::Memory { len: lanes, .. }, _] = [from.arg(), to.arg()] else {
                        unreachable!("a storage is memory")
                    };
                    let run = shared.options.profile.then(|| Arc::new(Run::new(shared.made)));
                    records.push(KernelRecord {
                        kernel: kernel_number,
                        backend: device.kind(),
                        lanes,
                        ops: 1,
                        inputs: 1,
                        outputs: 1,
                        bytes: (from.bytes() + to.bytes()) as u64,
                        cache,
                        compile_time: time,
                        submitted: shared.made.elapsed(),
                        mode: LoopMode::current(),
                        name: trace::evaluated_name(),
                        stream: stream.number(),
                        run: run.clone(),
                    });
                    effort = effort.saturating_add(lanes.saturating_mul(ACROSS));
                    let args = vec![from.arg(), to.arg(), Arg::Scalar(number)];
                    work.push(Work::Kernel { kernel, args, lanes, base: 0, segment: 0, run });
                }
                CachedStep::Launch { kernel: entry, args: sources, by_lane, .. } => {
                    let data = launches.next().expect("one snapshot a launch");
                    let mut prepared = kernels.next().expect("one kernel a launch")?;
                    let mut counts = data.counts.iter();
                    let mut args = Vec::with_capacity(prepared.loaded.outline.params.len());
                    args.extend(sources.iter().map(|source| match *source {
                        Source::Memory(memory) => storage(memory).arg(),
                        Source::Count(_) | Source::Size(_) => {
                            Arg::Scalar(*counts.next().expect("one count a source"))
                        }
                        Source::Report => report.as_ref().expect("a plan with sites has a report").arg(),
                    }));
                    prepared.variant.push_literals(&data.literals, &mut args);
                    shared.compiler.check_lengths(entry, &mut prepared, &args, data.lanes)?;
                    let PreparedKernel { variant, loaded, cache, time } = prepared;
                    let outline = &loaded.outline;
                    for (param, source) in outline.params.iter().zip(sources) {
                        if let (ParamKind::InOut, &Source::Memory(memory @ Memory::Leaf(_))) =
                            (param.kind, source)
                        {
                            written.push(storage(memory));
                        }
                    }
                    effort = effort.saturating_add(launch_effort(outline, data.lanes));
                    last = Some((Arc::clone(entry), variant));
                    let mut outcome = Some((cache, time));
                    let name = data.name.clone().or_else(trace::evaluated_name);
                    for Part { args, lanes, base } in
                        Part::all(shared.options.max_lanes, outline, args, by_lane, data.lanes)
                    {
                        let run = shared.options.profile.then(|| Arc::new(Run::new(shared.made)));
                        let (cache, time) = outcome.take().unwrap_or((CacheOutcome::Hit, Duration::ZERO));
                        records.push(KernelRecord {
                            stream: stream.number(),
                            run: run.clone(),
                            name: name.clone(),
                            ..record(device, entry.number, outline, &args, lanes, cache, time)
                        });
                        let kernel = Arc::clone(&loaded.kernel);
                        work.push(Work::Kernel { kernel, args, lanes, base, segment: data.segment, run });
                    }
                }
            }
        }
        if let Some(report) = &report {
            work.push(Work::Inspect(Inspection::new(report.arg(), sites)));
        }
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
        Ok((ticket, slots, records))
    }

    /// Zeroed memory that lanes report to, if the plan has lanes that do.
    fn report(
        &self,
        device: Device,
        stream: &Stream,
        work: &mut Vec<Work>,
    ) -> Result<Option<Arc<Storage>>, Error> {
        if self.sites.is_empty() {
            return Ok(None);
        }
        let known = stream.known();
        let reuse = Reuse::Stream { device: device.number(), known: &known };
        let storage = device.allocate(DType::U64, Site::words(self.sites.len()), reuse)?;
        work.push(Work::Fill(Span::of(&storage), 0));
        Ok(Some(Arc::new(storage)))
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

/// The names of these nodes, each once.
fn names(trace: &Trace, nodes: impl Iterator<Item = NodeId>) -> Option<Arc<str>> {
    let mut names: SmallVec<[&str; 2]> = SmallVec::new();
    for name in nodes.filter_map(|id| trace.label(id)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    (!names.is_empty()).then(|| names.join(", ").into())
}

/// What new memory is filled with where that is asked for: no plausible value of any type.
const POISON: u8 = 0xc7;

/// Work up to this many instructions times lanes is done by the submitting thread: handing it over costs more.
const SMALL: u64 = 1 << 14;

/// Roughly the instructions that a builtin needs for an element.
const ACROSS: u64 = 32;

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
        mode: LoopMode::current(),
        name: None,
        lanes,
        ops: outline.instructions as usize,
        inputs: memories.clone().filter(|(p, _)| reads(p.kind)).count(),
        outputs: memories.clone().filter(|(p, _)| writes(p.kind)).count(),
        bytes: memories.map(|(_, bytes)| bytes).sum(),
        cache,
        compile_time,
        submitted: device.shared().made.elapsed(),
        stream: 0,
        run: None,
    }
}
