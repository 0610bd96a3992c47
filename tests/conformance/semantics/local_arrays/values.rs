//! Elements of every type and number, at indices of every type, in straight lines, loops and branches.

use jit_core::dtype::Element;
use jit_frontend::{Array, Int, LocalArray, Mask, f16, if_else, while_loop};

use super::{LANES, array, host, lanes, number, zeros};
use crate::devices::on_each;

/// Bits that show whether every one of them is moved.
fn patterns<T: Element>() -> Vec<T> {
    let mask = T::DTYPE.mask();
    let sign = 1 << (T::DTYPE.bits() - 1);
    let bits = [mask, 1, sign & mask, 0x7fc0_1234_7fc0_1235 & mask, 0x5555_5555_5555_5555 & mask, sign >> 1];
    bits.into_iter().map(|b| T::from_bits(if T::DTYPE.bits() == 1 { b & 1 } else { b })).collect()
}

/// Calls a generic function for every type of elements.
macro_rules! for_each_type {
    ($function:ident) => {{
        $function::<bool>();
        $function::<i8>();
        $function::<u8>();
        $function::<i16>();
        $function::<u16>();
        $function::<i32>();
        $function::<u32>();
        $function::<i64>();
        $function::<u64>();
        $function::<f16>();
        $function::<f32>();
        $function::<f64>();
    }};
}

#[track_caller]
fn same_bits<T: Element>(got: &Array<T>, expected: &[T], what: &str) {
    let bits = |values: &[T]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&host(got)), bits(expected), "{what}, {}", T::DTYPE);
}

#[test]
fn bits_come_back_from_shared_and_own_indices() {
    fn check<T: Element>() {
        on_each(|device| {
            let values = patterns::<T>();
            for n in LANES {
                let of = |k: usize, lane: usize| values[(k + lane) % values.len()];
                let column = |k: usize| array(device, &(0..n).map(|lane| of(k, lane)).collect::<Vec<_>>());
                let own = lanes(device, n) * 3 % 7;
                let mut local = zeros::<T, 7>();
                for k in 0..7 {
                    local.write(k as u32, column(k));
                }
                // Each lane puts one of its elements elsewhere.
                local.write(&own, column(100));
                for k in 0..7 {
                    let expected: Vec<T> =
                        (0..n).map(|lane| of(if lane * 3 % 7 == k { 100 } else { k }, lane)).collect();
                    same_bits(&local.read(k as u32), &expected, &format!("{n} lanes, element {k}"));
                }
                let other = (lanes(device, n) + 1) * 5 % 7;
                let expected: Vec<T> = (0..n)
                    .map(|lane| {
                        let k = (lane + 1) * 5 % 7;
                        of(if lane * 3 % 7 == k { 100 } else { k }, lane)
                    })
                    .collect();
                same_bits(&local.read(&other), &expected, &format!("{n} lanes, own elements"));
            }
        });
    }
    for_each_type!(check);
}

/// In a loop `turns` writes at pseudorandom indices, and a sum of what is found on the way.
fn scrambled<const N: usize>(n: usize, turns: u32) {
    let place = |turn: u32, lane: u32| (turn.wrapping_mul(2_654_435_761) ^ lane.wrapping_mul(40_503)) >> 7;
    let model = |lane: u32| {
        let (mut elements, mut sum) = (vec![0u32; N], 0u32);
        for turn in 0..turns {
            let at = place(turn, lane) as usize % (N + N / 8 + 1);
            sum = sum.wrapping_mul(31).wrapping_add(elements.get(at).copied().unwrap_or(0));
            if let Some(element) = elements.get_mut(at) {
                *element = turn + lane + 1;
            }
        }
        sum
    };
    let expected: Vec<u32> = (0..n as u32).map(model).collect();
    on_each(|device| {
        let lane = lanes(device, n);
        let (.., sum) = while_loop(
            (number(device, 0u32), zeros::<u32, N>(), lane.zeros_like()),
            |(turn, ..)| turn.lt(turns),
            |(turn, mut local, sum)| {
                let place = ((&turn * 2_654_435_761) ^ (&lane * 40_503)) >> 7;
                let at = place % (N + N / 8 + 1) as u32;
                let sum = sum * 31 + local.read(&at);
                local.write(&at, &turn + &lane + 1);
                (turn + 1, local, sum)
            },
        );
        assert_eq!(host(&sum), expected, "{N} elements, {n} lanes");
    });
}

#[test]
fn lengths_from_none_to_the_largest() {
    scrambled::<0>(17, 5);
    scrambled::<1>(33, 9);
    scrambled::<31>(17, 100);
    scrambled::<1000>(33, 200);
    scrambled::<16384>(17, 300);
}

#[test]
fn numbers_of_lanes_about_blocks() {
    for n in [1023, 1024, 1025, 20_000] {
        scrambled::<8>(n, 12);
    }
}

#[test]
fn the_largest_arrays_of_small_and_large_elements() {
    fn check<T: jit_frontend::Num, const N: usize>() {
        on_each(|device| {
            let lane = lanes(device, 19);
            let (_, local, found) = while_loop(
                (number(device, 0u32), zeros::<T, N>(), Array::<T>::from(T::default())),
                |(turn, ..)| turn.lt(40),
                |(turn, mut local, found)| {
                    let at = (&turn * 977 + &lane * 3) % N as u32;
                    local.write(&at, (&turn + &lane).cast::<T>());
                    local.write(N as u32 - 1, turn.cast::<T>());
                    let found = found + local.read(&at);
                    (turn + 1, local, found)
                },
            );
            let byte = |value: u32| value;
            let model = |lane: u32| {
                let mut elements = vec![0u32; N];
                let mut found = 0;
                for turn in 0..40 {
                    let at = ((turn * 977 + lane * 3) % N as u32) as usize;
                    elements[at] = byte(turn + lane);
                    elements[N - 1] = turn;
                    found += elements[at];
                }
                (elements[N - 1], found)
            };
            let (last, sums): (Vec<u32>, Vec<u32>) = (0..19).map(model).unzip();
            let found = found.cast::<u64>() & 0xff;
            let sums: Vec<u64> = sums.into_iter().map(|s| u64::from(s & 0xff)).collect();
            assert_eq!(host(&found), sums, "{}", T::DTYPE);
            let read = local.read(N as u32 - 1).cast::<u32>() + lane.zeros_like();
            assert_eq!(host(&read), last, "{}", T::DTYPE);
        });
    }
    check::<u8, 65536>();
    check::<i16, 32768>();
    check::<f32, 16384>();
    check::<u64, 8192>();
}

#[test]
fn out_of_bounds_reads_zero_and_writes_nothing() {
    fn check<I: Int>(outside: &[I], inside: I) {
        on_each(|device| {
            let mut local = zeros::<u32, 3>();
            (0..3u32).for_each(|k| local.write(k, lanes(device, outside.len()) + 10 * k + 1));
            let before = local.clone();
            // Each lane at its own index, and all at one.
            local.write(array(device, outside), 99u32);
            outside.iter().for_each(|&index| local.write(index, 98u32));
            for k in 0..3u32 {
                assert_eq!(host(&local.read(k)), host(&before.read(k)), "{}", I::DTYPE);
            }
            let zeros = vec![0; outside.len()];
            assert_eq!(host(&local.read(array(device, outside))), zeros, "{}", I::DTYPE);
            for &index in outside {
                let read = local.read(index);
                assert_eq!(host(&read), vec![0; read.len()], "{}", I::DTYPE);
            }
            let expected: Vec<u32> = (0..outside.len() as u32).map(|lane| lane + 21).collect();
            assert_eq!(host(&local.read(array(device, &vec![inside; outside.len()]))), expected);
        });
    }
    check::<i8>(&[-1, 3, i8::MIN, i8::MAX, -2], 2);
    check::<u8>(&[3, u8::MAX, 128, 4, 200], 2);
    check::<i16>(&[-1, 3, i16::MIN, i16::MAX, 256], 2);
    check::<u16>(&[3, u16::MAX, 0x8000, 256, 0x8001], 2);
    check::<i32>(&[-1, 3, i32::MIN, i32::MAX, 1 << 28], 2);
    check::<u32>(&[3, u32::MAX, 1 << 31, 1 << 28, (1 << 31) + 1], 2);
    check::<i64>(&[-1, 3, i64::MIN, 1 << 32, (1 << 32) + 1], 2);
    check::<u64>(&[3, u64::MAX, 1 << 63, 1 << 32, (1 << 32) + 2], 2);
}

#[test]
fn masks_leave_lanes_out() {
    on_each(|device| {
        for n in LANES {
            let lane = lanes(device, n);
            let odd = (&lane & 1).eq(1);
            for own in [false, true] {
                let index = if own { &lane % 4 } else { Array::from(2u32) };
                let mut local = zeros::<f64, 4>();
                local.write(&index, lane.cast::<f64>());
                local.write_masked(&index, -1.5, &odd);
                local.write_masked(&index, 7.0, false);
                let read = local.read(&index);
                let expected: Vec<f64> = (0..n).map(|k| if k % 2 == 1 { -1.5 } else { k as f64 }).collect();
                assert_eq!(host(&read), expected);
                let some = local.read_masked(&index, &odd);
                let expected: Vec<f64> = (0..n).map(|k| if k % 2 == 1 { -1.5 } else { 0.0 }).collect();
                assert_eq!(host(&some), expected);
                let none = local.read_masked(&index, false) + lane.cast::<f64>() * 0.0;
                assert_eq!(host(&none), vec![0.0; n]);
            }
        }
    });
}

#[test]
fn clones_keep_their_own() {
    on_each(|device| {
        let lane = lanes(device, 21);
        let mut a = zeros::<u32, 5>();
        a.write(&lane % 5, &lane + 100);
        let mut b = a.clone();
        b.write(&lane % 5, 1u32);
        let c = b.clone();
        b.write(4u32, 2u32);
        a.write(0u32, 3u32);
        for (local, which) in [(&a, 0), (&b, 1), (&c, 2)] {
            for k in 0..5u32 {
                let expected: Vec<u32> = (0..21)
                    .map(|lane| match which {
                        0 if k == 0 => 3,
                        0 if lane % 5 == k => lane + 100,
                        1 if k == 4 => 2,
                        1 | 2 if lane % 5 == k => 1,
                        _ => 0,
                    })
                    .collect();
                let read = local.read(k) + lane.zeros_like();
                assert_eq!(host(&read), expected, "array {which}, element {k}");
            }
        }
    });
}

#[test]
fn versions_live_on_inside_of_loops() {
    on_each(|device| {
        let lane = lanes(device, 19);
        let (_, newest, sum) = while_loop(
            (number(device, 0u32), zeros::<u32, 4>(), Array::from(0u32)),
            |(turn, ..)| turn.lt(&lane % 6),
            |(turn, local, sum)| {
                let mut next = local.clone();
                next.write(&turn % 4, &turn + 1);
                // Read after the write that made the next version.
                let sum = sum * 10 + local.read(&turn % 4) + next.read((&turn + 1) % 4);
                (turn + 1, next, sum)
            },
        );
        let model = |lane: u32| {
            let (mut local, mut sum) = ([0u32; 4], 0u32);
            for turn in 0..lane % 6 {
                let mut next = local;
                next[turn as usize % 4] = turn + 1;
                sum = sum * 10 + local[turn as usize % 4] + next[(turn as usize + 1) % 4];
                local = next;
            }
            (sum, local[1])
        };
        let (sums, seconds): (Vec<u32>, Vec<u32>) = (0..19).map(model).unzip();
        assert_eq!(host(&sum), sums);
        assert_eq!(host(&newest.read(1u32)), seconds);
    });
}

#[test]
fn arrays_in_state_change_places() {
    on_each(|device| {
        let lane = lanes(device, 37);
        let (_, a, b, c) = while_loop(
            (number(device, 0u32), zeros::<u16, 3>(), zeros::<u16, 3>(), zeros::<u16, 3>()),
            |(turn, ..)| turn.lt(&lane % 7),
            |(turn, mut a, b, mut c)| {
                let value = turn.cast::<u16>() + 1;
                a.write(&turn % 3, &value);
                c.write(1u32, c.read(1u32) + &value);
                (turn + 1, b, c, a)
            },
        );
        let model = |lane: u16| {
            let (mut a, mut b, mut c) = ([0u16; 3], [0u16; 3], [0u16; 3]);
            for turn in 0..lane % 7 {
                a[turn as usize % 3] = turn + 1;
                c[1] += turn + 1;
                (a, b, c) = (b, c, a);
            }
            [a, b, c]
        };
        for (which, local) in [a, b, c].iter().enumerate() {
            for k in 0..3u32 {
                let expected: Vec<u16> = (0..37).map(|lane| model(lane)[which][k as usize]).collect();
                assert_eq!(host(&local.read(k)), expected, "array {which}, element {k}");
            }
        }
    });
}

#[test]
fn branches_write_on_one_side_on_both_and_choose() {
    on_each(|device| {
        for n in LANES {
            let lane = lanes(device, n);
            let mut start = zeros::<i32, 3>();
            start.write(&lane % 3, 5i32);
            let third = (&lane % 3).eq(0u32);
            let one_side = if_else(
                &third,
                start.clone(),
                |mut local| {
                    local.write(1u32, lane.cast::<i32>());
                    local
                },
                |local| local,
            );
            let both = if_else(
                &third,
                (start.clone(), one_side.clone()),
                |(mut a, b)| {
                    a.write(2u32, -1i32);
                    (b, a)
                },
                |(a, mut b)| {
                    b.write(0u32, b.read(1u32) - 7);
                    (a, b)
                },
            );
            let chosen = jit_frontend::select(&third, start.clone(), both.1.clone());
            let model = |lane: i32| {
                let (third, mut start) = (lane % 3 == 0, [0; 3]);
                start[lane as usize % 3] = 5;
                let mut one_side = start;
                if third {
                    one_side[1] = lane;
                }
                let (mut a, mut b) = (start, one_side);
                if third {
                    a[2] = -1;
                    (a, b) = (b, a);
                } else {
                    b[0] = b[1] - 7;
                }
                [one_side, a, b, if third { start } else { b }]
            };
            for (which, local) in [&one_side, &both.0, &both.1, &chosen].into_iter().enumerate() {
                for k in 0..3 {
                    let expected: Vec<i32> =
                        (0..n as i32).map(|lane| model(lane)[which][k as usize]).collect();
                    assert_eq!(host(&local.read(k)), expected, "array {which}, element {k}, {n} lanes");
                }
            }
        }
    });
}

#[test]
fn nested_loops_and_captured_arrays() {
    on_each(|device| {
        let lane = lanes(device, 23);
        let mut table = zeros::<u32, 4>();
        (0..4u32).for_each(|k| table.write(k, &lane + k * k));
        let (_, local) = while_loop(
            (number(device, 0u32), zeros::<u32, 6>()),
            |(i, _)| i.lt(&lane % 4),
            |(i, local)| {
                let (_, mut local) = while_loop(
                    (Array::from(0u32), local),
                    |(j, _)| j.le(&i),
                    |(j, mut local)| {
                        local.write(&i + &j, local.read(&i + &j) + table.read(&j) + 1);
                        (j + 1, local)
                    },
                );
                // A copy of what is captured, changed anew each time.
                let mut own = table.clone();
                own.write(&i, 1000u32);
                local.write(5u32, local.read(5u32) + own.read(&i) + own.read(0u32));
                (i + 1, local)
            },
        );
        let model = |lane: u32| {
            let table: Vec<u32> = (0..4).map(|k| lane + k * k).collect();
            let mut local = [0u32; 6];
            for i in 0..lane % 4 {
                for j in 0..=i {
                    local[(i + j) as usize] += table[j as usize] + 1;
                }
                let mut own = table.clone();
                own[i as usize] = 1000;
                local[5] += own[i as usize] + own[0];
            }
            local
        };
        for k in 0..6u32 {
            let expected: Vec<u32> = (0..23).map(|lane| model(lane)[k as usize]).collect();
            assert_eq!(host(&(local.read(k) + lane.zeros_like())), expected, "element {k}");
        }
        assert_eq!(host(&table.read(3u32)), (9..32).collect::<Vec<u32>>());
    });
}

#[test]
fn evaluated_arrays_are_found_again() {
    fn check<T: Element>() {
        on_each(|device| {
            let values = patterns::<T>();
            for n in [1, 5, 16, 33] {
                let lane = lanes(device, n);
                let column: Vec<T> = (0..n).map(|k| values[k % values.len()]).collect();
                let mut local = zeros::<T, 9>();
                local.write(&lane % 9, array(device, &column));
                jit_frontend::eval(&local).expect("evaluation");
                same_bits(&local.read(&lane % 9), &column, &format!("{n} lanes"));
                let before = local.clone();
                local.write(&lane % 9, array(device, &vec![values[0]; n]));
                same_bits(&before.read(&lane % 9), &column, &format!("{n} lanes, the version before"));
                same_bits(&local.read(&lane % 9), &vec![values[0]; n], &format!("{n} lanes, after"));
            }
        });
    }
    for_each_type!(check);
}

#[test]
fn arrays_outlive_the_loop_that_writes_a_buffer() {
    on_each(|device| {
        let lane = lanes(device, 18);
        let buffer = jit_frontend::Buffer::from_array(&lane.zeros_like()).expect("a buffer");
        let (_, local) = while_loop(
            (number(device, 0u32), zeros::<u32, 3>()),
            |(turn, _)| turn.lt(&lane % 5),
            |(turn, mut local)| {
                buffer.scatter_add(1u32, &turn);
                local.write(&turn % 3, &turn + &lane);
                (turn + 1, local)
            },
        );
        // Needed by kernels that come after the loop's.
        let total = buffer.value().sum();
        let read = local.read(&total % 3) + &total;
        jit_frontend::eval(&read).expect("evaluation");
        let later = local.read(1u32);
        let model = |lane: u32| {
            let mut local = [0u32; 3];
            (0..lane % 5).for_each(|turn| local[turn as usize % 3] = turn + lane);
            local
        };
        let total: u32 = (0..18).map(|lane| lane % 5).sum();
        let expected: Vec<u32> = (0..18).map(|lane| model(lane)[total as usize % 3] + total).collect();
        assert_eq!(host(&read), expected);
        assert_eq!(host(&later), (0..18).map(|lane| model(lane)[1]).collect::<Vec<_>>());
    });
}

#[test]
fn one_lane_and_no_device() {
    let mut local = zeros::<u32, 4>();
    local.write(1u32, 7u32);
    assert_eq!(host(&local.read(1u32)), [7]);
    assert_eq!(host(&local.read(0u32)), [0]);
    on_each(|device| {
        let mut local: LocalArray<u32, 4> = zeros();
        local.write(array(device, &[2u32]), 7u32);
        assert_eq!(host(&local.read(2u32)), [7]);
        assert_eq!(host(&(local.read(2u32) + lanes(device, 6))), [7, 8, 9, 10, 11, 12]);
        let sum = lanes(device, 100).sum();
        local.write(3u32, &sum);
        assert_eq!(host(&(local.read(3u32) + local.read(2u32))), [4957]);
    });
}

#[test]
fn masks_as_elements_decide_loops() {
    on_each(|device| {
        let lane = lanes(device, 35);
        let mut stop = zeros::<bool, 8>();
        stop.write(&lane % 8, true);
        let steps = while_loop(
            number(device, 0u32),
            |step: &Array<u32>| -> Mask { !stop.read(step) },
            |step| step + 1,
        );
        assert_eq!(host(&steps), (0..35).map(|lane| lane % 8).collect::<Vec<u32>>());
    });
}
