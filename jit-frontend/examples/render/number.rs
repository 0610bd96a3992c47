//! [`Number`]: what the renderer computes with.

use jit_frontend::{Array, Pcg32, Real, Traverse, Vec3};

use crate::random::ScalarPcg32;

/// The number of one path, `f32`, or those of many paths at once, `Array<f32>`, with what rendering needs beside
/// arithmetic. Everything between a pixel and its radiance is written once for both.
pub(crate) trait Number: Real {
    /// Numbers to look up by index.
    type Table: Clone;

    /// A source of random numbers.
    type Random: Clone + Traverse;

    /// The number at an index of the table, 0 outside of it.
    fn look_up(table: &Self::Table, index: Self::Int) -> Self;

    /// The whole number whose bits the table has at an index, 0 outside of it.
    fn look_up_int(table: &Self::Table, index: Self::Int) -> Self::Int;

    /// A random number in [0, 1): a multiple of 2^-23.
    fn draw(random: &mut Self::Random) -> Self;
}

impl Number for Array<f32> {
    type Table = Array<f32>;
    type Random = Pcg32;

    fn look_up(table: &Array<f32>, index: Array<i32>) -> Array<f32> {
        table.gather(index)
    }

    fn look_up_int(table: &Array<f32>, index: Array<i32>) -> Array<i32> {
        table.gather(index).bitcast()
    }

    fn draw(random: &mut Pcg32) -> Array<f32> {
        (random.next_u32() >> 9).cast::<f32>() * 2.0f32.powi(-23)
    }
}

impl Number for f32 {
    type Table = Vec<f32>;
    type Random = ScalarPcg32;

    fn look_up(table: &Vec<f32>, index: i32) -> f32 {
        usize::try_from(index).ok().and_then(|index| table.get(index)).copied().unwrap_or(0.0)
    }

    fn look_up_int(table: &Vec<f32>, index: i32) -> i32 {
        f32::look_up(table, index).to_bits() as i32
    }

    fn draw(random: &mut ScalarPcg32) -> f32 {
        (random.next_u32() >> 9) as f32 * 2.0f32.powi(-23)
    }
}

/// A vector of literals.
pub(crate) fn lit3<R: Real>(values: [f64; 3]) -> Vec3<R> {
    Vec3::from(values).map(R::lit)
}
