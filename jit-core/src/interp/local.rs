//! Local arrays: each version is a list of elements. A write copies its operand, unless that is needed nowhere else.

use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::Lane;
#[cfg(feature = "seeded-bugs")]
use super::SeededBug;
use crate::ir::{Block, Inst, Program, Value};
use crate::op::Op;

impl Lane<'_> {
    pub(super) fn local_zeros(&mut self, inst: &Inst) {
        self.locals.insert(inst.result(), Rc::new(vec![0; inst.imm as usize]));
    }

    pub(super) fn local_read(&self, inst: &Inst) -> u64 {
        self.local_element(inst).map_or(0, |at| self.locals[&inst.args[0]][at])
    }

    pub(super) fn local_write(&mut self, inst: &Inst) {
        let (array, result) = (inst.args[0], inst.result());
        let (element, value) = (self.local_element(inst), self.get(inst.args[1]));
        // What an earlier turn of a loop left there.
        self.locals.remove(&result);
        let mut elements = match self.spent.contains(&array) {
            true => self.locals.remove(&array).expect("a value is defined before it is used"),
            false => Rc::clone(&self.locals[&array]),
        };
        if let Some(at) = element {
            Rc::make_mut(&mut elements)[at] = value;
        }
        #[cfg(feature = "seeded-bugs")]
        if self.has(SeededBug::LocalWriteInPlace) {
            self.locals.insert(array, Rc::clone(&elements));
        }
        self.locals.insert(result, elements);
    }

    pub(super) fn assign_locals(&mut self, targets: &[Value], sources: &[Value]) {
        if self.locals.is_empty() {
            return;
        }
        let array = |(&target, source): (&Value, &Value)| Some((target, Rc::clone(self.locals.get(source)?)));
        let arrays: Vec<_> = targets.iter().zip(sources).filter_map(array).collect();
        self.locals.extend(arrays);
    }

    /// The element of a local array that an op touches, if its mask and the bounds allow it.
    fn local_element(&self, inst: &Inst) -> Option<usize> {
        if inst.mask().is_some_and(|m| self.get(m) == 0) {
            return None;
        }
        let (at, len) = (self.index_of(inst), self.locals[&inst.args[0]].len() as u64);
        #[cfg(feature = "seeded-bugs")]
        let at = if self.has(SeededBug::LocalIndexWraps) && len > 0 { at % len } else { at };
        assert!(at < len || !inst.in_bounds, "{} breaks the promise `in_bounds`", inst.op.name());
        (at < len).then_some(at as usize)
    }
}

/// The local arrays whose only use is a write in the loop in which they are defined: it may take their elements.
pub(super) fn spent_by_writes(program: &Program) -> FxHashSet<Value> {
    if program.locals.is_empty() {
        return FxHashSet::default();
    }
    let mut uses = Uses { loops: 0, defined: FxHashMap::default(), uses: FxHashMap::default() };
    program.top_blocks().for_each(|block| uses.block(block, 0));
    let Uses { defined, uses, .. } = uses;
    let once =
        uses.into_iter().filter(|&(value, used)| used.is_some() && used == defined.get(&value).copied());
    once.map(|(value, _)| value).collect()
}

struct Uses {
    /// The number of loops so far.
    loops: u32,
    /// The condition or body that each value is defined in, 0 for none.
    defined: FxHashMap<Value, u32>,
    /// That of each value's only use, if it is a write.
    uses: FxHashMap<Value, Option<u32>>,
}

impl Uses {
    fn block(&mut self, block: &Block, around: u32) {
        for inst in &block.insts {
            match &inst.blocks[..] {
                [condition, body] if inst.op == Op::Loop => {
                    // Results are the state as the condition leaves it, so only the body may spend that.
                    self.loops += 2;
                    let inside = self.loops;
                    self.define(&condition.params, inside);
                    self.block(condition, inside - 1);
                    self.block(body, inside);
                }
                blocks => blocks.iter().for_each(|nested| self.block(nested, around)),
            }
            for (k, &arg) in inst.args.iter().enumerate() {
                self.note(arg, (inst.op == Op::LocalWrite && k == 0).then_some(around));
            }
            self.define(&inst.results, around);
        }
        block.yields.iter().for_each(|&value| self.note(value, None));
    }

    fn define(&mut self, values: &[Value], around: u32) {
        self.defined.extend(values.iter().map(|&value| (value, around)));
    }

    fn note(&mut self, value: Value, used: Option<u32>) {
        self.uses.entry(value).and_modify(|only| *only = None).or_insert(used);
    }
}
