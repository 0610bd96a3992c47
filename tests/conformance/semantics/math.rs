//! Mathematical functions have the same bits everywhere: folded, fused, node by node, in loops, on every backend.
//!
//! How near they are to the true values is measured where they are lowered.

use std::f64::consts::{E, FRAC_PI_2, PI};

use jit_core::dtype::DType;
use jit_core::op::{ALL_OPS, Class, Op};
use jit_core::trace::{Var, if_else};

use super::check::{Column, apply, bits, check, check_expression, column};
use super::exact::{self, decode, encode};
use super::grid::{FLOATS, float_grid};
use crate::devices::{all, on_each};
use crate::host::{read, read_bits, upload, upload_bits};

/// The functions of so many operands.
fn functions(arity: usize) -> impl Iterator<Item = Op> {
    ALL_OPS.iter().copied().filter(move |op| op.class() == Class::Math && op.arity() == arity)
}

/// The grid and arguments that take the cold paths: huge ones, near zeros of the function, near overflow.
fn arguments(dtype: DType) -> Vec<u64> {
    let mut values = float_grid(dtype);
    let more = [
        PI, FRAC_PI_2, 0.785, 10.0, 88.7, -87.4, -103.9, 709.7, -745.1, 1e4, 4e4, 1e10, 1e22, 1e30,
        0.999_999, 1.000_001, 1e-3, 6.0, E,
    ];
    values.extend(more.iter().flat_map(|&v| [v, -v]).map(|v| encode(dtype, decode(DType::F64, v.to_bits()))));
    values.sort_unstable();
    values.dedup();
    values
}

fn reference(op: Op, dtype: DType, args: &[Column]) -> Column {
    let vars: Vec<Var> = args.iter().map(|c| upload_bits(all()[0], dtype, &c.bits)).collect();
    bits(dtype, &read_bits(&Var::apply(op, dtype, &vars.iter().collect::<Vec<_>>())))
}

#[test]
fn functions_have_the_same_bits_everywhere() {
    for dtype in FLOATS {
        let values = bits(dtype, &arguments(dtype));
        for op in functions(1) {
            let args = [values.clone()];
            let expected = reference(op, dtype, &args);
            check(op, &args, &expected);
        }
    }
}

#[test]
fn functions_of_two_have_the_same_bits_everywhere() {
    for dtype in FLOATS {
        let some: Vec<u64> = arguments(dtype).into_iter().step_by(5).collect();
        let args = super::grid::pairs(dtype, &some);
        for op in functions(2) {
            let expected = reference(op, dtype, &args);
            check(op, &args, &expected);
        }
    }
}

#[test]
fn reciprocals_are_correctly_rounded() {
    for dtype in FLOATS {
        let values = arguments(dtype);
        let one = exact::integer(1);
        let rounded = |x: &u64| match dtype {
            DType::F16 => {
                encode(dtype, decode(DType::F32, encode(DType::F32, exact::div(one, decode(dtype, *x)))))
            }
            _ => encode(dtype, exact::div(one, decode(dtype, *x))),
        };
        let expected: Vec<u64> = values.iter().map(rounded).collect();
        check(Op::Recip, &[bits(dtype, &values)], &bits(dtype, &expected));
    }
}

#[test]
fn f16_functions_are_the_f32_ones_rounded_once() {
    let values = arguments(DType::F16);
    let wide: Vec<u64> = values.iter().map(|&v| encode(DType::F32, decode(DType::F16, v))).collect();
    for op in functions(1) {
        let single = reference(op, DType::F32, &[bits(DType::F32, &wide)]);
        let expected: Vec<u64> =
            single.bits.iter().map(|&v| encode(DType::F16, decode(DType::F32, v))).collect();
        check(op, &[bits(DType::F16, &values)], &bits(DType::F16, &expected));
    }
}

#[test]
fn values_that_are_known() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    check(Op::Sin, &[column(&[0.0, -0.0, inf])], &column(&[0.0, -0.0, nan]));
    check(Op::Cos, &[column(&[0.0, -0.0, inf])], &column(&[1.0, 1.0, nan]));
    check(Op::Exp, &[column(&[0.0, -inf, inf, 1000.0, -1000.0])], &column(&[1.0, 0.0, inf, inf, 0.0]));
    check(Op::Ln, &[column(&[1.0, 0.0, -0.0, -1.0, inf])], &column(&[0.0, -inf, -inf, nan, inf]));
    check(Op::Rsqrt, &[column(&[4.0, 0.0, -0.0, -1.0, inf])], &column(&[0.5, inf, -inf, nan, 0.0]));
    let (x, y) = ([2.0, nan, 1.0, -2.0, -2.0, 0.0, -8.0], [10.0, 0.0, nan, 3.0, 0.5, -1.0, -inf]);
    check(Op::Pow, &[column(&x), column(&y)], &column(&[1024.0, 1.0, 1.0, -8.0, nan, inf, 0.0]));
    check(Op::Tan, &[column(&[0.0, -0.0, inf])], &column(&[0.0, -0.0, nan]));
    check(Op::Asin, &[column(&[1.0, -1.0, -0.0, 2.0])], &column(&[FRAC_PI_2, -FRAC_PI_2, -0.0, nan]));
    check(Op::Acos, &[column(&[1.0, -1.0, 0.0, -2.0])], &column(&[0.0, PI, FRAC_PI_2, nan]));
    check(Op::Atan, &[column(&[inf, -inf, -0.0])], &column(&[FRAC_PI_2, -FRAC_PI_2, -0.0]));
    let (y, x) =
        ([0.0, -0.0, 0.0, -0.0, 1.0, -1.0, inf, -inf, nan], [1.0, 1.0, -1.0, -0.0, 0.0, -0.0, inf, 2.0, 1.0]);
    let angles = [0.0, -0.0, PI, -PI, FRAC_PI_2, -FRAC_PI_2, PI / 4.0, -FRAC_PI_2, nan];
    check(Op::Atan2, &[column(&y), column(&x)], &column(&angles));
    check(Op::Sinh, &[column(&[0.0, -0.0, inf, -1000.0])], &column(&[0.0, -0.0, inf, -inf]));
    check(Op::Cosh, &[column(&[0.0, -0.0, -inf, 1000.0])], &column(&[1.0, 1.0, inf, inf]));
    check(Op::Tanh, &[column(&[-0.0, inf, -inf, 100.0])], &column(&[-0.0, 1.0, -1.0, 1.0]));
    check(Op::Asinh, &[column(&[-0.0, inf, -inf])], &column(&[-0.0, inf, -inf]));
    check(Op::Acosh, &[column(&[1.0, inf, 0.5])], &column(&[0.0, inf, nan]));
    check(Op::Atanh, &[column(&[-0.0, 1.0, -1.0, 2.0])], &column(&[-0.0, inf, -inf, nan]));
    check(Op::Exp2, &[column(&[3.0, -1.0, inf, -inf, -2000.0])], &column(&[8.0, 0.5, inf, 0.0, 0.0]));
    check(Op::ExpM1, &[column(&[-0.0, inf, -inf, -1000.0])], &column(&[-0.0, inf, -1.0, -1.0]));
    check(Op::Log2, &[column(&[8.0, 0.0, -1.0, inf])], &column(&[3.0, -inf, nan, inf]));
    check(Op::Log10, &[column(&[1000.0, 0.0, -1.0, inf])], &column(&[3.0, -inf, nan, inf]));
    check(Op::Ln1p, &[column(&[-0.0, -1.0, -2.0, inf])], &column(&[-0.0, -inf, nan, inf]));
    check(Op::Cbrt, &[column(&[27.0, -8.0, -0.0, -inf])], &column(&[3.0, -2.0, -0.0, -inf]));
    check(Op::Hypot, &[column(&[3.0, nan, -0.0]), column(&[-4.0, -inf, 0.0])], &column(&[5.0, inf, 0.0]));
    check(Op::Erf, &[column(&[-0.0, inf, -10.0])], &column(&[-0.0, 1.0, -1.0]));
    check(Op::Erfc, &[column(&[-0.0, inf, -10.0])], &column(&[1.0, 0.0, 2.0]));
}

#[test]
fn huge_arguments_are_reduced_exactly() {
    // sin(10^22) = -0.85220 08497 67188 80177 ...
    check_expression("sin", &[column(&[1e22f64])], &column(&[-0.852_200_849_767_189f64]), &|v| {
        let rounded = apply(
            Op::RoundTiesEven,
            &[&apply(Op::Mul, &[&apply(Op::Sin, &[&v[0]]), &Var::literal(DType::F64, 1e15f64.to_bits())])],
        );
        apply(Op::Div, &[&rounded, &Var::literal(DType::F64, 1e15f64.to_bits())])
    });
}

#[test]
fn functions_in_branches_of_some_lanes() {
    on_each(|device| {
        let x = upload(device, &[1e30f32, 0.5, -1e30, 0.0, 2.0]);
        let small = Var::apply(
            Op::Lt,
            DType::Bool,
            &[&apply(Op::Abs, &[&x]), &Var::literal(DType::F32, 10f32.to_bits().into())],
        );
        let out = if_else(
            device,
            &small,
            std::slice::from_ref(&x),
            |a| vec![apply(Op::Sin, &[&a[0]])],
            |a| vec![apply(Op::Cos, &[&a[0]])],
        );
        let (sin, cos) = (read::<f32>(&apply(Op::Sin, &[&x])), read::<f32>(&apply(Op::Cos, &[&x])));
        assert_eq!(read::<f32>(&out[0]), [cos[0], sin[1], cos[2], sin[3], sin[4]]);
    });
}
