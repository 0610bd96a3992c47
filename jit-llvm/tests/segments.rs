//! Reductions of rows and columns, and reductions by a block, against the interpreter.

use jit_core::dtype::{ALL_DTYPES, DType};
use jit_core::ir::{Builder, ParamKind, Program, Segments, Value};
use jit_core::op::{ALL_OPS, Class, Op, scalar};

use crate::harness::{Input, Random, check_segments};

/// Lanes and lengths of rows: shorter than a vector, around the accumulators and chunks, of several chunks; one row, a
/// shorter last one, many rows; none.
const ROWS: [(u64, u64); 24] = [
    (0, 3),
    (1, 1),
    (1, 5),
    (7, 3),
    (40, 1),
    (100, 7),
    (256, 16),
    (500, 17),
    (500, 127),
    (513, 128),
    (1000, 129),
    (2000, 2000),
    (2047, 1023),
    (2049, 1024),
    (3000, 1025),
    (5000, 2048),
    (9000, 3000),
    (20_000, 4096),
    (20_000, 6),
    (20_001, 10_000),
    (40_000, 39_999),
    (40_000, 50_000),
    (40_000, 100),
    (39_999, 1000),
];

/// Lanes and numbers of columns.
const COLUMNS: [(u64, u64); 18] = [
    (0, 1),
    (0, 200),
    (1, 1),
    (5, 5),
    (6, 3),
    (7, 1),
    (64, 4),
    (160, 8),
    (520, 65),
    (1290, 129),
    (1161, 127 + 2),
    (3 * 1023, 3),
    (3 * 1025, 3),
    (16 * 2500, 16),
    (17 * 2049, 17),
    (300 * 133, 300),
    (40_000, 1),
    (2 * 20_000, 20_000),
];

fn numbers(dtype: DType, seed: u64, n: usize) -> Vec<u64> {
    let mut random = Random(seed);
    let number = |random: &mut Random| {
        let small = random.below(2000) as f64 / 1000.0 - 0.9;
        match random.below(300) {
            0 => random.bits(dtype),
            _ => scalar::cast(DType::F64, dtype, small.to_bits()),
        }
    };
    (0..n).map(|_| number(&mut random)).collect()
}

/// What a reduction by a block combines: three values, one of which depends on the others.
fn block_of(b: &mut Builder, dtype: DType, fixed: Value) -> (Vec<DType>, jit_core::ir::Block) {
    let types = vec![dtype, DType::U32, dtype];
    let twice: Vec<DType> = types.iter().chain(&types).copied().collect();
    let p = b.open_block(&twice);
    let sum = b.op(if dtype == DType::Bool { Op::Xor } else { Op::Add }, &[p[0], p[3]]);
    let later = b.op(Op::Max, &[p[1], p[4]]);
    let which = b.op(Op::Lt, &[p[1], p[4]]);
    let chosen = b.op(Op::Select, &[which, p[5], p[2]]);
    // What is the same on all lanes may be used.
    let chosen = b.op(if dtype == DType::Bool { Op::And } else { Op::Maximum }, &[chosen, fixed]);
    (types, b.close_block(&[sum, later, chosen]))
}

/// A program that reduces an input and its own index by ops and by a block, stores the totals, and something that a segment
/// reads and counts for itself.
fn program(dtype: DType, ops: &[Op], segments: Segments) -> Program {
    let mut b = Builder::new();
    let input = b.param(ParamKind::In, dtype);
    let fixed = b.param(ParamKind::Scalar, dtype);
    let own = b.param(ParamKind::In, DType::U32);
    let totals: Vec<DType> = ops.iter().map(|_| dtype).chain([dtype, DType::U32, dtype]).collect();
    let outs: Vec<_> = totals.iter().map(|&dtype| b.param(ParamKind::Out, dtype)).collect();
    let last = b.param(ParamKind::Out, DType::U64);
    let x = b.read(Op::Load, input);
    let fixed = b.read(Op::Param, fixed);
    for &op in ops {
        b.inst(op, 0, &[x], &[], vec![]);
    }
    let index = b.counter(DType::U32);
    let zero = b.literal(dtype, 0);
    let none = b.literal(DType::U32, 0);
    let (_, block) = block_of(&mut b, dtype, fixed);
    b.inst(Op::Reduce, 0, &[x, index, x, zero, none, fixed], &[], vec![block]);
    let results = b.start_finish(&totals);
    for (out, result) in outs.into_iter().zip(&results) {
        b.store(out, *result);
    }
    let counted = if segments == Segments::All {
        b.literal(DType::U64, 5)
    } else {
        let (own, number) = (b.read(Op::Load, own), b.counter(DType::U64));
        let own = b.cast(DType::U64, own);
        b.op(Op::Add, &[own, number])
    };
    let latest = b.cast(DType::U64, results[results.len() - 2]);
    let both = b.op(Op::Add, &[counted, latest]);
    b.store(last, both);
    let mut program = b.finish(true);
    program.segments = segments;
    program
}

fn reductions_of(dtype: DType) -> Vec<Op> {
    let takes = |op: &Op| {
        op.class() == Class::Reduce && op.combine().is_some_and(|c| c.result_type(&[dtype; 2], dtype).is_ok())
    };
    ALL_OPS.iter().copied().filter(takes).collect()
}

fn check_all(dtype: DType, ops: &[Op], segments: Segments, launches: &[(u64, u64)]) {
    let program = program(dtype, ops, segments);
    let memory = |dtype: DType, seed| Input::Memory(numbers(dtype, seed, 40_000));
    let fixed = scalar::cast(DType::F64, dtype, (-0.5f64).to_bits());
    let outputs = program.params[3..].iter().map(|p| Input::Memory(vec![0x55 & p.dtype.mask(); 40_000]));
    let front = [memory(dtype, 3), Input::Scalar(fixed), memory(DType::U32, 4)];
    let inputs: Vec<Input> = front.into_iter().chain(outputs).collect();
    check_segments(&program, &inputs, launches);
}

#[test]
fn rows_of_all_types() {
    for dtype in ALL_DTYPES {
        check_all(dtype, &reductions_of(dtype), Segments::Rows, &ROWS);
    }
}

#[test]
fn columns_of_all_types() {
    for dtype in ALL_DTYPES {
        check_all(dtype, &reductions_of(dtype), Segments::Columns, &COLUMNS);
    }
}

/// A short body has its accumulators in registers.
#[test]
fn few_reductions_of_rows_and_columns() {
    for dtype in [DType::F32, DType::U8, DType::F64] {
        for op in [Op::ReduceSum, Op::ReduceMin] {
            check_all(dtype, &[op], Segments::Rows, &ROWS);
            check_all(dtype, &[op], Segments::Columns, &COLUMNS);
        }
    }
}

#[test]
fn blocks_combine_all_lanes() {
    let launches: Vec<(u64, u64)> =
        [0, 1, 2, 3, 5, 16, 17, 127, 128, 129, 1023, 1024, 1025, 2049, 40_000].map(|n| (n, 0)).to_vec();
    for dtype in ALL_DTYPES {
        check_all(dtype, &[], Segments::All, &launches);
        check_all(dtype, &reductions_of(dtype), Segments::All, &launches);
    }
}

/// Stores, scatters and loops in a body of segments.
#[test]
fn effects_beside_reductions_of_segments() {
    for segments in [Segments::Rows, Segments::Columns] {
        let mut program = jit_core::ir::parse(
            "param p0: in u32
             param p1: out u32
             param p2: inout u32
             param p3: out u32
             body {
               v0: u32 = load p0
               v1: u32 = counter
               v2: u32 = literal 3
               v3: u32 = loop (v4: u32 = v0) { v5: bool = lt v4, v2 while v5 } do {
                 v6: u32 = add v4, v2
                 yield v6
               }
               store p1, v3
               scatter_add p2[v0], v1
               reduce_sum v3
             }
             finish (v7: u32) { store p3, v7 }",
        )
        .expect("a program");
        program.segments = segments;
        let input: Vec<u64> = (0..6000).map(|k| k * 7 % 64).collect();
        let inputs = [input, vec![0; 6000], vec![0; 64], vec![0; 6000]].map(Input::Memory);
        check_segments(
            &program,
            &inputs,
            &[(0, 5), (1, 1), (6000, 3), (6000, 100), (6000, 2000), (6000, 6000)],
        );
    }
}
