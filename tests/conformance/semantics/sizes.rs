//! Size 1 broadcasts against any size, also 0; other sizes must be equal. Empty arrays go through everything.

use jit_core::dtype::{ALL_DTYPES, DType};
use jit_core::op::{ALL_OPS, Class, Op};
use jit_core::runtime::Device;
use jit_core::trace::{BufferVar, Var, eval, if_else, while_loop};

use super::check::apply;
use super::misuse::panics;
use crate::devices::{all, on_each};
use crate::host::{lit, read, read_bits, upload};

/// Each op on lanes with each list of operand types that it takes, and its result type.
fn typed_ops() -> Vec<(Op, Vec<DType>, DType)> {
    let mut found = Vec::new();
    for &op in ALL_OPS.iter().filter(|op| op.class() == Class::Lane) {
        for dtype in ALL_DTYPES {
            let mut args = vec![dtype; op.arity()];
            if op == Op::Select {
                args[0] = DType::Bool;
            }
            let wanted = if op == Op::Bitcast { dtype.unsigned() } else { DType::F32 };
            if let Ok(out) = op.result_type(&args, wanted) {
                found.push((op, args, out));
            }
        }
    }
    found
}

fn array(device: Device, dtype: DType, size: usize) -> Var {
    let ones = vec![1u64; size];
    crate::host::upload_bits(device, dtype, &ones)
}

#[test]
fn the_table_of_typed_ops_is_no_empty_one() {
    let ops = typed_ops();
    assert!(ops.len() > 250, "{}", ops.len());
    assert!(ops.contains(&(Op::Select, vec![DType::Bool, DType::Bool, DType::Bool], DType::Bool)));
}

#[test]
fn every_op_broadcasts_one_element() {
    on_each(|device| {
        let results: Vec<(usize, Var)> = typed_ops()
            .into_iter()
            .filter(|(_, args, _)| args.len() > 1)
            .flat_map(|(op, args, out)| {
                // Each operand in turn is the wide one, the others have one element, in memory or a literal.
                (0..args.len() * 2).flat_map(move |which| {
                    let args = args.clone();
                    [0, 1, 3].map(move |n| {
                        let operand = |(k, &dtype): (usize, &DType)| match (k == which / 2, which % 2) {
                            (true, _) => array(device, dtype, n),
                            (false, 0) => array(device, dtype, 1),
                            _ => Var::literal(dtype, 1),
                        };
                        let operands: Vec<Var> = args.iter().enumerate().map(operand).collect();
                        (n, Var::apply(op, out, &operands.iter().collect::<Vec<_>>()))
                    })
                })
            })
            .collect();
        for some in results.chunks(64) {
            eval(&some.iter().map(|(_, v)| v).collect::<Vec<_>>(), &[]).expect("evaluation");
        }
        for (n, result) in &results {
            let got = read_bits(result);
            assert_eq!((result.size(), got.len()), (*n as u64, *n), "{result:?}");
            assert!(got.windows(2).all(|w| w[0] == w[1]), "{result:?}: {got:x?}");
        }
    });
}

#[test]
fn one_element_stands_for_all() {
    on_each(|device| {
        let (wide, one) = (upload(device, &[1i32, 2, 3]), upload(device, &[10i32]));
        assert_eq!(read::<i32>(&apply(Op::Sub, &[&wide, &one])), [-9, -8, -7]);
        assert_eq!(read::<i32>(&apply(Op::Sub, &[&one, &wide])), [9, 8, 7]);
        assert_eq!(read::<i32>(&apply(Op::Sub, &[&one, &one])), [0]);
        assert_eq!(read::<i32>(&apply(Op::MulAdd, &[&one, &lit(2i32), &wide])), [21, 22, 23]);
        let condition = upload(device, &[true]);
        assert_eq!(read::<i32>(&apply(Op::Select, &[&condition, &wide, &one])), [1, 2, 3]);
        assert_eq!(read::<i32>(&apply(Op::Select, &[&condition, &one, &wide])), [10, 10, 10]);
        assert_eq!(read::<i32>(&apply(Op::Select, &[&lit(false), &one, &wide])), [1, 2, 3]);
        assert_eq!(read::<i32>(&apply(Op::Select, &[&lit(true), &one, &wide])), [10, 10, 10]);
        let empty = upload::<i32>(device, &[]);
        assert_eq!(read::<i32>(&apply(Op::Add, &[&empty, &one])), []);
        assert_eq!(read::<i32>(&apply(Op::Add, &[&lit(1i32), &empty])), []);
    });
}

#[test]
fn an_identity_with_a_wide_operand_is_wide() {
    on_each(|device| {
        let one = upload(device, &[5i32]);
        let wide = |value: i32| Var::full(device, DType::I32, u64::from(value as u32), 3);
        assert_eq!(read::<i32>(&apply(Op::Add, &[&one, &wide(0)])), [5; 3]);
        assert_eq!(read::<i32>(&apply(Op::Mul, &[&wide(1), &one])), [5; 3]);
        assert_eq!(read::<i32>(&apply(Op::Mul, &[&wide(0), &one])), [0; 3]);
        assert_eq!(read::<i32>(&apply(Op::And, &[&one, &wide(-1)])), [5; 3]);
        assert_eq!(read::<i32>(&apply(Op::Shl, &[&one, &wide(0)])), [5; 3]);
        assert_eq!(read::<i32>(&apply(Op::Shl, &[&one, &wide(40)])), [0; 3]);
        let condition = Var::full(device, DType::Bool, 1, 3);
        assert_eq!(read::<i32>(&apply(Op::Select, &[&condition, &one, &lit(2i32)])), [5; 3]);
        let double = Var::full(device, DType::F64, 2f64.to_bits(), 0);
        assert_eq!(read::<f64>(&apply(Op::Div, &[&upload(device, &[1f64]), &double])), []);
        let double = Var::full(device, DType::F64, 2f64.to_bits(), 2);
        assert_eq!(read::<f64>(&apply(Op::Div, &[&upload(device, &[1f64]), &double])), [0.5; 2]);
        let not = apply(Op::Not, &[&upload(device, &[true])]);
        assert_eq!(read::<i32>(&apply(Op::Select, &[&not, &wide(1), &one])), [5; 3]);
    });
}

#[test]
fn other_sizes_are_an_error_that_names_op_sizes_and_types() {
    let device = all()[0];
    for (op, args, out) in typed_ops().into_iter().filter(|(_, args, _)| args.len() > 1) {
        for (small, large) in [(0, 2), (2, 3), (3, 2)] {
            let operands: Vec<Var> = args
                .iter()
                .enumerate()
                .map(|(k, &d)| array(device, d, if k == 1 { small } else { large }))
                .collect();
            let message = panics(|| drop(Var::apply(op, out, &operands.iter().collect::<Vec<_>>())));
            let start = format!("`{}` on arrays of different sizes: ", op.name());
            assert!(message.starts_with(&start) && message.contains("equal or 1"), "{message}");
            for (k, dtype) in args.iter().enumerate() {
                let shown = format!("{dtype}[{}] made at", if k == 1 { small } else { large });
                assert!(message.contains(&shown), "no {shown:?} in {message:?}");
            }
        }
    }
}

#[test]
fn indexed_ops_check_sizes_too() {
    let device = all()[0];
    let (two, three) = (upload(device, &[0u32; 2]), upload(device, &[true; 3]));
    let source = upload(device, &[1.0f32; 5]);
    let says = |f: &dyn Fn(), words: &[&str]| {
        let message = panics(f);
        assert!(words.iter().all(|w| message.contains(w)), "{message}");
    };
    says(&|| drop(source.gather(&two, Some(&three))), &["`gather`", "u32[2]", "bool[3]"]);
    says(
        &|| source.clone().scatter(Op::ScatterAdd, &source, &two, None),
        &["`scatter_add`", "f32[5]", "u32[2]"],
    );
    let buffer = BufferVar::new(&source);
    says(&|| buffer.scatter(Op::Scatter, &source, &two, Some(&three)), &["`scatter`", "f32[5]", "u32[2]"]);
    let numbers = BufferVar::new(&two);
    says(&|| drop(numbers.atomic_inc(&two, Some(&three))), &["`atomic_inc`", "u32[2]", "bool[3]"]);
    says(&|| buffer.set(&upload(device, &[1f32; 2])), &["5 elements", "2"]);
}

#[test]
fn empty_arrays_go_through_every_op() {
    on_each(|device| {
        let results: Vec<Var> = typed_ops()
            .into_iter()
            .map(|(op, args, out)| {
                let operands: Vec<Var> = args.iter().map(|&d| array(device, d, 0)).collect();
                Var::apply(op, out, &operands.iter().collect::<Vec<_>>())
            })
            .collect();
        for some in results.chunks(64) {
            eval(&some.iter().collect::<Vec<_>>(), &[]).expect("evaluation");
        }
        for result in &results {
            assert_eq!((result.size(), read_bits(result)), (0, vec![]), "{result:?}");
        }
    });
}

#[test]
fn empty_arrays_go_through_memory() {
    on_each(|device| {
        let (none, one) = (upload::<u32>(device, &[]), upload(device, &[7u32]));
        assert_eq!(read::<u32>(&one.gather(&none, None)), []);
        assert_eq!(read::<u32>(&none.gather(&upload(device, &[0u32, 1]), None)), [0, 0]);
        assert_eq!(read::<u32>(&none.gather(&lit(0u64), None)), [0]);
        assert_eq!(read::<u32>(&none.gather(&none, None)), []);
        assert_eq!(read::<u32>(&one.gather(&lit(0u8), Some(&upload::<bool>(device, &[])))), []);
        let mut target = one.clone();
        target.scatter(Op::ScatterAdd, &lit(1u32), &none, None);
        assert_eq!(read::<u32>(&target), [7]);
        target.scatter(Op::Scatter, &none, &lit(0u32), None);
        assert_eq!(read::<u32>(&target), [7]);
        let mut target = none.clone();
        target.scatter(Op::ScatterAdd, &one, &upload(device, &[0u32, 1]), None);
        assert_eq!(read::<u32>(&target), []);
        let buffer = BufferVar::new(&none);
        assert_eq!(read::<u32>(&buffer.atomic_inc(&upload(device, &[0u32, 1]), None)), [0, 0]);
        assert_eq!(read::<u32>(&buffer.atomic_inc(&none, None)), []);
        buffer.set(&lit(3u32));
        assert_eq!(read::<u32>(&buffer.value()), []);
        assert_eq!(read::<u32>(&Var::counter(device, DType::U32, 0)), []);
        assert_eq!(read::<u32>(&Var::full(device, DType::U32, 1, 0)), []);
    });
}

#[test]
fn empty_arrays_go_through_regions() {
    on_each(|device| {
        let none = upload::<u32>(device, &[]);
        let once = |state: &[Var]| {
            while_loop(
                device,
                state,
                |s| apply(Op::Lt, &[&s[0], &lit(1u32)]),
                |s| vec![apply(Op::Add, &[&s[0], &lit(1u32)]), apply(Op::Add, &[&s[1], &s[0]])],
            )
        };
        let out = once(&[none.clone(), lit(1u32)]);
        assert_eq!((read::<u32>(&out[0]), read::<u32>(&out[1])), (vec![], vec![]));
        let out = once(&[lit(0u32), none.clone()]);
        assert_eq!((read::<u32>(&out[0]), read::<u32>(&out[1])), (vec![], vec![]));
        let captured = while_loop(
            device,
            &[lit(0u32)],
            |s| apply(Op::Lt, &[&s[0], &lit(1u32)]),
            |s| vec![apply(Op::Add, &[&s[0], &apply(Op::Max, &[&none, &lit(1u32)])])],
        );
        assert_eq!(read::<u32>(&captured[0]), []);
        let mask = upload::<bool>(device, &[]);
        let out = if_else(device, &mask, &[lit(1u32)], |a| a, |_| vec![lit(2u32)]);
        assert_eq!(read::<u32>(&out[0]), []);
        let buffer = BufferVar::new(&upload(device, &[5u32]));
        if_else(
            device,
            &mask,
            &[],
            |_| {
                buffer.scatter(Op::ScatterAdd, &lit(1u32), &lit(0u32), None);
                vec![]
            },
            |_| vec![],
        );
        assert_eq!(read::<u32>(&buffer.value()), [5]);
    });
}
