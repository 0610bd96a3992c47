//! Complex numbers, quaternions and matrices: values, and scalar twins.

use jit_frontend::{Array, Complex, Device, Matrix, Quaternion, Real, Vec2, Vec3, Vec4, tea, while_loop};

use crate::support::{on_each, values};

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-12 * b.abs().max(1.0)
}

fn lanes(dev: &Device, all: &[f64]) -> Array<f64> {
    Array::from_slice(all, dev).expect("memory")
}

#[test]
fn complex_values() {
    let c = |re: f64, im: f64| Complex::new(re, im);
    assert_eq!(c(1.0, 2.0) * c(3.0, -1.0), c(5.0, 5.0));
    let quotient = c(5.0, 5.0) / c(3.0, -1.0);
    assert!(near(quotient.re, 1.0) && near(quotient.im, 2.0));
    assert_eq!(c(5.0, 5.0) / c(1.0, 2.0), c(3.0, -1.0));
    assert_eq!(c(3.0, -4.0).abs(), 5.0);
    let huge = 2.0f64.powi(1000);
    assert_eq!(c(3.0 * huge, 4.0 * huge).abs(), 5.0 * huge);
    assert_eq!(c(f64::from_bits(3000), f64::from_bits(4000)).abs(), f64::from_bits(5000));
    assert_eq!(c(0.0, -0.0).abs(), 0.0);
    assert_eq!(c(f64::NAN, f64::NEG_INFINITY).abs(), f64::INFINITY);
    assert!(c(f64::NAN, 1.0).abs().is_nan() && c(1.0, f64::NAN).abs().is_nan());
    assert_eq!(c(1e300, 1e300) / c(1e300, 1e300), c(1.0, 0.0));
    assert_eq!(c(-4.0, 0.0).sqrt(), c(0.0, 2.0));
    assert_eq!(c(-4.0, -0.0).sqrt(), c(0.0, -2.0));
    assert_eq!(c(0.0, 0.0).sqrt(), c(0.0, 0.0));
    assert_eq!(c(3.0, 4.0).sqrt(), c(2.0, 1.0));
    assert_eq!(c(0.0, 1.0).powi(3), c(0.0, -1.0));
    assert_eq!(c(0.0, 2.0).powi(-1), c(0.0, -0.5));
    assert_eq!(c(7.0, 2.0).powi(0), c(1.0, 0.0));
    assert_eq!(c(1.0, 2.0).conj(), c(1.0, -2.0));
    assert_eq!(c(3.0, 4.0).norm_squared(), 25.0);
    let e = Complex::new(0.0, std::f64::consts::PI).exp();
    assert!(near(e.re, -1.0) && near(e.im, 0.0));
    assert!(
        near(c(-1.0, 0.0).arg(), std::f64::consts::PI) && near(c(-1.0, -0.0).arg(), -std::f64::consts::PI)
    );
    assert!(near(c(2.0, 2.0).arg(), std::f64::consts::FRAC_PI_4));
    let l = c(-3.0, 4.0).ln();
    assert!(near(l.re, 5f64.ln()) && near(l.im, 4f64.atan2(-3.0)));
    let back = l.exp();
    assert!(near(back.re, -3.0) && near(back.im, 4.0));
}

#[test]
fn arrays_have_the_bits_of_plain_numbers() {
    let all = [0.0, -0.0, 1.5, -2.25, 1e300, -1e-310, f64::INFINITY, f64::NAN, 3.0];
    let other = [2.0, 0.5, -0.0, 7.0, 1e300, 1e-310, 1.0, 1.0, f64::NEG_INFINITY];
    fn f<R: Real>(a: R, b: R) -> Vec<R> {
        let z = Complex::new(a.clone(), b.clone());
        let u = Complex::new(b.clone(), R::lit(0.75));
        let m = Matrix::from_rows([[a.clone(), b.clone()], [R::lit(2.0), a.clone()]]);
        let q = Quaternion::new(a.clone(), b.clone(), R::lit(0.5), R::lit(0.25));
        let p = Vec3::new(b.clone(), a.clone(), R::lit(1.0));
        let mut out = vec![z.abs(), m.determinant(), q.length()];
        for w in [z.clone() * u.clone(), z.clone() / u, z.sqrt(), z.powi(-5)] {
            out.extend([w.re, w.im]);
        }
        out.extend(q.rotate(&p).into_array());
        out.extend(m.inverse().rows.into_iter().flatten());
        out
    }
    on_each(|dev| {
        let arrays = f(lanes(dev, &all), lanes(dev, &other));
        for (lane, (&a, &b)) in all.iter().zip(&other).enumerate() {
            for (k, (array, plain)) in arrays.iter().zip(f(a, b)).enumerate() {
                let got = values(array)[lane];
                let same = got.to_bits() == plain.to_bits() || got.is_nan() && plain.is_nan();
                assert!(same, "result {k} of {a} and {b}: {got} and {plain}");
            }
        }
    });
}

fn check_inverse<const N: usize>(m: &Matrix<f64, N, N>, inverse: &Matrix<f64, N, N>) {
    for product in [m * inverse, inverse * m] {
        for (r, row) in product.rows.iter().enumerate() {
            for (c, &value) in row.iter().enumerate() {
                assert!(near(value, if r == c { 1.0 } else { 0.0 }), "{N}: {product:?}");
            }
        }
    }
}

#[test]
fn matrices() {
    let a = Matrix::from_rows([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let b = Matrix::from_rows([[1.0, 0.0], [2.0, -1.0], [0.0, 3.0]]);
    assert_eq!(a * b, Matrix::from_rows([[5.0, 7.0], [14.0, 13.0]]));
    assert_eq!(a.transpose().rows, [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]);
    assert_eq!(a.column(1), [2.0, 5.0]);
    assert_eq!(Matrix::from_columns([[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]), a);
    assert_eq!(a.mul_array(&[1.0, 1.0, -1.0]), [0.0, 3.0]);
    assert_eq!((a + a).rows, a.scale(&2.0).rows);
    assert_eq!(a - a, Matrix::zeros());
    assert_eq!(-a, Matrix::zeros() - a);
    let two = Matrix::from_rows([[3.0, 8.0], [4.0, 6.0]]);
    assert_eq!(two.determinant(), -14.0);
    assert_eq!(two * Vec2::new(1.0, 2.0), Vec2::new(19.0, 16.0));
    check_inverse(&two, &two.inverse());
    let three = Matrix::from_rows([[6.0, 1.0, 1.0], [4.0, -2.0, 5.0], [2.0, 8.0, 7.0]]);
    assert_eq!(three.determinant(), -306.0);
    assert_eq!(three * Vec3::new(1.0, 0.0, 2.0), Vec3::new(8.0, 14.0, 16.0));
    check_inverse(&three, &three.inverse());
    let four = Matrix::from_rows([
        [1.0, 0.0, 2.0, -1.0],
        [3.0, 0.0, 0.0, 5.0],
        [2.0, 1.0, 4.0, -3.0],
        [1.0, 0.0, 5.0, 0.0],
    ]);
    assert_eq!(four.determinant(), 30.0);
    assert_eq!(four * Vec4::new(1.0, 2.0, 0.0, 1.0), Vec4::new(0.0, 8.0, 1.0, 1.0));
    check_inverse(&four, &four.inverse());
    assert_eq!(Matrix::<f64, 4, 4>::identity().inverse(), Matrix::identity());
    assert_eq!(Matrix::from_diagonal([2.0, 4.0]).inverse(), Matrix::from_diagonal([0.5, 0.25]));
}

#[test]
fn rotations() {
    let half = std::f64::consts::FRAC_PI_2;
    let (x, y, z) = (Vec3::new(1.0, 0.0, 0.0), Vec3::new(0.0, 1.0, 0.0), Vec3::new(0.0, 0.0, 1.0));
    let (about_x, about_z) = (Quaternion::from_axis_angle(&x, &half), Quaternion::from_axis_angle(&z, &half));
    let same = |a: Vec3<f64>, b: Vec3<f64>| (a - b).length() < 1e-12;
    assert!(same(about_z.rotate(&x), y) && same(about_x.rotate(&y), z));
    // First about x, then about z.
    assert!(same((about_z * about_x).rotate(&z), x) && same((about_z * about_x).rotate(&y), z));
    assert!(same(about_z.to_matrix() * x, y) && same(about_z.conj().rotate(&y), x));
    let i = Quaternion::new(1.0, 0.0, 0.0, 0.0);
    let j = Quaternion::new(0.0, 1.0, 0.0, 0.0);
    let k = Quaternion::new(0.0, 0.0, 1.0, 0.0);
    assert_eq!((i * j, j * k, k * i, j * i, i * i), (k, i, j, -k, -Quaternion::identity()));
    let q = Quaternion::new(1.0, -2.0, 4.0, 2.0);
    assert_eq!((q.length(), q.normalize()), (5.0, q.scale(&0.2)));
    let one = q * q.inverse();
    assert!(near(one.w, 1.0) && one.v.length() < 1e-12);
    assert_eq!(q + q - q, q);
}

/// Values of a structure go through loops.
#[test]
fn the_way_between_two_rotations() {
    let about_z = |angle: f64| Quaternion::from_axis_angle(&Vec3::new(0.0, 0.0, 1.0), &angle);
    let same = |a: Quaternion<f64>, b: &Quaternion<f64>| near(a.dot(b).abs(), 1.0);
    let (from, to) = (about_z(0.2), about_z(1.4));
    for t in [0.0, 0.25, 0.5, 1.0] {
        assert!(same(from.slerp(&to, &t), &about_z(0.2 + 1.2 * t)), "{t}");
        // The other sign is the same rotation, and the way there is as short.
        assert!(same(from.slerp(&to.scale(&-1.0), &t), &about_z(0.2 + 1.2 * t)), "{t}");
    }
    let near_by = from.slerp(&about_z(0.2 + 1e-9), &0.5);
    assert!(same(near_by, &from) && near(near_by.length(), 1.0));
    assert!(near(from.slerp(&from, &0.3).length(), 1.0), "no division by zero");
}

#[test]
fn loops_carry_structures() {
    on_each(|dev| {
        let turns = Array::<u32>::arange(5, dev);
        let step = Complex::new(Array::from(0.0), Array::from(1.0));
        let one = Complex::from_real(Array::from(1.0f64));
        let (z, _, m) = while_loop(
            (one, Array::full(0u32, 1, dev), Matrix::<Array<f64>, 2, 2>::identity()),
            |(_, i, _)| i.lt(&turns),
            |(z, i, m)| (z * step.clone(), i + 1, m.scale(&Array::from(2.0))),
        );
        assert_eq!(values(&z.re), [1.0, 0.0, -1.0, 0.0, 1.0]);
        assert_eq!(values(&z.im), [0.0, 1.0, 0.0, -1.0, 0.0]);
        assert_eq!(values(&m.rows[1][1]), [1.0, 2.0, 4.0, 8.0, 16.0]);
    });
}

/// The values that the tests of Mitsuba 3 expect of `sample_tea_float32`, the upper 23 bits of the second number, and of
/// `sample_tea_float64`, the upper 52 bits of both with the second one in front.
#[test]
fn tea_mixes_as_published() {
    const EXPECTED: [(u32, u32, f32, f64); 8] = [
        (1, 1, 0.542_473_1, 0.542_473_079_953_373_5),
        (1, 2, 0.507_990_5, 0.507_990_508_223_392_2),
        (1, 3, 0.417_196_15, 0.417_196_261_060_814_2),
        (1, 4, 0.008_385_42, 0.008_385_529_523_330_604),
        (1, 5, 0.808_552_86, 0.808_552_883_178_79),
        (2, 1, 0.693_987_97, 0.693_988_040_415_683_1),
        (3, 1, 0.697_836_5, 0.697_836_563_663_099_4),
        (4, 1, 0.489_736_44, 0.489_736_479_492_232_53),
    ];
    on_each(|dev| {
        for (a, b, single, double) in EXPECTED {
            let (first, second) = tea(&Array::full(a, 1, dev), &Array::full(b, 1, dev), 4);
            let (first, second) = (values(&first)[0], values(&second)[0]);
            assert_eq!((second >> 9) as f32 / 8_388_608.0, single);
            let both = u64::from(second) << 32 | u64::from(first);
            assert_eq!((both >> 12) as f64 / (1u64 << 52) as f64, double);
        }
    });
}
