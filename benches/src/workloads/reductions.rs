//! All elements to one.

use jit_frontend::traverse::Traverse;
use jit_frontend::{Array, Element, Error, Mask, Num};

use super::{F32, bandwidth, elements_rate};
use crate::checksum::checksum;
use crate::inputs::{hash, ranged, uniform};
use crate::suite::Suite;

pub(super) fn run(suite: &mut Suite) {
    let n = suite.sizes().reduced;
    let device = suite.device();
    let x = || F32::from_vec(uniform(n, 51), &device);
    suite.part("sum", |suite| measure(suite, "sum", 4, 1e-4, &x()?, |x| x.sum()));
    suite.part("min", |suite| measure(suite, "min", 4, 0.0, &x()?, |x| x.reduce_min()));
    suite.part("max", |suite| measure(suite, "max", 4, 0.0, &x()?, |x| x.reduce_max()));
    suite.part("dot", |suite| {
        let y = F32::from_vec(ranged(n, 52, -0.5, 0.5), &device)?;
        // Much of it cancels, hence the tolerance.
        measure(suite, "dot", 8, 2e-2, &(x()?, y), |(x, y)| x.dot(y))
    });
    suite.part("prod", |suite| {
        let factors = F32::from_vec(exact_factors(n), &device)?;
        measure(suite, "prod", 4, 0.0, &factors, |x| x.prod())
    });
    suite.part("all", |suite| {
        let mask = Mask::from_vec(vec![true; n], &device)?;
        measure(suite, "all", 1, 0.0, &mask, |mask| mask.all())
    });
    suite.part("any", |suite| {
        let mask = Mask::from_vec(vec![false; n], &device)?;
        measure(suite, "any", 1, 0.0, &mask, |mask| mask.any())
    });
    let width = suite.sizes().matrix;
    let matrix = || F32::from_vec(uniform(width * width, 51), &device);
    suite.part("rows_sum", |suite| of_matrix(suite, "rows_sum", width, &matrix()?, |x| x.sum_rows(width)));
    suite.part("cols_sum", |suite| of_matrix(suite, "cols_sum", width, &matrix()?, |x| x.sum_cols(width)));
    suite.part("prefix_sum_u32", |suite| {
        let small = Array::from_vec((0..n as u32).map(|i| hash(i, 54) & 15).collect(), &device)?;
        // The sums are exact; the checksum is rounded in another order.
        scan(suite, "prefix_sum_u32", 1e-14, &small)
    });
    suite.part("prefix_sum_f32", |suite| scan(suite, "prefix_sum_f32", 1e-3, &x()?));
    suite.part("compress", |suite| {
        let mask = Mask::from_vec((0..n as u32).map(|i| hash(i, 55) & 1 == 1).collect(), &device)?;
        let (seconds, indices) = suite.timing().run(&device, || {
            let indices = mask.compress()?;
            jit_frontend::eval(&indices)?;
            Ok(indices)
        })?;
        let check = [indices.len() as f64, checksum(&indices.to_vec()?)];
        suite.row(elements_rate("compress", n, &seconds).check(check, 0.0));
        Ok(())
    });
}

fn scan<T: Num + Into<f64>>(
    suite: &mut Suite,
    name: &str,
    tolerance: f64,
    operand: &Array<T>,
) -> Result<(), Error> {
    let (seconds, totals) = suite.timing().run(&suite.device(), || {
        let totals = operand.prefix_sum();
        jit_frontend::eval(&totals)?;
        Ok(totals)
    })?;
    let check = [checksum(&totals.to_vec()?)];
    suite.row(bandwidth(name, operand.len(), 8, &seconds).check(check, tolerance));
    Ok(())
}

fn measure<A: Traverse, T: Element + Value>(
    suite: &mut Suite,
    name: &str,
    bytes_each: usize,
    tolerance: f64,
    operands: &A,
    reduce: impl Fn(&A) -> Array<T>,
) -> Result<(), Error> {
    let n = suite.sizes().reduced;
    let (seconds, result) = suite.timing().run(&suite.device(), || {
        let result = reduce(operands);
        jit_frontend::eval(&result)?;
        Ok(result)
    })?;
    suite.row(bandwidth(name, n, bytes_each, &seconds).check([result.item()?.value()], tolerance));
    Ok(())
}

fn of_matrix(
    suite: &mut Suite,
    name: &str,
    width: usize,
    matrix: &F32,
    reduce: impl Fn(&F32) -> F32,
) -> Result<(), Error> {
    let (seconds, result) = suite.timing().run(&suite.device(), || {
        let result = reduce(matrix);
        jit_frontend::eval(&result)?;
        Ok(result)
    })?;
    let sums = checksum(&result.to_vec()?);
    suite.row(
        bandwidth(name, width * width, 4, &seconds).check([sums], 1e-4).note(format!("{width}x{width}")),
    );
    Ok(())
}

/// What a check value is made of.
trait Value {
    fn value(self) -> f64;
}

impl Value for f32 {
    fn value(self) -> f64 {
        self.into()
    }
}

impl Value for bool {
    fn value(self) -> f64 {
        f64::from(u8::from(self))
    }
}

/// Ones with a few twos and halves, so that every order gives the same product.
fn exact_factors(n: usize) -> Vec<f32> {
    let factor = |i| match hash(i, 53) & 0xf_ffff {
        0 => 2.0,
        1 => 0.5,
        _ => 1.0,
    };
    let mut factors: Vec<f32> = (0..n as u32).map(factor).collect();
    if n < 1 << 20 {
        factors[5] = 2.0;
    }
    factors
}
