//! Reductions in the order of `jit_core::reduce`: one call of a body is one chunk, with 128 accumulators in memory of
//! which each vector of lanes changes as many as it has lanes; they are folded by halving at the end.

use jit_core::dtype::DType;
use jit_core::error::Error;
use jit_core::ir::Value;
use jit_core::op::{Op, scalar};
use jit_core::reduce::ACCUMULATORS;

use inkwell::values::PointerValue;

use super::emit::{Form, Val};
use super::memory::{from_memory, to_memory};
use super::{Gen, lane};

impl<'c> Gen<'c, '_> {
    /// Makes the accumulators and sets them to the identities.
    pub(super) fn start_reductions(&mut self) {
        for (combine, dtype) in self.program.reductions() {
            let e = &self.entry;
            let accumulators = self.stack(e.memory(dtype, Form::Uniform), ACCUMULATORS as u32);
            let identity = e.const_bits(dtype, scalar::identity(combine, dtype), Form::Varying);
            let identity = to_memory(e, dtype, identity);
            for group in 0..ACCUMULATORS as u32 / e.width {
                let first = e.const_int(64, u64::from(group * e.width), Form::Uniform);
                let at = e.address(e.memory(dtype, Form::Uniform), accumulators, first);
                e.store(identity, at.into_pointer_value(), dtype.size() as u32);
            }
            self.accumulators.push(accumulators);
        }
    }

    /// Combines the lanes that exist with their accumulators.
    pub(super) fn reduce(&mut self, which: usize, combine: Op, value: Value) -> Result<(), Error> {
        let dtype = self.program.dtype(value);
        let value = self.lanes_of(value);
        let e = &self.e;
        // A chunk starts at a multiple of 1024 lanes.
        let first = e.and(self.lanes.first, e.int_like(self.lanes.first, ACCUMULATORS as u64 - 1));
        let at = e.address(e.memory(dtype, Form::Uniform), self.accumulators[which], first);
        let at = at.into_pointer_value();
        let align = dtype.size() as u32;
        let old = from_memory(e, dtype, e.load(e.memory(dtype, Form::Varying), at, align));
        let mut new = lane::lane_op(e, combine, dtype, dtype, &[old, value])?;
        if let Some(existing) = self.lanes.existing {
            new = e.select(existing, new, old);
        }
        e.store(to_memory(e, dtype, new), at, align);
        Ok(())
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
        let mut groups: Vec<Val<'c>> = (0..ACCUMULATORS as u32 / e.width)
            .map(|group| {
                let first = e.const_int(64, u64::from(group * e.width), Form::Uniform);
                let at = e.address(e.memory(dtype, Form::Uniform), self.accumulators[which], first);
                let ty = e.memory(dtype, Form::Varying);
                from_memory(e, dtype, e.load(ty, at.into_pointer_value(), dtype.size() as u32))
            })
            .collect();
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
