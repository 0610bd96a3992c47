//! Arrays that compute lazily, in fused kernels made for the program at run time.
//!
//! Operations on [`Array`]s are recorded. [`eval`] cuts what was recorded into as few kernels as its data dependencies
//! allow, compiles those that are new, and launches them without waiting. Reading a value waits for that array alone. Loops
//! and branches are recorded too and run inside of kernels, each lane for itself; what they write goes to [`Buffer`]s.
//!
//! ```
//! use jit_frontend as jit;
//! use jit::prelude::*;
//!
//! /// How many iterations of z -> z^2 + c stay within a circle of radius 2.
//! fn escape_times(re: &Array<f32>, im: &Array<f32>) -> Array<u32> {
//!     let start = (re.zeros_like(), re.zeros_like(), Array::from(0u32));
//!     let (_, _, count) = Loop::new(start).name("escape").max_iterations(50).run(
//!         |(x, y, _)| (x * x + y * y).lt(4.0),
//!         |(x, y, count)| (&x * &x - &y * &y + re, 2.0 * x * y + im, count + 1),
//!     );
//!     count
//! }
//!
//! fn main() -> Result<(), jit::Error> {
//!     let dev = Device::from_env()?;
//!     let (width, height) = (64, 32);
//!     let pixel = Array::<u32>::arange(width * height, &dev);
//!     let re = (&pixel % width as u32).cast::<f32>() * (3.0 / width as f32) - 2.0;
//!     let im = (&pixel / width as u32).cast::<f32>() * (2.0 / height as f32) - 1.0;
//!     let count = escape_times(&re, &im);
//!
//!     // How often each count occurs: scatters add up what meets in one element.
//!     let histogram = Buffer::<u32>::zeros(51, &dev)?;
//!     histogram.scatter_add(1, &count);
//!
//!     let mean = count.cast::<f32>().mean();
//!     jit::eval(&(mean.clone(), histogram.clone()))?; // launches; does not wait
//!     assert_eq!(histogram.value().sum().item()?, pixel.len() as u32);
//!     assert!((10.0..30.0).contains(&mean.item()?));
//!     Ok(())
//! }
//! ```
//!
//! # Failure
//! What launches, waits, allocates or reads returns a [`Result`] with an [`Error`]. What only records panics on misuse, at
//! the caller's line: sizes that do not fit, arrays of two devices, assigning to an array inside a loop.
//!
//! # Same bits everywhere
//! A result does not depend on the device, on threads or vector widths, on where `eval` was called, nor on which operands
//! were literals. Integers wrap, `x / 0` is all ones; floats follow IEEE 754; reductions combine in an order that depends on the
//! size alone. See [`Real`] for code that also runs on plain numbers, with the same bits again.
//!
//! # Modules
//! One concept a file: `array` (making, reading), `operators`, `compare`, `math`, `integer`, `overflow`, `memory`
//! (gather and scatter), `packet` (several elements at one index), `reduce` and `statistics`, `reduction` (by closures),
//! `buffer` (places), `local` (arrays of a lane), [`traverse`] (values made of arrays), `control` (loops and branches),
//! `switch`, `evaluated` and `evaluated_switch` (loops iteration by iteration, switches closure by closure), `registry`,
//! `tree` (functions on any such value), `vector` and `geometry`, `matrix`, `complex`, `quaternion`, `real`, `rng` and
//! `philox`, `texture`, `device`, `stream`, `event`.
//!
//! # Features
//! `llvm` (default): the CPU device. Without it everything builds and runs on the interpreter. `derive` (default):
//! `#[derive(Traverse)]`.
#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod array;
mod buffer;
mod compare;
mod complex;
mod control;
mod device;
mod display;
mod element;
mod evaluated;
mod evaluated_switch;
mod event;
mod geometry;
mod integer;
mod leaves;
mod local;
mod math;
mod matrix;
mod memory;
mod operand;
mod operators;
mod overflow;
mod packet;
mod permute;
mod philox;
pub mod prelude;
mod prints;
mod quaternion;
mod real;
mod reduce;
mod reduction;
mod registry;
mod rng;
mod scan;
mod statistics;
mod stream;
mod switch;
mod texture;
pub mod traverse;
mod tree;
mod vector;

pub use array::{Array, HostCopy, Mask};
pub use buffer::Buffer;
pub use complex::Complex;
pub use control::{Lanes, Loop, Mode, if_else, while_loop};
pub use device::{
    Device, DeviceBuilder, DeviceInfo, DeviceKind, DiskCacheOptions, FloatMode, Kernel, KernelHistory,
    KernelRecord, MemoryStats,
};
pub use element::{Bits, DType, Element, Float, Int, Num, Signed, Widen};
pub use event::Event;
pub use half::f16;
pub use jit_core::error::Error;
pub use jit_core::ir::Program;
pub use jit_core::runtime::{CacheOutcome, Holder, forbid_host_sync, with_float_mode};
#[cfg(feature = "derive")]
pub use jit_frontend_macros::Traverse;
pub use local::LocalArray;
pub use matrix::Matrix;
pub use operand::Operand;
pub use philox::{Philox4x32, tea};
pub use prints::{Printed, debug_assert_lanes, print_lanes};
pub use quaternion::Quaternion;
pub use real::{Integer, Real, Truth};
pub use reduction::{Combined, Reduce, Reduction, reduce};
pub use registry::Registry;
pub use rng::Pcg32;
pub use stream::Stream;
pub use switch::{Switch, switch};
pub use texture::{Filter, Texel, Texture1, Texture2, Texture3, Wrap};
pub use traverse::Traverse;
pub use tree::{eval, gather, graphviz, scatter, select, sync};
pub use vector::{Vec2, Vec3, Vec4};

/// The README's program, compiled and run with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
