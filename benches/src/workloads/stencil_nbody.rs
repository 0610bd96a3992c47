//! Neighbours: of pixels, and of every body to every other.

use jit_frontend::{Array, Device, Vec3, while_loop};

use super::F32;
use crate::checksum::checksum;
use crate::inputs::{ranged, uniform};
use crate::record::{Measured, Metric};
use crate::suite::Suite;

pub(super) fn run(suite: &mut Suite) {
    let device = suite.device();
    let width = suite.sizes().blur;
    suite.part("blur3x3", |suite| {
        let pixels = (width * width) as usize;
        let image = F32::from_vec(uniform(pixels, 81), &device)?;
        let (seconds, y) = suite.timing().warm(1).run(&device, || {
            let y = blur(&image, width, &device);
            jit_frontend::eval(&y)?;
            Ok(y)
        })?;
        let rate = seconds.rate(1e-9 * pixels as f64);
        suite.row(
            Measured::new("blur3x3", format!("{width}x{width}"), Metric::Throughput, "Gpixel/s", rate)
                .check([checksum(&y.to_vec()?)], 1e-5)
                .note(format!("9 clamped gathers; median {:.2} ms", seconds.median() * 1e3)),
        );
        Ok(())
    });
    let bodies = suite.sizes().bodies;
    suite.part("nbody", |suite| {
        let n = bodies as usize;
        let position = Vec3::new(82, 83, 84).map(|seed| ranged(n, seed, -1.0, 1.0));
        let position = Vec3::new(
            F32::from_vec(position.x, &device)?,
            F32::from_vec(position.y, &device)?,
            F32::from_vec(position.z, &device)?,
        );
        let share = (1.0 / f64::from(bodies)) as f32;
        let mass: Vec<f32> = ranged(n, 85, 0.1, 1.0).into_iter().map(|m| m * share).collect();
        let mass = F32::from_vec(mass, &device)?;
        let (seconds, moved) = suite.timing().warm(1).run(&device, || {
            let moved = step(&position, &mass, bodies);
            jit_frontend::eval(&moved)?;
            Ok(moved)
        })?;
        let mut sums = Vec::new();
        for axis in moved.into_array() {
            sums.push(checksum(&axis.to_vec()?));
        }
        let rate = seconds.rate(1e-9 * f64::from(bodies) * f64::from(bodies));
        suite.row(
            Measured::new("nbody", n, Metric::Throughput, "Ginter/s", rate)
                .check(sums, 1e-4)
                .note(format!("all pairs, a loop of gathers; median {:.2} ms", seconds.median() * 1e3)),
        );
        Ok(())
    });
}

/// Weights (1, 2, 1) x (1, 2, 1) / 16; coordinates stop at the border.
fn blur(image: &F32, width: u32, device: &Device) -> F32 {
    let lane = Array::<u32>::arange((width * width) as usize, device);
    let x = (&lane & (width - 1)).cast::<i32>();
    let y = (&lane >> width.ilog2()).cast::<i32>();
    let last = width as i32 - 1;
    let mut sum: Option<F32> = None;
    for dy in -1..=1i32 {
        let row = (&y + dy).clamp(0, last);
        for dx in -1..=1i32 {
            let column = (&x + dx).clamp(0, last);
            let weight = ((2 - dx.abs()) * (2 - dy.abs())) as f32 / 16.0;
            let part = image.gather((&row * width as i32 + column).cast::<u32>()) * weight;
            sum = Some(match sum {
                None => part,
                Some(sum) => sum + part,
            });
        }
    }
    sum.expect("nine parts")
}

/// The positions after the time 0.01, from rest.
fn step(position: &Vec3<F32>, mass: &F32, bodies: u32) -> Vec3<F32> {
    let zero = position.x.zeros_like();
    let (_, acceleration) = while_loop(
        (Array::from(0u32), Vec3::splat(zero)),
        |(other, _)| other.lt(bodies),
        |(other, acceleration)| {
            let at = position.clone().map(|axis| axis.gather(&other));
            let d = at - position;
            let inverse = (&d.x * &d.x + &d.y * &d.y + &d.z * &d.z + 1e-3).rsqrt();
            let pull = mass.gather(&other) * &inverse * &inverse * &inverse;
            (other + 1, acceleration + d * pull)
        },
    );
    position + acceleration * 0.01
}
