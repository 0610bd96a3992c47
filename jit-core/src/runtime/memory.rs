//! What a device holds, and where its memory comes from.

use std::panic::Location;
use std::sync::Arc;

use crate::dtype::DType;
use crate::error::Error;
use crate::runtime::pool::Reuse;
use crate::runtime::{Device, Storage};
use crate::trace::Var;

/// What a device holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryStats {
    /// Nodes of the trace, evaluated or not.
    pub nodes: usize,
    /// Arrays in memory.
    pub storages: usize,
    /// Bytes of these.
    pub bytes: u64,
    /// Bytes of dropped arrays, kept for the next ones.
    pub cached: u64,
    /// Kernel structures in the cache.
    pub kernels: usize,
    /// Kernels whose code is loaded.
    pub loaded: usize,
    /// The largest arrays in memory, largest first.
    pub holders: Vec<Holder>,
}

/// An array in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// Bytes of its elements.
    pub bytes: u64,
    /// Its element type.
    pub dtype: DType,
    /// Number of elements.
    pub len: u64,
    /// The name that the program gave it.
    pub label: Option<String>,
    /// The line of the program that made it.
    pub made_at: &'static Location<'static>,
}

/// How many holders are listed.
const MOST_HOLDERS: usize = 16;

impl Device {
    /// What the device holds.
    pub fn memory(&self) -> MemoryStats {
        let shared = self.shared();
        let (mut stats, mut holders) = self.with_trace(|trace| {
            let (storages, bytes) = trace.storage_totals();
            let kernels = shared.planner.lock().kernels();
            let nodes = trace.slab.live();
            let holders = trace.holders();
            let loaded = shared.compiler.loaded();
            (MemoryStats { nodes, storages, bytes, cached: 0, kernels, loaded, holders: Vec::new() }, holders)
        });
        holders.sort_by_key(|h| std::cmp::Reverse(h.bytes));
        holders.truncate(MOST_HOLDERS);
        stats.holders = holders;
        stats.cached = shared.pool.totals().1 as u64;
        stats
    }

    /// Gives memory that is kept for reuse back to the system.
    pub fn trim(&self) {
        self.shared().pool.trim();
    }

    /// Uninitialised memory for elements.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], which names the largest arrays.
    pub(crate) fn allocate(&self, dtype: DType, len: u64, reuse: Reuse<'_>) -> Result<Storage, Error> {
        let shared = self.shared();
        Storage::new(&*shared.backend, &shared.pool, dtype, len, reuse).map_err(|error| match error {
            Error::OutOfMemory { requested, in_use, cached, holders } => {
                Error::OutOfMemory { requested, in_use, cached, holders: self.with_largest(holders) }
            }
            other => other,
        })
    }

    /// Copies bytes into a new evaluated node.
    pub(crate) fn upload(
        &self,
        dtype: DType,
        len: u64,
        bytes: &[u8],
        at: &'static Location<'static>,
    ) -> Result<Var, Error> {
        let storage = self.allocate(dtype, len, Reuse::Host)?;
        assert_eq!(storage.bytes(), bytes.len(), "as many bytes as elements need");
        // Everything after this counts on a bool being 0 or 1.
        let normal: Vec<u8>;
        let bytes = if dtype == DType::Bool && bytes.iter().any(|&b| b > 1) {
            normal = bytes.iter().map(|&b| u8::from(b != 0)).collect();
            &normal
        } else {
            bytes
        };
        // SAFETY: the storage has that many bytes, nothing is pending on memory for the host, and nobody else knows it yet.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), storage.ptr(), bytes.len()) };
        let storage = Arc::new(storage);
        Ok(self.with_trace(|trace| {
            let id = trace.data(dtype, len, storage, at);
            trace.hand_out(id)
        }))
    }

    /// Why there is no more memory, and what holds most of it.
    fn with_largest(&self, why: String) -> String {
        let holders = self.memory().holders;
        let mut text = why;
        for holder in holders.iter().take(4) {
            let Holder { bytes, dtype, len, label, made_at } = holder;
            let label = label.as_ref().map_or_else(String::new, |l| format!(" \"{l}\""));
            text.push_str(&format!("; {bytes} bytes in {dtype}[{len}]{label} made at {made_at}"));
        }
        text
    }
}
