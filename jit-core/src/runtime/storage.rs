//! The memory of an evaluated array.

use crate::backend::{Allocation, Arg, Backend};
use crate::dtype::DType;
use crate::error::Error;
use crate::runtime::Event;
use crate::runtime::pool::Pool;

/// The elements of one or more evaluated nodes, and the work that writes them last.
pub(crate) struct Storage {
    /// None for no elements.
    allocation: Option<Allocation>,
    /// Where the memory goes back to.
    pool: &'static Pool,
    len: u64,
    bytes: usize,
    /// Complete once the elements are there. Work on the same stream is ordered anyway; this is for the host.
    pub(crate) written: parking_lot::Mutex<Event>,
}

impl Storage {
    /// Uninitialised memory for `len` elements.
    pub(crate) fn new(
        backend: &dyn Backend,
        pool: &'static Pool,
        dtype: DType,
        len: u64,
        written: Event,
    ) -> Result<Storage, Error> {
        let bytes = len.checked_mul(dtype.size() as u64).and_then(|b| usize::try_from(b).ok());
        let allocation = match bytes {
            Some(0) => None,
            Some(bytes) if bytes <= isize::MAX as usize => Some(pool.allocate(backend, bytes)?),
            _ => {
                let (in_use, cached) = pool.totals();
                return Err(Error::OutOfMemory {
                    requested: len.saturating_mul(dtype.size() as u64),
                    in_use: in_use as u64,
                    cached: cached as u64,
                    holders: "more than an address space".to_owned(),
                });
            }
        };
        let bytes = bytes.unwrap_or(0);
        Ok(Storage { allocation, pool, len, bytes, written: parking_lot::Mutex::new(written) })
    }

    /// Fills new memory with a pattern that is no plausible value.
    pub(crate) fn poison(&self) {
        // SAFETY: the allocation has that many bytes, and the storage is new, so nobody else touches it.
        unsafe { std::ptr::write_bytes(self.ptr(), 0xc7, self.bytes()) };
    }

    /// As the argument of a kernel.
    pub(crate) fn arg(&self) -> Arg {
        Arg::Memory { ptr: self.ptr(), len: self.len }
    }

    pub(crate) fn ptr(&self) -> *mut u8 {
        // Aligned for every element type, though never followed.
        self.allocation.as_ref().map_or(std::ptr::without_provenance_mut(64), Allocation::ptr)
    }

    /// A copy of all bytes. The caller has waited for what writes them.
    pub(crate) fn bytes_copy(&self) -> Result<Vec<u8>, Error> {
        let mut copy = host_bytes(self.bytes() as u64)?;
        // SAFETY: the allocation has that many bytes, initialised by the work that was waited for; whoever holds the
        // array keeps later work from writing in place.
        copy.extend_from_slice(unsafe { std::slice::from_raw_parts(self.ptr(), self.bytes()) });
        Ok(copy)
    }

    /// Bytes of the elements.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        if let Some(block) = self.allocation.take() {
            self.pool.give_back(block);
        }
    }
}

/// Room for `bytes` bytes on the host: an error, where the allocator would end the process.
pub(crate) fn host_bytes(bytes: u64) -> Result<Vec<u8>, Error> {
    let mut room = Vec::new();
    let fits = usize::try_from(bytes).is_ok_and(|bytes| room.try_reserve_exact(bytes).is_ok());
    if fits {
        return Ok(room);
    }
    let holders = "the host has no room for the copy".to_owned();
    Err(Error::OutOfMemory { requested: bytes, in_use: 0, cached: 0, holders })
}
