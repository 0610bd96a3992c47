//! Elements in other places: sorted, selected, reversed, repeated, joined. Lazy, but for [`compress`](Array::compress).

use std::borrow::Borrow;
use std::ops::{Bound, RangeBounds};

use jit_core::dtype::DType;
use jit_core::error::Error;
use jit_core::trace::Var;

use crate::element::{Element, Int, Num};
use crate::{Array, Device, Mask};

/// # Panics
/// Each panics at the caller's line on a value that each lane of an open loop or branch has for itself.
impl<T: Element> Array<T> {
    /// The elements in ascending order: false before true, -0 before +0, NaN last.
    #[track_caller]
    pub fn sort(&self) -> Array<T> {
        Array::from_var(self.var.sort())
    }

    /// The indices that put the elements in that order: `a.gather(&a.argsort())` is sorted. Equal elements, and all NaN, keep
    /// their order.
    ///
    /// # Panics
    /// For 2^32 elements and more; use [`argsort_u64`](Self::argsort_u64).
    #[track_caller]
    pub fn argsort(&self) -> Array<u32> {
        fits_u32("argsort", &self.var);
        Array::from_var(self.var.argsort(DType::U32))
    }

    /// [`argsort`](Self::argsort) with 64-bit indices.
    #[track_caller]
    pub fn argsort_u64(&self) -> Array<u64> {
        Array::from_var(self.var.argsort(DType::U64))
    }

    /// The elements from last to first.
    #[track_caller]
    pub fn reverse(&self) -> Array<T> {
        let n = self.len();
        if n <= 1 {
            return self.clone();
        }
        self.rearranged(n, |lane| (n - 1) as u64 - lane, |lane| (n - 1) as u32 - lane)
    }

    /// All elements `n` times: 0 1 2 0 1 2.
    ///
    /// # Panics
    /// On a literal that has no device, unless `n` is 1.
    #[track_caller]
    pub fn tile(&self, n: usize) -> Array<T> {
        let len = self.len();
        if n == 1 {
            return self.clone();
        }
        let total = product("tile", len, n);
        // An index of no elements is 0 and out of bounds, but there is no lane to read it.
        let period = len.max(1);
        self.rearranged(total, |lane| lane % period as u64, |lane| lane % period as u32)
    }

    /// Each element `n` times: 0 0 1 1 2 2.
    ///
    /// # Panics
    /// On a literal that has no device, unless `n` is 1.
    #[track_caller]
    pub fn repeat(&self, n: usize) -> Array<T> {
        if n == 1 {
            return self.clone();
        }
        let total = product("repeat", self.len(), n);
        let times = n.max(1);
        self.rearranged(total, |lane| lane / times as u64, |lane| lane / times as u32)
    }

    /// The elements of a range of positions.
    ///
    /// # Panics
    /// If the range ends before it begins or after the array does.
    #[track_caller]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Array<T> {
        let len = self.len();
        let start = match range.start_bound() {
            Bound::Included(&start) => start,
            Bound::Excluded(&before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&last) => last.saturating_add(1),
            Bound::Excluded(&end) => end,
            Bound::Unbounded => len,
        };
        assert!(
            start <= end && end <= len,
            "`slice` of {start}..{end} from {len} elements; a range lies within 0..{len}"
        );
        if (start, end) == (0, len) {
            return self.clone();
        }
        self.rearranged(end - start, |lane| lane + start as u64, |lane| lane + start as u32)
    }

    /// The elements of all parts, one part after the other.
    ///
    /// # Panics
    /// For no parts, or parts none of which has a device.
    #[track_caller]
    pub fn concat(parts: &[impl Borrow<Array<T>>]) -> Array<T> {
        let parts: Vec<&Array<T>> = parts.iter().map(Borrow::borrow).collect();
        if let [only] = parts[..] {
            return only.clone();
        }
        let device = parts.iter().find_map(|part| part.device());
        let Some(device) = device else {
            panic!(
                "`concat` of {} parts that have no device; make one with `Array::full(.., &device)`",
                parts.len()
            );
        };
        let total = parts.iter().try_fold(0usize, |sum, part| sum.checked_add(part.len()));
        let total = total.expect("arrays in memory together have fewer than 2^64 elements");
        let mut joined = Array::zeros(total, &device);
        let mut start = 0;
        for part in parts {
            let len = part.len();
            if len == 1 {
                joined.scatter(part, start as u64);
            } else if len > 0 && u32::try_from(total).is_ok() {
                joined.scatter(part, Array::<u32>::arange(len, &device) + start as u32);
            } else if len > 0 {
                joined.scatter(part, Array::<u64>::arange(len, &device) + start as u64);
            }
            start += len;
        }
        joined
    }

    /// `total` elements, each the one at what an index of its lane comes to.
    #[track_caller]
    fn rearranged(
        &self,
        total: usize,
        wide: impl FnOnce(Array<u64>) -> Array<u64>,
        narrow: impl FnOnce(Array<u32>) -> Array<u32>,
    ) -> Array<T> {
        let Some(device) = self.device() else {
            panic!(
                "a literal that has no device is one element; make {total} with `Array::full(.., &device)`"
            );
        };
        if let Some(bits) = self.var.literal_bits().filter(|_| self.len() == 1) {
            return Array::full(T::from_bits(bits), total, &device);
        }
        if u32::try_from(total.max(self.len())).is_ok() {
            self.gather(narrow(Array::arange(total, &device)))
        } else {
            self.gather(wide(Array::arange(total, &device)))
        }
    }
}

impl Mask {
    /// The indices of what is true, ascending. Evaluates the mask and waits for their number.
    ///
    /// # Errors
    /// What evaluating runs into; [`Error::HostSyncForbidden`].
    ///
    /// # Panics
    /// For 2^32 elements and more, use [`compress_u64`](Self::compress_u64); inside the closure of a loop or branch.
    #[track_caller]
    pub fn compress(&self) -> Result<Array<u32>, Error> {
        fits_u32("compress", &self.var);
        Ok(Array::from_var(self.compressed(DType::U32)?))
    }

    /// [`compress`](Self::compress) under its other name.
    ///
    /// # Errors
    /// As [`compress`](Self::compress).
    ///
    /// # Panics
    /// As [`compress`](Self::compress).
    #[track_caller]
    pub fn nonzero(&self) -> Result<Array<u32>, Error> {
        self.compress()
    }

    /// [`compress`](Self::compress) with 64-bit indices.
    ///
    /// # Errors
    /// As [`compress`](Self::compress).
    ///
    /// # Panics
    /// Inside the closure of a loop or branch.
    #[track_caller]
    pub fn compress_u64(&self) -> Result<Array<u64>, Error> {
        Ok(Array::from_var(self.compressed(DType::U64)?))
    }

    /// The indices of what is true, ascending, then zeros, in as many elements as the mask has; and how many are true. Waits
    /// for nothing.
    ///
    /// # Panics
    /// For 2^32 elements and more; on a value that each lane of an open loop or branch has for itself.
    #[track_caller]
    pub fn compress_padded(&self) -> (Array<u32>, Array<u32>) {
        fits_u32("compress_padded", &self.var);
        (Array::from_var(self.var.compress(DType::U32, None)), self.cast::<u32>().sum())
    }

    #[track_caller]
    fn compressed(&self, index: DType) -> Result<Var, Error> {
        let device = match self.device() {
            Some(device) => device,
            None => Device::from_env()?,
        };
        let mask = Mask::from_var(self.var.bind(device.core()));
        // With its number, so that what makes the mask runs once.
        let count = mask.cast::<u64>().sum();
        crate::eval(&(mask.clone(), count.clone()))?;
        Ok(mask.var.compress(index, Some(count.item()?)))
    }
}

impl<T: Int + Num> Array<T> {
    /// How often each of the numbers below `bins` occurs; others, negative ones too, are not counted.
    ///
    /// # Panics
    /// On a literal that has no device, and on a value that each lane of an open loop or branch has for itself.
    #[track_caller]
    pub fn histogram(&self, bins: usize) -> Array<u32> {
        let Some(device) = self.device() else {
            panic!(
                "`histogram` of a literal that has no device; make the array with `Array::full(.., &device)`"
            );
        };
        let mut counts = Array::zeros(bins, &device);
        if device.core().options().checked {
            // What is not counted is no mistake to report. A negative number, read as unsigned, is past any length.
            let counted = self.cast::<u64>().lt(Array::<u64>::from_var(counts.as_var().lane_count()));
            counts.scatter_add_masked(1, self, counted);
        } else {
            counts.scatter_add(1, self);
        }
        counts
    }
}

#[track_caller]
fn fits_u32(op: &str, var: &Var) {
    let n = var.size();
    assert!(
        n < 1 << 32,
        "`{op}` of {n} elements: indices of type u32 end at 2^32; use `{}_u64`",
        op.trim_end_matches("_padded")
    );
}

#[track_caller]
fn product(op: &str, len: usize, n: usize) -> usize {
    match len.checked_mul(n) {
        Some(total) => total,
        None => panic!("`{op}`: {len} elements {n} times are more than there can be"),
    }
}
