//! A traced program as data: what the public functions of `jit_core::trace` are called with, in order. It is plain,
//! so that one program can be replayed on every device and printed when devices disagree.

use std::fmt::Write as _;

use jit_core::dtype::{DType, format_bits};
use jit_core::op::Op;
use jit_core::trace::Division;
use serde::{Deserialize, Serialize};

use super::text::{division, dtype, op, ops};

/// A value of a program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Slot(pub(crate) u32);

/// A buffer of a program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Place(pub(crate) u32);

/// A traced program.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Program {
    /// All values.
    pub(crate) slots: Vec<SlotInfo>,
    /// Number of buffers.
    pub(crate) places: u32,
    /// The steps at the top level.
    pub(crate) steps: Vec<Step>,
    /// Values read at the end, in this order.
    pub(crate) outputs: Vec<Slot>,
    /// Buffers read at the end.
    pub(crate) kept: Vec<Place>,
    /// How the outputs are had.
    pub(crate) ending: Ending,
}

/// What is known of a value.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct SlotInfo {
    #[serde(with = "dtype")]
    pub(crate) dtype: DType,
    /// Number of elements; in a region its number of lanes.
    pub(crate) size: u64,
    /// No element is a computed NaN: every bit is defined.
    pub(crate) exact: bool,
    /// Depth of regions where it was made.
    pub(crate) depth: u32,
    /// Of a local array: its number of elements a lane.
    pub(crate) local: Option<u32>,
}

/// How outputs are had.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) enum Ending {
    /// One evaluation of everything.
    #[default]
    Together,
    /// Each is read by itself.
    OneByOne,
    /// As `OneByOne`, and no handle is dropped before the end.
    HoldAll,
}

/// Where a gather reads.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Source {
    Array(Slot),
    Buffer(Place),
}

/// What a scatter writes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Target {
    /// The next version of an array, which becomes a new value.
    Array {
        of: Slot,
        out: Slot,
    },
    Buffer(Place),
}

/// Elements of an uploaded array.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Contents {
    /// 0 to 7.
    Small(u64),
    /// Special values among ordinary ones.
    Mixed(u64),
    /// Any bits.
    Bits(u64),
    /// Each of 0, 1, .. once.
    Permutation(u64),
}

/// Steps with what they end in.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Block {
    /// What stands for the state or the arguments.
    pub(crate) params: Vec<Slot>,
    pub(crate) steps: Vec<Step>,
    pub(crate) yields: Vec<Slot>,
}

/// One call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Step {
    Literal {
        out: Slot,
        bits: u64,
    },
    Full {
        out: Slot,
        bits: u64,
    },
    Data {
        out: Slot,
        contents: Contents,
    },
    Counter {
        out: Slot,
    },
    LaneCount {
        out: Slot,
        of: Slot,
    },
    Lane {
        out: Slot,
        #[serde(with = "op")]
        op: Op,
        args: Vec<Slot>,
    },
    Gather {
        out: Slot,
        source: Source,
        index: Slot,
        mask: Option<Slot>,
    },
    Scatter {
        #[serde(with = "op")]
        op: Op,
        target: Target,
        value: Slot,
        index: Slot,
        mask: Option<Slot>,
    },
    AtomicInc {
        out: Slot,
        place: Place,
        index: Slot,
        mask: Option<Slot>,
    },
    /// Without an expected value: whatever is there is exchanged.
    Exchange {
        out: Slot,
        place: Place,
        expected: Option<Slot>,
        value: Slot,
        index: Slot,
        mask: Option<Slot>,
    },
    Across {
        out: Slot,
        across: Across,
        arg: Slot,
    },
    LocalZeros {
        out: Slot,
    },
    LocalRead {
        out: Slot,
        array: Slot,
        index: Slot,
        mask: Option<Slot>,
    },
    LocalWrite {
        out: Slot,
        array: Slot,
        value: Slot,
        index: Slot,
        mask: Option<Slot>,
    },
    Reduce {
        out: Slot,
        #[serde(with = "op")]
        op: Op,
        arg: Slot,
        #[serde(with = "division")]
        division: Division,
    },
    /// A reduction of several values, each combined by an op, and the last one of two chosen by the first.
    Combine {
        outs: Vec<Slot>,
        states: Vec<Slot>,
        #[serde(with = "ops")]
        ops: Vec<Op>,
        identity: Vec<u64>,
        /// A number that the closure captures.
        captured: Option<Slot>,
        #[serde(with = "division")]
        division: Division,
    },
    NewBuffer {
        place: Place,
        from: Slot,
    },
    Snapshot {
        out: Slot,
        place: Place,
    },
    Set {
        place: Place,
        to: Slot,
    },
    DropBuffer {
        place: Place,
    },
    Eval {
        slots: Vec<Slot>,
        places: Vec<Place>,
    },
    /// `blocks` are condition and body, whose params are the same slots.
    Loop {
        init: Vec<Slot>,
        blocks: [Block; 2],
        results: Vec<Slot>,
    },
    If {
        condition: Slot,
        arguments: Vec<Slot>,
        blocks: [Block; 2],
        results: Vec<Slot>,
    },
    Switch {
        index: Slot,
        arguments: Vec<Slot>,
        blocks: Vec<Block>,
        results: Vec<Slot>,
    },
}

/// What a builtin does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Across {
    Scan {
        #[serde(with = "op")]
        combine: Op,
        exclusive: bool,
        reverse: bool,
        length: Option<u64>,
    },
    Sort,
    Argsort(#[serde(with = "dtype")] DType),
    Compress(#[serde(with = "dtype")] DType, Option<u64>),
}

impl Across {
    fn op(self) -> Op {
        match self {
            Across::Scan { .. } => Op::Scan,
            Across::Sort => Op::Sort,
            Across::Argsort(_) => Op::Argsort,
            Across::Compress(..) => Op::Compress,
        }
    }
}

impl Step {
    /// The op of the table that it is, if it is one.
    pub(crate) fn op(&self) -> Option<Op> {
        Some(match self {
            Step::Literal { .. } | Step::Full { .. } => Op::Literal,
            Step::Counter { .. } => Op::Counter,
            Step::LaneCount { .. } => Op::LaneCount,
            Step::Lane { op, .. } | Step::Scatter { op, .. } | Step::Reduce { op, .. } => *op,
            Step::Combine { .. } => Op::Reduce,
            Step::Gather { .. } => Op::Gather,
            Step::AtomicInc { .. } => Op::AtomicInc,
            Step::Exchange { expected: None, .. } => Op::Exchange,
            Step::Exchange { .. } => Op::CompareExchange,
            Step::Across { across, .. } => across.op(),
            Step::LocalZeros { .. } => Op::LocalZeros,
            Step::LocalRead { .. } => Op::LocalRead,
            Step::LocalWrite { .. } => Op::LocalWrite,
            Step::Loop { .. } => Op::Loop,
            Step::If { .. } => Op::If,
            Step::Switch { .. } => Op::Switch,
            _ => return None,
        })
    }

    /// The values it defines at its own level.
    pub(crate) fn defines(&self) -> Vec<Slot> {
        match self {
            Step::Literal { out, .. }
            | Step::Full { out, .. }
            | Step::Data { out, .. }
            | Step::Counter { out }
            | Step::LaneCount { out, .. }
            | Step::Lane { out, .. }
            | Step::Gather { out, .. }
            | Step::Scatter { target: Target::Array { out, .. }, .. }
            | Step::AtomicInc { out, .. }
            | Step::Exchange { out, .. }
            | Step::Across { out, .. }
            | Step::LocalZeros { out }
            | Step::LocalRead { out, .. }
            | Step::LocalWrite { out, .. }
            | Step::Reduce { out, .. }
            | Step::Snapshot { out, .. } => vec![*out],
            Step::Combine { outs, .. } => outs.clone(),
            Step::Loop { results, .. } | Step::If { results, .. } | Step::Switch { results, .. } => {
                results.clone()
            }
            _ => vec![],
        }
    }

    /// The values it uses itself, nested blocks left out.
    pub(crate) fn uses(&self) -> Vec<Slot> {
        match self {
            Step::LaneCount { of, .. } => vec![*of],
            Step::Lane { args, .. } => args.clone(),
            Step::Gather { source, index, mask, .. } => {
                let array = match source {
                    Source::Array(slot) => Some(*slot),
                    Source::Buffer(_) => None,
                };
                [*index].into_iter().chain(*mask).chain(array).collect()
            }
            Step::Scatter { target, value, index, mask, .. } => {
                let array = match target {
                    Target::Array { of, .. } => Some(*of),
                    Target::Buffer(_) => None,
                };
                [*value, *index].into_iter().chain(*mask).chain(array).collect()
            }
            Step::AtomicInc { index, mask, .. } => [*index].into_iter().chain(*mask).collect(),
            Step::Exchange { expected, value, index, mask, .. } => {
                [*value, *index].into_iter().chain(*expected).chain(*mask).collect()
            }
            Step::Across { arg, .. } => vec![*arg],
            Step::LocalRead { array, index, mask, .. } => [*array, *index].into_iter().chain(*mask).collect(),
            Step::LocalWrite { array, value, index, mask, .. } => {
                [*array, *value, *index].into_iter().chain(*mask).collect()
            }
            Step::Reduce { arg, .. } => vec![*arg],
            Step::Combine { states, captured, .. } => states.iter().copied().chain(*captured).collect(),
            Step::NewBuffer { from, .. } => vec![*from],
            Step::Set { to, .. } => vec![*to],
            Step::Eval { slots, .. } => slots.clone(),
            Step::Loop { init, .. } => init.clone(),
            Step::If { condition: choice, arguments, .. } | Step::Switch { index: choice, arguments, .. } => {
                [*choice].into_iter().chain(arguments.iter().copied()).collect()
            }
            _ => vec![],
        }
    }

    /// The buffer it reads, and the buffer it changes.
    pub(crate) fn places(&self) -> (Option<Place>, Option<Place>) {
        match self {
            Step::Gather { source: Source::Buffer(place), .. } | Step::Snapshot { place, .. } => {
                (Some(*place), None)
            }
            Step::Scatter { target: Target::Buffer(place), .. }
            | Step::AtomicInc { place, .. }
            | Step::Exchange { place, .. } => (None, Some(*place)),
            _ => (None, None),
        }
    }

    pub(crate) fn blocks(&self) -> &[Block] {
        match self {
            Step::Loop { blocks, .. } | Step::If { blocks, .. } => blocks,
            Step::Switch { blocks, .. } => blocks,
            _ => &[],
        }
    }

    pub(crate) fn blocks_mut(&mut self) -> &mut [Block] {
        match self {
            Step::Loop { blocks, .. } | Step::If { blocks, .. } => blocks,
            Step::Switch { blocks, .. } => blocks,
            _ => &mut [],
        }
    }

    /// It and all steps nested in it.
    pub(crate) fn for_each(&self, f: &mut impl FnMut(&Step)) {
        f(self);
        for step in self.blocks().iter().flat_map(|b| &b.steps) {
            step.for_each(f);
        }
    }

    /// All values that it or anything nested in it uses.
    pub(crate) fn all_uses(&self) -> Vec<Slot> {
        let mut all = self.uses();
        for block in self.blocks() {
            all.extend(&block.yields);
            all.extend(block.steps.iter().flat_map(Step::all_uses));
        }
        all
    }
}

impl std::fmt::Display for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = String::new();
        self.write_steps(&self.steps, 0, &mut text);
        let _ = write!(text, "outputs {:?}, buffers {:?}, {:?}", self.outputs, self.kept, self.ending);
        f.write_str(&text)
    }
}

impl Program {
    fn write_steps(&self, steps: &[Step], depth: usize, text: &mut String) {
        for step in steps {
            let pad = "  ".repeat(depth);
            let out = step.defines().iter().map(|&s| self.typed(s)).collect::<Vec<_>>().join(", ");
            let _ = match step {
                Step::Literal { out: slot, bits } | Step::Full { out: slot, bits } => {
                    let kind = if matches!(step, Step::Full { .. }) { "full" } else { "literal" };
                    let value = format_bits(self.slots[slot.0 as usize].dtype, *bits);
                    writeln!(text, "{pad}{out} = {kind} {value} ({bits:#x})")
                }
                Step::Lane { op, args, .. } => writeln!(text, "{pad}{out} = {} {args:?}", op.name()),
                Step::Loop { init, blocks: [condition, body], .. } => {
                    let params =
                        condition.params.iter().map(|&s| self.typed(s)).collect::<Vec<_>>().join(", ");
                    let _ = writeln!(text, "{pad}{out} = loop {params} from {init:?}");
                    self.write_steps(&condition.steps, depth + 1, text);
                    let _ = writeln!(text, "{pad}while {:?}", condition.yields);
                    self.write_steps(&body.steps, depth + 1, text);
                    writeln!(text, "{pad}next {:?}", body.yields)
                }
                Step::If { condition, arguments, blocks: [then, other], .. } => {
                    let _ =
                        writeln!(text, "{pad}{out} = if {condition:?}, {arguments:?} as {:?}", then.params);
                    self.write_steps(&then.steps, depth + 1, text);
                    let _ = writeln!(text, "{pad}gives {:?} else {:?}", then.yields, other.params);
                    self.write_steps(&other.steps, depth + 1, text);
                    writeln!(text, "{pad}gives {:?}", other.yields)
                }
                Step::Switch { index, arguments, blocks, .. } => {
                    let _ = writeln!(text, "{pad}{out} = switch {index:?}, {arguments:?}");
                    for block in blocks {
                        let _ = writeln!(text, "{pad}case {:?}", block.params);
                        self.write_steps(&block.steps, depth + 1, text);
                        let _ = writeln!(text, "{pad}gives {:?}", block.yields);
                    }
                    Ok(())
                }
                other => {
                    let equals = if out.is_empty() { "" } else { " = " };
                    writeln!(text, "{pad}{out}{equals}{other:?}")
                }
            };
        }
    }

    fn typed(&self, slot: Slot) -> String {
        let info = self.slots[slot.0 as usize];
        let local = info.local.map_or_else(String::new, |len| format!(" of {len} each"));
        format!("{slot:?}: {}[{}]{local}", info.dtype, info.size)
    }
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "s{}", self.0)
    }
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "b{}", self.0)
    }
}
