//! The vocabulary of the templates: LLVM instructions on values that are either one scalar (the same on all
//! lanes) or a vector with an element per lane. Every word takes both forms; operands of one word have one form.

use std::num::NonZero;
use std::rc::Rc;

use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::basic_block::BasicBlock;
use inkwell::builder::{Builder, BuilderError};
use inkwell::context::Context;
use inkwell::intrinsics::Intrinsic;
use inkwell::llvm_sys::LLVMValue;
use inkwell::llvm_sys::core::{LLVMBuildFreeze, LLVMBuildGEP2, LLVMGetAggregateElement};
use inkwell::module::Module;
use inkwell::types::{AsTypeRef, BasicType, BasicTypeEnum, VectorType};
use inkwell::values::{
    AsValueRef, BasicMetadataValueEnum, BasicValue, BasicValueEnum, FunctionValue, IntValue, PhiValue,
    PointerValue, VectorValue,
};
use inkwell::{FloatPredicate, IntPredicate};
use jit_core::dtype::DType;

use crate::target::Target;

/// A value in a register: a scalar if all lanes have the same, else a vector.
pub(super) type Val<'c> = BasicValueEnum<'c>;

/// Whether a value is one for all lanes or one for each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    Uniform,
    Varying,
}

/// A position in a function under construction, and the words to write there.
pub(super) struct Emit<'c> {
    pub(super) context: &'c Context,
    pub(super) module: Rc<Module<'c>>,
    pub(super) builder: Builder<'c>,
    pub(super) target: Rc<Target>,
    /// Lanes of a vector.
    pub(super) width: u32,
}

/// Words with two operands and a result of one form.
macro_rules! words {
    ($($name:ident = $build:ident on $scalar:ident;)*) => {$(
        pub(super) fn $name(&self, a: Val<'c>, b: Val<'c>) -> Val<'c> {
            match (a, b) {
                (Val::$scalar(a), Val::$scalar(b)) => built(self.builder.$build(a, b, "")).into(),
                _ => built(self.builder.$build(a.into_vector_value(), b.into_vector_value(), "")).into(),
            }
        }
    )*};
}

/// Words that convert to the type with that many bits.
macro_rules! conversions {
    ($($name:ident = $build:ident on $scalar:ident to $ty:ident $into:ident;)*) => {$(
        pub(super) fn $name(&self, a: Val<'c>, bits: u32) -> Val<'c> {
            let ty = self.$ty(bits, form(a));
            match a {
                Val::$scalar(a) => built(self.builder.$build(a, ty.$into(), "")).into(),
                a => built(self.builder.$build(a.into_vector_value(), ty.into_vector_type(), "")).into(),
            }
        }
    )*};
}

impl<'c> Emit<'c> {
    words! {
        add = build_int_add on IntValue;
        sub = build_int_sub on IntValue;
        mul = build_int_mul on IntValue;
        udiv = build_int_unsigned_div on IntValue;
        sdiv = build_int_signed_div on IntValue;
        and = build_and on IntValue;
        or = build_or on IntValue;
        xor = build_xor on IntValue;
        shl = build_left_shift on IntValue;
        fadd = build_float_add on FloatValue;
        fsub = build_float_sub on FloatValue;
        fmul = build_float_mul on FloatValue;
        fdiv = build_float_div on FloatValue;
    }

    conversions! {
        zext = build_int_z_extend on IntValue to int into_int_type;
        sext = build_int_s_extend on IntValue to int into_int_type;
        trunc = build_int_truncate on IntValue to int into_int_type;
        fpext = build_float_ext on FloatValue to float into_float_type;
        fptrunc = build_float_trunc on FloatValue to float into_float_type;
        fptosi = build_float_to_signed_int on FloatValue to int into_int_type;
        fptoui = build_float_to_unsigned_int on FloatValue to int into_int_type;
        sitofp = build_signed_int_to_float on IntValue to float into_float_type;
        uitofp = build_unsigned_int_to_float on IntValue to float into_float_type;
    }

    /// `trunc`, if there is anything to cut off.
    pub(super) fn narrow(&self, a: Val<'c>, bits: u32) -> Val<'c> {
        if element_bits(a) == bits { a } else { self.trunc(a, bits) }
    }

    pub(super) fn lshr(&self, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        self.shift_right(a, b, false)
    }

    pub(super) fn ashr(&self, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        self.shift_right(a, b, true)
    }

    fn shift_right(&self, a: Val<'c>, b: Val<'c>, signed: bool) -> Val<'c> {
        match (a, b) {
            (Val::IntValue(a), Val::IntValue(b)) => {
                built(self.builder.build_right_shift(a, b, signed, "")).into()
            }
            _ => built(self.builder.build_right_shift(
                a.into_vector_value(),
                b.into_vector_value(),
                signed,
                "",
            ))
            .into(),
        }
    }

    pub(super) fn not(&self, a: Val<'c>) -> Val<'c> {
        match a {
            Val::IntValue(a) => built(self.builder.build_not(a, "")).into(),
            a => built(self.builder.build_not(a.into_vector_value(), "")).into(),
        }
    }

    pub(super) fn fneg(&self, a: Val<'c>) -> Val<'c> {
        match a {
            Val::FloatValue(a) => built(self.builder.build_float_neg(a, "")).into(),
            a => built(self.builder.build_float_neg(a.into_vector_value(), "")).into(),
        }
    }

    pub(super) fn icmp(&self, predicate: IntPredicate, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        match (a, b) {
            (Val::IntValue(a), Val::IntValue(b)) => {
                built(self.builder.build_int_compare(predicate, a, b, "")).into()
            }
            _ => built(self.builder.build_int_compare(
                predicate,
                a.into_vector_value(),
                b.into_vector_value(),
                "",
            ))
            .into(),
        }
    }

    pub(super) fn fcmp(&self, predicate: FloatPredicate, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        match (a, b) {
            (Val::FloatValue(a), Val::FloatValue(b)) => {
                built(self.builder.build_float_compare(predicate, a, b, "")).into()
            }
            _ => built(self.builder.build_float_compare(
                predicate,
                a.into_vector_value(),
                b.into_vector_value(),
                "",
            ))
            .into(),
        }
    }

    pub(super) fn select(&self, condition: Val<'c>, yes: Val<'c>, no: Val<'c>) -> Val<'c> {
        match condition {
            Val::IntValue(c) => built(self.builder.build_select(c, yes, no, "")),
            c => built(self.builder.build_select(c.into_vector_value(), yes, no, "")),
        }
    }

    pub(super) fn bitcast(&self, a: Val<'c>, ty: BasicTypeEnum<'c>) -> Val<'c> {
        if a.get_type() == ty { a } else { built(self.builder.build_bit_cast(a, ty, "")) }
    }

    /// Calls an intrinsic that is overloaded on these types.
    pub(super) fn intrinsic(&self, name: &str, types: &[BasicTypeEnum<'c>], args: &[Val<'c>]) -> Val<'c> {
        let call = self.intrinsic_call(name, types, args);
        call.try_as_basic_value().unwrap_basic()
    }

    /// Calls an intrinsic that may yield nothing.
    pub(super) fn intrinsic_call(
        &self,
        name: &str,
        types: &[BasicTypeEnum<'c>],
        args: &[Val<'c>],
    ) -> inkwell::values::CallSiteValue<'c> {
        let intrinsic = Intrinsic::find(name).unwrap_or_else(|| panic!("LLVM has `{name}`"));
        let function = intrinsic.get_declaration(&self.module, types).expect("an overload of these types");
        let args: Vec<BasicMetadataValueEnum<'c>> = args.iter().map(|&a| a.into()).collect();
        built(self.builder.build_call(function, &args, ""))
    }

    /// An intrinsic that is overloaded on the type of its first operand alone.
    pub(super) fn math(&self, name: &str, args: &[Val<'c>]) -> Val<'c> {
        self.intrinsic(name, &[args[0].get_type()], args)
    }

    // Types.

    pub(super) fn int(&self, bits: u32, form: Form) -> BasicTypeEnum<'c> {
        let ty = match bits {
            1 => self.context.bool_type(),
            8 => self.context.i8_type(),
            16 => self.context.i16_type(),
            32 => self.context.i32_type(),
            _ => self.context.i64_type(),
        };
        match form {
            Form::Uniform => ty.into(),
            Form::Varying => ty.vec_type(self.width).into(),
        }
    }

    pub(super) fn float(&self, bits: u32, form: Form) -> BasicTypeEnum<'c> {
        let ty = match bits {
            16 => self.context.f16_type(),
            32 => self.context.f32_type(),
            _ => self.context.f64_type(),
        };
        match form {
            Form::Uniform => ty.into(),
            Form::Varying => ty.vec_type(self.width).into(),
        }
    }

    /// The type of a value in a register. An f16 travels as its bits, so that no move can change them.
    pub(super) fn register(&self, dtype: DType, form: Form) -> BasicTypeEnum<'c> {
        match dtype {
            DType::F32 | DType::F64 => self.float(dtype.bits(), form),
            _ => self.int(dtype.bits(), form),
        }
    }

    /// The type of a value in memory.
    pub(super) fn memory(&self, dtype: DType, form: Form) -> BasicTypeEnum<'c> {
        if dtype == DType::Bool { self.int(8, form) } else { self.register(dtype, form) }
    }

    // Constants.

    pub(super) fn const_int(&self, bits: u32, value: u64, form: Form) -> Val<'c> {
        let scalar = self.int(bits, Form::Uniform).into_int_type().const_int(value, false);
        match form {
            Form::Uniform => scalar.into(),
            Form::Varying => self.const_vector(&vec![scalar; self.width as usize]).into(),
        }
    }

    /// A constant with the type of `like`, an integer.
    pub(super) fn int_like(&self, like: Val<'c>, value: u64) -> Val<'c> {
        self.const_int(element_bits(like), value, form(like))
    }

    /// A float constant with the type of `like`, exact in f32.
    pub(super) fn float_like(&self, like: Val<'c>, value: f64) -> Val<'c> {
        let bits = match element_bits(like) {
            32 => u64::from((value as f32).to_bits()),
            _ => value.to_bits(),
        };
        self.bitcast(self.const_int(element_bits(like), bits, form(like)), like.get_type())
    }

    /// The constant of an element type with these bits.
    pub(super) fn const_bits(&self, dtype: DType, bits: u64, form: Form) -> Val<'c> {
        self.bitcast(self.const_int(dtype.bits(), bits, form), self.register(dtype, form))
    }

    /// The bits of a float constant that all lanes share.
    pub(super) fn constant_bits(&self, a: Val<'c>) -> Option<u64> {
        if !a.is_const() {
            return None;
        }
        let bits = self.bitcast(a, self.int(element_bits(a), form(a)));
        let Val::VectorValue(vector) = bits else {
            return bits.into_int_value().get_zero_extended_constant();
        };
        let lane = |k| {
            // SAFETY: the vector is a constant of that many elements, which live as long as its context.
            let element = unsafe { LLVMGetAggregateElement(vector.as_value_ref(), k) };
            // SAFETY: as above; the element of a vector of integers is one, if LLVM knows it.
            let element = (!element.is_null()).then(|| unsafe { IntValue::new(element) });
            element.and_then(|e| e.get_zero_extended_constant())
        };
        let first = lane(0)?;
        (1..self.width).all(|k| lane(k) == Some(first)).then_some(first)
    }

    pub(super) fn const_vector(&self, elements: &[IntValue<'c>]) -> VectorValue<'c> {
        VectorType::const_vector(elements)
    }

    /// 0, 1, 2, ... in the lanes.
    pub(super) fn iota(&self, bits: u32) -> Val<'c> {
        let ty = self.int(bits, Form::Uniform).into_int_type();
        let lanes: Vec<_> = (0..u64::from(self.width)).map(|i| ty.const_int(i, false)).collect();
        self.const_vector(&lanes).into()
    }

    // Between the forms.

    pub(super) fn splat(&self, a: Val<'c>) -> Val<'c> {
        if form(a) == Form::Varying {
            return a;
        }
        let ty = match a.get_type() {
            BasicTypeEnum::PointerType(ty) => ty.vec_type(self.width),
            BasicTypeEnum::FloatType(ty) => ty.vec_type(self.width),
            ty => ty.into_int_type().vec_type(self.width),
        };
        let i32_type = self.context.i32_type();
        if let (Val::IntValue(scalar), true) = (a, a.is_const()) {
            return self.const_vector(&vec![scalar; self.width as usize]).into();
        }
        let one = built(self.builder.build_insert_element(ty.get_poison(), a, i32_type.const_zero(), ""));
        let zeros = self.const_vector(&vec![i32_type.const_zero(); self.width as usize]);
        built(self.builder.build_shuffle_vector(one, ty.get_poison(), zeros, "")).into()
    }

    pub(super) fn shaped(&self, a: Val<'c>, wanted: Form) -> Val<'c> {
        if wanted == Form::Varying { self.splat(a) } else { a }
    }

    pub(super) fn extract(&self, a: Val<'c>, lane: u32) -> Val<'c> {
        let lane = self.context.i32_type().const_int(u64::from(lane), false);
        built(self.builder.build_extract_element(a.into_vector_value(), lane, ""))
    }

    /// The element of a lane that is known at run time alone.
    pub(super) fn extract_at(&self, a: Val<'c>, lane: IntValue<'c>) -> Val<'c> {
        built(self.builder.build_extract_element(a.into_vector_value(), lane, ""))
    }

    pub(super) fn insert(&self, a: Val<'c>, element: Val<'c>, lane: u32) -> Val<'c> {
        let lane = self.context.i32_type().const_int(u64::from(lane), false);
        built(self.builder.build_insert_element(a.into_vector_value(), element, lane, "")).into()
    }

    pub(super) fn shuffle(&self, a: Val<'c>, lanes: &[u32]) -> Val<'c> {
        let i32_type = self.context.i32_type();
        let lanes: Vec<_> = lanes.iter().map(|&l| i32_type.const_int(u64::from(l), false)).collect();
        let a = a.into_vector_value();
        built(self.builder.build_shuffle_vector(a, a.get_type().get_poison(), self.const_vector(&lanes), ""))
            .into()
    }

    /// The lanes of a mask as the bits of one integer.
    pub(super) fn mask_bits(&self, mask: Val<'c>) -> IntValue<'c> {
        let width = NonZero::new(self.width).expect("a vector has lanes");
        let ty = self.context.custom_width_int_type(width).expect("a width that LLVM has");
        self.bitcast(mask, ty.into()).into_int_value()
    }

    /// Whether a condition holds on any lane.
    pub(super) fn any(&self, condition: Val<'c>) -> IntValue<'c> {
        match condition {
            Val::IntValue(c) => c,
            mask => {
                let bits = self.mask_bits(mask);
                let zero = bits.get_type().const_zero();
                built(self.builder.build_int_compare(IntPredicate::NE, bits, zero, ""))
            }
        }
    }

    // Memory.

    /// The address of an element, or of one for each lane if the index varies.
    pub(super) fn address(
        &self,
        element: BasicTypeEnum<'c>,
        base: PointerValue<'c>,
        index: Val<'c>,
    ) -> Val<'c> {
        let mut indices: [*mut LLVMValue; 1] = [index.as_value_ref()];
        // SAFETY: builder, type, pointer and index belong to one context, which outlives them. Without `inbounds`
        // the instruction only computes an address; the wrapper in inkwell takes no vector of indices.
        unsafe {
            Val::new(LLVMBuildGEP2(
                self.builder.as_mut_ptr(),
                element.as_type_ref(),
                base.as_value_ref(),
                indices.as_mut_ptr(),
                1,
                c"".as_ptr(),
            ))
        }
    }

    pub(super) fn load(&self, ty: BasicTypeEnum<'c>, at: PointerValue<'c>, align: u32) -> Val<'c> {
        let value = built(self.builder.build_load(ty, at, ""));
        if let Some(inst) = value.as_instruction_value() {
            inst.set_alignment(align).expect("a power of two");
        }
        value
    }

    /// A value whose lanes that nothing was ever stored to are some value like others.
    pub(super) fn freeze(&self, value: Val<'c>) -> Val<'c> {
        // SAFETY: builder and value belong to one context, which outlives them; the wrapper in inkwell lacks this.
        unsafe { Val::new(LLVMBuildFreeze(self.builder.as_mut_ptr(), value.as_value_ref(), c"".as_ptr())) }
    }

    pub(super) fn store(&self, value: Val<'c>, at: PointerValue<'c>, align: u32) {
        built(self.builder.build_store(at, value)).set_alignment(align).expect("a power of two");
    }

    /// The elements of the lanes of a mask, from the address of the first lane's on; 0 elsewhere.
    pub(super) fn masked_load(
        &self,
        ty: BasicTypeEnum<'c>,
        at: PointerValue<'c>,
        align: u32,
        mask: Option<Val<'c>>,
    ) -> Val<'c> {
        let Some(mask) = mask else { return self.load(ty, at, align) };
        let align = self.const_int(32, u64::from(align), Form::Uniform);
        let args = [at.into(), align, mask, ty.const_zero()];
        self.intrinsic("llvm.masked.load", &[ty, at.get_type().into()], &args)
    }

    pub(super) fn masked_store(
        &self,
        value: Val<'c>,
        at: PointerValue<'c>,
        align: u32,
        mask: Option<Val<'c>>,
    ) {
        let Some(mask) = mask else { return self.store(value, at, align) };
        let align = self.const_int(32, u64::from(align), Form::Uniform);
        let types = [value.get_type(), at.get_type().into()];
        self.intrinsic_call("llvm.masked.store", &types, &[value, at.into(), align, mask]);
    }

    pub(super) fn store_past_caches(&self, value: Val<'c>, at: PointerValue<'c>, align: u32) {
        let store = built(self.builder.build_store(at, value));
        store.set_alignment(align).expect("a power of two");
        let one = self.context.i32_type().const_int(1, false);
        let node = self.context.metadata_node(&[one.into()]);
        store.set_metadata(node, self.context.get_kind_id("nontemporal")).expect("a store takes metadata");
    }

    // Control flow.

    pub(super) fn function(&self) -> FunctionValue<'c> {
        self.here().get_parent().expect("a block of a function")
    }

    pub(super) fn here(&self) -> BasicBlock<'c> {
        self.builder.get_insert_block().expect("a position")
    }

    pub(super) fn block(&self, name: &str) -> BasicBlock<'c> {
        self.context.append_basic_block(self.function(), name)
    }

    pub(super) fn jump(&self, to: BasicBlock<'c>) {
        built(self.builder.build_unconditional_branch(to));
    }

    pub(super) fn branch(&self, condition: IntValue<'c>, yes: BasicBlock<'c>, no: BasicBlock<'c>) {
        built(self.builder.build_conditional_branch(condition, yes, no));
    }

    /// Goes where a value says, or else to a place for all others.
    pub(super) fn switch(
        &self,
        value: IntValue<'c>,
        otherwise: BasicBlock<'c>,
        cases: &[(IntValue<'c>, BasicBlock<'c>)],
    ) {
        built(self.builder.build_switch(value, otherwise, cases));
    }

    pub(super) fn continue_at(&self, block: BasicBlock<'c>) {
        self.builder.position_at_end(block);
    }

    pub(super) fn phi<T: BasicType<'c>>(&self, ty: T) -> PhiValue<'c> {
        built(self.builder.build_phi(ty, ""))
    }

    /// A phi of values that come from these blocks.
    pub(super) fn merge(&self, incoming: &[(Val<'c>, BasicBlock<'c>)]) -> Val<'c> {
        let phi = self.phi(incoming[0].0.get_type());
        for &(value, block) in incoming {
            phi.add_incoming(&[(&value, block)]);
        }
        phi.as_basic_value()
    }

    pub(super) fn mark(&self, function: FunctionValue<'c>, attribute: &str) {
        let kind = Attribute::get_named_enum_kind_id(attribute);
        function.add_attribute(AttributeLoc::Function, self.context.create_enum_attribute(kind, 0));
    }
}

/// What the builder built. It refuses only when it has no position or an operand has another type than this
/// crate's templates give it.
pub(super) fn built<T>(result: Result<T, BuilderError>) -> T {
    result.unwrap_or_else(|e| panic!("a template builds no valid instruction: {e}"))
}

/// The form of a value.
pub(super) fn form(a: Val<'_>) -> Form {
    if a.is_vector_value() { Form::Varying } else { Form::Uniform }
}

/// Bits of a lane's element.
pub(super) fn element_bits(a: Val<'_>) -> u32 {
    let element = match a.get_type() {
        BasicTypeEnum::VectorType(v) => v.get_element_type(),
        scalar => scalar,
    };
    match element {
        BasicTypeEnum::IntType(i) => i.get_bit_width(),
        BasicTypeEnum::FloatType(f) => f.get_bit_width(),
        other => panic!("{other} has no width"),
    }
}
