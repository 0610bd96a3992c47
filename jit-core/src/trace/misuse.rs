//! What is said about mistakes of the program that builds the trace.

use super::{NodeId, Trace};
use crate::op::Op;

/// A mistake of the program that builds the trace; the public layer panics with it at the caller's line.
///
/// One word, so that a result with one costs the way without mistakes nothing.
#[derive(Debug, Clone)]
pub(crate) struct Misuse(#[expect(clippy::box_collection, reason = "see above")] pub(super) Box<String>);

impl Misuse {
    #[cold]
    pub(crate) fn new(message: String) -> Misuse {
        Misuse(Box::new(message))
    }
}

impl Trace {
    #[cold]
    pub(super) fn size_mismatch(&self, op: Op, args: &[NodeId]) -> Misuse {
        Misuse::new(format!(
            "`{}` on arrays of different sizes: {}; sizes must be equal or 1",
            op.name(),
            self.list(args)
        ))
    }

    /// That a node is no lane's value inside a region.
    pub(crate) fn check_top_level(&self, what: &str, id: NodeId) -> Result<(), Misuse> {
        let scope = self.node(id).scope;
        if scope == 0 {
            return Ok(());
        }
        Err(Misuse::new(format!(
            "{what} needs a value from outside of regions; this one (made at {}) belongs to a {}, return it from the closure",
            self.made_at(&[id]),
            self.scopes.describe(scope)
        )))
    }

    pub(super) fn width_mismatch(&self, op: Op, width: u64, size: u64) -> Misuse {
        Misuse::new(format!(
            "`{}` brings a value of {size} elements into a region of {width} lanes; sizes must be equal or 1",
            op.name()
        ))
    }

    pub(super) fn foreign(&self, op: Op, arg: NodeId) -> Misuse {
        Misuse::new(format!(
            "`{}` uses a value (made at {}) of a {} that is not open here; return it from the closure instead",
            op.name(),
            self.made_at(&[arg]),
            self.scopes.describe(self.node(arg).scope)
        ))
    }

    /// Type, size and place of each operand, for messages.
    pub(super) fn list(&self, args: &[NodeId]) -> String {
        let one = |&a: &NodeId| {
            let node = self.node(a);
            format!("{}[{}] made at {}", node.dtype, node.size, self.made_at(&[a]))
        };
        args.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn made_at(&self, args: &[NodeId]) -> String {
        let at = |a: &NodeId| self.slab.location(*a).to_string();
        args.iter().map(at).collect::<Vec<_>>().join(", ")
    }
}
