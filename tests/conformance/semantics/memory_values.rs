//! Loads, stores, gather, scatter, select and loop state move bits exactly, those of NaN too.

use jit_core::dtype::{ALL_DTYPES, DType};
use jit_core::op::Op;
use jit_core::trace::{BufferVar, Var, if_else, while_loop};

use super::check::apply;
use super::exact::{infinity, sign};
use super::grid::{float_grid, grid};
use crate::devices::on_each;
use crate::host::{lit, read_bits, upload, upload_bits};

/// Values of a type; of a float many NaN, quiet and signalling.
fn values(dtype: DType) -> Vec<u64> {
    if !dtype.is_float() {
        return grid(dtype);
    }
    let mut all = float_grid(dtype);
    for payload in [1, 2, 0x155, 0x3ff] {
        let nan = infinity(dtype) | payload;
        all.extend([nan, nan | sign(dtype)]);
    }
    all
}

/// On every device and for every type: an expression of an array gives its bits back, in reverse order if asked.
fn moves(what: &str, build: impl Fn(&Var, &Var) -> Var) {
    on_each(|device| {
        for dtype in ALL_DTYPES {
            let bits = values(dtype);
            let n = bits.len() as u32;
            let reversed: Vec<u32> = (0..n).rev().collect();
            let got = read_bits(&build(&upload_bits(device, dtype, &bits), &upload(device, &reversed)));
            let backwards: Vec<u64> = bits.iter().rev().copied().collect();
            assert!(got == bits || got == backwards, "{what} of {dtype}: {got:x?}, not {bits:x?}");
        }
    });
}

#[test]
fn uploads_and_reads_move_bits() {
    moves("nothing", |a, _| a.clone());
}

#[test]
fn gathers_move_bits() {
    moves("gather", |a, index| a.gather(index, None));
    moves("gather at computed indices", |a, index| a.gather(&apply(Op::Xor, &[index, &lit(0u32)]), None));
}

#[test]
fn scatters_move_bits() {
    moves("scatter", |a, index| {
        let mut target = Var::full(a.device().expect("bound"), a.dtype(), 0, a.size());
        target.scatter(Op::Scatter, a, index, None);
        target
    });
    moves("scatter into a buffer", |a, index| {
        let target = BufferVar::new(&Var::full(a.device().expect("bound"), a.dtype(), 0, a.size()));
        target.scatter(Op::Scatter, a, index, None);
        target.value()
    });
}

#[test]
fn selects_move_bits() {
    moves("select", |a, index| {
        let odd = apply(Op::Eq, &[&apply(Op::And, &[index, &lit(1u32)]), &lit(1u32)]);
        let other = Var::full(a.device().expect("bound"), a.dtype(), 1, 1);
        let first = Var::apply(Op::Select, a.dtype(), &[&odd, a, &other]);
        Var::apply(Op::Select, a.dtype(), &[&odd, &first, a])
    });
}

#[test]
fn regions_move_bits() {
    moves("loop state", |a, index| {
        let device = a.device().expect("bound");
        while_loop(
            device,
            &[apply(Op::And, &[index, &lit(3u32)]), a.clone(), Var::full(device, a.dtype(), 1, 1)],
            |s| apply(Op::Ne, &[&s[0], &lit(7u32)]),
            |s| {
                let odd = apply(Op::Eq, &[&apply(Op::And, &[&s[0], &lit(1u32)]), &lit(1u32)]);
                let kept = Var::apply(Op::Select, a.dtype(), &[&odd, a, &s[1]]);
                vec![apply(Op::Add, &[&s[0], &lit(1u32)]), kept.clone(), kept]
            },
        )[2]
        .clone()
    });
    moves("a branch", |a, index| {
        let odd = apply(Op::Eq, &[&apply(Op::And, &[index, &lit(1u32)]), &lit(1u32)]);
        let device = a.device().expect("bound");
        if_else(device, &odd, std::slice::from_ref(a), |v| v, |_| vec![a.clone()])[0].clone()
    });
}

#[test]
fn literals_of_any_bits_arrive() {
    on_each(|device| {
        for dtype in ALL_DTYPES {
            for bits in values(dtype) {
                assert_eq!(read_bits(&Var::literal(dtype, bits)), [bits]);
                assert_eq!(read_bits(&Var::full(device, dtype, bits, 3)), [bits; 3], "{dtype} {bits:#x}");
                let gathered = Var::full(device, dtype, bits, 3).gather(&upload(device, &[2u8, 3]), None);
                assert_eq!(read_bits(&gathered), [bits, 0], "gather of {dtype} {bits:#x}");
            }
        }
    });
}

#[test]
fn setting_a_buffer_spreads_one_value() {
    on_each(|device| {
        for dtype in ALL_DTYPES {
            let bits = *values(dtype).last().expect("some");
            let buffer = BufferVar::new(&Var::full(device, dtype, 0, 3));
            buffer.set(&Var::literal(dtype, bits));
            assert_eq!(read_bits(&buffer.value()), [bits; 3]);
            buffer.set(&upload_bits(device, dtype, &[bits]));
            assert_eq!(read_bits(&buffer.value()), [bits; 3]);
        }
    });
}

#[test]
fn foreign_bool_bytes_are_normalised() {
    on_each(|device| {
        let x = Var::upload(device, DType::Bool, 4, &[0, 1, 2, 255]).expect("memory");
        assert_eq!(x.read().expect("no evaluation"), [0, 1, 1, 1]);
        assert_eq!(read_bits(&apply(Op::Not, &[&x])), [1, 0, 0, 0]);
        assert_eq!(read_bits(&Var::apply(Op::Cast, DType::U32, &[&x])), [0, 1, 1, 1]);
        assert_eq!(read_bits(&Var::apply(Op::Eq, DType::Bool, &[&x, &lit(true)])), [0, 1, 1, 1]);
    });
}
