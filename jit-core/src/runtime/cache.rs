//! Kernels by structure.
//!
//! The key of an entry is the program with its literals as holes. The first compilation bakes the literals in; when
//! the structure is seen again with other values, all float literals and the integer ones that differ become
//! scalar parameters. Literals in specialising positions (divisor, shift amount, mask, trip bound) stay baked for
//! up to [`SPECIALISED_VALUES`] values. So a changing scalar costs one more compilation, not one each.

use std::collections::hash_map::Entry as MapEntry;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use xxhash_rust::xxh3::xxh3_128;

use crate::backend::{Arg, Backend, CompiledKernel};
use crate::error::Error;
use crate::ir::{Hole, Program, verify};
use crate::op::Op;
use crate::passes::{self, Bounds};
use crate::runtime::{CacheOutcome, FloatMode};

/// How many values of one specialising literal are baked in before it becomes a parameter.
pub(crate) const SPECIALISED_VALUES: usize = 4;

/// All kernels of a device.
pub(crate) struct KernelCache {
    float_mode: FloatMode,
    entries: FxHashMap<u128, Vec<Arc<KernelEntry>>>,
    count: u64,
}

impl KernelCache {
    /// An empty cache of kernels compiled in that mode.
    pub(crate) fn new(float_mode: FloatMode) -> KernelCache {
        KernelCache { float_mode, entries: FxHashMap::default(), count: 0 }
    }

    /// The entry of a program's structure; `holes` gets the program's literals in the entry's order.
    pub(crate) fn entry(&mut self, program: Program, holes: &mut Vec<Hole>) -> Arc<KernelEntry> {
        let mut words = Vec::new();
        holes.clear();
        program.canonical_words(&mut words, holes);
        let hash = xxh3_128(bytemuck::cast_slice(&words));
        let same_hash = match self.entries.entry(hash) {
            MapEntry::Occupied(o) => o.into_mut(),
            MapEntry::Vacant(v) => v.insert(Vec::new()),
        };
        if let Some(found) = same_hash.iter().find(|e| e.words == words) {
            return Arc::clone(found);
        }
        self.count += 1;
        let seen = vec![SmallVec::new(); holes.len()];
        let entry = Arc::new(KernelEntry {
            number: self.count,
            float_mode: self.float_mode,
            words,
            template: program,
            holes: holes.clone(),
            state: Mutex::new(State { variants: Vec::new(), seen }),
        });
        same_hash.push(Arc::clone(&entry));
        entry
    }

    /// Number of structures.
    pub(crate) fn len(&self) -> usize {
        self.entries.values().map(Vec::len).sum()
    }

    /// Forgets all kernels; launches in flight keep theirs.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }
}

/// One structure.
pub(crate) struct KernelEntry {
    /// Counts structures of a device from 1.
    pub(crate) number: u64,
    float_mode: FloatMode,
    words: Vec<u64>,
    template: Program,
    holes: Vec<Hole>,
    state: Mutex<State>,
}

struct State {
    variants: Vec<Arc<Variant>>,
    /// The values of each hole so far, as far as they are needed.
    seen: Vec<SmallVec<[u64; SPECIALISED_VALUES]>>,
}

/// One compilation of a structure.
pub(crate) struct Variant {
    /// For each hole its value, or none if it is a parameter.
    baked: Vec<Option<u64>>,
    /// The program as the backend got it.
    pub(crate) program: Program,
    /// Its instructions, counted once.
    pub(crate) ops: usize,
    /// Whether some lane may run them more often than once.
    pub(crate) loops: bool,
    kernel: Arc<dyn CompiledKernel>,
    /// Without the assumptions about lengths that `program` rests on; made when one fails to hold.
    checked: OnceLock<Arc<dyn CompiledKernel>>,
}

impl Variant {
    /// Appends the values that are parameters to the arguments.
    pub(crate) fn push_literals(&self, values: &[u64], args: &mut Vec<Arg>) {
        let open = self.baked.iter().zip(values).filter(|(baked, _)| baked.is_none());
        args.extend(open.map(|(_, &value)| Arg::Scalar(value)));
    }
}

impl KernelEntry {
    /// The kernel for these values of the holes, compiled if need be.
    pub(crate) fn variant(
        &self,
        backend: &dyn Backend,
        values: &[u64],
    ) -> Result<(Arc<Variant>, CacheOutcome, Duration), Error> {
        let mut state = self.state.lock();
        let fits = |v: &&Arc<Variant>| v.baked.iter().zip(values).all(|(b, v)| b.is_none_or(|b| b == *v));
        if let Some(found) = state.variants.iter().find(fits) {
            return Ok((Arc::clone(found), CacheOutcome::Hit, Duration::ZERO));
        }
        let why = if state.variants.is_empty() { "new structure" } else { "other literal values" };
        let baked = state.choose(&self.holes, values);
        let start = Instant::now();
        let program = self.lowered(backend, &baked, true)?;
        let kernel = backend.compile(&program)?;
        let compile_time = start.elapsed();
        let ops = program.inst_count();
        let mut loops = false;
        program.for_each_inst(&mut |inst| loops |= inst.op == Op::Loop);
        let variant = Arc::new(Variant { baked, program, ops, loops, kernel, checked: OnceLock::new() });
        state.variants.push(Arc::clone(&variant));
        let promoted = variant.baked.iter().filter(|b| b.is_none()).count();
        let why =
            if promoted == 0 { why.to_owned() } else { format!("{why}; {promoted} of them now parameters") };
        Ok((variant, CacheOutcome::Miss(why), compile_time))
    }

    /// The kernel of a variant that these arguments allow: the one without bounds tests if the memory is as long
    /// as that one assumes.
    pub(crate) fn kernel(
        &self,
        backend: &dyn Backend,
        variant: &Variant,
        args: &[Arg],
        lanes: u64,
    ) -> Result<(Arc<dyn CompiledKernel>, CacheOutcome, Duration), Error> {
        let hit = |kernel: &Arc<dyn CompiledKernel>| (Arc::clone(kernel), CacheOutcome::Hit, Duration::ZERO);
        let holds = variant.program.params.iter().zip(args).all(|(param, arg)| match arg {
            Arg::Scalar(_) => true,
            Arg::Memory { len, .. } => *len >= param.min_len && (!param.spans_lanes || *len >= lanes),
        });
        if holds {
            return Ok(hit(&variant.kernel));
        }
        if let Some(kernel) = variant.checked.get() {
            return Ok(hit(kernel));
        }
        let start = Instant::now();
        let program = self.lowered(backend, &variant.baked, false)?;
        let kernel = backend.compile(&program)?;
        let why = CacheOutcome::Miss("memory shorter than the first kernel assumed".to_owned());
        Ok((Arc::clone(variant.checked.get_or_init(|| kernel)), why, start.elapsed()))
    }

    fn lowered(
        &self,
        backend: &dyn Backend,
        baked: &[Option<u64>],
        assume_lengths: bool,
    ) -> Result<Program, Error> {
        let mut program = self.template.clone();
        let filled = self.holes.iter().zip(baked);
        let values: FxHashMap<_, _> = filled.clone().filter_map(|(h, b)| Some((h.value, (*b)?))).collect();
        program.for_each_inst_mut(&mut |inst| {
            if inst.op == crate::op::Op::Literal
                && let Some(&bits) = values.get(&inst.result())
            {
                inst.imm = bits;
            }
        });
        let open: Vec<_> = filled.filter(|(_, b)| b.is_none()).map(|(h, _)| h.value).collect();
        program.promote(&open);
        verify(&program)?;
        let bounds = if assume_lengths { Bounds::default() } else { Bounds::Off };
        let contract = self.float_mode == FloatMode::Contract;
        let options = passes::Options { contract, bounds };
        passes::run(&mut program, backend.caps().passes, &options, &mut |_, _| {});
        Ok(program)
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
