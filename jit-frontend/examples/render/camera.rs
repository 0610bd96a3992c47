//! A perspective camera that looks along -z, and the rays it makes.

use jit_frontend::{Traverse, Vec2, Vec3};

use crate::number::Number;

/// A half-line.
#[derive(Clone, Traverse)]
pub(crate) struct Ray<R> {
    /// Where it starts.
    pub(crate) origin: Vec3<R>,
    /// Where it goes: of length 1.
    pub(crate) direction: Vec3<R>,
}

impl<R: Number> Ray<R> {
    /// The point at that distance.
    pub(crate) fn at(&self, distance: &R) -> Vec3<R> {
        self.direction.mul_add(&Vec3::splat(distance.clone()), &self.origin)
    }
}

/// A camera on the z axis, +y up, +x to the right.
pub(crate) struct Camera {
    height: f64,
    /// Half the width and half the height of what it sees at distance 1.
    half: [f64; 2],
    /// From pixels to the unit square.
    scale: [f64; 2],
}

impl Camera {
    /// A camera at `(0, 0, height)` for pictures of that many pixels. `half` is half the extent of what it sees at distance 1.
    pub(crate) fn new(height: f64, half: [f64; 2], pixels: [u32; 2]) -> Camera {
        Camera { height, half, scale: pixels.map(|n| 2.0 / f64::from(n)) }
    }

    /// The ray through a position in pixels; (0, 0) is the upper left corner of the picture.
    pub(crate) fn ray<R: Number>(&self, position: &Vec2<R>) -> Ray<R> {
        let one = R::lit(1.0);
        let x = (position.x.clone() * R::lit(self.scale[0]) - one.clone()) * R::lit(self.half[0]);
        let y = (one - position.y.clone() * R::lit(self.scale[1])) * R::lit(self.half[1]);
        let origin = Vec3::new(R::lit(0.0), R::lit(0.0), R::lit(self.height));
        Ray { origin, direction: Vec3::new(x, y, R::lit(-1.0)).normalize() }
    }
}
