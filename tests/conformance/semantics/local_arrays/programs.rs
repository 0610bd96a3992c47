//! What local arrays are for: stacks, histograms, sorting, on many lanes that go their own ways.

use jit_frontend::{Array, if_else, while_loop};

use super::{array, host, lanes, number, zeros};
use crate::devices::on_each;

/// A binary tree over 0..64 with random left and right bounds; inner nodes have children 2k and 2k + 1.
fn visits(query: u32) -> (u32, u32) {
    let (mut stack, mut found, mut visited) = (vec![1u32], 0u32, 0u32);
    while let Some(node) = stack.pop() {
        visited += 1;
        let (low, high) = bounds(node);
        if query < low || query >= high {
            continue;
        }
        if node >= 64 {
            found = found.wrapping_mul(3).wrapping_add(node);
        } else {
            stack.push(2 * node);
            stack.push(2 * node + 1);
        }
    }
    (found, visited)
}

/// Overlapping, so that both children may be worth a visit.
fn bounds(node: u32) -> (u32, u32) {
    let level = node.ilog2();
    let width = 64 >> level;
    let first = (node - (1 << level)) * width;
    (first.saturating_sub(node % 5), first + width + node % 7)
}

#[test]
fn a_tree_is_walked_with_a_stack() {
    let (lows, highs): (Vec<u32>, Vec<u32>) = (0..128).map(|node| bounds(node.max(1))).unzip();
    for n in [5, 64, 1000] {
        on_each(|device| {
            let (lows, highs) = (array(device, &lows), array(device, &highs));
            let query = lanes(device, n) * 37 % 71;
            let mut stack = zeros::<u32, 16>();
            stack.write(number(device, 0u32), 1u32);
            let start = (stack, number(device, 1u32), Array::from(0u32), Array::from(0u32));
            let (_, _, found, visited) = while_loop(
                start,
                |(_, depth, ..)| depth.gt(0),
                |(mut stack, depth, found, visited)| {
                    let depth = depth - 1;
                    let node = stack.read(&depth);
                    let hit = query.ge(lows.gather(&node)) & query.lt(highs.gather(&node));
                    let leaf = &hit & node.ge(64);
                    let inner = &hit & node.lt(64);
                    stack.write_masked(&depth, &node * 2, &inner);
                    stack.write_masked(&depth + 1, &node * 2 + 1, &inner);
                    let found = leaf.select(found.clone() * 3 + &node, found);
                    (stack, inner.select(&depth + 2, depth), found, visited + 1)
                },
            );
            let (expected, visits): (Vec<u32>, Vec<u32>) =
                (0..n as u32).map(|lane| visits(lane * 37 % 71)).unzip();
            assert_eq!(host(&found), expected);
            assert_eq!(host(&visited), visits);
        });
    }
}

#[test]
fn the_same_with_branches() {
    on_each(|device| {
        let (lows, highs): (Vec<u32>, Vec<u32>) = (0..128).map(|node| bounds(node.max(1))).unzip();
        let (lows, highs) = (array(device, &lows), array(device, &highs));
        let query = lanes(device, 71);
        let mut stack = zeros::<u16, 16>();
        stack.write(number(device, 0u8), 1u16);
        let (.., found) = while_loop(
            (stack, number(device, 1i8), Array::from(0u32)),
            |(_, depth, _)| depth.gt(0),
            |(stack, depth, found)| {
                let depth = depth - 1;
                let node = stack.read(&depth).cast::<u32>();
                let hit = query.ge(lows.gather(&node)) & query.lt(highs.gather(&node));
                if_else(
                    &hit,
                    (stack, depth, found),
                    |(stack, depth, found)| {
                        if_else(
                            &node.lt(64),
                            (stack, depth, found),
                            |(mut stack, depth, found)| {
                                let child = node.cast::<u16>() * 2;
                                stack.write(&depth, &child);
                                stack.write(&depth + 1, child + 1);
                                (stack, depth + 2, found)
                            },
                            |(stack, depth, found)| (stack, depth, found * 3 + &node),
                        )
                    },
                    |unchanged| unchanged,
                )
            },
        );
        assert_eq!(host(&found), (0..71).map(|query| visits(query).0).collect::<Vec<_>>());
    });
}

#[test]
fn each_lane_counts_into_its_histogram() {
    let digits = |lane: u64| lane.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 3;
    on_each(|device| {
        for n in [7, 16, 129] {
            let start: Vec<u64> = (0..n).map(digits).collect();
            let (_, counts) = while_loop(
                (array(device, &start), zeros::<u8, 10>()),
                |(rest, _)| rest.gt(0),
                |(rest, mut counts)| {
                    let digit = &rest % 10;
                    counts.write(&digit, counts.read(&digit) + 1);
                    (rest / 10, counts)
                },
            );
            for digit in 0..10u32 {
                let count = |number: &u64| {
                    number.to_string().bytes().filter(|&b| u32::from(b - b'0') == digit).count() as u8
                };
                let expected: Vec<u8> = start.iter().map(|n| if *n == 0 { 0 } else { count(n) }).collect();
                assert_eq!(host(&counts.read(digit)), expected, "digit {digit}");
            }
        }
    });
}

/// `total_cmp`'s order is `<` where there is neither NaN nor a zero with a sign.
fn numbers(lane: u32) -> Vec<f32> {
    (0..12u32).map(|k| ((lane * 31 + k * k * 17 + k) % 41) as f32 * 0.75 - 11.0).collect()
}

#[test]
fn each_lane_sorts_by_insertion() {
    on_each(|device| {
        let n = 40;
        let mut local = zeros::<f32, 12>();
        for k in 0..12 {
            let column: Vec<f32> = (0..n).map(|lane| numbers(lane)[k]).collect();
            local.write(k as u32, array(device, &column));
        }
        let (_, sorted) = while_loop(
            (Array::from(1i32), local),
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
        for k in 0..12 {
            let expected: Vec<f32> = (0..n)
                .map(|lane| {
                    let mut numbers = numbers(lane);
                    numbers.sort_by(f32::total_cmp);
                    numbers[k]
                })
                .collect();
            assert_eq!(host(&sorted.read(k as u32)), expected, "place {k}");
        }
    });
}
