//! Switches. With a number that all lanes share, one jump. With one for each lane, a loop: the first lane that waits says
//! the number, a jump goes to that block, which runs under the mask of all waiting lanes with this number, and these wait no
//! longer. So each block is compiled once, and a vector of lanes runs as many of them as its lanes have numbers: one where
//! neighbours agree. (GPU compilers call this a waterfall loop.)

use inkwell::IntPredicate;
use inkwell::basic_block::BasicBlock;
use inkwell::values::IntValue;
use jit_core::error::Error;
use jit_core::ir::Inst;

use super::Gen;
use super::emit::{Form, Val, form};

impl<'c> Gen<'c, '_> {
    pub(super) fn run_switch(&mut self, inst: &Inst) -> Result<(), Error> {
        let number = self.case_number(inst);
        let results = match form(number) {
            Form::Uniform => self.jump_together(inst, number.into_int_value())?,
            Form::Varying => self.jump_by_number(inst, number)?,
        };
        for (result, value) in self.scalars(&inst.results).into_iter().zip(results) {
            self.set(result, value);
        }
        Ok(())
    }

    /// The number of the block to run, as 32 bits.
    fn case_number(&self, inst: &Inst) -> Val<'c> {
        let (e, ty) = (&self.e, self.program.dtype(inst.args[0]));
        let number = self.get(inst.args[0]);
        // A negative number, read as unsigned, is past any.
        let number = match (ty.bits(), ty.is_signed()) {
            (32 | 64, _) => number,
            (_, true) => e.sext(number, 32),
            (_, false) => e.zext(number, 32),
        };
        let last = e.int_like(number, inst.blocks.len() as u64 - 1);
        let known = e.icmp(IntPredicate::ULT, number, last);
        e.narrow(e.select(known, number, last), 32)
    }

    /// The block of a number that all lanes share, for all of them.
    fn jump_together(&mut self, inst: &Inst, number: IntValue<'c>) -> Result<Vec<Val<'c>>, Error> {
        let done = self.e.block("switched");
        let ends = self.cases(inst, number, done)?;
        self.e.continue_at(done);
        Ok(self.merged(&ends))
    }

    /// For each number among the lanes its block, under the mask of the lanes that have it.
    fn jump_by_number(&mut self, inst: &Inst, number: Val<'c>) -> Result<Vec<Val<'c>>, Error> {
        let results = self.scalars(&inst.results);
        let outer = self.lanes.active;
        let entering = self.mask_or_all(outer);
        let start: Vec<Val<'c>> = results
            .iter()
            .map(|&r| self.e.register(self.program.dtype(r), Form::Varying).const_zero())
            .collect();

        let before = self.e.here();
        let (head, latch, done) =
            (self.e.block("switch"), self.e.block("switch.case.done"), self.e.block("switched"));
        self.e.jump(head);
        self.e.continue_at(head);
        let waiting = self.e.phi(entering.get_type());
        waiting.add_incoming(&[(&entering, before)]);
        let so_far: Vec<_> = start.iter().map(|v| self.e.phi(v.get_type())).collect();
        for (phi, value) in so_far.iter().zip(&start) {
            phi.add_incoming(&[(value, before)]);
        }
        let all = waiting.as_basic_value();
        let first = self.of_first_lane(all, number);
        let mine = self.e.and(all, self.e.icmp(IntPredicate::EQ, number, self.e.splat(first)));
        self.lanes.active = Some(mine);
        let ends = self.cases(inst, first.into_int_value(), latch)?;
        self.lanes.active = outer;

        self.e.continue_at(latch);
        let next: Vec<Val<'c>> = self
            .merged(&ends)
            .into_iter()
            .zip(&so_far)
            .map(|(value, phi)| self.e.select(mine, value, phi.as_basic_value()))
            .collect();
        let rest = self.e.and(all, self.e.not(mine));
        waiting.add_incoming(&[(&rest, latch)]);
        for (phi, value) in so_far.iter().zip(&next) {
            phi.add_incoming(&[(value, latch)]);
        }
        self.e.branch(self.e.any(rest), head, done);
        self.e.continue_at(done);
        Ok(next)
    }

    /// Jumps to the block of a number; each block ends with a jump to `done`. What the blocks yield, and where they end.
    fn cases(
        &mut self,
        inst: &Inst,
        number: IntValue<'c>,
        done: BasicBlock<'c>,
    ) -> Result<Vec<(Vec<Val<'c>>, BasicBlock<'c>)>, Error> {
        let blocks: Vec<BasicBlock<'c>> = inst.blocks.iter().map(|_| self.e.block("case")).collect();
        let (&otherwise, numbered) = blocks.split_last().expect("a switch has blocks");
        let constant = |k: usize| self.e.const_int(32, k as u64, Form::Uniform).into_int_value();
        let cases: Vec<_> = numbered.iter().enumerate().map(|(k, &block)| (constant(k), block)).collect();
        self.e.switch(number, otherwise, &cases);
        let mut ends = Vec::with_capacity(blocks.len());
        for (block, at) in inst.blocks.iter().zip(blocks) {
            self.e.continue_at(at);
            let values = self.yields(block, &inst.results)?;
            ends.push((values, self.e.here()));
            self.e.jump(done);
        }
        Ok(ends)
    }

    /// What each result is where the blocks' ends meet.
    fn merged(&self, ends: &[(Vec<Val<'c>>, BasicBlock<'c>)]) -> Vec<Val<'c>> {
        let results = ends[0].0.len();
        let of = |k: usize| ends.iter().map(|(values, end)| (values[k], *end)).collect::<Vec<_>>();
        (0..results).map(|k| self.e.merge(&of(k))).collect()
    }

    /// The element of the first lane of a mask; if that is empty, of lane 0.
    fn of_first_lane(&self, mask: Val<'c>, values: Val<'c>) -> Val<'c> {
        let e = &self.e;
        let bits = e.mask_bits(mask);
        let last = bits.get_type().const_int(u64::from(e.width - 1), false);
        let not_poison = e.const_int(1, 0, Form::Uniform);
        let lane = e.intrinsic("llvm.cttz", &[bits.get_type().into()], &[bits.into(), not_poison]);
        // Of an empty mask the count is the width.
        let lane = e.and(lane, last.into());
        e.extract_at(values, lane.into_int_value())
    }
}
