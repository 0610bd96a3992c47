//! Textures: pictures of texels that are read at coordinates between 0 and 1.

use half::f16;

use crate::element::{DType, Element, Float};
use jit_core::error::Error;

use crate::{Array, Vec2, Vec3};

/// What texels are made of: floats, or bytes and 16-bit numbers that stand for 0 to 1.
pub trait Texel: Element + sealed::Sealed {
    /// What a texture of them gives.
    type Value: Float;

    /// What stands for 1.
    #[doc(hidden)]
    const ONE: Self::Value;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! texels {
    ($($ty:ty: $value:ty, $one:expr;)*) => {$(
        impl sealed::Sealed for $ty {}

        impl Texel for $ty {
            type Value = $value;

            const ONE: $value = $one;
        }
    )*};
}

texels! {
    f16: f16, f16::ONE;
    f32: f32, 1.0;
    f64: f64, 1.0;
    u8: f32, 255.0;
    u16: f32, 65_535.0;
}

/// What lies between the centres of texels.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Filter {
    /// The texel that the coordinate lies in.
    Nearest,
    /// Linear interpolation of the texels around, along one axis after the other.
    Linear,
}

/// What lies outside of [0, 1].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Wrap {
    /// The picture again. Infinite coordinates are taken as 0.
    Repeat,
    /// The texel at the edge. Infinite coordinates are outside as others are.
    Clamp,
    /// The picture again, every other time backwards. Infinite coordinates are taken as 0.
    Mirror,
}

/// Texels along up to three axes, the first one innermost but for the channels.
#[derive(Clone, Debug)]
struct Texels<T: Texel> {
    data: Array<T>,
    extents: Vec<usize>,
    channels: usize,
    filter: Filter,
    wrap: Wrap,
}

/// Where a coordinate falls on one axis: two texels, and how far the second is on the way.
struct Site<T: Float> {
    low: Array<i32>,
    /// Absent with [`Filter::Nearest`].
    high: Option<(Array<i32>, Array<T>)>,
}

impl<T: Texel> Texels<T> {
    fn new(
        extents: &[usize],
        channels: usize,
        data: &Array<T>,
        filter: Filter,
        wrap: Wrap,
    ) -> Result<Texels<T>, Error> {
        let elements = extents.iter().try_fold(channels, |product, &n| product.checked_mul(n));
        match elements {
            Some(1..=0x7fff_ffff) => {}
            _ => {
                let message = format!(
                    "a texture of {extents:?} texels of {channels} channels; it must have 1 to 2^31 - 1 elements"
                );
                return Err(Error::Config(message));
            }
        }
        let texels = Texels { data: data.clone(), extents: extents.to_vec(), channels, filter, wrap };
        texels.check(data)?;
        Ok(texels)
    }

    fn check(&self, data: &Array<T>) -> Result<(), Error> {
        let wanted = self.extents.iter().product::<usize>() * self.channels;
        if data.len() == wanted {
            return Ok(());
        }
        let message = format!(
            "a texture of {:?} texels of {} channels takes {wanted} elements, got {}",
            self.extents,
            self.channels,
            data.len()
        );
        Err(Error::Config(message))
    }

    #[track_caller]
    fn eval<U: Float>(&self, coordinates: &[&Array<U>]) -> Vec<Array<T::Value>> {
        let axes = coordinates.iter().zip(&self.extents);
        let sites: Vec<Site<T::Value>> = axes.map(|(at, &extent)| self.site(at, extent)).collect();
        let mut channels = self.along(&sites, None);
        if T::DTYPE != T::Value::DTYPE {
            for channel in &mut channels {
                *channel = &*channel / Array::from(T::ONE);
            }
        }
        channels
    }

    /// The channels at the sites of the axes that are left; `outer` is the number of the line, plane or texel chosen so far.
    #[track_caller]
    fn along(&self, sites: &[Site<T::Value>], outer: Option<&Array<i32>>) -> Vec<Array<T::Value>> {
        let Some((site, rest)) = sites.split_last() else {
            let first = outer.expect("a texture has an axis") * self.channels as i32;
            return (0..self.channels).map(|k| self.data.gather(&first + k as i32).cast()).collect();
        };
        let extent = self.extents[rest.len()] as i32;
        let inner = |at: &Array<i32>| match outer {
            None => at.clone(),
            Some(outer) => outer.mul_add(extent, at),
        };
        let low = self.along(rest, Some(&inner(&site.low)));
        let Some((high, weight)) = &site.high else { return low };
        let high = self.along(rest, Some(&inner(high)));
        low.iter().zip(&high).map(|(low, high)| low.lerp(high, weight)).collect()
    }

    #[track_caller]
    fn site<U: Float>(&self, at: &Array<U>, extent: usize) -> Site<T::Value> {
        let lit = |value: f64| Array::from(U::from_f64(value));
        let (zero, one, count) = (lit(0.0), lit(1.0), lit(extent as f64));
        let last = lit(extent as f64 - 1.0);
        let at = match self.wrap {
            Wrap::Clamp => at.is_nan().select(&zero, at),
            Wrap::Repeat => {
                let at = at.is_finite().select(at, &zero);
                &at - at.floor()
            }
            Wrap::Mirror => {
                let at = at.is_finite().select(at, &zero);
                let at = &at - lit(2.0) * (&at * lit(0.5)).floor();
                at.gt(&one).select(lit(2.0) - &at, &at)
            }
        };
        if self.filter == Filter::Nearest {
            let texel = (at * count).floor().max(&zero).min(&last);
            return Site { low: texel.cast(), high: None };
        }
        let mut at = at.mul_add(&count, lit(-0.5));
        if self.wrap != Wrap::Repeat {
            at = at.max(&zero).min(&last);
        }
        let floor = at.floor();
        let weight = (at - &floor).cast();
        let low = floor.cast::<i32>();
        let high = &low + 1;
        let extent = extent as i32;
        if self.wrap == Wrap::Repeat {
            let low = low.lt(0).select(&low + extent, &low);
            return Site { low, high: Some((high.ge(extent).select(0i32, &high), weight)) };
        }
        Site { low, high: Some((high.min(extent - 1), weight)) }
    }
}

macro_rules! textures {
    ($($name:ident($($extent:ident),*) $at:ty, |$coordinate:ident| [$($axis:expr),*], $doc:literal;)*) => {$(
        #[doc = $doc]
        ///
        /// The centre of texel `i` of `n` lies at `(i + 0.5) / n`. Channels lie next to one another, then texels along the first
        /// axis, then the others. Texels are floats, or `u8` or `u16` that stand for 0 to 1: these stay in memory as they are,
        /// are interpolated as f32, and then divided by 255 or 65,535. Arithmetic on coordinates is that of their own type,
        /// interpolation that of the texels: [`lerp`](Array::lerp) by a weight converted to it. A NaN is taken as 0. May be read
        /// in loops and branches.
        #[derive(Clone, Debug)]
        pub struct $name<T: Texel>(Texels<T>);

        impl<T: Texel> $name<T> {
            /// A texture of that many texels along each axis, of `channels` elements each.
            ///
            /// # Errors
            /// [`Error::Config`] if the number of elements does not fit, is 0, or is 2^31 or more.
            pub fn from_data(
                $($extent: usize,)*
                channels: usize,
                data: &Array<T>,
                filter: Filter,
                wrap: Wrap,
            ) -> Result<$name<T>, Error> {
                Texels::new(&[$($extent),*], channels, data, filter, wrap).map($name)
            }

            /// The channels at coordinates.
            ///
            /// # Panics
            /// If sizes or devices do not fit.
            #[track_caller]
            pub fn eval<U: Float>(&self, $coordinate: &$at) -> Vec<Array<T::Value>> {
                self.0.eval(&[$($axis),*])
            }

            /// [`eval`](Self::eval) where the mask is true, else zeros.
            ///
            /// # Panics
            /// If sizes or devices do not fit.
            #[track_caller]
            pub fn eval_masked<U: Float>(&self, at: &$at, mask: &crate::Mask) -> Vec<Array<T::Value>> {
                let mut channels = self.eval(at);
                for channel in &mut channels {
                    *channel = mask.select(&*channel, T::Value::default());
                }
                channels
            }

            /// Replaces all texels; those read before stay what they were.
            ///
            /// # Errors
            /// [`Error::Config`] for another number of elements.
            pub fn set_data(&mut self, data: &Array<T>) -> Result<(), Error> {
                self.0.check(data)?;
                self.0.data = data.clone();
                Ok(())
            }

            /// The texels.
            pub fn data(&self) -> &Array<T> {
                &self.0.data
            }

            /// The element type of the texels.
            pub fn dtype(&self) -> DType {
                T::DTYPE
            }
        }
    )*};
}

textures! {
    Texture1(width) Array<U>, |u| [u], "A line of texels.";
    Texture2(width, height) Vec2<Array<U>>, |uv| [&uv.x, &uv.y], "A picture of texels.";
    Texture3(width, height, depth) Vec3<Array<U>>, |uvw| [&uvw.x, &uvw.y, &uvw.z], "A volume of texels.";
}
