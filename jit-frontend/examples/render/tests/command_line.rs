//! The program as its users see it: files in, files out, complaints.

use std::ffi::OsString;
use std::path::Path;

use image::{ExtendedColorType, ImageEncoder, ImageFormat, ImageReader};

/// Exit code, what it said and what it complained about.
fn run(arguments: &[&str]) -> (u8, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let arguments = ["render"].iter().chain(arguments).map(OsString::from);
    let code = crate::run(arguments, &mut out, &mut err);
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (code, text(out), text(err))
}

/// Runs on the interpreter, 8 pixels wide, which must fail, with this among what it complains about.
#[track_caller]
fn fails(arguments: &[&str], expected: &str) {
    let (code, out, err) = run(&[&["--device", "interp"], arguments].concat());
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(err.contains(expected), "`{err}` has no `{expected}`");
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

#[test]
fn bad_arguments_are_named() {
    for size in ["", "8", "8x", "x8", "0x8", "8x0", "8x8x8", "-8x8", "8.5x8", "65537x1", "99999999999x1"] {
        fails(&[&format!("--size={size}"), "--out", "a.png"], "a size is WIDTHxHEIGHT");
    }
    for name in ["a", "a.bmp", ".png", "png", "a.png/"] {
        let expected = if name == "a.png/" { "output a.png/" } else { "must end in .png or .exr" };
        fails(&["--size", "1x1", "--spp", "1", "--out", name], expected);
    }
    fails(&["--spp", "0", "--out", "a.png"], "--spp");
    fails(&["--passes", "0", "--out", "a.png"], "--passes");
    fails(&["--scene", "teapot", "--out", "a.png"], "rectangle, spheres, cornell, mesh");
    fails(&["--filter", "tent", "--out", "a.png"], "box, gaussian");
    fails(&[], "--out");
    fails(&["--size", "65536x4097", "--out", "a.png"], "at most 268435456 pixels");
    fails(&["--size", "65536x4096", "--spp", "16", "--out", "a.png"], "2^32 paths or more");
    let (code, _, err) = run(&["--device", "abacus", "--out", "a.png"]);
    assert_eq!(code, 1);
    assert!(err.contains("`abacus` names no device"), "{err}");
}

#[test]
fn help_is_no_failure() {
    let (code, out, err) = run(&["--help"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("--flip-v"));
}

#[test]
fn textures_that_cannot_be_read_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).expect("a file");
        path
    };
    let whole = tiny_png();
    let cases = [
        (folder.path().join("missing.png"), "No such file"),
        (file("empty.png", b""), "neither a PNG nor a JPEG nor an EXR"),
        (file("text.jpg", b"no picture at all"), "neither a PNG nor a JPEG nor an EXR"),
        (file("cut.png", &whole[..whole.len() / 2]), "cut.png"),
        (file("cut.jpg", &[0xFF, 0xD8, 0xFF, 0xE0, 0, 16]), "cut.jpg"),
        (file("zero.png", &without_width(&whole)), "zero.png"),
        (folder.path().to_owned(), "directory"),
    ];
    for (path, expected) in cases {
        fails(&["--texture", text(&path), "--out", "a.png"], "error: texture ");
        fails(&["--texture", text(&path), "--out", "a.png"], expected);
    }
    assert!(!Path::new("a.png").exists(), "nothing is written");
}

#[test]
fn outputs_that_cannot_be_written_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let inside = |name: &str| folder.path().join(name);
    fails(&["--out", text(&inside("missing/a.png"))], "error: output ");
    std::fs::create_dir(inside("folder.png")).expect("a folder");
    fails(&["--out", text(&inside("folder.png"))], "is a folder");
    std::fs::write(inside("file"), b"").expect("a file");
    fails(&["--out", text(&inside("file/a.exr"))], "error: output ");
    let left = std::fs::read_dir(folder.path()).expect("the folder").count();
    assert_eq!(left, 2, "no half-written file stays");
}

#[test]
fn files_go_in_and_come_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let inside = |name: &str| folder.path().join(name);
    // 64 texels of 188, which is half of the light, or of a JPEG that comes close.
    let (png, jpeg) = (inside("t.png"), inside("t.jpeg"));
    let bytes = [188; 64 * 3];
    image::save_buffer(&png, &bytes, 8, 8, ExtendedColorType::Rgb8).expect("a texture");
    image::save_buffer(&jpeg, &bytes, 8, 8, ExtendedColorType::Rgb8).expect("a texture");
    for texture in [&png, &jpeg] {
        for name in ["p.png", "p.exr", "P.EXR"] {
            let out = inside(name);
            let arguments = [
                "--device",
                "interp",
                "--scene",
                "rectangle",
                "--size",
                "20x10",
                "--spp",
                "2",
                "--texture",
                text(texture),
                "--out",
                text(&out),
            ];
            let (code, said, err) = run(&arguments);
            assert_eq!((code, err.as_str()), (0, ""));
            assert!(said.contains("kernels launched") && said.lines().count() == 1, "{said}");

            let picture = ImageReader::open(&out).expect("the picture").with_guessed_format().expect("bytes");
            let is_png = name == "p.png";
            assert_eq!(picture.format() == Some(ImageFormat::Png), is_png);
            let picture = picture.decode().expect("a whole picture").into_rgb32f();
            assert_eq!(picture.dimensions(), (20, 10));
            let (corner, centre) = (picture.get_pixel(0, 0)[1], picture.get_pixel(10, 5)[1]);
            assert_eq!(corner, 1.0);
            let expected = if is_png { 188.0 / 255.0 } else { 0.5 };
            assert!((centre - expected).abs() < 0.01, "{centre} in {name}");
        }
    }
}

#[test]
fn rows_of_a_texture_can_be_flipped() {
    let folder = tempfile::tempdir().expect("a folder");
    let (texture, out) = (folder.path().join("t.png"), folder.path().join("p.exr"));
    // White above, black below: as stored, white is at the bottom of the rectangle.
    image::save_buffer(&texture, &[255, 255, 0, 0], 1, 4, ExtendedColorType::L8).expect("a texture");
    for (flip, above) in [(None, 0.0), (Some("--flip-v"), 1.0)] {
        let mut arguments = vec![
            "--device",
            "interp",
            "--scene",
            "rectangle",
            "--size",
            "16x16",
            "--spp",
            "1",
            "--texture",
            text(&texture),
            "--out",
            text(&out),
        ];
        arguments.extend(flip);
        let (code, _, err) = run(&arguments);
        assert_eq!(code, 0, "{err}");
        let picture = image::open(&out).expect("the picture").into_rgb32f();
        assert_eq!([4, 11].map(|row| picture.get_pixel(8, row)[0]), [above, 1.0 - above]);
    }
}

/// A PNG file of 8 by 8 grey pixels.
fn tiny_png() -> Vec<u8> {
    let mut file = Vec::new();
    let encoder = image::codecs::png::PngEncoder::new(&mut file);
    encoder.write_image(&[7; 64], 8, 8, ExtendedColorType::L8).expect("a picture");
    file
}

/// The same file, but 0 pixels wide.
fn without_width(png: &[u8]) -> Vec<u8> {
    let mut file = png.to_vec();
    // Signature, length and name of the header come before the width; a checksum comes after it.
    file[16..20].fill(0);
    let checksum = crc32(&file[12..29]);
    file[29..33].copy_from_slice(&checksum.to_be_bytes());
    file
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0xEDB8_8320 * (crc & 1)))
    })
}

#[test]
fn meshes_go_in_and_pictures_come_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, content: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).expect("a file");
        path
    };
    let corners = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv nan 0 0\nvt 0 0\n";
    let mesh = file("mesh.obj", &format!("{corners}f 1/1 2/1 3/1\nf 1 2 3\nf 1 2 4\nf 1 1 2\nf 1 2 2\n"));
    let (texture, out) = (folder.path().join("t.png"), folder.path().join("p.png"));
    std::fs::write(&texture, tiny_png()).expect("a texture");
    let small = ["--device", "interp", "--scene", "mesh", "--size", "8x8", "--spp", "1", "--out", text(&out)];

    let plain = ["--mesh", text(&mesh), "--up", "z", "--turn", "-30", "--elevation", "45", "--flat"];
    let (code, said, err) = run(&[&small[..], &plain].concat());
    assert_eq!((code, err.as_str()), (0, ""));
    let lines: Vec<&str> = said.lines().collect();
    let [not_finite, degenerate, _] = lines[..] else { panic!("three lines: {said}") };
    assert!(
        not_finite
            .ends_with("mesh.obj: 1 triangles left out: they have a coordinate that is infinite or NaN")
    );
    assert!(degenerate.ends_with("mesh.obj: 2 triangles left out: they have no area"));
    assert_eq!(image::open(&out).expect("the picture").width(), 8);

    let (code, said, err) =
        run(&[&small[..], &["--mesh", text(&mesh), "--texture", text(&texture)]].concat());
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(
        said.contains("mesh.obj: 1 triangles without texture: they have no texture coordinates"),
        "{said}"
    );

    std::fs::remove_file(&out).expect("the picture");
    let bare = file("bare.obj", &format!("{corners}f 1 2 3\n"));
    for (arguments, expected) in [
        (vec!["--mesh", text(&bare), "--texture", text(&texture)], "bare.obj: has no texture coordinates"),
        (vec!["--mesh", text(&file("empty.obj", ""))], "empty.obj: has no faces"),
        (
            vec!["--mesh", text(&file("beyond.obj", &format!("{corners}f 1 2 9")))],
            "line 6: vertex 9 is out of range",
        ),
        (
            vec!["--mesh", text(&file("flat.obj", &format!("{corners}f 1 2 2")))],
            "flat.obj: has no triangle to show",
        ),
        (vec!["--mesh", text(&folder.path().join("missing.obj"))], "missing.obj: No such file"),
        (vec!["--mesh", text(folder.path())], "directory"),
        (vec![], "--mesh <FILE>"),
        (vec!["--mesh", text(&mesh), "--turn", "inf"], "an angle is a number of degrees"),
        (vec!["--mesh", text(&mesh), "--turn", "left"], "an angle is a number of degrees"),
        (vec!["--mesh", text(&mesh), "--elevation", "-1"], "from 0 to 90 degrees"),
        (vec!["--mesh", text(&mesh), "--elevation", "91"], "from 0 to 90 degrees"),
        (vec!["--mesh", text(&mesh), "--up", "w"], "x, y, z"),
    ] {
        fails(&[&small[2..], &arguments].concat(), expected);
    }
    assert!(!out.exists(), "nothing is written");
    fails(&["--scene", "spheres", "--mesh", text(&mesh), "--out", "a.png"], "--mesh is for --scene mesh");
}
