//! Reductions.

use jit_frontend::f16;
use jit_frontend::prelude::*;

use crate::support::{array, on_each, panic_of, values};

#[test]
fn numbers() {
    on_each(|dev| {
        let a = Array::from_slice(&[3i32, -4, 5], dev).expect("memory");
        assert_eq!(values(&a.sum()), [4]);
        assert_eq!(values(&a.prod()), [-60]);
        assert_eq!(values(&a.dot(&a)), [50]);
        assert_eq!(values(&a.dot(2)), [8]);
        assert_eq!((values(&a.reduce_min()), values(&a.reduce_max())), (vec![-4], vec![5]));
        assert_eq!(
            (values(&a.reduce_and()), values(&a.reduce_or()), values(&a.reduce_xor())),
            (vec![0], vec![-1], vec![3 ^ -4 ^ 5])
        );
        let f = Array::from_slice(&[3.0f32, f32::NAN, 5.0], dev).expect("memory");
        assert_eq!((values(&f.reduce_min()), values(&f.reduce_max())), (vec![3.0], vec![5.0]));
        assert!(values(&f.reduce_minimum())[0].is_nan() && values(&f.reduce_maximum())[0].is_nan());
    });
}

#[test]
fn the_mean_of_another_size_is_the_same_kernel() {
    on_each(|dev| {
        let mean = |n: usize| values(&Array::<f64>::arange(n, dev).mean())[0];
        assert_eq!((mean(5), mean(1000)), (2.0, 499.5));
        assert!(mean(0).is_nan());
    });
    let dev = crate::support::fresh();
    for n in [5, 1000] {
        Array::<f64>::arange(n, &dev).mean().item().expect("evaluation");
    }
    let kernels: Vec<_> = dev.kernel_history().iter().map(|k| k.kernel).collect();
    assert_eq!(kernels.len(), 2);
    assert_eq!(kernels[0], kernels[1]);
}

#[test]
fn f16_accumulates_in_f32() {
    on_each(|dev| {
        // In f16, 2048 + 1 is 2048 again.
        let ones = Array::full(f16::ONE, 4096, dev);
        assert_eq!(values(&ones.sum()), [f16::from_f32(4096.0)]);
        assert_eq!(values(&ones.mean()), [f16::ONE]);
        // The sum overflows f16, the mean does not.
        let large = Array::full(f16::from_f32(60000.0), 64, dev);
        assert_eq!(values(&large.sum()), [f16::INFINITY]);
        assert_eq!(values(&large.mean()), [f16::from_f32(60000.0)]);
    });
}

#[test]
fn masks() {
    on_each(|dev| {
        let m = Array::<u32>::arange(300, dev).lt(77);
        assert_eq!(values(&m.count()), [77]);
        assert_eq!(values(&m.count_u64()), [77]);
        assert_eq!((values(&m.any()), values(&m.all())), (vec![true], vec![false]));
        let none = Array::<bool>::zeros(0, dev);
        assert_eq!((values(&none.any()), values(&none.all())), (vec![false], vec![true]));
    });
    let (message, file, line) = panic_of(|| Array::<bool>::zeros(1 << 32, &Device::interpreter()).count());
    assert!(message.contains("count_u64") && file == file!() && line == line!() - 1, "{message}");
}

#[test]
fn lanes_of_a_region_do_not_meet() {
    let x = array(&[1.0f32, 2.0]);
    let (message, file, line) = panic_of(|| {
        while_loop(x.clone(), |x| x.lt(10.0), |x| x.sum() + 1.0);
    });
    assert!(message.contains("reduce outside") && file == file!() && line == line!() - 2, "{message}");
    // What comes from outside may be reduced.
    let out = while_loop(x.clone(), |y| y.lt(10.0), |y| y + x.sum());
    assert_eq!(values(&out), [10.0, 11.0]);
}
