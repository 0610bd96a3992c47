//! Random numbers.

use std::hash::Hasher;

use crate::traverse::{Rebuilder, Traverse, Visitor};
use crate::{Array, Device, while_loop};

/// O'Neill's generator PCG-XSH-RR 64/32, one stream of numbers for each lane.
///
/// Lane `i` gives what the generator of the C library gives after `pcg32_srandom_r(&rng, seed, i)`: the state is set to
/// `(2 i + 1) + seed` and advanced once, and the increment is `2 i + 1`. Lanes of one seed are different streams. To use it in a
/// loop, carry it in the state.
#[derive(Clone, Debug)]
pub struct Pcg32 {
    state: Array<u64>,
    increment: Array<u64>,
}

const MULTIPLIER: u64 = 6_364_136_223_846_793_005;

impl Pcg32 {
    /// `n` generators with the streams 0, 1, 2, ...
    #[track_caller]
    pub fn new(n: usize, seed: u64, device: &Device) -> Pcg32 {
        Pcg32::from_streams(&seed.into(), &Array::arange(n, device))
    }

    /// Generators with these seeds and streams.
    ///
    /// # Panics
    /// If the sizes do not fit.
    #[track_caller]
    pub fn from_streams(seed: &Array<u64>, stream: &Array<u64>) -> Pcg32 {
        let increment = (stream << 1) | 1;
        let state = (&increment + seed).mul_add(MULTIPLIER, &increment);
        Pcg32 { state, increment }
    }

    /// The next number of each lane, all 32 bits random.
    #[track_caller]
    pub fn next_u32(&mut self) -> Array<u32> {
        let old = self.state.clone();
        self.state = old.mul_add(MULTIPLIER, &self.increment);
        let mixed = (((&old >> 18) ^ &old) >> 27).cast::<u32>();
        mixed.rotate_right((old >> 59).cast::<u32>())
    }

    /// The next number in [0, 1): a multiple of 2^-24, never 1.
    #[track_caller]
    pub fn next_f32(&mut self) -> Array<f32> {
        (self.next_u32() >> 8).cast::<f32>() * 2.0f32.powi(-24)
    }

    /// The next number in [0, 1): a multiple of 2^-53, never 1. Takes two steps, the first one for the high bits.
    #[track_caller]
    pub fn next_f64(&mut self) -> Array<f64> {
        let high = self.next_u32().cast::<u64>() << 32;
        let bits = high | self.next_u32().cast::<u64>();
        (bits >> 11).cast::<f64>() * 2.0f64.powi(-53)
    }

    /// The next number below `bound`, each equally likely: as `pcg32_boundedrand_r` of the C library, which draws again
    /// until the remainder is fair.
    ///
    /// # Panics
    /// If the bound is 0.
    #[track_caller]
    pub fn bounded(&mut self, bound: u32) -> Array<u32> {
        assert!(bound > 0, "`bounded` takes a bound above 0");
        let threshold = bound.wrapping_neg() % bound;
        if threshold == 0 {
            return self.next_u32() & (bound - 1);
        }
        let first = self.next_u32();
        let (generator, number) = while_loop(
            (self.clone(), first),
            |(_, number)| number.lt(threshold),
            |(mut generator, _)| {
                let number = generator.next_u32();
                (generator, number)
            },
        );
        *self = generator;
        number % bound
    }
}

impl Traverse for Pcg32 {
    fn visit(&self, visitor: &mut dyn Visitor) {
        self.state.visit(visitor);
        self.increment.visit(visitor);
    }

    fn rebuild(&self, rebuilder: &mut dyn Rebuilder) -> Self {
        Pcg32 { state: self.state.rebuild(rebuilder), increment: self.increment.rebuild(rebuilder) }
    }

    fn static_key(&self, _state: &mut dyn Hasher) {}
}
