//! Triangles out of Wavefront OBJ files.
//!
//! Of the format, `v`, `vt`, `vn` and `f` are read; materials, groups, lines and the rest are passed over. Faces of more
//! than three corners become fans around their first corner, as is right for convex ones. Read here rather than by the
//! crate `tobj`: its version 4.0 gives corners without texture coordinates those of the corner before, and names no line.

use std::path::Path;

use crate::error::RenderError;

/// What a file holds.
pub(crate) struct Model {
    /// All vertices, also those that no triangle uses. As the file has them: maybe infinite or NaN.
    pub(crate) positions: Vec<[f64; 3]>,
    /// The faces. Their indices are good.
    pub(crate) triangles: Vec<Triangle>,
}

/// Three corners.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Triangle {
    /// Which vertices.
    pub(crate) corners: [usize; 3],
    /// The normals at the corners, of any length, if each has one.
    pub(crate) normals: Option<[[f64; 3]; 3]>,
    /// Texture coordinates at the corners, if each has them; v = 0 is the lower edge of a picture.
    pub(crate) uvs: Option<[[f64; 2]; 3]>,
}

/// Indices of a corner into the file's lists, from 0, not yet checked against the end of the lists.
#[derive(Clone, Copy)]
struct Corner {
    position: usize,
    uv: Option<usize>,
    normal: Option<usize>,
}

/// A face as it stands in the file.
struct Face {
    line: usize,
    corners: Vec<Corner>,
}

/// What has been read.
#[derive(Default)]
struct Lists {
    positions: Vec<[f64; 3]>,
    uvs: Vec<[f64; 2]>,
    normals: Vec<[f64; 3]>,
    faces: Vec<Face>,
}

impl Model {
    /// Reads a file. What is not UTF-8, such as names in comments, does no harm.
    pub(crate) fn open(path: &Path) -> Result<Model, RenderError> {
        let failed = |why: String| RenderError::Mesh { path: path.to_owned(), why };
        let bytes = std::fs::read(path).map_err(|e| failed(e.to_string()))?;
        Model::parse(&String::from_utf8_lossy(&bytes)).map_err(failed)
    }

    /// The model of a file's text, or what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Model, String> {
        let mut lists = Lists::default();
        for (line, content) in (1..).zip(text.lines()) {
            lists.read(line, content).map_err(|why| format!("line {line}: {why}"))?;
        }
        if lists.faces.is_empty() {
            return Err("has no faces".to_owned());
        }
        let mut triangles = Vec::new();
        for Face { line, corners } in &lists.faces {
            for corner in corners {
                lists.check(corner).map_err(|why| format!("line {line}: {why}"))?;
            }
            let fan = corners[1..].windows(2).map(|pair| [corners[0], pair[0], pair[1]]);
            triangles.extend(fan.map(|corners| lists.triangle(corners)));
        }
        Ok(Model { positions: lists.positions, triangles })
    }
}

impl Lists {
    fn read(&mut self, line: usize, content: &str) -> Result<(), String> {
        let content = content.split_once('#').map_or(content, |(before, _)| before);
        let mut words = content.split_whitespace();
        match words.next() {
            Some("v") => self.positions.push(numbers(words, 3)?),
            Some("vn") => self.normals.push(numbers(words, 3)?),
            // One coordinate is enough for one-dimensional textures; the second is 0 then.
            Some("vt") => self.uvs.push(numbers(words, 1)?),
            Some("f") => {
                let corners = words.map(|word| self.corner(word)).collect::<Result<Vec<_>, _>>()?;
                if corners.len() < 3 {
                    return Err(format!("a face of {} corners", corners.len()));
                }
                self.faces.push(Face { line, corners });
            }
            _ => {}
        }
        Ok(())
    }

    /// A corner: `v`, `v/vt`, `v//vn` or `v/vt/vn`.
    fn corner(&self, word: &str) -> Result<Corner, String> {
        let bad = || format!("`{word}` is no corner of a face");
        let mut indices = word.split('/');
        let mut index = |count: usize| match indices.next() {
            None | Some("") => Ok(None),
            Some(text) => {
                let number: i64 = text.parse().map_err(|_| bad())?;
                // From 1 on, or backwards from the newest one.
                let absolute = if number < 0 { count as i64 + number } else { number - 1 };
                let absolute = usize::try_from(absolute).ok();
                absolute.map(Some).ok_or_else(|| format!("`{word}` is out of range"))
            }
        };
        let position = index(self.positions.len())?.ok_or_else(bad)?;
        let (uv, normal) = (index(self.uvs.len())?, index(self.normals.len())?);
        if indices.next().is_some() {
            return Err(bad());
        }
        Ok(Corner { position, uv, normal })
    }

    fn check(&self, corner: &Corner) -> Result<(), String> {
        let check = |name: &str, index: usize, count: usize| {
            if index < count {
                return Ok(());
            }
            Err(format!("{name} {} is out of range, the file has {count}", index + 1))
        };
        check("vertex", corner.position, self.positions.len())?;
        corner.uv.map_or(Ok(()), |uv| check("texture coordinate", uv, self.uvs.len()))?;
        corner.normal.map_or(Ok(()), |normal| check("normal", normal, self.normals.len()))
    }

    /// A triangle of corners that have been checked.
    fn triangle(&self, corners: [Corner; 3]) -> Triangle {
        let all = |index: fn(&Corner) -> Option<usize>| {
            let [a, b, c] = corners.each_ref().map(index);
            Some([a?, b?, c?])
        };
        Triangle {
            corners: corners.map(|corner| corner.position),
            normals: all(|corner| corner.normal).map(|indices| indices.map(|i| self.normals[i])),
            uvs: all(|corner| corner.uv).map(|indices| indices.map(|i| self.uvs[i])),
        }
    }
}

/// The first `N` numbers, 0 for those beyond the first `least`.
fn numbers<'a, const N: usize>(
    mut words: impl Iterator<Item = &'a str>,
    least: usize,
) -> Result<[f64; N], String> {
    let mut numbers = [0.0; N];
    for (i, number) in numbers.iter_mut().enumerate() {
        match words.next() {
            Some(word) => *number = word.parse().map_err(|_| format!("`{word}` is no number"))?,
            None if i < least => return Err(format!("{least} numbers expected, {i} there")),
            None => {}
        }
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CORNERS: &str = "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\n";

    fn parse(faces: &str) -> Result<Model, String> {
        Model::parse(&format!("{CORNERS}{faces}"))
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, expected) in [
            ("", "has no faces"),
            ("# nothing\n", "has no faces"),
            ("l 1 2\np 1\n", "has no faces"),
            ("f 1 2 5", "line 5: vertex 5 is out of range, the file has 4"),
            ("f 0 1 2", "line 5: `0` is out of range"),
            ("f -5 1 2", "line 5: `-5` is out of range"),
            ("f 1 2 9223372036854775807", "line 5: vertex 9223372036854775807 is out of range"),
            ("f 1 2 -9223372036854775808", "line 5: `-9223372036854775808` is out of range"),
            ("f 1 2 9223372036854775808", "is no corner of a face"),
            ("f 1/1 2/1 3/1", "line 5: texture coordinate 1 is out of range, the file has 0"),
            ("f 1/-1 2 3", "line 5: `1/-1` is out of range"),
            ("vn 0 0 1\nf 1//1 2//1 3//2", "line 6: normal 2 is out of range, the file has 1"),
            ("f 1 2", "line 5: a face of 2 corners"),
            ("f", "line 5: a face of 0 corners"),
            ("f 1 2 x", "line 5: `x` is no corner of a face"),
            ("f 1 2 3/1/1/1", "line 5: `3/1/1/1` is no corner of a face"),
            ("f 1 2 /1", "line 5: `/1` is no corner of a face"),
            ("f 1 2 1.5", "line 5: `1.5` is no corner of a face"),
            ("v 1 2", "line 5: 3 numbers expected, 2 there"),
            ("v 1 2 z", "line 5: `z` is no number"),
            ("vn 1", "line 5: 3 numbers expected, 1 there"),
            ("vt", "line 5: 1 numbers expected, 0 there"),
        ] {
            let why = parse(text).err().unwrap_or_else(|| panic!("`{text}` is taken"));
            assert!(why.contains(expected), "`{text}`: {why}");
        }
    }

    #[test]
    fn faces_become_fans() {
        let corners = |text: &str| {
            let model = parse(text).expect("a model");
            model.triangles.into_iter().map(|triangle| triangle.corners).collect::<Vec<_>>()
        };
        assert_eq!(corners("f 1 2 3"), [[0, 1, 2]]);
        assert_eq!(corners("f -4 -3 -2\n"), [[0, 1, 2]]);
        assert_eq!(corners("\tf 1 2 3 4 # a square\r\n"), [[0, 1, 2], [0, 2, 3]]);
        assert_eq!(corners("v 9 9 9\nf 1 2 3 4 5"), [[0, 1, 2], [0, 2, 3], [0, 3, 4]]);
        // Used before it is there.
        assert_eq!(corners("f 1 2 5\nv 9 9 9"), [[0, 1, 4]]);
    }

    #[test]
    fn corners_have_what_the_file_gives_them() {
        let model = parse("vt 0.5\nvt 1 2 3\nvn 0 0 2\nf 1/1/1 2/2/1 3/2/1\nf 1/1 2 3\nf 1//1 2//1 3//1")
            .expect("a model");
        let [whole, mixed, normals] = &model.triangles[..] else { panic!("three triangles") };
        assert_eq!(whole.uvs, Some([[0.5, 0.0], [1.0, 2.0], [1.0, 2.0]]));
        assert_eq!(whole.normals, Some([[0.0, 0.0, 2.0]; 3]));
        assert_eq!((mixed.uvs, mixed.normals), (None, None));
        assert_eq!((normals.uvs, normals.normals), (None, Some([[0.0, 0.0, 2.0]; 3])));
    }

    #[test]
    fn numbers_beyond_all_bounds_are_kept() {
        let model = parse("v nan inf 1e999\nf 1 2 5").expect("a model");
        let [x, y, z] = model.positions[4];
        assert!(x.is_nan() && y == f64::INFINITY && z == f64::INFINITY);
    }

    #[test]
    fn files_that_cannot_be_read_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let why = |path: &Path| Model::open(path).err().expect("no model").to_string();
        assert!(why(&folder.path().join("missing.obj")).contains("missing.obj: No such file"));
        assert!(why(folder.path()).contains("directory"));
        let bytes = folder.path().join("bytes.obj");
        std::fs::write(&bytes, [0xFF, 0xFE, 0, b'\n', b'f', b'\n']).expect("a file");
        assert!(why(&bytes).contains("bytes.obj: line 2: a face of 0 corners"));
    }
}
