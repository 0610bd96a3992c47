//! What proptest makes and shrinks: moves with numbers to choose by. Any list of moves stands for a valid program
//! ([`resolve`](super::resolve())), so shrinking may drop moves and make numbers smaller at will.

use proptest::collection::vec;
use proptest::prelude::*;

/// A program before its choices are resolved.
#[derive(Clone, Debug)]
pub(crate) struct Sketch {
    /// The two numbers of lanes.
    pub(crate) sizes: [u64; 2],
    /// Choices about inputs, buffers and outputs.
    pub(crate) frame: [u16; 16],
    pub(crate) moves: Vec<Move>,
}

/// A step to come.
#[derive(Clone, Debug)]
pub(crate) struct Move {
    pub(crate) kind: Kind,
    /// What it chooses by, in the order in which it chooses.
    pub(crate) choices: [u16; 10],
    /// Of a region: its blocks.
    pub(crate) blocks: [Vec<Move>; 2],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Leaf,
    Lane,
    Gather,
    GatherBuffer,
    Scatter,
    ScatterArray,
    AtomicInc,
    Exchange,
    Across,
    LocalRead,
    LocalWrite,
    Reduce,
    Combine,
    NewBuffer,
    Snapshot,
    Set,
    DropBuffer,
    Eval,
    Loop,
    If,
    Switch,
}

/// Sketches of programs of a few dozen ops.
pub(crate) fn sketches() -> impl Strategy<Value = Sketch> {
    (sizes(), sizes(), any::<[u16; 16]>(), vec(moves(2), 7..17)).prop_map(|(n, m, frame, moves)| Sketch {
        sizes: [n, m],
        frame,
        moves,
    })
}

/// Around the vector widths, a hundred and so, and seldom none or over a chunk of a reduction.
fn sizes() -> impl Strategy<Value = u64> {
    prop_oneof![
        12 => prop::sample::select(vec![1u64, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33]),
        6 => 2u64..140,
        1 => Just(0u64),
        1 => 1020u64..1400,
        // Launches in parts of 64.
        2 => prop::sample::select(vec![65u64, 127, 128, 129, 193]),
    ]
}

fn moves(depth: u32) -> BoxedStrategy<Move> {
    let kinds = vec![
        (60, Kind::Lane),
        (8, Kind::Leaf),
        (7, Kind::Gather),
        (4, Kind::GatherBuffer),
        (9, Kind::Scatter),
        (3, Kind::AtomicInc),
        (4, Kind::Exchange),
        (5, Kind::Across),
        (4, Kind::LocalRead),
        (6, Kind::LocalWrite),
        (2, Kind::ScatterArray),
        (5, Kind::Reduce),
        (3, Kind::Combine),
        (2, Kind::NewBuffer),
        (2, Kind::Snapshot),
        (1, Kind::Set),
        (1, Kind::DropBuffer),
        (2, Kind::Eval),
    ];
    let kind = prop::strategy::Union::new_weighted(kinds.into_iter().map(|(w, k)| (w, Just(k))).collect());
    let simple = (kind, any::<[u16; 10]>()).prop_map(|(kind, choices)| Move {
        kind,
        choices,
        blocks: [vec![], vec![]],
    });
    if depth == 0 {
        return simple.boxed();
    }
    let region = (
        prop_oneof![Just(Kind::Loop), Just(Kind::If), Just(Kind::Switch)],
        any::<[u16; 10]>(),
        vec(moves(depth - 1), 0..6),
        vec(moves(depth - 1), 1..9),
    )
        .prop_map(|(kind, choices, first, second)| Move { kind, choices, blocks: [first, second] });
    prop_oneof![24 => simple, 1 => region].boxed()
}
