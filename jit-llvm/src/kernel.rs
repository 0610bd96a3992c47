//! A compiled program and its launches: blocks of lanes over threads, reductions' chunks folded, the finish.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use jit_core::backend::{Arg, CompiledKernel, Launch};
use jit_core::error::Error;
use jit_core::ir::{Outline, ParamId, ParamKind};
use jit_core::reduce::{ACCUMULATORS, chunk_len, fold_chunk_results};

use crate::codegen::{ALONE, COPIED, STREAMS, may_stream};
use crate::orc::Code;
use crate::pool::{Pool, Share};
use crate::private::{self, Copies};

/// The signature of both functions of a kernel: arguments, begin, end, base, results, modes.
type Entry = unsafe extern "C" fn(*const [u64; 2], u64, u64, u64, *mut u64, u64);

/// A program's code, and what a launch needs to know of the program.
pub(crate) struct Kernel {
    code: Code,
    outline: Outline,
    /// The parameters that every lane stores to, with the bytes of an element.
    outputs: Vec<(ParamId, usize)>,
    /// The parameters of which each thread may have a copy.
    targets: Vec<private::Target>,
    maker: Maker,
}

/// What a kernel keeps of the backend that made it.
pub(crate) struct Maker {
    /// Lanes of a vector.
    pub(crate) width: u32,
    pub(crate) pool: Arc<Pool>,
    /// Launches that store more bytes than this store past the caches.
    pub(crate) streaming_above: u64,
    /// In bytes.
    pub(crate) last_level_cache: u64,
}

/// Below this many vector instructions in all a launch stays on the calling thread: they take some 20 us, about what it
/// costs to wake a worker and wait for it.
const SMALL_LAUNCH: u64 = 1 << 16;

/// A thread takes at least this many at a time.
const SMALL_BLOCK: u64 = 1 << 13;

/// More blocks than this share the work out no more evenly, though lanes of a loop take turns from none to hundreds.
const BLOCKS_PER_THREAD: u64 = 64;

/// The most that an instruction takes of the stack: for each of 16 lanes a value and, where lanes are worked off one by
/// one, another place for it and an address. (Vectors of more lanes have small elements, and no addresses.)
const MOST_STACK: u64 = 16 * 24;

/// What a call may take of any thread's stack without asking.
const SMALL_FRAME: usize = 64 << 10;

impl CompiledKernel for Kernel {
    unsafe fn launch(&self, launch: &Launch<'_>) -> Result<(), Error> {
        let arguments = self.arguments(launch.args)?;
        let lanes = launch.lanes;
        // With reductions a call of the body is one chunk, and gives one result for each.
        let unit = if self.outline.reductions.is_empty() { 64 } else { chunk_len(lanes) };
        let (units, per_block) = self.split(lanes, unit);
        let count = self.outline.reductions.len();
        let results = if count == 0 { 0 } else { units as usize * count };
        let results: Vec<AtomicU64> = (0..results).map(|_| AtomicU64::new(0)).collect();
        let body = self.function(0);
        let blocks = units.div_ceil(per_block);
        let share = self.share(lanes);
        let alone = self.maker.pool.is_alone(blocks, share);
        let streams = self.streams(launch);
        let copied = !alone && self.copies_pay(launch);
        let modes = [(streams, STREAMS), (alone, ALONE), (copied, COPIED)];
        let modes = modes.iter().filter(|(on, _)| *on).fold(0, |all, (_, mode)| all | mode);
        let run = |arguments: &[[u64; 2]], begin: u64, end: u64| {
            let end = end.min(lanes);
            let at =
                results.get((begin / unit) as usize * count).map_or(std::ptr::null_mut(), AtomicU64::as_ptr);
            // SAFETY: the caller of `launch` promises valid memory for lanes below `lanes`; each chunk is given to one
            // call, and `at` has room for its results. With `STREAMS` all outputs are aligned to 64 bytes, and so is
            // lane `begin` in them, a multiple of 64. With `ALONE` there are no other calls meanwhile, with `COPIED`
            // none that are given the same copies.
            self.with_stack(|| unsafe { body(arguments.as_ptr(), begin, end, launch.base, at, modes) });
        };
        let start = || copied.then(|| Copies::new(&self.targets, &arguments));
        let work = |copies: &Option<Copies<'_>>, block: u64| {
            let arguments = copies.as_ref().map_or(&arguments, |copies| &copies.arguments);
            let (first, last) = (block * per_block, (block * per_block + per_block).min(units));
            if count == 0 {
                run(arguments, first * unit, last * unit);
            } else {
                (first..last).for_each(|chunk| run(arguments, chunk * unit, (chunk + 1) * unit));
            }
            if streams {
                order_streamed_stores();
            }
        };
        let merging = Mutex::new(());
        let end = |copies: Option<Copies<'_>>| {
            let Some(copies) = copies else { return };
            let _turn = merging.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: the memory is valid, as the caller of `launch` promises; the body touches only copies of it, and
            // the threads merge them in turns.
            unsafe { copies.merge(&arguments) }
        };
        self.maker.pool.run(blocks, share, start, work, end);
        if self.outline.has_finish {
            let mut totals = self.totals(results);
            // SAFETY: as above; the finish reads one total for each reduction.
            let finish = || unsafe {
                self.function(1)(arguments.as_ptr(), 0, 1, launch.base, totals.as_mut_ptr(), 0);
            };
            self.with_stack(finish);
        }
        Ok(())
    }
}

impl Kernel {
    /// The kernel of a program whose functions `code` holds, however it came by them.
    pub(crate) fn new(code: Code, outline: Outline, maker: Maker) -> Kernel {
        let (outputs, targets) = (outputs(&outline), private::targets(&outline));
        Kernel { code, outline, outputs, targets, maker }
    }

    /// Calls generated code with as much stack as its frame may take.
    fn with_stack(&self, call: impl FnOnce()) {
        let accumulators = (self.outline.reductions.len() * ACCUMULATORS * size_of::<u64>()) as u64;
        let locals = self.outline.local_bytes.saturating_mul(u64::from(self.maker.width));
        let frame = self.outline.instructions.saturating_mul(MOST_STACK);
        let frame = frame.saturating_add(accumulators).saturating_add(locals);
        let frame = usize::try_from(frame).unwrap_or(usize::MAX / 2);
        if frame <= SMALL_FRAME {
            call();
        } else {
            stacker::maybe_grow(frame + SMALL_FRAME, frame + 4 * SMALL_FRAME, call);
        }
    }

    fn function(&self, which: usize) -> Entry {
        let address = self.code.addresses()[which] as *const ();
        // SAFETY: both functions of a kernel were generated with this signature, and live as long as `self.code`.
        unsafe { std::mem::transmute::<*const (), Entry>(address) }
    }

    /// The arguments as the code reads them.
    fn arguments(&self, args: &[Arg]) -> Result<Vec<[u64; 2]>, Error> {
        let params = &self.outline.params;
        if params.len() != args.len() {
            let message = format!("{} arguments for {} parameters", args.len(), params.len());
            return Err(Error::Execution(message));
        }
        let pairs = params.iter().zip(args).enumerate();
        pairs
            .map(|(k, (param, arg))| match (param.kind, *arg) {
                (ParamKind::Scalar, Arg::Scalar(bits)) => Ok([bits, 0]),
                (ParamKind::Scalar, _) | (_, Arg::Scalar(_)) => {
                    Err(Error::Execution(format!("argument {k} is not of the kind `{}`", param.kind.name())))
                }
                (_, Arg::Memory { ptr, len }) => Ok([ptr as usize as u64, len]),
            })
            .collect()
    }

    /// Whether the lanes' stores go past the caches: what is written would not stay there until it is read.
    fn streams(&self, launch: &Launch<'_>) -> bool {
        let bytes: usize = self.outputs.iter().map(|&(_, size)| size).sum();
        launch.lanes.saturating_mul(bytes as u64) > self.maker.streaming_above
            && self.outputs.iter().all(|(param, _)| match launch.args[param.index()] {
                Arg::Memory { ptr, .. } => (ptr as usize).is_multiple_of(64),
                Arg::Scalar(_) => false,
            })
    }

    /// Whether to give each thread copies of what lanes combine values into: if making and merging them is little beside
    /// the lanes' work, and the caches have room for them.
    fn copies_pay(&self, launch: &Launch<'_>) -> bool {
        let len = |target: &private::Target| match launch.args[target.param.index()] {
            Arg::Memory { len, .. } => len,
            Arg::Scalar(_) => 0,
        };
        let threads = self.maker.pool.threads() as u64;
        let elements: u64 = self.targets.iter().map(len).sum();
        let bytes: u64 = self.targets.iter().map(|t| len(t).saturating_mul(t.dtype.size() as u64)).sum();
        !self.targets.is_empty()
            && elements.saturating_mul(threads) <= launch.lanes / 2
            && bytes.saturating_mul(threads) <= self.maker.last_level_cache
    }

    /// How many units of lanes there are, and how many of them make a block for one thread.
    fn split(&self, lanes: u64, unit: u64) -> (u64, u64) {
        let units = lanes.div_ceil(unit);
        let most = BLOCKS_PER_THREAD * self.maker.pool.threads() as u64;
        let blocks = (self.work(lanes) / SMALL_BLOCK).clamp(1, most);
        (units, units.div_ceil(blocks).max(1))
    }

    /// Roughly the vector instructions of a launch.
    fn work(&self, lanes: u64) -> u64 {
        lanes.saturating_mul(self.outline.cost) / u64::from(self.maker.width)
    }

    fn share(&self, lanes: u64) -> Share {
        if self.work(lanes) < SMALL_LAUNCH { Share::Caller } else { Share::All }
    }

    /// The final value of each reduction.
    fn totals(&self, chunks: Vec<AtomicU64>) -> Vec<u64> {
        let count = self.outline.reductions.len();
        let chunks: Vec<u64> = chunks.into_iter().map(AtomicU64::into_inner).collect();
        let of = |which| chunks.iter().skip(which).step_by(count).copied().collect();
        let each = self.outline.reductions.iter().enumerate();
        each.map(|(which, &(combine, ty))| fold_chunk_results(combine, ty, of(which))).collect()
    }
}

/// What every lane stores to, if it may do so past the caches.
fn outputs(outline: &Outline) -> Vec<(ParamId, usize)> {
    if !may_stream(outline) {
        return Vec::new();
    }
    let size = |param: &ParamId| outline.params[param.index()].dtype.size();
    outline.lane_outputs.iter().map(|param| (*param, size(param))).collect()
}

/// Makes what this thread stored past the caches visible before what it does next.
fn order_streamed_stores() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has SSE.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}
