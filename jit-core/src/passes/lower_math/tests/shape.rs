//! What the lowered program looks like.

use super::{evaluate, lowered, program_of};
use crate::backend::PassLevel;
use crate::dtype::DType;
use crate::ir::{Block, Builder, Inst, ParamKind, Program};
use crate::op::{Class, Op};
use crate::passes;

/// Ops that every lane runs: what the function became, without literals and cold blocks.
pub(super) fn hot_ops(program: &Program) -> usize {
    let counts = |inst: &&Inst| !matches!(inst.op, Op::Literal | Op::Load | Op::Store);
    program.body.insts.iter().filter(counts).count()
}

/// Ops in all blocks, without literals.
pub(super) fn ops_in_all(program: &Program) -> usize {
    fn count(block: &Block) -> usize {
        let nested = |i: &Inst| i.blocks.iter().map(count).sum::<usize>();
        let counts = |i: &Inst| usize::from(!matches!(i.op, Op::Literal | Op::Load | Op::Store));
        block.insts.iter().map(|i| counts(i) + nested(i)).sum()
    }
    count(&program.body)
}

fn all_insts<'a>(block: &'a Block, found: &mut Vec<&'a Inst>) {
    for inst in &block.insts {
        found.push(inst);
        inst.blocks.iter().for_each(|b| all_insts(b, found));
    }
}

#[test]
fn the_result_keeps_its_value() {
    let before = program_of(Op::Sin, DType::F32);
    let after = lowered(Op::Sin, DType::F32);
    let store = |p: &Program| p.body.insts.last().expect("a store").clone();
    assert_eq!(store(&before), store(&after));
}

#[test]
fn a_program_without_functions_stays_as_it_is() {
    let mut b = Builder::new();
    let (x, out) = (b.param(ParamKind::In, DType::F32), b.param(ParamKind::Out, DType::F32));
    let value = b.read(Op::Load, x);
    let half = b.literal(DType::F32, u64::from(0.5f32.to_bits()));
    let product = b.op(Op::Mul, &[value, half]);
    b.store(out, product);
    let before = b.finish(false);
    let mut after = before.clone();
    super::super::run(&mut after);
    assert_eq!(before, after);
}

/// `if x < 1 { exp(x) } else { ln(x) }` and the same in a finish: nested blocks are lowered too.
#[test]
fn functions_in_nested_blocks_are_lowered() {
    let mut b = Builder::new();
    let (x, out) = (b.param(ParamKind::In, DType::F64), b.param(ParamKind::Out, DType::F64));
    let value = b.read(Op::Load, x);
    let one = b.literal(DType::F64, 1f64.to_bits());
    let small = b.op(Op::Lt, &[value, one]);
    let blocks = [Op::Exp, Op::Ln].map(|op| {
        b.open_block(&[]);
        let result = b.op(op, &[value]);
        b.close_block(&[result])
    });
    let result = b.inst(Op::If, 0, &[small], &[DType::F64], blocks.into())[0];
    b.store(out, result);
    let mut program = b.finish(false);
    super::super::run(&mut program);

    let mut insts = Vec::new();
    all_insts(&program.body, &mut insts);
    assert!(insts.iter().all(|i| i.op.class() != Class::Math));
    let results = evaluate(&program, &[vec![0f64.to_bits(), f64::INFINITY.to_bits()]]);
    assert_eq!(results, [1f64.to_bits(), f64::INFINITY.to_bits()]);
}

/// A literal is made once per block, and one that the program had already is used.
#[test]
fn literals_are_shared() {
    let mut b = Builder::new();
    let (x, out) = (b.param(ParamKind::In, DType::F32), b.param(ParamKind::Out, DType::F32));
    let value = b.read(Op::Load, x);
    let one = b.literal(DType::F32, u64::from(1f32.to_bits()));
    let sine = b.op(Op::Sin, &[value]);
    let cosine = b.op(Op::Cos, &[sine]);
    let reciprocal = b.op(Op::Recip, &[cosine]);
    b.store(out, reciprocal);
    let mut program = b.finish(false);
    super::super::run(&mut program);

    let mut seen = std::collections::HashSet::new();
    for inst in program.body.insts.iter().filter(|i| i.op == Op::Literal) {
        let literal = (program.dtype(inst.result()), inst.imm);
        assert!(seen.insert(literal), "{literal:x?} stands twice");
    }
    let division = program.body.insts.iter().find(|i| i.op == Op::Div).expect("the reciprocal");
    assert_eq!(division.args[0], one);
}

/// The passes behind this one keep its bits, and find that sine and cosine share their reduction.
#[test]
fn sine_and_cosine_of_one_angle_share_the_reduction() {
    let mut b = Builder::new();
    let (x, out) = (b.param(ParamKind::In, DType::F32), b.param(ParamKind::Out, DType::F32));
    let value = b.read(Op::Load, x);
    let (sine, cosine) = (b.op(Op::Sin, &[value]), b.op(Op::Cos, &[value]));
    let sum = b.op(Op::Add, &[sine, cosine]);
    b.store(out, sum);
    let mut program = b.finish(false);
    super::super::run(&mut program);
    let plain = program.clone();
    passes::run(&mut program, PassLevel::Full, &passes::Options::default(), &mut |_, _| ());

    let angles = (0..2000u64).map(|i| (i * 0x1f_fff1) & 0xffff_ffff).collect();
    let angles = [angles];
    assert_eq!(evaluate(&plain, &angles), evaluate(&program, &angles));
    let cold_blocks = program.body.insts.iter().filter(|i| i.op == Op::IfAny).count();
    assert_eq!(cold_blocks, 1);
    let sine = hot_ops(&lowered(Op::Sin, DType::F32));
    assert!(hot_ops(&program) < sine + 10, "{} ops for both, {sine} for one", hot_ops(&program));
}
