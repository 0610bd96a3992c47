//! The public API on every device that is there: what programs written against it see.

mod arrays;
mod attacks;
mod control;
mod devices;
mod inspection;
mod math;
mod memory;
mod operators;
mod places;
mod random;
mod real;
mod reduce;
mod storms;
mod support;
mod traverse;
mod vectors;
