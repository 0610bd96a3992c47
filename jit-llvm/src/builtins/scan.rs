//! Running totals, with the grouping that [`jit_core::builtin`] describes: the same bits for any number of threads.
//!
//! A long sequence is worked off in passages that fit into the caches: all threads find the totals of the passage's chunks,
//! one adds them up, and all write. So memory is read once and written once.

use half::f16;
use jit_core::builtin::{CHUNK, GROUP};
use jit_core::op::Op;

use super::memory::{Input, Output};
use crate::pool::{Pool, Share};

/// Chunks of a passage: 4 MiB of f32.
const PASSAGE: usize = 1024;

/// Chunks that a thread takes at a time.
const RUN: usize = 16;

/// Sequences of at most so many elements are one thread's.
const SHORT: usize = 16 * CHUNK;

/// What is asked for.
#[derive(Clone, Copy)]
pub(super) struct How {
    pub(super) combine: Op,
    pub(super) exclusive: bool,
    pub(super) reverse: bool,
    /// Elements of a sequence; 0: all.
    pub(super) length: u64,
}

/// A type whose totals can be taken.
pub(super) trait Number: Copy + Send + Sync {
    /// What totals are taken in.
    type Total: Copy + Send + Sync;

    fn widen(self) -> Self::Total;
    fn narrow(total: Self::Total) -> Self;
    fn zero() -> Self::Total;
    fn add(a: Self::Total, b: Self::Total) -> Self::Total;
    /// The largest and the smallest value.
    fn extremes() -> [Self::Total; 2];
    fn min(a: Self::Total, b: Self::Total) -> Self::Total;
    fn max(a: Self::Total, b: Self::Total) -> Self::Total;
}

macro_rules! integers {
    ($($ty:ident)*) => {$(
        impl Number for $ty {
            type Total = $ty;

            fn widen(self) -> $ty { self }
            fn narrow(total: $ty) -> $ty { total }
            fn zero() -> $ty { 0 }
            fn add(a: $ty, b: $ty) -> $ty { a.wrapping_add(b) }
            fn extremes() -> [$ty; 2] { [$ty::MAX, $ty::MIN] }
            fn min(a: $ty, b: $ty) -> $ty { Ord::min(a, b) }
            fn max(a: $ty, b: $ty) -> $ty { Ord::max(a, b) }
        }
    )*};
}

integers! { u8 i8 u16 i16 u32 i32 u64 i64 }

macro_rules! floats {
    ($($ty:ident $total:ident $widen:expr, $narrow:expr;)*) => {$(
        impl Number for $ty {
            type Total = $total;

            fn widen(self) -> $total { $widen(self) }
            fn narrow(total: $total) -> $ty { $narrow(total) }
            fn zero() -> $total { 0.0 }
            fn add(a: $total, b: $total) -> $total { a + b }
            fn extremes() -> [$total; 2] { [$total::INFINITY, $total::NEG_INFINITY] }
            // NaN is ignored, and -0 is below +0: of equal numbers a bit of either sign decides.
            fn min(a: $total, b: $total) -> $total {
                if a < b || b.is_nan() { a } else if b < a || a.is_nan() { b } else { $total::from_bits(a.to_bits() | b.to_bits()) }
            }
            fn max(a: $total, b: $total) -> $total {
                if a > b || b.is_nan() { a } else if b > a || a.is_nan() { b } else { $total::from_bits(a.to_bits() & b.to_bits()) }
            }
        }
    )*};
}

floats! {
    f16 f32 f16::to_f32, f16::from_f32;
    f32 f32 |x| x, |x| x;
    f64 f64 |x| x, |x| x;
}

/// Writes the totals.
pub(super) fn run<T: Number>(from: Input<'_, T>, to: Output<'_, T>, how: How, pool: &Pool) {
    let [largest, smallest] = T::extremes();
    match how.combine {
        Op::Add => Scan { from, to, how, pool, read: T::widen, op: T::add, nothing: T::zero() }.run(),
        Op::Min => {
            let read = |x: T| T::min(largest, x.widen());
            Scan { from, to, how, pool, read, op: T::min, nothing: largest }.run();
        }
        _ => {
            let read = |x: T| T::max(smallest, x.widen());
            Scan { from, to, how, pool, read, op: T::max, nothing: smallest }.run();
        }
    }
}

struct Scan<'a, T: Number, Read, Combine> {
    from: Input<'a, T>,
    to: Output<'a, T>,
    how: How,
    pool: &'a Pool,
    read: Read,
    op: Combine,
    /// The total of no elements.
    nothing: T::Total,
}

/// A sequence of the input, which runs from its end if so asked for.
#[derive(Clone, Copy)]
struct Sequence {
    start: usize,
    len: usize,
}

impl<T, Read, Combine> Scan<'_, T, Read, Combine>
where
    T: Number,
    Read: Fn(T) -> T::Total + Copy + Sync,
    Combine: Fn(T::Total, T::Total) -> T::Total + Copy + Sync,
{
    fn run(&self) {
        let n = self.from.len();
        let length = match self.how.length {
            0 => n,
            length => usize::try_from(length).unwrap_or(usize::MAX).min(n),
        };
        if n == 0 {
            return;
        }
        let sequence = |k: usize| Sequence { start: k * length, len: length.min(n - k * length) };
        let sequences = n.div_ceil(length);
        if length > SHORT {
            return (0..sequences).for_each(|k| self.long(sequence(k)));
        }
        // As many short ones at a time as make a long one.
        let at_a_time = SHORT / length;
        self.share(sequences.div_ceil(at_a_time), n, |run| {
            let last = ((run + 1) * at_a_time).min(sequences);
            (run * at_a_time..last).for_each(|k| self.alone(sequence(k)));
        });
    }

    /// Calls `work` with the numbers below `runs`, on all threads if `elements` are many.
    fn share(&self, runs: usize, elements: usize, work: impl Fn(usize) + Sync) {
        let share = if elements > SHORT { Share::All } else { Share::Caller };
        self.pool.run(runs as u64, share, || (), |(), run| work(run as usize), |()| ());
    }

    /// A sequence on this thread.
    fn alone(&self, sequence: Sequence) {
        let mut offset = None;
        for chunk in 0..sequence.len.div_ceil(CHUNK) {
            let last = self.write(sequence, chunk, offset);
            offset = Some(self.after(offset, last));
        }
    }

    /// A sequence on all threads.
    fn long(&self, sequence: Sequence) {
        if self.pool.threads() == 1 {
            return self.alone(sequence);
        }
        let chunks = sequence.len.div_ceil(CHUNK);
        let mut offset = None;
        let mut offsets = vec![None; PASSAGE.min(chunks)];
        for first in (0..chunks).step_by(PASSAGE) {
            let here = PASSAGE.min(chunks - first);
            {
                let totals = Output::over(&mut offsets);
                self.share(here.div_ceil(RUN), usize::MAX, |run| {
                    let chunks = run * RUN..((run + 1) * RUN).min(here);
                    // SAFETY: runs are apart, and each is given to one call.
                    let totals = unsafe { totals.part(chunks.clone()) };
                    for (total, k) in totals.iter_mut().zip(chunks) {
                        *total = Some(self.total(sequence, first + k));
                    }
                });
            }
            for total in &mut offsets[..here] {
                let last = total.expect("every chunk has a total");
                *total = offset;
                offset = Some(self.after(offset, last));
            }
            self.share(here.div_ceil(RUN), usize::MAX, |run| {
                let chunks = run * RUN..((run + 1) * RUN).min(here);
                for (k, &offset) in chunks.clone().zip(&offsets[chunks]) {
                    self.write(sequence, first + k, offset);
                }
            });
        }
    }

    /// The offset behind a chunk.
    fn after(&self, offset: Option<T::Total>, last: T::Total) -> T::Total {
        offset.map_or(last, |offset| (self.op)(offset, last))
    }

    /// The elements of a chunk: where they start, and how many there are.
    fn place(&self, sequence: Sequence, chunk: usize) -> (usize, usize) {
        let (before, len) = (chunk * CHUNK, CHUNK.min(sequence.len - chunk * CHUNK));
        let first = if self.how.reverse { sequence.len - before - len } else { before };
        (sequence.start + first, len)
    }

    /// The last total of a chunk, without what comes before.
    fn total(&self, sequence: Sequence, chunk: usize) -> T::Total {
        let (start, len) = self.place(sequence, chunk);
        let mut carry = None;
        self.groups(&self.from[start..start + len], |_, totals| carry = totals.last().copied());
        carry.expect("a chunk is not empty")
    }

    /// Writes the totals of a chunk; its last total, without what comes before.
    fn write(&self, sequence: Sequence, chunk: usize, offset: Option<T::Total>) -> T::Total {
        let (start, len) = self.place(sequence, chunk);
        // SAFETY: chunks are apart, and each is given to one call.
        let out = unsafe { self.to.part(start..start + len) };
        let How { exclusive, reverse, .. } = self.how;
        let mut last = None;
        // What comes before the first element of a group.
        let mut before = T::narrow(offset.unwrap_or(self.nothing));
        self.groups(&self.from[start..start + len], |first, totals| {
            let mut values = [before; GROUP];
            for (value, &total) in values.iter_mut().zip(totals) {
                *value = T::narrow(offset.map_or(total, |offset| (self.op)(offset, total)));
            }
            let values = &mut values[..totals.len()];
            last = totals.last().copied();
            let next = values[values.len() - 1];
            if exclusive {
                values.rotate_right(1);
                values[0] = before;
            }
            before = next;
            if reverse {
                let end = len - first;
                values.reverse();
                out[end - values.len()..end].copy_from_slice(values);
            } else {
                out[first..first + values.len()].copy_from_slice(values);
            }
        });
        last.expect("a chunk is not empty")
    }

    /// Scans a chunk group by group. `each` gets how many elements come before, and the totals so far in the chunk.
    fn groups(&self, chunk: &[T], mut each: impl FnMut(usize, &[T::Total])) {
        let mut carry: Option<T::Total> = None;
        let mut first = 0;
        while first < chunk.len() {
            let len = GROUP.min(chunk.len() - first);
            let group = match self.how.reverse {
                true => &chunk[chunk.len() - first - len..chunk.len() - first],
                false => &chunk[first..first + len],
            };
            let mut values = [self.nothing; GROUP];
            for (value, &x) in values.iter_mut().zip(group) {
                *value = (self.read)(x);
            }
            if self.how.reverse {
                values[..len].reverse();
            }
            self.double::<1>(&mut values);
            self.double::<2>(&mut values);
            self.double::<4>(&mut values);
            self.double::<8>(&mut values);
            if let Some(carry) = carry {
                values.iter_mut().for_each(|value| *value = (self.op)(carry, *value));
            }
            carry = Some(values[len - 1]);
            each(first, &values[..len]);
            first += len;
        }
    }

    /// Combines each value with the one `STEP` before it, all at once.
    #[inline(always)]
    fn double<const STEP: usize>(&self, values: &mut [T::Total; GROUP]) {
        let old = *values;
        for i in STEP..GROUP {
            values[i] = (self.op)(old[i - STEP], old[i]);
        }
    }
}
