//! Reductions in the order of `jit_core::reduce`: one call of a body is one chunk, with 128 accumulators of
//! which each vector of lanes changes as many as it has lanes; they are folded by halving at the end. A chunk of many
//! columns at once is the matter of [`columns`](super::columns).
//!
//! A short body runs once for all accumulators in turn (a *round*), so that they stay in registers; those of a long one
//! are in memory.
//!
//! Each part of a reduction's state is a *slot*: it has accumulators of its own.

use jit_core::dtype::DType;
use jit_core::error::Error;
use jit_core::ir::{Inst, Reduction};
use jit_core::op::{Op, scalar};
use jit_core::reduce::ACCUMULATORS;

use inkwell::IntPredicate;
use inkwell::values::{BasicValue, PointerValue};

use super::emit::{Emit, Form, Val};
use super::memory::{from_memory, to_memory};
use super::{Gen, lane};

/// A round has at most this many instructions, the body's for each vector of it.
const LONG_ROUND: usize = 64;

/// Accumulators that fit into registers beside what a body needs: AVX-512 and NEON have 32 of them.
const REGISTERS: usize = 24;

/// Where the accumulators of lanes are.
#[derive(Clone, Copy)]
pub(super) enum Placement<'c> {
    /// Lane `i` has number `i mod 128`: a chunk starts at a multiple of 1024 lanes.
    Launch,
    /// The chunk starts at this lane.
    Chunk(Val<'c>),
    /// Of many columns: lane `i` has its own at `i` plus this.
    Row(Val<'c>),
}

impl<'c> Gen<'c, '_> {
    /// Whether to run the body in rounds.
    pub(super) fn accumulates_in_registers(&self) -> bool {
        let groups = ACCUMULATORS / self.e.width as usize;
        let body = &self.program.body;
        let needed: usize = self.slots().iter().map(|dtype| groups * dtype.size().div_ceil(4)).sum();
        let flat = |inst: &Inst| inst.blocks.iter().flat_map(|b| &b.insts).all(|inst| inst.blocks.is_empty());
        (1..=REGISTERS).contains(&needed)
            && body.inst_count() * groups <= LONG_ROUND
            && body.insts.iter().all(|inst| inst.blocks.is_empty() || inst.op == Op::Reduce && flat(inst))
    }

    /// The types of all states.
    pub(super) fn slots(&self) -> Vec<DType> {
        slots(&self.program.reductions())
    }

    /// Makes memory for the accumulators.
    pub(super) fn make_accumulators(&mut self) {
        for dtype in self.slots() {
            let ty = self.entry.memory(dtype, Form::Uniform);
            let accumulators = self.stack(ty, ACCUMULATORS as u32);
            // A vector across two lines of the cache takes twice as long.
            let alloca = accumulators.as_instruction_value().expect("an instruction");
            alloca.set_alignment(64).expect("a power of two");
            self.accumulators.push(accumulators);
        }
    }

    /// What accumulators start at, by slot.
    pub(super) fn identities(&mut self) -> Vec<Val<'c>> {
        let program = self.program;
        let mut identities = Vec::new();
        for inst in program.reduce_insts() {
            if let Some(combine) = inst.op.combine() {
                let dtype = program.dtype(inst.args[0]);
                let bits = scalar::identity(combine, dtype);
                identities.push(self.e.const_bits(dtype, bits, self.lanes.form));
            } else {
                identities.extend(inst.identity().iter().map(|&value| self.lanes_of(value)));
            }
        }
        identities
    }

    /// Combines the lanes that exist with their accumulators. `slot` is the first of the reduction's.
    pub(super) fn reduce(&mut self, slot: usize, inst: &Inst) -> Result<(), Error> {
        let values: Vec<Val<'c>> = inst.reduced().iter().map(|&value| self.lanes_of(value)).collect();
        let types: Vec<DType> = inst.reduced().iter().map(|&value| self.program.dtype(value)).collect();
        let own = slot..slot + types.len();
        if let Some(registers) = &self.registers {
            let old = registers[own.clone()].to_vec();
            let new = self.combine(inst, &old, &values)?;
            let registers = self.registers.as_mut().expect("they were there");
            registers[own].copy_from_slice(&new);
            return Ok(());
        }
        let e = &self.e;
        let in_chunk = |lane: Val<'c>| e.and(lane, e.int_like(lane, ACCUMULATORS as u64 - 1));
        let first = match self.placement {
            Placement::Launch => in_chunk(self.lanes.first),
            Placement::Chunk(start) => in_chunk(e.sub(self.lanes.first, start)),
            Placement::Row(shift) => e.add(self.lanes.first, shift),
        };
        let accumulators = self.accumulators[own].to_vec();
        let at: Vec<PointerValue<'c>> = accumulators
            .iter()
            .zip(&types)
            .map(|(&accumulators, &dtype)| element_address(e, dtype, accumulators, first))
            .collect();
        let old: Vec<Val<'c>> =
            at.iter().zip(&types).map(|(&at, &dtype)| self.load_group(dtype, at)).collect();
        let new = self.combine(inst, &old, &values)?;
        for (((new, old), &at), &dtype) in new.into_iter().zip(old).zip(&at).zip(&types) {
            let new = self.lanes.existing.map_or(new, |existing| self.e.select(existing, new, old));
            self.e.store(to_memory(&self.e, dtype, new), at, self.group_alignment(dtype));
        }
        Ok(())
    }

    /// Two states as one, lane by lane.
    pub(super) fn combine(
        &mut self,
        inst: &Inst,
        a: &[Val<'c>],
        b: &[Val<'c>],
    ) -> Result<Vec<Val<'c>>, Error> {
        if let Some(combine) = inst.op.combine() {
            let dtype = self.program.dtype(inst.args[0]);
            return Ok(vec![lane::lane_op(&self.e, combine, dtype, dtype, &[a[0], b[0]])?]);
        }
        let block = &inst.blocks[0];
        for (&param, &value) in block.params.iter().zip(a.iter().chain(b)) {
            self.set(param, value);
        }
        self.block(block)?;
        Ok(block.yields.iter().map(|&value| self.lanes_of(value)).collect())
    }

    /// Stores values of the accumulators to their memory: by slot those of each group, or one for all of them.
    pub(super) fn store_accumulators(&self, values: &[Vec<Val<'c>>]) {
        let e = &self.e;
        for ((dtype, &accumulators), groups) in self.slots().into_iter().zip(&self.accumulators).zip(values) {
            for (&value, group) in groups.iter().zip(0..) {
                let at = group_address(e, dtype, accumulators, group);
                e.store(to_memory(e, dtype, value), at, self.group_alignment(dtype));
            }
        }
    }

    /// A value for each slot, once for each group of accumulators.
    pub(super) fn for_all_groups(&self, values: Vec<Val<'c>>) -> Vec<Vec<Val<'c>>> {
        let groups = ACCUMULATORS / self.e.width as usize;
        values.into_iter().map(|value| vec![value; groups]).collect()
    }

    fn load_groups(&self, dtype: DType, accumulators: PointerValue<'c>) -> Vec<Val<'c>> {
        let e = &self.e;
        let load = |group| self.load_group(dtype, group_address(e, dtype, accumulators, group));
        (0..ACCUMULATORS as u32 / e.width).map(load).collect()
    }

    pub(super) fn load_group(&self, dtype: DType, at: PointerValue<'c>) -> Val<'c> {
        let e = &self.e;
        from_memory(e, dtype, e.load(e.memory(dtype, self.lanes.form), at, self.group_alignment(dtype)))
    }

    pub(super) fn group_alignment(&self, dtype: DType) -> u32 {
        match self.lanes.form {
            Form::Uniform => dtype.size() as u32,
            Form::Varying => (dtype.size() as u32 * self.e.width).min(64),
        }
    }

    /// Folds the accumulators of a chunk of so many lanes and writes its results, each as the bits of a u64.
    pub(super) fn end_reductions(&mut self, results: PointerValue<'c>, lanes: Val<'c>) -> Result<(), Error> {
        self.lanes.existing = None;
        self.lanes.active = None;
        let program = self.program;
        let mut slot = 0;
        for inst in program.reduce_insts() {
            let states = inst.reduced().len();
            let totals = match inst.op.combine() {
                Some(combine) => vec![self.fold(slot, combine, program.dtype(inst.args[0]))?],
                None => {
                    let count = accumulators(&self.e, lanes);
                    self.fold_by_block(slot, inst, count, 1)?;
                    let own = slot..slot + states;
                    let pairs = own.zip(inst.reduced());
                    let first = |(slot, &value): (usize, _)| {
                        super::memory::load_element(&self.e, program.dtype(value), self.accumulators[slot])
                    };
                    pairs.map(first).collect()
                }
            };
            let types = inst.reduced().iter().map(|&value| program.dtype(value));
            for ((total, dtype), slot) in totals.into_iter().zip(types).zip(slot..) {
                let at = self.e.const_int(64, slot as u64, Form::Uniform);
                store_result(&self.e, dtype, total, results, at);
            }
            slot += states;
        }
        Ok(())
    }

    /// Folds `count` accumulators of a reduction by halving, in their memory. Each is a row of `width` elements, of which all
    /// are folded; where that is 1, a vector takes several accumulators.
    pub(super) fn fold_by_block(
        &mut self,
        slot: usize,
        inst: &Inst,
        count: Val<'c>,
        width: u64,
    ) -> Result<(), Error> {
        let types: Vec<DType> = inst.reduced().iter().map(|&value| self.program.dtype(value)).collect();
        let memory = self.accumulators[slot..slot + types.len()].to_vec();
        let lanes = match self.lanes.form {
            Form::Uniform => 1,
            Form::Varying => u64::from(self.e.width),
        };
        let before = self.e.here();
        let [halves, half_again, elements, folded] =
            ["halves", "half", "elements", "folded"].map(|name| self.e.block(name));
        self.e.jump(halves);

        self.e.continue_at(halves);
        let e = &self.e;
        let last_count = e.phi(count.get_type());
        let half = e.lshr(last_count.as_basic_value(), e.int_like(count, 1));
        let more = e.icmp(IntPredicate::NE, half, e.int_like(half, 0));
        e.branch(more.into_int_value(), half_again, folded);

        e.continue_at(half_again);
        let distance = e.mul(half, e.int_like(half, width));
        e.jump(elements);

        e.continue_at(elements);
        let at_in = e.phi(count.get_type());
        let at = at_in.as_basic_value();
        at_in.add_incoming(&[(&e.int_like(at, 0), half_again)]);
        let upper = e.add(at, distance);
        // A vector may reach past the half: what it leaves there nobody uses any more.
        let load = |first: Val<'c>| -> Vec<Val<'c>> {
            let each = memory.iter().zip(&types);
            each.map(|(&memory, &dtype)| {
                let ty = e.memory(dtype, self.lanes.form);
                let at = element_address(e, dtype, memory, first);
                from_memory(e, dtype, e.load(ty, at, dtype.size() as u32))
            })
            .collect()
        };
        let (a, b) = (load(at), load(upper));
        let new = self.combine(inst, &a, &b)?;
        let e = &self.e;
        for ((new, &memory), &dtype) in new.into_iter().zip(&memory).zip(&types) {
            let at = element_address(e, dtype, memory, at);
            e.store(to_memory(e, dtype, new), at, dtype.size() as u32);
        }
        let next = e.add(at, e.int_like(at, lanes));
        let more = e.icmp(IntPredicate::ULT, next, distance);
        let latch = e.here();
        at_in.add_incoming(&[(&next, latch)]);
        e.branch(more.into_int_value(), elements, halves);
        last_count.add_incoming(&[(&count, before), (&half, latch)]);
        e.continue_at(folded);
        Ok(())
    }

    fn fold(&self, which: usize, combine: Op, dtype: DType) -> Result<Val<'c>, Error> {
        let e = &self.e;
        let op = |a, b| lane::lane_op(e, combine, dtype, dtype, &[a, b]);
        let mut groups = self.load_groups(dtype, self.accumulators[which]);
        while groups.len() > 1 {
            let upper = groups.split_off(groups.len() / 2);
            groups = groups.into_iter().zip(upper).map(|(a, b)| op(a, b)).collect::<Result<_, _>>()?;
        }
        let mut last = groups[0];
        let mut half = e.width / 2;
        while half > 0 {
            // Lanes from `half` on hold what nobody uses any more.
            let lanes: Vec<u32> = (0..e.width).map(|k| (k + half) % e.width).collect();
            last = op(last, e.shuffle(last, &lanes))?;
            half /= 2;
        }
        Ok(e.extract(last, 0))
    }
}

/// The types of the states of reductions.
pub(super) fn slots(reductions: &[Reduction]) -> Vec<DType> {
    reductions.iter().flat_map(|reduction| reduction.types.iter().copied()).collect()
}

/// The number of accumulators of a chunk of at least one lane, as `jit_core::reduce::accumulators` has it.
pub(super) fn accumulators<'c>(e: &Emit<'c>, lanes: Val<'c>) -> Val<'c> {
    let last = e.sub(lanes, e.int_like(lanes, 1));
    let last = e.math("llvm.umin", &[last, e.int_like(last, ACCUMULATORS as u64 - 1)]);
    let zeros = e.intrinsic("llvm.ctlz", &[last.get_type()], &[last, e.const_int(1, 0, Form::Uniform)]);
    let bits = e.sub(e.int_like(last, 64), zeros);
    e.shl(e.int_like(bits, 1), bits)
}

/// Stores a result as the bits of a u64.
pub(super) fn store_result<'c>(
    e: &Emit<'c>,
    dtype: DType,
    result: Val<'c>,
    results: PointerValue<'c>,
    at: Val<'c>,
) {
    let bits = e.bitcast(result, e.int(dtype.bits(), Form::Uniform));
    let wide = if dtype.bits() == 64 { bits } else { e.zext(bits, 64) };
    let at = e.address(e.int(64, Form::Uniform), results, at);
    e.store(wide, at.into_pointer_value(), 8);
}

/// The address of an element from `memory` on.
pub(super) fn element_address<'c>(
    e: &Emit<'c>,
    dtype: DType,
    memory: PointerValue<'c>,
    at: Val<'c>,
) -> PointerValue<'c> {
    e.address(e.memory(dtype, Form::Uniform), memory, at).into_pointer_value()
}

/// The address of the accumulators that one vector of lanes changes.
fn group_address<'c>(
    e: &Emit<'c>,
    dtype: DType,
    accumulators: PointerValue<'c>,
    group: u32,
) -> PointerValue<'c> {
    let first = e.const_int(64, u64::from(group * e.width), Form::Uniform);
    e.address(e.memory(dtype, Form::Uniform), accumulators, first).into_pointer_value()
}
