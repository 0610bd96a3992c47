//! Effects run exactly once, in order; versions are values, buffers places.

use jit_core::dtype::DType;
use jit_core::op::Op;
use jit_core::runtime::Device;
use jit_core::trace::{BufferVar, Division, Var, eval, if_else, while_loop};

use super::check::apply;
use super::misuse::panics;
use crate::devices::on_each;
use crate::host::{lit, read, upload};

fn add(a: &Var, b: &Var) -> Var {
    apply(Op::Add, &[a, b])
}

fn less(a: &Var, b: &Var) -> Var {
    Var::apply(Op::Lt, DType::Bool, &[a, b])
}

#[test]
fn an_effect_runs_once_however_often_it_is_asked_for() {
    on_each(|device| {
        let buffer = BufferVar::new(&upload(device, &[0u32; 2]));
        let first = buffer.atomic_inc(&lit(0u32), None);
        let sum = add(&first, &lit(100u32));
        let twice = add(&first, &first);
        eval(&[&sum, &twice], &[&buffer, &buffer]).expect("evaluation").wait().expect("execution");
        assert_eq!(
            (read::<u32>(&sum), read::<u32>(&twice), read::<u32>(&first)),
            (vec![100], vec![0], vec![0])
        );
        assert_eq!(read::<u32>(&buffer.value()), [1, 0]);
        // Evaluating a result advances its buffer.
        let second = buffer.atomic_inc(&upload(device, &[0u32, 1, 0]), None);
        let mut got = read::<u32>(&second);
        got.sort_unstable();
        assert_eq!(got, [0, 1, 2]);
        assert_eq!(read::<u32>(&buffer.value()), [3, 1]);
        assert_eq!(read::<u32>(&add(&first, &buffer.value())), [3, 1]);
    });
}

#[test]
fn clones_of_a_buffer_are_one_place_and_values_are_snapshots() {
    on_each(|device| {
        let buffer = BufferVar::new(&upload(device, &[1i32, 2]));
        let same = buffer.clone();
        let before = same.value();
        buffer.scatter(Op::ScatterAdd, &lit(10i32), &lit(0u8), None);
        let between = same.value();
        same.scatter(Op::ScatterAdd, &lit(100i32), &lit(1u8), None);
        same.set(&add(&same.value(), &buffer.value()));
        assert_eq!(read::<i32>(&buffer.value()), [22, 204]);
        assert_eq!(read::<i32>(&between), [11, 2]);
        assert_eq!(read::<i32>(&before), [1, 2]);
        drop(buffer);
        assert_eq!(read::<i32>(&same.value()), [22, 204]);
    });
}

#[test]
fn two_buffers_of_one_array_are_two_places() {
    on_each(|device| {
        let x = upload(device, &[1u64, 2]);
        let (one, two) = (BufferVar::new(&x), BufferVar::new(&x));
        one.scatter(Op::Scatter, &lit(7u64), &lit(0u8), None);
        two.scatter(Op::Scatter, &lit(9u64), &lit(0u8), None);
        assert_eq!(read::<u64>(&add(&one.value(), &two.value())), [16, 4]);
        assert_eq!(read::<u64>(&x), [1, 2]);
    });
}

#[test]
fn gathers_before_a_scatter_see_the_old_elements() {
    on_each(|device| {
        let n = 5000u32;
        let numbers: Vec<u32> = (0..n).collect();
        let mut x = upload(device, &numbers);
        let lane = Var::counter(device, DType::U32, n.into());
        let reversed = apply(Op::Sub, &[&lit(n - 1), &lane]);
        let before = x.gather(&reversed, None);
        let beside = add(&x, &lit(1u32));
        x.scatter(Op::Scatter, &apply(Op::Mul, &[&before, &lit(2u32)]), &lane, None);
        let after = x.gather(&reversed, None);
        eval(&[&before, &after, &beside], &[]).expect("evaluation");
        let expected: Vec<u32> = numbers.iter().rev().copied().collect();
        assert_eq!(read::<u32>(&before), expected);
        assert_eq!(read::<u32>(&x), expected.iter().map(|v| 2 * v).collect::<Vec<_>>());
        assert_eq!(read::<u32>(&after), numbers.iter().map(|v| 2 * v).collect::<Vec<_>>());
        assert_eq!(read::<u32>(&beside), numbers.iter().map(|v| v + 1).collect::<Vec<_>>());
    });
}

#[test]
fn arrays_that_were_equal_are_written_apart() {
    on_each(|device| {
        // One literal node behind both.
        let (mut a, mut b) = (Var::full(device, DType::U16, 5, 3), Var::full(device, DType::U16, 5, 3));
        let untouched = a.clone();
        a.scatter(Op::Scatter, &lit(1u16), &lit(0u8), None);
        b.scatter(Op::Scatter, &lit(2u16), &lit(1u8), None);
        eval(&[&a, &b, &untouched], &[]).expect("evaluation");
        assert_eq!((read::<u16>(&a), read::<u16>(&b)), (vec![1, 5, 5], vec![5, 2, 5]));
        assert_eq!(read::<u16>(&untouched), [5; 3]);
        // One expression behind both.
        let x = upload(device, &[1u16, 2, 3]);
        let (mut a, mut b) = (add(&x, &lit(1u16)), add(&x, &lit(1u16)));
        let lazy = a.clone();
        a.scatter(Op::ScatterAdd, &lit(10u16), &lit(0u8), None);
        b.scatter(Op::ScatterAdd, &lit(20u16), &lit(0u8), None);
        eval(&[&b, &lazy, &a], &[]).expect("evaluation");
        assert_eq!((read::<u16>(&a), read::<u16>(&b)), (vec![12, 3, 4], vec![22, 3, 4]));
        assert_eq!(read::<u16>(&lazy), [2, 3, 4]);
        assert_eq!(read::<u16>(&x), [1, 2, 3]);
    });
}

#[test]
fn the_old_version_lives_as_long_as_an_expression_of_it() {
    on_each(|device| {
        let mut x = upload(device, &[1u32, 2, 3]);
        let doubled = add(&x, &x);
        let total = x.reduce(Op::ReduceSum);
        x.scatter(Op::Scatter, &lit(100u32), &lit(0u32), None);
        let after = x.reduce(Op::ReduceSum);
        // Lanes of the old version beside a sum of the new one.
        let mixed = add(&doubled, &after);
        drop(x);
        assert_eq!(read::<u32>(&mixed), [107, 109, 111]);
        assert_eq!(read::<u32>(&total), [6]);
        assert_eq!(read::<u32>(&doubled), [2, 4, 6]);
    });
}

#[test]
fn chains_of_scatters_keep_their_order() {
    on_each(|device| {
        let mut x = Var::full(device, DType::I32, 0, 4);
        let index = upload(device, &[0u32, 1, 2, 3]);
        let mut versions = Vec::new();
        for k in 1..=5i32 {
            x.scatter(Op::ScatterMul, &lit(2i32), &index, None);
            x.scatter(Op::ScatterAdd, &lit(k), &index, None);
            x.scatter(Op::Scatter, &lit(-1i32), &lit(3u32), None);
            versions.push(x.clone());
        }
        let last = versions.pop().expect("some");
        // ((((1 * 2 + 2) * 2 + 3) * 2 + 4) * 2 + 5)
        assert_eq!(read::<i32>(&last), [57, 57, 57, -1]);
        let firsts: Vec<i32> = versions.iter().map(|v| read::<i32>(v)[0]).collect();
        assert_eq!(firsts, [1, 4, 11, 26]);
    });
}

#[test]
fn a_lane_may_read_change_and_write_its_own_element() {
    on_each(|device| {
        let mut x = upload(device, &[1f32, 2.0, 3.0]);
        let lane = Var::counter(device, DType::U32, 3);
        for _ in 0..3 {
            let doubled = apply(Op::Mul, &[&x.gather(&lane, None), &lit(2f32)]);
            x.scatter(Op::Scatter, &doubled, &lane, None);
        }
        assert_eq!(read::<f32>(&x), [8.0, 16.0, 24.0]);
    });
}

#[test]
fn a_loop_may_live_on_memory_alone() {
    on_each(|device| {
        let lane = Var::counter(device, DType::U32, 5);
        let buffer = BufferVar::new(&upload(device, &[0u32, 7, 2, 9, 4]));
        // No state: the condition reads what the body writes.
        let out = while_loop(
            device,
            &[],
            |_| less(&buffer.gather(&lane, None), &lit(5u32)),
            |_| {
                buffer.scatter(Op::ScatterAdd, &lit(2u32), &lane, None);
                vec![]
            },
        );
        assert!(out.is_empty());
        assert_eq!(read::<u32>(&buffer.value()), [6, 7, 6, 9, 6]);
    });
}

#[test]
fn a_condition_may_have_effects() {
    on_each(|device| {
        let calls = BufferVar::new(&upload(device, &[0u32]));
        let n = upload(device, &[0u32, 3, 1]);
        let out = while_loop(
            device,
            &[lit(0u32)],
            |s| {
                calls.scatter(Op::ScatterAdd, &lit(1u32), &lit(0u32), None);
                less(&s[0], &n)
            },
            |s| vec![add(&s[0], &lit(1u32))],
        );
        assert_eq!(read::<u32>(&out[0]), [0, 3, 1]);
        // Once more than each lane's body.
        assert_eq!(read::<u32>(&calls.value()), [1 + 4 + 2]);
    });
}

#[test]
fn sides_of_a_branch_write_one_buffer() {
    on_each(|device| {
        let lane = Var::counter(device, DType::U32, 6);
        let buffer = BufferVar::new(&Var::full(device, DType::I64, 0, 2));
        let low = less(&lane, &lit(2u32));
        let got = if_else(
            device,
            &low,
            &[],
            |_| {
                buffer.scatter(Op::ScatterAdd, &lit(1i64), &lit(0u32), None);
                vec![lit(-1i64)]
            },
            |_| {
                buffer.scatter(Op::ScatterAdd, &lit(10i64), &lit(1u32), None);
                vec![buffer.atomic_inc(&lit(5u32), None)]
            },
        );
        assert_eq!(read::<i64>(&buffer.value()), [2, 40]);
        assert_eq!(read::<i64>(&got[0]), [-1, -1, 0, 0, 0, 0]);
    });
}

#[test]
fn order_between_buffers_and_values_is_kept() {
    on_each(|device| {
        let (a, b) = (BufferVar::new(&upload(device, &[1u32])), BufferVar::new(&upload(device, &[10u32])));
        for _ in 0..4 {
            // a, b = b, a + b
            let (x, y) = (a.value(), b.value());
            a.set(&y);
            b.set(&add(&x, &y));
        }
        assert_eq!((read::<u32>(&a.value()), read::<u32>(&b.value())), (vec![32], vec![53]));
        let total = a.value().reduce(Op::ReduceSum);
        a.scatter(Op::ScatterAdd, &total, &lit(0u32), None);
        b.scatter(Op::ScatterAdd, &a.gather(&lit(0u32), None), &lit(0u32), None);
        assert_eq!(read::<u32>(&b.value()), [117]);
        assert_eq!(read::<u32>(&total), [32]);
    });
}

#[test]
fn a_gather_in_a_region_has_its_width() {
    on_each(|device| {
        let buffer = BufferVar::new(&upload(device, &[1u32, 2, 3, 4, 5]));
        let three = upload(device, &[0u32, 1, 2]);
        let five = upload(device, &[0u32; 5]);
        let message = panics(|| {
            let body = |s: Vec<Var>| {
                drop(buffer.gather(&three, None));
                s
            };
            drop(while_loop(device, std::slice::from_ref(&five), |s| less(&s[0], &lit(0u32)), body));
        });
        assert!(message.contains("`gather`") && message.contains('3') && message.contains('5'), "{message}");
        // Where nothing else is wide, the index is.
        let out = while_loop(
            device,
            &[lit(0u32), lit(false)],
            |s| apply(Op::Not, &[&s[1]]),
            |_| vec![buffer.gather(&three, None), lit(true)],
        );
        assert_eq!(read::<u32>(&out[0]), [1, 2, 3]);
    });
}

#[test]
fn values_of_an_open_region_stay_on_their_thread() {
    on_each(|device| {
        let x = upload(device, &[1u32, 2]);
        let out = while_loop(
            device,
            std::slice::from_ref(&x),
            |s| less(&s[0], &lit(2u32)),
            |s| {
                std::thread::scope(|scope| {
                    let elsewhere = scope.spawn(|| panics(|| drop(add(&s[0], &lit(1u32)))));
                    let message = elsewhere.join().expect("caught");
                    assert!(message.contains("not open here"), "{message}");
                    let outside =
                        scope.spawn(|| read::<u32>(&add(&x, &lit(1u32)))).join().expect("no region there");
                    assert_eq!(outside, [2, 3]);
                });
                vec![add(&s[0], &lit(1u32))]
            },
        );
        assert_eq!(read::<u32>(&out[0]), [2, 2]);
    });
}

/// Arrays of every origin with the elements they have: evaluated, literal, counted, computed, reduced, gathered,
/// scattered, looped, branched.
fn origins(device: Device) -> Vec<(&'static str, Var, Vec<u32>)> {
    let x = upload(device, &[3u32, 1, 2]);
    let lane = Var::counter(device, DType::U32, 3);
    let mut scattered = add(&x, &lane);
    scattered.scatter(Op::ScatterAdd, &lit(10u32), &lit(1u32), None);
    let looped = while_loop(
        device,
        std::slice::from_ref(&x),
        |s| less(&s[0], &lit(3u32)),
        |s| vec![add(&s[0], &lit(1u32))],
    );
    let branched = if_else(device, &less(&x, &lit(2u32)), &[], |_| vec![lit(7u32)], |_| vec![lane.clone()]);
    let buffer = BufferVar::new(&x);
    let tickets = buffer.atomic_inc(&lane, None);
    vec![
        ("evaluated", x.clone(), vec![3, 1, 2]),
        ("literal", Var::full(device, DType::U32, 5, 3), vec![5; 3]),
        ("counter", lane.clone(), vec![0, 1, 2]),
        ("lanes", add(&x, &lane), vec![3, 2, 4]),
        ("reduction", x.reduce(Op::ReduceSum), vec![6]),
        ("after a reduction", add(&x.reduce(Op::ReduceMax), &lit(1u32)), vec![4]),
        ("gather", x.gather(&apply(Op::Xor, &[&lane, &lit(1u32)]), None), vec![1, 3, 0]),
        ("scatter", scattered, vec![3, 12, 4]),
        ("loop", looped[0].clone(), vec![3; 3]),
        ("branch", branched[0].clone(), vec![0, 7, 2]),
        ("old values", tickets, vec![3, 1, 2]),
        ("buffer", buffer.value(), vec![4, 2, 3]),
    ]
}

#[test]
fn every_origin_can_be_gathered_from_reduced_and_used() {
    on_each(|device| {
        let index = upload(device, &[2u32, 0, 9]);
        for (what, array, elements) in origins(device) {
            let at = |k: usize| elements.get(k).copied().unwrap_or(0);
            assert_eq!(read::<u32>(&array.gather(&index, None)), [at(2), at(0), 0], "gather from {what}");
        }
        for (what, array, elements) in origins(device) {
            let sum = array.reduce(Op::ReduceSum);
            let more: Vec<u32> = elements.iter().map(|v| v + elements.iter().sum::<u32>()).collect();
            assert_eq!(read::<u32>(&add(&array, &sum)), more, "{what} and its sum");
        }
        for (what, array, elements) in origins(device) {
            let out = while_loop(
                device,
                &[lit(0u32), lit(0u32)],
                |s| less(&s[0], &array),
                |s| vec![add(&s[0], &lit(1u32)), add(&s[1], &array.gather(&s[0], None))],
            );
            let at = |k: u32| elements.get(k as usize).copied().unwrap_or(0);
            let expected: Vec<u32> = elements.iter().map(|&n| (0..n).map(at).sum()).collect();
            assert_eq!(read::<u32>(&out[1]), expected, "a loop over {what}");
        }
    });
}

#[test]
fn every_origin_can_be_scattered_to() {
    on_each(|device| {
        for held in [false, true] {
            for (what, mut array, mut elements) in origins(device) {
                let before = elements.clone();
                let kept = held.then(|| array.clone());
                // The value needs all of the old version.
                let value = array.reduce(Op::ReduceSum);
                array.scatter(Op::Scatter, &value, &upload(device, &[0i8, -1]), None);
                elements[0] = elements.iter().sum();
                assert_eq!(read::<u32>(&array), elements, "scatter to {what}, held: {held}");
                if let Some(kept) = kept {
                    assert_eq!(read::<u32>(&kept), before, "{what} after a scatter");
                }
            }
            for (what, array, elements) in origins(device) {
                let kept = held.then(|| array.clone());
                let before = elements.clone();
                let n = elements.len() as u32;
                let buffer = BufferVar::new(&array);
                drop(array);
                let lane = Var::counter(device, DType::U32, n.into());
                let out = while_loop(
                    device,
                    &[lit(0u32)],
                    |s| less(&s[0], &lit(2u32)),
                    |s| {
                        buffer.scatter(Op::ScatterAdd, &lit(1u32), &lane, None);
                        vec![add(&s[0], &lit(1u32))]
                    },
                );
                let expected: Vec<u32> = elements.iter().map(|v| v + 2).collect();
                assert_eq!(read::<u32>(&buffer.value()), expected, "a loop on {what}, held: {held}");
                assert_eq!(read::<u32>(&out[0]), vec![2; n as usize]);
                if let Some(kept) = kept {
                    assert_eq!(read::<u32>(&kept), before, "{what} after a loop");
                }
            }
        }
    });
}

/// Kernels that reduce segments are others than those of the same lanes one by one.
#[test]
fn an_effect_before_a_reduction_of_segments_runs_once() {
    let contents: Vec<u32> = (0..12).map(|i| i * i + 3).collect();
    let rows = Division::rows(5);
    let columns = Division::columns(4);
    let sums = |values: &[u32], division: Division| -> Vec<u32> {
        match division == rows {
            true => values.chunks(5).map(|row| row.iter().sum()).collect(),
            false => (0..4).map(|column| values.iter().skip(column).step_by(4).sum()).collect(),
        }
    };
    type Producer = fn(Device, &BufferVar, &Var) -> Var;
    let add_in_a_loop: Producer = |device, buffer, lane| {
        let out = while_loop(
            device,
            &[lit(0u32), lane.clone()],
            |s| less(&s[0], &lit(1u32)),
            |s| {
                buffer.scatter(Op::ScatterAdd, &lit(1u32), lane, None);
                vec![add(&s[0], &lit(1u32)), buffer.gather(lane, None)]
            },
        );
        apply(Op::Sub, &[&out[1], &lit(1u32)])
    };
    let pure_loop_of_an_effect: Producer = |device, buffer, lane| {
        let old = buffer.atomic_inc(lane, None);
        let out = while_loop(
            device,
            &[lit(0u32), old],
            |s| less(&s[0], &lit(2u32)),
            |s| vec![add(&s[0], &lit(1u32)), add(&s[1], &lit(7u32))],
        );
        apply(Op::Sub, &[&out[1], &lit(14u32)])
    };
    let producers: [(&str, Producer); 5] = [
        ("atomic_inc", |_, buffer, lane| buffer.atomic_inc(lane, None)),
        ("exchange", |_, buffer, lane| {
            let old = buffer.exchange(&add(&buffer.gather(lane, None), &lit(1u32)), lane, None);
            add(&old, &lit(0u32))
        }),
        ("lanes after atomic_inc", |_, buffer, lane| {
            let old = buffer.atomic_inc(lane, None);
            apply(Op::Sub, &[&add(&old, lane), lane])
        }),
        ("an effect in a loop", add_in_a_loop),
        ("a pure loop of an effect", pure_loop_of_an_effect),
    ];
    on_each(|device| {
        for (what, producer) in producers {
            for division in [rows, columns] {
                for also_by_lane in [false, true] {
                    let buffer = BufferVar::new(&upload(device, &contents));
                    let lane = Var::counter(device, DType::U32, 12);
                    let old = producer(device, &buffer, &lane);
                    let sum = old.reduce_by(Op::ReduceSum, division);
                    let by_lane = also_by_lane.then(|| add(&old, &lit(1u32)));
                    drop(old);
                    let values: Vec<&Var> = [&sum].into_iter().chain(&by_lane).collect();
                    eval(&values, &[&buffer]).expect("evaluation");
                    let what = format!("{what}, {division:?}, also by lane: {also_by_lane}");
                    assert_eq!(read::<u32>(&sum), sums(&contents, division), "{what}");
                    let after: Vec<u32> = contents.iter().map(|v| v + 1).collect();
                    assert_eq!(read::<u32>(&buffer.value()), after, "{what}");
                    if let Some(by_lane) = by_lane {
                        assert_eq!(read::<u32>(&by_lane), after, "{what}");
                    }
                }
            }
        }
    });
}
