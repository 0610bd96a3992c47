//! Tests that span crates.

mod file_cases;
mod launch;
