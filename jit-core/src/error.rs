//! The one error type of everything that launches, waits, allocates, or touches a file or a framework.

use crate::backend::DeviceKind;
use crate::dtype::DType;

/// What can go wrong outside the building of a trace. (A mistake in building panics at the caller's line.)
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The machine's or the installation's fault: that kind of device cannot be had here.
    #[error("no {kind} device: {why}")]
    NoDevice {
        /// The kind that was asked for.
        kind: DeviceKind,
        /// Why there is none, and what to do.
        why: String,
    },
    /// The caller's fault: arrays of two devices meet in one call.
    #[error("{op} got arrays of two devices, {first} and {second}; move one with `to_device`")]
    MixedDevices {
        /// What was called.
        op: &'static str,
        /// The device seen first.
        first: String,
        /// The other device.
        second: String,
    },
    /// The caller's fault: an evaluation or a read inside the closure of a loop or branch.
    #[error(
        "{what} inside a {region} opened at {opened}; finish the region first, or keep the value in its state"
    )]
    InsideRegion {
        /// What was called.
        what: &'static str,
        /// The kind of region.
        region: &'static str,
        /// Where it was opened.
        opened: String,
    },
    /// The caller's fault: a host wait inside `forbid_host_sync`.
    #[error("{what} would make the host wait inside `forbid_host_sync`")]
    HostSyncForbidden {
        /// What was called.
        what: &'static str,
    },
    /// The caller's fault: a value that must have one element has more or none.
    #[error("{what} takes an array of size 1, this one has {size} elements")]
    NotScalar {
        /// What was called.
        what: &'static str,
        /// The array's size.
        size: u64,
    },
    /// The caller's fault: an index on the host side is out of range.
    #[error("{op} at index {index} of an array of {size} elements{location}")]
    OutOfBounds {
        /// The op.
        op: &'static str,
        /// ` (made at file:line)`, or empty.
        location: String,
        /// The index.
        index: i128,
        /// The size of the memory.
        size: u64,
    },
    /// The caller's fault: a reduction that has no value for no elements was evaluated on none.
    #[error("`{op}` of an array without elements has no value; ask for its size first")]
    EmptyReduction {
        /// The reduction.
        op: &'static str,
    },
    /// The request's size or the machine's: no memory is left after everything that is cached was given back.
    #[error(
        "out of memory: {requested} bytes asked for, {in_use} in use, {cached} cached; drop arrays, call `trim`, or work on fewer lanes at a time ({holders})"
    )]
    OutOfMemory {
        /// Bytes of the failed request.
        requested: u64,
        /// Bytes held by arrays.
        in_use: u64,
        /// Bytes kept for reuse.
        cached: u64,
        /// What holds the memory, or why the allocator refused.
        holders: String,
    },
    /// The backend's limit: it cannot do this op on this type.
    #[error("the {backend} backend has no `{op}` on {dtype}; cast to another type, or use another device")]
    Unsupported {
        /// The op.
        op: &'static str,
        /// The element type.
        dtype: DType,
        /// The backend's name.
        backend: &'static str,
    },
    /// This library's fault: code generation failed. The log and the program belong into a bug report.
    #[error("a kernel failed to compile: {log}\n{program}")]
    Compile {
        /// What the compiler said.
        log: String,
        /// The program in text form.
        program: String,
    },
    /// This library's fault: a program breaks a rule of the language.
    #[error("{0}")]
    Verify(String),
    /// The text's fault: a program does not parse.
    #[error("line {line}: {message}")]
    Parse {
        /// The line, from 1.
        line: usize,
        /// What was expected.
        message: String,
    },
    /// This library's or the machine's fault: a kernel failed, or an earlier batch that this one needs.
    #[error("execution failed: {0}")]
    Execution(String),
    /// The caller's fault: a configuration that no device can have.
    #[error("device configuration: {0}")]
    Config(String),
    /// The file's or the system's fault: a file could not be read or written.
    #[error("{path}: {why}")]
    Io {
        /// The file.
        path: String,
        /// The system's words.
        why: String,
    },
}
