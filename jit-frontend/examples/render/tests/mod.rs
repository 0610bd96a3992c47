//! Tests of the whole renderer, on every device of this build.

mod command_line;
mod pictures;
mod twin;

use jit_frontend::{Device, DeviceKind};

use crate::bitmap::Bitmap;
use crate::film::Filter;
use crate::render::{Job, render};
use crate::scene::SceneName;

/// Devices that nobody else uses, so that their history is the test's own.
fn devices() -> Vec<Device> {
    let mut kinds = vec![DeviceKind::Interpreter];
    if cfg!(feature = "llvm") {
        kinds.push(DeviceKind::Cpu);
    }
    kinds.into_iter().map(|kind| Device::builder(kind).build().expect("a device")).collect()
}

/// A picture of 16 pixels each way with 4 samples, and noise for a texture.
fn small(scene: SceneName) -> Job {
    Job {
        scene,
        bitmap: Bitmap::noise(512),
        size: [16, 16],
        spp: 4,
        seed: 0,
        filter: Filter::Box,
        passes: None,
    }
}

fn values(job: &Job, device: &Device) -> Vec<f32> {
    render(job, device, |_| ()).expect("a picture").values
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}
