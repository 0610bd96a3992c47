//! Light from all around: brighter toward the zenith and around a soft sun.

use jit_frontend::Vec3;

use crate::number::{Number, lit3};

/// Radiance by direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sky {
    /// At the horizon and below.
    pub(crate) horizon: [f64; 3],
    pub(crate) zenith: [f64; 3],
    /// What the sun adds in its middle.
    pub(crate) sun: [f64; 3],
}

/// A bright afternoon.
pub(crate) const AFTERNOON: Sky =
    Sky { horizon: [0.75, 0.8, 0.9], zenith: [0.25, 0.42, 0.8], sun: [9.0, 7.5, 5.5] };

/// Where the sun is, of length 1.
const TO_SUN: [f64; 3] = [0.48, 0.64, 0.6];

/// Sharpness of the sun: the power of the cosine that its light falls off by.
const SUN_POWER: i32 = 32;

impl Sky {
    /// The radiance from a direction, of length 1.
    pub(crate) fn radiance<R: Number>(&self, direction: &Vec3<R>) -> Vec3<R> {
        let zero = || R::lit(0.0);
        let height = direction.y.max(zero());
        let plain = lit3(self.horizon).lerp(&lit3(self.zenith), &height);
        let sun = direction.dot(&lit3(TO_SUN)).max(zero()).powi(SUN_POWER);
        lit3(self.sun).mul_add(&Vec3::splat(sun), &plain)
    }
}
