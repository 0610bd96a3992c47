//! A compiled program and its launches: blocks of lanes over threads. What of it concerns reductions is in
//! [`segments`](crate::segments).

use std::sync::{Arc, Mutex, PoisonError};

use jit_core::backend::{Arg, CompiledKernel, Launch};
use jit_core::error::Error;
use jit_core::ir::{Outline, ParamId, ParamKind, Segments};
use jit_core::op::Op;
use jit_core::reduce::ACCUMULATORS;

use crate::codegen::{ALONE, BODY, COPIED, FINISH, FOLD, STREAMS, Strip, may_stream};
use crate::orc::Code;
use crate::pool::{Pool, Share};
use crate::private::{self, Copies};

/// The signature of all functions of a kernel: arguments, begin, end, base, results, modes, strip.
pub(crate) type Entry = unsafe extern "C" fn(*const [u64; 2], u64, u64, u64, *mut u64, u64, *const Strip);

/// The names of the functions of a kernel.
pub(crate) fn functions(outline: &Outline) -> Vec<&'static str> {
    let finish = outline.has_finish.then_some(FINISH);
    [BODY].into_iter().chain(finish).chain(has_blocks(outline).then_some(FOLD)).collect()
}

/// Whether there are reductions that combine by a block.
fn has_blocks(outline: &Outline) -> bool {
    outline.reductions.iter().any(|reduction| reduction.combine == Op::Reduce)
}

/// A program's code, and what a launch needs to know of the program.
pub(crate) struct Kernel {
    code: Code,
    pub(crate) outline: Outline,
    /// The parameters that every lane stores to, with the bytes of an element.
    outputs: Vec<(ParamId, usize)>,
    /// The parameters of which each thread may have a copy.
    targets: Vec<private::Target>,
    pub(crate) maker: Maker,
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
pub(crate) const SMALL_BLOCK: u64 = 1 << 13;

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
        if self.outline.reductions.is_empty() {
            // SAFETY: the caller promises valid memory for lanes below `lanes`.
            unsafe { self.run_lanes(launch, &arguments) };
        } else {
            // SAFETY: as above.
            unsafe { self.run_segments(launch, &arguments) };
        }
        Ok(())
    }
}

/// What one launch's calls have in common.
pub(crate) struct Calls<'a> {
    pub(crate) arguments: &'a [[u64; 2]],
    pub(crate) base: u64,
    pub(crate) modes: u64,
    pub(crate) copied: bool,
}

impl Kernel {
    /// The kernel of a program whose functions `code` holds, however it came by them.
    pub(crate) fn new(code: Code, outline: Outline, maker: Maker) -> Kernel {
        let (outputs, targets) = (outputs(&outline), private::targets(&outline));
        Kernel { code, outline, outputs, targets, maker }
    }

    /// Calls generated code with as much stack as its frame may take.
    pub(crate) fn with_stack(&self, call: impl FnOnce()) {
        let accumulators = (self.slots() * ACCUMULATORS * size_of::<u64>()) as u64;
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

    pub(crate) fn body(&self) -> Entry {
        self.function(0)
    }

    pub(crate) fn finish(&self) -> Option<Entry> {
        self.outline.has_finish.then(|| self.function(1))
    }

    /// What folds states that a block combines.
    pub(crate) fn fold(&self) -> Entry {
        self.function(1 + usize::from(self.outline.has_finish))
    }

    fn function(&self, which: usize) -> Entry {
        let address = self.code.addresses()[which] as *const ();
        // SAFETY: the functions of a kernel were generated with this signature, and live as long as `self.code`.
        unsafe { std::mem::transmute::<*const (), Entry>(address) }
    }

    /// Runs the lanes of a program without reductions, and what finish it may have.
    ///
    /// # Safety
    /// As for [`CompiledKernel::launch`].
    unsafe fn run_lanes(&self, launch: &Launch<'_>, arguments: &[[u64; 2]]) {
        const UNIT: u64 = 64;
        let lanes = launch.lanes;
        let (units, per_block) = self.split(lanes, lanes.div_ceil(UNIT));
        let blocks = units.div_ceil(per_block);
        let share = self.share(lanes);
        let calls = self.calls(launch, arguments, self.maker.pool.is_alone(blocks, share));
        let streams = calls.modes & STREAMS != 0;
        let work = |copies: &Option<Copies<'_>>, block: u64| {
            let arguments = copies.as_ref().map_or(arguments, |copies| &copies.arguments);
            let (begin, end) = (block * per_block * UNIT, ((block + 1) * per_block * UNIT).min(lanes));
            // SAFETY: the caller promises valid memory for lanes below `lanes`; each is given to one call. With `STREAMS`
            // all outputs are aligned to 64 bytes, and so is lane `begin` in them, a multiple of 64. With `ALONE` there
            // are no other calls meanwhile, with `COPIED` none that are given the same copies.
            self.with_stack(|| unsafe {
                let (results, strip) = (std::ptr::null_mut(), std::ptr::null());
                self.body()(arguments.as_ptr(), begin, end, calls.base, results, calls.modes, strip);
            });
            if streams {
                order_streamed_stores();
            }
        };
        let merging = Merging::default();
        // SAFETY: the memory is valid, as the caller promises, and the body touches only copies of it.
        let end = |copies| unsafe { merging.merge(copies, arguments) };
        self.maker.pool.run(blocks, share, || self.copies(&calls), work, end);
        if let Some(finish) = self.finish() {
            let segments = self.outline.segments.count(lanes, launch.segment);
            // SAFETY: as above; without reductions nothing is read from results.
            self.with_stack(|| unsafe {
                let (results, strip) = (std::ptr::null_mut(), std::ptr::null());
                finish(arguments.as_ptr(), 0, segments, 0, results, 0, strip);
            });
        }
    }

    /// How calls run that are all on this thread, or not.
    pub(crate) fn calls<'a>(&self, launch: &Launch<'_>, arguments: &'a [[u64; 2]], alone: bool) -> Calls<'a> {
        let copied = !alone && self.copies_pay(launch);
        let modes = [(self.streams(launch), STREAMS), (alone, ALONE), (copied, COPIED)];
        let modes = modes.iter().filter(|(on, _)| *on).fold(0, |all, (_, mode)| all | mode);
        Calls { arguments, base: launch.base, modes, copied }
    }

    /// A thread's copies, if it is to have any.
    pub(crate) fn copies<'a>(&'a self, calls: &Calls<'_>) -> Option<Copies<'a>> {
        calls.copied.then(|| Copies::new(&self.targets, calls.arguments))
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
        self.outline.segments == Segments::All
            && launch.lanes.saturating_mul(bytes as u64) > self.maker.streaming_above
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

    /// So many units that a launch's lanes are divided into, and how many of them make a block for one thread.
    pub(crate) fn split(&self, lanes: u64, units: u64) -> (u64, u64) {
        let most = BLOCKS_PER_THREAD * self.maker.pool.threads() as u64;
        let blocks = (self.work(lanes) / SMALL_BLOCK).clamp(1, most);
        (units, units.div_ceil(blocks).max(1))
    }

    /// Roughly the vector instructions of a launch.
    pub(crate) fn work(&self, lanes: u64) -> u64 {
        lanes.saturating_mul(self.outline.cost) / u64::from(self.maker.width)
    }

    pub(crate) fn share(&self, lanes: u64) -> Share {
        if self.work(lanes) < SMALL_LAUNCH { Share::Caller } else { Share::All }
    }

    /// The number of values that reductions carry.
    pub(crate) fn slots(&self) -> usize {
        self.outline.reductions.iter().map(|reduction| reduction.types.len()).sum()
    }
}

/// Combines threads' copies with the memory itself, in turns.
#[derive(Default)]
pub(crate) struct Merging(Mutex<()>);

impl Merging {
    /// Does so with a thread's copies, if it has any.
    ///
    /// # Safety
    /// The memory of the arguments is valid, and touched here alone.
    pub(crate) unsafe fn merge(&self, copies: Option<Copies<'_>>, arguments: &[[u64; 2]]) {
        let Some(copies) = copies else { return };
        let _turn = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: as the caller promises.
        unsafe { copies.merge(arguments) }
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
pub(crate) fn order_streamed_stores() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has SSE.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}
