//! What random programs consist of, so that a generator that makes nothing useful is noticed.

use std::collections::{BTreeMap, HashSet};

#[cfg(test)]
use jit_core::dtype::ALL_DTYPES;
use jit_core::dtype::DType;
use jit_core::ir::Segments;
use jit_core::op::{ALL_OPS, Class, Op};
use jit_core::trace::Division;

use super::program::{Across, Block, Ending, Place, Program, Slot, Source, Step, Target};

/// What programs have beside single ops, and the list of it.
macro_rules! constructs {
    ($($name:ident)*) => {
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        enum Construct {
            $($name,)*
        }

        #[cfg(test)]
        const CONSTRUCTS: &[Construct] = &[$(Construct::$name,)*];
    };
}

constructs! {
    MaskedAccess
    GatherFromBuffer
    ScatterToArray
    Snapshot
    SetBuffer
    DropBuffer
    EvaluationInBetween
    ReductionOfRows
    ReductionOfColumns
    CustomReductionOfAll
    CustomReductionOfSegments
    CustomReductionThatCaptures
    ScanOfBlocks
    ExclusiveScan
    ReverseScan
    IndicesOf64Bits
    RegionInRegion
    EffectInRegion
    LocalArrayInRegion
    SwitchOfOneBlock
    NothingEvaluatedTogether
    HandlesHeldToTheEnd
}

/// Counts over programs.
#[derive(Default)]
pub(crate) struct Coverage {
    programs: usize,
    with_region: usize,
    with_effects: usize,
    live_ops: usize,
    ops: BTreeMap<Op, usize>,
    types: BTreeMap<DType, usize>,
    constructs: BTreeMap<Construct, usize>,
}

impl Coverage {
    /// Counts a program's live steps.
    pub(crate) fn add(&mut self, program: &Program) {
        self.programs += 1;
        let mut live = Live::default();
        live.slots.extend(&program.outputs);
        live.places.extend(&program.kept);
        live.steps(&program.steps, 0);
        let ending = match program.ending {
            Ending::Together => None,
            Ending::OneByOne => Some(Construct::NothingEvaluatedTogether),
            Ending::HoldAll => Some(Construct::HandlesHeldToTheEnd),
        };
        // These define nothing that is needed later, and matter all the same.
        let others = program.steps.iter().filter_map(|step| match step {
            Step::Set { .. } => Some(Construct::SetBuffer),
            Step::DropBuffer { .. } => Some(Construct::DropBuffer),
            Step::Eval { .. } => Some(Construct::EvaluationInBetween),
            _ => None,
        });
        for construct in live.constructs.into_iter().chain(ending).chain(others) {
            *self.constructs.entry(construct).or_default() += 1;
        }
        for slot in live.made {
            *self.types.entry(program.slots[slot.0 as usize].dtype).or_default() += 1;
        }
        self.with_region += usize::from(live.ops.iter().any(|op| op.class() == Class::Region));
        self.with_effects += usize::from(live.ops.iter().any(|op| op.class() == Class::Effect));
        for op in live.ops {
            self.live_ops += usize::from(op != Op::Literal);
            *self.ops.entry(op).or_default() += 1;
        }
    }

    /// How many live steps of each op there were.
    #[cfg(not(test))]
    pub(crate) fn ops(&self) -> &BTreeMap<Op, usize> {
        &self.ops
    }

    #[cfg(test)]
    pub(crate) fn merge(&mut self, other: Coverage) {
        self.programs += other.programs;
        self.with_region += other.with_region;
        self.with_effects += other.with_effects;
        self.live_ops += other.live_ops;
        for (op, count) in other.ops {
            *self.ops.entry(op).or_default() += count;
        }
        for (dtype, count) in other.types {
            *self.types.entry(dtype).or_default() += count;
        }
        for (construct, count) in other.constructs {
            *self.constructs.entry(construct).or_default() += count;
        }
    }

    /// The ops that no program has.
    #[cfg(test)]
    pub(crate) fn left_out(&self) -> Vec<&'static str> {
        ALL_OPS.iter().filter(|op| !self.ops.contains_key(op)).map(|op| op.name()).collect()
    }

    /// How often the rarest type of a live value and the rarest construct are.
    #[cfg(test)]
    pub(crate) fn rarest_others(&self) -> [usize; 2] {
        let of_types = ALL_DTYPES.map(|dtype| self.types.get(&dtype).copied().unwrap_or(0));
        let of_constructs =
            CONSTRUCTS.iter().map(|construct| self.constructs.get(construct).copied().unwrap_or(0));
        [of_types.into_iter().min(), of_constructs.min()].map(|least| least.expect("some"))
    }

    /// The share of programs in percent, with regions and with effects.
    pub(crate) fn shares(&self) -> (usize, usize) {
        (100 * self.with_region / self.programs, 100 * self.with_effects / self.programs)
    }

    /// Ops (literals left out) that an output needs, a program.
    pub(crate) fn mean_live_ops(&self) -> usize {
        self.live_ops / self.programs
    }

    /// The op of programs that is used least, and how often.
    pub(crate) fn rarest(&self) -> (Op, usize) {
        let of_programs = |op: &Op| !matches!(op.class(), Class::Trace | Class::Kernel);
        let counts = ALL_OPS.iter().copied().filter(of_programs);
        let count = |op| self.ops.get(&op).copied().unwrap_or(0);
        counts.map(|op| (op, count(op))).min_by_key(|&(_, n)| n).expect("some op")
    }
}

impl std::fmt::Display for Coverage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (regions, effects) = self.shares();
        let (rarest, count) = self.rarest();
        write!(
            f,
            "{} programs, {} live ops each, {regions} % with a region, {effects} % with effects; the rarest op is {} ({count})",
            self.programs,
            self.mean_live_ops(),
            rarest.name()
        )?;
        let ops = self.ops.iter().map(|(op, count)| (op.name().to_owned(), *count));
        let types = self.types.iter().map(|(dtype, count)| (format!("of {dtype}"), *count));
        let constructs = self.constructs.iter().map(|(construct, count)| (format!("{construct:?}"), *count));
        for (i, (name, count)) in ops.chain(types).chain(constructs).enumerate() {
            let before = if i % 4 == 0 { "\n" } else { "  " };
            write!(f, "{before}{name:<28}{count:>8}")?;
        }
        Ok(())
    }
}

/// What is needed later, walking backwards.
#[derive(Default)]
struct Live {
    slots: HashSet<Slot>,
    places: HashSet<Place>,
    ops: Vec<Op>,
    made: Vec<Slot>,
    constructs: Vec<Construct>,
}

impl Live {
    fn steps(&mut self, steps: &[Step], depth: usize) {
        for step in steps.iter().rev() {
            if !self.needs(step) {
                continue;
            }
            self.slots.extend(step.uses());
            self.places.extend(step.places().0);
            self.ops.extend(step.op());
            self.made.extend(step.defines());
            self.constructs.extend(constructs(step, depth));
            let blocks = step.blocks();
            if !blocks.is_empty() {
                let around_loop = matches!(step, Step::Loop { .. });
                // What a later trip reads is needed by an earlier one.
                if around_loop {
                    blocks.iter().for_each(|b| self.reads(b));
                }
                blocks.iter().rev().for_each(|b| self.block(b, depth + 1));
            }
        }
    }

    fn block(&mut self, block: &Block, depth: usize) {
        self.slots.extend(&block.yields);
        self.steps(&block.steps, depth);
    }

    fn reads(&mut self, block: &Block) {
        for step in &block.steps {
            step.for_each(&mut |s| self.places.extend(s.places().0));
        }
    }

    fn needs(&self, step: &Step) -> bool {
        let changes = |place: Option<Place>| place.is_some_and(|p| self.places.contains(&p));
        let mut effect = false;
        step.for_each(&mut |s| effect |= changes(s.places().1));
        effect || step.defines().iter().any(|s| self.slots.contains(s))
    }
}

/// What a step at that depth of regions is beside its op.
fn constructs(step: &Step, depth: usize) -> Vec<Construct> {
    let mut found = Vec::new();
    let mut add = |construct, is: bool| {
        if is {
            found.push(construct);
        }
    };
    let inside = depth > 0;
    let effect = step.op().is_some_and(|op| op.class() == Class::Effect);
    add(Construct::EffectInRegion, inside && effect);
    add(Construct::RegionInRegion, inside && !step.blocks().is_empty());
    match step {
        Step::Gather { source, mask, .. } => {
            add(Construct::MaskedAccess, mask.is_some());
            add(Construct::GatherFromBuffer, matches!(source, Source::Buffer(_)));
        }
        Step::Scatter { target, mask, .. } => {
            add(Construct::MaskedAccess, mask.is_some());
            add(Construct::ScatterToArray, matches!(target, Target::Array { .. }));
        }
        Step::AtomicInc { mask, .. } | Step::Exchange { mask, .. } => {
            add(Construct::MaskedAccess, mask.is_some());
        }
        Step::LocalRead { mask, .. } | Step::LocalWrite { mask, .. } => {
            add(Construct::MaskedAccess, mask.is_some());
            add(Construct::LocalArrayInRegion, inside);
        }
        Step::Snapshot { .. } => add(Construct::Snapshot, true),
        Step::Reduce { division, .. } => {
            add(Construct::ReductionOfRows, division.segments() == Segments::Rows);
            add(Construct::ReductionOfColumns, division.segments() == Segments::Columns);
        }
        Step::Combine { division, captured, .. } => {
            add(Construct::CustomReductionOfAll, *division == Division::ALL);
            add(Construct::CustomReductionOfSegments, *division != Division::ALL);
            add(Construct::CustomReductionThatCaptures, captured.is_some());
        }
        Step::Across { across, .. } => match *across {
            Across::Scan { exclusive, reverse, length, .. } => {
                add(Construct::ScanOfBlocks, length.is_some());
                add(Construct::ExclusiveScan, exclusive);
                add(Construct::ReverseScan, reverse);
            }
            Across::Argsort(dtype) | Across::Compress(dtype, _) => {
                add(Construct::IndicesOf64Bits, dtype == DType::U64);
            }
            Across::Sort => {}
        },
        Step::Switch { blocks, .. } => add(Construct::SwitchOfOneBlock, blocks.len() == 1),
        _ => {}
    }
    found
}
