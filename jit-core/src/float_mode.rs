//! What compiling may do to float arithmetic: of a device, of a scope of a program, and so of each op traced there.

use std::cell::Cell;

use crate::op::{Class, Op};

/// What compiling may do to float arithmetic.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FloatMode {
    /// Nothing: the same bits on every device, at every vector width, with literals or arrays.
    #[default]
    Strict,
    /// Products may be fused into sums (`a * b + c` rounded once). Results then depend on what shares a kernel.
    Contract,
    /// As `Contract`; quotients by constants become products with their reciprocals, and `rsqrt` the two rounded ops.
    Fast,
}

thread_local! {
    /// The mode of the innermost scope of this thread, as [`FloatMode::imm`] has it.
    static SCOPE: Cell<u8> = const { Cell::new(0) };
}

/// Traces with that mode, whatever the device's is: an op's mode is that of the scope in which it was traced.
pub fn with_float_mode<R>(mode: FloatMode, f: impl FnOnce() -> R) -> R {
    struct Restore(u8);
    impl Drop for Restore {
        fn drop(&mut self) {
            SCOPE.set(self.0);
        }
    }
    let _restore = Restore(SCOPE.replace(mode.imm() as u8));
    f()
}

impl FloatMode {
    /// As an op carries it; 0 stands for the device's.
    const fn imm(self) -> u64 {
        self as u64 + 1
    }

    /// The mode of an op that carries that number, on a device of mode `self`. Numbers that no op carries are the device's.
    pub(crate) const fn of(self, imm: u64) -> FloatMode {
        match imm {
            1 => FloatMode::Strict,
            2 => FloatMode::Contract,
            3 => FloatMode::Fast,
            _ => self,
        }
    }

    /// Whether products may be fused into sums.
    pub(crate) fn contracts(self) -> bool {
        self != FloatMode::Strict
    }

    /// The word for it behind an instruction that carries it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            FloatMode::Strict => "strict",
            FloatMode::Contract => "contract",
            FloatMode::Fast => "fast",
        }
    }
}

/// The names of the modes that an op may carry, in the order of their numbers, from 1.
pub(crate) const CARRIED: [FloatMode; 3] = [FloatMode::Strict, FloatMode::Contract, FloatMode::Fast];

/// What an op of floats that is traced now carries.
#[inline]
pub(crate) fn carried(op: Op) -> u64 {
    let scope = SCOPE.get();
    if scope == 0 || !may_carry(op) { 0 } else { u64::from(scope) }
}

/// Whether a mode changes what may become of an op of floats.
pub(crate) fn may_carry(op: Op) -> bool {
    matches!(op, Op::Add | Op::Sub | Op::Mul | Op::Div) || op.class() == Class::Math
}
