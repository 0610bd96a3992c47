//! What programs of checked devices do beside their work: a lane whose index lies outside says so.
//!
//! Each access or switch that tests its index is a *site* of the plan, and has two words of a memory that the runtime zeroes
//! before the plan runs and looks at after it: whether any lane was outside, and the least of their indices. Both are combined
//! into by `scatter_max`, so that what is found does not depend on the order of lanes, nor on how often a plan computes a node.

use super::{Emitter, Place};
use crate::dtype::DType;
use crate::ir::{ParamKind, Value};
use crate::op::{Class, Op};
use crate::plan::Source;

/// What a site's second word holds of an index that was outside. Its largest value stands for the least index.
pub(crate) fn key_of_index(signed: bool) -> u64 {
    // Of a signed number the sign bit, inverted, comes first in order; then all bits are inverted.
    if signed { u64::MAX >> 1 } else { u64::MAX }
}

impl Emitter<'_> {
    /// Emits the test of an access, before the access itself.
    pub(super) fn check_index(&mut self, number: u32, operands: &[Value]) {
        let trace = self.graph.trace;
        let node = self.graph.node(number);
        let Some(at) = index_position(node.op) else { return };
        if !trace.checked || self.is_in_order(number) {
            return;
        }
        let (index, mask) = (operands[at], operands.get(at + 1).copied());
        let size = match self.builder.program().local_len(operands[0]).filter(|_| is_local(node.op)) {
            Some(len) => self.number(u64::from(len)),
            None => {
                let memory = self.graph.number(node.operands[0]);
                let param = self.source(Source::Size(memory), ParamKind::Scalar, DType::U64, Place::Anywhere);
                self.builder.read(Op::Param, param)
            }
        };
        self.report(number, index, size, mask);
    }

    /// Emits the test of a switch, before the switch itself.
    pub(super) fn check_switch(&mut self, number: u32, index: Value, cases: u64) {
        if self.graph.trace.checked {
            let size = self.number(cases);
            self.report(number, index, size, None);
        }
    }

    /// Has lanes whose index is not below the size report that, at the site of a node.
    fn report(&mut self, number: u32, index: Value, size: Value, mask: Option<Value>) {
        let signed = self.builder.dtype(index).is_signed();
        // Negative ones become larger than any size.
        let wide = self.builder.cast(DType::U64, index);
        let mut outside = self.builder.op(Op::Ge, &[wide, size]);
        if let Some(mask) = mask {
            outside = self.builder.op(Op::And, &[outside, mask]);
        }
        let report = self.source(Source::Report, ParamKind::InOut, DType::U64, Place::Anywhere);
        let site = u64::from(self.site(number));
        let [turn, one, first, second] =
            [key_of_index(signed), 1, 2 * site, 2 * site + 1].map(|bits| self.number(bits));
        let key = self.builder.op(Op::Xor, &[wide, turn]);
        self.builder.scatter(Op::ScatterMax, report, one, first, Some(outside));
        self.builder.scatter(Op::ScatterMax, report, key, second, Some(outside));
    }

    /// Whether each lane accesses its own element of a memory that has one for each.
    fn is_in_order(&self, number: u32) -> bool {
        let node = self.graph.node(number);
        let index = self.graph.lane_operands(number)[index_position(node.op).expect("an access")];
        let index = self.graph.node(index);
        let memory = self.graph.trace.node(node.operands[0]);
        index.op == Op::Counter && index.scope == 0 && !is_local(node.op) && memory.size == index.size
    }

    /// The site of a node.
    fn site(&mut self, number: u32) -> u32 {
        let found = self.sites.iter().position(|&site| site == number);
        found.unwrap_or_else(|| {
            self.sites.push(number);
            self.sites.len() - 1
        }) as u32
    }
}

fn is_local(op: Op) -> bool {
    op.class() == Class::Local
}

/// Which of an op's operands lane by lane is its index.
fn index_position(op: Op) -> Option<usize> {
    match op {
        Op::Gather | Op::AtomicInc => Some(0),
        Op::LocalRead => Some(1),
        Op::LocalWrite | Op::CompareExchange => Some(2),
        op if op.class() == Class::Effect => Some(1),
        _ => None,
    }
}
