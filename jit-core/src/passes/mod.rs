//! Program to program: what makes kernels smaller and faster without changing a bit of their results.

pub mod lower_math;
