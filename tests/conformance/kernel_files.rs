//! Kernels on disk: other processes find them, nobody finds the wrong one, and what fails only costs a compilation.
//!
//! A process is this test binary, asked for [`child`] alone.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use jit_core::op::Op;
use jit_core::runtime::{CacheOutcome, Device, DeviceOptions, DiskCacheOptions, FloatMode};
use jit_core::trace::{Var, while_loop};
use jit_llvm::{LlvmBackend, LlvmOptions};
use tempfile::TempDir;

use crate::host::{lit, upload};

/// How a device differs from others that share a directory with it.
#[derive(Clone, Copy)]
struct Kind {
    width: u32,
    float_mode: FloatMode,
}

const STRICT: Kind = Kind { width: 8, float_mode: FloatMode::Strict };

fn device(directory: Option<&Path>, kind: Kind) -> Device {
    let options = LlvmOptions { vector_width: Some(kind.width), threads: Some(2), ..LlvmOptions::default() };
    let backend = LlvmBackend::new(options).expect("LLVM is a requirement of the tests");
    let options = DeviceOptions {
        poison: true,
        float_mode: kind.float_mode,
        disk_cache: directory.map(DiskCacheOptions::new),
        ..DeviceOptions::default()
    };
    Device::new(Arc::new(backend), options)
}

fn op(op: Op, args: &[&Var]) -> Var {
    Var::apply(op, args[0].dtype(), args)
}

/// A bit of everything that a kernel can have: literals, tables, a loop, reductions with a finish, assumptions about
/// lengths that hold and that fail.
fn results(device: Device) -> Vec<Vec<u8>> {
    let x = upload(device, &(0..100).map(|i| i as f32 * 0.37 - 11.0).collect::<Vec<_>>());
    let index = upload(device, &(0..100u32).map(|i| i * 7 % 23).collect::<Vec<_>>());
    let (long, short) = (upload(device, &[9u32; 16]), upload(device, &[5u32, 6, 7]));
    let mut all = Vec::new();
    for value in [2.5f32, 3.5, 4.5] {
        all.push(op(Op::Add, &[&op(Op::Mul, &[&x, &lit(value)]), &lit(0.1f32)]));
    }
    for divisor in [3u32, 5] {
        all.push(op(Op::Div, &[&index, &lit(divisor)]));
    }
    all.push(op(Op::Sin, &[&x]));
    let mean = op(Op::Mul, &[&x, &x]).reduce(Op::ReduceSum);
    all.push(op(Op::Mul, &[&mean, &lit(0.01f32)]));
    let masked = op(Op::And, &[&index, &lit(15u32)]);
    all.extend([&long, &short].map(|memory| memory.gather(&masked, None)));
    let halved = while_loop(
        device,
        &[index],
        |s| op(Op::Gt, &[&s[0], &lit(4u32)]),
        |s| vec![op(Op::Shr, &[&s[0], &lit(1u32)])],
    );
    all.extend(halved);
    all.iter().map(|var| var.read().expect("it runs")).collect()
}

fn outcomes(device: Device) -> (usize, usize, usize) {
    let history = device.kernel_history();
    let count = |is: fn(&CacheOutcome) -> bool| history.iter().filter(|r| is(&r.cache)).count();
    let misses = count(|o| matches!(o, CacheOutcome::Miss(_)));
    (count(|o| *o == CacheOutcome::Hit), count(|o| *o == CacheOutcome::Disk), misses)
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("a directory");
    let mut paths: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
    paths.sort();
    paths
}

fn directory() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

const DIRECTORY: &str = "JIT_TEST_KERNEL_FILES";
const REPORT: &str = "report: ";

/// Not a test but the other process: evaluates, and prints what it got from where.
#[test]
#[ignore = "run by the other tests as a process of its own"]
fn child() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let device = device(Some(Path::new(&directory)), STRICT);
    let results = results(device);
    let (hits, disk, misses) = outcomes(device);
    // Not by a macro, whose output the test harness keeps to itself.
    let digest = digest(&results);
    writeln!(stdout(), "{REPORT}{hits} hits, {disk} from disk, {misses} misses, {digest}").expect("a pipe");
}

/// Starts [`child`] from a shell that runs `before` first.
fn start(directory: &Path, before: &str) -> Child {
    Command::new("sh")
        .arg("-c")
        .arg(format!("{before} exec \"$0\" --exact kernel_files::child --ignored"))
        .arg(std::env::current_exe().expect("this binary"))
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process")
}

/// What it printed.
fn report(child: Child) -> String {
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    let report = text.lines().find_map(|line| line.split_once(REPORT)).expect("a report");
    report.1.to_owned()
}

fn digest(results: &[Vec<u8>]) -> String {
    let mut hasher = DefaultHasher::new();
    results.hash(&mut hasher);
    format!("results {:016x}", hasher.finish())
}

fn expected_results() -> Vec<Vec<u8>> {
    results(device(None, STRICT))
}

#[test]
fn another_process_compiles_nothing() {
    let directory = directory();
    let results = digest(&expected_results());
    let first = report(start(directory.path(), ""));
    let second = report(start(directory.path(), ""));
    assert!(first.contains(", 0 from disk") && first.ends_with(&results), "{first}");
    assert!(second.contains(", 0 misses") && second.ends_with(&results), "{second}");
    let stored = files(directory.path()).len();
    assert!(second.contains(&format!(" {stored} from disk")), "{stored} files; {second}");
}

#[test]
fn eight_processes_share_a_directory() {
    let directory = directory();
    let results = digest(&expected_results());
    let processes: Vec<Child> = (0..8).map(|_| start(directory.path(), "")).collect();
    for process in processes {
        let report = report(process);
        assert!(report.ends_with(&results), "{report}");
    }
    let last = report(start(directory.path(), ""));
    assert!(last.contains(", 0 misses"), "{last}");
    assert!(files(directory.path()).iter().all(|f| f.extension().is_some_and(|e| e == "kernel")));
}

#[test]
fn a_full_disk_costs_compilations_and_nothing_else() {
    let directory = directory();
    // No file may pass 512 bytes; a write beyond is an error, since the signal is ignored.
    let report = report(start(directory.path(), "trap '' XFSZ; ulimit -f 1;"));
    let results = digest(&expected_results());
    assert!(report.contains(", 0 from disk") && report.ends_with(&results), "{report}");
    assert_eq!(files(directory.path()), Vec::<PathBuf>::new(), "nothing is left of what failed");
}

#[test]
fn kernels_of_another_width_mode_or_literal_are_others() {
    let directory = directory();
    let kinds = [
        STRICT,
        Kind { width: 4, ..STRICT },
        Kind { width: 16, ..STRICT },
        Kind { float_mode: FloatMode::Contract, ..STRICT },
    ];
    let mut stored = 0;
    for kind in kinds {
        let expected = results(device(None, kind));
        let first = device(Some(directory.path()), kind);
        assert_eq!(results(first), expected);
        let (_, disk, misses) = outcomes(first);
        assert_eq!(
            (disk, files(directory.path()).len()),
            (0, stored + misses),
            "it found none of another kind"
        );
        stored += misses;
        let again = device(Some(directory.path()), kind);
        assert_eq!(results(again), expected);
        assert_eq!(outcomes(again), (outcomes(first).0, misses, 0), "it found all of its own");
    }
    // One structure with one baked value each.
    for divisor in [9u32, 11, 13] {
        let device = device(Some(directory.path()), STRICT);
        let quotient = op(Op::Div, &[&upload(device, &[1000u32, 77]), &lit(divisor)]);
        let expected: Vec<u8> = [1000 / divisor, 77 / divisor].iter().flat_map(|v| v.to_ne_bytes()).collect();
        assert_eq!(quotient.read().expect("it runs"), expected);
        assert_eq!(outcomes(device), (0, 0, 1));
    }
}

#[test]
fn a_damaged_file_is_compiled_again() {
    let directory = directory();
    let run = || {
        let device = device(Some(directory.path()), STRICT);
        let x = upload(device, &[1.0f32, 2.0, 3.0]);
        let y = op(Op::Add, &[&op(Op::Mul, &[&x, &x]), &lit(0.25f32)]);
        let expected: Vec<u8> = [1.25f32, 4.25, 9.25].iter().flat_map(|v| v.to_ne_bytes()).collect();
        assert_eq!(y.read().expect("it runs"), expected);
        outcomes(device)
    };
    assert_eq!(run(), (0, 0, 1));
    assert_eq!(run(), (0, 1, 0));
    let path = files(directory.path()).pop().expect("a file");
    let whole = fs::read(&path).expect("it can be read");
    let step = whole.len() / 12;
    for at in (0..whole.len()).step_by(step) {
        let mut changed = whole.clone();
        changed[at] ^= 0x10;
        for damaged in [&whole[..at], &changed] {
            fs::write(&path, damaged).expect("it can be changed");
            assert_eq!(run(), (0, 0, 1), "byte {at} of {}", whole.len());
            assert_eq!(run(), (0, 1, 0), "it was replaced");
        }
    }
}

#[test]
fn a_directory_that_cannot_serve_turns_caching_off() {
    let place = directory();
    let file = place.path().join("file");
    fs::write(&file, "").expect("a file");
    let device = device(Some(&file), STRICT);
    assert_eq!(results(device), expected_results());
    assert_eq!(outcomes(device).1, 0);
}
