//! Pictures of a few traces on their way: the trace, each kernel's program before and after every pass that changes
//! it, and the LLVM IR at width 8 for a pinned processor.

use std::fmt::Write;

use jit_core::backend::PassLevel;
use jit_core::dtype::DType;
use jit_core::interp::Mode;
use jit_core::op::Op;
use jit_core::passes;
use jit_core::runtime::Device;
use jit_core::trace::{BufferVar, Var, if_else, while_loop};

use crate::host::{lit, upload};

fn op(op: Op, args: &[&Var]) -> Var {
    Var::apply(op, args[0].dtype(), args)
}

fn device() -> Device {
    Device::interpreter(Mode::Lowered)
}

/// Everything between a trace and machine code, in one text.
fn journey(root: &Var, llvm: bool) -> String {
    let mut text = format!("trace\n{}", root.trace());
    for (i, mut program) in root.programs().into_iter().enumerate() {
        let _ = write!(text, "\nkernel {i} as planned\n{program}");
        let mut last = program.to_string();
        passes::run(&mut program, PassLevel::Full, &passes::Options::default(), &mut |name, after| {
            let now = after.to_string();
            if now != last {
                let _ = write!(text, "\nkernel {i} after {name}\n{now}");
                last = now;
            }
        });
        if llvm {
            let ir = jit_llvm::ir_text(&program, 8).expect("a program of known ops");
            let _ = write!(text, "\nkernel {i} in LLVM IR\n{ir}");
        }
    }
    text
}

#[test]
fn elementwise() {
    let dev = device();
    let (x, y) = (upload(dev, &[1.0f32, 2.0]), upload(dev, &[3.0f32]));
    let z = op(Op::MulAdd, &[&x, &x, &op(Op::Sqrt, &[&y])]);
    let mask = op(Op::Lt, &[&z, &lit(2.5f32)]);
    insta::assert_snapshot!(journey(&op(Op::Select, &[&mask, &x, &z]), true));
}

#[test]
fn reduction() {
    let dev = device();
    let x = upload(dev, &[1.0f32, 2.0]);
    let count = Var::apply(Op::Cast, DType::F32, &[&x.lane_count()]);
    let mean = op(Op::Div, &[&op(Op::Mul, &[&x, &x]).reduce(Op::ReduceSum), &count]);
    insta::assert_snapshot!(journey(&mean, true));
}

#[test]
fn two_kernels() {
    let dev = device();
    let x = upload(dev, &[1u32, 2, 3]);
    let table = op(Op::Add, &[&x, &lit(10u32)]);
    let index = op(Op::And, &[&upload(dev, &[7u32, 8]), &lit(1u32)]);
    insta::assert_snapshot!(journey(&op(Op::Mul, &[&table.gather(&index, None), &lit(3u32)]), false));
}

#[test]
fn regions() {
    let dev = device();
    let buffer = BufferVar::new(&Var::full(dev, DType::F32, 0, 16));
    let x = upload(dev, &[1.0f32, 2.0, 3.0]);
    let out = while_loop(
        dev,
        &[lit(0u32), x.clone(), x.clone()],
        |s| op(Op::Lt, &[&s[0], &lit(5u32)]),
        |s| {
            let doubled = op(Op::Add, &[&s[1], &op(Op::Sqrt, &[&x])]);
            let big = op(Op::Gt, &[&doubled, &lit(4.0f32)]);
            let next = if_else(
                dev,
                &big,
                &[doubled, s[0].clone()],
                |a| {
                    buffer.scatter(Op::ScatterAdd, &a[0], &a[1], None);
                    vec![lit(0.0f32)]
                },
                |a| vec![a[0].clone()],
            );
            vec![op(Op::Add, &[&s[0], &lit(1u32)]), next[0].clone(), s[2].clone()]
        },
    );
    insta::assert_snapshot!(journey(&op(Op::Add, &[&out[1], &out[2]]), false));
}

#[test]
fn sine() {
    let dev = device();
    insta::assert_snapshot!(journey(&op(Op::Sin, &[&upload(dev, &[0.5f32, 1e9])]), false));
}
