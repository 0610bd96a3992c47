//! The backend as the core sees it: options, compilation, launches.

use std::sync::Arc;

use jit_core::backend::{Allocation, Backend, Caps, CompiledKernel, DeviceKind, Objects, PassLevel};
use jit_core::builtin::Builtin;
use jit_core::error::Error;
use jit_core::ir::{Outline, Program};

use crate::builtins;
use crate::caches::last_level_cache;
use crate::compile::{Compiler, failed};
use crate::kernel::{Kernel, Maker, functions};
use crate::memory;
use crate::orc::Session;
use crate::pool::Pool;
use crate::target::{Processor, Target};

/// How much of the last-level cache a thread counts on.
const SHARE_OF_CACHE: u64 = 16 << 20;

/// How the backend compiles and runs.
#[derive(Clone, Debug, Default)]
pub struct LlvmOptions {
    /// Lanes of a vector: 4, 8 or 16. Unset: 16 with AVX-512, 8 with AVX2, else 4.
    pub vector_width: Option<u32>,
    /// Threads that work at one launch, its caller among them. Unset: one for each processor.
    pub threads: Option<usize>,
    /// A launch that stores more bytes than this does so past the caches. Unset: the size of the last-level cache,
    /// of which each thread counts on 16 MiB at most: large ones belong to many cores.
    pub streaming_above: Option<u64>,
}

/// The host's processors as a backend.
pub struct LlvmBackend {
    caps: Caps,
    compiler: Compiler,
    fingerprint: String,
    session: Arc<Session>,
    pool: Arc<Pool>,
    streaming_above: u64,
    last_level_cache: u64,
}

impl LlvmBackend {
    /// A backend that makes code for this host.
    ///
    /// # Errors
    /// [`Error::Config`] for options that no backend can have, [`Error::NoDevice`] if LLVM cannot make code here.
    pub fn new(options: LlvmOptions) -> Result<LlvmBackend, Error> {
        LlvmBackend::for_processor(options, Processor::Host)
    }

    /// A backend whose code is for another processor.
    ///
    /// # Errors
    /// As for [`new`](Self::new); [`Error::NoDevice`] also if this host lacks what that processor has.
    pub fn for_processor(options: LlvmOptions, processor: Processor) -> Result<LlvmBackend, Error> {
        Target::runs_here(processor)?;
        let target = Target::new(processor)?;
        let width = checked_width(options.vector_width.unwrap_or(target.width))?;
        let available = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads = options.threads.unwrap_or_else(available);
        if threads == 0 {
            return Err(Error::Config("at least one thread is needed".to_owned()));
        }
        let last_level_cache = last_level_cache();
        let session = Session::new().map_err(|why| Error::NoDevice { kind: DeviceKind::Cpu, why })?;
        let description = format!("{}, vectors of {width} lanes, {threads} threads", target.cpu);
        let compiler = Compiler::new(target, width);
        Ok(LlvmBackend {
            caps: Caps { kind: DeviceKind::Cpu, description, passes: PassLevel::Full },
            fingerprint: compiler.fingerprint(),
            compiler,
            session,
            pool: Arc::new(Pool::new(threads)?),
            streaming_above: options
                .streaming_above
                .unwrap_or_else(|| last_level_cache.min(threads as u64 * SHARE_OF_CACHE)),
            last_level_cache,
        })
    }
}

impl Backend for LlvmBackend {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn compile(&self, program: &Program) -> Result<Arc<dyn CompiledKernel>, Error> {
        let object = self.compile_object(program)?;
        // SAFETY: the object was made here from this program.
        unsafe { self.load_object(program.outline(), &object) }.map_err(|log| failed(log, program))
    }

    fn builtin(&self, builtin: Builtin) -> Result<Arc<dyn CompiledKernel>, Error> {
        Ok(Arc::new(builtins::Kernel::new(builtin, Arc::clone(&self.pool), self.streaming_above)))
    }

    fn objects(&self) -> Option<&dyn Objects> {
        Some(self)
    }

    fn llvm_ir(&self, program: &Program) -> Option<String> {
        self.compiler.ir_text(program).ok()
    }

    fn asm(&self, program: &Program) -> Option<String> {
        self.compiler.assembly(program).ok()
    }

    fn allocate(&self, bytes: usize) -> Result<Allocation, Error> {
        memory::allocate(bytes)
    }
}

impl Objects for LlvmBackend {
    fn fingerprint(&self) -> &[u8] {
        self.fingerprint.as_bytes()
    }

    fn compile_object(&self, program: &Program) -> Result<Vec<u8>, Error> {
        self.compiler.object(program)
    }

    unsafe fn load_object(&self, outline: Outline, object: &[u8]) -> Result<Arc<dyn CompiledKernel>, String> {
        let code = self.session.load(object, &functions(&outline))?;
        let maker = Maker {
            width: self.compiler.width(),
            pool: Arc::clone(&self.pool),
            streaming_above: self.streaming_above,
            last_level_cache: self.last_level_cache,
        };
        Ok(Arc::new(Kernel::new(code, outline, maker)))
    }
}

/// The LLVM IR of a program, the same on every host: for an x86-64-v3 processor, with vectors of `width` lanes.
///
/// # Errors
/// As for [`Backend::compile`]; [`Error::Config`] for a width other than 4, 8 or 16.
pub fn ir_text(program: &Program, width: u32) -> Result<String, Error> {
    Compiler::new(Target::new(Processor::X86V3)?, checked_width(width)?).ir_text(program)
}

fn checked_width(width: u32) -> Result<u32, Error> {
    match width {
        4 | 8 | 16 => Ok(width),
        other => Err(Error::Config(format!("a vector has 4, 8 or 16 lanes, not {other}"))),
    }
}
