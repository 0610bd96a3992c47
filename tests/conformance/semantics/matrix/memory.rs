//! Values through memory: what is read, written, exchanged and combined at indices; what lanes have for themselves; what
//! regions pass on.

use jit_core::dtype::DType;
use jit_core::op::Op;
use jit_core::runtime::Device;
use jit_core::trace::{BufferVar, Case, Var, checked_switch, if_else, while_loop};

use super::values::{all, few, product};
use super::{Asked, meaning};
use crate::host::{lit, upload, upload_bits};
use crate::semantics::check::{Column, apply};

/// Columns that all go through memory, with a place of its own for each row: the last element first.
struct Rows {
    device: Device,
    columns: Vec<Column>,
    index: Var,
}

impl Rows {
    fn new(device: Device, columns: Vec<Column>) -> Rows {
        let index: Vec<u32> = (0..columns[0].bits.len() as u32).rev().collect();
        Rows { device, columns, index: upload(device, &index) }
    }

    fn len(&self) -> usize {
        self.columns[0].bits.len()
    }

    fn upload(&self, k: usize) -> Var {
        upload_bits(self.device, self.columns[k].dtype, &self.columns[k].bits)
    }

    /// Memory whose element for each row is that of a column.
    fn memory(&self, k: usize) -> Var {
        upload_bits(self.device, self.columns[k].dtype, &backwards(&self.columns[k].bits))
    }

    fn bits(&self, each: impl Fn(&[u64]) -> u64) -> Vec<u64> {
        let row = |r: usize| self.columns.iter().map(|c| c.bits[r]).collect::<Vec<_>>();
        (0..self.len()).map(|r| each(&row(r))).collect()
    }

    /// That each row gives this, by itself.
    fn asked(&self, form: &str, got: Var, moves_bits: bool, each: impl Fn(&[u64]) -> u64) -> Asked {
        let expected = self.bits(each);
        Asked { form: form.to_owned(), args: self.columns.clone(), got, expected, moves_bits }
    }

    /// That memory holds this at the place of each row.
    fn asked_memory(&self, form: &str, got: Var, moves_bits: bool, each: impl Fn(&[u64]) -> u64) -> Asked {
        let args = self.columns.iter().map(|c| Column { dtype: c.dtype, bits: backwards(&c.bits) }).collect();
        let expected = backwards(&self.bits(each));
        Asked { form: form.to_owned(), args, got, expected, moves_bits }
    }
}

fn backwards(bits: &[u64]) -> Vec<u64> {
    bits.iter().rev().copied().collect()
}

/// Runs something once in a loop.
fn once(device: Device, f: impl Fn()) {
    while_loop(
        device,
        &[lit(0u32)],
        |s| apply(Op::Lt, &[&s[0], &lit(1u32)]),
        |s| {
            f();
            vec![apply(Op::Add, &[&s[0], &lit(1u32)])]
        },
    );
}

pub(super) fn gather(device: Device, dtype: DType) -> Vec<Asked> {
    let rows = Rows::new(device, product(&[(dtype, all(dtype))]));
    let memory = rows.memory(0);
    let beyond = apply(Op::Add, &[&rows.index, &lit(rows.len() as u32)]);
    let mut asked = vec![
        rows.asked("at indices", memory.gather(&rows.index, None), true, |v| v[0]),
        rows.asked("out of bounds", memory.gather(&beyond, None), true, |_| 0),
    ];
    for literal in few(dtype) {
        let full = Var::full(device, dtype, literal, rows.len() as u64).gather(&rows.index, None);
        asked.push(rows.asked("of a literal", full, true, move |_| literal));
    }
    asked
}

/// A scatter of any kind: each value with each element.
pub(super) fn scatter(op: Op, device: Device, dtype: DType) -> Vec<Asked> {
    let combined = move |element: u64, value: u64| match op.combine() {
        Some(combine) => meaning::of(combine, dtype, &[element, value]),
        None => value,
    };
    let moves = op == Op::Scatter;
    let rows = Rows::new(device, product(&[(dtype, all(dtype)), (dtype, all(dtype))]));
    let values = rows.upload(1);
    let mut target = rows.memory(0);
    target.scatter(op, &values, &rows.index, None);
    let buffer = BufferVar::new(&rows.memory(0));
    once(device, || buffer.scatter(op, &values, &rows.index, None));
    let mut asked = vec![
        rows.asked_memory("values at indices", target, moves, |v| combined(v[0], v[1])),
        rows.asked_memory("in a loop", buffer.value(), moves, |v| combined(v[0], v[1])),
    ];
    for literal in few(dtype) {
        let rows = Rows::new(device, product(&[(dtype, all(dtype)), (dtype, vec![literal])]));
        let mut target = rows.memory(0);
        target.scatter(op, &Var::literal(dtype, literal), &rows.index, None);
        asked.push(rows.asked_memory("a literal", target, moves, |v| combined(v[0], v[1])));
        let rows = Rows::new(device, product(&[(dtype, vec![literal]), (dtype, all(dtype))]));
        let mut target = Var::full(device, dtype, literal, rows.len() as u64);
        target.scatter(op, &rows.upload(1), &rows.index, None);
        asked.push(rows.asked_memory("onto a literal", target, moves, |v| combined(v[0], v[1])));
    }
    asked
}

pub(super) fn atomic_inc(device: Device, dtype: DType) -> Vec<Asked> {
    let rows = Rows::new(device, product(&[(dtype, all(dtype))]));
    let buffer = BufferVar::new(&rows.memory(0));
    let old = buffer.atomic_inc(&rows.index, None);
    vec![
        rows.asked("the old value", old, true, |v| v[0]),
        rows.asked_memory("the new value", buffer.value(), true, |v| meaning::of(Op::Add, dtype, &[v[0], 1])),
    ]
}

pub(super) fn exchange(device: Device, dtype: DType) -> Vec<Asked> {
    let rows = Rows::new(device, product(&[(dtype, all(dtype)), (dtype, all(dtype))]));
    let buffer = BufferVar::new(&rows.memory(0));
    let old = buffer.exchange(&rows.upload(1), &rows.index, None);
    vec![
        rows.asked("the old value", old, true, |v| v[0]),
        rows.asked_memory("the new value", buffer.value(), true, |v| v[1]),
    ]
}

/// Elements are compared by their bits: -0 is not +0, and a NaN is itself.
pub(super) fn compare_exchange(device: Device, dtype: DType) -> Vec<Asked> {
    let mut columns = product(&[(dtype, all(dtype)), (dtype, all(dtype))]);
    let mut values = columns[1].clone();
    values.bits.rotate_left(1);
    columns.push(values);
    let rows = Rows::new(device, columns);
    let buffer = BufferVar::new(&rows.memory(0));
    let old = buffer.compare_exchange(&rows.upload(1), &rows.upload(2), &rows.index, None);
    let after = |v: &[u64]| if v[0] == v[1] { v[2] } else { v[0] };
    vec![
        rows.asked("the old value", old, true, |v| v[0]),
        rows.asked_memory("the new value", buffer.value(), true, after),
    ]
}

/// A lane's own array of two elements: zeros, one of which is written.
pub(super) fn local(op: Op, device: Device, dtype: DType) -> Vec<Asked> {
    let rows = Rows::new(device, product(&[(dtype, all(dtype))]));
    let (at, other) = (
        apply(Op::And, &[&rows.index, &lit(1u32)]),
        apply(Op::And, &[&apply(Op::Not, &[&rows.index]), &lit(1u32)]),
    );
    let zeros = Var::local_zeros(dtype, 2);
    let element = |array: &Var, index: &Var| array.local_read(index, None, device);
    if op == Op::LocalZeros {
        return vec![rows.asked("zeros", element(&zeros, &at), true, |_| 0)];
    }
    let written = zeros.local_write(&rows.upload(0), &at, None, device);
    vec![
        rows.asked("what is written", element(&written, &at), true, |v| v[0]),
        rows.asked("what is not", element(&written, &other), true, |_| 0),
        rows.asked("out of bounds", element(&written, &apply(Op::Add, &[&at, &lit(2u32)])), true, |_| 0),
    ]
}

/// State that is swapped as often as the lane's number says.
pub(super) fn loops(device: Device, dtype: DType) -> Vec<Asked> {
    let mut columns = product(&[(dtype, all(dtype))]);
    let mut other = columns[0].clone();
    other.bits.rotate_left(1);
    columns.push(other);
    let times: Vec<u64> = (0..columns[0].bits.len() as u64).map(|k| k % 4).collect();
    columns.push(Column { dtype: DType::U32, bits: times });
    let rows = Rows::new(device, columns);
    let out = while_loop(
        device,
        &[rows.upload(2), rows.upload(0), rows.upload(1)],
        |s| apply(Op::Ne, &[&s[0], &lit(0u32)]),
        |s| vec![apply(Op::Sub, &[&s[0], &lit(1u32)]), s[2].clone(), s[1].clone()],
    );
    vec![
        rows.asked("the first", out[1].clone(), true, |v| v[(v[2] % 2) as usize]),
        rows.asked("the second", out[2].clone(), true, |v| v[(1 - v[2] % 2) as usize]),
    ]
}

/// Each side gives one of two values.
pub(super) fn branches(device: Device, dtype: DType) -> Vec<Asked> {
    let few = few(dtype);
    let rows = Rows::new(device, product(&[(DType::Bool, vec![0, 1]), (dtype, all(dtype)), (dtype, few)]));
    let (condition, a, b) = (rows.upload(0), rows.upload(1), rows.upload(2));
    let out = if_else(device, &condition, &[a], |v| v, |_| vec![b.clone()]);
    vec![rows.asked("values", out[0].clone(), true, |v| if v[0] == 1 { v[1] } else { v[2] })]
}

/// The index has the type: 0 and 1 have a block each, others none.
pub(super) fn switches(device: Device, dtype: DType) -> Vec<Asked> {
    let rows = Rows::new(device, product(&[(dtype, all(dtype))]));
    let cases = [10u32, 11].map(|value| -> Case<'_> { Box::new(move |_| Ok(vec![lit(value)])) });
    let out = checked_switch(device, &rows.upload(0), &[], cases);
    vec![rows.asked("values", out[0].clone(), true, |v| if v[0] < 2 { 10 + v[0] } else { 0 })]
}
