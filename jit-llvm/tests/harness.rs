//! Runs a program on the interpreter and on every variant of the backend, and compares all memory.

use std::sync::{Arc, OnceLock};

use jit_core::backend::{Arg, Backend, CompiledKernel, Launch};
use jit_core::dtype::{DType, is_nan};
use jit_core::error::Error;
use jit_core::interp;
use jit_core::ir::{ParamKind, Program, verify};
use jit_llvm::{LlvmBackend, LlvmOptions, Processor};

/// An argument before it has an address.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    Scalar(u64),
    /// The bits of the elements.
    Memory(Vec<u64>),
}

/// The variants of the backend that this host can run.
pub(crate) fn backends() -> &'static [(String, LlvmBackend)] {
    static BACKENDS: OnceLock<Vec<(String, LlvmBackend)>> = OnceLock::new();
    BACKENDS.get_or_init(|| {
        let variants = [
            (Processor::Host, 4, 1, None),
            (Processor::Host, 8, 2, None),
            (Processor::Host, 16, 3, Some(0)),
            (Processor::X86V3, 8, 2, Some(0)),
            (Processor::X86V3, 4, 1, Some(0)),
            (Processor::X86V4, 16, 2, None),
        ];
        let backend = |(processor, width, threads, streaming_above)| {
            let options = LlvmOptions { vector_width: Some(width), threads: Some(threads), streaming_above };
            match LlvmBackend::for_processor(options, processor) {
                Ok(backend) => {
                    let streaming = streaming_above.map_or("", |_| ", past the caches");
                    Some((format!("{processor:?}, width {width}, {threads} threads{streaming}"), backend))
                }
                // What the host has must work; other processors may be beyond it.
                Err(Error::NoDevice { .. }) if processor != Processor::Host => None,
                Err(error) => panic!("{error}"),
            }
        };
        variants.into_iter().filter_map(backend).collect()
    })
}

/// How results are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Equal {
    /// By bits, but any NaN equals any NaN.
    Values,
    /// By bits.
    Bits,
}

/// Checks that every variant leaves in memory what the interpreter leaves there.
pub(crate) fn check(program: &Program, inputs: &[Input], lanes: &[u64], base: u64, equal: Equal) {
    check_against(program, inputs, lanes, base, equal, &[]);
}

/// As [`check`], for memory whose contents depend on the order of lanes: those parameters are left out.
pub(crate) fn check_against(
    program: &Program,
    inputs: &[Input],
    lanes: &[u64],
    base: u64,
    equal: Equal,
    skip: &[usize],
) {
    check_compiled(program, &compiled(program), inputs, lanes, base, equal, skip);
}

/// As [`check`], for launches of so many lanes in segments of such lengths.
pub(crate) fn check_segments(program: &Program, inputs: &[Input], launches: &[(u64, u64)]) {
    check_launches(program, &compiled(program), inputs, launches, 0, Equal::Values, &[]);
}

/// The program as every variant compiles it.
pub(crate) fn compiled(program: &Program) -> Vec<Compiled> {
    verify(program).unwrap_or_else(|e| panic!("{e}\n{program}"));
    let compile = |b: &LlvmBackend| b.compile(program);
    backends().iter().map(|(n, b)| (n, compile(b).unwrap_or_else(|e| panic!("{n}: {e}")))).collect()
}

/// A program as one variant compiled it, with the variant's name.
pub(crate) type Compiled = (&'static String, Arc<dyn CompiledKernel>);

/// As [`check_against`], with kernels at hand.
pub(crate) fn check_compiled(
    program: &Program,
    kernels: &[Compiled],
    inputs: &[Input],
    lanes: &[u64],
    base: u64,
    equal: Equal,
    skip: &[usize],
) {
    let launches: Vec<(u64, u64)> = lanes.iter().map(|&lanes| (lanes, 0)).collect();
    check_launches(program, kernels, inputs, &launches, base, equal, skip);
}

fn check_launches(
    program: &Program,
    kernels: &[Compiled],
    inputs: &[Input],
    launches: &[(u64, u64)],
    base: u64,
    equal: Equal,
    skip: &[usize],
) {
    let fresh = [Start::Odd, Start::Aligned].map(|start| Arguments::new(program, inputs, start));
    for &(lanes, segment) in launches {
        let mut expected = fresh[0].clone();
        // SAFETY: the arguments own memory of the lengths they state.
        unsafe { interp::run(program, &Launch { args: &expected.args(), lanes, segment, base }) };
        for ((name, kernel), fresh) in kernels.iter().flat_map(|k| fresh.iter().map(move |f| (k, f))) {
            let mut got = fresh.clone();
            // SAFETY: as above.
            unsafe { kernel.launch(&Launch { args: &got.args(), lanes, segment, base }) }
                .unwrap_or_else(|e| panic!("{name}: {e}"));
            // Guards included; only where bytes differ is it worth a closer look.
            if got.memory == expected.memory || got.contents() == expected.contents() {
                continue;
            }
            for (p, (want, got)) in expected.contents().iter().zip(got.contents()).enumerate() {
                if !skip.contains(&p) {
                    compare(
                        program.params[p].dtype,
                        want,
                        &got,
                        equal,
                        &format!("{name}, {lanes} lanes by {segment}: p{p}"),
                    );
                }
            }
        }
    }
}

fn compare(dtype: DType, want: &[u64], got: &[u64], equal: Equal, place: &str) {
    for (i, (&want, &got)) in want.iter().zip(got).enumerate() {
        let both_nan = equal == Equal::Values && is_nan(dtype, want) && is_nan(dtype, got);
        assert!(want == got || both_nan, "{place}[{i}]: {dtype} {got:#x}, the interpreter has {want:#x}");
    }
}

/// Runs a kernel of one variant and yields the contents of all memory.
pub(crate) fn run(backend: &LlvmBackend, program: &Program, inputs: &[Input], lanes: u64) -> Vec<Vec<u64>> {
    let kernel = backend.compile(program).unwrap_or_else(|e| panic!("{e}"));
    let mut arguments = Arguments::new(program, inputs, Start::Odd);
    // SAFETY: the arguments own memory of the lengths they state.
    unsafe { kernel.launch(&Launch { args: &arguments.args(), lanes, segment: 0, base: 0 }) }
        .expect("it runs");
    arguments.contents()
}

/// Memory with a guard before and after it.
#[derive(Clone)]
struct Arguments {
    inputs: Vec<(DType, Input)>,
    memory: Vec<Vec<Line>>,
    start: Start,
}

/// Where the first element stands.
#[derive(Clone, Copy)]
enum Start {
    /// At an address that is a multiple of an element's size and no more.
    Odd,
    /// At a multiple of 64.
    Aligned,
}

#[derive(Clone, Copy, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Bytes before and after.
const GUARD: usize = 256;
const GUARD_BYTE: u8 = 0xa5;

impl Arguments {
    fn new(program: &Program, inputs: &[Input], start: Start) -> Self {
        assert_eq!(program.params.len(), inputs.len(), "one input a parameter");
        let inputs: Vec<_> = program.params.iter().zip(inputs).map(|(p, i)| (p.dtype, i.clone())).collect();
        let memory = program.params.iter().zip(&inputs).map(|(param, (dtype, input))| {
            let Input::Memory(elements) = input else {
                assert_eq!(param.kind, ParamKind::Scalar, "a scalar for a scalar");
                return Vec::new();
            };
            let lines = (2 * GUARD + elements.len() * dtype.size()).div_ceil(64) + 1;
            let mut memory = vec![Line([GUARD_BYTE; 64]); lines];
            let bytes = bytemuck::cast_slice_mut::<Line, u8>(&mut memory);
            for (i, element) in elements.iter().enumerate() {
                let at = start.of(*dtype) + i * dtype.size();
                bytes[at..at + dtype.size()].copy_from_slice(&element.to_le_bytes()[..dtype.size()]);
            }
            memory
        });
        let memory = memory.collect();
        Arguments { inputs, memory, start }
    }

    fn args(&mut self) -> Vec<Arg> {
        let start = self.start;
        let pairs = self.inputs.iter().zip(&mut self.memory);
        pairs
            .map(|((dtype, input), memory)| match input {
                Input::Scalar(bits) => Arg::Scalar(*bits),
                Input::Memory(elements) => Arg::Memory {
                    ptr: memory.as_mut_ptr().cast::<u8>().wrapping_add(start.of(*dtype)),
                    len: elements.len() as u64,
                },
            })
            .collect()
    }

    /// The elements of each memory, its guards checked.
    fn contents(&self) -> Vec<Vec<u64>> {
        let pairs = self.inputs.iter().zip(&self.memory);
        pairs
            .map(|((dtype, input), memory)| {
                let Input::Memory(elements) = input else { return Vec::new() };
                let bytes = bytemuck::cast_slice::<Line, u8>(memory);
                let (before, rest) = bytes.split_at(self.start.of(*dtype));
                let (inside, after) = rest.split_at(elements.len() * dtype.size());
                assert!(before.iter().chain(after).all(|&b| b == GUARD_BYTE), "a write outside of memory");
                let element = |e: &[u8]| {
                    let mut bits = [0; 8];
                    bits[..e.len()].copy_from_slice(e);
                    u64::from_le_bytes(bits)
                };
                inside.chunks(dtype.size()).map(element).collect()
            })
            .collect()
    }
}

impl Start {
    fn of(self, dtype: DType) -> usize {
        match self {
            Start::Odd => GUARD + dtype.size(),
            Start::Aligned => GUARD,
        }
    }
}

/// A sequence of numbers that are the same in every run (SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// Any bits of a type, its special values often.
    pub(crate) fn bits(&mut self, dtype: DType) -> u64 {
        let special = special_values(dtype);
        match self.below(3) {
            0 => special[self.below(special.len() as u64) as usize],
            1 if dtype.is_int() => self.below(20) & dtype.mask(),
            _ => self.next() & dtype.mask(),
        }
    }

    pub(crate) fn many(&mut self, dtype: DType, n: usize) -> Vec<u64> {
        (0..n).map(|_| self.bits(dtype)).collect()
    }
}

/// Values at which an op may go wrong.
pub(crate) fn special_values(dtype: DType) -> Vec<u64> {
    let mask = dtype.mask();
    if !dtype.is_float() {
        let top = 1u64 << (dtype.bits() - 1);
        let mut values = vec![0, 1, 2, 3, 7, mask, mask - 1, top, top - 1, top + 1, mask / 3, 10];
        values.extend((0..dtype.bits()).step_by(5).map(|k| 1u64 << k));
        values.extend([u64::from(dtype.bits()), u64::from(dtype.bits()) - 1, u64::from(dtype.bits()) + 1]);
        return values.into_iter().map(|v| v & mask).collect();
    }
    let numbers = [
        0.0,
        1.0,
        0.5,
        1.5,
        2.5,
        0.1,
        3.0,
        0.49999997,
        1e-5,
        65504.0,
        65520.0,
        100.25,
        2147483648.0,
        2147483647.0,
        4294967296.0,
        9.223372036854776e18,
        1.8446744073709552e19,
        127.0,
        128.0,
        255.9,
        256.0,
        32768.0,
        65535.5,
        8388609.0,
        4503599627370497.5,
        1e30,
        1e-30,
        6e-8,
        f64::INFINITY,
    ];
    let convert = |v: f64| jit_core::op::scalar::cast(DType::F64, dtype, v.to_bits());
    let mut values: Vec<u64> = numbers.iter().flat_map(|&v| [convert(v), convert(-v)]).collect();
    let top = 1u64 << (dtype.bits() - 1);
    // The smallest and largest subnormal, the smallest normal, the largest number, a quiet and a signalling NaN.
    let (mantissa, exponent) = match dtype {
        DType::F16 => (10, 5),
        DType::F32 => (23, 8),
        _ => (52, 11),
    };
    let infinity = ((1u64 << exponent) - 1) << mantissa;
    let edges =
        [1, (1 << mantissa) - 1, 1 << mantissa, infinity - 1, infinity | 1 << (mantissa - 1), infinity | 1];
    values.extend(edges.iter().flat_map(|&b| [b, b | top]));
    values
}
