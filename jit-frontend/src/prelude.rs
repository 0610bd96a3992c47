//! What most programs use: `use jit_frontend as jit; use jit::prelude::*;`.
//!
//! The functions `eval`, `sync`, `select`, `gather` and `scatter` are left out: `jit::eval(&x)` reads better.

pub use crate::{
    Array, Buffer, Device, DeviceKind, Event, Lanes, LocalArray, Loop, Mask, Pcg32, Real, Stream, Traverse,
    Vec2, Vec3, Vec4, if_else, switch, while_loop,
};
