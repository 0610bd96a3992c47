//! The workloads on which the engine is compared with other array compilers; the binary `peers` runs them.
//!
//! `cargo run --release -p jit-benches --bin peers -- --json FILE` makes rows of the same names, sizes, units and check
//! values as the script that runs the other engines. Inputs have the same bits, formulas are the same term by term.
//! Engine-only measurements are in `benches/`.
//!
//! - [`inputs`] and [`checksum`]: what goes in and how results are condensed; [`expected`]: what they must come to.
//! - [`profile`]: sizes. [`timing`]: how calls are timed. [`record`]: the JSON.
//! - [`suite`]: one run: its device, its records. [`workloads`]: one file each.

pub mod checksum;
pub mod expected;
pub mod inputs;
pub mod profile;
pub mod record;
pub mod suite;
pub mod timing;
pub mod workloads;
