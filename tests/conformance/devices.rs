//! The devices that every test of meaning runs on: the reference, its mode that runs an unsimplified trace node by
//! node, and every code generator at every width.

use std::sync::{Arc, OnceLock};

use jit_core::interp::Mode;
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
    devices.extend([4, 8, 16].map(|width| {
        // Two threads, so that one launch does run on several.
        let options = LlvmOptions { vector_width: Some(width), threads: Some(2), ..Default::default() };
        let backend = LlvmBackend::new(options).expect("LLVM is a requirement of the tests");
        Device::new(Arc::new(backend), DeviceOptions { poison: true, ..DeviceOptions::default() })
    }));
    devices
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
