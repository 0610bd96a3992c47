//! What traces mean, on the interpreter.

use jit_core::backend::DeviceKind;
use jit_core::dtype::{DType, Element};
use jit_core::interp::Mode;
use jit_core::op::Op;
use jit_core::runtime::{CacheOutcome, Device};
use jit_core::trace::{BufferVar, Var, eval, if_else, while_loop};

fn upload<T: Element>(device: Device, values: &[T]) -> Var {
    let bytes: Vec<u8> =
        values.iter().flat_map(|v| v.to_bits().to_le_bytes()[..T::DTYPE.size()].to_vec()).collect();
    Var::upload(device, T::DTYPE, values.len() as u64, &bytes).expect("memory")
}

fn read<T: Element>(var: &Var) -> Vec<T> {
    assert_eq!(var.dtype(), T::DTYPE);
    let bytes = var.read().expect("evaluation");
    bytes
        .chunks(T::DTYPE.size())
        .map(|c| {
            let mut raw = [0; 8];
            raw[..c.len()].copy_from_slice(c);
            T::from_bits(u64::from_le_bytes(raw))
        })
        .collect()
}

fn lit<T: Element>(v: T) -> Var {
    Var::literal(T::DTYPE, v.to_bits())
}

fn op(op: Op, args: &[&Var]) -> Var {
    Var::apply(op, args[0].dtype(), args)
}

fn both(test: impl Fn(Device)) {
    for mode in [Mode::Lowered, Mode::NodeByNode] {
        test(Device::interpreter(mode));
    }
}

#[test]
fn elementwise_work_is_one_kernel() {
    let dev = Device::interpreter(Mode::Lowered);
    assert_eq!(dev.kind(), DeviceKind::Interpreter);
    let x = upload(dev, &[1.0f32, 2.0, 3.0]);
    let y = op(Op::MulAdd, &[&x, &x, &lit(0.5f32)]);
    let z = op(Op::Sub, &[&y, &x]);
    assert_eq!(read::<f32>(&z), [0.5, 2.5, 6.5]);
    let history = dev.kernel_history();
    assert_eq!(history.len(), 1);
    assert_eq!((history[0].inputs, history[0].outputs), (1, 1));
    let z = op(Op::Sub, &[&op(Op::MulAdd, &[&x, &x, &lit(0.5f32)]), &x]);
    assert_eq!(read::<f32>(&z), [0.5, 2.5, 6.5]);
    assert_eq!(dev.kernel_history()[1].cache, CacheOutcome::Hit);
}

#[test]
fn reductions_fuse_with_producers_and_what_follows() {
    let dev = Device::interpreter(Mode::Lowered);
    let x = upload(dev, &[1.0f32, 2.0, 3.0, 4.0]);
    let square = op(Op::Mul, &[&x, &x]);
    let sum = square.reduce(Op::ReduceSum);
    let mean = op(Op::Div, &[&sum, &Var::apply(Op::Cast, DType::F32, &[&x.lane_count()])]);
    assert_eq!(read::<f32>(&mean), [7.5]);
    assert_eq!(dev.kernel_history().len(), 1);
    let centred = op(Op::Sub, &[&x, &x.reduce(Op::ReduceMin)]);
    assert_eq!(read::<f32>(&centred), [0.0, 1.0, 2.0, 3.0]);
    assert_eq!(dev.kernel_history().len(), 3);
}

#[test]
fn scatter_makes_a_version() {
    both(|dev| {
        let mut a = upload(dev, &[1u32, 2, 3, 4]);
        let old = a.clone();
        let index = upload(dev, &[0u32, 2, 9]);
        a.scatter(Op::ScatterAdd, &lit(10u32), &index, None);
        assert_eq!(read::<u32>(&a), [11, 2, 13, 4]);
        assert_eq!(read::<u32>(&old), [1, 2, 3, 4]);
        drop(old);
        a.scatter(Op::Scatter, &lit(7u32), &lit(1u32), None);
        assert_eq!(read::<u32>(&a), [11, 7, 13, 4]);
    });
}

#[test]
fn buffers_are_places() {
    both(|dev| {
        let buffer = BufferVar::new(&Var::full(dev, DType::U32, 0, 4));
        let index = upload(dev, &[1u32, 1, 3, 7]);
        let before = buffer.value();
        let got = buffer.atomic_inc(&index, None);
        buffer.scatter(Op::ScatterAdd, &lit(10u32), &lit(0u32), None);
        eval(&[], &[&buffer]).expect("evaluation").wait().expect("execution");
        assert_eq!(read::<u32>(&got), [0, 1, 0, 0]);
        assert_eq!(read::<u32>(&buffer.value()), [10, 2, 0, 1]);
        assert_eq!(read::<u32>(&before), [0; 4]);
    });
}

#[test]
fn an_effect_runs_once() {
    both(|dev| {
        let buffer = BufferVar::new(&Var::full(dev, DType::U32, 0, 2));
        let got = buffer.atomic_inc(&lit(0u32), None);
        assert_eq!(read::<u32>(&got), [0]);
        assert_eq!(read::<u32>(&got), [0]);
        assert_eq!(read::<u32>(&buffer.value()), [1, 0]);
        let more = buffer.atomic_inc(&lit(0u32), None);
        let sum = op(Op::Add, &[&more, &got]);
        assert_eq!(read::<u32>(&buffer.value()), [2, 0]);
        assert_eq!(read::<u32>(&sum), [1]);
    });
}

#[test]
fn loops_run_per_lane() {
    both(|dev| {
        let n = op(Op::Add, &[&Var::counter(dev, DType::U32, 10), &lit(1u32)]);
        let out = while_loop(
            dev,
            &[n, lit(0u32)],
            |s| op(Op::Ne, &[&s[0], &lit(1u32)]),
            |s| {
                let even = op(Op::Eq, &[&op(Op::And, &[&s[0], &lit(1u32)]), &lit(0u32)]);
                let half = op(Op::Shr, &[&s[0], &lit(1u32)]);
                let triple = op(Op::MulAdd, &[&s[0], &lit(3u32), &lit(1u32)]);
                vec![op(Op::Select, &[&even, &half, &triple]), op(Op::Add, &[&s[1], &lit(1u32)])]
            },
        );
        assert_eq!(read::<u32>(&out[1]), [0, 1, 7, 2, 5, 8, 16, 3, 19, 6]);
    });
}

#[test]
fn loop_state_is_assigned_in_parallel() {
    both(|dev| {
        let state = [Var::full(dev, DType::U32, 1, 3), lit(2u32), lit(3u32), lit(0u32)];
        let out = while_loop(
            dev,
            &state,
            |s| op(Op::Lt, &[&s[3], &lit(1u32)]),
            |s| vec![s[1].clone(), s[1].clone(), s[0].clone(), op(Op::Add, &[&s[3], &lit(1u32)])],
        );
        assert_eq!(read::<u32>(&out[0]), [2, 2, 2]);
        assert_eq!(read::<u32>(&out[1]), [2, 2, 2]);
        assert_eq!(read::<u32>(&out[2]), [1, 1, 1]);
    });
}

#[test]
fn effects_in_regions_see_the_lanes_own() {
    both(|dev| {
        let buffer = BufferVar::new(&Var::full(dev, DType::U32, 0, 4));
        let lane = Var::counter(dev, DType::U32, 4);
        let out = while_loop(
            dev,
            &[lit(0u32), lit(0u32)],
            |s| op(Op::Lt, &[&s[0], &lane]),
            |s| {
                buffer.scatter(Op::ScatterAdd, &lit(2u32), &lane, None);
                let seen = buffer.gather(&lane, None);
                let masked = if_else(
                    dev,
                    &op(Op::Eq, &[&lane, &lit(3u32)]),
                    &[s[1].clone()],
                    |a| {
                        buffer.scatter(Op::ScatterAdd, &lit(100u32), &lit(0u32), None);
                        vec![op(Op::Add, &[&a[0], &seen])]
                    },
                    |a| a,
                );
                vec![op(Op::Add, &[&s[0], &lit(1u32)]), masked[0].clone()]
            },
        );
        assert_eq!(read::<u32>(&buffer.value()), [300, 2, 4, 6]);
        assert_eq!(read::<u32>(&out[1]), [0, 0, 0, 2 + 4 + 6]);
    });
}

#[test]
fn a_scalar_effect_runs_once_though_many_lanes_use_it() {
    both(|dev| {
        let buffer = BufferVar::new(&Var::full(dev, DType::U32, 5, 1));
        let old = op(Op::Xor, &[&buffer.atomic_inc(&lit(0u32), None), &lit(1u32)]);
        let wide = op(Op::Add, &[&old, &upload(dev, &[10u32, 20, 30])]);
        assert_eq!(read::<u32>(&wide), [14, 24, 34]);
        assert_eq!(read::<u32>(&buffer.value()), [6]);
    });
}

#[test]
fn a_counter_of_one_lane_is_zero_on_many() {
    both(|dev| {
        let sum = op(Op::Add, &[&Var::counter(dev, DType::U32, 1), &upload(dev, &[5u32, 6, 7])]);
        assert_eq!(read::<u32>(&sum), [5, 6, 7]);
    });
}

#[test]
fn everything_is_given_back() {
    both(|dev| {
        for _ in 0..3 {
            let x = upload(dev, &[1.0f32, 2.0]);
            let buffer = BufferVar::new(&x);
            let out = while_loop(
                dev,
                &[x.clone(), lit(0u32)],
                |s| op(Op::Lt, &[&s[1], &lit(3u32)]),
                |s| {
                    buffer.scatter(Op::ScatterAdd, &s[0], &s[1], None);
                    vec![op(Op::Mul, &[&s[0], &x]), op(Op::Add, &[&s[1], &lit(1u32)])]
                },
            );
            assert_eq!(read::<f32>(&out[0]), [1.0, 16.0]);
        }
        assert_eq!(dev.memory().nodes, 0, "nodes are left");
        assert_eq!(dev.memory().storages, 0, "storages are left");
    });
}

#[test]
fn a_buffer_dropped_with_a_loop_pending_is_given_back() {
    both(|dev| {
        let buffer = BufferVar::new(&Var::full(dev, DType::U32, 0, 2));
        let body = |s: Vec<Var>| {
            buffer.scatter(Op::ScatterAdd, &s[0], &s[0], None);
            vec![op(Op::Add, &[&s[0], &lit(1u32)])]
        };
        drop(while_loop(dev, &[lit(0u32)], |s| op(Op::Lt, &[&s[0], &lit(3u32)]), body));
        drop(buffer);
        assert_eq!(dev.memory().nodes, 0, "nodes are left");
    });
}

#[test]
fn identities_of_known_operands_are_seen() {
    let dev = Device::interpreter(Mode::Lowered);
    let floats = upload(dev, &[1.5f32, -2.0]);
    let is_itself = |x: &Var, o: Op, c: Var| op(o, &[x, &c]).same(x);
    assert!(is_itself(&floats, Op::Add, lit(-0.0f32)));
    assert!(is_itself(&floats, Op::Sub, lit(0.0f32)));
    assert!(is_itself(&floats, Op::Mul, lit(1.0f32)));
    assert!(is_itself(&floats, Op::Div, lit(1.0f32)));
    assert!(!is_itself(&floats, Op::Add, lit(0.0f32)), "it would lose -0");
    let half = op(Op::Div, &[&floats, &lit(2.0f32)]);
    assert!(half.same(&op(Op::Mul, &[&floats, &lit(0.5f32)])), "the reciprocal is exact");
    let halves = op(Op::Cast, &[&floats]);
    assert!(halves.same(&floats));
    for one in [0x3c00u16, 0x8000] {
        let x = Var::full(dev, DType::F16, 0x4200, 5);
        let o = if one == 0x3c00 { Op::Mul } else { Op::Add };
        assert_eq!(op(o, &[&x, &Var::literal(DType::F16, u64::from(one))]).literal_bits(), x.literal_bits());
    }
    let doubles = upload(dev, &[1.5f64]);
    assert!(is_itself(&doubles, Op::Mul, lit(1.0f64)));
    assert!(is_itself(&doubles, Op::Add, lit(-0.0f64)));

    let bytes = upload(dev, &[3i8, -4]);
    for (o, c) in [
        (Op::Add, 0i8),
        (Op::Sub, 0),
        (Op::Mul, 1),
        (Op::Div, 1),
        (Op::And, -1),
        (Op::Or, 0),
        (Op::Xor, 0),
        (Op::Shl, 0),
        (Op::Shr, 0),
    ] {
        assert!(is_itself(&bytes, o, lit(c)), "{} {c}", o.name());
    }
    let is = |o: Op, c: i8, expected: i8| {
        let expected = Var::full(dev, DType::I8, Element::to_bits(expected), 2);
        op(o, &[&bytes, &lit(c)]).same(&expected)
    };
    assert!(is(Op::Mul, 0, 0) && is(Op::And, 0, 0) && is(Op::Or, -1, -1));
    assert!(is(Op::Shl, 8, 0) && is(Op::Shl, 77, 0) && !is(Op::Shr, 77, 0));
    let truths = upload(dev, &[true, false]);
    assert!(is_itself(&truths, Op::And, lit(true)) && is_itself(&truths, Op::Or, lit(false)));
}

#[test]
fn replacing_an_operand_is_the_op() {
    both(|dev| {
        let (x, y) = (upload(dev, &[1u32, 2]), upload(dev, &[10u32, 20]));
        let nodes = dev.memory().nodes;
        let mut z = x.clone();
        let sum = op(Op::Add, &[&x, &y]);
        z.apply_assign(Op::Add, DType::U32, &y);
        if dev.memory().nodes == nodes + 1 {
            assert!(z.same(&sum), "equal nodes are one, where they are looked for");
        }
        drop(sum);
        z.apply_assign(Op::Mul, DType::U32, &lit(2u32));
        let shared = z.clone();
        z.apply_assign(Op::Xor, DType::U32, &shared);
        assert_eq!(read::<u32>(&z), [0, 0]);
        assert_eq!(read::<u32>(&shared), [22, 44]);
        z = shared;
        z.apply_assign(Op::Lt, DType::U32, &y);
        assert_eq!(read::<bool>(&z), [false, false]);
        // Literals without a device, on either side.
        let mut number = lit(2u32);
        number.apply_assign(Op::Add, DType::U32, &lit(3u32));
        assert_eq!(number.literal_bits(), Some(5));
        number.apply_assign(Op::Mul, DType::U32, &x);
        assert_eq!(read::<u32>(&number), [5, 10]);
        drop((z, number));
        assert_eq!(dev.memory().nodes, nodes, "nodes are left");
    });
}

#[test]
fn what_cannot_be_replaced_stays() {
    let dev = Device::interpreter(Mode::Lowered);
    let x = upload(dev, &[1u32, 2]);
    let three = upload(dev, &[1u32, 2, 3]);
    let nodes = dev.memory().nodes;
    let mut z = x.clone();
    let mut refuse = |o: Op, other: &Var| {
        let op = std::panic::AssertUnwindSafe(|| z.apply_assign(o, DType::U32, other));
        let message = *std::panic::catch_unwind(op).expect_err("misuse").downcast::<String>().unwrap();
        assert!(z.same(&x));
        message
    };
    assert!(refuse(Op::Add, &three).contains("different sizes"));
    assert!(refuse(Op::Add, &lit(1.0f32)).contains("one numeric type"));
    let elsewhere = upload(Device::interpreter(Mode::Lowered), &[1u32, 2]);
    refuse(Op::Add, &elsewhere);
    assert_eq!(dev.memory().nodes, nodes, "a refused op leaves nothing behind");
}

#[test]
fn handles_of_many_threads_end_once() {
    let dev = Device::interpreter(Mode::Lowered);
    let x = upload(dev, &[1u32, 2]);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let mut own = x.clone();
            let x = &x;
            scope.spawn(move || {
                for i in 0..2000u32 {
                    let copy = own.clone();
                    own = op(Op::Add, &[&copy, x]);
                    if i % 16 == 0 {
                        own = x.clone();
                    }
                }
            });
        }
    });
    assert_eq!(dev.memory().nodes, 1);
    drop(x);
    assert_eq!((dev.memory().nodes, dev.memory().storages), (0, 0));
}

#[test]
fn a_million_ops_overflow_nothing() {
    let dev = Device::interpreter(Mode::Lowered);
    let x = upload(dev, &[1u32, 2]);
    let mut y = x.clone();
    for i in 0..1_000_000u32 {
        y = op(if i % 2 == 0 { Op::Add } else { Op::Xor }, &[&y, &x]);
    }
    assert!(y.trace().lines().count() > 1_000_000);
    assert_eq!(read::<u32>(&y).len(), 2);
}
