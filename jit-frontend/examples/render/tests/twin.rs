//! The same code on plain numbers and on arrays.

use std::convert::Infallible;

use jit_frontend::Vec2;

use super::{bits, devices, small, values};
use crate::random::ScalarPcg32;
use crate::render::Job;
use crate::scene::{Scene, SceneName};

/// [`values`] by the scalar twin: one path after another.
fn scalar_values(job: &Job) -> Vec<f32> {
    let table = |values: &[f32]| Ok::<_, Infallible>(values.to_vec());
    let Ok(scene) = Scene::<f32>::new(job.scene, &job.bitmap, job.size, table);
    let [width, height] = job.size;
    let mut values = Vec::new();
    for pixel in 0..width * height {
        let corner = Vec2::new((pixel % width) as f32, (pixel / width) as f32);
        let mut sum = [0.0; 3];
        for sample in 0..job.spp {
            let generator = ScalarPcg32::new(pixel * job.spp + sample, job.seed);
            let radiance = scene.sample(corner, generator).radiance.into_array();
            sum.iter_mut().zip(radiance).for_each(|(sum, value)| *sum += value);
        }
        values.extend(sum.map(|sum| sum / job.spp as f32));
    }
    values
}

#[test]
fn scalars_and_all_devices_render_the_same_bits() {
    for scene in [SceneName::Rectangle, SceneName::Spheres] {
        let job = small(scene);
        let expected = scalar_values(&job);
        assert!(expected.iter().any(|&value| value > 0.1 && value < 0.9), "a picture of {scene:?}");
        for device in devices() {
            assert_eq!(bits(&values(&job, &device)), bits(&expected), "{scene:?} on {device:?}");
        }
    }
}
