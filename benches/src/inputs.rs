//! Inputs: all of them come from one 32-bit hash, so that every engine gets the same bits.

/// Hash of `i` under a seed: Wellons' `lowbias32` of `i + seed * 0x9e3779b9`.
pub fn hash(i: u32, seed: u32) -> u32 {
    let mut x = i.wrapping_add(seed.wrapping_mul(0x9e37_79b9));
    x = (x ^ x >> 16).wrapping_mul(0x7feb_352d);
    x = (x ^ x >> 15).wrapping_mul(0x846c_a68b);
    x ^ x >> 16
}

/// `n` hashes, reduced to the bits of `mask`.
pub fn masked_hashes(n: usize, seed: u32, mask: u32) -> Vec<u32> {
    (0..n as u32).map(|i| hash(i, seed) & mask).collect()
}

/// `n` truth values: the lowest bits of the hashes.
pub fn coins(n: usize, seed: u32) -> Vec<bool> {
    (0..n as u32).map(|i| hash(i, seed) & 1 == 1).collect()
}

/// A multiple of 2^-24 in [0, 1), exact in f32.
fn unit(i: u32, seed: u32) -> f32 {
    (hash(i, seed) >> 8) as f32 * 2.0f32.powi(-24)
}

/// `n` numbers in [0, 1).
pub fn uniform(n: usize, seed: u32) -> Vec<f32> {
    (0..n as u32).map(|i| unit(i, seed)).collect()
}

/// `n` numbers in [low, high): two operations, each rounded.
pub fn ranged(n: usize, seed: u32, low: f64, high: f64) -> Vec<f32> {
    let (extent, low) = ((high - low) as f32, low as f32);
    (0..n as u32).map(|i| unit(i, seed) * extent + low).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_other_engines() {
        assert_eq!([hash(0, 1), hash(1, 1), hash(5, 11)], [33_350_994, 2_672_842_292, 4_164_629_419]);
    }

    #[test]
    fn numbers_stay_in_their_range() {
        let values = ranged(1000, 3, -20.0, 20.0);
        assert!(values.iter().all(|x| (-20.0..20.0).contains(x)));
        assert!(values.iter().any(|x| *x < -19.0) && values.iter().any(|x| *x > 19.0));
    }
}
