//! The scene `mesh`: a model on the ground under the sky.

use jit_frontend::{Integer, Vec2, Vec3, if_else};

use crate::camera::{Camera, Ray};
use crate::number::{Number, lit3};
use crate::path::{Surface, World};
use crate::placement::Placed;
use crate::sky::Sky;
use crate::texture::Texture;
use crate::triangles::{TriangleTables, Triangles};

/// A model whose triangles reflect light evenly on both sides.
pub(crate) struct Mesh<R: Number> {
    triangles: Triangles<R>,
    shading: R::Table,
    texture: Option<Texture<R>>,
    ground: Option<f32>,
    sky: Sky,
}

/// What a [`Mesh`] is made from, but for its texture.
pub(crate) struct MeshTables {
    triangles: TriangleTables,
    shading: Vec<f32>,
    /// Height of the ground, if there is one.
    pub(crate) ground: Option<f32>,
    pub(crate) sky: Sky,
}

/// Reflectance where there is no texture.
const PLAIN: [f64; 3] = [0.7, 0.7, 0.7];

/// Reflectance of the ground.
const GROUND: [f64; 3] = [0.42, 0.4, 0.37];

/// Degrees that the camera sees along the shorter side of the picture.
const FIELD_OF_VIEW: f64 = 35.0;

/// Room around the model's sphere.
const MARGIN: f64 = 1.02;

/// How far from a surface a path goes on; the model has a radius of 1.
const OFFSET: f64 = 1e-4;

/// Numbers of a triangle: its plane's normal, those of its corners, their texture coordinates, and 1 if it has these.
const STRIDE: i64 = 19;

impl MeshTables {
    /// Of a model of at most [`MOST_TRIANGLES`](crate::triangles::MOST_TRIANGLES), on the ground under that sky.
    pub(crate) fn new(model: &Placed, sky: Sky) -> MeshTables {
        let corners: Vec<_> = model.facets.iter().map(|facet| facet.corners).collect();
        let triangles = TriangleTables::new(&corners);
        let shading = triangles.order.iter().flat_map(|&i| {
            let facet = &model.facets[i];
            let uvs = facet.uvs.unwrap_or_default();
            let normals = facet.normals.into_iter().flatten();
            let textured = f32::from(u8::from(facet.uvs.is_some()));
            facet.plane.into_iter().chain(normals).chain(uvs.into_iter().flatten()).chain([textured])
        });
        MeshTables { shading: shading.collect(), triangles, ground: Some(model.bottom), sky }
    }
}

impl<R: Number> Mesh<R> {
    /// The scene; `table` brings numbers to where they are looked up.
    pub(crate) fn new<E>(
        tables: &MeshTables,
        texture: Option<Texture<R>>,
        table: impl Fn(&[f32]) -> Result<R::Table, E>,
    ) -> Result<Mesh<R>, E> {
        Ok(Mesh {
            triangles: Triangles::new(&tables.triangles, &table)?,
            shading: table(&tables.shading)?,
            texture,
            ground: tables.ground,
            sky: tables.sky,
        })
    }

    /// The camera, which sees all of the model from that many degrees above the horizon.
    pub(crate) fn camera(elevation: f64, pixels: [u32; 2]) -> Camera {
        let half = (FIELD_OF_VIEW / 2.0).to_radians();
        let [width, height] = pixels.map(f64::from);
        let shorter = width.min(height);
        let view = [width, height].map(|side| half.tan() * side / shorter);
        Camera::raised(MARGIN / half.sin(), elevation, view, pixels)
    }

    /// Reflectance at a place of a triangle.
    fn albedo(&self, textured: R::Mask, at: Vec2<R>) -> Vec3<R> {
        let Some(texture) = &self.texture else { return lit3(PLAIN) };
        if_else(&textured, at, |at| texture.bilinear(&at), |_| lit3(PLAIN))
    }
}

impl<R: Number> World<R> for Mesh<R> {
    fn meet(&self, ray: &Ray<R>) -> Surface<R> {
        let zero = || R::lit(0.0);
        let never = || R::lit(f64::INFINITY);
        let down = &ray.direction.y;
        // The ground has no other side, so that nothing is lost that rounding has put below it.
        let limit = match self.ground {
            None => never(),
            Some(height) => {
                let distance = (R::lit(f64::from(height)) - ray.origin.y.clone()) / down.clone();
                let ahead = down.lt(zero()) & distance.gt(zero());
                R::select(&ahead, distance, never())
            }
        };
        let met = self.triangles.nearest(ray, limit);
        let on_model = met.triangle.ge(R::Int::lit(0));
        let on_ground = !on_model.clone() & met.distance.lt(never());

        let row = met.triangle * R::Int::lit(STRIDE);
        let value = |i: i64| R::look_up(&self.shading, row.clone() + R::Int::lit(i));
        let values = |i: i64| Vec3::new(value(i), value(i + 1), value(i + 2));
        let Vec3 { x: a, y: b, z: c } = &met.weights;
        let mixed = |x: R, y: R, z: R| z.mul_add(c.clone(), y.mul_add(b.clone(), x * a.clone()));
        let plane = Vec3::select(&on_model, values(0), lit3([0.0, 1.0, 0.0]));
        let rounded = Vec3::new(
            mixed(value(3), value(6), value(9)),
            mixed(value(4), value(7), value(10)),
            mixed(value(5), value(8), value(11)),
        );
        let at = Vec2::new(
            mixed(value(12), value(14), value(16)),
            // Rows of a bitmap go down, the second coordinate goes up.
            R::lit(1.0) - mixed(value(13), value(15), value(17)),
        );

        // The side of the triangle that the ray comes from.
        let facet = toward(plane, &-ray.direction.clone());
        let length_squared = rounded.length_squared();
        let has_direction = on_model.clone() & length_squared.gt(R::lit(1e-12));
        let rounded = toward(&rounded * &length_squared.max(R::lit(1e-12)).rsqrt(), &facet);
        let normal = Vec3::select(&has_direction, rounded, facet.clone());

        let textured = on_model.clone() & value(18).gt(zero());
        let albedo = Vec3::select(&on_ground, lit3(GROUND), self.albedo(textured, at));
        let sky = self.sky.radiance(&ray.direction);
        let misses = !(on_model | on_ground);
        let point = ray.at(&met.distance);
        Surface {
            origin: facet.mul_add(&Vec3::splat(R::lit(OFFSET)), &point),
            normal,
            facet: Some(facet),
            albedo,
            emission: Vec3::select(&misses, sky, lit3([0.0; 3])),
            ends: misses,
        }
    }
}

/// The vector or its opposite, whichever goes along with the other one.
fn toward<R: Number>(v: Vec3<R>, other: &Vec3<R>) -> Vec3<R> {
    let against = v.dot(other).lt(R::lit(0.0));
    Vec3::select(&against, -v.clone(), v)
}
