//! The values at which every op is asked: the grid of the type, powers of two around the ends of other types, some
//! without a pattern.

use jit_core::dtype::DType;

use crate::semantics::check::Column;
use crate::semantics::exact::{self, Finite, Number, encode};
use crate::semantics::grid::{grid, limits, wrapped};

/// Where types end: their widths less one, and the bits that floats keep.
const POWERS: [i32; 10] = [7, 8, 11, 15, 16, 24, 31, 32, 53, 63];

/// All of them.
pub(super) fn all(dtype: DType) -> Vec<u64> {
    let mut values = grid(dtype);
    if dtype.is_float() {
        let powers = POWERS.into_iter().flat_map(|p| [p, -p]).map(|p| power(dtype, p));
        values.extend(powers.flat_map(|v| [v, v | exact::sign(dtype)]));
    } else if dtype != DType::Bool {
        let inside = POWERS.into_iter().filter(|&p| p < dtype.bits() as i32);
        values.extend(inside.flat_map(|p| [-1, 0, 1].map(|d| wrapped(dtype, (1i128 << p) + d))));
    }
    values.extend((0..4).map(|k| random(k) & dtype.mask()));
    values.sort_unstable();
    values.dedup();
    values
}

/// Those that stand as literals beside all others, and in threes.
pub(super) fn few(dtype: DType) -> Vec<u64> {
    if dtype == DType::Bool {
        return vec![0, 1];
    }
    if !dtype.is_float() {
        let (low, high) = limits(dtype);
        let width = i128::from(dtype.bits());
        let mut values = [0, 1, -1, 2, 3, width - 1, width, low, high].map(|v| wrapped(dtype, v)).to_vec();
        values.push(random(5) & dtype.mask());
        values.sort_unstable();
        values.dedup();
        return values;
    }
    let (sign, infinity) = (exact::sign(dtype), exact::infinity(dtype));
    let smallest_normal = infinity & !(infinity << 1);
    let one = encode(dtype, exact::integer(1));
    vec![
        0,
        sign,
        one,
        one | sign,
        power(dtype, -1),
        encode(dtype, exact::integer(3)),
        1,
        (smallest_normal - 1) | sign,
        infinity - 1,
        infinity,
        infinity | sign,
        exact::nan(dtype) | 5,
    ]
}

/// Every row of one value of each set, as columns.
pub(super) fn product(sets: &[(DType, Vec<u64>)]) -> Vec<Column> {
    let rows: usize = sets.iter().map(|(_, values)| values.len()).product();
    let mut stride = rows;
    let column = |(dtype, values): &(DType, Vec<u64>)| {
        stride /= values.len();
        Column { dtype: *dtype, bits: (0..rows).map(|row| values[row / stride % values.len()]).collect() }
    };
    sets.iter().map(column).collect()
}

fn power(dtype: DType, exponent: i32) -> u64 {
    encode(dtype, Number::Finite(Finite { negative: false, mantissa: 1, exponent, inexact: false }))
}

/// Steele, Lea, Flood: SplitMix64.
fn random(k: u64) -> u64 {
    let z = (k + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
