//! From the start of recording to the result of a program that no cache knows, or that only the disk knows.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use jit_frontend::{CacheOutcome, Error, KernelRecord};
use serde::{Deserialize, Serialize};

use super::chain::{chain, operands};
use crate::checksum::checksum;
use crate::record::{Measured, Metric};
use crate::suite::{Options, Suite, device_with_disk_cache};
use crate::timing::Samples;

pub(super) fn run(suite: &mut Suite) {
    for &ops in suite.sizes().compile_ops {
        let name = format!("cold_{ops}");
        suite.part(&name.clone(), |suite| {
            let repeat = suite.timing().repeat;
            let repeat = if ops <= 1000 { repeat } else { repeat.min(3) };
            let (mut seconds, mut compiling) = (Vec::new(), Vec::new());
            let (mut misses, mut check) = (0, 0.0);
            let begin = Instant::now();
            for sample in 0..repeat {
                // Numbers are no part of a kernel's structure, so that another salt alone would hit: a new device
                // has empty caches.
                let device = suite.new_device()?;
                let [x, a, b, c] = operands(&device)?;
                jit_frontend::eval(&chain(&x, &a, &b, &c, 8))?.wait()?;
                device.clear_kernel_history();
                let low = -(1e6 + f64::from(sample)) as f32;
                let start = Instant::now();
                let y = chain(&x.max(low), &a, &b, &c, ops);
                jit_frontend::eval(&y)?;
                device.sync()?;
                seconds.push(start.elapsed().as_secs_f64());
                let launches = device.kernel_history();
                misses += launches.iter().filter(|k| k.cache != CacheOutcome::Hit).count();
                compiling.push(launches.iter().map(|k| k.compile_time.as_secs_f64()).sum());
                check = checksum(&y.to_vec()?);
                if begin.elapsed() > Duration::from_secs(12) {
                    break;
                }
            }
            let (seconds, compiling) = (Samples(seconds), Samples(compiling));
            let note = format!(
                "recording, compiling, running on a new device; {misses} kernels compiled for {} samples; compiling {:.2} ms (median)",
                seconds.0.len(),
                compiling.median() * 1e3
            );
            suite.row(
                Measured::new(name, ops, Metric::Time, "ms", seconds.scaled(1e3)).check([check], 1e-4).note(note),
            );
            Ok(())
        });
    }
    for &ops in suite.sizes().compile_ops.iter().filter(|ops| [200, 1000, 10_000].contains(ops)) {
        suite.part(&format!("disk_warm_{ops}"), |suite| disk_warm(suite, ops));
    }
}

/// From the start of recording to the result of a program whose kernels are on disk, each sample in a process of its own;
/// and how long such a process takes to get that far.
fn disk_warm(suite: &mut Suite, ops: usize) -> Result<(), Error> {
    let directory = std::env::temp_dir().join(format!("jit-peers-{}-{ops}", std::process::id()));
    let children: Result<Vec<Child>, Error> =
        (0..=suite.timing().repeat.max(3)).map(|_| in_a_child(suite, ops, &directory)).collect();
    // What is left costs the next run nothing: it has a directory of its own.
    drop(std::fs::remove_dir_all(&directory));
    let mut children = children?;
    let misses: Vec<usize> = children.iter().map(|child| child.misses).collect();
    let first = children.remove(0);
    let of = |what: fn(&Child) -> f64| Samples(children.iter().map(what).collect()).scaled(1e3);
    let note = format!(
        "new process, kernel on disk: recording, loading, running; first (cold) process {:.1} ms; misses per process {misses:?}",
        first.warm * 1e3
    );
    let warm = Measured::new(format!("disk_warm_{ops}"), ops, Metric::Time, "ms", of(|child| child.warm));
    suite.row(warm.check([first.check], 1e-4).note(note));
    let boot = Measured::new(format!("process_boot_{ops}"), ops, Metric::Time, "ms", of(|child| child.boot));
    suite.row(boot.note("start of main, device, upload, first small evaluation; new process".to_owned()));
    Ok(())
}

/// What a process found.
#[derive(Serialize, Deserialize)]
struct Child {
    /// Seconds from the start of `main` to the first result.
    boot: f64,
    /// Seconds from the start of recording to the result.
    warm: f64,
    /// Kernels that had to be compiled.
    misses: usize,
    check: f64,
}

fn in_a_child(suite: &Suite, ops: usize, directory: &Path) -> Result<Child, Error> {
    let failed = |what: String| Error::Execution(format!("the process that measures failed: {what}"));
    let program = std::env::current_exe().map_err(|e| failed(e.to_string()))?;
    let output = Command::new(program)
        .args(suite.arguments())
        .arg(format!("--disk-warm={ops}"))
        .env("JIT_CACHE_DIR", directory)
        .env("JIT_CACHE", "1")
        .output()
        .map_err(|e| failed(e.to_string()))?;
    serde_json::from_slice(&output.stdout)
        .map_err(|e| failed(format!("{e}; {}", String::from_utf8_lossy(&output.stderr))))
}

/// What the process does that the rows of kernels on disk start: prints what it found. Its cache is in `JIT_CACHE_DIR`.
///
/// # Errors
/// [`Error::NoDevice`], and those of evaluating.
#[expect(clippy::print_stdout, reason = "what the parent process reads")]
pub fn disk_warm_child(options: Options, ops: usize, start: Instant) -> Result<(), Error> {
    let device = device_with_disk_cache(options)?;
    let [x, a, b, c] = operands(&device)?;
    jit_frontend::eval(&chain(&x, &a, &b, &c, 8))?.wait()?;
    let boot = start.elapsed().as_secs_f64();
    device.clear_kernel_history();
    let start = Instant::now();
    let y = chain(&x, &a, &b, &c, ops);
    jit_frontend::eval(&y)?;
    device.sync()?;
    let warm = start.elapsed().as_secs_f64();
    let compiled = |k: &&KernelRecord| matches!(k.cache, CacheOutcome::Miss(_));
    let misses = device.kernel_history().iter().filter(compiled).count();
    let child = Child { boot, warm, misses, check: checksum(&y.to_vec()?) };
    println!("{}", serde_json::to_string(&child).expect("numbers"));
    Ok(())
}
