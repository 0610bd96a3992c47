//! The rows of what the frontend builds of several ops, or offers under several names: a few numbers that every type has,
//! through each function of a group.

use jit_core::dtype::{DType, Element};
use jit_core::runtime;
use jit_frontend::{
    Array, Bits, Buffer, Device, Filter, Float, Int, Mask, Num, Pcg32, Signed, Texture1, Widen, Wrap,
};

use super::reasons::Reason;
use super::rows::Row;
use super::{Asked, meaning};
use crate::host::upload_bits;
use crate::semantics::grid::{limits, wrapped};

/// Which element types have the methods of a group.
#[derive(Clone, Copy)]
enum Class {
    Element,
    Num,
    Signed,
    Int,
    Widen,
    Float,
    Bool,
    Random,
}

/// Why a type is not in a class.
fn missing(class: Class, dtype: DType) -> Option<Reason> {
    match (class, dtype) {
        (Class::Num | Class::Signed, DType::Bool) => Some(Reason::NoArithmetic),
        (Class::Signed, _) if dtype.is_int() && !dtype.is_signed() => Some(Reason::NoSign),
        (Class::Int | Class::Widen, _) if !dtype.is_int() => Some(Reason::IntegersOnly),
        (Class::Widen, DType::I64 | DType::U64) => Some(Reason::NoWiderType),
        (Class::Float, _) if !dtype.is_float() => Some(Reason::FloatsOnly),
        (Class::Bool, _) if dtype != DType::Bool => Some(Reason::BoolsOnly),
        (Class::Random, _) if !matches!(dtype, DType::U32 | DType::F32 | DType::F64) => {
            Some(Reason::RandomTypes)
        }
        _ => None,
    }
}

/// What asks a function of the types of a class.
macro_rules! ask {
    ($class:ident $f:ident [$($variant:ident $ty:ty),*]) => {
        Box::new(|device, dtype| {
            if let Some(reason) = missing(Class::$class, dtype) {
                return Err(reason);
            }
            match dtype {
                $(d if d == DType::$variant => Ok($f::<$ty>(device)),)*
                other => unreachable!("{other} is of no such class"),
            }
        })
    };
}

macro_rules! rows {
    ($($class:ident $types:tt { $($name:literal $f:ident;)* })*) => {
        vec![$($(Row { name: $name.to_owned(), ask: ask!($class $f $types) },)*)*]
    };
}

/// The rows of the frontend, under their heading.
pub(super) fn rows() -> [(&'static str, Vec<Row>); 1] {
    use half::f16;
    let rows = rows! {
        Element [Bool bool, I8 i8, U8 u8, I16 i16, U16 u16, I32 i32, U32 u32, I64 i64, U64 u64, F16 f16, F32 f32, F64 f64] {
            "reverse, tile, repeat, slice, concat" permutations;
            "gather_packet, scatter_packet" packets;
            "Buffer: set, assign, write" buffers;
        }
        Num [I8 i8, U8 u8, I16 i16, U16 u16, I32 i32, U32 u32, I64 i64, U64 u64, F16 f16, F32 f32, F64 f64] {
            "arange" arange;
            "clamp, dot" clamp_and_dot;
            "argmin, argmax" places;
            "sums of blocks, rows, columns" segments;
            "prefix sums of blocks" prefix_sums;
            "scatter_add_packet" added_packets;
        }
        Signed [I8 i8, I16 i16, I32 i32, I64 i64, F16 f16, F32 f32, F64 f64] {
            "-x, signum" signs;
        }
        Int [I8 i8, U8 u8, I16 i16, U16 u16, I32 i32, U32 u32, I64 i64, U64 u64] {
            "checked, overflowing, saturating add" overflow;
            "rotate_left, rotate_right" rotations;
            "histogram" histogram;
            "x.pow(n)" powers;
        }
        Widen [I8 i8, U8 u8, I16 i16, U16 u16, I32 i32, U32 u32] {
            "mul_wide" wide_products;
        }
        Float [F16 f16, F32 f32, F64 f64] {
            "mean, var" statistics;
            "linspace" linspace;
            "is_nan, is_finite, is_infinite" kinds_of_numbers;
            "fract, lerp, step, powi" functions;
            "textures" textures;
        }
        Bool [Bool bool] {
            "any, all, count" truths;
        }
        Random [U32 u32, F32 f32, F64 f64] {
            "Pcg32" random;
        }
    };
    [("What the frontend makes of them", rows)]
}

/// The bits of small numbers.
fn bits<T: Element>(numbers: &[f64]) -> Vec<u64> {
    numbers.iter().map(|v| meaning::cast(DType::F64, T::DTYPE, v.to_bits())).collect()
}

fn array<T: Element>(device: runtime::Device, numbers: &[f64]) -> Array<T> {
    Array::from_var(upload_bits(device, T::DTYPE, &bits::<T>(numbers)))
}

fn asked<T: Element>(form: &str, got: &Array<T>, expected: &[f64]) -> Asked {
    asked_bits(form, got, bits::<T>(expected))
}

fn asked_bits<T: Element>(form: &str, got: &Array<T>, expected: Vec<u64>) -> Asked {
    Asked { form: form.to_owned(), args: Vec::new(), got: got.as_var().clone(), expected, moves_bits: false }
}

fn permutations<T: Element>(device: runtime::Device) -> Vec<Asked> {
    let x = array::<T>(device, &[3.0, 0.0, 2.0, 1.0]);
    vec![
        asked("reverse", &x.reverse(), &[1.0, 2.0, 0.0, 3.0]),
        asked("tile", &x.tile(2), &[3.0, 0.0, 2.0, 1.0, 3.0, 0.0, 2.0, 1.0]),
        asked("repeat", &x.repeat(2), &[3.0, 3.0, 0.0, 0.0, 2.0, 2.0, 1.0, 1.0]),
        asked("slice", &x.slice(1..3), &[0.0, 2.0]),
        asked("concat", &Array::concat(&[x.slice(2..), x.slice(..1)]), &[2.0, 1.0, 3.0]),
    ]
}

fn packets<T: Element>(device: runtime::Device) -> Vec<Asked> {
    let mut x = array::<T>(device, &[3.0, 0.0, 2.0, 1.0]);
    let index = array::<u32>(device, &[1.0, 0.0, 9.0]);
    let [first, second] = x.gather_packet::<2, u32>(&index);
    let values = [array(device, &[0.0, 5.0, 6.0]), array(device, &[7.0, 0.0, 8.0])];
    x.scatter_packet(&values, &index);
    vec![
        asked("gather_packet, 0", &first, &[2.0, 3.0, 0.0]),
        asked("gather_packet, 1", &second, &[1.0, 0.0, 0.0]),
        asked("scatter_packet", &x, &[5.0, 0.0, 0.0, 7.0]),
    ]
}

fn buffers<T: Element>(device: runtime::Device) -> Vec<Asked> {
    let buffer = Buffer::<T>::zeros(3, &Device::from_core(device)).expect("a place");
    buffer.set(array::<T>(device, &[3.0, 0.0, 2.0]));
    let set = buffer.value();
    buffer.assign(array::<T>(device, &[0.0, 1.0, 5.0]));
    let assigned = buffer.value();
    buffer.write(1, T::default()).expect("an element");
    vec![
        asked("set", &set, &[3.0, 0.0, 2.0]),
        asked("assign", &assigned, &[0.0, 1.0, 5.0]),
        asked("write", &buffer.value(), &[0.0, 0.0, 5.0]),
    ]
}

fn arange<T: Num>(device: runtime::Device) -> Vec<Asked> {
    let x = Array::<T>::arange(100, &Device::from_core(device));
    vec![asked("arange", &x, &(0..100).map(f64::from).collect::<Vec<_>>())]
}

fn clamp_and_dot<T: Num>(device: runtime::Device) -> Vec<Asked> {
    let x = array::<T>(device, &[3.0, 0.0, 2.0, 1.0]);
    let (low, high) = (array::<T>(device, &[1.0]), array::<T>(device, &[2.0]));
    vec![asked("clamp", &x.clamp(&low, &high), &[2.0, 1.0, 2.0, 1.0]), asked("dot", &x.dot(&x), &[14.0])]
}

fn places<T: Num>(device: runtime::Device) -> Vec<Asked> {
    let x = array::<T>(device, &[3.0, 0.0, 2.0, 0.0, 3.0]);
    vec![
        asked("argmin", &x.argmin(), &[1.0]),
        asked("argmax", &x.argmax(), &[0.0]),
        asked("argmin_u64", &x.argmin_u64(), &[1.0]),
        asked("argmax_blocks", &x.argmax_blocks(2), &[0.0, 0.0, 0.0]),
    ]
}

fn segments<T: Num>(device: runtime::Device) -> Vec<Asked> {
    let x = array::<T>(device, &[3.0, 0.0, 2.0, 1.0]);
    vec![
        asked("sum_blocks", &x.sum_blocks(3), &[5.0, 1.0]),
        asked("sum_rows", &x.sum_rows(2), &[3.0, 3.0]),
        asked("sum_cols", &x.sum_cols(2), &[5.0, 1.0]),
    ]
}

fn prefix_sums<T: Num>(device: runtime::Device) -> Vec<Asked> {
    let x = array::<T>(device, &[3.0, 0.0, 2.0, 1.0]);
    vec![
        asked("prefix_sum_blocks", &x.prefix_sum_blocks(3), &[3.0, 3.0, 5.0, 1.0]),
        asked("exclusive_prefix_sum_blocks", &x.exclusive_prefix_sum_blocks(3), &[0.0, 3.0, 3.0, 0.0]),
    ]
}

fn added_packets<T: Num>(device: runtime::Device) -> Vec<Asked> {
    let mut x = array::<T>(device, &[3.0, 0.0, 2.0, 1.0]);
    let values = [array(device, &[4.0, 5.0]), array(device, &[6.0, 7.0])];
    x.scatter_add_packet(&values, array::<i8>(device, &[1.0, 1.0]));
    vec![asked("scatter_add_packet", &x, &[3.0, 0.0, 11.0, 14.0])]
}

fn signs<T: Signed>(device: runtime::Device) -> Vec<Asked> {
    let x = array::<T>(device, &[-2.0, 3.0]);
    vec![asked("-x", &-&x, &[2.0, -3.0]), asked("signum", &x.signum(), &[-1.0, 1.0])]
}

fn overflow<T: Int>(device: runtime::Device) -> Vec<Asked> {
    let greatest = wrapped(T::DTYPE, limits(T::DTYPE).1);
    let least = wrapped(T::DTYPE, limits(T::DTYPE).0);
    let x = Array::<T>::from_var(upload_bits(device, T::DTYPE, &[greatest, 1]));
    let one = array::<T>(device, &[1.0]);
    let ((checked, fits), (sum, overflows)) = (x.checked_add(&one), x.overflowing_add(&one));
    vec![
        asked_bits("checked_add", &checked, vec![least, 2]),
        asked("checked_add", &fits, &[0.0, 1.0]),
        asked_bits("overflowing_add", &sum, vec![least, 2]),
        asked("overflowing_add", &overflows, &[1.0, 0.0]),
        asked_bits("saturating_add", &x.saturating_add(&one), vec![greatest, 2]),
    ]
}

fn rotations<T: Int>(device: runtime::Device) -> Vec<Asked> {
    let top = 1 << (T::DTYPE.bits() - 1);
    let x = Array::<T>::from_var(upload_bits(device, T::DTYPE, &[top | 2, 1]));
    vec![
        asked_bits("rotate_left", &x.rotate_left(1), vec![5, 2]),
        asked_bits("rotate_right", &x.rotate_right(1), vec![top >> 1 | 1, top]),
    ]
}

fn histogram<T: Int>(device: runtime::Device) -> Vec<Asked> {
    let x = Array::<T>::from_var(upload_bits(device, T::DTYPE, &[0, 2, T::DTYPE.mask(), 2, 3]));
    vec![asked("histogram", &x.histogram(3), &[1.0, 0.0, 2.0])]
}

fn powers<T: Int>(device: runtime::Device) -> Vec<Asked> {
    let greatest = wrapped(T::DTYPE, limits(T::DTYPE).1);
    let x = Array::<T>::from_var(upload_bits(device, T::DTYPE, &[greatest, 3, 0]));
    // (2^k - 1)^3 is 3 * 2^k - 1 modulo 2^(k + 1), since k is at least 7.
    let cube = wrapped(T::DTYPE, 3 * (limits(T::DTYPE).1 + 1) - 1);
    vec![asked_bits("pow(3)", &x.pow(3), vec![cube, 27, 0]), asked("pow(0)", &x.pow(0), &[1.0; 3])]
}

fn wide_products<T: Widen>(device: runtime::Device) -> Vec<Asked> {
    let (low, high) = limits(T::DTYPE);
    let x = Array::<T>::from_var(upload_bits(device, T::DTYPE, &[low, high].map(|v| wrapped(T::DTYPE, v))));
    let wide = <T::Wide as Element>::DTYPE;
    let expected = [low * low, high * high].map(|v| wrapped(wide, v)).to_vec();
    vec![asked_bits("mul_wide", &x.mul_wide(&x), expected)]
}

fn statistics<T: Float>(device: runtime::Device) -> Vec<Asked> {
    let x = array::<T>(device, &[1.0, 2.0, 3.0, 6.0]);
    vec![
        asked("mean", &x.mean(), &[3.0]),
        asked("var", &x.var(), &[3.5]),
        asked("mean_rows", &x.mean_rows(2), &[1.5, 4.5]),
    ]
}

fn linspace<T: Float>(device: runtime::Device) -> Vec<Asked> {
    let x = Array::<T>::linspace(T::from_f64(-1.0), T::from_f64(1.0), 5, &Device::from_core(device));
    vec![asked("linspace", &x, &[-1.0, -0.5, 0.0, 0.5, 1.0])]
}

fn kinds_of_numbers<T: Float>(device: runtime::Device) -> Vec<Asked> {
    let x = array::<T>(device, &[f64::NAN, f64::NEG_INFINITY, -0.0, 1.0]);
    vec![
        asked("is_nan", &x.is_nan(), &[1.0, 0.0, 0.0, 0.0]),
        asked("is_infinite", &x.is_infinite(), &[0.0, 1.0, 0.0, 0.0]),
        asked("is_finite", &x.is_finite(), &[0.0, 0.0, 1.0, 1.0]),
    ]
}

fn functions<T: Float>(device: runtime::Device) -> Vec<Asked> {
    let x = array::<T>(device, &[2.5, -1.25]);
    let (two, half) = (T::from_f64(2.0), T::from_f64(0.5));
    vec![
        asked("fract", &x.fract(), &[0.5, -0.25]),
        asked("lerp", &x.lerp(two, half), &[2.25, 0.375]),
        asked("step", &x.step(two), &[1.0, 0.0]),
        asked("powi", &x.powi(-2), &[0.16, 0.64]),
    ]
}

fn textures<T: Float>(device: runtime::Device) -> Vec<Asked> {
    let texels = array::<T>(device, &[0.0, 2.0, 4.0, 6.0]);
    let texture = |filter| Texture1::from_data(4, 1, &texels, filter, Wrap::Clamp).expect("a texture");
    let u = array::<T>(device, &[-1.0, 0.125, 0.25, 0.625, 2.0]);
    vec![
        asked("linear", &texture(Filter::Linear).eval(&u)[0], &[0.0, 0.0, 1.0, 4.0, 6.0]),
        asked("nearest", &texture(Filter::Nearest).eval(&u)[0], &[0.0, 0.0, 2.0, 4.0, 6.0]),
    ]
}

fn truths<T: Element>(device: runtime::Device) -> Vec<Asked> {
    let x: Mask = array::<T>(device, &[1.0, 0.0, 1.0]).cast();
    vec![asked("any", &x.any(), &[1.0]), asked("all", &x.all(), &[0.0]), asked("count", &x.count(), &[2.0])]
}

/// The numbers by their definition: M. E. O'Neill's PCG-XSH-RR, seeded as its minimal C version is.
fn random<T: Element>(device: runtime::Device) -> Vec<Asked> {
    const SEED: u64 = 42;
    let mut generator = Pcg32::new(3, SEED, &Device::from_core(device));
    let mut own = [0u64, 1, 2].map(|stream| {
        let increment = stream << 1 | 1;
        let step = move |state: u64| state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(increment);
        let mut state = step(step(0).wrapping_add(SEED));
        move || {
            let old = state;
            state = step(old);
            (((old >> 18 ^ old) >> 27) as u32).rotate_right((old >> 59) as u32)
        }
    });
    let mut asked = Vec::new();
    for draw in ["first", "second"] {
        asked.push(match T::DTYPE {
            DType::U32 => {
                let expected = own.each_mut().map(|next| u64::from(next()));
                asked_bits(draw, &generator.next_u32(), expected.to_vec())
            }
            DType::F32 => {
                let expected = own.each_mut().map(|next| f64::from(next() >> 8) / f64::from(1 << 24));
                asked_bits(draw, &generator.next_f32(), bits::<f32>(&expected))
            }
            _ => {
                let expected = own.each_mut().map(|next| {
                    let high = u64::from(next()) << 32;
                    ((high | u64::from(next())) >> 11) as f64 / (1u64 << 53) as f64
                });
                asked_bits(draw, &generator.next_f64(), bits::<f64>(&expected))
            }
        });
    }
    asked
}

/// Whether a type has a trait of the frontend, asked of the compiler: a constant of the type's own, which it has if the
/// trait is there, hides the one that all types have.
mod has {
    use std::marker::PhantomData;

    pub(super) struct Has<T>(PhantomData<T>);

    pub(super) trait Nothing {
        const NUM: bool = false;
        const SIGNED: bool = false;
        const INT: bool = false;
        const BITS: bool = false;
        const WIDEN: bool = false;
        const FLOAT: bool = false;
    }

    impl<T> Nothing for Has<T> {}

    macro_rules! has {
        ($($class:ident $name:ident;)*) => {$(
            impl<T: super::$class> Has<T> {
                pub(super) const $name: bool = true;
            }
        )*};
    }

    has! { Num NUM; Signed SIGNED; Int INT; Bits BITS; Widen WIDEN; Float FLOAT; }
}

#[test]
fn the_classes_are_those_of_the_frontend() {
    use has::{Has, Nothing as _};
    macro_rules! classes {
        ($($ty:ty)*) => {$(
            let dtype = <$ty as Element>::DTYPE;
            let own = |class| missing(class, dtype).is_none();
            assert_eq!(own(Class::Num), Has::<$ty>::NUM, "{dtype} is a number");
            assert_eq!(own(Class::Signed), Has::<$ty>::SIGNED, "{dtype} has a sign");
            assert_eq!(own(Class::Int), Has::<$ty>::INT, "{dtype} is an integer");
            assert_eq!(own(Class::Widen), Has::<$ty>::WIDEN, "{dtype} widens");
            assert_eq!(own(Class::Float), Has::<$ty>::FLOAT, "{dtype} is a float");
            assert_eq!(!dtype.is_float(), Has::<$ty>::BITS, "{dtype} has bits");
        )*};
    }
    classes! { bool i8 u8 i16 u16 i32 u32 i64 u64 half::f16 f32 f64 }
}
