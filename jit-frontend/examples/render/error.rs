//! What can go wrong between the command line and the picture.

use std::path::PathBuf;

/// A failure that ends the program, in words for its user.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RenderError {
    /// A mesh for a scene that has none.
    #[error("--mesh is for --scene mesh")]
    MeshUnused,
    /// A texture cannot be used.
    #[error("texture {}: {why}", path.display())]
    Texture {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A mesh cannot be used.
    #[error("mesh {}: {why}", path.display())]
    Mesh {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The picture cannot be written.
    #[error("output {}: {why}", path.display())]
    Output {
        /// The file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// More samples than there are numbers for.
    #[error("{width}x{height} pixels with {spp} samples each are 2^32 paths or more; take fewer")]
    TooManyPaths {
        /// Pixels in a row.
        width: u32,
        /// Rows.
        height: u32,
        /// Samples for each pixel.
        spp: u32,
    },
    /// There is no such device, or it failed.
    #[error(transparent)]
    Device(#[from] jit_frontend::Error),
}
