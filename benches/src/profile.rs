//! Sizes.

use clap::ValueEnum;

/// Which sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Profile {
    /// Milliseconds each: to try things, and for the interpreter.
    Tiny,
    /// For processors.
    Cpu,
}

/// The sizes of a profile; see the workloads for what each is.
#[derive(Debug)]
pub struct Sizes {
    pub trace_ops: usize,
    pub launches: usize,
    pub compile_ops: &'static [usize],
    pub axpy: usize,
    pub transcendental: usize,
    pub reduced: usize,
    /// Rows and columns of the matrix that is reduced.
    pub matrix: usize,
    pub gathered: usize,
    pub tables: [usize; 2],
    pub scattered: usize,
    pub bins: [usize; 2],
    /// Rows of the table, and how many are looked up.
    pub packets: (usize, usize),
    pub mandelbrot: u32,
    pub raymarch: (u32, u32),
    /// Width and samples for each pixel; powers of two.
    pub pathtracer: (u32, u32),
    pub switch: usize,
    pub blur: u32,
    pub bodies: u32,
    /// Samples, parameters, iterations.
    pub memory: (usize, usize, usize),
}

impl Profile {
    /// The name, as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Profile::Tiny => "tiny",
            Profile::Cpu => "cpu",
        }
    }

    /// The sizes.
    pub fn sizes(self) -> &'static Sizes {
        match self {
            Profile::Tiny => &TINY,
            Profile::Cpu => &CPU,
        }
    }
}

static TINY: Sizes = Sizes {
    trace_ops: 200,
    launches: 50,
    compile_ops: &[50, 200],
    axpy: 1 << 16,
    transcendental: 1 << 16,
    reduced: 1 << 16,
    matrix: 256,
    gathered: 1 << 16,
    tables: [1 << 12, 1 << 16],
    scattered: 1 << 16,
    bins: [1 << 6, 1 << 10],
    packets: (1 << 10, 1 << 12),
    mandelbrot: 128,
    raymarch: (192, 108),
    pathtracer: (64, 8),
    switch: 1 << 14,
    blur: 256,
    bodies: 512,
    memory: (1 << 12, 1 << 8, 50),
};

static CPU: Sizes = Sizes {
    trace_ops: 10_000,
    launches: 1_000,
    compile_ops: &[50, 1_000, 10_000, 50_000],
    axpy: 1 << 24,
    transcendental: 1 << 24,
    reduced: 1 << 26,
    matrix: 4096,
    gathered: 1 << 24,
    tables: [1 << 20, 1 << 26],
    scattered: 1 << 24,
    bins: [1 << 10, 1 << 20],
    packets: (1 << 20, 1 << 22),
    mandelbrot: 1024,
    raymarch: (1920, 1080),
    pathtracer: (512, 64),
    switch: 1 << 22,
    blur: 4096,
    bodies: 16_384,
    memory: (1 << 18, 1 << 14, 1_000),
};
