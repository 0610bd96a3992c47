//! A loop whose lanes leave early.

use jit_frontend::{Array, Device, while_loop};

use crate::record::{Measured, Metric};
use crate::suite::Suite;

pub(super) fn run(suite: &mut Suite) {
    let width = suite.sizes().mandelbrot;
    let device = suite.device();
    suite.part("iterate", |suite| {
        let (seconds, count) = suite.timing().warm(1).run(&device, || {
            let count = iterations(width, &device);
            jit_frontend::eval(&count)?;
            Ok(count)
        })?;
        let sum: f64 = count.to_vec()?.iter().map(|&n| f64::from(n)).sum();
        let rate = seconds.rate(1e-6 * f64::from(width * width));
        suite.row(
            Measured::new("iterate", format!("{width}x{width}"), Metric::Throughput, "Mpixel/s", rate)
                .check([sum], 1e-3)
                .note(format!("at most 256 iterations; median {:.2} ms", seconds.median() * 1e3)),
        );
        Ok(())
    });
}

fn iterations(width: u32, device: &Device) -> Array<u32> {
    let lane = Array::<u32>::arange((width * width) as usize, device);
    let px = (&lane & (width - 1)).cast::<f32>();
    let py = (&lane >> width.ilog2()).cast::<f32>();
    let step = 3.0 / width as f32;
    let cx = (px + 0.5) * step - 2.25;
    let cy = (py + 0.5) * step - 1.5;
    let start = (cx.zeros_like(), cx.zeros_like(), Array::from(0u32));
    let (_, _, count) = while_loop(
        start,
        |(x, y, count)| count.lt(256) & (x * x + y * y).le(4.0),
        |(x, y, count)| (&x * &x - &y * &y + &cx, 2.0 * x * y + &cy, count + 1),
    );
    count
}
