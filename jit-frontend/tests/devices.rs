//! Getting devices.

use std::process::Command;

use jit_frontend::prelude::*;
use jit_frontend::{Error, FloatMode};

use crate::support::{fresh, values};

#[test]
fn default_devices_are_the_same_on_each_call() {
    assert_eq!(Device::interpreter(), Device::interpreter());
    assert_ne!(fresh(), Device::interpreter());
    assert_ne!(fresh(), fresh());
    if let (Ok(a), Ok(b)) = (Device::cpu(), Device::cpu()) {
        assert_eq!(a, b);
        assert_eq!(a.kind(), DeviceKind::Cpu);
    }
}

#[test]
fn what_is_missing_says_why() {
    let Err(error) = Device::cuda(3) else { panic!("there is no CUDA backend") };
    assert!(error.to_string().contains("cuda:3"), "{error}");
    let kinds: Vec<_> = Device::available().iter().map(|i| (i.kind, i.missing.is_some())).collect();
    assert_eq!(kinds[0], (DeviceKind::Cuda, true));
    assert_eq!(kinds[1], (DeviceKind::Cpu, !cfg!(feature = "llvm")));
    assert_eq!(kinds[2], (DeviceKind::Interpreter, false));
    assert_eq!(Device::cpu().is_err(), !cfg!(feature = "llvm"));
}

#[test]
fn builders_refuse_what_no_device_can_have() {
    let interpreter = || Device::builder(DeviceKind::Interpreter);
    assert!(matches!(interpreter().threads(2).build(), Err(Error::Config(_))));
    assert!(matches!(interpreter().vector_width(4).build(), Err(Error::Config(_))));
    assert!(matches!(Device::builder(DeviceKind::Cuda).build(), Err(Error::NoDevice { .. })));
    if cfg!(feature = "llvm") {
        assert!(matches!(Device::builder(DeviceKind::Cpu).vector_width(5).build(), Err(Error::Config(_))));
        let dev = Device::builder(DeviceKind::Cpu).vector_width(4).threads(1).build().expect("LLVM");
        assert_eq!(values(&(Array::<u32>::arange(5, &dev) * 2)), [0, 2, 4, 6, 8]);
        assert!(dev.info().name.contains("vectors of 4 lanes"), "{}", dev.info().name);
    }
}

#[test]
fn history_and_memory_are_the_devices_own() {
    let dev = fresh();
    let a = Array::from_slice(&[1u32, 2, 3, 4], &dev).expect("memory");
    assert_eq!((dev.memory().bytes, dev.kernel_history().len()), (16, 0));
    assert_eq!(values(&(&a * 2 + 1)), [3, 5, 7, 9]);
    let history = dev.kernel_history();
    assert_eq!((history.len(), history[0].lanes, history[0].inputs), (1, 4, 1));
    dev.sync().expect("no error");
    drop(a);
    assert_eq!((dev.memory().bytes, dev.memory().nodes), (0, 0));
    dev.clear_kernel_history();
    assert_eq!(dev.kernel_history().len(), 0);
}

/// The environment belongs to a process, so each case is one.
#[test]
fn the_environment_chooses() {
    let default = if cfg!(feature = "llvm") { "cpu" } else { "interp" };
    check(None, default);
    check(Some("interp"), "interp");
    check(Some("cpu"), if cfg!(feature = "llvm") { "cpu" } else { "no cpu device" });
    check(Some("cuda:1"), "no cuda device");
    for wrong in ["gpu", "", "cuda", "cuda:x", "CPU"] {
        check(Some(wrong), "cpu, cuda:N or interp");
    }

    fn check(value: Option<&str>, expected: &str) {
        let mut child = Command::new(std::env::current_exe().expect("this program"));
        child.args(["--exact", "devices::report_of_a_child", "--ignored", "--nocapture"]);
        child.env_remove("JIT_DEVICE").envs(value.map(|v| ("JIT_DEVICE", v)));
        let output = child.output().expect("a process");
        let text = String::from_utf8_lossy(&output.stdout);
        let report =
            text.lines().find_map(|l| l.split_once("device: ")).unwrap_or_else(|| panic!("{text}")).1;
        assert!(report.contains(expected), "JIT_DEVICE={value:?}: {report}");
    }
}

#[test]
#[ignore = "runs in a child of `the_environment_chooses`"]
#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn report_of_a_child() {
    match Device::from_env() {
        Ok(device) => println!("device: {}", device.kind()),
        Err(error) => println!("device: {error}"),
    }
}

#[test]
fn a_scope_has_a_float_mode_of_its_own() {
    let dev = Device::interpreter();
    let x = Array::from_slice(&[9.0f32], &dev).expect("memory");
    let exact = &x / 7.0;
    let fast = jit_frontend::with_float_mode(FloatMode::Fast, || &x / 7.0);
    assert_eq!(exact.to_vec().expect("it runs"), [9.0 / 7.0]);
    assert_eq!(fast.to_vec().expect("it runs"), [9.0 * (1.0 / 7.0)]);
}
