//! Moving plain Rust values to and from devices.

use jit_core::dtype::{DType, Element};
use jit_core::error::Error;
use jit_core::runtime::Device;
use jit_core::trace::Var;

/// An array of these elements.
#[track_caller]
pub(crate) fn upload<T: Element>(device: Device, values: &[T]) -> Var {
    let bits: Vec<u64> = values.iter().map(|v| v.to_bits()).collect();
    upload_bits(device, T::DTYPE, &bits)
}

/// An array of elements of these bits.
#[track_caller]
pub(crate) fn upload_bits(device: Device, dtype: DType, bits: &[u64]) -> Var {
    let size = dtype.size();
    let bytes: Vec<u8> = bits.iter().flat_map(|b| b.to_le_bytes()[..size].to_vec()).collect();
    Var::upload(device, dtype, bits.len() as u64, &bytes).expect("memory for a test")
}

/// The elements of an array.
pub(crate) fn read<T: Element>(var: &Var) -> Vec<T> {
    assert_eq!(var.dtype(), T::DTYPE);
    read_bits(var).into_iter().map(T::from_bits).collect()
}

/// The bits of an array's elements.
pub(crate) fn read_bits(var: &Var) -> Vec<u64> {
    bits(var, &var.read().expect("evaluation"))
}

/// The same where lanes may have reported indices that lie outside, which changes no value.
pub(crate) fn read_bits_despite_reports(var: &Var) -> Vec<u64> {
    loop {
        match var.read() {
            // Each is told once.
            Err(Error::OutOfBounds { .. }) => {}
            bytes => return bits(var, &bytes.expect("evaluation")),
        }
    }
}

fn bits(var: &Var, bytes: &[u8]) -> Vec<u64> {
    let element = |chunk: &[u8]| {
        let mut raw = [0; 8];
        raw[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(raw)
    };
    bytes.chunks(var.dtype().size()).map(element).collect()
}

/// An unbound literal.
pub(crate) fn lit<T: Element>(value: T) -> Var {
    Var::literal(T::DTYPE, value.to_bits())
}
