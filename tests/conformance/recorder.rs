//! A backend that notes what is asked of it: what the tests of decisions look at.

use std::sync::Arc;

use jit_core::backend::{Allocation, Arg, Backend, Caps, CompiledKernel, Launch};
use jit_core::builtin::Builtin;
use jit_core::dtype::DType;
use jit_core::error::Error;
use jit_core::interp::{Interpreter, Mode};
use jit_core::ir::Program;
use jit_core::runtime::{Device, DeviceOptions};
use parking_lot::Mutex;

/// One launch as the backend saw it.
#[derive(Clone, Debug)]
pub(crate) struct Launched {
    pub(crate) program: Program,
    pub(crate) lanes: u64,
    /// Bytes of the memory arguments.
    pub(crate) bytes: u64,
}

/// What was asked of the backend so far.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) launches: Mutex<Vec<Launched>>,
    /// Builtins launched, and the bytes of their memory.
    pub(crate) builtins: Mutex<Vec<(Builtin, u64)>>,
    pub(crate) compilations: Mutex<usize>,
    pub(crate) allocations: Mutex<usize>,
}

impl Log {
    /// The launches since the last call.
    pub(crate) fn take(&self) -> Vec<Launched> {
        std::mem::take(&mut *self.launches.lock())
    }

    /// The number of allocations since the last call.
    pub(crate) fn take_allocations(&self) -> usize {
        std::mem::take(&mut *self.allocations.lock())
    }

    /// The number of compilations so far.
    pub(crate) fn compilations(&self) -> usize {
        *self.compilations.lock()
    }
}

/// An interpreter that is watched. New memory is poisoned, and always comes from the backend.
pub(crate) fn recorded() -> (Device, Arc<Log>) {
    let log = Arc::new(Log::default());
    let backend = Recorder { inner: Interpreter::new(Mode::Lowered), log: Arc::clone(&log) };
    let options = DeviceOptions { poison: true, cache_bytes: 0, ..DeviceOptions::default() };
    (Device::new(Arc::new(backend), options), log)
}

struct Recorder {
    inner: Interpreter,
    log: Arc<Log>,
}

impl Backend for Recorder {
    fn caps(&self) -> &Caps {
        self.inner.caps()
    }

    fn compile(&self, program: &Program) -> Result<Arc<dyn CompiledKernel>, Error> {
        *self.log.compilations.lock() += 1;
        let inner = self.inner.compile(program)?;
        Ok(Arc::new(Kernel { inner, program: program.clone(), log: Arc::clone(&self.log) }))
    }

    fn builtin(&self, builtin: Builtin) -> Result<Arc<dyn CompiledKernel>, Error> {
        let inner = self.inner.builtin(builtin)?;
        Ok(Arc::new(BuiltinKernel { inner, builtin, log: Arc::clone(&self.log) }))
    }

    fn allocate(&self, bytes: usize) -> Result<Allocation, Error> {
        *self.log.allocations.lock() += 1;
        self.inner.allocate(bytes)
    }
}

struct Kernel {
    inner: Arc<dyn CompiledKernel>,
    program: Program,
    log: Arc<Log>,
}

impl CompiledKernel for Kernel {
    unsafe fn launch(&self, launch: &Launch<'_>) -> Result<(), Error> {
        let size = |(param, arg): (&jit_core::ir::Param, &Arg)| match arg {
            Arg::Scalar(_) => 0,
            Arg::Memory { len, .. } => len * param.dtype.size() as u64,
        };
        let bytes = self.program.params.iter().zip(launch.args).map(size).sum();
        let launched = Launched { program: self.program.clone(), lanes: launch.lanes, bytes };
        self.log.launches.lock().push(launched);
        // SAFETY: the caller promises what the inner kernel asks for.
        unsafe { self.inner.launch(launch) }
    }
}

struct BuiltinKernel {
    inner: Arc<dyn CompiledKernel>,
    builtin: Builtin,
    log: Arc<Log>,
}

impl CompiledKernel for BuiltinKernel {
    unsafe fn launch(&self, launch: &Launch<'_>) -> Result<(), Error> {
        let size = |(arg, dtype): (&Arg, DType)| match arg {
            Arg::Scalar(_) => 0,
            Arg::Memory { len, .. } => len * dtype.size() as u64,
        };
        let bytes = launch.args.iter().zip(self.builtin.dtypes()).map(size).sum();
        self.log.builtins.lock().push((self.builtin, bytes));
        // SAFETY: the caller promises what the inner kernel asks for.
        unsafe { self.inner.launch(launch) }
    }
}
