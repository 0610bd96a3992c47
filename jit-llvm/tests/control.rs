//! Loops and branches: diverging, uniform, nested, with effects inside.

use jit_core::dtype::DType;
use jit_core::ir::{Builder, ParamKind, Value};
use jit_core::op::Op;

use crate::harness::{Equal, Input, Random, check};

const SIZES: [u64; 8] = [1, 3, 4, 5, 8, 16, 17, 1000];

fn memory(elements: usize) -> Input {
    Input::Memory(vec![0; elements])
}

fn literal(b: &mut Builder, value: u64) -> Value {
    b.literal(DType::U32, value)
}

/// Lanes need between 0 and 178 rounds.
#[test]
fn collatz() {
    let mut b = Builder::new();
    let out = b.param(ParamKind::Out, DType::U32);
    let lane = b.counter(DType::U32);
    let one = literal(&mut b, 1);
    let start = b.op(Op::Add, &[lane, one]);
    let zero = literal(&mut b, 0);
    let state = b.open_block(&[DType::U32, DType::U32]);
    let more = b.op(Op::Ne, &[state[0], one]);
    let condition = b.close_block(&[more]);
    b.open_block(&[]);
    let half = b.op(Op::Shr, &[state[0], one]);
    let odd = b.op(Op::And, &[state[0], one]);
    let three = literal(&mut b, 3);
    let up = b.op(Op::MulAdd, &[state[0], three, one]);
    let is_odd = b.op(Op::Eq, &[odd, one]);
    let next = b.op(Op::Select, &[is_odd, up, half]);
    let count = b.op(Op::Add, &[state[1], one]);
    let body = b.close_block(&[next, count]);
    let results = b.inst(Op::Loop, 0, &[start, zero], &[DType::U32; 2], vec![condition, body]);
    b.store(out, results[1]);
    check(&b.finish(false), &[memory(1000)], &SIZES, 0, Equal::Bits);
}

/// State is assigned in parallel; here with types of several sizes, bool among them, and a uniform or varying bound.
#[test]
fn swapping_state() {
    for uniform in [true, false] {
        let mut b = Builder::new();
        let bound = b.param(if uniform { ParamKind::Scalar } else { ParamKind::In }, DType::U32);
        let input = b.param(ParamKind::In, DType::F64);
        let outs =
            [DType::F64, DType::F64, DType::Bool, DType::U8, DType::U32].map(|d| b.param(ParamKind::Out, d));
        let bound = b.read(if uniform { Op::Param } else { Op::Load }, bound);
        let x = b.read(Op::Load, input);
        let y = b.op(Op::Neg, &[x]);
        let no = b.literal(DType::Bool, 0);
        let byte = b.literal(DType::U8, 3);
        let zero = literal(&mut b, 0);
        let types = [DType::F64, DType::F64, DType::Bool, DType::U8, DType::U32];
        let s = b.open_block(&types);
        let more = b.op(Op::Lt, &[s[4], bound]);
        let condition = b.close_block(&[more]);
        b.open_block(&[]);
        let flipped = b.op(Op::Not, &[s[2]]);
        let product = b.op(Op::Mul, &[s[3], byte]);
        let one = literal(&mut b, 1);
        let count = b.op(Op::Add, &[s[4], one]);
        let body = b.close_block(&[s[1], s[0], flipped, product, count]);
        let results = b.inst(Op::Loop, 0, &[x, y, no, byte, zero], &types, vec![condition, body]);
        for (out, &result) in outs.into_iter().zip(&results) {
            b.store(out, result);
        }
        let program = b.finish(false);
        let mut random = Random(3);
        for rounds in [0, 1, 7] {
            let bound = if uniform {
                Input::Scalar(rounds)
            } else {
                Input::Memory((0..1000).map(|i| (i + rounds) % 9).collect())
            };
            let input = Input::Memory(random.many(DType::F64, 1000));
            let inputs = [bound, input, memory(1000), memory(1000), memory(1000), memory(1000), memory(1000)];
            check(&program, &inputs, &SIZES, 0, Equal::Bits);
        }
    }
}

/// A branch in a loop in a branch, with a store of its own in the middle: scatters happen once per active lane.
#[test]
fn effects_under_nested_masks() {
    let mut b = Builder::new();
    let input = b.param(ParamKind::In, DType::I32);
    let counts = b.param(ParamKind::InOut, DType::U32);
    let sums = b.param(ParamKind::InOut, DType::I64);
    let own = b.param(ParamKind::InOut, DType::I16);
    let out = b.param(ParamKind::Out, DType::I32);
    let x = b.read(Op::Load, input);
    let lane = b.counter(DType::U64);
    let zero = b.literal(DType::I32, 0);
    let positive = b.op(Op::Gt, &[x, zero]);

    b.open_block(&[]);
    let s = b.open_block(&[DType::I32, DType::I32]);
    let limit = b.literal(DType::I32, 5);
    let under = b.op(Op::Lt, &[s[0], limit]);
    let condition = b.close_block(&[under]);
    b.open_block(&[]);
    let two = b.literal(DType::I32, 2);
    let rest = b.op(Op::Rem, &[s[0], two]);
    let even = b.op(Op::Eq, &[rest, zero]);
    b.open_block(&[]);
    let bin = b.op(Op::And, &[x, limit]);
    let one = b.literal(DType::U32, 1);
    b.scatter(Op::ScatterAdd, counts, one, bin, None);
    let wide = b.cast(DType::I64, x);
    b.scatter(Op::ScatterAdd, sums, wide, bin, Some(positive));
    let seven = b.literal(DType::I32, 7);
    let then = b.close_block(&[seven]);
    b.open_block(&[]);
    // The lane sees what it added before.
    let before = b.gather(own, lane, None);
    let small = b.cast(DType::I16, x);
    let after = b.op(Op::Add, &[before, small]);
    b.scatter(Op::Scatter, own, after, lane, None);
    let again = b.gather(own, lane, None);
    let again = b.cast(DType::I32, again);
    let otherwise = b.close_block(&[again]);
    let got = b.inst(Op::If, 0, &[even], &[DType::I32], vec![then, otherwise])[0];
    let one = b.literal(DType::I32, 1);
    let next = b.op(Op::Add, &[s[0], one]);
    let sum = b.op(Op::Add, &[s[1], got]);
    let body = b.close_block(&[next, sum]);
    let looped = b.inst(Op::Loop, 0, &[x, x], &[DType::I32; 2], vec![condition, body]);
    let then = b.close_block(&[looped[1]]);
    b.open_block(&[]);
    let minus = b.op(Op::Neg, &[x]);
    let otherwise = b.close_block(&[minus]);
    let result = b.inst(Op::If, 0, &[positive], &[DType::I32], vec![then, otherwise])[0];
    b.store(out, result);
    let program = b.finish(false);

    let input: Vec<u64> = (0..1000).map(|i| (i * 7 % 13 - 5i64) as u64 & 0xffff_ffff).collect();
    let inputs = [Input::Memory(input), memory(8), memory(8), memory(1000), memory(1000)];
    check(&program, &inputs, &SIZES, 0, Equal::Bits);
    // Every lane idle.
    let inputs = [memory(1000), memory(8), memory(8), memory(1000), memory(1000)];
    check(&program, &inputs, &SIZES, 0, Equal::Bits);
}

/// `if`, `switch` and `if_any` with uniform and varying conditions, results of every form.
#[test]
fn branches_of_every_form() {
    for (kind, uniform) in [Op::If, Op::Switch, Op::IfAny].into_iter().flat_map(|k| [(k, true), (k, false)]) {
        let mut b = Builder::new();
        let condition_type = if kind == Op::Switch { DType::U8 } else { DType::Bool };
        let condition = b.param(if uniform { ParamKind::Scalar } else { ParamKind::In }, condition_type);
        let scalar = b.param(ParamKind::Scalar, DType::F32);
        let input = b.param(ParamKind::In, DType::F32);
        let outs = [0; 3].map(|_| b.param(ParamKind::Out, DType::F32));
        let condition = b.read(if uniform { Op::Param } else { Op::Load }, condition);
        let (s, x) = (b.read(Op::Param, scalar), b.read(Op::Load, input));
        b.open_block(&[]);
        let double = b.op(Op::Add, &[s, s]);
        let sum = b.op(Op::Add, &[s, x]);
        let then = b.close_block(&[double, sum, x]);
        let args = [condition, s, x, s];
        let blocks = if kind == Op::IfAny {
            vec![then]
        } else {
            b.open_block(&[]);
            let square = b.op(Op::Mul, &[s, s]);
            vec![then, b.close_block(&[square, x, square])]
        };
        let args = if kind == Op::IfAny { &args[..] } else { &args[..1] };
        let results = b.inst(kind, 0, args, &[DType::F32; 3], blocks);
        for (out, &result) in outs.into_iter().zip(&results) {
            b.store(out, result);
        }
        let program = b.finish(false);
        let input = Input::Memory((0..1000).map(|i| u64::from((i as f32).to_bits())).collect());
        for pattern in 0..4u64 {
            let condition = match uniform {
                true => Input::Scalar(pattern & 1),
                false => Input::Memory(
                    (0..1000).map(|i| [0, 1, i & 1, u64::from(i == 999)][pattern as usize]).collect(),
                ),
            };
            let scalar = Input::Scalar(u64::from(2.5f32.to_bits()));
            let inputs = [condition, scalar, input.clone(), memory(1000), memory(1000), memory(1000)];
            check(&program, &inputs, &SIZES, 0, Equal::Bits);
        }
    }
}

/// A uniform value that a diverging loop changes is uniform no more; one that it does not change stays so.
#[test]
fn uniform_state_in_a_diverging_loop() {
    let mut b = Builder::new();
    let bound = b.param(ParamKind::In, DType::U32);
    let outs = [0; 2].map(|_| b.param(ParamKind::Out, DType::U32));
    let bound = b.read(Op::Load, bound);
    let (zero, step) = (literal(&mut b, 0), literal(&mut b, 3));
    let s = b.open_block(&[DType::U32; 2]);
    let more = b.op(Op::Lt, &[s[0], bound]);
    let condition = b.close_block(&[more]);
    b.open_block(&[]);
    // An inner loop whose trip count is the same on all lanes.
    let inner = b.open_block(&[DType::U32; 2]);
    let inner_more = b.op(Op::Lt, &[inner[0], step]);
    let inner_condition = b.close_block(&[inner_more]);
    b.open_block(&[]);
    let one = literal(&mut b, 1);
    let inner_next = b.op(Op::Add, &[inner[0], one]);
    let inner_sum = b.op(Op::Add, &[inner[1], inner_next]);
    let inner_body = b.close_block(&[inner_next, inner_sum]);
    let added = b.inst(Op::Loop, 0, &[zero, s[1]], &[DType::U32; 2], vec![inner_condition, inner_body]);
    let next = b.op(Op::Add, &[s[0], step]);
    let body = b.close_block(&[next, added[1]]);
    let results = b.inst(Op::Loop, 0, &[zero, zero], &[DType::U32; 2], vec![condition, body]);
    for (out, &result) in outs.into_iter().zip(&results) {
        b.store(out, result);
    }
    let bounds = Input::Memory((0..1000).map(|i| i % 23).collect());
    check(&b.finish(false), &[bounds, memory(1000), memory(1000)], &SIZES, 0, Equal::Bits);
}

/// A float remainder brings blocks of its own into a loop's body and a branch.
#[test]
fn blocks_within_templates() {
    let mut b = Builder::new();
    let input = b.param(ParamKind::In, DType::F32);
    let scalar = b.param(ParamKind::Scalar, DType::F32);
    let out = b.param(ParamKind::Out, DType::F32);
    let (x, s) = (b.read(Op::Load, input), b.read(Op::Param, scalar));
    let uniform = b.op(Op::Rem, &[s, s]);
    let one = b.literal(DType::F32, u64::from(1f32.to_bits()));
    let s2 = b.open_block(&[DType::F32]);
    let more = b.op(Op::Gt, &[s2[0], one]);
    let condition = b.close_block(&[more]);
    b.open_block(&[]);
    let rest = b.op(Op::Rem, &[s2[0], s]);
    let smaller = b.op(Op::Sub, &[rest, one]);
    let body = b.close_block(&[smaller]);
    let looped = b.inst(Op::Loop, 0, &[x], &[DType::F32], vec![condition, body])[0];
    let result = b.op(Op::Add, &[looped, uniform]);
    b.store(out, result);
    let values = (0..1000).map(|i| u64::from((i as f32 * 17.3).to_bits())).collect();
    let inputs = [Input::Memory(values), Input::Scalar(u64::from(7.25f32.to_bits())), memory(1000)];
    check(&b.finish(false), &inputs, &SIZES, 0, Equal::Bits);
}

/// Lanes enter a uniform loop's state by way of its body only, one value after the other.
#[test]
fn state_that_comes_to_vary_in_the_body() {
    let mut b = Builder::new();
    let bound = b.param(ParamKind::Scalar, DType::U32);
    let outs = [0; 4].map(|_| b.param(ParamKind::Out, DType::U32));
    let bound = b.read(Op::Param, bound);
    let (zero, one) = (literal(&mut b, 0), literal(&mut b, 1));
    let lane = b.counter(DType::U32);
    let s = b.open_block(&[DType::U32; 4]);
    let more = b.op(Op::Lt, &[s[0], bound]);
    let condition = b.close_block(&[more]);
    b.open_block(&[]);
    let next = b.op(Op::Add, &[s[0], one]);
    let sum = b.op(Op::Add, &[s[3], lane]);
    let body = b.close_block(&[next, s[2], s[3], sum]);
    let results = b.inst(Op::Loop, 0, &[zero; 4], &[DType::U32; 4], vec![condition, body]);
    for (out, &result) in outs.into_iter().zip(&results) {
        b.store(out, result);
    }
    let program = b.finish(false);
    for rounds in [0, 1, 2, 9] {
        let outs = (0..4).map(|_| memory(1000));
        let inputs: Vec<_> = [Input::Scalar(rounds)].into_iter().chain(outs).collect();
        check(&program, &inputs, &SIZES, 0, Equal::Bits);
    }
}
