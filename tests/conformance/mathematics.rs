//! Mathematical functions have equal bits on every backend, whatever their arguments; how exact they are is measured
//! beside the pass that lowers them, on the interpreter alone.

use std::sync::Arc;

use jit_core::backend::{Backend, CompiledKernel, PassLevel};
use jit_core::dtype::{ALL_DTYPES, DType, format_bits, is_nan};
use jit_core::interp::{Interpreter, Mode};
use jit_core::ir::{Builder, ParamKind, Program};
use jit_core::op::{ALL_OPS, Class, Op, scalar};
use jit_core::passes;
use jit_llvm::{LlvmBackend, LlvmOptions};

use crate::launch::{Argument, Size, launch};

/// Not a multiple of any vector width.
const LANES: usize = 6007;

#[test]
fn functions_have_equal_bits() {
    let reference = Interpreter::new(Mode::Lowered);
    let processors = [4, 8, 16].map(|width| {
        let options = LlvmOptions { vector_width: Some(width), threads: Some(1), ..Default::default() };
        (width, LlvmBackend::new(options).expect("LLVM is a requirement of the tests"))
    });
    for &op in ALL_OPS.iter().filter(|op| op.class() == Class::Math) {
        for dtype in ALL_DTYPES.into_iter().filter(|d| d.is_float()) {
            let program = program(op, dtype);
            let operands = arguments(op, dtype);
            let compile = |backend: &dyn Backend| backend.compile(&program).expect("a lowered program");
            let expected = run(compile(&reference), &program, &operands);
            for (width, backend) in &processors {
                let got = run(compile(backend), &program, &operands);
                for (lane, (&got, &expected)) in got.iter().zip(&expected).enumerate() {
                    let equal = got == expected || is_nan(dtype, got) && is_nan(dtype, expected);
                    let args: Vec<String> = operands.iter().map(|o| format_bits(dtype, o[lane])).collect();
                    let (name, got, expected) =
                        (op.name(), format_bits(dtype, got), format_bits(dtype, expected));
                    assert!(equal, "{name} {dtype} of {args:?} at width {width}: {got}, not {expected}");
                }
            }
        }
    }
}

/// A function of loaded operands, through all passes.
fn program(op: Op, dtype: DType) -> Program {
    let mut b = Builder::new();
    let params: Vec<_> = (0..op.arity()).map(|_| b.param(ParamKind::In, dtype)).collect();
    let out = b.param(ParamKind::Out, dtype);
    let args: Vec<_> = params.into_iter().map(|p| b.read(Op::Load, p)).collect();
    let result = b.op(op, &args);
    b.store(out, result);
    let mut program = b.finish(false);
    passes::run(&mut program, PassLevel::Full, &passes::Options::default(), &mut |_, _| ());
    program
}

/// For each operand one value a lane: half of them with bits all over the type, half of ordinary size, so that
/// vectors hold lanes that need a cold block, lanes that do not, and both.
fn arguments(op: Op, dtype: DType) -> Vec<Vec<u64>> {
    let mut state = op as u64;
    // Steele, Lea, Flood: SplitMix64.
    let mut random = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let mut lane = |i: usize| match i / 64 % 4 {
        0 | 1 => {
            let unit = (random() >> 11) as f64 / (1u64 << 53) as f64;
            scalar::cast(DType::F64, dtype, (unit * 40.0 - 10.0).to_bits())
        }
        2 => random() >> (64 - dtype.bits()),
        _ if random() % 8 == 0 => random() >> (64 - dtype.bits()),
        _ => scalar::cast(DType::F64, dtype, ((random() % 2000) as f64 / 64.0).to_bits()),
    };
    (0..op.arity()).map(|_| (0..LANES).map(&mut lane).collect()).collect()
}

fn run(kernel: Arc<dyn CompiledKernel>, program: &Program, operands: &[Vec<u64>]) -> Vec<u64> {
    let mut arguments: Vec<Argument> = operands.iter().cloned().map(Argument::Memory).collect();
    arguments.push(Argument::Memory(vec![0; LANES]));
    let size = Size { lanes: LANES as u64, segment: 0, base: 0 };
    launch(&*kernel, program, &mut arguments, size);
    match arguments.pop() {
        Some(Argument::Memory(result)) => result,
        other => panic!("{other:?} is no output"),
    }
}
