//! The scene `rectangle`: a picture on a wall in a white room, whose radiance is known exactly.

use jit_frontend::{Vec2, Vec3, if_else};

use crate::camera::{Camera, Ray};
use crate::number::{Number, lit3};
use crate::texture::Texture;

/// The textured square [-1, 1]^2 at z = 0 amid light of radiance 1 from everywhere.
///
/// The texture's row 0 lies at y = -1, its column 0 at x = -1. A diffuse reflector under constant light has the radiance
/// of its reflectance, so the picture shows the texture itself, in front of white.
pub(crate) struct Rectangle<R: Number> {
    texture: Texture<R>,
}

/// What a 50 mm lens sees of 35 mm film: the horizontal field of view, in degrees.
const FIELD_OF_VIEW: f64 = 34.0221;

/// Radiance of the surrounding light.
const LIGHT: [f64; 3] = [1.0, 1.0, 1.0];

/// How far from a surface a path goes on.
const OFFSET: f64 = 1e-3;

impl<R: Number> Rectangle<R> {
    /// The scene with that texture.
    pub(crate) fn new(texture: Texture<R>) -> Rectangle<R> {
        Rectangle { texture }
    }

    /// The camera at (0, 0, 5).
    pub(crate) fn camera(pixels: [u32; 2]) -> Camera {
        let half = (FIELD_OF_VIEW / 2.0).to_radians().tan();
        let [width, height] = pixels.map(f64::from);
        Camera::new(5.0, [half, half * height / width], pixels)
    }

    /// The radiance along a ray, direct light only: one direction sampled by the cosine.
    pub(crate) fn radiance(&self, ray: &Ray<R>, random: R::Random) -> Vec3<R> {
        let (point, hit) = intersect(ray);
        if_else(&hit, (point, random), |(point, random)| self.lit(point, random), |_| lit3(LIGHT))
    }

    /// The radiance from a point of the rectangle toward +z.
    fn lit(&self, point: Vec3<R>, mut random: R::Random) -> Vec3<R> {
        let half = R::lit(0.5);
        let at = Vec2::new(point.x.mul_add(half.clone(), half.clone()), point.y.mul_add(half.clone(), half));
        // The cosine of the direction and the density of its choice cancel, with the diffuse reflector's 1 / pi.
        let albedo = self.texture.bilinear(&at);
        let direction = cosine_direction(R::draw(&mut random), R::draw(&mut random));
        let origin = Vec3::new(point.x, point.y, R::lit(OFFSET));
        let (_, blocked) = intersect(&Ray { origin, direction });
        Vec3::select(&blocked, Vec3::splat(R::lit(0.0)), albedo * lit3(LIGHT))
    }
}

/// Where a ray meets the plane z = 0, and whether that is ahead and on the rectangle.
fn intersect<R: Number>(ray: &Ray<R>) -> (Vec3<R>, R::Mask) {
    let distance = -ray.origin.z.clone() / ray.direction.z.clone();
    let point = ray.at(&distance);
    let one = || R::lit(1.0);
    let hit = distance.gt(R::lit(0.0)) & point.x.abs().le(one()) & point.y.abs().le(one());
    (point, hit)
}

/// A direction around +z whose density is its cosine by pi.
fn cosine_direction<R: Number>(u: R, v: R) -> Vec3<R> {
    let (sin, cos) = (v * R::lit(std::f64::consts::TAU)).sin_cos();
    let radius = u.sqrt();
    let height = (R::lit(1.0) - u).max(R::lit(0.0)).sqrt();
    Vec3::new(radius.clone() * cos, radius * sin, height)
}
