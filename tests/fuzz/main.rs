//! Runs random programs on every device for as long as it is told to, and keeps each that they disagree on.
//!
//! `cargo run --release -p jit-tests --bin fuzz -- --seconds 3600 --seed 1 --log fuzz.log --corpus tests/fuzz/corpus`
//!
//! Every eighth is a program of the kernel language, for passes and code generators; the others are traced.
//!
//! Program `n` of a seed is always the same one, whatever the number of threads. Programs run in processes of their
//! own, some thousand in each: a device keeps every kernel that it has compiled, and one that ends the process is found
//! too. What fails is made small and written to the corpus; of a program that ends its process the number is logged, which
//! with the seed gives it again.

#[path = "../conformance"]
mod conformance {
    #[expect(dead_code, reason = "the tests use the rest")]
    pub(crate) mod devices;
    #[expect(dead_code, reason = "the tests use the rest")]
    pub(crate) mod host;
    pub(crate) mod launch;
    pub(crate) mod random_ir;
    pub(crate) mod random_programs;
}
mod batch;
mod kernels;
mod supervise;

use std::path::PathBuf;

use clap::Parser;
use conformance::{devices, host, launch, random_ir, random_programs};

/// Looks for programs on which devices disagree.
#[derive(Parser, Clone)]
struct Options {
    /// How long to look, in seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Chooses the sequence of programs.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Processes at a time.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    threads: u32,
    /// The number of the first program.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Programs of a process.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..))]
    batch: u64,
    /// Also written to, besides standard output.
    #[arg(long)]
    log: Option<PathBuf>,
    /// Where failures are written to.
    #[arg(long, default_value = "tests/fuzz/corpus")]
    corpus: PathBuf,
    /// Runs one batch in this process.
    #[arg(long, hide = true)]
    worker: bool,
}

fn main() -> std::process::ExitCode {
    let options = Options::parse();
    if options.worker {
        batch::run(&options);
        return std::process::ExitCode::SUCCESS;
    }
    supervise::run(&options)
}
