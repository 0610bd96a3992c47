//! How the lanes of a launch are divided among the results of its reductions, and what a reduction is.

use smallvec::SmallVec;

use super::{Inst, Program};
use crate::dtype::DType;
use crate::op::{Class, Op};

/// Which lanes a reduction of a program combines into one result. The length is a launch's, not the program's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum Segments {
    /// All of them: one segment.
    #[default]
    All,
    /// Blocks of `length` lanes that follow each other; the last one may be shorter.
    Rows,
    /// Segment `s` has the lanes `s`, `s + length`, `s + 2 * length`, ...; there are `length` segments, also of no lanes.
    Columns,
}

/// The lanes of one segment: `first`, `first + step`, ..., `count` of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentLanes {
    /// The first one.
    pub first: u64,
    /// From one to the next.
    pub step: u64,
    /// How many there are.
    pub count: u64,
}

impl Segments {
    /// All of them, in the order of their numbers on disk.
    pub const ALL: [Segments; 3] = [Segments::All, Segments::Rows, Segments::Columns];

    /// `all`, `rows` or `columns`.
    pub const fn name(self) -> &'static str {
        match self {
            Segments::All => "all",
            Segments::Rows => "rows",
            Segments::Columns => "columns",
        }
    }

    /// The number of segments of a launch of so many lanes.
    ///
    /// # Panics
    /// For rows of length 0.
    pub const fn count(self, lanes: u64, length: u64) -> u64 {
        match self {
            Segments::All => 1,
            Segments::Rows => lanes.div_ceil(length),
            Segments::Columns => length,
        }
    }

    /// The lanes of a segment.
    pub fn lanes(self, segment: u64, lanes: u64, length: u64) -> SegmentLanes {
        match self {
            Segments::All => SegmentLanes { first: 0, step: 1, count: lanes },
            Segments::Rows => {
                let first = segment * length;
                SegmentLanes { first, step: 1, count: length.min(lanes - first) }
            }
            Segments::Columns => {
                let count = lanes.saturating_sub(segment).div_ceil(length);
                SegmentLanes { first: segment, step: length, count }
            }
        }
    }
}

/// A reduction of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reduction {
    /// The binary op it combines with; [`Op::Reduce`] if it has a block for that.
    pub combine: Op,
    /// The element types of its state, each of which is a parameter of the finish.
    pub types: SmallVec<[DType; 4]>,
}

impl Program {
    /// The reductions in order.
    pub fn reductions(&self) -> Vec<Reduction> {
        self.reduce_insts().map(|inst| self.reduction(inst)).collect()
    }

    /// The instructions that reduce, in order.
    pub fn reduce_insts(&self) -> impl Iterator<Item = &Inst> {
        self.body.insts.iter().filter(|inst| inst.op.class() == Class::Reduce)
    }

    fn reduction(&self, inst: &Inst) -> Reduction {
        let types = inst.reduced().iter().map(|&value| self.dtype(value)).collect();
        Reduction { combine: inst.op.combine().unwrap_or(inst.op), types }
    }
}

impl Inst {
    /// Of a reduction: what a lane contributes.
    pub fn reduced(&self) -> &[super::Value] {
        match self.op {
            Op::Reduce => &self.args[..self.args.len() / 2],
            _ => &self.args,
        }
    }

    /// Of a `reduce`: the state that changes no other when combined with it.
    pub fn identity(&self) -> &[super::Value] {
        &self.args[self.args.len() / 2..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lane_is_in_one_segment() {
        for lanes in 0..20 {
            for length in 1..8 {
                for segments in Segments::ALL {
                    let mut seen = vec![0; lanes as usize];
                    for segment in 0..segments.count(lanes, length) {
                        let SegmentLanes { first, step, count } = segments.lanes(segment, lanes, length);
                        (0..count).for_each(|k| seen[(first + k * step) as usize] += 1);
                    }
                    assert!(seen.iter().all(|&n| n == 1), "{segments:?} of {lanes} by {length}: {seen:?}");
                }
            }
        }
    }
}
