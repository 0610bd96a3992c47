//! Looking up a bitmap.

use jit_frontend::{Integer, Vec2, Vec3};

use crate::number::Number;

/// A bitmap of linear colours. Texel (i, j) has its centre at ((i + 1/2) / width, (j + 1/2) / height).
pub(crate) struct Texture<R: Number> {
    texels: R::Table,
    width: u32,
    height: u32,
}

impl<R: Number> Texture<R> {
    /// A texture of `width * height` texels of three numbers each, row by row.
    pub(crate) fn new(texels: R::Table, width: u32, height: u32) -> Texture<R> {
        Texture { texels, width, height }
    }

    /// The texel around a position; beyond the edge, the nearest one.
    pub(crate) fn nearest(&self, at: &Vec2<R>) -> Vec3<R> {
        let axis = |t: &R, n: u32| {
            let cell = (t.clone() * R::lit(f64::from(n))).to_int();
            cell.max(R::Int::lit(0)).min(R::Int::lit(i64::from(n) - 1))
        };
        self.texel(axis(&at.x, self.width), axis(&at.y, self.height))
    }

    /// The four texels around a position, interpolated; the bitmap repeats beyond its edges.
    pub(crate) fn bilinear(&self, at: &Vec2<R>) -> Vec3<R> {
        let (x0, x1, s) = neighbours(&at.x, self.width);
        let (y0, y1, t) = neighbours(&at.y, self.height);
        let row = |y: R::Int| self.texel(x0.clone(), y.clone()).lerp(&self.texel(x1.clone(), y), &s);
        row(y0).lerp(&row(y1), &t)
    }

    fn texel(&self, x: R::Int, y: R::Int) -> Vec3<R> {
        let first = (y * R::Int::lit(i64::from(self.width)) + x) * R::Int::lit(3);
        let channel = |c: i64| R::look_up(&self.texels, first.clone() + R::Int::lit(c));
        Vec3::new(channel(0), channel(1), channel(2))
    }
}

/// The texels on both sides of a position along one axis, and how far it is from the first to the second.
fn neighbours<R: Number>(t: &R, n: u32) -> (R::Int, R::Int, R) {
    let inside = t.clone() - t.floor();
    let position = inside * R::lit(f64::from(n)) - R::lit(0.5);
    let below = position.floor();
    let weight = position - below.clone();
    let (zero, one, count) = (R::Int::lit(0), R::Int::lit(1), R::Int::lit(i64::from(n)));
    let first = below.to_int();
    let second = first.clone() + one;
    let second = R::Int::select(&second.ge(count.clone()), zero.clone(), second);
    let first = R::Int::select(&first.lt(zero), first.clone() + count, first);
    (first, second, weight)
}
