//! The CPU backend: programs to vector code through LLVM.
//!
//! It takes a [`Program`](jit_core::ir::Program) that `ir::verify` accepted and the passes lowered, and nothing else:
//! it knows no trace, plan, stream or cache, must never depend on them or on the frontend, and never looks a symbol up in
//! the process. What an op means is written in `jit_core::op::scalar`; the code made here gives the same bits.
//!
//! # The path of a program
//! [`LlvmBackend::compile`](jit_core::backend::Backend::compile) writes an LLVM module by builder (`codegen`), turns it
//! into an object in memory (`compile`), and loads it (`orc`). A launch (`kernel`) cuts its lanes into blocks, runs them over
//! threads (`pool`), folds the results of reductions on the host in their fixed order, and runs the finish.
//!
//! # The path of a value
//! A value that is the same on all lanes is a scalar register, any other a vector of 4, 8 or 16 lanes (up to 64, where all elements are small); `load`,
//! `store` and `counter` move whole vectors. A bool is one bit in a register and one byte in memory, an f16 is its 16
//! bits until an op computes with it as f32. Which lanes take part in an instruction is a mask of one bit per lane that
//! regions narrow; full vectors at the top level of a body have none.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `backend` | options, [`LlvmBackend`] |
//! | `builtins` | kernels of no program: scans, sorting, compression |
//! | `caches` | how large they are |
//! | `codegen` | the templates, by concept |
//! | `compile` | module to object or text |
//! | `kernel` | launches |
//! | `memory` | arrays' memory |
//! | `orc` | object to executable memory: the unsafe code around LLVM's loader |
//! | `pool` | blocks of lanes over threads |
//! | `private` | copies of memory that each thread of a launch has for itself |
//! | `segments` | launches with reductions: rows, columns, chunks |
//! | `target` | the processor |
#![warn(missing_docs)]

mod backend;
mod builtins;
mod caches;
mod codegen;
mod compile;
mod kernel;
mod memory;
mod orc;
mod pool;
mod private;
mod segments;
mod target;

pub use backend::{LlvmBackend, LlvmOptions, ir_text};
pub use target::Processor;
