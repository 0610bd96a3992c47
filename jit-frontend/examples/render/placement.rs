//! A model from a file, turned, scaled and with normals: ready for the scene `mesh`.

use std::collections::HashMap;

use crate::obj::{Model, Triangle};

/// How a model stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pose {
    pub(crate) up: Axis,
    /// Degrees around the vertical axis, seen from above against the clock.
    pub(crate) turn: f64,
    /// Whether triangles look flat, whatever normals there are.
    pub(crate) flat: bool,
}

/// An axis of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Axis {
    X,
    Y,
    Z,
}

/// A model around the origin: its bounds have their middle there, and its farthest corner has the distance 1.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) facets: Vec<Facet>,
    /// The lowest height.
    pub(crate) bottom: f32,
    /// Triangles left out because a coordinate is infinite or NaN.
    pub(crate) not_finite: usize,
    /// Triangles left out because they have no area.
    pub(crate) degenerate: usize,
    /// Triangles without usable texture coordinates.
    pub(crate) bare: usize,
}

/// A triangle with an area.
#[derive(Clone, Debug)]
pub(crate) struct Facet {
    pub(crate) corners: [[f32; 3]; 3],
    /// The normal of its plane, of length 1, on the side from which the corners go against the clock.
    pub(crate) plane: [f32; 3],
    /// The normals at the corners, of length 1.
    pub(crate) normals: [[f32; 3]; 3],
    pub(crate) uvs: Option<[[f32; 2]; 3]>,
}

type Point = [f64; 3];

impl Placed {
    /// Places a model; fails if nothing with an area is left of it.
    pub(crate) fn new(model: &Model, pose: Pose) -> Result<Placed, String> {
        let finite = |t: &&Triangle| t.corners.iter().all(|&i| is_finite(&model.positions[i]));
        let whole: Vec<&Triangle> = model.triangles.iter().filter(finite).collect();
        let not_finite = model.triangles.len() - whole.len();
        let points: Vec<Point> = model.positions.iter().map(|point| pose.turned(*point)).collect();

        let used = || whole.iter().flat_map(|t| t.corners).map(|i| points[i]);
        let low = used().fold([f64::INFINITY; 3], |low, p| zip(low, p, f64::min));
        let high = used().fold([f64::NEG_INFINITY; 3], |high, p| zip(high, p, f64::max));
        let centre = zip(low, high, |low, high| low * 0.5 + high * 0.5);
        let reach = used().map(|p| length(sub(p, centre))).fold(0.0, f64::max);
        let placed: Vec<Point> = points.iter().map(|p| sub(*p, centre).map(|x| round(x / reach))).collect();

        let planes: Vec<Option<Point>> = whole.iter().map(|t| plane(t.corners.map(|i| placed[i]))).collect();
        let rounded = rounded_normals(&whole, &planes, &placed);
        let mut facets = Vec::new();
        for ((triangle, plane), rounded) in whole.iter().zip(&planes).zip(rounded) {
            let Some(plane) = *plane else { continue };
            let given = triangle.normals.map(|normals| normals.map(|n| normalized(pose.turned(n))));
            let normals = match given {
                _ if pose.flat => [plane; 3],
                Some([Some(a), Some(b), Some(c)]) => [a, b, c],
                _ => rounded.map(|normal| normal.unwrap_or(plane)),
            };
            let corners = triangle.corners.map(|i| placed[i].map(|x| x as f32));
            let uvs = triangle.uvs.map(|uvs| uvs.map(|uv| uv.map(|x| x as f32)));
            facets.push(Facet {
                corners,
                plane: plane.map(|x| x as f32),
                normals: normals.map(|normal| normal.map(|x| x as f32)),
                uvs: uvs.filter(|uvs| uvs.iter().flatten().all(|x| x.is_finite())),
            });
        }
        if facets.is_empty() {
            let n = model.triangles.len();
            return Err(format!(
                "has no triangle to show: of {n}, {not_finite} are not finite, the others have no area"
            ));
        }
        let bare = facets.iter().filter(|facet| facet.uvs.is_none()).count();
        let heights = facets.iter().flat_map(|facet| facet.corners).map(|corner| corner[1]);
        let bottom = heights.fold(f32::INFINITY, f32::min);
        let degenerate = whole.len() - facets.len();
        Ok(Placed { facets, bottom, not_finite, degenerate, bare })
    }
}

impl Pose {
    /// The direction or point, its up axis along y.
    fn turned(&self, [x, y, z]: Point) -> Point {
        let [x, y, z] = match self.up {
            Axis::X => [-y, x, z],
            Axis::Y => [x, y, z],
            Axis::Z => [x, z, -y],
        };
        let (sin, cos) = self.turn.to_radians().sin_cos();
        [x * cos + z * sin, y, z * cos - x * sin]
    }
}

/// For the corners of each triangle, the mean of the normals of all planes that meet there, weighted by their angles
/// (Thuermer and Wuethrich 1998, "Computing vertex normals from polygonal facets"). Vertices at one place are one.
fn rounded_normals(
    triangles: &[&Triangle],
    planes: &[Option<Point>],
    placed: &[Point],
) -> Vec<[Option<Point>; 3]> {
    // -0 is where +0 is.
    let place = |i: usize| placed[i].map(|x| (x + 0.0).to_bits());
    let mut sums: HashMap<[u64; 3], Point> = HashMap::new();
    for (triangle, plane) in triangles.iter().zip(planes) {
        let Some(plane) = plane else { continue };
        for k in 0..3 {
            let [here, next, last] = [0, 1, 2].map(|step| placed[triangle.corners[(k + step) % 3]]);
            let (a, b) = (sub(next, here), sub(last, here));
            let angle = length(cross(a, b)).atan2(dot(a, b));
            let sum = sums.entry(place(triangle.corners[k])).or_default();
            *sum = zip(*sum, *plane, |sum, n| sum + n * angle);
        }
    }
    let normal = |i: usize| sums.get(&place(i)).and_then(|sum| normalized(*sum));
    triangles.iter().map(|triangle| triangle.corners.map(normal)).collect()
}

/// The normal of a triangle's plane, if it has one.
fn plane([a, b, c]: [Point; 3]) -> Option<Point> {
    normalized(cross(sub(b, a), sub(c, a)))
}

fn is_finite(p: &Point) -> bool {
    p.iter().all(|x| x.is_finite())
}

/// To the nearest value of an `f32`, so that areas are those of what is rendered.
fn round(x: f64) -> f64 {
    f64::from(x as f32)
}

fn zip(a: Point, b: Point, f: impl Fn(f64, f64) -> f64) -> Point {
    std::array::from_fn(|axis| f(a[axis], b[axis]))
}

fn sub(a: Point, b: Point) -> Point {
    zip(a, b, |a, b| a - b)
}

fn dot(a: Point, b: Point) -> f64 {
    zip(a, b, |a, b| a * b).iter().sum()
}

fn cross(a: Point, b: Point) -> Point {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

fn length(p: Point) -> f64 {
    p[0].hypot(p[1]).hypot(p[2])
}

/// None for vectors without a direction.
fn normalized(p: Point) -> Option<Point> {
    let length = length(p);
    let normal = p.map(|x| x / length);
    (length > 0.0 && is_finite(&normal)).then_some(normal)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AS_IT_IS: Pose = Pose { up: Axis::Y, turn: 0.0, flat: false };

    fn place(text: &str, pose: Pose) -> Result<Placed, String> {
        Placed::new(&Model::parse(text).expect("a model"), pose)
    }

    fn near(a: [f32; 3], b: [f32; 3]) -> bool {
        a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6)
    }

    #[test]
    fn models_fill_the_unit_sphere() {
        for scale in ["1e-30", "1", "1e30"] {
            let text = format!("v {scale} 0 0\nv 0 0 0\nv 0 {scale} 0\nv 1e200 1e200 1e200\nf 1 3 2");
            let placed = place(&text, AS_IT_IS).expect("a triangle");
            let half = 0.5f32.sqrt();
            let expected = [[half, -half, 0.0], [-half, half, 0.0], [-half, -half, 0.0]];
            for (corner, expected) in placed.facets[0].corners.into_iter().zip(expected) {
                assert!(near(corner, expected), "{corner:?} of {scale}");
            }
            assert!((placed.bottom + half).abs() < 1e-6);
            assert_eq!(placed.facets[0].plane, [0.0, 0.0, 1.0]);
        }
    }

    #[test]
    fn models_turn() {
        let text = "v 0 0 1\nv 1 0 0\nv -1 0 0\nf 1 2 3";
        for (up, turn, expected) in [
            (Axis::Y, 0.0, [0.0, 1.0, 0.0]),
            (Axis::Z, 0.0, [0.0, 0.0, -1.0]),
            (Axis::X, 0.0, [-1.0, 0.0, 0.0]),
            (Axis::Z, 90.0, [-1.0, 0.0, 0.0]),
            (Axis::X, 180.0, [1.0, 0.0, 0.0]),
        ] {
            let placed = place(text, Pose { up, turn, flat: true }).expect("a triangle");
            let plane = placed.facets[0].plane;
            assert!(near(plane, expected), "{up:?}, {turn}: {plane:?}");
        }
    }

    #[test]
    fn what_cannot_be_shown_is_counted() {
        let good = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv nan 0 0\nv 0 inf 0\nv 2 0 0\nvt 0 0\nvt nan 0\n";
        let placed = place(
            &format!("{good}f 1/1 2/1 3/1\nf 1/1 2/1 3/2\nf 1 2 4\nf 1 2 5\nf 1 2 6\nf 1 1 2\nf 3 3 3\n"),
            AS_IT_IS,
        )
        .expect("two triangles");
        assert_eq!((placed.facets.len(), placed.not_finite, placed.degenerate, placed.bare), (2, 2, 3, 1));

        for faces in ["f 1 2 6", "f 1 2 4", "f 1 1 1\nf 4 5 5"] {
            let why = place(&format!("{good}{faces}"), AS_IT_IS).expect_err("nothing to show");
            assert!(why.contains("no triangle to show"), "{why}");
        }
    }

    #[test]
    fn normals_come_from_the_file_or_from_around() {
        // A roof: two squares, one split in two triangles, that meet at a right angle.
        let roof = "v 0 0 0\nv 1 0 0\nv 1 0 1\nv 0 0 1\nv 0 1 0\nv 0 1 1\nf 1 4 3 2\nf 1 5 6 4\n";
        let placed = place(roof, AS_IT_IS).expect("a roof");
        let half = 0.5f32.sqrt();
        // At the common edge the angles of both squares are equal, however they are split.
        assert!(near(placed.facets[0].normals[0], [half, half, 0.0]), "{:?}", placed.facets[0].normals);
        assert!(near(placed.facets[0].normals[2], [0.0, 1.0, 0.0]));
        let flat = place(roof, Pose { flat: true, ..AS_IT_IS }).expect("a roof");
        assert_eq!(flat.facets[0].normals, [[0.0, 1.0, 0.0]; 3]);
        // A normal without a direction counts for none.
        let triangle = "v 0 0 0\nv 1 0 0\nv 0 1 0\nvn 0 3 4\nvn 0 0 0\nvn nan 0 0\n";
        for (face, expected) in [
            ("f 1//1 2//1 3//1", [0.0, 0.6, 0.8]),
            ("f 1//1 2//2 3//1", [0.0, 0.0, 1.0]),
            ("f 1//1 2//3 3//1", [0.0, 0.0, 1.0]),
        ] {
            let placed = place(&format!("{triangle}{face}"), AS_IT_IS).expect("a triangle");
            assert!(near(placed.facets[0].normals[0], expected), "{face}");
        }
    }
}
