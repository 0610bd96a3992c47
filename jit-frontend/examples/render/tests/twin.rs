//! The same code on plain numbers and on arrays.

use std::convert::Infallible;

use jit_frontend::Vec2;

use super::mesh::ball;
use super::{bits, devices, small, spheres, values};
use crate::bitmap::Bitmap;
use crate::cornell::Lighting;
use crate::random::ScalarPcg32;
use crate::render::Job;
use crate::scene::{Scene, Subject};

/// [`values`] by the scalar twin: one path after another.
fn scalar_values(job: &Job) -> Vec<f32> {
    let table = |values: &[f32]| Ok::<_, Infallible>(values.to_vec());
    let Ok(scene) = Scene::<f32>::new(&job.subject, job.size, table);
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
    let scenes = [
        ("rectangle", Subject::Rectangle(Bitmap::noise(512))),
        ("spheres", spheres()),
        ("cornell", Subject::Cornell(Lighting::Sampled)),
        ("lamps found by chance", Subject::Cornell(Lighting::Found)),
        ("mesh", ball(Some(Bitmap::noise(64)))),
    ];
    for (name, subject) in scenes {
        let job = small(subject);
        let expected = scalar_values(&job);
        assert!(expected.iter().any(|&value| value > 0.1 && value < 0.9), "a picture of {name}");
        for device in devices() {
            assert_eq!(bits(&values(&job, &device)), bits(&expected), "{name} on {device:?}");
        }
    }
}
