//! The workloads, one file each. What each row is stands beside the code that makes it.

mod axpy_chain;
mod chain;
mod compile_cold;
mod gather_scatter;
mod launch_latency;
mod mandelbrot;
mod memory;
mod pathtracer;
mod raymarch;
mod reductions;
mod stencil_nbody;
mod switch;
mod trace_overhead;
mod transcendental;

pub use compile_cold::disk_warm_child;
use jit_frontend::Array;

use crate::record::{Measured, Metric};
use crate::suite::Suite;
use crate::timing::Samples;

/// A named group of rows.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// The name, the first part of its rows' names.
    pub name: &'static str,
    /// Measures the rows.
    pub run: fn(&mut Suite),
}

/// All workloads in order.
pub static WORKLOADS: &[Workload] = &[
    Workload { name: "trace_overhead", run: trace_overhead::run },
    Workload { name: "launch_latency", run: launch_latency::run },
    Workload { name: "compile_cold", run: compile_cold::run },
    Workload { name: "axpy_chain", run: axpy_chain::run },
    Workload { name: "transcendental", run: transcendental::run },
    Workload { name: "reductions", run: reductions::run },
    Workload { name: "gather_scatter", run: gather_scatter::run },
    Workload { name: "mandelbrot", run: mandelbrot::run },
    Workload { name: "raymarch", run: raymarch::run },
    Workload { name: "pathtracer", run: pathtracer::run },
    Workload { name: "switch", run: switch::run },
    Workload { name: "stencil_nbody", run: stencil_nbody::run },
    Workload {
        name: "ad_texture",
        run: |suite| suite.skip("", "the engine has no automatic differentiation yet"),
    },
    Workload { name: "memory", run: memory::run },
    Workload { name: "export", run: |suite| suite.skip("", "the engine has no DLPack export yet") },
];

type F32 = Array<f32>;

/// A row in Gelem/s, of samples in seconds.
fn elements_rate(name: &str, n: usize, seconds: &Samples) -> Measured {
    Measured::new(name, n, Metric::Throughput, "Gelem/s", seconds.rate(1e-9 * n as f64))
}

/// A row in GB/s, of samples in seconds.
fn bandwidth(name: &str, n: usize, bytes_each: usize, seconds: &Samples) -> Measured {
    let rate = seconds.rate(1e-9 * (bytes_each * n) as f64);
    Measured::new(name, n, Metric::Bandwidth, "GB/s", rate)
}
