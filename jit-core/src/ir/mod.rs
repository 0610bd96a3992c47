//! The kernel IR: a structured program that every lane runs.
//!
//! # The language in one page
//! A [`Program`] has parameters, constant tables, a *body* and perhaps a *finish*.
//!
//! - The **body** runs once per lane; lane `i` of `n` has the global index `counter = base + i`. The **finish**
//!   runs after all lanes, once for each *segment*; its block parameters are the results of the body's reductions of
//!   that segment, in the order in which the reductions stand.
//! - The **segments** ([`Segments`]) are one of all lanes or, in a program by `rows` or `columns`, those of a launch's
//!   `segment` length. Segment `s` is to a finish what a lane is to a body: `counter` is `s`, `load` and `store` touch
//!   element `s`. In a program of one segment there is element 0, and no `counter` or `load`.
//! - A **value** is defined once, by an instruction or as a block parameter, and has one element type. It may be
//!   used by later instructions of its block and of the blocks nested in them. The body block of a `loop` sees
//!   the values of its condition block.
//! - **Instructions** of one block happen in order on a lane; lanes are not ordered among each other. A reading
//!   of an `inout` parameter sees the lane's own earlier effects. All else is pure: it may be moved,
//!   merged, duplicated or dropped.
//! - `loop (init..) { cond(state..) -> bool } { body -> state.. } -> state..`: while the condition holds on a
//!   lane, the state becomes the body's yields, all at once.
//! - `if c { then } { else } -> ..`: one of the blocks, lane by lane.
//! - `switch i { 0 } { 1 } .. else { .. } -> ..`: the block whose number the integer is, or the last one if it is no
//!   other's, lane by lane.
//! - `if_any m, fallback.. { block } -> ..`: like `if` with the fallback values as its else part; the block is pure,
//!   holds no loop, and is expected to be rarely needed, so a backend may run it on all lanes once any lane needs it.
//! - **Memory** is named by parameters: `in` (read only), `out` (stored exactly once, at the top level: by every lane
//!   its element, or by the finish its segment's), `inout` (read and changed at indices). `load` (of `in` or `inout`) and
//!   `store` address by the launch's lane `i`; `gather`, `scatter*` and `atomic_inc` take an index of any integer type
//!   (negative: out of bounds) and an optional mask; lanes masked off or out of bounds read 0 and write nothing.
//!   `in_bounds` on such an instruction is a promise that no test is needed, resting on the parameter's `min_len` or
//!   `spans_lanes`. It holds on every lane that executes the instruction with a true mask; lanes that are inactive, or
//!   for which an `if_any` runs needlessly, may carry any index and touch no memory.
//! - Arithmetic may say what compiling may do to its floats, `strict`, `contract` or `fast`, where that is not what the
//!   device says (see [`FloatMode`]).
//! - `lookup tK, i` reads a constant table with a length of 2^k at `i mod 2^k`, on every lane; the index has at least k
//!   bits.
//! - `local_zeros`, `local_read` and `local_write` work on *local arrays*: values of type `f32[32]`, an array for each lane.
//!   They are values like others (state of loops, results of branches) and pure: a write gives a new array and leaves
//!   the old one as it was. Where no copy is needed for that, and where one is, [`Places`] says.
//! - A `loop` without effects may be dropped, even if it would not end.
//! - `reduce_*` stands only at the top level of the body, yields no value there, and combines the lanes of a segment in
//!   the order of [`crate::reduce`]. `reduce x.. from identity.. (a.., b..) { .. yield c.. }` does so with a state of
//!   several values and a block that combines two states. The block is pure, has no loop, and sees from outside only
//!   what is the same on all lanes by itself: literals, scalar parameters and `load_scalar`; so do the identities.
//!
//! [`verify`] is the list of what must hold; after it says Ok, code generation does not panic.

mod builder;
mod lists;
mod outline;
mod parse;
mod places;
mod print;
mod segments;
mod structure;
mod verify;

pub use builder::Builder;
pub use lists::{Blocks, ValueList};
pub use outline::Outline;
pub use parse::{parse, parse_constant};
pub use places::{Move, Places, Slot};
pub use segments::{Reduction, SegmentLanes, Segments};
pub use structure::Hole;
pub(crate) use structure::is_special;
pub use verify::verify;

use rustc_hash::FxHashMap;

use crate::dtype::DType;
use crate::float_mode::{self, FloatMode};
use crate::op::Op;

/// The most regions that may be nested in each other; blocks are walked by recursion.
pub const MAX_NESTING: usize = 255;

/// The most blocks of a `switch`, the last one aside.
pub const MAX_CASES: usize = 1 << 16;

/// The most bytes of a local array a lane.
pub const MAX_LOCAL_BYTES: usize = 64 << 10;

macro_rules! index {
    ($($(#[$doc:meta])* $name:ident $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);

        impl $name {
            /// As an index into the program's list.
            pub const fn index(self) -> usize { self.0 as usize }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }
    )*};
}

index! {
    /// A value of a program.
    Value "v";
    /// A parameter of a program.
    ParamId "p";
    /// A constant table of a program.
    TableId "t";
}

/// What a kernel computes.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Program {
    /// The parameters, in the order of a launch's arguments.
    pub params: Vec<Param>,
    /// The constant tables.
    pub tables: Vec<Table>,
    /// The element type of each value.
    pub values: Vec<DType>,
    /// The values that are local arrays, with their number of elements a lane.
    pub locals: FxHashMap<Value, u32>,
    /// Runs once per lane.
    pub body: Block,
    /// Runs once for each segment, after all lanes.
    pub finish: Option<Block>,
    /// What lanes a reduction combines.
    pub segments: Segments,
}

/// A parameter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Param {
    /// How it is used.
    pub kind: ParamKind,
    /// The element type.
    pub dtype: DType,
    /// Memory has at least this many elements; who launches checks it. Other than the lanes that `load` and `store`
    /// touch, which need no mention here.
    pub min_len: u64,
    /// Memory has an element for every value of `counter`, that is at least base + lanes of them; who launches
    /// checks it.
    pub spans_lanes: bool,
}

/// How a parameter is used.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ParamKind {
    /// A number given at launch.
    Scalar,
    /// Memory that nobody changes during the launch.
    In,
    /// Memory that is only written.
    Out,
    /// Memory that is changed at indices.
    InOut,
}

impl ParamKind {
    /// Whether a launch may write its memory.
    pub const fn is_written(self) -> bool {
        matches!(self, ParamKind::Out | ParamKind::InOut)
    }

    /// `scalar`, `in`, `out` or `inout`.
    pub const fn name(self) -> &'static str {
        match self {
            ParamKind::Scalar => "scalar",
            ParamKind::In => "in",
            ParamKind::Out => "out",
            ParamKind::InOut => "inout",
        }
    }
}

/// A constant table; its length is a power of two.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Table {
    /// The element type.
    pub dtype: DType,
    /// The elements' bits.
    pub bits: Vec<u64>,
}

/// A sequence of instructions with a result.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Block {
    /// Values given from outside: a loop's state, a finish's reductions.
    pub params: Vec<Value>,
    /// The instructions, in order.
    pub insts: Vec<Inst>,
    /// What the block gives to the instruction that holds it.
    pub yields: Vec<Value>,
}

/// An instruction.
#[derive(Clone, PartialEq, Debug)]
pub struct Inst {
    /// What it does.
    pub op: Op,
    /// For indexed memory: no bounds test is needed.
    pub in_bounds: bool,
    /// A literal's bits, the number of the parameter or table that the op names, or the length of a new local array; of
    /// arithmetic what compiling may do to floats, see [`float_mode`](Self::float_mode).
    pub imm: u64,
    /// The values it defines.
    pub results: ValueList,
    /// The values it uses. For indexed memory: (value,) index and, unless always true, mask; for local arrays the array
    /// stands before these.
    pub args: ValueList,
    /// Nested blocks.
    pub blocks: Blocks,
}

const _: () = assert!(size_of::<Inst>() == 56);

impl Program {
    /// The element type of a value.
    pub fn dtype(&self, value: Value) -> DType {
        self.values[value.index()]
    }

    /// A new value of that type, not yet defined by any instruction.
    pub fn new_value(&mut self, dtype: DType) -> Value {
        self.values.push(dtype);
        Value(self.values.len() as u32 - 1)
    }

    /// A new local array of that many elements a lane.
    pub fn new_local(&mut self, dtype: DType, len: u32) -> Value {
        let value = self.new_value(dtype);
        self.locals.insert(value, len);
        value
    }

    /// The number of elements a lane, of a local array.
    pub fn local_len(&self, value: Value) -> Option<u32> {
        self.locals.get(&value).copied()
    }

    /// The number of instructions in all blocks.
    pub fn inst_count(&self) -> usize {
        self.body.inst_count() + self.finish.as_ref().map_or(0, Block::inst_count)
    }

    /// Whether a test is true for any instruction.
    pub(crate) fn any_inst(&self, test: &impl Fn(&Inst) -> bool) -> bool {
        fn any(block: &Block, test: &impl Fn(&Inst) -> bool) -> bool {
            block.insts.iter().any(|inst| test(inst) || inst.blocks.iter().any(|nested| any(nested, test)))
        }
        any(&self.body, test) || self.finish.as_ref().is_some_and(|block| any(block, test))
    }
}

impl Block {
    /// The number of instructions, those of nested blocks included.
    pub fn inst_count(&self) -> usize {
        self.insts.iter().map(|i| 1 + i.blocks.iter().map(Block::inst_count).sum::<usize>()).sum()
    }
}

impl Inst {
    /// The parameter that the op names, for `param`, `load`, `load_scalar`, `store` and indexed memory.
    pub fn param(&self) -> ParamId {
        ParamId(self.imm as u32)
    }

    /// What compiling may do to this arithmetic on floats, if it is not the device that says so. On integers it means
    /// nothing.
    pub fn float_mode(&self) -> Option<FloatMode> {
        let carried = self.imm.checked_sub(1).and_then(|at| float_mode::CARRIED.get(at as usize)).copied();
        carried.filter(|_| float_mode::may_carry(self.op))
    }

    /// The table that a `lookup` names.
    pub fn table(&self) -> TableId {
        TableId(self.imm as u32)
    }

    /// The one value it defines.
    ///
    /// # Panics
    /// If it defines none or several.
    pub fn result(&self) -> Value {
        let [value] = self.results[..] else { panic!("`{}` defines no single value", self.op.name()) };
        value
    }

    /// Number of operands of an op with an index before its mask: a local array, elements, if it takes any, and index.
    pub fn operands_before_mask(&self) -> usize {
        match self.op {
            Op::LocalRead => 2,
            Op::LocalWrite => 3,
            op => op.element_operands() + 1,
        }
    }

    /// The mask of an op with an index, if it has one.
    pub fn mask(&self) -> Option<Value> {
        self.args.get(self.operands_before_mask()).copied()
    }

    /// The index of an op that has one.
    pub fn index(&self) -> Value {
        self.args[self.operands_before_mask() - 1]
    }
}
