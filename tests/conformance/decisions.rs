//! What the engine decides: what is one node, what is one kernel, what is copied, what is compiled again.

use std::panic::{AssertUnwindSafe, catch_unwind};

use jit_core::dtype::DType;
use jit_core::ir::{Block, ParamKind};
use jit_core::op::Op;
use jit_core::runtime::{CacheOutcome, Device, DeviceOptions, FloatMode, with_float_mode};
use jit_core::trace::{BufferVar, Var, eval, if_else, while_loop};

use crate::devices;
use crate::host::{lit, read, upload};
use crate::recorder::{Log, recorded};

fn op(op: Op, args: &[&Var]) -> Var {
    Var::apply(op, args[0].dtype(), args)
}

fn add(a: &Var, b: &Var) -> Var {
    op(Op::Add, &[a, b])
}

fn mul(a: &Var, b: &Var) -> Var {
    op(Op::Mul, &[a, b])
}

fn iota(device: Device, n: u64) -> Var {
    Var::counter(device, DType::U32, n)
}

fn run(values: &[&Var], buffers: &[&BufferVar]) {
    eval(values, buffers).expect("evaluation").wait().expect("execution");
}

fn panic_text(f: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(f)).expect_err("a panic");
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned())).expect("a message")
}

fn launches(log: &Log) -> usize {
    log.take().len()
}

// ---- the trace ----

#[test]
fn equal_expressions_are_one_node() {
    let (dev, _) = recorded();
    let (x, y) = (upload(dev, &[1.0f32, 2.0]), upload(dev, &[3.0f32, 4.0]));
    assert!(add(&x, &y).same(&add(&x, &y)));
    assert!(add(&x, &y).same(&add(&y, &x)), "addition commutes in the key");
    assert!(!op(Op::Sub, &[&x, &y]).same(&op(Op::Sub, &[&y, &x])));
    let nodes = dev.memory().nodes;
    let one = mul(&x, &lit(3.5f32));
    let again = mul(&x, &lit(3.5f32));
    assert!(one.same(&again));
    assert_eq!(dev.memory().nodes, nodes + 2, "the product and its literal");
}

#[test]
fn the_same_program_hits_whatever_slots_are_free() {
    let (dev, log) = recorded();
    let mut kept = Vec::new();
    for i in 0..20u32 {
        let x = upload(dev, &[i, i + 1]);
        // Leaves holes in the slab, so that operands get slots in another order each time.
        let noise: Vec<Var> = (0..i).map(|k| add(&x, &lit(k + 2))).collect();
        if i % 3 == 0 {
            kept.push(noise.last().cloned());
        }
        drop(noise);
        let y = mul(&add(&x, &lit(9u32)), &op(Op::Sub, &[&x, &lit(9u32)]));
        run(&[&y], &[]);
    }
    assert_eq!(log.compilations(), 1);
}

/// The number of instructions in the body of the only loop of a block.
fn ops_in_loop(block: &Block, wanted: Op) -> usize {
    let the_loop = block.insts.iter().find(|i| i.op == Op::Loop).expect("a loop");
    the_loop.blocks.iter().flat_map(|b| &b.insts).filter(|i| i.op == wanted).count()
}

#[test]
fn invariant_work_lies_outside_of_loops_and_reads_of_buffers_do_not() {
    let (dev, log) = recorded();
    let x = upload(dev, &[2.0f32, 3.0]);
    let buffer = BufferVar::new(&upload(dev, &[1.0f32, 1.0]));
    let out = while_loop(
        dev,
        &[lit(0u32), lit(0.0f32)],
        |s| op(Op::Lt, &[&s[0], &lit(3u32)]),
        |s| {
            let invariant = op(Op::Sqrt, &[&mul(&x, &x)]);
            let read = buffer.gather(&lit(1u32), None);
            let next = add(&s[1], &mul(&read, &invariant));
            buffer.scatter(Op::Scatter, &lit(2.0f32), &lit(1u32), None);
            vec![add(&s[0], &lit(1u32)), next]
        },
    );
    // Both lanes write 2; a lane that comes later may see it at once.
    let got = read::<f32>(&out[1]);
    assert!(got[0] == 2.0 + 4.0 + 4.0 || got[0] == 12.0, "{got:?}");
    let launched = log.take();
    assert_eq!(launched.len(), 1, "a region's buffer is read and written by one kernel");
    assert_eq!(ops_in_loop(&launched[0].program.body, Op::Sqrt), 0);
    assert_eq!(ops_in_loop(&launched[0].program.body, Op::Gather), 1);
}

#[test]
fn memory_is_reused_in_place_only_if_nobody_can_see_it() {
    let (dev, log) = recorded();
    let buffer = BufferVar::new(&upload(dev, &[0u32; 64]));
    run(&[], &[&buffer]);
    log.take_allocations();
    let index = iota(dev, 8);
    buffer.scatter(Op::ScatterAdd, &lit(5u32), &index, None);
    run(&[], &[&buffer]);
    assert_eq!(log.take_allocations(), 0, "in place");

    let snapshot = buffer.value();
    buffer.scatter(Op::ScatterAdd, &lit(5u32), &index, None);
    run(&[], &[&buffer]);
    assert_eq!(log.take_allocations(), 1, "a handle sees the old version");
    assert_eq!(read::<u32>(&snapshot)[..9], [5, 5, 5, 5, 5, 5, 5, 5, 0]);
    assert_eq!(read::<u32>(&buffer.value())[..9], [10, 10, 10, 10, 10, 10, 10, 10, 0]);

    drop(snapshot);
    let lazy = add(&buffer.value(), &lit(1u32));
    log.take_allocations();
    buffer.scatter(Op::ScatterAdd, &lit(5u32), &index, None);
    run(&[], &[&buffer]);
    assert_eq!(log.take_allocations(), 1, "a node outside of the plan sees the old version");
    assert_eq!(read::<u32>(&lazy)[0], 11);
}

#[test]
fn readers_of_the_old_version_run_before_it_is_overwritten() {
    let (dev, log) = recorded();
    let buffer = BufferVar::new(&upload(dev, &[1u32, 2, 3, 4]));
    run(&[], &[&buffer]);
    let reversed = op(Op::Sub, &[&lit(3u32), &iota(dev, 4)]);
    let old = add(&buffer.gather(&reversed, None), &lit(0x100u32));
    buffer.scatter(Op::Scatter, &lit(9u32), &iota(dev, 2), None);
    log.take();
    log.take_allocations();
    run(&[&old], &[&buffer]);
    assert_eq!(log.take_allocations(), 1, "the gathered values; the buffer itself is written in place");
    assert_eq!(launches(&log), 2, "a gather from and a scatter to one storage are two kernels");
    assert_eq!(read::<u32>(&old), [0x104, 0x103, 0x102, 0x101]);
    assert_eq!(read::<u32>(&buffer.value()), [9, 9, 3, 4]);
}

#[test]
fn a_value_gathered_and_scattered_in_one_step_is_copied() {
    let (dev, _) = recorded();
    let mut a = upload(dev, &[1u32, 2, 3, 4]);
    let reversed = op(Op::Sub, &[&lit(3u32), &iota(dev, 4)]);
    let shuffled = a.gather(&reversed, None);
    a.scatter(Op::Scatter, &shuffled, &iota(dev, 4), None);
    assert_eq!(read::<u32>(&a), [4, 3, 2, 1]);
}

#[test]
fn effects_that_nobody_can_observe_do_not_run() {
    let (dev, log) = recorded();
    let buffer = BufferVar::new(&upload(dev, &[0u32; 4]));
    buffer.scatter(Op::ScatterAdd, &lit(1u32), &iota(dev, 4), None);
    let unrelated = add(&upload(dev, &[1u32]), &lit(5u32));
    run(&[&unrelated], &[]);
    assert_eq!(launches(&log), 1, "evaluating something else does not run the scatter");
    drop(buffer);
    assert_eq!(dev.memory().nodes, 1, "only the evaluated sum is left");
    run(&[&add(&unrelated, &unrelated)], &[]);
    assert_eq!(launches(&log), 1, "nor did dropping it");
}

#[test]
fn evaluating_a_result_advances_its_buffer() {
    let (dev, log) = recorded();
    let buffer = BufferVar::new(&Var::full(dev, DType::U32, 0, 4));
    let old = buffer.atomic_inc(&lit(2u32), None);
    run(&[&old], &[]);
    log.take();
    run(&[], &[&buffer]);
    assert_eq!(launches(&log), 0, "it already ran");
    assert_eq!(read::<u32>(&buffer.value()), [0, 0, 1, 0]);
    assert_eq!(read::<u32>(&old), [0]);
}

#[test]
fn results_of_an_effect_are_kept_although_only_its_buffer_was_evaluated() {
    let (dev, _) = recorded();
    let buffer = BufferVar::new(&Var::full(dev, DType::U32, 7, 2));
    let old = buffer.atomic_inc(&upload(dev, &[0u32, 1]), None);
    let doubled = add(&old, &old);
    run(&[], &[&buffer]);
    assert_eq!(read::<u32>(&doubled), [14, 14]);
    assert_eq!(read::<u32>(&buffer.value()), [8, 8]);

    let total = BufferVar::new(&Var::full(dev, DType::U32, 0, 1));
    let out = while_loop(
        dev,
        &[iota(dev, 3)],
        |s| op(Op::Gt, &[&s[0], &lit(0u32)]),
        |s| {
            total.scatter(Op::ScatterAdd, &s[0], &lit(0u32), None);
            vec![op(Op::Sub, &[&s[0], &lit(1u32)])]
        },
    );
    run(&[], &[&total]);
    assert_eq!(read::<u32>(&out[0]), [0, 0, 0]);
    assert_eq!(read::<u32>(&total.value()), [1 + 2 + 1], "the loop ran once");
}

#[test]
fn a_region_is_as_wide_as_what_its_lanes_use() {
    devices::on_each(|dev| {
        let limit = upload(dev, &[1u32, 0, 4]);
        let out =
            while_loop(dev, &[lit(0u32)], |s| op(Op::Lt, &[&s[0], &limit]), |s| vec![add(&s[0], &lit(1u32))]);
        assert_eq!(out[0].size(), 3);
        assert_eq!(read::<u32>(&out[0]), [1, 0, 4]);

        // An effect runs once per lane of the region even if its operands are the same on all lanes.
        let hits = BufferVar::new(&Var::full(dev, DType::U32, 0, 1));
        let mask = upload(dev, &[true, false, true, true, true]);
        let out = if_else(
            dev,
            &mask,
            &[lit(1u32)],
            |a| {
                hits.scatter(Op::ScatterAdd, &lit(1u32), &lit(0u32), None);
                a
            },
            |_| vec![lit(0u32)],
        );
        assert_eq!(read::<u32>(&out[0]), [1, 0, 1, 1, 1]);
        assert_eq!(read::<u32>(&hits.value()), [4]);
    });
}

#[test]
fn two_widths_in_one_region_are_an_error() {
    let (dev, _) = recorded();
    let (two, three) = (upload(dev, &[1u32, 2]), upload(dev, &[1u32, 2, 3]));
    let text = panic_text(|| {
        while_loop(
            dev,
            &[lit(0u32)],
            |s| op(Op::Lt, &[&s[0], &two]),
            |s| vec![op(Op::Add, &[&s[0], &three])],
        );
    });
    assert!(text.contains("3 elements") && text.contains("2 lanes"), "{text}");
    assert_eq!(read::<u32>(&add(&two, &lit(1u32))), [2, 3], "the device is usable");
}

#[test]
fn a_closure_that_panics_leaves_everything_as_it_was() {
    let (dev, _) = recorded();
    let buffer = BufferVar::new(&upload(dev, &[1u32, 2]));
    let nodes = dev.memory().nodes;
    for depth in 0..3 {
        let text = panic_text(|| {
            if_else(
                dev,
                &upload(dev, &[true, false]),
                &[lit(1u32)],
                |a| {
                    buffer.scatter(Op::ScatterAdd, &lit(1u32), &lit(0u32), None);
                    assert!(depth != 0, "first side");
                    a
                },
                |a| {
                    while_loop(
                        dev,
                        &a,
                        |s| {
                            assert!(depth != 1, "condition");
                            op(Op::Lt, &[&s[0], &lit(3u32)])
                        },
                        |s| {
                            buffer.scatter(Op::ScatterAdd, &s[0], &lit(1u32), None);
                            assert!(depth != 2, "body");
                            s
                        },
                    )
                },
            );
        });
        assert!(["first side", "condition", "body"].contains(&text.as_str()), "{text}");
        assert_eq!(dev.memory().nodes, nodes);
    }
    assert_eq!(read::<u32>(&buffer.value()), [1, 2]);
}

#[test]
fn lanes_are_not_combined_inside_a_region() {
    let (dev, _) = recorded();
    let x = upload(dev, &[1u32, 2, 3]);
    let text = panic_text(|| {
        while_loop(
            dev,
            &[iota(dev, 3)],
            |s| op(Op::Lt, &[&s[0], &lit(3u32)]),
            |s| vec![add(&s[0], &s[0].reduce(Op::ReduceSum))],
        );
    });
    assert!(text.contains("reduce_sum") && text.contains("loop opened at"), "{text}");
    let out = while_loop(
        dev,
        &[iota(dev, 3)],
        |s| op(Op::Lt, &[&s[0], &lit(6u32)]),
        |s| vec![add(&s[0], &x.reduce(Op::ReduceSum))],
    );
    assert_eq!(read::<u32>(&out[0]), [6, 7, 8], "operands from outside are fine");
}

#[test]
fn a_value_does_not_leave_its_region() {
    let (dev, _) = recorded();
    let mut escaped = None;
    while_loop(
        dev,
        &[iota(dev, 3)],
        |s| op(Op::Lt, &[&s[0], &lit(3u32)]),
        |s| {
            escaped = Some(s[0].clone());
            vec![add(&s[0], &lit(1u32))]
        },
    );
    let escaped = escaped.expect("set");
    let text = panic_text(|| drop(add(&escaped, &lit(2u32))));
    assert!(text.contains("not open here") && text.contains("decisions.rs"), "{text}");
    let text = panic_text(|| drop(escaped.read()));
    assert!(text.contains("region") || text.contains("loop"), "{text}");
}

#[test]
fn evaluating_inside_a_region_panics() {
    let (dev, _) = recorded();
    let x = upload(dev, &[1u32, 2]);
    let y = add(&x, &lit(1u32));
    for what in 0..2 {
        let text = panic_text(|| {
            while_loop(
                dev,
                std::slice::from_ref(&x),
                |s| op(Op::Lt, &[&s[0], &lit(3u32)]),
                |s| {
                    if what == 0 {
                        drop(y.read());
                    } else {
                        drop(eval(&[&y], &[]));
                    }
                    s
                },
            );
        });
        assert!(text.contains("inside a loop opened at") && text.contains("decisions.rs"), "{text}");
    }
    assert_eq!(read::<u32>(&y), [2, 3]);
}

#[test]
fn threads_share_a_device() {
    // Its own devices: tests beside this one use the shared ones.
    for dev in devices::fresh() {
        let baseline = dev.memory();
        let counts = BufferVar::new(&Var::full(dev, DType::U32, 0, 8));
        std::thread::scope(|scope| {
            for t in 0..8u32 {
                let counts = &counts;
                scope.spawn(move || {
                    let mut x = upload(dev, &[t; 16]);
                    for i in 0..50u32 {
                        x = add(&mul(&x, &lit(3u32)), &lit(i));
                        counts.scatter(Op::ScatterAdd, &lit(1u32), &lit(t), None);
                        if i % 10 == t % 10 {
                            run(&[&x], &[counts]);
                        }
                    }
                    let mut expected = t;
                    (0..50u32).for_each(|i| expected = expected.wrapping_mul(3).wrapping_add(i));
                    assert_eq!(read::<u32>(&x), [expected; 16]);
                });
            }
        });
        assert_eq!(read::<u32>(&counts.value()), [50; 8]);
        drop(counts);
        assert_eq!(dev.memory().nodes, baseline.nodes);
        assert_eq!(dev.memory().storages, baseline.storages);
    }
}

// ---- kernels ----

#[test]
fn only_roots_are_written() {
    let (dev, log) = recorded();
    let x = upload(dev, &[1.0f32; 100]);
    log.take_allocations();
    let mut y = x.clone();
    for i in 0..50 {
        y = add(&mul(&y, &lit(1.5f32)), &lit(i as f32 + 0.5));
    }
    let z = op(Op::Sqrt, &[&op(Op::Abs, &[&y])]);
    run(&[&y, &z], &[]);
    assert_eq!(log.take_allocations(), 2);
    let launched = log.take();
    assert_eq!(launched.len(), 1);
    assert_eq!(launched[0].bytes, 3 * 400);
    assert_eq!(launched[0].lanes, 100);
}

#[test]
fn size_1_work_is_inlined_where_it_is_used() {
    let (dev, log) = recorded();
    let scale = upload(dev, &[3.0f32]);
    let x = upload(dev, &[1.0f32, 2.0]);
    let factor = op(Op::Sqrt, &[&add(&scale, &lit(6.0f32))]);
    assert_eq!(read::<f32>(&mul(&x, &factor)), [3.0, 6.0]);
    assert_eq!(launches(&log), 1);
    assert_eq!(read::<f32>(&factor), [3.0]);
    assert_eq!(launches(&log), 1, "on its own it is a kernel of one lane");
}

#[test]
fn reductions_share_a_kernel_and_read_their_input_once() {
    let (dev, log) = recorded();
    let x = upload(dev, &[1.0f32, 5.0, 3.0]);
    let f = add(&mul(&x, &x), &lit(0.5f32));
    let count = Var::apply(Op::Cast, DType::F32, &[&f.lane_count()]);
    let (sum, min, max) = (f.reduce(Op::ReduceSum), f.reduce(Op::ReduceMin), f.reduce(Op::ReduceMax));
    let mean = op(Op::Div, &[&sum, &count]);
    run(&[&mean, &min, &max, &f], &[]);
    let launched = log.take();
    assert_eq!(launched.len(), 1);
    let inputs = launched[0].program.params.iter().filter(|p| p.kind == ParamKind::In).count();
    assert_eq!(inputs, 1);
    assert_eq!(read::<f32>(&mean), [36.5 / 3.0]);
    assert_eq!(read::<f32>(&min), [1.5]);
    assert_eq!(read::<f32>(&max), [25.5]);

    let dot = mul(&x, &f).reduce(Op::ReduceSum);
    let normalised = op(Op::Div, &[&x, &dot]);
    run(&[&normalised], &[]);
    assert_eq!(launches(&log), 2, "lanes that use a reduction come in a second kernel");
}

#[test]
fn a_gather_needs_its_source_in_memory_and_nothing_else() {
    let (dev, log) = recorded();
    let x = upload(dev, &[1u32, 2, 3]);
    let doubled = add(&x, &x);
    let picked = doubled.gather(&upload(dev, &[2u32, 0]), None);
    run(&[&add(&picked, &lit(7u32))], &[]);
    assert_eq!(launches(&log), 2);
    let direct = x.gather(&iota(dev, 3), None);
    assert!(direct.same(&x), "a gather of every element in order is the array");
}

#[test]
fn a_loop_that_one_kernel_needs_runs_there_and_others_load_its_result() {
    let (dev, log) = recorded();
    let x = upload(dev, &[1.0f32, 9.0, 4.0]);
    let halve = || {
        while_loop(
            dev,
            std::slice::from_ref(&x),
            |s| op(Op::Gt, &[&s[0], &lit(1.5f32)]),
            |s| vec![mul(&s[0], &lit(0.5f32))],
        )
        .remove(0)
    };
    let y = halve();
    assert_eq!(read::<f32>(&add(&y, &x)), [2.0, 10.125, 5.0]);
    drop(y);
    assert_eq!(launches(&log), 1);
    let y = halve();
    let centred = op(Op::Sub, &[&y, &y.reduce(Op::ReduceSum)]);
    drop(y);
    run(&[&centred], &[]);
    let launched = log.take();
    assert_eq!(launched.len(), 2);
    let loops = |i: usize| launched[i].program.body.insts.iter().filter(|x| x.op == Op::Loop).count();
    assert_eq!((loops(0), loops(1)), (1, 0), "the loop runs once and its result is stored");
}

// ---- the cache ----

#[test]
fn sizes_are_not_structure_but_size_1_is() {
    let (dev, log) = recorded();
    for n in [2usize, 3, 100, 1000, 0] {
        let x = upload(dev, &vec![1.5f32; n]);
        let mean =
            op(Op::Div, &[&x.reduce(Op::ReduceSum), &Var::apply(Op::Cast, DType::F32, &[&x.lane_count()])]);
        run(&[&mean, &add(&x, &x)], &[]);
    }
    assert_eq!(log.compilations(), 1);
    run(&[&add(&upload(dev, &[1.0f32]), &lit(0.5f32))], &[]);
    run(&[&add(&upload(dev, &[1.0f32, 2.0]), &lit(0.5f32))], &[]);
    assert_eq!(log.compilations(), 3);
}

#[test]
fn which_leaves_coincide_is_structure() {
    let (dev, log) = recorded();
    let (x, y) = (upload(dev, &[1.0f32, 2.0]), upload(dev, &[3.0f32, 5.0]));
    assert_eq!(read::<f32>(&add(&mul(&x, &x), &y)), [4.0, 9.0]);
    assert_eq!(read::<f32>(&add(&mul(&x, &y), &y)), [6.0, 15.0]);
    assert_eq!(read::<f32>(&add(&mul(&y, &x), &y)), [6.0, 15.0]);
    assert!(log.compilations() >= 2);
}

#[test]
fn a_changing_float_costs_one_more_compilation() {
    let (dev, log) = recorded();
    let x = upload(dev, &[1.0f32, 2.0]);
    let mut values: Vec<f32> = vec![0.0, 1.0, -1.0, 2.0];
    values.extend((0..100).map(|i| 0.3 + i as f32 * 0.7));
    for &v in &values {
        for &w in &[v, 2.5] {
            let y = add(&mul(&x, &lit(v)), &lit(w));
            assert_eq!(read::<f32>(&y), [1.0 * v + w, 2.0 * v + w]);
        }
    }
    let first = log.compilations();
    // Structures: two general literals, one shared, and those with 0, 1, -1 in one or both places.
    assert!(first <= 20, "{first} compilations");
    for &v in &values {
        let y = add(&mul(&x, &lit(v * 1.25 + 0.1)), &lit(v * 3.0 + 0.2));
        run(&[&y], &[]);
    }
    assert!(log.compilations() <= first + 2, "{} after {first}", log.compilations());
    let misses = dev.kernel_history().iter().filter(|r| r.cache != CacheOutcome::Hit).count();
    assert_eq!(misses, log.compilations());
}

#[test]
fn divisors_shifts_masks_and_bounds_stay_baked_for_a_few_values() {
    let (dev, log) = recorded();
    let x = upload(dev, &[1000u32, 77]);
    for divisor in [3u32, 5, 7, 11] {
        assert_eq!(read::<u32>(&op(Op::Div, &[&x, &lit(divisor)])), [1000 / divisor, 77 / divisor]);
        let baked = dev.last_program().expect("a kernel");
        assert!(baked.params.iter().all(|p| p.kind != ParamKind::Scalar), "{baked}");
    }
    assert_eq!(log.compilations(), 4);
    for divisor in (13u32..113).filter(|d| !d.is_power_of_two()) {
        assert_eq!(read::<u32>(&op(Op::Div, &[&x, &lit(divisor)])), [1000 / divisor, 77 / divisor]);
    }
    assert_eq!(log.compilations(), 5, "then it becomes a parameter");
}

#[test]
fn integers_that_differ_become_parameters() {
    let (dev, log) = recorded();
    let x = upload(dev, &[1u32, 2]);
    for i in 0..100u32 {
        let y = op(Op::Xor, &[&add(&x, &lit(11 + i * 2)), &lit(0x7777u32)]);
        assert_eq!(read::<u32>(&y), [(12 + i * 2) ^ 0x7777, (13 + i * 2) ^ 0x7777]);
    }
    assert_eq!(log.compilations(), 2);
    let program = dev.last_program().expect("a kernel");
    assert_eq!(program.params.iter().filter(|p| p.kind == ParamKind::Scalar).count(), 1, "{program}");
}

#[test]
fn an_assumption_about_lengths_that_fails_costs_a_kernel_and_no_result() {
    let (dev, log) = recorded();
    let index = upload(dev, &[0u32, 5, 9, 17]);
    let masked = op(Op::And, &[&index, &lit(15u32)]);
    let long = upload(dev, &(0..16u32).collect::<Vec<_>>());
    let short = upload(dev, &[7u32, 8]);
    assert_eq!(read::<u32>(&long.gather(&masked, None)), [0, 5, 9, 1]);
    assert_eq!(read::<u32>(&short.gather(&masked, None)), [7, 0, 0, 8]);
    assert_eq!(read::<u32>(&long.gather(&masked, None)), [0, 5, 9, 1]);
    assert_eq!(log.compilations(), 2, "with and without the bounds test");
    let misses = dev.kernel_history().iter().filter(|r| r.cache != CacheOutcome::Hit).count();
    assert_eq!(misses, 2, "the history says so");
}

#[test]
fn the_history_agrees_with_the_backend() {
    let (dev, log) = recorded();
    let x = upload(dev, &[1.0f32, 2.0, 4.0]);
    let buffer = BufferVar::new(&Var::full(dev, DType::F32, 0, 3));
    for i in 0..5 {
        let y = add(&mul(&x, &lit(i as f32 + 0.5)), &x.reduce(Op::ReduceSum));
        buffer.scatter(Op::ScatterAdd, &y, &iota(dev, 3), None);
        run(&[&y], &[&buffer]);
    }
    let (history, launched) = (dev.kernel_history(), log.take());
    assert_eq!(history.len(), launched.len());
    for (record, launch) in history.iter().zip(&launched) {
        assert_eq!(record.lanes, launch.lanes);
        assert_eq!(record.bytes, launch.bytes);
        assert_eq!(record.ops, launch.program.inst_count());
    }
    let misses = history.iter().filter(|r| r.cache != CacheOutcome::Hit).count();
    assert_eq!(misses, log.compilations());
}

#[test]
fn evaluation_does_not_wait() {
    devices::on_each(|dev| {
        let (open, gate) = std::sync::mpsc::channel::<()>();
        let held = dev.submit_call(move || gate.recv().expect("opened"));
        let x = upload(dev, &[1.0f32, 2.0]);
        let y = add(&x, &lit(1.0f32));
        let event = eval(&[&y], &[]).expect("evaluation");
        assert!(!event.is_complete().expect("no error") && !held.is_complete().expect("no error"));
        let forbidden = jit_core::runtime::forbid_host_sync(|| y.read());
        assert!(forbidden.is_err_and(|e| e.to_string().contains("forbid_host_sync")));
        open.send(()).expect("held");
        assert_eq!(read::<f32>(&y), [2.0, 3.0]);
        assert!(event.is_complete().expect("no error"));
    });
}

#[test]
fn contraction_is_asked_for_and_never_a_default() {
    let contract = |float_mode| {
        let backend =
            std::sync::Arc::new(jit_core::interp::Interpreter::new(jit_core::interp::Mode::Lowered));
        let options = DeviceOptions { float_mode, ..DeviceOptions::default() };
        let dev = Device::new(backend, options);
        // 1 + 2^-12, squared, has a last bit that only one rounding keeps.
        let x = upload(dev, &[1.0 + 2.0f32.powi(-12)]);
        read::<f32>(&op(Op::Sub, &[&mul(&x, &x), &lit(1.0f32 + 2.0f32.powi(-11))]))
    };
    assert_eq!(contract(FloatMode::Strict), [0.0]);
    assert_eq!(contract(FloatMode::Contract), [2.0f32.powi(-24)]);
    assert_eq!(contract(FloatMode::Fast), [2.0f32.powi(-24)]);
    // A scope of the program has the last word, whatever the device's mode.
    for device in [FloatMode::Strict, FloatMode::Contract] {
        assert_eq!(with_float_mode(FloatMode::Strict, || contract(device)), [0.0]);
        assert_eq!(with_float_mode(FloatMode::Contract, || contract(device)), [2.0f32.powi(-24)]);
        let inner =
            with_float_mode(FloatMode::Contract, || with_float_mode(FloatMode::Strict, || contract(device)));
        assert_eq!(inner, [0.0]);
    }
}

/// The mode is part of an op, and of what kernels are found by.
#[test]
fn one_expression_in_two_modes_is_two() {
    let dev = Device::interpreter(jit_core::interp::Mode::Lowered);
    let x = upload(dev, &[9.0f32; 5]);
    let seventh = || op(Op::Div, &[&x, &lit(7.0f32)]);
    let (strict, fast) = (seventh(), with_float_mode(FloatMode::Fast, seventh));
    assert!(!strict.same(&fast) && strict.same(&seventh()));
    assert!(fast.same(&with_float_mode(FloatMode::Fast, seventh)));
    assert_eq!(read::<f32>(&strict), [9.0 / 7.0; 5]);
    assert_eq!(read::<f32>(&fast), [9.0 * (1.0 / 7.0f32); 5]);
    assert_ne!(9.0 / 7.0f32, 9.0 * (1.0 / 7.0f32));
    let fails = std::panic::catch_unwind(|| with_float_mode(FloatMode::Fast, || panic!("in a scope")));
    // The scope ends with a panic too.
    assert!(fails.is_err());
    assert_eq!(read::<f32>(&seventh()), [9.0 / 7.0; 5]);
}

#[test]
fn labels_are_one_word_in_dumps() {
    let (dev, log) = recorded();
    let x = upload(dev, &[1.0f32, 2.0]);
    let y = add(&x, &lit(2.5f32));
    y.set_label("two\nlines and a \"quote\"");
    let text = y.trace();
    assert!(text.contains(r#""two\nlines and a \"quote\"""#), "{text}");
    assert_eq!(text.lines().count(), 4);
    run(&[&y], &[]);
    drop(y);
    run(&[&add(&x, &lit(2.5f32))], &[]);
    assert_eq!(log.compilations(), 1, "names are no structure");
}

#[test]
fn a_lazy_reader_that_outlives_the_plan_keeps_the_old_version() {
    let (dev, _) = recorded();
    for depth in 0..3 {
        let buffer = BufferVar::new(&upload(dev, &[1u32, 2, 3]));
        let mut reader = buffer.gather(&op(Op::Sub, &[&lit(2u32), &iota(dev, 3)]), None);
        for _ in 0..depth {
            reader = add(&reader, &lit(10u32));
        }
        let root = mul(&reader, &lit(3u32));
        buffer.scatter(Op::Scatter, &lit(50u32), &iota(dev, 2), None);
        // The reader is part of this plan but nobody asked for it, so it stays lazy.
        run(&[&root], &[&buffer]);
        assert_eq!(read::<u32>(&buffer.value()), [50, 50, 3]);
        let old = [3u32, 2, 1].map(|v| v + 10 * depth);
        assert_eq!(read::<u32>(&reader), old, "depth {depth}");
        assert_eq!(read::<u32>(&root), old.map(|v| v * 3));
    }
}

#[test]
fn an_effect_does_not_run_again_for_a_lazy_reader_of_its_result() {
    devices::on_each(|dev| {
        let buffer = BufferVar::new(&upload(dev, &[5u32, 6]));
        let reader = add(&buffer.atomic_inc(&iota(dev, 2), None), &lit(10u32));
        let root = mul(&reader, &lit(3u32));
        run(&[&root], &[]);
        assert_eq!(read::<u32>(&buffer.value()), [6, 7]);
        assert_eq!(read::<u32>(&reader), [15, 16]);
        assert_eq!(read::<u32>(&buffer.value()), [6, 7], "it ran once");

        let out = while_loop(
            dev,
            &[iota(dev, 2)],
            |s| op(Op::Lt, &[&s[0], &lit(3u32)]),
            |s| {
                buffer.scatter(Op::ScatterAdd, &lit(100u32), &lit(0u32), None);
                vec![add(&s[0], &lit(1u32))]
            },
        );
        let reader = add(&out[0], &lit(20u32));
        drop(out);
        let root = mul(&reader, &lit(2u32));
        run(&[&root], &[]);
        assert_eq!(read::<u32>(&reader), [23, 23]);
        assert_eq!(read::<u32>(&root), [46, 46]);
        assert_eq!(read::<u32>(&buffer.value()), [506, 7]);
    });
}

#[test]
fn a_buffer_of_another_device_is_refused_inside_a_region() {
    let (dev, _) = recorded();
    let (other, _) = recorded();
    let buffer = BufferVar::new(&upload(other, &[0u32]));
    for reads in [false, true] {
        let text = panic_text(|| {
            while_loop(
                dev,
                &[iota(dev, 3)],
                |s| op(Op::Lt, &[&s[0], &lit(3u32)]),
                |s| {
                    if reads {
                        drop(buffer.gather(&lit(0u32), None));
                    } else {
                        buffer.scatter(Op::ScatterAdd, &lit(1u32), &lit(0u32), None);
                    }
                    vec![add(&s[0], &lit(1u32))]
                },
            );
        });
        assert!(text.contains("two devices"), "{text}");
    }
    assert_eq!(read::<u32>(&buffer.value()), [0]);
}
