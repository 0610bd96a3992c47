//! Tests that span crates.

mod devices;
mod file_cases;
mod host;
mod launch;
mod passes;
mod random_programs;
mod scale;
