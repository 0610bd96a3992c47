//! Core of a tracing JIT for arrays.
#![warn(missing_docs)]
pub mod backend;
pub mod dtype;
pub mod error;
pub mod interp;
pub mod ir;
pub mod op;
pub mod passes;
mod plan;
pub mod reduce;
pub mod runtime;
pub mod trace;
