//! Mistakes panic where they are made, say op, types and sizes, and leave the device as it was.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice::from_ref;

use jit_core::dtype::DType;
use jit_core::error::Error;
use jit_core::interp::Mode;
use jit_core::op::Op;
use jit_core::runtime::Device;
use jit_core::trace::{BufferVar, Var, eval, if_else, while_loop};

use super::check::apply;
use crate::devices::{all, on_each};
use crate::host::{lit, read, upload};

/// What a closure panics with.
pub(super) fn panics(f: impl FnOnce()) -> String {
    let Err(panic) = catch_unwind(AssertUnwindSafe(f)) else { panic!("no panic") };
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).expect("a message")
}

#[track_caller]
fn says(f: impl FnOnce(), words: &[&str]) {
    let message = panics(f);
    for word in words {
        assert!(message.contains(word), "no {word:?} in {message:?}");
    }
}

fn reference() -> Device {
    all()[0]
}

#[test]
fn types_that_do_not_fit_are_named() {
    let (a, b) = (upload(reference(), &[1f32; 3]), upload(reference(), &[1i32; 3]));
    let bools = upload(reference(), &[true; 3]);
    says(|| drop(apply(Op::Add, &[&a, &b])), &["`add`", "one numeric type", "f32[3]", "i32[3]", "misuse.rs"]);
    says(|| drop(apply(Op::Add, &[&a, &lit(1f64)])), &["`add`", "f32[3]", "f64[1]"]);
    says(|| drop(apply(Op::Add, &[&bools, &bools])), &["`add`", "bool[3]"]);
    says(|| drop(apply(Op::Sqrt, &[&b])), &["`sqrt`", "float", "i32[3]"]);
    says(|| drop(apply(Op::Shl, &[&a, &a])), &["`shl`", "integer", "f32[3]"]);
    says(|| drop(apply(Op::And, &[&a, &a])), &["`and`", "f32[3]"]);
    says(|| drop(apply(Op::Select, &[&b, &a, &a])), &["`select`", "a bool", "i32[3]", "f32[3]"]);
    says(|| drop(apply(Op::Select, &[&bools, &a, &b])), &["`select`", "f32[3]", "i32[3]"]);
    says(|| drop(Var::apply(Op::Bitcast, DType::F64, &[&a])), &["`bitcast`", "same size", "f32[3]"]);
    says(|| drop(Var::apply(Op::Bitcast, DType::U8, &[&bools])), &["`bitcast`", "bool[3]"]);
    says(|| drop(Var::apply(Op::Lt, DType::Bool, &[&a, &b])), &["`lt`", "one type", "f32[3]", "i32[3]"]);
    says(|| drop(bools.reduce(Op::ReduceSum)), &["`reduce_sum`", "bool[3]"]);
    says(|| drop(a.reduce(Op::ReduceAnd)), &["`reduce_and`", "f32[3]"]);
    says(|| drop(lit(1f32).reduce(Op::ReduceOr)), &["`reduce_or`", "f32"]);
    says(|| drop(apply(Op::Add, &[&lit(1f32), &lit(1u8)])), &["`add`", "f32", "u8"]);
}

#[test]
fn memory_ops_name_types() {
    let device = reference();
    let (floats, index) = (upload(device, &[1f32; 3]), upload(device, &[0u32, 1]));
    let buffer = BufferVar::new(&floats);
    says(|| drop(floats.gather(&floats, None)), &["`gather`", "index of an integer type", "f32"]);
    says(|| drop(floats.gather(&lit(true), None)), &["`gather`", "bool"]);
    says(|| drop(floats.gather(&index, Some(&index))), &["`gather`", "mask of bool", "u32"]);
    says(|| drop(lit(1f32).gather(&lit(1f32), None)), &["`gather`", "index of an integer type", "f32"]);
    says(|| drop(lit(1f32).gather(&lit(0u8), Some(&lit(1u8)))), &["`gather`", "mask of bool", "u8"]);
    says(
        || buffer.scatter(Op::ScatterAdd, &lit(1i32), &index, None),
        &["`scatter_add`", "i32", "f32", "cast"],
    );
    says(|| buffer.scatter(Op::ScatterOr, &lit(1f32), &index, None), &["`scatter_or`", "f32"]);
    says(|| drop(buffer.atomic_inc(&index, None)), &["`atomic_inc`", "f32"]);
    says(|| buffer.set(&lit(1f64)), &["buffer of f32", "f64"]);
    let bools = BufferVar::new(&upload(device, &[true]));
    says(|| bools.scatter(Op::ScatterAdd, &lit(true), &index, None), &["`scatter_add`", "bool"]);
    let mut unbound = lit(1f32);
    says(|| unbound.scatter(Op::Scatter, &lit(1f32), &lit(0u8), None), &["`scatter`", "literal", "device"]);
    for len in [1, 3, 1 << 62] {
        says(
            || drop(Var::upload(device, DType::F32, len, &[0; 8])),
            &["f32[", "4 bytes an element", "8 bytes"],
        );
    }
    says(|| drop(Var::counter(device, DType::I32, 5)), &["counter", "u32 or u64", "i32"]);
    says(|| drop(Var::counter(device, DType::U32, (1 << 32) + 1)), &["counter", "4294967297", "u64"]);
}

#[test]
fn arrays_of_two_devices_do_not_meet() {
    let (one, two) = (all()[0], all()[1]);
    let (a, b) = (upload(one, &[1f32; 3]), upload(two, &[1f32; 3]));
    let (one, two) = (one.name(), two.name());
    assert_ne!(one, two);
    let names = [one.as_str(), two.as_str()];
    let with = |op: &'static str| [op, names[0], names[1]];
    says(|| drop(apply(Op::Add, &[&a, &b])), &with("add"));
    says(|| drop(a.gather(&b, None)), &with("gather"));
    says(|| a.clone().scatter(Op::Scatter, &b, &lit(0u8), None), &with("scatter"));
    let buffer = BufferVar::new(&a);
    says(|| buffer.scatter(Op::ScatterMax, &b, &lit(0u8), None), &with("scatter_max"));
    says(|| buffer.set(&b), &names);
    says(|| drop(while_loop(all()[0], from_ref(&b), |_| lit(false), |s| s)), &names);
    let error = eval(&[&a, &b], &[]).expect_err("two devices");
    assert!(matches!(error, Error::MixedDevices { .. }), "{error}");
    assert_eq!(read::<f32>(&a), [1.0; 3]);
}

#[test]
fn nothing_is_evaluated_or_read_inside_a_region() {
    on_each(|device| {
        let x = upload(device, &[1u32, 2]);
        let buffer = BufferVar::new(&x);
        let inside = |f: &dyn Fn(&Var), words: &[&str]| {
            let body = |s: Vec<Var>| {
                f(&s[0]);
                s
            };
            says(|| drop(while_loop(device, from_ref(&x), |_| lit(true), body)), words);
            says(|| drop(if_else(device, &lit(true), from_ref(&x), body, |s| s)), &words[..words.len() - 1]);
        };
        let opened = "loop opened at tests/conformance/semantics/misuse.rs";
        let opened = opened.strip_prefix("loop opened at tests/").expect("a prefix");
        inside(&|s| drop(s.read()), &["reading an array inside a", opened, "loop"]);
        inside(&|_| drop(x.read()), &["reading an array inside a", opened, "loop"]);
        inside(&|s| drop(eval(&[s], &[])), &["evaluating inside a", opened, "loop"]);
        inside(&|_| drop(eval(&[], &[&buffer])), &["evaluating inside a", opened, "loop"]);
        inside(&|s| drop(s.reduce(Op::ReduceSum)), &["`reduce_sum`", "combines lanes", opened, "loop"]);
        inside(
            &|_| x.clone().scatter(Op::Scatter, &lit(1u32), &lit(0u32), None),
            &["`scatter`", "`Buffer`", opened, "loop"],
        );
        inside(&|_| drop(buffer.value()), &["value of a buffer inside a", opened, "gather", "loop"]);
        inside(&|_| buffer.set(&lit(1u32)), &["setting a buffer inside a", opened, "loop"]);
        inside(&|_| drop(BufferVar::new(&x)), &["making a buffer inside a", opened, "loop"]);
        inside(
            &|s| drop(s.gather(&lit(0u32), None)),
            &["gather from a value that each lane", "misuse.rs", "outside"],
        );
        assert_eq!(read::<u32>(&x), [1, 2]);
    });
}

#[test]
fn a_panic_in_a_closure_leaves_everything_as_it_was() {
    on_each(panic_in_closures);
}

#[test]
fn a_panic_in_a_closure_leaves_no_nodes() {
    // Nobody else uses these devices.
    for device in [Mode::Lowered, Mode::NodeByNode].map(Device::interpreter) {
        panic_in_closures(device);
        assert_eq!(device.memory().nodes, 0);
        let fresh: Vec<Var> = (0..64).map(|k| Var::counter(device, DType::U32, 2 + k)).collect();
        assert!(fresh.iter().all(|v| !v.trace().contains("a lane's own")), "a name outlives its node");
    }
}

fn panic_in_closures(device: Device) {
    let x = upload(device, &[1u32, 2, 3]);
    let buffer = BufferVar::new(&x);
    let body = |s: Vec<Var>| -> Vec<Var> {
        buffer.scatter(Op::ScatterAdd, &s[0], &lit(0u32), None);
        let _ = buffer.atomic_inc(&lit(1u32), None);
        s[0].set_label("a lane's own");
        panic!("the closure's own")
    };
    let message = panics(|| drop(while_loop(device, from_ref(&x), |_| lit(true), body)));
    assert_eq!(message, "the closure's own");
    let message = panics(|| {
        drop(while_loop(device, from_ref(&x), |_| panic!("in the condition"), |s| s));
    });
    assert_eq!(message, "in the condition");
    let message = panics(|| drop(if_else(device, &lit(true), from_ref(&x), |s| s, body)));
    assert_eq!(message, "the closure's own");
    let message = panics(|| {
        let outer = |s: Vec<Var>| while_loop(device, &s, |_| lit(true), body);
        drop(while_loop(device, from_ref(&x), |_| lit(true), outer));
    });
    assert_eq!(message, "the closure's own");
    assert_eq!(read::<u32>(&buffer.value()), [1, 2, 3]);
    // The device goes on, and no region is open.
    buffer.scatter(Op::ScatterAdd, &lit(5u32), &lit(0u32), None);
    assert_eq!(read::<u32>(&buffer.value()), [6, 2, 3]);
    let out = while_loop(
        device,
        from_ref(&x),
        |s| Var::apply(Op::Lt, DType::Bool, &[&s[0], &lit(10u32)]),
        |s| vec![apply(Op::Add, &[&s[0], &lit(4u32)])],
    );
    assert_eq!(read::<u32>(&out[0]), [13, 10, 11]);
}

#[test]
fn values_of_a_closed_region_are_gone() {
    on_each(|device| {
        let x = upload(device, &[1u32, 2]);
        let mut kept = Vec::new();
        let out = while_loop(
            device,
            from_ref(&x),
            |s| Var::apply(Op::Lt, DType::Bool, &[&s[0], &lit(2u32)]),
            |s| {
                let next = apply(Op::Add, &[&s[0], &lit(1u32)]);
                kept.extend([s[0].clone(), next.clone()]);
                vec![next]
            },
        );
        for inner in &kept {
            says(
                || drop(apply(Op::Add, &[inner, &x])),
                &["`add`", "loop opened at", "not open here", "return it"],
            );
            says(|| drop(x.gather(inner, None)), &["`gather`", "loop opened at", "not open here"]);
            says(|| drop(inner.reduce(Op::ReduceSum)), &["`reduce_sum`", "loop"]);
            let again = || drop(while_loop(device, from_ref(inner), |_| lit(false), |s| s));
            says(again, &["loop opened at", "not open here"]);
            let captured = || drop(while_loop(device, from_ref(&x), |_| lit(false), |_| vec![inner.clone()]));
            says(captured, &["loop opened at", "not open here"]);
            says(|| drop(inner.read()), &["belongs to a loop opened at", "return it"]);
            says(|| drop(eval(&[inner], &[])), &["belongs to a loop opened at", "return it"]);
            says(|| drop(BufferVar::new(inner)), &["belongs to a loop opened at", "return it"]);
        }
        assert_eq!(read::<u32>(&out[0]), [2, 2]);
    });
}

#[test]
fn one_side_of_a_branch_does_not_see_the_other() {
    on_each(|device| {
        let x = upload(device, &[1u32, 2]);
        let kept = std::cell::OnceCell::new();
        let then = |a: Vec<Var>| {
            kept.set(apply(Op::Add, &[&a[0], &lit(1u32)])).expect("once");
            a
        };
        let otherwise = |a: Vec<Var>| vec![apply(Op::Add, &[&a[0], kept.get().expect("the other side")])];
        says(
            || drop(if_else(device, &lit(true), from_ref(&x), then, otherwise)),
            &["`add`", "branch opened at", "not open here"],
        );
        assert_eq!(read::<u32>(&x), [1, 2]);
    });
}

#[test]
fn regions_check_what_closures_return() {
    let device = reference();
    let x = upload(device, &[1u32, 2]);
    let state = [x.clone(), lit(1f32)];
    says(
        || drop(while_loop(device, &state, |_| lit(false), |s| vec![s[1].clone(), s[0].clone()])),
        &["loop's body", "(u32, f32)", "(f32, u32)"],
    );
    says(
        || drop(while_loop(device, &state, |_| lit(false), |_| vec![])),
        &["loop's body", "(u32, f32)", "()"],
    );
    says(|| drop(while_loop(device, &state, |_| lit(1u8), |s| s)), &["condition", "bool", "u8"]);
    says(|| drop(if_else(device, &lit(1u8), &[], |s| s, |s| s)), &["branch", "bool", "u8"]);
    says(
        || drop(if_else(device, &lit(true), &[], |_| vec![lit(1u8)], |_| vec![lit(1i8)])),
        &["both sides", "(u8)", "(i8)"],
    );
    let three = upload(device, &[1u32; 3]);
    says(
        || drop(while_loop(device, &[x.clone(), three.clone()], |_| lit(false), |s| s)),
        &["`loop`", "u32[2]", "u32[3]"],
    );
    says(
        || drop(while_loop(device, from_ref(&x), |_| lit(false), |s| vec![apply(Op::Add, &[&s[0], &three])])),
        &["`add`", "2", "3"],
    );
    says(
        || {
            let captured =
                |s: &[Var]| Var::apply(Op::Lt, DType::Bool, &[&apply(Op::Add, &[&s[0], &x]), &three]);
            drop(while_loop(device, &[lit(0u32)], captured, |s| s));
        },
        &["2", "3"],
    );
    assert_eq!(read::<u32>(&x), [1, 2]);
}

#[test]
fn debug_never_evaluates() {
    let device = Device::interpreter(Mode::Lowered);
    let x = upload(device, &[1f32, 2.0]);
    let y = apply(Op::Add, &[&x, &lit(1f32)]);
    let text = format!("{y:?} {x:?} {:?}", lit(1f32));
    assert!(text.contains("f32[2] lazy add") && text.contains("f32[1] literal 1.0"), "{text}");
    assert_eq!(device.launch_count(), 0);
    assert!(!y.is_evaluated());
}
