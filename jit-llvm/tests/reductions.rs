//! Reductions in their fixed order, and finishes.

use jit_core::dtype::{ALL_DTYPES, DType, is_nan};
use jit_core::ir::{Builder, ParamKind, Program};
use jit_core::op::{ALL_OPS, Class, Op};
use jit_core::reduce;

use crate::harness::{Equal, Input, Random, backends, check, run};

const SIZES: [u64; 12] = [0, 1, 5, 16, 127, 128, 129, 1023, 1024, 1025, 5000, 100_003];

fn reductions_of(dtype: DType) -> Vec<Op> {
    let takes = |op: &Op| {
        op.class() == Class::Reduce && op.combine().is_some_and(|c| c.result_type(&[dtype; 2], dtype).is_ok())
    };
    ALL_OPS.iter().copied().filter(takes).collect()
}

/// Every reduction of a type over one input, stored by the finish.
fn all_reductions(dtype: DType) -> (Program, Vec<Op>) {
    let ops = reductions_of(dtype);
    (reductions(dtype, &ops), ops)
}

fn reductions(dtype: DType, ops: &[Op]) -> Program {
    let mut b = Builder::new();
    let input = b.param(ParamKind::In, dtype);
    let outs: Vec<_> = ops.iter().map(|_| b.param(ParamKind::Out, dtype)).collect();
    let x = b.read(Op::Load, input);
    for &op in ops {
        b.inst(op, 0, &[x], &[], vec![]);
    }
    let totals = b.start_finish(&vec![dtype; ops.len()]);
    for (out, total) in outs.into_iter().zip(totals) {
        b.store(out, total);
    }
    b.finish(true)
}

/// A short body has its accumulators in registers.
#[test]
fn each_reduction_by_itself() {
    let lanes = [0, 1, 31, 32, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1024, 1151, 1152, 3000, 70_001];
    for dtype in ALL_DTYPES {
        let mut random = Random(21);
        let mut input: Vec<u64> = random.many(dtype, 70_001);
        if dtype.is_float() {
            // In front numbers alone, so that sums of them are numbers.
            let number = |k: usize| {
                let number = f64::from(k as u32 * 37 % 101) / 16.0 - 3.0;
                jit_core::op::scalar::cast(DType::F64, dtype, number.to_bits())
            };
            (0..2000).for_each(|k| input[k] = number(k));
        }
        for op in reductions_of(dtype) {
            let program = reductions(dtype, &[op]);
            let inputs = [Input::Memory(input.clone()), Input::Memory(vec![0])];
            check(&program, &inputs, &lanes, 0, Equal::Values);
        }
    }
}

#[test]
fn reductions_of_all_types() {
    for dtype in ALL_DTYPES {
        let (program, ops) = all_reductions(dtype);
        let mut random = Random(6);
        // Without infinities and NaN, so that sums say something; with them in the second round.
        for special in [false, true] {
            let number = |r: &mut Random| {
                let small = jit_core::op::scalar::cast(
                    DType::F64,
                    dtype,
                    (r.below(2000) as f64 / 1000.0 - 0.9).to_bits(),
                );
                if special && r.below(500) == 0 { r.bits(dtype) } else { small }
            };
            let input: Vec<u64> = (0..100_003).map(|_| number(&mut random)).collect();
            let memory = [Input::Memory(input.clone())];
            let inputs: Vec<_> =
                memory.into_iter().chain(ops.iter().map(|_| Input::Memory(vec![0]))).collect();
            check(&program, &inputs, &SIZES, 0, Equal::Values);
            // The interpreter has its own loop over chunks: once against the rule itself.
            let (_, backend) = &backends()[1];
            for &n in &SIZES {
                let got = run(backend, &program, &inputs, n);
                for (k, op) in ops.iter().enumerate() {
                    let combine = op.combine().expect("it combines");
                    let want = reduce::fold(combine, dtype, input[..n as usize].to_vec());
                    let got = got[k + 1][0];
                    let both_nan = is_nan(dtype, want) && is_nan(dtype, got);
                    assert!(want == got || both_nan, "{} of {n} {dtype}: {got:#x}, not {want:#x}", op.name());
                }
            }
        }
    }
}

/// A product, its sum, and the elements stored by one program; the finish computes with what it was given.
#[test]
fn a_finish_computes() {
    let mut b = Builder::new();
    let [x, y] = [0; 2].map(|_| b.param(ParamKind::In, DType::F32));
    let n = b.param(ParamKind::Scalar, DType::F32);
    let lanes = b.param(ParamKind::Out, DType::F32);
    let mean = b.param(ParamKind::Out, DType::F32);
    let count = b.param(ParamKind::Out, DType::U32);
    let table = b.param(ParamKind::In, DType::F32);
    let (x, y) = (b.read(Op::Load, x), b.read(Op::Load, y));
    let product = b.op(Op::Mul, &[x, y]);
    b.store(lanes, product);
    b.inst(Op::ReduceSum, 0, &[product], &[], vec![]);
    let less = b.op(Op::Lt, &[x, y]);
    let less = b.cast(DType::U32, less);
    b.inst(Op::ReduceSum, 0, &[less], &[], vec![]);
    // A value that all lanes share.
    let one = b.literal(DType::U32, 1);
    b.inst(Op::ReduceSum, 0, &[one], &[], vec![]);
    let totals = b.start_finish(&[DType::F32, DType::U32, DType::U32]);
    let n = b.read(Op::Param, n);
    let quotient = b.op(Op::Div, &[totals[0], n]);
    let half = b.literal(DType::U32, 100);
    let many = b.op(Op::Gt, &[totals[1], half]);
    b.open_block(&[]);
    let root = b.op(Op::Sqrt, &[n]);
    let then = b.close_block(&[root]);
    b.open_block(&[]);
    let rest = b.op(Op::Rem, &[n, quotient]);
    let otherwise = b.close_block(&[rest]);
    let chosen = b.inst(Op::If, 0, &[many], &[DType::F32], vec![then, otherwise])[0];
    let index = b.literal(DType::I32, 1);
    let outside = b.literal(DType::I32, 0xffff_ffff);
    let inside = b.gather(table, index, Some(many));
    let nothing = b.gather(table, outside, None);
    let read = b.op(Op::Add, &[inside, nothing]);
    let back = b.op(Op::Add, &[chosen, read]);
    let result = b.op(Op::Add, &[quotient, back]);
    b.store(mean, result);
    let counted = b.op(Op::Add, &[totals[1], totals[2]]);
    b.store(count, counted);
    let program = b.finish(true);

    let mut random = Random(8);
    let mut floats =
        || Input::Memory((0..5000).map(|_| u64::from((random.below(1000) as f32 / 7.0).to_bits())).collect());
    let memory = [floats(), floats()];
    let rest = [5000, 1, 1].map(|n| Input::Memory(vec![0; n]));
    let table = [Input::Memory([1.5f32, 2.25, 3.0].map(|v| u64::from(v.to_bits())).to_vec())];
    let scalar = [Input::Scalar(u64::from(4999.5f32.to_bits()))];
    let inputs: Vec<_> = memory.into_iter().chain(scalar).chain(rest).chain(table).collect();
    check(&program, &inputs, &[0, 1, 100, 1023, 5000], 0, Equal::Values);
}
