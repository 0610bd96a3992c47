//! The functions of a kernel.
//!
//! All have the signature `(arguments, begin, end, base, results, modes, strip)`:
//! - `arguments` points to two u64 per parameter: a scalar's bits and nothing, or an address and a length in elements;
//! - `body` runs the lanes `begin..end` of the launch, whose lane 0 has the global index `base`, and writes one u64
//!   per slot (part of a reduction's state) to `results`; `modes` are [`STREAMS`], [`ALONE`] and [`COPIED`]. With
//!   reductions these lanes are one chunk; of columns they are a strip in the chunk's first row, and `strip` says the
//!   rest ([`Strip`](super::Strip));
//! - `finish` runs for the segments `begin..end`, and reads the final values of their slots from `results`;
//! - `fold` combines the states of reductions by a block in the rows `begin..end` of `results` by the rule for one chunk,
//!   from 0 on, and writes the outcome to row 0; `modes` is its number of accumulators. Of no rows it gives the identities.

use std::collections::HashMap;
use std::rc::Rc;

use inkwell::context::Context;
use inkwell::module::Module;
use inkwell::values::{FunctionValue, PointerValue};
use inkwell::{AddressSpace, IntPredicate};
use jit_core::error::Error;
use jit_core::ir::{Block, Outline, ParamKind, Places, Program, Segments};
use jit_core::op::Class;
use jit_core::reduce::ACCUMULATORS;

use super::emit::{Emit, Form, Val, built};
use super::memory::{load_element, to_memory};
use super::reduction::{Placement, element_address, store_result};
use super::row::{Step, steps};
use super::{Argument, Gen, Lanes, uniform};
use crate::private;
use crate::target::Target;

/// The name of the function that runs lanes.
pub(crate) const BODY: &str = "body";
/// The name of the function that runs once, after all lanes.
pub(crate) const FINISH: &str = "finish";
/// The name of the function that folds the results of chunks.
pub(crate) const FOLD: &str = "fold";

/// A mode of the body: full vectors are stored past the caches. The address of lane `begin` in every `out` parameter is
/// a multiple of 64.
pub(crate) const STREAMS: u64 = 1;
/// A mode of the body: no other thread runs lanes of this launch.
pub(crate) const ALONE: u64 = 2;
/// A mode of the body: the parameters of [`private::targets`] are copies that no other thread has.
pub(crate) const COPIED: u64 = 4;

/// Above this many instructions the loop over full vectors is left out and every vector takes the masked form: the
/// code, and the time to make it, is then half as long, and masks cost little beside so much work. Where every instruction
/// can have a mask they cost nearly nothing.
pub(super) fn long_body(target: &Target) -> usize {
    if target.masks_bytes { 24 } else { 256 }
}

/// Writes the function that runs lanes.
pub(super) fn body<'c>(
    context: &'c Context,
    module: &Rc<Module<'c>>,
    target: &Rc<Target>,
    width: u32,
    program: &Program,
) -> Result<(), Error> {
    let mut frame = Frame::new(context, module, target, width, program, &program.body, BODY, Form::Varying);
    let generator = &mut frame.generator;
    generator.hoist(&program.body)?;
    let modes = parameter(frame.function, 5);
    let mode = |e: &Emit<'c>, modes_meant: u64| {
        let meant = e.and(modes, e.int_like(modes, modes_meant));
        e.icmp(IntPredicate::NE, meant, e.int_like(meant, 0)).into_int_value()
    };
    let outline = program.outline();
    if may_stream(&outline) {
        generator.streams = Some(mode(&generator.entry, STREAMS));
    }
    if outline.has_atomics {
        generator.alone = Some(mode(&generator.entry, ALONE));
        generator.unshared = Some(mode(&generator.entry, ALONE | COPIED));
        generator.copied = private::targets(&outline).iter().map(|target| target.param).collect();
    }

    let [begin, end] = [1, 2].map(|i| parameter(frame.function, i));
    if program.segments == Segments::Columns && program.reduce_insts().next().is_some() {
        let strip = parameter(frame.function, 6).into_pointer_value();
        generator.columns(strip, begin, end, frame.results)?;
        built(generator.e.builder.build_return(None));
        return Ok(());
    }
    if program.segments == Segments::Rows {
        generator.placement = Placement::Chunk(begin);
    }
    let in_registers = generator.accumulates_in_registers();
    generator.make_accumulators();
    if !in_registers {
        let identities = generator.identities();
        let identities = generator.for_all_groups(identities);
        generator.store_accumulators(&identities);
    }
    let mut first = begin;
    if in_registers {
        first = generator.rounds(&program.body, first, end)?;
        generator.remainder = true;
    } else if program.inst_count() <= long_body(target) {
        first = generator.lane_loop(&program.body, first, end, Tail::Left)?;
        generator.remainder = true;
    }
    generator.lane_loop(&program.body, first, end, Tail::Masked)?;
    let lanes = generator.e.sub(end, begin);
    generator.end_reductions(frame.results, lanes)?;
    built(generator.e.builder.build_return(None));
    Ok(())
}

/// Whether the body has stores that may go past the caches. An atomic access would wait for each of them.
pub(crate) fn may_stream(outline: &Outline) -> bool {
    !outline.lane_outputs.is_empty() && !outline.has_atomics
}

/// Writes the function that runs once for each segment.
pub(super) fn finish<'c>(
    context: &'c Context,
    module: &Rc<Module<'c>>,
    target: &Rc<Target>,
    width: u32,
    program: &Program,
    block: &Block,
) -> Result<(), Error> {
    let mut frame = Frame::new(context, module, target, width, program, block, FINISH, Form::Uniform);
    let [begin, end] = [1, 2].map(|i| parameter(frame.function, i));
    let generator = &mut frame.generator;
    if program.segments == Segments::All {
        generator.finish_segment(block, frame.results, generator.lanes.first)?;
    } else {
        generator.counted(begin, end, |generator, segment| {
            let row = generator.e.sub(segment, begin);
            generator.lanes.first = segment;
            generator.finish_segment(block, frame.results, row)
        })?;
    }
    built(generator.e.builder.build_return(None));
    Ok(())
}

/// Writes the function that folds states.
pub(super) fn fold<'c>(
    context: &'c Context,
    module: &Rc<Module<'c>>,
    target: &Rc<Target>,
    width: u32,
    program: &Program,
) -> Result<(), Error> {
    let mut frame = Frame::new(context, module, target, width, program, &program.body, FOLD, Form::Uniform);
    let [begin, end, count] = [1, 2, 5].map(|i| parameter(frame.function, i));
    let generator = &mut frame.generator;
    generator.hoist(&program.body)?;
    generator.make_accumulators();
    let identities = generator.identities();
    let (slots, none) = (generator.slots(), begin);
    generator.counted(none, count, |generator, at| {
        for ((&dtype, &memory), &identity) in slots.iter().zip(&generator.accumulators).zip(&identities) {
            let e = &generator.e;
            e.store(
                to_memory(e, dtype, identity),
                element_address(e, dtype, memory, at),
                dtype.size() as u32,
            );
        }
        Ok(())
    })?;
    let result = |e: &Emit<'c>, row: Val<'c>, slot: usize| {
        let first = e.mul(row, e.int_like(row, slots.len() as u64));
        let at = e.add(first, e.int_like(row, slot as u64));
        e.address(e.int(64, Form::Uniform), frame.results, at).into_pointer_value()
    };
    let mut slot = 0;
    for inst in program.reduce_insts() {
        let own = slot..slot + inst.reduced().len();
        if inst.op.combine().is_none() {
            generator.placement = Placement::Launch;
            generator.counted(begin, end, |generator, row| {
                let e = &generator.e;
                let at = e.and(row, e.int_like(row, ACCUMULATORS as u64 - 1));
                let places =
                    own.clone().map(|slot| element_address(e, slots[slot], generator.accumulators[slot], at));
                let places: Vec<PointerValue<'c>> = places.collect();
                let old: Vec<Val<'c>> = places
                    .iter()
                    .zip(own.clone())
                    .map(|(&at, slot)| load_element(e, slots[slot], at))
                    .collect();
                let new: Vec<Val<'c>> =
                    own.clone().map(|slot| load_element(e, slots[slot], result(e, row, slot))).collect();
                let combined = generator.combine(inst, &old, &new)?;
                let e = &generator.e;
                for ((value, &at), slot) in combined.into_iter().zip(&places).zip(own.clone()) {
                    e.store(to_memory(e, slots[slot], value), at, slots[slot].size() as u32);
                }
                Ok(())
            })?;
            generator.fold_by_block(slot, inst, count, 1)?;
            for slot in own.clone() {
                let e = &generator.e;
                let total = load_element(e, slots[slot], generator.accumulators[slot]);
                store_result(
                    e,
                    slots[slot],
                    total,
                    frame.results,
                    e.const_int(64, slot as u64, Form::Uniform),
                );
            }
        }
        slot = own.end;
    }
    built(generator.e.builder.build_return(None));
    Ok(())
}

/// What a loop over lanes does with the last ones when they fill no vector.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tail {
    Left,
    Masked,
}

struct Frame<'c, 'p> {
    function: FunctionValue<'c>,
    results: PointerValue<'c>,
    generator: Gen<'c, 'p>,
}

impl<'c, 'p> Frame<'c, 'p> {
    #[expect(clippy::too_many_arguments, reason = "two callers above, each naming what it passes")]
    fn new(
        context: &'c Context,
        module: &Rc<Module<'c>>,
        target: &Rc<Target>,
        width: u32,
        program: &'p Program,
        block: &Block,
        name: &str,
        form: Form,
    ) -> Self {
        let pointer = context.ptr_type(AddressSpace::default());
        let i64_type = context.i64_type();
        let number = i64_type.into();
        let params = [pointer.into(), number, number, number, pointer.into(), number, pointer.into()];
        let function = module.add_function(name, context.void_type().fn_type(&params, false), None);
        let emit = || Emit {
            context,
            module: Rc::clone(module),
            builder: context.create_builder(),
            target: Rc::clone(target),
            width,
        };
        let (entry, e) = (emit(), emit());
        // Without unwinding there are no frames to register.
        let entry_block = context.append_basic_block(function, "entry");
        let start = context.append_basic_block(function, "start");
        entry.continue_at(entry_block);
        entry.mark(function, "nounwind");
        let jump = built(entry.builder.build_unconditional_branch(start));
        entry.builder.position_before(&jump);
        e.continue_at(start);

        let arguments = parameter(function, 0).into_pointer_value();
        let args = (0..program.params.len()).map(|k| argument(&entry, program, k, arguments)).collect();
        let forms = match form {
            Form::Uniform => vec![Form::Uniform; program.values.len()],
            Form::Varying => uniform::forms(program, block),
        };
        let steps = match form {
            Form::Uniform => vec![Step::Other; program.values.len()],
            Form::Varying => steps(program, &forms),
        };
        let places = Places::of(program, block);
        let zero = i64_type.const_zero().into();
        let base = parameter(function, 3);
        let mut generator = Gen {
            program,
            e,
            entry,
            forms,
            steps,
            remainder: false,
            values: vec![None; program.values.len()],
            splats: HashMap::new(),
            hoisted: vec![false; program.values.len()],
            args,
            bounds: HashMap::new(),
            tables: HashMap::new(),
            streams: None,
            alone: None,
            unshared: None,
            copied: Vec::new(),
            lanes: Lanes { first: zero, base, existing: None, active: None, past_caches: None, form },
            places,
            slots: Vec::new(),
            accumulators: Vec::new(),
            placement: Placement::Launch,
            registers: None,
            zeros: None,
            sink: None,
        };
        generator.make_slots();
        let results = parameter(function, 4).into_pointer_value();
        Frame { function, results, generator }
    }
}

fn parameter(function: FunctionValue<'_>, k: u32) -> Val<'_> {
    function.get_nth_param(k).expect("seven parameters")
}

/// Reads an argument.
fn argument<'c>(e: &Emit<'c>, program: &Program, k: usize, arguments: PointerValue<'c>) -> Argument<'c> {
    let i64_type = e.int(64, Form::Uniform);
    let slot = |k: usize| {
        let index = e.const_int(64, k as u64, Form::Uniform);
        e.address(i64_type, arguments, index).into_pointer_value()
    };
    let param = program.params[k];
    if param.kind == ParamKind::Scalar {
        return Argument::Scalar(load_element(e, param.dtype, slot(2 * k)));
    }
    let pointer = e.context.ptr_type(AddressSpace::default()).into();
    Argument::Memory {
        base: e.load(pointer, slot(2 * k), 8).into_pointer_value(),
        len: e.load(i64_type, slot(2 * k + 1), 8),
    }
}

impl<'c> Gen<'c, '_> {
    /// Runs a block for the lanes from `begin`, a vector at a time; yields the first lane that is left.
    pub(super) fn lane_loop(
        &mut self,
        block: &Block,
        begin: Val<'c>,
        end: Val<'c>,
        tail: Tail,
    ) -> Result<Val<'c>, Error> {
        let before = self.e.here();
        let (head, turn, done) = (self.e.block("lanes"), self.e.block("vector"), self.e.block("lanes.done"));
        self.e.jump(head);
        self.e.continue_at(head);
        let e = &self.e;
        let first_in = e.phi(begin.get_type());
        let first = first_in.as_basic_value();
        // A rotation by nothing, which the selection of instructions drops. LLVM's strength reduction does not see through
        // it, and has nothing to do: it costs a third of a small kernel's compilation, and addresses have a form that the
        // processor's instructions have.
        let step = e.add(first, e.int_like(first, u64::from(e.width)));
        let next = e.math("llvm.fshl", &[step, step, e.int_like(step, 0)]);
        let more = match tail {
            Tail::Left => e.icmp(IntPredicate::ULE, next, end),
            Tail::Masked => e.icmp(IntPredicate::ULT, first, end),
        };
        e.branch(more.into_int_value(), turn, done);
        e.continue_at(turn);
        let existing = (tail == Tail::Masked).then(|| {
            let width = e.int_like(first, u64::from(e.width));
            let left = e.trunc(e.math("llvm.umin", &[e.sub(end, first), width]), 32);
            e.icmp(IntPredicate::ULT, e.iota(32), e.splat(left))
        });
        let past_caches = match (tail, self.streams) {
            (Tail::Left, streams) => streams,
            // What a loop over whole vectors left is no whole one.
            (Tail::Masked, Some(streams)) if !self.remainder => {
                let whole = e.icmp(IntPredicate::ULE, next, end);
                Some(e.and(streams.into(), whole).into_int_value())
            }
            (Tail::Masked, _) => None,
        };
        self.lanes = Lanes { first, existing, active: existing, past_caches, ..self.lanes };
        self.lane_block(block)?;
        first_in.add_incoming(&[(&begin, before), (&next, self.e.here())]);
        self.e.jump(head);
        self.e.continue_at(done);
        Ok(first)
    }

    /// Runs a block for the lanes from `begin`, a vector for each group of accumulators at a time; yields the first lane
    /// that is left. The accumulators are in registers meanwhile.
    fn rounds(&mut self, block: &Block, begin: Val<'c>, end: Val<'c>) -> Result<Val<'c>, Error> {
        let identities = self.identities();
        let identities = self.for_all_groups(identities);
        let before = self.e.here();
        let (head, turn, done) = (self.e.block("rounds"), self.e.block("round"), self.e.block("rounds.done"));
        self.e.jump(head);
        self.e.continue_at(head);
        let e = &self.e;
        let first_in = e.phi(begin.get_type());
        let first = first_in.as_basic_value();
        let phis: Vec<Vec<_>> = identities
            .iter()
            .map(|groups| groups.iter().map(|identity| e.phi(identity.get_type())).collect())
            .collect();
        let next = e.add(first, e.int_like(first, ACCUMULATORS as u64));
        let more = e.icmp(IntPredicate::ULE, next, end);
        e.branch(more.into_int_value(), turn, done);
        e.continue_at(turn);
        let mut sums: Vec<Vec<_>> =
            phis.iter().map(|groups| groups.iter().map(|phi| phi.as_basic_value()).collect()).collect();
        for group in 0..ACCUMULATORS as u32 / self.e.width {
            let offset = self.e.int_like(first, u64::from(group * self.e.width));
            self.lanes = Lanes {
                first: self.e.add(first, offset),
                existing: None,
                active: None,
                past_caches: self.streams,
                ..self.lanes
            };
            self.registers = Some(sums.iter().map(|groups| groups[group as usize]).collect());
            self.lane_block(block)?;
            let combined = self.registers.take().expect("they were put there");
            sums.iter_mut().zip(combined).for_each(|(groups, sum)| groups[group as usize] = sum);
        }
        let latch = self.e.here();
        first_in.add_incoming(&[(&begin, before), (&next, latch)]);
        for ((phis, identities), sums) in phis.iter().zip(&identities).zip(&sums) {
            for ((phi, identity), sum) in phis.iter().zip(identities).zip(sums) {
                phi.add_incoming(&[(identity, before), (sum, latch)]);
            }
        }
        self.e.jump(head);
        self.e.continue_at(done);
        let sums: Vec<Vec<_>> =
            phis.iter().map(|groups| groups.iter().map(|phi| phi.as_basic_value()).collect()).collect();
        self.store_accumulators(&sums);
        Ok(first)
    }

    /// The body's own block, where reductions stand.
    fn lane_block(&mut self, block: &Block) -> Result<(), Error> {
        let mut slot = 0;
        for inst in &block.insts {
            if inst.op.class() == Class::Reduce {
                self.reduce(slot, inst)?;
                slot += inst.reduced().len();
            } else {
                self.inst(inst)?;
            }
        }
        Ok(())
    }

    /// The finish of a segment, whose results are in that row.
    fn finish_segment(
        &mut self,
        block: &Block,
        results: PointerValue<'c>,
        row: Val<'c>,
    ) -> Result<(), Error> {
        for (k, &param) in block.params.iter().enumerate() {
            let e = &self.e;
            let first = e.mul(row, e.int_like(row, block.params.len() as u64));
            let at = e.add(first, e.int_like(first, k as u64));
            let at = e.address(e.int(64, Form::Uniform), results, at).into_pointer_value();
            let value = load_element(e, self.program.dtype(param), at);
            self.set(param, value);
        }
        self.block(block)
    }

    /// A loop that runs `turn` with each number from `begin` to below `end`.
    fn counted(
        &mut self,
        begin: Val<'c>,
        end: Val<'c>,
        turn: impl FnOnce(&mut Self, Val<'c>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let before = self.e.here();
        let [head, again, done] = ["count", "counted", "count.done"].map(|name| self.e.block(name));
        self.e.jump(head);
        self.e.continue_at(head);
        let at_in = self.e.phi(begin.get_type());
        let at = at_in.as_basic_value();
        let more = self.e.icmp(IntPredicate::ULT, at, end);
        self.e.branch(more.into_int_value(), again, done);
        self.e.continue_at(again);
        turn(self, at)?;
        let next = self.e.add(at, self.e.int_like(at, 1));
        at_in.add_incoming(&[(&begin, before), (&next, self.e.here())]);
        self.e.jump(head);
        self.e.continue_at(done);
        Ok(())
    }
}
