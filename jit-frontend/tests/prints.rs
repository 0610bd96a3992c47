//! What lanes print and assert.

use std::sync::{Arc, Mutex};

use jit_frontend as jit;
use jit_frontend::prelude::*;
use jit_frontend::{DeviceBuilder, DeviceKind, Error, Stream, f16};

use crate::support::{panic_of, values};

/// Devices of every kind and width, with what they print.
fn on_each(test: impl Fn(&Device, &dyn Fn() -> String)) {
    let mut builders: Vec<DeviceBuilder> = vec![Device::builder(DeviceKind::Interpreter)];
    if Device::cpu().is_ok() {
        builders
            .extend([4, 8, 16].map(|width| Device::builder(DeviceKind::Cpu).vector_width(width).threads(2)));
    }
    for checked in [false, true] {
        for builder in &builders {
            let printed = Arc::new(Mutex::new(String::new()));
            let into = Arc::clone(&printed);
            let builder = builder.clone().checked(checked);
            let sink = move |text: &str| into.lock().expect("no panic").push_str(text);
            let device = builder.print_to(sink).build().expect("a device");
            test(&device, &|| std::mem::take(&mut *printed.lock().expect("no panic")));
        }
    }
}

#[test]
fn lanes_print_in_order_and_once() {
    on_each(|dev, printed| {
        let t = Array::<u32>::arange(40, dev);
        jit::print_lanes(&(&t % 9).eq(4), "t = {}, {{{}}}", &[&t, &(&t * 2).cast::<i64>()]);
        assert_eq!(printed(), "", "nothing has run");
        dev.sync().expect("no error");
        assert_eq!(
            printed(),
            "lane 4: t = 4, {8}\nlane 13: t = 13, {26}\nlane 22: t = 22, {44}\nlane 31: t = 31, {62}\n"
        );
        dev.sync().expect("no error");
        assert_eq!(printed(), "");
        jit::print_lanes(&t.gt(37), "first", &[]);
        jit::print_lanes(&t.gt(37), "second {}", &[&t]);
        jit::print_lanes(&t.gt(99), "never", &[]);
        assert_eq!(values(&t)[1], 1);
        assert_eq!(printed(), "lane 38: first\nlane 39: first\nlane 38: second 38\nlane 39: second 39\n");
    });
}

#[test]
fn all_types() {
    on_each(|dev, printed| {
        let on = Array::from_slice(&[true], dev).expect("memory");
        jit::print_lanes(
            &on,
            "{} {} {} {} {} {} {} {} {} {} {} {}",
            &[
                &on,
                &Array::from(-8i8),
                &Array::from(u8::MAX),
                &Array::from(i16::MIN),
                &Array::from(u16::MAX),
                &Array::from(-5i32),
                &Array::from(u32::MAX),
                &Array::from(i64::MIN),
                &Array::from(u64::MAX),
                &Array::from(f16::from_f32(0.5)),
                &Array::from(-1.5f32),
                &Array::from(f64::NEG_INFINITY),
            ],
        );
        dev.sync().expect("no error");
        assert_eq!(
            printed(),
            "lane 0: true -8 255 -32768 65535 -5 4294967295 -9223372036854775808 18446744073709551615 0.5 -1.5 -inf\n"
        );
    });
}

#[test]
fn lanes_of_loops_and_branches() {
    on_each(|dev, printed| {
        let n = Array::<u32>::arange(3, dev);
        let left = while_loop(
            n.clone(),
            |k| k.gt(0),
            |k| {
                jit::print_lanes(&Array::from(true), "k = {}", &[&k]);
                if_else(&k.eq(2), (), |()| jit::print_lanes(&n.gt(0), "two", &[]), |()| ());
                k - 1
            },
        );
        assert_eq!(values(&left), [0; 3]);
        assert_eq!(printed(), "lane 1: k = 1\nlane 2: k = 2\nlane 2: two\nlane 2: k = 1\n");
    });
}

#[test]
fn lines_that_are_too_many_are_counted() {
    on_each(|dev, printed| {
        let t = Array::<u32>::arange(1500, dev);
        jit::print_lanes(&t.lt(1025), "{}", &[&t]);
        dev.sync().expect("no error");
        let text = printed();
        assert_eq!((text.lines().count(), text.lines().last()), (1025, Some("... 1 more lines")));
        jit::print_lanes(&t.lt(1024), "{}", &[&t]);
        dev.sync().expect("no error");
        let text = printed();
        assert_eq!((text.lines().count(), text.lines().last()), (1024, Some("lane 1023: 1023")));
    });
}

#[test]
fn assertions_fail_once_at_the_next_wait() {
    on_each(|dev, printed| {
        let t = Array::<u32>::arange(20, dev);
        jit::debug_assert_lanes(&t.lt(20), "all are below");
        dev.sync().expect("they are");
        let line = line!() + 1;
        jit::debug_assert_lanes(&t.lt(17), "below 17");
        jit::debug_assert_lanes(&t.lt(3), "below 3");
        match jit::sync(&t) {
            Err(Error::LaneAssertion { message, location, lane }) => {
                assert_eq!((&*message, lane), ("below 17", 17));
                assert!(location.contains(&format!("prints.rs:{line}:")), "{location}");
            }
            other => panic!("{other:?}"),
        }
        jit::sync(&t).expect("told once");
        assert_eq!(printed(), "");
        let doubled = if_else(
            &t.ge(5),
            t.clone(),
            |t| {
                jit::debug_assert_lanes(&t.ne(7), "not 7");
                t * 2
            },
            |t| t,
        );
        let error = doubled.to_vec().expect_err("lane 7 gets there");
        assert!(matches!(error, Error::LaneAssertion { lane: 7, .. }), "{error}");
        assert_eq!(values(&doubled)[7], 14);
    });
}

type Wait = fn(&Device, &Array<u32>) -> Result<(), Error>;

/// The ways in which the host waits for a vector.
const WAITS: [(&str, Wait); 12] = [
    ("Event::wait", |_, a| jit::eval(a)?.wait()),
    ("sync", |_, a| jit::sync(a)),
    ("Device::sync", |dev, a| jit::eval(a).and_then(|_| dev.sync())),
    ("Stream::sync", |dev, a| jit::eval(a).and_then(|_| dev.default_stream().sync())),
    ("Stream::eval", |dev, a| Stream::new(dev)?.eval(a)?.wait()),
    ("Stream::record", |dev, a| {
        jit::eval(a)?;
        let event = dev.default_stream().record()?;
        event.wait()
    }),
    ("to_vec", |_, a| a.to_vec().map(drop)),
    ("item", |_, a| a.slice(..1).item().map(drop)),
    ("get", |_, a| a.get(0).map(drop)),
    ("read_async", |_, a| a.read_async()?.wait().map(drop)),
    ("to_device", |_, a| a.to_device(&crate::support::fresh()).map(drop)),
    ("compress", |_, a| a.ne(0).compress().map(drop)),
];

#[test]
fn every_wait_of_the_host_tells() {
    on_each(|dev, printed| {
        let checked = dev.core().options().checked;
        for (name, wait) in WAITS {
            let t = Array::<u32>::arange(6, dev);
            jit::print_lanes(&t.eq(3), "t = {}", &[&t]);
            wait(dev, &(&t * 3)).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(printed(), "lane 3: t = 3\n", "{name}");
            jit::print_lanes(&t.eq(4), "again", &[]);
            jit::debug_assert_lanes(&t.ne(2), "not 2");
            let error = wait(dev, &(&t * 5)).err();
            assert!(matches!(error, Some(Error::LaneAssertion { lane: 2, .. })), "{name}: {error:?}");
            assert_eq!(printed(), "lane 4: again\n", "{name}");
            // What lanes did wrong comes first, and nothing is lost.
            let outside = t.gather(&t * 2);
            jit::print_lanes(&t.eq(5), "last", &[]);
            let error = wait(dev, &(outside + &t)).err();
            match error {
                Some(Error::OutOfBounds { index: 6, size: 6, .. }) if checked => {}
                None if !checked => {}
                other => panic!("{name}: {other:?}"),
            }
            assert_eq!(printed(), "lane 5: last\n", "{name}");
            dev.sync().unwrap_or_else(|error| panic!("{name}: told once, but {error}"));
            assert_eq!(printed(), "", "{name}");
        }
    });
}

#[test]
fn texts_and_arrays_that_do_not_fit_panic_at_the_caller() {
    let t = Array::<u32>::arange(4, &crate::support::fresh());
    for (text, arrays) in [("{}", 0), ("no", 1), ("{} {}", 1)] {
        let one: &[&dyn jit::Printed] = &[&t];
        let line = line!() + 1;
        let (message, file, at) = panic_of(|| jit::print_lanes(&t.lt(2), text, &one[..arrays]));
        assert!(message.contains("print_lanes") && file.ends_with("prints.rs") && at == line, "{message}");
    }
    let (message, ..) = panic_of(|| jit::print_lanes(&t.lt(2), "{:?}", &[&t]));
    assert!(message.contains("doubled"), "{message}");
}
