//! What looks like an identity and is none stays; what is one keeps every bit.

use half::f16;
use jit_core::dtype::DType;
use jit_core::op::Op;
use jit_core::trace::Var;

use super::check::{Column, apply, bits, cast, check, check_expression, check_moves, column};
use super::exact::{self, decode, encode};
use super::grid::{FLOATS, float_grid, integer_grid, integers};
use crate::host::lit;

/// The constant in a float type.
fn constant(dtype: DType, value: f64) -> Var {
    Var::literal(dtype, encode(dtype, decode(DType::F64, value.to_bits())))
}

/// An expression of one f32 (and the same of f16 and f64) gives these values.
fn floats(what: &str, a: &[f32], expected: &[f32], build: &dyn Fn(DType, &Var) -> Var) {
    for dtype in FLOATS {
        let convert = |v: &[f32]| {
            let one = |v: &f32| encode(dtype, decode(DType::F32, u64::from(v.to_bits())));
            bits(dtype, &v.iter().map(one).collect::<Vec<_>>())
        };
        check_expression(what, &[convert(a)], &convert(expected), &|v| build(dtype, &v[0]));
    }
}

const INF: f32 = f32::INFINITY;
const NAN: f32 = f32::NAN;

#[test]
fn a_product_with_zero_is_not_zero() {
    let a = [1.0, -1.0, -0.0, INF, -INF, NAN];
    floats("x * 0", &a, &[0.0, -0.0, -0.0, NAN, NAN, NAN], &|t, x| apply(Op::Mul, &[x, &constant(t, 0.0)]));
    floats("0 * x", &a, &[0.0, -0.0, -0.0, NAN, NAN, NAN], &|t, x| apply(Op::Mul, &[&constant(t, 0.0), x]));
    floats("x * -0", &a, &[-0.0, 0.0, 0.0, NAN, NAN, NAN], &|t, x| apply(Op::Mul, &[x, &constant(t, -0.0)]));
    floats("0 / x", &[2.0, -2.0, 0.0, INF, NAN], &[0.0, -0.0, NAN, 0.0, NAN], &|t, x| {
        apply(Op::Div, &[&constant(t, 0.0), x])
    });
}

#[test]
fn adding_zero_loses_the_sign_of_zero() {
    let a = [-0.0, 0.0, 1.0, -INF, NAN];
    floats("x + 0", &a, &[0.0, 0.0, 1.0, -INF, NAN], &|t, x| apply(Op::Add, &[x, &constant(t, 0.0)]));
    floats("0 + x", &a, &[0.0, 0.0, 1.0, -INF, NAN], &|t, x| apply(Op::Add, &[&constant(t, 0.0), x]));
    floats("x + -0", &a, &a, &|t, x| apply(Op::Add, &[x, &constant(t, -0.0)]));
    floats("x - 0", &a, &a, &|t, x| apply(Op::Sub, &[x, &constant(t, 0.0)]));
    floats("x - -0", &a, &[0.0, 0.0, 1.0, -INF, NAN], &|t, x| apply(Op::Sub, &[x, &constant(t, -0.0)]));
    floats("0 - x", &a, &[0.0, 0.0, -1.0, INF, NAN], &|t, x| apply(Op::Sub, &[&constant(t, 0.0), x]));
    floats("-0 - x", &a, &[0.0, -0.0, -1.0, INF, NAN], &|t, x| apply(Op::Sub, &[&constant(t, -0.0), x]));
}

#[test]
fn a_value_meets_itself() {
    let a = [1.0, 0.0, INF, NAN];
    floats("x - x", &a, &[0.0, 0.0, NAN, NAN], &|_, x| apply(Op::Sub, &[x, x]));
    floats("x / x", &a, &[1.0, NAN, NAN, NAN], &|_, x| apply(Op::Div, &[x, x]));
    floats("x % x", &[3.0, -3.0, 0.0, INF], &[0.0, -0.0, NAN, NAN], &|_, x| apply(Op::Rem, &[x, x]));
    let itself = |op: Op, expected: [bool; 4]| {
        check_expression(op.name(), &[column(&a)], &column(&expected), &|v| {
            Var::apply(op, DType::Bool, &[&v[0], &v[0]])
        });
    };
    itself(Op::Eq, [true, true, true, false]);
    itself(Op::Ne, [false, false, false, true]);
    itself(Op::Le, [true, true, true, false]);
    itself(Op::Ge, [true, true, true, false]);
    itself(Op::Lt, [false; 4]);
    itself(Op::Gt, [false; 4]);
}

#[test]
fn dividing_by_a_constant_is_no_multiplication() {
    // 7 / 10 rounds to 0.7; 7 * (1 / 10) to the float above (f32), below (f64).
    for c in [3.0f32, 10.0, 49.0, 0.1, 1e-40, -7.0] {
        let a: Vec<f32> = (1..100).map(|k| k as f32).collect();
        let expected: Vec<f32> = a.iter().map(|&a| quotient(a, c)).collect();
        check_expression("x / c", &[column(&a)], &column(&expected), &|v| apply(Op::Div, &[&v[0], &lit(c)]));
    }
    let multiplied = (1..100).filter(|&k| quotient(k as f32, 49.0) != k as f32 * (1.0 / 49.0)).count();
    assert!(multiplied > 10, "the rows tell division from multiplication");
}

fn quotient(a: f32, b: f32) -> f32 {
    let number = |v: f32| decode(DType::F32, u64::from(v.to_bits()));
    f32::from_bits(encode(DType::F32, exact::div(number(a), number(b))) as u32)
}

#[test]
fn dividing_by_a_power_of_two_keeps_every_bit() {
    for dtype in FLOATS {
        let a = float_grid(dtype);
        let (precision, least) = match dtype {
            DType::F16 => (11, -24),
            DType::F32 => (24, -149),
            _ => (53, -1074),
        };
        let greatest = -(least + precision) + 1;
        for power in [1, -1, 3, -3, greatest, greatest - 1, least, least + precision - 1, least + precision] {
            let number =
                exact::Finite { negative: power % 2 == 0, mantissa: 1, exponent: power, inexact: false };
            let c = encode(dtype, exact::Number::Finite(number));
            let row = |&a: &u64| encode(dtype, exact::div(decode(dtype, a), decode(dtype, c)));
            let expected: Vec<u64> = a.iter().map(row).collect();
            check_expression(&format!("x / 2^{power}"), &[bits(dtype, &a)], &bits(dtype, &expected), &|v| {
                apply(Op::Div, &[&v[0], &Var::literal(dtype, c)])
            });
        }
    }
}

#[test]
fn sums_are_not_reassociated() {
    check_expression("(x + 1e8) - 1e8", &[column(&[1.0f32, 5.0])], &column(&[0.0f32, 8.0]), &|v| {
        apply(Op::Sub, &[&apply(Op::Add, &[&v[0], &lit(1e8f32)]), &lit(1e8f32)])
    });
    check_expression("(x + 0.1) + 0.2", &[column(&[0.3f64])], &column(&[0.600_000_000_000_000_1f64]), &|v| {
        apply(Op::Add, &[&apply(Op::Add, &[&v[0], &lit(0.1f64)]), &lit(0.2f64)])
    });
    check_expression(
        "(x * 1e200) * 1e-200",
        &[column(&[1e200f64, 2.0])],
        &column(&[f64::INFINITY, 2.0 * 1e200 * 1e-200]),
        &|v| apply(Op::Mul, &[&apply(Op::Mul, &[&v[0], &lit(1e200f64)]), &lit(1e-200f64)]),
    );
}

#[test]
fn products_and_sums_are_not_contracted() {
    // 1 - e^2 rounds to 1, so the sum is 0; fused it would be -e^2.
    let e = f32::EPSILON;
    let args = [column(&[1.0 + e, 3.0]), column(&[1.0 - e, 5.0]), column(&[-1.0f32, 2.0])];
    check_expression("a * b + c", &args, &column(&[0.0f32, 17.0]), &|v| {
        apply(Op::Add, &[&apply(Op::Mul, &[&v[0], &v[1]]), &v[2]])
    });
    check_expression("c + a * b", &args, &column(&[0.0f32, 17.0]), &|v| {
        apply(Op::Add, &[&v[2], &apply(Op::Mul, &[&v[0], &v[1]])])
    });
    let negative = [args[0].clone(), args[1].clone(), column(&[1.0f32, 2.0])];
    check_expression("a * b - c", &negative, &column(&[0.0f32, 13.0]), &|v| {
        apply(Op::Sub, &[&apply(Op::Mul, &[&v[0], &v[1]]), &v[2]])
    });
    check_expression("c - a * b", &negative, &column(&[0.0f32, -13.0]), &|v| {
        apply(Op::Sub, &[&v[2], &apply(Op::Mul, &[&v[0], &v[1]])])
    });
    check_expression("x * x - y * y", &[column(&[1.0 + e]), column(&[1.0 + e])], &column(&[0.0f32]), &|v| {
        apply(Op::Sub, &[&apply(Op::Mul, &[&v[0], &v[0]]), &apply(Op::Mul, &[&v[1], &v[1]])])
    });
    let e = f64::EPSILON;
    let args = [column(&[1.0 + e]), column(&[1.0 - e]), column(&[-1.0f64])];
    check_expression("a * b + c", &args, &column(&[0.0f64]), &|v| {
        apply(Op::Add, &[&apply(Op::Mul, &[&v[0], &v[1]]), &v[2]])
    });
    let half = |v: f64| f16::from_f64(v);
    let args = [column(&[half(1.0009765625)]), column(&[half(0.9990234375)]), column(&[half(-1.0)])];
    check_expression("a * b + c", &args, &column(&[half(0.0)]), &|v| {
        apply(Op::Add, &[&apply(Op::Mul, &[&v[0], &v[1]]), &v[2]])
    });
}

#[test]
fn literals_are_one_only_if_their_bits_are() {
    // 1 / 0 and 1 / -0 in one kernel: merging the zeros would make them equal.
    check_expression("1 / 0 - 1 / -0", &[column(&[1.0f32])], &column(&[f32::INFINITY]), &|v| {
        let by = |zero: f32| apply(Op::Div, &[&v[0], &lit(zero)]);
        apply(Op::Sub, &[&by(0.0), &by(-0.0)])
    });
    check_moves(
        "two NaN of different bits",
        &[column(&[true, false])],
        &bits(DType::F32, &[0x7fc0_0001, 0xffc0_0002]),
        &|v| {
            let nan = |bits| Var::literal(DType::F32, bits);
            Var::apply(Op::Select, DType::F32, &[&v[0], &nan(0x7fc0_0001), &nan(0xffc0_0002)])
        },
    );
    check_moves("two zeros", &[column(&[true, false])], &column(&[0.0f64, -0.0]), &|v| {
        Var::apply(Op::Select, DType::F64, &[&v[0], &lit(0.0f64), &lit(-0.0f64)])
    });
}

#[test]
fn integer_identities_keep_values() {
    for dtype in integers() {
        let a = integer_grid(dtype);
        let same = Column { dtype, bits: a.clone() };
        let all = |value: u64| Column { dtype, bits: vec![value; a.len()] };
        let number = |v: u64| Var::literal(dtype, v & dtype.mask());
        let with = |op: Op, c: u64, left: bool, expected: &Column| {
            check_expression(
                &format!("{} with {c}", op.name()),
                std::slice::from_ref(&same),
                expected,
                &|v| {
                    let c = number(c);
                    if left { apply(op, &[&c, &v[0]]) } else { apply(op, &[&v[0], &c]) }
                },
            );
        };
        for left in [false, true] {
            with(Op::Add, 0, left, &same);
            with(Op::Mul, 1, left, &same);
            with(Op::Mul, 0, left, &all(0));
            with(Op::And, u64::MAX, left, &same);
            with(Op::And, 0, left, &all(0));
            with(Op::Or, 0, left, &same);
            with(Op::Or, u64::MAX, left, &all(dtype.mask()));
            with(Op::Xor, 0, left, &same);
        }
        with(Op::Sub, 0, false, &same);
        with(Op::Div, 1, false, &same);
        with(Op::Div, 0, false, &all(dtype.mask()));
        with(Op::Rem, 1, false, &all(0));
        with(Op::Rem, 0, false, &same);
        with(Op::Shl, 0, false, &same);
        with(Op::Shr, 0, false, &same);
        with(Op::Shl, 64, false, &all(0));
        with(Op::Shl, u64::MAX, false, &all(0));
    }
}

#[test]
fn a_select_picks_by_its_condition() {
    let [c, a, b] = [column(&[true, false]), column(&[1i32, 2]), column(&[3i32, 4])];
    check(Op::Select, &[c.clone(), a.clone(), b.clone()], &column(&[1i32, 4]));
    check_expression("select not", &[c.clone(), a.clone(), b], &column(&[3i32, 2]), &|v| {
        apply(Op::Select, &[&apply(Op::Not, &[&v[0]]), &v[1], &v[2]])
    });
    check_expression("equal sides", &[c, a], &column(&[1i32, 2]), &|v| {
        apply(Op::Select, &[&v[0], &v[1], &v[1]])
    });
    for dtype in FLOATS {
        let values = float_grid(dtype);
        let n = values.len();
        let condition: Vec<u64> = (0..n as u64).map(|k| k % 2).collect();
        let reversed: Vec<u64> = values.iter().rev().copied().collect();
        let pick = |k: usize| if condition[k] == 1 { values[k] } else { reversed[k] };
        let expected: Vec<u64> = (0..n).map(pick).collect();
        let args = [bits(DType::Bool, &condition), bits(dtype, &values), bits(dtype, &reversed)];
        check(Op::Select, &args, &bits(dtype, &expected));
    }
}

#[test]
fn doubled_ops_are_themselves() {
    floats("round of floor", &[1.5, -1.5, -0.0, INF], &[1.0, -2.0, -0.0, INF], &|_, x| {
        apply(Op::Round, &[&apply(Op::Floor, &[x])])
    });
    for dtype in FLOATS {
        let a = bits(dtype, &float_grid(dtype));
        check_moves("neg of neg", std::slice::from_ref(&a), &a, &|v| {
            apply(Op::Neg, &[&apply(Op::Neg, &[&v[0]])])
        });
        let magnitude: Vec<u64> = a.bits.iter().map(|b| b & !exact::sign(dtype)).collect();
        check_moves("abs of abs", std::slice::from_ref(&a), &bits(dtype, &magnitude), &|v| {
            apply(Op::Abs, &[&apply(Op::Abs, &[&v[0]])])
        });
        check_moves("abs of neg", &[a], &bits(dtype, &magnitude), &|v| {
            apply(Op::Abs, &[&apply(Op::Neg, &[&v[0]])])
        });
    }
    check_expression("a comparison through u8", &[column(&[3i32, 4])], &column(&[true, false]), &|v| {
        cast(DType::Bool, &cast(DType::U8, &Var::apply(Op::Lt, DType::Bool, &[&v[0], &lit(4i32)])))
    });
}
