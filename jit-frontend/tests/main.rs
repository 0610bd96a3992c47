//! The public API on every device that is there: what programs written against it see.

mod arrays;
mod attacks;
mod control;
mod devices;
mod evaluated;
mod exchange;
mod inspection;
mod math;
mod memory;
mod operators;
mod overflow;
mod packets;
mod permute;
mod places;
mod random;
mod real;
mod reduce;
mod registry;
mod segments;
mod storms;
mod structured;
mod support;
mod switches;
mod textures;
mod traverse;
mod vectors;
