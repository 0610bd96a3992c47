//! Where local arrays are stored: in place where nobody can tell, and right in every case.

use std::cell::Cell;

use jit_core::backend::PassLevel;
use jit_core::dtype::DType;
use jit_core::interp::{Interpreter, Mode};
use jit_core::ir::{Places, parse, verify};
use jit_core::op::Op;
use jit_core::passes::{self, Bounds, Options};
use jit_core::trace::Var;
use jit_frontend::{Array, LocalArray, if_else, while_loop};
use proptest::collection::vec;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

use crate::devices::llvm;
use crate::random_ir::{assert_equal, case_of_independent_lanes};

const CASES: u32 = 400;

#[test]
fn code_generators_keep_every_version() {
    let processors = [4, 8, 16].map(llvm);
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let (writes, copies) = (Cell::new(0), Cell::new(0));
    let outcome = runner.run(&vec(proptest::num::u32::ANY, 100..900), |tape| {
        let case = case_of_independent_lanes(&tape);
        let program = &case.program;
        verify(program).unwrap_or_else(|e| panic!("the generator broke a rule: {e}\n{program}"));
        let mut optimised = program.clone();
        let options = Options { bounds: Bounds::Off, ..Options::default() };
        passes::run(&mut optimised, PassLevel::Full, &options, &mut |_, _| {});
        program.for_each_inst(&mut |inst| writes.set(writes.get() + usize::from(inst.op == Op::LocalWrite)));
        copies.set(copies.get() + Places::of(program, &program.body).copies(&program.body));
        let expected = case.run(&Interpreter::new(Mode::Lowered), program);
        for backend in &processors {
            for program in [program, &optimised] {
                assert_equal(program, &expected, &case.run(&**backend, program));
            }
        }
        Ok(())
    });
    if let Err(TestError::Fail(why, tape)) = outcome {
        panic!("{why}\n{}", case_of_independent_lanes(&tape).program);
    }
    let (writes, copies) = (writes.get(), copies.get());
    assert!(writes > CASES as usize && copies > CASES as usize / 4, "{writes} writes, {copies} copies");
}

/// Slots and copies of a program's body.
#[track_caller]
fn check(text: &str, slots: usize, copies: usize) {
    let program = parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    verify(&program).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let places = Places::of(&program, &program.body);
    assert_eq!((places.slots().len(), places.copies(&program.body)), (slots, copies), "{places:?}\n{text}");
}

/// A loop over `v2: u32` with local arrays as its state, which starts as zeros.
fn looped(arrays: usize, body: &str, next: &str) -> String {
    let list = |from: usize| (0..arrays).map(|k| format!(", v{}: u32[4]", from + k)).collect::<String>();
    let init = (0..arrays).map(|k| format!(", v{}: u32[4] = v1", 20 + k)).collect::<String>();
    format!(
        "body {{
           v0: u32 = counter
           v1: u32[4] = local_zeros
           v9: u32{} = loop (v2: u32 = v0{init}) {{
             v3: bool = lt v2, v0
             while v3
           }} do {{
             {body}
             yield v2{next}
           }}
         }}",
        list(10)
    )
}

#[test]
fn loops_write_in_place() {
    let push = "v30: u32 = local_read v20[v2] v31: u32[4] = local_write v20[v2], v30";
    check(&looped(1, push, ", v31"), 1, 0);
    let twice = "v31: u32[4] = local_write v20[v2], v2 v32: u32 = local_read v31[v0] v33: u32[4] = local_write v31[v0], v32";
    check(&looped(1, twice, ", v33"), 1, 0);
    let two = "v31: u32[4] = local_write v20[v2], v2 v32: u32 = local_read v31[v0] v33: u32[4] = local_write v21[v0], v32";
    check(&looped(2, two, ", v31, v33"), 2, 0);
    check(&looped(1, "", ", v1"), 1, 0);
}

#[test]
fn what_is_read_after_a_write_is_copied() {
    let late = "v31: u32[4] = local_write v20[v2], v2 v30: u32 = local_read v20[v2] v32: u32[4] = local_write v31[v0], v30";
    // To the new version's slot, and at the end of the turn back to the state's.
    check(&looped(1, late, ", v32"), 2, 2);
}

#[test]
fn a_swap_goes_round_by_a_spare_slot() {
    check(&looped(2, "", ", v21, v20"), 3, 3);
    let written = "v31: u32[4] = local_write v20[v2], v2";
    check(&looped(2, written, ", v21, v31"), 3, 3);
    check(&looped(3, "", ", v21, v22, v20"), 4, 4);
    // No circle: the first array is forgotten.
    check(&looped(2, "", ", v21, v21"), 2, 1);
}

#[test]
fn branches_write_in_place() {
    let one_side = "v30: bool = lt v2, v0 v31: u32[4] = if v30 { v32: u32[4] = local_write v20[v2], v2 yield v32 } else { yield v20 }";
    check(&looped(1, one_side, ", v31"), 1, 0);
    let both = "v30: bool = lt v2, v0 v31: u32[4] = if v30 { v32: u32[4] = local_write v20[v2], v2 yield v32 } else { v33: u32 = local_read v20[v0] v34: u32[4] = local_write v20[v0], v33 yield v34 }";
    check(&looped(1, both, ", v31"), 1, 0);
    let kept = "v30: bool = lt v2, v0 v31: u32[4] = if v30 { v32: u32[4] = local_write v20[v2], v2 yield v32 } else { yield v20 } v33: u32 = local_read v20[v2] v34: u32[4] = local_write v31[v33], v33";
    check(&looped(1, kept, ", v34"), 2, 3);
}

#[test]
fn inner_loops_write_in_place() {
    let inner = "v30: u32, v31: u32[4] = loop (v32: u32 = v2, v33: u32[4] = v20) {
        v34: bool = lt v32, v0 while v34
      } do {
        v35: u32[4] = local_write v33[v32], v2 yield v32, v35
      }
      v36: u32 = local_read v31[v0]
      v37: u32[4] = local_write v31[v36], v0";
    check(&looped(1, inner, ", v37"), 1, 0);
}

#[test]
fn captured_arrays_are_copied_when_written() {
    let text = looped(
        1,
        "v31: u32[4] = local_write v5[v2], v2 v32: u32 = local_read v31[v0] v33: u32[4] = local_write v20[v32], v2",
        ", v33",
    );
    let text = text.replace("v9: u32", "v5: u32[4] = local_write v1[v0], v0\n v9: u32");
    check(&text, 3, 1);
}

#[test]
fn slots_are_used_again() {
    let text = "body {
        v0: u32 = counter
        v1: u32[4] = local_zeros
        v2: u32[4] = local_write v1[v0], v0
        v3: u32 = local_read v2[v0]
        v4: u32[4] = local_write v1[v3], v0
        v5: u32 = local_read v4[v3]
        v6: f32[4] = local_zeros
        v7: f32 = cast v5
        v8: f32[4] = local_write v6[v5], v7
      }";
    check(text, 2, 0);
}

/// Copies in what evaluating an array would launch.
#[track_caller]
fn copies_of(array: &Array<u32>, writes: usize) -> usize {
    let (mut copies, mut found) = (0, 0);
    for mut program in array.as_var().programs() {
        for level in [PassLevel::None, PassLevel::Full] {
            passes::run(&mut program, level, &Options::default(), &mut |_, _| {});
            copies += Places::of(&program, &program.body).copies(&program.body);
        }
        program.for_each_inst(&mut |inst| found += usize::from(inst.op == Op::LocalWrite));
    }
    assert_eq!(found, writes, "writes in the programs");
    copies
}

fn lanes(n: u64) -> Array<u32> {
    Array::from_var(Var::counter(crate::devices::all()[0], DType::U32, n))
}

#[test]
fn a_stack_is_never_copied() {
    let query = lanes(100);
    let mut stack = LocalArray::<u32, 16>::zeros();
    stack.write(query.zeros_like(), 1u32);
    let (_, _, found) = while_loop(
        (stack, Array::from(1u32), Array::from(0u32)),
        |(_, depth, _)| depth.gt(0),
        |(mut stack, depth, found)| {
            let depth = depth - 1;
            let node = stack.read(&depth);
            let inner = node.lt(64) & node.lt(&query);
            stack.write_masked(&depth, &node * 2, &inner);
            stack.write_masked(&depth + 1, &node * 2 + 1, &inner);
            (stack, inner.select(&depth + 2, depth), found + node)
        },
    );
    assert_eq!(copies_of(&found, 3), 0);
}

#[test]
fn a_stack_is_never_copied_in_branches() {
    let query = lanes(100);
    let mut stack = LocalArray::<u32, 16>::zeros();
    stack.write(query.zeros_like(), 1u32);
    let (_, _, found) = while_loop(
        (stack, Array::from(1u32), Array::from(0u32)),
        |(_, depth, _)| depth.gt(0),
        |(stack, depth, found)| {
            let depth = depth - 1;
            let node = stack.read(&depth);
            if_else(
                &(node.lt(64) & node.lt(&query)),
                (stack, depth, found),
                |(mut stack, depth, found)| {
                    stack.write(&depth, &node * 2);
                    stack.write(&depth + 1, &node * 2 + stack.read(&depth));
                    (stack, depth + 2, found)
                },
                |(stack, depth, found)| (stack, depth, found + &node),
            )
        },
    );
    assert_eq!(copies_of(&found, 3), 0);
}

#[test]
fn sorting_and_counting_copy_nothing() {
    let lane = lanes(100);
    let mut local = LocalArray::<u32, 12>::zeros();
    (0..12u32).for_each(|k| local.write(k, &lane * (k * 7 + 1) % 13));
    let (_, sorted) = while_loop(
        (Array::from(1u32), local),
        |(i, _)| i.lt(12),
        |(i, local)| {
            let value = local.read(&i);
            let (hole, mut local) = while_loop(
                (i.clone(), local),
                |(hole, local)| hole.gt(0) & local.read(hole - 1).gt(&value),
                |(hole, mut local)| {
                    let before = &hole - 1;
                    local.write(&hole, local.read(&before));
                    (before, local)
                },
            );
            local.write(hole, value);
            (i + 1, local)
        },
    );
    assert_eq!(copies_of(&sorted.read(3u32), 14), 0);
    let (_, counts) = while_loop(
        (lane, LocalArray::<u32, 10>::zeros()),
        |(rest, _)| rest.gt(0),
        |(rest, mut counts)| {
            let digit = &rest % 10;
            counts.write(&digit, counts.read(&digit) + 1);
            (rest / 10, counts)
        },
    );
    assert_eq!(copies_of(&counts.read(3u32), 1), 0);
}

#[test]
fn elements_read_before_a_write_need_no_copy_whenever_they_are_used() {
    let lane = lanes(100);
    let (_, _, sum) = while_loop(
        (Array::from(0u32), LocalArray::<u32, 4>::zeros(), lane.zeros_like()),
        |(turn, ..)| turn.lt(&lane),
        |(turn, mut local, sum)| {
            let old = local.read(&turn % 4);
            local.write(&turn % 4, &turn);
            let new = local.read((&turn + 1) % 4);
            (turn + 1, local, new - old + sum)
        },
    );
    assert_eq!(copies_of(&sum, 1), 0);
}
