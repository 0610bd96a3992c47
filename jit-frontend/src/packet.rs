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
    /// Those of packets of `size` elements among `len` elements, which `lanes` counts as a value.
    #[track_caller]
    fn new(size: usize, index: &Var, mask: Option<&Var>, len: usize, lanes: &Var) -> Places {
        assert!(size > 0, "a packet has at least one element");
        // Where 32 bits hold every index they take half the instructions. A negative index, read as unsigned, is past any.
        let narrow = index.dtype().bits() <= 32 && i32::try_from(len).is_ok();
        let dtype = if narrow { DType::U32 } else { DType::U64 };
        let index = Var::apply(Op::Cast, dtype, &[index]);
        let size = Var::literal(dtype, size as u64);
        let packets = Var::apply(Op::Div, dtype, &[&Var::apply(Op::Cast, dtype, &[lanes]), &size]);
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

/// What arrays and buffers share.
macro_rules! packets {
    ($($target:ident, $written:ty;)*) => {$(
        impl<T: Element> $target<T> {
            #[track_caller]
            fn gather_packets<const N: usize>(&self, index: &Var, mask: Option<&Var>) -> [Array<T>; N] {
                let places = Places::new(N, index, mask, self.len(), &self.var.lane_count());
                std::array::from_fn(|k| Array::from_var(self.var.gather(&places.element(k), Some(&places.mask))))
            }

            #[track_caller]
            fn scatter_packets(self: $written, op: Op, values: &[Array<T>], index: &Var, mask: Option<&Var>) {
                let places = Places::new(values.len(), index, mask, self.len(), &self.var.lane_count());
                for (k, value) in values.iter().enumerate() {
                    self.var.scatter(op, value.as_var(), &places.element(k), Some(&places.mask));
                }
            }
        }
    )*};
}

packets! { Array, &mut Self; Buffer, &Self; }

impl<T: Element> Array<T> {
    /// The packets of `N` elements at these indices, 0 (false) where out of bounds; result `k` holds their elements `k`.
    ///
    /// # Panics
    /// As [`gather`](Self::gather), or if `N` is 0.
    #[track_caller]
    pub fn gather_packet<const N: usize, I: Int>(&self, index: impl Operand<I>) -> [Array<T>; N] {
        self.gather_packets(&index.operand(), None)
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
        self.gather_packets(&index.operand(), Some(&mask.operand()))
    }

    /// Stores packets at indices; values `k` are their elements `k`. As [`scatter`](Self::scatter) for each element.
    ///
    /// # Panics
    /// As [`scatter`](Self::scatter), or if `N` is 0.
    #[track_caller]
    pub fn scatter_packet<const N: usize, I: Int>(&mut self, values: &[Array<T>; N], index: impl Operand<I>) {
        self.scatter_packets(Op::Scatter, values, &index.operand(), None);
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
        self.scatter_packets(Op::Scatter, values, &index.operand(), Some(&mask.operand()));
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
        self.scatter_packets(Op::ScatterAdd, values, &index.operand(), Some(&mask.operand()));
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
        self.scatter_packets(Op::ScatterAdd, values, &index.operand(), None);
    }
}

impl<T: Element> Buffer<T> {
    /// The packets of `N` elements at these indices, 0 (false) where out of bounds; result `k` holds their elements `k`.
    ///
    /// # Panics
    /// If `N` is 0.
    #[track_caller]
    pub fn gather_packet<const N: usize, I: Int>(&self, index: impl Operand<I>) -> [Array<T>; N] {
        self.gather_packets(&index.operand(), None)
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
        self.gather_packets(&index.operand(), Some(&mask.operand()))
    }

    /// Stores packets at indices; values `k` are their elements `k`. Of packets that meet, each element is one of theirs.
    ///
    /// # Panics
    /// As [`scatter`](Self::scatter), or if `N` is 0.
    #[track_caller]
    pub fn scatter_packet<const N: usize, I: Int>(&self, values: &[Array<T>; N], index: impl Operand<I>) {
        self.scatter_packets(Op::Scatter, values, &index.operand(), None);
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
        self.scatter_packets(Op::Scatter, values, &index.operand(), Some(&mask.operand()));
    }
}

impl<T: Num> Buffer<T> {
    /// Adds packets to those at indices.
    ///
    /// # Panics
    /// As [`scatter_packet`](Self::scatter_packet).
    #[track_caller]
    pub fn scatter_add_packet<const N: usize, I: Int>(&self, values: &[Array<T>; N], index: impl Operand<I>) {
        self.scatter_packets(Op::ScatterAdd, values, &index.operand(), None);
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
        self.scatter_packets(Op::ScatterAdd, values, &index.operand(), Some(&mask.operand()));
    }
}
