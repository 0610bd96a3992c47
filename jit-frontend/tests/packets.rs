//! Packets of elements.

use jit_frontend::prelude::*;
use jit_frontend::{Num, f16};

use crate::support::{on_each, values};

fn check<T: Num, const N: usize>(dev: &Device, of: impl Fn(usize) -> T) {
    // The last packet is not whole.
    let len = 5 * N + N / 2;
    let table: Vec<T> = (0..len).map(&of).collect();
    let index = [4i32, 0, 5, -1, i32::MAX, 2, i32::MIN];
    let masked = [true, true, true, true, true, false, true];
    let array = Array::from_slice(&table, dev).expect("memory");
    let lanes = Array::from_slice(&index, dev).expect("memory");
    let mask = Mask::from_slice(&masked, dev).expect("memory");
    let expected = |k: usize, mask: &[bool]| -> Vec<u64> {
        let inside = |i: i32| (0..5).contains(&i);
        let lanes = index.iter().zip(mask);
        lanes.map(|(&i, &m)| if m && inside(i) { table[i as usize * N + k].to_bits() } else { 0 }).collect()
    };
    let bits = |a: &Array<T>| values(a).iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    let place = Buffer::from_array(&array).expect("memory");
    let plain = [array.gather_packet::<N, _>(&lanes), place.gather_packet::<N, _>(&lanes)];
    let some = [
        array.gather_packet_masked::<N, _>(&lanes, &mask),
        place.gather_packet_masked::<N, _>(&lanes, &mask),
    ];
    for k in 0..N {
        assert!(plain.iter().all(|p| bits(&p[k]) == expected(k, &[true; 7])), "{} {N} {k}", T::DTYPE);
        assert!(some.iter().all(|p| bits(&p[k]) == expected(k, &masked)), "{} {N} {k}", T::DTYPE);
    }

    let rows: [Array<T>; N] =
        std::array::from_fn(|k| array.full_like(of(k + 100)).gather(lanes.zeros_like()));
    let mut written = array.clone();
    written.scatter_packet(&rows, &lanes);
    place.scatter_packet(&rows, &lanes);
    let mut wanted = table.clone();
    for i in [4, 0, 2] {
        (0..N).for_each(|k| wanted[i * N + k] = of(k + 100));
    }
    let wanted: Vec<u64> = wanted.iter().map(|v| v.to_bits()).collect();
    assert_eq!(bits(&written), wanted);
    assert_eq!(bits(&place.value()), wanted);

    let sums = Buffer::<T>::zeros(len, dev).expect("memory");
    sums.scatter_add_packet(&rows, &lanes);
    let mut added = array.zeros_like();
    added.scatter_add_packet(&rows, &lanes);
    let wanted: Vec<u64> =
        (0..len).map(|e| if [0, 2, 4].contains(&(e / N)) { of(e % N + 100).to_bits() } else { 0 }).collect();
    assert_eq!(bits(&sums.value()), wanted);
    assert_eq!(bits(&added), wanted);
}

#[test]
fn packets_of_all_lengths() {
    on_each(|dev| {
        check::<f32, 2>(dev, |k| k as f32 + 0.5);
        check::<f32, 3>(dev, |k| k as f32 + 0.5);
        check::<f32, 4>(dev, |k| k as f32 + 0.5);
        check::<f32, 8>(dev, |k| k as f32 + 0.5);
        check::<f64, 4>(dev, |k| k as f64 + 0.5);
        check::<f16, 4>(dev, |k| f16::from_f32(k as f32 + 0.5));
        check::<u8, 3>(dev, |k| k as u8 + 1);
        check::<i64, 4>(dev, |k| k as i64 + 1);
    });
}
