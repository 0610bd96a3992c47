//! The public API, on the interpreter.

mod control;
mod operators;
mod random;
mod support;
