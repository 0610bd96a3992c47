//! The command line.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Parser;

use crate::film::Filter;
use crate::picture::OutputName;
use crate::placement::Axis;
use crate::scene::SceneName;

/// Renders a scene with programs that are traced, fused and compiled while it runs.
#[derive(Parser, Debug)]
#[command(name = "render")]
pub(crate) struct Options {
    /// The scene
    #[arg(long, value_enum, default_value = "spheres")]
    pub(crate) scene: SceneName,

    /// An OBJ file, for the scene mesh
    #[arg(long, value_name = "FILE", required_if_eq("scene", "mesh"))]
    pub(crate) mesh: Option<PathBuf>,

    /// The axis of the mesh that points up
    #[arg(long, value_enum, default_value = "y")]
    pub(crate) up: Axis,

    /// Turn the mesh by that many degrees, seen from above against the clock
    #[arg(long, value_name = "DEGREES", default_value_t = 0.0, allow_hyphen_values = true, value_parser = degrees)]
    pub(crate) turn: f64,

    /// Look down at the mesh from that many degrees above the horizon, 0 to 90
    #[arg(long, value_name = "DEGREES", default_value_t = 20.0, allow_hyphen_values = true, value_parser = elevation)]
    pub(crate) elevation: f64,

    /// Show the triangles of the mesh flat
    #[arg(long)]
    pub(crate) flat: bool,

    /// A PNG, JPEG or EXR file for the scene's textured surfaces; without it, noise, and grey for a mesh
    #[arg(long, value_name = "FILE")]
    pub(crate) texture: Option<PathBuf>,

    /// The texture's last row first
    #[arg(long)]
    pub(crate) flip_v: bool,

    /// Width and height of the picture in pixels; without it, 512x512, and 256x256 for cornell
    #[arg(long, value_name = "WxH")]
    pub(crate) size: Option<Size>,

    /// Samples for each pixel
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) spp: u32,

    /// Another number, other noise
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub(crate) seed: u32,

    /// cpu, interp, or cuda:N; without it, what JIT_DEVICE says, else the fastest there is
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<String>,

    /// How much a sample counts for the pixels around it
    #[arg(long, value_enum, default_value = "box")]
    pub(crate) filter: Filter,

    /// Spread the samples over that many launches; without it, as many as keep memory small
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) passes: Option<u32>,

    /// The picture: .png (sRGB) or .exr (linear)
    #[arg(long, value_name = "FILE")]
    pub(crate) out: OutputName,
}

/// Width and height in pixels, neither 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) [u32; 2]);

/// The largest width or height.
const MOST: u32 = 1 << 16;

/// The most pixels: the film takes 12 or 16 bytes for each.
const MOST_PIXELS: u64 = 1 << 28;

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let bad = || format!("a size is WIDTHxHEIGHT, such as 640x480, each from 1 to {MOST}");
        let (width, height) = text.split_once('x').ok_or_else(bad)?;
        let side = |text: &str| text.parse().ok().filter(|n| (1..=MOST).contains(n)).ok_or_else(bad);
        let size = [side(width)?, side(height)?];
        if u64::from(size[0]) * u64::from(size[1]) > MOST_PIXELS {
            return Err(format!("a picture has at most {MOST_PIXELS} pixels"));
        }
        Ok(Size(size))
    }
}

/// An angle.
fn degrees(text: &str) -> Result<f64, String> {
    let angle = text.parse().ok().filter(|angle: &f64| angle.is_finite());
    angle.ok_or_else(|| "an angle is a number of degrees".to_owned())
}

/// An angle from the horizon up to the zenith.
fn elevation(text: &str) -> Result<f64, String> {
    let angle = degrees(text)?;
    let above = (0.0..=90.0).contains(&angle);
    above.then_some(angle).ok_or_else(|| "an elevation is from 0 to 90 degrees".to_owned())
}
