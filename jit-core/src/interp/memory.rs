//! The memory arguments of a launch, read and written element by element.

use crate::backend::Arg;
use crate::ir::{ParamId, Program};

/// The bits of an element of that size.
///
/// # Safety
/// It can be read there.
pub(super) unsafe fn read(at: *const u8, size: usize) -> u64 {
    // SAFETY: the caller promises it.
    unsafe {
        match size {
            1 => u64::from(at.read()),
            2 => u64::from(at.cast::<u16>().read_unaligned()),
            4 => u64::from(at.cast::<u32>().read_unaligned()),
            _ => at.cast::<u64>().read_unaligned(),
        }
    }
}

/// Writes the bits of an element of that size.
///
/// # Safety
/// It can be written there.
pub(super) unsafe fn write(at: *mut u8, size: usize, bits: u64) {
    // SAFETY: the caller promises it.
    unsafe {
        match size {
            1 => at.write(bits as u8),
            2 => at.cast::<u16>().write_unaligned(bits as u16),
            4 => at.cast::<u32>().write_unaligned(bits as u32),
            _ => at.cast::<u64>().write_unaligned(bits),
        }
    }
}

/// The arguments of a launch beside the parameters they belong to.
pub(super) struct Memory<'a> {
    program: &'a Program,
    args: &'a [Arg],
}

impl<'a> Memory<'a> {
    /// # Safety
    /// While this value lives, every memory argument is valid for its length times the parameter's element size,
    /// for reading and, unless the parameter is `in`, for writing, and nobody else writes to it.
    pub(super) unsafe fn new(program: &'a Program, args: &'a [Arg]) -> Self {
        assert_eq!(program.params.len(), args.len(), "one argument a parameter");
        Memory { program, args }
    }

    /// The bits of a scalar argument.
    pub(super) fn scalar(&self, param: ParamId) -> u64 {
        match self.args[param.index()] {
            Arg::Scalar(bits) => bits,
            Arg::Memory { .. } => panic!("{param} is memory, not a scalar"),
        }
    }

    /// The length in elements.
    pub(super) fn len(&self, param: ParamId) -> u64 {
        match self.args[param.index()] {
            Arg::Scalar(_) => panic!("{param} is a scalar, not memory"),
            Arg::Memory { len, .. } => len,
        }
    }

    /// The bits of an element.
    pub(super) fn read(&self, param: ParamId, index: u64) -> u64 {
        let (at, size) = self.locate(param, index);
        // SAFETY: `locate` checked that the element lies within memory that `new`'s caller promised to be valid.
        unsafe { read(at, size) }
    }

    /// Writes the bits of an element.
    pub(super) fn write(&mut self, param: ParamId, index: u64, bits: u64) {
        let (at, size) = self.locate(param, index);
        assert!(self.program.params[param.index()].kind.is_written(), "{param} is read only");
        // SAFETY: as in `read`, and the parameter's kind allows writing.
        unsafe { write(at, size, bits) }
    }

    fn locate(&self, param: ParamId, index: u64) -> (*mut u8, usize) {
        let Arg::Memory { ptr, len } = self.args[param.index()] else { panic!("{param} is no memory") };
        assert!(index < len, "element {index} of {param}, which has {len}");
        let size = self.program.params[param.index()].dtype.size();
        (ptr.wrapping_add(index as usize * size), size)
    }
}
