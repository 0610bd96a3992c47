//! The nearest triangle along a ray, out of a hierarchy in tables.

use jit_frontend::{Integer, Loop, Traverse, Vec3};

use crate::bvh::{Bounds, Bvh};
use crate::camera::Ray;
use crate::number::Number;

/// Triangles, and a hierarchy of bounds over them.
pub(crate) struct Triangles<R: Number> {
    nodes: R::Table,
    corners: R::Table,
    /// Nodes.
    count: usize,
}

/// The values of [`Triangles`]' tables.
pub(crate) struct TriangleTables {
    nodes: Vec<f32>,
    corners: Vec<f32>,
    /// Which triangle stands at each place of the tables.
    pub(crate) order: Vec<usize>,
}

/// Where a ray meets a triangle.
#[derive(Clone, Traverse)]
pub(crate) struct Met<R: Number> {
    /// How far from the ray's origin.
    pub(crate) distance: R,
    /// The triangle's place in the tables, -1 for none.
    pub(crate) triangle: R::Int,
    /// How much each corner counts there: their sum is 1.
    pub(crate) weights: Vec3<R>,
}

/// Numbers of a node: bounds, where to skip to, and which triangles a leaf has, the last two as the bits of integers.
const NODE: i64 = 8;

/// Numbers of a triangle: three corners.
const TRIANGLE: i64 = 9;

/// Bits for the number of triangles in a leaf.
const COUNT_BITS: i64 = 3;

/// The most triangles whose places 32-bit indices reach, also times the numbers that others keep for each.
pub(crate) const MOST_TRIANGLES: usize = 1 << 26;

/// How much the far end of a box must be stretched for rounding not to lose what touches it: 1 + 2 gamma(3), by Ize
/// 2013, "Robust BVH ray traversal".
const STRETCH: f64 = 1.0 + 2.0 * 3.0 / (16_777_216.0 - 3.0);

/// A ray, prepared for bounds and triangles.
struct Shear<R: Number> {
    /// Of the direction's components.
    inverse: Vec3<R>,
    /// Where a node has the planes that the ray enters through, and those that it leaves through.
    enters: Vec3<R::Int>,
    leaves: Vec3<R::Int>,
    /// Axes, the last one that along which the direction is largest.
    axes: Vec3<R::Int>,
    /// The origin along these axes.
    origin: Vec3<R>,
    /// Slopes of the direction against the last axis, and the inverse along it.
    slopes: Vec3<R>,
}

impl TriangleTables {
    /// Of triangles of finite numbers, at most [`MOST_TRIANGLES`].
    pub(crate) fn new(triangles: &[[[f32; 3]; 3]]) -> TriangleTables {
        let boxes: Vec<Bounds> = triangles.iter().map(|corners| Bounds::of(corners)).collect();
        let Bvh { nodes, order } = Bvh::new(&boxes);
        let word = |value: usize| f32::from_bits(value as u32);
        let node_values = nodes.iter().flat_map(|node| {
            let Bounds { min: [a, b, c], max: [d, e, f] } = node.bounds;
            [a, b, c, d, e, f, word(node.skip), word(node.first << COUNT_BITS | node.count)]
        });
        TriangleTables {
            nodes: node_values.collect(),
            corners: order.iter().flat_map(|&i| triangles[i].into_iter().flatten()).collect(),
            order,
        }
    }
}

impl<R: Number> Triangles<R> {
    /// The triangles of these tables; `table` brings numbers to where they are looked up.
    pub(crate) fn new<E>(
        tables: &TriangleTables,
        table: impl Fn(&[f32]) -> Result<R::Table, E>,
    ) -> Result<Triangles<R>, E> {
        Ok(Triangles {
            nodes: table(&tables.nodes)?,
            corners: table(&tables.corners)?,
            count: tables.nodes.len() / NODE as usize,
        })
    }

    /// The nearest triangle that a ray meets before that distance. Of several at the same distance, any.
    ///
    /// The walk has no stack: nodes stand in depth-first order, and a box that the ray misses says where to go on.
    pub(crate) fn nearest(&self, ray: &Ray<R>, limit: R) -> Met<R> {
        let shear = Shear::new(ray);
        let nothing = Met { distance: limit, triangle: R::Int::lit(-1), weights: Vec3::splat(R::lit(0.0)) };
        let (_, met) = Loop::new((R::Int::lit(0), nothing)).name("walk").run(
            |(node, _)| node.lt(R::Int::lit(self.count as i64)),
            |(node, met)| {
                let row = node.clone() * R::Int::lit(NODE);
                let hit = self.touches(&row, ray, &shear, &met.distance);
                let word = |at: i64| R::look_up_int(&self.nodes, row.clone() + R::Int::lit(at));
                let (skip, leaf) = (word(6), word(7));
                let count = leaf.clone() & R::Int::lit((1 << COUNT_BITS) - 1);
                let first = leaf >> R::Int::lit(COUNT_BITS);
                let end = first.clone() + R::Int::select(&hit, count, R::Int::lit(0));
                let (_, met) = Loop::new((first, met)).name("leaf").run(
                    |(triangle, _)| triangle.lt(end.clone()),
                    |(triangle, met)| {
                        let next = triangle.clone() + R::Int::lit(1);
                        (next, self.nearer(triangle, &shear, met))
                    },
                );
                (R::Int::select(&hit, node + R::Int::lit(1), skip), met)
            },
        );
        met
    }

    /// Whether a ray touches the box of a node before that distance.
    fn touches(&self, row: &R::Int, ray: &Ray<R>, shear: &Shear<R>, distance: &R) -> R::Mask {
        let crossing = |at: &R::Int, origin: &R, inverse: &R| {
            (R::look_up(&self.nodes, row.clone() + at.clone()) - origin.clone()) * inverse.clone()
        };
        let Shear { inverse, enters, leaves, .. } = shear;
        let origin = &ray.origin;
        // A ray in the plane of a face has a NaN there, which `min` and `max` pass over.
        let near = R::lit(0.0)
            .max(crossing(&enters.x, &origin.x, &inverse.x))
            .max(crossing(&enters.y, &origin.y, &inverse.y))
            .max(crossing(&enters.z, &origin.z, &inverse.z));
        let far = distance
            .min(crossing(&leaves.x, &origin.x, &inverse.x))
            .min(crossing(&leaves.y, &origin.y, &inverse.y))
            .min(crossing(&leaves.z, &origin.z, &inverse.z));
        near.le(far * R::lit(STRETCH))
    }

    /// That triangle, if the ray meets it nearer than what it has met.
    ///
    /// By Woop, Benthin and Wald 2013, "Watertight ray/triangle intersection": edges that triangles share are tested with
    /// the same numbers, so no ray slips through between them. Edges belong to both. Both sides are met.
    fn nearer(&self, triangle: R::Int, shear: &Shear<R>, met: Met<R>) -> Met<R> {
        let row = triangle.clone() * R::Int::lit(TRIANGLE);
        let corner = |i: i64| {
            let first = row.clone() + R::Int::lit(3 * i);
            let along = |axis: &R::Int, origin: &R| {
                R::look_up(&self.corners, first.clone() + axis.clone()) - origin.clone()
            };
            let z = along(&shear.axes.z, &shear.origin.z);
            Vec3::new(
                along(&shear.axes.x, &shear.origin.x) - shear.slopes.x.clone() * z.clone(),
                along(&shear.axes.y, &shear.origin.y) - shear.slopes.y.clone() * z.clone(),
                shear.slopes.z.clone() * z,
            )
        };
        let [a, b, c] = [0, 1, 2].map(corner);
        // Both products rounded: seen from the other triangle, the same number with the other sign.
        let edge = |p: &Vec3<R>, q: &Vec3<R>| p.x.clone() * q.y.clone() - p.y.clone() * q.x.clone();
        let edges = Vec3::new(edge(&c, &b), edge(&a, &c), edge(&b, &a));
        let zero = || R::lit(0.0);
        let outside = edges.min_element().lt(zero()) & edges.max_element().gt(zero());
        let area = edges.x.clone() + edges.y.clone() + edges.z.clone();
        let distance = edges.dot(&Vec3::new(a.z, b.z, c.z)) / area.clone();
        // Never true of triangles without an area: their distance is NaN or infinite.
        let hit = !outside & distance.gt(zero()) & distance.lt(met.distance.clone());
        Met {
            distance: R::select(&hit, distance, met.distance),
            triangle: R::Int::select(&hit, triangle, met.triangle),
            weights: Vec3::select(&hit, edges / area, met.weights),
        }
    }
}

impl<R: Number> Shear<R> {
    fn new(ray: &Ray<R>) -> Shear<R> {
        let Ray { origin, direction } = ray;
        let int = R::Int::lit;
        let inverse = direction.clone().map(|d| d.recip());
        let planes = |axis: i64, inverse: &R, offset: i64| {
            R::Int::select(&inverse.lt(R::lit(0.0)), int(axis + 3 - offset), int(axis + offset))
        };
        let sides = |offset| {
            Vec3::new(
                planes(0, &inverse.x, offset),
                planes(1, &inverse.y, offset),
                planes(2, &inverse.z, offset),
            )
        };
        let size = direction.abs();
        let along_x = size.x.ge(size.y.clone()) & size.x.ge(size.z.clone());
        let along_y = !along_x.clone() & size.y.ge(size.z);
        let axis = |x: i64, y: i64, z: i64| {
            R::Int::select(&along_x, int(x), R::Int::select(&along_y, int(y), int(z)))
        };
        let turned = |v: &Vec3<R>| {
            let pick = |x: &R, y: &R, z: &R| {
                R::select(&along_x, x.clone(), R::select(&along_y, y.clone(), z.clone()))
            };
            Vec3::new(pick(&v.y, &v.z, &v.x), pick(&v.z, &v.x, &v.y), pick(&v.x, &v.y, &v.z))
        };
        let Vec3 { x, y, z } = turned(direction);
        Shear {
            enters: sides(0),
            leaves: sides(3),
            inverse,
            axes: Vec3::new(axis(1, 2, 0), axis(2, 0, 1), axis(0, 1, 2)),
            origin: turned(origin),
            slopes: Vec3::new(x / z.clone(), y / z.clone(), z.recip()),
        }
    }
}
