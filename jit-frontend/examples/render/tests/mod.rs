//! Tests of the whole renderer, on every device of this build.

mod command_line;
mod cornell;
mod mesh;
mod pictures;
mod twin;

use jit_frontend::{Device, DeviceKind};

use crate::bitmap::Bitmap;
use crate::film::Filter;
use crate::render::{Job, render};
use crate::scene::Subject;

/// Devices that nobody else uses, so that their history is the test's own.
fn devices() -> Vec<Device> {
    let mut kinds = vec![DeviceKind::Interpreter];
    if cfg!(feature = "llvm") {
        kinds.push(DeviceKind::Cpu);
    }
    kinds.into_iter().map(|kind| Device::builder(kind).build().expect("a device")).collect()
}

/// A picture of 16 pixels each way with 4 samples.
fn small(subject: Subject) -> Job {
    Job { subject, size: [16, 16], spp: 4, seed: 0, filter: Filter::Box, passes: None }
}

/// The spheres, with noise for a texture.
fn spheres() -> Subject {
    Subject::Spheres(Bitmap::noise(512))
}

fn values(job: &Job, device: &Device) -> Vec<f32> {
    render(job, device, |_| ()).expect("a picture").values
}

/// The mean of each channel.
fn means(values: &[f32]) -> [f64; 3] {
    let pixels = values.len() as f64 / 3.0;
    [0, 1, 2].map(|channel| {
        values.iter().skip(channel).step_by(3).map(|&value| f64::from(value)).sum::<f64>() / pixels
    })
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}
