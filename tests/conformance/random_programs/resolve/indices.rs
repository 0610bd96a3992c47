//! Indices: any, different on each lane, or among a lane's own elements.

use jit_core::dtype::{ALL_DTYPES, DType};
use jit_core::op::Op;

use super::super::choices::Choices;
use super::super::program::{Contents, Slot, Step};
use super::Resolver;

impl Resolver {
    /// Any index: of any integer type, mostly within bounds.
    pub(super) fn index(&mut self, c: &mut Choices<'_>, len: u64, width: u64) -> Slot {
        let ints: Vec<Slot> =
            self.candidates(width).into_iter().filter(|&s| self.info(s).dtype.is_int()).collect();
        if c.next(4) == 0 && !ints.is_empty() {
            return *c.of(&ints);
        }
        let any = self.any(c, width);
        let any = self.cast(any, DType::U32);
        if len == 0 {
            return any;
        }
        let bound = self.constant(DType::U32, len);
        self.apply(Op::Rem, DType::U32, vec![any, bound])
    }

    /// An index that differs from lane to lane.
    pub(super) fn distinct_index(&mut self, c: &mut Choices<'_>, width: u64) -> Slot {
        let lane = self.counter(DType::U32, width);
        let small = c.next(9) as u64;
        match c.next(7) {
            0 => lane,
            1 => {
                let by = self.constant(DType::U32, small);
                self.apply(Op::Add, DType::U32, vec![lane, by])
            }
            2 => self.reversed(lane, width),
            3 => {
                let with = self.constant(DType::U32, small);
                self.apply(Op::Xor, DType::U32, vec![lane, with])
            }
            4 => {
                let by = self.constant(DType::U32, 2 * small + 1);
                self.apply(Op::Mul, DType::U32, vec![lane, by])
            }
            5 => {
                let narrow = if width <= 128 { &ALL_DTYPES[1..] } else { &ALL_DTYPES[3..] };
                let types: Vec<DType> = narrow.iter().copied().filter(|d| d.is_int()).collect();
                self.cast(lane, *c.of(&types))
            }
            _ => {
                let out = self.define(DType::U32, width, true);
                self.emit(Step::Data { out, contents: Contents::Permutation(small) });
                out
            }
        }
    }

    /// An index among a lane's own elements.
    pub(super) fn own_index(&mut self, c: &mut Choices<'_>, stride: u64, reversed: bool) -> Slot {
        let width = self.region.expect("an open region");
        let mut lane = self.counter(DType::U32, width);
        if reversed {
            lane = self.reversed(lane, width);
        }
        if stride == 1 {
            return lane;
        }
        let stride = self.constant(DType::U32, stride);
        let any = self.any(c, width);
        let any = self.cast(any, DType::U32);
        let which = self.apply(Op::Rem, DType::U32, vec![any, stride]);
        self.apply(Op::MulAdd, DType::U32, vec![lane, stride, which])
    }

    pub(super) fn reversed(&mut self, lane: Slot, width: u64) -> Slot {
        let last = self.constant(DType::U32, width.saturating_sub(1));
        self.apply(Op::Sub, DType::U32, vec![last, lane])
    }
}
