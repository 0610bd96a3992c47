//! What lanes did wrong, on checked devices: from the memory that kernels report to, to the error that somebody gets.
//!
//! A report is no failure: results are what they are on every device, and work that depends on them goes on. It is told
//! once, by whatever waits first for an event of the batch, reads something that it wrote, or syncs its stream. Batches that
//! need its results take over what nobody has been told yet.

use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::backend::Arg;
use crate::dtype::DType;
use crate::error::Error;
use crate::op::{Class, Op};
use crate::plan::key_of_index;
use crate::trace::{NodeId, Trace};

/// What a lane did wrong.
pub(crate) struct Report {
    error: Error,
    told: AtomicBool,
}

/// What is wrong with a batch and what it depends on, once it has run.
#[derive(Default)]
pub(crate) struct Findings(Mutex<State>);

#[derive(Default)]
struct State {
    /// Those of batches that this one needs results of, until it has run.
    inputs: SmallVec<[Arc<Findings>; 2]>,
    /// The first one that it takes over, and its own.
    reports: SmallVec<[Arc<Report>; 1]>,
    has_run: bool,
}

/// An access or switch whose index is tested: what to say of it.
pub(crate) struct Site {
    op: Op,
    location: &'static Location<'static>,
    index: DType,
    size: u64,
}

/// What to look at after the kernels of a batch have run.
pub(crate) struct Inspection {
    /// The words that lanes reported to, two for each site.
    report: Arg,
    sites: Vec<Site>,
}

impl Report {
    /// Whether somebody has asked for it.
    pub(crate) fn is_told(&self) -> bool {
        // Relaxed: `take` decides who tells it.
        self.told.load(Ordering::Relaxed)
    }

    /// The error, for who asks first.
    pub(crate) fn take(&self) -> Option<Error> {
        // Relaxed: the error was there before; nothing else depends on who gets it.
        (!self.told.swap(true, Ordering::Relaxed)).then(|| self.error.clone())
    }
}

impl Findings {
    /// Those of a batch that needs results of batches with these.
    pub(crate) fn after(inputs: impl IntoIterator<Item = Arc<Findings>>) -> Findings {
        let mut state = State::default();
        for input in inputs {
            if !state.inputs.iter().any(|other| Arc::ptr_eq(other, &input)) && input.may_tell() {
                state.inputs.push(input);
            }
        }
        Findings(Mutex::new(state))
    }

    /// Whether somebody may still be told something.
    pub(crate) fn may_tell(&self) -> bool {
        let state = self.0.lock();
        !state.has_run || state.reports.iter().any(|report| !report.is_told())
    }

    /// The batch has run, and this is what it found itself; gives that back as it will be told.
    pub(crate) fn settle(&self, own: Option<Error>) -> Option<Arc<Report>> {
        let own = own.map(|error| Arc::new(Report { error, told: AtomicBool::new(false) }));
        let inputs = std::mem::take(&mut self.0.lock().inputs);
        // Outside of the lock: no two of these are ever held at once.
        let first = inputs.iter().find_map(|input| input.untold());
        drop(inputs);
        let mut state = self.0.lock();
        state.has_run = true;
        state.reports.extend(first.into_iter().chain(own.clone()));
        own
    }

    /// The first error that nobody has been told.
    pub(crate) fn take(&self) -> Option<Error> {
        let reports = self.0.lock().reports.clone();
        reports.iter().find_map(|report| report.take())
    }

    fn untold(&self) -> Option<Arc<Report>> {
        self.0.lock().reports.iter().find(|report| !report.is_told()).cloned()
    }
}

impl Site {
    /// What to say of these nodes of a plan.
    pub(crate) fn all(trace: &Trace, order: &[NodeId], numbers: &[u32]) -> Vec<Site> {
        let site = |&number: &u32| {
            let id = order[number as usize];
            let node = trace.node(id);
            let location = trace.slab.location(id);
            if node.op == Op::Switch {
                let region = trace.scopes.region(node.payload);
                let index = trace.node(region.operands[0]).dtype;
                // The last block is for what has no other.
                return Site { op: node.op, location, index, size: region.scopes.len() as u64 - 1 };
            }
            let operands = node.operands();
            let index = match node.op {
                Op::Gather | Op::AtomicInc | Op::LocalRead => operands[1],
                Op::CompareExchange => operands[3],
                _ => operands[2],
            };
            let target = trace.node(operands[0]);
            let local = target.local_len().filter(|_| node.op.class() == Class::Local);
            Site {
                op: node.op,
                location,
                index: trace.node(index).dtype,
                size: local.map_or(target.size, u64::from),
            }
        };
        numbers.iter().map(site).collect()
    }

    /// How many words the report of so many sites has.
    pub(crate) fn words(sites: usize) -> u64 {
        2 * sites as u64
    }
}

impl Inspection {
    /// Of words in the memory of that argument.
    pub(crate) fn new(report: Arg, sites: Vec<Site>) -> Inspection {
        Inspection { report, sites }
    }

    /// What lanes reported: of the first site in the plan's order where any did, the least index.
    ///
    /// # Safety
    /// The memory of the report is valid for its length, and no longer written.
    pub(crate) unsafe fn error(&self) -> Option<Error> {
        let Arg::Memory { ptr, len } = self.report else { return None };
        // SAFETY: as the caller promises; memory of devices is aligned to 64 bytes.
        let words = unsafe { std::slice::from_raw_parts(ptr.cast::<u64>(), len as usize) };
        let (site, key) = self
            .sites
            .iter()
            .zip(words.chunks_exact(2))
            .find_map(|(site, words)| (words[0] != 0).then_some((site, words[1])))?;
        let bits = key ^ key_of_index(site.index.is_signed());
        let index = if site.index.is_signed() { i128::from(bits as i64) } else { i128::from(bits) };
        Some(Error::OutOfBounds {
            op: site.op.name(),
            location: format!(" (made at {})", site.location),
            index,
            size: site.size,
        })
    }
}
