//! The scene `cornell`: the Cornell box with the numbers of Mitsuba 3's `cornell_box()`, in RGB.
//!
//! All surfaces are diffuse and one-sided: whatever meets a back ends there.

use jit_frontend::{Traverse, Vec3};

use crate::camera::{Camera, Ray};
use crate::number::{Number, lit3};
use crate::path::{Surface, World};

/// The room [-1, 1]^3 without a front wall, two boxes in it, and a lamp below its ceiling.
pub(crate) struct Cornell {
    lighting: Lighting,
}

/// How light is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lighting {
    /// Each reflection asks a random point of the lamp.
    Sampled,
    /// By chance only: slower to converge, to the same picture. For tests.
    Found,
}

/// A block that stands upright.
struct Block {
    centre: [f64; 3],
    /// Half of its width, height and depth.
    half: [f64; 3],
    /// Degrees around the vertical axis, from z to x.
    turn: f64,
}

const BLOCKS: [Block; 2] = [
    Block { centre: [0.335, -0.7, 0.38], half: [0.3, 0.3, 0.3], turn: -17.0 },
    Block { centre: [-0.33, -0.4, -0.28], half: [0.3, 0.61, 0.3], turn: 18.25 },
];

const WHITE: [f64; 3] = [0.885_809, 0.698_859, 0.666_422];
const GREEN: [f64; 3] = [0.105_421, 0.377_98, 0.076_425];
const RED: [f64; 3] = [0.570_068, 0.043_013_5, 0.044_370_6];

/// The lamp's radiance, downwards.
const LAMP: [f64; 3] = [18.387, 13.9873, 6.753_57];

/// Middle of the lamp, a level rectangle.
const LAMP_CENTRE: [f64; 3] = [0.0, 0.99, 0.01];

/// Half of the lamp's extent along x and z.
const LAMP_HALF: [f64; 2] = [0.23, 0.19];

/// Where the camera stands on the z axis.
const CAMERA: f64 = 3.9;

/// Degrees that it sees along the shorter side of the picture.
const FIELD_OF_VIEW: f64 = 39.3077;

/// How far from a surface a path goes on.
const OFFSET: f64 = 1e-4;

/// Where a ray meets a block.
#[derive(Clone, Traverse)]
struct BlockHit<R: Number> {
    hit: R::Mask,
    distance: R,
    normal: Vec3<R>,
    /// Whether the ray comes from outside.
    front: R::Mask,
}

impl Cornell {
    /// The scene.
    pub(crate) fn new(lighting: Lighting) -> Cornell {
        Cornell { lighting }
    }

    /// The camera, before the open front.
    pub(crate) fn camera(pixels: [u32; 2]) -> Camera {
        let half = (FIELD_OF_VIEW / 2.0).to_radians().tan();
        let [width, height] = pixels.map(f64::from);
        let shorter = width.min(height);
        Camera::new(CAMERA, [half * width / shorter, half * height / shorter], pixels)
    }
}

impl<R: Number> World<R> for Cornell {
    fn meet(&self, ray: &Ray<R>) -> Surface<R> {
        let Vec3 { x: dx, y: dy, z: dz } = &ray.direction;
        let zero = || R::lit(0.0);
        let one = || R::lit(1.0);

        // Of each pair of walls, only the one ahead can be met. In front there is none.
        let ahead = Vec3::new(one().copysign(dx.clone()), one().copysign(dy.clone()), R::lit(-1.0));
        let Vec3 { x: tx, y: ty, z: tz } = (&ahead - &ray.origin) / &ray.direction;
        let tz = R::select(&dz.lt(zero()), tz, R::lit(f64::INFINITY));
        let side = tx.le(ty.clone()) & tx.le(tz.clone());
        let level = !side.clone() & ty.le(tz.clone());
        let distance = tx.min(ty).min(tz);
        // What would be met before the front wall's place or behind it lies outside of the room.
        let depth = distance.mul_add(dz.clone(), ray.origin.z.clone());
        let inside = depth.le(one());

        let inward = |of: &R| -one().copysign(of.clone());
        let mut normal = Vec3::new(
            R::select(&side, inward(dx), zero()),
            R::select(&level, inward(dy), zero()),
            R::select(&(side.clone() | level), zero(), one()),
        );
        let walls = Vec3::select(&dx.lt(zero()), lit3(RED), lit3(GREEN));
        let mut albedo = Vec3::select(&side, walls, lit3(WHITE));
        let mut distance = R::select(&inside, distance, R::lit(f64::INFINITY));
        let mut front = inside;

        for block in &BLOCKS {
            let met = block.meet(ray);
            let nearer = met.hit & met.distance.lt(distance.clone());
            distance = R::select(&nearer, met.distance, distance);
            normal = Vec3::select(&nearer, met.normal, normal);
            albedo = Vec3::select(&nearer, lit3(WHITE), albedo);
            front = (nearer.clone() & met.front) | (!nearer & front);
        }

        let to_lamp = (R::lit(LAMP_CENTRE[1]) - ray.origin.y.clone()) / dy.clone();
        let within = |from: &R, along: &R, axis: usize, half: f64| {
            let at = to_lamp.mul_add(along.clone(), from.clone()) - R::lit(LAMP_CENTRE[axis]);
            at.abs().le(R::lit(half))
        };
        let lamp = to_lamp.gt(zero())
            & to_lamp.lt(distance.clone())
            & within(&ray.origin.x, dx, 0, LAMP_HALF[0])
            & within(&ray.origin.z, dz, 2, LAMP_HALF[1]);
        let upwards = dy.gt(zero());
        distance = R::select(&lamp, to_lamp, distance);
        normal = Vec3::select(&lamp, lit3([0.0, -1.0, 0.0]), normal);
        albedo = Vec3::select(&lamp, lit3(WHITE), albedo);
        front = (lamp.clone() & upwards.clone()) | (!lamp.clone() & front);

        let point = ray.at(&distance);
        Surface {
            origin: normal.mul_add(&Vec3::splat(R::lit(OFFSET)), &point),
            normal,
            facet: None,
            albedo,
            emission: Vec3::select(&(lamp & upwards), lit3(LAMP), lit3([0.0; 3])),
            ends: !front,
        }
    }

    fn lamp_light(&self, surface: &Surface<R>, random: &mut R::Random) -> Option<Vec3<R>> {
        if self.lighting == Lighting::Found {
            return None;
        }
        let mut along = |axis: usize, half: f64| {
            let signed = R::draw(random) * R::lit(2.0) - R::lit(1.0);
            signed.mul_add(R::lit(half), R::lit(LAMP_CENTRE[axis]))
        };
        let x = along(0, LAMP_HALF[0]);
        let z = along(2, LAMP_HALF[1]);
        let to_lamp = Vec3::new(x, R::lit(LAMP_CENTRE[1]), z) - &surface.origin;
        let squared = to_lamp.length_squared();
        let distance = squared.sqrt();
        let direction = to_lamp * distance.recip();
        // Both faces must look at each other; only blocks can stand between them.
        let here = surface.normal.dot(&direction);
        let there = direction.y.clone();
        let shadow = Ray { origin: surface.origin.clone(), direction };
        let mut seen = here.gt(R::lit(0.0)) & there.gt(R::lit(0.0));
        for block in &BLOCKS {
            let met = block.meet(&shadow);
            seen = seen & !(met.hit & met.distance.lt(distance.clone()));
        }
        // Solid angle of the lamp if all of it were where the point is, times the cosine, by pi.
        let area = 4.0 * LAMP_HALF[0] * LAMP_HALF[1];
        let weight = here * there / squared * R::lit(area / std::f64::consts::PI);
        Some(lit3(LAMP) * R::select(&seen, weight, R::lit(0.0)))
    }
}

impl Block {
    /// Where a ray meets it, by the slabs between its faces (Kay and Kajiya 1986).
    fn meet<R: Number>(&self, ray: &Ray<R>) -> BlockHit<R> {
        let (sin, cos) = self.turn.to_radians().sin_cos();
        let from_centre = &ray.origin - &lit3(self.centre);
        let origin = turned(&from_centre, -sin, cos);
        let direction = turned(&ray.direction, -sin, cos);
        let half: Vec3<R> = lit3(self.half);
        let inverse = direction.clone().map(|d| d.recip());
        let middle = -(&origin * &inverse);
        let reach = (half * &inverse).map(|r| r.abs());
        let enters = &middle - &reach;
        let leaves = &middle + &reach;
        let near = enters.x.max(enters.y.clone()).max(enters.z.clone());
        let far = leaves.x.min(leaves.y).min(leaves.z);

        let front = near.gt(R::lit(0.0));
        // The face that the ray comes through last.
        let on_x = enters.x.ge(near.clone());
        let on_y = !on_x.clone() & enters.y.ge(near.clone());
        let against = |of: &R| -R::lit(1.0).copysign(of.clone());
        let zero = || R::lit(0.0);
        let normal = Vec3::new(
            R::select(&on_x, against(&direction.x), zero()),
            R::select(&on_y, against(&direction.y), zero()),
            R::select(&(on_x | on_y), zero(), against(&direction.z)),
        );
        BlockHit {
            hit: near.le(far.clone()) & far.gt(zero()),
            distance: R::select(&front, near, far),
            normal: turned(&normal, sin, cos),
            front,
        }
    }
}

/// The vector turned around the vertical axis, from z to x.
fn turned<R: Number>(v: &Vec3<R>, sin: f64, cos: f64) -> Vec3<R> {
    let (sin, cos) = (R::lit(sin), R::lit(cos));
    Vec3::new(
        v.x.clone() * cos.clone() + v.z.clone() * sin.clone(),
        v.y.clone(),
        v.z.clone() * cos - v.x.clone() * sin,
    )
}
