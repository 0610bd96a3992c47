//! Generic code on numbers and on arrays: equal bits.

use jit_frontend::prelude::*;
use jit_frontend::{Element, Float, Integer, Truth};

use crate::support::{on_each, values};

/// Every function of the trait, named.
fn functions<R: Real>(x: R, y: R) -> Vec<(&'static str, R)> {
    let one = |m: R::Mask| R::select(&m, R::lit(1.0), R::lit(0.0));
    let (x_, y_) = (x.clone(), y.clone());
    let (x, y) = (move || x_.clone(), move || y_.clone());
    let mut assigned = x();
    assigned += y();
    assigned *= y();
    assigned -= x();
    assigned /= y();
    vec![
        ("add", x() + y()),
        ("sub", x() - y()),
        ("mul", x() * y()),
        ("div", x() / y()),
        ("rem", x() % y()),
        ("neg", -x()),
        ("assigned", assigned),
        ("eq", one(x().eq(y()))),
        ("ne", one(x().ne(y()))),
        ("lt", one(x().lt(y()))),
        ("le", one(x().le(y()) & !x().eq(y()))),
        ("gt", one(x().gt(y()) | Truth::lit(false))),
        ("ge", one(x().ge(y()) ^ Truth::lit(true))),
        ("is_nan", one(x().is_nan())),
        ("is_finite", one(x().is_finite())),
        ("is_infinite", one(x().is_infinite())),
        ("min", x().min(y())),
        ("max", x().max(y())),
        ("minimum", x().minimum(y())),
        ("maximum", x().maximum(y())),
        ("clamp", x().clamp(R::lit(-1.0), y())),
        ("mul_add", x().mul_add(y(), R::lit(0.1))),
        ("abs", x().abs()),
        ("signum", x().signum()),
        ("copysign", x().copysign(y())),
        ("sqrt", x().sqrt()),
        ("rsqrt", x().rsqrt()),
        ("recip", x().recip()),
        ("sin", x().sin()),
        ("cos", x().cos()),
        ("sin_cos", x().sin_cos().0),
        ("tan", x().tan()),
        ("asin", x().asin()),
        ("acos", x().acos()),
        ("atan", x().atan()),
        ("atan2", x().atan2(y())),
        ("sinh", x().sinh()),
        ("cosh", x().cosh()),
        ("tanh", x().tanh()),
        ("asinh", x().asinh()),
        ("acosh", x().acosh()),
        ("atanh", x().atanh()),
        ("exp2", x().exp2()),
        ("exp_m1", x().exp_m1()),
        ("log2", x().log2()),
        ("log10", x().log10()),
        ("ln_1p", x().ln_1p()),
        ("cbrt", x().cbrt()),
        ("hypot", x().hypot(y())),
        ("erf", x().erf()),
        ("erfc", x().erfc()),
        ("exp", x().exp()),
        ("ln", x().ln()),
        ("powf", x().powf(y())),
        ("powi", x().powi(7)),
        ("powi -3", x().powi(-3)),
        ("floor", x().floor()),
        ("ceil", x().ceil()),
        ("round", x().round()),
        ("round_ties_even", x().round_ties_even()),
        ("trunc", x().trunc()),
        ("fract", x().fract()),
        ("lerp", x().lerp(y(), R::lit(0.3))),
        ("step", x().step(y())),
        ("to_degrees", x().to_degrees()),
        ("to_radians", x().to_radians()),
        ("to_int", R::from_int(x().to_int())),
        ("integers", R::from_int(integers(x().to_int(), y().to_int()))),
        ("dot", Vec3::new(x(), y(), x()).dot(&Vec3::new(y(), y(), R::lit(0.7)))),
        ("normalize", Vec3::new(x(), y(), R::lit(0.5)).normalize().y),
        ("cross", Vec3::new(x(), y(), R::lit(0.5)).cross(&Vec3::new(y(), x(), R::lit(0.1))).z),
        ("loop", newton(x(), y())),
    ]
}

fn integers<I: Integer>(a: I, b: I) -> I {
    // Small enough that nothing overflows.
    let (a, b) = (a % I::lit(100), b % I::lit(10));
    let sum = a.clone() * b.clone() + (a.clone() - b.clone()) / I::lit(3);
    let bits = (sum.clone() & I::lit(0xff)) | (sum.clone() << I::lit(2)) ^ (b.clone() >> I::lit(1));
    I::select(&sum.lt(bits.clone()), bits.max(a), !b.min(sum))
}

fn newton<R: Real>(x: R, y: R) -> R {
    let (root, _) = while_loop(
        (x.clone(), R::lit(0.0)),
        |(_, i)| i.lt(R::lit(5.0)),
        |(root, i)| {
            let next = if_else(
                &root.gt(y.clone()),
                (root, x.clone()),
                |(root, x)| (root.clone() + x / root) * R::lit(0.5),
                |(root, x)| root + x * R::lit(0.25),
            );
            (next, i + R::lit(1.0))
        },
    );
    root
}

fn check<T: Float + Real<Mask = bool>>(inputs: &[f64])
where
    Array<T>: Real<Mask = Mask>,
{
    let inputs: Vec<T> = inputs.iter().map(|&x| <T as Real>::lit(x)).collect();
    let pairs: Vec<(T, T)> = inputs.iter().flat_map(|&x| inputs.iter().map(move |&y| (x, y))).collect();
    let twins: Vec<_> = pairs.iter().map(|&(x, y)| functions(x, y)).collect();
    on_each(|dev| {
        let column =
            |f: fn(&(T, T)) -> T| Array::from_vec(pairs.iter().map(f).collect(), dev).expect("memory");
        for (i, (name, array)) in functions(column(|p| p.0), column(|p| p.1)).into_iter().enumerate() {
            for ((got, twin), (x, y)) in values(&array).into_iter().zip(&twins).zip(&pairs) {
                let expected = twin[i].1;
                let both_nan = Real::is_nan(&got) && Real::is_nan(&expected);
                assert!(
                    both_nan || Element::to_bits(got) == Element::to_bits(expected),
                    "{name}({x}, {y}) is {got} in arrays, {expected} in numbers"
                );
            }
        }
    });
}

const INPUTS: [f64; 14] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.1,
    2.5,
    -3.7,
    1234.567,
    1e-12,
    -1e-41,
    3e38,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
];

#[test]
fn f32_gives_equal_bits() {
    check::<f32>(&INPUTS);
}

#[test]
fn f64_gives_equal_bits() {
    check::<f64>(&INPUTS);
    check::<f64>(&[1e308, 5e-324, 0.3, 22.0 / 7.0]);
}
