//! Passes: free functions over `&mut Program`.

pub mod lower_math;
