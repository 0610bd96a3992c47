//! Many threads and streams at once, work that fails, arrays past the caches.

use std::sync::Barrier;
use std::thread;

use jit_core::runtime::Gate;
use jit_frontend as jit;
use jit_frontend::prelude::*;
use jit_frontend::{DeviceKind, Element, Error};

use crate::support::{fresh, values};

/// Devices of the test's own: on one that others use, equal arrays are one, and errors theirs.
fn on_each(test: impl Fn(&Device)) {
    let cpu = Device::builder(DeviceKind::Cpu).threads(2).build();
    [Ok(fresh()), cpu].into_iter().flatten().for_each(|dev| test(&dev));
}

fn failure() -> Error {
    Error::Execution("made to fail".to_owned())
}

fn has_failed<T>(result: Result<T, Error>) -> bool {
    matches!(result, Err(Error::Execution(message)) if message == "made to fail")
}

/// A device of each vector width, with threads, and one with a single thread.
fn cpus() -> Vec<Device> {
    let cpu = |width, threads| {
        Device::builder(DeviceKind::Cpu).vector_width(width).threads(threads).disk_cache(None).build()
    };
    [(4, 2), (8, 3), (16, 2), (8, 1)].into_iter().filter_map(|(w, t)| cpu(w, t).ok()).collect()
}

#[test]
fn a_wait_for_work_that_fails_later_fails_what_comes_next() {
    on_each(|dev| {
        let stream = Stream::new(dev).expect("a stream");
        let gate = Gate::new();
        stream.wait(&Event::from_core(gate.event())).expect("a wait");
        let first = stream.eval(&(Array::<u32>::arange(5, dev) + 1)).expect("an evaluation");
        // The stream is ordered after it anyway; its error is another matter.
        stream.wait(&first).expect("a wait");
        let unrelated = Array::<u32>::arange(5, dev) * 3;
        let second = stream.eval(&unrelated).expect("an evaluation");
        gate.fail(failure());
        assert!(has_failed(first.wait()));
        assert!(has_failed(second.wait()));
        assert!(has_failed(unrelated.to_vec()));
        assert!(has_failed(stream.sync()));
        assert!(stream.sync().is_ok());
    });
}

#[test]
fn recording_between_a_wait_and_an_evaluation_takes_no_error_away() {
    on_each(|dev| {
        let stream = Stream::new(dev).expect("a stream");
        let gate = Gate::new();
        stream.wait(&Event::from_core(gate.event())).expect("a wait");
        let recorded = stream.record().expect("an event");
        let array = Array::<u32>::arange(5, dev) * 7;
        let event = stream.eval(&array).expect("an evaluation");
        gate.fail(failure());
        assert!(has_failed(recorded.wait()));
        assert!(has_failed(event.wait()));
        let next = stream.eval(&(Array::<u32>::arange(5, dev) * 11)).expect("an evaluation");
        assert!(next.wait().is_ok(), "only the next evaluation fails");
        assert!(has_failed(stream.sync()));
    });
}

#[test]
fn threads_on_streams_share_buffers_and_arrays() {
    on_each(|dev| {
        let n = 1000usize;
        let shared = Array::<u32>::arange(n, dev) * 3;
        let buffer = Buffer::from_array(&Array::full(0u32, n, dev)).expect("a buffer");
        let barrier = Barrier::new(4);
        thread::scope(|scope| {
            for t in 0..4u32 {
                let (shared, buffer, barrier) = (&shared, &buffer, &barrier);
                scope.spawn(move || {
                    let stream = Stream::new(dev).expect("a stream");
                    barrier.wait();
                    for k in 0..60u32 {
                        let index = Array::<u32>::arange(n, dev);
                        let before = buffer.value();
                        buffer.scatter_add(shared + (t + 1), &index);
                        let lazy = shared * (k + 1) + t;
                        let side = before.gather(n as u32 - 1 - &index);
                        if k % 3 == t % 3 {
                            stream.eval(&(lazy.clone(), buffer.clone())).expect("an evaluation");
                        }
                        if k % 4 == 0 {
                            let (old, reversed) = (values(&before), values(&side));
                            assert!(old.iter().rev().eq(&reversed), "an old version stays as it was");
                        }
                        if k % 5 == t {
                            drop(lazy);
                        } else {
                            let expected = (0..n as u32).map(|x| x * 3 * (k + 1) + t);
                            let got = stream.enter(|| values(&lazy)).expect("a stream");
                            assert!(got.into_iter().eq(expected));
                        }
                    }
                });
            }
        });
        let per_round: u32 = (1..=4).sum();
        let expected = (0..n as u32).map(|x| 60 * (4 * 3 * x + per_round));
        assert!(values(&buffer.value()).into_iter().eq(expected));
    });
}

#[test]
fn overlapping_graphs_are_evaluated_by_many_threads_at_once() {
    let dev = fresh();
    for round in 0..30u32 {
        let mut chain = vec![Array::<u32>::arange(65, &dev) + round];
        for k in 0..12 {
            chain.push(if k % 3 == 0 {
                chain[k].gather(64 - Array::<u32>::arange(65, &dev))
            } else {
                &chain[k] * 3 + 1
            });
        }
        let barrier = Barrier::new(4);
        let results: Vec<Vec<u32>> = thread::scope(|scope| {
            let spawned: Vec<_> = (0..4usize)
                .map(|t| {
                    let (chain, barrier) = (chain.clone(), &barrier);
                    scope.spawn(move || {
                        barrier.wait();
                        if t % 2 == 0 {
                            jit::eval(&chain[5 + t]).expect("an evaluation");
                        }
                        values(&chain[12])
                    })
                })
                .collect();
            spawned.into_iter().map(|s| s.join().expect("a thread")).collect()
        });
        let reference = (0..65u32).map(|x| x + round).collect::<Vec<_>>();
        let reference = (0..12).fold(reference, |v, k| {
            if k % 3 == 0 { v.into_iter().rev().collect() } else { v.iter().map(|x| x * 3 + 1).collect() }
        });
        results.iter().for_each(|r| assert_eq!(*r, reference));
    }
    assert_eq!((dev.memory().nodes, dev.memory().bytes), (0, 0));
}

#[test]
fn thousands_of_streams_come_and_go_with_work_pending() {
    let dev = fresh();
    let mut total = Array::full(0u32, 3, &dev);
    for round in 0..40 {
        let gate = Gate::new();
        for _ in 0..50 {
            let stream = Stream::new(&dev).expect("streams are given back");
            if round % 2 == 0 {
                stream.wait(&Event::from_core(gate.event())).expect("a wait");
            }
            total += 1;
            stream.eval(&total).expect("an evaluation");
        }
        gate.open();
        assert_eq!(values(&total)[0], 50 * (round + 1));
    }
    drop(total);
    dev.sync().expect("nothing failed");
    assert_eq!((dev.memory().nodes, dev.memory().bytes), (0, 0));
}

#[test]
fn arrays_outlive_their_streams_and_gates_that_fail() {
    let dev = fresh();
    for fails in [false, true] {
        let gate = Gate::new();
        let arrays: Vec<Array<u32>> = (0..20)
            .map(|k| {
                let stream = Stream::new(&dev).expect("a stream");
                stream.wait(&Event::from_core(gate.event())).expect("a wait");
                let array = Array::<u32>::arange(65, &dev) * (k + 2);
                stream.eval(&array).expect("an evaluation");
                array
            })
            .collect();
        let readers: Vec<Array<u32>> = arrays.iter().map(|a| a + 1).collect();
        jit::eval(&readers).expect("an evaluation");
        drop(arrays);
        if fails {
            drop(gate)
        } else {
            gate.open()
        }
        for (k, reader) in readers.iter().enumerate() {
            let got = reader.to_vec();
            if fails {
                assert!(matches!(got, Err(Error::Execution(_))), "{got:?}");
            } else {
                assert!(got.expect("values").into_iter().eq((0..65).map(|x| x * (k as u32 + 2) + 1)));
            }
        }
        drop(readers);
        assert_eq!(dev.sync().is_err(), fails);
        assert_eq!((dev.memory().nodes, dev.memory().bytes), (0, 0));
    }
}

#[test]
fn a_long_queue_behind_a_gate_is_worked_off_and_dropped() {
    let dev = fresh();
    let stream = Stream::new(&dev).expect("a stream");
    for waits_on_host in [true, false] {
        let gate = Gate::new();
        stream.wait(&Event::from_core(gate.event())).expect("a wait");
        let mut array = Array::<u32>::arange(3, &dev);
        for _ in 0..20_000 {
            array += 1;
            stream.eval(&array).expect("an evaluation");
        }
        let opener = thread::spawn(move || gate.open());
        if waits_on_host {
            assert_eq!(values(&array), [20_000, 20_001, 20_002]);
        } else {
            drop(array);
            stream.sync().expect("nothing failed");
        }
        opener.join().expect("a thread");
    }
    assert_eq!((dev.memory().nodes, dev.memory().bytes), (0, 0));
}

#[test]
fn a_budget_that_ends_in_the_middle_of_a_plan_leaves_everything_as_it_was() {
    for kind in [DeviceKind::Cpu, DeviceKind::Interpreter] {
        let Ok(dev) = Device::builder(kind).memory_budget(20_000).disk_cache(None).build() else { continue };
        for _ in 0..3 {
            let small = Array::from_slice(&[1u32; 500], &dev).expect("memory");
            let buffer = Buffer::from_array(&small).expect("a buffer");
            buffer.scatter_add(1u32, Array::<u32>::arange(500, &dev));
            let big = buffer.value().gather(Array::<u32>::arange(6000, &dev) % 500);
            let sum = big.sum();
            let total = &big + &sum;
            let both = (buffer.clone(), total.clone());
            assert!(matches!(jit::eval(&both), Err(Error::OutOfMemory { .. })));
            assert!(matches!(total.to_vec(), Err(Error::OutOfMemory { .. })));
            assert_eq!(values(&sum), [12_000]);
            assert_eq!(values(&buffer.value()), [2; 500]);
            assert_eq!(values(&small), [1; 500]);
            drop((small, buffer, big, sum, total, both));
            assert_eq!((dev.memory().nodes, dev.memory().bytes), (0, 0));
        }
    }
}

#[test]
fn nothing_waits_where_waiting_is_forbidden() {
    let dev = fresh();
    let gate = Gate::new();
    dev.default_stream().wait(&Event::from_core(gate.event())).expect("a wait");
    let array = Array::<u32>::arange(100, &dev) + 1;
    jit_core::runtime::forbid_host_sync(|| {
        jit::eval(&array).expect("no wait");
        let forbidden = |e: Result<(), Error>| matches!(e, Err(Error::HostSyncForbidden { .. }));
        assert!(forbidden(array.to_vec().map(drop)));
        assert!(forbidden(dev.sync()));
        assert!(forbidden(dev.default_stream().sync()));
        assert!(forbidden(jit::sync(&array)));
    });
    gate.open();
    assert_eq!(values(&array)[99], 100);
}

/// Arrays larger than the last cache, whose stores may go past it, of elements of each size and in odd numbers.
#[test]
fn stores_past_the_caches_store_the_same() {
    for dev in cpus() {
        let n = (36usize << 20) + 13;
        let counter = Array::<u32>::arange(n, &dev);
        let (bytes, bits) = ((&counter * 7).cast::<u8>(), (&counter & 3).eq(1));
        jit::sync(&(bytes.clone(), bits.clone())).expect("memory");
        assert!(values(&bytes).into_iter().enumerate().all(|(k, b)| b == (k as u32).wrapping_mul(7) as u8));
        assert!(values(&bits).into_iter().enumerate().all(|(k, b)| b == (k & 3 == 1)));
        drop((bytes, bits));
        let n = (9usize << 20) + 13;
        let counter = Array::<u32>::arange(n, &dev);
        let (shorts, longs) = ((&counter * 5).cast::<u16>(), counter.cast::<u64>() << 20);
        let chosen = counter.eq(n as u32 - 1).select(&counter * 2, 17);
        jit::sync(&(shorts.clone(), longs.clone(), chosen.clone())).expect("memory");
        assert!(values(&shorts).into_iter().enumerate().all(|(k, x)| x == (k as u32).wrapping_mul(5) as u16));
        assert!(values(&longs).into_iter().enumerate().all(|(k, x)| x == (k as u64) << 20));
        let chosen = values(&chosen);
        assert_eq!(chosen.iter().filter(|&&x| x == 17).count(), n - 1);
        assert_eq!(chosen[n - 1], 2 * (n as u32 - 1));
    }
}

/// Numbers that look random, the same on every run.
fn noise(n: usize, seed: u64) -> impl Iterator<Item = u64> {
    (0..n as u64).map(move |k| {
        let x = (k + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(seed << 32);
        let x = (x ^ x >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x ^ x >> 29
    })
}

/// Combines values into elements of a small target, some lanes masked, some indices out of bounds, most of them shared by
/// many lanes, and compares with the interpreter.
fn combine<T: Element + PartialEq + std::fmt::Debug>(
    devices: &[Device],
    name: &str,
    number: impl Fn(u64) -> T,
    write: impl Fn(&Buffer<T>, &Array<T>, &Array<i32>, &Mask),
    same: impl Fn(&T, &T) -> bool,
) {
    for (lanes, len) in [(1, 1), (65, 64), (4097, 1), (70_003, 7), (70_001, 1000), (20_000, 9000)] {
        let start: Vec<T> = noise(len, 1).map(&number).collect();
        let given: Vec<T> = noise(lanes, 2).map(&number).collect();
        let at: Vec<i32> = noise(lanes, 3).map(|x| (x % (len as u64 + 3)) as i32 - 1).collect();
        let on: Vec<bool> = noise(lanes, 4).map(|x| x % 5 > 0).collect();
        let run = |dev: &Device| {
            let up = "memory";
            let target = Array::from_slice(&start, dev).expect(up);
            let buffer = Buffer::from_array(&target).expect(up);
            let (given, at) =
                (Array::from_slice(&given, dev).expect(up), Array::from_slice(&at, dev).expect(up));
            write(&buffer, &given, &at, &Array::from_slice(&on, dev).expect(up));
            let result = values(&buffer.value());
            assert!(values(&target).iter().zip(&start).all(|(a, b)| same(a, b)), "an old version stays");
            result
        };
        let expected = run(&Device::interpreter());
        for dev in devices {
            for (k, (got, expected)) in run(dev).iter().zip(&expected).enumerate() {
                assert!(
                    same(got, expected),
                    "{name} {lanes} lanes, {len}: [{k}] {got:?} not {expected:?}, {dev:?}"
                );
            }
        }
    }
}

macro_rules! integer_scatters {
    ($devices:expr, $($t:ident)*) => {$(
        let number = |x: u64| x as $t;
        let same = |a: &$t, b: &$t| a == b;
        let name = stringify!($t);
        integer_scatters!(@ $devices, name, number, same, scatter_add_masked scatter_min_masked scatter_max_masked
            scatter_minimum_masked scatter_mul_masked scatter_and_masked scatter_or_masked scatter_xor_masked);
    )*};
    (@ $devices:expr, $name:ident, $number:ident, $same:ident, $($op:ident)*) => {$(
        let name = format!("{} {}", $name, stringify!($op));
        combine($devices, &name, $number, |b, x, at, on| b.$op(x, at, on), $same);
    )*};
}

#[test]
fn integers_are_combined_as_the_interpreter_does() {
    let devices = cpus();
    integer_scatters!(&devices, u8 i8 u16 i16 u32 i32 u64 i64);
    combine(&devices, "bool", |x| x % 3 == 0, |b, x, at, on| b.scatter_xor_masked(x, at, on), |a, b| a == b);
    combine(&devices, "bool", |x| x % 3 == 0, |b, x, at, on| b.scatter_or_masked(x, at, on), |a, b| a == b);
    combine(&devices, "bool", |x| x % 3 == 0, |b, x, at, on| b.scatter_and_masked(x, at, on), |a, b| a == b);
}

macro_rules! float_scatters {
    ($devices:expr, $($t:ident)*) => {$(
        let same = |a: &$t, b: &$t| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
        let name = stringify!($t);
        // Sums of these are exact in any order.
        let whole = |x: u64| match x % 1000 {
            0 => -0.0,
            1 => <$t>::INFINITY,
            2 => <$t>::NAN,
            k => (k as i32 % 8) as $t,
        };
        let zeros = |x: u64| if x % 2 == 0 { -0.0 } else { 0.0 };
        let minus = |_: u64| -0.0;
        combine($devices, name, whole, |b, x, at, on| b.scatter_add_masked(x, at, on), same);
        combine($devices, name, zeros, |b, x, at, on| b.scatter_add_masked(x, at, on), same);
        combine($devices, name, minus, |b, x, at, on| b.scatter_add_masked(x, at, on), same);
        let any = |x: u64| <$t>::from_bits((x >> 1) as _);
        combine($devices, name, any, |b, x, at, on| b.scatter_minimum_masked(x, at, on), same);
        combine($devices, name, any, |b, x, at, on| b.scatter_maximum_masked(x, at, on), same);
        combine($devices, name, any, |b, x, at, on| b.scatter_min_masked(x, at, on), same);
        combine($devices, name, any, |b, x, at, on| b.scatter_max_masked(x, at, on), same);
        combine($devices, name, zeros, |b, x, at, on| b.scatter_max_masked(x, at, on), same);
        combine($devices, name, zeros, |b, x, at, on| b.scatter_min_masked(x, at, on), same);
    )*};
}

#[test]
fn floats_are_combined_as_the_interpreter_does() {
    let devices = cpus();
    float_scatters!(&devices, f32 f64);
}

/// Arrays of special floats to every integer type and to bool, in numbers that leave a remainder.
#[test]
fn floats_become_integers_as_rust_has_it() {
    let special = |k: u64| {
        let near = [
            0.0,
            0.5,
            1.0,
            127.0,
            128.0,
            255.0,
            256.0,
            32767.5,
            65535.5,
            2147483647.0,
            2147483648.0,
            4294967295.5,
            4294967296.0,
            9223372036854775808.0,
            18446744073709551616.0,
            1e30,
            f64::MIN_POSITIVE,
        ];
        let x = near[(k % 17) as usize];
        let x = match k / 17 % 5 {
            0 => x,
            1 => x.next_up(),
            2 => x.next_down(),
            3 => f64::NAN,
            _ => f64::INFINITY,
        };
        if (k / 85).is_multiple_of(2) { x } else { -x }
    };
    let doubles: Vec<f64> = (0..1037).map(special).collect();
    let singles: Vec<f32> =
        doubles.iter().map(|&x| x as f32).chain(noise(1000, 9).map(|x| f32::from_bits(x as u32))).collect();
    for dev in cpus() {
        for n in [0, 1, 3, 15, 16, 17, 1037] {
            let d = Array::from_slice(&doubles[..n], &dev).expect("memory");
            let s = Array::from_slice(&singles[singles.len() - n..], &dev).expect("memory");
            macro_rules! check {
                ($($t:ident)*) => {$(
                    let expected: Vec<$t> = doubles[..n].iter().map(|&x| x as $t).collect();
                    assert_eq!(values(&d.cast::<$t>()), expected, "{} {n} {dev:?}", stringify!($t));
                    let expected: Vec<$t> = singles[singles.len() - n..].iter().map(|&x| x as $t).collect();
                    assert_eq!(values(&s.cast::<$t>()), expected, "{} {n} {dev:?}", stringify!($t));
                )*};
            }
            check!(u8 i8 u16 i16 u32 i32 u64 i64);
        }
    }
}
