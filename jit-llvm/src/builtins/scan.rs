//! Running totals, with the grouping that [`jit_core::builtin`] describes: the same bits for any number of threads.
//!
//! A sequence is worked off in passages that fit into the caches: all threads find the totals of the passage's chunks, one
//! adds them up, and all write. So memory is read once and written once. Each thread has several chunks in work at a time,
//! since one element after the other keeps an adder waiting for itself.

use std::ops::Range;

use half::f16;
use jit_core::builtin::CHUNK;
use jit_core::op::Op;

use super::memory::{Input, Output};
use crate::pool::{Pool, Share};

/// Chunks of a passage: 4 MiB of f32.
const PASSAGE: usize = 1024;

/// Chunks that a thread takes at a time.
const RUN: usize = 16;

/// Chunks that a thread has in work at a time.
const ABREAST: usize = 4;

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
        self.by_passages(sequence, RUN, Share::Caller);
    }

    /// A sequence on all threads.
    fn long(&self, sequence: Sequence) {
        match self.pool.threads() {
            1 => self.alone(sequence),
            _ => self.by_passages(sequence, PASSAGE, Share::All),
        }
    }

    fn by_passages(&self, sequence: Sequence, passage: usize, share: Share) {
        let chunks = sequence.len.div_ceil(CHUNK);
        let mut offset = None;
        let mut offsets = vec![None; passage.min(chunks)];
        for first in (0..chunks).step_by(passage) {
            let here = passage.min(chunks - first);
            let each_run = |work: &(dyn Fn(Range<usize>) + Sync)| {
                let run = |run: u64| {
                    let start = run as usize * RUN;
                    work(start..(start + RUN).min(here));
                };
                self.pool.run(here.div_ceil(RUN) as u64, share, || (), |(), k| run(k), |()| ());
            };
            {
                let totals = Output::over(&mut offsets);
                each_run(&|chunks| {
                    // SAFETY: runs are apart, and each is given to one call.
                    let totals = unsafe { totals.part(chunks.clone()) };
                    self.chunks(sequence, first + chunks.start, totals.len(), |chunk, last| {
                        totals[chunk - first - chunks.start] = Some(last);
                    });
                });
            }
            for total in &mut offsets[..here] {
                let last = total.expect("every chunk has a total");
                *total = offset;
                offset = Some(self.after(offset, last));
            }
            each_run(&|chunks| self.write(sequence, first + chunks.start, &offsets[chunks]));
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

    /// Gives the last total of each of some chunks, without what comes before.
    fn chunks(&self, sequence: Sequence, first: usize, count: usize, mut give: impl FnMut(usize, T::Total)) {
        let mut chunk = first;
        while chunk < first + count {
            match self.abreast(sequence, chunk, first + count) {
                Some(elements) => {
                    let totals = self.totals(elements);
                    (chunk..).zip(totals).for_each(|(chunk, total)| give(chunk, total));
                    chunk += ABREAST;
                }
                None => {
                    let (start, len) = self.place(sequence, chunk);
                    let elements = &self.from[start..start + len];
                    let mut total = None;
                    for i in 0..len {
                        let x = (self.read)(elements[self.at(i, len)]);
                        total = Some(total.map_or(x, |total| (self.op)(total, x)));
                    }
                    give(chunk, total.expect("a chunk is not empty"));
                    chunk += 1;
                }
            }
        }
    }

    /// The last totals of whole chunks.
    fn totals(&self, elements: [&[T; CHUNK]; ABREAST]) -> [T::Total; ABREAST] {
        let mut totals = elements.map(|chunk| (self.read)(chunk[self.at(0, CHUNK)]));
        for i in 1..CHUNK {
            for (total, chunk) in totals.iter_mut().zip(elements) {
                *total = (self.op)(*total, (self.read)(chunk[self.at(i, CHUNK)]));
            }
        }
        totals
    }

    /// Writes the totals of chunks with these offsets.
    fn write(&self, sequence: Sequence, first: usize, offsets: &[Option<T::Total>]) {
        let mut k = 0;
        while k < offsets.len() {
            let chunk = first + k;
            let wide = self.abreast(sequence, chunk, first + offsets.len());
            let before: Option<Vec<T::Total>> = offsets[k..].iter().take(ABREAST).copied().collect();
            if let (Some(elements), Some(before)) = (wide, before) {
                let before = std::array::from_fn(|lane| before[lane]);
                // SAFETY: chunks are apart, and each is given to one call.
                let out = std::array::from_fn(|lane| unsafe { self.whole(sequence, chunk + lane) });
                self.write_abreast(elements, before, out);
                k += ABREAST;
            } else {
                let (start, len) = self.place(sequence, chunk);
                // SAFETY: as above.
                let out = unsafe { self.to.part(start..start + len) };
                self.write_one(&self.from[start..start + len], offsets[k], out);
                k += 1;
            }
        }
    }

    fn write_abreast(
        &self,
        elements: [&[T; CHUNK]; ABREAST],
        offsets: [T::Total; ABREAST],
        out: [&mut [T; CHUNK]; ABREAST],
    ) {
        let mut totals = elements.map(|chunk| (self.read)(chunk[self.at(0, CHUNK)]));
        // What comes before the first element of a chunk.
        let mut before = offsets.map(T::narrow);
        for i in 0..CHUNK {
            for lane in 0..ABREAST {
                if i > 0 {
                    let x = (self.read)(elements[lane][self.at(i, CHUNK)]);
                    totals[lane] = (self.op)(totals[lane], x);
                }
                let total = T::narrow((self.op)(offsets[lane], totals[lane]));
                let written = if self.how.exclusive { before[lane] } else { total };
                before[lane] = total;
                out[lane][self.at(i, CHUNK)] = written;
            }
        }
    }

    fn write_one(&self, elements: &[T], offset: Option<T::Total>, out: &mut [T]) {
        let len = elements.len();
        let mut own: Option<T::Total> = None;
        let mut before = T::narrow(offset.unwrap_or(self.nothing));
        for i in 0..len {
            let x = (self.read)(elements[self.at(i, len)]);
            let total = own.map_or(x, |own| (self.op)(own, x));
            own = Some(total);
            let total = T::narrow(offset.map_or(total, |offset| (self.op)(offset, total)));
            out[self.at(i, len)] = if self.how.exclusive { before } else { total };
            before = total;
        }
    }

    /// The place in a chunk of the element that comes at `i`.
    #[inline(always)]
    fn at(&self, i: usize, len: usize) -> usize {
        if self.how.reverse { len - 1 - i } else { i }
    }

    /// As many chunks as are in work at a time, if there are so many before `end` and all are whole.
    fn abreast(&self, sequence: Sequence, chunk: usize, end: usize) -> Option<[&[T; CHUNK]; ABREAST]> {
        if chunk + ABREAST > end || (chunk + ABREAST) * CHUNK > sequence.len {
            return None;
        }
        Some(std::array::from_fn(|lane| {
            let (start, len) = self.place(sequence, chunk + lane);
            self.from[start..start + len].try_into().expect("whole chunks")
        }))
    }

    /// The output of a whole chunk.
    ///
    /// # Safety
    /// Nobody else has a part of it.
    #[expect(clippy::mut_from_ref, reason = "the caller sees to it that chunks are apart")]
    unsafe fn whole(&self, sequence: Sequence, chunk: usize) -> &mut [T; CHUNK] {
        let (start, len) = self.place(sequence, chunk);
        // SAFETY: the caller promises it.
        unsafe { self.to.part(start..start + len) }.try_into().expect("whole chunks")
    }
}
