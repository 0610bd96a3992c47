//! Triangles, and the scene that shows them.

use std::convert::Infallible;
use std::fmt::Write;

use jit_frontend::{Array, Device, Vec3};

use super::{devices, means, small, values};
use crate::bitmap::Bitmap;
use crate::camera::Ray;
use crate::mesh::MeshTables;
use crate::obj::Model;
use crate::placement::{Axis, Placed, Pose};
use crate::render::Job;
use crate::scene::Subject;
use crate::sky::{AFTERNOON, Sky};
use crate::triangles::{TriangleTables, Triangles};

/// A ball of squares and triangles with texture coordinates, in OBJ.
fn ball_text() -> String {
    const ROWS: usize = 8;
    const COLUMNS: usize = 12;
    let mut text = String::new();
    for row in 0..=ROWS {
        for column in 0..=COLUMNS {
            let (v, u) = (row as f64 / ROWS as f64, column as f64 / COLUMNS as f64);
            let ((sin, cos), (s, c)) =
                ((v * std::f64::consts::PI).sin_cos(), (u * std::f64::consts::TAU).sin_cos());
            writeln!(text, "v {} {} {}\nvt {u} {v}", sin * c, -cos, sin * s).expect("text");
        }
    }
    for row in 0..ROWS {
        for column in 0..COLUMNS {
            let here = row * (COLUMNS + 1) + column + 1;
            let above = here + COLUMNS + 1;
            writeln!(text, "f {here}/{here} {above}/{above} {0}/{0} {1}/{1}", above + 1, here + 1)
                .expect("text");
        }
    }
    text
}

const UPRIGHT: Pose = Pose { up: Axis::Y, turn: 10.0, flat: false };

fn placed(text: &str, pose: Pose) -> Placed {
    Placed::new(&Model::parse(text).expect("a model"), pose).expect("triangles")
}

/// The scene with a ball.
pub(super) fn ball(texture: Option<Bitmap>) -> Subject {
    let model = MeshTables::new(&placed(&ball_text(), UPRIGHT), AFTERNOON);
    Subject::Mesh { model, texture, elevation: 20.0 }
}

/// Random triangles, some of them flat along an axis, without an area, or at the same place.
fn soup(n: u32, seed: u32) -> Vec<[[f32; 3]; 3]> {
    let uniform = |i: u32| crate::random::uniform(i, seed);
    (0..n)
        .map(|i| {
            let shape = if i % 5 == 4 { i - 1 } else { i };
            let at = |k: u32| uniform(shape * 16 + k) * 2.0 - 1.0;
            let size = if i % 3 == 0 { 1.0 } else { 0.2 };
            let mut corners = [0, 1, 2].map(|k| [0, 1, 2].map(|axis| at(axis) + size * at(3 + 3 * k + axis)));
            match shape % 7 {
                0 => corners.iter_mut().for_each(|corner| corner[(shape / 7 % 3) as usize] = 0.25),
                1 => corners[2] = corners[0],
                2 => corners = corners.map(|corner| corner.map(|x| (x * 2.0).round() / 2.0)),
                _ => {}
            }
            corners
        })
        .collect()
}

/// Rays from within and from outside; some along axes, some exactly through corners or along edges.
fn rays(triangles: &[[[f32; 3]; 3]], n: u32) -> Vec<[[f32; 3]; 2]> {
    let uniform = |i: u32| crate::random::uniform(i, 77) * 2.0 - 1.0;
    (0..n)
        .map(|i| {
            let vector = |k: u32| [0, 1, 2].map(|axis| uniform(i * 8 + k + axis));
            let (mut origin, mut direction) = (vector(0).map(|x| 2.0 * x), vector(3));
            let corners = triangles.get(i as usize % triangles.len().max(1));
            match (i % 6, corners) {
                (0, _) => {
                    direction = [0.0; 3];
                    direction[(i / 6 % 3) as usize] = if i % 4 < 2 { 1.0 } else { -1.0 };
                    origin = origin.map(|x| (x * 2.0).round() / 2.0);
                }
                (1, Some([a, _, _])) => direction = [0, 1, 2].map(|axis| a[axis] - origin[axis]),
                (2, Some([a, b, _])) => {
                    origin = *a;
                    direction = [0, 1, 2].map(|axis| b[axis] - a[axis]);
                }
                _ => {}
            }
            [origin, direction]
        })
        .collect()
}

fn scalar(triangles: &[[[f32; 3]; 3]]) -> (Triangles<f32>, Vec<usize>) {
    let tables = TriangleTables::new(triangles);
    let Ok(built) = Triangles::new(&tables, |values| Ok::<_, Infallible>(values.to_vec()));
    (built, tables.order)
}

fn ray([origin, direction]: [[f32; 3]; 2]) -> Ray<f32> {
    Ray { origin: Vec3::from(origin), direction: Vec3::from(direction) }
}

#[test]
fn walks_find_what_trying_all_triangles_finds() {
    let mut hits = 0;
    for (n, seed) in [(0, 1), (1, 1), (3, 1), (4, 1), (5, 1), (40, 2), (300, 3)] {
        let triangles = soup(n, seed);
        let (all, order) = scalar(&triangles);
        let alone: Vec<Triangles<f32>> = triangles.iter().map(|t| scalar(&[*t]).0).collect();
        for line in rays(&triangles, 300) {
            let met = all.nearest(&ray(line), f32::INFINITY);
            let each: Vec<f32> =
                alone.iter().map(|one| one.nearest(&ray(line), f32::INFINITY).distance).collect();
            let least = each.iter().copied().fold(f32::INFINITY, f32::min);
            assert_eq!(met.distance, least, "{line:?} among {n}");
            assert_eq!(met.triangle >= 0, least.is_finite());
            if let Ok(triangle) = usize::try_from(met.triangle) {
                hits += 1;
                assert_eq!(each[order[triangle]], least, "{line:?} among {n}");
                let Vec3 { x, y, z } = met.weights;
                assert!((x + y + z - 1.0).abs() < 1e-5 && x.min(y).min(z) >= 0.0, "{:?}", [x, y, z]);
            }
        }
    }
    assert!(hits > 300, "only {hits} hits");
}

#[test]
fn devices_walk_as_scalars_do() {
    let triangles = soup(200, 4);
    let lines = rays(&triangles, 1025);
    let (built, _) = scalar(&triangles);
    let expected: Vec<(u32, i32)> = lines
        .iter()
        .map(|line| built.nearest(&ray(*line), 3.0))
        .map(|met| (met.distance.to_bits(), met.triangle))
        .collect();
    for device in devices() {
        let tables = TriangleTables::new(&triangles);
        let built = Triangles::new(&tables, |values| Array::from_slice(values, &device)).expect("memory");
        let limit = Array::full(3.0, lines.len(), &device);
        let met = built.nearest(&rays_on(&lines, &device), limit);
        let distances = met.distance.to_vec().expect("evaluation");
        let places = met.triangle.to_vec().expect("evaluation");
        let found: Vec<_> = distances.iter().map(|d| d.to_bits()).zip(places).collect();
        assert_eq!(found, expected, "on {device:?}");
    }
}

fn rays_on(lines: &[[[f32; 3]; 2]], device: &Device) -> Ray<Array<f32>> {
    let vector = |part: usize| {
        Vec3::from([0, 1, 2]).map(|axis: usize| {
            let values: Vec<f32> = lines.iter().map(|line| line[part][axis]).collect();
            Array::from_vec(values, device).expect("memory")
        })
    };
    Ray { origin: vector(0), direction: vector(1) }
}

#[test]
fn no_ray_slips_through_a_closed_surface() {
    let facets = placed(&ball_text(), UPRIGHT).facets;
    let triangles: Vec<_> = facets.iter().map(|facet| facet.corners).collect();
    let (built, _) = scalar(&triangles);
    for (i, target) in (0u32..).zip(triangles.iter().flat_map(|&[a, b, c]| {
        // Corners, and points along edges.
        [a, b, c, [0, 1, 2].map(|k| a[k] * 0.5 + b[k] * 0.5), [0, 1, 2].map(|k| a[k] * 0.3 + c[k] * 0.7)]
    })) {
        let origin = [0, 1, 2].map(|k| crate::random::uniform(i * 3 + k, 9) * 0.5 - 0.25);
        let direction = [0, 1, 2].map(|k| target[k] - origin[k]);
        let met = built.nearest(&ray([origin, direction]), f32::INFINITY);
        assert!((met.distance - 1.0).abs() < 1e-3, "from {origin:?} to {target:?}: {}", met.distance);
    }
}

/// A white ball under the same light from everywhere, with or without ground.
fn furnace(pose: Pose) -> Subject {
    let light = Sky { horizon: [1.0; 3], zenith: [1.0; 3], sun: [0.0; 3] };
    let mut model = MeshTables::new(&placed(&ball_text(), pose), light);
    model.ground = None;
    Subject::Mesh {
        model,
        texture: Some(Bitmap { width: 1, height: 1, values: vec![1.0; 3] }),
        elevation: 35.0,
    }
}

#[test]
fn white_balls_vanish_in_white_light() {
    for flat in [false, true] {
        let job = small(furnace(Pose { flat, ..UPRIGHT }));
        for device in devices() {
            for (i, value) in values(&job, &device).into_iter().enumerate() {
                assert!((value - 1.0).abs() < 1e-5, "{value} at {i}, flat: {flat}, on {device:?}");
            }
        }
    }
}

#[test]
fn textures_stand_upright_on_the_mesh() {
    // Above white, below black; the square faces the camera, with v upwards.
    let text = "v -1 -1 0\nv 1 -1 0\nv 1 1 0\nv -1 1 0\nvt 0 0\nvt 1 0\nvt 1 1\nvt 0 1\nf 1/1 2/2 3/3 4/4\n";
    let light = Sky { horizon: [1.0; 3], zenith: [1.0; 3], sun: [0.0; 3] };
    let mut model = MeshTables::new(&placed(text, Pose { turn: 0.0, ..UPRIGHT }), light);
    model.ground = None;
    let mut texels = vec![0.9; 3 * 2 * 4];
    texels.extend(vec![0.1; 3 * 2 * 4]);
    let texture = Some(Bitmap { width: 2, height: 8, values: texels });
    let job = small(Subject::Mesh { model, texture, elevation: 0.0 });
    for device in devices() {
        let picture = values(&job, &device);
        let at = |row: usize| picture[(row * 16 + 8) * 3];
        assert!((at(4) - 0.9).abs() < 1e-5 && (at(11) - 0.1).abs() < 1e-5, "{} {}", at(4), at(11));
    }
}

#[test]
fn balls_keep_their_brightness() {
    // As first rendered, and looked at; with 1024 samples for each pixel.
    let expected = [0.457_9, 0.471_0, 0.532_9];
    let device = devices().pop().expect("a device");
    let spp = if cfg!(feature = "llvm") { 1024 } else { 16 };
    let found = means(&values(&Job { spp, ..small(ball(None)) }, &device));
    for (mean, expected) in found.into_iter().zip(expected) {
        assert!((mean / expected - 1.0f64).abs() < 0.02, "{found:?}");
    }
}
