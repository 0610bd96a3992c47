//! Every pure op on every element type.

use jit_core::dtype::{ALL_DTYPES, DType};
use jit_core::ir::{Builder, ParamKind, Program, Value};
use jit_core::op::{ALL_OPS, Class, Op, Rule};

use crate::harness::{Equal, Input, Random, check, special_values};

/// Where operands come from.
#[derive(Clone, Copy)]
enum Operand {
    Load,
    Scalar,
    Literal(u64),
}

/// A program that stores every op that takes operands of a type; with the dtypes of its outputs.
fn all_ops(dtype: DType, operands: [Operand; 3]) -> (Program, Vec<DType>) {
    let mut b = Builder::new();
    let values: Vec<Value> = operands
        .into_iter()
        .map(|operand| match operand {
            Operand::Load => {
                let p = b.param(ParamKind::In, dtype);
                b.read(Op::Load, p)
            }
            Operand::Scalar => {
                let p = b.param(ParamKind::Scalar, dtype);
                b.read(Op::Param, p)
            }
            Operand::Literal(bits) => b.literal(dtype, bits),
        })
        .collect();
    let condition = b.param(ParamKind::In, DType::Bool);
    let condition = b.read(Op::Load, condition);
    let mut outputs = Vec::new();
    for &op in ALL_OPS {
        if op.class() != Class::Lane || matches!(op.rule(), Rule::Cast) {
            continue;
        }
        let results = match op.rule() {
            Rule::Select => vec![b.op(op, &[condition, values[0], values[1]])],
            Rule::Bitcast => {
                let same_size =
                    |t: &DType| dtype != DType::Bool && *t != DType::Bool && t.size() == dtype.size();
                ALL_DTYPES
                    .into_iter()
                    .filter(same_size)
                    .map(|t| b.inst(op, 0, &values[..1], &[t], vec![])[0])
                    .collect()
            }
            _ if op.result_type(&vec![dtype; op.arity()], dtype).is_err() => continue,
            _ => vec![b.op(op, &values[..op.arity()])],
        };
        for result in results {
            let ty = b.dtype(result);
            let out = b.param(ParamKind::Out, ty);
            b.store(out, result);
            outputs.push(ty);
        }
    }
    (b.finish(false), outputs)
}

fn outputs(types: &[DType], n: usize) -> impl Iterator<Item = Input> {
    types.iter().map(move |_| Input::Memory(vec![0; n]))
}

fn pairs(dtype: DType) -> (Vec<u64>, Vec<u64>) {
    if dtype.bits() == 8 {
        return (0..1 << 16).map(|i| (i & 255, i >> 8)).unzip();
    }
    let special = special_values(dtype);
    let mut random = Random(7);
    let special = special.iter().flat_map(|&a| special.iter().map(move |&b| (a, b)));
    let more: Vec<_> = (0..4000).map(|_| (random.bits(dtype), random.bits(dtype))).collect();
    special.chain(more).unzip()
}

fn check_type(dtype: DType) {
    let (a, b) = pairs(dtype);
    let n = a.len();
    let mut random = Random(11);
    let c = random.many(dtype, n);
    let condition: Vec<u64> = (0..n).map(|_| random.below(2)).collect();
    let (program, types) = all_ops(dtype, [Operand::Load; 3]);
    let memory = [a, b, c, condition].map(Input::Memory);
    let inputs: Vec<_> = memory.into_iter().chain(outputs(&types, n)).collect();
    check(&program, &inputs, &[1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33, n as u64], 0, Equal::Values);
}

#[test]
fn ops_on_bool() {
    check_type(DType::Bool);
}

#[test]
fn ops_on_small_integers() {
    [DType::I8, DType::U8, DType::I16, DType::U16].into_iter().for_each(check_type);
}

#[test]
fn ops_on_i32_and_u32() {
    [DType::I32, DType::U32].into_iter().for_each(check_type);
}

#[test]
fn ops_on_i64_and_u64() {
    [DType::I64, DType::U64].into_iter().for_each(check_type);
}

#[test]
fn ops_on_f16() {
    check_type(DType::F16);
}

#[test]
fn ops_on_f32() {
    check_type(DType::F32);
}

#[test]
fn ops_on_f64() {
    check_type(DType::F64);
}

/// Operands that are the same on all lanes take the scalar templates, in the function's entry.
#[test]
fn ops_on_uniform_operands() {
    for dtype in ALL_DTYPES {
        let (program, types) = all_ops(dtype, [Operand::Scalar; 3]);
        let mut random = Random(13);
        let launches = special_values(dtype).len() * 3;
        let kernels: Vec<_> = crate::harness::backends()
            .iter()
            .step_by(3)
            .map(|(name, b)| (name, jit_core::backend::Backend::compile(b, &program).expect("it compiles")))
            .collect();
        for _ in 0..launches {
            let scalars = [0; 3].map(|_| Input::Scalar(random.bits(dtype)));
            let condition = Input::Memory(vec![random.below(2)]);
            let inputs: Vec<_> = scalars.into_iter().chain([condition]).chain(outputs(&types, 1)).collect();
            crate::harness::check_compiled(&program, &kernels, &inputs, &[1], 0, Equal::Values, &[]);
        }
    }
}

/// Constant operands meet other templates (division) and LLVM's folding.
#[test]
fn ops_with_a_literal() {
    for dtype in ALL_DTYPES {
        let mut random = Random(17);
        let special = special_values(dtype);
        let (a, n) = (random.many(dtype, 100), 100);
        for _ in 0..3 {
            let literals =
                [0; 2].map(|_| Operand::Literal(special[random.below(special.len() as u64) as usize]));
            let (program, types) = all_ops(dtype, [Operand::Load, literals[0], literals[1]]);
            let condition: Vec<u64> = (0..n).map(|_| random.below(2)).collect();
            let memory = [Input::Memory(a.clone()), Input::Memory(condition)];
            let inputs: Vec<_> = memory.into_iter().chain(outputs(&types, n)).collect();
            check(&program, &inputs, &[n as u64], 0, Equal::Values);
        }
    }
}

/// The smaller and larger of any float and a constant on either side: NaN and zeros of both signs are their trouble.
#[test]
fn extremes_with_constants() {
    for dtype in [DType::F16, DType::F32, DType::F64] {
        let values = special_values(dtype);
        let constants = [0.0, -0.0, 1.5, -1.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-7];
        let mut b = Builder::new();
        let x = b.param(ParamKind::In, dtype);
        let x = b.read(Op::Load, x);
        let mut types = Vec::new();
        for constant in constants {
            let bits = jit_core::op::scalar::cast(DType::F64, dtype, constant.to_bits());
            let constant = b.literal(dtype, bits);
            for op in [Op::Min, Op::Max, Op::Minimum, Op::Maximum] {
                for operands in [[x, constant], [constant, x]] {
                    let result = b.op(op, &operands);
                    let out = b.param(ParamKind::Out, dtype);
                    b.store(out, result);
                    types.push(dtype);
                }
            }
        }
        let n = values.len();
        let inputs: Vec<_> = [Input::Memory(values)].into_iter().chain(outputs(&types, n)).collect();
        check(&b.finish(false), &inputs, &[3, n as u64], 0, Equal::Values);
    }
}

/// From every type to every type.
#[test]
fn casts() {
    for from in ALL_DTYPES {
        let mut values = special_values(from);
        if from.bits() <= 16 {
            values.extend(0..1u64 << from.bits());
        } else {
            values.extend(Random(19).many(from, 4000));
        }
        // Around every rounding boundary of f16.
        if from == DType::F64 {
            for half in (0..0x7c00u64).step_by(37) {
                let exact = jit_core::op::scalar::cast(DType::F16, from, half);
                let next = jit_core::op::scalar::cast(DType::F16, from, half + 1);
                let middle = ((f64::from_bits(exact) + f64::from_bits(next)) / 2.0).to_bits();
                values.extend([exact, middle, middle + 1, middle - 1, middle | 1 << 63]);
            }
        }
        let mut b = Builder::new();
        let input = b.param(ParamKind::In, from);
        let input = b.read(Op::Load, input);
        for to in ALL_DTYPES {
            let out = b.param(ParamKind::Out, to);
            let value = b.inst(Op::Cast, 0, &[input], &[to], vec![])[0];
            b.store(out, value);
        }
        let n = values.len();
        let inputs: Vec<_> = [Input::Memory(values)].into_iter().chain(outputs(&ALL_DTYPES, n)).collect();
        check(&b.finish(false), &inputs, &[n as u64], 0, Equal::Values);
    }
}

/// Loads, stores, selects and bitcasts keep the payload of a NaN.
#[test]
fn moves_keep_bits() {
    for (float, int) in [(DType::F16, DType::U16), (DType::F32, DType::U32), (DType::F64, DType::U64)] {
        let mut b = Builder::new();
        let input = b.param(ParamKind::In, float);
        let mask = b.param(ParamKind::In, DType::Bool);
        let table = b.table(float, &special_values(float)[..16]);
        let (x, m) = (b.read(Op::Load, input), b.read(Op::Load, mask));
        let lane = b.counter(DType::U32);
        let gathered = b.gather(input, lane, Some(m));
        let minus = b.op(Op::Neg, &[x]);
        let magnitude = b.op(Op::Abs, &[x]);
        let signed = b.op(Op::CopySign, &[x, gathered]);
        let chosen = b.op(Op::Select, &[m, x, minus]);
        let looked_up = b.lookup(table, lane);
        let bits = b.bitcast(int, x);
        for value in [x, gathered, minus, magnitude, signed, chosen, looked_up, bits] {
            let ty = b.dtype(value);
            let out = b.param(ParamKind::Out, ty);
            b.store(out, value);
        }
        let values = Random(23).many(float, 200);
        let masks = (0..200).map(|i| (i % 3) & 1).collect();
        let memory = [Input::Memory(values), Input::Memory(masks)];
        let inputs: Vec<_> = memory.into_iter().chain((0..8).map(|_| Input::Memory(vec![0; 200]))).collect();
        check(&b.finish(false), &inputs, &[200], 0, Equal::Bits);
    }
}

/// The remainder over the whole range of exponents.
#[test]
fn remainder_of_far_apart_floats() {
    for dtype in [DType::F32, DType::F64] {
        let mut b = Builder::new();
        let params = [0; 2].map(|_| b.param(ParamKind::In, dtype));
        let [x, y] = params.map(|p| b.read(Op::Load, p));
        let out = b.param(ParamKind::Out, dtype);
        let r = b.op(Op::Rem, &[x, y]);
        b.store(out, r);
        let mut random = Random(29);
        let n = 20_000;
        let x: Vec<u64> = (0..n).map(|_| random.next() & dtype.mask()).collect();
        let y: Vec<u64> = (0..n)
            .map(|i| if i % 5 == 0 { random.below(100) } else { random.next() & dtype.mask() })
            .collect();
        let inputs = [x, y, vec![0; n]].map(Input::Memory);
        check(&b.finish(false), &inputs, &[n as u64], 0, Equal::Values);
    }
}

/// The lane index, with a base, and at the wrap of u32.
#[test]
fn counter() {
    let mut b = Builder::new();
    for dtype in [DType::U32, DType::U64] {
        let out = b.param(ParamKind::Out, dtype);
        let lane = b.counter(dtype);
        b.store(out, lane);
    }
    let program = b.finish(false);
    let inputs = [Input::Memory(vec![0; 1000]), Input::Memory(vec![0; 1000])];
    for base in [0, 5, u64::from(u32::MAX) - 100, 1 << 40] {
        check(&program, &inputs, &[0, 1, 37, 1000], base, Equal::Bits);
    }
}
