//! The Cornell box against what is known about it.

use super::{devices, means, small, values};
use crate::cornell::Lighting;
use crate::render::Job;
use crate::scene::Subject;

/// Paths for each of 256 pixels: as many as the fastest device of this build does in a moment.
const SPP: u32 = if cfg!(feature = "llvm") { 16_384 } else { 64 };

fn picture(lighting: Lighting, seed: u32) -> [f64; 3] {
    let device = devices().pop().expect("a device");
    means(&values(&Job { spp: SPP, seed, ..small(Subject::Cornell(lighting)) }, &device))
}

#[test]
fn both_ways_to_find_light_converge_to_one_picture() {
    // Four standard deviations of the slower way.
    let tolerance = 2.0 / f64::from(SPP).sqrt();
    let (sampled, found) = (picture(Lighting::Sampled, 0), picture(Lighting::Found, 1));
    for (sampled, found) in sampled.into_iter().zip(found) {
        assert!((sampled / found - 1.0).abs() < tolerance, "{sampled} and {found}");
    }
}

#[test]
fn the_box_has_the_means_of_another_renderer() {
    // Mitsuba 3.9.1, variant scalar_rgb: `cornell_box()` with a box filter, 6.3 million paths, all pixels.
    let expected = [0.240_34, 0.141_17, 0.060_01];
    let tolerance = 1.0 / f64::from(SPP).sqrt();
    for (mean, expected) in picture(Lighting::Sampled, 2).into_iter().zip(expected) {
        assert!((mean / expected - 1.0).abs() < tolerance, "{mean}, not {expected}");
    }
}
