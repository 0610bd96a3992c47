//! One of sixteen functions for each element: polynomials with a square root, sine, exponential or logarithm.

use jit_frontend::{Array, Mode, Switch};

use super::{F32, elements_rate};
use crate::checksum::checksum;
use crate::inputs::{masked_hashes, uniform};
use crate::suite::Suite;

pub(super) fn run(suite: &mut Suite) {
    let n = suite.sizes().switch;
    let coherent: Vec<u32> = (0..n as u64).map(|i| (i * 16 / n as u64) as u32).collect();
    let random = masked_hashes(n, 73, 15);
    row(suite, "random", &random, Mode::Symbolic);
    row(suite, "coherent", &coherent, Mode::Symbolic);
    row(suite, "random_evaluated", &random, Mode::Evaluated);
}

fn row(suite: &mut Suite, name: &'static str, index: &[u32], mode: Mode) {
    let device = suite.device();
    let n = index.len();
    suite.part(name, |suite| {
        let index = Array::from_slice(index, &device)?;
        let x = F32::from_slice(&uniform(n, 71), &device)?;
        let y = F32::from_slice(&uniform(n, 72), &device)?;
        let callables: Vec<_> = (0..16).map(|k| move |(x, y): (F32, F32)| callable(k, &x, &y)).collect();
        let callables: Vec<&dyn Fn((F32, F32)) -> F32> =
            callables.iter().map(|f| f as &dyn Fn((F32, F32)) -> F32).collect();
        let (seconds, result) = suite.timing().run(&device, || {
            let result = Switch::new(&index).mode(mode).try_run((x.clone(), y.clone()), &callables)?;
            jit_frontend::eval(&result)?;
            Ok(result)
        })?;
        let row = elements_rate(name, n, &seconds).check([checksum(&result.to_vec()?)], 1e-5);
        suite.row(row.note(format!("16 callables, {name} index")));
        Ok(())
    });
}

fn callable(k: u32, x: &F32, y: &F32) -> F32 {
    let c = |j: u32| (1 + (7 * k + 3 * j) % 16) as f32 / 16.0;
    let mut sum = x * c(0) + c(1);
    for j in 2..6 {
        sum = sum * x + c(j);
    }
    match k % 4 {
        0 => &sum + (&sum * y).sin(),
        1 => sum * (-y * c(2)).exp(),
        2 => sum.sqrt() + y * c(3),
        _ => sum - (y + 1.0).ln(),
    }
}
