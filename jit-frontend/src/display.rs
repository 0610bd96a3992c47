//! How arrays look: `Debug` says what they are, `Display` what they hold.

use std::fmt;

use jit_core::dtype::format_bits;

use crate::Array;
use crate::element::Element;

/// Longer arrays are shortened.
const SHOWN: usize = 20;
/// Elements at either end of a shortened one.
const EDGE: usize = 8;

impl<T: Element> fmt::Debug for Array<T> {
    /// Type, size and state. Never evaluates.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.var.fmt(f)
    }
}

impl<T: Element> fmt::Display for Array<T> {
    /// Evaluates and writes the values, the middle of long arrays left out; if that fails, the error.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = match self.var.check_readable().and_then(|()| self.to_vec()) {
            Ok(values) => values,
            Err(error) => return write!(f, "[error: {error}]"),
        };
        let whole = values.len() <= SHOWN;
        f.write_str("[")?;
        for (i, value) in values.iter().enumerate() {
            if !whole && i == EDGE {
                write!(f, ", ... {} more", values.len() - 2 * EDGE)?;
            }
            if whole || i < EDGE || i >= values.len() - EDGE {
                f.write_str(if i == 0 { "" } else { ", " })?;
                f.write_str(&format_bits(T::DTYPE, value.to_bits()))?;
            }
        }
        f.write_str("]")
    }
}
