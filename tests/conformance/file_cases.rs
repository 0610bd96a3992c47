//! Programs in text with what is to come of them: `tests/cases/**/*.ir`.
//!
//! A file holds cases one after another. A line that starts with `;!` is a directive:
//!
//! - `;! print`: the program prints as the text behind `;! expect`, or as it stands (comments aside).
//! - `;! parse-error: <part of the message>`, `;! verify-error: <part of the message>`.
//! - `;! pass: <name>`: the pass, or `full` for the pipeline, makes the program behind `;! expect` of it. With
//!   `UPDATE_CASES=1` in the environment what is expected is rewritten by what comes out.
//! - `;! run`: the interpreter runs it, before and after all passes, with these further lines:
//!   `;! lanes: 4`, `;! segment: 2` (the length of segments), `;! base: 0`, `;! p0 = [1, 2]` for memory or `;! p0 = 3`
//!   for a number, and `;! p1 -> [2, 4]` for what memory holds afterwards (an `out` without a line `=` starts with all
//!   bits set).
//!
//! Every program that parses and is valid is also printed and read back.

use std::fmt::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};

use jit_core::backend::{Backend, PassLevel};
use jit_core::dtype::{DType, format_bits, is_nan};
use jit_core::interp::{Interpreter, Mode};
use jit_core::ir::{Program, parse, parse_constant, verify};
use jit_core::passes;
use jit_core::runtime::FloatMode;

use crate::launch::{Argument, Size, launch};

#[test]
fn printed_programs() {
    check_folder("print");
}

#[test]
fn malformed_texts() {
    check_folder("parse");
}

#[test]
fn broken_rules() {
    check_folder("verify");
}

#[test]
fn results_of_passes() {
    check_folder("passes");
}

#[test]
fn results_of_runs() {
    check_folder("run");
}

#[test]
fn every_folder_of_cases_is_tested() {
    let mut folders: Vec<String> = std::fs::read_dir(cases())
        .expect("the cases")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    folders.sort();
    assert_eq!(folders, ["parse", "passes", "print", "run", "verify"]);
}

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("cases")
}

fn check_folder(folder: &str) {
    let mut files: Vec<PathBuf> = std::fs::read_dir(cases().join(folder))
        .expect("a folder of cases")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "ir"))
        .collect();
    files.sort();
    let mut failures = String::new();
    let mut count = 0;
    for path in files {
        let text = std::fs::read_to_string(&path).expect("a case");
        let cases = split(&text);
        assert!(!cases.is_empty(), "{} holds no case", path.display());
        count += cases.len();
        let mut updated = text.clone();
        // From the end, so that places before a change stay where they are.
        for case in cases.into_iter().rev() {
            if let Err(failure) = case.check() {
                let _ = writeln!(failures, "{}:{}: {}", path.display(), case.line, failure.message);
                if let (Some(expected), Some(got)) = (case.expected, failure.got) {
                    updated.replace_range(expected, &format!("{got}\n\n"));
                }
            }
        }
        if updated != text && std::env::var_os("UPDATE_CASES").is_some() {
            std::fs::write(&path, updated).expect("the case is written");
        }
    }
    assert!(count > 0, "no cases in {folder}");
    assert!(failures.is_empty(), "\n{failures}");
}

struct Case<'a> {
    /// The text of the file.
    text: &'a str,
    /// The line of its directive.
    line: usize,
    directive: &'a str,
    /// The further directives of a run.
    settings: Vec<&'a str>,
    program: Range<usize>,
    expected: Option<Range<usize>>,
}

struct Failure {
    message: String,
    /// What could have been expected.
    got: Option<String>,
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Failure { message, got: None }
    }
}

/// The cases of a file.
fn split(text: &str) -> Vec<Case<'_>> {
    let mut cases: Vec<Case<'_>> = Vec::new();
    let mut end = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        end += line.len();
        let directive = line.strip_prefix(";!").map(str::trim);
        match (directive, cases.last_mut()) {
            (None, None) => {}
            (None, Some(case)) => case.expected.as_mut().unwrap_or(&mut case.program).end = end,
            (Some("expect"), Some(case)) => case.expected = Some(end..end),
            (Some(setting), Some(case)) if is_setting(setting) => {
                case.settings.push(setting);
                case.program = end..end;
            }
            (Some(directive), _) => cases.push(Case {
                text,
                line: number + 1,
                directive,
                settings: Vec::new(),
                program: end..end,
                expected: None,
            }),
        }
    }
    cases
}

fn is_setting(directive: &str) -> bool {
    let names_param =
        directive.strip_prefix('p').is_some_and(|d| d.starts_with(|c: char| c.is_ascii_digit()));
    names_param || ["lanes: ", "segment: ", "base: "].iter().any(|setting| directive.starts_with(setting))
}

impl Case<'_> {
    fn program(&self) -> &str {
        &self.text[self.program.clone()]
    }

    fn expected(&self) -> Option<&str> {
        self.expected.clone().map(|range| &self.text[range])
    }

    fn check(&self) -> Result<(), Failure> {
        let (kind, argument) = self.directive.split_once(':').unwrap_or((self.directive, ""));
        let argument = argument.trim();
        if kind == "parse-error" {
            return match parse(self.program()) {
                Ok(_) => Err("it parses".to_owned().into()),
                Err(error) => expect_part(&error.to_string(), argument),
            };
        }
        let program = parse(self.program()).map_err(|e| e.to_string())?;
        if kind == "verify-error" {
            return match verify(&program) {
                Ok(()) => Err("it is valid".to_owned().into()),
                Err(error) => expect_part(&error.to_string(), argument),
            };
        }
        verify(&program).map_err(|e| e.to_string())?;
        round_trip(&program)?;
        match kind {
            "print" => self.print(&program),
            "pass" => self.pass(program, argument),
            "run" => self.run(&program),
            other => Err(format!("there is no directive `{other}`").into()),
        }
    }

    fn print(&self, program: &Program) -> Result<(), Failure> {
        let uncommented: String =
            self.program().lines().filter(|l| !l.starts_with(';')).flat_map(|l| [l, "\n"]).collect();
        let wanted = self.expected().unwrap_or(&uncommented);
        same_text(&program.to_string(), wanted)
    }

    fn pass(&self, mut program: Program, name: &str) -> Result<(), Failure> {
        let options = passes::Options::default();
        match name {
            "dce" => passes::dce::run(&mut program),
            "cse" => passes::cse::run(&mut program),
            "loop_state" => passes::loop_state::run(&mut program),
            "bounds" => passes::bounds::run(&mut program, &options.bounds),
            "contract" => passes::contract::run(&mut program, FloatMode::Contract),
            "fast" => passes::fast::run(&mut program, FloatMode::Fast),
            "renumber" => program.renumber(),
            "full" => passes::run(&mut program, PassLevel::Full, &options, &mut |_, _| {}),
            other => return Err(format!("there is no pass `{other}`").into()),
        }
        verify(&program).map_err(|e| format!("the pass broke the program: {e}\n{program}"))?;
        let Some(expected) = self.expected() else { return Err("`;! expect` is missing".to_owned().into()) };
        // Read and printed again, so that a case may be laid out freely.
        let wanted = parse(expected).map(|p| p.to_string()).unwrap_or_default();
        same_text(&program.to_string(), &wanted)
    }

    fn run(&self, program: &Program) -> Result<(), Failure> {
        let run = Run::read(program, &self.settings)?;
        run.check(program).map_err(|e| format!("as it stands: {e}"))?;
        let mut optimised = program.clone();
        let lens = run.arguments.iter().map(|argument| match argument {
            Argument::Scalar(_) => 0,
            Argument::Memory(elements) => elements.len() as u64,
        });
        let bounds =
            passes::Bounds::Within { lens: lens.collect(), counter_end: run.size.base + run.size.lanes };
        let options = passes::Options { bounds, ..passes::Options::default() };
        passes::run(&mut optimised, PassLevel::Full, &options, &mut |_, _| {});
        run.check(&optimised).map_err(|e| format!("after the passes: {e}\n{optimised}").into())
    }
}

fn expect_part(message: &str, part: &str) -> Result<(), Failure> {
    if !part.is_empty() && message.contains(part) {
        return Ok(());
    }
    Err(format!("the error is\n  {message}\nwithout\n  {part}").into())
}

fn same_text(got: &str, wanted: &str) -> Result<(), Failure> {
    if got.trim() == wanted.trim() {
        return Ok(());
    }
    let message = format!("expected\n{wanted}\ngot\n{got}");
    Err(Failure { message, got: Some(got.trim().to_owned()) })
}

fn round_trip(program: &Program) -> Result<(), Failure> {
    let text = program.to_string();
    let again = parse(&text).map_err(|e| format!("its own text does not parse: {e}\n{text}"))?;
    same_text(&again.to_string(), &text)?;
    let mut dense = program.clone();
    dense.renumber();
    let again = parse(&dense.to_string()).map_err(|e| e.to_string())?;
    if again == dense { Ok(()) } else { Err(format!("reading back changes\n{dense}").into()) }
}

/// What a run case gives and expects.
struct Run {
    size: Size,
    arguments: Vec<Argument>,
    expected: Vec<Option<Vec<u64>>>,
}

impl Run {
    fn read(program: &Program, settings: &[&str]) -> Result<Run, String> {
        let mut run =
            Run { size: Size { lanes: 1, segment: 0, base: 0 }, arguments: Vec::new(), expected: Vec::new() };
        let mut given: Vec<Option<Argument>> = vec![None; program.params.len()];
        run.expected = vec![None; program.params.len()];
        for setting in settings {
            if let Some(lanes) = setting.strip_prefix("lanes: ") {
                run.size.lanes = lanes.parse().map_err(|_| format!("no number of lanes: {lanes}"))?;
            } else if let Some(length) = setting.strip_prefix("segment: ") {
                run.size.segment = length.parse().map_err(|_| format!("no length: {length}"))?;
            } else if let Some(base) = setting.strip_prefix("base: ") {
                run.size.base = base.parse().map_err(|_| format!("no base: {base}"))?;
            } else if let Some((name, value)) = setting.split_once(" = ") {
                let (at, dtype) = param(program, name)?;
                given[at] = Some(argument(dtype, value)?);
            } else if let Some((name, value)) = setting.split_once(" -> ") {
                let (at, dtype) = param(program, name)?;
                let Argument::Memory(elements) = argument(dtype, value)? else {
                    return Err(format!("{name} is memory: give a list"));
                };
                run.expected[at] = Some(elements);
            } else {
                return Err(format!("no setting: {setting}"));
            }
        }
        if run.expected.iter().all(Option::is_none) {
            return Err("nothing is expected".to_owned());
        }
        for (k, argument) in given.into_iter().enumerate() {
            let unwritten = || {
                let elements = run.expected[k].as_ref()?.len();
                Some(Argument::Memory(vec![program.params[k].dtype.mask(); elements]))
            };
            run.arguments.push(argument.or_else(unwritten).ok_or(format!("p{k} is not given"))?);
        }
        Ok(run)
    }

    fn check(&self, program: &Program) -> Result<(), String> {
        let kernel = Interpreter::new(Mode::Lowered).compile(program).map_err(|e| e.to_string())?;
        let mut arguments = self.arguments.clone();
        launch(&*kernel, program, &mut arguments, self.size);
        for (k, expected) in self.expected.iter().enumerate() {
            let (Some(expected), Argument::Memory(got)) = (expected, &arguments[k]) else { continue };
            let dtype = program.params[k].dtype;
            let equal = |(&a, &b): (&u64, &u64)| a == b || is_nan(dtype, a) && is_nan(dtype, b);
            if got.len() != expected.len() || !got.iter().zip(expected).all(equal) {
                return Err(format!("p{k} is {}, not {}", list(dtype, got), list(dtype, expected)));
            }
        }
        Ok(())
    }
}

fn param(program: &Program, name: &str) -> Result<(usize, DType), String> {
    let at: Option<usize> = name.trim().strip_prefix('p').and_then(|n| n.parse().ok());
    let found = at.and_then(|at| Some((at, program.params.get(at)?.dtype)));
    found.ok_or(format!("no parameter: {name}"))
}

fn argument(dtype: DType, text: &str) -> Result<Argument, String> {
    let constant =
        |text: &str| parse_constant(dtype, text.trim()).ok_or(format!("no constant of type {dtype}: {text}"));
    let Some(list) = text.trim().strip_prefix('[').and_then(|t| t.strip_suffix(']')) else {
        return constant(text).map(Argument::Scalar);
    };
    let elements = list.split(',').filter(|t| !t.trim().is_empty()).map(constant);
    elements.collect::<Result<_, _>>().map(Argument::Memory)
}

fn list(dtype: DType, bits: &[u64]) -> String {
    let elements: Vec<String> = bits.iter().map(|&b| format_bits(dtype, b)).collect();
    format!("[{}]", elements.join(", "))
}
