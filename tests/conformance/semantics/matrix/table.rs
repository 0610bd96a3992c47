//! The table of ops and types, checked in.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Mutex;

use jit_core::dtype::{ALL_DTYPES, DType};
use jit_core::op::Op;
use jit_core::trace::{BufferVar, Case, Var, checked_switch};

use super::reasons::{REASONS, Reason};
use super::{Cell, Results, results};
use crate::devices::all;
use crate::host::{lit, upload};
use crate::semantics::check::apply;

/// The devices, as [`all`] lists them.
const DEVICES: [&str; 5] =
    ["interpreter", "interpreter, node by node", "LLVM, 4 lanes", "LLVM, 8 lanes", "LLVM, 16 lanes"];

/// How many cells are missing on a device.
const MISSING: usize = 631;

#[test]
fn the_table_is_as_checked_in() {
    insta::with_settings!({
        snapshot_path => "../../snapshots",
        prepend_module_to_snapshot => false,
        omit_expression => true,
    }, {
        insta::assert_snapshot!("table", text());
    });
}

#[test]
fn what_is_missing_has_one_of_the_reasons() {
    for (device, own) in DEVICES.iter().zip(results()) {
        let counts = counts(own);
        assert_eq!(counts.values().sum::<usize>(), MISSING, "missing cells on {device}");
        let unused: Vec<Reason> = REASONS.into_iter().filter(|reason| !counts.contains_key(reason)).collect();
        assert!(unused.is_empty(), "reasons of no cell on {device}: {unused:?}");
    }
}

fn text() -> String {
    assert_eq!(DEVICES.len(), all().len());
    let mut text =
        String::from("What every op does with every type. A cell is the outcome of having run it.\n\n");
    text.push_str("+  it runs, and gives what it has to on all values that were tried\n");
    text.push_str("!  it gives something else\n");
    for reason in REASONS {
        let _ = writeln!(text, "{}  {}", reason.letter(), reason.sentence());
    }
    // Devices that agree share a table.
    let mut done: Vec<(String, Vec<&str>)> = Vec::new();
    for (device, own) in DEVICES.iter().zip(results()) {
        let table = table(own);
        match done.iter_mut().find(|(text, _)| *text == table) {
            Some((_, devices)) => devices.push(device),
            None => done.push((table, vec![device])),
        }
    }
    for (table, devices) in done {
        let _ = write!(text, "\n# On {}\n{table}", devices.join("; "));
    }
    text
}

fn table(results: &Results) -> String {
    let mut text = String::new();
    for (heading, rows) in &results.sections {
        let _ = write!(text, "\n{heading}\n{:40}", "");
        for dtype in ALL_DTYPES {
            let _ = write!(text, "{:5}", dtype.name());
        }
        text.truncate(text.trim_end().len());
        for (name, cells) in rows {
            let _ = write!(text, "\n{name:40}");
            for &cell in cells {
                let _ = write!(text, "{:5}", letter(cell));
            }
            text.truncate(text.trim_end().len());
        }
        text.push('\n');
    }
    text
}

fn letter(cell: Cell) -> char {
    match cell {
        Cell::Agrees => '+',
        Cell::Differs => '!',
        Cell::Missing(reason) => reason.letter(),
    }
}

/// How many cells each reason has.
fn counts(results: &Results) -> BTreeMap<Reason, usize> {
    let mut counts = BTreeMap::new();
    for (_, cells) in results.sections.iter().flat_map(|(_, rows)| rows) {
        for cell in cells {
            if let Cell::Missing(reason) = cell {
                *counts.entry(*reason).or_insert(0) += 1;
            }
        }
    }
    counts
}

/// What a closure panics with, and the line that it is reported at.
fn panic_of(f: impl FnOnce()) -> (String, String, u32) {
    // The hook is the process's own: one test at a time.
    static HOOK: Mutex<()> = Mutex::new(());
    let _guard = HOOK.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let place = std::sync::Arc::new(Mutex::new((String::new(), 0)));
    let thread = std::thread::current().id();
    let before = std::sync::Arc::new(std::panic::take_hook());
    std::panic::set_hook({
        let (place, before) = (place.clone(), before.clone());
        Box::new(move |info| {
            if std::thread::current().id() != thread {
                return before(info);
            }
            let at = info.location().expect("a location");
            *place.lock().expect("the place") = (at.file().to_owned(), at.line());
        })
    });
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
    drop(std::panic::take_hook());
    std::panic::set_hook(Box::new(move |info| before(info)));
    let message = crate::devices::message(&*result.expect_err("it panics"));
    let (file, line) = place.lock().expect("the place").clone();
    (message, file, line)
}

/// That this panics for that reason where it stands.
#[track_caller]
fn refuses(reason: Reason, dtype: DType, f: impl FnOnce()) {
    let here = std::panic::Location::caller();
    let (message, file, line) = panic_of(f);
    assert_eq!(Reason::stated(&message, dtype), Some(reason), "{message}");
    assert_eq!((file.as_str(), line), (here.file(), here.line()), "{message}");
}

#[test]
#[rustfmt::skip] // Each of these panics has to be on the line of the check.
fn each_reason_is_given_where_the_op_stands() {
    let device = all()[0];
    let (bools, ints, floats) =
        (upload(device, &[true, false]), upload(device, &[1i32, 2]), upload(device, &[1f32, 2.0]));
    let buffers = [&bools, &floats].map(BufferVar::new);
    let index = lit(0u32);
    let nothing = || -> Case<'_> { Box::new(|_| Ok(Vec::new())) };
    refuses(Reason::NoArithmetic, DType::Bool, || drop(apply(Op::Add, &[&bools, &bools])));
    refuses(Reason::NoArithmetic, DType::Bool, || drop(bools.reduce(Op::ReduceSum)));
    refuses(Reason::NoArithmetic, DType::Bool, || drop(bools.scan(Op::Add, false, false, None)));
    refuses(Reason::NoArithmetic, DType::Bool, || buffers[0].scatter(Op::ScatterAdd, &lit(true), &index, None));
    refuses(Reason::FloatsOnly, DType::I32, || drop(apply(Op::Sqrt, &[&ints])));
    refuses(Reason::IntegersOnly, DType::F32, || drop(apply(Op::Shl, &[&floats, &floats])));
    refuses(Reason::IntegersOnly, DType::F32, || drop(apply(Op::CountOnes, &[&floats])));
    refuses(Reason::IntegersOnly, DType::F32, || drop(buffers[1].atomic_inc(&index, None)));
    refuses(Reason::IntegersOnly, DType::F32, || drop(checked_switch(device, &floats, &[], [nothing()])));
    refuses(Reason::NoBits, DType::F32, || drop(apply(Op::And, &[&floats, &floats])));
    refuses(Reason::NoBits, DType::F32, || buffers[1].scatter(Op::ScatterOr, &lit(1f32), &index, None));
    refuses(Reason::OtherSize, DType::F32, || drop(Var::apply(Op::Bitcast, DType::F64, &[&floats])));
    refuses(Reason::BoolIsOneBit, DType::Bool, || drop(Var::apply(Op::Bitcast, DType::U8, &[&bools])));
    refuses(Reason::BoolIsOneBit, DType::U8, || drop(Var::apply(Op::Bitcast, DType::Bool, &[&lit(1u8)])));
    refuses(Reason::BoolsOnly, DType::I32, || drop(ints.compress(DType::U32, None)));
    refuses(Reason::LaneNumbers, DType::F32, || drop(Var::counter(device, DType::F32, 2)));
}
