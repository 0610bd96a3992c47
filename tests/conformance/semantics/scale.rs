//! Much of everything: operands, nesting, nodes.

use jit_core::dtype::DType;
use jit_core::interp::Mode;
use jit_core::op::Op;
use jit_core::runtime::Device;
use jit_core::trace::{Var, eval, if_else, while_loop};

use super::check::apply;
use super::misuse::panics;
use crate::devices::{all, on_each};
use crate::host::{lit, read, upload};

/// Loops and branches in each other, `depth` deep, around an addition.
fn nested(x: &Var, depth: u32) -> Var {
    let device = x.device().expect("bound");
    if depth == 0 {
        return apply(Op::Add, &[x, &lit(1u32)]);
    }
    if depth.is_multiple_of(2) {
        let yes = Var::apply(Op::Lt, DType::Bool, &[&lit(0u32), x]);
        return if_else(device, &yes, std::slice::from_ref(x), |a| vec![nested(&a[0], depth - 1)], |a| a)[0]
            .clone();
    }
    while_loop(
        device,
        &[x.clone(), lit(false)],
        |s| apply(Op::Not, &[&s[1]]),
        |s| vec![nested(&s[0], depth - 1), lit(true)],
    )[0]
    .clone()
}

#[test]
fn regions_nest_255_deep_and_no_deeper() {
    on_each(|device| {
        let x = upload(device, &[0u32, 1, 5]);
        // The innermost region but one is a branch for positive numbers.
        assert_eq!(read::<u32>(&nested(&x, 255)), [0, 2, 6]);
        let message = panics(|| drop(nested(&x, 256)));
        assert!(message.contains("at most 255 deep"), "{message}");
        assert_eq!(read::<u32>(&nested(&x, 3)), [0, 2, 6]);
    });
}

#[test]
fn a_kernel_takes_300_arrays() {
    on_each(|device| {
        let inputs: Vec<Var> = (0..300u32).map(|k| upload(device, &[k, 2 * k])).collect();
        let sum = inputs[1..].iter().fold(inputs[0].clone(), |sum, x| apply(Op::Add, &[&sum, x]));
        assert_eq!(read::<u32>(&sum), [44_850, 89_700]);
        let out: Vec<Var> = inputs.iter().map(|x| apply(Op::Xor, &[x, &lit(1u32)])).collect();
        eval(&out.iter().collect::<Vec<_>>(), &[]).expect("evaluation");
        for (k, x) in out.iter().enumerate() {
            assert_eq!(read::<u32>(x), [k as u32 ^ 1, (2 * k as u32) ^ 1]);
        }
    });
}

#[test]
fn one_kernel_takes_300_arrays() {
    // Nobody else uses this device.
    let device = Device::interpreter(Mode::Lowered);
    let inputs: Vec<Var> = (0..300u32).map(|k| upload(device, &[k, 2 * k])).collect();
    let sum = inputs[1..].iter().fold(inputs[0].clone(), |sum, x| apply(Op::Add, &[&sum, x]));
    assert_eq!(read::<u32>(&sum), [44_850, 89_700]);
    let history = device.kernel_history();
    assert_eq!((history.len(), history[0].inputs), (1, 300));
}

#[test]
fn a_million_ops_are_traced_dumped_evaluated_and_dropped() {
    let device = all()[0];
    let x = upload(device, &[1u32, 2]);
    let mut y = x.clone();
    let mut expected = [1u32, 2];
    for k in 0..1_000_000u32 {
        let add = k % 2 == 0;
        y = apply(if add { Op::Add } else { Op::Xor }, &[&y, &x]);
        expected = [0, 1]
            .map(|i| if add { expected[i].wrapping_add(i as u32 + 1) } else { expected[i] ^ (i as u32 + 1) });
    }
    assert!(y.trace().lines().count() > 1_000_000);
    assert_eq!(read::<u32>(&y), expected);
    // As many that nobody asks for.
    let mut z = x.clone();
    for _ in 0..1_000_000 {
        z = apply(Op::Mul, &[&z, &x]);
    }
    drop(z);
}
