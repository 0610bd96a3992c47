//! Asks for the values of an expression in each position in which its operands can stand.

use std::collections::BTreeSet;

use jit_core::dtype::{DType, Element, format_bits, is_nan};
use jit_core::op::Op;
use jit_core::runtime::Device;
use jit_core::trace::{Var, eval, while_loop};

use crate::devices::on_each;
use crate::host::{lit, read_bits, upload_bits};

/// One operand, or the result, of every row.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) dtype: DType,
    pub(crate) bits: Vec<u64>,
}

/// A column of these values.
pub(crate) fn column<T: Element>(values: &[T]) -> Column {
    Column { dtype: T::DTYPE, bits: values.iter().map(|v| v.to_bits()).collect() }
}

/// A column of values of these bits.
pub(crate) fn bits(dtype: DType, bits: &[u64]) -> Column {
    Column { dtype, bits: bits.to_vec() }
}

/// The pure op on each row gives the expected value. NaN stands for any NaN, unless the op moves bits.
pub(crate) fn check(op: Op, args: &[Column], expected: &Column) {
    let moves_bits = matches!(op, Op::Neg | Op::Abs | Op::CopySign | Op::Select | Op::Bitcast);
    let what = format!("{} on {}", op.name(), args[0].dtype);
    Expression { what: &what, args, expected, moves_bits }
        .check(&|vars| Var::apply(op, expected.dtype, &vars.iter().collect::<Vec<_>>()));
}

/// An expression of several ops gives the expected value on each row.
pub(crate) fn check_expression(
    what: &str,
    args: &[Column],
    expected: &Column,
    build: &dyn Fn(&[Var]) -> Var,
) {
    Expression { what, args, expected, moves_bits: false }.check(build);
}

/// The same where every bit of a NaN must arrive.
pub(crate) fn check_moves(what: &str, args: &[Column], expected: &Column, build: &dyn Fn(&[Var]) -> Var) {
    Expression { what, args, expected, moves_bits: true }.check(build);
}

/// A pure op that gives the type of its last operand.
#[track_caller]
pub(crate) fn apply(op: Op, args: &[&Var]) -> Var {
    Var::apply(op, args[args.len() - 1].dtype(), args)
}

/// A conversion by value.
#[track_caller]
pub(crate) fn cast(to: DType, value: &Var) -> Var {
    Var::apply(Op::Cast, to, &[value])
}

struct Expression<'a> {
    what: &'a str,
    args: &'a [Column],
    expected: &'a Column,
    moves_bits: bool,
}

impl Expression<'_> {
    fn check(&self, build: &dyn Fn(&[Var]) -> Var) {
        let rows = self.expected.bits.len();
        assert!(self.args.iter().all(|c| c.bits.len() == rows), "{}: as many operands as results", self.what);
        on_each(|device| {
            self.evaluated(device, build);
            self.folded(device, build);
            self.beside_a_literal(device, build);
            self.in_a_loop(device, build);
        });
    }

    /// All operands are arrays in memory.
    fn evaluated(&self, device: Device, build: &dyn Fn(&[Var]) -> Var) {
        let got = read_bits(&build(&self.upload(device)));
        assert_eq!(got.len(), self.expected.bits.len(), "{}: number of elements", self.what);
        got.iter().enumerate().for_each(|(row, &got)| self.compare("evaluated arrays", row, got));
    }

    /// All operands are literals: such that no device knows, and such that belong to one.
    fn folded(&self, device: Device, build: &dyn Fn(&[Var]) -> Var) {
        let operands = |row: usize| self.args.iter().map(move |c| (c.dtype, c.bits[row]));
        let rows = 0..self.expected.bits.len();
        for row in rows.clone() {
            let literals: Vec<Var> = operands(row).map(|(dtype, bits)| Var::literal(dtype, bits)).collect();
            let got = build(&literals).literal_bits().expect("an op on unbound literals is a literal");
            self.compare("unbound literals", row, got);
        }
        let results: Vec<Var> = rows
            .map(|row| {
                let bound: Vec<Var> =
                    operands(row).map(|(dtype, bits)| Var::full(device, dtype, bits, 1)).collect();
                build(&bound)
            })
            .collect();
        for (row, got) in read_all(&results).into_iter().enumerate() {
            self.compare("bound literals", row, got[0]);
        }
    }

    /// One operand is a literal, the others are arrays in memory.
    fn beside_a_literal(&self, device: Device, build: &dyn Fn(&[Var]) -> Var) {
        if self.args.len() < 2 {
            return;
        }
        let arrays = self.upload(device);
        for (k, column) in self.args.iter().enumerate() {
            let distinct: BTreeSet<u64> = column.bits.iter().copied().collect();
            let results: Vec<Var> = distinct
                .iter()
                .map(|&value| {
                    let mut operands = arrays.clone();
                    operands[k] = Var::literal(column.dtype, value);
                    build(&operands)
                })
                .collect();
            for (&value, got) in distinct.iter().zip(read_all(&results)) {
                for (row, &got) in got.iter().enumerate().filter(|&(row, _)| column.bits[row] == value) {
                    self.compare(&format!("operand {k} a literal"), row, got);
                }
            }
        }
    }

    /// The operands are state of a loop that runs once.
    fn in_a_loop(&self, device: Device, build: &dyn Fn(&[Var]) -> Var) {
        let mut state = vec![lit(0u32), Var::literal(self.expected.dtype, 0)];
        state.extend(self.upload(device));
        let out = while_loop(
            device,
            &state,
            |s| apply(Op::Lt, &[&s[0], &lit(1u32)]),
            |s| {
                let mut next = vec![apply(Op::Add, &[&s[0], &lit(1u32)]), build(&s[2..])];
                next.extend_from_slice(&s[2..]);
                next
            },
        );
        read_bits(&out[1]).into_iter().enumerate().for_each(|(row, got)| self.compare("in a loop", row, got));
    }

    fn upload(&self, device: Device) -> Vec<Var> {
        self.args.iter().map(|c| upload_bits(device, c.dtype, &c.bits)).collect()
    }

    fn compare(&self, position: &str, row: usize, got: u64) {
        let Column { dtype, bits } = self.expected;
        if same(*dtype, bits[row], got, self.moves_bits) {
            return;
        }
        let operands: Vec<String> = self.args.iter().map(|c| show(c.dtype, c.bits[row])).collect();
        panic!(
            "{}, {position}: ({}) gives {}, not {}",
            self.what,
            operands.join(", "),
            show(*dtype, got),
            show(*dtype, bits[row])
        );
    }
}

/// The bits are equal; or, unless every bit of a NaN counts, both are NaN.
pub(crate) fn same(dtype: DType, expected: u64, got: u64, moves_bits: bool) -> bool {
    expected == got || !moves_bits && is_nan(dtype, expected) && is_nan(dtype, got)
}

/// A value and its bits, for messages.
pub(crate) fn show(dtype: DType, bits: u64) -> String {
    format!("{} = {dtype} {bits:#x}", format_bits(dtype, bits))
}

/// The elements of many arrays, evaluated a few dozen at a time.
fn read_all(vars: &[Var]) -> Vec<Vec<u64>> {
    for some in vars.chunks(64) {
        let some: Vec<&Var> = some.iter().collect();
        eval(&some, &[]).expect("evaluation");
    }
    vars.iter().map(read_bits).collect()
}
