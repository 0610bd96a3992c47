//! A device: a backend, its trace behind one lock, its stream, its caches.

use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::backend::{Backend, Caps, DeviceKind};
use crate::dtype::DType;
use crate::error::Error;
use crate::interp::{Interpreter, Mode};
use crate::runtime::lane::{Batch, Work};
use crate::runtime::pool::Pool;
use crate::runtime::{Evaluator, Event, History, KernelRecord, Lane, Storage, TraceLock};
use crate::trace::{Trace, Var};

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
    /// What compiling may do to float arithmetic.
    pub float_mode: FloatMode,
}

/// What compiling may do to float arithmetic.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FloatMode {
    /// Nothing: the same bits on every device, at every vector width, with literals or arrays.
    #[default]
    Strict,
    /// Products may be fused into sums (`a * b + c` rounded once). Results then depend on what shares a kernel.
    Contract,
}

impl Default for DeviceOptions {
    fn default() -> Self {
        DeviceOptions {
            simplify: true,
            fuse: true,
            poison: false,
            cache_bytes: 1 << 30,
            float_mode: FloatMode::Strict,
        }
    }
}

/// What a device holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryStats {
    /// Nodes of the trace, evaluated or not.
    pub nodes: usize,
    /// Arrays in memory.
    pub storages: usize,
    /// Bytes of these.
    pub bytes: u64,
    /// Bytes of dropped arrays, kept for the next ones.
    pub cached: u64,
    /// Kernel structures in the cache.
    pub kernels: usize,
}

pub(crate) struct Shared {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) options: DeviceOptions,
    pub(crate) pool: Pool,
    pub(crate) lane: Lane,
    pub(crate) history: Mutex<History>,
    /// Serialises evaluations: one plans, compiles and submits at a time. Taken before the trace's lock.
    pub(crate) evaluator: Mutex<Evaluator>,
    pub(crate) trace: TraceLock,
    number: u64,
}

static COUNT: AtomicU64 = AtomicU64::new(0);

impl Device {
    /// A device over a backend. It is never freed: make few.
    pub fn new(backend: Arc<dyn Backend>, options: DeviceOptions) -> Device {
        let trace = Trace::new(options.simplify);
        let device = Device(Box::leak(Box::new(Shared {
            backend,
            pool: Pool::new(options.cache_bytes),
            lane: Lane::new(),
            history: Mutex::default(),
            evaluator: Mutex::new(Evaluator::new(options.float_mode)),
            trace: TraceLock::new(trace),
            options,
            // Only uniqueness matters.
            number: COUNT.fetch_add(1, Ordering::Relaxed),
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
    pub fn kernel_history(&self) -> Vec<KernelRecord> {
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
    pub fn last_program(&self) -> Option<crate::ir::Program> {
        self.0.evaluator.lock().last_program()
    }

    /// What the device holds.
    pub fn memory(&self) -> MemoryStats {
        let kernels = self.0.evaluator.lock().kernels();
        self.with_trace(|trace| {
            let (storages, bytes) = trace.storage_totals();
            MemoryStats {
                nodes: trace.slab.live(),
                storages,
                bytes,
                cached: self.0.pool.totals().1 as u64,
                kernels,
            }
        })
    }

    /// Gives memory that is kept for reuse back to the system.
    pub fn trim(&self) {
        self.0.pool.trim();
    }

    /// Makes the host wait for everything submitted so far.
    ///
    /// # Errors
    /// The first error of a batch since the last call, or [`Error::HostSyncForbidden`].
    pub fn sync(&self) -> Result<(), Error> {
        self.0.lane.sync()
    }

    /// An event that completes when everything submitted so far is done.
    pub fn record(&self) -> Event {
        self.0.lane.last()
    }

    /// An event that completes when all of these, of this device, have, with the first error among them.
    pub(crate) fn join(&self, mut events: Vec<Event>) -> Event {
        events.retain(|e| !matches!(e.is_complete(), Ok(true)));
        events.dedup_by(|a, b| a.same(b));
        if events.len() < 2 {
            return events.pop().unwrap_or_else(Event::complete);
        }
        self.submit(Vec::new(), events)
    }

    #[doc(hidden)]
    /// Queues a function among the device's work: everything submitted later waits for it. For tests that hold a
    /// device still.
    pub fn submit_call(&self, f: impl FnOnce() + Send + 'static) -> Event {
        self.submit(vec![Work::Call(Box::new(f))], Vec::new())
    }

    fn submit(&self, work: Vec<Work>, after: Vec<Event>) -> Event {
        let done = Event::pending();
        let small = work.is_empty();
        let batch = Batch { work, keep: Vec::new(), after, done: done.clone() };
        // Under the evaluator's lock, as all submission.
        let _evaluator = self.0.evaluator.lock();
        self.0.lane.submit(batch, small);
        done
    }

    pub(crate) fn shared(&self) -> &'static Shared {
        self.0
    }

    /// Copies bytes into a new evaluated node.
    pub(crate) fn upload(
        &self,
        dtype: DType,
        len: u64,
        bytes: &[u8],
        at: &'static Location<'static>,
    ) -> Result<Var, Error> {
        let storage = Storage::new(&*self.0.backend, &self.0.pool, dtype, len, Event::complete())?;
        assert_eq!(storage.bytes(), bytes.len(), "as many bytes as elements need");
        // Everything after this counts on a bool being 0 or 1.
        let normal: Vec<u8>;
        let bytes = if dtype == DType::Bool && bytes.iter().any(|&b| b > 1) {
            normal = bytes.iter().map(|&b| u8::from(b != 0)).collect();
            &normal
        } else {
            bytes
        };
        // SAFETY: the storage has that many bytes, and nobody else knows it yet.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), storage.ptr(), bytes.len()) };
        let storage = Arc::new(storage);
        Ok(self.with_trace(|trace| {
            let id = trace.data(dtype, len, storage, at);
            trace.hand_out(id)
        }))
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
