//! The memory of an evaluated array.

use parking_lot::Mutex;

use crate::backend::{Arg, Backend};
use crate::dtype::DType;
use crate::error::Error;
use crate::runtime::Event;
use crate::runtime::event::Events;
use crate::runtime::pool::{Block, Pool, Reuse};

/// The elements of one or more evaluated nodes, and the work that touches them.
pub(crate) struct Storage {
    /// None for no elements.
    block: Option<Block>,
    /// Where the memory goes back to.
    pool: &'static Pool,
    len: u64,
    bytes: usize,
    points: Mutex<Points>,
}

/// What work on a storage may not be done yet. Whoever adds to it holds the lock of the device's streams.
#[derive(Default)]
pub(crate) struct Points {
    /// The batch that writes it last, unless that is done.
    written: Option<Event>,
    /// Batches that read it after that, the last one of each stream; before the first use, whatever still touches the
    /// memory on behalf of who had it before.
    read: Events,
}

impl Storage {
    /// Uninitialised memory for `len` elements.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], without holders.
    pub(crate) fn new(
        backend: &dyn Backend,
        pool: &'static Pool,
        dtype: DType,
        len: u64,
        reuse: Reuse<'_>,
    ) -> Result<Storage, Error> {
        let bytes = len.checked_mul(dtype.size() as u64).and_then(|b| usize::try_from(b).ok());
        let Some(bytes) = bytes.filter(|&b| b <= isize::MAX as usize) else {
            let holders = "no address space is that large".to_owned();
            return Err(pool.out_of_memory(len.saturating_mul(dtype.size() as u64), holders));
        };
        let mut block = if bytes == 0 { None } else { Some(pool.allocate(backend, bytes, reuse)?) };
        let read = block.as_mut().map(Block::take_pending).unwrap_or_default();
        let points = Mutex::new(Points { written: None, read });
        Ok(Storage { block, pool, len, bytes, points })
    }

    /// As the argument of a kernel.
    pub(crate) fn arg(&self) -> Arg {
        Arg::Memory { ptr: self.ptr(), len: self.len }
    }

    pub(crate) fn ptr(&self) -> *mut u8 {
        // Aligned for every element type, though never followed.
        self.block.as_ref().map_or(std::ptr::without_provenance_mut(64), Block::ptr)
    }

    /// The batch after which the elements are there; none if they are.
    pub(crate) fn written(&self) -> Option<Event> {
        self.points.lock().written.clone()
    }

    /// What work on it is under way.
    pub(crate) fn points(&self) -> parking_lot::MutexGuard<'_, Points> {
        self.points.lock()
    }

    /// A copy of all bytes. The caller has waited for what writes them.
    pub(crate) fn bytes_copy(&self) -> Result<Vec<u8>, Error> {
        let mut copy = host_bytes(self.bytes() as u64)?;
        // SAFETY: the block has that many bytes, initialised by the work that was waited for; whoever holds the
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
        if let Some(mut block) = self.block.take() {
            let Points { written, read } = std::mem::take(self.points.get_mut());
            block.add_pending(written.into_iter().chain(read));
            self.pool.give_back(block);
        }
    }
}

impl Points {
    /// The batch that writes it last, unless that is known to have gone well, and nobody needs to be told of it.
    pub(crate) fn pending_write(&mut self) -> Option<&Event> {
        if self.written.as_ref().is_some_and(|event| event.has_succeeded() && !event.may_tell()) {
            self.written = None;
        }
        self.written.as_ref()
    }

    /// Batches that read it and may not be done.
    pub(crate) fn pending_reads(&mut self) -> &[Event] {
        self.read.retain(|e| !e.is_open());
        &self.read
    }

    /// From here on a batch reads it.
    pub(crate) fn add_read(&mut self, event: &Event) {
        let stream = event.point().map(|p| p.stream);
        // Of one stream the last is enough, since its batches run in order.
        match self.read.iter_mut().find(|e| e.point().map(|p| p.stream) == stream) {
            Some(earlier) => *earlier = event.clone(),
            None => self.read.push(event.clone()),
        }
    }

    /// From here on a batch writes it, after all that touched it before.
    pub(crate) fn set_written(&mut self, event: &Event) {
        self.read.clear();
        self.written = Some(event.clone());
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
