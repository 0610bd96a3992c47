//! Fuses `a * b + c` of floats into `mul_add`, where contraction was asked for.
//!
//! One walk in the order of the text: an `add` with an operand that is a product used nowhere else becomes `mul_add`;
//! so do `a * b - c` and `c - a * b`, with a negated operand, which costs nothing where there are fused multiply-adds.
//! If both operands are such products, the first is fused.
//!
//! Changes bits of results (one rounding less), so it runs only if asked for. Keeps: order, numbers of values.
//! Leaves alone: products with a second use, which would be computed twice; integers; the product itself, which
//! [`dce`](super::dce) drops.

use crate::dtype::DType;
use crate::float_mode::FloatMode;
use crate::ir::{Block, Blocks, Inst, Program, Value};
use crate::op::Op;

/// Fuses products of floats into the sums that use them, where the mode of both allows it; `device` is the mode of those
/// that carry none.
pub fn run(program: &mut Program, device: FloatMode) {
    let mut uses = vec![0u32; program.values.len()];
    program.top_blocks().for_each(|block| count_uses(block, &mut uses));
    let Program { values, body, finish, .. } = program;
    let mut pass = Pass { products: vec![None; uses.len()], uses, types: values, device };
    pass.block(body);
    if let Some(finish) = finish {
        pass.block(finish);
    }
}

struct Pass<'a> {
    types: &'a mut Vec<DType>,
    uses: Vec<u32>,
    /// The factors of each value that is a product of floats with one use.
    products: Vec<Option<[Value; 2]>>,
    device: FloatMode,
}

impl Pass<'_> {
    fn block(&mut self, block: &mut Block) {
        let mut out = Vec::with_capacity(block.insts.len());
        for mut inst in std::mem::take(&mut block.insts) {
            inst.blocks.iter_mut().for_each(|nested| self.block(nested));
            match inst.op {
                Op::Mul if self.contracts(&inst) && self.uses[inst.result().index()] == 1 => {
                    self.products[inst.result().index()] = Some([inst.args[0], inst.args[1]]);
                }
                Op::Add | Op::Sub if self.contracts(&inst) => self.fuse(&mut inst, &mut out),
                _ => {}
            }
            out.push(inst);
        }
        block.insts = out;
    }

    /// Makes a sum or difference a `mul_add` if it can be one.
    fn fuse(&mut self, sum: &mut Inst, out: &mut Vec<Inst>) {
        let [left, right] = sum.args[..] else { unreachable!("a sum has two operands") };
        let subtract = sum.op == Op::Sub;
        sum.args = if let Some([a, b]) = self.products[left.index()] {
            let c = if subtract { self.negated(right, out) } else { right };
            [a, b, c].into()
        } else if let Some([a, b]) = self.products[right.index()] {
            let a = if subtract { self.negated(a, out) } else { a };
            [a, b, left].into()
        } else {
            return;
        };
        sum.op = Op::MulAdd;
        sum.imm = 0;
    }

    fn negated(&mut self, value: Value, out: &mut Vec<Inst>) -> Value {
        let result = Value(self.types.len() as u32);
        self.types.push(self.types[value.index()]);
        self.products.push(None);
        self.uses.push(1);
        out.push(Inst {
            op: Op::Neg,
            in_bounds: false,
            imm: 0,
            results: [result].into(),
            args: [value].into(),
            blocks: Blocks::default(),
        });
        result
    }

    fn contracts(&self, inst: &Inst) -> bool {
        self.types[inst.result().index()].is_float() && self.device.of(inst.imm).contracts()
    }
}

fn count_uses(block: &Block, uses: &mut [u32]) {
    for inst in &block.insts {
        inst.args.iter().for_each(|arg| uses[arg.index()] += 1);
        inst.blocks.iter().for_each(|nested| count_uses(nested, uses));
    }
    block.yields.iter().for_each(|value| uses[value.index()] += 1);
}
