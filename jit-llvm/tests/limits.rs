//! Large programs, deep nesting, what is refused, what comes back as text.

use std::sync::Arc;

use jit_core::backend::{Arg, Backend, Launch};
use jit_core::dtype::DType;
use jit_core::error::Error;
use jit_core::ir::{Builder, ParamKind, Program, Value};
use jit_core::op::Op;
use jit_llvm::{LlvmBackend, LlvmOptions, ir_text};

use crate::harness::{Equal, Input, Random, backends, check, check_compiled};

/// A straight line of `n` ops on the last `window` values.
fn line(n: usize, window: usize) -> Program {
    let mut b = Builder::new();
    let input = b.param(ParamKind::In, DType::F32);
    let out = b.param(ParamKind::Out, DType::F32);
    let mut values: Vec<Value> = vec![b.read(Op::Load, input)];
    let mut random = Random(1);
    let pick = |values: &[Value], r: &mut Random| {
        values[values.len() - 1 - r.below(values.len().min(window) as u64) as usize]
    };
    for k in 0..n {
        let (x, y) = (pick(&values, &mut random), pick(&values, &mut random));
        let op = [Op::Add, Op::Mul, Op::Sub, Op::Max][k % 4];
        let value = b.op(op, &[x, y]);
        values.push(value);
    }
    let sum = values[values.len() - 100..].to_vec();
    let total = sum.into_iter().reduce(|a, v| b.op(Op::Add, &[a, v])).expect("a value");
    b.store(out, total);
    b.finish(false)
}

fn floats(n: usize) -> Input {
    Input::Memory((0..n).map(|i| u64::from((i as f32 / n as f32).to_bits())).collect())
}

#[test]
fn fifty_thousand_ops() {
    let program = line(50_000, 30);
    let (name, backend) = &backends()[2];
    let kernel = backend.compile(&program).expect("it compiles");
    let inputs = [floats(40), Input::Memory(vec![0; 40])];
    check_compiled(&program, &[(name, kernel)], &inputs, &[40], 0, Equal::Values, &[]);
}

/// Around the length above which every vector takes the masked form.
#[test]
fn long_programs_with_a_tail() {
    for n in [140, 170] {
        check(&line(n, 200), &[floats(100), Input::Memory(vec![0; 100])], &[3, 16, 100], 0, Equal::Values);
    }
}

#[test]
fn nested_255_deep() {
    for kind in [Op::If, Op::Switch, Op::Loop] {
        let mut b = Builder::new();
        let out = b.param(ParamKind::Out, DType::U32);
        let lane = b.counter(DType::U32);
        let one = b.literal(DType::U32, 1);
        // Opens all blocks on the way down, closes them on the way up.
        let mut states = vec![lane];
        let mut opened = Vec::new();
        for depth in 0..255 {
            let limit = b.literal(DType::U32, 400 - depth);
            let outer = *states.last().expect("a value");
            if kind != Op::Loop {
                let condition = b.op(Op::Lt, &[outer, limit]);
                let condition = if kind == Op::Switch { b.cast(DType::U32, condition) } else { condition };
                b.open_block(&[]);
                let next = b.op(Op::Add, &[outer, one]);
                opened.push((outer, condition, None));
                states.push(next);
            } else {
                let s = b.open_block(&[DType::U32]);
                let more = b.op(Op::Lt, &[s[0], limit]);
                let condition = b.close_block(&[more]);
                b.open_block(&[]);
                let next = b.op(Op::Add, &[s[0], limit]);
                opened.push((outer, more, Some(condition)));
                states.push(next);
            }
        }
        let mut inner = *states.last().expect("a value");
        for (outer, condition, loop_condition) in opened.into_iter().rev() {
            let block = b.close_block(&[inner]);
            inner = match loop_condition {
                Some(c) => b.inst(Op::Loop, 0, &[outer], &[DType::U32], vec![c, block])[0],
                None => {
                    b.open_block(&[]);
                    let otherwise = b.close_block(&[outer]);
                    b.inst(kind, 0, &[condition], &[DType::U32], vec![block, otherwise])[0]
                }
            };
        }
        b.store(out, inner);
        check(&b.finish(false), &[Input::Memory(vec![0; 500])], &[1, 500], 0, Equal::Bits);
    }
}

/// Mathematical functions are lowered before a backend sees them.
#[test]
fn an_unlowered_function_is_an_error() {
    let mut b = Builder::new();
    let input = b.param(ParamKind::In, DType::F32);
    let out = b.param(ParamKind::Out, DType::F32);
    let x = b.read(Op::Load, input);
    let y = b.op(Op::Sin, &[x]);
    b.store(out, y);
    let error = backends()[0].1.compile(&b.finish(false)).err().expect("an error");
    assert!(matches!(error, Error::Unsupported { op: "sin", dtype: DType::F32, backend: "cpu" }), "{error}");
}

#[test]
fn options_that_no_backend_can_have() {
    for options in [
        LlvmOptions { vector_width: Some(5), ..Default::default() },
        LlvmOptions { vector_width: Some(32), ..Default::default() },
        LlvmOptions { threads: Some(0), ..Default::default() },
    ] {
        assert!(matches!(LlvmBackend::new(options), Err(Error::Config(_))));
    }
}

#[test]
fn arguments_that_do_not_match() {
    let program = line(200, 200);
    let kernel = backends()[0].1.compile(&program).expect("it compiles");
    // SAFETY: the launch is refused before it touches memory.
    let result = unsafe { kernel.launch(&Launch { args: &[], lanes: 1, segment: 0, base: 0 }) };
    assert!(matches!(result, Err(Error::Execution(_))));
}

#[test]
fn text_of_a_kernel() {
    let mut b = Builder::new();
    let input = b.param(ParamKind::In, DType::F32);
    let out = b.param(ParamKind::Out, DType::F32);
    let x = b.read(Op::Load, input);
    let y = b.op(Op::MulAdd, &[x, x, x]);
    b.store(out, y);
    let program = b.finish(false);
    let text = ir_text(&program, 8).expect("text");
    assert!(text.contains("@llvm.fma.v8f32"), "{text}");
    assert_eq!(text, ir_text(&program, 8).expect("text"), "the same text each time");
    let backend = &backends()[0].1;
    assert!(backend.llvm_ir(&program).expect("text").contains("@llvm.fma.v4f32"));
    assert!(backend.asm(&program).expect("text").contains("body:"));
}

/// Kernels come and go on several threads at once; libraries are used again.
#[test]
fn kernels_on_several_threads() {
    let (name, backend) = &backends()[1];
    let program = Arc::new(line(150, 200));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let program = Arc::clone(&program);
            scope.spawn(move || {
                for _ in 0..5 {
                    let kernel = backend.compile(&program).expect("it compiles");
                    let inputs = [floats(3000), Input::Memory(vec![0; 3000])];
                    check_compiled(&program, &[(name, kernel)], &inputs, &[3000], 0, Equal::Values, &[]);
                }
            });
        }
    });
}

/// Thousands of values that live at once take more stack than the calling thread has.
#[test]
fn frames_larger_than_the_callers_stack() {
    let mut b = Builder::new();
    let (input, out) = (b.param(ParamKind::In, DType::F32), b.param(ParamKind::Out, DType::F32));
    let mut values = vec![b.read(Op::Load, input)];
    for k in 0..4000 {
        let last = values[k];
        values.push(b.op([Op::Add, Op::Mul][k % 2], &[last, values[k / 2]]));
    }
    // The last is needed first.
    let mut total = values.pop().expect("a value");
    while let Some(value) = values.pop() {
        total = b.op([Op::Sub, Op::Max][values.len() % 2], &[total, value]);
    }
    b.store(out, total);
    let program = b.finish(false);
    for (name, backend) in backends() {
        let kernel = backend.compile(&program).expect("it compiles");
        on_a_small_stack(|| {
            let inputs = [floats(200), Input::Memory(vec![0; 200])];
            check_compiled(&program, &[(name, kernel)], &inputs, &[1, 200], 0, Equal::Values, &[]);
        });
    }
}

/// A thousand reductions have their accumulators in one frame.
#[test]
fn accumulators_larger_than_the_callers_stack() {
    let mut b = Builder::new();
    let input = b.param(ParamKind::In, DType::F64);
    let outs: Vec<_> = (0..1000).map(|_| b.param(ParamKind::Out, DType::F64)).collect();
    let mut value = b.read(Op::Load, input);
    for _ in &outs {
        value = b.op(Op::Add, &[value, value]);
        b.inst(Op::ReduceMax, 0, &[value], &[], vec![]);
    }
    let totals = b.start_finish(&[DType::F64; 1000]);
    for (&out, &total) in outs.iter().zip(&totals) {
        b.store(out, total);
    }
    let program = b.finish(true);
    let (name, backend) = &backends()[0];
    let kernel = backend.compile(&program).expect("it compiles");
    on_a_small_stack(|| {
        let input = Input::Memory((0..200).map(|i| f64::from(i).to_bits()).collect());
        let outs = (0..1000).map(|_| Input::Memory(vec![0]));
        let inputs: Vec<Input> = [input].into_iter().chain(outs).collect();
        check_compiled(&program, &[(name, kernel)], &inputs, &[1, 200], 0, Equal::Values, &[]);
    });
}

fn on_a_small_stack(run: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(128 << 10);
        thread.spawn_scoped(scope, run).expect("a thread").join().expect("the stack suffices");
    });
}

/// An index of 32 bits is unsigned when its type is: beyond 2^31 elements it reaches further on, not back.
#[test]
fn gather_past_two_to_the_31() {
    let mut b = Builder::new();
    let source = b.param(ParamKind::In, DType::U8);
    let index = b.param(ParamKind::In, DType::U32);
    let out = b.param(ParamKind::Out, DType::U8);
    let i = b.read(Op::Load, index);
    let value = b.gather(source, i, None);
    b.store(out, value);
    let program = b.finish(false);
    // Untouched pages of zeros take no memory.
    let mut source = vec![0u8; (1 << 31) + 64];
    source[(1 << 31) + 5] = 7;
    source[5] = 1;
    let mut indices: [u32; 5] = [(1 << 31) + 5, 5, 1 << 31, u32::MAX, (1 << 31) + 64];
    for (name, backend) in backends() {
        let mut got = [9u8; 5];
        let args = [
            Arg::Memory { ptr: source.as_mut_ptr(), len: source.len() as u64 },
            Arg::Memory { ptr: indices.as_mut_ptr().cast(), len: 5 },
            Arg::Memory { ptr: got.as_mut_ptr(), len: 5 },
        ];
        let kernel = backend.compile(&program).expect("it compiles");
        // SAFETY: the arguments are the arrays above, with their lengths.
        unsafe { kernel.launch(&Launch { args: &args, lanes: 5, segment: 0, base: 0 }) }.expect("it runs");
        assert_eq!(got, [7, 1, 0, 0, 0], "{name}");
    }
}
