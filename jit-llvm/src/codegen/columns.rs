//! The body of a program whose reductions have the columns of a matrix: a call takes a strip of columns, and of their
//! rows one chunk, row by row, so that what it reads of a row lies together.
//!
//! Each accumulator of a column has a place in a row of accumulators, as wide as the widest strip.

use inkwell::IntPredicate;
use inkwell::values::PointerValue;
use jit_core::error::Error;
use jit_core::reduce::ACCUMULATORS;

use super::Gen;
use super::emit::{Form, Val};
use super::frame::{Tail, long_body};
use super::memory::{load_element, to_memory};
use super::reduction::{Placement, accumulators, element_address, store_result};

/// The most columns of a strip: what a call reads of a row is some lines of the cache.
pub(crate) const STRIP: u64 = 128;

/// What a call is told of its strip; with `begin` the first lane, and `end` that of the next column after the strip, all
/// in the chunk's first row.
#[repr(C)]
pub(crate) struct Strip {
    /// Memory for accumulators: for each slot 128 times [`STRIP`] elements, aligned to 64 bytes.
    pub(crate) scratch: *mut u8,
    /// Lanes of a row.
    pub(crate) stride: u64,
    /// Rows of the chunk, at least 1.
    pub(crate) rows: u64,
}

impl<'c> Gen<'c, '_> {
    /// Writes the body; `strip` points to a [`Strip`].
    pub(super) fn columns(
        &mut self,
        strip: PointerValue<'c>,
        begin: Val<'c>,
        end: Val<'c>,
        results: PointerValue<'c>,
    ) -> Result<(), Error> {
        let program = self.program;
        let slots = self.slots();
        let number = self.entry.int(64, Form::Uniform);
        let field = |k: u64| {
            let at = self.entry.address(number, strip, self.entry.const_int(64, k, Form::Uniform));
            at.into_pointer_value()
        };
        let pointer = self.entry.context.ptr_type(inkwell::AddressSpace::default()).into();
        let mut scratch = self.entry.load(pointer, field(0), 8).into_pointer_value();
        let [stride, rows] = [1, 2].map(|k| self.entry.load(number, field(k), 8));
        for dtype in &slots {
            self.accumulators.push(scratch);
            let all = self.entry.const_int(64, ACCUMULATORS as u64 * STRIP, Form::Uniform);
            scratch = element_address(&self.entry, *dtype, scratch, all);
        }
        let count = accumulators(&self.e, rows);
        self.start_columns(count);

        // The rows.
        let before = self.e.here();
        let [head, row, done] = ["rows", "row", "rows.done"].map(|name| self.e.block(name));
        self.e.jump(head);
        self.e.continue_at(head);
        let e = &self.e;
        let (row_in, first_in) = (e.phi(number), e.phi(number));
        let (at, first) = (row_in.as_basic_value(), first_in.as_basic_value());
        let more = e.icmp(IntPredicate::ULT, at, rows);
        e.branch(more.into_int_value(), row, done);
        e.continue_at(row);
        let end_of_row = e.add(first, e.sub(end, begin));
        let accumulator = e.and(at, e.int_like(at, ACCUMULATORS as u64 - 1));
        let shift = e.sub(e.mul(accumulator, e.int_like(at, STRIP)), first);
        self.placement = Placement::Row(shift);
        let mut left = first;
        if program.inst_count() <= long_body(&self.e.target) {
            left = self.lane_loop(&program.body, first, end_of_row, Tail::Left)?;
            self.remainder = true;
        }
        self.lane_loop(&program.body, left, end_of_row, Tail::Masked)?;
        self.remainder = false;
        let e = &self.e;
        let latch = e.here();
        let next = [e.add(at, e.int_like(at, 1)), e.add(first, stride)];
        row_in.add_incoming(&[(&e.int_like(at, 0), before), (&next[0], latch)]);
        first_in.add_incoming(&[(&begin, before), (&next[1], latch)]);
        e.jump(head);
        e.continue_at(done);

        self.lanes.existing = None;
        self.lanes.active = None;
        let mut slot = 0;
        for inst in program.reduce_insts() {
            self.fold_by_block(slot, inst, count, STRIP)?;
            slot += inst.reduced().len();
        }
        self.end_columns(self.e.sub(end, begin), results);
        Ok(())
    }

    /// Has `count` rows of accumulators start at the identities.
    fn start_columns(&mut self, count: Val<'c>) {
        let identities = self.identities();
        let e = &self.e;
        let before = e.here();
        let [head, done] = ["start", "started"].map(|name| e.block(name));
        e.jump(head);
        e.continue_at(head);
        let at_in = e.phi(count.get_type());
        let at = at_in.as_basic_value();
        for ((dtype, &accumulators), &identity) in
            self.slots().iter().zip(&self.accumulators).zip(&identities)
        {
            let at = element_address(e, *dtype, accumulators, at);
            e.store(to_memory(e, *dtype, identity), at, self.group_alignment(*dtype));
        }
        let next = e.add(at, e.int_like(at, u64::from(e.width)));
        at_in.add_incoming(&[(&e.int_like(at, 0), before), (&next, head)]);
        let more = e.icmp(IntPredicate::ULT, next, e.mul(count, e.int_like(count, STRIP)));
        e.branch(more.into_int_value(), head, done);
        e.continue_at(done);
    }

    /// Writes the first accumulators of so many columns as results.
    fn end_columns(&self, columns: Val<'c>, results: PointerValue<'c>) {
        let (e, slots) = (&self.e, self.slots());
        let before = e.here();
        let [head, done] = ["results", "results.done"].map(|name| e.block(name));
        e.jump(head);
        e.continue_at(head);
        let at_in = e.phi(columns.get_type());
        let at = at_in.as_basic_value();
        let row = e.mul(at, e.int_like(at, slots.len() as u64));
        for ((dtype, &accumulators), k) in slots.iter().zip(&self.accumulators).zip(0..) {
            let total = load_element(e, *dtype, element_address(e, *dtype, accumulators, at));
            store_result(e, *dtype, total, results, e.add(row, e.int_like(row, k)));
        }
        let next = e.add(at, e.int_like(at, 1));
        at_in.add_incoming(&[(&e.int_like(at, 0), before), (&next, head)]);
        e.branch(e.icmp(IntPredicate::ULT, next, columns).into_int_value(), head, done);
        e.continue_at(done);
    }
}
