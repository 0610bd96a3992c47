//! The devices that every test of meaning runs on: the reference, its mode that runs an unsimplified trace node by
//! node, and every code generator at every width.

use std::sync::{Arc, OnceLock};

use jit_core::interp::{Interpreter, Mode};
use jit_core::runtime::{Device, DeviceOptions};
use jit_llvm::{LlvmBackend, LlvmOptions};

/// All devices, made once: a device lives as long as the process. The first is the reference.
pub(crate) fn all() -> &'static [Device] {
    static DEVICES: OnceLock<Vec<Device>> = OnceLock::new();
    DEVICES.get_or_init(fresh)
}

/// The same devices anew, for tests that count what a device holds.
pub(crate) fn fresh() -> Vec<Device> {
    let mut devices = vec![Device::interpreter(Mode::Lowered), Device::interpreter(Mode::NodeByNode)];
    devices.extend(
        [4, 8, 16].map(|width| {
            Device::new(llvm(width), DeviceOptions { poison: true, ..DeviceOptions::default() })
        }),
    );
    devices
}

/// The code generator of a width.
pub(crate) fn llvm(width: u32) -> Arc<LlvmBackend> {
    // Two threads, so that one launch does run on several.
    let options = LlvmOptions { vector_width: Some(width), threads: Some(2), ..Default::default() };
    Arc::new(LlvmBackend::new(options).expect("LLVM is a requirement of the tests"))
}

/// Devices that do more than they must: lanes report indices that lie outside, launches are cut into parts. No value
/// depends on that.
pub(crate) fn careful() -> &'static [Device] {
    static DEVICES: OnceLock<Vec<Device>> = OnceLock::new();
    DEVICES.get_or_init(|| {
        let options = |checked, max_lanes| DeviceOptions {
            poison: true,
            checked,
            max_lanes,
            ..DeviceOptions::default()
        };
        let interpreter = |options| Device::new(Arc::new(Interpreter::new(Mode::Lowered)), options);
        vec![
            interpreter(options(true, None)),
            interpreter(options(false, Some(64))),
            Device::new(llvm(8), options(true, Some(64))),
        ]
    })
}

/// Runs a test on each of them, naming the device that fails.
pub(crate) fn on_each(test: impl Fn(Device)) {
    for &device in all() {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(device)));
        if let Err(panic) = outcome {
            std::panic::resume_unwind(Box::new(format!("on {device:?}: {}", message(&*panic))));
        }
    }
}

pub(crate) fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}
