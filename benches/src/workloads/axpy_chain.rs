//! Memory bandwidth: a copy, and eight operations on three arrays that should cost no more than their bytes.

use super::{F32, bandwidth};
use crate::checksum::checksum;
use crate::inputs::uniform;
use crate::suite::Suite;

pub(super) fn run(suite: &mut Suite) {
    let n = suite.sizes().axpy;
    let device = suite.device();
    let mut copy_seconds = None;
    suite.part("copy", |suite| {
        let a = F32::from_vec(uniform(n, 5), &device)?;
        let (seconds, y) = suite.timing().run(&device, || {
            let y = &a + 1.0;
            jit_frontend::eval(&y)?;
            Ok(y)
        })?;
        copy_seconds = Some(seconds.median());
        let row = bandwidth("copy", n, 8, &seconds).check([checksum(&y.to_vec()?)], 1e-6);
        suite.row(row.note("a kernel y = x + 1, 8 B/element: the bound of a copy"));
        Ok(())
    });
    suite.part("chain8", |suite| {
        let a = F32::from_vec(uniform(n, 5), &device)?;
        let b = F32::from_vec(uniform(n, 6), &device)?;
        let c = F32::from_vec(uniform(n, 7), &device)?;
        let (seconds, y) = suite.timing().run(&device, || {
            let t = &a * &b + &c;
            let t = t * &a - &b;
            let t = t * &c + &a;
            let y = t * &b - &c;
            jit_frontend::eval(&y)?;
            Ok(y)
        })?;
        let of_copy = copy_seconds.map_or(String::new(), |copy| {
            format!("; {:.2} of the copy's bandwidth", (16.0 / seconds.median()) / (8.0 / copy))
        });
        let row = bandwidth("chain8", n, 16, &seconds).check([checksum(&y.to_vec()?)], 1e-5);
        suite.row(row.note(format!("8 operations, 3 inputs, 16 B/element{of_copy}")));
        Ok(())
    });
}
