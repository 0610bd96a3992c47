//! Tests that span crates.

mod devices;
mod file_cases;
mod host;
mod launch;
mod semantics;
