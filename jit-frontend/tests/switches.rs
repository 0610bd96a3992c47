//! Switches.

use jit_frontend as jit;
use jit_frontend::prelude::*;
use jit_frontend::{DeviceKind, Error, LocalArray, Loop, Mode, Switch};

use crate::support::{array, fresh, on_each, panic_of, values};

#[test]
fn closures_take_and_return_structures() {
    on_each(|dev| {
        let x = Array::from_slice(&[1.0f32, 4.0, 9.0, 16.0, 25.0], dev).expect("memory");
        let which = Array::from_slice(&[2i64, 0, 1, -1, 3], dev).expect("memory");
        let offset = Array::from(10.0f32);
        let (y, mark): (Array<f32>, Vec2<Array<u8>>) = switch(
            &which,
            (x, Array::from(7u8)),
            &[
                &|(x, n)| (&x + &offset, Vec2::new(n.clone(), n)),
                &|(x, n)| (x.sqrt(), Vec2::new(&n + 1, n)),
                &|(x, _)| (-x, Vec2::new(Array::from(1), Array::from(2))),
            ],
        );
        assert_eq!(values(&y), [-1.0, 14.0, 3.0, 0.0, 0.0]);
        assert_eq!(values(&mark.x), [1, 7, 8, 0, 0]);
        assert_eq!(values(&mark.y), [2, 7, 7, 0, 0]);
    });
}

#[test]
fn closures_write_to_buffers() {
    on_each(|dev| {
        let counts = Buffer::<u32>::zeros(3, dev).expect("memory");
        let which = Array::<u32>::arange(1000, dev) % 5;
        let count = |k: u32| {
            let counts = &counts;
            move |()| counts.scatter_add(1, k)
        };
        let cases = [count(0), count(1), count(2)];
        switch(&which, (), &[&cases[0], &cases[1], &cases[2]]);
        assert_eq!(values(&counts.value()), [200, 200, 200]);
    });
}

#[test]
fn nothing_is_known_of_literals_but_their_device() {
    on_each(|dev| {
        let x = Array::from_slice(&[1u32, 2], dev).expect("memory");
        let y: Array<u32> = switch(&Array::from(1u8), x, &[&|x| x, &|x| x * 2]);
        assert_eq!(values(&y), [2, 4]);
    });
    let y: Array<u32> = switch(&Array::from(2u8), Array::from(5u32), &[&|x| x, &|x| x * 2]);
    assert_eq!(values(&y), [0]);
}

#[test]
fn each_closure_is_traced_once() {
    let calls = [const { std::cell::Cell::new(0) }; 2];
    let which = Array::<u32>::arange(1000, &fresh()) % 3;
    let called = |k: usize| {
        let calls = &calls;
        move |x: Array<u32>| {
            calls[k].set(calls[k].get() + 1);
            x + k as u32
        }
    };
    let (zero, one) = (called(0), called(1));
    let y: Array<u32> = switch(&which, which.clone(), &[&zero, &one]);
    assert!(y.trace().contains("= switch"), "{}", y.trace());
    assert_eq!(values(&y)[..4], [0, 2, 0, 0]);
    assert!(calls.iter().all(|count| count.get() == 1));
}

const MODES: [Mode; 2] = [Mode::Symbolic, Mode::Evaluated];

#[test]
fn results_and_effects_are_equal_in_both_modes() {
    for n in [0usize, 1, 2, 3, 4, 5, 9, 16, 17, 100, 1000] {
        on_each(|dev| {
            let run = |mode: Mode| {
                let lane = Array::<u32>::arange(n, dev);
                // One lane alone takes closure 3, and some lanes take none.
                let which = lane.eq(n as u32 / 2).select(3i32, (&lane * 5 % 7).cast::<i32>() - 2);
                let captured = &lane * 3 + 1;
                let table = Array::<u32>::arange(10, dev) * 100;
                let counts = Buffer::<u32>::zeros(6, dev).expect("memory");
                let own = Buffer::<u32>::zeros(n, dev).expect("memory");
                let (a, b): (Array<u32>, Vec2<Array<f32>>) = Switch::new(&which).name("pick").mode(mode).run(
                    (lane.clone(), Array::from(2.0f32)),
                    &[
                        &|(x, y)| (&x + &captured, Vec2::new(y.clone(), x.cast::<f32>() * &y)),
                        &|(x, y)| {
                            counts.scatter_add(1, 1u32);
                            (table.gather(&x % 10), Vec2::new(Array::from(1.0), y))
                        },
                        &|(_, y)| (Array::from(7u32), Vec2::new(y.sqrt(), y)),
                        &|(x, y)| {
                            counts.scatter_add(1, 3u32);
                            own.scatter_add(&captured, &lane);
                            (x * 2, Vec2::new(&y + 1.0, y))
                        },
                        &|(x, y)| (x, Vec2::new(y.clone(), y)),
                    ],
                );
                let counts = values(&counts.value());
                (values(&a), values(&b.x), values(&b.y), counts, values(&own.value()))
            };
            let [symbolic, evaluated] = MODES.map(run);
            assert_eq!(symbolic, evaluated, "{n} lanes");
            let twin = |i: usize| match if i == n / 2 { 3 } else { (i as i32 * 5 % 7) - 2 } {
                0 => i * 4 + 1,
                1 => i % 10 * 100,
                2 => 7,
                3 => i * 2,
                4 => i,
                _ => 0,
            };
            assert_eq!(evaluated.0, (0..n).map(|i| twin(i) as u32).collect::<Vec<_>>());
            assert_eq!(
                evaluated.3[3],
                u32::from(n > 0) + (0..n).filter(|&i| i != n / 2 && i * 5 % 7 == 5).count() as u32
            );
        });
    }
}

#[test]
fn lanes_that_take_nothing_and_lanes_that_all_take_one() {
    on_each(|dev| {
        for n in [0usize, 1, 2, 50] {
            for index in [0u8, 1, 2, 255] {
                let run = |mode: Mode| {
                    let x = Array::<u32>::arange(n, dev) + 3;
                    let buffer = Buffer::<u32>::zeros(4, dev).expect("memory");
                    // Of size 1, and as wide as the lanes.
                    [Array::full(index, 1, dev), Array::full(index, n, dev)].map(|which| {
                        let y: Array<u32> = Switch::new(&which).mode(mode).run(
                            x.clone(),
                            &[
                                &|x| {
                                    buffer.scatter_add(&x, &x);
                                    x * 2
                                },
                                &|_| Array::from(9u32),
                            ],
                        );
                        (values(&y), values(&buffer.value()))
                    })
                };
                let [symbolic, evaluated] = MODES.map(run);
                assert_eq!(symbolic, evaluated, "{n} lanes, {index}");
                let expected: Vec<u32> = (0..n as u32)
                    .map(|i| [(i + 3) * 2, 9].get(usize::from(index)).copied().unwrap_or(0))
                    .collect();
                assert_eq!(evaluated[1].0, expected);
            }
        }
    });
}

#[test]
fn evaluated_switches_in_evaluated_loops_and_the_other_way_round() {
    for n in [1usize, 2, 3, 40] {
        on_each(|dev| {
            let run = |mode: Mode| {
                let lane = Array::<u32>::arange(n, dev);
                let visits = Buffer::<u32>::zeros(n, dev).expect("memory");
                let (_, x) = Loop::new((Array::from(0u32), lane.clone())).mode(mode).run(
                    |(i, _)| i.lt(&lane % 5),
                    |(i, x)| {
                        let x: Array<u32> = Switch::new(&(&lane % 4 + &i)).mode(mode).run(
                            x,
                            &[
                                &|x| {
                                    visits.scatter_add(1, &lane);
                                    x + 1
                                },
                                &|x| {
                                    let (x, _) = Loop::new((x, Array::from(0u32)))
                                        .mode(mode)
                                        .run(|(_, k)| k.lt(&lane % 3), |(x, k)| (x * 2 + &lane, k + 1));
                                    x
                                },
                                &|x| x + &lane,
                            ],
                        );
                        (i + 1, x)
                    },
                );
                (values(&x), values(&visits.value()))
            };
            let [symbolic, evaluated] = MODES.map(run);
            assert_eq!(symbolic, evaluated, "{n} lanes");
        });
    }
}

#[test]
fn each_closure_of_an_evaluated_switch_is_a_kernel_of_its_lanes() {
    let dev = fresh();
    let lane = Array::<u32>::arange(1000, &dev);
    let x = lane.cast::<f32>() + 1.0;
    jit::sync(&x).expect("evaluation");
    dev.clear_kernel_history();
    let closures: [&dyn Fn(Array<f32>) -> Array<f32>; 3] = [&|x| x.sqrt(), &|x| x * 2.0, &|x| x.floor()];
    let y = Switch::new(&(&lane % 10)).name("shade").mode(Mode::Evaluated).run(x, &closures);
    let history = dev.kernel_history();
    let of_closures: Vec<u64> =
        history.iter().map(|record| record.lanes).filter(|&lanes| lanes != 1000).collect();
    assert_eq!(of_closures, [100; 3], "{history:?}");
    assert!(
        history
            .iter()
            .all(|record| record.name.as_deref() == Some("shade") && record.mode == Mode::Evaluated)
    );
    assert_eq!(values(&y)[10..14], [11.0f32.sqrt(), 24.0, 13.0, 0.0]);
}

#[test]
fn a_checked_device_tells_of_an_index_in_both_modes() {
    let dev = Device::builder(DeviceKind::Interpreter).checked(true).build().expect("always there");
    for mode in MODES {
        let which = Array::from_slice(&[0i16, 1, -7, 1, 2], &dev).expect("memory");
        let line = line!() + 1;
        let y: Array<u32> = Switch::new(&which).mode(mode).run(Array::from(5u32), &[&|x| x, &|x| x + 1]);
        match y.to_vec() {
            Err(Error::OutOfBounds { op: "switch", location, index: -7, size: 2 }) => {
                assert!(location.contains(&format!("switches.rs:{line}")), "{location}");
            }
            other => panic!("{mode:?}: {other:?}"),
        }
        assert_eq!(values(&y), [5, 6, 0, 6, 0]);
    }
}

#[test]
fn what_an_evaluated_switch_does_not_take() {
    let (x, which) = (array(&[1u32, 2, 3]), array(&[0u32, 1, 1]));
    let evaluated = || Switch::new(&which).name("inner").mode(Mode::Evaluated);
    let (message, ..) = panic_of(|| while_loop(x.clone(), |x| x.lt(5), |x| evaluated().run(x, &[&|x| x])));
    assert!(message.contains("a switch in evaluated mode inside a loop"), "{message}");
    let (message, ..) =
        panic_of(|| evaluated().run(x.clone(), &[&|x: Array<u32>| x.clone() + x.sum(), &|x| x]));
    assert!(message.contains("combines lanes"), "{message}");
    let (message, ..) = panic_of(|| {
        let local = LocalArray::<u32, 2>::zeros();
        let _: Array<u32> = evaluated().run(local, &[&|local| local.read(0u32)]);
    });
    assert!(message.contains("`inner` takes or gives a local array"), "{message}");
    let (message, ..) = panic_of(|| {
        let _: Vec<Array<u32>> =
            evaluated().run(x.clone(), &[&|x| vec![x.clone()], &|x| vec![x.clone(), x.clone()]]);
    });
    assert!(message.contains("callable 1 of the switch `inner` must return 1 arrays, got 2"), "{message}");
    // Everything is as it was.
    let y: Array<u32> = evaluated().run(x, &[&|x| x + 1, &|x| x + 2]);
    assert_eq!(values(&y), [2, 4, 5]);
}

#[test]
fn misuse_is_reported_at_the_callers_line() {
    let (x, which) = (array(&[1u32, 2]), array(&[0u32, 1]));
    let at = |line: u32, (message, file, got): (String, String, u32), part: &str| {
        assert!(message.contains(part), "{message}");
        assert!(file.ends_with("switches.rs"), "{file}");
        assert!((line..line + 12).contains(&got), "{got} is not about {line}");
    };
    let none: &[&dyn Fn(Array<u32>) -> Array<u32>] = &[];
    at(line!(), panic_of(|| switch(&which, x.clone(), none)), "without callables");
    at(
        line!(),
        panic_of(|| {
            let _: Vec<Array<u32>> =
                switch(&which, x.clone(), &[&|x| vec![x.clone()], &|x| vec![x.clone(), x.clone()]]);
        }),
        "callable 1 of a switch must return 1 arrays, got 2",
    );
    at(
        line!(),
        panic_of(|| {
            let _: Array<u32> = switch(&array(&[0u32, 1, 2]), x.clone(), &[&|x| x]);
        }),
        "switch",
    );
    at(
        line!(),
        panic_of(|| {
            let _: Array<u32> = switch(
                &which,
                (),
                &[&|()| {
                    let _ = x.to_vec();
                    x.clone()
                }],
            );
        }),
        "switch opened at",
    );
    // Everything is as it was.
    let y: Array<u32> = switch(&which, x, &[&|x| x + 1, &|x| x + 2]);
    assert_eq!(values(&y), [2, 4]);
}
