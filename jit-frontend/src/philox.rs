//! Numbers by counting: [`Philox4x32`] and [`tea`].

use std::hash::Hasher;

use crate::traverse::{Rebuilder, Traverse, Visitor};
use crate::{Array, Device};

/// Philox4x32-10 of Salmon, Moraes, Dror and Shaw ("Parallel random numbers: as easy as 1, 2, 3", 2011): four numbers for
/// each value of a counter, without any other state.
///
/// The 128-bit counter is made of a 64-bit position (low half), which each call moves on, and a 64-bit stream (high half). The key
/// is the seed. To use it in a loop, carry it in the state.
#[derive(Clone, Debug)]
pub struct Philox4x32 {
    position: Array<u64>,
    stream: Array<u64>,
    key: Array<u64>,
}

const ROUNDS: usize = 10;
const MULTIPLIERS: [u32; 2] = [0xd251_1f53, 0xcd9e_8d57];
const WEYL: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];

impl Philox4x32 {
    /// `n` generators with the streams 0, 1, 2, ..., each at position 0.
    #[track_caller]
    pub fn new(n: usize, seed: u64, device: &Device) -> Philox4x32 {
        Philox4x32::at(&seed.into(), &Array::arange(n, device), &0u64.into())
    }

    /// Generators with these seeds and streams at these positions.
    #[track_caller]
    pub fn at(seed: &Array<u64>, stream: &Array<u64>, position: &Array<u64>) -> Philox4x32 {
        Philox4x32 { position: position.clone(), stream: stream.clone(), key: seed.clone() }
    }

    /// The next four numbers of each lane, all 32 bits random.
    #[track_caller]
    pub fn next_u32x4(&mut self) -> [Array<u32>; 4] {
        let halves = |a: &Array<u64>| [a.cast::<u32>(), (a >> 32).cast::<u32>()];
        let [mut a, mut b] = halves(&self.position);
        let [mut c, mut d] = halves(&self.stream);
        let [mut k0, mut k1] = halves(&self.key);
        for round in 0..ROUNDS {
            if round > 0 {
                (k0, k1) = (k0 + WEYL[0], k1 + WEYL[1]);
            }
            let (high0, low0) = (a.mul_hi(MULTIPLIERS[0]), &a * MULTIPLIERS[0]);
            let (high1, low1) = (c.mul_hi(MULTIPLIERS[1]), &c * MULTIPLIERS[1]);
            (a, b, c, d) = (high1 ^ b ^ &k0, low1, high0 ^ d ^ &k1, low0);
        }
        self.position = &self.position + 1;
        [a, b, c, d]
    }

    /// The next four numbers in [0, 1): multiples of 2^-24, never 1.
    #[track_caller]
    pub fn next_f32x4(&mut self) -> [Array<f32>; 4] {
        self.next_u32x4().map(|bits| (bits >> 8).cast::<f32>() * 2.0f32.powi(-24))
    }

    /// The next two numbers in [0, 1): multiples of 2^-53, never 1.
    #[track_caller]
    pub fn next_f64x2(&mut self) -> [Array<f64>; 2] {
        let [a, b, c, d] = self.next_u32x4();
        [(a, b), (c, d)].map(|(high, low)| {
            let bits = (high.cast::<u64>() << 32) | low.cast::<u64>();
            (bits >> 11).cast::<f64>() * 2.0f64.powi(-53)
        })
    }
}

impl Traverse for Philox4x32 {
    fn visit(&self, visitor: &mut dyn Visitor) {
        self.position.visit(visitor);
        self.stream.visit(visitor);
        self.key.visit(visitor);
    }

    fn rebuild(&self, rebuilder: &mut dyn Rebuilder) -> Self {
        Philox4x32 {
            position: self.position.rebuild(rebuilder),
            stream: self.stream.rebuild(rebuilder),
            key: self.key.rebuild(rebuilder),
        }
    }

    fn static_key(&self, _state: &mut dyn Hasher) {}
}

/// Two numbers mixed into two others by rounds of the Tiny Encryption Algorithm (Wheeler and Needham, 1994) under a fixed key, as
/// Zafar, Olano and Curtis ("GPU random numbers via the tiny encryption algorithm", 2010) use it; 4 rounds are enough for
/// decorrelated seeds.
#[track_caller]
pub fn tea(a: &Array<u32>, b: &Array<u32>, rounds: u32) -> (Array<u32>, Array<u32>) {
    let (mut a, mut b) = (a.clone(), b.clone());
    let mix = |v: &Array<u32>, sum: u32, k0: u32, k1: u32| ((v << 4) + k0) ^ (v + sum) ^ ((v >> 5) + k1);
    let mut sum = 0u32;
    for _ in 0..rounds {
        sum = sum.wrapping_add(WEYL[0]);
        a = &a + mix(&b, sum, 0xa341_316c, 0xc801_3ea4);
        b = &b + mix(&a, sum, 0xad90_777d, 0x7e95_761e);
    }
    (a, b)
}
