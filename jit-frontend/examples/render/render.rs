//! From a scene to a picture, in passes.

use std::time::{Duration, Instant};

use jit::prelude::*;
use jit_frontend as jit;

use crate::error::RenderError;
use crate::film::{Film, Filter};
use crate::picture::Picture;
use crate::random;
use crate::scene::{Scene, Subject};

/// What to render.
pub(crate) struct Job {
    pub(crate) subject: Subject,
    /// Width and height in pixels.
    pub(crate) size: [u32; 2],
    /// Samples for each pixel.
    pub(crate) spp: u32,
    pub(crate) seed: u32,
    pub(crate) filter: Filter,
    /// Launches to spread the samples over; by itself as many as keep memory small.
    pub(crate) passes: Option<u32>,
}

/// Paths of a pass, unless a single sample of every pixel is more: what they bring back waits in memory for the film.
const PATHS_IN_PASS: u64 = 1 << 21;

impl Job {
    /// Paths in all.
    pub(crate) fn paths(&self) -> Result<u64, RenderError> {
        let ([width, height], spp) = (self.size, self.spp);
        let paths = u128::from(width) * u128::from(height) * u128::from(spp);
        if paths >= 1 << 32 {
            return Err(RenderError::TooManyPaths { width, height, spp });
        }
        Ok(paths as u64)
    }

    /// How many samples of each pixel a pass takes, all but the last one.
    pub(crate) fn samples_in_pass(&self) -> u32 {
        let pixels = u64::from(self.size[0]) * u64::from(self.size[1]);
        match self.passes {
            Some(passes) => self.spp.div_ceil(passes.min(self.spp)),
            None => u64::from(self.spp).min((PATHS_IN_PASS / pixels).max(1)) as u32,
        }
    }
}

/// Renders; `progress` hears after each pass how many samples of each pixel it was.
///
/// A pass differs from the one before in its number of lanes and in the values of two arrays, so that only the first one
/// compiles.
pub(crate) fn render(
    job: &Job,
    device: &Device,
    mut progress: impl FnMut(u32),
) -> Result<Picture, RenderError> {
    job.paths()?;
    let [width, height] = job.size;
    let scene = Scene::new(&job.subject, job.size, |values| Array::from_slice(values, device))?;
    let mut film = Film::new(job.filter, job.size, device)?;
    let in_pass = job.samples_in_pass();
    for first in (0..job.spp).step_by(in_pass as usize) {
        let count = in_pass.min(job.spp - first);
        let samples = trace(&scene, job, first, count, device)?;
        film.add(&samples, &Array::from_slice(&[count], device)?)?.wait()?;
        progress(count);
    }
    Ok(Picture { width, height, values: film.develop(job.spp)? })
}

/// `count` samples of every pixel from number `first` on: one lane each, pixel by pixel, then the next sample.
fn trace(
    scene: &Scene<Array<f32>>,
    job: &Job,
    first: u32,
    count: u32,
    device: &Device,
) -> Result<crate::scene::Sample<Array<f32>>, jit::Error> {
    let [width, height] = job.size;
    let pixels = width * height;
    let lane = Array::<u32>::arange(pixels as usize * count as usize, device);
    let sample = &lane / pixels + Array::from_slice(&[first], device)?;
    let pixel = lane % pixels;
    let generators = random::generators(&(&pixel * job.spp + sample), job.seed);
    let corner = Vec2::new((&pixel % width).cast::<f32>(), (pixel / width).cast::<f32>());
    Ok(scene.sample(corner, generators))
}

/// What rendering took.
pub(crate) struct Report {
    launches: usize,
    hits: usize,
    compile_time: Duration,
    time: Duration,
    paths: u64,
}

impl Report {
    /// Of a device that has done nothing else since its history was cleared, and since `start`.
    pub(crate) fn of(device: &Device, paths: u64, start: Instant) -> Report {
        let time = start.elapsed();
        let history = device.kernel_history();
        Report {
            launches: history.len(),
            hits: history.iter().filter(|record| record.cache == jit::CacheOutcome::Hit).count(),
            compile_time: history.iter().map(|record| record.compile_time).sum(),
            time,
            paths,
        }
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Report { launches, hits, compile_time, time, paths } = self;
        let millions = *paths as f64 / 1e6;
        let running = time.saturating_sub(*compile_time).as_secs_f64();
        write!(
            f,
            "{launches} kernels launched ({hits} from the cache), compiled in {:.2} s; {millions:.2} Mpath in {running:.2} s: {:.2} Mpath/s",
            compile_time.as_secs_f64(),
            millions / running,
        )
    }
}
