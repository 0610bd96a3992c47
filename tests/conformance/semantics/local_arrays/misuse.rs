//! What local arrays cannot be used for, and what is said then.

use std::panic::{AssertUnwindSafe, catch_unwind};

use jit_core::dtype::DType;
use jit_core::op::Op;
use jit_core::trace::{BufferVar, Var, if_else, while_loop};

use crate::devices::on_each;
use crate::host::{lit, upload};

#[track_caller]
fn panics(expected: &str, misuse: impl FnOnce()) {
    let panic = catch_unwind(AssertUnwindSafe(misuse)).expect_err(expected);
    let text = crate::devices::message(&*panic);
    assert!(text.contains(expected), "{text:?} does not say {expected:?}");
}

#[test]
fn too_large() {
    panics("a local array of 16385 elements of f32 takes 65540 bytes a lane; at most 65536", || {
        drop(Var::local_zeros(DType::F32, 16385));
    });
    panics("takes too many bytes a lane", || drop(Var::local_zeros(DType::U64, usize::MAX)));
}

#[test]
fn as_an_ordinary_array() {
    on_each(|device| {
        let x = upload(device, &[1u32, 2, 3]);
        let zeros = Var::local_zeros(DType::U32, 4);
        let local = zeros.local_write(&x, &x, None, device);
        for local in [&zeros, &local] {
            panics("`add` of a local array", || drop(Var::apply(Op::Add, DType::U32, &[&x, local])));
            panics("`neg` of a local array", || drop(Var::apply(Op::Neg, DType::U32, &[local])));
            panics("`gather` of a local array", || drop(x.gather(local, None)));
            panics("`gather` of a local array", || drop(local.gather(&x, None)));
            panics("`reduce_sum` of a local array", || drop(local.reduce(Op::ReduceSum)));
            panics("`scatter` of a local array", || x.clone().scatter(Op::Scatter, local, &x, None));
            panics("`scatter` of a local array", || {
                local.bind(device).scatter(Op::Scatter, &x, &x, None);
            });
            panics("setting a buffer to a local array", || BufferVar::new(&x).set(local));
            panics("a buffer of a local array", || drop(BufferVar::new(&local.bind(device))));
            panics("reading a local array as a whole", || drop(local.read()));
            panics("`local_write` of a local array", || drop(local.local_write(local, &x, None, device)));
            panics("`local_read` of a local array", || drop(local.local_read(local, None, device)));
        }
        panics("`neg` of a local array", || drop(Var::apply(Op::Neg, DType::U32, &[&zeros])));
        panics("`local_read` takes a local array, got u32[3]", || drop(x.local_read(&x, None, device)));
    });
}

#[test]
fn with_operands_that_do_not_fit() {
    on_each(|device| {
        let (x, y) = (upload(device, &[1u32, 2, 3]), upload(device, &[1u32, 2]));
        let local = Var::local_zeros(DType::F32, 4).local_write(&lit(1f32), &x, None, device);
        panics("`local_write` of u32 values into a local array of f32", || {
            drop(local.local_write(&x, &x, None, device));
        });
        panics("takes an index of an integer type, got f32", || {
            drop(local.local_read(&lit(0f32), None, device))
        });
        panics("takes a mask of bool, got u32", || drop(local.local_read(&x, Some(&x), device)));
        panics("`local_read` on arrays of different sizes", || drop(local.local_read(&y, None, device)));
    });
}

#[test]
fn in_regions_that_would_change_its_length() {
    on_each(|device| {
        let n = upload(device, &[1u32, 2, 3]);
        let [four, five] = [4, 5].map(|len| Var::local_zeros(DType::F32, len));
        let less = |a: &Var| Var::apply(Op::Lt, DType::Bool, &[a, &n]);
        for (from, to) in [(&four, &five), (&four, &lit(0f32)), (&lit(0f32), &four)] {
            panics("must return the state's local arrays", || {
                let state = [lit(0u32), from.clone()];
                drop(while_loop(device, &state, |s| less(&s[0]), |s| vec![s[0].clone(), to.clone()]));
            });
            panics("both sides of a branch must return the same local arrays", || {
                let mask = less(&lit(1u32));
                drop(if_else(device, &mask, &[], |_| vec![from.clone()], |_| vec![to.clone()]));
            });
        }
        let flags = Var::local_zeros(DType::Bool, 4);
        panics("`if` of a local array", || {
            drop(if_else(device, &flags, &[], |_| vec![], |_| vec![]));
        });
        panics("`loop` of a local array", || {
            drop(while_loop(device, &[lit(0u32)], |_| flags.clone(), |s| s));
        });
        // The device is as it was.
        assert_eq!(crate::host::read::<u32>(&n), [1, 2, 3]);
    });
}
