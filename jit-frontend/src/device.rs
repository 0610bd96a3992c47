//! Devices: what is there, how to get one.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

pub use jit_core::backend::DeviceKind;
use jit_core::error::Error;
use jit_core::interp::{Interpreter, Mode};
use jit_core::ir::Program;
use jit_core::runtime;
use jit_core::runtime::DeviceOptions;
pub use jit_core::runtime::{DiskCacheOptions, FloatMode, KernelHistory, KernelRecord, MemoryStats};
#[cfg(feature = "llvm")]
use jit_llvm::{LlvmBackend, LlvmOptions};

use crate::prints::{self, Sink};

/// A device: where arrays live and kernels run. Cheap to copy; lives as long as the process.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Device(runtime::Device);

/// What is known about a device, or about why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// Its kind.
    pub kind: DeviceKind,
    /// Its number among those of its kind.
    pub ordinal: usize,
    /// What it runs on, for people.
    pub name: String,
    /// Bytes of memory, where the device has its own.
    pub memory: Option<u64>,
    /// Why there is no such device; `None` if there is.
    pub missing: Option<String>,
}

/// Options of a device other than the default one.
#[derive(Clone)]
pub struct DeviceBuilder {
    kind: DeviceKind,
    vector_width: Option<u32>,
    threads: Option<usize>,
    float_mode: FloatMode,
    disk_cache: Option<DiskCacheOptions>,
    memory_budget: Option<usize>,
    profile: bool,
    checked: bool,
    max_lanes: Option<u64>,
    sink: Option<Sink>,
}

/// What a launched kernel was made from and became.
#[derive(Clone, Debug)]
pub struct Kernel {
    device: runtime::Device,
    program: Program,
}

impl Kernel {
    /// The program as the code generator got it.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The program in NVIDIA's language; `None` on devices that are no such.
    pub fn ptx(&self) -> Option<String> {
        None
    }

    /// The program in LLVM's language, before LLVM's own passes; `None` on devices that do not use it.
    pub fn llvm_ir(&self) -> Option<String> {
        self.device.llvm_ir(&self.program)
    }

    /// The processor's instructions in assembly; `None` on devices that make none.
    pub fn asm(&self) -> Option<String> {
        self.device.asm(&self.program)
    }
}

impl Device {
    /// The host's processors, through LLVM. The same device on every call.
    ///
    /// # Errors
    /// [`Error::NoDevice`] where LLVM is missing: in builds without the feature `llvm`.
    pub fn cpu() -> Result<Device, Error> {
        static CPU: OnceLock<Result<Device, Error>> = OnceLock::new();
        CPU.get_or_init(|| Device::builder(DeviceKind::Cpu).build()).clone()
    }

    /// The NVIDIA GPU of that number. The same device on every call.
    ///
    /// # Errors
    /// [`Error::NoDevice`]: this version has no CUDA backend.
    pub fn cuda(ordinal: usize) -> Result<Device, Error> {
        let why = format!("this build has no CUDA backend (asked for cuda:{ordinal}); use `Device::cpu()`");
        Err(Error::NoDevice { kind: DeviceKind::Cuda, why })
    }

    /// The reference interpreter: always there, slow. The same device on every call.
    pub fn interpreter() -> Device {
        static INTERPRETER: OnceLock<Device> = OnceLock::new();
        *INTERPRETER.get_or_init(|| Device(runtime::Device::interpreter(Mode::Lowered)))
    }

    /// The device that the environment variable `JIT_DEVICE` names: `cpu`, `cuda:N` or `interp`. Unset: `cuda:0` if it
    /// works, else `cpu`, else `interp`.
    ///
    /// This is also where loops, branches, switches, reductions by closures, local arrays, prints and `compress` of literals alone
    /// run, outside of any loop or branch. A literal knows no device, and neither does a closure that captures arrays: where
    /// these live on another device, it panics. Start from `Array::full(value, 1, &device)` there.
    ///
    /// # Errors
    /// [`Error::NoDevice`] for one that is not there; [`Error::Config`] for any other value.
    pub fn from_env() -> Result<Device, Error> {
        let Some(value) = std::env::var_os("JIT_DEVICE") else {
            return Ok(Device::cuda(0).or_else(|_| Device::cpu()).unwrap_or_else(|_| Device::interpreter()));
        };
        Device::named(&value.to_string_lossy())
    }

    /// The device of that name: `cpu`, `cuda:N` or `interp`.
    ///
    /// # Errors
    /// As [`from_env`](Self::from_env).
    pub fn named(name: &str) -> Result<Device, Error> {
        match name {
            "cpu" => Device::cpu(),
            "interp" => Ok(Device::interpreter()),
            _ => match name.strip_prefix("cuda:").map(str::parse) {
                Some(Ok(ordinal)) => Device::cuda(ordinal),
                _ => Err(Error::Config(format!(
                    "`{name}` names no device; JIT_DEVICE is cpu, cuda:N or interp"
                ))),
            },
        }
    }

    /// The devices of this machine, with those kinds that are missing and why.
    pub fn available() -> Vec<DeviceInfo> {
        let missing = |kind, error: &Error| DeviceInfo {
            kind,
            ordinal: 0,
            name: kind.name().to_owned(),
            memory: None,
            missing: Some(error.to_string()),
        };
        let info = |kind, device: Result<Device, Error>| {
            device.map_or_else(|error| missing(kind, &error), |device| device.info())
        };
        vec![
            info(DeviceKind::Cuda, Device::cuda(0)),
            info(DeviceKind::Cpu, Device::cpu()),
            Device::interpreter().info(),
        ]
    }

    /// Options for a device of one's own. It is never freed: make few.
    pub fn builder(kind: DeviceKind) -> DeviceBuilder {
        DeviceBuilder {
            kind,
            vector_width: None,
            threads: None,
            float_mode: FloatMode::Strict,
            disk_cache: DiskCacheOptions::from_env(),
            memory_budget: None,
            profile: false,
            checked: false,
            max_lanes: None,
            sink: None,
        }
    }

    /// What the device is.
    pub fn info(&self) -> DeviceInfo {
        let caps = self.0.caps();
        DeviceInfo {
            kind: caps.kind,
            ordinal: 0,
            name: caps.description.clone(),
            memory: None,
            missing: None,
        }
    }

    /// The kind of device.
    pub fn kind(&self) -> DeviceKind {
        self.0.kind()
    }

    /// The most recent launches, oldest first.
    pub fn kernel_history(&self) -> KernelHistory {
        self.0.kernel_history()
    }

    /// Forgets the launches so far.
    pub fn clear_kernel_history(&self) {
        self.0.clear_kernel_history();
    }

    /// The last kernel launched, if it can still be told.
    pub fn last_kernel(&self) -> Option<Kernel> {
        Some(Kernel { device: self.0, program: self.0.last_program()? })
    }

    /// What the device holds.
    pub fn memory(&self) -> MemoryStats {
        self.0.memory()
    }

    /// Gives memory that is kept for reuse, and that no work touches any more, back to the system.
    ///
    /// # Errors
    /// None yet; a driver may fail.
    pub fn trim(&self) -> Result<(), Error> {
        self.0.trim();
        Ok(())
    }

    /// Makes the host wait for everything submitted so far, on all streams.
    ///
    /// # Errors
    /// The first error of work that no `sync` has told of, else what lanes did wrong and nobody has been told, on checked
    /// devices; [`Error::LaneAssertion`]; [`Error::HostSyncForbidden`].
    pub fn sync(&self) -> Result<(), Error> {
        prints::tell(Some(self.0), self.0.sync())
    }

    /// A device of the runtime, whatever its backend.
    pub fn from_core(device: runtime::Device) -> Device {
        Device(device)
    }

    /// The device as the runtime knows it.
    pub fn core(&self) -> runtime::Device {
        self.0
    }
}

impl DeviceBuilder {
    /// Lanes of a vector: 4, 8 or 16. Unset: what the processor has. For [`DeviceKind::Cpu`].
    #[must_use]
    pub fn vector_width(mut self, lanes: u32) -> DeviceBuilder {
        self.vector_width = Some(lanes);
        self
    }

    /// Threads that work at one launch. Unset: one for each processor. For [`DeviceKind::Cpu`].
    #[must_use]
    pub fn threads(mut self, threads: usize) -> DeviceBuilder {
        self.threads = Some(threads);
        self
    }

    /// What compiling may do to float arithmetic. Unset: nothing ([`FloatMode::Strict`]).
    #[must_use]
    pub fn float_mode(mut self, mode: FloatMode) -> DeviceBuilder {
        self.float_mode = mode;
        self
    }

    /// The directory that compiled kernels are kept in between processes. Unset: as [`DiskCacheOptions::from_env`] says.
    #[must_use]
    pub fn cache_dir(self, directory: impl Into<PathBuf>) -> DeviceBuilder {
        self.disk_cache(Some(DiskCacheOptions::new(directory)))
    }

    /// How compiled kernels are kept between processes; `None`: not at all. Unset: as [`DiskCacheOptions::from_env`] says.
    #[must_use]
    pub fn disk_cache(mut self, options: Option<DiskCacheOptions>) -> DeviceBuilder {
        self.disk_cache = options;
        self
    }

    /// How many bytes the device takes at most, for arrays and for what it keeps of dropped ones. Unset: what the system
    /// gives.
    #[must_use]
    pub fn memory_budget(mut self, bytes: usize) -> DeviceBuilder {
        self.memory_budget = Some(bytes);
        self
    }

    /// Whether the history says when kernels ran ([`KernelRecord::run_time`]). Unset: it does not, since that takes time
    /// of its own.
    #[must_use]
    pub fn profile(mut self, on: bool) -> DeviceBuilder {
        self.profile = on;
        self
    }

    /// Whether lanes report an index that lies outside. Unset: they do not.
    ///
    /// Everywhere an index outside reads 0 and writes nothing. On a checked device the access, be it a gather, a scatter, an
    /// atomic or one of a [`LocalArray`](crate::LocalArray), is an [`Error::OutOfBounds`] besides: with the op, the source
    /// line that asked for it, and the least index that any lane had there. So is a [`switch`](crate::switch()) that has no
    /// closure for an index. Lanes that are masked off, or do not get to the access in a loop or branch, report nothing.
    ///
    /// An evaluation tells of one access, once: to whoever first waits for it, reads an array of it or of what was
    /// computed from it, or calls `sync`. After that its results can be read as on any device. Kernels of checked devices
    /// are slower, and are never shared with others.
    ///
    /// On a checked device a gather in the closure of a loop or branch is part of it, also where all of its operands are
    /// captured. To reduce its result, or to gather from it, take it outside of the closure; elsewhere that is possible inside
    /// too.
    #[must_use]
    pub fn checked(mut self, on: bool) -> DeviceBuilder {
        self.checked = on;
        self
    }

    /// How many lanes of a kernel are launched at a time, at most: a larger launch becomes several, with equal results.
    /// Unset: all lanes. Rounded down to a multiple of 64, and at least 64.
    ///
    /// That goes for kernels whose lanes have nothing to do with each other: of elementwise operations, gathers, scatters,
    /// atomics, loops, branches and switches. A kernel with a reduction is launched as a whole, and with it whatever of the same
    /// lanes is fused into it, since it is the launch that folds what becomes of its chunks, in their order, and then computes
    /// what follows. Scans, sorts and `compress` are whole too: each is one kernel that moves elements across all lanes.
    #[must_use]
    pub fn max_lanes(mut self, lanes: u64) -> DeviceBuilder {
        self.max_lanes = Some(lanes);
        self
    }

    /// What is given the lines of [`print_lanes`](crate::print_lanes), some at a time, each ended. Unset: standard output.
    /// It runs on a thread that waits for the device, and holds nothing up but that thread.
    #[must_use]
    pub fn print_to(mut self, sink: impl Fn(&str) + Send + Sync + 'static) -> DeviceBuilder {
        self.sink = Some(Arc::new(sink));
        self
    }

    /// Makes the device.
    ///
    /// # Errors
    /// [`Error::NoDevice`]; [`Error::Config`] for options that a device of this kind cannot have.
    pub fn build(mut self) -> Result<Device, Error> {
        let sink = self.sink.take();
        let device = self.build_silent()?;
        if let Some(sink) = sink {
            prints::print_to(device.0, sink);
        }
        Ok(device)
    }

    fn build_silent(self) -> Result<Device, Error> {
        let options = DeviceOptions {
            float_mode: self.float_mode,
            disk_cache: self.disk_cache.clone(),
            memory_budget: self.memory_budget,
            profile: self.profile,
            checked: self.checked,
            max_lanes: self.max_lanes,
            ..DeviceOptions::default()
        };
        match self.kind {
            DeviceKind::Cpu => self.cpu(options),
            DeviceKind::Cuda => Device::cuda(0),
            DeviceKind::Interpreter => {
                if self.vector_width.is_some() || self.threads.is_some() {
                    let message = "the interpreter has no vectors and one thread; leave those options out";
                    return Err(Error::Config(message.to_owned()));
                }
                let backend = Arc::new(Interpreter::new(Mode::Lowered));
                Ok(Device(runtime::Device::new(backend, options)))
            }
        }
    }

    #[cfg(feature = "llvm")]
    fn cpu(self, options: DeviceOptions) -> Result<Device, Error> {
        let DeviceBuilder { vector_width, threads, .. } = self;
        let backend = LlvmBackend::new(LlvmOptions { vector_width, threads, ..LlvmOptions::default() })?;
        Ok(Device(runtime::Device::new(Arc::new(backend), options)))
    }

    #[cfg(not(feature = "llvm"))]
    fn cpu(self, _: DeviceOptions) -> Result<Device, Error> {
        let why = "this build has no LLVM; build with the feature `llvm`, or use `Device::interpreter()`";
        Err(Error::NoDevice { kind: DeviceKind::Cpu, why: why.to_owned() })
    }
}

impl std::fmt::Debug for DeviceBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeviceBuilder").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
