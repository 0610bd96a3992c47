//! The backend against the reference interpreter and `jit_core::op::scalar`, bit for bit, at every vector width.

mod control;
mod harness;
mod indexed;
mod lanes;
mod limits;
mod local;
mod mathematics;
mod reductions;
mod segments;
mod streaming;
