//! Devices that launch a part of the lanes at a time: equal results, and how many launches.

use jit_frontend as jit;
use jit_frontend::prelude::*;
use jit_frontend::{DeviceKind, LocalArray};

use crate::support::{fresh, values};

fn devices() -> Vec<Device> {
    let mut all =
        vec![Device::builder(DeviceKind::Interpreter).max_lanes(100).build().expect("always there")];
    if Device::cpu().is_ok() {
        all.extend([4, 8, 16].map(|width| {
            let builder =
                Device::builder(DeviceKind::Cpu).vector_width(width).threads(2).max_lanes(64 + width as u64);
            builder.build().expect("a CPU")
        }));
    }
    all
}

/// What one device computes of n lanes, in every way that lanes use memory; floats as bits.
fn all_kinds(dev: &Device, n: usize) -> Vec<Vec<u64>> {
    let i = Array::<u32>::arange(n, dev);
    let x = Array::from_vec((0..n).map(|k| (k as f32) * 0.37 - 3.0).collect(), dev).expect("memory");
    let bytes = Array::from_vec((0..n).map(|k| k as u8).collect(), dev).expect("memory");
    // One array by lane and by index at once.
    let both = &x + x.gather((&i * 7 + 3) % n as u32);
    let wide = (&bytes + 1).cast::<f64>() * both.cast::<f64>();
    let mut scattered = Array::<f32>::zeros(n, dev);
    scattered.scatter(&both, n as u32 - 1 - &i);
    let counts = Buffer::<u32>::zeros(5, dev).expect("memory");
    counts.scatter_add(&i, &i % 5);
    let looped = while_loop(
        (i.clone(), i.zeros_like()),
        |(k, _)| k.gt(0),
        |(k, steps)| (if_else(&(&k % 2).eq(0), k, |k| k / 2, |k| (k - 1) / 2), steps + 1),
    );
    let mut local = LocalArray::<u32, 3>::zeros();
    local.write(&i % 3, &i);
    let read = local.read((&i + n as u32) % 3);
    let (sum, blocks) = ((&both * 3.0).sum(), both.sum_blocks(10));
    let after = &both - &sum;
    jit::sync(&(local, both.clone(), scattered.clone())).expect("evaluation");
    vec![
        values(&both.bitcast::<u32>()).into_iter().map(u64::from).collect(),
        values(&wide.bitcast::<u64>()),
        values(&scattered.bitcast::<u32>()).into_iter().map(u64::from).collect(),
        values(&counts.value()).into_iter().map(u64::from).collect(),
        values(&looped.1).into_iter().map(u64::from).collect(),
        values(&read).into_iter().map(u64::from).collect(),
        values(&sum.bitcast::<u32>()).into_iter().map(u64::from).collect(),
        values(&blocks.bitcast::<u32>()).into_iter().map(u64::from).collect(),
        values(&after.bitcast::<u32>()).into_iter().map(u64::from).collect(),
        values(&Array::<u64>::arange(n, dev)),
    ]
}

#[test]
fn results_are_those_of_one_launch() {
    let whole = fresh();
    for n in [1usize, 2, 63, 64, 65, 127, 128, 129, 191, 192, 193, 1025] {
        let expected = all_kinds(&whole, n);
        for dev in devices() {
            let got = all_kinds(&dev, n);
            for (k, (got, expected)) in got.iter().zip(&expected).enumerate() {
                assert_eq!(got, expected, "result {k} of {n} lanes on {dev:?}");
            }
        }
    }
}

/// What one device computes of n lanes whose elements meet: a kernel with a root of its lanes, a scatter, reductions and what
/// follows from them; then kernels across lanes.
fn whole_kinds(dev: &Device, n: usize) -> Vec<Vec<u64>> {
    let i = Array::<u32>::arange(n, dev);
    let x = (&i * 2_654_435_761u32).cast::<f32>() * 1e-5 - 7.0;
    let y = &x * 1.5;
    let counts = Buffer::<u32>::zeros(7, dev).expect("memory");
    counts.scatter_add(&i, &i % 7);
    let sum = y.sum();
    let norm = (&y * &y).sum().sqrt();
    let largest = jit::reduce(&y).map(|y| y.abs()).combine(0.0.into(), |a, b| a.max(b)).value();
    let blocks = y.mean_blocks(10);
    let scaled = &y / &norm;
    let (smallest, first) = (y.argmin(), y.gt(0.0).compress_padded().0);
    jit::eval(&(y.clone(), counts.clone(), sum.clone(), norm.clone(), largest.clone())).expect("evaluation");
    let bits = |a: &Array<f32>| values(&a.bitcast::<u32>()).into_iter().map(u64::from).collect();
    let numbers = |a: &Array<u32>| values(a).into_iter().map(u64::from).collect();
    vec![
        bits(&y),
        numbers(&counts.value()),
        bits(&sum),
        bits(&norm),
        bits(&largest),
        bits(&blocks),
        bits(&scaled),
        numbers(&smallest),
        numbers(&first),
        numbers(&i.prefix_sum()),
        bits(&y.sort()),
        numbers(&y.argsort()),
    ]
}

#[test]
fn what_is_launched_as_a_whole_is_equal_too() {
    let whole = fresh();
    for n in [1usize, 64, 65, 128, 1023, 1025, 5000] {
        let expected = whole_kinds(&whole, n);
        for dev in devices() {
            let got = whole_kinds(&dev, n);
            for (k, (got, expected)) in got.iter().zip(&expected).enumerate() {
                assert_eq!(got, expected, "result {k} of {n} lanes on {dev:?}");
            }
        }
    }
}

#[test]
fn launches_have_at_most_so_many_lanes() {
    for dev in devices() {
        let lanes = |n: usize| {
            let a = Array::<u32>::arange(n, &dev) * 3;
            dev.clear_kernel_history();
            jit::sync(&a).expect("evaluation");
            dev.kernel_history().iter().map(|record| record.lanes).collect::<Vec<_>>()
        };
        assert_eq!(lanes(64), [64]);
        assert_eq!(lanes(65), [64, 1]);
        assert_eq!(lanes(200), [64, 64, 64, 8]);
        dev.clear_kernel_history();
        (Array::<u32>::arange(200, &dev) * 3).sum().item().expect("evaluation");
        let whole: Vec<u64> = dev.kernel_history().iter().map(|record| record.lanes).collect();
        assert_eq!(whole, [200], "a kernel with a reduction is not split");
        let a = Array::<u32>::arange(200, &dev);
        let (tripled, twice) = (&a * 3, (&a * 3).sum() * 2);
        dev.clear_kernel_history();
        jit::sync(&(tripled.clone(), twice)).expect("evaluation");
        let fused: Vec<u64> = dev.kernel_history().iter().map(|record| record.lanes).collect();
        assert_eq!(fused, [200], "nor is what is fused into it");
        dev.clear_kernel_history();
        jit::sync(&(tripled.prefix_sum(), tripled.argsort())).expect("evaluation");
        let across: Vec<u64> = dev.kernel_history().iter().map(|record| record.lanes).collect();
        assert_eq!(across, [200, 200], "nor are kernels across lanes");
    }
}

#[test]
fn checked_devices_tell_of_every_part() {
    let dev =
        Device::builder(DeviceKind::Interpreter).max_lanes(64).checked(true).build().expect("always there");
    let a = Array::<u32>::arange(1000, &dev);
    let error = a.gather(&a + 1).to_vec().expect_err("the last part has an index outside");
    assert!(matches!(error, jit::Error::OutOfBounds { index: 1000, size: 1000, .. }), "{error}");
}
