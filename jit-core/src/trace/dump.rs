//! The trace as text, for people and snapshots.

use std::fmt::Write;

use rustc_hash::FxHashMap;

use super::{NodeId, Trace};
use crate::dtype::format_bits;
use crate::op::Op;

impl Trace {
    /// What the roots need, one node a line, operands first, numbered in that order.
    pub(crate) fn dump(&self, roots: &[NodeId]) -> String {
        let mut dump = Dump { trace: self, numbers: FxHashMap::default(), text: String::new() };
        dump.visit(roots, 0);
        let names: Vec<String> = roots.iter().map(|r| dump.name(*r)).collect();
        let _ = writeln!(dump.text, "roots {}", names.join(", "));
        dump.text
    }
}

struct Dump<'a> {
    trace: &'a Trace,
    numbers: FxHashMap<NodeId, usize>,
    text: String,
}

impl Dump<'_> {
    /// Writes everything below `roots` that is not written yet. Recursion is over nested regions alone.
    fn visit(&mut self, roots: &[NodeId], indent: usize) {
        let mut stack: Vec<(NodeId, bool)> = roots.iter().rev().map(|&r| (r, false)).collect();
        while let Some((id, operands_done)) = stack.pop() {
            if self.numbers.contains_key(&id) {
                continue;
            }
            let operands = self.operands(id);
            if !operands_done && operands.iter().any(|o| !self.numbers.contains_key(o)) {
                stack.push((id, true));
                stack.extend(operands.iter().rev().map(|&o| (o, false)));
                continue;
            }
            self.numbers.insert(id, self.numbers.len());
            self.line(id, indent);
        }
    }

    fn operands(&self, id: NodeId) -> Vec<NodeId> {
        let node = self.trace.node(id);
        match node.op {
            Op::Loop | Op::If | Op::Switch | Op::Reduce => {
                self.trace.scopes.region(node.payload).operands.clone()
            }
            _ => node.operands().to_vec(),
        }
    }

    fn line(&mut self, id: NodeId, indent: usize) {
        let node = self.trace.node(id);
        let pad = "  ".repeat(indent);
        let operands: Vec<String> = self.operands(id).iter().map(|o| self.name(*o)).collect();
        let name = self.name(id);
        let size = if node.size == 1 { String::new() } else { format!("[{}]", node.size) };
        let extra = match node.op {
            Op::Literal => format!(" {}", format_bits(node.dtype, node.payload)),
            Op::LocalZeros | Op::LaneCount | Op::Placeholder | Op::Memory | Op::Result | Op::Version => {
                format!(" {}", node.payload)
            }
            _ => String::new(),
        };
        let list = if operands.is_empty() { String::new() } else { format!(" {}", operands.join(", ")) };
        if !matches!(node.op, Op::Loop | Op::If | Op::Switch | Op::Reduce) {
            // Escaped, so that a label is one word on one line whatever it holds.
            let label = self.trace.label(id).map_or_else(String::new, |l| format!(" {l:?}"));
            let op = node.op.name();
            let _ = writeln!(self.text, "{pad}{name}: {}{size} = {op}{list}{extra}{label}", node.dtype);
            return;
        }
        let region = self.trace.scopes.region(node.payload);
        let _ = writeln!(self.text, "{pad}{name} = {}{size}{list} {{", node.op.name());
        for (i, &scope) in region.scopes.iter().enumerate() {
            if i > 0 {
                let numbered = node.op == Op::Switch && i + 1 < region.scopes.len();
                let _ = writeln!(self.text, "{pad}}} {}{{", if numbered { "" } else { "else " });
            }
            let scope = self.trace.scopes.get(scope);
            self.visit(&scope.placeholders, indent + 1);
            if let Some(condition) = scope.condition {
                self.visit(&scope.sequence[..scope.condition_sequence], indent + 1);
                self.visit(&[condition], indent + 1);
                let _ = writeln!(self.text, "{pad}  while {}", self.name(condition));
            }
            self.visit(&scope.sequence[scope.condition_sequence..], indent + 1);
            self.visit(&scope.yields, indent + 1);
            let names: Vec<String> = scope.yields.iter().map(|y| self.name(*y)).collect();
            let _ = writeln!(self.text, "{pad}  yield {}", names.join(", "));
        }
        let _ = writeln!(self.text, "{pad}}}");
    }

    fn name(&self, id: NodeId) -> String {
        self.numbers.get(&id).map_or_else(|| "%?".to_owned(), |n| format!("%{n}"))
    }
}
