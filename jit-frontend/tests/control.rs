//! Loops and branches.

use jit_frontend::prelude::*;

use crate::support::{array, values};

#[test]
fn loops_run_lane_by_lane() {
    let n = Array::<u32>::arange(10, &Device::interpreter()) + 1;
    let (_, steps) = while_loop(
        (n, Array::from(0u32)),
        |(n, _)| n.ne(1),
        |(n, steps)| ((&n & 1).eq(0).select(&n >> 1, n * 3 + 1), steps + 1),
    );
    assert_eq!(values(&steps), [0, 1, 7, 2, 5, 8, 16, 3, 19, 6]);
}

#[test]
fn branches_take_and_return_values() {
    let x = array(&[-4.0f32, 9.0, 16.0]);
    let (root, sign) = if_else(
        &x.lt(0.0),
        x.clone(),
        |x| ((-x).sqrt(), Array::from(-1i32)),
        |x| (x.sqrt(), Array::from(1i32)),
    );
    assert_eq!(values(&root), [2.0, 3.0, 4.0]);
    assert_eq!(values(&sign), [-1, 1, 1]);
}
