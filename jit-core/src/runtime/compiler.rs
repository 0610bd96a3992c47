//! From a structure to a loaded kernel: from memory, from disk, or compiled.
//!
//! Whoever needs code that is not there yet makes it, and whoever else needs the same meanwhile waits for that. What several
//! kernels of one plan lack is compiled on several threads. No lock is held while compiling, so a waiting thread
//! holds nothing that the compiling one needs.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustc_hash::FxHashSet;

use crate::backend::{Arg, Backend, CompiledKernel};
use crate::error::Error;
use crate::ir::{Outline, Program, verify};
use crate::passes::{self, Bounds};
use crate::runtime::cache::{KernelEntry, Variant};
use crate::runtime::disk::{DiskCache, Key};
use crate::runtime::{CacheOutcome, DeviceOptions, FloatMode};

/// Makes the kernels of a device.
pub(crate) struct Compiler {
    backend: Arc<dyn Backend>,
    float_mode: FloatMode,
    disk: Option<DiskCache>,
    /// Why there is no directory of kernels, until that is reported: a device may be made where logging must not happen.
    trouble: Mutex<Option<String>>,
    has_trouble: AtomicBool,
    /// How many kernels are loaded.
    loaded: Arc<AtomicUsize>,
    clock: AtomicU64,
}

/// A kernel that can be launched.
pub(crate) struct Loaded {
    pub(crate) outline: Outline,
    pub(crate) kernel: Arc<dyn CompiledKernel>,
    count: Arc<AtomicUsize>,
}

/// A place for the code of one program; empty before the first launch and after being unloaded.
#[derive(Default)]
pub(crate) struct Code(Mutex<Option<Arc<Attempt>>>);

/// One attempt to load a kernel. The first to ask makes it, all others wait.
type Attempt = OnceLock<Result<Arc<Loaded>, Error>>;

/// What a launch needs.
pub(crate) struct PreparedKernel {
    pub(crate) variant: Arc<Variant>,
    pub(crate) loaded: Arc<Loaded>,
    pub(crate) cache: CacheOutcome,
    /// Time to load or compile; zero on a hit.
    pub(crate) time: Duration,
}

/// Which program of a variant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lengths {
    /// The one that rests on lengths of memory.
    Assumed,
    /// The one that tests every index.
    Tested,
}

type Made = (Arc<Loaded>, CacheOutcome, Duration);

impl Compiler {
    /// A compiler for that backend.
    pub(crate) fn new(backend: Arc<dyn Backend>, options: &DeviceOptions) -> Compiler {
        let usable = options.disk_cache.as_ref().filter(|_| backend.objects().is_some());
        let (disk, trouble) = match usable.map(DiskCache::open) {
            None => (None, None),
            Some(Ok(disk)) => (Some(disk), None),
            Some(Err(why)) => (None, Some(format!("no kernels are kept on disk: {why}"))),
        };
        Compiler {
            backend,
            float_mode: options.float_mode,
            disk,
            has_trouble: AtomicBool::new(trouble.is_some()),
            trouble: Mutex::new(trouble),
            loaded: Arc::default(),
            clock: AtomicU64::new(0),
        }
    }

    /// The kernels for these values of these structures' holes. What is missing is compiled, on several threads if it is
    /// several. Each has its own result: one that fails leaves the others as they are.
    pub(crate) fn prepare(&self, wanted: &[(&KernelEntry, &[u64])]) -> Vec<Result<PreparedKernel, Error>> {
        // In this order, so that the variants are the same as if each was compiled before the next was looked up.
        let variants: Vec<Arc<Variant>> =
            wanted.iter().map(|(entry, values)| entry.variant(values)).collect();
        let mut missing: Vec<usize> = (0..wanted.len()).filter(|&k| !variants[k].code.is_there()).collect();
        let mut seen = FxHashSet::default();
        missing.retain(|&k| seen.insert(Arc::as_ptr(&variants[k])));
        let make = |k: usize| self.code(wanted[k].0, &variants[k], Lengths::Assumed);
        let mut made = on_several_threads(&missing, make).into_iter();
        let mut missing = missing.into_iter().peekable();
        let prepared = variants.iter().enumerate().map(|(k, variant)| {
            // Relaxed: see `KernelCache::unload`.
            variant.used.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
            let made = if missing.next_if_eq(&k).is_some() { made.next() } else { None };
            let (loaded, cache, time) = made.unwrap_or_else(|| make(k))?;
            Ok(PreparedKernel { variant: Arc::clone(variant), loaded, cache, time })
        });
        prepared.collect()
    }

    /// Replaces a kernel by the one that tests every index, if the memory is shorter than it assumes.
    pub(crate) fn check_lengths(
        &self,
        entry: &KernelEntry,
        prepared: &mut PreparedKernel,
        args: &[Arg],
        lanes: u64,
    ) -> Result<(), Error> {
        let holds = prepared.loaded.outline.params.iter().zip(args).all(|(param, arg)| match arg {
            Arg::Scalar(_) => true,
            Arg::Memory { len, .. } => *len >= param.min_len && (!param.spans_lanes || *len >= lanes),
        });
        if !holds {
            let (loaded, cache, time) = self.code(entry, &prepared.variant, Lengths::Tested)?;
            prepared.loaded = loaded;
            prepared.time += time;
            if prepared.cache == CacheOutcome::Hit {
                prepared.cache = cache;
            }
        }
        Ok(())
    }

    /// The program of a variant as the backend gets it.
    pub(crate) fn program(&self, entry: &KernelEntry, variant: &Variant) -> Result<Program, Error> {
        self.lowered(entry, variant, Lengths::Assumed)
    }

    /// How many kernels are loaded.
    pub(crate) fn loaded(&self) -> usize {
        // Relaxed: a bound that holds a moment late.
        self.loaded.load(Ordering::Relaxed)
    }

    /// Logs what went wrong with the disk, if anything, once. Called where no lock is held.
    pub(crate) fn report_trouble(&self) {
        // Relaxed: a report may come with the next call.
        if self.has_trouble.load(Ordering::Relaxed) && self.has_trouble.swap(false, Ordering::Relaxed) {
            let trouble = self.trouble.lock().take();
            trouble.iter().for_each(|trouble| tracing::warn!("{trouble}"));
        }
        if let Some(trouble) = self.disk.as_ref().and_then(DiskCache::take_trouble) {
            tracing::warn!("{trouble}");
        }
    }

    /// The code of a variant, made if need be.
    fn code(&self, entry: &KernelEntry, variant: &Variant, lengths: Lengths) -> Result<Made, Error> {
        let code = if lengths == Lengths::Assumed { &variant.code } else { &variant.checked };
        let attempt = code.attempt();
        let mut made = (CacheOutcome::Hit, Duration::ZERO);
        let result = attempt.get_or_init(|| {
            let start = Instant::now();
            let (loaded, cache) = self.load(entry, variant, lengths)?;
            made = (cache, start.elapsed());
            Ok(loaded)
        });
        match result {
            Ok(loaded) => Ok((Arc::clone(loaded), made.0, made.1)),
            Err(error) => {
                // The next one tries again.
                code.forget(&attempt);
                Err(error.clone())
            }
        }
    }

    fn load(
        &self,
        entry: &KernelEntry,
        variant: &Variant,
        lengths: Lengths,
    ) -> Result<(Arc<Loaded>, CacheOutcome), Error> {
        let on_disk = self.disk.as_ref().zip(self.backend.objects());
        let on_disk = on_disk.map(|(disk, objects)| {
            (disk, objects, self.key(objects.fingerprint(), &entry.words, &variant.baked, lengths))
        });
        if let Some((disk, objects, key)) = &on_disk
            && let Some(payload) = disk.get(key)
            && let Some((outline, object)) = unpacked(&payload)
        {
            // SAFETY: the key holds the fingerprint and all that the program is made from, and the payload was stored
            // under it below, in a directory that only this user can write to, and passed its checksum.
            let loaded = unsafe { objects.load_object(outline.clone(), object) };
            if let Ok(kernel) = loaded {
                return Ok((self.counted(outline, kernel), CacheOutcome::Disk));
            }
        }
        let program = self.lowered(entry, variant, lengths)?;
        let outline = program.outline();
        let kernel = match &on_disk {
            None => self.backend.compile(&program)?,
            Some((disk, objects, key)) => {
                let object = objects.compile_object(&program)?;
                // SAFETY: the object was made here from this program.
                let kernel = unsafe { objects.load_object(outline.clone(), &object) }
                    .map_err(|log| Error::Compile { log, program: program.to_string() })?;
                disk.put(key, &[&packed(&outline), &object]);
                kernel
            }
        };
        let why = match lengths {
            Lengths::Assumed => variant.why.clone(),
            Lengths::Tested => "memory shorter than the first kernel assumed".to_owned(),
        };
        Ok((self.counted(outline, kernel), CacheOutcome::Miss(why)))
    }

    fn counted(&self, outline: Outline, kernel: Arc<dyn CompiledKernel>) -> Arc<Loaded> {
        // Relaxed: see `loaded`.
        self.loaded.fetch_add(1, Ordering::Relaxed);
        Arc::new(Loaded { outline, kernel, count: Arc::clone(&self.loaded) })
    }

    fn lowered(&self, entry: &KernelEntry, variant: &Variant, lengths: Lengths) -> Result<Program, Error> {
        let mut program = entry.program(&variant.baked);
        verify(&program)?;
        let bounds = if lengths == Lengths::Assumed { Bounds::default() } else { Bounds::Off };
        let options = passes::Options { float_mode: self.float_mode, bounds };
        passes::run(&mut program, self.backend.caps().passes, &options, &mut |_, _| {});
        Ok(program)
    }

    /// All that the code of a variant depends on. Each part is preceded by its length, so that no two lists of parts
    /// are the same bytes.
    fn key(&self, fingerprint: &[u8], words: &[u64], baked: &[Option<u64>], lengths: Lengths) -> Key {
        let options = [self.float_mode as u8, self.backend.caps().passes as u8, lengths as u8];
        let baked: Vec<u64> = baked.iter().flat_map(|b| [u64::from(b.is_some()), b.unwrap_or(0)]).collect();
        let mut hasher = blake3::Hasher::new();
        let parts: [&[u8]; 5] = [
            env!("SOURCE_HASH").as_bytes(),
            fingerprint,
            &options,
            bytemuck::cast_slice(words),
            bytemuck::cast_slice(&baked),
        ];
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        hasher.finalize().into()
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // Relaxed: see `Compiler::loaded`.
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Code {
    /// Takes the code out, unless somebody is making or using it.
    pub(crate) fn unload(&self) -> Option<Arc<Loaded>> {
        let mut place = self.0.lock();
        // The count is exact enough: whoever takes the code right now keeps it alive, only nobody else finds it.
        let idle = |loaded: &Arc<Loaded>| Arc::strong_count(&loaded.kernel) == 1;
        match place.as_ref()?.get() {
            Some(Ok(loaded)) if idle(loaded) => {
                let loaded = Arc::clone(loaded);
                *place = None;
                Some(loaded)
            }
            _ => None,
        }
    }

    fn is_there(&self) -> bool {
        self.0.lock().as_ref().is_some_and(|attempt| attempt.get().is_some())
    }

    fn attempt(&self) -> Arc<Attempt> {
        Arc::clone(self.0.lock().get_or_insert_default())
    }

    fn forget(&self, attempt: &Arc<Attempt>) {
        let mut place = self.0.lock();
        if place.as_ref().is_some_and(|there| Arc::ptr_eq(there, attempt)) {
            *place = None;
        }
    }
}

/// Calls `make` with each of the numbers, the first on the calling thread and at most as many at a time as there are
/// processors. A panic of one is passed on when all others are done.
fn on_several_threads<T: Send>(numbers: &[usize], make: impl Fn(usize) -> T + Sync) -> Vec<T> {
    match *numbers {
        [] => return Vec::new(),
        [only] => return vec![make(only)],
        _ => {}
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(numbers.len());
    let next = AtomicUsize::new(0);
    let places: Vec<Mutex<Option<std::thread::Result<T>>>> =
        numbers.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        // Relaxed: the numbers only have to differ; the scope's end orders the results before what follows.
        while let Some((place, &number)) = {
            let k = next.fetch_add(1, Ordering::Relaxed);
            places.get(k).zip(numbers.get(k))
        } {
            let made = catch_unwind(AssertUnwindSafe(|| make(number)));
            *place.lock() = Some(made);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // Without it there is less help.
            drop(std::thread::Builder::new().name("jit compile".to_owned()).spawn_scoped(scope, work));
        }
        work();
    });
    let made = places.into_iter().map(|place| place.into_inner().expect("all numbers were taken"));
    made.map(|made| made.unwrap_or_else(|panic| resume_unwind(panic))).collect()
}

/// The outline's length in words and the outline, before the object.
fn packed(outline: &Outline) -> Vec<u8> {
    let mut words = vec![0];
    outline.write(&mut words);
    words[0] = words.len() as u64;
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn unpacked(payload: &[u8]) -> Option<(Outline, &[u8])> {
    let (words, _) = payload.as_chunks::<8>();
    let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
    let len = usize::try_from(words.next()?).ok()?;
    let outline = Outline::read(&mut words)?;
    Some((outline, payload.get(len.checked_mul(8)?..)?))
}

#[cfg(test)]
mod tests;
