//! Accuracy, special cases and shape of the lowered functions, by the reference interpreter.

mod accuracy;
mod shape;
mod special_cases;

use half::f16;

use crate::backend::{Arg, Launch};
use crate::dtype::DType;
use crate::interp;
use crate::ir::{Builder, ParamKind, Program, verify};
use crate::op::Op;

/// A program that stores a function of its loaded operands, before lowering.
fn program_of(op: Op, dtype: DType) -> Program {
    let mut b = Builder::new();
    let params: Vec<_> = (0..op.arity()).map(|_| b.param(ParamKind::In, dtype)).collect();
    let out = b.param(ParamKind::Out, dtype);
    let args: Vec<_> = params.into_iter().map(|p| b.read(Op::Load, p)).collect();
    let result = b.op(op, &args);
    b.store(out, result);
    b.finish(false)
}

fn lowered(op: Op, dtype: DType) -> Program {
    let mut program = program_of(op, dtype);
    super::run(&mut program);
    verify(&program).expect("a lowered program keeps the rules");
    program
}

/// Runs a program on one lane for each element of the operands.
fn evaluate(program: &Program, operands: &[Vec<u64>]) -> Vec<u64> {
    let lanes = operands[0].len();
    let sizes: Vec<usize> = program.params.iter().map(|p| p.dtype.size()).collect();
    let mut memory: Vec<Vec<u8>> = operands
        .iter()
        .zip(&sizes)
        .map(|(bits, &size)| bits.iter().flat_map(|b| b.to_le_bytes()[..size].to_vec()).collect())
        .collect();
    let out_size = sizes[operands.len()];
    memory.push(vec![0; lanes * out_size]);
    let args: Vec<Arg> =
        memory.iter_mut().map(|m| Arg::Memory { ptr: m.as_mut_ptr(), len: lanes as u64 }).collect();
    let launch = Launch { args: &args, lanes: lanes as u64, segment: 0, base: 0 };
    // SAFETY: each argument is memory of `lanes` elements of its parameter's size that outlives the call.
    unsafe { interp::run(program, &launch) };
    let element = |chunk: &[u8]| {
        let mut bytes = [0; 8];
        bytes[..out_size].copy_from_slice(chunk);
        u64::from_le_bytes(bytes)
    };
    memory.last().expect("the output").chunks(out_size).map(element).collect()
}

/// The value of f16, f32 or f64 bits.
fn value(dtype: DType, bits: u64) -> f64 {
    match dtype {
        DType::F16 => f16::from_bits(bits as u16).to_f64(),
        DType::F32 => f64::from(f32::from_bits(bits as u32)),
        _ => f64::from_bits(bits),
    }
}
