//! A compiled program and its launches: blocks of lanes over threads, reductions' chunks folded, the finish.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use jit_core::backend::{Arg, CompiledKernel, Launch};
use jit_core::error::Error;
use jit_core::ir::{Outline, ParamKind};
use jit_core::reduce::{chunk_len, fold_chunk_results};

use crate::orc::Code;
use crate::pool::{Pool, Share};

/// The signature of both functions of a kernel: arguments, begin, end, base, results.
type Entry = unsafe extern "C" fn(*const [u64; 2], u64, u64, u64, *mut u64);

/// A program's code, and what a launch needs to know of the program.
pub(crate) struct Kernel {
    code: Code,
    outline: Outline,
    maker: Maker,
}

/// What a kernel keeps of the backend that made it.
pub(crate) struct Maker {
    /// Lanes of a vector.
    pub(crate) width: u32,
    pub(crate) pool: Arc<Pool>,
}

/// Below this many vector instructions in all a launch stays on the calling thread: they take some 20 us, about what it
/// costs to wake a worker and wait for it.
const SMALL_LAUNCH: u64 = 1 << 16;

/// A thread takes at least this many at a time.
const SMALL_BLOCK: u64 = 1 << 13;

/// Programs with more instructions may need more stack than a caller has.
const DEEP_FRAME: u64 = 4000;

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
        let run = |begin: u64, end: u64| {
            let end = end.min(lanes);
            let at =
                results.get((begin / unit) as usize * count).map_or(std::ptr::null_mut(), AtomicU64::as_ptr);
            // SAFETY: the caller of `launch` promises valid memory for lanes below `lanes`; each chunk is given to one
            // call, and `at` has room for its results.
            unsafe { body(arguments.as_ptr(), begin, end, launch.base, at) }
        };
        self.maker.pool.run(units.div_ceil(per_block), self.share(lanes), |block| {
            let (first, last) = (block * per_block, (block * per_block + per_block).min(units));
            if count == 0 {
                run(first * unit, last * unit);
            } else {
                (first..last).for_each(|chunk| run(chunk * unit, (chunk + 1) * unit));
            }
        });
        if self.outline.has_finish {
            let mut totals = self.totals(results);
            // SAFETY: as above; the finish reads one total for each reduction.
            unsafe { self.function(1)(arguments.as_ptr(), 0, 1, launch.base, totals.as_mut_ptr()) }
        }
        Ok(())
    }
}

impl Kernel {
    /// The kernel of a program whose functions `code` holds, however it came by them.
    pub(crate) fn new(code: Code, outline: Outline, maker: Maker) -> Kernel {
        Kernel { code, outline, maker }
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

    /// How many units of lanes there are, and how many of them make a block for one thread.
    fn split(&self, lanes: u64, unit: u64) -> (u64, u64) {
        let units = lanes.div_ceil(unit);
        let blocks = (self.work(lanes) / SMALL_BLOCK).clamp(1, 4 * self.maker.pool.threads() as u64);
        (units, units.div_ceil(blocks).max(1))
    }

    /// Roughly the vector instructions of a launch.
    fn work(&self, lanes: u64) -> u64 {
        lanes.saturating_mul(self.outline.cost) / u64::from(self.maker.width)
    }

    fn share(&self, lanes: u64) -> Share {
        if self.outline.instructions > DEEP_FRAME {
            Share::Workers
        } else if self.work(lanes) < SMALL_LAUNCH {
            Share::Caller
        } else {
            Share::All
        }
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
