//! What a hostile but legal user does.

use jit_frontend as jit;
use jit_frontend::prelude::*;

use crate::support::{fresh, on_each, panic_of, values};

#[test]
fn a_lazy_reader_of_an_old_version_keeps_it() {
    on_each(|dev| {
        let a = Array::from_slice(&[1i32, 2, 3, 4], dev).expect("memory");
        let buffer = Buffer::from_array(&a).expect("memory");
        drop(a);
        let negated = -buffer.value();
        let root = &negated * 3;
        buffer.scatter_add(10, Array::<u32>::arange(4, dev));
        jit::sync(&(root.clone(), buffer.clone())).expect("evaluation");
        assert_eq!(values(&root), [-3, -6, -9, -12]);
        assert_eq!(values(&buffer.value()), [11, 12, 13, 14]);
        assert_eq!(values(&negated), [-1, -2, -3, -4]);
    });
}

/// The reader that is kept is another one than what the plan computes.
#[test]
fn a_reader_two_steps_away_keeps_an_old_version() {
    on_each(|dev| {
        let a = Array::from_slice(&[1i32, 2, 3, 4], dev).expect("memory");
        let buffer = Buffer::from_array(&a).expect("memory");
        drop(a);
        let negated = -buffer.value();
        let (root, other) = (&negated * 3, &negated - 1);
        drop(negated);
        buffer.scatter_add(10, Array::<u32>::arange(4, dev));
        jit::sync(&(root.clone(), buffer.clone())).expect("evaluation");
        assert_eq!(values(&buffer.value()), [11, 12, 13, 14]);
        assert_eq!(values(&other), [-2, -3, -4, -5]);
    });
}

#[test]
fn a_lazy_reader_of_a_lazy_version_keeps_it() {
    on_each(|dev| {
        let buffer =
            Buffer::from_array(&Array::from_slice(&[1i32, 2, 3, 4], dev).expect("memory")).expect("memory");
        let index = Array::<u32>::arange(4, dev);
        buffer.scatter_add(10, &index);
        let negated = -buffer.gather(3 - &index);
        let root = &negated * 3;
        buffer.scatter_add(100, &index);
        jit::sync(&(root.clone(), buffer.clone())).expect("evaluation");
        assert_eq!(values(&buffer.value()), [111, 112, 113, 114]);
        assert_eq!(values(&negated), [-14, -13, -12, -11]);
    });
}

#[test]
fn a_lazy_reader_of_a_ticket_keeps_it() {
    on_each(|dev| {
        for n in [1, 2] {
            let zeros = Array::from_slice(&vec![0u32; n], dev).expect("memory");
            let buffer = Buffer::from_array(&zeros).expect("memory");
            drop(zeros);
            let twice = buffer.atomic_inc(Array::<u32>::arange(n, dev)) * 2 + 7;
            let more = &twice + 1;
            assert_eq!(values(&more), vec![8; n]);
            assert_eq!(values(&buffer.value()), vec![1; n]);
            assert_eq!(values(&twice), vec![7; n]);
            assert_eq!(values(&buffer.value()), vec![1; n]);
        }
    });
}

#[test]
fn a_lazy_reader_of_a_loop_with_effects_runs_it_once() {
    on_each(|dev| {
        let zeros = Array::from_slice(&[0u32], dev).expect("memory");
        let buffer = Buffer::from_array(&zeros).expect("memory");
        drop(zeros);
        let start = Array::full(0u32, 1, dev);
        let r = while_loop(
            start,
            |i| i.lt(3),
            |i| {
                buffer.scatter_add(1u32, 0u32);
                i + 1
            },
        );
        let twice = &r * 2;
        drop(r);
        let more = &twice + 1;
        assert_eq!(values(&more), [7]);
        assert_eq!(values(&buffer.value()), [3]);
        assert_eq!(values(&twice), [6]);
        assert_eq!(values(&buffer.value()), [3]);
    });
}

#[test]
fn buffers_of_unobserved_loops_leave_nothing() {
    let dev = fresh();
    for _ in 0..3 {
        let buffer = Buffer::<u32>::zeros(8, &dev).expect("memory");
        let start = Array::<u32>::arange(8, &dev);
        let _ = while_loop(
            start,
            |i| i.lt(3),
            |i| {
                buffer.scatter_add(1u32, &i);
                i + 1
            },
        );
    }
    assert_eq!((dev.memory().nodes, dev.memory().bytes), (0, 0));
    let outer = Buffer::<u32>::zeros(8, &dev).expect("memory");
    let start = Array::<u32>::arange(8, &dev);
    let mask = start.lt(5);
    let _ = if_else(
        &mask,
        start,
        |x| {
            while_loop(
                x,
                |i| i.lt(3),
                |i| {
                    outer.scatter_add(1u32, &i);
                    i + 1
                },
            )
        },
        |x| x,
    );
    drop((mask, outer));
    assert_eq!((dev.memory().nodes, dev.memory().bytes), (0, 0));
}

#[test]
fn a_literal_larger_than_memory_is_an_error() {
    on_each(|dev| {
        let huge = Array::full(0f32, 1 << 50, dev);
        assert!(matches!(huge.to_vec(), Err(jit::Error::OutOfMemory { .. })));
        let huge = Array::full(0f32, usize::MAX, dev);
        assert!(matches!(huge.to_vec(), Err(jit::Error::OutOfMemory { .. })));
        let text = huge.to_string();
        assert!(text.contains("error"), "{text}");
        for n in [1 << 50, usize::MAX] {
            let lazy = Array::<u64>::arange(n, dev) * 3;
            assert_eq!(lazy.len(), n);
            assert!(matches!(lazy.to_vec(), Err(jit::Error::OutOfMemory { .. })));
            let buffer = Buffer::<u64>::zeros(n, dev).expect("lazy");
            buffer.scatter(1u64, 0u32);
            assert!(matches!(jit::eval(&buffer), Err(jit::Error::OutOfMemory { .. })));
            assert!(matches!(lazy.get(3), Err(jit::Error::OutOfMemory { .. })));
        }
        assert_eq!(values(&(Array::<u32>::arange(3, dev) + 1)), [1, 2, 3]);
    });
}

#[test]
fn effects_on_another_device_than_the_open_region_are_refused() {
    let (here, there) = (fresh(), fresh());
    let x = Array::from_slice(&[0u32, 1, 2], &here).expect("memory");
    let y = Array::from_slice(&[0u32, 1, 2], &there).expect("memory");
    let buffer = Buffer::<u32>::zeros(3, &there).expect("memory");
    let refused: [&dyn Fn(); 4] = [
        &|| {
            drop(while_loop(
                x.clone(),
                |i| i.lt(3),
                |i| {
                    buffer.scatter_add(1u32, 0u32);
                    i + 1
                },
            ))
        },
        &|| drop(while_loop(x.clone(), |i| i.lt(3), |i| i + buffer.atomic_inc(0u32))),
        &|| {
            drop(while_loop(
                x.clone(),
                |i| i.lt(3),
                |i| {
                    drop(while_loop(
                        y.clone(),
                        |j| j.lt(3),
                        |j| {
                            buffer.scatter_add(1u32, &j);
                            j + 1
                        },
                    ));
                    i + 1
                },
            ))
        },
        &|| drop(if_else(&x.lt(1), x.clone(), |i| i + &y, |i| i)),
    ];
    for (k, refused) in refused.iter().enumerate() {
        let (message, ..) = panic_of(refused);
        assert!(message.contains("device") && message.contains("interp#"), "{k}: {message}");
    }
    assert_eq!(values(&buffer.value()), [0; 3]);
    assert_eq!(values(&while_loop(x, |i| i.lt(3), |i| i + 1)), [3; 3]);
}

/// Threads trace, evaluate and drop on one device, in regions too, some of which panic; nothing is lost or left.
#[test]
fn threads_share_a_device() {
    const THREADS: u32 = 6;
    const ROUNDS: u32 = 40;
    let cpu = Device::builder(DeviceKind::Cpu).threads(2).build();
    for dev in [Ok(fresh()), cpu].into_iter().flatten() {
        let zeros = Array::from_slice(&[0u32; 64], &dev).expect("memory");
        let total = Buffer::from_array(&zeros).expect("memory");
        drop(zeros);
        let tickets: std::sync::Mutex<Vec<u32>> = std::sync::Mutex::default();
        let handed: std::sync::Mutex<Vec<(Array<u32>, u32)>> = std::sync::Mutex::default();
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (total, tickets, handed, dev) = (total.clone(), &tickets, &handed, &dev);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let lanes = Array::<u32>::arange(64, dev);
                        total.scatter_add(1u32, &lanes);
                        let snapshot = total.value();
                        let lazy = &snapshot * 2;
                        let ticket = total.atomic_inc(Array::full(63u32, 1, dev)) * 3;
                        if round % 3 == thread % 3 {
                            jit::eval(&total).expect("evaluation");
                        }
                        let own = Buffer::<u32>::zeros(64, dev).expect("memory");
                        let looped = while_loop(
                            lanes.clone(),
                            |i| i.lt(64),
                            |i| {
                                own.scatter_add(1u32, &i);
                                i + 16
                            },
                        );
                        if round % 4 == 1 {
                            let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                                while_loop(
                                    lanes.clone(),
                                    |i| i.lt(9),
                                    |i| {
                                        total.scatter_add(1u32, &i);
                                        assert!(round > ROUNDS, "by request");
                                        i
                                    },
                                )
                            }));
                            assert!(failed.is_err());
                        }
                        let first = values(&snapshot);
                        let second: Vec<u32> = values(&lazy).iter().map(|v| v / 2).collect();
                        assert_eq!(first, second);
                        assert!(first[0] > 0 && first[..63].iter().all(|&v| v == first[0]), "{first:?}");
                        assert_eq!(values(&snapshot), first);
                        let expected: Vec<u32> = (0..64).map(|i| i / 16 + 1).collect();
                        if round % 2 == 0 {
                            assert_eq!(values(&own.value()), expected);
                        }
                        assert!(values(&looped).iter().all(|&v| (64..80).contains(&v)));
                        tickets.lock().expect("no panic").extend(values(&ticket));
                        let mut handed = handed.lock().expect("no panic");
                        if let Some((theirs, expected)) = handed.pop() {
                            assert_eq!(values(&theirs)[5], expected);
                        }
                        let made = &lanes + (thread * 1000 + round);
                        handed.push((made, thread * 1000 + round + 5));
                    }
                });
            }
        });
        let all = values(&total.value());
        assert_eq!(all[..63], [THREADS * ROUNDS; 63]);
        assert_eq!(all[63], 2 * THREADS * ROUNDS);
        let mut tickets = tickets.into_inner().expect("no panic");
        tickets.sort_unstable();
        tickets.dedup();
        assert_eq!(tickets.len(), (THREADS * ROUNDS) as usize, "every ticket is another");
        drop((total, handed));
        dev.sync().expect("no error");
        assert_eq!((dev.memory().nodes, dev.memory().bytes), (0, 0));
    }
}

/// A thousand rounds of everything hold as much afterwards as ten did.
#[test]
fn nothing_grows() {
    let cpu = Device::builder(DeviceKind::Cpu).threads(1).build();
    for dev in [Ok(fresh()), cpu].into_iter().flatten() {
        let image = Buffer::<f32>::zeros(33, &dev).expect("memory");
        let mut after_ten = None;
        for round in 0..1000u32 {
            let lanes = Array::<u32>::arange(33, &dev);
            let x = lanes.cast::<f32>() * (round as f32 + 0.5);
            let scratch = Buffer::<u32>::zeros(33, &dev).expect("memory");
            let (i, _) = while_loop(
                (lanes.clone(), x.clone()),
                |(i, _)| i.lt(40),
                |(i, x)| {
                    let x = if_else(
                        &x.gt(3.0),
                        x,
                        |x| {
                            scratch.atomic_inc(&lanes);
                            x * 0.5
                        },
                        |x| x + 1.0,
                    );
                    (i + 7, x)
                },
            );
            image.scatter_add(&x, &i % 33);
            let ticket = scratch.atomic_inc(&i % 33);
            let snapshot = image.value();
            match round % 4 {
                0 => drop(values(&ticket)),
                1 => drop(jit::eval(&(image.clone(), ticket.label("a \"b\"\n")))),
                2 => drop(values(&snapshot.sum())),
                _ => {}
            }
            if round % 4 == 3 {
                jit::sync(&(image.clone(), scratch.clone())).expect("evaluation");
                drop((ticket, snapshot, scratch, x, i, lanes));
                dev.sync().expect("no error");
                // What is kept for reuse depends on how far the stream's thread was behind.
                let held = dev.memory();
                assert!(held.cached <= 1 << 14, "{held:?}");
                let now = (held.nodes, held.storages, held.bytes, held.kernels);
                if round == 39 {
                    after_ten = Some(now);
                }
                if let Some(before) = after_ten {
                    assert_eq!(now, before, "round {round}");
                }
            }
        }
    }
}

#[test]
fn a_million_ops_deep() {
    let dev = fresh();
    let mut x = Array::from_slice(&[1u32, 2], &dev).expect("memory");
    let seven = Array::from_slice(&[7u32, 9], &dev).expect("memory");
    for k in 0..500_000 {
        x = if k % 2 == 0 { &x + &seven } else { &x ^ &seven };
    }
    let copy = x.clone();
    let expected: Vec<u32> = [(1u32, 7u32), (2, 9)]
        .iter()
        .map(|&(mut v, s)| {
            for k in 0..500_000 {
                v = if k % 2 == 0 { v.wrapping_add(s) } else { v ^ s }
            }
            v
        })
        .collect();
    assert_eq!(values(&copy), expected);
    let mut unread = x.clone();
    for k in 0..1_000_000u32 {
        unread = if k % 2 == 0 { &unread + &seven } else { &unread ^ &seven };
    }
    drop((unread, x, copy, seven));
    assert_eq!((dev.memory().nodes, dev.memory().bytes), (0, 0));
}

/// Every value as a literal of one structure: whether it is baked, special or a parameter changes nothing.
#[test]
fn literals_keep_their_bits() {
    on_each(|dev| {
        let index = Array::<u32>::arange(3, dev);
        for bits in [
            0u32,
            0x8000_0000,
            0x3f80_0000,
            0xbf80_0000,
            1,
            0x7f80_0000,
            0xff80_0000,
            0x7fc0_0000,
            0x7fc1_2345,
            0xffc0_0001,
            0x7f80_0001,
            0x4000_0000,
            0x4048_f5c3,
            0x8000_0001,
        ] {
            let value = f32::from_bits(bits);
            let chosen = index.lt(2).select(value, 5.5f32);
            let got: Vec<u32> = values(&chosen).iter().map(|v| v.to_bits()).collect();
            assert_eq!(got, [bits, bits, 5.5f32.to_bits()], "{bits:#x}");
            let negated: Vec<u32> = values(&-&chosen).iter().map(|v| v.to_bits()).collect();
            assert_eq!(negated[0], bits ^ 0x8000_0000, "{bits:#x}");
            let buffer = Buffer::from_array(&Array::full(value, 2, dev)).expect("memory");
            buffer.scatter(1.0, 1u32);
            assert_eq!(values(&buffer.value())[0].to_bits(), bits, "{bits:#x}");
        }
        for c in (0..70u32).chain([u32::MAX, u32::MAX - 1, 1 << 31]) {
            let x = &index * 1_000_000_007 + 5;
            let host: Vec<u32> = (0..3u32).map(|i| i.wrapping_mul(1_000_000_007).wrapping_add(5)).collect();
            let check = |got: Array<u32>, f: &dyn Fn(u32) -> u32| {
                assert_eq!(values(&got), host.iter().map(|&h| f(h)).collect::<Vec<_>>(), "{c}")
            };
            check(&x / c, &|h| h.checked_div(c).unwrap_or(u32::MAX));
            check(&x % c, &|h| h.checked_rem(c).unwrap_or(h));
            check(&x * c, &|h| h.wrapping_mul(c));
            check(&x << c, &|h| h.checked_shl(c).unwrap_or(0));
            check(&x >> c, &|h| h.checked_shr(c).unwrap_or(0));
            check(&x & c, &|h| h & c);
        }
    });
}

#[test]
fn values_of_a_closure_are_of_no_use_outside() {
    on_each(|dev| {
        use std::cell::RefCell;
        let x = Array::from_slice(&[0u32, 1, 2], dev).expect("memory");
        let out: RefCell<Vec<Array<u32>>> = RefCell::default();
        let done = while_loop(
            x.clone(),
            |i| {
                out.borrow_mut().push(i + 5);
                i.lt(3)
            },
            |i| {
                let from_condition = out.borrow()[0].clone();
                out.borrow_mut().push(&i * 2);
                from_condition - 4
            },
        );
        let other = if_else(
            &x.lt(1),
            x.clone(),
            |a| {
                out.borrow_mut().push(&a + 9);
                a
            },
            |a| a,
        );
        let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            while_loop(
                x.clone(),
                |i| i.lt(3),
                |i| {
                    out.borrow_mut().push(&i + 77);
                    panic!("by request")
                },
            )
        }));
        assert!(failed.is_err());
        for smuggled in out.borrow().iter() {
            for (message, ..) in [
                panic_of(|| values(smuggled)),
                panic_of(|| jit::eval(smuggled)),
                panic_of(|| smuggled + 1),
                panic_of(|| x.gather(smuggled)),
                panic_of(|| Buffer::from_array(smuggled)),
                panic_of(|| smuggled.sum()),
                panic_of(|| smuggled.programs()),
                panic_of(|| x.clone().scatter(smuggled, 0)),
                panic_of(|| while_loop(smuggled.clone(), |i| i.lt(3), |i| i)),
                panic_of(|| while_loop(x.clone(), |i| i.lt(3), |_| smuggled.clone())),
                panic_of(|| if_else(&smuggled.lt(3), (), |()| (), |()| ())),
            ] {
                assert!(message.contains("attacks.rs"), "{message}");
            }
            assert!(smuggled.to_string().contains("error"), "{smuggled}");
            assert!(!smuggled.is_evaluated() && !format!("{smuggled:?} {}", smuggled.trace()).is_empty());
            let moved = smuggled.clone();
            std::thread::scope(|s| drop(s.spawn(move || drop(moved)).join()));
        }
        assert_eq!((values(&done), values(&other)), (vec![3; 3], vec![0, 1, 2]));
    });
}

#[test]
fn versions_are_apart() {
    on_each(|dev| {
        for n in [0, 1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 1000, (1 << 20) + 3] {
            let index = Array::<u32>::arange(n, dev);
            let last = (n as u32).wrapping_sub(1);
            let host: Vec<u32> = (0..n as u32).map(|i| i * 3 + 1).collect();
            if dev.kind() == DeviceKind::Interpreter && n > 1000 {
                continue;
            }
            for literal in [false, true] {
                let host: Vec<u32> = if literal { vec![4; n] } else { host.clone() };
                let a = if literal {
                    Array::full(4u32, n, dev)
                } else {
                    Array::from_slice(&host, dev).expect("memory")
                };
                // The value gathers, backwards, from what it is scattered into.
                let (mut b, mut c) = (a.clone(), a.clone());
                b.scatter(b.gather(last - &index) * 2, &index);
                c.scatter_add(1, &index);
                let before = b.clone();
                b.scatter_add(b.gather(last - &index), &index);
                let expected_before: Vec<u32> = host.iter().rev().map(|v| v * 2).collect();
                let expected: Vec<u32> =
                    (0..n).map(|i| expected_before[i] + expected_before[n - 1 - i]).collect();
                if literal {
                    jit::sync(&(b.clone(), c.clone())).expect("evaluation");
                } else {
                    drop(values(&b));
                }
                assert!(values(&b) == expected, "{n} {literal}");
                assert!(values(&before) == expected_before, "{n} {literal}");
                assert!(values(&c) == host.iter().map(|v| v + 1).collect::<Vec<_>>(), "{n} {literal}");
                assert!(values(&a) == host, "{n} {literal}");
                assert_eq!(values(&c.sum())[0], host.iter().fold(0u32, |s, v| s.wrapping_add(v + 1)), "{n}");
            }
        }
    });
}

#[test]
fn a_buffer_is_one_place_however_it_is_named() {
    on_each(|dev| {
        let x = Array::<u32>::arange(5, dev);
        let buffer = Buffer::<u32>::zeros(5, dev).expect("memory");
        let (same, mine) = (buffer.clone(), buffer.clone());
        let mine = std::cell::RefCell::new(Some(mine));
        let (tickets, again) = if_else(
            &x.lt(3),
            x.clone(),
            |i| {
                buffer.scatter_add(10, &i);
                same.scatter_add(100, &i);
                let own = mine.borrow_mut().take().expect("once");
                let seen = while_loop(
                    i.clone(),
                    |j| j.lt(5),
                    |j| {
                        own.scatter_add(1000, &i);
                        j + 1
                    },
                );
                drop(own);
                (same.gather(&i), seen)
            },
            |i| (buffer.gather(&i) + 1, i),
        );
        let snapshot = same.value();
        drop((buffer, same));
        assert_eq!(values(&tickets), [5110, 4110, 3110, 1, 1]);
        assert_eq!(values(&snapshot), [5110, 4110, 3110, 0, 0]);
        assert_eq!(values(&again), [5, 5, 5, 3, 4]);
        assert_eq!(values(&snapshot), [5110, 4110, 3110, 0, 0]);
        let (message, ..) = panic_of(|| {
            while_loop(
                x.clone(),
                |i| i.lt(9),
                |i| {
                    drop(Buffer::<u32>::zeros(3, dev));
                    i + 1
                },
            )
        });
        assert!(message.contains("making a buffer inside a loop"), "{message}");
    });
}

#[test]
fn forbidden_waits_are_errors_and_no_more() {
    on_each(|dev| {
        let a = Array::<u32>::arange(100_000, dev) + 1;
        let gate = std::sync::Arc::new(std::sync::Barrier::new(2));
        let event = dev.core().submit_call({
            let gate = gate.clone();
            move || {
                gate.wait();
            }
        });
        jit::forbid_host_sync(|| {
            jit::eval(&a).expect("no wait");
            assert!(matches!(a.to_vec(), Err(jit::Error::HostSyncForbidden { .. })));
            assert!(matches!(dev.sync(), Err(jit::Error::HostSyncForbidden { .. })));
            assert!(a.to_string().contains("forbid_host_sync"));
        });
        std::thread::scope(|s| {
            let readers: Vec<_> = (0..4).map(|_| s.spawn(|| values(&a)[99_999])).collect();
            gate.wait();
            for reader in readers {
                assert_eq!(reader.join().expect("no panic"), 100_000);
            }
        });
        event.wait().expect("no error");
    });
}
