//! Devices, and how plans run on them.
//!
//! - `device`: a device, `lock`: the lock around its trace. `event`: points in its work, `lane`: the work itself, in order.
//! - `storage`: memory of evaluated arrays; `pool`: memory between two uses.
//! - `cache`: kernels by structure. `history`: what was launched.
//! - `evaluate`: from roots to a submitted batch.

mod cache;
mod device;
mod evaluate;
mod event;
mod history;
mod lane;
mod lock;
mod pool;
mod storage;

pub(crate) use cache::KernelCache;
pub use device::{Device, DeviceOptions, FloatMode, MemoryStats};
pub(crate) use evaluate::{Evaluator, evaluate};
pub use event::{Event, forbid_host_sync};
pub(crate) use history::History;
pub use history::{CacheOutcome, KernelRecord};
pub(crate) use lane::Lane;
pub(crate) use lock::{Dropped, TraceLock};
pub(crate) use storage::{Storage, host_bytes};
