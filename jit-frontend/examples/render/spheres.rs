//! The scene `spheres`: eight diffuse spheres in a box with a lamp, path traced.

use jit_frontend::{Integer, Vec2, Vec3, if_else};

use crate::camera::{Camera, Ray};
use crate::number::{Number, lit3};
use crate::path::{Surface, World};
use crate::texture::Texture;

/// A box, x and y in [-1, 1] and z in [-1, 3], with coloured side walls, a texture on floor and back wall, a lamp in the
/// ceiling, and the spheres.
pub(crate) struct Spheres<R: Number> {
    texture: Texture<R>,
    spheres: R::Table,
}

/// A sphere that scatters light evenly.
struct Sphere {
    centre: [f32; 3],
    radius: f32,
    albedo: [f32; 3],
}

const SPHERES: [Sphere; 8] = [
    Sphere { centre: [-0.55, -0.65, -0.35], radius: 0.35, albedo: [0.90, 0.85, 0.30] },
    Sphere { centre: [0.50, -0.70, -0.50], radius: 0.30, albedo: [0.30, 0.80, 0.90] },
    Sphere { centre: [0.00, -0.75, 0.30], radius: 0.25, albedo: [0.90, 0.40, 0.60] },
    Sphere { centre: [-0.50, -0.80, 0.70], radius: 0.20, albedo: [0.50, 0.90, 0.40] },
    Sphere { centre: [0.60, -0.82, 0.50], radius: 0.18, albedo: [0.80, 0.80, 0.80] },
    Sphere { centre: [-0.20, 0.10, -0.50], radius: 0.25, albedo: [0.70, 0.50, 0.90] },
    Sphere { centre: [0.45, 0.25, -0.20], radius: 0.20, albedo: [0.90, 0.60, 0.20] },
    Sphere { centre: [-0.60, 0.40, 0.10], radius: 0.15, albedo: [0.40, 0.60, 0.90] },
];

const LEFT_WALL: [f64; 3] = [0.75, 0.25, 0.25];
const RIGHT_WALL: [f64; 3] = [0.25, 0.25, 0.75];
const CEILING: [f64; 3] = [0.75, 0.75, 0.75];
const FRONT_WALL: [f64; 3] = [0.5, 0.5, 0.5];

/// The lamp's radiance.
const LAMP: [f64; 3] = [12.0, 10.0, 8.0];

/// Where the camera stands on the z axis.
const CAMERA: f64 = 2.8;

/// Half of what the camera sees at distance 1, upwards.
const VIEW: f64 = 0.55;

/// How far from a surface a path goes on.
const OFFSET: f64 = 1e-3;

/// Hits nearer than that are the surface that the ray starts at.
const NEAR: f64 = 1e-4;

/// Numbers in the table for each sphere.
const STRIDE: i64 = 8;

/// What a ray meets.
struct Hit<R: Number> {
    point: Vec3<R>,
    normal: Vec3<R>,
    albedo: Vec3<R>,
    lamp: R::Mask,
}

/// The values of [`Spheres`]' table.
pub(crate) fn sphere_table() -> Vec<f32> {
    let row = |s: &Sphere| {
        let ([x, y, z], [r, g, b]) = (s.centre, s.albedo);
        [x, y, z, 1.0 / s.radius, r, g, b, 0.0]
    };
    SPHERES.iter().flat_map(row).collect()
}

impl<R: Number> Spheres<R> {
    /// The scene with that texture; `spheres` are the values of [`sphere_table`].
    pub(crate) fn new(texture: Texture<R>, spheres: R::Table) -> Spheres<R> {
        Spheres { texture, spheres }
    }

    /// The camera, in the open front of the box.
    pub(crate) fn camera(pixels: [u32; 2]) -> Camera {
        let [width, height] = pixels.map(f64::from);
        Camera::new(CAMERA, [VIEW * width / height, VIEW], pixels)
    }

    /// What a ray inside of the box meets.
    fn hit(&self, ray: &Ray<R>) -> Hit<R> {
        let Vec3 { x: dx, y: dy, z: dz } = &ray.direction;
        let zero = || R::lit(0.0);
        let one = || R::lit(1.0);

        // Of each pair of walls, only the one ahead can be met.
        let ahead = Vec3::new(
            one().copysign(dx.clone()),
            one().copysign(dy.clone()),
            R::select(&dz.gt(zero()), R::lit(3.0), R::lit(-1.0)),
        );
        let Vec3 { x: tx, y: ty, z: tz } = (&ahead - &ray.origin) / &ray.direction;
        let side = tx.le(ty.clone()) & tx.le(tz.clone());
        let level = !side.clone() & ty.le(tz.clone());
        let wall_distance = tx.min(ty).min(tz);

        let (distance, sphere) = nearest_sphere(ray, wall_distance);
        let round = sphere.lt(R::Int::lit(SPHERES.len() as i64));
        let row = sphere.min(R::Int::lit(SPHERES.len() as i64 - 1)) * R::Int::lit(STRIDE);
        let value = |i: i64| R::look_up(&self.spheres, row.clone() + R::Int::lit(i));
        let values = |i: i64| Vec3::new(value(i), value(i + 1), value(i + 2));

        let point = ray.at(&distance);
        let inward = |of: &R| -one().copysign(of.clone());
        let wall_normal = Vec3::new(
            R::select(&side, inward(dx), zero()),
            R::select(&level, inward(dy), zero()),
            R::select(&(side.clone() | level.clone()), zero(), inward(dz)),
        );
        let normal = Vec3::select(&round, (&point - &values(0)) * value(3), wall_normal);

        let floor = level.clone() & dy.lt(zero());
        let ceiling = level.clone() & dy.ge(zero());
        let back = !(side.clone() | level) & dz.lt(zero());
        let half = R::lit(0.5);
        let along = R::select(
            &floor,
            (point.z.clone() + one()) * R::lit(0.25),
            (point.y.clone() + one()) * half.clone(),
        );
        let at = Vec2::new((point.x.clone() + one()) * half, along);
        let sides = Vec3::select(&dx.lt(zero()), lit3(LEFT_WALL), lit3(RIGHT_WALL));
        let plain = Vec3::select(&ceiling, lit3(CEILING), lit3(FRONT_WALL));
        let plain = Vec3::select(&side, sides, plain);
        let albedo = Vec3::select(&round, values(4), plain);
        // A branch, so that only lanes that need the bitmap, which is large, read it.
        let textured = (floor | back) & !round.clone();
        let albedo =
            if_else(&textured, (at, albedo), |(at, _)| self.texture.nearest(&at), |(_, plain)| plain);

        let in_frame = point.x.abs().lt(R::lit(0.6)) & (point.z.clone() - R::lit(0.5)).abs().lt(R::lit(0.7));
        Hit { lamp: ceiling & !round & in_frame, point, normal, albedo }
    }
}

impl<R: Number> World<R> for Spheres<R> {
    /// The lamp reflects nothing.
    fn meet(&self, ray: &Ray<R>) -> Surface<R> {
        let Hit { point, normal, albedo, lamp } = self.hit(ray);
        Surface {
            origin: normal.mul_add(&Vec3::splat(R::lit(OFFSET)), &point),
            normal,
            facet: None,
            albedo,
            emission: Vec3::select(&lamp, lit3(LAMP), lit3([0.0; 3])),
            ends: lamp,
        }
    }
}

/// The nearest sphere that a ray meets before that distance, and where; the number of spheres if none.
fn nearest_sphere<R: Number>(ray: &Ray<R>, mut distance: R) -> (R, R::Int) {
    let near = || R::lit(NEAR);
    let mut nearest = R::Int::lit(SPHERES.len() as i64);
    for (i, sphere) in SPHERES.iter().enumerate() {
        let from_centre = &ray.origin - &lit3(sphere.centre.map(f64::from));
        let b = from_centre.dot(&ray.direction);
        let c = from_centre.length_squared() - R::lit(f64::from(sphere.radius * sphere.radius));
        let discriminant = b.mul_add(b.clone(), -c);
        let root = discriminant.sqrt();
        let (first, second) = (-b.clone() - root.clone(), root - b);
        let at = R::select(&first.gt(near()), first, second);
        // A ray that misses has no root: comparisons with NaN are false.
        let hit = at.gt(near()) & at.lt(distance.clone());
        distance = R::select(&hit, at, distance);
        nearest = R::Int::select(&hit, R::Int::lit(i as i64), nearest);
    }
    (distance, nearest)
}
