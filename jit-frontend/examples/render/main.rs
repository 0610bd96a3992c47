//! A renderer written with `jit-frontend`: `cargo run --release --example render -- --help`.
//!
//! What happens along one path is in `scene`, its four scenes and `path`, written once for `f32` and for arrays (`number`).
//! `render` sends paths through all pixels in passes, `film` gathers what they bring back.

mod bitmap;
mod bvh;
mod camera;
mod cornell;
mod error;
mod film;
mod mesh;
mod number;
mod obj;
mod options;
mod path;
mod picture;
mod placement;
mod random;
mod rectangle;
mod render;
mod scene;
mod sky;
mod spheres;
mod srgb;
#[cfg(test)]
mod tests;
mod texture;
mod triangles;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use jit_frontend::Device;

use crate::bitmap::Bitmap;
use crate::cornell::Lighting;
use crate::error::RenderError;
use crate::mesh::MeshTables;
use crate::obj::Model;
use crate::options::Options;
use crate::picture::Output;
use crate::placement::{Placed, Pose};
use crate::render::{Job, Report, render};
use crate::scene::{SceneName, Subject};
use crate::sky::AFTERNOON;
use crate::triangles::MOST_TRIANGLES;

/// Texels along each side of the noise that stands in for a texture.
const NOISE: u32 = 512;

fn main() -> ExitCode {
    ExitCode::from(run(std::env::args_os(), &mut std::io::stdout(), &mut std::io::stderr()))
}

/// The program: its exit code. What it has to say goes to `out`, complaints go to `err`.
fn run(arguments: impl IntoIterator<Item = OsString>, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let said = match Options::try_parse_from(arguments) {
        Ok(options) => match execute(options, out) {
            Ok(report) => writeln!(out, "{report}").map(|()| 0),
            Err(error) => writeln!(err, "error: {error}").map(|()| 1),
        },
        Err(error) if error.use_stderr() => write!(err, "{}", error.render()).map(|()| 1),
        Err(help) => write!(out, "{}", help.render()).map(|()| 0),
    };
    // A reader that has gone away is no failure of the picture, but nobody is left to tell.
    said.unwrap_or(1)
}

fn execute(options: Options, out: &mut dyn Write) -> Result<Report, RenderError> {
    let device = match &options.device {
        Some(name) => Device::named(name)?,
        None => Device::from_env()?,
    };
    let job = Job {
        subject: subject(&options, out)?,
        size: options.size.map_or(options.scene.size(), |size| size.0),
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

/// What the options ask for; `out` hears what is left out of it.
fn subject(options: &Options, out: &mut dyn Write) -> Result<Subject, RenderError> {
    if options.mesh.is_some() && options.scene != SceneName::Mesh {
        return Err(RenderError::MeshUnused);
    }
    let texture = options.texture.as_deref().map(Bitmap::open).transpose()?;
    let texture = if options.flip_v { texture.map(Bitmap::flipped) } else { texture };
    let noise = || Bitmap::noise(NOISE);
    Ok(match options.scene {
        SceneName::Rectangle => Subject::Rectangle(texture.unwrap_or_else(noise)),
        SceneName::Spheres => Subject::Spheres(texture.unwrap_or_else(noise)),
        SceneName::Cornell => Subject::Cornell(Lighting::Sampled),
        SceneName::Mesh => {
            let path = options.mesh.as_deref().expect("demanded with the scene mesh");
            let failed = |why: String| RenderError::Mesh { path: path.to_owned(), why };
            let pose = Pose { up: options.up, turn: options.turn, flat: options.flat };
            let model = Placed::new(&Model::open(path)?, pose).map_err(failed)?;
            let n = model.facets.len();
            if n > MOST_TRIANGLES {
                return Err(failed(format!("{n} triangles are too many; {MOST_TRIANGLES} fit")));
            }
            if texture.is_some() && model.bare == n {
                return Err(failed("has no texture coordinates, so it cannot have a texture".to_owned()));
            }
            for (count, what) in [
                (model.not_finite, "triangles left out: they have a coordinate that is infinite or NaN"),
                (model.degenerate, "triangles left out: they have no area"),
                (
                    if texture.is_some() { model.bare } else { 0 },
                    "triangles without texture: they have no texture coordinates",
                ),
            ] {
                if count > 0 {
                    // As with the report: a reader that has gone away is no failure of the picture.
                    let _ = writeln!(out, "{}: {count} {what}", path.display());
                }
            }
            let model = MeshTables::new(&model, AFTERNOON);
            Subject::Mesh { model, texture, elevation: options.elevation }
        }
    })
}
