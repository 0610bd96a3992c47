//! Gradient descent: what an iteration costs, and whether memory grows.

use std::time::Instant;

use jit_frontend::Array;

use super::F32;
use crate::checksum::checksum;
use crate::inputs::{masked_hashes, ranged, uniform};
use crate::record::{Measured, Metric};
use crate::suite::Suite;
use crate::timing::Samples;

/// Samples of the time, spread over the iterations.
const SAMPLES: usize = 9;

pub(super) fn run(suite: &mut Suite) {
    let (n, parameters, iterations) = suite.sizes().memory;
    suite.part("loop", |suite| {
        // One that keeps nothing from the other workloads.
        let device = suite.new_device()?;
        let x = F32::from_vec(ranged(n, 95, 0.5, 1.5), &device)?;
        let index = Array::from_vec(masked_hashes(n, 96, parameters as u32 - 1), &device)?;
        let target = F32::from_vec(uniform(n, 97), &device)?;
        let rate = (0.05 * parameters as f64 / n as f64) as f32;
        let mut p = F32::from_vec(vec![0.5; parameters], &device)?;
        let before = device.memory().bytes;
        let mut step = || {
            // loss = sum y^2, so the gradient with respect to y is 2 y, and p's is what its readers add up.
            let y = p.gather(&index) * &x - &target;
            let mut gradient = F32::zeros(parameters, &device);
            gradient.scatter_add((&y + &y) * &x, &index);
            p = &p - gradient * rate;
            jit_frontend::eval(&p)
        };
        let warm = (iterations / 10).max(10);
        for _ in 0..warm {
            step()?;
        }
        device.sync()?;
        let resident = resident_kib();
        let each = ((iterations - warm) / SAMPLES).max(1);
        let mut micros = Vec::new();
        for _ in 0..SAMPLES {
            let start = Instant::now();
            for _ in 0..each {
                step()?;
            }
            device.sync()?;
            micros.push(start.elapsed().as_secs_f64() * 1e6 / each as f64);
        }
        let now = resident_kib();
        let held = device.memory();
        let total = warm + SAMPLES * each;
        suite.row(
            Measured::new("iteration", format!("{n}/{parameters}"), Metric::Time, "us", Samples(micros))
                .check([checksum(&p.to_vec()?)], 1e-3)
                .note(format!("gather, gradient written by hand, update; {total} iterations in all")),
        );
        let growth = Samples(vec![now - resident]);
        suite.row(
            Measured::new("rss_growth", total, Metric::Growth, "KiB", growth)
                .note(format!("resident memory, iteration {warm} to {total} (now {now} KiB)")),
        );
        let own = (held.bytes + held.cached).saturating_sub(before);
        let peak = Samples(vec![own as f64 / f64::from(1 << 20)]);
        suite.row(
            Measured::new("peak_bytes", total, Metric::Bytes, "MiB", peak)
                .note("arrays and what is kept of dropped ones, at the end, without the inputs"),
        );
        Ok(())
    });
}

/// Resident memory; 0 where the system does not say.
fn resident_kib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()).and_then(|kib| kib.parse().ok()).unwrap_or(0.0)
}
