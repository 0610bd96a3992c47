//! The public API on every device that is there: what programs written against it see.

mod arrays;
mod attacks;
mod checked;
mod control;
mod devices;
mod exchange;
mod inspection;
mod math;
mod memory;
mod operators;
mod overflow;
mod packets;
mod parts;
mod permute;
mod places;
mod prints;
mod random;
mod real;
mod reduce;
mod segments;
mod storms;
mod structured;
mod support;
mod textures;
mod traverse;
mod vectors;
