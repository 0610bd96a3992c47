//! Makes a failing program small: whatever can be left out, or cut off from what it is computed from, is.
//!
//! Shrinking a sketch changes what later choices mean; this works on the program itself, after it.

use std::collections::HashSet;

use jit_core::dtype::DType;
use jit_core::op::Op;

use super::program::{Block, Contents, Ending, Program, Slot, Source, Step, Target};

/// The smallest program found that still fails.
pub(crate) fn reduce(program: &Program, fails: impl Fn(&Program) -> bool) -> Program {
    let mut best = program.clone();
    loop {
        let mut progress = false;
        for edit in EDITS {
            let mut at = 0;
            loop {
                let mut candidate = best.clone();
                if !edit(&mut candidate, at) {
                    break;
                }
                if candidate.to_string() != best.to_string() && is_valid(&candidate) && fails(&candidate) {
                    best = candidate;
                    progress = true;
                } else {
                    at += 1;
                }
            }
        }
        if !progress {
            return best;
        }
    }
}

/// An edit at its `n`th place; false if there are fewer.
type Edit = fn(&mut Program, usize) -> bool;

const EDITS: &[Edit] =
    &[drop_output, drop_kept, drop_step, cut_step, drop_state, drop_mask, evaluate_together];

fn drop_output(program: &mut Program, n: usize) -> bool {
    let there = n < program.outputs.len();
    if there {
        program.outputs.remove(n);
    }
    there
}

fn drop_kept(program: &mut Program, n: usize) -> bool {
    let there = n < program.kept.len();
    if there {
        program.kept.remove(n);
    }
    there
}

/// The last steps first: what they use becomes unused.
fn drop_step(program: &mut Program, n: usize) -> bool {
    let count = count_steps(&program.steps);
    n < count && {
        edit_step(&mut program.steps, &mut (count - 1 - n), &mut |steps, at| drop(steps.remove(at)));
        true
    }
}

/// Makes what a step defines inputs.
fn cut_step(program: &mut Program, n: usize) -> bool {
    let mut indices = HashSet::new();
    for step in &program.steps {
        step.for_each(&mut |s| match s {
            Step::Scatter { index, .. } | Step::AtomicInc { index, .. } | Step::Exchange { index, .. } => {
                indices.insert(*index);
            }
            _ => {}
        });
    }
    let slots = program.slots.clone();
    let count = count_steps(&program.steps);
    n < count && {
        edit_step(&mut program.steps, &mut (count - 1 - n), &mut |steps, at| {
            let step = &steps[at];
            let leaf = matches!(
                step,
                Step::Literal { .. } | Step::Full { .. } | Step::Data { .. } | Step::Counter { .. }
            );
            let local = |s: &Slot| slots[s.0 as usize].local.is_some();
            if leaf || step.defines().iter().any(|s| indices.contains(s) || local(s)) {
                return;
            }
            let inputs: Vec<Step> = step
                .defines()
                .into_iter()
                .map(|out| match slots[out.0 as usize].depth {
                    0 => Step::Data { out, contents: Contents::Small(1) },
                    _ => Step::Literal { out, bits: u64::from(slots[out.0 as usize].dtype == DType::U32) },
                })
                .collect();
            if !inputs.is_empty() {
                steps.splice(at..=at, inputs);
            }
        });
        true
    }
}

/// Takes a value out of a loop's state or a branch's arguments or results.
fn drop_state(program: &mut Program, n: usize) -> bool {
    let count = count_steps(&program.steps);
    let (which, position) = (n / 8, n % 8);
    which < count && {
        edit_step(&mut program.steps, &mut { which }, &mut |steps, at| match &mut steps[at] {
            Step::Loop { init, blocks: [condition, body], results } if position < init.len() => {
                init.remove(position);
                condition.params.remove(position);
                body.params.remove(position);
                body.yields.remove(position);
                results.remove(position);
            }
            Step::If { arguments, blocks, results, .. } => drop_part(position, arguments, blocks, results),
            Step::Switch { arguments, blocks, results, .. } => {
                drop_part(position, arguments, blocks, results);
            }
            _ => {}
        });
        true
    }
}

/// Takes an argument, or from position 4 on a result, out of a branch or switch.
fn drop_part(position: usize, arguments: &mut Vec<Slot>, blocks: &mut [Block], results: &mut Vec<Slot>) {
    if position < 4 && position < arguments.len() {
        arguments.remove(position);
        blocks.iter_mut().for_each(|b| b.params.retain(removed(position)));
    } else if position >= 4 && position - 4 < results.len() {
        results.remove(position - 4);
        blocks.iter_mut().for_each(|b| b.yields.retain(removed(position - 4)));
    }
}

/// Keeps all but one position.
fn removed(position: usize) -> impl FnMut(&Slot) -> bool {
    let mut at = 0;
    move |_| {
        at += 1;
        at - 1 != position
    }
}

fn drop_mask(program: &mut Program, n: usize) -> bool {
    n < count_steps(&program.steps) && {
        edit_step(&mut program.steps, &mut { n }, &mut |steps, at| match &mut steps[at] {
            Step::Gather { mask, .. }
            | Step::Scatter { mask, .. }
            | Step::AtomicInc { mask, .. }
            | Step::Exchange { mask, .. }
            | Step::LocalRead { mask, .. }
            | Step::LocalWrite { mask, .. } => *mask = None,
            _ => {}
        });
        true
    }
}

fn evaluate_together(program: &mut Program, n: usize) -> bool {
    program.ending = Ending::Together;
    n == 0
}

fn count_steps(steps: &[Step]) -> usize {
    let mut count = 0;
    steps.iter().for_each(|s| s.for_each(&mut |_| count += 1));
    count
}

/// Calls `edit` at the `n`th step, a region before what is in it.
fn edit_step(steps: &mut Vec<Step>, n: &mut usize, edit: &mut dyn FnMut(&mut Vec<Step>, usize)) -> bool {
    for at in 0..steps.len() {
        if *n == 0 {
            edit(steps, at);
            return true;
        }
        *n -= 1;
        if steps[at].blocks_mut().iter_mut().any(|b| edit_step(&mut b.steps, n, edit)) {
            return true;
        }
    }
    false
}

/// Whether a loop still counts its trips and ends by their number, as loops are made.
fn ends(step: &Step) -> bool {
    let Step::Loop { blocks: [condition, body], .. } = step else { return true };
    let made_by = |block: &Block, slot: Slot| {
        block.steps.iter().find_map(|step| match step {
            Step::Lane { out, op, args } if *out == slot => Some((*op, args[0])),
            _ => None,
        })
    };
    let (Some(&count), Some(&next)) = (body.params.first(), body.yields.first()) else { return false };
    let mut going = made_by(condition, condition.yields[0]);
    if let Some((Op::And, first)) = going {
        going = made_by(condition, first);
    }
    going == Some((Op::Lt, count)) && made_by(body, next) == Some((Op::Add, count))
}

/// Whether everything that is used is defined before, and all loops end.
fn is_valid(program: &Program) -> bool {
    let mut known = Known::default();
    known.steps(&program.steps)
        && program.outputs.iter().all(|s| known.slots.contains(s))
        && program.kept.iter().all(|p| known.places.contains(&p.0))
}

#[derive(Default, Clone)]
struct Known {
    slots: HashSet<Slot>,
    places: HashSet<u32>,
}

impl Known {
    fn steps(&mut self, steps: &[Step]) -> bool {
        steps.iter().all(|step| {
            let places = match step {
                Step::Set { place, .. } | Step::DropBuffer { place } | Step::Snapshot { place, .. } => {
                    vec![*place]
                }
                Step::Scatter { target: Target::Buffer(place), .. }
                | Step::AtomicInc { place, .. }
                | Step::Exchange { place, .. }
                | Step::Gather { source: Source::Buffer(place), .. } => vec![*place],
                Step::Eval { places, .. } => places.clone(),
                _ => vec![],
            };
            let fine = step.uses().iter().all(|s| self.slots.contains(s))
                && places.iter().all(|p| self.places.contains(&p.0))
                && step.blocks().iter().all(|b| self.clone().block(b))
                && ends(step);
            match step {
                Step::NewBuffer { place, .. } => drop(self.places.insert(place.0)),
                Step::DropBuffer { place } => drop(self.places.remove(&place.0)),
                _ => {}
            }
            self.slots.extend(step.defines());
            fine
        })
    }

    fn block(&mut self, block: &Block) -> bool {
        self.slots.extend(&block.params);
        self.steps(&block.steps) && block.yields.iter().all(|s| self.slots.contains(s))
    }
}
