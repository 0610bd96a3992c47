//! Loops and branches: lanes on their own, state in parallel, effects in order.

use jit_core::dtype::DType;
use jit_core::op::Op;
use jit_core::runtime::Device;
use jit_core::trace::{BufferVar, Var, if_else, while_loop};

use super::check::{apply, cast};
use crate::devices::on_each;
use crate::host::{lit, read, upload};

fn less(a: &Var, b: &Var) -> Var {
    Var::apply(Op::Lt, DType::Bool, &[a, b])
}

fn add(a: &Var, b: &Var) -> Var {
    apply(Op::Add, &[a, b])
}

fn is_odd(a: &Var) -> Var {
    Var::apply(Op::Eq, DType::Bool, &[&apply(Op::And, &[a, &lit(1u32)]), &lit(1u32)])
}

/// Runs the body that many times; the counter is the first of the state.
fn times(device: Device, n: &Var, state: &[Var], body: impl FnOnce(&[Var]) -> Vec<Var>) -> Vec<Var> {
    let mut all = vec![lit(0u32)];
    all.extend_from_slice(state);
    let out = while_loop(
        device,
        &all,
        |s| less(&s[0], n),
        |s| {
            let mut next = vec![add(&s[0], &lit(1u32))];
            next.extend(body(&s));
            next
        },
    );
    out[1..].to_vec()
}

#[test]
fn each_lane_runs_as_often_as_it_asks() {
    on_each(|device| {
        let n = upload(device, &[0u32, 1, 5, 2, 0, 100]);
        let sum = times(device, &n, &[lit(0u32)], |s| vec![add(&s[1], &s[0])]);
        assert_eq!(read::<u32>(&sum[0]), [0, 0, 10, 1, 0, 4950]);
    });
}

#[test]
fn collatz_steps() {
    let steps = |mut n: u64| {
        let mut count = 0u32;
        while n != 1 {
            n = if n.is_multiple_of(2) { n / 2 } else { 3 * n + 1 };
            count += 1;
        }
        count
    };
    on_each(|device| {
        let start = add(&Var::counter(device, DType::U64, 1000), &lit(1u64));
        let out = while_loop(
            device,
            &[start, lit(0u32)],
            |s| Var::apply(Op::Ne, DType::Bool, &[&s[0], &lit(1u64)]),
            |s| {
                let even =
                    Var::apply(Op::Eq, DType::Bool, &[&apply(Op::And, &[&s[0], &lit(1u64)]), &lit(0u64)]);
                let half = apply(Op::Shr, &[&s[0], &lit(1u64)]);
                let triple = apply(Op::MulAdd, &[&s[0], &lit(3u64), &lit(1u64)]);
                vec![apply(Op::Select, &[&even, &half, &triple]), add(&s[1], &lit(1u32))]
            },
        );
        let expected: Vec<u32> = (1..=1000).map(steps).collect();
        assert_eq!(read::<u32>(&out[1]), expected);
        assert_eq!(read::<u64>(&out[0]), [1u64; 1000]);
    });
}

#[test]
fn a_loop_that_never_runs_gives_its_initial_state() {
    on_each(|device| {
        let x = upload(device, &[1.5f32, -0.0, f32::INFINITY]);
        let out = while_loop(
            device,
            &[x.clone(), lit(7u8)],
            |_| lit(false),
            |s| vec![add(&s[0], &s[0]), s[1].clone()],
        );
        assert_eq!(read::<f32>(&out[0]), [1.5, -0.0, f32::INFINITY]);
        assert_eq!(read::<u8>(&out[1])[0], 7);
        let out = times(device, &upload(device, &[0u32; 3]), &[x], |s| vec![add(&s[1], &s[1])]);
        assert_eq!(read::<f32>(&out[0]), [1.5, -0.0, f32::INFINITY]);
    });
}

#[test]
fn a_bound_of_nan_is_never_below() {
    on_each(|device| {
        let bound = upload(device, &[f32::NAN, 3.0, f32::NEG_INFINITY, -f32::NAN]);
        let out = while_loop(
            device,
            &[lit(0f32), lit(0u32)],
            |s| less(&s[0], &bound),
            |s| vec![add(&s[0], &lit(1f32)), add(&s[1], &lit(1u32))],
        );
        assert_eq!(read::<u32>(&out[1]), [0, 3, 0, 0]);
        let out = while_loop(
            device,
            &[lit(0f32), lit(0u32)],
            |s| less(&s[0], &lit(f32::NAN)),
            |s| vec![add(&s[0], &lit(1f32)), add(&s[1], &lit(1u32))],
        );
        assert_eq!(read::<u32>(&out[1]), [0]);
    });
}

#[test]
fn state_is_assigned_in_parallel() {
    on_each(|device| {
        let n = upload(device, &[0u32, 1, 2, 3]);
        let abc = || [lit(1u32), lit(2u32), lit(3u32)];
        let get = |out: &[Var]| -> Vec<Vec<u32>> { out.iter().map(read::<u32>).collect() };
        // a, b, c = b, b, a
        let out = times(device, &n, &abc(), |s| vec![s[2].clone(), s[2].clone(), s[1].clone()]);
        assert_eq!(get(&out), [[1, 2, 2, 2], [2, 2, 2, 2], [3, 1, 2, 2]]);
        // a, b, c = c, a, b
        let out = times(device, &n, &abc(), |s| vec![s[3].clone(), s[1].clone(), s[2].clone()]);
        assert_eq!(get(&out), [[1, 3, 2, 1], [2, 1, 3, 2], [3, 2, 1, 3]]);
        // a, b, c = a + b, a, i
        let out = times(device, &n, &abc(), |s| vec![add(&s[1], &s[2]), s[1].clone(), s[0].clone()]);
        assert_eq!(get(&out), [[1, 3, 4, 7], [2, 1, 3, 4], [3, 0, 1, 2]]);
        // Two that start equal part; two that are equal stay so.
        let start = [lit(4u32), lit(4u32), lit(4u32)];
        let out =
            times(device, &n, &start, |s| vec![add(&s[1], &lit(1u32)), add(&s[2], &lit(1u32)), s[1].clone()]);
        assert_eq!(get(&out), [[4, 5, 6, 7], [4, 5, 6, 7], [4, 4, 5, 6]]);
    });
}

#[test]
fn loops_nest() {
    on_each(|device| {
        // Products by sums: inner trip counts depend on the outer state.
        let n = upload(device, &[0u32, 1, 3, 5]);
        let out = times(device, &n, &[lit(0u32)], |outer| {
            let inner =
                times(device, &outer[0], &[outer[1].clone()], |s| vec![add(&s[1], &add(&s[0], &outer[0]))]);
            vec![inner[0].clone()]
        });
        let expected = |n: u32| (0..n).map(|i| (0..i).map(|j| i + j).sum::<u32>()).sum::<u32>();
        assert_eq!(read::<u32>(&out[0]), [0, 1, 3, 5].map(expected));
    });
}

#[test]
fn a_held_result_that_nothing_uses_is_no_part_of_the_kernel() {
    on_each(|device| {
        let mut held = Vec::new();
        let n = upload(device, &[0u32, 1, 2, 9, 4]);
        let out = times(device, &n, &[lit(0u32)], |s| {
            let inner = times(device, &lit(3u32), &[s[1].clone(), lit(7u32)], |t| {
                vec![add(&t[1], &lit(1u32)), add(&t[2], &lit(2u32))]
            });
            held.extend_from_slice(&inner[1..]);
            vec![inner[0].clone()]
        });
        assert_eq!(read::<u32>(&add(&out[0], &lit(1000u32))), [1000, 1003, 1006, 1027, 1012]);
        drop(held);
    });
}

#[test]
fn branches_nest_in_loops_and_loops_in_branches() {
    on_each(|device| {
        let lane = Var::counter(device, DType::U32, 8);
        let out = times(device, &lane, &[lit(1u32)], |s| {
            if_else(
                device,
                &is_odd(&s[0]),
                &[s[1].clone()],
                |a| {
                    times(device, &lit(2u32), &[a[0].clone()], |t| vec![apply(Op::Mul, &[&t[1], &lit(3u32)])])
                },
                |a| vec![add(&a[0], &lane)],
            )
        });
        let expected =
            |lane: u32| (0..lane).fold(1u32, |x, i| if i % 2 == 1 { x.wrapping_mul(9) } else { x + lane });
        let expected: Vec<u32> = (0..8).map(expected).collect();
        assert_eq!(read::<u32>(&out[0]), expected);
    });
}

#[test]
fn a_branch_takes_each_side_by_lane() {
    on_each(|device| {
        let x = upload(device, &[1i32, -2, 3, -4]);
        let positive = less(&lit(0i32), &x);
        let out = if_else(
            device,
            &positive,
            &[x.clone(), lit(10i32)],
            |a| vec![add(&a[0], &a[1]), a[1].clone()],
            |a| vec![apply(Op::Neg, &[&a[0]]), x.clone()],
        );
        assert_eq!(read::<i32>(&out[0]), [11, 2, 13, 4]);
        assert_eq!(read::<i32>(&out[1]), [10, -2, 10, -4]);
        for (mask, expected) in [(lit(true), [11, 8, 13, 6]), (lit(false), [-1, 2, -3, 4])] {
            let out = if_else(
                device,
                &mask,
                std::slice::from_ref(&x),
                |a| vec![add(&a[0], &lit(10i32))],
                |a| vec![apply(Op::Neg, &[&a[0]])],
            );
            assert_eq!(read::<i32>(&out[0]), expected);
        }
    });
}

#[test]
fn a_division_by_zero_on_a_lane_that_is_off_does_no_harm() {
    on_each(|device| {
        let d = upload(device, &[0i32, 2, 0, -1]);
        let x = upload(device, &[i32::MIN, 10, 5, i32::MIN]);
        let safe = Var::apply(Op::Ne, DType::Bool, &[&d, &lit(0i32)]);
        let out = if_else(
            device,
            &safe,
            &[x, d],
            |a| vec![apply(Op::Div, &[&a[0], &a[1]])],
            |a| vec![a[0].clone()],
        );
        assert_eq!(read::<i32>(&out[0]), [i32::MIN, 5, 5, i32::MIN]);
    });
}

#[test]
fn lanes_that_are_done_divide_without_harm() {
    on_each(|device| {
        // The divisor of a lane that is done, and of those beyond the last, is 0.
        for n in [1u32, 3, 7, 17, 40] {
            let start: Vec<u32> = (0..n).map(|k| k % 5).collect();
            let out = while_loop(
                device,
                &[upload(device, &start), lit(1_000_000u32)],
                |s| less(&lit(0u32), &s[0]),
                |s| vec![apply(Op::Sub, &[&s[0], &lit(1u32)]), apply(Op::Div, &[&s[1], &s[0]])],
            );
            let divided = |k: &u32| (1..=*k).rev().fold(1_000_000, |x, d| x / d);
            assert_eq!(read::<u32>(&out[1]), start.iter().map(divided).collect::<Vec<u32>>());
        }
    });
}

#[test]
fn a_lane_sees_its_own_effects_in_order() {
    on_each(|device| {
        let lane = Var::counter(device, DType::U32, 4);
        let buffer = BufferVar::new(&Var::full(device, DType::U32, 1, 4));
        let out = times(device, &lane, &[lit(0u32)], |s| {
            let before = buffer.gather(&lane, None);
            buffer.scatter(Op::ScatterMul, &lit(2u32), &lane, None);
            let between = buffer.gather(&lane, None);
            buffer.scatter(Op::Scatter, &add(&between, &lit(1u32)), &lane, None);
            let after = buffer.gather(&lane, None);
            let all =
                add(&apply(Op::Mul, &[&before, &lit(10_000u32)]), &apply(Op::Mul, &[&between, &lit(100u32)]));
            vec![add(&add(&all, &after), &apply(Op::Mul, &[&s[1], &lit(0u32)]))]
        });
        // 1 -> 2 -> 3 -> 6 -> 7 -> 14 -> 15
        assert_eq!(read::<u32>(&out[0]), [0, 10_203, 30_607, 71_415]);
        assert_eq!(read::<u32>(&buffer.value()), [1, 3, 7, 15]);
    });
}

#[test]
fn effects_count_active_lanes_only() {
    on_each(|device| {
        let n = upload(device, &[3u32, 0, 5, 1]);
        let buffer = BufferVar::new(&Var::full(device, DType::U32, 0, 2));
        times(device, &n, &[], |s| {
            if_else(
                device,
                &is_odd(&s[0]),
                &[],
                |_| {
                    buffer.scatter(Op::ScatterAdd, &lit(1u32), &lit(1u32), None);
                    vec![]
                },
                |_| {
                    buffer.atomic_inc(&lit(0u32), None);
                    vec![]
                },
            );
            vec![]
        });
        // Even iterations: 2 + 0 + 3 + 1; odd ones: 1 + 0 + 2 + 0.
        assert_eq!(read::<u32>(&buffer.value()), [6, 3]);
    });
}

#[test]
fn atomics_in_loops_give_old_values() {
    on_each(|device| {
        let buffer = BufferVar::new(&Var::full(device, DType::U64, 0, 1));
        let n = upload(device, &[10u32, 20, 30]);
        let out = times(device, &n, &[lit(0u64)], |s| vec![add(&s[1], &buffer.atomic_inc(&lit(0u8), None))]);
        let total: u64 = read::<u64>(&out[0]).iter().sum();
        assert_eq!(read::<u64>(&buffer.value()), [60]);
        assert_eq!(total, (0..60).sum::<u64>());
    });
}

#[test]
fn what_a_region_uses_from_outside_is_computed_once_per_lane() {
    on_each(|device| {
        let x = upload(device, &[1.0f64, 4.0, 9.0]);
        let root = apply(Op::Sqrt, &[&x]);
        let total = root.reduce(Op::ReduceSum);
        let n = upload(device, &[1u32, 2, 3]);
        let out = times(device, &n, &[lit(0f64)], |s| {
            let table = x.gather(&s[0], None);
            vec![add(&s[1], &apply(Op::MulAdd, &[&root, &total, &table]))]
        });
        assert_eq!(read::<f64>(&out[0]), [7.0, 29.0, 68.0]);
    });
}

#[test]
fn results_of_regions_go_on() {
    on_each(|device| {
        let n = upload(device, &[1u32, 2, 3, 4]);
        let squares = times(device, &n, &[lit(0u32)], |s| vec![add(&s[1], &n)]);
        let sum = squares[0].reduce(Op::ReduceSum);
        assert_eq!(read::<u32>(&sum), [30]);
        let again = times(device, &squares[0], &[lit(0u32)], |s| vec![add(&s[1], &lit(2u32))]);
        assert_eq!(read::<u32>(&again[0]), [2, 8, 18, 32]);
        let picked = squares[0].gather(&upload(device, &[3i16, 0, -1]), None);
        assert_eq!(read::<u32>(&picked), [16, 1, 0]);
    });
}

#[test]
fn what_one_side_alone_uses_makes_the_branch_wide() {
    on_each(|device| {
        let x = upload(device, &[1u32, 2, 3]);
        for (mask, expected) in [(true, [7, 7, 7]), (false, [2, 3, 4])] {
            let out = if_else(device, &lit(mask), &[], |_| vec![lit(7u32)], |_| vec![add(&x, &lit(1u32))]);
            assert_eq!(read::<u32>(&out[0]), expected);
        }
        let one = upload(device, &[true]);
        let out = if_else(device, &one, &[lit(1u32)], |a| vec![add(&a[0], &x)], |_| vec![lit(0u32)]);
        assert_eq!(read::<u32>(&out[0]), [2, 3, 4]);
    });
}

#[test]
fn inner_regions_use_what_outer_ones_made() {
    on_each(|device| {
        let tickets = BufferVar::new(&Var::full(device, DType::U32, 0, 1));
        let n = upload(device, &[2u32, 0, 3]);
        let out = times(device, &n, &[lit(0u32)], |s| {
            let ticket = tickets.atomic_inc(&lit(0u32), None);
            let inner = times(device, &lit(2u32), &[s[1].clone()], |t| vec![add(&t[1], &ticket)]);
            if_else(
                device,
                &is_odd(&s[0]),
                &inner,
                |a| vec![add(&a[0], &apply(Op::Mul, &[&ticket, &lit(100u32)]))],
                |a| a,
            )
        });
        let got = read::<u32>(&out[0]);
        assert_eq!(read::<u32>(&tickets.value()), [5]);
        // Each ticket 0..5 counts twice; lanes 0 and 2 take one each in an odd round.
        let (plain, odd): (u32, u32) = (got.iter().map(|v| v % 100).sum(), got.iter().map(|v| v / 100).sum());
        assert_eq!(plain, 20);
        assert!(got[1] == 0 && (1..=7).contains(&odd), "{got:?}");
    });
}

#[test]
fn one_lane_is_a_region_too() {
    on_each(|device| {
        let out = times(device, &lit(10u32), &[lit(0u64)], |s| vec![add(&s[1], &cast(DType::U64, &s[0]))]);
        assert_eq!(read::<u64>(&out[0]), [45]);
        let out = if_else(device, &lit(false), &[], |_| vec![lit(1u8)], |_| vec![lit(2u8)]);
        assert_eq!(read::<u8>(&out[0]), [2]);
    });
}

#[test]
fn state_of_every_type_is_kept_by_lanes_that_are_done() {
    on_each(|device| {
        let n = upload(device, &[0u32, 1, 2]);
        for dtype in jit_core::dtype::ALL_DTYPES {
            let values = crate::host::upload_bits(device, dtype, &[1, 0, 1]);
            let other = crate::host::upload_bits(device, dtype, &[0, 1, 0]);
            let out = times(device, &n, &[values, other], |s| vec![s[2].clone(), s[1].clone()]);
            assert_eq!(crate::host::read_bits(&out[0]), [1, 1, 1], "{dtype}");
            assert_eq!(crate::host::read_bits(&out[1]), [0, 0, 0], "{dtype}");
        }
    });
}
