//! Kernels in memory, by the structure of their programs.
//!
//! A structure is a program's canonical words, with its literals as holes. The first compilation bakes the literals in; when
//! the structure is seen again with other values, all float literals and the integer ones that differ become
//! scalar parameters. Literals in specialising positions (divisor, shift amount, mask, trip bound) stay baked for
//! up to [`SPECIALISED_VALUES`] values. So a changing scalar costs one more compilation, not one each.
//!
//! Code holds executable memory, of which a process has a limited number of pieces: beyond [`MAX_LOADED`] kernels those
//! launched longest ago lose theirs, and get it again (from disk, or compiled) when they are launched. Structures
//! without plans go when there are too many of them; [`Structures`] says which.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::backend::Arg;
use crate::ir::{Hole, Program};
use crate::op::Op;
use crate::runtime::compiler::{Code, Loaded};
use crate::runtime::structures::Structures;

/// How many values of one specialising literal are baked in before it becomes a parameter.
pub(crate) const SPECIALISED_VALUES: usize = 4;

/// How many kernels of a device may be loaded: each takes some eight of the 65,530 mappings that Linux gives a process by
/// default, and a process has few devices.
pub(crate) const MAX_LOADED: usize = 2048;

/// How many words of structures a device keeps: some 32 MiB, and a few times that in programs.
const MAX_WORDS: usize = 1 << 22;

/// All kernels of a device.
#[derive(Default)]
pub(crate) struct KernelCache {
    entries: Structures<KernelEntry>,
    count: u64,
    words: Vec<u64>,
}

/// One structure.
pub(crate) struct KernelEntry {
    /// Counts structures of a device from 1.
    pub(crate) number: u64,
    pub(crate) words: Arc<[u64]>,
    /// The only copy of the program; what backends get is made from it.
    template: Program,
    pub(crate) holes: Vec<Hole>,
    state: Mutex<State>,
}

struct State {
    variants: Vec<Arc<Variant>>,
    /// The values of each hole so far, as far as they are needed.
    seen: Vec<SmallVec<[u64; SPECIALISED_VALUES]>>,
}

/// A structure with values for some of its holes.
pub(crate) struct Variant {
    /// For each hole its value, or none if it is a parameter.
    pub(crate) baked: Vec<Option<u64>>,
    /// Why it was made.
    pub(crate) why: String,
    /// For memory as long as the program assumes.
    pub(crate) code: Code,
    /// Without assumptions about lengths; made when one fails to hold.
    pub(crate) checked: Code,
    /// When it was last asked for, by the compiler's clock.
    pub(crate) used: AtomicU64,
}

impl KernelCache {
    /// The entry of a program's structure; `holes` gets the program's literals in the entry's order.
    pub(crate) fn entry(&mut self, program: Program, holes: &mut Vec<Hole>) -> Arc<KernelEntry> {
        self.words.clear();
        holes.clear();
        program.canonical_words(&mut self.words, holes);
        let count = &mut self.count;
        self.entries.get_or_insert_with(&self.words, |words| {
            *count += 1;
            let state = State { variants: Vec::new(), seen: vec![SmallVec::new(); holes.len()] };
            KernelEntry {
                number: *count,
                words: Arc::clone(words),
                template: program,
                holes: holes.clone(),
                state: Mutex::new(state),
            }
        })
    }

    /// Number of structures.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether structures that no plan holds should be more.
    pub(crate) fn is_over_full(&self) -> bool {
        self.entries.weight() > MAX_WORDS
    }

    /// Forgets structures that no plan holds if there are too many. The caller drops them where that may take time.
    pub(crate) fn evict_structures(&mut self) -> Vec<Arc<KernelEntry>> {
        self.entries.evict(MAX_WORDS)
    }

    /// With more than `most` kernels loaded, unloads those launched longest ago until three quarters of `most` are left, but
    /// for what is being launched. The caller drops what it gets where that may take time.
    pub(crate) fn unload(&self, loaded: usize, most: usize) -> Vec<Arc<Loaded>> {
        if loaded <= most {
            return Vec::new();
        }
        let mut variants: Vec<Arc<Variant>> = Vec::new();
        self.entries.iter().for_each(|entry| variants.extend(entry.state.lock().variants.iter().cloned()));
        // Relaxed: a launch that is noted late costs at most a reload.
        variants.sort_by_cached_key(|variant| variant.used.load(Ordering::Relaxed));
        let codes = variants.iter().flat_map(|variant| [&variant.code, &variant.checked]);
        codes.filter_map(Code::unload).take(loaded - most * 3 / 4).collect()
    }
}

impl KernelEntry {
    /// The variant for these values of the holes: one that there is, or a new one without code.
    pub(crate) fn variant(&self, values: &[u64]) -> Arc<Variant> {
        let mut state = self.state.lock();
        let fits = |v: &&Arc<Variant>| v.baked.iter().zip(values).all(|(b, v)| b.is_none_or(|b| b == *v));
        if let Some(found) = state.variants.iter().find(fits) {
            return Arc::clone(found);
        }
        let first = state.variants.is_empty();
        let baked = state.choose(&self.holes, values);
        let promoted = baked.iter().filter(|b| b.is_none()).count();
        let why = match (first, promoted) {
            (true, _) => "new structure".to_owned(),
            (false, 0) => "other literal values".to_owned(),
            (false, _) => format!("other literal values; {promoted} of them now parameters"),
        };
        let variant = Arc::new(Variant {
            baked,
            why,
            code: Code::default(),
            checked: Code::default(),
            used: AtomicU64::new(0),
        });
        state.variants.push(Arc::clone(&variant));
        variant
    }

    /// The program of a variant, as it is before the passes.
    pub(crate) fn program(&self, baked: &[Option<u64>]) -> Program {
        let mut program = self.template.clone();
        let filled = self.holes.iter().zip(baked);
        let values: FxHashMap<_, _> = filled.clone().filter_map(|(h, b)| Some((h.value, (*b)?))).collect();
        program.for_each_inst_mut(&mut |inst| {
            if inst.op == Op::Literal
                && let Some(&bits) = values.get(&inst.result())
            {
                inst.imm = bits;
            }
        });
        let open: Vec<_> = filled.filter(|(_, b)| b.is_none()).map(|(h, _)| h.value).collect();
        program.promote(&open);
        program
    }
}

impl Variant {
    /// Appends the values that are parameters to the arguments.
    pub(crate) fn push_literals(&self, values: &[u64], args: &mut Vec<Arg>) {
        let open = self.baked.iter().zip(values).filter(|(baked, _)| baked.is_none());
        args.extend(open.map(|(_, &value)| Arg::Scalar(value)));
    }
}

impl State {
    /// Which holes to bake for these values: see the module's comment.
    fn choose(&mut self, holes: &[Hole], values: &[u64]) -> Vec<Option<u64>> {
        let first = self.variants.is_empty();
        let mut baked = Vec::with_capacity(holes.len());
        for ((hole, &value), seen) in holes.iter().zip(values).zip(&mut self.seen) {
            if seen.len() <= SPECIALISED_VALUES && !seen.contains(&value) {
                seen.push(value);
            }
            let open = if first {
                false
            } else if hole.specialising {
                // Combinations of values count too, so that several such literals do not multiply.
                seen.len() > SPECIALISED_VALUES || self.variants.len() > 2 * SPECIALISED_VALUES
            } else {
                hole.dtype.is_float() || seen.len() > 1
            };
            baked.push((!open).then_some(value));
        }
        baked
    }
}
