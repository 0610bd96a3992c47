//! The trace as a picture: a graph in Graphviz's language.

use std::fmt::Write;

use rustc_hash::FxHashMap;

use super::{NodeId, Trace};
use crate::dtype::format_bits;
use crate::op::{Class, Op};

impl Trace {
    /// What the roots need: a box for each node, an arrow from each operand, a frame around each block of a region.
    pub(crate) fn graphviz(&self, roots: &[NodeId]) -> String {
        let mut picture = Picture { trace: self, numbers: FxHashMap::default(), order: Vec::new() };
        picture.visit(roots);
        picture.write(roots)
    }
}

struct Picture<'a> {
    trace: &'a Trace,
    numbers: FxHashMap<NodeId, usize>,
    /// The nodes in the order of their numbers.
    order: Vec<NodeId>,
}

impl Picture<'_> {
    fn visit(&mut self, roots: &[NodeId]) {
        let mut stack: Vec<NodeId> = roots.iter().rev().copied().collect();
        while let Some(id) = stack.pop() {
            if self.numbers.contains_key(&id) {
                continue;
            }
            self.numbers.insert(id, self.order.len());
            self.order.push(id);
            stack.extend(self.sources(id).iter().rev());
            if let Some(region) = self.region(id) {
                stack.extend(region.inner(&self.trace.scopes));
            }
        }
    }

    fn region(&self, id: NodeId) -> Option<&super::scope::Region> {
        let node = self.trace.node(id);
        let has_blocks = node.op.class() == Class::Region || node.op == Op::Reduce;
        has_blocks.then(|| self.trace.scopes.region(node.payload))
    }

    /// Where arrows into a node come from.
    fn sources(&self, id: NodeId) -> Vec<NodeId> {
        match self.region(id) {
            Some(region) => region.operands.clone(),
            None => self.trace.node(id).operands().to_vec(),
        }
    }

    fn write(&self, roots: &[NodeId]) -> String {
        let mut out = String::from("digraph trace {\n  node [shape=box, fontname=\"monospace\"];\n");
        // The blocks of each region, by the region's own block; those of the top level first.
        let mut members: FxHashMap<u32, Vec<NodeId>> = FxHashMap::default();
        let mut children: FxHashMap<u32, Vec<(u32, String)>> = FxHashMap::default();
        for &id in &self.order {
            let node = self.trace.node(id);
            members.entry(node.scope).or_default().push(id);
            let Some(region) = self.region(id) else { continue };
            for (k, &scope) in region.scopes.iter().enumerate() {
                let title = match (node.op, k) {
                    (Op::Loop, _) => "loop".to_owned(),
                    (Op::Reduce, _) => "combine".to_owned(),
                    (Op::If, 0) => "then".to_owned(),
                    (Op::If, _) => "else".to_owned(),
                    (Op::Switch, k) if k + 1 == region.scopes.len() => "switch else".to_owned(),
                    _ => format!("{} {k}", node.op.name()),
                };
                children.entry(node.scope).or_default().push((scope, title));
            }
        }
        self.scope(&mut out, 0, 1, &members, &children);
        for &id in &self.order {
            let to = self.numbers[&id];
            for source in self.sources(id) {
                let _ = writeln!(out, "  n{} -> n{to};", self.numbers[&source]);
            }
            for result in self.yields(id) {
                let _ = writeln!(out, "  n{} -> n{to} [style=dashed];", self.numbers[&result]);
            }
        }
        for (k, root) in roots.iter().enumerate() {
            let _ = writeln!(out, "  root{k} [shape=plaintext, label=\"root {k}\"];");
            let _ = writeln!(out, "  n{} -> root{k};", self.numbers[root]);
        }
        out.push_str("}\n");
        out
    }

    /// What the blocks of a region give to it.
    fn yields(&self, id: NodeId) -> Vec<NodeId> {
        let Some(region) = self.region(id) else { return Vec::new() };
        let scopes = region.scopes.iter().map(|&scope| self.trace.scopes.get(scope));
        scopes.flat_map(|scope| scope.condition.iter().chain(&scope.yields)).copied().collect()
    }

    /// Recursion is over nested regions alone.
    fn scope(
        &self,
        out: &mut String,
        scope: u32,
        depth: usize,
        members: &FxHashMap<u32, Vec<NodeId>>,
        children: &FxHashMap<u32, Vec<(u32, String)>>,
    ) {
        let pad = "  ".repeat(depth);
        for &id in members.get(&scope).into_iter().flatten() {
            let _ = writeln!(out, "{pad}n{} [label={}];", self.numbers[&id], self.label(id));
        }
        for (child, title) in children.get(&scope).into_iter().flatten() {
            let _ = writeln!(out, "{pad}subgraph cluster_{child} {{\n{pad}  label={title:?};");
            self.scope(out, *child, depth + 1, members, children);
            let _ = writeln!(out, "{pad}}}");
        }
    }

    fn label(&self, id: NodeId) -> String {
        let node = self.trace.node(id);
        let mut text = node.op.name().to_owned();
        if node.is_literal() {
            let _ = write!(text, " {}", format_bits(node.dtype, node.payload));
        }
        if node.op.class() != Class::Region {
            let _ = write!(text, "\n{}[{}]", node.dtype, node.size);
        }
        if let Some(label) = self.trace.label(id) {
            let _ = write!(text, "\n{label}");
        }
        quoted(&text)
    }
}

/// A string of Graphviz's language: a line's end is written as `\n`.
fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{escaped}\"")
}
