//! Gives equal pure expressions one instruction.
//!
//! One walk in the order of the text with a hash table of the expressions in scope: an instruction is dropped if an
//! equal one dominates it, that is, stands earlier in its block or in one around it (a loop's condition dominates
//! its body). Operands are compared after replacement, so whole equal trees fold. For commutative ops the
//! order of the operands does not matter to the comparison; the instruction that stays keeps its own.
//!
//! Keeps: bits of all results; every instruction stays where it is or goes. Leaves alone: effects, stores, reductions and
//! regions; `load` and `gather` from `inout` parameters, whose memory changes under them. Literals are equal if type
//! and bits are; a `gather` that is `in_bounds` equals one that is not, and what stays keeps a promise only if it had it.

use rustc_hash::FxHashMap;

use crate::dtype::DType;
use crate::ir::{Block, Inst, ParamKind, Program, Value};
use crate::op::{Class, Op};

/// Gives equal pure expressions one instruction.
pub fn run(program: &mut Program) {
    let Program { params, values, body, finish, .. } = program;
    let mut pass = Pass {
        is_inout: params.iter().map(|p| p.kind == ParamKind::InOut).collect(),
        types: values,
        replacement: (0..values.len() as u32).map(Value).collect(),
        available: FxHashMap::with_capacity_and_hasher(body.insts.len(), Default::default()),
        log: Vec::new(),
    };
    pass.block(body);
    if let Some(finish) = finish {
        pass.available.clear();
        pass.block(finish);
    }
}

/// What two instructions must share to be equal: op, type and third operand; literal, parameter or table; two operands.
/// Packed, since hashing is most of the pass's work.
type Key = [u64; 3];

struct Pass<'a> {
    is_inout: Vec<bool>,
    types: &'a [DType],
    replacement: Vec<Value>,
    available: FxHashMap<Key, Value>,
    /// The keys in scope, in order of their instructions.
    log: Vec<Key>,
}

impl Pass<'_> {
    /// A block whose expressions are not available after it.
    fn scoped(&mut self, block: &mut Block) {
        let outer = self.log.len();
        self.block(block);
        self.leave(outer);
    }

    fn leave(&mut self, outer: usize) {
        for key in self.log.drain(outer..) {
            self.available.remove(&key);
        }
    }

    fn block(&mut self, block: &mut Block) {
        block.insts.retain_mut(|inst| {
            inst.args.iter_mut().for_each(|arg| *arg = self.replacement[arg.index()]);
            if !inst.blocks.is_empty() {
                self.region(inst);
                return true;
            }
            let Some(key) = self.key(inst) else { return true };
            match self.available.entry(key) {
                std::collections::hash_map::Entry::Occupied(equal) => {
                    self.replacement[inst.result().index()] = *equal.get();
                    false
                }
                std::collections::hash_map::Entry::Vacant(slot) => {
                    slot.insert(inst.result());
                    self.log.push(key);
                    true
                }
            }
        });
        block.yields.iter_mut().for_each(|value| *value = self.replacement[value.index()]);
    }

    fn region(&mut self, inst: &mut Inst) {
        match &mut inst.blocks[..] {
            [condition, body] if inst.op == Op::Loop => {
                let outer = self.log.len();
                self.block(condition);
                self.scoped(body);
                self.leave(outer);
            }
            // Its block is closed to all but a few values from outside.
            [combine] if inst.op == Op::Reduce => {
                let outside = (std::mem::take(&mut self.available), std::mem::take(&mut self.log));
                self.block(combine);
                (self.available, self.log) = outside;
            }
            blocks => blocks.iter_mut().for_each(|block| self.scoped(block)),
        }
    }

    /// What identifies a pure instruction; nothing for others.
    fn key(&self, inst: &Inst) -> Option<Key> {
        let pure = match inst.op {
            Op::Param | Op::LoadScalar | Op::Lookup => true,
            Op::Load | Op::Gather => !self.is_inout[inst.param().index()],
            op => matches!(op.class(), Class::Leaf | Class::Lane | Class::Math | Class::Local),
        };
        if !pure {
            return None;
        }
        // No value has this number: a missing operand is not `v0`.
        let mut args = [u32::MAX; 3];
        for (slot, arg) in args.iter_mut().zip(&inst.args) {
            *slot = arg.0;
        }
        if inst.op.is_commutative() {
            args[..2].sort_unstable();
        }
        // Only a write to a local array has a fourth operand, and it names nothing.
        let imm = inst.args.get(3).map_or(inst.imm, |mask| u64::from(mask.0) + 1);
        let dtype = self.types[inst.result().index()];
        let pair = |low: u64, high: u32| low | u64::from(high) << 32;
        Some([pair(inst.op as u64 | (dtype as u64) << 8, args[2]), imm, pair(u64::from(args[0]), args[1])])
    }
}
