//! A perspective camera, and the rays it makes.

use jit_frontend::{Traverse, Vec2, Vec3};

use crate::number::{Number, lit3};

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

/// A camera above or on the z axis that looks at or through the origin, with +x to the right.
pub(crate) struct Camera {
    position: [f64; 3],
    forward: [f64; 3],
    up: [f64; 3],
    /// Half the width and half the height of what it sees at distance 1.
    half: [f64; 2],
    /// From pixels to the unit square.
    scale: [f64; 2],
}

impl Camera {
    /// A camera at `(0, 0, distance)`, for pictures of that many pixels. `half` is half the extent of what it sees at
    /// distance 1.
    pub(crate) fn new(distance: f64, half: [f64; 2], pixels: [u32; 2]) -> Camera {
        Camera::raised(distance, 0.0, half, pixels)
    }

    /// The same, raised by that many degrees around the origin.
    pub(crate) fn raised(distance: f64, elevation: f64, half: [f64; 2], pixels: [u32; 2]) -> Camera {
        let (sin, cos) = elevation.to_radians().sin_cos();
        Camera {
            position: [0.0, distance * sin, distance * cos],
            forward: [0.0, -sin, -cos],
            up: [0.0, cos, -sin],
            half,
            scale: pixels.map(|n| 2.0 / f64::from(n)),
        }
    }

    /// The ray through a position in pixels; (0, 0) is the upper left corner of the picture.
    pub(crate) fn ray<R: Number>(&self, position: &Vec2<R>) -> Ray<R> {
        let one = R::lit(1.0);
        let x = (position.x.clone() * R::lit(self.scale[0]) - one.clone()) * R::lit(self.half[0]);
        let y = (one - position.y.clone() * R::lit(self.scale[1])) * R::lit(self.half[1]);
        let along = |axis: usize| y.mul_add(R::lit(self.up[axis]), R::lit(self.forward[axis]));
        let direction = Vec3::new(x, along(1), along(2)).normalize();
        Ray { origin: lit3(self.position), direction }
    }
}
