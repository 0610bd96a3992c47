//! Tests that span crates.

mod decisions;
mod devices;
mod failures;
mod file_cases;
mod fused_reductions;
mod host;
mod kernel_files;
mod launch;
mod local_places;
mod mathematics;
mod memory;
mod passes;
mod placement;
mod random_ir;
mod random_programs;
mod recorder;
mod scale;
mod semantics;
mod snapshots;
mod streams;
mod threads;
