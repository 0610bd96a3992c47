//! Loops in evaluated mode: the same results and effects as in symbolic mode, on the lanes that are left.

use std::cell::RefCell;

use jit_frontend as jit;
use jit_frontend::prelude::*;
use jit_frontend::{LocalArray, Loop, Mode};

use crate::support::{fresh, on_each, panic_of, values};

const SIZES: [usize; 12] = [0, 1, 2, 3, 4, 5, 8, 9, 16, 17, 100, 1000];
const MODES: [Mode; 2] = [Mode::Symbolic, Mode::Evaluated];

/// The results of a loop in both modes, which must be equal.
#[track_caller]
fn both<R: PartialEq + std::fmt::Debug>(run: impl Fn(Mode) -> R) -> R {
    let [symbolic, evaluated] = MODES.map(run);
    assert_eq!(symbolic, evaluated, "in symbolic and in evaluated mode");
    evaluated
}

fn bits(array: &Array<f32>) -> Vec<u32> {
    values(array).into_iter().map(f32::to_bits).collect()
}

#[test]
fn results_are_those_of_symbolic_mode() {
    for n in SIZES {
        on_each(|dev| {
            let got = both(|mode| {
                let start = Array::<u32>::arange(n, dev) * 7 % 19 + 1;
                let (last, steps, sum) =
                    Loop::new((start.clone(), Array::from(0u32), Array::from(0.5f32))).mode(mode).run(
                        |(x, _, _)| x.ne(1),
                        |(x, steps, sum)| {
                            let next = (&x & 1).eq(0).select(&x >> 1, &x * 3 + 1);
                            // The start is as wide as the loop was at first.
                            let sum = sum + (&x + &start).cast::<f32>().sqrt();
                            (next, steps + 1, sum)
                        },
                    );
                (values(&last), values(&steps), bits(&sum))
            });
            let twin = |i: usize| {
                let (mut x, mut steps) = (i as u32 * 7 % 19 + 1, 0);
                while x != 1 {
                    (x, steps) = (if x.is_multiple_of(2) { x / 2 } else { 3 * x + 1 }, steps + 1);
                }
                steps
            };
            assert_eq!(got.1, (0..n).map(twin).collect::<Vec<u32>>(), "{n} lanes");
        });
    }
}

#[test]
fn few_lanes_are_all_that_late_iterations_compute() {
    let dev = fresh();
    let n = 1000;
    let seen = RefCell::new(Vec::new());
    let steps = Array::<u32>::arange(n, &dev) / 250;
    let end = Loop::new(Array::full(0u32, 1, &dev)).mode(Mode::Evaluated).run(
        |i| i.lt(&steps),
        |i| {
            seen.borrow_mut().push(i.len());
            // As wide as the lanes that are left, from here on.
            (i + 1).max(steps.min(0))
        },
    );
    assert_eq!(*seen.borrow(), [1, 500, 250]);
    assert_eq!(values(&end)[..], (0..n as u32).map(|i| i / 250).collect::<Vec<_>>());
    let history = dev.kernel_history();
    assert!(history.iter().any(|record| record.mode == Mode::Evaluated));
    assert!(history.iter().all(|record| record.lanes <= n as u64));
}

#[test]
fn effects_happen_once_for_each_lane_that_is_left() {
    for n in SIZES {
        on_each(|dev| {
            let (counts, own, total) = both(|mode| {
                let counts = Buffer::<u32>::zeros(8, dev).expect("memory");
                let own = Buffer::<u32>::zeros(n, dev).expect("memory");
                let total = Buffer::<u32>::zeros(1, dev).expect("memory");
                let lane = Array::<u32>::arange(n, dev);
                let trips = &lane % 6;
                let even = (&lane & 1).eq(0);
                Loop::new(Array::full(0u32, 1, dev)).mode(mode).run(
                    |i| i.lt(&trips),
                    |i| {
                        // Neither index nor value is as wide as the loop.
                        total.scatter_add(1, 0u32);
                        counts.scatter_add(1, &i);
                        // These are as wide as it was at first.
                        own.scatter_add(&lane + 1, &lane);
                        if_else(&even, (), |()| counts.scatter_add(100, 7u32), |()| ());
                        i + 1
                    },
                );
                (values(&counts.value()), values(&own.value()), values(&total.value()))
            });
            let lanes = || (0..n as u32).map(|lane| (lane, lane % 6));
            assert_eq!(total, [lanes().map(|(_, trips)| trips).sum::<u32>()], "{n} lanes");
            assert_eq!(own, lanes().map(|(lane, trips)| (lane + 1) * trips).collect::<Vec<_>>());
            assert_eq!(counts[2], lanes().filter(|(_, trips)| *trips > 2).count() as u32);
        });
    }
}

#[test]
fn loops_of_both_modes_nest_in_evaluated_ones() {
    for n in SIZES {
        on_each(|dev| {
            let run = |outer: Mode, inner: Mode| {
                let lane = Array::<u32>::arange(n, dev);
                let visits = Buffer::<u32>::zeros(n.max(1), dev).expect("memory");
                let (_, sum) = Loop::new((Array::from(0u32), lane.clone())).mode(outer).run(
                    |(i, _)| i.lt(&lane % 5),
                    |(i, sum)| {
                        let (_, sum) = Loop::new((Array::from(0u32), sum)).mode(inner).run(
                            |(j, _)| j.lt(&lane % 3 + &i),
                            |(j, sum)| {
                                visits.scatter_add(1, &lane);
                                (j + 1, sum * 3 + &lane)
                            },
                        );
                        (i + 1, sum)
                    },
                );
                (values(&sum), values(&visits.value()))
            };
            let expected = run(Mode::Symbolic, Mode::Symbolic);
            for inner in MODES {
                assert_eq!(run(Mode::Evaluated, inner), expected, "{inner:?} inside, {n} lanes");
            }
            let twin = |lane: u32| {
                (0..lane % 5).fold(lane, |sum, i| {
                    (0..lane % 3 + i).fold(sum, |sum, _| sum.wrapping_mul(3).wrapping_add(lane))
                })
            };
            assert_eq!(expected.0, (0..n as u32).map(twin).collect::<Vec<_>>());
        });
    }
}

#[test]
fn a_bound_stops_lanes_with_the_state_that_they_have() {
    for n in [0usize, 1, 2, 5, 100] {
        for most in [0u32, 1, 3, 10] {
            on_each(|dev| {
                let got = both(|mode| {
                    let trips = Array::<u32>::arange(n, dev) % 7;
                    let state = (Array::from(0u32), Array::<u32>::arange(n, dev));
                    let (_, x) = Loop::new(state)
                        .name("bounded")
                        .max_iterations(most)
                        .mode(mode)
                        .run(|(i, _)| i.lt(&trips), |(i, x)| (i + 1, x * 2));
                    values(&x)
                });
                let expected = (0..n as u32).map(|i| i << (i % 7).min(most));
                assert_eq!(got, expected.collect::<Vec<_>>(), "{n} lanes, at most {most}");
            });
        }
    }
}

#[test]
fn size_1_state_and_conditions() {
    on_each(|dev| {
        let got = both(|mode| {
            let (i, x) = Loop::new((Array::from_slice(&[0u32], dev).expect("memory"), Array::from(1.0f32)))
                .mode(mode)
                .run(|(i, _)| i.lt(5), |(i, x)| (i + 1, x * 2.0));
            (values(&i), values(&x))
        });
        assert_eq!(got, (vec![5], vec![32.0]));
        // A condition that all lanes share.
        let got = both(|mode| {
            let lane = Array::<u32>::arange(10, dev);
            let (_, x) = Loop::new((Array::from(0u32), lane))
                .mode(mode)
                .run(|(i, _)| i.lt(3), |(i, x)| (i + 1, x + 2));
            values(&x)
        });
        assert_eq!(got, (6..16).collect::<Vec<u32>>());
    });
}

#[test]
fn bodies_may_read_and_gather() {
    on_each(|dev| {
        let table = Array::from_slice(&[3u32, 5, 7, 11], dev).expect("memory");
        let lane = Array::<u32>::arange(8, dev);
        let largest = RefCell::new(Vec::new());
        let (_, x) = Loop::new((Array::from(0u32), lane.clone())).mode(Mode::Evaluated).run(
            |(i, _)| i.lt(&lane / 2),
            |(i, x)| {
                let x = x + table.gather(&lane & 3);
                largest.borrow_mut().push(*values(&x).iter().max().expect("a lane"));
                (i + 1, x)
            },
        );
        let twin = |lane: u32| lane + lane / 2 * [3, 5, 7, 11][lane as usize & 3];
        assert_eq!(values(&x), (0..8).map(twin).collect::<Vec<_>>());
        assert_eq!(*largest.borrow(), [18, 29, 40]);
    });
}

#[test]
fn a_switch_in_an_evaluated_loop() {
    on_each(|dev| {
        let got = both(|mode| {
            let lane = Array::<u32>::arange(50, dev);
            let which = &lane % 4;
            let (_, x) = Loop::new((Array::from(0u32), lane.clone())).mode(mode).run(
                |(i, _)| i.lt(&lane % 6),
                |(i, x)| {
                    let x = switch(&which, x, &[&|x| x + 1, &|x| x * 3, &|x| x + &lane]);
                    (i + 1, x)
                },
            );
            values(&x)
        });
        let twin = |lane: u32| {
            (0..lane % 6).fold(lane, |x, _| match lane % 4 {
                0 => x + 1,
                1 => x * 3,
                2 => x + lane,
                _ => 0,
            })
        };
        assert_eq!(got, (0..50).map(twin).collect::<Vec<u32>>());
    });
}

#[test]
fn local_arrays_in_the_state_and_captured() {
    for n in SIZES {
        on_each(|dev| {
            let got = both(|mode| {
                let lane = Array::<u32>::arange(n, dev);
                let mut weights = LocalArray::<u32, 3>::zeros();
                for k in 0..3u32 {
                    weights.write(k, &lane + k * 10);
                }
                // One that is written, one that stays zeros, and one that is the same on all lanes.
                let mut shared = LocalArray::<u8, 2>::zeros();
                shared.write(Array::full(1u32, 1, dev), 5);
                let state =
                    (LocalArray::<u32, 5>::zeros(), LocalArray::<f32, 2>::zeros(), shared, Array::from(0u32));
                let (digits, zeros, shared, _) = Loop::new(state).mode(mode).run(
                    |(.., i)| i.lt(&lane % 7),
                    |(mut digits, zeros, shared, i)| {
                        let seen = weights.read(&i % 3) + shared.read(1u32).cast::<u32>();
                        digits.write(&i % 5, digits.read(&i % 5) + seen);
                        (digits, zeros, shared, i + 1)
                    },
                );
                let digits: Vec<Vec<u32>> =
                    (0..5u32).map(|k| values(&digits.read(lane.full_like(k)))).collect();
                let others = values(&(zeros.read(&lane % 2) + shared.read(&lane % 2).cast::<f32>()));
                (digits, others)
            });
            for (k, digits) in got.0.iter().enumerate() {
                let twin = |lane: u32| {
                    (0..lane % 7).filter(|i| i % 5 == k as u32).map(|i| lane + i % 3 * 10 + 5).sum()
                };
                assert_eq!(*digits, (0..n as u32).map(twin).collect::<Vec<u32>>(), "{n} lanes, element {k}");
            }
            assert_eq!(got.1, (0..n).map(|lane| (lane % 2 * 5) as f32).collect::<Vec<_>>());
        });
    }
}

#[test]
fn what_belongs_to_lanes_is_not_combined() {
    on_each(|dev| {
        let lane = Array::<u32>::arange(6, dev);
        let other = Array::<u32>::arange(6, dev) * 3;
        jit::sync(&other).expect("evaluation");
        let run = |mode: Mode, body: &dyn Fn(&Array<u32>)| {
            let trips = &lane % 3 + 1;
            Loop::new((Array::from(0u32), lane.clone())).mode(mode).run(
                |(i, _)| i.lt(&trips),
                |(i, x)| {
                    body(&x);
                    (i + 1, x + 1)
                },
            )
        };
        type Body<'a> = (&'a str, &'a dyn Fn(&Array<u32>));
        let bodies: [Body<'_>; 9] = [
            ("sum", &|x| drop(x.sum())),
            ("of what is computed from it", &|x| drop((&other + x).cast::<f32>().mean())),
            ("gathered", &|x| drop(other.gather(x).reduce_max_blocks(2))),
            ("closure", &|x| drop(x.argmin())),
            ("of a loop", &|x| drop(while_loop(x.clone(), |x| x.lt(9), |x| x + 1).prod())),
            ("scan", &|x| drop(x.prefix_sum())),
            ("sort", &|x| drop((x * 2).sort())),
            ("argsort", &|x| drop(x.argsort())),
            ("compress", &|x| drop(x.gt(2).compress_padded())),
        ];
        for (name, body) in bodies {
            for mode in MODES {
                let (message, file, _) = panic_of(|| run(mode, body));
                assert!(message.contains("outside of the"), "{name}, {mode:?}: {message}");
                assert!(file.ends_with("evaluated.rs"), "{name}: {file}");
            }
        }
        // What comes from outside may be reduced, also if the state starts from it.
        let sums = both(|mode| {
            let trips = &lane % 4;
            let (_, x) = Loop::new((Array::from(0u32), lane.clone())).mode(mode).run(
                |(i, _)| i.lt(&trips),
                |(i, x)| (i + 1, x + lane.sum() + other.reduce_max() * trips.argmax()),
            );
            values(&x)
        });
        let expected = (0..6).map(|lane| lane + lane % 4 * (15 + 15 * 3));
        assert_eq!(sums, expected.collect::<Vec<u32>>());
    });
}

#[test]
fn the_history_has_the_loops_names() {
    for mode in MODES {
        let dev = fresh();
        let lane = Array::<u32>::arange(100, &dev);
        let named = |name: &str| Loop::new(Array::full(0u32, 1, &dev)).name(name).mode(mode);
        let trips = &lane % 3;
        let one = named("one").run(|i| i.lt(&trips), |i| i + 1);
        let two = named("two").run(|i| i.lt(&trips), |i| i + 2);
        jit::sync(&(one, two)).expect("evaluation");
        let unnamed = Loop::new(lane.clone()).mode(mode).run(|i| i.lt(&trips), |i| i + 2);
        jit::sync(&unnamed).expect("evaluation");
        let history = dev.kernel_history();
        let names: Vec<_> = history.iter().map(|record| record.name.as_deref()).collect();
        match mode {
            Mode::Symbolic => assert_eq!(names, [Some("one, two"), None]),
            Mode::Evaluated => {
                assert!(names.contains(&Some("one")) && names.contains(&Some("two")), "{names:?}");
                assert!(names.ends_with(&[None]), "{names:?}");
            }
        }
        let mut timeline = Vec::new();
        history.chrome_trace(&mut timeline).expect("memory takes it all");
        assert!(String::from_utf8(timeline).expect("text").contains("two)\""));
    }
}

#[test]
fn misuse_is_reported() {
    let dev = fresh();
    let lane = Array::<u32>::arange(4, &dev);
    let evaluated = || Loop::new(lane.clone()).name("inner").mode(Mode::Evaluated);
    let (message, file, _) = panic_of(|| {
        while_loop(lane.clone(), |i| i.lt(9), |_| evaluated().run(|i| i.lt(3), |i| i + 1));
    });
    assert!(message.contains("evaluated mode inside a loop"), "{message}");
    assert!(file.ends_with("evaluated.rs"), "{file}");
    let (message, _, _) = panic_of(|| {
        evaluated().run(|i| i.lt(3), |i| i + Array::<u32>::arange(7, &dev));
    });
    assert!(message.contains("different sizes"), "{message}");
    let (message, _, _) = panic_of(|| {
        evaluated().run(|i| i.lt(3), |_| Array::<u32>::arange(7, &dev));
    });
    assert!(message.contains("`inner`") && message.contains("sizes must be equal"), "{message}");
    let (message, _, _) = panic_of(|| {
        evaluated().run(
            |i| i.lt(3),
            |mut i| {
                i.scatter(1, 0u32);
                i
            },
        );
    });
    assert!(message.contains("use a `Buffer`"), "{message}");
    // A closure that panics ends its loop.
    assert_eq!(values(&evaluated().run(|i| i.lt(3), |i| i + 1)), [3, 3, 3, 3]);
    assert!(jit::eval(&(&lane + 1)).is_ok());
}
