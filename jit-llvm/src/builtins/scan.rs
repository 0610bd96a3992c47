//! Running totals, with the grouping that [`jit_core::builtin`] describes: the same bits for any number of threads.
//!
//! Threads take runs of chunks in order. One finds the totals of its run's chunks, waits for the total of all that come
//! before, passes on its own, and writes its run, which is in its caches still: memory is read once and written once.
//! (Merrill and Garland's decoupled look-back, looking back one run, since a thread is never far behind another.) Several
//! chunks are in work at a time, since one element after the other keeps an adder waiting for itself.

use std::ops::Range;
use std::sync::OnceLock;

use half::f16;
use jit_core::builtin::CHUNK;
use jit_core::op::Op;

use super::memory::{Input, Output};
use crate::kernel::order_streamed_stores;
use crate::pool::{Pool, Share};

/// Chunks that a thread takes at a time: 128 KiB of f32.
const RUN: usize = 32;

/// Elements of a chunk that are loaded and stored together, a cache line of f32.
const LINE: usize = 16;

/// Chunks that a thread has in work at a time, where each element waits for a sum of floats.
const ABREAST: usize = 8;

/// And where it waits for less.
const FEW_ABREAST: usize = 4;

/// Sequences of at most so many elements are one thread's.
const SHORT: usize = 16 * CHUNK;

/// How often a thread looks for what another one is about to say before it sleeps.
const LOOKS: u32 = 4096;

/// What is asked for.
#[derive(Clone, Copy)]
pub(super) struct How {
    pub(super) combine: Op,
    pub(super) exclusive: bool,
    pub(super) reverse: bool,
    /// Elements of a sequence; 0: all.
    pub(super) length: u64,
    /// Whether what is written goes past the caches.
    pub(super) past_caches: bool,
}

/// A type whose totals can be taken.
pub(super) trait Number: Copy + Send + Sync {
    /// What totals are taken in.
    type Total: Copy + Send + Sync;

    /// Whether sums are the same in any grouping.
    const EXACT: bool;

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

            const EXACT: bool = true;

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

            const EXACT: bool = false;

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
        Op::Add => {
            let nothing = T::zero();
            Scan { from, to, how, pool, read: T::widen, op: T::add, nothing, exact: T::EXACT }.run();
        }
        Op::Min => {
            let read = |x: T| T::min(largest, x.widen());
            Scan { from, to, how, pool, read, op: T::min, nothing: largest, exact: true }.run();
        }
        _ => {
            let read = |x: T| T::max(smallest, x.widen());
            Scan { from, to, how, pool, read, op: T::max, nothing: smallest, exact: true }.run();
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
    /// Whether totals are the same in any grouping.
    exact: bool,
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
        let chunks = sequence.len.div_ceil(CHUNK);
        let mut offset = None;
        for first in (0..chunks).step_by(RUN) {
            let run = first..(first + RUN).min(chunks);
            let before = offset;
            self.run_of_chunks(sequence, run, || before, |end| offset = Some(end));
        }
        order_streamed_stores();
    }

    /// A sequence on all threads.
    fn long(&self, sequence: Sequence) {
        if self.pool.threads() == 1 {
            return self.alone(sequence);
        }
        let chunks = sequence.len.div_ceil(CHUNK);
        let ends: Vec<OnceLock<T::Total>> = (0..chunks.div_ceil(RUN)).map(|_| OnceLock::new()).collect();
        let work = |run: u64| {
            let run = run as usize;
            let first = run * RUN;
            // Runs are handed out in order, so whoever has the one before is at work, and waits for nobody but those
            // before it.
            let before = || (run > 0).then(|| wait(&ends[run - 1]));
            let pass_on = |end| _ = ends[run].set(end);
            self.run_of_chunks(sequence, first..(first + RUN).min(chunks), before, pass_on);
        };
        self.pool.run(
            ends.len() as u64,
            Share::All,
            || (),
            |(), run| work(run),
            |()| order_streamed_stores(),
        );
    }

    /// Writes the totals of some chunks, at most [`RUN`]. Says what the offset behind them is as soon as that is known.
    fn run_of_chunks(
        &self,
        sequence: Sequence,
        chunks: Range<usize>,
        before: impl FnOnce() -> Option<T::Total>,
        pass_on: impl FnOnce(T::Total),
    ) {
        let mut totals = [self.nothing; RUN];
        let totals = &mut totals[..chunks.len()];
        self.totals(sequence, chunks.start, totals);
        let mut offset = before();
        let mut offsets = [None; RUN];
        for (slot, &mut total) in offsets.iter_mut().zip(totals) {
            *slot = offset;
            offset = Some(offset.map_or(total, |offset| (self.op)(offset, total)));
        }
        pass_on(offset.unwrap_or(self.nothing));
        self.write(sequence, chunks.start, &offsets[..chunks.len()]);
    }

    /// The elements of a chunk: where they start, and how many there are.
    fn place(&self, sequence: Sequence, chunk: usize) -> (usize, usize) {
        let (before, len) = (chunk * CHUNK, CHUNK.min(sequence.len - chunk * CHUNK));
        let first = if self.how.reverse { sequence.len - before - len } else { before };
        (sequence.start + first, len)
    }

    /// Where the elements of `N` chunks lie, if there are so many before `end` and all are whole.
    fn abreast<const N: usize>(&self, sequence: Sequence, chunk: usize, end: usize) -> Option<usize> {
        if chunk + N > end || (chunk + N) * CHUNK > sequence.len {
            return None;
        }
        let lowest = if self.how.reverse { chunk + N - 1 } else { chunk };
        Some(self.place(sequence, lowest).0)
    }

    /// The last total of each of some chunks, without what comes before.
    fn totals(&self, sequence: Sequence, first: usize, totals: &mut [T::Total]) {
        let end = first + totals.len();
        let mut k = 0;
        while k < totals.len() {
            let (start, len) = self.place(sequence, first + k);
            if self.exact {
                totals[k] = self.total_in_any_order(&self.from[start..start + len]);
                k += 1;
            } else if let Some(start) = self.abreast::<ABREAST>(sequence, first + k, end) {
                totals[k..k + ABREAST].copy_from_slice(&self.totals_abreast(start));
                k += ABREAST;
            } else {
                totals[k] = self.total(&self.from[start..start + len]);
                k += 1;
            }
        }
    }

    fn total_in_any_order(&self, elements: &[T]) -> T::Total {
        let (lines, rest) = elements.as_chunks::<LINE>();
        let mut totals = [self.nothing; LINE];
        for line in lines {
            totals.iter_mut().zip(line).for_each(|(total, &x)| *total = (self.op)(*total, (self.read)(x)));
        }
        let rest = rest.iter().fold(self.nothing, |total, &x| (self.op)(total, (self.read)(x)));
        totals.into_iter().fold(rest, self.op)
    }

    fn total(&self, elements: &[T]) -> T::Total {
        let len = elements.len();
        let first = (self.read)(elements[self.at(0, len)]);
        (1..len).fold(first, |total, i| (self.op)(total, (self.read)(elements[self.at(i, len)])))
    }

    /// The last totals of whole chunks that lie one behind the other.
    fn totals_abreast(&self, start: usize) -> [T::Total; ABREAST] {
        let mut totals = [self.nothing; ABREAST];
        for line in 0..CHUNK / LINE {
            let elements: [[T; LINE]; ABREAST] = self.lines(start, line);
            // The same lines of the chunks that come next.
            if !self.how.reverse {
                self.prefetch::<ABREAST>(start + ABREAST * CHUNK, line);
            }
            for i in 0..LINE {
                for (total, elements) in totals.iter_mut().zip(&elements) {
                    let x = (self.read)(elements[self.at(i, LINE)]);
                    *total = if line == 0 && i == 0 { x } else { (self.op)(*total, x) };
                }
            }
        }
        totals
    }

    /// One line of each of `N` chunks, which lie one behind the other. Chunks and lines in the order in which totals run.
    #[inline(always)]
    fn lines<const N: usize>(&self, start: usize, line: usize) -> [[T; LINE]; N] {
        let elements = &self.from[start..start + N * CHUNK];
        let place = self.at(line, CHUNK / LINE) * LINE;
        std::array::from_fn(|lane| {
            let place = self.at(lane, N) * CHUNK + place;
            elements[place..place + LINE].try_into().expect("a line")
        })
    }

    /// Asks for one line of each of `N` chunks.
    #[inline(always)]
    fn prefetch<const N: usize>(&self, start: usize, line: usize) {
        #[cfg(target_arch = "x86_64")]
        for lane in 0..N {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let at = self.from.as_ptr().wrapping_add(start + lane * CHUNK + line * LINE);
            // SAFETY: it may be anywhere; every x86-64 processor has SSE.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
        }
    }

    /// Writes the totals of chunks with these offsets.
    fn write(&self, sequence: Sequence, first: usize, offsets: &[Option<T::Total>]) {
        let mut k = 0;
        while k < offsets.len() {
            let done = if self.exact {
                self.write_some::<FEW_ABREAST, true>(sequence, first + k, &offsets[k..])
            } else {
                self.write_some::<ABREAST, false>(sequence, first + k, &offsets[k..])
            };
            k += done.unwrap_or_else(|| {
                let (start, len) = self.place(sequence, first + k);
                // SAFETY: chunks are apart, and each is given to one call.
                let out = unsafe { self.to.part(start..start + len) };
                self.write_one(&self.from[start..start + len], offsets[k], out);
                1
            });
        }
    }

    /// Writes `N` chunks, if there are so many that have offsets, and all are whole.
    fn write_some<const N: usize, const EXACT: bool>(
        &self,
        sequence: Sequence,
        chunk: usize,
        offsets: &[Option<T::Total>],
    ) -> Option<usize> {
        let start = self.abreast::<N>(sequence, chunk, chunk + offsets.len())?;
        let mut before = [self.nothing; N];
        for (before, offset) in before.iter_mut().zip(offsets) {
            *before = (*offset)?;
        }
        // SAFETY: chunks are apart, and each is given to one call.
        let out = unsafe { self.to.part(start..start + N * CHUNK) };
        self.write_abreast::<N, EXACT>(start, before, out);
        Some(N)
    }

    fn write_abreast<const N: usize, const EXACT: bool>(
        &self,
        start: usize,
        offsets: [T::Total; N],
        out: &mut [T],
    ) {
        let mut totals = offsets;
        // What comes before the first element of a chunk.
        let mut before = offsets.map(T::narrow);
        for line in 0..CHUNK / LINE {
            let mut elements: [[T; LINE]; N] = self.lines(start, line);
            for i in 0..LINE {
                for lane in 0..N {
                    let x = (self.read)(elements[lane][self.at(i, LINE)]);
                    let total = if EXACT {
                        totals[lane] = (self.op)(totals[lane], x);
                        totals[lane]
                    } else {
                        totals[lane] = if line == 0 && i == 0 { x } else { (self.op)(totals[lane], x) };
                        (self.op)(offsets[lane], totals[lane])
                    };
                    let total = T::narrow(total);
                    let written = if self.how.exclusive { before[lane] } else { total };
                    before[lane] = total;
                    elements[lane][self.at(i, LINE)] = written;
                }
            }
            let place = self.at(line, CHUNK / LINE) * LINE;
            for (lane, elements) in elements.iter().enumerate() {
                let place = self.at(lane, N) * CHUNK + place;
                store(&mut out[place..place + LINE], elements, self.how.past_caches);
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

    /// The place of what comes at `i` of so many.
    #[inline(always)]
    fn at(&self, i: usize, len: usize) -> usize {
        if self.how.reverse { len - 1 - i } else { i }
    }
}

/// What another thread is about to say.
fn wait<T: Copy>(said: &OnceLock<T>) -> T {
    for _ in 0..LOOKS {
        if let Some(&value) = said.get() {
            return value;
        }
        std::hint::spin_loop();
    }
    *said.wait()
}

/// Stores a line, if asked for past the caches, and if it lies so that this can be done.
#[inline(always)]
fn store<T: Copy>(out: &mut [T], line: &[T; LINE], past_caches: bool) {
    #[cfg(target_arch = "x86_64")]
    if past_caches && (out.as_ptr() as usize).is_multiple_of(16) {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
        assert_eq!(out.len(), LINE, "a line");
        let (from, to): (*const __m128i, *mut __m128i) = (line.as_ptr().cast(), out.as_mut_ptr().cast());
        // A line is a multiple of 16 bytes long.
        for k in 0..size_of::<[T; LINE]>() / 16 {
            // SAFETY: both are lines of plain numbers; the output lies at a multiple of 16 bytes.
            unsafe { _mm_stream_si128(to.add(k), _mm_loadu_si128(from.add(k))) };
        }
        return;
    }
    out.copy_from_slice(line);
}
