//! Gathers, scatters, atomics and tables.

use jit_core::dtype::{ALL_DTYPES, DType};
use jit_core::ir::{Builder, ParamKind};
use jit_core::op::Op;

use crate::harness::{
    Equal, Input, Random, backends, check, check_against, check_compiled, compiled, run, special_values,
};

const INDEX_TYPES: [DType; 8] =
    [DType::I8, DType::U8, DType::I16, DType::U16, DType::I32, DType::U32, DType::I64, DType::U64];

fn masks(n: usize, seed: u64) -> Input {
    let mut random = Random(seed);
    Input::Memory((0..n).map(|_| random.below(2)).collect())
}

/// Indices in bounds, past the end, negative, and at the limits of their type.
fn indices(dtype: DType, len: u64, n: usize) -> Input {
    let mut random = Random(5);
    let index = |r: &mut Random| match r.below(4) {
        0 => r.bits(dtype),
        1 => (len + r.below(3)).wrapping_sub(1) & dtype.mask(),
        _ => r.below(len.max(1)) & dtype.mask(),
    };
    Input::Memory((0..n).map(|_| index(&mut random)).collect())
}

#[test]
fn gathers_of_all_types() {
    for dtype in ALL_DTYPES {
        let mut b = Builder::new();
        let source = b.param(ParamKind::In, dtype);
        let mask = b.param(ParamKind::In, DType::Bool);
        let indices_of: Vec<_> = INDEX_TYPES.iter().map(|&t| b.param(ParamKind::In, t)).collect();
        let m = b.read(Op::Load, mask);
        let mut outs = 0;
        for index in indices_of {
            let index = b.read(Op::Load, index);
            for mask in [None, Some(m)] {
                let value = b.gather(source, index, mask);
                let out = b.param(ParamKind::Out, dtype);
                b.store(out, value);
                outs += 1;
            }
        }
        let program = b.finish(false);
        for len in [100, 1, 0] {
            let n = 200;
            let source = Input::Memory(Random(9).many(dtype, len));
            let memory = [source, masks(n, 1)];
            let index = INDEX_TYPES.iter().map(|&t| indices(t, len as u64, n));
            let outs = (0..outs).map(|_| Input::Memory(vec![0; n]));
            let inputs: Vec<_> = memory.into_iter().chain(index).chain(outs).collect();
            check(&program, &inputs, &[1, 7, 16, 200], 0, Equal::Bits);
        }
    }
}

/// An index that all lanes share, with and without a mask.
#[test]
fn gathers_at_a_uniform_index() {
    for dtype in ALL_DTYPES {
        let mut b = Builder::new();
        let source = b.param(ParamKind::In, dtype);
        let mask = b.param(ParamKind::In, DType::Bool);
        let flag = b.param(ParamKind::Scalar, DType::Bool);
        let scalars = [DType::I32, DType::U32, DType::U64, DType::I8].map(|t| b.param(ParamKind::Scalar, t));
        let (m, f) = (b.read(Op::Load, mask), b.read(Op::Param, flag));
        let mut outs = 0;
        for index in scalars {
            let index = b.read(Op::Param, index);
            for mask in [None, Some(m), Some(f)] {
                let value = b.gather(source, index, mask);
                let out = b.param(ParamKind::Out, dtype);
                b.store(out, value);
                outs += 1;
            }
        }
        let program = b.finish(false);
        for (index, flag, len) in [(3, 1, 10), (3, 0, 10), (10, 1, 10), (-1i64, 1, 10), (0, 1, 0), (0, 1, 1)]
        {
            let source = Input::Memory(Random(9).many(dtype, len));
            let scalar = |bits: u32| Input::Scalar(index as u64 & u64::MAX >> (64 - bits));
            let fixed =
                [source, masks(50, 2), Input::Scalar(flag), scalar(32), scalar(32), scalar(64), scalar(8)];
            let inputs: Vec<_> =
                fixed.into_iter().chain((0..outs).map(|_| Input::Memory(vec![0; 50]))).collect();
            check(&program, &inputs, &[1, 50], 0, Equal::Bits);
        }
    }
}

/// With the promise that no test is needed, the mask still counts: masked-off lanes may hold any index.
#[test]
fn in_bounds_gathers_and_scatters() {
    for dtype in ALL_DTYPES {
        let mut b = Builder::new();
        let memory = b.param(ParamKind::InOut, dtype);
        let [index, mask] = [DType::U32, DType::Bool].map(|t| b.param(ParamKind::In, t));
        let out = b.param(ParamKind::Out, dtype);
        let (i, m) = (b.read(Op::Load, index), b.read(Op::Load, mask));
        let value = b.gather(memory, i, Some(m));
        let lane = b.counter(DType::U64);
        b.scatter(Op::Scatter, memory, value, lane, None);
        b.store(out, value);
        let mut program = b.finish(false);
        program.body.insts.iter_mut().for_each(|i| i.in_bounds = matches!(i.op, Op::Gather | Op::Scatter));
        // Each lane reads its own element or none.
        let masks: Vec<u64> = (0..100).map(|i| (i % 3) & 1).collect();
        let indices = (0..100).map(|i| if masks[i as usize] == 1 { i } else { 0xffff_fff0 }).collect();
        let inputs = [Random(2).many(dtype, 100), indices, masks, vec![0; 100]].map(Input::Memory);
        check(&program, &inputs, &[100, 9], 0, Equal::Bits);
    }
}

/// Permutations, out of bounds and masked: every element is written by one lane at most.
#[test]
fn scatters_of_all_types() {
    for dtype in ALL_DTYPES {
        for index_type in [DType::I16, DType::U32, DType::I32, DType::U64] {
            let mut b = Builder::new();
            let target = b.param(ParamKind::InOut, dtype);
            let [value, index, mask] = [dtype, index_type, DType::Bool].map(|t| b.param(ParamKind::In, t));
            let [v, i, m] = [value, index, mask].map(|p| b.read(Op::Load, p));
            b.scatter(Op::Scatter, target, v, i, Some(m));
            let program = b.finish(false);
            let n = 300;
            let indices = (0..n).map(|i| match i % 10 {
                0 => (n + i) & index_type.mask(),
                1 if index_type.is_signed() => (i as i64).wrapping_neg() as u64 & index_type.mask(),
                _ => i * 7 % n,
            });
            let inputs = [
                Input::Memory(Random(1).many(dtype, n as usize)),
                Input::Memory(Random(2).many(dtype, n as usize)),
                Input::Memory(indices.collect()),
                masks(n as usize, 3),
            ];
            check(&program, &inputs, &[1, 15, n], 0, Equal::Bits);
        }
    }
}

/// Combining scatters into few elements. Those of floats are exact here in any order: small integers.
#[test]
fn combining_scatters_of_all_types() {
    let combining = [
        Op::ScatterAdd,
        Op::ScatterMul,
        Op::ScatterMin,
        Op::ScatterMax,
        Op::ScatterMinimum,
        Op::ScatterMaximum,
        Op::ScatterAnd,
        Op::ScatterOr,
        Op::ScatterXor,
    ];
    for dtype in ALL_DTYPES {
        for op in combining {
            let combine = op.combine().expect("it combines");
            if combine.result_type(&[dtype; 2], dtype).is_err() {
                continue;
            }
            let mut b = Builder::new();
            let target = b.param(ParamKind::InOut, dtype);
            let [value, index, mask] = [dtype, DType::I32, DType::Bool].map(|t| b.param(ParamKind::In, t));
            let [v, i, m] = [value, index, mask].map(|p| b.read(Op::Load, p));
            b.scatter(op, target, v, i, Some(m));
            let program = b.finish(false);
            let n = 3000;
            let mut random = Random(4);
            let mut bits = |sum: bool| match (dtype.is_float(), sum) {
                (true, true) => jit_core::op::scalar::cast(DType::U32, dtype, random.below(3)),
                // One by one a product of powers of two is exact.
                (true, false) if combine == Op::Mul => jit_core::op::scalar::cast(
                    DType::F32,
                    dtype,
                    u64::from([0.5f32, 1.0, 2.0, -1.0][random.below(4) as usize].to_bits()),
                ),
                _ => random.bits(dtype),
            };
            let sum = combine == Op::Add;
            let target: Vec<u64> = (0..12).map(|_| bits(sum)).collect();
            let values: Vec<u64> = (0..n).map(|_| bits(sum)).collect();
            let few =
                Input::Memory((0..n as u64).map(|i| (i * 5 % 17).wrapping_sub(2) & 0xffff_ffff).collect());
            // A product of many halves and doubles wanders out of f16's range: one factor an element.
            let spread = Input::Memory((0..n as u64).collect());
            let product = combine == Op::Mul && dtype.is_float();
            let target = if product { values.iter().rev().copied().collect() } else { target };
            let index = if product { spread } else { few };
            let inputs = [Input::Memory(target), Input::Memory(values), index, masks(n, 3)];
            check(&program, &inputs, &[1, 30, n as u64], 0, Equal::Values);
        }
    }
}

/// Each active lane gets another old value; together they are 1, 2, 3, ... Whether the lanes have one index is known to
/// the compiler, or is not.
#[test]
fn atomic_inc_counts() {
    let types = [DType::U32, DType::U64, DType::I32, DType::U16, DType::U8];
    for (dtype, known) in types.into_iter().flat_map(|ty| [(ty, true), (ty, false)]) {
        let mut b = Builder::new();
        let counter = b.param(ParamKind::InOut, dtype);
        let mask = b.param(ParamKind::In, DType::Bool);
        let out = b.param(ParamKind::Out, dtype);
        let m = b.read(Op::Load, mask);
        let index = b.param(ParamKind::In, DType::U32);
        let one = if known { b.literal(DType::U32, 1) } else { b.read(Op::Load, index) };
        let old = b.inst(Op::AtomicInc, u64::from(counter.0), &[one, m], &[dtype], vec![])[0];
        b.store(out, old);
        let program = b.finish(false);
        let n = if dtype == DType::U8 { 350 } else { 5000 };
        let ones = Input::Memory(vec![1; n]);
        let inputs = [Input::Memory(vec![9, 1, 9]), masks(n, 3), Input::Memory(vec![7; n]), ones];
        check_against(&program, &inputs, &[1, 5, n as u64], 0, Equal::Bits, &[2]);
        let Input::Memory(mask) = &inputs[1] else { unreachable!("masks are memory") };
        for (name, backend) in backends() {
            let olds = &run(backend, &program, &inputs, n as u64)[2];
            let mut active: Vec<u64> =
                olds.iter().zip(mask).filter(|&(_, &m)| m == 1).map(|(&o, _)| o).collect();
            active.sort_unstable();
            assert!(active.iter().copied().eq(1..=active.len() as u64), "{name}, {dtype}");
            assert!(
                olds.iter().zip(mask).all(|(&o, &m)| m == 1 || o == 0),
                "{name}, {dtype}: masked-off lanes"
            );
        }
    }
}

#[test]
fn atomic_inc_out_of_bounds_counts_nothing() {
    for index in [3, u64::from(u32::MAX)] {
        let mut b = Builder::new();
        let (counter, out) = (b.param(ParamKind::InOut, DType::U32), b.param(ParamKind::Out, DType::U32));
        let index = b.literal(DType::U32, index);
        let old = b.inst(Op::AtomicInc, u64::from(counter.0), &[index], &[DType::U32], vec![])[0];
        b.store(out, old);
        let inputs = [Input::Memory(vec![9, 1, 9]), Input::Memory(vec![7; 100])];
        check(&b.finish(false), &inputs, &[0, 1, 33, 100], 0, Equal::Bits);
    }
}

/// Several lanes store to one element: it holds one of their values, whole.
#[test]
fn duplicate_scatter_stores_one_value() {
    for dtype in [DType::U8, DType::U16, DType::U32, DType::F64] {
        let mut b = Builder::new();
        let target = b.param(ParamKind::InOut, dtype);
        let value = b.param(ParamKind::In, dtype);
        let v = b.read(Op::Load, value);
        let lane = b.counter(DType::U32);
        let three = b.literal(DType::U32, 3);
        let index = b.op(Op::Rem, &[lane, three]);
        b.scatter(Op::Scatter, target, v, index, None);
        let program = b.finish(false);
        let values: Vec<u64> =
            (0..999).map(|i| u64::wrapping_mul(i, 0x0101_0101_0101_0101) & dtype.mask()).collect();
        for (name, backend) in backends() {
            let inputs = [vec![0; 3], values.clone()].map(Input::Memory);
            let got = &run(backend, &program, &inputs, 999)[0];
            for (k, bits) in got.iter().enumerate() {
                assert!(
                    values.iter().skip(k).step_by(3).any(|v| v == bits),
                    "{name}: element {k} is {bits:#x}"
                );
            }
        }
    }
}

/// Tables of all types, by indices of all types.
#[test]
fn lookups() {
    for dtype in ALL_DTYPES {
        let mut b = Builder::new();
        let small = b.table(dtype, &Random(1).many(dtype, 8));
        let large = b.table(dtype, &Random(2).many(dtype, 1024));
        let indices_of: Vec<_> = INDEX_TYPES.iter().map(|&t| b.param(ParamKind::In, t)).collect();
        let scalar = b.param(ParamKind::Scalar, DType::U32);
        let mut loaded: Vec<_> = indices_of.into_iter().map(|p| b.read(Op::Load, p)).collect();
        loaded.push(b.read(Op::Param, scalar));
        let mut outs = 0;
        for index in loaded {
            for table in [small, large] {
                // An index has a bit for each of the table's.
                if table == large && b.dtype(index).bits() < 10 {
                    continue;
                }
                let value = b.lookup(table, index);
                let out = b.param(ParamKind::Out, dtype);
                b.store(out, value);
                outs += 1;
            }
        }
        let indices = INDEX_TYPES.iter().map(|&t| Input::Memory(Random(3).many(t, 100)));
        let outs = (0..outs).map(|_| Input::Memory(vec![0; 100]));
        let inputs: Vec<_> = indices.chain([Input::Scalar(0xffff_fff5)]).chain(outs).collect();
        check(&b.finish(false), &inputs, &[5, 100], 0, Equal::Bits);
    }
}

/// The index counts with the lanes from an offset on: in a row, across its type's end, past either end of memory, masked.
#[test]
fn accesses_in_a_row() {
    for dtype in ALL_DTYPES {
        // Every index type with some element types, and every element type with some index types.
        let all = matches!(dtype, DType::U8 | DType::F32);
        for index_type in INDEX_TYPES.into_iter().filter(|&t| all || matches!(t, DType::I16 | DType::U32)) {
            let mut b = Builder::new();
            let source = b.param(ParamKind::In, dtype);
            let offset = b.param(ParamKind::Scalar, DType::U64);
            let [least, most] = [0; 2].map(|_| b.param(ParamKind::Scalar, index_type));
            let mask = b.param(ParamKind::In, DType::Bool);
            let target = b.param(ParamKind::InOut, dtype);
            let outs = [0; 3].map(|_| b.param(ParamKind::Out, dtype));
            let lane = b.counter(DType::U64);
            let offset = b.read(Op::Param, offset);
            let at = b.op(Op::Add, &[lane, offset]);
            let at = b.cast(index_type, at);
            let [least, most] = [least, most].map(|p| b.read(Op::Param, p));
            let clamped = b.op(Op::Max, &[at, least]);
            let clamped = b.op(Op::Min, &[clamped, most]);
            let m = b.read(Op::Load, mask);
            let values = [(at, None), (at, Some(m)), (clamped, Some(m))].map(|(i, m)| b.gather(source, i, m));
            // Without the clamped indices, of which many are equal.
            b.scatter(Op::Scatter, target, values[0], at, Some(m));
            outs.into_iter().zip(values).for_each(|(out, value)| b.store(out, value));
            let program = b.finish(false);
            let kernels = compiled(&program);
            let top = index_type.mask() >> u32::from(index_type.is_signed());
            for offset in [0, 1, 5, 0u64.wrapping_sub(1), 0u64.wrapping_sub(20), top - 3, top - 40] {
                let n = 150;
                let (source, target) = (Random(9).many(dtype, 100), Random(10).many(dtype, 120));
                let mut inputs = vec![Input::Memory(source), Input::Scalar(offset)];
                inputs.extend([3, 77].map(Input::Scalar));
                inputs.extend([masks(n, 3), Input::Memory(target)]);
                inputs.extend([0; 3].map(|_| Input::Memory(vec![0; n])));
                check_compiled(&program, &kernels, &inputs, &[1, 64, 100, 150], 0, Equal::Bits, &[]);
            }
        }
    }
}

/// Rows of different lengths, and lanes that stay behind, in a loop that each lane leaves when it likes.
#[test]
fn rows_in_a_loop() {
    let mut b = Builder::new();
    let [source, turns] = [DType::F32, DType::U32].map(|t| b.param(ParamKind::In, t));
    let out = b.param(ParamKind::Out, DType::F32);
    let lane = b.counter(DType::U32);
    let limit = b.read(Op::Load, turns);
    let limit = b.op(Op::Add, &[lane, limit]);
    let [step, zero] = [(DType::U32, 1), (DType::F32, 0)].map(|(t, bits)| b.literal(t, bits));
    let state = b.open_block(&[DType::U32, DType::F32]);
    let more = b.op(Op::Lt, &[state[0], limit]);
    let condition = b.close_block(&[more]);
    b.open_block(&[]);
    let value = b.gather(source, state[0], None);
    let sum = b.op(Op::Add, &[state[1], value]);
    let next = b.op(Op::Add, &[state[0], step]);
    let body = b.close_block(&[next, sum]);
    let types = [DType::U32, DType::F32];
    let results = b.inst(Op::Loop, 0, &[lane, zero], &types, vec![condition, body]);
    b.store(out, results[1]);
    let program = b.finish(false);
    let source = (0..90).map(|i| u64::from((i as f32 * 0.3).to_bits())).collect();
    let mut random = Random(12);
    let turns = (0..100).map(|i| if i < 40 { 3 } else { random.below(9) }).collect();
    let inputs = [source, turns, vec![0; 100]].map(Input::Memory);
    check(&program, &inputs, &[1, 16, 100], 0, Equal::Bits);
}

/// Launches of several threads, each with copies of the memory. Elements that nothing is combined with keep their bits, those
/// of a NaN too.
#[test]
fn combining_scatters_of_many_lanes_into_few_elements() {
    let lanes = 100_000;
    for dtype in ALL_DTYPES.into_iter().filter(|&t| t != DType::F16) {
        let combining = [
            Op::ScatterAdd,
            Op::ScatterMin,
            Op::ScatterMax,
            Op::ScatterMinimum,
            Op::ScatterMaximum,
            Op::ScatterAnd,
            Op::ScatterOr,
            Op::ScatterXor,
        ];
        let takes = |op: &Op| {
            op.combine().is_some_and(|c| c.result_type(&[dtype; 2], dtype).is_ok())
                && (dtype != DType::Bool || matches!(op, Op::ScatterAnd | Op::ScatterOr | Op::ScatterXor))
        };
        let ops: Vec<Op> = combining.into_iter().filter(takes).collect();
        let mut b = Builder::new();
        let [value, index, mask] = [dtype, DType::U32, DType::Bool].map(|t| b.param(ParamKind::In, t));
        let targets: Vec<_> = ops.iter().map(|_| b.param(ParamKind::InOut, dtype)).collect();
        let (v, i, m) = (b.read(Op::Load, value), b.read(Op::Load, index), b.read(Op::Load, mask));
        for (op, target) in ops.iter().zip(targets) {
            b.scatter(*op, target, v, i, Some(m));
        }
        let program = b.finish(false);

        let mut random = Random(31);
        let mut values: Vec<u64> = random.many(dtype, lanes);
        // The first 50 elements are combined with, the last with any values to begin with are not.
        let mut target: Vec<u64> = (0..50).map(|_| random.bits(dtype)).collect();
        if dtype.is_float() {
            // Sums of small integers are exact in every order.
            let small = |k: u64| jit_core::op::scalar::cast(DType::I64, dtype, k % 17);
            (0u64..).zip(&mut values).for_each(|(k, value)| *value = small(k * 7));
            (0u64..).zip(&mut target).for_each(|(k, element)| *element = small(k));
        }
        target.extend(special_values(dtype));
        let len = target.len() as u64;
        // Some past the end.
        let indices =
            (0..lanes).map(|_| if random.below(9) == 0 { len + random.below(4) } else { random.below(50) });
        let indices = Input::Memory(indices.collect());
        let mut inputs = vec![Input::Memory(values), indices, masks(lanes, 4)];
        inputs.extend(ops.iter().map(|_| Input::Memory(target.clone())));
        check(&program, &inputs, &[0, 1, 17, 1000, lanes as u64], 0, Equal::Bits);
    }
}
