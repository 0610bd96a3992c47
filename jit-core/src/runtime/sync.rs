//! The locks and atomics of the runtime: those of `parking_lot` and `std`, or loom's where its tests explore every
//! interleaving (`--cfg loom`).

#[cfg(not(all(test, loom)))]
pub(crate) use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

#[cfg(all(test, loom))]
pub(crate) use loom::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
#[cfg(not(all(test, loom)))]
pub(crate) use parking_lot::{Condvar, Mutex};

#[cfg(all(test, loom))]
pub(crate) use modelled::{Condvar, Mutex};

/// Loom's locks with the signatures of `parking_lot`.
#[cfg(all(test, loom))]
mod modelled {
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Mutex(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
            self.0.lock().expect("no test panics under a lock")
        }
    }

    impl<T: Default> Default for Mutex<T> {
        fn default() -> Self {
            Mutex::new(T::default())
        }
    }

    pub(crate) struct Condvar(loom::sync::Condvar);

    impl Condvar {
        pub(crate) fn new() -> Self {
            Condvar(loom::sync::Condvar::new())
        }

        pub(crate) fn wait<T>(&self, guard: &mut loom::sync::MutexGuard<'_, T>) {
            // loom's `wait` takes the guard by value and gives it back.
            replace_with(guard, |guard| self.0.wait(guard).expect("no test panics under a lock"));
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    fn replace_with<T>(place: &mut T, f: impl FnOnce(T) -> T) {
        // SAFETY: the value is read out once and the place is written again before anybody can see it; should `f` panic,
        // the process ends, so nobody drops it twice.
        unsafe {
            let value = std::ptr::read(place);
            let Ok(next) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| f(value))) else {
                std::process::abort();
            };
            std::ptr::write(place, next);
        }
    }
}
