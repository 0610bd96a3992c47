//! The indices of what is true: all threads count their parts, one adds up, and all write.

use super::memory::{Input, Output};
use crate::pool::{Pool, Share};

/// Elements that a thread takes at a time.
const PART: usize = 1 << 16;

/// Elements whose indices are put together before they are written.
const BATCH: usize = 1 << 10;

/// The type of an index.
pub(super) trait Index: Copy + Default + Send + Sync {
    fn of(index: usize) -> Self;
}

impl Index for u32 {
    fn of(index: usize) -> u32 {
        index as u32
    }
}

impl Index for u64 {
    fn of(index: usize) -> u64 {
        index as u64
    }
}

/// Writes as many indices as there is room for, and zeros behind them.
pub(super) fn run<I: Index>(from: Input<'_, u8>, to: Output<'_, I>, pool: &Pool) {
    let parts = from.len().div_ceil(PART);
    let part = |k: usize| &from[k * PART..((k + 1) * PART).min(from.len())];
    let share = if parts > 1 { Share::All } else { Share::Caller };
    let mut starts = vec![0usize; parts];
    {
        let counts = Output::over(&mut starts);
        let count = |k: u64| {
            // SAFETY: each number is given to one call.
            let count = unsafe { counts.part(k as usize..k as usize + 1) };
            // A bool is a byte of 0 or 1. Bytes are added up in one, as far as that holds them.
            count[0] = part(k as usize)
                .chunks(255)
                .map(|bytes| usize::from(bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte))))
                .sum();
        };
        pool.run(parts as u64, share, || (), |(), k| count(k), |()| ());
    }
    let mut total = 0;
    for start in &mut starts {
        let count = std::mem::replace(start, total);
        total += count;
    }
    let end = |k: usize| starts.get(k + 1).copied().unwrap_or(total).min(to.len());
    let write = |k: usize| {
        if starts[k] >= to.len() {
            return;
        }
        // SAFETY: the places of the parts follow each other.
        let out = unsafe { to.part(starts[k]..end(k)) };
        let mut at = 0;
        let mut batch = [I::default(); BATCH];
        for (b, bytes) in part(k).chunks(BATCH).enumerate() {
            let mut count = 0;
            for (i, &byte) in bytes.iter().enumerate() {
                // Written always, kept if true: no branch that nobody could foresee.
                batch[count] = I::of(k * PART + b * BATCH + i);
                count += usize::from(byte);
            }
            let kept = count.min(out.len() - at);
            out[at..at + kept].copy_from_slice(&batch[..kept]);
            at += kept;
        }
    };
    pool.run(parts as u64, share, || (), |(), k| write(k as usize), |()| ());
    // SAFETY: it begins behind all parts, whose calls have returned.
    unsafe { to.part(total.min(to.len())..to.len()) }.fill(I::default());
}
