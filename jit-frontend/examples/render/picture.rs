//! The finished picture, and the file it goes to.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use image::codecs::openexr::OpenExrEncoder;
use image::codecs::png::PngEncoder;
use image::{ExtendedColorType, ImageEncoder};

use crate::error::RenderError;
use crate::srgb;

/// Linear colours, three numbers for each pixel, row by row from above.
pub(crate) struct Picture {
    /// Pixels in a row.
    pub(crate) width: u32,
    /// Rows.
    pub(crate) height: u32,
    /// Red, green and blue of each pixel.
    pub(crate) values: Vec<f32>,
}

/// How a picture is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// Bytes, sRGB.
    Png,
    /// Floats, linear.
    Exr,
}

/// The name of a file that a picture can be written to.
#[derive(Clone, Debug)]
pub(crate) struct OutputName {
    path: PathBuf,
    format: Format,
}

/// A file that is written beside its final name, which it gets once it is complete. Opened before the work begins, so
/// that no finished picture is lost to a folder that cannot be written.
pub(crate) struct Output {
    name: OutputName,
    file: tempfile::NamedTempFile,
}

impl std::str::FromStr for OutputName {
    type Err = String;

    /// A path that ends in `.png` or `.exr`.
    fn from_str(text: &str) -> Result<OutputName, String> {
        let path = PathBuf::from(text);
        let extension = path.extension().map(|e| e.to_string_lossy().to_lowercase());
        let format = match extension.as_deref() {
            Some("png") => Format::Png,
            Some("exr") => Format::Exr,
            _ => return Err("the name must end in .png or .exr".to_owned()),
        };
        Ok(OutputName { path, format })
    }
}

impl Output {
    /// Opens the file.
    pub(crate) fn open(name: OutputName) -> Result<Output, RenderError> {
        let failed = |why: String| RenderError::Output { path: name.path.clone(), why };
        if name.path.is_dir() {
            return Err(failed("is a folder".to_owned()));
        }
        let folder = match name.path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let mut builder = tempfile::Builder::new();
        builder.prefix(".render-");
        // Temporary files are private by default; a picture is as open as the user's mask has it.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let file = builder.tempfile_in(folder).map_err(|e| failed(e.to_string()))?;
        Ok(Output { name, file })
    }

    /// Writes the picture.
    pub(crate) fn write(self, picture: &Picture) -> Result<(), RenderError> {
        let Output { name: OutputName { path, format }, file } = self;
        let failed = |why: String| RenderError::Output { path: path.clone(), why };
        encode(picture, format, file.as_file()).map_err(&failed)?;
        file.persist(&path).map_err(|e| failed(e.error.to_string()))?;
        Ok(())
    }
}

fn encode(picture: &Picture, format: Format, file: &File) -> Result<(), String> {
    let Picture { width, height, values } = picture;
    let mut writer = BufWriter::new(file);
    let written = match format {
        Format::Png => {
            let bytes: Vec<u8> = values.iter().map(|&light| srgb::to_byte(light)).collect();
            PngEncoder::new(&mut writer).write_image(&bytes, *width, *height, ExtendedColorType::Rgb8)
        }
        Format::Exr => {
            let bytes: Vec<u8> = values.iter().flat_map(|light| light.to_ne_bytes()).collect();
            let mut seekable = std::io::Cursor::new(Vec::new());
            OpenExrEncoder::new(&mut seekable)
                .write_image(&bytes, *width, *height, ExtendedColorType::Rgb32F)
                .and_then(|()| Ok(writer.write_all(seekable.get_ref())?))
        }
    };
    written.map_err(|e| e.to_string())?;
    writer.flush().map_err(|e| e.to_string())
}
