//! Kernels that are made from no program: scans, sorting, compression, in Rust, on the backend's threads.

mod compress;
mod memory;
mod scan;
mod sort;

use std::sync::Arc;

use half::f16;
use jit_core::backend::{Arg, CompiledKernel, Launch};
use jit_core::builtin::Builtin;
use jit_core::dtype::DType;
use jit_core::error::Error;
use memory::{Input, Output};

use crate::pool::Pool;

/// A builtin on the threads of a pool.
pub(crate) struct Kernel {
    builtin: Builtin,
    pool: Arc<Pool>,
    /// Launches that store more bytes than this may store past the caches.
    streaming_above: u64,
}

impl Kernel {
    pub(crate) fn new(builtin: Builtin, pool: Arc<Pool>, streaming_above: u64) -> Kernel {
        Kernel { builtin, pool, streaming_above }
    }

    /// Whether what is written would not stay in the caches until it is read.
    fn streams(&self, to: Arg) -> bool {
        let [_, dtype] = self.builtin.dtypes();
        let Arg::Memory { len, .. } = to else { return false };
        len.saturating_mul(dtype.size() as u64) > self.streaming_above
    }
}

/// What a launch works on.
struct Task<'a> {
    pool: &'a Pool,
    from: Arg,
    to: Arg,
}

impl Task<'_> {
    /// The memory that is read.
    ///
    /// # Safety
    /// It holds elements of that type, and nobody writes to it while the input lives.
    unsafe fn input<T>(&self) -> Input<'_, T> {
        // SAFETY: passed on.
        unsafe { Input::new(self.from) }
    }

    /// The memory that is written.
    ///
    /// # Safety
    /// It has room for elements of that type, and nobody else touches it while the output lives.
    unsafe fn output<T>(&self) -> Output<'_, T> {
        // SAFETY: passed on.
        unsafe { Output::new(self.to) }
    }
}

impl CompiledKernel for Kernel {
    unsafe fn launch(&self, launch: &Launch<'_>) -> Result<(), Error> {
        let [from @ Arg::Memory { .. }, to @ Arg::Memory { .. }, Arg::Scalar(number)] = *launch.args else {
            let message = format!("`{}` takes two memories and a number", self.builtin.name());
            return Err(Error::Execution(message));
        };
        let task = Task { pool: &self.pool, from, to };
        // For each type the same function.
        macro_rules! by_type {
            ($dtype:expr, $function:path $(, $argument:expr)*) => {
                match $dtype {
                    DType::Bool | DType::U8 => $function(task.input::<u8>(), $($argument),*),
                    DType::I8 => $function(task.input::<i8>(), $($argument),*),
                    DType::U16 => $function(task.input::<u16>(), $($argument),*),
                    DType::I16 => $function(task.input::<i16>(), $($argument),*),
                    DType::U32 => $function(task.input::<u32>(), $($argument),*),
                    DType::I32 => $function(task.input::<i32>(), $($argument),*),
                    DType::U64 => $function(task.input::<u64>(), $($argument),*),
                    DType::I64 => $function(task.input::<i64>(), $($argument),*),
                    DType::F16 => $function(task.input::<f16>(), $($argument),*),
                    DType::F32 => $function(task.input::<f32>(), $($argument),*),
                    DType::F64 => $function(task.input::<f64>(), $($argument),*),
                }
            };
        }
        // SAFETY: the caller promises memory of the builtin's types, apart from each other, that nobody else writes to, nor
        // reads what is written.
        unsafe {
            match self.builtin {
                Builtin::Scan { combine, dtype, exclusive, reverse } => {
                    let past_caches = self.streams(to);
                    let how = scan::How { combine, exclusive, reverse, length: number, past_caches };
                    by_type!(dtype, scan::run, task.output(), how, task.pool);
                    Ok(())
                }
                Builtin::Sort { dtype } => {
                    by_type!(dtype, sort::elements, task.output(), task.pool);
                    Ok(())
                }
                Builtin::Argsort { dtype, index: DType::U32 } => {
                    by_type!(dtype, sort::indices, task.output::<u32>(), task.pool)
                }
                Builtin::Argsort { dtype, .. } => {
                    by_type!(dtype, sort::indices, task.output::<u64>(), task.pool)
                }
                Builtin::Compress { index: DType::U32 } => {
                    compress::run(task.input(), task.output::<u32>(), task.pool);
                    Ok(())
                }
                Builtin::Compress { .. } => {
                    compress::run(task.input(), task.output::<u64>(), task.pool);
                    Ok(())
                }
            }
        }
    }
}
