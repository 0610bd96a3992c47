//! From the roots of a trace to kernels in order.
//!
//! - `canonical`: the reachable graph as flat words, equal for equal work whatever the node numbers, literals
//!   and sizes are. A plan is looked up by them, so the rest of this module runs once per structure.
//! - `schedule`: which kernel computes what: levels, stages, what must exist in memory. `writes`: in place or copied.
//!   `graph` is what they walk, `demand` who needs what.
//! - `emit`: the program of each stage; `emit::checks`: what those of checked devices do besides.
//!
//! A boundary between kernels exists only where memory must exist: the source of a gather, a reduction's result
//! used by lanes, a scatter's target, another width. Elementwise work is recomputed in each kernel that needs
//! it; the results of regions and effects are stored when another kernel needs them.

mod canonical;
mod demand;
mod emit;
mod graph;
mod schedule;
mod writes;

pub(crate) use canonical::Canonical;
pub(crate) use emit::checks::key_of_index;
pub(crate) use schedule::plan;

use crate::dtype::DType;
use crate::ir::{Program, Value};

/// What to run for one canonical form. Numbers are positions in [`Canonical::order`].
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    /// Memory that the plan makes: element type, and the node whose size it has.
    pub(crate) slots: Vec<(DType, u32)>,
    /// Nodes that are evaluated afterwards, and where their elements are.
    pub(crate) evaluated: Vec<(u32, Memory)>,
    /// The accesses and switches that test their index, of checked devices; each has two words of the report.
    pub(crate) sites: Vec<u32>,
}

/// Where elements are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub(crate) enum Memory {
    /// The storage of an evaluated node.
    Leaf(u32),
    /// A slot of the plan.
    Slot(u32),
}

/// One thing to do; steps run in order.
pub(crate) enum Step {
    /// Copies all elements of an array.
    Copy {
        /// From where.
        from: Memory,
        /// To where.
        to: Memory,
    },
    /// Launches a kernel.
    Launch(Box<Stage>),
    /// Launches a builtin.
    Across {
        /// The node that it computes.
        number: u32,
        /// The node that it reads.
        operand: u32,
        /// The memory of that one.
        from: Memory,
        /// The memory of the first.
        to: Memory,
    },
}

/// A kernel of a plan.
pub(crate) struct Stage {
    pub(crate) program: Program,
    /// The program's literals, in the order of its text, and what they are.
    pub(crate) literals: Vec<(Value, Constant)>,
    /// What each parameter is.
    pub(crate) args: Vec<Source>,
    /// Which of them each lane uses at its own place only, where launches are split.
    pub(crate) by_lane: Vec<bool>,
    /// The node whose size is the number of lanes; none for a single lane.
    pub(crate) lanes: Option<u32>,
    /// A reduction whose division has the length of the program's segments; none where there is one segment.
    pub(crate) segment: Option<u32>,
    /// The loops and switches that are part of it, some of which may have names.
    pub(crate) named: Vec<u32>,
}

/// What a literal of a program is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Constant {
    /// What a literal node is.
    Node(u32),
    /// These bits, in every use of the plan.
    Bits(u64),
}

/// What a parameter gets at launch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Source {
    /// Memory.
    Memory(Memory),
    /// The number that a `lane_count` node stands for.
    Count(u32),
    /// The size of a node.
    Size(u32),
    /// What lanes report, see `emit::checks`.
    Report,
}
