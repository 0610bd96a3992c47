//! What `FloatMode::Fast` allows beyond contraction: `x / c` with a constant `c` becomes `x * (1 / c)`, and `rsqrt(x)`
//! becomes `1 / sqrt(x)`, without the step that makes it accurate.
//!
//! Changes bits of results, so it touches only instructions of that mode. Keeps: numbers of values. Leaves alone:
//! quotients whose divisor has no finite reciprocal, or one below the smallest normal number.

use crate::dtype::DType;
use crate::float_mode::FloatMode;
use crate::ir::{Block, Blocks, Inst, Program, Value};
use crate::op::{Op, scalar};

/// Approximates the instructions of a program whose mode allows it; `device` is the mode of those that carry none.
pub fn run(program: &mut Program, device: FloatMode) {
    let Program { values, body, finish, .. } = program;
    let mut pass = Pass { literals: vec![None; values.len()], types: values, device };
    pass.block(body);
    if let Some(finish) = finish {
        pass.block(finish);
    }
}

struct Pass<'a> {
    types: &'a mut Vec<DType>,
    /// The bits of each value that is a literal.
    literals: Vec<Option<u64>>,
    device: FloatMode,
}

impl Pass<'_> {
    fn block(&mut self, block: &mut Block) {
        let mut out = Vec::with_capacity(block.insts.len());
        for mut inst in std::mem::take(&mut block.insts) {
            inst.blocks.iter_mut().for_each(|nested| self.block(nested));
            match inst.op {
                Op::Literal => self.literals[inst.result().index()] = Some(inst.imm),
                Op::Div if self.is_fast(&inst) => self.quotient(&mut inst, &mut out),
                Op::Rsqrt if self.is_fast(&inst) => {
                    let root = self.value(Op::Sqrt, 0, &inst.args, &mut out);
                    inst.op = Op::Recip;
                    inst.args = [root].into();
                }
                _ => {}
            }
            out.push(inst);
        }
        block.insts = out;
    }

    fn is_fast(&self, inst: &Inst) -> bool {
        self.types[inst.result().index()].is_float() && self.device.of(inst.imm) == FloatMode::Fast
    }

    fn quotient(&mut self, inst: &mut Inst, out: &mut Vec<Inst>) {
        let dtype = self.types[inst.result().index()];
        let Some(divisor) = self.literals[inst.args[1].index()] else { return };
        let one = scalar::cast(DType::F64, dtype, 1f64.to_bits());
        let reciprocal = scalar::evaluate(Op::Div, dtype, dtype, &[one, divisor]);
        let magnitude = scalar::as_f64(dtype, reciprocal).abs();
        let smallest = match dtype {
            DType::F16 => f64::from(half::f16::MIN_POSITIVE),
            DType::F32 => f64::from(f32::MIN_POSITIVE),
            _ => f64::MIN_POSITIVE,
        };
        if magnitude.is_finite() && magnitude >= smallest {
            let reciprocal = self.value(Op::Literal, reciprocal, &[], out);
            self.types[reciprocal.index()] = dtype;
            inst.op = Op::Mul;
            inst.args[1] = reciprocal;
        }
    }

    /// A new value of the type of the first operand.
    fn value(&mut self, op: Op, imm: u64, args: &[Value], out: &mut Vec<Inst>) -> Value {
        let result = Value(self.types.len() as u32);
        self.types.push(args.first().map_or(DType::F32, |arg| self.types[arg.index()]));
        self.literals.push(None);
        out.push(Inst {
            op,
            in_bounds: false,
            imm,
            results: [result].into(),
            args: args.iter().copied().collect(),
            blocks: Blocks::default(),
        });
        result
    }
}
