//! The order in which reductions combine their elements: a function of the number of elements alone, so that
//! vector width, threads, fusion and backend never change a bit of the result.
//!
//! The input is cut into chunks of [`chunk_len`]. Within a chunk element `i` goes to accumulator `i mod 128`,
//! in index order; accumulators start at the identity. The 128 accumulators are folded by halving
//! (`a[k] = a[k] op a[k + 64]`, then 32, ... 1). The chunk results are the input of the same rule, until one is left.
//!
//! Here every type accumulates in itself. Sums and products of f16 accumulate in f32 because the trace asks for
//! those of the values cast to f32.

use crate::dtype::DType;
use crate::op::{Op, scalar};

/// The number of accumulators of a chunk.
pub const ACCUMULATORS: usize = 128;

/// The chunk length for `n` elements: `clamp(pow2ceil(ceil(n / 4096)), 1024, 65536)`.
pub fn chunk_len(n: u64) -> u64 {
    n.div_ceil(4096).next_power_of_two().clamp(1024, 65536)
}

/// Folds 128 accumulators by halving.
pub fn fold_accumulators(combine: Op, ty: DType, acc: &mut [u64; ACCUMULATORS]) -> u64 {
    let mut half = ACCUMULATORS / 2;
    while half > 0 {
        for k in 0..half {
            acc[k] = scalar::evaluate(combine, ty, ty, &[acc[k], acc[k + half]]);
        }
        half /= 2;
    }
    acc[0]
}

/// Folds values by the rule until one is left. `combine` is a binary op such as `add`.
///
/// No values give the identity, but +0.0 for a float sum.
pub fn fold(combine: Op, ty: DType, mut values: Vec<u64>) -> u64 {
    if values.is_empty() {
        return if combine == Op::Add { 0 } else { scalar::identity(combine, ty) };
    }
    loop {
        let chunk = chunk_len(values.len() as u64) as usize;
        values = values.chunks(chunk).map(|elements| fold_chunk(combine, ty, elements)).collect();
        if let [one] = values[..] {
            return one;
        }
    }
}

/// The result of one chunk.
pub fn fold_chunk(combine: Op, ty: DType, elements: &[u64]) -> u64 {
    let mut acc = [scalar::identity(combine, ty); ACCUMULATORS];
    for (i, &value) in elements.iter().enumerate() {
        let slot = &mut acc[i % ACCUMULATORS];
        *slot = scalar::evaluate(combine, ty, ty, &[*slot, value]);
    }
    fold_accumulators(combine, ty, &mut acc)
}

/// Folds the results of all chunks on to the final value; the result of a single chunk is final.
pub fn fold_chunk_results(combine: Op, ty: DType, results: Vec<u64>) -> u64 {
    match results[..] {
        [one] => one,
        _ => fold(combine, ty, results),
    }
}
