//! Kernels that are made from no program: what moves or combines elements across lanes, other than reductions.
//!
//! A builtin is launched with three arguments: the memory it reads, the memory it writes, and a number as a scalar. This
//! module says what each writes; [`reference`](Builtin::reference) is the interpreter's, element by element.
//!
//! # Scans
//! The sequence is cut into chunks of [`CHUNK`] elements. Each is scanned for itself, one element after the other. The last
//! value of each joins the offset of the chunks after it, in order, and an element is its chunk's offset combined with its
//! own value. So the result is a function of the sequence alone, whatever works on it. Sums of f16 are f32 in between, and
//! `min` and `max` begin with their identity, as in reductions.

use crate::dtype::DType;
use crate::op::{Op, scalar};

/// Elements of a sequence that is scanned for itself.
pub const CHUNK: usize = 1024;

/// A kernel that is made from no program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Builtin {
    /// Running totals in as many elements as are read. The number is the length of the sequences that the elements are cut
    /// into, each with totals of its own; 0: all are one.
    Scan {
        /// What the totals are of: `add`, `min` or `max`.
        combine: Op,
        /// The type of the elements and of the totals.
        dtype: DType,
        /// Whether an element is left out of its own total.
        exclusive: bool,
        /// Whether totals run from the end.
        reverse: bool,
    },
    /// The elements in ascending order, NaN last and -0 before +0.
    Sort {
        /// Their type.
        dtype: DType,
    },
    /// The indices that put the elements in that order; equal ones keep theirs, and all NaN are equal.
    Argsort {
        /// The type of the elements.
        dtype: DType,
        /// The type of the indices.
        index: DType,
    },
    /// The indices of the elements of type bool that are true, ascending, as far as there is room; then zeros.
    Compress {
        /// The type of the indices.
        index: DType,
    },
}

impl Builtin {
    /// A word for people.
    pub const fn name(self) -> &'static str {
        match self {
            Builtin::Scan { .. } => "scan",
            Builtin::Sort { .. } => "sort",
            Builtin::Argsort { .. } => "argsort",
            Builtin::Compress { .. } => "compress",
        }
    }

    /// The types of the elements that are read and written.
    pub const fn dtypes(self) -> [DType; 2] {
        match self {
            Builtin::Scan { dtype, .. } | Builtin::Sort { dtype } => [dtype, dtype],
            Builtin::Argsort { dtype, index } => [dtype, index],
            Builtin::Compress { index } => [DType::Bool, index],
        }
    }

    /// What it writes to `room` elements, of the elements it reads, both as bits.
    pub fn reference(self, elements: &[u64], room: usize, number: u64) -> Vec<u64> {
        match self {
            Builtin::Scan { .. } => self.scan(elements, number),
            Builtin::Sort { dtype } => {
                let mut sorted = elements.to_vec();
                sorted.sort_by_key(|&bits| sort_key(dtype, bits));
                sorted
            }
            Builtin::Argsort { dtype, .. } => {
                let mut indices: Vec<u64> = (0..elements.len() as u64).collect();
                indices.sort_by_key(|&i| sort_key(dtype, elements[i as usize]));
                indices
            }
            Builtin::Compress { .. } => {
                let indices = (0u64..).zip(elements).filter(|(_, bit)| **bit != 0).map(|(i, _)| i);
                indices.chain(std::iter::repeat(0)).take(room).collect()
            }
        }
    }

    fn scan(self, elements: &[u64], length: u64) -> Vec<u64> {
        let Builtin::Scan { combine, dtype, exclusive, reverse } = self else {
            unreachable!("called for scans")
        };
        let length = if length == 0 { elements.len() } else { usize::try_from(length).unwrap_or(usize::MAX) };
        let mut out = Vec::with_capacity(elements.len());
        for sequence in elements.chunks(length.max(1)) {
            let mut sequence = sequence.to_vec();
            if reverse {
                sequence.reverse();
            }
            let mut totals = scan_sequence(combine, dtype, &sequence);
            if exclusive {
                totals.rotate_right(1);
                totals[0] = identity(combine, dtype);
            }
            if reverse {
                totals.reverse();
            }
            out.extend(totals);
        }
        out
    }
}

/// The total of no elements: sums of floats are +0.
fn identity(combine: Op, dtype: DType) -> u64 {
    if combine == Op::Add { 0 } else { scalar::identity(combine, dtype) }
}

fn scan_sequence(combine: Op, dtype: DType, elements: &[u64]) -> Vec<u64> {
    let wide = if dtype == DType::F16 { DType::F32 } else { dtype };
    let op = |a: u64, b: u64| scalar::evaluate(combine, wide, wide, &[a, b]);
    let start = scalar::identity(combine, wide);
    let widened = |&bits: &u64| match combine {
        Op::Add => scalar::cast(dtype, wide, bits),
        _ => op(start, scalar::cast(dtype, wide, bits)),
    };
    let mut offset = None;
    let mut totals = Vec::with_capacity(elements.len());
    for chunk in elements.chunks(CHUNK) {
        let mut last = None;
        for bits in chunk {
            let value = widened(bits);
            let own = last.map_or(value, |last| op(last, value));
            last = Some(own);
            totals.push(scalar::cast(wide, dtype, offset.map_or(own, |offset| op(offset, own))));
        }
        let last = last.expect("a chunk is not empty");
        offset = Some(offset.map_or(last, |offset| op(offset, last)));
    }
    totals
}

/// A number that orders elements as sorting does.
fn sort_key(dtype: DType, bits: u64) -> u64 {
    let sign = 1u64 << (dtype.size() as u32 * 8 - 1);
    if dtype.is_float() {
        if crate::dtype::is_nan(dtype, bits) {
            return u64::MAX;
        }
        return if bits & sign != 0 { !bits & dtype.mask() } else { bits | sign };
    }
    if dtype.is_signed() { bits ^ sign } else { bits }
}
