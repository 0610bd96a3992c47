//! What the engine costs around the kernels: tracing, evaluating what is cached, compiling what is not; and how
//! close a memory-bound kernel comes to a copy.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use jit_core::dtype::{DType, Element};
use jit_core::op::Op;
use jit_core::runtime::{Device, DeviceOptions, DiskCacheOptions};
use jit_core::trace::{Var, eval};
use jit_frontend::Array;
use jit_llvm::{LlvmBackend, LlvmOptions};

fn backend() -> Arc<LlvmBackend> {
    Arc::new(LlvmBackend::new(LlvmOptions::default()).expect("LLVM for this machine"))
}

fn cpu() -> Device {
    Device::new(backend(), DeviceOptions::default())
}

fn upload(device: Device, values: &[f32]) -> Var {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_ne_bytes()).collect();
    Var::upload(device, DType::F32, values.len() as u64, &bytes).expect("memory")
}

fn lit(value: f32) -> Var {
    Var::literal(DType::F32, Element::to_bits(value))
}

fn op(op: Op, a: &Var, b: &Var) -> Var {
    Var::apply(op, DType::F32, &[a, b])
}

/// The chain of `trace_overhead`: `y + a`, `y * b`, `y - c`, `y * b`, over and over.
fn chain(x: &Var, ops: usize, [a, b, c]: [&Var; 3]) -> Var {
    let mut y = x.clone();
    for i in 0..ops {
        y = match i % 4 {
            0 => op(Op::Add, &y, a),
            2 => op(Op::Sub, &y, c),
            _ => op(Op::Mul, &y, b),
        };
    }
    y
}

/// The same with handles that are replaced.
fn chain_by_value(x: &Var, ops: usize, [a, b, c]: [&Var; 3]) -> Var {
    let mut y = x.clone();
    for i in 0..ops {
        match i % 4 {
            0 => y.apply_assign(Op::Add, DType::F32, a),
            2 => y.apply_assign(Op::Sub, DType::F32, c),
            _ => y.apply_assign(Op::Mul, DType::F32, b),
        }
    }
    y
}

/// The same as users write it.
fn chain_of_arrays(x: &Array<f32>, ops: usize, [a, b, c]: [&Array<f32>; 3]) -> Array<f32> {
    let mut y = x.clone();
    for i in 0..ops {
        y = match i % 4 {
            0 => &y + a,
            2 => &y - c,
            _ => &y * b,
        };
    }
    y
}

fn operands(device: Device) -> (Var, [Var; 3]) {
    let of = |k: u32| {
        upload(device, &std::array::from_fn::<f32, 16, _>(|i| 0.5 + ((i as u32 * 7 + k) % 16) as f32 / 32.0))
    };
    (of(1), [of(2), of(3), of(4)])
}

fn tracing(c: &mut Criterion) {
    const OPS: usize = 10_000;
    let device = cpu();
    let (x, [a, b, d]) = operands(device);
    let literals = [lit(0.25), lit(0.75), lit(0.125)];
    let mut group = c.benchmark_group("trace_10000");
    group.throughput(Throughput::Elements(OPS as u64));
    group.bench_function("trace_and_drop", |bench| bench.iter(|| black_box(chain(&x, OPS, [&a, &b, &d]))));
    group.bench_function("trace_and_drop_literals", |bench| {
        bench.iter(|| black_box(chain(&x, OPS, [&literals[0], &literals[1], &literals[2]])));
    });
    group.bench_function("trace_and_drop_by_value", |bench| {
        bench.iter(|| black_box(chain_by_value(&x, OPS, [&a, &b, &d])));
    });
    let arrays = [&x, &a, &b, &d].map(|v| Array::<f32>::from_var(v.clone()));
    group.bench_function("trace_and_drop_arrays", |bench| {
        let [x, a, b, d] = &arrays;
        bench.iter(|| black_box(chain_of_arrays(x, OPS, [a, b, d])));
    });
    group.bench_function("eval_cached", |bench| {
        bench.iter(|| {
            let y = chain(&x, OPS, [&a, &b, &d]);
            eval(&[&y], &[]).expect("evaluation").wait().expect("execution");
        });
    });
    group.finish();
}

fn launching(c: &mut Criterion) {
    let device = cpu();
    let x = upload(device, &vec![0.5; 1024]);
    let (a, b) = (upload(device, &vec![0.25; 1024]), upload(device, &vec![0.75; 1024]));
    c.bench_function("launch_1024/eval_sync", |bench| {
        bench.iter(|| {
            let y = chain(&x, 8, [&a, &b, &a]);
            eval(&[&y], &[]).expect("evaluation").wait().expect("execution");
        });
    });
}

fn compiling(c: &mut Criterion) {
    let mut group = c.benchmark_group("compile_cold");
    group.sample_size(10);
    for ops in [50usize, 1_000, 10_000] {
        group.bench_function(format!("{ops}"), |bench| {
            // A device of its own has an empty cache; something small has woken the backend's compiler. Devices are never
            // freed, so they share a backend and its threads.
            let backend = backend();
            let run = |(x, [a, b, d]): &(Var, [Var; 3]), ops| {
                eval(&[&chain(x, ops, [a, b, d])], &[]).expect("evaluation").wait().expect("execution");
            };
            bench.iter_batched(
                || {
                    let operands = operands(Device::new(Arc::clone(&backend) as _, DeviceOptions::default()));
                    run(&operands, 8);
                    operands
                },
                |operands| run(&operands, ops),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

/// As in a process that finds its kernels on disk: a device with nothing but the directory.
fn loading(c: &mut Criterion) {
    let directory = std::env::temp_dir().join(format!("jit-bench-{}", std::process::id()));
    let backend = backend();
    let device = || {
        let disk_cache = Some(DiskCacheOptions::new(&directory));
        Device::new(Arc::clone(&backend) as _, DeviceOptions { disk_cache, ..DeviceOptions::default() })
    };
    let run = |(x, [a, b, d]): &(Var, [Var; 3]), ops| {
        eval(&[&chain(x, ops, [a, b, d])], &[]).expect("evaluation").wait().expect("execution");
    };
    let mut group = c.benchmark_group("disk_warm");
    group.sample_size(10);
    for ops in [50usize, 1_000, 10_000] {
        run(&operands(device()), ops);
        group.bench_function(format!("{ops}"), |bench| {
            bench.iter_batched(
                || operands(device()),
                |operands| run(&operands, ops),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
    std::fs::remove_dir_all(&directory).expect("the directory was made here");
}

fn memory_bound(c: &mut Criterion) {
    const N: usize = 1 << 24;
    let device = cpu();
    let x = upload(device, &vec![0.5; N]);
    let (a, b) = (upload(device, &vec![0.25; N]), upload(device, &vec![0.75; N]));
    let mut group = c.benchmark_group("memory_2^24");
    group.sample_size(20);
    let mut run = |name: &str, arrays: u64, make: &dyn Fn() -> Var| {
        group.throughput(Throughput::Bytes(arrays * 4 * N as u64));
        group.bench_function(name, |bench| {
            bench.iter(|| eval(&[&make()], &[]).expect("evaluation").wait().expect("execution"));
        });
    };
    run("copy", 2, &|| op(Op::Add, &x, &lit(1.0)));
    run("chain8", 4, &|| chain(&x, 8, [&a, &b, &a]));
    run("sum", 1, &|| x.reduce(Op::ReduceSum));
    let (from, mut to) = (vec![1u8; 4 * N], vec![0u8; 4 * N]);
    group.throughput(Throughput::Bytes(8 * N as u64));
    group.bench_function("memcpy_1_thread", |bench| {
        bench.iter(|| black_box(&mut to).copy_from_slice(black_box(&from)))
    });
    group.finish();
}

criterion_group!(benches, tracing, launching, compiling, loading, memory_bound);
criterion_main!(benches);
