//! Read-modify-write of elements, lane by lane, atomic where several threads run one launch on the same memory.
//!
//! Only the element itself is ordered (`monotonic`): a lane sees its own effects in program order, those of
//! other lanes at no particular time. A finish has no effects, so what stands here is for vectors of lanes.

use inkwell::values::{BasicValue, IntValue, PointerValue};
use inkwell::{AtomicOrdering, AtomicRMWBinOp, IntPredicate};
use jit_core::dtype::DType;
use jit_core::error::Error;
use jit_core::ir::Inst;
use jit_core::op::Op;

use super::emit::{Emit, Form, Val, built, form};
use super::memory::{from_memory, load_element, to_memory};
use super::{Gen, lane};

impl<'c> Gen<'c, '_> {
    pub(super) fn combining_scatter(&mut self, inst: &Inst) -> Result<(), Error> {
        let dtype = self.program.params[inst.param().index()].dtype;
        let Some(combine) = inst.op.combine() else { return Err(super::unsupported(inst.op, dtype)) };
        let (active, at) = self.locate(inst);
        let mask = self.mask_or_all(active);
        let value = self.lanes_of(inst.args[0]);
        let values = self.spill(dtype, value);
        let unshared = if self.copied.contains(&inst.param()) { self.unshared } else { self.alone };
        self.each_lane(mask, at, unshared, |generator, shared, lane, at| {
            let value = generator.spilled(dtype, values, lane);
            let e = &generator.e;
            match shared {
                Shared::No => {
                    let new = lane::lane_op(e, combine, dtype, dtype, &[load_element(e, dtype, at), value])?;
                    e.store(to_memory(e, dtype, new), at, dtype.size() as u32);
                    Ok(())
                }
                Shared::Perhaps => combine_element(e, combine, dtype, at, value),
            }
        })
    }

    pub(super) fn atomic_inc(&mut self, inst: &Inst) -> Result<Val<'c>, Error> {
        if form(self.get(inst.index())) == Form::Uniform {
            return Ok(self.count_in_one(inst));
        }
        let dtype = self.program.params[inst.param().index()].dtype;
        let (active, at) = self.locate(inst);
        let mask = self.mask_or_all(active);
        let one = self.e.const_int(dtype.bits(), 1, Form::Uniform);
        let olds = self.spill(dtype, self.e.register(dtype, Form::Varying).const_zero());
        self.each_lane(mask, at, self.alone, |generator, shared, lane, at| {
            let e = &generator.e;
            let old = match shared {
                Shared::No => {
                    let old = load_element(e, dtype, at);
                    e.store(e.add(old, one), at, dtype.size() as u32);
                    old
                }
                Shared::Perhaps => {
                    let (add, ordering) = (AtomicRMWBinOp::Add, AtomicOrdering::Monotonic);
                    built(e.builder.build_atomicrmw(add, at, one.into_int_value(), ordering)).into()
                }
            };
            let to = e.address(e.memory(dtype, Form::Uniform), olds, lane.into()).into_pointer_value();
            e.store(old, to, dtype.size() as u32);
            Ok(())
        })?;
        Ok(self.e.load(self.e.memory(dtype, Form::Varying), olds, dtype.size() as u32))
    }

    /// Stores elements, those of `compare_exchange` where the expected bits stand; gives the old ones.
    pub(super) fn exchange(&mut self, inst: &Inst) -> Result<Val<'c>, Error> {
        let dtype = self.program.params[inst.param().index()].dtype;
        let (active, at) = self.locate(inst);
        let mask = self.mask_or_all(active);
        let mut given = Vec::with_capacity(2);
        for &value in &inst.args[..inst.op.element_operands()] {
            let value = self.lanes_of(value);
            given.push(self.spill(dtype, value));
        }
        let olds = self.spill(dtype, self.e.register(dtype, Form::Varying).const_zero());
        let size = dtype.size() as u32;
        self.each_lane(mask, at, self.alone, |generator, shared, lane, at| {
            let e = &generator.e;
            let element = e.memory(dtype, Form::Uniform);
            let bits = e.int(size * 8, Form::Uniform);
            let of_lane = |from| e.address(element, from, lane.into()).into_pointer_value();
            let given: Vec<Val<'c>> = given.iter().map(|&from| e.load(bits, of_lane(from), size)).collect();
            let ordering = AtomicOrdering::Monotonic;
            let old = match (shared, &given[..]) {
                (Shared::No, &[.., value]) => {
                    let old = e.load(bits, at, size);
                    let new = match given[..] {
                        [expected, value] => {
                            let same = e.icmp(IntPredicate::EQ, old, expected);
                            e.select(same, value, old)
                        }
                        _ => value,
                    };
                    e.store(new, at, size);
                    old
                }
                (Shared::Perhaps, &[expected, value]) => {
                    let outcome = built(e.builder.build_cmpxchg(at, expected, value, ordering, ordering));
                    built(e.builder.build_extract_value(outcome, 0, ""))
                }
                (Shared::Perhaps, &[value]) => {
                    let swap = AtomicRMWBinOp::Xchg;
                    built(e.builder.build_atomicrmw(swap, at, value.into_int_value(), ordering)).into()
                }
                _ => return Err(super::unsupported(inst.op, dtype)),
            };
            e.store(old, of_lane(olds), size);
            Ok(())
        })?;
        let olds = self.e.load(self.e.memory(dtype, Form::Varying), olds, size);
        Ok(from_memory(&self.e, dtype, olds))
    }

    /// `atomic_inc` where all lanes count in one element: it changes once for a vector, and a lane's old value follows from how
    /// many lanes take part before it.
    fn count_in_one(&mut self, inst: &Inst) -> Val<'c> {
        let dtype = self.program.params[inst.param().index()].dtype;
        let (active, at) = self.locate(inst);
        let mask = self.mask_or_all(active);
        let e = &self.e;
        let resized = |a| if dtype.bits() > 32 { e.zext(a, dtype.bits()) } else { e.narrow(a, dtype.bits()) };
        let zeros = e.register(dtype, Form::Varying).const_zero();
        let (before, count, done) = (e.here(), e.block("count"), e.block("counted"));
        let lanes = e.zext(e.mask_bits(mask).into(), 32);
        e.branch(e.icmp(IntPredicate::NE, lanes, e.int_like(lanes, 0)).into_int_value(), count, done);
        e.continue_at(count);
        let at = e.extract(at, 0).into_pointer_value();
        let number = resized(e.math("llvm.ctpop", &[lanes])).into_int_value();
        let (add, ordering) = (AtomicRMWBinOp::Add, AtomicOrdering::Monotonic);
        let old = built(e.builder.build_atomicrmw(add, at, number, ordering)).into();
        let below: Vec<IntValue<'c>> = (0..e.width)
            .map(|lane| e.const_int(32, (1 << lane) - 1, Form::Uniform).into_int_value())
            .collect();
        let earlier = e.and(e.splat(lanes), e.const_vector(&below).into());
        let olds = e.add(e.splat(old), resized(e.math("llvm.ctpop", &[earlier])));
        let counted = e.here();
        e.jump(done);
        e.continue_at(done);
        e.select(mask, e.merge(&[(zeros, before), (olds, counted)]), zeros)
    }

    /// Writes what is done for each lane of a mask with its address: once for memory that other threads may change at the
    /// same time, once for memory that they do not.
    fn each_lane(
        &mut self,
        mask: Val<'c>,
        at: Val<'c>,
        unshared: Option<IntValue<'c>>,
        each: impl Fn(&Self, Shared, IntValue<'c>, PointerValue<'c>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let spilled = self.spill_lanes(mask, at);
        let write = |generator: &Self, shared| {
            let lanes = generator.start_lanes(spilled);
            each(generator, shared, lanes.lane, lanes.at)?;
            generator.end_lanes(lanes);
            Ok(())
        };
        let Some(unshared) = unshared else { return write(self, Shared::Perhaps) };
        let (plain, atomic, done) =
            (self.e.block("unshared"), self.e.block("shared"), self.e.block("combined"));
        self.e.branch(unshared, plain, atomic);
        for (block, shared) in [(plain, Shared::No), (atomic, Shared::Perhaps)] {
            self.e.continue_at(block);
            write(self, shared)?;
            self.e.jump(done);
        }
        self.e.continue_at(done);
        Ok(())
    }

    /// A vector's elements in memory, where a lane that is not known now can be taken from.
    fn spill(&self, dtype: DType, value: Val<'c>) -> PointerValue<'c> {
        let value = to_memory(&self.e, dtype, value);
        let at = self.stack(self.e.memory(dtype, Form::Uniform), self.e.width);
        self.e.store(value, at, dtype.size() as u32);
        at
    }

    fn spilled(&self, dtype: DType, values: PointerValue<'c>, lane: IntValue<'c>) -> Val<'c> {
        let at = self.e.address(self.e.memory(dtype, Form::Uniform), values, lane.into());
        load_element(&self.e, dtype, at.into_pointer_value())
    }

    /// The lanes of a mask as bits, and their addresses in memory.
    fn spill_lanes(&self, mask: Val<'c>, at: Val<'c>) -> (Val<'c>, PointerValue<'c>) {
        let e = &self.e;
        let addresses = self.stack(at.get_type().into_vector_type().get_element_type(), e.width);
        e.store(at, addresses, 8);
        (e.zext(e.mask_bits(mask).into(), 32), addresses)
    }

    /// Starts a loop over lanes.
    fn start_lanes(&self, (all, addresses): (Val<'c>, PointerValue<'c>)) -> LaneLoop<'c> {
        let e = &self.e;
        let before = e.here();
        let (head, turn, done) = (e.block("lanes"), e.block("lane"), e.block("lanes.done"));
        e.jump(head);
        e.continue_at(head);
        let left = e.phi(all.get_type());
        left.add_incoming(&[(&all, before)]);
        let bits = left.as_basic_value();
        let more = e.icmp(IntPredicate::NE, bits, e.int_like(bits, 0));
        e.branch(more.into_int_value(), turn, done);
        e.continue_at(turn);
        let not_zero = e.const_int(1, 1, Form::Uniform);
        let lane = e.intrinsic("llvm.cttz", &[bits.get_type()], &[bits, not_zero]);
        let rest = e.and(bits, e.sub(bits, e.int_like(bits, 1)));
        let pointer = e.context.ptr_type(inkwell::AddressSpace::default()).into();
        let from = e.address(pointer, addresses, lane).into_pointer_value();
        let at = e.load(pointer, from, 8).into_pointer_value();
        LaneLoop { head, done, left, rest, lane: lane.into_int_value(), at }
    }

    fn end_lanes(&self, lanes: LaneLoop<'c>) {
        lanes.left.add_incoming(&[(&lanes.rest, self.e.here())]);
        self.e.jump(lanes.head);
        self.e.continue_at(lanes.done);
    }
}

/// Whether other threads may change an element at the same time.
#[derive(Clone, Copy)]
enum Shared {
    No,
    Perhaps,
}

/// A loop over lanes in whose body instructions are being written.
struct LaneLoop<'c> {
    head: inkwell::basic_block::BasicBlock<'c>,
    done: inkwell::basic_block::BasicBlock<'c>,
    /// The lanes that are left, one bit each.
    left: inkwell::values::PhiValue<'c>,
    /// Those after this turn.
    rest: Val<'c>,
    /// This turn's lane.
    lane: IntValue<'c>,
    /// Its address.
    at: PointerValue<'c>,
}

/// Replaces an element by its combination with a value.
fn combine_element<'c>(
    e: &Emit<'c>,
    combine: Op,
    dtype: DType,
    at: PointerValue<'c>,
    value: Val<'c>,
) -> Result<(), Error> {
    if let Some(op) = single_instruction(combine, dtype) {
        let value = to_memory(e, dtype, value).into_int_value();
        built(e.builder.build_atomicrmw(op, at, value, AtomicOrdering::Monotonic));
        return Ok(());
    }
    let bits = e.int(dtype.size() as u32 * 8, Form::Uniform);
    let first = e.load(bits, at, dtype.size() as u32);
    if let Some(load) = first.as_instruction_value() {
        load.set_atomic_ordering(AtomicOrdering::Monotonic).expect("a load may be monotonic");
    }
    let before = e.here();
    let (again, done) = (e.block("exchange"), e.block("exchanged"));
    e.jump(again);
    e.continue_at(again);
    let seen_in = e.phi(bits);
    let seen = seen_in.as_basic_value();
    let old = from_memory(e, dtype, e.bitcast(seen, e.memory(dtype, Form::Uniform)));
    let new = lane::lane_op(e, combine, dtype, dtype, &[old, value])?;
    let new = e.bitcast(to_memory(e, dtype, new), bits);
    let ordering = AtomicOrdering::Monotonic;
    let outcome = built(e.builder.build_cmpxchg(at, seen, new, ordering, ordering));
    let now = built(e.builder.build_extract_value(outcome, 0, ""));
    let exchanged = built(e.builder.build_extract_value(outcome, 1, ""));
    seen_in.add_incoming(&[(&first, before), (&now, e.here())]);
    e.branch(exchanged.into_int_value(), done, again);
    e.continue_at(done);
    Ok(())
}

fn single_instruction(combine: Op, dtype: DType) -> Option<AtomicRMWBinOp> {
    if dtype.is_float() {
        return None;
    }
    Some(match combine {
        Op::Add => AtomicRMWBinOp::Add,
        Op::And => AtomicRMWBinOp::And,
        Op::Or => AtomicRMWBinOp::Or,
        Op::Xor => AtomicRMWBinOp::Xor,
        Op::Min | Op::Minimum if dtype.is_signed() => AtomicRMWBinOp::Min,
        Op::Max | Op::Maximum if dtype.is_signed() => AtomicRMWBinOp::Max,
        Op::Min | Op::Minimum => AtomicRMWBinOp::UMin,
        Op::Max | Op::Maximum => AtomicRMWBinOp::UMax,
        _ => return None,
    })
}
