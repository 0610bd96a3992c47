//! Launches kernels on memory that tests own.

use jit_core::backend::{Arg, CompiledKernel, Launch};
use jit_core::dtype::DType;
use jit_core::ir::{ParamKind, Program};

/// An argument of a launch, by bits.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Argument {
    /// A number.
    Scalar(u64),
    /// Memory.
    Memory(Vec<u64>),
}

/// How large a launch is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) lanes: u64,
    /// The length of segments.
    pub(crate) segment: u64,
    pub(crate) base: u64,
}

/// Runs a kernel and leaves in `arguments` what memory holds afterwards.
///
/// # Panics
/// If the arguments do not fit the program, memory is shorter than the program demands, or the launch fails.
pub(crate) fn launch(kernel: &dyn CompiledKernel, program: &Program, arguments: &mut [Argument], size: Size) {
    let Size { lanes, segment, base } = size;
    assert_eq!(program.params.len(), arguments.len(), "one argument a parameter");
    let mut memory: Vec<Vec<u64>> = Vec::new();
    for ((param, argument), need) in
        program.params.iter().zip(&*arguments).zip(program.required_lens(lanes, base, segment))
    {
        match argument {
            Argument::Scalar(_) => assert_eq!(param.kind, ParamKind::Scalar, "a number for memory"),
            Argument::Memory(elements) => {
                assert_ne!(param.kind, ParamKind::Scalar, "memory for a number");
                assert!(elements.len() as u64 >= need, "{} elements, {need} are needed", elements.len());
            }
        }
        memory.push(to_memory(param.dtype, argument));
    }
    let args: Vec<Arg> = arguments
        .iter()
        .zip(&mut memory)
        .map(|(argument, memory)| match argument {
            Argument::Scalar(bits) => Arg::Scalar(*bits),
            Argument::Memory(elements) => {
                Arg::Memory { ptr: memory.as_mut_ptr().cast(), len: elements.len() as u64 }
            }
        })
        .collect();
    // SAFETY: each pointer is to a vector of its own, which holds its length in elements and lives until after the
    // call; numbers, kinds and lengths were checked above.
    unsafe { kernel.launch(&Launch { args: &args, lanes, segment, base }) }.expect("a launch");
    for ((param, argument), memory) in program.params.iter().zip(arguments).zip(&memory) {
        if let Argument::Memory(elements) = argument {
            from_memory(param.dtype, memory, elements);
        }
    }
}

/// Elements as they lie in memory, in words so that they are aligned.
fn to_memory(dtype: DType, argument: &Argument) -> Vec<u64> {
    let Argument::Memory(elements) = argument else { return Vec::new() };
    let bytes: Vec<u8> =
        elements.iter().flat_map(|bits| bits.to_le_bytes().into_iter().take(dtype.size())).collect();
    let word = |chunk: &[u8]| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    };
    bytes.chunks(8).map(word).collect()
}

fn from_memory(dtype: DType, memory: &[u64], elements: &mut [u64]) {
    let bytes: Vec<u8> = memory.iter().flat_map(|word| word.to_le_bytes()).collect();
    for (element, chunk) in elements.iter_mut().zip(bytes.chunks(dtype.size())) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        *element = u64::from_le_bytes(word);
    }
}
