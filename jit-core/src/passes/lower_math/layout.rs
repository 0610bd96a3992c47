//! Floats as bits: the numbers of the formats, and what is done with them by integer ops.

use super::emit::Expr;
use crate::dtype::DType;

/// The numbers of a float format.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    /// The signed integer of the same size.
    pub(super) int: DType,
    /// Bits of the mantissa that are stored.
    pub(super) mantissa: i64,
    /// The exponent's bias.
    pub(super) bias: i64,
}

impl Layout {
    /// That of f32 or f64.
    pub(super) fn of(dtype: DType) -> Layout {
        match dtype {
            DType::F32 => Layout { int: DType::I32, mantissa: 23, bias: 127 },
            DType::F64 => Layout { int: DType::I64, mantissa: 52, bias: 1023 },
            other => panic!("algorithms are written for f32 and f64, not for {other}"),
        }
    }

    /// 1.5 * 2^mantissa: a number added to it is rounded to an integer, which stands in the low bits of the sum.
    /// Costs an addition each way where a conversion to an integer takes many instructions.
    pub(super) fn shifter(self) -> f64 {
        1.5 * (1i64 << self.mantissa) as f64
    }

    pub(super) fn shifter_bits(self) -> i64 {
        (self.bias + self.mantissa) << self.mantissa | 1 << (self.mantissa - 1)
    }

    /// x^2 for an x below this is at most a quarter of the last bit of 1.
    pub(super) fn negligible(self) -> f64 {
        power_of_two(-(self.mantissa + 3) / 2)
    }

    /// The bits of sqrt(1/2) in this format, as an integer.
    fn sqrt_half_bits(self) -> i64 {
        match self.mantissa {
            23 => i64::from(std::f32::consts::FRAC_1_SQRT_2.to_bits()),
            _ => std::f64::consts::FRAC_1_SQRT_2.to_bits() as i64,
        }
    }

    /// The smallest positive normal number.
    pub(super) fn min_normal(self) -> f64 {
        power_of_two(1 - self.bias)
    }
}

/// 2^n, for n in the normal range of f64.
pub(super) const fn power_of_two(n: i64) -> f64 {
    f64::from_bits(((1023 + n) as u64) << 52)
}

impl<'e> Expr<'e> {
    /// The numbers of its format.
    pub(super) fn layout(self) -> Layout {
        Layout::of(self.dtype())
    }

    /// Its bits as a signed integer.
    pub(super) fn bits(self) -> Expr<'e> {
        self.bitcast(self.layout().int)
    }

    /// The float with these bits.
    pub(super) fn float_of_bits(self) -> Expr<'e> {
        self.bitcast(if self.dtype().size() == 4 { DType::F32 } else { DType::F64 })
    }

    /// For a positive finite number: m and e with `self` = m * 2^e and m in [sqrt(1/2), sqrt(2)), e as a float.
    pub(super) fn split(self) -> (Expr<'e>, Expr<'e>) {
        let layout = self.layout();
        // A denormal number is made normal first, and e begins with what that adds.
        let steps = layout.mantissa + 2;
        let tiny = self.lt(layout.min_normal());
        let normal = tiny.select(self * power_of_two(steps), self);
        let zero = self.emitter().int(layout.int, layout.shifter_bits());
        normal.split_from(tiny.select(layout.shifter_bits() - steps, zero))
    }

    /// Like [`split`](Self::split), for a normal number.
    pub(super) fn split_normal(self) -> (Expr<'e>, Expr<'e>) {
        let layout = self.layout();
        self.split_from(self.emitter().int(layout.int, layout.shifter_bits()))
    }

    /// m and e - s, where `zero` is the bits of the shifter less an integer s: the bits of the shifter plus an
    /// integer are those of the shifter plus that number.
    fn split_from(self, zero: Expr<'e>) -> (Expr<'e>, Expr<'e>) {
        let layout = self.layout();
        let x = self.bits();
        let e = (x - layout.sqrt_half_bits()) >> layout.mantissa;
        let m = (x - (e << layout.mantissa)).float_of_bits();
        (m, (e + zero).float_of_bits() - layout.shifter())
    }
}
