//! Replaces mathematical functions by primitive ops, the same for every backend: so all of them compute
//! equal bits, and accuracy is a property of this pass alone.
//!
//! Every op of [`Class::Math`] in any block becomes a sequence of lane ops, with `lookup`s and `if_any` blocks for what is
//! rarely needed; its result keeps its value number, so no use changes.
//! f16 goes through f32 and is rounded once more. All special cases are those of C and IEEE 754.
//!
//! The sequences are *not* yet free of common subexpressions across functions (`sin` and `cos` of one angle share
//! all but their last ops): a later pass finds them. They do rely on each op being rounded as written:
//! contraction of `a * b + c` belongs before this pass, not behind it.
//!
//! # Accuracy
#![doc = include_str!("accuracy.md")]

mod emit;
mod erf;
mod exp;
mod hyperbolic;
mod inverse_trig;
mod layout;
mod log;
mod log_sum;
mod payne_hanek;
mod pow;
mod roots;
mod special;
#[cfg(test)]
mod tests;
mod trig;

use emit::{Emitter, Expr};
use trig::Domain;

use crate::dtype::DType;
use crate::ir::{Block, Inst, Program, Value};
use crate::op::{Class, Op};

/// Lowers all mathematical functions of the program.
pub fn run(program: &mut Program) {
    let mut taken = std::mem::take(program);
    let body = std::mem::take(&mut taken.body);
    let finish = taken.finish.take();
    let emitter = Emitter::extending(taken);
    let body = lower_block(&emitter, body);
    let finish = finish.map(|block| lower_block(&emitter, block));
    *program = Program { body, finish, ..emitter.into_program() };
}

fn lower_block(emitter: &Emitter, block: Block) -> Block {
    let insts = emitter.scope(|| {
        let mut insts = Vec::with_capacity(block.insts.len());
        for mut inst in block.insts {
            inst.blocks = inst.blocks.into_iter().map(|b| lower_block(emitter, b)).collect();
            if inst.op.class() == Class::Math {
                insts.extend(lower_inst(emitter, &inst));
                continue;
            }
            if inst.op == Op::Literal {
                let dtype = emitter.value(inst.result()).dtype();
                emitter.remember_literal(dtype, inst.imm, inst.result());
            }
            insts.push(inst);
        }
        insts
    });
    Block { insts, ..block }
}

/// The instructions that compute what `inst` does, the last of which defines its result.
fn lower_inst(emitter: &Emitter, inst: &Inst) -> Vec<Inst> {
    let args: Vec<Expr<'_>> = inst.args.iter().map(|&v| emitter.value(v)).collect();
    let (mut insts, value) = emitter.record(|| lower_op(inst.op, &args));
    define_by_last(&mut insts, value, inst.result());
    insts
}

fn define_by_last(insts: &mut [Inst], computed: Value, result: Value) {
    let last = insts.last_mut().expect("a function is at least one op");
    assert_eq!(last.result(), computed, "a lowering ends with its result");
    last.results[0] = result;
}

fn lower_op<'e>(op: Op, args: &[Expr<'e>]) -> Expr<'e> {
    if args[0].dtype() != DType::F16 {
        return lower_wide(op, args, Domain::Whole);
    }
    let wide: Vec<Expr<'_>> = args.iter().map(|a| a.cast(DType::F32)).collect();
    lower_wide(op, &wide, Domain::FromF16).cast(DType::F16)
}

fn lower_wide<'e>(op: Op, args: &[Expr<'e>], domain: Domain) -> Expr<'e> {
    match (op, args) {
        (Op::Recip, &[x]) => special::recip(x),
        (Op::Rsqrt, &[x]) => special::rsqrt(x),
        (Op::Sin, &[x]) => trig::sin(x, domain),
        (Op::Cos, &[x]) => trig::cos(x, domain),
        (Op::Exp, &[x]) => exp::exp(x),
        (Op::Ln, &[x]) => log::ln(x),
        (Op::Pow, &[x, y]) => pow::pow(x, y),
        (Op::Tan, &[x]) => trig::tan(x, domain),
        (Op::Asin, &[x]) => inverse_trig::asin(x),
        (Op::Acos, &[x]) => inverse_trig::acos(x),
        (Op::Atan, &[x]) => inverse_trig::atan(x),
        (Op::Atan2, &[y, x]) => inverse_trig::atan2(y, x),
        (Op::Sinh, &[x]) => hyperbolic::sinh(x),
        (Op::Cosh, &[x]) => hyperbolic::cosh(x),
        (Op::Tanh, &[x]) => hyperbolic::tanh(x),
        (Op::Asinh, &[x]) => log_sum::asinh(x),
        (Op::Acosh, &[x]) => log_sum::acosh(x),
        (Op::Atanh, &[x]) => log_sum::atanh(x),
        (Op::Exp2, &[x]) => exp::exp2(x),
        (Op::ExpM1, &[x]) => exp::exp_m1(x),
        (Op::Log2, &[x]) => log_sum::log2(x),
        (Op::Log10, &[x]) => log_sum::log10(x),
        (Op::Ln1p, &[x]) => log_sum::ln_1p(x),
        (Op::Cbrt, &[x]) => roots::cbrt(x),
        (Op::Hypot, &[x, y]) => roots::hypot(x, y),
        (Op::Erf, &[x]) => erf::erf(x),
        (Op::Erfc, &[x]) => erf::erfc(x),
        (other, _) => panic!("`{}` is no mathematical function", other.name()),
    }
}
