//! Mathematical functions: how fast, from memory to memory and eight in one kernel, and how far off.

use jit_frontend::Error;

use super::{F32, elements_rate};
use crate::checksum::checksum;
use crate::inputs::ranged;
use crate::record::{Measured, Metric};
use crate::suite::Suite;
use crate::timing::Samples;

/// A function of one operand, or of two of which the second stays as it is.
struct Function {
    name: &'static str,
    /// Range and seed of each operand.
    operands: &'static [(f64, f64, u32)],
    traced: fn(&F32, &[F32]) -> F32,
    /// The same in f64.
    reference: fn(&[f64]) -> f64,
}

const ANGLES: &[(f64, f64, u32)] = &[(-20.0, 20.0, 41)];
const POSITIVE: &[(f64, f64, u32)] = &[(0.001, 1000.0, 42)];

static FUNCTIONS: &[Function] = &[
    Function { name: "sin", operands: ANGLES, traced: |x, _| x.sin(), reference: |v| v[0].sin() },
    Function { name: "cos", operands: ANGLES, traced: |x, _| x.cos(), reference: |v| v[0].cos() },
    Function { name: "exp", operands: ANGLES, traced: |x, _| x.exp(), reference: |v| v[0].exp() },
    Function { name: "log", operands: POSITIVE, traced: |x, _| x.ln(), reference: |v| v[0].ln() },
    Function {
        name: "pow",
        operands: &[(0.01, 10.0, 43), (-4.0, 4.0, 44)],
        traced: |x, rest| x.powf(&rest[0]),
        reference: |v| v[0].powf(v[1]),
    },
    Function { name: "sqrt", operands: POSITIVE, traced: |x, _| x.sqrt(), reference: |v| v[0].sqrt() },
    Function {
        name: "rsqrt",
        operands: POSITIVE,
        traced: |x, _| x.rsqrt(),
        reference: |v| 1.0 / v[0].sqrt(),
    },
    Function {
        name: "atan2",
        operands: &[(-1.0, 1.0, 45), (-1.0, 1.0, 46)],
        traced: |y, rest| y.atan2(&rest[0]),
        reference: |v| v[0].atan2(v[1]),
    },
    Function {
        name: "erf",
        operands: &[(-4.0, 4.0, 47)],
        traced: |x, _| x.erf(),
        reference: |v| libm::erf(v[0]),
    },
];

/// How many elements are compared with the reference.
const COMPARED: usize = 1 << 20;

pub(super) fn run(suite: &mut Suite) {
    for function in FUNCTIONS {
        suite.part(function.name, |suite| measure(suite, function));
    }
}

fn measure(suite: &mut Suite, function: &Function) -> Result<(), Error> {
    let n = suite.sizes().transcendental;
    let device = suite.device();
    let name = function.name;
    let mut host = Vec::new();
    let mut arrays = Vec::new();
    for &(low, high, seed) in function.operands {
        let values = ranged(n, seed, low, high);
        arrays.push(F32::from_slice(&values, &device)?);
        host.push(values);
    }
    let (x, rest) = arrays.split_first().expect("a function has an operand");

    let (seconds, y) = suite.timing().run(&device, || {
        let y = (function.traced)(x, rest);
        jit_frontend::eval(&y)?;
        Ok(y)
    })?;
    let y = y.to_vec()?;
    let row = elements_rate(name, n, &seconds).check([checksum(&y)], 1e-4);
    suite.row(row.note("one call for each element, memory to memory"));

    let compared = n.min(COMPARED);
    let error = worst_error(function, &host, &y[..compared]);
    let samples = Samples(vec![error.ulps]);
    let row = Measured::new(format!("{name}_err"), compared, Metric::MaxError, "ulp", samples);
    suite.row(row.note(error.note));

    let (seconds, y) = suite.timing().warm(1).run(&device, || {
        let mut sum = (function.traced)(x, rest);
        for k in 1..8 {
            sum += (function.traced)(&(x + (f64::from(k) * 0.001) as f32), rest);
        }
        jit_frontend::eval(&sum)?;
        Ok(sum)
    })?;
    let rate = seconds.rate(8e-9 * n as f64);
    let row = Measured::new(format!("{name}_x8"), n, Metric::Throughput, "Geval/s", rate);
    let row = row.check([checksum(&y.to_vec()?)], 1e-3);
    suite.row(row.note("eight evaluations for each element, summed in one kernel"));
    Ok(())
}

struct WorstError {
    ulps: f64,
    note: String,
}

fn worst_error(function: &Function, operands: &[Vec<f32>], results: &[f32]) -> WorstError {
    let (mut worst, mut at, mut sum, mut absolute, mut nans) = (0.0, 0, 0.0, 0.0f64, 0);
    for (i, &y) in results.iter().enumerate() {
        if y.is_nan() {
            nans += 1;
            continue;
        }
        let values: Vec<f64> = operands.iter().map(|o| f64::from(o[i])).collect();
        let reference = (function.reference)(&values);
        let magnitude = (reference.abs() as f32).max(f32::MIN_POSITIVE);
        let ulp = f64::from(magnitude.next_up() - magnitude);
        let difference = (f64::from(y) - reference).abs();
        let ulps = difference / ulp;
        sum += ulps;
        absolute = absolute.max(difference);
        if ulps > worst {
            (worst, at) = (ulps, i);
        }
    }
    let mean = sum / (results.len() - nans).max(1) as f64;
    let worst_operands: Vec<f32> = operands.iter().map(|o| o[at]).collect();
    let note = format!("mean {mean:.3} ulp, max abs {absolute:.3e}, nan {nans}; worst at {worst_operands:?}");
    WorstError { ulps: worst, note }
}
