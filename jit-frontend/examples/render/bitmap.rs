//! Bitmaps of linear colours: from a file, or made up.

use std::path::Path;

use image::{DynamicImage, ImageReader};

use crate::error::RenderError;
use crate::srgb;

/// Rows of linear RGB colours.
pub(crate) struct Bitmap {
    /// Texels in a row.
    pub(crate) width: u32,
    /// Rows.
    pub(crate) height: u32,
    /// Three numbers for each texel, row by row.
    pub(crate) values: Vec<f32>,
}

/// Texels that 32-bit indices reach, three numbers each.
const MOST_TEXELS: u64 = i32::MAX as u64 / 3;

impl Bitmap {
    /// Reads a PNG, JPEG or EXR file, whatever its name says. Bytes and words are taken for sRGB, floats for linear.
    pub(crate) fn open(path: &Path) -> Result<Bitmap, RenderError> {
        let failed = |why: String| RenderError::Texture { path: path.to_owned(), why };
        let reader = ImageReader::open(path).map_err(|e| failed(e.to_string()))?;
        let reader = reader.with_guessed_format().map_err(|e| failed(e.to_string()))?;
        if reader.format().is_none() {
            return Err(failed("neither a PNG nor a JPEG nor an EXR file".to_owned()));
        }
        let image = reader.decode().map_err(|e| failed(e.to_string()))?;
        let (width, height) = (image.width(), image.height());
        if width == 0 || height == 0 {
            return Err(failed(format!("has no pixels ({width}x{height})")));
        }
        if u64::from(width) * u64::from(height) > MOST_TEXELS {
            return Err(failed(format!("{width}x{height} pixels are too many; {MOST_TEXELS} fit")));
        }
        let linear = matches!(image, DynamicImage::ImageRgb32F(_) | DynamicImage::ImageRgba32F(_));
        let mut values = image.into_rgb32f().into_raw();
        if !linear {
            values.iter_mut().for_each(|value| *value = srgb::to_linear(*value));
        }
        Ok(Bitmap { width, height, values })
    }

    /// Reflectances between 0.2 and 0.9, as random as a hash of the index.
    pub(crate) fn noise(size: u32) -> Bitmap {
        let values = (0..size * size * 3).map(|i| crate::random::uniform(i, 31) * 0.7 + 0.2).collect();
        Bitmap { width: size, height: size, values }
    }

    /// The last row first.
    #[must_use]
    pub(crate) fn flipped(mut self) -> Bitmap {
        let row = self.width as usize * 3;
        self.values = self.values.chunks_exact(row).rev().flatten().copied().collect();
        self
    }
}
