//! Launches of so many lanes that they become several.

use smallvec::SmallVec;

use crate::backend::Arg;
use crate::ir::Outline;

/// A launch of some of a kernel's lanes.
pub(crate) struct Part {
    pub(crate) args: Vec<Arg>,
    pub(crate) lanes: u64,
    /// The first of them.
    pub(crate) base: u64,
}

/// Parts begin at multiples of this, so that memory of all element types is as aligned there as at its beginning.
const UNIT: u64 = 64;

impl Part {
    /// The launches that make up one with these arguments, each of at most `most` lanes. `by_lane` tells which arguments
    /// each lane uses at its own place only: they move with the lanes.
    ///
    /// Chunks of reductions are what the backend makes of a whole launch, so that one with reductions stays whole.
    pub(crate) fn all(
        most: Option<u64>,
        outline: &Outline,
        args: Vec<Arg>,
        by_lane: &[bool],
        lanes: u64,
    ) -> SmallVec<[Part; 1]> {
        let most = most.map_or(u64::MAX, |most| (most / UNIT).max(1) * UNIT);
        if lanes <= most || !outline.reductions.is_empty() || outline.has_finish {
            return [Part { args, lanes, base: 0 }].into_iter().collect();
        }
        let moved = |base: u64| {
            let mut own = args.clone();
            for ((arg, param), _) in
                own.iter_mut().zip(&outline.params).zip(by_lane).filter(|&(_, &by_lane)| by_lane)
            {
                if let Arg::Memory { ptr, len } = arg {
                    let bytes = base as usize * param.dtype.size();
                    // A launch promises memory for each lane, so this stays inside of it.
                    *ptr = ptr.wrapping_add(bytes);
                    *len -= base;
                }
            }
            own
        };
        let bases = (0..lanes.div_ceil(most)).map(|part| part * most);
        bases.map(|base| Part { args: moved(base), lanes: most.min(lanes - base), base }).collect()
    }
}
