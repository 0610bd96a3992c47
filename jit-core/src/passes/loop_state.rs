//! Takes out of loops and branches what does not change there.
//!
//! - A loop's state whose next value is itself, or its initial value, is its initial value, inside and after the loop.
//! - Two states of a loop with one initial value and one next value are one.
//! - A result of `if`, `switch` or `if_any` that is the same value on all sides is that value.
//!
//! Inner regions are looked at first, so a value that is only handed through nested regions is recognised at every level.
//! Replacements are collected in one table, resolved with path compression, and applied in one walk at the end.
//!
//! Keeps: bits of all results, numbers of values. Leaves alone: state that stays constant for deeper reasons (two
//! counters that count alike under different names); state that is dead, which [`dce`](super::dce) drops.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::ir::{Block, Inst, Program, Value};
use crate::op::Op;

/// Takes out of loops and branches what does not change there.
pub fn run(program: &mut Program) {
    let mut same = Replacements((0..program.values.len() as u32).map(Value).collect());
    program.top_blocks_mut().for_each(|block| simplify(block, &mut same));
    let replacements: Vec<Value> = (0..program.values.len() as u32).map(|v| same.resolve(Value(v))).collect();
    program.top_blocks_mut().for_each(|block| block.replace_uses(&|v| replacements[v.index()]));
}

/// For each value what stands for it; values that stand for themselves are the ends of the chains.
struct Replacements(Vec<Value>);

impl Replacements {
    fn resolve(&mut self, value: Value) -> Value {
        let mut end = value;
        while self.0[end.index()] != end {
            end = self.0[end.index()];
        }
        let mut at = value;
        while at != end {
            at = std::mem::replace(&mut self.0[at.index()], end);
        }
        end
    }

    fn replace(&mut self, value: Value, by: Value) {
        self.0[value.index()] = self.resolve(by);
    }
}

fn simplify(block: &mut Block, same: &mut Replacements) {
    for inst in &mut block.insts {
        inst.blocks.iter_mut().for_each(|nested| simplify(nested, same));
        match inst.op {
            Op::Loop => simplify_loop(inst, same),
            Op::If | Op::Switch | Op::IfAny => simplify_branch(inst, same),
            _ => {}
        }
    }
}

fn simplify_loop(inst: &mut Inst, same: &mut Replacements) {
    // A state that goes may show that others do not change either.
    while simplify_states(inst, same) {}
}

/// One round over the states; says whether some went.
fn simplify_states(inst: &mut Inst, same: &mut Replacements) -> bool {
    let [condition, body] = &mut inst.blocks[..] else { unreachable!("a loop has two blocks") };
    let state = &condition.params;
    let mut keep: SmallVec<[bool; 16]> = SmallVec::with_capacity(state.len());
    let mut seen: FxHashMap<(Value, Value), usize> = FxHashMap::default();
    for k in 0..state.len() {
        let init = same.resolve(inst.args[k]);
        let next = same.resolve(body.yields[k]);
        let first = *seen.entry((init, next)).or_insert(k);
        if next == state[k] || next == init {
            same.replace(state[k], init);
            same.replace(inst.results[k], init);
            keep.push(false);
        } else if first != k {
            same.replace(state[k], state[first]);
            same.replace(inst.results[k], inst.results[first]);
            keep.push(false);
        } else {
            keep.push(true);
        }
    }
    let changed = keep.contains(&false);
    if changed {
        let kept = |k: usize| keep[k];
        inst.args = filtered(&inst.args, kept);
        inst.results = filtered(&inst.results, kept);
        condition.params = filtered(&condition.params, kept);
        body.yields = filtered(&body.yields, kept);
    }
    changed
}

fn simplify_branch(inst: &mut Inst, same: &mut Replacements) {
    // A switch of one block: what it yields may be its own.
    if inst.op == Op::Switch && inst.blocks.len() == 1 {
        return;
    }
    let mut keep: SmallVec<[bool; 16]> = SmallVec::with_capacity(inst.results.len());
    for (k, &result) in inst.results.iter().enumerate() {
        let one = same.resolve(inst.blocks[0].yields[k]);
        let fallback = (inst.op == Op::IfAny).then(|| inst.args[1 + k]);
        let mut others = inst.blocks[1..].iter().map(|block| block.yields[k]).chain(fallback);
        // What all blocks can see was defined outside of them.
        let equal = others.all(|other| one == same.resolve(other));
        if equal {
            same.replace(result, one);
        }
        keep.push(!equal);
    }
    if keep.contains(&false) {
        let kept = |k: usize| keep[k];
        inst.results = filtered(&inst.results, kept);
        inst.blocks.iter_mut().for_each(|block| block.yields = filtered(&block.yields, kept));
        if inst.op == Op::IfAny {
            inst.args = filtered(&inst.args, |k| k == 0 || keep[k - 1]);
        }
    }
}

fn filtered<C: FromIterator<Value>>(values: &[Value], keep: impl Fn(usize) -> bool) -> C {
    values.iter().enumerate().filter(|&(k, _)| keep(k)).map(|(_, &value)| value).collect()
}
