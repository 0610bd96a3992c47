//! Local arrays: memory on the function's stack, where the elements of all lanes with one index stand in a row. An index
//! that all lanes share is one access to a vector, another an access for each lane.
//!
//! What is written, filled and moved is the active lanes' alone, so that each lane's memory is as if it ran by itself (see
//! [`Places`](jit_core::ir::Places)). Lanes that do not exist have memory, too, and need no masks.

use inkwell::IntPredicate;
use inkwell::values::{BasicValue, PointerValue};
use jit_core::dtype::DType;
use jit_core::ir::{Inst, Value};

use super::Gen;
use super::emit::{Emit, Form, Val, form};
use super::memory::{from_memory, to_memory};

/// So many elements are moved without a loop.
const FEW: u32 = 8;

impl<'c> Gen<'c, '_> {
    /// Makes memory for the local arrays.
    pub(super) fn make_slots(&mut self) {
        for slot in self.places.slots().to_vec() {
            let ty = self.entry.memory(slot.dtype, Form::Uniform);
            let memory = self.stack(ty, slot.len * self.lanes_of_slots());
            let alloca = memory.as_instruction_value().expect("an instruction");
            alloca.set_alignment(64).expect("a power of two");
            self.slots.push(memory);
        }
    }

    /// The values that are no local arrays.
    pub(super) fn scalars(&self, values: &[Value]) -> Vec<Value> {
        values.iter().copied().filter(|&value| self.program.local_len(value).is_none()).collect()
    }

    /// The elements of the lanes' arrays at their indices.
    pub(super) fn local_read(&mut self, inst: &Inst) -> Val<'c> {
        let (array, shape) = (inst.args[0], self.lanes.form);
        let dtype = self.program.dtype(array);
        let zeros = self.e.register(dtype, shape).const_zero();
        let Some(slot) = self.places.slot(array).filter(|&slot| self.places.slots()[slot].len > 0) else {
            return zeros;
        };
        let mask = inst.mask().map(|m| self.lanes_of(m));
        if form(self.get(inst.index())) == Form::Varying {
            let (within, at) = self.varying_element(inst, slot);
            let asked = self.both(self.lanes.active, mask);
            let reached = self.both(asked, within);
            return self.gather_lanes(dtype, at, self.mask_or_all(reached));
        }
        let (within, at) = self.uniform_element(inst, slot);
        let e = &self.e;
        let value = e.freeze(e.load(e.memory(dtype, shape), at, self.alignment(dtype)));
        let value = from_memory(e, dtype, value);
        match self.both(mask, within) {
            Some(reached) => e.select(reached, value, zeros),
            None => value,
        }
    }

    /// Writes to the slot of the array that the write gives, after what its operand holds was moved there.
    pub(super) fn local_write(&mut self, inst: &Inst) {
        self.move_locals(&inst.args[..1], &inst.results);
        let Some(slot) = self.places.slot(inst.result()).filter(|&slot| self.places.slots()[slot].len > 0)
        else {
            return;
        };
        let dtype = self.program.dtype(inst.args[0]);
        let value = self.lanes_of(inst.args[1]);
        let value = to_memory(&self.e, dtype, value);
        let mask = inst.mask().map(|m| self.lanes_of(m));
        let asked = self.both(self.masked(), mask);
        if form(self.get(inst.index())) == Form::Varying {
            let (within, at) = self.varying_element(inst, slot);
            let reached = self.both(asked, within);
            return self.scatter_lanes(dtype, value, at, self.mask_or_all(reached));
        }
        let (within, at) = self.uniform_element(inst, slot);
        let reached = self.both(asked, within);
        self.put(dtype, value, at, reached);
    }

    /// Makes local arrays among `targets` those among `sources`, all at once, for the active lanes.
    pub(super) fn move_locals(&mut self, sources: &[Value], targets: &[Value]) {
        for step in self.places.moves(sources, targets) {
            let slot = self.places.slots()[step.to];
            let (from, to) = (step.from.map(|from| self.slots[from]), self.slots[step.to]);
            let mut element = |generator: &mut Self, index: Val<'c>| {
                let e = &generator.e;
                let ty = e.memory(slot.dtype, generator.lanes.form);
                let address = |base| generator.vector_at(slot.dtype, base, index);
                let value = match from {
                    Some(from) => e.load(ty, address(from), generator.alignment(slot.dtype)),
                    None => ty.const_zero(),
                };
                generator.put(slot.dtype, value, address(to), generator.masked());
            };
            self.for_each_element(slot.len, &mut element);
        }
    }

    /// Calls `element` with the numbers below `len`: in a loop what there is of fours, unless that is little.
    fn for_each_element(&mut self, len: u32, element: &mut dyn FnMut(&mut Self, Val<'c>)) {
        let in_loop = if len > FEW { len - len % 4 } else { 0 };
        let number = |e: &Emit<'c>, k: u32| e.const_int(64, u64::from(k), Form::Uniform);
        if in_loop > 0 {
            let before = self.e.here();
            let (turn, done) = (self.e.block("elements"), self.e.block("elements.done"));
            self.e.jump(turn);
            self.e.continue_at(turn);
            let phi = self.e.phi(self.e.int(64, Form::Uniform));
            let first = phi.as_basic_value();
            for k in 0..4 {
                let index = self.e.add(first, number(&self.e, k));
                element(self, index);
            }
            let next = self.e.add(first, number(&self.e, 4));
            phi.add_incoming(&[(&number(&self.e, 0), before), (&next, self.e.here())]);
            let more = self.e.icmp(IntPredicate::ULT, next, number(&self.e, in_loop)).into_int_value();
            self.e.branch(more, turn, done);
            self.e.continue_at(done);
        }
        for k in in_loop..len {
            let index = number(&self.e, k);
            element(self, index);
        }
    }

    /// Stores to a vector of lanes, or those of a mask.
    fn put(&self, dtype: DType, value: Val<'c>, at: PointerValue<'c>, mask: Option<Val<'c>>) {
        let (e, align) = (&self.e, self.alignment(dtype));
        let value = match mask {
            Some(mask) => e.select(mask, value, e.load(value.get_type(), at, align)),
            None => value,
        };
        e.store(value, at, align);
    }

    /// For an index that all lanes share: whether it is in bounds, unless that is sure, and the address of the first lane's
    /// element; of element 0 if it is not.
    fn uniform_element(&self, inst: &Inst, slot: usize) -> (Option<Val<'c>>, PointerValue<'c>) {
        let e = &self.e;
        let slot_kind = self.places.slots()[slot];
        let (mut index, within) = self.local_index(inst, self.get(inst.index()), slot_kind.len);
        // Where no lane asks, the index may be anything though it is said to be in bounds.
        let sure = inst.in_bounds && inst.mask().is_none();
        if !sure {
            index = e.select(within, index, e.int_like(index, 0));
        }
        let at = self.vector_at(slot_kind.dtype, self.slots[slot], e.zext(index, 64));
        let within = (!sure).then(|| e.shaped(within, self.lanes.form));
        (within, at)
    }

    /// Which lanes' indices are in bounds, unless that is sure, and the addresses of their elements.
    fn varying_element(&self, inst: &Inst, slot: usize) -> (Option<Val<'c>>, Val<'c>) {
        let e = &self.e;
        let slot_kind = self.places.slots()[slot];
        let (index, within) = self.local_index(inst, self.get(inst.index()), slot_kind.len);
        let first = e.mul(index, e.int_like(index, u64::from(e.width)));
        let at =
            e.address(e.memory(slot_kind.dtype, Form::Uniform), self.slots[slot], e.add(first, e.iota(32)));
        ((!inst.in_bounds).then_some(within), at)
    }

    /// An index as 32 bits, and whether it is below a length. A negative one, read as unsigned, is not.
    fn local_index(&self, inst: &Inst, index: Val<'c>, len: u32) -> (Val<'c>, Val<'c>) {
        let (e, ty) = (&self.e, self.program.dtype(inst.index()));
        let index = match (ty.bits(), ty.is_signed()) {
            (32 | 64, _) => index,
            (_, true) => e.sext(index, 32),
            (_, false) => e.zext(index, 32),
        };
        let within = e.icmp(IntPredicate::ULT, index, e.int_like(index, u64::from(len)));
        (e.narrow(index, 32), within)
    }

    /// The address of the first lane's element with an index of 64 bits.
    fn vector_at(&self, dtype: DType, base: PointerValue<'c>, index: Val<'c>) -> PointerValue<'c> {
        let e = &self.e;
        let first = e.mul(index, e.int_like(index, u64::from(self.lanes_of_slots())));
        e.address(e.memory(dtype, Form::Uniform), base, first).into_pointer_value()
    }

    /// The active lanes, if others exist.
    fn masked(&self) -> Option<Val<'c>> {
        self.lanes.active.filter(|_| self.lanes.active != self.lanes.existing)
    }

    fn lanes_of_slots(&self) -> u32 {
        match self.lanes.form {
            Form::Uniform => 1,
            Form::Varying => self.e.width,
        }
    }

    /// Of a vector in a slot.
    fn alignment(&self, dtype: DType) -> u32 {
        (dtype.size() as u32 * self.lanes_of_slots()).min(64)
    }
}
