//! Devices, and how plans run on them.
//!
//! - `device`: a device and its lock, `event`: points in its work, `lane`: the work itself, in order.
//! - `storage`: memory of evaluated arrays; `pool`: memory between two uses.
//! - `cache`: kernels by structure, `structures`: the bounded map underneath. `compiler`: their code, from memory, from
//!   `disk`, or compiled. `history`: what was launched.
//! - `evaluate`: from roots to a submitted batch.

mod cache;
mod compiler;
mod device;
mod disk;
mod evaluate;
mod event;
mod history;
mod lane;
mod pool;
mod storage;
mod structures;

pub(crate) use cache::KernelCache;
pub(crate) use compiler::Compiler;
pub(crate) use device::Dropped;
pub use device::{Device, DeviceOptions, FloatMode, MemoryStats};
pub use disk::DiskCacheOptions;
pub(crate) use evaluate::{Evaluator, evaluate};
pub use event::{Event, forbid_host_sync};
pub(crate) use history::History;
pub use history::{CacheOutcome, KernelRecord};
pub(crate) use lane::Lane;
pub(crate) use storage::{Storage, host_bytes};
