//! Devices, and how plans run on them.
//!
//! - `device`: a device, `lock`: the lock around its trace.
//! - `stream`: queues of work, `batch`: the work of one evaluation, `event`: points in it that can be waited for, `clock`:
//!   what a stream is ordered after, `executor`: the threads.
//! - `storage`: memory of evaluated arrays; `pool`: memory between two uses; `memory`: what there is.
//! - `cache`: kernels by structure, `structures`: the bounded map underneath. `compiler`: their code, from memory, from
//!   `disk`, or compiled. `history`: what was launched.
//! - `builtins`: kernels of no program.
//! - `evaluate`: from roots to a submitted batch, `flight`: evaluations that meet.

mod batch;
mod builtins;
mod cache;
mod clock;
mod compiler;
mod device;
mod disk;
mod evaluate;
mod event;
mod executor;
mod flight;
mod history;
#[cfg(all(test, loom))]
mod interleavings;
mod lock;
mod memory;
mod pool;
mod storage;
mod stream;
mod structures;
mod sync;

pub use crate::float_mode::{FloatMode, with_float_mode};
pub(crate) use cache::KernelCache;
pub(crate) use compiler::Compiler;
pub use device::{Device, DeviceOptions};
pub use disk::DiskCacheOptions;
pub(crate) use evaluate::{Planner, evaluate};
pub use event::{Event, Gate, forbid_host_sync};
pub(crate) use flight::Flights;
pub(crate) use history::History;
pub use history::{CacheOutcome, KernelHistory, KernelRecord};
pub(crate) use lock::{Dropped, TraceLock};
pub use memory::{Holder, MemoryStats};
pub(crate) use storage::{Storage, host_bytes};
pub use stream::{MAX_STREAMS, Stream};
