//! The core of a tracing JIT for arrays: the language, the trace, the middle of the compiler, the runtime.
//!
//! It links neither LLVM nor CUDA and never will: code generators depend on it and come in through
//! [`backend::Backend`], the one seam.
//!
//! # The path of a value
//! An operation on [`trace::Var`]s adds a node to the trace of its device. [`trace::eval`] writes what its roots need
//! as canonical words, looks the plan up by them, and on a miss cuts the graph into stages and builds an
//! [`ir::Program`] for each. Each program's kernel is looked up by its structure or compiled: [`passes`], then the
//! backend, or the disk. The kernels are queued on the thread's current stream, and the nodes become evaluated arrays whose
//! memory the stream fills. Reading waits for one array's event.
//!
//! # Modules
//! - [`dtype`], [`op`]: element types, and the table of ops with the meaning of each on one lane.
//! - [`trace`]: nodes, handles, regions, versioned memory.
//! - `plan`: from roots to kernels.
//! - [`ir`]: kernel programs: builder, verifier, printer, parser. [`passes`]: program to program.
//! - [`reduce`]: the order in which reductions combine.
//! - [`builtin`]: kernels that are made from no program: scans, sorting, compression.
//! - [`interp`]: the reference interpreter, a full backend.
//! - [`runtime`]: devices, streams, events, storage, caches, history.
//!
//! # Invariants
//! - No lock is held while logging, while a kernel compiles or runs, while memory is destroyed, or while waiting.
//! - `Drop` never panics and never blocks on a device's trace.
//! - After [`ir::verify()`] says Ok, a backend returns an error or a kernel, and does not panic.
//! - A result does not depend on where `eval` was called, nor on whether an operand was a literal.
#![warn(missing_docs)]

pub mod backend;
pub mod builtin;
pub mod dtype;
pub mod error;
mod float_mode;
pub mod interp;
pub mod ir;
pub mod op;
pub mod passes;
mod plan;
pub mod reduce;
pub mod runtime;
pub mod trace;
