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
