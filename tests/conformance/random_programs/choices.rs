//! Numbers to choose by, and the values that ops treat specially.

use jit_core::dtype::DType;
use jit_core::op::scalar;

/// A list of numbers, each used for one choice; past its end they are used again in another guise. Zeros always choose
/// the first of what there is.
pub(crate) struct Choices<'a> {
    numbers: &'a [u16],
    at: usize,
}

impl<'a> Choices<'a> {
    pub(crate) fn new(numbers: &'a [u16]) -> Self {
        Choices { numbers, at: 0 }
    }

    /// A number below `n`.
    pub(crate) fn next(&mut self, n: usize) -> usize {
        let round = (self.at / self.numbers.len()) as u32;
        let number = u32::from(self.numbers[self.at % self.numbers.len()]);
        self.at += 1;
        let mixed = number.wrapping_mul(0x9e37_79b1_u32.wrapping_mul(2 * round + 1));
        (mixed >> 15) as usize % n
    }

    /// One of these.
    pub(crate) fn of<'b, T>(&mut self, list: &'b [T]) -> &'b T {
        &list[self.next(list.len())]
    }
}

/// The bits of a value that ops may treat specially, or of any other.
pub(crate) fn special(c: &mut Choices<'_>, dtype: DType) -> u64 {
    if dtype == DType::Bool {
        return c.next(2) as u64;
    }
    let sign = 1 << (dtype.bits() - 1);
    let any =
        |c: &mut Choices<'_>| (c.next(1 << 16) as u64).wrapping_mul(0x0001_0001_0001_0001) & dtype.mask();
    if dtype.is_float() {
        // Halfway between two f16 but for a bit that f32 has no room for.
        let near_tie = 1.0 + f64::from_bits((1023 - 11) << 52) + f64::from_bits((1023 - 40) << 52);
        let (zero, infinity) = (0.0, f64::INFINITY);
        let values =
            [zero, 1.0, -1.0, 0.5, 2.0, -0.0, near_tie, zero, infinity, -infinity, f64::NAN, 0.1, near_tie];
        return match c.next(16) {
            13 => 1,
            14 => scalar::cast(DType::F64, dtype, (-7e9f64).to_bits()),
            15 => any(c),
            i => scalar::cast(DType::F64, dtype, values[i].to_bits()),
        };
    }
    let values = [0, 1, 2, dtype.mask(), 3, sign, sign - 1, 4, 5, 7, u64::from(dtype.bits()), 10, 100, 64];
    match c.next(16) {
        i @ 0..14 => values[i] & dtype.mask(),
        _ => any(c),
    }
}
