//! Reductions, segment by segment, by the definition in [`crate::reduce`].

use smallvec::SmallVec;

use super::Lane;
use crate::dtype::DType;
use crate::ir::{Inst, SegmentLanes};
use crate::op::{Op, scalar};
use crate::reduce;

/// What a reduction carries from lane to lane.
type State = SmallVec<[u64; 4]>;

/// One reduction of one segment.
struct Reducing<'a> {
    inst: &'a Inst,
    identity: State,
    accumulators: Vec<State>,
    chunks: Vec<State>,
}

impl Lane<'_> {
    /// Runs the body on each lane, and the finish on each segment.
    pub(super) fn run_all(mut self, lanes: u64, length: u64) {
        let program = self.program;
        let segments = program.segments;
        for segment in 0..segments.count(lanes, length) {
            let totals = self.run_segment(segments.lanes(segment, lanes, length));
            let Some(finish) = &program.finish else { continue };
            self.index = segment;
            for (&param, &value) in finish.params.iter().zip(totals.iter().flatten()) {
                self.values[param.index()] = value;
            }
            // The finish counts segments, wherever the launch begins.
            let base = std::mem::take(&mut self.base);
            self.block(finish);
            self.base = base;
        }
    }

    /// Runs the body on the lanes of a segment; the results of the reductions.
    fn run_segment(&mut self, lanes: SegmentLanes) -> Vec<State> {
        let program = self.program;
        let SegmentLanes { first, step, count } = lanes;
        let chunk = reduce::chunk_len(count);
        let mut reductions: Vec<Reducing<'_>> = Vec::new();
        for inst in program.reduce_insts() {
            let identity = self.identity(inst);
            reductions.push(Reducing { inst, identity, accumulators: Vec::new(), chunks: Vec::new() });
        }
        for i in 0..count {
            self.index = first + i * step;
            self.block(&program.body);
            #[cfg(feature = "seeded-bugs")]
            self.spoil_reductions(i + 1 == count && !count.is_multiple_of(4));
            let in_chunk = i % chunk;
            for reducing in &mut reductions {
                if in_chunk == 0 {
                    let accumulators = reduce::accumulators(chunk.min(count - i));
                    reducing.accumulators = vec![reducing.identity.clone(); accumulators];
                }
                let value: State = reducing.inst.reduced().iter().map(|&v| self.get(v)).collect();
                let at = in_chunk as usize % reduce::ACCUMULATORS;
                reducing.accumulators[at] = self.combine(reducing.inst, &reducing.accumulators[at], &value);
                if in_chunk == chunk - 1 || i == count - 1 {
                    let combine = |a: &State, b: &State| self.combine(reducing.inst, a, b);
                    reduce::fold_accumulators(&mut reducing.accumulators, combine);
                    reducing.chunks.push(reducing.accumulators.swap_remove(0));
                }
            }
        }
        reductions.into_iter().map(|reducing| self.total(reducing)).collect()
    }

    /// The result of all chunks; the result of a single chunk is final.
    fn total(&mut self, reducing: Reducing<'_>) -> State {
        let Reducing { inst, identity, chunks, .. } = reducing;
        match &chunks[..] {
            [] if inst.op == Op::Reduce => {
                // The identity is among the values that no lane changes.
                identity
            }
            [] => {
                let combine = inst.op.combine().expect("a reduction combines");
                [reduce::of_none(combine, self.program.dtype(inst.args[0]))].into_iter().collect()
            }
            [one] => one.clone(),
            _ => reduce::fold_states(&identity, chunks, |a, b| self.combine(inst, a, b)),
        }
    }

    fn identity(&mut self, inst: &Inst) -> State {
        if inst.op != Op::Reduce {
            let combine = inst.op.combine().expect("a reduction combines");
            return [scalar::identity(combine, self.program.dtype(inst.args[0]))].into_iter().collect();
        }
        // Computed here, since there may be no lane; what defines them is the same on all lanes.
        for of in &self.program.body.insts {
            if matches!(of.op, Op::Literal | Op::Param | Op::LoadScalar) {
                self.inst(of);
            }
        }
        inst.identity().iter().map(|&v| self.get(v)).collect()
    }

    fn combine(&mut self, inst: &Inst, a: &State, b: &State) -> State {
        if inst.op == Op::Reduce {
            let block = &inst.blocks[0];
            for (param, &value) in block.params.iter().zip(a.iter().chain(b)) {
                self.values[param.index()] = value;
            }
            self.block(block);
            return block.yields.iter().map(|&v| self.get(v)).collect();
        }
        let ty: DType = self.program.dtype(inst.args[0]);
        let combine = inst.op.combine().expect("a reduction combines");
        [self.compute(combine, ty, ty, &[a[0], b[0]])].into_iter().collect()
    }
}
