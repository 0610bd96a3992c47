//! A device: a backend, its trace behind one lock, its streams, its caches.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;

use crate::backend::{Backend, Caps, DeviceKind};
use crate::error::Error;
use crate::float_mode::FloatMode;
use crate::interp::{Interpreter, Mode};
use crate::ir::Program;
use crate::runtime::batch::Work;
use crate::runtime::builtins::Builtins;
use crate::runtime::cache::{KernelEntry, Variant};
use crate::runtime::pool::Pool;
use crate::runtime::stream::Streams;
use crate::runtime::{Compiler, DiskCacheOptions, Event, History, KernelHistory, Planner, Stream, TraceLock};
use crate::trace::Trace;

/// A device. Cheap to copy; lives as long as the process.
#[derive(Clone, Copy)]
pub struct Device(&'static Shared);

/// How a device works, beyond its backend.
#[derive(Clone, Debug)]
pub struct DeviceOptions {
    /// Whether equal nodes are one and known values are folded while tracing. Off only to check that this changes no
    /// result.
    pub simplify: bool,
    /// Whether nodes share kernels. Off only to check that this changes no result.
    pub fuse: bool,
    /// Whether new memory is filled with a pattern before use, so that reading what was never written is noticed.
    pub poison: bool,
    /// How many bytes of dropped arrays are kept for the next ones.
    pub cache_bytes: usize,
    /// How many bytes the device takes at most, in use and kept. Unset: what the system gives.
    pub memory_budget: Option<usize>,
    /// What compiling may do to float arithmetic.
    pub float_mode: FloatMode,
    /// Where compiled kernels are kept between processes; none: nowhere.
    pub disk_cache: Option<DiskCacheOptions>,
    /// Whether the history says when kernels ran.
    pub profile: bool,
    /// Whether lanes report indices that lie outside, as [`Error::OutOfBounds`].
    pub checked: bool,
    /// How many lanes of a kernel are launched at a time, at most; unset: all. Rounded down to a multiple of 64, and at least
    /// that. Kernels with reductions and builtins are launched as a whole.
    pub max_lanes: Option<u64>,
}

impl Default for DeviceOptions {
    fn default() -> Self {
        DeviceOptions {
            simplify: true,
            fuse: true,
            poison: false,
            cache_bytes: 1 << 30,
            memory_budget: None,
            float_mode: FloatMode::Strict,
            disk_cache: None,
            profile: false,
            checked: false,
            max_lanes: None,
        }
    }
}

pub(crate) struct Shared {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) options: DeviceOptions,
    pub(crate) compiler: Compiler,
    pub(crate) builtins: Builtins,
    pub(crate) pool: Pool,
    pub(crate) streams: Streams,
    pub(crate) history: Mutex<History>,
    /// Taken after the trace's lock.
    pub(crate) planner: Mutex<Planner>,
    /// What the last kernel launched was compiled from.
    pub(crate) last: Mutex<Option<(Arc<KernelEntry>, Arc<Variant>)>>,
    pub(crate) trace: TraceLock,
    /// When the device was made.
    pub(crate) made: Instant,
    number: u64,
    attached: OnceLock<Box<dyn Any + Send + Sync>>,
}

static COUNT: AtomicU64 = AtomicU64::new(0);

impl Device {
    /// A device over a backend. It is never freed: make few.
    pub fn new(backend: Arc<dyn Backend>, options: DeviceOptions) -> Device {
        let trace = Trace::new(options.simplify, options.checked, options.max_lanes.is_some());
        let device = Device(Box::leak(Box::new(Shared {
            compiler: Compiler::new(Arc::clone(&backend), &options),
            backend,
            builtins: Builtins::default(),
            pool: Pool::new(options.cache_bytes, options.memory_budget),
            streams: Streams::new(),
            history: Mutex::default(),
            planner: Mutex::default(),
            last: Mutex::default(),
            trace: TraceLock::new(trace),
            made: Instant::now(),
            options,
            // Only uniqueness matters.
            number: COUNT.fetch_add(1, Ordering::Relaxed),
            attached: OnceLock::new(),
        })));
        device.with_trace(|trace| trace.slab.belong_to(device));
        device
    }

    /// A new device with the reference interpreter in that mode.
    pub fn interpreter(mode: Mode) -> Device {
        let whole = mode == Mode::Lowered;
        let options = DeviceOptions { simplify: whole, fuse: whole, ..DeviceOptions::default() };
        Device::new(Arc::new(Interpreter::new(mode)), options)
    }

    /// What the layer above keeps with the device: what `make` makes on the first call. All calls ask for one type.
    ///
    /// # Panics
    /// If they do not.
    pub fn attached<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> &'static T {
        let attached = self.0.attached.get_or_init(|| Box::new(make()));
        attached.downcast_ref().expect("one type of what is attached to a device")
    }

    /// How it works beyond its backend.
    pub fn options(&self) -> &'static DeviceOptions {
        &self.0.options
    }

    /// What its backend is and can do.
    pub fn caps(&self) -> &'static Caps {
        self.0.backend.caps()
    }

    /// The kind of device.
    pub fn kind(&self) -> DeviceKind {
        self.caps().kind
    }

    /// A name that tells devices apart: `cpu#1`.
    pub fn name(&self) -> String {
        format!("{}#{}", self.kind(), self.0.number)
    }

    /// The most recent launches, oldest first.
    pub fn kernel_history(&self) -> KernelHistory {
        self.0.history.lock().records()
    }

    /// Number of launches since the device was made.
    pub fn launch_count(&self) -> u64 {
        self.0.history.lock().total()
    }

    /// Forgets the launches so far.
    pub fn clear_kernel_history(&self) {
        self.0.history.lock().clear();
    }

    /// The program of the last kernel launched, as the backend got it.
    pub fn last_program(&self) -> Option<Program> {
        let last = self.0.last.lock().clone();
        let (entry, variant) = last?;
        self.0.compiler.program(&entry, &variant).ok()
    }

    /// What the code generator makes of a program that went through the passes, in its intermediate language, where it has
    /// one.
    pub fn llvm_ir(&self, program: &Program) -> Option<String> {
        self.0.backend.llvm_ir(program)
    }

    /// The machine code of a program that went through the passes in assembly, where there is any.
    pub fn asm(&self, program: &Program) -> Option<String> {
        self.0.backend.asm(program)
    }

    /// Makes the host wait for everything submitted so far, on any stream.
    ///
    /// # Errors
    /// The first error of a batch that no `sync` has told of, or [`Error::HostSyncForbidden`].
    pub fn sync(&self) -> Result<(), Error> {
        self.0.streams.sync()
    }

    /// The stream that evaluations go to unless another one was entered.
    pub fn default_stream(&self) -> Stream {
        self.0.streams.default_stream(*self).clone()
    }

    #[doc(hidden)]
    /// Queues a function among the work of the current stream: everything submitted later waits for it. For tests that
    /// run something in the middle of a stream; a [`Gate`](crate::runtime::Gate) holds a stream without taking up a thread.
    pub fn submit_call(&self, f: impl FnOnce() + Send + 'static) -> Event {
        Stream::current(*self).submit(vec![Work::Call(Box::new(f))], false)
    }

    /// Tells devices of this process apart.
    pub(crate) fn number(&self) -> u64 {
        self.0.number
    }

    pub(crate) fn shared(&self) -> &'static Shared {
        self.0
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Device) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for Device {}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Device({}, {})", self.name(), self.caps().description)
    }
}
