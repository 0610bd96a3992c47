//! Copies of small memory that many lanes combine values into: each thread of a launch has its own, changes it with
//! ordinary instructions, and combines it with the memory itself at the end.
//!
//! Integers give the same bits so. A float sum is unordered in any case, and every contribution is in it; that threads add
//! up their own first means that a sum whose parts overflow may be infinite where another grouping would not be. The smaller and
//! larger of floats are not combined like this: an element that nothing was combined with must keep its bits, also if they
//! are a NaN that any number would replace.

use std::slice;

use jit_core::dtype::DType;
use jit_core::ir::{Outline, ParamId};
use jit_core::op::{Op, scalar};

/// A parameter that lanes do nothing with but combine values into it by one op.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Target {
    pub(crate) param: ParamId,
    combine: Op,
    pub(crate) dtype: DType,
}

/// The parameters of a program of which threads may have copies.
pub(crate) fn targets(outline: &Outline) -> Vec<Target> {
    let target = |&(param, combine): &(ParamId, Op)| {
        let dtype = outline.params[param.index()].dtype;
        combines(combine, dtype).then_some(Target { param, combine, dtype })
    };
    outline.combined.iter().filter_map(target).collect()
}

/// One thread's copies, and the arguments that name them.
pub(crate) struct Copies<'a> {
    targets: &'a [Target],
    pub(crate) arguments: Vec<[u64; 2]>,
    memory: Vec<Vec<u64>>,
}

impl<'a> Copies<'a> {
    /// Copies for the memory of these arguments, in which nothing was combined yet.
    pub(crate) fn new(targets: &'a [Target], arguments: &[[u64; 2]]) -> Copies<'a> {
        let mut arguments = arguments.to_vec();
        let memory = targets.iter().map(|target| {
            let [address, len] = &mut arguments[target.param.index()];
            let mut memory = filled(target, *len as usize);
            *address = memory.as_mut_ptr() as u64;
            memory
        });
        let memory = memory.collect();
        Copies { targets, arguments, memory }
    }

    /// Combines the copies with the memory that `arguments` name.
    ///
    /// # Safety
    /// That memory is valid for its length, and nobody else touches it meanwhile.
    pub(crate) unsafe fn merge(self, arguments: &[[u64; 2]]) {
        for (target, copy) in self.targets.iter().zip(&self.memory) {
            let [address, len] = arguments[target.param.index()];
            if len > 0 {
                // SAFETY: as this function's caller promises, for the elements of the parameter's type.
                unsafe { merge_one(target, address as *mut u8, len as usize, copy) }
            }
        }
    }
}

/// What the types of elements have in common.
trait Element: bytemuck::Pod {
    /// The element with these bits.
    fn of(bits: u64) -> Self;
    fn combine(op: Op, targets: &mut [Self], copies: &[Self]);
}

fn each<T: Copy>(targets: &mut [T], copies: &[T], combine: impl Fn(T, T) -> T) {
    targets.iter_mut().zip(copies).for_each(|(target, &copy)| *target = combine(*target, copy));
}

macro_rules! integers {
    ($($t:ident),*) => {$(
        impl Element for $t {
            fn of(bits: u64) -> Self {
                bits as $t
            }
            fn combine(op: Op, targets: &mut [Self], copies: &[Self]) {
                match op {
                    Op::Add => each(targets, copies, $t::wrapping_add),
                    Op::And => each(targets, copies, |a, b| a & b),
                    Op::Or => each(targets, copies, |a, b| a | b),
                    Op::Xor => each(targets, copies, |a, b| a ^ b),
                    Op::Min | Op::Minimum => each(targets, copies, Ord::min),
                    Op::Max | Op::Maximum => each(targets, copies, Ord::max),
                    other => unreachable!("`{}` has no copies", other.name()),
                }
            }
        }
    )*};
}

macro_rules! floats {
    ($($t:ident $bits:ident),*) => {$(
        impl Element for $t {
            fn of(bits: u64) -> Self {
                $t::from_bits(bits as $bits)
            }
            fn combine(_: Op, targets: &mut [Self], copies: &[Self]) {
                // Where nothing was added also a NaN keeps its bits.
                let nothing = (-0.0 as $t).to_bits();
                each(targets, copies, |a, b| if b.to_bits() == nothing { a } else { a + b });
            }
        }
    )*};
}

integers!(i8, u8, i16, u16, i32, u32, i64, u64);
floats!(f32 u32, f64 u64);

fn combines(combine: Op, dtype: DType) -> bool {
    match dtype {
        DType::F16 => false,
        DType::F32 | DType::F64 => combine == Op::Add,
        _ => combine != Op::Mul,
    }
}

/// Calls a function generic over the element type.
macro_rules! for_type {
    ($dtype:expr, $function:ident($($arg:expr),*)) => {
        match $dtype {
            DType::Bool | DType::U8 => $function::<u8>($($arg),*),
            DType::I8 => $function::<i8>($($arg),*),
            DType::I16 => $function::<i16>($($arg),*),
            DType::U16 => $function::<u16>($($arg),*),
            DType::I32 => $function::<i32>($($arg),*),
            DType::U32 => $function::<u32>($($arg),*),
            DType::I64 => $function::<i64>($($arg),*),
            DType::U64 => $function::<u64>($($arg),*),
            DType::F32 => $function::<f32>($($arg),*),
            DType::F64 => $function::<f64>($($arg),*),
            DType::F16 => unreachable!("f16 has no copies"),
        }
    };
}

fn filled(target: &Target, len: usize) -> Vec<u64> {
    fn fill<T: Element>(memory: &mut [u64], bits: u64) {
        bytemuck::cast_slice_mut::<u64, T>(memory).fill(T::of(bits));
    }
    let mut memory = vec![0; (len * target.dtype.size()).div_ceil(8)];
    let identity = scalar::identity(target.combine, target.dtype);
    if identity != 0 {
        for_type!(target.dtype, fill(&mut memory, identity));
    }
    memory
}

/// # Safety
/// `to` is valid for `len` elements of the target's type and aligned for it, and nobody else touches them meanwhile.
unsafe fn merge_one(target: &Target, to: *mut u8, len: usize, copy: &[u64]) {
    unsafe fn merge<T: Element>(op: Op, to: *mut u8, len: usize, copy: &[u64]) {
        // SAFETY: as the caller promises.
        let targets = unsafe { slice::from_raw_parts_mut(to.cast::<T>(), len) };
        T::combine(op, targets, &bytemuck::cast_slice::<u64, T>(copy)[..len]);
    }
    // SAFETY: as the caller promises.
    unsafe { for_type!(target.dtype, merge(target.combine, to, len, copy)) }
}

#[cfg(test)]
mod tests {
    use jit_core::ir::ParamKind;

    use super::*;

    fn targets_of(body: &str) -> Vec<u32> {
        let text = format!(
            "param p0: inout u32\nparam p1: inout f32\nbody {{\n v0: u32 = counter\n v1: f32 = cast v0\n {body}\n}}"
        );
        let program = jit_core::ir::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert!(program.params.iter().all(|p| p.kind == ParamKind::InOut));
        targets(&program.outline()).iter().map(|t| t.param.0).collect()
    }

    #[test]
    fn what_is_only_combined_into_has_copies() {
        assert_eq!(
            targets_of("scatter_add p0[v0], v0\n scatter_add p1[v0], v1\n scatter_add p0[v0], v0"),
            [0, 1]
        );
        assert_eq!(
            targets_of("scatter_add p0[v0], v0\n scatter_max p0[v0], v0"),
            [],
            "two ops do not commute"
        );
        assert_eq!(targets_of("scatter_add p0[v0], v0\n v2: u32 = gather p0[v0]"), [], "somebody looks");
        assert_eq!(targets_of("scatter_max p1[v0], v1"), [], "an element that was not touched may be NaN");
    }
}
