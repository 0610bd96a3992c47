//! Reductions that are more than one op: means, variances, counts, places of the smallest and largest.

use jit_core::dtype::DType;
use jit_core::op::Op;
use jit_core::trace::{Division, Var};

use crate::element::{Float, Int, Num};
use crate::reduction::{Reduced, reduced_by};
use crate::{Array, Mask};

/// A method for all elements, blocks, rows and columns; `$by` does it for a division. A function, not a closure, which would
/// lose its caller's line.
macro_rules! divided {
    ($($(#[$doc:meta])* $name:ident $blocks:ident $rows:ident $cols:ident -> $out:ty, $by:expr;)*) => {$(
        $(#[$doc])*
        #[track_caller]
        pub fn $name(&self) -> $out {
            $by(self, Division::ALL)
        }

        #[doc = concat!("[`", stringify!($name), "`](Self::", stringify!($name), ") of each block of `n` elements, of which the last may be shorter.")]
        ///
        /// # Panics
        /// If `n` is 0.
        #[track_caller]
        pub fn $blocks(&self, n: usize) -> $out {
            $by(self, Division::rows(n as u64))
        }

        #[doc = concat!("[`", stringify!($name), "`](Self::", stringify!($name), ") of each row of a row-major matrix with `cols` columns.")]
        ///
        /// # Panics
        /// If the elements are not whole rows.
        #[track_caller]
        pub fn $rows(&self, cols: usize) -> $out {
            $by(self, self.rows_of(cols))
        }

        #[doc = concat!("[`", stringify!($name), "`](Self::", stringify!($name), ") of each column of a row-major matrix with `cols` columns.")]
        ///
        /// # Panics
        /// If the elements are not whole rows.
        #[track_caller]
        pub fn $cols(&self, cols: usize) -> $out {
            $by(self, Division::columns(cols as u64))
        }
    )*};
}

impl<T: Float> Array<T> {
    divided! {
        /// The sum divided by the number of elements; f16 in f32. NaN for no elements.
        mean mean_blocks mean_rows mean_cols -> Array<T>, mean_by;
        /// The variance: the mean of the squares of the differences to the mean (divided by `n`, not `n - 1`). NaN for no
        /// elements.
        ///
        /// In f64, around an element of the array (T. F. Chan, G. H. Golub and R. J. LeVeque, *Algorithms for computing the
        /// sample variance*, 1983): parts are merged pairwise in the fixed order of all reductions.
        var var_blocks var_rows var_cols -> Array<T>, var_by;
    }
}

impl Mask {
    divided! {
        /// Whether any element is true.
        any any_blocks any_rows any_cols -> Mask, any_by;
        /// Whether all elements are true; true for no elements.
        all all_blocks all_rows all_cols -> Mask, all_by;
        /// How many elements are true.
        ///
        /// # Panics
        /// For 2^32 elements and more; [`count_u64`](Self::count_u64) counts those.
        count count_blocks count_rows count_cols -> Array<u32>, count_by;
        /// How many elements are true.
        count_u64 count_u64_blocks count_u64_rows count_u64_cols -> Array<u64>, count_u64_by;
    }
}

impl<T: Num> Array<T> {
    divided! {
        /// The index of the smallest element, of several the lowest: the element that [`reduce_min`](Self::reduce_min)
        /// gives, so NaN is ignored and -0 is below +0. 0 if all are NaN. Of a block, row or column: the index within it.
        ///
        /// No elements: evaluating it is [`Error::EmptyReduction`](crate::Error::EmptyReduction).
        ///
        /// # Panics
        /// For 2^32 elements and more; [`argmin_u64`](Self::argmin_u64) finds those.
        argmin argmin_blocks argmin_rows argmin_cols -> Array<u32>, argmin_by;
        /// The index of the largest element, of several the lowest: the element that [`reduce_max`](Self::reduce_max) gives,
        /// so NaN is ignored and +0 is above -0. 0 if all are NaN. Of a block, row or column: the index within it.
        ///
        /// No elements: evaluating it is [`Error::EmptyReduction`](crate::Error::EmptyReduction).
        ///
        /// # Panics
        /// For 2^32 elements and more; [`argmax_u64`](Self::argmax_u64) finds those.
        argmax argmax_blocks argmax_rows argmax_cols -> Array<u32>, argmax_by;
        /// [`argmin`](Self::argmin) for any number of elements.
        argmin_u64 argmin_u64_blocks argmin_u64_rows argmin_u64_cols -> Array<u64>, argmin_u64_by;
        /// [`argmax`](Self::argmax) for any number of elements.
        argmax_u64 argmax_u64_blocks argmax_u64_rows argmax_u64_cols -> Array<u64>, argmax_u64_by;
    }
}

#[track_caller]
fn any_by(mask: &Mask, by: Division) -> Mask {
    mask.reduced(Op::ReduceOr, by)
}

#[track_caller]
fn all_by(mask: &Mask, by: Division) -> Mask {
    mask.reduced(Op::ReduceAnd, by)
}

#[track_caller]
fn count_by(mask: &Mask, by: Division) -> Array<u32> {
    check_u32("count", &mask.var);
    mask.cast::<u32>().reduced(Op::ReduceSum, by)
}

#[track_caller]
fn count_u64_by(mask: &Mask, by: Division) -> Array<u64> {
    mask.cast::<u64>().reduced(Op::ReduceSum, by)
}

#[track_caller]
fn argmin_by<T: Num>(array: &Array<T>, by: Division) -> Array<u32> {
    check_u32("argmin", &array.var);
    place(array, by, Side::Least, "argmin")
}

#[track_caller]
fn argmax_by<T: Num>(array: &Array<T>, by: Division) -> Array<u32> {
    check_u32("argmax", &array.var);
    place(array, by, Side::Greatest, "argmax")
}

#[track_caller]
fn argmin_u64_by<T: Num>(array: &Array<T>, by: Division) -> Array<u64> {
    place(array, by, Side::Least, "argmin_u64")
}

#[track_caller]
fn argmax_u64_by<T: Num>(array: &Array<T>, by: Division) -> Array<u64> {
    place(array, by, Side::Greatest, "argmax_u64")
}

#[track_caller]
fn check_u32(what: &str, var: &Var) {
    let size = var.size();
    assert!(size < 1 << 32, "`{what}` of {size} elements may not fit u32; use `{what}_u64`");
}

/// The number of elements that each result is made of.
#[track_caller]
fn counts(var: &Var, division: Division) -> Array<u64> {
    let size = var.size();
    let number = |count: u64| Array::<u64>::from_var(var.number(count));
    match (division.length(), division) {
        (0, _) => number(size),
        (cols, by) if by == Division::columns(cols) => number(size / cols),
        (length, _) if size.is_multiple_of(length) => number(length),
        (length, _) if size < length => number(size),
        (length, by) => {
            let device = var.device().expect("an array of several elements has a device");
            let block = Array::<u64>::from_var(Var::counter(device, DType::U64, by.count(size)));
            (number(size) - block * number(length)).min(number(length))
        }
    }
}

#[track_caller]
fn mean_by<T: Float>(array: &Array<T>, by: Division) -> Array<T> {
    if T::DTYPE == DType::F16 {
        return mean_by(&array.cast::<f32>(), by).cast();
    }
    // The number is no literal: the size is no part of a kernel's structure.
    let sum = array.reduced(Op::ReduceSum, by);
    sum / counts(&array.var, by).cast::<T>()
}

/// State of a variance: a number of elements, one of them (the pivot), and the sums of the others' differences to it and of
/// the squares of these. An element is a pivot, so the sum of squares is at most `n + 1` times what remains of it after the
/// mean is taken out.
type Deviations = (Array<f64>, Array<f64>, Array<f64>, Array<f64>);

#[track_caller]
fn var_by<T: Float>(array: &Array<T>, by: Division) -> Array<T> {
    let x = array.cast::<f64>();
    // -0.0 added to anything is no work.
    let lane: Deviations = (1.0.into(), x, (-0.0).into(), (-0.0).into());
    let none: Deviations = (0.0.into(), 0.0.into(), 0.0.into(), 0.0.into());
    let (n, _, sum, squares) = reduced_by(&lane, &none, by, Reduced::named("var"), merged);
    let mean = &sum / &n;
    let rest = (-&sum).mul_add(mean, squares).maximum(0.0);
    (rest / n).cast()
}

/// The deviations of two groups of elements, around the pivot of the first. No division: that would be the cost of all.
fn merged(a: Deviations, b: Deviations) -> Deviations {
    let (n, pivot, sum, squares) = a;
    let (more, other, others, other_squares) = b;
    let pivot = n.eq(0.0).select(&other, pivot);
    let shift = more.eq(0.0).select(0.0, other - &pivot);
    let shifted = &more * &shift;
    let squares = squares + (other_squares + shift * (2.0 * &others + &shifted));
    (n + more, pivot, sum + (others + shifted), squares)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Least,
    Greatest,
}

/// The index of the least or greatest element of each segment.
#[track_caller]
fn place<T: Num, I: Int>(array: &Array<T>, by: Division, side: Side, name: &'static str) -> Array<I> {
    let var = &array.var;
    let Some(device) = var.device() else {
        return I::default().into();
    };
    let size = var.size();
    let no_index = Array::<I>::from(I::from_bits(I::DTYPE.mask()));
    let index = Array::<I>::from_var(Var::counter(device, I::DTYPE, size));
    let key = Key::new(var, side);
    let index = match &key.is_nan {
        Some(is_nan) => is_nan.select(&no_index, index),
        None => index,
    };
    let lane = (Ordered(key.key), index);
    let none = (Ordered(key.last), no_index.clone());
    let first = |(a, i): (Ordered, Array<I>), (b, k): (Ordered, Array<I>)| {
        let (before, same) = (b.compare(Op::Lt, &a), b.compare(Op::Eq, &a));
        let second = before | (same & k.lt(&i));
        (b.instead_of(&a, &second), second.select(k, i))
    };
    let (_, found) = reduced_by(&lane, &none, by, Reduced { name, partial: Some(name) }, first);
    let within = match (by.length(), by) {
        (0, _) => found.clone(),
        (cols, by) if by == Division::columns(cols) => {
            &found / Array::<u64>::from_var(var.number(cols)).cast::<I>()
        }
        (length, by) => {
            let segment = Array::<I>::from_var(Var::counter(device, I::DTYPE, by.count(size)));
            &found - segment * Array::<u64>::from_var(var.number(length)).cast::<I>()
        }
    };
    found.eq(no_index).select(I::default(), within)
}

/// Elements as integers whose order is the one wanted.
struct Key {
    key: Var,
    /// No number's key comes behind this.
    last: Var,
    is_nan: Option<Mask>,
}

impl Key {
    #[track_caller]
    fn new(var: &Var, side: Side) -> Key {
        let dtype = var.dtype();
        let apply = |op: Op, args: &[&Var]| Var::apply(op, args[0].dtype(), args);
        let mut key = var.clone();
        let mut is_nan = None;
        if dtype.is_float() {
            // Negative floats grow as their bits shrink: all of their bits but the sign are flipped.
            let int = match dtype {
                DType::F16 => DType::I16,
                DType::F32 => DType::I32,
                _ => DType::I64,
            };
            let bits = Var::apply(Op::Bitcast, int, &[var]);
            let sign = apply(Op::Shr, &[&bits, &Var::literal(int, u64::from(int.bits()) - 1)]);
            let flip = apply(Op::And, &[&sign, &Var::literal(int, int.mask() >> 1)]);
            key = apply(Op::Xor, &[&bits, &flip]);
            is_nan = Some(Mask::from_var(Var::apply(Op::Ne, DType::Bool, &[var, var])));
        }
        if side == Side::Greatest {
            key = apply(Op::Not, &[&key]);
        }
        let ty = key.dtype();
        let last = Var::literal(ty, if ty.is_signed() { ty.mask() >> 1 } else { ty.mask() });
        if let Some(is_nan) = &is_nan {
            key = Var::apply(Op::Select, ty, &[is_nan.as_var(), &last, &key]);
        }
        Key { key, last, is_nan }
    }
}

/// An array of integers of a type that is known at run time.
struct Ordered(Var);

impl Ordered {
    #[track_caller]
    fn compare(&self, op: Op, other: &Ordered) -> Mask {
        Mask::from_var(Var::apply(op, DType::Bool, &[&self.0, &other.0]))
    }

    #[track_caller]
    fn instead_of(&self, other: &Ordered, condition: &Mask) -> Ordered {
        Ordered(Var::apply(Op::Select, self.0.dtype(), &[condition.as_var(), &self.0, &other.0]))
    }
}

impl crate::Traverse for Ordered {
    fn visit(&self, visitor: &mut dyn crate::traverse::Visitor) {
        visitor.array(&self.0);
    }

    fn rebuild(&self, rebuilder: &mut dyn crate::traverse::Rebuilder) -> Self {
        Ordered(rebuilder.array(&self.0))
    }

    fn static_key(&self, _state: &mut dyn std::hash::Hasher) {}
}
