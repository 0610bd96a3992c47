//! Stores past the caches. That they change no value is for every other test to see: variants with and without them, on
//! aligned and other memory, are compared with the interpreter there.

use jit_core::backend::Backend;
use jit_core::dtype::{ALL_DTYPES, DType};
use jit_core::ir::{Builder, ParamKind};
use jit_core::op::Op;

use crate::harness::{Equal, Input, Random, backends, check};

/// Sizes about the ends of vectors, lines and blocks.
const LANES: [u64; 12] = [0, 1, 15, 16, 17, 63, 64, 65, 128, 1000, 4096, 70_001];

#[test]
fn whole_vectors_are_stored_past_the_caches() {
    for dtype in ALL_DTYPES {
        let mut b = Builder::new();
        let from = b.param(ParamKind::In, dtype);
        let to = b.param(ParamKind::Out, dtype);
        let bytes = b.param(ParamKind::Out, DType::U8);
        let x = b.read(Op::Load, from);
        b.store(to, x);
        let byte = b.cast(DType::U8, x);
        b.store(bytes, byte);
        let program = b.finish(false);
        let n = LANES[LANES.len() - 1] as usize;
        let inputs = [Random(5).many(dtype, n), vec![0; n], vec![0; n]].map(Input::Memory);
        check(&program, &inputs, &LANES, 3, Equal::Bits);
        if cfg!(target_arch = "x86_64") {
            let asm = backends()[0].1.asm(&program).expect("assembly");
            assert!(asm.contains("movnt"), "{dtype}:\n{asm}");
        }
    }
}
