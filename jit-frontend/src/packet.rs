//! Packets: several neighbouring elements at one index, as the rows of a table.
//!
//! Element `k` of packet `i` of `N` elements is element `i * N + k`. A packet that does not lie within the array as a whole
//! reads zeros and writes nothing.

use jit_core::op::Op;
use jit_core::trace::Var;

use crate::element::{DType, Element, Int, Num};
use crate::operand::Operand;
use crate::{Array, Buffer};

/// Where the elements of packets are: the index of each first element, and which packets are there.
struct Places {
    first: Var,
    mask: Var,
}

impl Places {
    /// `lanes` is the number of elements there are, as a value and as a number.
    #[track_caller]
    fn new(size: usize, index: &Var, lanes: (&Var, u64), mask: Option<&Var>) -> Places {
        assert!(size > 0, "a packet has at least one element");
        // Where 32 bits hold every index they take half the instructions. A negative index, read as unsigned, is past any.
        let narrow = index.dtype().bits() <= 32 && lanes.1 <= i32::MAX as u64;
        let dtype = if narrow { DType::U32 } else { DType::U64 };
        let index = Var::apply(Op::Cast, dtype, &[index]);
        let size = Var::literal(dtype, size as u64);
        let packets = Var::apply(Op::Div, dtype, &[&Var::apply(Op::Cast, dtype, &[lanes.0]), &size]);
        let within = Var::apply(Op::Lt, DType::Bool, &[&index, &packets]);
        let mask = match mask {
            None => within,
            Some(mask) => Var::apply(Op::And, DType::Bool, &[&within, mask]),
        };
        Places { first: Var::apply(Op::Mul, dtype, &[&index, &size]), mask }
    }

    #[track_caller]
    fn element(&self, k: usize) -> Var {
        let dtype = self.first.dtype();
        Var::apply(Op::Add, dtype, &[&self.first, &Var::literal(dtype, k as u64)])
    }
}

impl<T: Element> Array<T> {
    /// The packets of `N` elements at these indices, 0 (false) where out of bounds; result `k` holds their elements `k`.
    ///
    /// # Panics
    /// As [`gather`](Self::gather), or if `N` is 0.
    #[track_caller]
    pub fn gather_packet<const N: usize, I: Int>(&self, index: impl Operand<I>) -> [Array<T>; N] {
        let places = Places::new(N, &index.operand(), (&self.as_var().lane_count(), self.len() as u64), None);
        std::array::from_fn(|k| Array::from_var(self.as_var().gather(&places.element(k), Some(&places.mask))))
    }

    /// [`gather_packet`](Self::gather_packet) where the mask is true, else 0 (false).
    ///
    /// # Panics
    /// As [`gather_packet`](Self::gather_packet).
    #[track_caller]
    pub fn gather_packet_masked<const N: usize, I: Int>(
        &self,
        index: impl Operand<I>,
        mask: impl Operand<bool>,
    ) -> [Array<T>; N] {
        let places = Places::new(
            N,
            &index.operand(),
            (&self.as_var().lane_count(), self.len() as u64),
            Some(&mask.operand()),
        );
        std::array::from_fn(|k| Array::from_var(self.as_var().gather(&places.element(k), Some(&places.mask))))
    }

    /// Stores packets at indices; values `k` are their elements `k`. As [`scatter`](Self::scatter) for each element.
    ///
    /// # Panics
    /// As [`scatter`](Self::scatter), or if `N` is 0.
    #[track_caller]
    pub fn scatter_packet<const N: usize, I: Int>(&mut self, values: &[Array<T>; N], index: impl Operand<I>) {
        let places = Places::new(N, &index.operand(), (&self.as_var().lane_count(), self.len() as u64), None);
        for (k, value) in values.iter().enumerate() {
            self.var.scatter(Op::Scatter, value.as_var(), &places.element(k), Some(&places.mask));
        }
    }

    /// [`scatter_packet`](Self::scatter_packet) where the mask is true.
    ///
    /// # Panics
    /// As [`scatter_packet`](Self::scatter_packet).
    #[track_caller]
    pub fn scatter_packet_masked<const N: usize, I: Int>(
        &mut self,
        values: &[Array<T>; N],
        index: impl Operand<I>,
        mask: impl Operand<bool>,
    ) {
        let lanes = self.as_var().lane_count();
        let lanes = (&lanes, self.len() as u64);
        let places = Places::new(N, &index.operand(), lanes, Some(&mask.operand()));
        for (k, value) in values.iter().enumerate() {
            self.var.scatter(Op::Scatter, value.as_var(), &places.element(k), Some(&places.mask));
        }
    }
}

impl<T: Num> Array<T> {
    /// [`scatter_add_packet`](Self::scatter_add_packet) where the mask is true.
    ///
    /// # Panics
    /// As [`scatter_packet`](Self::scatter_packet).
    #[track_caller]
    pub fn scatter_add_packet_masked<const N: usize, I: Int>(
        &mut self,
        values: &[Array<T>; N],
        index: impl Operand<I>,
        mask: impl Operand<bool>,
    ) {
        let lanes = self.as_var().lane_count();
        let lanes = (&lanes, self.len() as u64);
        let places = Places::new(N, &index.operand(), lanes, Some(&mask.operand()));
        for (k, value) in values.iter().enumerate() {
            self.var.scatter(Op::ScatterAdd, value.as_var(), &places.element(k), Some(&places.mask));
        }
    }

    /// Adds packets to those at indices.
    ///
    /// # Panics
    /// As [`scatter_packet`](Self::scatter_packet).
    #[track_caller]
    pub fn scatter_add_packet<const N: usize, I: Int>(
        &mut self,
        values: &[Array<T>; N],
        index: impl Operand<I>,
    ) {
        let places = Places::new(N, &index.operand(), (&self.as_var().lane_count(), self.len() as u64), None);
        for (k, value) in values.iter().enumerate() {
            self.var.scatter(Op::ScatterAdd, value.as_var(), &places.element(k), Some(&places.mask));
        }
    }
}

impl<T: Element> Buffer<T> {
    /// The packets of `N` elements at these indices, 0 (false) where out of bounds; result `k` holds their elements `k`.
    ///
    /// # Panics
    /// If `N` is 0.
    #[track_caller]
    pub fn gather_packet<const N: usize, I: Int>(&self, index: impl Operand<I>) -> [Array<T>; N] {
        let places = Places::new(N, &index.operand(), (&self.var().lane_count(), self.len() as u64), None);
        std::array::from_fn(|k| Array::from_var(self.var().gather(&places.element(k), Some(&places.mask))))
    }

    /// [`gather_packet`](Self::gather_packet) where the mask is true, else 0 (false).
    ///
    /// # Panics
    /// If `N` is 0.
    #[track_caller]
    pub fn gather_packet_masked<const N: usize, I: Int>(
        &self,
        index: impl Operand<I>,
        mask: impl Operand<bool>,
    ) -> [Array<T>; N] {
        let places = Places::new(
            N,
            &index.operand(),
            (&self.var().lane_count(), self.len() as u64),
            Some(&mask.operand()),
        );
        std::array::from_fn(|k| Array::from_var(self.var().gather(&places.element(k), Some(&places.mask))))
    }

    /// Stores packets at indices; values `k` are their elements `k`. Of packets that meet, each element is one of theirs.
    ///
    /// # Panics
    /// As [`scatter`](Self::scatter), or if `N` is 0.
    #[track_caller]
    pub fn scatter_packet<const N: usize, I: Int>(&self, values: &[Array<T>; N], index: impl Operand<I>) {
        let places = Places::new(N, &index.operand(), (&self.var().lane_count(), self.len() as u64), None);
        for (k, value) in values.iter().enumerate() {
            self.var().scatter(Op::Scatter, value.as_var(), &places.element(k), Some(&places.mask));
        }
    }

    /// [`scatter_packet`](Self::scatter_packet) where the mask is true.
    ///
    /// # Panics
    /// As [`scatter_packet`](Self::scatter_packet).
    #[track_caller]
    pub fn scatter_packet_masked<const N: usize, I: Int>(
        &self,
        values: &[Array<T>; N],
        index: impl Operand<I>,
        mask: impl Operand<bool>,
    ) {
        let places = Places::new(
            N,
            &index.operand(),
            (&self.var().lane_count(), self.len() as u64),
            Some(&mask.operand()),
        );
        for (k, value) in values.iter().enumerate() {
            self.var().scatter(Op::Scatter, value.as_var(), &places.element(k), Some(&places.mask));
        }
    }
}

impl<T: Num> Buffer<T> {
    /// Adds packets to those at indices.
    ///
    /// # Panics
    /// As [`scatter_packet`](Self::scatter_packet).
    #[track_caller]
    pub fn scatter_add_packet<const N: usize, I: Int>(&self, values: &[Array<T>; N], index: impl Operand<I>) {
        let places = Places::new(N, &index.operand(), (&self.var().lane_count(), self.len() as u64), None);
        for (k, value) in values.iter().enumerate() {
            self.var().scatter(Op::ScatterAdd, value.as_var(), &places.element(k), Some(&places.mask));
        }
    }

    /// [`scatter_add_packet`](Self::scatter_add_packet) where the mask is true.
    ///
    /// # Panics
    /// As [`scatter_packet`](Self::scatter_packet).
    #[track_caller]
    pub fn scatter_add_packet_masked<const N: usize, I: Int>(
        &self,
        values: &[Array<T>; N],
        index: impl Operand<I>,
        mask: impl Operand<bool>,
    ) {
        let places = Places::new(
            N,
            &index.operand(),
            (&self.var().lane_count(), self.len() as u64),
            Some(&mask.operand()),
        );
        for (k, value) in values.iter().enumerate() {
            self.var().scatter(Op::ScatterAdd, value.as_var(), &places.element(k), Some(&places.mask));
        }
    }
}
