//! Path tracing of diffuse surfaces: the same for every scene that does it.

use jit_frontend::{Integer, Loop, Traverse, Truth, Vec3};

use crate::camera::Ray;
use crate::number::Number;

/// Surfaces that scatter light evenly, and what emits it.
pub(crate) trait World<R: Number> {
    /// What a ray meets.
    fn meet(&self, ray: &Ray<R>) -> Surface<R>;

    /// A random estimate of how much light of lamps falls on a surface, by pi: its radiance once it is reflected by an
    /// albedo of 1. A world that has one counts what a ray finds of its lamps only along rays of the camera.
    fn lamp_light(&self, surface: &Surface<R>, random: &mut R::Random) -> Option<Vec3<R>> {
        let _ = (surface, random);
        None
    }
}

/// What a ray meets.
pub(crate) struct Surface<R: Number> {
    /// Where a path goes on: off the surface, so that it does not meet it again.
    pub(crate) origin: Vec3<R>,
    /// The side that was met, of length 1; reflected light is spread around it.
    pub(crate) normal: Vec3<R>,
    /// The side that was met of what is really there, where `normal` is that of a rounder surface.
    pub(crate) facet: Option<Vec3<R>>,
    /// Reflected fraction.
    pub(crate) albedo: Vec3<R>,
    /// Radiance of its own.
    pub(crate) emission: Vec3<R>,
    /// Whether nothing is reflected.
    pub(crate) ends: R::Mask,
}

/// Paths end after that many rays.
const MAX_DEPTH: i64 = 8;

/// From this reflection on a path goes on by chance only, the more likely the more light it can carry.
const ROULETTE_DEPTH: i64 = 3;

/// A path on its way from the camera.
#[derive(Clone, Traverse)]
struct Path<R: Number> {
    ray: Ray<R>,
    random: R::Random,
    /// How much of what is emitted at the ray's end reaches the camera.
    throughput: Vec3<R>,
    /// What has reached the camera.
    radiance: Vec3<R>,
    depth: R::Int,
    alive: R::Mask,
}

/// The radiance along a ray.
pub(crate) fn radiance<R: Number>(world: &impl World<R>, ray: Ray<R>, random: R::Random) -> Vec3<R> {
    let start = Path {
        ray,
        random,
        throughput: Vec3::splat(R::lit(1.0)),
        radiance: Vec3::splat(R::lit(0.0)),
        depth: R::Int::lit(0),
        alive: R::Mask::lit(true),
    };
    let end = Loop::new(start).name("bounces").run(|path| path.alive.clone(), |path| bounce(world, path));
    end.radiance
}

/// Follows a path's ray to what it meets, and chooses where it goes from there.
fn bounce<R: Number>(world: &impl World<R>, path: Path<R>) -> Path<R> {
    let Path { ray, mut random, throughput, radiance, depth, .. } = path;
    let surface = world.meet(&ray);
    let [u, v, w] = [(); 3].map(|()| R::draw(&mut random));
    let lamps = world.lamp_light(&surface, &mut random);
    let Surface { origin, normal, facet, albedo, emission, ends } = surface;

    let found = match &lamps {
        Some(_) => Vec3::select(&depth.eq(R::Int::lit(0)), emission, Vec3::splat(R::lit(0.0))),
        None => emission,
    };
    let radiance = throughput.mul_add(&found, &radiance);
    let throughput = throughput * albedo;
    let depth = depth + R::Int::lit(1);
    let goes_on = !ends & depth.lt(R::Int::lit(MAX_DEPTH));
    let radiance = match lamps {
        Some(light) => Vec3::select(&goes_on, throughput.mul_add(&light, &radiance), radiance),
        None => radiance,
    };

    let direction = diffuse_direction(&normal, &u, &v);
    let direction = match facet {
        Some(facet) => above(direction, &facet),
        None => direction,
    };
    let chance = throughput.max_element().min(R::lit(0.95)).max(R::lit(1e-6));
    let roulette = depth.ge(R::Int::lit(ROULETTE_DEPTH));
    let gain = R::select(&roulette, chance.recip(), R::lit(1.0));
    let survives = !roulette | w.lt(chance);
    Path {
        ray: Ray { origin, direction },
        random,
        throughput: throughput * gain,
        radiance,
        alive: goes_on & survives,
        depth,
    }
}

/// A direction around a normal whose density is its cosine by pi: the normal plus a point of the unit sphere.
fn diffuse_direction<R: Number>(normal: &Vec3<R>, u: &R, v: &R) -> Vec3<R> {
    let one = || R::lit(1.0);
    let z = one() - R::lit(2.0) * u.clone();
    let radius = (one() - z.clone() * z.clone()).max(R::lit(0.0)).sqrt();
    let (sin, cos) = (v.clone() * R::lit(std::f64::consts::TAU)).sin_cos();
    let sum = normal + &Vec3::new(radius.clone() * cos, radius * sin, z);
    // The sum vanishes where the point is opposite to the normal.
    let length_squared = sum.length_squared().max(R::lit(1e-8));
    sum * length_squared.rsqrt()
}

/// The direction, mirrored where it would go into the facet: light that a rounded normal sends there is not lost.
fn above<R: Number>(direction: Vec3<R>, facet: &Vec3<R>) -> Vec3<R> {
    let into = direction.dot(facet).lt(R::lit(0.0));
    let mirrored = direction.reflect(facet);
    Vec3::select(&into, mirrored, direction)
}
