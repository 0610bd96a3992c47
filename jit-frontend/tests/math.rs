//! Functions of real numbers; their accuracy is tested where they are lowered.

use jit_frontend::f16;
use jit_frontend::prelude::*;

use crate::support::{on_each, values};

#[test]
fn exact_functions_are_those_of_the_standard_library() {
    let inputs = [0.0f32, -0.0, 0.5, -0.5, 1.5, -2.5, 3.75, 1e10, -1e-40, f32::INFINITY, f32::NEG_INFINITY];
    on_each(|dev| {
        let x = Array::from_slice(&inputs, dev).expect("memory");
        let check = |name: &str, got: &Array<f32>, expected: &dyn Fn(f32) -> f32| {
            for (x, got) in inputs.iter().zip(values(got)) {
                let expected = expected(*x);
                let same = got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan();
                assert!(same, "{name}({x}) = {got}, not {expected}");
            }
        };
        check("sqrt", &x.sqrt(), &f32::sqrt);
        check("recip", &x.recip(), &f32::recip);
        check("floor", &x.floor(), &f32::floor);
        check("ceil", &x.ceil(), &f32::ceil);
        check("round", &x.round(), &f32::round);
        check("round_ties_even", &x.round_ties_even(), &f32::round_ties_even);
        check("trunc", &x.trunc(), &f32::trunc);
        check("fract", &x.fract(), &f32::fract);
        check("abs", &x.abs(), &f32::abs);
        check("signum", &x.signum(), &f32::signum);
        check("copysign", &x.copysign(-1.0), &|x| x.copysign(-1.0));
        check("mul_add", &x.mul_add(3.0, 0.1), &|x| x.mul_add(3.0, 0.1));
        check("is_nan", &x.is_nan().select(1.0, 0.0), &|x| f32::from(u8::from(x.is_nan())));
        check("is_finite", &x.is_finite().select(1.0, 0.0), &|x| f32::from(u8::from(x.is_finite())));
        check("is_infinite", &x.is_infinite().select(1.0, 0.0), &|x| f32::from(u8::from(x.is_infinite())));
        check("step", &x.step(0.5), &|x| if x < 0.5 { 0.0 } else { 1.0 });
        check("rem", &(&x % 0.7), &|x| x % 0.7);
    });
}

#[test]
fn signum_of_nan_is_nan() {
    on_each(|dev| {
        let x = Array::from_slice(&[f64::NAN, -3.0], dev).expect("memory");
        let signs = values(&x.signum());
        assert!(signs[0].is_nan() && signs[1] == -1.0);
        assert_eq!(values(&x.is_nan()), [true, false]);
    });
}

#[test]
fn transcendental_functions_are_close() {
    on_each(|dev| {
        let inputs = [0.1f64, 0.7, 1.3, 2.9];
        let x = Array::from_slice(&inputs, dev).expect("memory");
        let check = |name: &str, got: &Array<f64>, expected: &dyn Fn(f64) -> f64| {
            for (x, got) in inputs.iter().zip(values(got)) {
                let expected = expected(*x);
                assert!(
                    (got - expected).abs() <= expected.abs() * 1e-14,
                    "{name}({x}) = {got}, not {expected}"
                );
            }
        };
        check("rsqrt", &x.rsqrt(), &|x| 1.0 / x.sqrt());
        check("sin", &x.sin(), &f64::sin);
        check("cos", &x.cos(), &f64::cos);
        check("sin_cos", &x.sin_cos().1, &f64::cos);
        check("tan", &x.tan(), &f64::tan);
        check("exp", &x.exp(), &f64::exp);
        check("ln", &x.ln(), &f64::ln);
        check("asin", &(&x * 0.3).asin(), &|x| (x * 0.3).asin());
        check("acos", &(&x * 0.3).acos(), &|x| (x * 0.3).acos());
        check("atan", &x.atan(), &f64::atan);
        check("atan2", &x.atan2(-0.7), &|x| x.atan2(-0.7));
        check("atan2 of arrays", &(-&x).atan2(&x), &|x| (-x).atan2(x));
        check("sinh", &x.sinh(), &f64::sinh);
        check("cosh", &x.cosh(), &f64::cosh);
        check("tanh", &x.tanh(), &f64::tanh);
        check("asinh", &x.asinh(), &f64::asinh);
        check("acosh", &(&x + 1.0).acosh(), &|x| (x + 1.0).acosh());
        check("atanh", &(&x * 0.3).atanh(), &|x| (x * 0.3).atanh());
        check("exp2", &x.exp2(), &f64::exp2);
        check("exp_m1", &x.exp_m1(), &f64::exp_m1);
        check("log2", &x.log2(), &f64::log2);
        check("log10", &x.log10(), &f64::log10);
        check("ln_1p", &x.ln_1p(), &f64::ln_1p);
        check("cbrt", &(-&x).cbrt(), &|x| (-x).cbrt());
        check("hypot", &x.hypot(0.5), &|x| x.hypot(0.5));
        // erf and erfc of the first argument, and that they add up.
        check("erf + erfc", &(x.erf() + x.erfc()), &|_| 1.0);
        assert!((values(&x.erf())[0] - 0.112_462_916_018_284_89).abs() < 1e-16);
        check("powf", &x.powf(2.5), &|x| x.powf(2.5));
        check("powf of arrays", &x.powf(&x), &|x| x.powf(x));
        check("to_degrees", &x.to_degrees(), &f64::to_degrees);
        check("to_radians", &x.to_radians(), &f64::to_radians);
        let h = Array::from_slice(&[f16::from_f32(0.5)], dev).expect("memory");
        assert_eq!(values(&h.exp()), [f16::from_f64(0.5f64.exp())]);
    });
}

#[test]
fn integer_powers_multiply_in_one_order() {
    on_each(|dev| {
        let x = Array::from_slice(&[1.1f32, -3.0], dev).expect("memory");
        assert_eq!(values(&x.powi(0)), [1.0, 1.0]);
        assert_eq!(values(&x.powi(1)), [1.1, -3.0]);
        // 5 is 101 in binary: x times the square of the square.
        let fifth = |x: f32| x * ((x * x) * (x * x));
        assert_eq!(values(&x.powi(5)), [fifth(1.1), -243.0]);
        assert_eq!(values(&x.powi(-5)), [1.0 / fifth(1.1), 1.0 / -243.0]);
        assert_eq!(values(&x.powi(i32::MIN)), [0.0, 0.0]);
    });
}

#[test]
fn lerp_is_exact_at_both_ends() {
    on_each(|dev| {
        let a = Array::from_slice(&[0.1f32, 1e8, -7.0], dev).expect("memory");
        let b = Array::from_slice(&[0.7f32, -1.0, 1e-8], dev).expect("memory");
        assert_eq!(values(&a.lerp(&b, 0.0)), values(&a));
        assert_eq!(values(&a.lerp(&b, 1.0)), values(&b));
        assert_eq!(
            values(&Array::from(2.0f32).lerp(4.0, Array::from_slice(&[0.25], dev).expect("memory"))),
            [2.5]
        );
    });
}
