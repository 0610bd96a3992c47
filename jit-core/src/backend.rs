//! The one seam between the core and the code generators.
//!
//! A backend turns verified, lowered programs into kernels and gives out memory. Everything above this file
//! (trace, plan, cache, order of launches) is the same for all of them.

use std::any::Any;
use std::sync::Arc;

use crate::builtin::Builtin;
use crate::error::Error;
use crate::ir::{Outline, Program};

/// The kinds of device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DeviceKind {
    /// The host's processors, through LLVM.
    Cpu,
    /// An NVIDIA GPU.
    Cuda,
    /// The reference interpreter on the host.
    Interpreter,
}

impl DeviceKind {
    /// `cpu`, `cuda` or `interp`.
    pub const fn name(self) -> &'static str {
        match self {
            DeviceKind::Cpu => "cpu",
            DeviceKind::Cuda => "cuda",
            DeviceKind::Interpreter => "interp",
        }
    }
}

impl std::fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// What a backend is and can do.
#[derive(Clone, Debug)]
pub struct Caps {
    /// Its kind.
    pub kind: DeviceKind,
    /// What it runs on, for people: the processor's name, the vector width, the number of threads.
    pub description: String,
    /// How much of the pass pipeline its programs go through; less than all only in the interpreter's modes that check
    /// the pipeline.
    pub passes: PassLevel,
}

/// How much of the pass pipeline a backend wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PassLevel {
    /// All passes.
    Full,
    /// Only those without which a program has no meaning in primitive ops: `lower_math`.
    LowerOnly,
    /// None: mathematical functions reach the backend as they are.
    None,
}

/// Makes kernels and memory. Shared by all threads.
pub trait Backend: Send + Sync + 'static {
    /// What it is and can do; constant over its life.
    fn caps(&self) -> &Caps;

    /// Compiles a program that `ir::verify` accepts and that went through the passes.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for an op or type it does not have, [`Error::Compile`] if the compiler failed.
    fn compile(&self, program: &Program) -> Result<Arc<dyn CompiledKernel>, Error>;

    /// A kernel that is made from no program.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for one that it does not have.
    fn builtin(&self, builtin: Builtin) -> Result<Arc<dyn CompiledKernel>, Error>;

    /// Its compiler in two steps, if its code can be kept on disk in between.
    fn objects(&self) -> Option<&dyn Objects> {
        None
    }

    /// What a code generator makes of a program, for people: its intermediate language, where it has one.
    fn llvm_ir(&self, program: &Program) -> Option<String> {
        let _ = program;
        None
    }

    /// The machine code of a program in assembly, where there is any.
    fn asm(&self, program: &Program) -> Option<String> {
        let _ = program;
        None
    }

    /// Gives out `bytes` (> 0) bytes, aligned to 64, with unspecified contents.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    fn allocate(&self, bytes: usize) -> Result<Allocation, Error>;
}

/// A compiler whose results outlive its process.
pub trait Objects {
    /// Everything besides the program that its objects depend on: the code generator and its version, the processor, the
    /// vector width. Constant over the backend's life.
    fn fingerprint(&self) -> &[u8];

    /// Compiles as [`Backend::compile`] does, but only to bytes.
    ///
    /// # Errors
    /// As for [`Backend::compile`].
    fn compile_object(&self, program: &Program) -> Result<Vec<u8>, Error>;

    /// Makes a kernel of an object.
    ///
    /// # Safety
    /// The object is what [`compile_object`](Self::compile_object) gave for a program with that outline, in this process
    /// or in another with the same fingerprint.
    ///
    /// # Errors
    /// A message, if it does not load.
    unsafe fn load_object(&self, outline: Outline, object: &[u8]) -> Result<Arc<dyn CompiledKernel>, String>;
}

/// A compiled program, or a builtin.
pub trait CompiledKernel: Any + Send + Sync {
    /// Runs it over all lanes. Called with at most one launch of a stream at a time, in the stream's order;
    /// returns when its effects are visible to what the same stream runs next.
    ///
    /// # Safety
    /// Every memory argument is valid for its length times the parameter's element size, for reading and, unless
    /// the parameter is `in`, for writing, until the call returns; nobody else writes to it, nor reads what
    /// the kernel writes; the arguments match the program's parameters in number, kind and order, and each
    /// length is at least what [`Program::required_lens`] says: the parameter's `min_len`, and `lanes` where the
    /// program loads or stores by lane. The arguments of a builtin are those that [`Builtin`] names, apart from each
    /// other, of its types and with the lengths that it asks for.
    ///
    /// # Errors
    /// [`Error::Execution`] if it could not run.
    unsafe fn launch(&self, launch: &Launch<'_>) -> Result<(), Error>;
}

/// One launch of a kernel.
#[derive(Clone, Debug)]
pub struct Launch<'a> {
    /// One argument for each of the program's parameters, in order.
    pub args: &'a [Arg],
    /// The number of lanes; 0 runs no lane, but still the finishing block of each segment.
    pub lanes: u64,
    /// The length of the program's segments, see [`Segments`](crate::ir::Segments): at least 1 unless there is one segment
    /// only; by columns, `lanes` is a multiple of it.
    pub segment: u64,
    /// The global index of lane 0: `counter` is `base + i`. Memory is indexed by `i` in `load` and `store`.
    pub base: u64,
}

/// The argument of one parameter.
#[derive(Clone, Copy, Debug)]
pub enum Arg {
    /// The bits of a scalar.
    Scalar(u64),
    /// Memory.
    Memory {
        /// Its first element. Dangling (but aligned) if the length is 0.
        ptr: *mut u8,
        /// Its length in elements.
        len: u64,
    },
}

// SAFETY: an argument is a plain description of memory; who may touch it is what `CompiledKernel::launch`
// demands of its caller.
unsafe impl Send for Arg {}
// SAFETY: as above; the pointer is never read through a shared `Arg` by safe code.
unsafe impl Sync for Arg {}

/// Memory given out by a backend; dropping it gives it back.
pub struct Allocation {
    ptr: *mut u8,
    bytes: usize,
    free: Option<Box<dyn FnOnce(*mut u8, usize) + Send + Sync>>,
}

impl Allocation {
    /// Wraps memory of `bytes` bytes at `ptr`, given back by `free`.
    pub fn new(
        ptr: *mut u8,
        bytes: usize,
        free: impl FnOnce(*mut u8, usize) + Send + Sync + 'static,
    ) -> Self {
        Allocation { ptr, bytes, free: Some(Box::new(free)) }
    }

    /// Its first byte.
    pub fn ptr(&self) -> *mut u8 {
        self.ptr
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if let Some(free) = self.free.take() {
            free(self.ptr, self.bytes);
        }
    }
}

// SAFETY: the allocation owns its memory; access goes through raw pointers whose users order themselves.
unsafe impl Send for Allocation {}
// SAFETY: as above; `&Allocation` gives out only the pointer's value.
unsafe impl Sync for Allocation {}

/// Allocates host memory, aligned to 64 bytes, for backends that run on the host.
///
/// # Errors
/// [`Error::OutOfMemory`].
pub fn allocate_host(bytes: usize) -> Result<Allocation, Error> {
    let out_of_memory = || Error::OutOfMemory {
        requested: bytes as u64,
        in_use: 0,
        cached: 0,
        holders: "the host's allocator refused".to_owned(),
    };
    let layout = std::alloc::Layout::from_size_align(bytes, 64).map_err(|_| out_of_memory())?;
    assert!(bytes > 0, "an allocation of no bytes");
    // SAFETY: the layout has a size above zero.
    let ptr = unsafe { std::alloc::alloc(layout) };
    if ptr.is_null() {
        return Err(out_of_memory());
    }
    Ok(Allocation::new(ptr, bytes, move |ptr, _| {
        // SAFETY: `ptr` came from `alloc` with this layout and is given back once.
        unsafe { std::alloc::dealloc(ptr, layout) }
    }))
}
