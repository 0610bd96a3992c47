//! Lazy arrays.
#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod array;
mod buffer;
mod compare;
mod control;
mod device;
mod display;
mod element;
mod geometry;
mod integer;
mod leaves;
mod math;
mod memory;
mod operand;
mod operators;
pub mod prelude;
mod real;
mod reduce;
mod rng;
pub mod traverse;
mod tree;
mod vector;

pub use array::{Array, Mask};
pub use buffer::Buffer;
pub use control::{Lanes, Loop, if_else, while_loop};
pub use device::{Device, DeviceBuilder, DeviceInfo, DeviceKind, FloatMode, KernelRecord, MemoryStats};
pub use element::{Bits, DType, Element, Float, Int, Num, Signed, Widen};
pub use half::f16;
pub use jit_core::error::Error;
pub use jit_core::runtime::{CacheOutcome, Event, forbid_host_sync};
#[cfg(feature = "derive")]
pub use jit_frontend_macros::Traverse;
pub use operand::Operand;
pub use real::{Integer, Real, Truth};
pub use rng::Pcg32;
pub use traverse::Traverse;
pub use tree::{eval, gather, scatter, select, sync};
pub use vector::{Vec2, Vec3, Vec4};
