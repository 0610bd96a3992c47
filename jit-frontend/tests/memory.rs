//! Gather, scatter, buffers.

use jit_frontend as jit;
use jit_frontend::Error;
use jit_frontend::prelude::*;

use crate::support::{array, on_each, panic_of, values};

#[test]
fn gathers_take_any_index_and_mask() {
    on_each(|dev| {
        let a = Array::from_slice(&[10.0f32, 20.0, 30.0], dev).expect("memory");
        let index = Array::from_slice(&[2i64, -1, 3, 0], dev).expect("memory");
        assert_eq!(values(&a.gather(&index)), [30.0, 0.0, 0.0, 10.0]);
        assert_eq!(values(&a.gather(index.cast::<u8>())), [30.0, 0.0, 0.0, 10.0]);
        assert_eq!(values(&a.gather_masked(&index, index.gt(0))), [30.0, 0.0, 0.0, 0.0]);
        assert_eq!(values(&a.gather_masked(1, false)), [0.0]);
        let (x, y) =
            jit::gather(&(a.clone(), [a.gt(15.0)]), Array::from_slice(&[1u32, 0], dev).expect("memory"));
        assert_eq!((values(&x), values(&y[0])), (vec![20.0, 10.0], vec![true, false]));
    });
}

#[test]
fn a_scatter_makes_a_version_of_one_handle() {
    on_each(|dev| {
        let mut a = Array::from_slice(&[1u32, 2, 3, 4], dev).expect("memory");
        let kept = a.clone();
        let index = Array::from_slice(&[0i32, 2, -1, 9], dev).expect("memory");
        a.scatter(7, &index);
        assert_eq!(values(&a), [7, 2, 7, 4]);
        a.scatter_add(Array::from_slice(&[1u32, 2, 3, 4], dev).expect("memory"), 3u8);
        assert_eq!(values(&a), [7, 2, 7, 14]);
        a.scatter_mul(2, &index);
        a.scatter_min(10, &index);
        a.scatter_max(3, 1);
        assert_eq!(values(&a), [10, 3, 10, 14]);
        a.scatter_and(6, 0);
        a.scatter_or(1, 0);
        a.scatter_xor(u32::MAX, 1);
        a.scatter_masked(0, &index, index.eq(2));
        assert_eq!(values(&a), [3, !3, 0, 14]);
        a.scatter_add_masked(1, &index, false);
        assert_eq!(values(&a), [3, !3, 0, 14]);
        assert_eq!(values(&kept), [1, 2, 3, 4]);
        let mut f = Array::from_slice(&[1.0f32, f32::NAN], dev).expect("memory");
        let all = Array::<u32>::arange(2, dev);
        f.scatter_max(0.5, &all);
        assert_eq!(values(&f), [1.0, 0.5]);
        f.scatter_maximum(f32::NAN, 0);
        assert!(values(&f)[0].is_nan());
        let mut m = Array::<bool>::zeros(2, dev);
        m.scatter_or(true, 1);
        assert_eq!(values(&m), [false, true]);
        let mut tree = (all.clone(), f);
        jit::scatter(&mut tree, &(Array::from(9), Array::from(8.0)), 1);
        assert_eq!((values(&tree.0), values(&tree.1)[1]), (vec![0, 9], 8.0));
    });
}

#[test]
fn a_scatter_in_a_region_names_the_buffer() {
    let a = array(&[1.0f32, 2.0]);
    let (message, file, line) = panic_of(|| {
        while_loop(
            a.clone(),
            |x| x.lt(10.0),
            |x| {
                let mut b = a.clone();
                b.scatter(&x, 0);
                x + 1.0
            },
        )
    });
    assert!(message.contains("Buffer") && message.contains("loop opened at"), "{message}");
    assert_eq!((file.as_str(), line), (file!(), line!() - 6));
    let (message, ..) = panic_of(|| Array::from(1.0f32).scatter(2.0, 0));
    assert!(message.contains("Array::full"), "{message}");
}

#[test]
fn buffers_are_places() {
    on_each(|dev| {
        let buffer = Buffer::<u32>::zeros(4, dev).expect("memory");
        let same = buffer.clone();
        assert_eq!((buffer.len(), buffer.device()), (4, *dev));
        let before = buffer.value();
        let index = Array::from_slice(&[1u32, 1, 3, 7], dev).expect("memory");
        same.scatter_add(1, &index);
        assert_eq!(values(&buffer.value()), [0, 2, 0, 1]);
        assert_eq!(values(&buffer.gather(&index)), [2, 2, 1, 0]);
        assert_eq!(values(&buffer.gather_masked(&index, index.eq(3))), [0, 0, 1, 0]);
        let mut old = values(&buffer.atomic_inc(&index));
        old[..2].sort_unstable();
        assert_eq!(old, [2, 3, 1, 0]);
        assert_eq!(values(&buffer.atomic_inc_masked(&index, index.eq(3))), [0, 0, 2, 0]);
        assert_eq!(values(&same.value()), [0, 4, 0, 3]);
        buffer.write(2, 5).expect("in range");
        assert!(matches!(buffer.write(4, 5), Err(Error::OutOfBounds { op: "write", index: 4, size: 4, .. })));
        buffer.set(&buffer.value() + 1);
        assert_eq!(values(&same.value()), [1, 5, 6, 4]);
        buffer.set(9);
        assert_eq!(values(&same.value()), [9; 4]);
        assert_eq!(values(&before), [0; 4]);
        let a = before.clone();
        assert_eq!(values(&Buffer::from_array(&a).expect("memory").value()), [0; 4]);
    });
}

#[test]
fn an_effect_runs_once_if_anything_sees_it() {
    on_each(|dev| {
        let buffer = Buffer::<i64>::zeros(1, dev).expect("memory");
        let tickets = buffer.atomic_inc(Array::<u32>::zeros(3, dev));
        let mut got = values(&tickets);
        got.sort_unstable();
        assert_eq!(got, [0, 1, 2]);
        jit::sync(&(tickets.clone(), buffer.clone())).expect("evaluation");
        assert_eq!(values(&buffer.value()), [3]);
    });
}
