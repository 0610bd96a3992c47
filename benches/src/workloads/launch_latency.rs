//! What a small evaluation costs whose kernel is cached.

use jit_frontend::{Device, Error};

use super::F32;
use crate::checksum::checksum;
use crate::inputs::uniform;
use crate::record::{Measured, Metric};
use crate::suite::Suite;

const LANES: usize = 1024;

pub(super) fn run(suite: &mut Suite) {
    let launches = suite.sizes().launches;
    let device = suite.device();
    suite.part("eval_sync", |suite| {
        let [x, a, b] = operands(&device)?;
        let (seconds, y) = suite.timing().at_least(15).unbatched().run(&device, || {
            let mut y = evaluated(&x, &a, &b)?;
            device.sync()?;
            for _ in 1..50 {
                y = evaluated(&x, &a, &b)?;
                device.sync()?;
            }
            Ok(y)
        })?;
        let samples = seconds.scaled(1e6 / 50.0);
        suite.row(
            Measured::new("eval_sync", LANES, Metric::Latency, "us", samples)
                .check([checksum(&y.to_vec()?)], 1e-4)
                .note("recording, launching the cached kernel, waiting"),
        );
        Ok(())
    });
    suite.part("eval_async", |suite| {
        let [x, a, b] = operands(&device)?;
        let (seconds, _) = suite.timing().at_least(7).unbatched().run(&device, || {
            let mut y = evaluated(&x, &a, &b)?;
            for _ in 1..launches {
                y = evaluated(&x, &a, &b)?;
            }
            Ok(y)
        })?;
        let samples = seconds.scaled(1e6 / launches as f64);
        let note = format!("{launches} independent evaluations, one wait at the end");
        suite.row(Measured::new("eval_async", LANES, Metric::Latency, "us", samples).note(note));
        Ok(())
    });
    suite.part("eval_async_dep", |suite| {
        let [x, a, b] = operands(&device)?;
        let (seconds, _) = suite.timing().at_least(7).unbatched().run(&device, || {
            let mut y = x.clone();
            for _ in 0..launches {
                y = evaluated(&y, &a, &b)?;
            }
            Ok(y)
        })?;
        let samples = seconds.scaled(1e6 / launches as f64);
        let note = format!("{launches} evaluations, each of the result before, one wait at the end");
        suite.row(Measured::new("eval_async_dep", LANES, Metric::Latency, "us", samples).note(note));
        Ok(())
    });
    for name in ["freeze_sync", "freeze_async", "freeze_10k_sync"] {
        suite.skip(name, "the engine replays no recorded evaluations yet");
    }
}

fn operands(device: &Device) -> Result<[F32; 3], Error> {
    Ok([
        F32::from_vec(uniform(LANES, 11), device)?,
        F32::from_vec(uniform(LANES, 12), device)?,
        F32::from_vec(uniform(LANES, 13), device)?,
    ])
}

fn evaluated(x: &F32, a: &F32, b: &F32) -> Result<F32, Error> {
    let t = x * a + b;
    let t = t * a - x;
    let t = t * b + a;
    let t = t * x - b;
    jit_frontend::eval(&t)?;
    Ok(t)
}
