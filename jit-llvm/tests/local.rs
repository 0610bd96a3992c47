//! Local arrays: in lanes that go their own ways, beside reductions, in a finish, in bodies too long for a second copy.

use std::fmt::Write as _;

use jit_core::dtype::DType;
use jit_core::ir::{Program, parse};

use crate::harness::{Equal, Input, Random, check};

const SIZES: [u64; 10] = [0, 1, 3, 4, 5, 8, 16, 17, 1000, 3000];

fn program(text: &str) -> Program {
    parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn numbers(count: usize) -> Input {
    Input::Memory((0..count as u64).map(|k| k.wrapping_mul(0x9e37_79b9) >> 7 & 0xff).collect())
}

fn room(count: usize) -> Input {
    Input::Memory(vec![0; count])
}

#[test]
fn lanes_push_and_pop() {
    for dtype in [DType::Bool, DType::U8, DType::I16, DType::U32, DType::F32, DType::F64] {
        let text = format!(
            "param p0: in u32\nparam p1: out {dtype}\nparam p2: out u32\nbody {{
               v0: u32 = load p0
               v1: u32 = literal 31
               v2: u32 = literal 1
               v3: u32 = literal 0
               v4: {dtype}[9] = local_zeros
               v5: u32, v6: u32, v7: {dtype}[9] = loop (v8: u32 = v0, v9: u32 = v3, v10: {dtype}[9] = v4) {{
                 v11: bool = ne v8, v3
                 while v11
               }} do {{
                 v12: u32 = and v8, v2
                 v13: bool = eq v12, v2
                 v14: {dtype} = cast v8
                 v15: u32, v16: {dtype}[9] = if v13 {{
                   v17: {dtype}[9] = local_write v10[v9], v14
                   v18: u32 = add v9, v2
                   yield v18, v17
                 }} else {{
                   v19: {dtype} = local_read v10[v9]
                   v20: u32 = sub v9, v2
                   v21: {dtype}[9] = local_write v10[v20], v19
                   v22: {dtype}[9] = local_write v21[v2], v14 where v13
                   yield v20, v22
                 }}
                 v23: u32 = shr v8, v2
                 yield v23, v15, v16
               }}
               v24: u32 = rem v6, v1
               v25: {dtype} = local_read v7[v24]
               store p1, v25
               store p2, v6
             }}"
        );
        check(&program(&text), &[numbers(3000), room(3000), room(3000)], &SIZES, 5, Equal::Bits);
    }
}

#[test]
fn beside_reductions_and_in_a_finish() {
    let text = "param p0: in u32\nparam p1: out u32\nparam p2: out u32\nbody {
        v0: u32 = load p0
        v1: u32 = literal 7
        v2: u32 = and v0, v1
        v3: u32[8] = local_zeros
        v4: u32[8] = local_write v3[v2], v0 in_bounds
        v5: u32 = literal 3
        v6: u32[8] = local_write v4[v5], v2
        v7: u32 = local_read v6[v2]
        v8: u32 = local_read v4[v5]
        reduce_sum v7
        reduce_xor v8
      }
      finish (v9: u32, v10: u32) {
        v11: u32[5] = local_zeros
        v12: u32 = literal 5
        v13: u32 = rem v9, v12
        v14: u32[5] = local_write v11[v13], v10
        v15: u32 = literal 0
        v16: u32, v17: u32[5] = loop (v18: u32 = v15, v19: u32[5] = v14) {
          v20: bool = lt v18, v12
          while v20
        } do {
          v21: u32 = literal 1
          v22: u32 = add v18, v21
          v23: u32 = local_read v19[v18]
          v24: u32 = add v23, v9
          v25: bool = ne v18, v13
          v26: u32[5] = local_write v19[v22], v24 where v25
          yield v22, v26
        }
        v27: u32 = local_read v17[v13]
        v28: u32 = literal 4
        v29: u32 = local_read v17[v28]
        store p1, v27
        store p2, v29
      }";
    check(&program(text), &[numbers(3000), room(1), room(1)], &SIZES, 0, Equal::Bits);
}

/// Far more instructions than the body of a loop over full vectors may have.
#[test]
fn in_a_long_body() {
    let mut random = Random(7);
    let mut text = "param p0: in u32\nparam p1: out u32\nbody { v0: u32 = load p0 v1: u16[6] = local_zeros v2: u16 = cast v0\n".to_owned();
    let (mut array, mut sum) = (1, 0);
    for k in 0..300 {
        let at = 10 + 6 * k;
        let place = random.next() % 7;
        let own = random.next().is_multiple_of(2);
        let index = if own { format!("v{}", at + 2) } else { format!("v{at}") };
        let _ = write!(
            text,
            "v{at}: u32 = literal {place}
             v{}: u32 = add v{at}, v{sum}
             v{}: u32 = rem v{}, v{at}
             v{}: u16 = local_read v{array}[{index}]
             v{}: u16[6] = local_write v{array}[{index}], v2
             v{}: u32 = cast v{}\n",
            at + 1,
            at + 2,
            at + 1,
            at + 3,
            at + 4,
            at + 5,
            at + 3,
        );
        array = at + 4;
        sum = at + 5;
    }
    let _ = write!(text, "store p1, v{sum} }}");
    check(&program(&text), &[numbers(3000), room(3000)], &SIZES, 0, Equal::Bits);
}

/// A stack of two megabytes for 16 lanes, which no thread has without asking.
#[test]
fn arrays_of_64_kilobytes() {
    let text = "param p0: in u32\nparam p1: out f64\nbody {
        v0: u32 = load p0
        v1: f64[8192] = local_zeros
        v2: f64 = cast v0
        v3: u32 = literal 8191
        v4: f64[8192] = local_write v1[v3], v2
        v5: u32 = literal 31
        v6: u32 = mul v0, v5
        v7: f64[8192] = local_write v4[v6], v2
        v8: f64 = local_read v4[v6]
        v9: f64 = local_read v7[v6]
        v10: f64 = local_read v7[v3]
        v11: f64 = mul_add v8, v9, v10
        store p1, v11
      }";
    check(&program(text), &[numbers(3000), room(3000)], &[1, 16, 17, 100], 0, Equal::Bits);
}
