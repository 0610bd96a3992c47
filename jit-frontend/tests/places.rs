//! Which handle sees which write: arrays are values, buffers are places, whenever things are evaluated.
//!
//! The six cases put `min(A)` into a place or into a new array, change `A`, and do it again in the same or the other way.

use jit_frontend as jit;
use jit_frontend::prelude::*;

use crate::support::{fresh, on_each, values};

/// The input `A` holds 1 as its smallest element, after [`change`](Case::change) 2.
struct Case {
    input: Buffer<i32>,
    /// Whether everything is evaluated as soon as it is written.
    eager: bool,
}

impl Case {
    fn min(&self) -> Array<i32> {
        let least = self.input.value().reduce_min();
        self.settle(&least);
        least
    }

    fn min_into(&self, place: &Buffer<i32>) {
        place.set(self.input.value().reduce_min());
        self.settle(place);
    }

    fn change(&self) {
        self.input.write(0, 2).expect("in range");
        self.settle(&self.input);
    }

    fn settle(&self, tree: &impl Traverse) {
        if self.eager {
            jit::sync(tree).expect("evaluation");
        }
    }
}

fn in_each_way(check: impl Fn(&Case, Array<i32>)) {
    on_each(|dev| {
        for eager in [false, true] {
            let start = Array::from_slice(&[1, 7, 5], dev).expect("memory");
            let case = Case { input: Buffer::from_array(&start).expect("memory"), eager };
            check(&case, Array::full(10, 1, dev));
            assert_eq!(values(&case.input.value()), [2, 7, 5]);
            assert_eq!(values(&start), [1, 7, 5]);
        }
    });
}

#[test]
fn one_place_written_twice() {
    in_each_way(|case, a0| {
        let place = Buffer::from_array(&a0).expect("memory");
        let at_first = place.value();
        case.min_into(&place);
        let first = place.value();
        case.change();
        let unchanged = place.value();
        case.min_into(&place);
        assert_eq!([&at_first, &first, &unchanged, &place.value()].map(|a| values(a)[0]), [10, 1, 1, 2]);
        assert_eq!(values(&a0), [10]);
    });
}

#[test]
fn a_new_array_each_time() {
    in_each_way(|case, a0| {
        let mut a = a0.clone();
        assert_eq!(values(&a), [10]);
        a = {
            drop(a);
            case.min()
        };
        let kept = a.clone();
        case.change();
        assert_eq!(values(&a), [1]);
        a = case.min();
        assert_eq!([&a0, &kept, &a].map(|a| values(a)[0]), [10, 1, 2]);
    });
}

#[test]
fn two_writers_of_one_place() {
    in_each_way(|case, a0| {
        let place = Buffer::from_array(&a0).expect("memory");
        let other = place.clone();
        case.min_into(&place);
        assert_eq!(values(&other.value()), [1]);
        case.change();
        case.min_into(&other);
        assert_eq!((values(&place.value()), values(&a0)), (vec![2], vec![10]));
    });
}

#[test]
fn an_array_made_a_place() {
    in_each_way(|case, _| {
        let a = case.min();
        let place = Buffer::from_array(&a).expect("memory");
        case.change();
        case.min_into(&place);
        assert_eq!((values(&a), values(&place.value())), (vec![1], vec![2]));
    });
}

#[test]
fn a_place_then_an_array() {
    in_each_way(|case, a0| {
        let place = Buffer::from_array(&a0).expect("memory");
        case.min_into(&place);
        let after = place.value();
        case.change();
        let a = case.min();
        assert_eq!([&a0, &after, &place.value(), &a].map(|a| values(a)[0]), [10, 1, 1, 2]);
    });
}

#[test]
fn two_arrays_and_an_innocent_one() {
    in_each_way(|case, a0| {
        let first = case.min();
        let innocent = &a0 + 67;
        case.settle(&innocent);
        case.change();
        let second = case.min();
        assert_eq!([&first, &second, &innocent, &a0].map(|a| values(a)[0]), [1, 2, 77, 10]);
    });
}

#[test]
fn a_snapshot_outlives_writes_in_any_order_of_reading() {
    on_each(|dev| {
        let place = Buffer::<u32>::zeros(2, dev).expect("memory");
        let snapshots: Vec<Array<u32>> = (0..4)
            .map(|i| {
                let now = place.value();
                place.scatter_add(1, i % 2);
                now
            })
            .collect();
        let expected = [[0, 0], [1, 0], [1, 1], [2, 1]];
        for i in [2, 0, 3, 1] {
            assert_eq!(values(&snapshots[i]), expected[i]);
        }
        assert_eq!(values(&place.value()), [2, 2]);
    });
}

/// Gradient descent with a gradient written by hand: what a step leaves behind would add up.
#[test]
fn a_thousand_steps_hold_what_a_hundred_do() {
    let cpu = Device::builder(DeviceKind::Cpu).threads(2).build();
    for dev in &[Ok(fresh()), cpu].into_iter().flatten().collect::<Vec<_>>() {
        let (n, parameters) = (4096u32, 256u32);
        let lane = Array::<u32>::arange(n as usize, dev);
        let index = (&lane * 2_654_435_761u32 >> 7) % parameters;
        let x = (&lane % 7).cast::<f32>() * 0.25 + 0.5;
        let target = (&lane % 5).cast::<f32>() * 0.2;
        jit::sync(&(index.clone(), x.clone(), target.clone())).expect("evaluation");
        let rate = 0.05 * parameters as f32 / n as f32;
        let mut p = Array::full(0.5f32, parameters as usize, dev);
        let mut step = || {
            let y = p.gather(&index) * &x - &target;
            let mut gradient = Array::<f32>::zeros(parameters as usize, dev);
            gradient.scatter_add((&y + &y) * &x, &index);
            p = &p - gradient * rate;
            jit::eval(&p).expect("evaluation");
        };
        (0..100).for_each(|_| step());
        dev.sync().expect("no error");
        let before = dev.memory();
        (0..900).for_each(|_| step());
        dev.sync().expect("no error");
        let after = dev.memory();
        assert_eq!(
            (after.nodes, after.storages, after.kernels, after.bytes, after.cached),
            (before.nodes, before.storages, before.kernels, before.bytes, before.cached)
        );
        let loss = p.gather(&index) * &x - &target;
        assert!((&loss * &loss).mean().item().expect("evaluation") < 0.2);
    }
}
