//! What becomes one kernel with a reduction, looked at where a backend is asked.

use jit_core::dtype::DType;
use jit_core::ir::Segments;
use jit_core::op::Op;
use jit_core::runtime::Device;
use jit_core::trace::{Division, Reducing, Var, checked_reduction, eval};

use crate::host::{lit, read, upload};
use crate::recorder::{Launched, recorded};

fn op(op: Op, args: &[&Var]) -> Var {
    Var::apply(op, args[0].dtype(), args)
}

fn cast(to: DType, value: &Var) -> Var {
    Var::apply(Op::Cast, to, &[value])
}

fn by_closure(device: Device, states: &[Var], identity: &[Var], division: Division, combine: Op) -> Vec<Var> {
    let reducing = Reducing { name: "test", division, partial: None };
    checked_reduction(device, &reducing, states, identity, |a, b| {
        Ok(a.iter().zip(b).map(|(a, b)| op(combine, &[a, b])).collect())
    })
}

/// How many instructions of that op the body has at its top level.
fn count(launched: &Launched, wanted: Op) -> usize {
    launched.program.body.insts.iter().filter(|inst| inst.op == wanted).count()
}

#[test]
fn all_reductions_of_one_producer_are_one_kernel_that_reads_once() {
    let (device, log) = recorded();
    let x = upload(device, &(0..3000).map(|k| k as f32 * 0.25).collect::<Vec<_>>());
    let fx = op(Op::Mul, &[&op(Op::Add, &[&x, &lit(1.0f32)]), &x]);
    let sum = fx.reduce(Op::ReduceSum);
    let mean = op(Op::Div, &[&sum, &cast(DType::F32, &fx.lane_count())]);
    let (least, most) = (fx.reduce(Op::ReduceMin), fx.reduce(Op::ReduceMax));
    let wide = cast(DType::F64, &fx);
    let squares = op(Op::Mul, &[&wide, &wide]);
    let moments = by_closure(device, &[wide, squares], &[lit(0.0f64), lit(0.0f64)], Division::ALL, Op::Add);
    let n = cast(DType::F64, &fx.lane_count());
    let [first, second] = [0, 1].map(|k| op(Op::Div, &[&moments[k], &n]));
    let var = op(Op::Sub, &[&second, &op(Op::Mul, &[&first, &first])]);
    // What somebody holds of a state is stored.
    drop(moments);
    eval(&[&mean, &var, &least, &most], &[]).expect("evaluation").wait().expect("execution");
    let launches = log.take();
    assert_eq!(launches.len(), 1);
    assert_eq!(count(&launches[0], Op::Load), 1, "x is read once:\n{}", launches[0].program);
    assert_eq!((count(&launches[0], Op::Reduce), count(&launches[0], Op::ReduceSum)), (1, 1));
    // The input and one element for each result.
    assert_eq!(launches[0].bytes, 4 * 3000 + 4 + 8 + 4 + 4, "nothing else is in memory");
    assert_eq!(read::<f32>(&least), [0.0]);
    assert_eq!(log.take().len(), 0, "they all are there");
}

#[test]
fn reductions_of_the_same_rows_are_one_kernel_with_what_follows() {
    let (device, log) = recorded();
    let x = upload(device, &(0..600).collect::<Vec<u32>>());
    let by = Division::rows(20);
    let y = op(Op::Add, &[&x, &lit(3u32)]);
    let (sum, most) = (y.reduce_by(Op::ReduceSum, by), y.reduce_by(Op::ReduceMax, by));
    let count_odd = by_closure(device, &[op(Op::And, &[&y, &lit(1u32)])], &[lit(0u32)], by, Op::Add);
    let scale = upload(device, &[2u32; 30]);
    let all = op(Op::Add, &[&op(Op::Mul, &[&op(Op::Sub, &[&sum, &most]), &scale]), &count_odd[0]]);
    drop(count_odd);
    eval(&[&all], &[]).expect("evaluation").wait().expect("execution");
    let launches = log.take();
    assert_eq!(launches.len(), 1);
    assert_eq!(launches[0].program.segments, Segments::Rows);
    assert_eq!(count(&launches[0], Op::Load), 1);
    // The input, the scale, and the result: no sum or maximum is stored.
    assert_eq!(launches[0].bytes, 4 * (600 + 30 + 30));
    let expected: Vec<u32> = (0..30u32)
        .map(|r| {
            let row = r * 20 + 3..r * 20 + 23;
            (row.clone().sum::<u32>() - (r * 20 + 22)) * 2 + row.filter(|v| v % 2 == 1).count() as u32
        })
        .collect();
    assert_eq!(read::<u32>(&all), expected);
}

#[test]
fn other_divisions_are_other_kernels() {
    let (device, log) = recorded();
    let x = upload(device, &(0..600).collect::<Vec<u32>>());
    let by = [Division::ALL, Division::rows(20), Division::rows(30), Division::columns(20)];
    let sums = by.map(|by| x.reduce_by(Op::ReduceSum, by));
    eval(&sums.each_ref(), &[]).expect("evaluation").wait().expect("execution");
    assert_eq!(log.take().len(), 4);
}

#[test]
fn lengths_are_no_structure() {
    let (device, log) = recorded();
    for (n, length) in [(100u32, 7), (350, 12), (90, 89), (5000, 2000)] {
        let x = upload(device, &(0..n).collect::<Vec<u32>>());
        let rows = x.reduce_by(Op::ReduceSum, Division::rows(length));
        let expected: Vec<u32> =
            (0..n).collect::<Vec<_>>().chunks(length as usize).map(|c| c.iter().sum()).collect();
        assert_eq!(read::<u32>(&rows), expected);
    }
    assert_eq!(log.compilations(), 1);
    for cols in [3u64, 10, 50] {
        let x = upload(device, &[1u32; 300]);
        assert_eq!(
            read::<u32>(&x.reduce_by(Op::ReduceSum, Division::columns(cols))),
            vec![300 / cols as u32; cols as usize]
        );
    }
    assert_eq!(log.compilations(), 2);
}

#[test]
fn divisions_that_are_all_or_each_say_so() {
    let (device, log) = recorded();
    let x = upload(device, &[3u32, 1, 2]);
    assert!(x.reduce_by(Op::ReduceSum, Division::rows(3)).same(&x.reduce(Op::ReduceSum)));
    assert!(x.reduce_by(Op::ReduceSum, Division::rows(9)).same(&x.reduce(Op::ReduceSum)));
    assert!(x.reduce_by(Op::ReduceSum, Division::columns(1)).same(&x.reduce(Op::ReduceSum)));
    assert!(x.reduce_by(Op::ReduceSum, Division::rows(1)).same(&x));
    assert!(x.reduce_by(Op::ReduceMax, Division::columns(3)).same(&x));
    assert!(
        !x.reduce_by(Op::ReduceSum, Division::rows(2))
            .same(&x.reduce_by(Op::ReduceSum, Division::columns(3)))
    );
    assert!(
        x.reduce_by(Op::ReduceSum, Division::rows(2)).same(&x.reduce_by(Op::ReduceSum, Division::rows(2)))
    );
    assert_eq!(log.take().len(), 0);
}

#[test]
fn what_a_closure_captures_is_in_memory_before() {
    let (device, log) = recorded();
    let x = upload(device, &(0..100).map(|k| k as f32).collect::<Vec<_>>());
    let total = op(Op::Sqrt, &[&x.reduce(Op::ReduceSum)]);
    let reducing = Reducing { name: "test", division: Division::ALL, partial: None };
    let scaled = checked_reduction(device, &reducing, std::slice::from_ref(&x), &[lit(0.0f32)], |a, b| {
        Ok(vec![op(Op::Min, &[&op(Op::Add, &[&a[0], &b[0]]), &total])])
    });
    assert_eq!(read::<f32>(&scaled[0]), [4950.0f32.sqrt()]);
    let launches = log.take();
    assert_eq!(launches.len(), 2);
    assert_eq!(count(&launches[1], Op::LoadScalar), 1);
}

#[test]
fn dropped_reductions_leave_nothing() {
    let (device, _) = recorded();
    let x = upload(device, &[1u32, 2, 3]);
    let nodes = device.memory().nodes;
    for evaluated in [false, true] {
        let results = by_closure(
            device,
            &[x.clone(), op(Op::Add, &[&x, &lit(7u32)])],
            &[lit(0u32), lit(0u32)],
            Division::ALL,
            Op::Add,
        );
        if evaluated {
            assert_eq!(read::<u32>(&results[1]), [27]);
        }
        drop(results);
        // Literals that were used lately stay.
        assert!(device.memory().nodes <= nodes + 2, "{}", device.memory().nodes - nodes);
    }
}
