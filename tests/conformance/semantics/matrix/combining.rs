//! Values that are combined or moved across lanes: reductions, scans, sorting, compression; and where values begin.

use jit_core::dtype::DType;
use jit_core::op::Op;
use jit_core::runtime::Device;
use jit_core::trace::{Division, Reducing, Var, checked_reduction};

use super::values::{all, few, product};
use super::{Asked, meaning};
use crate::host::upload_bits;
use crate::semantics::across::before;
use crate::semantics::check::{Column, apply};
use crate::semantics::exact;
use crate::semantics::reductions::by_rule;

/// What `op` makes of two values that come after its identity.
fn of_two(op: Op, dtype: DType, a: u64, b: u64) -> u64 {
    let join = |a, b| meaning::of(op, dtype, &[a, b]);
    let identity = meaning::identity(op, dtype);
    join(join(identity, a), join(identity, b))
}

/// What `op` makes of many, in the order of the rule. Sums and products of f16 are those of f32, rounded once.
fn of_many(op: Op, dtype: DType, values: &[u64]) -> u64 {
    if dtype == DType::F16 && matches!(op, Op::Add | Op::Mul) {
        let wide: Vec<u64> = values.iter().map(|&v| meaning::cast(DType::F16, DType::F32, v)).collect();
        return meaning::cast(DType::F32, DType::F16, of_many(op, DType::F32, &wide));
    }
    by_rule(values, meaning::identity(op, dtype), |a, b| meaning::of(op, dtype, &[a, b]))
}

fn asked(form: &str, args: Vec<Column>, got: Var, expected: Vec<u64>) -> Asked {
    Asked { form: form.to_owned(), args, got, expected, moves_bits: false }
}

/// All pairs of values, and the elements of the array in which those of a pair follow each other.
fn pairs(dtype: DType) -> (Vec<Column>, Vec<u64>) {
    let columns = product(&[(dtype, all(dtype)), (dtype, all(dtype))]);
    let elements = columns[0].bits.iter().zip(&columns[1].bits).flat_map(|(&a, &b)| [a, b]).collect();
    (columns, elements)
}

fn each_pair(columns: &[Column], f: impl Fn(u64, u64) -> u64) -> Vec<u64> {
    columns[0].bits.iter().zip(&columns[1].bits).map(|(&a, &b)| f(a, b)).collect()
}

pub(super) fn reduce(op: Op, device: Device, dtype: DType) -> Vec<Asked> {
    let combine = op.combine().expect("a reduction combines");
    // So that a type which is refused is so before anything is computed.
    let list = all(dtype);
    let total = upload_bits(device, dtype, &list).reduce(op);
    let (columns, elements) = pairs(dtype);
    let expected = each_pair(&columns, |a, b| of_two(combine, dtype, a, b));
    let rows = upload_bits(device, dtype, &elements).reduce_by(op, Division::rows(2));
    let lying: Vec<u64> = columns.iter().flat_map(|c| c.bits.iter().copied()).collect();
    let cols = upload_bits(device, dtype, &lying).reduce_by(op, Division::columns(expected.len() as u64));
    let numbers: Vec<u64> = list
        .iter()
        .copied()
        .filter(|&v| !dtype.is_float() || v & !exact::sign(dtype) < exact::infinity(dtype))
        .collect();
    let of_numbers = upload_bits(device, dtype, &numbers).reduce(op);
    let mut all = vec![
        asked("rows", columns.clone(), rows, expected.clone()),
        asked("columns", columns, cols, expected),
        asked("all values", Vec::new(), total, vec![of_many(combine, dtype, &list)]),
        asked("all numbers", Vec::new(), of_numbers, vec![of_many(combine, dtype, &numbers)]),
    ];
    for literal in few(dtype) {
        let got = Var::full(device, dtype, literal, 5).reduce(op);
        let args = vec![Column { dtype, bits: vec![literal] }];
        all.push(asked("a literal", args, got, vec![of_many(combine, dtype, &[literal; 5])]));
    }
    all
}

/// A reduction by a closure: the greatest, or whether any is true.
pub(super) fn reduce_by_closure(device: Device, dtype: DType) -> Vec<Asked> {
    let op = if dtype == DType::Bool { Op::Or } else { Op::Max };
    let (columns, elements) = pairs(dtype);
    let reducing = Reducing { name: "reduce", division: Division::rows(2), partial: None };
    let identity = Var::literal(dtype, meaning::identity(op, dtype));
    let states = [upload_bits(device, dtype, &elements)];
    let got = checked_reduction(device, &reducing, &states, &[identity], |a, b| {
        Ok(vec![apply(op, &[&a[0], &b[0]])])
    });
    let expected = each_pair(&columns, |a, b| of_two(op, dtype, a, b));
    vec![asked("rows", columns, got[0].clone(), expected)]
}

/// Running totals of two elements, in all four forms.
pub(super) fn scan(op: Op, device: Device, dtype: DType) -> Vec<Asked> {
    let join = |a, b| meaning::of(op, dtype, &[a, b]);
    let total = |exclusive, reverse, elements: &[u64]| {
        upload_bits(device, dtype, elements).scan(op, exclusive, reverse, Some(2))
    };
    drop(total(false, false, &[0, 0]));
    let (_, elements) = pairs(dtype);
    // No elements sum up to +0.
    let nothing = if op == Op::Add { 0 } else { meaning::identity(op, dtype) };
    let first = |a| join(meaning::identity(op, dtype), a);
    let flat = |f: &dyn Fn(u64, u64) -> [u64; 2]| -> Vec<u64> {
        elements.chunks(2).flat_map(|pair| f(pair[0], pair[1])).collect()
    };
    let args = |shown: &[u64]| vec![Column { dtype, bits: shown.to_vec() }];
    [
        ("inclusive", false, false, flat(&|a, b| [first(a), join(first(a), b)])),
        ("exclusive", true, false, flat(&|a, _| [nothing, first(a)])),
        ("from the end", false, true, flat(&|a, b| [join(first(b), a), first(b)])),
        ("exclusive from the end", true, true, flat(&|_, b| [first(b), nothing])),
    ]
    .into_iter()
    .map(|(form, exclusive, reverse, expected)| {
        asked(form, args(&elements), total(exclusive, reverse, &elements), expected)
    })
    .collect()
}

/// Every value as often as there are values, mixed.
fn shuffled(dtype: DType) -> Vec<u64> {
    let values = all(dtype);
    let n = values.len();
    (0..n * n).map(|k| values[k * 7919 % (n * n) % n]).collect()
}

fn order(dtype: DType, values: &[u64]) -> Vec<u64> {
    let mut order: Vec<u64> = (0..values.len() as u64).collect();
    order.sort_by(|&a, &b| before(dtype, values[a as usize], values[b as usize]));
    order
}

pub(super) fn sort(device: Device, dtype: DType) -> Vec<Asked> {
    let values = shuffled(dtype);
    let expected = order(dtype, &values).into_iter().map(|k| values[k as usize]).collect();
    vec![asked("all values", Vec::new(), upload_bits(device, dtype, &values).sort(), expected)]
}

pub(super) fn argsort(device: Device, dtype: DType) -> Vec<Asked> {
    let values = shuffled(dtype);
    let array = upload_bits(device, dtype, &values);
    let expected = order(dtype, &values);
    [DType::U32, DType::U64]
        .map(|index| asked(index.name(), Vec::new(), array.argsort(index), expected.clone()))
        .into()
}

pub(super) fn compress(device: Device, dtype: DType) -> Vec<Asked> {
    let values = [1, 0, 0, 1, 1, 0];
    let array = upload_bits(device, dtype, &values);
    vec![
        asked("padded", Vec::new(), array.compress(DType::U32, None), vec![0, 3, 4, 0, 0, 0]),
        asked("as many", Vec::new(), array.compress(DType::U64, Some(3)), vec![0, 3, 4]),
    ]
}

pub(super) fn literal(device: Device, dtype: DType) -> Vec<Asked> {
    all(dtype)
        .into_iter()
        .map(|value| Asked {
            form: "as an array".to_owned(),
            args: Vec::new(),
            got: Var::full(device, dtype, value, 3),
            expected: vec![value; 3],
            moves_bits: true,
        })
        .collect()
}

pub(super) fn counter(device: Device, dtype: DType) -> Vec<Asked> {
    vec![asked("lanes", Vec::new(), Var::counter(device, dtype, 1000), (0..1000).collect())]
}

pub(super) fn lane_count(device: Device, dtype: DType) -> Vec<Asked> {
    let array = upload_bits(device, dtype, &all(dtype));
    let count = array.size();
    vec![asked("an array", Vec::new(), array.lane_count(), vec![count])]
}
