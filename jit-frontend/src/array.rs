//! [`Array`]: making arrays, asking about them, reading them.

use std::marker::PhantomData;

use jit_core::error::Error;
use jit_core::ir::Program;
use jit_core::op::Op;
use jit_core::trace::Var;

use crate::device::Device;
use crate::element::{DType, Element, Float, Num};
use crate::event::Event;
use crate::memory::check_index;
use crate::operand::Operand;
use crate::prints;

/// A lazy, immutable array of elements of one type.
///
/// Operations add nodes to the trace of the array's device; nothing is computed before [`eval`](crate::eval), or
/// before somebody reads. A clone is another handle of the same value and costs next to nothing. Arrays of size 1
/// broadcast against any size; other sizes must be equal.
pub struct Array<T: Element> {
    pub(crate) var: Var,
    element: PhantomData<fn() -> T>,
}

/// The elements of an array on their way to the host.
#[derive(Debug)]
pub struct HostCopy<T: Element> {
    array: Array<T>,
    event: Event,
}

impl<T: Element> HostCopy<T> {
    /// Whether [`wait`](Self::wait) would not have to.
    ///
    /// # Errors
    /// The error of what computes them.
    pub fn is_complete(&self) -> Result<bool, Error> {
        self.event.is_complete()
    }

    /// Waits for the elements, and for nothing else.
    ///
    /// # Errors
    /// As [`Event::wait`].
    ///
    /// # Panics
    /// Inside the closure of a loop or branch.
    #[track_caller]
    pub fn wait(self) -> Result<Vec<T>, Error> {
        self.event.wait()?;
        self.array.to_vec()
    }
}

/// An array of truth values.
pub type Mask = Array<bool>;

impl<T: Element> Array<T> {
    /// Copies a slice to the device.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    #[track_caller]
    pub fn from_slice(values: &[T], device: &Device) -> Result<Array<T>, Error> {
        let var = Var::upload(device.core(), T::DTYPE, values.len() as u64, &to_bytes(values))?;
        Ok(Array::from_var(var))
    }

    /// Copies a vector to the device.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    #[expect(clippy::needless_pass_by_value, reason = "a backend may come to take over the memory")]
    #[track_caller]
    pub fn from_vec(values: Vec<T>, device: &Device) -> Result<Array<T>, Error> {
        Array::from_slice(&values, device)
    }

    /// `n` elements, all zero (false). Takes no memory.
    #[track_caller]
    pub fn zeros(n: usize, device: &Device) -> Array<T> {
        Array::full(T::default(), n, device)
    }

    /// `n` elements, all `value`. Takes no memory.
    #[track_caller]
    pub fn full(value: T, n: usize, device: &Device) -> Array<T> {
        Array::from_var(Var::full(device.core(), T::DTYPE, value.to_bits(), n as u64))
    }

    /// As many zeros (false) as this array has elements, on its device.
    #[track_caller]
    pub fn zeros_like(&self) -> Array<T> {
        self.full_like(T::default())
    }

    /// As many elements `value` as this array has, on its device.
    #[track_caller]
    pub fn full_like(&self, value: T) -> Array<T> {
        match self.var.device() {
            None => value.into(),
            Some(device) => Array::from_var(Var::full(device, T::DTYPE, value.to_bits(), self.var.size())),
        }
    }

    /// Number of elements. Inside the closure of a loop or branch: 1 where a value may be as wide as the loop or branch.
    #[expect(clippy::len_without_is_empty, reason = "an empty array is no special case")]
    pub fn len(&self) -> usize {
        self.var.size() as usize
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        T::DTYPE
    }

    /// The device; `None` for a literal that has not met one.
    pub fn device(&self) -> Option<Device> {
        self.var.device().map(Device::from_core)
    }

    /// Whether its elements are in memory (or a literal), or still to be computed.
    pub fn is_evaluated(&self) -> bool {
        self.var.is_evaluated()
    }

    /// What is still to be computed for it, as text.
    pub fn trace(&self) -> String {
        self.var.trace()
    }

    /// The programs of the kernels that evaluating it would launch, in order. Launches nothing.
    ///
    /// # Panics
    /// If it belongs to the closure of a loop or branch.
    #[track_caller]
    pub fn programs(&self) -> Vec<Program> {
        self.var.programs()
    }

    /// Names the value in dumps; itself again. Equal expressions are one value and share the name, a literal without a
    /// device has none. A name does not change what is computed or cached.
    pub fn label(&self, label: &str) -> Array<T> {
        self.var.set_label(label);
        self.clone()
    }

    /// The same elements on that device. Evaluates and waits if it lives on another one.
    ///
    /// # Errors
    /// What reading or [`from_slice`](Self::from_slice) run into.
    ///
    /// # Panics
    /// Inside the closure of a loop or branch, if the elements have to move.
    #[track_caller]
    pub fn to_device(&self, device: &Device) -> Result<Array<T>, Error> {
        match self.var.device() {
            Some(own) if own != device.core() => {
                let bytes = prints::tell(Some(own), self.var.read())?;
                Ok(Array::from_var(Var::upload(device.core(), T::DTYPE, self.var.size(), &bytes)?))
            }
            _ => Ok(Array::from_var(self.var.bind(device.core()))),
        }
    }

    /// Evaluates, waits for this array alone, and copies its elements out.
    ///
    /// # Errors
    /// What evaluating runs into; as [`Event::wait`].
    ///
    /// # Panics
    /// Inside the closure of a loop or branch.
    #[track_caller]
    pub fn to_vec(&self) -> Result<Vec<T>, Error> {
        let bytes = self.var.read();
        prints::tell(self.var.device(), bytes).map(|bytes| from_bytes(&bytes))
    }

    /// Evaluates, and has the elements copied out for the host, without waiting.
    ///
    /// # Errors
    /// What evaluating runs into.
    ///
    /// # Panics
    /// Inside the closure of a loop or branch.
    #[track_caller]
    pub fn read_async(&self) -> Result<HostCopy<T>, Error> {
        let event = crate::eval(self)?;
        Ok(HostCopy { array: self.clone(), event })
    }

    /// The one element of an array of size 1. Evaluates and waits, unless it is a literal.
    ///
    /// # Errors
    /// [`Error::NotScalar`] for another size; else as [`to_vec`](Self::to_vec).
    ///
    /// # Panics
    /// Inside the closure of a loop or branch, unless it is a literal.
    #[track_caller]
    pub fn item(&self) -> Result<T, Error> {
        if let Some(bits) = self.var.literal_bits() {
            return Ok(T::from_bits(bits));
        }
        let size = self.var.size();
        if size != 1 {
            return Err(Error::NotScalar { what: "item", size });
        }
        Ok(self.to_vec()?[0])
    }

    /// One element. Evaluates the array, waits, and copies that element.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`]; else as [`to_vec`](Self::to_vec).
    ///
    /// # Panics
    /// Inside the closure of a loop or branch.
    #[track_caller]
    pub fn get(&self, index: usize) -> Result<T, Error> {
        check_index("get", index, self.var.size())?;
        self.gather(index as u64).item()
    }

    /// Conversion by value, as Rust's `as`: float to integer saturates and NaN gives 0; to bool is `x != 0`.
    #[track_caller]
    pub fn cast<U: Element>(&self) -> Array<U> {
        Array::from_var(Var::apply(Op::Cast, U::DTYPE, &[&self.var]))
    }

    /// The handle of a value of this type.
    ///
    /// # Panics
    /// If the value has another element type.
    #[track_caller]
    pub fn from_var(var: Var) -> Array<T> {
        assert!(var.dtype() == T::DTYPE, "an array of {} made of a value of {}", T::DTYPE, var.dtype());
        Array { var, element: PhantomData }
    }

    /// The value in the trace.
    pub fn as_var(&self) -> &Var {
        &self.var
    }

    #[track_caller]
    pub(crate) fn unary<U: Element>(&self, op: Op) -> Array<U> {
        Array::made(Var::apply(op, U::DTYPE, &[&self.var]))
    }

    #[track_caller]
    pub(crate) fn binary<U: Element>(&self, op: Op, other: &impl Operand<T>) -> Array<U> {
        Array::made(Var::apply(op, U::DTYPE, &[&self.var, &other.operand()]))
    }

    /// [`from_var`](Self::from_var) where the op has that type.
    fn made(var: Var) -> Array<T> {
        debug_assert!(var.dtype() == T::DTYPE);
        Array { var, element: PhantomData }
    }

    #[track_caller]
    pub(crate) fn binary_assign(&mut self, op: Op, other: &impl Operand<T>) {
        self.var.apply_assign(op, T::DTYPE, &other.operand());
    }
}

impl<T: Num> Array<T> {
    /// The same bits under another type of the same size.
    ///
    /// # Panics
    /// If the sizes differ.
    #[track_caller]
    pub fn bitcast<U: Num>(&self) -> Array<U> {
        Array::from_var(Var::apply(Op::Bitcast, U::DTYPE, &[&self.var]))
    }

    /// 0, 1, 2, ... up to `n` elements, converted as by [`cast`](Self::cast). Takes no memory.
    ///
    /// # Panics
    /// For u32 and more than 2^32 elements.
    #[track_caller]
    pub fn arange(n: usize, device: &Device) -> Array<T> {
        let own = T::DTYPE == DType::U32 || T::DTYPE == DType::U64;
        let small = n as u64 <= 1 << 32;
        let counter = match T::DTYPE {
            dtype if own => dtype,
            _ if small => DType::U32,
            _ => DType::U64,
        };
        let var = Var::counter(device.core(), counter, n as u64);
        if own {
            return Array::from_var(var);
        }
        Array::from_var(Var::apply(Op::Cast, T::DTYPE, &[&var]))
    }
}

impl<T: Float> Array<T> {
    /// `n` equally spaced values from `start` to `end`, both included: element i is `start + i * step` rounded once, the
    /// last one `end`. One element: `start`.
    #[track_caller]
    pub fn linspace(start: T, end: T, n: usize, device: &Device) -> Array<T> {
        let (first, last) = (Array::from(start), Array::from(end));
        if n < 2 {
            return Array::full(start, n, device);
        }
        let steps = n - 1;
        // In f32 for f16, whose integers end at 2048.
        if T::DTYPE == DType::F16 {
            let (start, end) = (first.cast::<f32>().item(), last.cast::<f32>().item());
            return Array::linspace(literal(start), literal(end), n, device).cast();
        }
        let step = (&last - &first) / T::from_f64(steps as f64);
        let index = Array::<u64>::arange(n, device);
        let inner = index.cast::<T>().mul_add(&step, &first);
        index.eq(steps as u64).select(last, inner)
    }
}

/// The value of a literal, which needs no device and so cannot fail.
pub(crate) fn literal<T>(value: Result<T, Error>) -> T {
    value.expect("a literal is read without a device")
}

impl<T: Element> From<T> for Array<T> {
    /// A literal of size 1; it adopts the device of the first array it meets.
    fn from(value: T) -> Array<T> {
        Array::from_var(Var::literal(T::DTYPE, value.to_bits()))
    }
}

impl<T: Element> From<&Array<T>> for Array<T> {
    fn from(array: &Array<T>) -> Array<T> {
        array.clone()
    }
}

impl<T: Element> Clone for Array<T> {
    fn clone(&self) -> Array<T> {
        Array { var: self.var.clone(), element: PhantomData }
    }
}

impl<T: Element> Default for Array<T> {
    /// The literal 0 (false).
    fn default() -> Array<T> {
        T::default().into()
    }
}

/// Elements as bytes in the host's order.
fn to_bytes<T: Element>(values: &[T]) -> Vec<u8> {
    let size = T::DTYPE.size();
    let mut bytes = vec![0; values.len() * size];
    for (chunk, value) in bytes.chunks_exact_mut(size).zip(values) {
        let bits = value.to_bits();
        match chunk {
            [one] => *one = bits as u8,
            [_, _] => chunk.copy_from_slice(&(bits as u16).to_ne_bytes()),
            [_, _, _, _] => chunk.copy_from_slice(&(bits as u32).to_ne_bytes()),
            _ => chunk.copy_from_slice(&bits.to_ne_bytes()),
        }
    }
    bytes
}

fn from_bytes<T: Element>(bytes: &[u8]) -> Vec<T> {
    let element = |chunk: &[u8]| match *chunk {
        [a] => u64::from(a),
        [a, b] => u64::from(u16::from_ne_bytes([a, b])),
        [a, b, c, d] => u64::from(u32::from_ne_bytes([a, b, c, d])),
        _ => u64::from_ne_bytes(chunk.try_into().expect("elements have at most 8 bytes")),
    };
    bytes.chunks_exact(T::DTYPE.size()).map(|chunk| T::from_bits(element(chunk))).collect()
}
