//! Loads and stores by lane, gathers and scatters at indices, tables.
//!
//! Nothing outside an argument's memory is touched: lanes that are masked off or out of bounds are left out by masked
//! instructions, or, where those would become a branch per lane, read from a few zeros and write to a few
//! spare bytes on the stack.

use inkwell::IntPredicate;
use inkwell::module::Linkage;
use inkwell::types::{BasicType, BasicTypeEnum};
use inkwell::values::{IntValue, PointerValue};
use jit_core::dtype::DType;
use jit_core::ir::{Inst, ParamId, Value};

use super::emit::{Emit, Form, Val, built, form};
use super::{Argument, Gen};

/// What indices of a type are compared with.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Bound {
    /// The length, as 64 bits.
    Length,
    /// The length or 2^31, whichever is less: no index of these types that passes, read as unsigned, is above.
    Below31,
    /// The last index or 2^32 - 1, whichever is less.
    Last32,
    /// Whether there is any element.
    Any,
}

impl<'c> Gen<'c, '_> {
    pub(super) fn scalar_argument(&self, param: ParamId) -> Val<'c> {
        match self.args[param.index()] {
            Argument::Scalar(value) => value,
            Argument::Memory { .. } => unreachable!("{param} is memory, not a scalar"),
        }
    }

    fn memory_argument(&self, param: ParamId) -> (PointerValue<'c>, Val<'c>) {
        match self.args[param.index()] {
            Argument::Memory { base, len } => (base, len),
            Argument::Scalar(_) => unreachable!("{param} is a scalar, not memory"),
        }
    }

    /// The elements of the lanes.
    pub(super) fn load(&self, param: ParamId) -> Val<'c> {
        let (e, dtype) = (&self.e, self.program.params[param.index()].dtype);
        let at = self.lane_address(param);
        let ty = e.memory(dtype, self.lanes.form);
        let value = e.masked_load(ty, at, dtype.size() as u32, self.lanes.existing);
        from_memory(e, dtype, value)
    }

    pub(super) fn store(&mut self, param: ParamId, value: Value) {
        let dtype = self.program.params[param.index()].dtype;
        let value = self.lanes_of(value);
        let e = &self.e;
        let value = to_memory(e, dtype, value);
        let at = self.lane_address(param);
        let size = dtype.size() as u32;
        let mask = self.lanes.active;
        let Some(past) = self.lanes.past_caches else { return e.masked_store(value, at, size, mask) };
        // Memory beyond the caches is written past them, without being read first.
        let (streamed, through, done) =
            (e.block("past.caches"), e.block("through.caches"), e.block("stored"));
        e.branch(past, streamed, through);
        e.continue_at(streamed);
        e.store_past_caches(value, at, (size * e.width).min(64));
        e.jump(done);
        e.continue_at(through);
        e.masked_store(value, at, size, mask);
        e.jump(done);
        e.continue_at(done);
    }

    /// The address of the first lane's element.
    fn lane_address(&self, param: ParamId) -> PointerValue<'c> {
        let dtype = self.program.params[param.index()].dtype;
        let (base, _) = self.memory_argument(param);
        self.e.address(self.e.memory(dtype, Form::Uniform), base, self.lanes.first).into_pointer_value()
    }

    pub(super) fn load_scalar(&self, e: &Emit<'c>, param: ParamId) -> Val<'c> {
        let (base, _) = self.memory_argument(param);
        load_element(e, self.program.params[param.index()].dtype, base)
    }

    /// An element of a constant table; every index is in bounds once its high bits are cut off.
    pub(super) fn lookup(&mut self, inst: &Inst) -> Val<'c> {
        let table = &self.program.tables[inst.table().index()];
        let dtype = table.dtype;
        let base = self.table(inst);
        let e = &self.e;
        let index = self.get(inst.args[0]);
        let index_type = self.program.dtype(inst.args[0]);
        let wide = if index_type.bits() < 32 { e.zext(index, 32) } else { index };
        let wide = e.and(wide, e.int_like(wide, table.bits.len() as u64 - 1));
        // An index of 32 bits is below 2^31 here unless the table has 2^32 entries.
        let at = e.address(e.memory(dtype, Form::Uniform), base, wide);
        match form(at) {
            Form::Uniform => load_element(e, dtype, at.into_pointer_value()),
            Form::Varying => {
                let all = e.const_int(1, 1, Form::Varying);
                self.gather_lanes(dtype, at, all)
            }
        }
    }

    fn table(&mut self, inst: &Inst) -> PointerValue<'c> {
        let table = &self.program.tables[inst.table().index()];
        let e = &self.e;
        let global = self.tables.entry(inst.table()).or_insert_with(|| {
            let size = table.dtype.size() as u32 * 8;
            let ty = e.int(size, Form::Uniform).into_int_type();
            let elements: Vec<IntValue<'c>> = table.bits.iter().map(|&b| ty.const_int(b, false)).collect();
            let constant = ty.const_array(&elements);
            let global = e.module.add_global(constant.get_type(), None, "table");
            global.set_initializer(&constant);
            global.set_constant(true);
            global.set_linkage(Linkage::Private);
            global
        });
        global.as_pointer_value()
    }

    pub(super) fn gather(&mut self, inst: &Inst) -> Val<'c> {
        let dtype = self.program.params[inst.param().index()].dtype;
        if form(self.get(inst.index())) == Form::Uniform {
            return self.gather_uniform(inst, dtype);
        }
        if self.expects_a_row(inst.index(), dtype) {
            return self.gather_row(inst, dtype);
        }
        let (active, at) = self.locate(inst);
        self.gather_lanes(dtype, at, self.mask_or_all(active))
    }

    /// One element for all lanes.
    fn gather_uniform(&mut self, inst: &Inst, dtype: DType) -> Val<'c> {
        let index = self.get(inst.index());
        let mask = inst.mask().map(|m| self.get(m));
        // An index that no test is needed for may still be wild where no lane asks.
        let asked = mask.map(|m| match form(m) {
            Form::Uniform => m,
            Form::Varying => {
                let active = self.both(self.lanes.active, Some(m)).unwrap_or(m);
                self.e.any(active).into()
            }
        });
        let within = self.within(inst, index);
        let allowed = self.both(asked, within);
        let at = self.element_address(inst, index).into_pointer_value();
        let at = match allowed {
            None => at,
            Some(allowed) => {
                let zeros = self.zeros();
                self.e.select(allowed, at.into(), zeros.into()).into_pointer_value()
            }
        };
        let value = load_element(&self.e, dtype, at);
        match mask {
            Some(m) if form(m) == Form::Varying => {
                let e = &self.e;
                let value = e.splat(value);
                e.select(m, value, value.get_type().const_zero())
            }
            _ => value,
        }
    }

    /// Elements at addresses, 0 where masked off.
    pub(super) fn gather_lanes(&mut self, dtype: DType, at: Val<'c>, mask: Val<'c>) -> Val<'c> {
        let zeros = self.zeros();
        let e = &self.e;
        let ty = e.memory(dtype, Form::Varying);
        let value = if dtype.size() >= 4 {
            let align = e.const_int(32, dtype.size() as u64, Form::Uniform);
            let passthru = ty.const_zero();
            e.intrinsic("llvm.masked.gather", &[ty, at.get_type()], &[at, align, mask, passthru])
        } else {
            let at = e.select(mask, at, e.splat(zeros.into()));
            let element = e.memory(dtype, Form::Uniform);
            let empty = ty.const_zero();
            (0..e.width).fold(empty, |vector, lane| {
                let from = e.extract(at, lane).into_pointer_value();
                e.insert(vector, e.load(element, from, dtype.size() as u32), lane)
            })
        };
        from_memory(e, dtype, value)
    }

    pub(super) fn scatter(&mut self, inst: &Inst) {
        let dtype = self.program.params[inst.param().index()].dtype;
        if self.expects_a_row(inst.index(), dtype) {
            return self.scatter_row(inst, dtype);
        }
        let (active, at) = self.locate(inst);
        let mask = self.mask_or_all(active);
        let value = self.lanes_of(inst.args[0]);
        let value = to_memory(&self.e, dtype, value);
        self.scatter_lanes(dtype, value, at, mask);
    }

    /// Stores elements at addresses.
    pub(super) fn scatter_lanes(&mut self, dtype: DType, value: Val<'c>, at: Val<'c>, mask: Val<'c>) {
        let e = &self.e;
        if dtype.size() >= 4 {
            let align = e.const_int(32, dtype.size() as u64, Form::Uniform);
            let types = [value.get_type(), at.get_type()];
            e.intrinsic_call("llvm.masked.scatter", &types, &[value, at, align, mask]);
            return;
        }
        let sink = self.sink();
        let e = &self.e;
        let at = e.select(mask, at, e.splat(sink.into()));
        for lane in 0..e.width {
            let to = e.extract(at, lane).into_pointer_value();
            e.store(e.extract(value, lane), to, dtype.size() as u32);
        }
    }

    /// For an indexed memory op: the lanes that take part, and the address of each lane's element.
    pub(super) fn locate(&mut self, inst: &Inst) -> (Option<Val<'c>>, Val<'c>) {
        let (index, active) = self.reached(inst);
        (active, self.element_address(inst, index))
    }

    /// For an indexed memory op: the lanes' indices, and the lanes that take part.
    pub(super) fn reached(&mut self, inst: &Inst) -> (Val<'c>, Option<Val<'c>>) {
        let index = self.lanes_of(inst.index());
        let mask = inst.mask().map(|m| self.lanes_of(m));
        let within = self.within(inst, index);
        let asked = self.both(self.lanes.active, mask);
        (index, self.both(asked, within))
    }

    pub(super) fn element_address(&self, inst: &Inst, index: Val<'c>) -> Val<'c> {
        let e = &self.e;
        let ty = self.program.dtype(inst.index());
        let element = e.memory(self.program.params[inst.param().index()].dtype, Form::Uniform);
        let (base, _) = self.memory_argument(inst.param());
        // Address arithmetic extends the sign.
        match (ty.bits(), form(index)) {
            (64, _) => e.address(element, base, index),
            (32, _) if ty.is_signed() => e.address(element, base, index),
            (32, Form::Uniform) => e.address(element, base, e.zext(index, 64)),
            // Instructions take vectors of signed offsets from an address: the index from the middle of its type.
            (32, Form::Varying) => {
                let half = 1 << 31;
                let middle = e.address(element, base, e.const_int(64, half, Form::Uniform));
                e.address(element, middle.into_pointer_value(), e.xor(index, e.int_like(index, half)))
            }
            _ => e.address(element, base, self.to_32_bits(ty, index)),
        }
    }

    /// Which indices are in bounds; absent if no test is needed.
    fn within(&mut self, inst: &Inst, index: Val<'c>) -> Option<Val<'c>> {
        if inst.in_bounds {
            return None;
        }
        let ty = self.program.dtype(inst.index());
        let shape = form(index);
        // A negative index, read as unsigned, is past any length.
        Some(match (ty.bits(), ty.is_signed()) {
            (64, _) => {
                let len = self.bound(inst.param(), Bound::Length);
                self.e.icmp(IntPredicate::ULT, index, self.e.shaped(len, shape))
            }
            (32, false) => {
                let last = self.bound(inst.param(), Bound::Last32);
                let any = self.bound(inst.param(), Bound::Any);
                let e = &self.e;
                e.and(e.icmp(IntPredicate::ULE, index, e.shaped(last, shape)), e.shaped(any, shape))
            }
            _ => {
                let bound = self.bound(inst.param(), Bound::Below31);
                let index = self.to_32_bits(ty, index);
                self.e.icmp(IntPredicate::ULT, index, self.e.shaped(bound, shape))
            }
        })
    }

    fn to_32_bits(&self, ty: DType, index: Val<'c>) -> Val<'c> {
        match (ty.bits(), ty.is_signed()) {
            (32, _) => index,
            (_, true) => self.e.sext(index, 32),
            (_, false) => self.e.zext(index, 32),
        }
    }

    /// A bound, computed once in the entry.
    fn bound(&mut self, param: ParamId, bound: Bound) -> Val<'c> {
        let (_, len) = self.memory_argument(param);
        let e = &self.entry;
        *self.bounds.entry((param.0, bound)).or_insert_with(|| {
            let at_most =
                |v, limit| e.trunc(e.math("llvm.umin", &[v, e.const_int(64, limit, Form::Uniform)]), 32);
            match bound {
                Bound::Length => len,
                Bound::Below31 => at_most(len, 1 << 31),
                Bound::Last32 => at_most(e.sub(len, e.int_like(len, 1)), u64::from(u32::MAX)),
                Bound::Any => e.icmp(IntPredicate::NE, len, e.int_like(len, 0)),
            }
        })
    }

    /// A few bytes of zeros.
    fn zeros(&mut self) -> PointerValue<'c> {
        let e = &self.e;
        *self.zeros.get_or_insert_with(|| {
            let constant = e.context.i64_type().const_zero();
            let global = e.module.add_global(constant.get_type(), None, "zeros");
            global.set_initializer(&constant);
            global.set_constant(true);
            global.set_linkage(Linkage::Private);
            global.as_pointer_value()
        })
    }

    /// A few bytes that nobody reads.
    fn sink(&mut self) -> PointerValue<'c> {
        let e = &self.entry;
        *self.sink.get_or_insert_with(|| built(e.builder.build_alloca(e.context.i64_type(), "")))
    }

    /// Memory on the stack of the function.
    pub(super) fn stack(&self, ty: BasicTypeEnum<'c>, count: u32) -> PointerValue<'c> {
        built(self.entry.builder.build_alloca(ty.array_type(count), ""))
    }
}

/// One element.
pub(super) fn load_element<'c>(e: &Emit<'c>, dtype: DType, at: PointerValue<'c>) -> Val<'c> {
    from_memory(e, dtype, e.load(e.memory(dtype, Form::Uniform), at, dtype.size() as u32))
}

/// A value as it stands in memory: a bool as a byte.
pub(super) fn to_memory<'c>(e: &Emit<'c>, dtype: DType, value: Val<'c>) -> Val<'c> {
    if dtype == DType::Bool { e.zext(value, 8) } else { value }
}

/// The value that stands in memory.
pub(super) fn from_memory<'c>(e: &Emit<'c>, dtype: DType, value: Val<'c>) -> Val<'c> {
    if dtype == DType::Bool { e.icmp(IntPredicate::NE, value, e.int_like(value, 0)) } else { value }
}
