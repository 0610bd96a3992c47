//! What several tests use.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use jit_frontend::{Array, Device, DeviceInfo, DeviceKind, Element};

/// Runs a test on every device of this machine, and says which one failed.
pub(crate) fn on_each(test: impl Fn(&Device)) {
    struct Names<'a>(&'a DeviceInfo);
    impl Drop for Names<'_> {
        #[expect(clippy::print_stderr, reason = "the report of a failed test")]
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("on {:?}", self.0);
            }
        }
    }
    for info in Device::available() {
        if info.missing.is_none() {
            let _names = Names(&info);
            let device = match info.kind {
                DeviceKind::Cuda => Device::cuda(info.ordinal),
                DeviceKind::Cpu => Device::cpu(),
                DeviceKind::Interpreter => Ok(Device::interpreter()),
            };
            test(&device.expect("it is available"));
        }
    }
}

/// A device that no other test uses.
pub(crate) fn fresh() -> Device {
    Device::builder(DeviceKind::Interpreter).build().expect("always there")
}

/// An array on the interpreter.
pub(crate) fn array<T: Element>(values: &[T]) -> Array<T> {
    Array::from_slice(values, &Device::interpreter()).expect("memory")
}

/// Its elements.
pub(crate) fn values<T: Element>(array: &Array<T>) -> Vec<T> {
    array.to_vec().expect("evaluation")
}

/// The panic of a closure: its message, and the file and line that it is reported at.
pub(crate) fn panic_of<R>(f: impl FnOnce() -> R) -> (String, String, u32) {
    // The hook is the process's own: one test at a time.
    static HOOK: Mutex<()> = Mutex::new(());
    let _guard = HOOK.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let seen = std::sync::Arc::new(Mutex::new(None));
    let thread = std::thread::current().id();
    let before = std::sync::Arc::new(std::panic::take_hook());
    std::panic::set_hook({
        let (seen, before) = (seen.clone(), before.clone());
        Box::new(move |info| {
            if std::thread::current().id() != thread {
                return before(info);
            }
            let at = info.location().expect("a location");
            *seen.lock().expect("the slot") = Some((at.file().to_owned(), at.line()));
        })
    });
    let result = catch_unwind(AssertUnwindSafe(f));
    drop(std::panic::take_hook());
    std::panic::set_hook(Box::new(move |info| before(info)));
    let Err(payload) = result else { panic!("no panic") };
    let message = payload
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| payload.downcast_ref::<&str>().map(|s| (*s).to_owned()))
        .expect("a message");
    let (file, line) = seen.lock().expect("the slot").take().expect("the hook was called");
    (message, file, line)
}
