//! Reductions in the order of `jit_core::reduce`: one call of a body is one chunk, with 128 accumulators of
//! which each vector of lanes changes as many as it has lanes; they are folded by halving at the end.
//!
//! A short body runs once for all accumulators in turn (a *round*), so that they stay in registers; those of a long one
//! are in memory.

use jit_core::dtype::DType;
use jit_core::error::Error;
use jit_core::ir::Value;
use jit_core::op::{Op, scalar};
use jit_core::reduce::ACCUMULATORS;

use inkwell::values::{BasicValue, PointerValue};

use super::emit::{Emit, Form, Val};
use super::memory::{from_memory, to_memory};
use super::{Gen, lane};

/// A round has at most this many instructions, the body's for each vector of it.
const LONG_ROUND: usize = 64;

/// Accumulators that fit into registers beside what a body needs: AVX-512 and NEON have 32 of them.
const REGISTERS: usize = 24;

impl<'c> Gen<'c, '_> {
    /// Whether to run the body in rounds.
    pub(super) fn accumulates_in_registers(&self) -> bool {
        let groups = ACCUMULATORS / self.e.width as usize;
        let body = &self.program.body;
        let vectors = |(_, dtype): (Op, DType)| groups * dtype.size().div_ceil(4);
        let needed: usize = self.program.reductions().into_iter().map(vectors).sum();
        (1..=REGISTERS).contains(&needed)
            && body.inst_count() * groups <= LONG_ROUND
            && body.insts.iter().all(|inst| inst.blocks.is_empty())
    }

    /// Makes memory for the accumulators.
    pub(super) fn make_accumulators(&mut self) {
        for (_, dtype) in self.program.reductions() {
            let ty = self.entry.memory(dtype, Form::Uniform);
            let accumulators = self.stack(ty, ACCUMULATORS as u32);
            // A vector across two lines of the cache takes twice as long.
            let alloca = accumulators.as_instruction_value().expect("an instruction");
            alloca.set_alignment(64).expect("a power of two");
            self.accumulators.push(accumulators);
        }
    }

    /// What accumulators start at, by reduction and group.
    pub(super) fn identities(&self) -> Vec<Vec<Val<'c>>> {
        let groups = ACCUMULATORS / self.e.width as usize;
        let each = self.program.reductions().into_iter();
        each.map(|(combine, dtype)| {
            let identity = scalar::identity(combine, dtype);
            vec![self.e.const_bits(dtype, identity, Form::Varying); groups]
        })
        .collect()
    }

    /// Combines the lanes that exist with their accumulators.
    pub(super) fn reduce(&mut self, which: usize, combine: Op, value: Value) -> Result<(), Error> {
        let dtype = self.program.dtype(value);
        let value = self.lanes_of(value);
        let e = &self.e;
        if let Some(registers) = &mut self.registers {
            registers[which] = lane::lane_op(e, combine, dtype, dtype, &[registers[which], value])?;
            return Ok(());
        }
        // A chunk starts at a multiple of 1024 lanes.
        let first = e.and(self.lanes.first, e.int_like(self.lanes.first, ACCUMULATORS as u64 - 1));
        let at = e.address(e.memory(dtype, Form::Uniform), self.accumulators[which], first);
        let at = at.into_pointer_value();
        let align = self.group_alignment(dtype);
        let old = from_memory(e, dtype, e.load(e.memory(dtype, Form::Varying), at, align));
        let mut new = lane::lane_op(e, combine, dtype, dtype, &[old, value])?;
        if let Some(existing) = self.lanes.existing {
            new = e.select(existing, new, old);
        }
        e.store(to_memory(e, dtype, new), at, align);
        Ok(())
    }

    /// Stores values of the accumulators to their memory.
    pub(super) fn store_accumulators(&self, values: &[Vec<Val<'c>>]) {
        let e = &self.e;
        for (((_, dtype), &accumulators), groups) in
            self.program.reductions().into_iter().zip(&self.accumulators).zip(values)
        {
            for (&value, group) in groups.iter().zip(0..) {
                let at = group_address(e, dtype, accumulators, group);
                e.store(to_memory(e, dtype, value), at, self.group_alignment(dtype));
            }
        }
    }

    fn load_groups(&self, dtype: DType, accumulators: PointerValue<'c>) -> Vec<Val<'c>> {
        let e = &self.e;
        let load = |group| {
            let at = group_address(e, dtype, accumulators, group);
            from_memory(e, dtype, e.load(e.memory(dtype, Form::Varying), at, self.group_alignment(dtype)))
        };
        (0..ACCUMULATORS as u32 / e.width).map(load).collect()
    }

    fn group_alignment(&self, dtype: DType) -> u32 {
        (dtype.size() as u32 * self.e.width).min(64)
    }

    /// Folds the accumulators and writes the chunk's results, each as the bits of a u64.
    pub(super) fn end_reductions(&mut self, results: PointerValue<'c>) -> Result<(), Error> {
        for (which, (combine, dtype)) in self.program.reductions().into_iter().enumerate() {
            let result = self.fold(which, combine, dtype)?;
            let e = &self.e;
            let bits = e.bitcast(result, e.int(dtype.bits(), Form::Uniform));
            let wide = if dtype.bits() == 64 { bits } else { e.zext(bits, 64) };
            let slot = e.const_int(64, which as u64, Form::Uniform);
            let at = e.address(e.int(64, Form::Uniform), results, slot);
            e.store(wide, at.into_pointer_value(), 8);
        }
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
