//! Sorting: each thread sorts a part, and neighbouring parts are merged until one is left. No two elements that differ are
//! equal in the order, so the parts are nobody's business.

use half::f16;
use jit_core::error::Error;

use super::compress::Index;
use super::memory::{Input, Output};
use crate::pool::{Pool, Share};

/// Parts of fewer elements are not worth a thread.
const SMALL: usize = 1 << 13;

/// A type with an order.
pub(super) trait Sorted: Copy + Send + Sync {
    /// A number that orders as the elements are ordered: -0 before +0, all NaN equal and last.
    type Key: Copy + Ord + Send + Sync;

    fn key(self) -> Self::Key;
}

macro_rules! integers {
    ($($ty:ident)*) => {$(
        impl Sorted for $ty {
            type Key = $ty;

            fn key(self) -> $ty { self }
        }
    )*};
}

integers! { u8 i8 u16 i16 u32 i32 u64 i64 }

macro_rules! floats {
    ($($ty:ident $key:ident)*) => {$(
        impl Sorted for $ty {
            type Key = $key;

            fn key(self) -> $key {
                let bits = self.to_bits();
                match (self.is_nan(), bits >> ($key::BITS - 1)) {
                    (true, _) => $key::MAX,
                    (false, 0) => bits | 1 << ($key::BITS - 1),
                    (false, _) => !bits,
                }
            }
        }
    )*};
}

floats! { f16 u16 f32 u32 f64 u64 }

/// Writes the elements in order.
pub(super) fn elements<T: Sorted>(from: Input<'_, T>, to: Output<'_, T>, pool: &Pool) {
    // SAFETY: nobody else has a part of it.
    let out = unsafe { to.part(0..to.len()) };
    out.copy_from_slice(&from);
    // Equal keys are equal elements, but for NaN, whose order is open.
    sort(out, |x| x.key(), pool);
}

/// Writes the indices that put the elements in order.
pub(super) fn indices<T: Sorted, I: Index + Ord>(
    from: Input<'_, T>,
    to: Output<'_, I>,
    pool: &Pool,
) -> Result<(), Error> {
    let mut pairs = Vec::new();
    let bytes = from.len().saturating_mul(size_of::<(T::Key, I)>());
    pairs.try_reserve_exact(from.len()).map_err(|_| Error::OutOfMemory {
        requested: bytes as u64,
        in_use: 0,
        cached: 0,
        holders: "the host's allocator refused what `argsort` needs beside its result".to_owned(),
    })?;
    pairs.extend(from.iter().enumerate().map(|(i, x)| (x.key(), I::of(i))));
    // By index where keys are equal: no two pairs are.
    sort(&mut pairs, |pair| pair, pool);
    // SAFETY: nobody else has a part of it.
    let out = unsafe { to.part(0..to.len()) };
    out.iter_mut().zip(&pairs).for_each(|(index, pair)| *index = pair.1);
    Ok(())
}

fn sort<E: Copy + Send + Sync, K: Ord>(elements: &mut [E], key: impl Fn(E) -> K + Copy + Sync, pool: &Pool) {
    let parts = (elements.len() / SMALL).min(pool.threads()).max(1);
    let mut other: Vec<E> = Vec::new();
    // With no memory for merging one thread does it all.
    if parts == 1 || other.try_reserve_exact(elements.len()).is_err() {
        return elements.sort_unstable_by_key(|&e| key(e));
    }
    let len = elements.len();
    let mut part = len.div_ceil(parts);
    let range = |k: usize, part: usize| (k * part).min(len)..((k + 1) * part).min(len);
    {
        let shared = Output::over(elements);
        let one = |k: u64| {
            // SAFETY: parts are apart, and each number is given to one call.
            unsafe { shared.part(range(k as usize, part)) }.sort_unstable_by_key(|&e| key(e));
        };
        pool.run(parts as u64, Share::All, || (), |(), k| one(k), |()| ());
    }
    while part < len {
        other.clear();
        let mut k = 0;
        while k * part < len {
            let [left, right] = [range(k, part), range(k + 1, part)].map(|range| &elements[range]);
            merge(left, right, key, &mut other);
            k += 2;
        }
        elements.copy_from_slice(&other);
        part *= 2;
    }
}

/// Appends two sorted slices in order.
fn merge<E: Copy, K: Ord>(mut left: &[E], mut right: &[E], key: impl Fn(E) -> K, out: &mut Vec<E>) {
    while let ([a, lefts @ ..], [b, rights @ ..]) = (left, right) {
        if key(*b) < key(*a) {
            out.push(*b);
            right = rights;
        } else {
            out.push(*a);
            left = lefts;
        }
    }
    out.extend_from_slice(left);
    out.extend_from_slice(right);
}
