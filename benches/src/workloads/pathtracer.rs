//! Spheres in a box, lit from the ceiling: paths with texture reads, random numbers and Russian roulette in one loop.

use jit_frontend::{Array, Device, Error, Mask, Traverse, Vec3, while_loop};

use super::F32;
use crate::inputs::ranged;
use crate::record::{Measured, Metric};
use crate::suite::Suite;

const TEXTURE: u32 = 512;

/// Centre, radius, albedo, 0.
const SPHERES: [[f32; 8]; 8] = [
    [-0.55, -0.65, -0.35, 0.35, 0.90, 0.85, 0.30, 0.0],
    [0.50, -0.70, -0.50, 0.30, 0.30, 0.80, 0.90, 0.0],
    [0.00, -0.75, 0.30, 0.25, 0.90, 0.40, 0.60, 0.0],
    [-0.50, -0.80, 0.70, 0.20, 0.50, 0.90, 0.40, 0.0],
    [0.60, -0.82, 0.50, 0.18, 0.80, 0.80, 0.80, 0.0],
    [-0.20, 0.10, -0.50, 0.25, 0.70, 0.50, 0.90, 0.0],
    [0.45, 0.25, -0.20, 0.20, 0.90, 0.60, 0.20, 0.0],
    [-0.60, 0.40, 0.10, 0.15, 0.40, 0.60, 0.90, 0.0],
];

pub(super) fn run(suite: &mut Suite) {
    let (width, samples) = suite.sizes().pathtracer;
    let device = suite.device();
    suite.part("render", |suite| {
        let scene = Scene::new(&device)?;
        let (seconds, film) = suite.timing().warm(1).cap(20).run(&device, || {
            let film = render(&scene, width, samples, &device);
            jit_frontend::eval(&film)?;
            Ok(film)
        })?;
        let mut means = Vec::new();
        for channel in film.into_array() {
            let values = channel.to_vec()?;
            means.push(values.iter().map(|&v| f64::from(v)).sum::<f64>() / values.len() as f64);
        }
        let size = format!("{width}x{width}x{samples}spp");
        let rate = seconds.rate(1e-6 * f64::from(width * width * samples));
        suite.row(
            Measured::new("render", size, Metric::Throughput, "Mpath/s", rate)
                .check(means, 5e-3)
                .note(format!("8 spheres, at most 8 bounces; median {:.2} ms", seconds.median() * 1e3)),
        );
        Ok(())
    });
}

type V = Vec3<F32>;

/// What paths read.
struct Scene {
    /// Red, green, blue of each texel.
    texture: F32,
    spheres: F32,
}

impl Scene {
    fn new(device: &Device) -> Result<Scene, Error> {
        let mut texels = ranged((TEXTURE * TEXTURE * 3) as usize, 31, 0.0, 0.7);
        texels.iter_mut().for_each(|t| *t += 0.2);
        let texture = F32::from_vec(texels, device)?;
        Ok(Scene { texture, spheres: F32::from_slice(SPHERES.as_flattened(), device)? })
    }
}

/// The mean of the samples of each pixel.
fn render(scene: &Scene, width: u32, samples: u32, device: &Device) -> V {
    let lane = Array::<u32>::arange((width * width * samples) as usize, device);
    let light = paths(scene, &lane, width, samples);
    let pixel = Array::<u32>::arange((width * width) as usize, device);
    let first = pixel * samples;
    let zero = Vec3::splat(F32::zeros((width * width) as usize, device));
    let (_, sum) = while_loop(
        (Array::from(0u32), zero),
        |(sample, _)| sample.lt(samples),
        |(sample, sum)| {
            let at = &first + &sample;
            (sample + 1, sum.zip(light.clone(), |sum, light| sum + light.gather(&at)))
        },
    );
    sum.map(|sum| sum * (1.0 / samples as f32))
}

/// A path under way.
#[derive(Traverse)]
struct Path {
    random: Random,
    origin: V,
    direction: V,
    throughput: V,
    light: V,
    depth: Array<u32>,
    active: Mask,
}

/// What each lane's path brings.
fn paths(scene: &Scene, lane: &Array<u32>, width: u32, samples: u32) -> V {
    let pixel = lane >> samples.ilog2();
    let px = (&pixel & (width - 1)).cast::<f32>();
    let py = (&pixel >> width.ilog2()).cast::<f32>();
    let mut random = Random::seeded(lane);
    let (j1, j2) = (random.next(), random.next());
    let step = 2.0 / width as f32;
    let direction =
        Vec3::new(((px + j1) * step - 1.0) * 0.55, (1.0 - (py + j2) * step) * 0.55, F32::from(-1.0));
    let direction = &direction * (1.0 / dot(&direction, &direction).sqrt());
    let path = Path {
        random,
        origin: Vec3::new(0.0, 0.0, 2.8).map(F32::from),
        direction,
        throughput: Vec3::splat(F32::from(1.0)),
        light: Vec3::splat(F32::from(0.0)),
        depth: Array::from(0u32),
        active: Mask::from(true),
    };
    while_loop(path, |path| path.active.clone(), |path| bounce(scene, path)).light
}

fn bounce(scene: &Scene, path: Path) -> Path {
    let Path { mut random, origin: o, direction: d, throughput, light, depth, active } = path;
    let hit = intersect(&o, &d);
    let p = &o + &d * &hit.t;
    let row = hit.sphere.min(7) * 8;
    let of_sphere = |k: u32| scene.spheres.gather(&row + k);
    let on_sphere = hit.sphere.lt(8);

    let centre = Vec3::new(of_sphere(0), of_sphere(1), of_sphere(2));
    let outward = (&p - centre) * (1.0 / of_sphere(3));
    let inward = d.clone().map(|d| d.gt(0.0).select(-1.0f32, 1.0));
    let on_z = !&hit.on_x & !&hit.on_y;
    let wall =
        Vec3::new(hit.on_x.select(inward.x, 0.0), hit.on_y.select(inward.y, 0.0), on_z.select(inward.z, 0.0));
    let normal = outward.zip(wall, |outward, wall| on_sphere.select(outward, wall));

    let floor = &hit.on_y & d.y.lt(0.0);
    let ceiling = &hit.on_y & d.y.gt(0.0);
    let back = &on_z & d.z.lt(0.0);
    let v = floor.select((&p.z + 1.0) * 0.25, (&p.y + 1.0) * 0.5);
    let texel = |x: F32| x.max(0.0).cast::<u32>().min(TEXTURE - 1);
    let column = texel((&p.x + 1.0) * (0.5 * TEXTURE as f32));
    let line = texel(v * TEXTURE as f32);
    let first = (line * TEXTURE + column) * 3;
    let textured = floor | back;
    let left = d.x.lt(0.0);
    let albedo = |channel: u32, of_left: f32, of_right: f32, of_front: f32| {
        let side: F32 = left.select(of_left, of_right);
        let wall = hit.on_x.select(side, ceiling.select(0.75, of_front));
        let wall = textured.select(scene.texture.gather(&first + channel), wall);
        on_sphere.select(of_sphere(4 + channel), wall)
    };
    let albedo =
        Vec3::new(albedo(0, 0.75, 0.25, 0.5), albedo(1, 0.25, 0.25, 0.5), albedo(2, 0.25, 0.75, 0.5));

    let emits = &ceiling & !&on_sphere & p.x.abs().lt(0.6) & (&p.z - 0.5).abs().lt(0.7);
    let brought =
        |light: F32, throughput: &F32, radiance: f32| emits.select(&light + throughput * radiance, light);
    let light = Vec3::new(
        brought(light.x, &throughput.x, 12.0),
        brought(light.y, &throughput.y, 10.0),
        brought(light.z, &throughput.z, 8.0),
    );
    let throughput = throughput * albedo;

    let (u1, u2, u3) = (random.next(), random.next(), random.next());
    let z = 1.0 - 2.0 * u1;
    let radius = (1.0 - &z * &z).max(0.0).sqrt();
    let phi = u2 * std::f32::consts::TAU;
    let next = &normal + Vec3::new(&radius * phi.cos(), radius * phi.sin(), z);
    let next = &next * (1.0 / dot(&next, &next).max(1e-8).sqrt());

    let depth = depth + 1;
    let most = throughput.x.max(throughput.y.max(&throughput.z));
    let survival = most.min(0.95).max(1e-6);
    let roulette = depth.ge(3);
    let weight = roulette.select(1.0 / &survival, 1.0);
    let active = active & !emits & depth.lt(8) & (!roulette | u3.lt(survival));
    Path {
        random,
        origin: p + normal * 1e-3,
        direction: next,
        throughput: throughput * weight,
        light,
        depth,
        active,
    }
}

/// Where a ray meets the scene.
struct Hit {
    t: F32,
    /// The walls it would meet first without spheres.
    on_x: Mask,
    on_y: Mask,
    /// Which sphere; 8 for none.
    sphere: Array<u32>,
}

fn intersect(o: &V, d: &V) -> Hit {
    let wall = |o: &F32, d: &F32, high: f32| (d.gt(0.0).select(high, -1.0) - o) / d;
    let (tx, ty, tz) = (wall(&o.x, &d.x, 1.0), wall(&o.y, &d.y, 1.0), wall(&o.z, &d.z, 3.0));
    let mut t = tx.min(ty.min(&tz));
    let on_x = tx.le(&ty) & tx.le(&tz);
    let on_y = !&on_x & ty.le(&tz);
    let mut sphere = Array::from(8u32);
    for (k, [cx, cy, cz, r, ..]) in SPHERES.into_iter().enumerate() {
        let a = Vec3::new(&o.x - cx, &o.y - cy, &o.z - cz);
        let b = dot(&a, d);
        let c = dot(&a, &a) - r * r;
        let discriminant = &b * &b - c;
        let root = discriminant.max(0.0).sqrt();
        let near = -&b - &root;
        let at = near.gt(1e-4).select(&near, root - b);
        let closer = discriminant.gt(0.0) & at.gt(1e-4) & at.lt(&t);
        t = closer.select(at, t);
        sphere = closer.select(k as u32, sphere);
    }
    Hit { t, on_x, on_y, sphere }
}

/// O'Neill's PCG-XSH-RR 64/32 with increment 3, in the state that the other engines start from.
#[derive(Traverse)]
struct Random(Array<u64>);

const MULTIPLIER: u64 = 6_364_136_223_846_793_005;

impl Random {
    fn seeded(lane: &Array<u32>) -> Random {
        let seed = hash(lane, 11).cast::<u64>() << 32 | hash(lane, 12).cast::<u64>();
        Random((seed + 3) * MULTIPLIER + 3)
    }

    /// The next number in [0, 1): a multiple of 2^-23.
    fn next(&mut self) -> F32 {
        let old = self.0.clone();
        self.0 = &old * MULTIPLIER + 3;
        let mixed = (((&old >> 18) ^ &old) >> 27).cast::<u32>();
        let number = mixed.rotate_right((old >> 59).cast::<u32>());
        (number >> 9).cast::<f32>() * 2.0f32.powi(-23)
    }
}

/// [`crate::inputs::hash`] of every lane.
fn hash(lane: &Array<u32>, seed: u32) -> Array<u32> {
    let x = lane + seed.wrapping_mul(0x9e37_79b9);
    let x = (&x ^ (&x >> 16)) * 0x7feb_352d;
    let x = (&x ^ (&x >> 15)) * 0x846c_a68b;
    &x ^ (&x >> 16)
}

/// Term by term, as the other engines compute it; `Vec3::dot` rounds less often.
fn dot(a: &V, b: &V) -> F32 {
    &a.x * &b.x + &a.y * &b.y + &a.z * &b.z
}
