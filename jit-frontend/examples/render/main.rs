//! A renderer written with `jit-frontend`: `cargo run --release --example render -- --help`.
//!
//! What happens along one path is in `scene` and its two scenes, written once for `f32` and for arrays (`number`).
//! `render` sends paths through all pixels in passes, `film` gathers what they bring back.

mod bitmap;
mod camera;
mod error;
mod film;
mod number;
mod options;
mod picture;
mod random;
mod rectangle;
mod render;
mod scene;
mod spheres;
mod srgb;
#[cfg(test)]
mod tests;
mod texture;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use jit_frontend::Device;

use crate::bitmap::Bitmap;
use crate::error::RenderError;
use crate::options::Options;
use crate::picture::Output;
use crate::render::{Job, Report, render};

/// Texels along each side of the noise that stands in for a texture.
const NOISE: u32 = 512;

fn main() -> ExitCode {
    ExitCode::from(run(std::env::args_os(), &mut std::io::stdout(), &mut std::io::stderr()))
}

/// The program: its exit code. What it has to say goes to `out`, complaints go to `err`.
fn run(arguments: impl IntoIterator<Item = OsString>, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let said = match Options::try_parse_from(arguments) {
        Ok(options) => match execute(options) {
            Ok(report) => writeln!(out, "{report}").map(|()| 0),
            Err(error) => writeln!(err, "error: {error}").map(|()| 1),
        },
        Err(error) if error.use_stderr() => write!(err, "{}", error.render()).map(|()| 1),
        Err(help) => write!(out, "{}", help.render()).map(|()| 0),
    };
    // A reader that has gone away is no failure of the picture, but nobody is left to tell.
    said.unwrap_or(1)
}

fn execute(options: Options) -> Result<Report, RenderError> {
    let device = match &options.device {
        Some(name) => Device::named(name)?,
        None => Device::from_env()?,
    };
    let bitmap = match &options.texture {
        Some(path) => Bitmap::open(path)?,
        None => Bitmap::noise(NOISE),
    };
    let job = Job {
        scene: options.scene,
        bitmap: if options.flip_v { bitmap.flipped() } else { bitmap },
        size: options.size.0,
        spp: options.spp,
        seed: options.seed,
        filter: options.filter,
        passes: options.passes,
    };
    let paths = job.paths()?;
    let output = Output::open(options.out)?;

    let style = ProgressStyle::with_template("{bar:40} {percent}% {elapsed} (left: {eta})");
    let bar = ProgressBar::new(u64::from(job.spp)).with_style(style.expect("a valid template"));
    bar.tick();
    let start = Instant::now();
    device.clear_kernel_history();
    let picture = render(&job, &device, |samples| bar.inc(u64::from(samples)))?;
    let report = Report::of(&device, paths, start);
    bar.finish_and_clear();
    output.write(&picture)?;
    Ok(report)
}
