//! The builtins of a device, each made when it is first needed.

use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::backend::{Backend, CompiledKernel};
use crate::builtin::Builtin;
use crate::error::Error;
use crate::runtime::CacheOutcome;

/// What was made so far. There are a few hundred builtins at most, so none is ever dropped.
#[derive(Default)]
pub(crate) struct Builtins(Mutex<FxHashMap<Builtin, Made>>);

#[derive(Clone)]
struct Made {
    /// Its number in the history: behind those of programs.
    number: u64,
    kernel: Arc<dyn CompiledKernel>,
}

/// Where the numbers of builtins begin.
const FIRST: u64 = 1 << 32;

impl Builtins {
    /// The kernel of a builtin, with its number and whether it was there.
    pub(crate) fn get(
        &self,
        backend: &dyn Backend,
        builtin: Builtin,
    ) -> Result<(u64, Arc<dyn CompiledKernel>, CacheOutcome), Error> {
        if let Some(Made { number, kernel }) = self.0.lock().get(&builtin).cloned() {
            return Ok((number, kernel, CacheOutcome::Hit));
        }
        // Who makes it at the same time makes one for nothing.
        let kernel = backend.builtin(builtin)?;
        let mut made = self.0.lock();
        let number = FIRST + made.len() as u64;
        let Made { number, kernel } = made.entry(builtin).or_insert(Made { number, kernel }).clone();
        Ok((number, kernel, CacheOutcome::Miss(format!("first {}", builtin.name()))))
    }
}
