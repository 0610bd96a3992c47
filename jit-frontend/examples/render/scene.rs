//! The scenes, and one sample of what their cameras see.

use jit_frontend::{Vec2, Vec3};

use crate::bitmap::Bitmap;
use crate::camera::Camera;
use crate::number::Number;
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
}

/// A scene and its camera.
pub(crate) struct Scene<R: Number> {
    camera: Camera,
    content: Content<R>,
}

enum Content<R: Number> {
    Rectangle(Rectangle<R>),
    Spheres(Spheres<R>),
}

/// What a path brings back.
pub(crate) struct Sample<R> {
    /// Where it went through the picture, in pixels.
    pub(crate) position: Vec2<R>,
    /// What it found.
    pub(crate) radiance: Vec3<R>,
}

impl<R: Number> Scene<R> {
    /// The scene of that name, for pictures of that many pixels; `table` brings numbers to where they are looked up.
    pub(crate) fn new<E>(
        name: SceneName,
        bitmap: &Bitmap,
        pixels: [u32; 2],
        table: impl Fn(&[f32]) -> Result<R::Table, E>,
    ) -> Result<Scene<R>, E> {
        let texture = Texture::new(table(&bitmap.values)?, bitmap.width, bitmap.height);
        Ok(match name {
            SceneName::Rectangle => Scene {
                camera: Rectangle::<R>::camera(pixels),
                content: Content::Rectangle(Rectangle::new(texture)),
            },
            SceneName::Spheres => Scene {
                camera: Spheres::<R>::camera(pixels),
                content: Content::Spheres(Spheres::new(texture, table(&sphere_table())?)),
            },
        })
    }

    /// Sends a path through a random point of the pixel with that upper left corner.
    pub(crate) fn sample(&self, corner: Vec2<R>, mut random: R::Random) -> Sample<R> {
        let [right, down] = [(); 2].map(|()| R::draw(&mut random));
        let position = corner + Vec2::new(right, down);
        let ray = self.camera.ray(&position);
        let radiance = match &self.content {
            Content::Rectangle(scene) => scene.radiance(&ray, random),
            Content::Spheres(scene) => scene.radiance(ray, random),
        };
        Sample { position, radiance }
    }
}
