//! What random programs consist of, so that a generator that makes nothing useful is noticed.

use std::collections::{BTreeMap, HashSet};

use jit_core::op::{ALL_OPS, Class, Op};

use super::program::{Block, Place, Program, Slot, Step};

/// Counts over programs.
#[derive(Default)]
pub(crate) struct Coverage {
    programs: usize,
    with_region: usize,
    with_effects: usize,
    live_ops: usize,
    ops: BTreeMap<Op, usize>,
}

impl Coverage {
    /// Counts a program's live steps.
    pub(crate) fn add(&mut self, program: &Program) {
        self.programs += 1;
        let mut live = Live::default();
        live.slots.extend(&program.outputs);
        live.places.extend(&program.kept);
        live.steps(&program.steps);
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
        )
    }
}

/// What is needed later, walking backwards.
#[derive(Default)]
struct Live {
    slots: HashSet<Slot>,
    places: HashSet<Place>,
    ops: Vec<Op>,
}

impl Live {
    fn steps(&mut self, steps: &[Step]) {
        for step in steps.iter().rev() {
            if !self.needs(step) {
                continue;
            }
            self.slots.extend(step.uses());
            self.places.extend(step.places().0);
            self.ops.extend(step.op());
            let blocks = step.blocks();
            if !blocks.is_empty() {
                let around_loop = matches!(step, Step::Loop { .. });
                // What a later trip reads is needed by an earlier one.
                if around_loop {
                    blocks.iter().for_each(|b| self.reads(b));
                }
                blocks.iter().rev().for_each(|b| self.block(b));
            }
        }
    }

    fn block(&mut self, block: &Block) {
        self.slots.extend(&block.yields);
        self.steps(&block.steps);
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
