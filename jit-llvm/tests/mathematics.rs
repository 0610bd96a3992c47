//! Mathematical functions as `lower_math` leaves them: long chains, tables, cold blocks.

use jit_core::dtype::DType;
use jit_core::ir::{Builder, ParamKind};
use jit_core::op::{ALL_OPS, Class};
use jit_core::passes::lower_math;

use crate::harness::{Equal, Input, Random, check};

#[test]
fn lowered_functions() {
    for dtype in [DType::F16, DType::F32, DType::F64] {
        for &op in ALL_OPS.iter().filter(|op| op.class() == Class::Math) {
            let mut b = Builder::new();
            let inputs: Vec<_> = (0..op.arity()).map(|_| b.param(ParamKind::In, dtype)).collect();
            let out = b.param(ParamKind::Out, dtype);
            let args: Vec<_> = inputs.iter().map(|&p| b.read(jit_core::op::Op::Load, p)).collect();
            let value = b.op(op, &args);
            b.store(out, value);
            let mut program = b.finish(false);
            lower_math::run(&mut program);
            let mut random = Random(31);
            let n = 3000;
            let moderate = |r: &mut Random| (r.below(4000) as f64 / 100.0 - 20.0).to_bits();
            let number = |r: &mut Random| match r.below(2) {
                0 => r.bits(dtype),
                _ => jit_core::op::scalar::cast(DType::F64, dtype, moderate(r)),
            };
            let mut many = || Input::Memory((0..n).map(|_| number(&mut random)).collect());
            let mut memory: Vec<_> = inputs.iter().map(|_| many()).collect();
            memory.push(Input::Memory(vec![0; n]));
            check(&program, &memory, &[1, 13, n as u64], 0, Equal::Values);
        }
    }
}
