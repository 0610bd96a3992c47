//! Builtins, as [`Builtin::reference`] has them.

use super::memory::{read, write};
use crate::backend::{Arg, CompiledKernel, Launch};
use crate::builtin::Builtin;
use crate::error::Error;

pub(super) struct Kernel(pub(super) Builtin);

impl CompiledKernel for Kernel {
    unsafe fn launch(&self, launch: &Launch<'_>) -> Result<(), Error> {
        let [Arg::Memory { ptr: from, len }, Arg::Memory { ptr: to, len: room }, Arg::Scalar(number)] =
            *launch.args
        else {
            return Err(Error::Execution(format!("`{}` takes two memories and a number", self.0.name())));
        };
        let [read_type, written_type] = self.0.dtypes().map(|dtype| dtype.size());
        let at = |ptr: *mut u8, i: u64, size: usize| ptr.wrapping_add(i as usize * size);
        // SAFETY: the caller promises memory of these types and lengths.
        let elements: Vec<u64> =
            (0..len).map(|i| unsafe { read(at(from, i, read_type), read_type) }).collect();
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        for (i, bits) in (0..).zip(self.0.reference(&elements, room, number)) {
            // SAFETY: as above; no more is given than there is room.
            unsafe { write(at(to, i, written_type), written_type, bits) }
        }
        Ok(())
    }
}
