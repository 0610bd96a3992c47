//! Streams: what runs beside what, and what waits for what.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jit_core::dtype::DType;
use jit_core::error::Error;
use jit_core::op::Op;
use jit_core::runtime::{Device, Event, Gate, MAX_STREAMS, Stream, forbid_host_sync};
use jit_core::trace::{BufferVar, Var, eval};

use crate::devices;
use crate::host::{lit, read, upload};

/// Devices of the test's own: on one that others use, equal arrays are one, and held streams theirs.
fn on_each(test: impl Fn(Device)) {
    devices::fresh().into_iter().for_each(test);
}

fn add(a: &Var, b: &Var) -> Var {
    Var::apply(Op::Add, a.dtype(), &[a, b])
}

fn stream(dev: Device) -> Stream {
    Stream::new(dev).expect("there are few")
}

fn eval_on(stream: &Stream, value: &Var) -> Event {
    stream.enter(|| eval(&[value], &[])).expect("evaluation")
}

/// Has a stream wait for a gate that the test opens.
fn hold(stream: &Stream) -> Gate {
    let gate = Gate::new();
    stream.wait(&gate.event());
    gate
}

fn pending(event: &Event) -> bool {
    !event.is_complete().expect("no error")
}

/// Elements enough that a kernel does not run on the submitting thread.
const LARGE: u64 = 100_000;

fn counted(dev: Device, len: u64) -> Var {
    Var::counter(dev, DType::U32, len)
}

#[test]
fn a_stream_that_is_held_holds_no_other() {
    on_each(|dev| {
        for len in [3, LARGE] {
            let (held, free) = (stream(dev), stream(dev));
            let gate = hold(&held);
            let (x, y) = (add(&counted(dev, len), &lit(1u32)), add(&counted(dev, len), &lit(2u32)));
            let first = eval_on(&held, &x);
            eval_on(&free, &y).wait().expect("nothing it needs is held");
            assert_eq!(read::<u32>(&y)[2], 4);
            free.sync().expect("nothing it needs is held");
            // The default stream goes on too.
            assert_eq!(read::<u32>(&add(&y, &lit(1u32)))[2], 5);
            assert!(pending(&first));
            gate.open();
            first.wait().expect("no error");
            assert_eq!(read::<u32>(&x)[2], 3);
        }
    });
}

/// More streams are held than there are threads.
#[test]
fn held_streams_take_up_no_threads() {
    let dev = devices::fresh()[2];
    let held: Vec<(Stream, Gate)> = (0..40)
        .map(|_| {
            let stream = stream(dev);
            let gate = hold(&stream);
            (stream, gate)
        })
        .collect();
    let values: Vec<Var> = (1..=40u32).map(|k| add(&counted(dev, LARGE), &lit(k))).collect();
    for ((stream, _), value) in held.iter().zip(&values) {
        assert!(pending(&eval_on(stream, value)));
    }
    let free = add(&counted(dev, LARGE), &lit(100u32));
    assert_eq!(read::<u32>(&free)[1], 101);
    for (k, ((_, gate), value)) in held.into_iter().zip(&values).enumerate().rev() {
        gate.open();
        assert_eq!(read::<u32>(value)[1], k as u32 + 2);
    }
}

#[test]
fn reading_waits_for_what_writes_the_array_and_for_nothing_later() {
    on_each(|dev| {
        let own = stream(dev);
        let x = add(&counted(dev, LARGE), &lit(1u32));
        let written = eval_on(&own, &x);
        let gate = hold(&own);
        let later = add(&x, &lit(1u32));
        let event = eval_on(&own, &later);
        assert_eq!(own.enter(|| read::<u32>(&x))[7], 8);
        assert!(!pending(&written) && pending(&event));
        gate.open();
        assert_eq!(read::<u32>(&later)[7], 9);
    });
}

#[test]
fn an_array_of_one_stream_is_ready_when_another_uses_it() {
    on_each(|dev| {
        for len in [3, LARGE] {
            let (first, second, third) = (stream(dev), stream(dev), stream(dev));
            let gate = hold(&first);
            let x = add(&counted(dev, len), &lit(1u32));
            eval_on(&first, &x);
            let y = add(&x, &lit(1u32));
            let made = eval_on(&second, &y);
            let z = add(&y, &x);
            let used = eval_on(&third, &z);
            assert!(pending(&made) && pending(&used));
            gate.open();
            assert_eq!(read::<u32>(&z)[..3], [3, 5, 7]);
            assert!(!pending(&made) && !pending(&used));
        }
    });
}

/// The readers of what is overwritten in place come first, on whichever stream they are.
#[test]
fn what_is_overwritten_is_read_before() {
    on_each(|dev| {
        let buffer = BufferVar::new(&upload(dev, &[1i32, 2, 3, 4]));
        let (reader, writer) = (stream(dev), stream(dev));
        let gate = hold(&reader);
        let negated = Var::apply(Op::Neg, DType::I32, &[&buffer.value()]);
        eval_on(&reader, &negated);
        buffer.scatter(Op::Scatter, &lit(50i32), &counted(dev, 2), None);
        let written = writer.enter(|| eval(&[], &[&buffer])).expect("evaluation");
        assert!(pending(&written), "the reader is held");
        gate.open();
        assert_eq!(read::<i32>(&buffer.value()), [50, 50, 3, 4]);
        assert_eq!(read::<i32>(&negated), [-1, -2, -3, -4]);
    });
}

#[test]
fn effects_on_several_streams_keep_their_order() {
    on_each(|dev| {
        let buffer = BufferVar::new(&upload(dev, &[0u32; 4]));
        let streams = [stream(dev), stream(dev), stream(dev)];
        let gates: Vec<Gate> = streams.iter().map(hold).collect();
        for k in 0..9u32 {
            // Not commutative: x -> 2 x + k.
            let value = buffer.value();
            let next = add(&add(&value, &value), &lit(k));
            drop(value);
            buffer.scatter(Op::Scatter, &next, &counted(dev, 4), None);
            streams[k as usize % 3].enter(|| eval(&[], &[&buffer])).expect("evaluation");
        }
        gates.into_iter().rev().for_each(Gate::open);
        let expected = (0..9).fold(0, |x, k| 2 * x + k);
        assert_eq!(read::<u32>(&buffer.value()), [expected; 4]);
    });
}

#[test]
fn a_gate_hands_its_error_to_what_waits_for_it() {
    // Devices of its own: nobody else asks for their errors.
    for dev in devices::fresh() {
        let own = stream(dev);
        let gate = hold(&own);
        let (x, y) = (add(&counted(dev, 9), &lit(1u32)), add(&counted(dev, 9), &lit(2u32)));
        let failed = eval_on(&own, &x);
        let fine = eval_on(&own, &y);
        let dependent = add(&x, &lit(1u32));
        let other = stream(dev);
        let elsewhere = eval_on(&other, &dependent);
        gate.fail(Error::Execution("the producer fell over".to_owned()));
        for event in [failed, elsewhere] {
            assert!(event.wait().expect_err("an error").to_string().contains("fell over"));
        }
        assert!(dependent.read().is_err() && x.read().is_err());
        fine.wait().expect("it needs none of this");
        assert_eq!(read::<u32>(&y)[0], 2);
        assert!(own.sync().is_err(), "the stream reports it");
        own.sync().expect("once");
        assert!(other.sync().is_err());
        dev.sync().expect("the streams have told");
    }
}

#[test]
fn a_gate_that_is_dropped_fails_what_waits() {
    let dev = devices::fresh()[0];
    let own = stream(dev);
    drop(hold(&own));
    let x = add(&counted(dev, 9), &lit(1u32));
    let error = eval_on(&own, &x).wait().expect_err("nobody opened it");
    assert!(error.to_string().contains("dropped"), "{error}");
}

#[test]
fn streams_wait_for_streams() {
    on_each(|dev| {
        let (first, second) = (stream(dev), stream(dev));
        let gate = hold(&first);
        second.wait_stream(&first);
        let x = add(&counted(dev, LARGE), &lit(1u32));
        let event = eval_on(&second, &x);
        let recorded = second.record();
        assert!(pending(&event) && pending(&recorded));
        gate.open();
        recorded.wait().expect("no error");
        assert!(!pending(&event));
        second.wait_stream(&first);
        first.wait_stream(&second);
        first.sync().expect("waiting for each other's past is no circle");
    });
}

#[test]
fn events_of_one_device_hold_another() {
    let fresh = devices::fresh();
    let [first, second] = [fresh[0], fresh[2]];
    let (there, here) = (stream(first), stream(second));
    let gate = hold(&there);
    here.wait(&there.record());
    let x = add(&counted(second, LARGE), &lit(1u32));
    let event = eval_on(&here, &x);
    assert!(pending(&event));
    gate.open();
    assert_eq!(read::<u32>(&x)[1], 2);
}

#[test]
fn time_passes_between_timed_events() {
    on_each(|dev| {
        let own = stream(dev);
        let before = own.record_timed();
        let gate = hold(&own);
        let x = add(&counted(dev, LARGE), &lit(1u32));
        let untimed = eval_on(&own, &x);
        let after = own.record_timed();
        assert!(after.elapsed_since(&before).is_err(), "it has not happened");
        gate.open();
        after.wait().expect("no error");
        after.elapsed_since(&before).expect("both are timed");
        assert!(before.elapsed_since(&after).expect("both are timed").is_zero());
        assert!(untimed.elapsed_since(&before).is_err(), "it measures no time");
    });
}

#[test]
fn a_device_has_a_limited_number_of_streams() {
    let dev = devices::fresh()[0];
    let mut streams: Vec<Stream> = (1..MAX_STREAMS).map(|_| stream(dev)).collect();
    let error = Stream::new(dev).expect_err("one too many");
    assert!(error.to_string().contains("64 streams"), "{error}");
    // One that goes makes room once its work is done, and leaves it nothing.
    let gate = hold(&streams[5]);
    let x = add(&counted(dev, 9), &lit(1u32));
    let event = eval_on(&streams[5], &x);
    drop(streams.swap_remove(5));
    assert!(Stream::new(dev).is_err(), "it has work to do");
    gate.fail(Error::Execution("planned".to_owned()));
    event.wait().expect_err("planned");
    let again = stream(dev);
    again.sync().expect("the error was another stream's");
    assert_eq!(again.enter(|| read::<u32>(&add(&counted(dev, 3), &lit(1u32)))), [1, 2, 3]);
}

/// A stream that goes before it has done what it was told to wait for leaves no order behind.
#[test]
fn a_stream_that_gets_the_number_of_another_waits_for_itself() {
    let dev = devices::fresh()[0];
    let first = stream(dev);
    let gate = hold(&first);
    let x = add(&counted(dev, LARGE), &lit(1u32));
    eval_on(&first, &x);
    let second = stream(dev);
    second.wait_stream(&first);
    drop(second);
    let third = stream(dev);
    let y = add(&x, &lit(1u32));
    let made = eval_on(&third, &y);
    assert!(pending(&made), "what it reads is not there");
    drop(x);
    let z = add(&counted(dev, LARGE), &lit(5u32));
    eval_on(&third, &z);
    gate.open();
    assert_eq!(read::<u32>(&y)[1], 3);
    assert_eq!(read::<u32>(&z)[1], 6);
}

/// Whether the stream is ordered after the event anyway, and whether somebody looks at it meanwhile, changes nothing.
#[test]
fn what_a_stream_waits_for_fails_its_next_batch() {
    let dev = devices::fresh()[0];
    for (covered, looked_at) in [(false, false), (false, true), (true, false), (true, true)] {
        let (producer, own) = (stream(dev), stream(dev));
        let gate = Gate::new();
        producer.wait(&gate.event());
        let x = add(&counted(dev, 9), &lit(1u32));
        let event = eval_on(&producer, &x);
        if covered {
            let y = add(&x, &lit(2u32));
            eval_on(&own, &y);
        }
        own.wait(&event);
        if looked_at {
            assert!(pending(&own.record()));
        }
        let z = add(&counted(dev, 9), &lit(3u32));
        let failed = eval_on(&own, &z);
        let after = add(&counted(dev, 9), &lit(4u32));
        let fine = eval_on(&own, &after);
        gate.fail(Error::Execution("planned".to_owned()));
        assert!(failed.wait().is_err(), "covered: {covered}, looked at: {looked_at}");
        fine.wait().expect("only the next batch");
    }
    drop(dev.sync());
}

#[test]
fn every_stream_tells_its_own_error() {
    let dev = devices::fresh()[0];
    let streams = [stream(dev), stream(dev)];
    for (k, own) in streams.iter().enumerate() {
        hold(own).fail(Error::Execution(format!("planned {k}")));
        drop(eval_on(own, &add(&counted(dev, 9), &lit(k as u32 + 1))));
        own.record().wait().ok();
    }
    assert!(dev.sync().is_err(), "one of them");
    let left = streams.iter().filter(|own| own.sync().is_err()).count();
    assert_eq!(left, 1, "and the other");
    dev.sync().expect("all have told");
}

#[test]
fn the_current_stream_is_the_threads_own() {
    let dev = devices::fresh()[0];
    let other = devices::fresh()[2];
    let (outer, inner) = (stream(dev), stream(dev));
    assert_eq!(Stream::current(dev), dev.default_stream());
    outer.enter(|| {
        assert_eq!(Stream::current(dev), outer);
        assert_eq!(Stream::current(other), other.default_stream());
        inner.enter(|| assert_eq!(Stream::current(dev), inner));
        assert_eq!(Stream::current(dev), outer);
        std::thread::scope(|s| {
            s.spawn(|| assert_eq!(Stream::current(dev), dev.default_stream()));
        });
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            inner.enter(|| panic!("planned"));
        }));
        assert!(panicked.is_err());
        assert_eq!(Stream::current(dev), outer, "left by the panic");
    });
    assert_eq!(Stream::current(dev), dev.default_stream());
}

#[test]
fn a_forbidden_wait_is_an_error_only_if_it_would_wait() {
    on_each(|dev| {
        let own = stream(dev);
        let x = add(&counted(dev, 4), &lit(1u32));
        eval_on(&own, &x).wait().expect("no error");
        let gate = hold(&own);
        forbid_host_sync(|| {
            assert!(matches!(own.sync(), Err(Error::HostSyncForbidden { .. })));
            assert_eq!(read::<u32>(&x), [1, 2, 3, 4]);
            // A small kernel of an open stream is done when its evaluation returns.
            let open = stream(dev);
            assert_eq!(open.enter(|| read::<u32>(&add(&x, &lit(1u32)))), [2, 3, 4, 5]);
        });
        gate.open();
        own.sync().expect("no error");
    });
}

/// Who waits runs what it needs, and nothing of other streams.
#[test]
fn waiting_helps_with_what_it_needs_alone() {
    let dev = devices::fresh()[0];
    let (first, second) = (stream(dev), stream(dev));
    let (held, free) = (hold(&first), hold(&second));
    let me = std::thread::current().id();
    let ran_here = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&ran_here);
    // Would be run by this thread if it helped with everything that can run.
    let foreign = first.enter(|| {
        dev.submit_call(move || {
            // Relaxed: the event orders it before the test's look.
            flag.store(std::thread::current().id() == me, Ordering::Relaxed);
        })
    });
    let own = second.enter(|| dev.submit_call(|| ()));
    held.open();
    free.open();
    own.wait().expect("no error");
    assert!(!ran_here.load(Ordering::Relaxed), "this thread waited for something else");
    foreign.wait().expect("no error");
}

/// A long queue, waited for at its end, overflows no stack, and neither does dropping it.
#[test]
fn a_long_queue_runs() {
    let dev = devices::fresh()[0];
    let own = stream(dev);
    let gate = hold(&own);
    let mut x = upload(dev, &[1u32]);
    for _ in 0..20_000 {
        x = add(&x, &lit(1u32));
        eval_on(&own, &x);
    }
    gate.open();
    assert_eq!(read::<u32>(&x), [20_001]);
}
