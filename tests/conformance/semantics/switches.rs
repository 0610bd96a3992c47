//! Switches: each lane takes the block of its number, and zeros where there is none.

use jit_core::dtype::{ALL_DTYPES, DType};
use jit_core::op::Op;
use jit_core::runtime::Device;
use jit_core::trace::{BufferVar, Case, Var, checked_switch, while_loop};

use super::check::{apply, cast};
use crate::devices::on_each;
use crate::host::{lit, read, read_bits, upload, upload_bits};

/// About vectors of 4, 8 and 16 lanes, none, one, many.
const SIZES: [usize; 13] = [0, 1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33, 1000];

fn add(a: &Var, b: &Var) -> Var {
    apply(Op::Add, &[a, b])
}

fn case<'f>(f: impl FnOnce(&[Var]) -> Vec<Var> + 'f) -> Case<'f> {
    Box::new(move |arguments| Ok(f(&arguments)))
}

/// Adds 100 times its number, and one, to the argument.
fn hundreds(device: Device, index: &Var, argument: &Var, count: u32) -> Var {
    let cases = (0..count).map(|k| case(move |a| vec![add(&a[0], &lit(100 * (k + 1)))]));
    checked_switch(device, index, std::slice::from_ref(argument), cases).remove(0)
}

#[test]
fn an_index_of_any_type_and_value() {
    for dtype in ALL_DTYPES.into_iter().filter(|d| d.is_int()) {
        let top = 1u64 << (dtype.bits() - 1);
        let wanted = [0, 1, 2, 3, 5, top - 1, top, top + 1, dtype.mask() - 1, dtype.mask()];
        for count in [1u32, 2, 3, 6] {
            for size in SIZES {
                let index: Vec<u64> = (0..size).map(|i| wanted[(i * 7 + i / 5) % wanted.len()]).collect();
                let lanes: Vec<u32> = (0..size as u32).collect();
                let expected: Vec<u32> = index
                    .iter()
                    .zip(&lanes)
                    .map(|(&k, lane)| if k < u64::from(count) { lane + 100 * (k as u32 + 1) } else { 0 })
                    .collect();
                on_each(|device| {
                    let got =
                        hundreds(device, &upload_bits(device, dtype, &index), &upload(device, &lanes), count);
                    assert_eq!(read::<u32>(&got), expected, "{dtype}, {count} callables, {size} lanes");
                });
            }
        }
    }
}

#[test]
fn an_index_that_all_lanes_share() {
    for size in SIZES {
        let lanes: Vec<u32> = (0..size as u32).collect();
        for index in [-1i32, 0, 1, 2, 3, i32::MIN, i32::MAX] {
            let expected: Vec<u32> = match index {
                0..=2 => lanes.iter().map(|lane| lane + 100 * (index as u32 + 1)).collect(),
                _ => vec![0; size],
            };
            on_each(|device| {
                let x = upload(device, &lanes);
                let literal = hundreds(device, &lit(index), &x, 3);
                let evaluated = hundreds(device, &upload(device, &[index]), &x, 3);
                assert_eq!(read::<u32>(&literal), expected, "{index}, {size} lanes");
                assert_eq!(read::<u32>(&evaluated), expected, "{index}, {size} lanes");
            });
        }
    }
    on_each(|device| {
        // A result of size 1.
        let got = hundreds(device, &upload(device, &[1u8]), &upload(device, &[7u32]), 2);
        assert_eq!(read::<u32>(&got), [207]);
    });
}

#[test]
fn many_callables_with_indices_in_runs_and_shuffled() {
    let count = 40u32;
    let size = 1000u32;
    let runs: Vec<u32> = (0..size).map(|i| i * (count + 2) / size).collect();
    let shuffled: Vec<u32> =
        (0..size).map(|i| i.wrapping_mul(2_654_435_761) >> 20).map(|i| i % (count + 2)).collect();
    for index in [runs, shuffled] {
        let of = |(lane, &k): (u32, &u32)| if k < count { lane + 100 * (k + 1) } else { 0 };
        let expected: Vec<u32> = (0..size).zip(&index).map(of).collect();
        on_each(|device| {
            let got = hundreds(
                device,
                &upload(device, &index),
                &Var::counter(device, DType::U32, size.into()),
                count,
            );
            assert_eq!(read::<u32>(&got), expected);
        });
    }
}

#[test]
fn results_of_every_type_are_zero_out_of_range() {
    for dtype in ALL_DTYPES {
        let ones = dtype.mask();
        on_each(|device| {
            let x = upload_bits(device, dtype, &[ones, 1, ones, 1, ones]);
            let index = upload(device, &[0i64, 1, 2, -1, i64::MIN]);
            let cases =
                [case(|a| vec![a[0].clone(), a[0].clone()]), case(|a| vec![a[0].clone(), a[0].clone()])];
            let got = checked_switch(device, &index, &[x], cases);
            for result in got {
                assert_eq!(read_bits(&result), [ones, 1, 0, 0, 0], "{dtype}");
            }
        });
    }
}

#[test]
fn effects_happen_once_for_each_lane_that_takes_them() {
    for size in SIZES {
        let index: Vec<i32> = (0..size as i32).map(|i| i * 5 % 7 - 1).collect();
        let taken = |k: i32| index.iter().filter(|&&i| i == k).count() as u32;
        let expected = [taken(0), taken(1) * 10, taken(2), 0];
        on_each(|device| {
            let counts = BufferVar::new(&upload(device, &[0u32; 4]));
            let own = BufferVar::new(&upload(device, &vec![0u32; size.max(1)]));
            let lane = Var::counter(device, DType::U32, size as u64);
            let cases = [
                case(|a| {
                    counts.scatter(Op::ScatterAdd, &lit(1u32), &lit(0u32), None);
                    vec![add(&a[0], &lit(1u32))]
                }),
                case(|a| {
                    counts.scatter(Op::ScatterAdd, &lit(10u32), &lit(1u32), None);
                    // A lane sees its own effects in order.
                    own.scatter(Op::Scatter, &lit(5u32), &a[0], None);
                    own.scatter(Op::ScatterAdd, &lit(2u32), &a[0], None);
                    vec![own.gather(&a[0], None)]
                }),
                case(|_| vec![counts.atomic_inc(&lit(2u32), None)]),
            ];
            let got = read::<u32>(&checked_switch(device, &upload(device, &index), &[lane], cases)[0]);
            assert_eq!(read::<u32>(&counts.value()), expected, "{size} lanes");
            let mut tickets = Vec::new();
            for (lane, (&index, &got)) in index.iter().zip(&got).enumerate() {
                match index {
                    0 => assert_eq!(got, lane as u32 + 1),
                    1 => assert_eq!(got, 7),
                    2 => tickets.push(got),
                    _ => assert_eq!(got, 0),
                }
            }
            tickets.sort_unstable();
            assert_eq!(tickets, (0..taken(2)).collect::<Vec<_>>());
            let own = read::<u32>(&own.value());
            let wanted: Vec<u32> = index.iter().map(|&i| if i == 1 { 7 } else { 0 }).collect();
            assert_eq!(own[..size], wanted);
        });
    }
}

#[test]
fn effects_alone_need_no_results() {
    on_each(|device| {
        let counts = BufferVar::new(&upload(device, &[0u32; 3]));
        let index = upload(device, &[1u32, 2, 0, 1, 1, 9]);
        let cases = [0u32, 1, 2].map(|k| {
            let counts = &counts;
            case(move |_| {
                counts.scatter(Op::ScatterAdd, &lit(1u32), &lit(k), None);
                vec![]
            })
        });
        assert!(checked_switch(device, &index, &[], cases).is_empty());
        assert_eq!(read::<u32>(&counts.value()), [1, 3, 1]);
    });
}

/// A machine of three instructions runs a program of its own on each lane.
#[test]
fn a_switch_in_a_loop() {
    let code = [0u8, 1, 2, 0, 1, 7, 0];
    let run = |mut x: u32, steps: u32| {
        for step in 0..steps {
            x = match code[(x + step) as usize % code.len()] {
                0 => x + 1,
                1 => x * 3,
                2 => x ^ 5,
                _ => 0,
            };
        }
        x
    };
    for size in SIZES {
        let steps: Vec<u32> = (0..size as u32).map(|i| i % 6).collect();
        let expected: Vec<u32> = steps.iter().enumerate().map(|(i, &steps)| run(i as u32, steps)).collect();
        on_each(|device| {
            let (code, steps) = (upload(device, &code), upload(device, &steps));
            let start = Var::counter(device, DType::U32, size as u64);
            let out = while_loop(
                device,
                &[start, lit(0u32)],
                |s| Var::apply(Op::Lt, DType::Bool, &[&s[1], &steps]),
                |s| {
                    let at = apply(Op::Rem, &[&add(&s[0], &s[1]), &lit(7u32)]);
                    let next = checked_switch(
                        device,
                        &code.gather(&at, None),
                        &s[..1],
                        [
                            case(|a| vec![add(&a[0], &lit(1u32))]),
                            case(|a| vec![apply(Op::Mul, &[&a[0], &lit(3u32)])]),
                            case(|a| vec![apply(Op::Xor, &[&a[0], &lit(5u32)])]),
                        ],
                    );
                    vec![next[0].clone(), add(&s[1], &lit(1u32))]
                },
            );
            assert_eq!(read::<u32>(&out[0]), expected, "{size} lanes");
        });
    }
}

#[test]
fn loops_and_switches_in_a_switch() {
    let size = 300u32;
    let twin = |lane: u32| match lane % 4 {
        0 => (0..lane % 5).fold(lane, |x, i| x + i),
        1 => match lane / 4 % 3 {
            0 => lane * 2,
            1 => lane + 1000,
            _ => 0,
        },
        2 => lane,
        _ => 0,
    };
    on_each(|device| {
        let lane = Var::counter(device, DType::U32, size.into());
        let index = apply(Op::Rem, &[&lane, &lit(4u32)]);
        let out = checked_switch(
            device,
            &index,
            std::slice::from_ref(&lane),
            [
                case(|a| {
                    let times = apply(Op::Rem, &[&a[0], &lit(5u32)]);
                    let end = while_loop(
                        device,
                        &[a[0].clone(), lit(0u32)],
                        |s| Var::apply(Op::Lt, DType::Bool, &[&s[1], &times]),
                        |s| vec![add(&s[0], &s[1]), add(&s[1], &lit(1u32))],
                    );
                    vec![end[0].clone()]
                }),
                case(|a| {
                    let inner = apply(Op::Rem, &[&apply(Op::Div, &[&a[0], &lit(4u32)]), &lit(3u32)]);
                    let cases = [
                        case(|a| vec![apply(Op::Mul, &[&a[0], &lit(2u32)])]),
                        case(|a| vec![add(&a[0], &lit(1000u32))]),
                    ];
                    checked_switch(device, &cast(DType::I8, &inner), a, cases)
                }),
                case(|a| a.to_vec()),
            ],
        );
        assert_eq!(read::<u32>(&out[0]), (0..size).map(twin).collect::<Vec<_>>());
    });
}

#[test]
fn local_arrays_go_through() {
    for size in SIZES {
        let twin = |lane: u32| match lane % 4 {
            0 => 2 * lane,
            1 => lane,
            2 => lane + 3,
            // Out of range the array is one of zeros.
            _ => 0,
        };
        on_each(|device| {
            let lane = Var::counter(device, DType::U32, size as u64);
            let index = apply(Op::Rem, &[&lane, &lit(4u32)]);
            let array = Var::local_zeros(DType::U32, 10).local_write(&lane, &lit(3u32), None, device);
            let write = |array: &Var, value: &Var| array.local_write(value, &lit(3u32), None, device);
            let read_back = |array: &Var| array.local_read(&lit(3u32), None, device);
            let out = checked_switch(
                device,
                &index,
                &[array, lane],
                [
                    case(|a| vec![write(&a[0], &add(&a[1], &read_back(&a[0])))]),
                    case(|a| vec![a[0].clone()]),
                    case(|a| vec![write(&a[0], &add(&read_back(&a[0]), &lit(3u32)))]),
                ],
            );
            let expected: Vec<u32> = (0..size as u32).map(twin).collect();
            assert_eq!(read::<u32>(&read_back(&out[0])), expected, "{size} lanes");
        });
    }
}

#[test]
fn a_result_that_all_callables_share_needs_no_switch() {
    on_each(|device| {
        let x = upload(device, &[3u32, 4, 5]);
        let index = upload(device, &[0u32, 1, 2]);
        // The third lane is out of range.
        let out = checked_switch(
            device,
            &index,
            &[],
            [case(|_| vec![x.clone(), lit(0u32)]), case(|_| vec![x.clone(), lit(0u32)])],
        );
        assert_eq!(read::<u32>(&out[0]), [3, 4, 0]);
        assert_eq!(read::<u32>(&out[1]), [0, 0, 0]);
    });
}
