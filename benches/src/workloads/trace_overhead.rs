//! What an operation costs the host: recording it, and evaluating a long program whose kernel is cached.

use std::time::Instant;

use super::chain::{chain, operands};
use crate::checksum::checksum;
use crate::record::{Measured, Metric};
use crate::suite::Suite;
use crate::timing::Samples;

pub(super) fn run(suite: &mut Suite) {
    let ops = suite.sizes().trace_ops;
    let timing = suite.timing().at_least(9).unbatched();
    let row = |name: &str, seconds: &Samples| {
        Measured::new(name, ops, Metric::Time, "ns/op", seconds.scaled(1e9 / ops as f64))
    };
    suite.part("trace_only", |suite| {
        let [x, a, b, c] = operands(&suite.device())?;
        let (seconds, y) = timing.run_on_host(|| Ok(chain(&x, &a, &b, &c, ops)))?;
        let start = Instant::now();
        drop(y);
        let drop = start.elapsed().as_secs_f64() * 1e9 / ops as f64;
        let note =
            format!("recording alone, as for the others; dropping it then takes {drop:.1} ns/op (once)");
        suite.row(row("trace_only", &seconds).note(note));
        Ok(())
    });
    suite.part("trace_only_literals", |suite| {
        let [x, ..] = operands(&suite.device())?;
        let (seconds, _) = timing.run_on_host(|| Ok(chain(&x, 0.25, 0.75, 0.125, ops)))?;
        suite.row(row("trace_only_literals", &seconds).note("the same with numbers as second operands"));
        Ok(())
    });
    suite.part("eval_cached", |suite| {
        let device = suite.device();
        let [x, a, b, c] = operands(&device)?;
        let (seconds, y) = timing.run(&device, || {
            let y = chain(&x, &a, &b, &c, ops);
            jit_frontend::eval(&y)?;
            Ok(y)
        })?;
        let note = "recording, evaluating with a cached kernel of 16 lanes, waiting";
        suite.row(row("eval_cached", &seconds).check([checksum(&y.to_vec()?)], 1e-4).note(note));
        Ok(())
    });
    suite.skip("codegen_only", "a cached structure makes no code at all");
}
