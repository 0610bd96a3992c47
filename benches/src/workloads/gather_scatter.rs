//! Indexed reads, and writes that meet.

use jit_frontend::{Array, Buffer, Mask};

use super::{F32, elements_rate};
use crate::checksum::checksum;
use crate::inputs::{coins, masked_hashes, uniform};
use crate::record::{Measured, Metric};
use crate::suite::Suite;

pub(super) fn run(suite: &mut Suite) {
    gathers(suite);
    adds(suite);
    compaction(suite);
    histograms(suite);
    packets::<4>(suite);
    packets::<8>(suite);
}

/// Random reads from a table.
fn gathers(suite: &mut Suite) {
    let n = suite.sizes().gathered;
    let device = suite.device();
    for length in suite.sizes().tables {
        let name = format!("gather_2^{}", length.ilog2());
        suite.part(&name, |suite| {
            let table = F32::from_vec(uniform(length, 61), &device)?;
            let index = Array::from_vec(masked_hashes(n, 62, length as u32 - 1), &device)?;
            let (seconds, y) = suite.timing().run(&device, || {
                let y = table.gather(&index);
                jit_frontend::eval(&y)?;
                Ok(y)
            })?;
            let row = elements_rate(&name, n, &seconds).check([checksum(&y.to_vec()?)], 1e-7);
            suite.row(row.note(format!("random gather of f32, table of {length} elements")));
            Ok(())
        });
    }
}

/// Sums of floats into bins that start at zero each time.
fn adds(suite: &mut Suite) {
    let n = suite.sizes().scattered;
    let device = suite.device();
    for bins in suite.sizes().bins {
        let name = format!("scatter_add_2^{}", bins.ilog2());
        suite.part(&name, |suite| {
            let values = F32::from_vec(uniform(n, 63), &device)?;
            let index = Array::from_vec(masked_hashes(n, 64, bins as u32 - 1), &device)?;
            let (seconds, y) = suite.timing().run(&device, || {
                let mut sums = F32::zeros(bins, &device);
                sums.scatter_add(&values, &index);
                jit_frontend::eval(&sums)?;
                Ok(sums)
            })?;
            let row = elements_rate(&name, n, &seconds).check([checksum(&y.to_vec()?)], 1e-4);
            suite.row(row.note(format!("f32 into {bins} bins, with zeroing")));
            Ok(())
        });
    }
}

/// Every other value to the next free slot.
fn compaction(suite: &mut Suite) {
    let n = suite.sizes().scattered;
    let device = suite.device();
    suite.part("scatter_inc_compact", |suite| {
        let mask = Mask::from_vec(coins(n, 65), &device)?;
        let values = F32::from_vec(uniform(n, 63), &device)?;
        let (seconds, (kept, counter)) = suite.timing().run(&device, || {
            let counter = Buffer::<u32>::zeros(1, &device)?;
            // Slots beyond the count are not read; there is no array without contents.
            let mut kept = F32::zeros(n, &device);
            let slot = counter.atomic_inc_masked(0u32, &mask);
            kept.scatter_masked(&values, &slot, &mask);
            jit_frontend::eval(&(kept.clone(), counter.clone()))?;
            Ok((kept, counter))
        })?;
        let count = counter.value().item()?;
        let sum: f64 = kept.to_vec()?[..count as usize].iter().map(|&v| f64::from(v)).sum();
        let row = elements_rate("scatter_inc_compact", n, &seconds).check([f64::from(count), sum], 1e-9);
        suite.row(row.note("slot = atomic_inc(counter) where a coin fell so, then a scatter of the value"));
        Ok(())
    });
}

/// Counts in bins, without and with the counts from before.
fn histograms(suite: &mut Suite) {
    let n = suite.sizes().scattered;
    let [bins, _] = suite.sizes().bins;
    let device = suite.device();
    let index = || Array::from_vec(masked_hashes(n, 64, bins as u32 - 1), &device);
    suite.part("hist_u32", |suite| {
        let index = index()?;
        let (seconds, y) = suite.timing().run(&device, || {
            let mut counts = Array::<u32>::zeros(bins, &device);
            counts.scatter_add(1, &index);
            jit_frontend::eval(&counts)?;
            Ok(counts)
        })?;
        let row = elements_rate("hist_u32", n, &seconds).check([checksum(&y.to_vec()?)], 0.0);
        suite.row(row.note(format!("u32 + 1 into {bins} bins by scatter_add")));
        Ok(())
    });
    suite.part("scatter_inc_bins", |suite| {
        let index = index()?;
        let (seconds, (counts, before)) = suite.timing().run(&device, || {
            let counts = Buffer::<u32>::zeros(bins, &device)?;
            let before = counts.atomic_inc(&index);
            jit_frontend::eval(&(counts.clone(), before.clone()))?;
            Ok((counts, before))
        })?;
        let counts = checksum(&counts.value().to_vec()?);
        let before: f64 = before.to_vec()?.iter().map(|&v| f64::from(v)).sum();
        let row = elements_rate("scatter_inc_bins", n, &seconds).check([counts, before], 0.0);
        suite.row(row.note(format!("atomic_inc into {bins} bins, the counts from before stored")));
        Ok(())
    });
}

/// Random rows of a table of `N` columns.
fn packets<const N: usize>(suite: &mut Suite) {
    let (rows, n) = suite.sizes().packets;
    let device = suite.device();
    let name = format!("packet_{N}");
    suite.part(&name, |suite| {
        let table = F32::from_vec(uniform(rows * N, 66), &device)?;
        let index = Array::from_vec(masked_hashes(n, 67, rows as u32 - 1), &device)?;
        let (seconds, columns) = suite.timing().run(&device, || {
            let columns = table.gather_packet::<N, _>(&index);
            jit_frontend::eval(&columns)?;
            Ok(columns)
        })?;
        let mut sum = 0.0;
        for (c, column) in columns.iter().enumerate() {
            sum += (c + 1) as f64 * checksum(&column.to_vec()?);
        }
        let rate = seconds.rate(1e-9 * (n * N) as f64);
        let row = Measured::new(&name, n, Metric::Throughput, "Gfloat/s", rate).check([sum], 1e-7);
        suite.row(row.note(format!("random rows of {N} f32, table of {rows} rows")));
        Ok(())
    });
}
