//! What a device has launched: a ring of records, public so that users see what was fused, cached, compiled.

use std::collections::VecDeque;
use std::time::Duration;

use crate::backend::DeviceKind;

/// Where a kernel's code came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheOutcome {
    /// It was there.
    Hit,
    /// Its code was compiled before, and was loaded from disk.
    Disk,
    /// It was compiled: why.
    Miss(String),
}

/// One launch.
#[derive(Clone, Debug)]
pub struct KernelRecord {
    /// The structure's number on its device: equal for launches of one structure.
    pub kernel: u64,
    /// The backend.
    pub backend: DeviceKind,
    /// Number of lanes.
    pub lanes: u64,
    /// Number of instructions of the program as compiled.
    pub ops: usize,
    /// Memory parameters that are read.
    pub inputs: usize,
    /// Memory parameters that are written.
    pub outputs: usize,
    /// Bytes of the memory parameters (each once).
    pub bytes: u64,
    /// Whether it had to be loaded or compiled.
    pub cache: CacheOutcome,
    /// Time to load or compile; zero on a hit.
    pub compile_time: Duration,
}

/// The most recent launches, oldest first.
#[derive(Default)]
pub(crate) struct History {
    ring: VecDeque<KernelRecord>,
    total: u64,
}

const CAPACITY: usize = 4096;

impl History {
    pub(crate) fn push(&mut self, record: KernelRecord) {
        if self.ring.len() == CAPACITY {
            self.ring.pop_front();
        }
        self.ring.push_back(record);
        self.total += 1;
    }

    pub(crate) fn records(&self) -> Vec<KernelRecord> {
        self.ring.iter().cloned().collect()
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    pub(crate) fn clear(&mut self) {
        self.ring.clear();
    }
}
