//! The scenes, and one sample of what their cameras see.

use jit_frontend::{Vec2, Vec3};

use crate::bitmap::Bitmap;
use crate::camera::Camera;
use crate::cornell::{Cornell, Lighting};
use crate::mesh::{Mesh, MeshTables};
use crate::number::Number;
use crate::path;
use crate::rectangle::Rectangle;
use crate::spheres::{Spheres, sphere_table};
use crate::texture::Texture;

/// Which scene.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum SceneName {
    /// A textured rectangle in a white room; its exact picture is known.
    Rectangle,
    /// Eight spheres in a box, path traced.
    Spheres,
    /// The Cornell box, path traced.
    Cornell,
    /// A model from a file on the ground under the sky, path traced.
    Mesh,
}

/// What there is to render.
pub(crate) enum Subject {
    Rectangle(Bitmap),
    Spheres(Bitmap),
    Cornell(Lighting),
    Mesh {
        model: MeshTables,
        texture: Option<Bitmap>,
        /// Degrees from which the camera looks down.
        elevation: f64,
    },
}

impl SceneName {
    /// Width and height in pixels of its picture, unless told otherwise.
    pub(crate) fn size(self) -> [u32; 2] {
        match self {
            SceneName::Rectangle | SceneName::Spheres | SceneName::Mesh => [512, 512],
            SceneName::Cornell => [256, 256],
        }
    }
}

/// A scene and its camera.
pub(crate) struct Scene<R: Number> {
    camera: Camera,
    content: Content<R>,
}

enum Content<R: Number> {
    Rectangle(Rectangle<R>),
    Spheres(Spheres<R>),
    Cornell(Cornell),
    Mesh(Mesh<R>),
}

/// What a path brings back.
pub(crate) struct Sample<R> {
    /// Where it went through the picture, in pixels.
    pub(crate) position: Vec2<R>,
    /// What it found.
    pub(crate) radiance: Vec3<R>,
}

impl<R: Number> Scene<R> {
    /// The scene, for pictures of that many pixels; `table` brings numbers to where they are looked up.
    pub(crate) fn new<E>(
        subject: &Subject,
        pixels: [u32; 2],
        table: impl Fn(&[f32]) -> Result<R::Table, E>,
    ) -> Result<Scene<R>, E> {
        let textured =
            |bitmap: &Bitmap| Ok(Texture::new(table(&bitmap.values)?, bitmap.width, bitmap.height));
        Ok(match subject {
            Subject::Rectangle(bitmap) => Scene {
                camera: Rectangle::<R>::camera(pixels),
                content: Content::Rectangle(Rectangle::new(textured(bitmap)?)),
            },
            Subject::Spheres(bitmap) => Scene {
                camera: Spheres::<R>::camera(pixels),
                content: Content::Spheres(Spheres::new(textured(bitmap)?, table(&sphere_table())?)),
            },
            Subject::Cornell(lighting) => {
                Scene { camera: Cornell::camera(pixels), content: Content::Cornell(Cornell::new(*lighting)) }
            }
            Subject::Mesh { model, texture, elevation } => {
                let texture = texture.as_ref().map(textured).transpose()?;
                Scene {
                    camera: Mesh::<R>::camera(*elevation, pixels),
                    content: Content::Mesh(Mesh::new(model, texture, &table)?),
                }
            }
        })
    }

    /// Sends a path through a random point of the pixel with that upper left corner.
    pub(crate) fn sample(&self, corner: Vec2<R>, mut random: R::Random) -> Sample<R> {
        let [right, down] = [(); 2].map(|()| R::draw(&mut random));
        let position = corner + Vec2::new(right, down);
        let ray = self.camera.ray(&position);
        let radiance = match &self.content {
            Content::Rectangle(scene) => scene.radiance(&ray, random),
            Content::Spheres(scene) => path::radiance(scene, ray, random),
            Content::Cornell(scene) => path::radiance(scene, ray, random),
            Content::Mesh(scene) => path::radiance(scene, ray, random),
        };
        Sample { position, radiance }
    }
}
