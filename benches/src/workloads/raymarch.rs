//! Signed distances: marching to the surface, a normal, marching to the light.

use jit_frontend::{Array, Device, Mask, Vec3, while_loop};

use super::F32;
use crate::record::{Measured, Metric};
use crate::suite::Suite;

pub(super) fn run(suite: &mut Suite) {
    let (width, height) = suite.sizes().raymarch;
    let device = suite.device();
    suite.part("sphere_trace", |suite| {
        let (seconds, colour) = suite.timing().warm(1).run(&device, || {
            let colour = picture(width, height, &device);
            jit_frontend::eval(&colour)?;
            Ok(colour)
        })?;
        let mut means = Vec::new();
        for channel in colour.into_array() {
            let values = channel.to_vec()?;
            means.push(values.iter().map(|&v| f64::from(v)).sum::<f64>() / values.len() as f64);
        }
        let rate = seconds.rate(1e-6 * f64::from(width * height));
        suite.row(
            Measured::new("sphere_trace", format!("{width}x{height}"), Metric::Throughput, "Mpixel/s", rate)
                .check(means, 2e-3)
                .note(format!("at most 128 and 64 steps; median {:.2} ms", seconds.median() * 1e3)),
        );
        Ok(())
    });
}

type V = Vec3<F32>;

fn picture(width: u32, height: u32, device: &Device) -> V {
    let lane = Array::<i32>::arange((width * height) as usize, device);
    let py = &lane / width as i32;
    let px = lane - &py * width as i32;
    let scale = 1.0 / height as f32;
    let sx = (2.0 * (px.cast::<f32>() + 0.5) - width as f32) * scale;
    let sy = (height as f32 - 2.0 * (py.cast::<f32>() + 0.5)) * scale;
    let dz = sx.full_like(-2.0);
    let direction = Vec3::new(sx, sy - 0.4, dz);
    let direction = &direction * (1.0 / dot(&direction, &direction).sqrt());

    let (t, hit) = march_to_surface(&direction);
    let p = point_on_ray(&direction, &t);
    let normal = normal_at(&p);
    let facing = dot(&normal, &light()).max(0.0);
    let shadowed = march_to_light(&(&p + &normal * 0.01), &hit & facing.gt(0.0));

    let visible = shadowed.select(0.0, 1.0);
    let (_, sphere, torus) = distances(&p);
    let plane = &p.y + 1.0;
    let on_sphere = sphere.le(&torus) & sphere.le(&plane);
    let on_torus = !&on_sphere & torus.le(&plane);
    let square = p.x.floor() + p.z.floor();
    let odd = (&square - 2.0 * (&square * 0.5).floor()).gt(0.5);
    let checker: F32 = odd.select(0.9, 0.3);
    let lit = 0.15 + 0.85 * facing * visible;
    let sky = 0.5 + 0.5 * direction.y.max(0.0);
    let channel = |of_sphere: f32, of_torus: f32, of_sky: f32| {
        let base = on_sphere.select(of_sphere, on_torus.select(of_torus, &checker));
        hit.select(base * &lit, &sky * of_sky)
    };
    Vec3::new(channel(0.9, 0.2, 0.6), channel(0.3, 0.5, 0.7), channel(0.2, 0.9, 0.9))
}

/// How far the ray goes, and whether it ends on a surface.
fn march_to_surface(direction: &V) -> (F32, Mask) {
    let zero = direction.x.zeros_like();
    let start = (zero, Array::from(0u32), Mask::from(false), Mask::from(true));
    let (t, _, hit, _) = while_loop(
        start,
        |(_, _, _, active)| active.clone(),
        |(t, step, _, active)| {
            let (d, ..) = distances(&point_on_ray(direction, &t));
            let t = t + &d;
            let hit = d.lt(1e-3);
            let step = step + 1;
            let active = active & !&hit & t.lt(20.0) & step.lt(128);
            (t, step, hit, active)
        },
    );
    (t, hit)
}

/// Whether something is between the point and the light.
fn march_to_light(from: &V, active: Mask) -> Mask {
    let start = (from.x.full_like(0.02), Array::from(0u32), Mask::from(false), active);
    let (_, _, shadowed, _) = while_loop(
        start,
        |(_, _, _, active)| active.clone(),
        |(s, step, _, active)| {
            let (d, ..) = distances(&(from + light() * &s));
            let s = s + &d;
            let shadowed = d.lt(1e-3);
            let step = step + 1;
            let active = active & !&shadowed & s.lt(10.0) & step.lt(64);
            (s, step, shadowed, active)
        },
    );
    shadowed
}

fn light() -> V {
    Vec3::new(0.5, 0.8, 0.331_662_48).map(F32::from)
}

/// The point at that distance from the eye.
fn point_on_ray(direction: &V, t: &F32) -> V {
    Vec3::new(&direction.x * t, 1.0 + &direction.y * t, 5.0 + &direction.z * t)
}

/// Distance to the scene, to the sphere, to the torus.
fn distances(p: &V) -> (F32, F32, F32) {
    let Vec3 { x, y, z } = p;
    let ax = x + 1.1;
    let sphere = (&ax * &ax + y * y + z * z).sqrt() - 1.0;
    let bx = x - 1.3;
    let by = y + 0.2;
    let q = (&bx * &bx + z * z).sqrt() - 0.8;
    let torus = (&q * &q + &by * &by).sqrt() - 0.3;
    (sphere.min(&torus).min(y + 1.0), sphere, torus)
}

/// The gradient of the distance by central differences.
fn normal_at(p: &V) -> V {
    const E: f32 = 2e-3;
    let at = |x: F32, y: F32, z: F32| distances(&Vec3::new(x, y, z)).0;
    let n = Vec3::new(
        at(&p.x + E, p.y.clone(), p.z.clone()) - at(&p.x - E, p.y.clone(), p.z.clone()),
        at(p.x.clone(), &p.y + E, p.z.clone()) - at(p.x.clone(), &p.y - E, p.z.clone()),
        at(p.x.clone(), p.y.clone(), &p.z + E) - at(p.x.clone(), p.y.clone(), &p.z - E),
    );
    let length = dot(&n, &n).max(1e-20).sqrt();
    n * (1.0 / length)
}

/// Term by term, as the other engines compute it; `Vec3::dot` rounds less often.
fn dot(a: &V, b: &V) -> F32 {
    &a.x * &b.x + &a.y * &b.y + &a.z * &b.z
}
