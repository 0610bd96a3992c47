//! The film: samples in, pixels out.

use jit::prelude::*;
use jit_frontend as jit;

use crate::number::lit3;
use crate::scene::Sample;

/// How much a sample counts for pixels near it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Filter {
    /// For its own pixel only.
    Box,
    /// A Gaussian of standard deviation 1/2 pixel, down to 0 at a distance of 2.
    Gaussian,
}

/// Light gathered so far.
pub(crate) enum Film {
    /// Each pixel's sum.
    Box {
        /// One element for each pixel.
        sum: Vec3<Array<f32>>,
    },
    /// Weighted sums, and the weights.
    Gaussian {
        /// Red, green, blue and weight of each pixel.
        sums: Buffer<f32>,
        /// Pixels in a row, and rows.
        size: [u32; 2],
    },
}

/// Numbers of the Gaussian film for each pixel.
const CHANNELS: u32 = 4;

/// Pixels along one axis that a sample can count for.
const TAPS: u32 = 4;

impl Film {
    /// A dark film.
    pub(crate) fn new(filter: Filter, size: [u32; 2], device: &Device) -> Result<Film, jit::Error> {
        let pixels = size[0] as usize * size[1] as usize;
        // In memory from the start, as after every pass, so that all passes are of one structure.
        let dark = |n: usize| Array::from_vec(vec![0.0; n], device);
        Ok(match filter {
            Filter::Box => Film::Box { sum: Vec3::new(dark(pixels)?, dark(pixels)?, dark(pixels)?) },
            Filter::Gaussian => {
                Film::Gaussian { sums: Buffer::from_array(&dark(pixels * CHANNELS as usize)?)?, size }
            }
        })
    }

    /// Adds `count` samples of every pixel: first one of each, then another one of each, and so on. Launches, and does not
    /// wait.
    ///
    /// The box film adds in this order and so gives the same bits on every device; the Gaussian one adds as samples come.
    pub(crate) fn add(
        &mut self,
        samples: &Sample<Array<f32>>,
        count: &Array<u32>,
    ) -> Result<Event, jit::Error> {
        match self {
            Film::Box { sum } => {
                *sum += sum_samples(&samples.radiance, &sum.x, count);
                jit::eval(sum)
            }
            Film::Gaussian { sums, size } => {
                splat(sums, *size, samples);
                jit::eval(sums)
            }
        }
    }

    /// Three numbers for each pixel, after `spp` samples of each.
    pub(crate) fn develop(&self, spp: u32) -> Result<Vec<f32>, jit::Error> {
        let colour = match self {
            Film::Box { sum } => sum / &Array::from(spp as f32),
            Film::Gaussian { sums, size: [width, height] } => {
                let pixel = Array::<u32>::arange(*width as usize * *height as usize, &sums.device());
                let channel = |c: u32| sums.gather(&pixel * CHANNELS + c);
                Vec3::new(channel(0), channel(1), channel(2)) / channel(3)
            }
        };
        jit::eval(&colour)?;
        let [red, green, blue] = colour.into_array().map(|channel| channel.to_vec());
        Ok(red?.into_iter().zip(green?).zip(blue?).flat_map(|((r, g), b)| [r, g, b]).collect())
    }
}

/// Each pixel's sum over its samples; `like` has one element for each pixel.
fn sum_samples(radiance: &Vec3<Array<f32>>, like: &Array<f32>, count: &Array<u32>) -> Vec3<Array<f32>> {
    let device = like.device().expect("a film is on a device");
    let pixel = Array::<u32>::arange(like.len(), &device);
    let pixels = like.len() as u32;
    let (_, _, sum) = Loop::new((pixel, Array::from(0u32), lit3([0.0; 3]))).name("samples").run(
        |(_, done, _)| done.lt(count),
        |(sample, done, sum)| {
            let next = jit::gather(radiance, &sample);
            (sample + pixels, done + 1, sum + next)
        },
    );
    sum
}

/// Adds each sample to the pixels around it: one after another, so that it is one kernel.
fn splat(sums: &Buffer<f32>, [width, height]: [u32; 2], samples: &Sample<Array<f32>>) {
    let Sample { position, radiance } = samples;
    let corner = position.clone().map(|at| (at - 2.5).ceil());
    Loop::new(Array::full(0u32, 1, &sums.device())).name("splat").run(
        |tap| tap.lt(TAPS * TAPS),
        |tap| {
            let pixel = &corner + Vec2::new(&tap % TAPS, &tap / TAPS).map(|along| along.cast::<f32>());
            let distance = position - (&pixel + 0.5);
            let weight = gaussian(&distance.x) * gaussian(&distance.y);
            let inside =
                pixel.x.ge(0.0) & pixel.x.lt(width as f32) & pixel.y.ge(0.0) & pixel.y.lt(height as f32);
            let first = (pixel.y.cast::<u32>() * width + pixel.x.cast::<u32>()) * CHANNELS;
            let [red, green, blue] = (radiance * &weight).into_array();
            for (channel, value) in (0..).zip([red, green, blue, weight]) {
                sums.scatter_add_masked(value, &first + channel, &inside);
            }
            tap + 1
        },
    );
}

/// `exp(-d^2 / (2 * 0.5^2))`, less its value at 2.
fn gaussian(distance: &Array<f32>) -> Array<f32> {
    ((distance * distance * -2.0).exp() - (-8.0f32).exp()).max(0.0)
}
