//! The public API on every device that is there: what programs written against it see.

mod arrays;
mod attacks;
mod checked;
mod control;
mod devices;
mod inspection;
mod math;
mod memory;
mod operators;
mod overflow;
mod parts;
mod places;
mod prints;
mod random;
mod real;
mod reduce;
mod segments;
mod storms;
mod support;
mod traverse;
mod vectors;
