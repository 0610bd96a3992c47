//! The values of each type at which ops are asked: the ends, zero and its neighbours, halves, what rounds.

use jit_core::dtype::DType;

use super::check::Column;
use super::exact::{decode, encode, infinity, nan, sign};

pub(crate) const SIGNED: [DType; 4] = [DType::I8, DType::I16, DType::I32, DType::I64];
pub(crate) const UNSIGNED: [DType; 4] = [DType::U8, DType::U16, DType::U32, DType::U64];
pub(crate) const FLOATS: [DType; 3] = [DType::F16, DType::F32, DType::F64];

/// The eight integer types.
pub(crate) fn integers() -> impl Iterator<Item = DType> {
    SIGNED.into_iter().chain(UNSIGNED)
}

/// The least and the greatest integer of a type.
pub(crate) fn limits(dtype: DType) -> (i128, i128) {
    let bits = dtype.bits();
    if dtype.is_signed() { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

/// The integer that bits stand for.
pub(crate) fn value(dtype: DType, bits: u64) -> i128 {
    let (_, high) = limits(dtype);
    let value = i128::from(bits);
    if value > high { value - (1 << dtype.bits()) } else { value }
}

/// The bits of an integer modulo 2^width.
pub(crate) fn wrapped(dtype: DType, value: i128) -> u64 {
    value as u64 & (u64::MAX >> (64 - dtype.bits()))
}

/// Integers of a type.
pub(crate) fn integer_grid(dtype: DType) -> Vec<u64> {
    let (low, high) = limits(dtype);
    let width = i128::from(dtype.bits());
    let pattern = 0x5a3c_96e1_0f87_d24b;
    let values = [
        low,
        low + 1,
        -width,
        -2,
        -1,
        0,
        1,
        2,
        3,
        7,
        10,
        width - 1,
        width,
        width + 1,
        high / 2 + 1,
        high - 1,
        high,
        pattern,
        !pattern,
    ];
    sorted(values.into_iter().map(|v| wrapped(dtype, v)).collect())
}

/// Floats of a type, a quiet and a signalling NaN with payloads among them.
pub(crate) fn float_grid(dtype: DType) -> Vec<u64> {
    let one = encode(dtype, decode(DType::F64, 1f64.to_bits()));
    let smallest_normal = infinity(dtype) & !(infinity(dtype) << 1);
    let round = [0.1, 0.5, 1.5, 2.5, 3.0, 7.25, 1000.3];
    let mut positive: Vec<u64> =
        round.iter().map(|v: &f64| encode(dtype, decode(DType::F64, v.to_bits()))).collect();
    positive.extend([
        0,
        1,
        2,
        smallest_normal - 1,
        smallest_normal,
        one - 1,
        one,
        one + 1,
        infinity(dtype) - 1,
        infinity(dtype),
        nan(dtype) | 5,
        infinity(dtype) | 3,
    ]);
    sorted(positive.iter().flat_map(|&p| [p, p | sign(dtype)]).collect())
}

/// The grid of any type but bool; for bool both values.
pub(crate) fn grid(dtype: DType) -> Vec<u64> {
    match dtype {
        DType::Bool => vec![0, 1],
        _ if dtype.is_float() => float_grid(dtype),
        _ => integer_grid(dtype),
    }
}

/// Every pair from a grid, as two columns.
pub(crate) fn pairs(dtype: DType, grid: &[u64]) -> [Column; 2] {
    let first = grid.iter().flat_map(|&a| grid.iter().map(move |_| a)).collect();
    let second = grid.iter().flat_map(|_| grid.iter().copied()).collect();
    [Column { dtype, bits: first }, Column { dtype, bits: second }]
}

/// Every triple from a grid, as three columns.
pub(crate) fn triples(dtype: DType, grid: &[u64]) -> [Column; 3] {
    let n = grid.len();
    let at = |stride: usize| (0..n * n * n).map(|i| grid[i / stride % n]).collect();
    [n * n, n, 1].map(|stride| Column { dtype, bits: at(stride) })
}

fn sorted(mut values: Vec<u64>) -> Vec<u64> {
    values.sort_unstable();
    values.dedup();
    values
}
