//! Programs that are long, deep or damaged: no stack overflows, nothing panics.

use std::fmt::Write;

use jit_core::backend::PassLevel;
use jit_core::dtype::DType;
use jit_core::ir::{Builder, MAX_NESTING, ParamKind, Program, parse, verify};
use jit_core::op::Op;
use jit_core::passes::{self, Bounds, Options};
use jit_core::runtime::FloatMode;

fn optimise(program: &mut Program) {
    let options = Options { float_mode: FloatMode::Contract, bounds: Bounds::Any };
    passes::run(program, PassLevel::Full, &options, &mut |_, _| {});
}

#[test]
fn a_million_instructions_in_a_row() {
    const LENGTH: usize = 1_000_000;
    let mut builder = Builder::new();
    let (input, output) =
        (builder.param(ParamKind::In, DType::U32), builder.param(ParamKind::Out, DType::U32));
    let first = builder.read(Op::Load, input);
    let mut value = first;
    for k in 0..LENGTH {
        value = builder.op([Op::Add, Op::Xor, Op::Mul][k % 3], &[value, first]);
    }
    builder.store(output, value);
    let mut program = builder.finish(false);
    assert_eq!(verify(&program).map_err(|e| e.to_string()), Ok(()));
    assert!(parse(&program.to_string()).expect("its own text") == program);
    optimise(&mut program);
    assert_eq!(program.inst_count(), LENGTH + 2);
    let (mut words, mut holes) = (Vec::new(), Vec::new());
    program.canonical_words(&mut words, &mut holes);
    assert!(words.len() > LENGTH && holes.is_empty());
}

/// A program with that many loops and branches in each other, state handed through all of them.
fn nested(depth: usize) -> String {
    let mut text = String::from("param p0: out u32\nbody {\n  v0: u32 = counter\n  v1: bool = lt v0, v0\n");
    let number = |level: usize| 2 + 3 * level;
    for level in 0..depth {
        let (v, outer) = (number(level), if level == 0 { 0 } else { number(level - 1) + 1 });
        let _ = match level % 2 {
            0 => writeln!(text, "v{v}: u32 = loop (v{}: u32 = v{outer}) {{ while v1 }} do {{", v + 1),
            _ => writeln!(text, "v{v}: u32 = if v1 {{ v{}: u32 = add v{outer}, v0", v + 1),
        };
    }
    for level in (0..depth).rev() {
        let (v, inner) = (number(level), number(level + 1));
        let given = if level + 1 == depth { v + 1 } else { inner };
        let end = if level % 2 == 0 { "" } else { " else { yield v0 }" };
        let _ = writeln!(text, "v{}: u32 = neg v{given} yield v{} }}{end}", v + 2, v + 2);
    }
    text + "store p0, v2 }"
}

#[test]
fn regions_nest_to_the_limit() {
    let mut program = parse(&nested(MAX_NESTING)).expect("a program at the limit");
    assert_eq!(verify(&program).map_err(|e| e.to_string()), Ok(()));
    let before = program.inst_count();
    optimise(&mut program);
    assert_eq!(program.inst_count(), before, "all of it is needed");
    assert!(parse(&program.to_string()).expect("its own text") == program);
    program.canonical_words(&mut Vec::new(), &mut Vec::new());
}

#[test]
fn deeper_nesting_is_refused() {
    let error = parse(&nested(MAX_NESTING + 1)).expect_err("too deep").to_string();
    assert!(error.contains("nested deeper than 255"), "{error}");

    let mut builder = Builder::new();
    let condition = builder.literal(DType::Bool, 0);
    for _ in 0..=MAX_NESTING {
        builder.open_block(&[]);
    }
    for _ in 0..=MAX_NESTING {
        let then = builder.close_block(&[]);
        builder.inst(Op::If, 0, &[condition], &[], vec![then, Default::default()]);
    }
    let error = verify(&builder.finish(false)).expect_err("too deep").to_string();
    assert!(error.contains("nested deeper than 255"), "{error}");
}

#[test]
fn damaged_text_is_an_error() {
    let text = include_str!("../cases/print/language.ir");
    let text: Vec<&str> =
        text.split(";!").nth(1).expect("a case").split_inclusive([' ', '\n']).skip(2).collect();
    let mut state = 1u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % below
    };
    let (mut parsed, mut valid) = (0, 0);
    for _ in 0..20_000 {
        let mut tokens = text.clone();
        for _ in 0..1 + random(2) {
            let (at, other) = (random(tokens.len()), text[random(text.len())]);
            match random(3) {
                0 => tokens[at] = other,
                1 => tokens.insert(at, other),
                _ => drop(tokens.remove(at)),
            }
        }
        let Ok(mut program) = parse(&tokens.concat()) else { continue };
        parsed += 1;
        let printed = program.to_string();
        if verify(&program).is_err() {
            continue;
        }
        valid += 1;
        assert_eq!(parse(&printed).expect("its own text").to_string(), printed);
        optimise(&mut program);
    }
    assert!(
        parsed > 1000 && valid > 200,
        "{parsed} of the texts parsed, {valid} were valid: too few to tell"
    );
}
