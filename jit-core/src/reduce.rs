//! The order in which reductions combine their elements: a function of the number of elements alone, so that
//! vector width, threads, fusion and backend never change a bit of the result.
//!
//! The input is cut into chunks of [`chunk_len`]. Within a chunk element `i` goes to accumulator `i mod 128`,
//! in index order; accumulators start at the identity. The 128 accumulators are folded by halving
//! (`a[k] = a[k] op a[k + 64]`, then 32, ... 1); a chunk of `n < 128` elements has only the first
//! [`accumulators`]`(n)`. (Of ops that have an exact identity the others would change nothing.) The chunk results are the
//! input of the same rule, until one is left.
//!
//! The elements are those of one segment ([`Segments`](crate::ir::Segments)), `n` is their number.
//!
//! Here every type accumulates in itself. Sums and products of f16 accumulate in f32 because the trace asks for
//! those of the values cast to f32.

use crate::dtype::DType;
use crate::op::{Op, scalar};

/// The most accumulators of a chunk.
pub const ACCUMULATORS: usize = 128;

/// The chunk length for `n` elements: `clamp(pow2ceil(ceil(n / 4096)), 1024, 65536)`.
pub fn chunk_len(n: u64) -> u64 {
    n.div_ceil(4096).next_power_of_two().clamp(1024, 65536)
}

/// The number of accumulators of a chunk of `n` elements: 128, or `pow2ceil(n)` if that is less.
pub fn accumulators(n: u64) -> usize {
    n.clamp(1, ACCUMULATORS as u64).next_power_of_two() as usize
}

/// Folds values of one chunk, of which each accumulator has one already, by halving. `values` is as long as there are
/// accumulators.
pub fn fold_accumulators<S>(values: &mut [S], mut combine: impl FnMut(&S, &S) -> S) {
    let mut half = values.len() / 2;
    while half > 0 {
        for k in 0..half {
            values[k] = combine(&values[k], &values[k + half]);
        }
        half /= 2;
    }
}

/// Folds states by the rule until one is left; no states give the identity.
pub fn fold_states<S: Clone>(identity: &S, mut states: Vec<S>, mut combine: impl FnMut(&S, &S) -> S) -> S {
    if states.is_empty() {
        return identity.clone();
    }
    loop {
        let chunk = chunk_len(states.len() as u64) as usize;
        let of_chunk = |elements: &[S]| {
            let mut acc = vec![identity.clone(); accumulators(elements.len() as u64)];
            for (i, state) in elements.iter().enumerate() {
                let slot = &mut acc[i % ACCUMULATORS];
                *slot = combine(slot, state);
            }
            fold_accumulators(&mut acc, &mut combine);
            acc.swap_remove(0)
        };
        states = states.chunks(chunk).map(of_chunk).collect();
        if let [one] = &states[..] {
            return one.clone();
        }
    }
}

/// Folds values by the rule until one is left. `combine` is a binary op such as `add`.
///
/// No values give the identity, but +0.0 for a float sum.
pub fn fold(combine: Op, ty: DType, values: Vec<u64>) -> u64 {
    if values.is_empty() {
        return of_none(combine, ty);
    }
    fold_states(&scalar::identity(combine, ty), values, |a, b| scalar::evaluate(combine, ty, ty, &[*a, *b]))
}

/// What no elements give: the identity, but +0.0 for a float sum.
pub fn of_none(combine: Op, ty: DType) -> u64 {
    if combine == Op::Add { 0 } else { scalar::identity(combine, ty) }
}

/// Folds the results of all chunks on to the final value, in their place; the result of a single chunk is final.
pub fn fold_chunk_results(combine: Op, ty: DType, results: &mut [u64]) -> u64 {
    match results {
        [one] => *one,
        // Each accumulator has at most one value, and its identity changes none.
        few if (1..=ACCUMULATORS).contains(&few.len()) => {
            let mut len = few.len();
            while len > 1 {
                let half = len.next_power_of_two() / 2;
                for k in 0..len - half {
                    few[k] = scalar::evaluate(combine, ty, ty, &[few[k], few[k + half]]);
                }
                len = half;
            }
            few[0]
        }
        many => fold(combine, ty, many.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_chunk_results_are_folded_as_many_are() {
        for n in 1..=130usize {
            for (op, ty) in [(Op::Add, DType::F32), (Op::Min, DType::F32), (Op::Xor, DType::U8)] {
                let value = |k: usize| match ty {
                    DType::F32 => u64::from(((k * 37 % 101) as f32 * 1e3f32.powi((k % 7) as i32)).to_bits()),
                    _ => k as u64 * 91 % 256,
                };
                let values: Vec<u64> = (0..n).map(value).collect();
                let expected = fold(op, ty, values.clone());
                assert_eq!(fold_chunk_results(op, ty, &mut values.clone()), expected, "{op:?} of {n}");
            }
        }
    }
}
