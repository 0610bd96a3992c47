//! Indices outside, on checked devices: what is told, of which line, to whom, how often; and that results stay as they are.

use jit_frontend as jit;
use jit_frontend::prelude::*;
use jit_frontend::{DeviceKind, Element, Error, Int, LocalArray, Stream};

use crate::support::values;

/// Checked devices of every kind and width. New ones for each test: a `sync` of another one would take its reports away.
fn devices() -> Vec<Device> {
    let mut all = vec![Device::builder(DeviceKind::Interpreter).checked(true).build().expect("always there")];
    if Device::cpu().is_ok() {
        all.extend([4, 8, 16].map(|width| {
            let builder = Device::builder(DeviceKind::Cpu).vector_width(width).threads(2).checked(true);
            builder.build().expect("a CPU")
        }));
    }
    all
}

#[expect(clippy::print_stderr, reason = "the report of a failed test")]
fn on_each(test: impl Fn(&Device)) {
    for device in devices() {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(&device)));
        if let Err(panic) = outcome {
            eprintln!("on {device:?}");
            std::panic::resume_unwind(panic);
        }
    }
}

/// What an error says of an index: op, line of this file, index, size.
#[track_caller]
fn told(result: Result<impl Sized, Error>) -> (&'static str, u32, i128, u64) {
    match result.err().expect("an index was outside") {
        Error::OutOfBounds { op, location, index, size } => {
            let (_, line) = location.split_once("checked.rs:").expect("a line of this file");
            let line = line.split(':').next().and_then(|line| line.parse().ok());
            (op, line.expect("a line"), index, size)
        }
        other => panic!("another error: {other}"),
    }
}

fn array<T: Element>(device: &Device, values: &[T]) -> Array<T> {
    Array::from_slice(values, device).expect("memory")
}

/// The edges of vectors and chunks.
const SIZES: [usize; 8] = [1, 3, 4, 15, 16, 17, 1023, 1025];

#[test]
fn a_gather_tells_op_line_index_and_size_once() {
    on_each(|dev| {
        for n in SIZES {
            let a = Array::<u32>::arange(n, dev) + 7;
            jit::sync(&a).expect("nothing is outside");
            let index = Array::<u32>::arange(n, dev) + 1;
            let (b, line) = (a.gather(&index), line!());
            assert_eq!(told(b.to_vec()), ("gather", line, n as i128, n as u64));
            let expected: Vec<u32> =
                (0..n as u32).map(|i| if i as usize + 1 < n { i + 8 } else { 0 }).collect();
            assert_eq!(values(&b), expected, "told once; the values are those of any device");
            dev.sync().expect("told once");
        }
    });
}

#[test]
fn the_least_index_of_the_first_site_is_told() {
    on_each(|dev| {
        let a = array(dev, &[1i32, 2, 3]);
        for (index, least) in [
            (vec![0i64, 5, -1, 3, i64::MIN, 2], i128::from(i64::MIN)),
            (vec![0, 1, i64::MAX, 7, 2, 2], 7),
            (vec![2, -1, -2, 0, 0, 9], -2),
            (vec![i64::MAX; 6], i128::from(i64::MAX)),
        ] {
            let r = a.gather(array(dev, &index));
            assert_eq!(told(r.to_vec()).2, least, "{index:?}");
        }
        let index = array(dev, &[u64::MAX, u64::MAX - 1, 1 << 63, u64::MAX]);
        assert_eq!(told(a.gather(&index).to_vec()).2, 1 << 63);
        assert_eq!(told(a.gather(array(dev, &[u64::MAX])).to_vec()).2, i128::from(u64::MAX));
        assert_eq!(told(a.gather(Array::from(3u8)).to_vec()).2, 3);
        assert_eq!(told(a.gather(Array::from(-1i8)).to_vec()).2, -1);
        let none = array::<i32>(dev, &[]);
        assert_eq!(told(none.gather(array(dev, &[0u32, 4])).to_vec()).2, 0, "nothing is inside of nothing");
    });
}

#[test]
fn every_type_of_index() {
    fn check<I: Int>(dev: &Device, outside: I, wanted: i128) {
        let a = Array::<u32>::arange(100, dev);
        let zero = I::from_bits(0);
        let index: Vec<I> = (0..37).map(|i| if i == 20 { outside } else { zero }).collect();
        let (r, line) = (a.gather(array(dev, &index)), line!());
        assert_eq!(told(r.to_vec()), ("gather", line, wanted, 100));
    }
    on_each(|dev| {
        check(dev, -1i8, -1);
        check(dev, 100i8, 100);
        check(dev, i8::MIN, -128);
        check(dev, 255u8, 255);
        check(dev, -2i16, -2);
        check(dev, u16::MAX, 65_535);
        check(dev, i32::MIN, i128::from(i32::MIN));
        check(dev, u32::MAX, i128::from(u32::MAX));
        check(dev, i64::MIN, i128::from(i64::MIN));
        check(dev, 1u64 << 63, 1 << 63);
        check(dev, u64::MAX, i128::from(u64::MAX));
    });
}

#[test]
fn masked_lanes_and_lanes_inside_tell_nothing() {
    on_each(|dev| {
        for n in SIZES {
            let a = Array::<u32>::arange(n, dev) * 3;
            let index = Array::<u32>::arange(2 * n, dev);
            let mask = index.lt(n as u32);
            let expected: Vec<u32> =
                (0..2 * n as u32).map(|i| if (i as usize) < n { 3 * i } else { 0 }).collect();
            assert_eq!(values(&a.gather_masked(&index, &mask)), expected);
            let again = a.gather(Array::<u64>::arange(n, dev));
            assert_eq!(values(&again), values(&a));
            assert_eq!(
                told(a.gather_masked(&index, &mask | index.ge(2 * n as u32 - 1)).to_vec()).2,
                2 * n as i128 - 1
            );
        }
        dev.sync().expect("all was told");
    });
}

#[test]
fn scatters_and_atomics() {
    on_each(|dev| {
        let index = array(dev, &[0i32, 4, 1, -3]);
        let ones = Array::full(1u32, 4, dev);
        let mut a = Array::<u32>::zeros(4, dev);
        let line = line!() + 1;
        a.scatter(&ones, &index);
        assert_eq!(told(a.to_vec()), ("scatter", line, -3, 4));
        assert_eq!(values(&a), [1, 1, 0, 0]);
        let line = line!() + 1;
        a.scatter_add(&ones, &index);
        assert_eq!(told(a.to_vec()), ("scatter_add", line, -3, 4));
        assert_eq!(values(&a), [2, 2, 0, 0]);
        a.scatter_max_masked(&ones * 9, &index, index.lt(2) & index.ge(0));
        assert_eq!(values(&a), [9, 9, 0, 0]);
        let buffer = Buffer::<u32>::zeros(2, dev).expect("memory");
        let (old, line) = (buffer.atomic_inc(&index), line!());
        assert_eq!(told(old.to_vec()), ("atomic_inc", line, -3, 2));
        assert_eq!(values(&old), [0; 4]);
        assert_eq!(values(&buffer.value()), [1, 1]);
        let (old, line) = (buffer.exchange(&ones * 5, &index), line!());
        assert_eq!(told(old.to_vec()), ("exchange", line, -3, 2));
        let line = line!() + 1;
        let (old, _) = buffer.compare_exchange(&ones * 5, &ones * 6, &index);
        assert_eq!(told(old.to_vec()), ("compare_exchange", line, -3, 2));
        assert_eq!(values(&buffer.value()), [6, 6]);
    });
}

#[test]
fn lanes_of_branches_and_loops() {
    on_each(|dev| {
        for n in [1, 3, 16, 17, 130] {
            let a = Array::<u32>::arange(n, dev) + 1;
            let i = Array::<u32>::arange(n + 3, dev);
            // The index is captured, and the same on every round: the access still is the branch's.
            let guarded = if_else(&i.lt(n as u32), (), |()| a.gather(&i), |()| Array::from(0u32));
            let expected: Vec<u32> =
                (0..n as u32 + 3).map(|i| if (i as usize) < n { i + 1 } else { 0 }).collect();
            assert_eq!(values(&guarded), expected);
            let never = while_loop(
                (i.zeros_like(), i.zeros_like()),
                |(round, _)| round.lt(2) & i.lt(n as u32),
                |(round, sum)| (round + 1, sum + a.gather(&i)),
            );
            assert_eq!(values(&never.1), expected.iter().map(|v| 2 * v).collect::<Vec<_>>());
            let line = line!() + 4;
            let (_, sum) = while_loop(
                (i.clone(), i.zeros_like()),
                |(at, _)| at.lt(n as u32 + 1),
                |(at, sum)| (&at + 1, sum + a.gather(&at)),
            );
            assert_eq!(told(sum.to_vec()), ("gather", line, n as i128, n as u64));
            let total: u32 = (1..=n as u32).fold(0, |a, b| a.wrapping_add(b));
            assert_eq!(values(&sum)[0], total);
        }
        dev.sync().expect("all was told");
    });
}

#[test]
fn buffers_and_local_arrays_in_regions() {
    on_each(|dev| {
        let i = Array::<u32>::arange(21, dev);
        let buffer = Buffer::<u32>::zeros(5, dev).expect("memory");
        let line = std::cell::Cell::new(0);
        let rounds = while_loop(
            i.zeros_like(),
            |round| round.lt(3),
            |round| {
                if_else(
                    &i.lt(6),
                    (),
                    |()| {
                        line.set(line!() + 1);
                        buffer.scatter_add(Array::from(1u32), &i);
                    },
                    |()| (),
                );
                round + 1
            },
        );
        assert_eq!(told(jit::sync(&(rounds, buffer.clone()))), ("scatter_add", line.get(), 5, 5));
        assert_eq!(values(&buffer.value()), [3; 5]);

        let local = LocalArray::<u32, 4>::zeros();
        let mut own = local.clone();
        own.write(&i % 5, &i);
        let line = line!() - 1;
        let read = own.read(Array::from(2u32));
        assert_eq!(told(read.to_vec()), ("local_write", line, 4, 4));
        let mut own = local;
        own.write(&i % 4, &i + 1);
        let (read, line) = (own.read(&i % 6), line!());
        assert_eq!(told(read.to_vec()), ("local_read", line, 4, 4));
        let expected: Vec<u32> = (0..21).map(|i| if i % 6 == i % 4 { i + 1 } else { 0 }).collect();
        assert_eq!(values(&read), expected);
    });
}

#[test]
fn switches_without_a_closure_for_an_index() {
    fn check<I: Int>(dev: &Device, outside: I, least: I, wanted: i128) {
        for n in SIZES {
            let zero = I::from_bits(0);
            let one = I::from_bits(1);
            let index: Vec<I> = (0..n + 2)
                .map(|i| match i {
                    _ if i == n => outside,
                    _ if i == n + 1 => least,
                    _ if i % 2 == 0 => zero,
                    _ => one,
                })
                .collect();
            let which = array(dev, &index);
            let x = Array::<u32>::arange(n + 2, dev) + 5;
            let (r, line) = (switch(&which, x, &[&|x| x + 1, &|x| x * 2]), line!());
            assert_eq!(told(r.to_vec()), ("switch", line, wanted, 2), "{n} lanes");
            let expected = (0..n as u32).map(|i| if i % 2 == 0 { i + 6 } else { (i + 5) * 2 });
            assert_eq!(values(&r), expected.chain([0, 0]).collect::<Vec<_>>());
        }
    }
    on_each(|dev| {
        check(dev, -1i8, -128i8, -128);
        check(dev, 255u8, 2u8, 2);
        check(dev, 7i32, i32::MIN, i128::from(i32::MIN));
        check(dev, u32::MAX, 3u32, 3);
        check(dev, i64::MAX, 1 << 40, 1 << 40);
        check(dev, u64::MAX, 1u64 << 63, 1 << 63);
        let r = switch(&array(dev, &[4u32]), Array::from(1u32), &[&|x| x]);
        assert_eq!(told(r.to_vec()).3, 1);
    });
}

#[test]
fn lanes_that_get_to_a_switch_and_into_its_closures() {
    on_each(|dev| {
        let n = 40u32;
        let i = Array::<u32>::arange(n as usize, dev);
        let a = Array::<u32>::arange(3, dev) + 7;
        // Nobody gets to the closure of an index outside, nor to an access in another one.
        let which = &i % 2;
        let taken = switch(&which, (), &[&|()| a.gather(&i % 3), &|()| i.clone()]);
        let expected: Vec<u32> = (0..n).map(|i| if i % 2 == 0 { i % 3 + 7 } else { i }).collect();
        assert_eq!(values(&taken), expected);
        let own = i.lt(3).select(0u32, 1u32);
        let own = switch(&own, (), &[&|()| a.gather(&i), &|()| Array::from(0u32)]);
        assert_eq!(values(&own)[..5], [7, 8, 9, 0, 0]);
        let (wrong, line) = (switch(&which, (), &[&|()| a.gather(&i), &|()| i.clone()]), line!());
        assert_eq!(told(wrong.to_vec()), ("gather", line, 4, 3));
        // Lanes that a branch or a loop keeps away.
        let guarded =
            if_else(&i.lt(2), (), |()| switch(&i, (), &[&|()| i.clone(), &|()| &i * 2]), |()| i.clone());
        assert_eq!(values(&guarded)[..4], [0, 2, 2, 3]);
        let line = line!() + 2;
        let step =
            |(k, sum)| (&k + 1, sum + switch(&k, (), &[&|()| Array::from(1u32), &|()| Array::from(10u32)]));
        let zeros = || (i.zeros_like(), i.zeros_like());
        assert_eq!(values(&while_loop(zeros(), |(k, _)| k.lt(2), step).1), [11; 40]);
        let (_, sum) = while_loop(zeros(), |(k, _)| k.lt(i.min(4)), step);
        assert_eq!(told(sum.to_vec()), ("switch", line, 2, 2));
        // One inside of another.
        let inner = |x: Array<u32>| switch(&(&x / 2), x.clone(), &[&|x| x + 1, &|x| x + 2]);
        let nested = switch(&i.min(1), &i % 4, &[&|x| inner(x), &|x| inner(x)]);
        assert_eq!(values(&nested)[..5], [1, 2, 4, 5, 1]);
        // What nobody asks for does not run.
        drop(switch(&i, (), &[&|()| i.clone()]));
        dev.sync().expect("all was told");
    });
}

#[test]
fn what_is_left_out_on_purpose_is_no_mistake() {
    trait Step {
        fn step(&self, x: Array<u32>) -> Array<u32>;
    }
    struct Plus(Array<u32>);
    impl jit::Traverse for Plus {
        fn visit(&self, visitor: &mut dyn jit::traverse::Visitor) {
            self.0.visit(visitor);
        }
        fn rebuild(&self, rebuilder: &mut dyn jit::traverse::Rebuilder) -> Self {
            Plus(self.0.rebuild(rebuilder))
        }
        fn static_key(&self, _: &mut dyn std::hash::Hasher) {}
    }
    impl Step for Plus {
        fn step(&self, x: Array<u32>) -> Array<u32> {
            x + &self.0
        }
    }
    on_each(|dev| {
        let numbers = array(dev, &[-3i32, 0, 2, 9, 2, i32::MAX]);
        assert_eq!(values(&numbers.histogram(3)), [1, 0, 2]);
        let steps = jit::Registry::<dyn Step>::new(dev);
        let (one, two) = (steps.add(Plus(10.into()), |plus| plus), steps.add(Plus(20.into()), |plus| plus));
        let call = |ids: &[u32]| -> Array<u32> {
            let x = Array::<u32>::arange(ids.len(), dev);
            steps.call(&array(dev, ids), x, |plus, x| plus.step(x))
        };
        assert_eq!(values(&call(&[one, 0, two, 0])), [10, 0, 22, 0]);
        let unknown = call(&[one, 7, 0, two]);
        let (op, _, index, size) = told(unknown.to_vec());
        assert_eq!((op, index, size), ("gather", 7, 3));
        assert_eq!(values(&unknown), [10, 0, 0, 23]);
        dev.sync().expect("all was told");
    });
}

#[test]
fn loops_of_both_modes_go_on_and_tell_who_waits_for_their_results() {
    on_each(|dev| {
        for mode in [jit::Mode::Symbolic, jit::Mode::Evaluated] {
            let n = 20u32;
            let table = Array::<u32>::arange(n as usize, dev) + 1;
            let lane = Array::<u32>::arange(n as usize, dev);
            let (last, _) = jit::Loop::new((lane.clone(), Array::from(0u32)))
                .mode(mode)
                .run(|(_, i)| i.lt(&lane % 4), |(at, i)| (table.gather(&at), i + 1));
            assert_eq!(told(last.to_vec()).2, i128::from(n), "{mode:?}");
            let expected = (0..n).map(|lane| match lane {
                // Reads 20, then what is not there, then element 0.
                19 => 1,
                _ => lane + lane % 4,
            });
            assert_eq!(values(&last), expected.collect::<Vec<_>>(), "{mode:?}");
        }
    });
}

#[test]
fn beside_reductions_of_every_kind() {
    on_each(|dev| {
        for n in [1usize, 5, 16, 130, 1025, 5000] {
            let a = Array::<u32>::arange(n, dev);
            let index = Array::<u32>::arange(n, dev) + 1;
            let inside: u32 = (1..n as u32).fold(0, u32::wrapping_add);
            let sum = a.gather(&index).sum();
            assert_eq!(told(sum.item()), ("gather", line!() - 1, n as i128, n as u64));
            assert_eq!(sum.item().expect("told"), inside);
            for by_blocks in [true, false] {
                let gathered = a.gather(&index);
                let sums = if by_blocks { gathered.sum_blocks(7) } else { gathered.sum_cols(1) };
                assert_eq!(told(sums.to_vec()).2, n as i128);
                assert_eq!(values(&sums).iter().fold(0, |a: u32, b| a.wrapping_add(*b)), inside);
            }
            let cols =
                Array::<u32>::arange(3 * n, dev).gather(Array::<u32>::arange(3 * n, dev) + 3).sum_cols(3);
            assert_eq!(told(cols.to_vec()).2, 3 * n as i128);
            // Of one lane, computed from a reduction.
            let last = a.gather(Array::full(1u32, n, dev).sum());
            assert_eq!(told(last.item()).2, n as i128);
            assert_eq!(last.item().expect("told"), 0);
        }
    });
}

#[test]
fn a_cached_plan_tells_the_lines_and_sizes_of_its_new_use() {
    on_each(|dev| {
        let mut lines = Vec::new();
        for n in [4usize, 9, 30] {
            let a = Array::<f32>::zeros(n, dev);
            let index = Array::<u32>::arange(n, dev) * 2;
            let first = (a.gather(&index), line!());
            let second = (a.gather(&index), line!());
            for (array, line) in [first, second] {
                // Equal nodes are one, made by the first line while anybody holds it.
                let (op, at, index, size) = told((array + 1.0).to_vec());
                lines.push(at);
                assert_eq!((op, size), ("gather", n as u64));
                assert!(index >= n as i128 && index <= n as i128 + 1 && at <= line);
            }
        }
        assert_eq!(lines[..2], lines[2..4]);
        dev.clear_kernel_history();
        let before = dev.memory().kernels;
        let a = Array::<f32>::zeros(11, dev);
        let line = line!() + 1;
        let b = a.gather(Array::<u32>::arange(11, dev) * 2) + 1.0;
        assert_eq!(told(b.to_vec()), ("gather", line, 12, 11));
        assert_eq!(dev.memory().kernels, before, "the kernel is that of other sizes and lines");
    });
}

#[test]
fn who_waits_is_told_and_others_are_not() {
    on_each(|dev| {
        let a = Array::<u32>::arange(10, dev);
        let good = &a * 2;
        let bad = a.gather(&a + 1);
        jit::eval(&bad).expect("the host does not wait").wait().expect_err("the event tells");
        jit::sync(&bad).expect("told once");
        let bad = a.gather(&a + 2);
        jit::eval(&bad).expect("the host does not wait");
        assert_eq!(values(&good)[9], 18, "nothing of another evaluation is outside");
        // What was computed from it tells too, if nobody was told.
        let after = &bad + 1;
        jit::eval(&after).expect("the host does not wait");
        assert_eq!(told(after.to_vec()).2, 10);
        assert_eq!(values(&bad)[9], 0);
        assert_eq!(values(&after)[9], 1);
        let bad = a.gather(&a + 3);
        jit::eval(&bad).expect("the host does not wait");
        assert_eq!(told(dev.sync()).2, 10);
        dev.sync().expect("told once");
        assert_eq!(values(&bad)[9], 0);
        let stream = Stream::new(dev).expect("a stream");
        let bad = stream.enter(|| {
            let bad = a.gather(&a + 4);
            jit::eval(&bad).expect("the host does not wait");
            bad
        });
        let bad = bad.expect("a stream");
        assert_eq!(told(stream.sync()).2, 10);
        stream.sync().expect("told once");
        assert_eq!(values(&bad)[5], 9);
        dev.sync().expect("told once");
        let (x, y) = (a.gather(&a + 5), a.gather(&a + 6));
        jit::eval(&x).expect("the host does not wait");
        jit::eval(&y).expect("the host does not wait");
        let both = (x, y);
        assert_eq!(told(jit::sync(&both)).2, 10);
        assert_eq!(told(jit::sync(&both)).2, 10, "each evaluation tells");
        jit::sync(&both).expect("all was told");
    });
}

#[test]
fn each_thread_is_told_of_its_own() {
    on_each(|dev| {
        std::thread::scope(|scope| {
            for thread in 1..5u64 {
                scope.spawn(move || {
                    let a = Array::<u64>::arange(100 * thread as usize, dev);
                    jit::sync(&a).expect("nothing is outside");
                    for round in 1..20u64 {
                        let bad = a.gather(&a + round);
                        let size = 100 * thread;
                        assert_eq!(told(bad.to_vec()).3, size);
                        assert_eq!(values(&bad)[0], round);
                    }
                });
            }
        });
    });
}

#[test]
fn nothing_is_left_behind() {
    on_each(|_| {
        let dev = Device::builder(DeviceKind::Interpreter).checked(true).build().expect("always there");
        let once = || {
            let a = Array::<u32>::arange(50, &dev);
            jit::sync(&a).expect("nothing is outside");
            told(a.gather(&a + 1).to_vec());
            jit::eval(&a.gather(&a + 2)).expect("the host does not wait");
            let stats = dev.memory();
            drop(a);
            (stats.nodes, stats.storages, stats.bytes)
        };
        let first = once();
        for _ in 0..20 {
            assert_eq!(once(), first);
        }
        told(dev.sync());
        let stats = dev.memory();
        assert_eq!((stats.storages, stats.bytes), (0, 0));
    });
}

#[test]
fn unchecked_devices_tell_nothing_and_have_the_same_kernels_as_ever() {
    let dev = crate::support::fresh();
    let a = Array::<u32>::arange(10, &dev);
    assert_eq!(values(&a.gather(&a + 1))[9], 0);
    dev.sync().expect("nothing is told");
    let program = a.gather(&a + 1).programs().pop().expect("a kernel").to_string();
    assert!(!program.contains("scatter"), "{program}");
    let program = |dev: &Device| {
        let a = Array::<u32>::arange(10, dev);
        jit::sync(&a).expect("nothing is outside");
        a.gather(Array::<u32>::arange(10, dev)).programs().len()
    };
    assert_eq!(program(&devices()[0]), program(&dev), "each lane's own element needs no test");
}
