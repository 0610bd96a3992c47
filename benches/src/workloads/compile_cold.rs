//! From the start of recording to the result of a program that no cache knows.

use std::time::{Duration, Instant};

use jit_frontend::{CacheOutcome, Error, KernelRecord};

use super::chain::{chain, operands};
use crate::checksum::checksum;
use crate::record::{Measured, Metric};
use crate::suite::Suite;
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

/// From the start of recording to the result of a program whose kernels are on disk. Each sample is a new device, which
/// has nothing but the directory.
fn disk_warm(suite: &mut Suite, ops: usize) -> Result<(), Error> {
    let directory = std::env::temp_dir().join(format!("jit-peers-{}-{ops}", std::process::id()));
    let (mut seconds, mut misses, mut check) = (Vec::new(), Vec::new(), 0.0);
    for _ in 0..=suite.timing().repeat.max(3) {
        let device = suite.device_with_disk_cache(&directory)?;
        let [x, a, b, c] = operands(&device)?;
        jit_frontend::eval(&chain(&x, &a, &b, &c, 8))?.wait()?;
        let start = Instant::now();
        let y = chain(&x, &a, &b, &c, ops);
        jit_frontend::eval(&y)?;
        device.sync()?;
        seconds.push(start.elapsed().as_secs_f64());
        let compiled = |k: &&KernelRecord| matches!(k.cache, CacheOutcome::Miss(_));
        misses.push(device.kernel_history().iter().filter(compiled).count());
        check = checksum(&y.to_vec()?);
    }
    // What is left costs the next run nothing: it has a directory of its own.
    drop(std::fs::remove_dir_all(&directory));
    let first = seconds.remove(0);
    let note = format!(
        "new device in one process, kernel on disk: recording, loading, running; the first one compiles, {:.1} ms; misses {misses:?}",
        first * 1e3
    );
    let measured =
        Measured::new(format!("disk_warm_{ops}"), ops, Metric::Time, "ms", Samples(seconds).scaled(1e3));
    suite.row(measured.check([check], 1e-4).note(note));
    Ok(())
}
