//! Memory: who gets it next, and when; what there is; what happens if there is none.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use jit_core::dtype::DType;
use jit_core::error::Error;
use jit_core::interp::{Interpreter, Mode};
use jit_core::op::Op;
use jit_core::runtime::{Device, DeviceOptions, Gate, Stream, forbid_host_sync};
use jit_core::trace::{Var, eval};

use crate::host::{lit, read, upload};
use crate::{devices, recorder};

const LEN: u64 = 50_000;
const BYTES: u64 = LEN * 4;

fn add(a: &Var, b: &Var) -> Var {
    Var::apply(Op::Add, a.dtype(), &[a, b])
}

/// 1, 2, 3 and so on, each time an array of its own.
fn counted(dev: Device, len: u64) -> Var {
    static SALT: AtomicU32 = AtomicU32::new(7);
    // Relaxed: the numbers only have to differ.
    let salt = lit(SALT.fetch_add(1, Ordering::Relaxed));
    let salted = Var::apply(Op::Sub, DType::U32, &[&Var::counter(dev, DType::U32, len), &salt]);
    add(&add(&salted, &salt), &lit(1u32))
}

fn with_budget(bytes: u64) -> Device {
    let options =
        DeviceOptions { memory_budget: Some(bytes as usize), poison: true, ..DeviceOptions::default() };
    Device::new(Arc::new(Interpreter::new(Mode::Lowered)), options)
}

/// Devices that store no more than they are asked for.
fn fusing() -> Vec<Device> {
    let mut devices = devices::fresh();
    devices.remove(1);
    devices
}

fn in_all(dev: Device) -> u64 {
    let memory = dev.memory();
    memory.bytes + memory.cached
}

/// A stream's own dropped arrays are the next ones' memory, though none of its work has run.
#[test]
fn a_stream_reuses_memory_in_its_order() {
    for dev in fusing() {
        let own = Stream::new(dev).expect("a stream");
        let gate = Gate::new();
        own.wait(&gate.event());
        let mut sums = Vec::new();
        own.enter(|| {
            for k in 0..20u32 {
                let x = add(&counted(dev, LEN), &lit(k));
                eval(&[&x], &[]).expect("evaluation");
                let sum = x.reduce(Op::ReduceSum);
                eval(&[&sum], &[]).expect("evaluation");
                sums.push(sum);
            }
        });
        assert!(in_all(dev) < 2 * BYTES, "{} bytes for one array at a time", in_all(dev));
        gate.open();
        let all: u64 = (1..=LEN).sum();
        for (k, sum) in sums.iter().enumerate() {
            assert_eq!(read::<u32>(sum), [(all + LEN * k as u64) as u32], "on {dev:?}");
        }
    }
}

/// Memory that a held stream still works on is nobody else's: neither a stream's nor the host's.
#[test]
fn memory_in_use_on_one_stream_is_not_given_to_another() {
    for dev in devices::fresh() {
        let own = Stream::new(dev).expect("a stream");
        let gate = Gate::new();
        own.wait(&gate.event());
        let x = counted(dev, LEN);
        let sum = own.enter(|| {
            eval(&[&x], &[]).expect("evaluation");
            let sum = x.reduce(Op::ReduceSum);
            eval(&[&sum], &[]).expect("evaluation");
            sum
        });
        drop(x);
        assert!(dev.memory().cached >= BYTES, "what is dropped is free for its own stream");
        let uploaded = upload(dev, &vec![7u32; LEN as usize]);
        let other = add(&counted(dev, LEN), &lit(1u32));
        assert_eq!(read::<u32>(&other)[..2], [2, 3]);
        dev.trim();
        assert!(dev.memory().cached >= BYTES, "the system gets nothing that work will touch");
        gate.open();
        assert_eq!(read::<u32>(&sum), [(1..=LEN).sum::<u64>() as u32]);
        assert_eq!(read::<u32>(&uploaded)[LEN as usize - 1], 7);
        own.sync().expect("no error");
        dev.trim();
        assert_eq!(dev.memory().cached, 0);
    }
}

#[test]
fn a_budget_is_kept() {
    let dev = with_budget(3 * BYTES + 1000);
    let arrays: Vec<Var> = (0..3).map(|_| counted(dev, LEN)).collect();
    let all: Vec<&Var> = arrays.iter().collect();
    eval(&all, &[]).expect("they fit").wait().expect("no error");
    let labelled = counted(dev, LEN);
    arrays[0].set_label("albedo");
    let error = eval(&[&labelled], &[]).expect_err("it does not");
    let Error::OutOfMemory { requested, in_use, .. } = error else { panic!("{error}") };
    assert_eq!((requested, in_use), (BYTES, 3 * BYTES));
    let error = upload_error(dev);
    for part in ["budget", "\"albedo\"", "u32[50000]", "memory.rs:"] {
        assert!(error.contains(part), "`{part}` in: {error}");
    }
    // One goes, one comes, and what is cached makes room for what has another size.
    drop(arrays);
    eval(&[&labelled], &[]).expect("there is room").wait().expect("no error");
    let long = counted(dev, 2 * LEN - 100);
    assert_eq!(read::<u32>(&long)[1], 2);
    assert!(in_all(dev) <= 3 * BYTES + 1000);
    assert_eq!(read::<u32>(&labelled)[1], 2);
}

fn upload_error(dev: Device) -> String {
    let bytes = vec![0; BYTES as usize];
    Var::upload(dev, DType::U32, LEN, &bytes).expect_err("no room").to_string()
}

/// Where there is no other memory, a stream waits for another's, and the host for either.
#[test]
fn memory_in_use_is_waited_for_if_there_is_no_other() {
    let dev = with_budget(2 * BYTES + 1000);
    let own = Stream::new(dev).expect("a stream");
    let gate = Gate::new();
    own.wait(&gate.event());
    let x = counted(dev, LEN);
    let sum = own.enter(|| {
        eval(&[&x], &[]).expect("evaluation");
        let sum = x.reduce(Op::ReduceSum);
        eval(&[&sum], &[]).expect("evaluation");
        sum
    });
    drop(x);
    let (first, second) = (counted(dev, LEN), counted(dev, LEN));
    let free = eval(&[&first], &[]).expect("room");
    free.wait().expect("no error");
    let waiting = eval(&[&second], &[]).expect("the held stream's memory");
    assert!(!waiting.is_complete().expect("no error"), "it must wait for the gate");
    drop(second);
    let forbidden = forbid_host_sync(|| Var::upload(dev, DType::U32, LEN, &vec![0; BYTES as usize]));
    assert!(matches!(forbidden, Err(Error::OutOfMemory { .. })));
    std::thread::scope(|s| {
        let uploading = s.spawn(|| upload(dev, &vec![7u32; LEN as usize]));
        gate.open();
        let uploaded = uploading.join().expect("room, in the end");
        assert_eq!(read::<u32>(&uploaded)[3], 7);
    });
    assert_eq!(read::<u32>(&sum), [(1..=LEN).sum::<u64>() as u32]);
}

/// `sum(x * y)` reads each of them once and has no room for a product.
#[test]
fn a_reduction_of_a_product_takes_no_memory() {
    let (dev, log) = recorder::recorded();
    let (x, y) = (upload(dev, &vec![2u32; LEN as usize]), upload(dev, &vec![3u32; LEN as usize]));
    log.take_allocations();
    let before = in_all(dev);
    let sum = Var::apply(Op::Mul, DType::U32, &[&x, &y]).reduce(Op::ReduceSum);
    assert_eq!(read::<u32>(&sum), [6 * LEN as u32]);
    let launches = log.take();
    assert_eq!(launches.len(), 1);
    assert_eq!(launches[0].bytes, 2 * BYTES + 4);
    assert_eq!(log.take_allocations(), 1);
    assert!(in_all(dev) <= before + 64);
}

#[test]
fn what_a_device_holds_is_listed() {
    let (dev, _) = recorder::recorded();
    let x = upload(dev, &vec![1.0f32; 1000]);
    x.set_label("weights");
    let y = upload(dev, &vec![1.0f64; 2000]);
    let line = line!() - 1;
    let memory = dev.memory();
    assert_eq!((memory.storages, memory.bytes), (2, 20_000));
    let [first, second] = &memory.holders[..] else { panic!("{:?}", memory.holders) };
    assert_eq!((first.bytes, first.dtype, first.len, &first.label), (16_000, DType::F64, 2000, &None));
    assert!(first.made_at.file().ends_with("memory.rs") && first.made_at.line() == line);
    assert_eq!((second.bytes, second.label.as_deref()), (4000, Some("weights")));
    drop((x, y));
    assert_eq!(dev.memory().holders, []);
}

/// Sizes need no power of two, and a little less is served by what there is.
#[test]
fn blocks_fit() {
    let dev = with_budget(1 << 30);
    for len in [2u64, 16, 17, 1000, 4097, 100_001] {
        let x = counted(dev, len);
        eval(&[&x], &[]).expect("evaluation").wait().expect("no error");
        drop(x);
        assert_eq!(dev.memory().cached, (len * 4).next_multiple_of(64));
        dev.trim();
    }
    let x = counted(dev, 1000);
    eval(&[&x], &[]).expect("evaluation").wait().expect("no error");
    drop(x);
    let cached = dev.memory().cached;
    let less = counted(dev, 950);
    eval(&[&less], &[]).expect("evaluation").wait().expect("no error");
    assert_eq!(dev.memory().cached, 0, "of {cached}");
    let far_less = counted(dev, 100);
    drop(less);
    eval(&[&far_less], &[]).expect("evaluation").wait().expect("no error");
    assert_eq!(dev.memory().cached, cached, "too small for that block");
}

#[test]
fn memory_is_aligned_to_cache_lines() {
    for bytes in [1, 63, 64, 65, 4096, 100_001] {
        let block = jit_core::backend::allocate_host(bytes).expect("memory");
        assert_eq!(block.ptr() as usize % 64, 0);
    }
}
