//! Drops what nothing observable depends on.
//!
//! Roots are effects and stores. From them the pass marks, over a flat list of definitions and with a work list,
//! the values and regions they need; then it rebuilds the blocks with the rest left out: instructions,
//! results of `if`, `switch` and `if_any` with what the blocks yield for them, loop state together with everything that only
//! computes itself, reductions that the finish does not use, regions with neither results nor effects.
//!
//! Keeps: the order of what stays, effects and their conditions, numbers of values. Leaves alone: parameters and
//! tables (the launch names them by position); effects whose mask is a false literal. A loop without effects
//! whose results are unused goes, even if it would not end.

use rustc_hash::FxHashMap;

use crate::ir::{Block, Inst, Program, Value, ValueList};
use crate::op::{Class, Op};

/// Drops what nothing observable depends on.
pub fn run(program: &mut Program) {
    let kept = mark(program);
    let mut sweep = Sweep { kept: &kept, next: 0 };
    sweep.block(&mut program.body);
    if let Some(finish) = &mut program.finish {
        finish.params.retain(|&p| kept.values[p.index()]);
        sweep.block(finish);
    }
}

/// What is needed.
struct Kept {
    values: Vec<bool>,
    /// By position in the text.
    insts: Vec<bool>,
    /// The number of instructions nested in each, by position in the text.
    nested: Vec<u32>,
}

/// What defines a value.
#[derive(Clone, Copy)]
enum Definition {
    Nothing,
    /// Result `k` of an instruction.
    Result(u32, u32),
    /// State `k` of a loop.
    State(u32, u32),
    /// A reduction, in the finish.
    Reduction(u32),
}

/// The program as a list of instructions in the order of the text.
struct Flat<'a> {
    insts: Vec<&'a Inst>,
    /// The region around each instruction; `u32::MAX` at the top.
    parents: Vec<u32>,
    nested: Vec<u32>,
    definitions: Vec<Definition>,
    /// The values that the finish has for each reduction.
    totals: FxHashMap<u32, &'a [Value]>,
}

impl<'a> Flat<'a> {
    fn block(&mut self, block: &'a Block, parent: u32) {
        for inst in &block.insts {
            let at = self.insts.len() as u32;
            self.insts.push(inst);
            self.parents.push(parent);
            self.nested.push(0);
            for (k, result) in inst.results.iter().enumerate() {
                self.definitions[result.index()] = Definition::Result(at, k as u32);
            }
            if inst.op == Op::Loop {
                for (k, state) in inst.blocks[0].params.iter().enumerate() {
                    self.definitions[state.index()] = Definition::State(at, k as u32);
                }
            }
            inst.blocks.iter().for_each(|nested| self.block(nested, at));
            self.nested[at as usize] = self.insts.len() as u32 - at - 1;
        }
    }
}

struct Marking<'a> {
    flat: Flat<'a>,
    values: Vec<bool>,
    insts: Vec<bool>,
    work: Vec<Value>,
}

fn mark(program: &Program) -> Kept {
    let mut flat = Flat {
        insts: Vec::new(),
        parents: Vec::new(),
        nested: Vec::new(),
        definitions: vec![Definition::Nothing; program.values.len()],
        totals: FxHashMap::default(),
    };
    program.top_blocks().for_each(|block| flat.block(block, u32::MAX));
    let is_reduction = |&at: &u32| flat.insts[at as usize].op.class() == Class::Reduce;
    let reductions: Vec<u32> = (0..flat.insts.len() as u32).filter(is_reduction).collect();
    let mut results: &[Value] = program.finish.as_ref().map_or(&[], |finish| &finish.params);
    for &at in &reductions {
        let (own, rest) = results.split_at(flat.insts[at as usize].reduced().len().min(results.len()));
        own.iter().for_each(|result| flat.definitions[result.index()] = Definition::Reduction(at));
        flat.totals.insert(at, own);
        results = rest;
    }

    let mut marking = Marking {
        values: vec![false; program.values.len()],
        insts: vec![false; flat.insts.len()],
        work: Vec::new(),
        flat,
    };
    for at in 0..marking.flat.insts.len() {
        let op = marking.flat.insts[at].op;
        if op == Op::Store || op.class() == Class::Effect {
            marking.need_inst(at as u32);
        }
    }
    while let Some(value) = marking.work.pop() {
        match marking.flat.definitions[value.index()] {
            Definition::Nothing => {}
            Definition::Result(at, k) => marking.need_result(at, k as usize),
            Definition::State(at, k) => marking.need_state(at, k as usize),
            Definition::Reduction(at) => marking.need_reduction(at),
        }
    }
    Kept { values: marking.values, insts: marking.insts, nested: marking.flat.nested }
}

impl Marking<'_> {
    fn need(&mut self, value: Value) {
        if !std::mem::replace(&mut self.values[value.index()], true) {
            self.work.push(value);
        }
    }

    /// The instruction must run: its operands are needed (of a region: what decides), and the regions around it.
    fn need_inst(&mut self, mut at: u32) {
        while at != u32::MAX && !std::mem::replace(&mut self.insts[at as usize], true) {
            let inst = self.flat.insts[at as usize];
            match inst.op {
                Op::Loop => self.need(inst.blocks[0].yields[0]),
                Op::If | Op::Switch | Op::IfAny => self.need(inst.args[0]),
                _ => inst.args.iter().for_each(|&arg| self.need(arg)),
            }
            if inst.op == Op::Reduce {
                inst.blocks[0].yields.iter().for_each(|&value| self.need(value));
            }
            at = self.flat.parents[at as usize];
        }
    }

    /// The parts of a state belong together.
    fn need_reduction(&mut self, at: u32) {
        self.need_inst(at);
        let totals = self.flat.totals[&at];
        totals.iter().for_each(|&total| self.need(total));
    }

    fn need_result(&mut self, at: u32, k: usize) {
        self.need_inst(at);
        let inst = self.flat.insts[at as usize];
        match inst.op {
            Op::Loop => self.need(inst.blocks[0].params[k]),
            Op::If | Op::Switch => inst.blocks.iter().for_each(|block| self.need(block.yields[k])),
            Op::IfAny => {
                self.need(inst.args[1 + k]);
                self.need(inst.blocks[0].yields[k]);
            }
            _ => {}
        }
    }

    fn need_state(&mut self, at: u32, k: usize) {
        self.need_inst(at);
        let inst = self.flat.insts[at as usize];
        self.need(inst.args[k]);
        self.need(inst.blocks[1].yields[k]);
    }
}

/// The rebuilding walk, in the order of the text.
struct Sweep<'a> {
    kept: &'a Kept,
    /// The position of the next instruction.
    next: usize,
}

impl Sweep<'_> {
    fn block(&mut self, block: &mut Block) {
        block.insts.retain_mut(|inst| {
            let at = self.next;
            if !self.kept.insts[at] {
                self.next = at + 1 + self.kept.nested[at] as usize;
                return false;
            }
            self.next = at + 1;
            if !inst.blocks.is_empty() {
                if inst.op != Op::Reduce {
                    self.drop_results(inst);
                }
                inst.blocks.iter_mut().for_each(|nested| self.block(nested));
            }
            true
        });
    }

    /// Drops unneeded results of a region, with what belongs to them.
    fn drop_results(&self, inst: &mut Inst) {
        let values = &self.kept.values;
        if inst.op == Op::Loop {
            // A result is needed only if its state is.
            let keep: Vec<bool> = inst.blocks[0].params.iter().map(|p| values[p.index()]).collect();
            retain(&keep, &mut inst.args);
            retain(&keep, &mut inst.results);
            let [condition, body] = &mut inst.blocks[..] else { unreachable!("a loop has two blocks") };
            retain_vec(&keep, &mut condition.params);
            retain_vec(&keep, &mut body.yields);
            return;
        }
        let keep: Vec<bool> = inst.results.iter().map(|r| values[r.index()]).collect();
        retain(&keep, &mut inst.results);
        inst.blocks.iter_mut().for_each(|block| retain_vec(&keep, &mut block.yields));
        if inst.op == Op::IfAny {
            let with_mask: Vec<bool> = std::iter::once(true).chain(keep).collect();
            retain(&with_mask, &mut inst.args);
        }
    }
}

fn retain(keep: &[bool], values: &mut ValueList) {
    let mut keep = keep.iter();
    values.retain(|_| *keep.next().expect("lists of one length"));
}

fn retain_vec(keep: &[bool], values: &mut Vec<Value>) {
    let mut keep = keep.iter();
    values.retain(|_| *keep.next().expect("lists of one length"));
}
