//! Arrays that a lane's own closure of a switch writes, or not.

use jit_core::dtype::Element;
use jit_frontend::{Array, LocalArray, f16, switch, while_loop};

use super::{LANES, array, host, lanes, number, zeros};
use crate::devices::on_each;

/// What a lane's array holds, as plain Rust has it.
type Twin = [u32; 4];

/// Reads all elements and compares.
#[track_caller]
fn same(got: &LocalArray<u32, 4>, expected: impl Fn(u32) -> Twin, n: usize, what: &str) {
    for k in 0..4u32 {
        let wanted: Vec<u32> = (0..n as u32).map(|lane| expected(lane)[k as usize]).collect();
        assert_eq!(host(&got.read(k)), wanted, "{what}: element {k} of {n} lanes");
    }
}

/// Different on each lane and in each element.
fn filled(n: usize, device: jit_core::runtime::Device) -> LocalArray<u32, 4> {
    let lane = lanes(device, n);
    let mut local = zeros::<u32, 4>();
    for k in 0..4u32 {
        local.write(k, &lane * 10 + k);
    }
    local
}

fn before(lane: u32) -> Twin {
    [0, 1, 2, 3].map(|k| lane * 10 + k)
}

#[test]
fn one_closure_writes_and_another_does_not() {
    for n in LANES {
        on_each(|device| {
            let lane = lanes(device, n);
            // Closures 0 to 2, and lanes that take none.
            let which = &lane * 3 % 5;
            let (after, sum) = switch(
                &which,
                filled(n, device),
                &[
                    &|mut local: LocalArray<u32, 4>| {
                        local.write(&lane % 4, 7u32);
                        (local, Array::from(1u32))
                    },
                    &|local| (local.clone(), local.read(0u32) + local.read(3u32)),
                    &|_| (zeros(), Array::from(3u32)),
                ],
            );
            let expected = |lane: u32| match lane * 3 % 5 {
                0 => {
                    let mut local = before(lane);
                    local[lane as usize % 4] = 7;
                    local
                }
                1 => before(lane),
                _ => [0; 4],
            };
            same(&after, expected, n, "after");
            let sums = (0..n as u32).map(|lane| match lane * 3 % 5 {
                0 => 1,
                1 => lane * 20 + 3,
                2 => 3,
                _ => 0,
            });
            assert_eq!(host(&sum), sums.collect::<Vec<_>>());
        });
    }
}

#[test]
fn what_was_there_before_stays_as_it_was() {
    for n in LANES {
        on_each(|device| {
            let lane = lanes(device, n);
            let local = filled(n, device);
            // Captured, not given: read after the switch as well, so that no closure may write in its place.
            let after = switch(
                &(&lane % 3),
                (),
                &[
                    &|()| {
                        let mut own = local.clone();
                        own.write(1u32, &lane + 100);
                        own
                    },
                    &|()| local.clone(),
                ],
            );
            let expected = |lane: u32| match lane % 3 {
                0 => [lane * 10, lane + 100, lane * 10 + 2, lane * 10 + 3],
                1 => before(lane),
                _ => [0; 4],
            };
            same(&after, expected, n, "after");
            same(&local, before, n, "before");
        });
    }
}

#[test]
fn arrays_change_places() {
    for n in LANES {
        on_each(|device| {
            let lane = lanes(device, n);
            let mut other = zeros::<u32, 4>();
            other.write(2u32, &lane + 5);
            let (a, b) = switch(
                &(&lane % 4),
                (filled(n, device), other),
                &[&|(a, b)| (b, a), &|(a, _)| (a.clone(), a), &|(mut a, b)| {
                    a.write(0u32, b.read(2u32));
                    (b, a)
                }],
            );
            let second = |lane: u32| [0, 0, lane + 5, 0];
            let given = |lane: u32| match lane % 4 {
                0 => (second(lane), before(lane)),
                1 => (before(lane), before(lane)),
                2 => (second(lane), [lane + 5, lane * 10 + 1, lane * 10 + 2, lane * 10 + 3]),
                _ => ([0; 4], [0; 4]),
            };
            same(&a, |lane| given(lane).0, n, "first");
            same(&b, |lane| given(lane).1, n, "second");
        });
    }
}

#[test]
fn a_small_machine_with_a_stack() {
    /// The top of the stack after a program of pushes, additions, multiplications, swaps and no-ops.
    fn twin(lane: u32, program: &[u8]) -> u32 {
        let (mut stack, mut depth) = ([lane, lane + 1, 0, 0, 0, 0, 0, 0], 2usize);
        for (at, &op) in program.iter().enumerate() {
            match (op + lane as u8) % 5 {
                0 => {
                    stack[depth] = at as u32;
                    depth += 1;
                }
                1 if depth > 1 => {
                    stack[depth - 2] = stack[depth - 2].wrapping_add(stack[depth - 1]);
                    depth -= 1;
                }
                2 => stack[depth - 1] = stack[depth - 1].wrapping_mul(3),
                3 if depth > 1 => stack.swap(depth - 1, depth - 2),
                _ => {}
            }
        }
        stack[depth - 1]
    }
    let program: Vec<u8> = (0..12u8).map(|k| k.wrapping_mul(7) % 5).collect();
    // No more pushes on any lane than there is room for.
    for lane in 0..5u8 {
        assert!(program.iter().filter(|&&op| (op + lane) % 5 == 0).count() <= 6);
    }
    for n in LANES {
        on_each(|device| {
            let lane = lanes(device, n);
            let code = array(device, &program);
            let mut stack = zeros::<u32, 8>();
            stack.write(0u32, &lane);
            stack.write(1u32, &lane + 1);
            let start = (stack, number(device, 2u32), number(device, 0u32));
            let (stack, depth, _) = while_loop(
                start,
                |(_, _, at)| at.lt(program.len() as u32),
                |(stack, depth, at)| {
                    let op = (code.gather(&at).cast::<u32>() + &lane) % 5;
                    let (top, below) = (&depth - 1, &depth - 2);
                    // With one element there is nothing to add or swap.
                    let op = (depth.lt(2) & (op.eq(1) | op.eq(3))).select(4u32, op);
                    type State = (LocalArray<u32, 8>, Array<u32>);
                    let (stack, depth): State = switch(
                        &op,
                        (stack, depth),
                        &[
                            &|(mut stack, depth): State| {
                                stack.write(&depth, &at);
                                (stack, depth + 1)
                            },
                            &|(mut stack, depth)| {
                                stack.write(&below, stack.read(&below) + stack.read(&top));
                                (stack, depth - 1)
                            },
                            &|(mut stack, depth)| {
                                stack.write(&top, stack.read(&top) * 3);
                                (stack, depth)
                            },
                            &|(mut stack, depth)| {
                                let (first, second) = (stack.read(&top), stack.read(&below));
                                stack.write(&top, second);
                                stack.write(&below, first);
                                (stack, depth)
                            },
                            &|state| state,
                        ],
                    );
                    (stack, depth, at + 1)
                },
            );
            let expected = (0..n as u32).map(|lane| twin(lane, &program));
            assert_eq!(host(&stack.read(depth - 1)), expected.collect::<Vec<_>>(), "{n} lanes");
        });
    }
}

#[test]
fn elements_of_every_size() {
    fn check<T: Element>(one: T) {
        for n in LANES {
            on_each(|device| {
                let which = lanes(device, n) % 3;
                let local = switch(
                    &which,
                    zeros::<T, 3>(),
                    &[
                        &|mut local: LocalArray<T, 3>| {
                            local.write(2u32, Array::from(one));
                            local
                        },
                        &|local| local,
                    ],
                );
                let expected: Vec<u64> =
                    (0..n).map(|lane| if lane % 3 == 0 { one.to_bits() } else { 0 }).collect();
                let got: Vec<u64> = host(&local.read(2u32)).into_iter().map(Element::to_bits).collect();
                assert_eq!(got, expected, "{}, {n} lanes", T::DTYPE);
                assert!(host(&local.read(1u32)).into_iter().all(|element| element.to_bits() == 0));
            });
        }
    }
    check(true);
    check(-3i8);
    check(0x1234u16);
    check(f16::from_f32(1.5));
    check(-1.5f32);
    check(u64::MAX - 1);
    check(0.1f64);
}
