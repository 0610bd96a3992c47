//! Loops and branches.

use jit_frontend as jit;
use jit_frontend::prelude::*;

use crate::support::{array, fresh, on_each, panic_of, values};

#[test]
fn loops_run_lane_by_lane() {
    on_each(|dev| {
        let n = Array::<u32>::arange(10, dev) + 1;
        let (_, steps) = while_loop(
            (n, Array::from(0u32)),
            |(n, _)| n.ne(1),
            |(n, steps)| ((&n & 1).eq(0).select(&n >> 1, n * 3 + 1), steps + 1),
        );
        assert_eq!(values(&steps), [0, 1, 7, 2, 5, 8, 16, 3, 19, 6]);
    });
}

#[derive(Clone, Traverse)]
struct Ball {
    height: Array<f32>,
    speed: Array<f32>,
    bounces: Array<u32>,
    #[traverse(skip)]
    name: String,
}

#[test]
fn state_and_arguments_are_structures() {
    on_each(|dev| {
        let ball = Ball {
            height: Array::from_slice(&[1.0, 4.0, 9.0], dev).expect("memory"),
            speed: Array::from(0.0),
            bounces: Array::from(0),
            name: "ball".to_owned(),
        };
        let after = Loop::new((ball, Array::from(0u32))).name("fall").run(
            |(_, t)| t.lt(5),
            |(ball, t)| {
                let speed = &ball.speed - 1.0;
                let height = &ball.height + &speed;
                let ball = if_else(
                    &height.lt(0.0),
                    Ball { height, speed, ..ball },
                    |b| Ball { height: -b.height, speed: -b.speed, bounces: b.bounces + 1, name: b.name },
                    |b| b,
                );
                (ball, t + 1)
            },
        );
        let twin = [1.0f32, 4.0, 9.0].map(|mut height| {
            let (mut speed, mut bounces) = (0.0f32, 0u32);
            for _ in 0..5 {
                speed -= 1.0;
                height += speed;
                if height < 0.0 {
                    (height, speed, bounces) = (-height, -speed, bounces + 1);
                }
            }
            (height, speed, bounces)
        });
        assert_eq!(values(&after.0.height), twin.map(|t| t.0));
        assert_eq!(values(&after.0.speed), twin.map(|t| t.1));
        assert_eq!(values(&after.0.bounces), twin.map(|t| t.2));
        assert_eq!(after.0.name, "ball");
    });
}

#[test]
fn branches_take_and_return_values() {
    on_each(|dev| {
        let x = Array::from_slice(&[-4.0f32, 9.0, 16.0], dev).expect("memory");
        let (root, sign) = if_else(
            &x.lt(0.0),
            x.clone(),
            |x| ((-x).sqrt(), Array::from(-1i32)),
            |x| (x.sqrt(), Array::from(1i32)),
        );
        assert_eq!(values(&root), [2.0, 3.0, 4.0]);
        assert_eq!(values(&sign), [-1, 1, 1]);
    });
}

#[test]
fn lanes_stop_after_the_most_iterations() {
    on_each(|dev| {
        let end = Array::from_slice(&[2u32, 5, 100], dev).expect("memory");
        let stop =
            |most: u32| Loop::new(end.zeros_like()).max_iterations(most).run(|i| i.lt(&end), |i| i + 1);
        assert_eq!(values(&stop(7)), [2, 5, 7]);
        assert_eq!(values(&stop(0)), [0, 0, 0]);
    });
    assert_eq!(Loop::new(1u32).max_iterations(3).run(|_| true, |x| x * 2), 8);
}

#[test]
fn buffers_are_places_in_state_and_captured() {
    on_each(|dev| {
        let (counts, total) =
            (Buffer::<u32>::zeros(4, dev).expect("memory"), Buffer::<u32>::zeros(1, dev).expect("memory"));
        let lane = Array::<u32>::arange(4, dev);
        let (_, carried, seen) = while_loop(
            (Array::from(0u32), counts.clone(), Array::from(0u32)),
            |(i, ..)| i.lt(&lane),
            |(i, counts, _)| {
                counts.scatter_add(1, &lane);
                total.scatter_add(1, 0);
                let seen = counts.gather(&lane);
                (i + 1, counts, seen)
            },
        );
        assert_eq!(values(&seen), [0, 1, 2, 3], "a lane sees its own effects");
        assert_eq!(values(&counts.value()), [0, 1, 2, 3]);
        assert_eq!(values(&carried.value()), [0, 1, 2, 3]);
        assert_eq!(values(&total.value()), [6]);
        // An effect in a branch runs for the lanes that take it.
        let () = if_else(&lane.gt(1), (), |()| total.scatter_add(10, 0), |()| ());
        assert_eq!(values(&total.value()), [26]);
    });
}

#[test]
fn plain_values_run_ordinary_loops() {
    let (n, steps) = while_loop(
        (27u32, 0u32),
        |&(n, _)| n != 1,
        |(n, steps)| (if n % 2 == 0 { n / 2 } else { 3 * n + 1 }, steps + 1),
    );
    assert_eq!((n, steps), (1, 111));
    assert_eq!(if_else(&false, 3, |x| x + 1, |x| x * 10), 30);
}

#[test]
fn literals_take_the_device_of_the_open_region() {
    let x = Array::from_slice(&[1.0f32, 2.0], &fresh()).expect("memory");
    let out = while_loop(
        x.clone(),
        |x| x.lt(10.0),
        |x| {
            let (ten, _) = while_loop(
                (Array::from(0.0f32), Array::from(0u32)),
                |(_, i)| i.lt(10),
                |(sum, i)| (sum + 1.0, i + 1),
            );
            x + ten
        },
    );
    assert_eq!(values(&out), [11.0, 12.0]);
    // Without one, that of the environment.
    let alone = while_loop(Array::from(0u32), |i| i.lt(5), |i| i + 1);
    assert_eq!(alone.device(), Device::from_env().ok());
    assert_eq!(alone.item().expect("evaluation"), 5);
}

#[test]
fn what_does_not_fit_panics_at_the_callers_line() {
    let dev = fresh();
    let x = Array::from_slice(&[1.0f32, 2.0], &dev).expect("memory");
    let three = Array::from_slice(&[1.0f32, 2.0, 3.0], &dev).expect("memory");
    let state = || (x.clone(), vec![x.clone()], 1u32);
    let longer = |(x, mut list, n): (Array<f32>, Vec<Array<f32>>, u32)| {
        list.push(x.clone());
        (x, list, n)
    };
    let other = Buffer::<u32>::zeros(1, &dev).expect("memory");
    let place = Buffer::<u32>::zeros(1, &dev).expect("memory");
    let cases = [
        (
            "loop `grow` must return 2 arrays, got 3",
            line!(),
            panic_of(|| Loop::new(state()).name("grow").run(|s| s.0.lt(5.0), longer)),
            line!(),
        ),
        (
            "same structure",
            line!(),
            panic_of(|| while_loop(state(), |s| s.0.lt(5.0), |(x, l, n)| (x, l, n + 1))),
            line!(),
        ),
        (
            "same buffers",
            line!(),
            panic_of(|| while_loop((x.clone(), place.clone()), |s| s.0.lt(5.0), |s| (s.0, other.clone()))),
            line!(),
        ),
        (
            "must return 1 arrays, got 2",
            line!(),
            panic_of(|| if_else(&x.lt(1.0), (), |()| vec![x.clone()], |()| vec![x.clone(); 2])),
            line!(),
        ),
        (
            "f32[3]",
            line!(),
            panic_of(|| while_loop((x.clone(), three.clone()), |s| s.0.lt(5.0), |s| s)),
            line!(),
        ),
        ("f32[3]", line!(), panic_of(|| while_loop(x.clone(), |x| x.lt(5.0), |x| x + &three)), line!()),
        (
            "a region of 2 lanes",
            line!(),
            panic_of(|| if_else(&x.lt(1.0), (), |()| Array::from(1.0), |()| three.clone())),
            line!(),
        ),
        (
            "reading an array inside a loop",
            line!(),
            panic_of(|| while_loop(x.clone(), |x| x.lt(5.0), |y| y + x.to_vec().map_or(0.0, |v| v[0]))),
            line!(),
        ),
        (
            "evaluating inside a branch",
            line!(),
            panic_of(|| if_else(&x.lt(1.0), (), |()| drop(jit::eval(&x)), |()| ())),
            line!(),
        ),
    ];
    let nodes = dev.memory().nodes;
    for (expected, from, (message, file, line), to) in cases {
        assert!(message.contains(expected), "{message}");
        assert!(file == file!() && (from..=to).contains(&line), "{message} at {file}:{line}");
    }
    // Everything is as before: no node is left of what was given up, and the device works.
    assert_eq!(dev.memory().nodes, nodes);
    assert_eq!(values(&while_loop(x.clone(), |x| x.lt(5.0), |x| x * 2.0)), [8.0, 8.0]);
    assert_eq!(values(&place.value()), [0]);
}

#[test]
fn a_panic_of_a_closure_changes_nothing() {
    let dev = fresh();
    let x = Array::from_slice(&[1.0f32, 2.0], &dev).expect("memory");
    let place = Buffer::<f32>::zeros(2, &dev).expect("memory");
    let nodes = dev.memory().nodes;
    let fail = |text: &str| -> Array<f32> { panic!("{text}") };
    let (message, ..) = panic_of(|| {
        while_loop(
            x.clone(),
            |x| x.lt(5.0),
            |x| {
                place.scatter_add(&x, 0);
                if_else(&x.gt(1.0), x, |x| x * 2.0, |x| fail(&format!("{} lanes", x.len())))
            },
        )
    });
    assert_eq!(message, "2 lanes");
    assert_eq!(dev.memory().nodes, nodes);
    assert_eq!(values(&place.value()), [0.0, 0.0]);
    assert_eq!(values(&(&x + 1.0)), [2.0, 3.0]);
    let (message, ..) = panic_of(|| while_loop(x.clone(), |_| -> Array<bool> { panic!("condition") }, |x| x));
    assert_eq!(message, "condition");
    assert_eq!(values(&while_loop(x, |x| x.lt(5.0), |x| x + 5.0)), [6.0, 7.0]);
    assert_eq!(values(&array(&[1u8])), [1]);
}
