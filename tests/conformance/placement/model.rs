//! Arrays as plain vectors, and what calls do to them, written without the library's own definitions. All types have
//! 32 bits; floats stay far from overflow, so no NaN arises.

use jit_core::dtype::DType;
use jit_core::op::Op;

/// The elements' bits.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Elements {
    pub(super) dtype: DType,
    pub(super) bits: Vec<u32>,
}

impl Elements {
    pub(super) fn len(&self) -> usize {
        self.bits.len()
    }

    /// The element of a lane; one element is everybody's.
    pub(super) fn at(&self, lane: usize) -> u32 {
        if self.bits.len() == 1 { self.bits[0] } else { self.bits[lane] }
    }

    /// The element at an index; 0 out of bounds.
    pub(super) fn gather(&self, index: u32) -> u32 {
        self.bits.get(index as usize).copied().unwrap_or(0)
    }

    /// Combines a value into an element, or stores it; nothing out of bounds.
    pub(super) fn scatter(&mut self, combine: Option<Op>, index: u32, value: u32) {
        let dtype = self.dtype;
        if let Some(element) = self.bits.get_mut(index as usize) {
            *element = combine.map_or(value, |op| apply(op, dtype, *element, value));
        }
    }
}

/// A number as an element.
pub(super) fn number(dtype: DType, value: i32) -> u32 {
    if dtype == DType::F32 { (value as f32).to_bits() } else { value as u32 }
}

/// `a op b`.
pub(super) fn apply(op: Op, dtype: DType, a: u32, b: u32) -> u32 {
    match dtype {
        DType::F32 => {
            let (x, y) = (f32::from_bits(a), f32::from_bits(b));
            let smaller_first = x.total_cmp(&y).is_le();
            let value = match op {
                Op::Add => x + y,
                Op::Sub => x - y,
                Op::Min => {
                    if smaller_first {
                        x
                    } else {
                        y
                    }
                }
                Op::Max => {
                    if smaller_first {
                        y
                    } else {
                        x
                    }
                }
                other => panic!("{other:?} on floats is not modelled"),
            };
            value.to_bits()
        }
        _ => match op {
            Op::Add => a.wrapping_add(b),
            Op::Sub => a.wrapping_sub(b),
            Op::Mul => a.wrapping_mul(b),
            Op::Xor => a ^ b,
            Op::Min if dtype == DType::I32 => (a as i32).min(b as i32) as u32,
            Op::Max if dtype == DType::I32 => (a as i32).max(b as i32) as u32,
            Op::Min => a.min(b),
            Op::Max => a.max(b),
            other => panic!("{other:?} on integers is not modelled"),
        },
    }
}
