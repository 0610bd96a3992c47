//! Switches.

use jit_frontend::prelude::*;

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
