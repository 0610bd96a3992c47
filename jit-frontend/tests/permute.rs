//! Scans, sorting, selection, and elements in other places.

use jit_frontend::prelude::*;
use jit_frontend::{Array, Buffer, f16};

use crate::support::{array, on_each, panic_of, values};

#[test]
fn scans_have_four_forms() {
    on_each(|dev| {
        let x = Array::from_slice(&[3i32, 1, 4, 1, 5], dev).expect("memory");
        assert_eq!(values(&x.prefix_sum()), [3, 4, 8, 9, 14]);
        assert_eq!(values(&x.prefix_sum_reverse()), [14, 11, 10, 6, 5]);
        assert_eq!(values(&x.prefix_sum_blocks(2)), [3, 4, 4, 5, 5]);
        assert_eq!(values(&x.prefix_sum_blocks_reverse(2)), [4, 1, 5, 1, 5]);
        assert_eq!(values(&x.exclusive_prefix_sum()), [0, 3, 4, 8, 9]);
        assert_eq!(values(&x.exclusive_prefix_sum_reverse()), [11, 10, 6, 5, 0]);
        assert_eq!(values(&x.exclusive_prefix_sum_blocks(3)), [0, 3, 4, 0, 1]);
        assert_eq!(values(&x.prefix_min()), [3, 1, 1, 1, 1]);
        assert_eq!(values(&x.prefix_max_reverse()), [5, 5, 5, 5, 5]);
        assert_eq!(values(&x.prefix_max_blocks(2)), [3, 3, 4, 4, 5]);
        let half = Array::from_slice(&[f16::from_f32(0.5); 3], dev).expect("memory");
        assert_eq!(values(&half.prefix_sum().cast::<f32>()), [0.5, 1.0, 1.5]);
        assert_eq!(values(&Array::<u8>::zeros(0, dev).prefix_sum()), []);
    });
    let (message, file, line) = panic_of(|| array(&[1u8]).prefix_sum_blocks(0));
    assert!(message.contains("at least 1") && file == file!() && line == line!() - 1, "{message}");
}

#[test]
fn sorted_and_the_order_of_it() {
    on_each(|dev| {
        let x = Array::from_slice(&[2.0f32, f32::NAN, -0.0, 0.0, f32::NEG_INFINITY], dev).expect("memory");
        let order = x.argsort();
        assert_eq!(values(&order), [4, 2, 3, 0, 1]);
        assert_eq!(values(&x.argsort_u64()), [4, 2, 3, 0, 1]);
        let (sorted, gathered) = (values(&x.sort()), values(&x.gather(&order)));
        let bits = |v: &[f32]| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&sorted), bits(&gathered));
        assert_eq!(
            values(&Array::from_slice(&[true, false, true], dev).expect("memory").sort()),
            [false, true, true]
        );
    });
    let (message, file, line) = panic_of(|| Array::<u8>::zeros(1 << 32, &Device::interpreter()).argsort());
    assert!(message.contains("argsort_u64") && file == file!() && line == line!() - 1, "{message}");
}

#[test]
fn indices_of_what_is_true() {
    on_each(|dev| {
        let m = Array::<u32>::arange(1000, dev).eq(0u32) | Array::<u32>::arange(1000, dev).gt(997u32);
        assert_eq!(values(&m.compress().expect("it runs")), [0, 998, 999]);
        assert_eq!(values(&m.nonzero().expect("it runs")), [0, 998, 999]);
        assert_eq!(values(&m.compress_u64().expect("it runs")), [0, 998, 999]);
        let (padded, count) = m.compress_padded();
        assert!(!padded.is_evaluated() && !count.is_evaluated());
        assert_eq!(
            (values(&padded)[..4].to_vec(), padded.len(), values(&count)),
            (vec![0, 998, 999, 0], 1000, vec![3])
        );
        let none = Array::<bool>::zeros(5, dev);
        assert_eq!(none.compress().expect("it runs").len(), 0);
        assert_eq!(Array::<bool>::zeros(0, dev).compress().expect("it runs").len(), 0);
    });
    assert_eq!(values(&Mask::from(true).compress().expect("it runs")), [0]);
    assert_eq!(values(&Mask::from(false).compress().expect("it runs")), []);
    let (message, _, line) =
        panic_of(|| Array::<bool>::zeros(1 << 32, &Device::interpreter()).compress_padded());
    assert!(message.contains("compress_u64") && line == line!() - 1, "{message}");
}

#[test]
fn elements_in_other_places() {
    on_each(|dev| {
        let x = Array::from_slice(&[1u16, 2, 3, 4], dev).expect("memory");
        assert_eq!(values(&x.reverse()), [4, 3, 2, 1]);
        assert_eq!(values(&x.tile(2)), [1, 2, 3, 4, 1, 2, 3, 4]);
        assert_eq!(values(&x.repeat(2)), [1, 1, 2, 2, 3, 3, 4, 4]);
        assert_eq!((x.tile(0).len(), x.repeat(0).len()), (0, 0));
        assert_eq!(values(&x.slice(1..3)), [2, 3]);
        assert_eq!(values(&x.slice(..=1)), [1, 2]);
        assert_eq!(values(&x.slice(..)), [1, 2, 3, 4]);
        assert_eq!(x.slice(4..).len(), 0);
        let one = Array::full(9u16, 1, dev);
        assert_eq!(values(&Array::concat(&[&x, &one, &x.slice(..1)])), [1, 2, 3, 4, 9, 1]);
        assert_eq!(values(&Array::concat(&[x.clone(), 7.into()])), [1, 2, 3, 4, 7]);
        assert_eq!(values(&Array::concat(&[&one.slice(1..), &x])), [1, 2, 3, 4]);
        assert_eq!(values(&one.tile(3)), [9, 9, 9]);
        assert_eq!(values(&one.repeat(3)), [9, 9, 9]);
        let empty = x.slice(0..0);
        assert_eq!((empty.reverse().len(), empty.tile(3).len(), empty.repeat(3).len()), (0, 0, 0));
        let bools = Array::from_slice(&[true, false, false], dev).expect("memory");
        assert_eq!(values(&bools.reverse()), [false, false, true]);
        // Lazy producers, and what is made of the result.
        let made = (&x + 1).reverse().slice(1..).tile(2) * 10;
        assert_eq!(values(&made), [40, 30, 20, 40, 30, 20]);
        let bins = Array::from_slice(&[0i8, 2, 2, -1, 5, 4], dev).expect("memory");
        assert_eq!(values(&bins.histogram(5)), [1, 0, 2, 0, 1]);
        assert_eq!(bins.histogram(0).len(), 0);
    });
    let x = array(&[1u8, 2, 3]);
    for (message, _, line) in [
        (panic_of(|| x.slice(2..5)), "0..3"),
        (panic_of(|| x.slice(std::ops::Range { start: 3, end: 2 })), "3..2"),
        (panic_of(|| Array::<u8>::from(1).tile(3)), "device"),
        (panic_of(|| Array::concat(&[Array::<u8>::from(1), 2.into()])), "device"),
        (panic_of(|| x.tile(usize::MAX)), "more than"),
    ]
    .map(|((message, file, line), part)| {
        assert!(message.contains(part) && file == file!(), "{message}");
        (message, file, line)
    }) {
        assert!(line > line!() - 14 && line < line!(), "{message}");
    }
}

#[test]
fn a_buffer_is_assigned_in_place() {
    on_each(|dev| {
        let buffer = Buffer::<i32>::zeros(4, dev).expect("memory");
        let before = buffer.value();
        buffer.assign(Array::from_slice(&[1, 2, 3, 4], dev).expect("memory"));
        buffer.assign(buffer.value() * 10);
        assert_eq!(values(&buffer.value()), [10, 20, 30, 40]);
        assert_eq!(values(&before), [0; 4]);
        buffer.assign(7);
        assert_eq!(values(&buffer.value()), [7; 4]);
    });
    let buffer = Buffer::<i32>::zeros(4, &Device::interpreter()).expect("memory");
    let (message, file, line) = panic_of(|| buffer.assign(array(&[1, 2])));
    assert!(message.contains("`assign` of 2") && file == file!() && line == line!() - 1, "{message}");
}

#[test]
fn a_copy_for_the_host_is_waited_for_later() {
    on_each(|dev| {
        let x = Array::<u32>::arange(1000, dev) * 3;
        let copy = x.read_async().expect("it is launched");
        let read = copy.wait().expect("it ran");
        assert_eq!((read.len(), read[999]), (1000, 2997));
    });
    assert_eq!(Array::from(2.5f64).read_async().expect("a literal").wait().expect("it is there"), [2.5]);
}
