//! Many threads and streams at once, work that fails, arrays past the caches.

use std::sync::Barrier;
use std::thread;

use jit_core::runtime::Gate;
use jit_frontend as jit;
use jit_frontend::prelude::*;
use jit_frontend::{DeviceKind, Error};

use crate::support::{fresh, on_each, values};

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
        stream.wait(&gate.event()).expect("a wait");
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
        stream.wait(&gate.event()).expect("a wait");
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
                stream.wait(&gate.event()).expect("a wait");
            }
            total = total + 1;
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
                stream.wait(&gate.event()).expect("a wait");
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
        stream.wait(&gate.event()).expect("a wait");
        let mut array = Array::<u32>::arange(3, &dev);
        for _ in 0..20_000 {
            array = array + 1;
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
    dev.default_stream().wait(&gate.event()).expect("a wait");
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
