//! Exchanging elements of places.

use jit_frontend::prelude::*;
use jit_frontend::{Element, f16};

use crate::support::{on_each, values};

/// Lanes at distinct elements, one past the end, one negative, one masked off.
fn check<T: Element>(dev: &Device, old: [T; 3], new: [T; 5]) {
    let bits = |all: &[T]| all.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    let start = Array::from_slice(&old, dev).expect("memory");
    let value = Array::from_slice(&new, dev).expect("memory");
    let index = Array::<i64>::from_slice(&[2, 3, -1, 0, 1], dev).expect("memory");
    let mask = Mask::from_slice(&[true, true, true, true, false], dev).expect("memory");
    let zero = T::default();

    let place = Buffer::from_array(&start).expect("memory");
    let before = place.exchange_masked(&value, &index, &mask);
    assert_eq!(bits(&values(&before)), bits(&[old[2], zero, zero, old[0], zero]), "{}", T::DTYPE);
    assert_eq!(bits(&values(&place.value())), bits(&[new[3], old[1], new[0]]), "{}", T::DTYPE);
    let before = place.exchange(&value, &index);
    assert_eq!(bits(&values(&before)), bits(&[new[0], zero, zero, new[3], old[1]]), "{}", T::DTYPE);

    // The first lane expects what is there, the fourth something else, those outside expect the 0 that they get.
    let place = Buffer::from_array(&start).expect("memory");
    let expected = Array::from_slice(&[old[2], zero, zero, old[1], old[1]], dev).expect("memory");
    let (before, stored) = place.compare_exchange_masked(&expected, &value, &index, &mask);
    assert_eq!(bits(&values(&before)), bits(&[old[2], zero, zero, old[0], zero]), "{}", T::DTYPE);
    assert_eq!(values(&stored), [true, false, false, false, false], "{}", T::DTYPE);
    assert_eq!(bits(&values(&place.value())), bits(&[old[0], old[1], new[0]]), "{}", T::DTYPE);
    let (before, stored) = place.compare_exchange(old[1], &value, &index);
    assert_eq!(bits(&values(&before)), bits(&[new[0], zero, zero, old[0], old[1]]), "{}", T::DTYPE);
    assert_eq!(values(&stored), [new[0].to_bits() == old[1].to_bits(), false, false, false, true]);
}

#[test]
fn every_type() {
    on_each(|dev| {
        check::<bool>(dev, [false, true, false], [true, true, true, true, false]);
        check::<i8>(dev, [-128, 127, -1], [1, 2, 3, 4, 5]);
        check::<u8>(dev, [0, 255, 128], [1, 2, 3, 4, 5]);
        check::<i16>(dev, [i16::MIN, i16::MAX, -1], [1, 2, 3, 4, 5]);
        check::<u16>(dev, [0, u16::MAX, 256], [1, 2, 3, 4, 5]);
        check::<i32>(dev, [i32::MIN, i32::MAX, -1], [1, 2, 3, 4, 5]);
        check::<u32>(dev, [0, u32::MAX, 1 << 16], [1, 2, 3, 4, 5]);
        check::<i64>(dev, [i64::MIN, i64::MAX, -1], [1, 2, 3, 4, 5]);
        check::<u64>(dev, [0, u64::MAX, 1 << 32], [1, 2, 3, 4, 5]);
        let new = [1.5, -0.0, 2.0, f32::NAN, 3.0];
        check::<f32>(dev, [-0.0, 0.0, f32::from_bits(0x7fa0_0001)], new);
        check::<f64>(dev, [-0.0, 0.0, f64::from_bits(0xfff4_0000_0000_0001)], new.map(f64::from));
        check::<f16>(dev, [-0.0, 0.0, 65504.0].map(f16::from_f32), new.map(f16::from_f32));
    });
}

/// One element handed from lane to lane: nothing is lost and nothing is there twice.
#[test]
fn lanes_that_meet_pass_values_on() {
    on_each(|dev| {
        for n in [0usize, 1, 3, 7, 8, 9, 1023, 1025, 40_000] {
            let place = Buffer::<u32>::zeros(1, dev).expect("memory");
            let own = Array::<u32>::arange(n, dev) + 1;
            let mut all = values(&place.exchange(&own, 0u32));
            all.push(place.value().item().expect("one"));
            all.sort_unstable();
            assert!(all.iter().copied().eq(0..=n as u32), "{n} lanes");

            let place = Buffer::<u8>::zeros(1, dev).expect("memory");
            let (_, stored) = place.compare_exchange(0u8, 7u8, own.zeros_like());
            let winners = values(&stored).iter().filter(|&&s| s).count();
            assert_eq!(winners, n.min(1), "of {n} lanes");
            assert_eq!(place.value().item().expect("one"), if n == 0 { 0 } else { 7 });
        }
    });
}

/// Addition by comparing and exchanging until nobody came between.
#[test]
fn a_loop_of_compare_exchange_adds() {
    on_each(|dev| {
        let n = 5000u32;
        let sums = Buffer::<f32>::zeros(3, dev).expect("memory");
        let lane = Array::<u32>::arange(n as usize, dev);
        let slot = &lane % 3;
        let start = (Array::full(false, n as usize, dev), Array::from(0.0f32));
        let (done, _) = while_loop(
            start,
            |(done, _)| !done,
            |(_, seen)| {
                let (old, stored) = sums.compare_exchange(&seen, &seen + 1.0, &slot);
                (stored, old)
            },
        );
        assert!(values(&done).iter().all(|&d| d));
        assert_eq!(values(&sums.value()), [1667.0, 1667.0, 1666.0]);
        // Each lane takes turns with itself.
        let place = Buffer::from_array(&lane).expect("memory");
        let (_, total) = while_loop(
            (Array::full(0u32, 1, dev), Array::from(0u32)),
            |(turn, _)| turn.lt(&lane % 4),
            |(turn, total)| {
                let old = place.exchange(&turn, &lane);
                (turn + 1, total + old)
            },
        );
        let expected = |i: u32| match i % 4 {
            0 => 0,
            1 => i,
            2 => i,
            _ => i + 1,
        };
        assert!(values(&total).into_iter().eq((0..n).map(expected)));
    });
}
