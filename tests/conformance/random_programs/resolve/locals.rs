//! Local arrays: made, read, written, and carried through regions.

use jit_core::dtype::ALL_DTYPES;

use super::super::choices::Choices;
use super::super::program::{Slot, Step};
use super::Resolver;

impl Resolver {
    pub(super) fn local_read(&mut self, c: &mut Choices<'_>) {
        let width = self.width(c);
        let array = self.local(c, width);
        let (dtype, len) = (self.info(array).dtype, self.len(array));
        let (index, mask) = (self.index(c, u64::from(len), width), self.mask(c, width));
        let out = self.define_like(dtype, !dtype.is_float(), &[Some(array), Some(index), mask]);
        self.emit(Step::LocalRead { out, array, index, mask });
    }

    pub(super) fn local_write(&mut self, c: &mut Choices<'_>) {
        let width = self.width(c);
        let array = self.local(c, width);
        let (dtype, len) = (self.info(array).dtype, self.len(array));
        let value = self.operand(c, dtype, width);
        let (index, mask) = (self.index(c, u64::from(len), width), self.mask(c, width));
        let size = self.joint_size(&[Some(array), Some(value), Some(index), mask]);
        let out = self.define_local(array, size);
        self.emit(Step::LocalWrite { out, array, value, index, mask });
        // Of the version before, or the one after it.
        let read = *c.of(&[None, Some(array), Some(array), Some(out)]);
        if let Some(array) = read {
            let out = self.define_like(dtype, !dtype.is_float(), &[Some(array), Some(index)]);
            self.emit(Step::LocalRead { out, array, index, mask: None });
        }
    }

    /// A local array that fits, often a recent one, else zeros.
    fn local(&mut self, c: &mut Choices<'_>, width: u64) -> Slot {
        let fits = |&s: &Slot| self.info(s).size == 1 || self.info(s).size == width;
        let fitting: Vec<Slot> = self.locals.iter().copied().filter(fits).collect();
        if !fitting.is_empty() && c.next(6) > 0 {
            return Self::recent(c, &fitting);
        }
        let (dtype, len) = (*c.of(&ALL_DTYPES), *c.of(&[4, 1, 3, 7, 0]));
        let out = self.new_slot(dtype, 1, true, Some(len));
        self.locals.push(out);
        self.emit(Step::LocalZeros { out });
        out
    }

    /// Local arrays for a region to begin with.
    pub(super) fn some_locals(&mut self, c: &mut Choices<'_>, width: u64) -> Vec<Slot> {
        (0..c.next(4).saturating_sub(1)).map(|_| self.local(c, width)).collect()
    }

    /// A local array of the same kind.
    pub(super) fn local_like(&mut self, c: &mut Choices<'_>, like: Slot, width: u64) -> Slot {
        let kind = |s: Slot| (self.info(s).dtype, self.info(s).local);
        let fits = |s: &Slot| kind(*s) == kind(like) && [1, width].contains(&self.info(*s).size);
        let fitting: Vec<Slot> = self.locals.iter().copied().filter(fits).collect();
        if fitting.is_empty() {
            let (dtype, local) = kind(like);
            let out = self.new_slot(dtype, 1, true, local);
            self.emit(Step::LocalZeros { out });
            return out;
        }
        Self::recent(c, &fitting)
    }

    /// A new local array of the same kind.
    pub(super) fn define_local(&mut self, like: Slot, size: u64) -> Slot {
        let dtype = self.info(like).dtype;
        let out = self.new_slot(dtype, size, !dtype.is_float(), self.info(like).local);
        self.locals.push(out);
        out
    }

    pub(super) fn define_locals(&mut self, like: &[Slot], size: u64) -> Vec<Slot> {
        like.iter().map(|&like| self.define_local(like, size)).collect()
    }

    fn len(&self, array: Slot) -> u32 {
        self.info(array).local.expect("a local array")
    }
}
