//! Where each path's random numbers come from: one sequence for each sample of each pixel.
//!
//! A path is numbered `pixel * samples per pixel + sample`. A hash of that number seeds its generator, so that a picture
//! does not depend on how its samples are spread over passes.

use jit_frontend::{Array, Pcg32, Traverse};

/// The generators of these paths.
pub(crate) fn generators(path: &Array<u32>, seed: u32) -> Pcg32 {
    let [high, low] = words(seed).map(|word| hash(path, word).cast::<u64>());
    Pcg32::from_streams(&(high << 32 | low), &Array::from(1u64))
}

/// A well mixed word for each path.
fn hash(path: &Array<u32>, word: u32) -> Array<u32> {
    let x = path + word.wrapping_mul(0x9E37_79B9);
    let x = (&x ^ (&x >> 16)) * 0x7FEB_352D;
    let x = (&x ^ (&x >> 15)) * 0x846C_A68B;
    &x ^ (&x >> 16)
}

/// Which two words of the hash seed the generators.
fn words(seed: u32) -> [u32; 2] {
    [11, 12].map(|word: u32| word.wrapping_add(seed.wrapping_mul(2)))
}

/// A number in [0, 1) for an index: a multiple of 2^-24.
pub(crate) fn uniform(index: u32, word: u32) -> f32 {
    (scalar_hash(index, word) >> 8) as f32 * 2.0f32.powi(-24)
}

/// One lane of a [`Pcg32`] whose stream is 1.
#[derive(Clone, Traverse)]
pub(crate) struct ScalarPcg32 {
    state: u64,
}

#[cfg_attr(not(test), expect(dead_code, reason = "the scalar twin renders in tests"))]
impl ScalarPcg32 {
    /// The generator of one path.
    pub(crate) fn new(path: u32, seed: u32) -> ScalarPcg32 {
        let [high, low] = words(seed).map(|word| u64::from(scalar_hash(path, word)));
        let mut generator = ScalarPcg32 { state: (high << 32 | low).wrapping_add(3) };
        generator.advance();
        generator
    }
}

impl ScalarPcg32 {
    /// The next number, all 32 bits random.
    pub(crate) fn next_u32(&mut self) -> u32 {
        let old = self.state;
        self.advance();
        let mixed = (((old >> 18) ^ old) >> 27) as u32;
        mixed.rotate_right((old >> 59) as u32)
    }

    fn advance(&mut self) {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(3);
    }
}

/// [`hash`] of one path.
fn scalar_hash(path: u32, word: u32) -> u32 {
    let x = path.wrapping_add(word.wrapping_mul(0x9E37_79B9));
    let x = (x ^ (x >> 16)).wrapping_mul(0x7FEB_352D);
    let x = (x ^ (x >> 15)).wrapping_mul(0x846C_A68B);
    x ^ (x >> 16)
}

#[cfg(test)]
mod tests {
    use jit_frontend::Device;

    use super::*;

    #[test]
    fn hashes_are_the_published_ones() {
        assert_eq!(
            [scalar_hash(0, 1), scalar_hash(1, 1), scalar_hash(5, 11)],
            [33_350_994, 2_672_842_292, 4_164_629_419]
        );
    }

    #[test]
    fn one_lane_draws_what_many_do() {
        let paths = [0u32, 1, 77, u32::MAX];
        let mut many = generators(&Array::from_slice(&paths, &Device::interpreter()).expect("memory"), 3);
        let mut each = paths.map(|path| ScalarPcg32::new(path, 3));
        for _ in 0..4 {
            let drawn = many.next_u32().to_vec().expect("evaluation");
            assert_eq!(drawn, each.each_mut().map(|one| one.next_u32()));
        }
    }
}
