//! What each sentence of the language's definition means, value by value, on every device.
//!
//! A row is an op, columns of operands and the column that must come out; [`check`] asks for it in every position an
//! op can stand in. Expected values are written by hand or come from [`exact`], which computes with integers and rounds
//! once; never from the op table's own evaluation.

mod check;
mod exact;
mod grid;

mod across;
mod atomics;
mod bounds;
mod casts;
mod control;
mod effects;
mod floats;
mod integers;
mod literals;
mod local_arrays;
mod math;
mod matrix;
mod memory_values;
mod misuse;
mod reductions;
mod rewrites;
mod scale;
mod segments;
mod sizes;
mod switches;
