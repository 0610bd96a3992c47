//! Which values are the same on all lanes.
//!
//! All values are taken to be uniform, and those that follow from a lane's index, memory or mask are struck off, until
//! nothing changes: the state of a loop depends on itself. A loop or branch whose condition is uniform is
//! taken by all active lanes together.

use jit_core::ir::{Block, Inst, Program, Value};
use jit_core::op::{Class, Op};

use super::emit::Form;

/// The form of each value used in a block of lanes.
pub(super) fn forms(program: &Program, block: &Block) -> Vec<Form> {
    let mut analysis = Analysis { forms: vec![Form::Uniform; program.values.len()], changed: true };
    while analysis.changed {
        analysis.changed = false;
        analysis.block(block);
    }
    analysis.forms
}

struct Analysis {
    forms: Vec<Form>,
    changed: bool,
}

impl Analysis {
    fn block(&mut self, block: &Block) {
        for inst in &block.insts {
            inst.blocks.iter().for_each(|b| self.block(b));
            self.inst(inst);
        }
    }

    fn inst(&mut self, inst: &Inst) {
        let any_arg = inst.args.iter().any(|&a| self.varies(a));
        match inst.op {
            Op::Reduce => self.strike(&inst.blocks[0].params, true),
            Op::Counter | Op::Load | Op::LocalRead => self.strike(&inst.results, true),
            op if op.gives_old() => self.strike(&inst.results, true),
            Op::Loop => {
                let (condition, body) = (&inst.blocks[0], &inst.blocks[1]);
                let diverges = self.varies(condition.yields[0]);
                for (k, &state) in condition.params.iter().enumerate() {
                    let varies = diverges || self.varies(inst.args[k]) || self.varies(body.yields[k]);
                    self.strike(&[state, inst.results[k]], varies);
                }
            }
            Op::If | Op::Switch | Op::IfAny => {
                let diverges = self.varies(inst.args[0]);
                for (k, result) in inst.results.iter().enumerate() {
                    let mut sources = inst
                        .blocks
                        .iter()
                        .map(|b| b.yields[k])
                        .chain((inst.op == Op::IfAny).then(|| inst.args[k + 1]));
                    let varies = diverges || sources.any(|s| self.varies(s));
                    self.strike(&[*result], varies);
                }
            }
            op if matches!(op.class(), Class::Lane | Class::Math | Class::Read) || op == Op::Lookup => {
                self.strike(&inst.results, any_arg);
            }
            _ => {}
        }
    }

    fn strike(&mut self, values: &[Value], varies: bool) {
        for value in values {
            let form = &mut self.forms[value.index()];
            if varies && *form == Form::Uniform {
                *form = Form::Varying;
                self.changed = true;
            }
        }
    }

    fn varies(&self, value: Value) -> bool {
        self.forms[value.index()] == Form::Varying
    }
}
