//! Runs the engine on the workloads that other array compilers are measured with, and writes comparable records.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use jit_benches::profile::Profile;
use jit_benches::suite::{Backend, Options, Suite};
use jit_benches::workloads::{WORKLOADS, Workload, disk_warm_child};
use jit_frontend::FloatMode;

/// Measures the engine on the peers' workloads
#[derive(Parser, Debug)]
#[command(name = "peers")]
struct Arguments {
    /// Where to run
    #[arg(long, value_enum, default_value = "cpu")]
    backend: Backend,

    /// Which workloads, separated by commas; without it, all
    #[arg(long, value_delimiter = ',', value_name = "NAMES", value_parser = workload)]
    workloads: Vec<&'static Workload>,

    /// The sizes
    #[arg(long, value_enum, default_value = "cpu")]
    profile: Profile,

    /// Samples for each row
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,

    /// Fuse products into sums, as the other compilers do
    #[arg(long)]
    contract: bool,

    /// Measures one program of that many operations whose kernel is on disk, and prints what it found
    #[arg(long, value_name = "OPS", hide = true)]
    disk_warm: Option<usize>,

    /// Where the records go
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn workload(name: &str) -> Result<&'static Workload, String> {
    WORKLOADS.iter().find(|w| w.name == name).ok_or_else(|| {
        let names: Vec<&str> = WORKLOADS.iter().map(|w| w.name).collect();
        format!("no such workload; there are {}", names.join(", "))
    })
}

#[expect(clippy::print_stderr, reason = "failures are for the one who runs it")]
fn main() -> ExitCode {
    let start = Instant::now();
    let arguments = Arguments::parse();
    match run(&arguments, start) {
        Ok(failures) if failures.is_empty() => ExitCode::SUCCESS,
        Ok(failures) => {
            eprintln!("{} failures:", failures.len());
            failures.iter().for_each(|failure| eprintln!("  {failure}"));
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments, start: Instant) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let float_mode = if arguments.contract { FloatMode::Contract } else { FloatMode::Strict };
    let options = Options {
        backend: arguments.backend,
        profile: arguments.profile,
        float_mode,
        repeat: arguments.repeat,
    };
    if let Some(ops) = arguments.disk_warm {
        disk_warm_child(options, ops, start)?;
        return Ok(Vec::new());
    }
    let mut suite = Suite::new(options)?;
    let chosen: Vec<&Workload> = match arguments.workloads.as_slice() {
        [] => WORKLOADS.iter().collect(),
        some => some.to_vec(),
    };
    for workload in chosen {
        suite.workload(workload.name, workload.run);
        // After each: a run that is stopped keeps what it has.
        if let Some(path) = &arguments.json {
            suite.write_json(path)?;
        }
    }
    Ok(suite.failures().to_vec())
}
