//! The random number generator against the C library's published output.

use jit_frontend::prelude::*;

use crate::support::values;

/// Lane 54 of seed 42 is the generator that the demonstration program `pcg32-demo` seeds.
const LANE: usize = 54;

#[test]
fn numbers_are_those_of_the_c_library() {
    let mut rng = Pcg32::new(LANE + 1, 42, &Device::interpreter());
    let got: Vec<u32> = (0..6).map(|_| values(&rng.next_u32())[LANE]).collect();
    assert_eq!(got, [0xa15c02b7, 0x7b47f409, 0xba1d3330, 0x83d2f293, 0xbfa4784b, 0xcbed606e]);
}
