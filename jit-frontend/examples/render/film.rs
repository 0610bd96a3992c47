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
const TAPS: usize = 4;

impl Film {
    /// A dark film.
    pub(crate) fn new(filter: Filter, size: [u32; 2], device: &Device) -> Result<Film, jit::Error> {
        let pixels = size[0] as usize * size[1] as usize;
        Ok(match filter {
            // In memory from the start, as after every pass, so that all passes are of one structure.
            Filter::Box => Film::Box { sum: Vec3::splat(Array::from_vec(vec![0.0; pixels], device)?) },
            Filter::Gaussian => {
                let dark = Array::from_vec(vec![0.0; pixels * CHANNELS as usize], device)?;
                Film::Gaussian { sums: Buffer::from_array(&dark)?, size }
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

/// Adds each sample to the pixels around it.
fn splat(sums: &Buffer<f32>, [width, height]: [u32; 2], samples: &Sample<Array<f32>>) {
    let columns = taps(&samples.position.x, width);
    let rows = taps(&samples.position.y, height);
    for (y, in_height, down) in &rows {
        for (x, in_width, across) in &columns {
            let weight = down * across;
            let first = (y * width as i32 + x) * CHANNELS as i32;
            let inside = in_height & in_width;
            let Vec3 { x: red, y: green, z: blue } = &samples.radiance * &weight;
            for (c, value) in (0..).zip([red, green, blue, weight]) {
                sums.scatter_add_masked(value, &first + c, &inside);
            }
        }
    }
}

/// Along one axis: the pixels that count, whether they are in the picture, and how much they count.
fn taps(position: &Array<f32>, size: u32) -> [(Array<i32>, Mask, Array<f32>); TAPS] {
    let first = (position - 2.5).ceil();
    std::array::from_fn(|k| {
        let pixel = &first + k as f32;
        let distance = position - (&pixel + 0.5);
        let inside = pixel.ge(0.0) & pixel.lt(size as f32);
        (pixel.cast(), inside, gaussian(&distance))
    })
}

/// `exp(-d^2 / (2 * 0.5^2))`, less its value at 2.
fn gaussian(distance: &Array<f32>) -> Array<f32> {
    ((distance * distance * -2.0).exp() - (-8.0f32).exp()).max(0.0)
}
