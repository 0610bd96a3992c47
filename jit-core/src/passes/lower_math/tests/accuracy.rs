//! Measures the largest and mean error of each function, and holds them against `accuracy.md`.
//!
//! f32 against the host's f64 library (good to 2^-28 of an ulp of f32) on fixed pseudo-random arguments, f16 on
//! all arguments; f64 against `reference.txt`, which `reference.py` made with a thousand bits.

use super::shape::{hot_ops, ops_in_all};
use super::{evaluate, lowered, value};
use crate::dtype::{ALL_DTYPES, DType};
use crate::interp;
use crate::op::{ALL_OPS, Class, Op, scalar};

/// Errors in units of the last place of the exact value.
#[derive(Default, Clone, Copy)]
struct Errors {
    max: f64,
    at: [u64; 2],
    sum: f64,
    count: u64,
}

impl Errors {
    fn add(&mut self, error: f64, args: &[u64]) {
        if error.is_nan() || error > self.max {
            self.max = error;
            self.at[..args.len()].copy_from_slice(args);
        }
        self.sum += error;
        self.count += 1;
    }

    fn place(&self, dtype: DType) -> String {
        format!("{:x?} = {:?}", self.at, self.at.map(|bits| value(dtype, bits)))
    }
}

fn functions() -> impl Iterator<Item = Op> {
    ALL_OPS.iter().copied().filter(|op| op.class() == Class::Math)
}

/// f32 arguments with nearly the largest errors, found by trying every seventh float or nineteenth, and 10^8 pairs.
const HARD: [(Op, [u32; 2]); 29] = [
    (Op::Sin, [0x6d36_4af3, 0]),
    (Op::Sin, [0xd8db_04d4, 0]),
    (Op::Cos, [0xdd58_71b9, 0]),
    (Op::Cos, [0xc1cf_5bc6, 0]),
    (Op::Exp, [0xc0a6_7403, 0]),
    (Op::Ln, [0x3fb3_1f77, 0]),
    (Op::Ln, [0x3fb3_d984, 0]),
    (Op::Pow, [0x3f7e_6b48, 0xc651_8e62]),
    (Op::Tan, [0xf8c0_146b, 0]),
    (Op::Tan, [0x4017_7e7f, 0]),
    (Op::Asin, [0x3f07_114a, 0]),
    (Op::Acos, [0x3f1b_e1d3, 0]),
    (Op::Atan, [0x3f7d_a5df, 0]),
    (Op::Atan2, [0x0011_5515, 0x0021_dc97]),
    (Op::Sinh, [0x3eb2_e322, 0]),
    (Op::Cosh, [0x40ff_2d72, 0]),
    (Op::Tanh, [0x3eb7_ea16, 0]),
    (Op::Asinh, [0x3f90_c70c, 0]),
    (Op::Acosh, [0x3f87_61b1, 0]),
    (Op::Atanh, [0x3e2c_2b63, 0]),
    (Op::Exp2, [0xc2fc_f173, 0]),
    (Op::ExpM1, [0x3ebd_1d92, 0]),
    (Op::Log2, [0x3fb3_98cb, 0]),
    (Op::Log10, [0x3faa_4cd2, 0]),
    (Op::Ln1p, [0x3ecd_b83a, 0]),
    (Op::Cbrt, [0x3a03_53b5, 0]),
    (Op::Erf, [0xbf70_acb8, 0]),
    (Op::Erfc, [0x40d7_79b5, 0]),
    (Op::Erfc, [0x3fa9_4675, 0]),
];

/// The largest error that is accepted, in ulp.
fn bound(op: Op, dtype: DType) -> f64 {
    match (op, dtype) {
        (_, DType::F16) => 0.51,
        (Op::Tan | Op::Atan | Op::Asinh | Op::Erf | Op::Erfc, DType::F32) => 1.2,
        _ => 1.0,
    }
}

#[test]
fn errors_are_as_documented() {
    let mut table = String::from(
        "| function | type | largest error (ulp) | mean error (ulp) | ops on the hot path | ops in all |\n\
         | --- | --- | --- | --- | --- | --- |\n",
    );
    for op in functions() {
        for dtype in ALL_DTYPES.into_iter().filter(|d| d.is_float()) {
            let errors = match dtype {
                DType::F64 => reference_errors(op),
                _ => library_errors(op, dtype),
            };
            let (max, mean) = (errors.max, errors.sum / errors.count as f64);
            assert!(max <= bound(op, dtype), "{} {dtype}: {max} ulp at {}", op.name(), errors.place(dtype));
            let program = lowered(op, dtype);
            let (name, hot, all) = (op.name(), hot_ops(&program), ops_in_all(&program));
            table += &format!("| {name} | {dtype} | {max:.2} | {mean:.3} | {hot} | {all} |\n");
        }
    }
    let documented = include_str!("../accuracy.md");
    assert!(documented.contains(&table), "accuracy.md should have this table:\n{table}");
}

/// What the lowered function and the host's library may err by together.
fn library_bound(op: Op) -> f64 {
    match op {
        Op::Erfc => 4.0,
        Op::Sinh | Op::Cosh | Op::Tanh | Op::Asinh | Op::Acosh | Op::Atanh => 3.0,
        _ => 2.0,
    }
}

/// Many more arguments in f64, against the host's library, itself good to 1 ulp or 2.
#[test]
fn f64_agrees_with_the_library() {
    for op in functions() {
        let errors = library_errors(op, DType::F64);
        let max = errors.max;
        assert!(max <= library_bound(op), "{}: {max} ulp at {}", op.name(), errors.place(DType::F64));
    }
}

/// Against the host's library in f64.
fn library_errors(op: Op, dtype: DType) -> Errors {
    let program = lowered(op, dtype);
    let operands = arguments(op, dtype);
    let mut errors = Errors::default();
    for (lane, result) in evaluate(&program, &operands).into_iter().enumerate() {
        let args: Vec<u64> = operands.iter().map(|o| o[lane]).collect();
        let wide: Vec<u64> = args.iter().map(|&a| value(dtype, a).to_bits()).collect();
        let exact = f64::from_bits(interp::library(op, DType::F64, &wide));
        errors.add(error_in_ulp(dtype, result, exact, 0.0), &args);
    }
    errors
}

/// f64 against the checked-in values.
fn reference_errors(op: Op) -> Errors {
    let mut operands = vec![Vec::new(); op.arity()];
    let mut exact = Vec::new();
    for line in include_str!("../reference.txt").lines() {
        let Some((name, words)) = line.split_once(' ') else { continue };
        if name == op.name() {
            let words: Vec<u64> =
                words.split(' ').map(|w| u64::from_str_radix(w, 16).expect("a hexadecimal word")).collect();
            let [args @ .., nearest, rest] = &words[..] else { panic!("too few words: {line}") };
            operands.iter_mut().zip(args).for_each(|(operand, &arg)| operand.push(arg));
            exact.push((f64::from_bits(*nearest), f64::from_bits(*rest)));
        }
    }
    let mut errors = Errors::default();
    let results = evaluate(&lowered(op, DType::F64), &operands);
    for (lane, (result, (nearest, rest))) in results.into_iter().zip(exact).enumerate() {
        let args: Vec<u64> = operands.iter().map(|o| o[lane]).collect();
        errors.add(error_in_ulp(DType::F64, result, nearest, rest), &args);
    }
    assert!(errors.count > 50, "`{}` has {} reference values", op.name(), errors.count);
    errors
}

/// |result - exact| in ulp of `exact`, to which `rest` ulps are added; 0 for two NaNs and for an overflow
/// where rounding overflows.
fn error_in_ulp(dtype: DType, result: u64, exact: f64, rest: f64) -> f64 {
    let (mantissa, min_exponent) = match dtype {
        DType::F16 => (10, -14),
        DType::F32 => (23, -126),
        _ => (52, -1022),
    };
    let result = value(dtype, result);
    let rounded = value(dtype, scalar::cast(DType::F64, dtype, exact.to_bits()));
    if result == rounded && !rounded.is_finite() || result.is_nan() && rounded.is_nan() {
        return 0.0;
    }
    let exponent = ((exact.to_bits() >> 52 & 0x7ff) as i32 - 1023).max(min_exponent);
    // In two factors, for the exponents of denormal numbers.
    let half = exponent / 2;
    let ulps = (result - exact) * 2f64.powi(mantissa - half) * 2f64.powi(half - exponent);
    (ulps - rest).abs()
}

/// Where a function of one operand is neither trivial nor constant, beside all floats.
fn ranges(op: Op, single: bool) -> &'static [(f64, f64)] {
    match op {
        Op::Asin | Op::Acos | Op::Atanh => &[(-1.0, 1.0), (-0.51, 0.51), (0.999, 1.0), (-1.0, -0.999)],
        Op::Atan => &[(-1.0, 1.0), (-8.0, 8.0)],
        Op::Sinh | Op::Cosh if single => &[(-89.5, 89.5), (-1.5, 1.5), (-0.4, 0.4)],
        Op::Sinh | Op::Cosh => &[(-710.5, 710.5), (-1.5, 1.5), (-0.4, 0.4)],
        Op::Tanh => &[(-1.0, 1.0), (-20.0, 20.0), (-0.4, 0.4)],
        Op::Asinh => &[(-1.0, 1.0), (-8.0, 8.0), (-1e5, 1e5), (-1e9, 1e9)],
        Op::Acosh => &[(1.0, 1.001), (1.0, 2.0), (1.0, 8.0), (1.0, 1e5), (1.0, 1e9)],
        Op::Exp2 if single => &[(-151.0, 129.0), (-1.0, 1.0)],
        Op::Exp2 => &[(-1076.0, 1025.0), (-1.0, 1.0)],
        Op::ExpM1 if single => &[(-25.0, 89.0), (-1.0, 1.0), (-0.4, 0.4), (20.0, 50.0)],
        Op::ExpM1 => &[(-45.0, 710.0), (-1.0, 1.0), (-0.4, 0.4), (30.0, 50.0)],
        Op::Log2 | Op::Log10 => &[(0.0, 3.0), (0.4, 2.5), (0.99, 1.01)],
        Op::Ln1p => &[(-1.0, 3.0), (-0.5, 0.5), (0.0, 100.0), (0.0, 1e9)],
        Op::Cbrt => &[(-8.0, 8.0)],
        Op::Erf if single => &[(-4.0, 4.0), (-1.0, 1.0)],
        Op::Erf => &[(-6.0, 6.0), (-1.0, 1.0)],
        Op::Erfc if single => &[(-4.0, 10.2), (-1.0, 1.0), (8.0, 10.2)],
        Op::Erfc => &[(-6.0, 27.5), (-1.0, 1.0), (25.0, 27.5)],
        _ => &[(0.0, 4.0)],
    }
}

/// Arguments all over a function's domain.
fn arguments(op: Op, dtype: DType) -> Vec<Vec<u64>> {
    if dtype == DType::F16 && op.arity() == 1 {
        return vec![(0..=0xffff).collect()];
    }
    let mut random = Random(op as u64 + 1);
    let mut operands = vec![Vec::new(); op.arity()];
    if dtype == DType::F16 {
        operands.fill_with(|| (0..100_000).map(|_| random.next() & 0xffff).collect());
        return operands;
    }
    for (_, args) in HARD.iter().filter(|(hard, _)| *hard == op && dtype == DType::F32) {
        operands.iter_mut().zip(args).for_each(|(operand, &arg)| operand.push(u64::from(arg)));
    }
    let f = |x: f64| scalar::cast(DType::F64, dtype, x.to_bits());
    for _ in 0..100_000 {
        let any = random.next() >> (64 - dtype.bits());
        match op {
            Op::Sin | Op::Cos | Op::Tan => {
                // All floats, the usual angles, the range of the first reduction, neighbours of multiples of pi/2.
                let multiple = (random.below(41_000) + 1) as f64 * std::f64::consts::FRAC_PI_2;
                let neighbour = f(multiple).wrapping_add(random.below(5)).wrapping_sub(2);
                operands[0].extend([
                    any,
                    f(random.within(-8.0, 8.0)),
                    f(random.within(-65e3, 65e3)),
                    neighbour,
                ]);
            }
            Op::Exp => operands[0].extend([any, f(random.within(-104.5, 89.0)), f(random.within(-1.0, 1.0))]),
            Op::Ln => operands[0].extend([any & (dtype.mask() >> 1), f(random.within(0.4, 2.5))]),
            Op::Pow => {
                // All floats; ordinary ones; a power anywhere in the range of f32, also for bases near 1.
                let base = f64::from(f32::from_bits(any as u32 & 0x7fff_ffff)).clamp(1e-45, 3e38);
                let near_one = 1.0 + f64::from(f32::EPSILON) * (1 + random.below(1 << 16)) as f64;
                let log = random.within(-104.0, 89.0);
                operands[0].extend([any, f(random.within(0.0, 10.0)), f(base), f(near_one)]);
                let near_one = f64::from(near_one as f32);
                let y = [random.within(-10.0, 10.0), log / base.ln(), log / near_one.ln()];
                operands[1].push(random.next() >> (64 - dtype.bits()));
                operands[1].extend(y.map(f));
            }
            Op::Atan2 | Op::Hypot => {
                // All floats, ordinary ones, and those of which none can be left out.
                let near = f64::from(f32::from_bits(any as u32 & 0x3fff_ffff | 0x2000_0000));
                let ratio = random.within(-4.0, 4.0).exp2();
                operands[0].extend([any, f(random.within(-4.0, 4.0)), f(near)]);
                operands[1].push(random.next() >> (64 - dtype.bits()));
                operands[1].extend([f(random.within(-4.0, 4.0)), f(near * ratio)]);
            }
            _ => {
                operands[0].push(any);
                let ranges = ranges(op, dtype == DType::F32);
                operands[0].extend(ranges.iter().map(|&(low, high)| f(random.within(low, high))));
            }
        }
    }
    operands
}

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn within(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}
