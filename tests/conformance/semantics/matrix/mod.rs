//! Every op with every type on every device, at the values where something happens: whether it runs, and that it gives
//! what it has to; and the table of all of that, for readers.
//!
//! A cell of the table is filled by running its op on all its values in all forms of operands. Where there is nothing to
//! run, it has the letter of a [reason](reasons).

mod combining;
mod interface;
mod lanes;
mod meaning;
mod memory;
mod reasons;
mod rows;
mod table;
mod values;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::OnceLock;

use jit_core::dtype::{ALL_DTYPES, DType};
use jit_core::runtime::Device;
use jit_core::trace::{Var, eval};

use self::reasons::Reason;
use self::rows::Row;
use super::check::{Column, same, show};
use crate::devices::{all, message};
use crate::host::read_bits;

/// An array that has been traced, and what it must hold; in each row from these operands, for messages.
struct Asked {
    form: String,
    args: Vec<Column>,
    got: Var,
    expected: Vec<u64>,
    moves_bits: bool,
}

/// What became of an op on a type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cell {
    Agrees,
    Differs,
    Missing(Reason),
}

/// A part of the table: its heading, and the name and cells of each row.
type Section = (&'static str, Vec<(String, Vec<Cell>)>);

/// What a device did, and in words where it was wrong.
struct Results {
    sections: Vec<Section>,
    wrong: Vec<String>,
}

/// Of all devices, in their order; computed once.
fn results() -> &'static [Results] {
    static RESULTS: OnceLock<Vec<Results>> = OnceLock::new();
    RESULTS.get_or_init(|| {
        std::thread::scope(|scope| {
            let running: Vec<_> = all().iter().map(|&device| scope.spawn(move || on(device))).collect();
            running
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
                .collect()
        })
    })
}

fn on(device: Device) -> Results {
    let mut wrong = Vec::new();
    let sections = rows::of_ops().into_iter().chain(interface::rows());
    let sections = sections.map(|(heading, rows)| {
        let mut cells = vec![Vec::new(); rows.len()];
        for dtype in ALL_DTYPES {
            let filled = fill(device, dtype, &rows, &mut wrong);
            cells.iter_mut().zip(filled).for_each(|(own, cell)| own.push(cell));
        }
        (heading, rows.into_iter().map(|row| row.name).zip(cells).collect())
    });
    let sections = sections.collect();
    Results { sections, wrong }
}

/// The cells of one type.
fn fill(device: Device, dtype: DType, rows: &[Row], wrong: &mut Vec<String>) -> Vec<Cell> {
    // Of several rows together, so that a kernel has many results.
    const TOGETHER: usize = 64;
    let mut cells = vec![Cell::Agrees; rows.len()];
    let mut pending: Vec<(usize, Asked)> = Vec::new();
    let settle = |pending: &mut Vec<(usize, Asked)>, cells: &mut [Cell], wrong: &mut Vec<String>| {
        for some in pending.chunks(TOGETHER) {
            eval(&some.iter().map(|(_, asked)| &asked.got).collect::<Vec<_>>(), &[]).expect("evaluation");
        }
        for (row, asked) in pending.drain(..) {
            if let Some(difference) = asked.difference() {
                cells[row] = Cell::Differs;
                wrong.push(format!("`{}` on {dtype} on {device:?}, {difference}", rows[row].name));
            }
        }
    };
    for (k, row) in rows.iter().enumerate() {
        match attempt(row, device, dtype) {
            Ok(asked) => pending.extend(asked.into_iter().map(|asked| (k, asked))),
            Err(reason) => cells[k] = Cell::Missing(reason),
        }
        if pending.len() >= 16 * TOGETHER {
            settle(&mut pending, &mut cells, wrong);
        }
    }
    settle(&mut pending, &mut cells, wrong);
    cells
}

fn attempt(row: &Row, device: Device, dtype: DType) -> Result<Vec<Asked>, Reason> {
    catch_unwind(AssertUnwindSafe(|| (row.ask)(device, dtype))).unwrap_or_else(|panic| {
        let text = message(&*panic);
        match Reason::stated(&text, dtype) {
            Some(reason) => Err(reason),
            None => panic!("`{}` on {dtype} states no reason: {text}", row.name),
        }
    })
}

impl Asked {
    fn difference(&self) -> Option<String> {
        let (dtype, got) = (self.got.dtype(), read_bits(&self.got));
        if got.len() != self.expected.len() {
            return Some(format!("{}: {} elements, not {}", self.form, got.len(), self.expected.len()));
        }
        let fits = |row: &usize| same(dtype, self.expected[*row], got[*row], self.moves_bits);
        let row = (0..got.len()).find(|row| !fits(row))?;
        let operands: Vec<String> = self.args.iter().map(|c| show(c.dtype, c.bits[row])).collect();
        let (got, expected) = (show(dtype, got[row]), show(dtype, self.expected[row]));
        Some(format!("{}, element {row} of ({}): {got}, not {expected}", self.form, operands.join(", ")))
    }
}

#[test]
fn every_op_gives_what_it_has_to_on_every_type() {
    let wrong: Vec<&str> = results().iter().flat_map(|r| &r.wrong).map(String::as_str).collect();
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong[..wrong.len().min(40)].join("\n"));
}
