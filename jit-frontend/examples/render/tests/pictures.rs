//! What the pictures show, against what is known about them.

use jit_frontend::CacheOutcome;

use super::{bits, devices, means, small, spheres, values};
use crate::bitmap::Bitmap;
use crate::film::Filter;
use crate::render::Job;
use crate::scene::Subject;

#[test]
fn spheres_have_the_means_of_other_implementations() {
    // By a path tracer of the same scene and the same random numbers, written for numba.
    let expected = [1.793_398_4, 1.301_299_2, 1.185_949_2];
    let job = Job { size: [32, 32], spp: 16, ..small(spheres()) };
    for device in devices() {
        let means = means(&values(&job, &device));
        for (channel, (mean, expected)) in means.into_iter().zip(expected).enumerate() {
            assert!((mean / expected - 1.0).abs() < 5e-3, "channel {channel} on {device:?}: {mean}");
        }
    }
}

#[test]
fn other_seeds_give_other_noise() {
    let device = devices().remove(0);
    let job = small(spheres());
    let other = Job { seed: 1, ..small(spheres()) };
    assert_ne!(bits(&values(&job, &device)), bits(&values(&other, &device)));
}

#[test]
fn passes_compile_once_and_give_one_picture() {
    for filter in [Filter::Box, Filter::Gaussian] {
        for device in devices() {
            // Three, three, one.
            let job = Job { spp: 7, passes: Some(3), filter, ..small(spheres()) };
            let picture = values(&job, &device);
            let history = device.kernel_history();
            let compiled: Vec<bool> = history.iter().map(|r| r.cache != CacheOutcome::Hit).collect();
            let in_pass = match filter {
                Filter::Box => 2,
                Filter::Gaussian => 1,
            };
            assert_eq!(compiled.len(), 3 * in_pass + 1, "{filter:?} on {device:?}");
            let developing = 3 * in_pass;
            for (i, compiled) in compiled.into_iter().enumerate() {
                assert_eq!(compiled, i < in_pass || i == developing, "launch {i}, {filter:?} on {device:?}");
            }

            let at_once = values(&Job { passes: None, ..job }, &device);
            for (a, b) in picture.iter().zip(&at_once) {
                assert!((a - b).abs() <= 1e-5 * b.abs(), "{a} and {b}, {filter:?} on {device:?}");
            }
        }
    }
}

#[test]
fn many_samples_take_many_passes() {
    let passes = |size, spp| {
        let job = Job { size, spp, ..small(spheres()) };
        job.spp.div_ceil(job.samples_in_pass())
    };
    assert_eq!(passes([512, 512], 4), 1);
    assert_eq!(passes([512, 512], 64), 8);
    assert_eq!(passes([4096, 4096], 64), 64);
    assert_eq!(passes([1, 1], 1), 1);
}

/// The texture whose reflectance is `f(column, row)`, in all channels.
fn grey(width: u32, height: u32, f: impl Fn(u32, u32) -> f32) -> Bitmap {
    let texel = |i: u32| [f(i % width, i / width); 3];
    Bitmap { width, height, values: (0..width * height).flat_map(texel).collect() }
}

/// Half of the width of what the rectangle's camera sees at z = 0.
fn half_view() -> f64 {
    5.0 * (34.0221f64 / 2.0).to_radians().tan()
}

/// The radiance that the scene `rectangle` has at a position in pixels of a square picture: the bilinear texture by its
/// definition, and 1 beside it.
fn exact_radiance(bitmap: &Bitmap, [column, row]: [f64; 2], pixels: u32) -> f64 {
    let half = half_view();
    let x = (column * 2.0 / f64::from(pixels) - 1.0) * half;
    let y = (1.0 - row * 2.0 / f64::from(pixels)) * half;
    if x.abs() > 1.0 || y.abs() > 1.0 {
        return 1.0;
    }
    let texel = |i: i64, j: i64| {
        let i = i.rem_euclid(i64::from(bitmap.width));
        let j = j.rem_euclid(i64::from(bitmap.height));
        f64::from(bitmap.values[(j * i64::from(bitmap.width) + i) as usize * 3])
    };
    let s = (x + 1.0) / 2.0 * f64::from(bitmap.width) - 0.5;
    let t = (y + 1.0) / 2.0 * f64::from(bitmap.height) - 0.5;
    let (i, j) = (s.floor() as i64, t.floor() as i64);
    let (s, t) = (s - s.floor(), t - t.floor());
    (texel(i, j) * (1.0 - s) + texel(i + 1, j) * s) * (1.0 - t)
        + (texel(i, j + 1) * (1.0 - s) + texel(i + 1, j + 1) * s) * t
}

/// A pixel of [`exact_radiance`], integrated over the filter.
fn exact_pixel(bitmap: &Bitmap, pixel: [u32; 2], pixels: u32, filter: Filter) -> f64 {
    const STEPS: i32 = 16;
    let radius = match filter {
        Filter::Box => 0.5,
        Filter::Gaussian => 2.0,
    };
    let steps = (f64::from(STEPS) * radius * 2.0) as i32;
    let (mut sum, mut weights) = (0.0, 0.0);
    for step in 0..steps * steps {
        let offset = [step % steps, step / steps].map(|k| (f64::from(k) + 0.5) / f64::from(STEPS) - radius);
        let weight: f64 = match filter {
            Filter::Box => 1.0,
            Filter::Gaussian => offset.map(|d| (-2.0 * d * d).exp() - (-8.0f64).exp()).into_iter().product(),
        };
        let at = [0, 1].map(|axis| f64::from(pixel[axis]) + 0.5 + offset[axis]);
        // Beyond the picture there are no samples.
        if at.iter().all(|t| (0.0..f64::from(pixels)).contains(t)) {
            sum += weight * exact_radiance(bitmap, at, pixels);
            weights += weight;
        }
    }
    sum / weights
}

#[test]
fn a_plain_rectangle_shows_its_reflectance_before_white() {
    for filter in [Filter::Box, Filter::Gaussian] {
        for device in devices() {
            let bitmap = grey(3, 2, |_, _| 0.25);
            let job = Job { size: [32, 32], filter, ..small(Subject::Rectangle(bitmap)) };
            let picture = values(&job, &device);
            let at = |column: usize, row: usize| picture[(row * 32 + column) * 3];
            let near = |value: f32, expected: f32| (value - expected).abs() < 1e-6;
            // The rectangle ends 5.54 pixels from the border of the picture.
            for k in 9..23 {
                assert!(
                    near(at(k, 9), 0.25) && near(at(9, k), 0.25),
                    "{filter:?} on {device:?}: {}",
                    at(k, 9)
                );
                assert!(
                    near(at(k, 2), 1.0) && near(at(29, k), 1.0),
                    "{filter:?} on {device:?}: {}",
                    at(k, 2)
                );
            }
        }
    }
}

#[test]
fn the_rectangle_shows_its_texture_as_computed_exactly() {
    // Different along both axes and at all borders: turned, mirrored or shifted by half a texel it would not fit.
    let texture =
        || grey(5, 4, |i, j| [0.1, 0.9, 0.3, 0.7, 0.2][i as usize] * [1.0, 0.2, 0.6, 0.9][j as usize]);
    let device = devices().pop().expect("a device");
    // Where the rectangle ends, in pixels from the middle of the picture.
    let edge = 12.0 / half_view();
    for (filter, radius) in [(Filter::Box, 0.5), (Filter::Gaussian, 2.0)] {
        let job = Job { size: [24, 24], spp: 256, filter, ..small(Subject::Rectangle(texture())) };
        let picture = values(&job, &device);
        let (mut sum, mut count) = (0.0, 0.0);
        for pixel in 0..24 * 24u32 {
            let at = [pixel % 24, pixel / 24];
            let exact = exact_pixel(&texture(), at, 24, filter);
            let difference = f64::from(picture[pixel as usize * 3]) - exact;
            let from_edge = at.map(|i| ((f64::from(i) - 11.5).abs() - edge).abs());
            if from_edge.into_iter().all(|distance| distance > radius) {
                assert!(difference.abs() < 0.03, "{filter:?}: {at:?} off by {difference}");
                (sum, count) = (sum + difference, count + 1.0);
            } else {
                // As noisy as what is dark or white by chance.
                assert!(difference.abs() < 0.15, "{filter:?}: {at:?} at the edge off by {difference}");
            }
        }
        assert!((sum / count).abs() < 3e-4, "{filter:?}: off by {} on average", sum / count);
    }
}
