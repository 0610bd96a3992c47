//! Indices that count with the lanes. Vectors of them address elements in a row, which one load or store moves instead of
//! one access for each lane. Whether they do is tested at run time, but only where an index's making lets it be expected:
//! the test costs little beside a gather, but is for nothing where indices are hashes or come from memory.
//!
//! The clamped coordinates of a stencil are the example: `min(max(x + 1, 0), width - 1)` counts in all vectors but those at
//! the ends of a picture's lines.

use inkwell::IntPredicate;
use inkwell::values::{IntValue, PointerValue};
use jit_core::dtype::DType;
use jit_core::ir::{Block, Inst, Program, Value};
use jit_core::op::Op;

use super::Gen;
use super::emit::{Form, Val, built};
use super::memory::{from_memory, to_memory};

/// How a value changes from lane to lane, in most vectors. A guess: nothing rests on it but speed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// By nothing: a value that all lanes share, or the number of a line.
    Zero,
    /// By one.
    One,
    Other,
}

/// The step of each value of a body.
pub(super) fn steps(program: &Program, forms: &[Form]) -> Vec<Step> {
    let step = |form: &Form| if *form == Form::Uniform { Step::Zero } else { Step::Other };
    let mut steps: Vec<Step> = forms.iter().map(step).collect();
    guess(program, &program.body, &mut steps);
    steps
}

fn guess(program: &Program, block: &Block, steps: &mut [Step]) {
    for inst in &block.insts {
        if inst.op == Op::Loop {
            let start: Vec<Step> = inst.args.iter().map(|a| steps[a.index()]).collect();
            for ((state, result), start) in inst.blocks[0].params.iter().zip(&inst.results).zip(start) {
                // What varies though it starts uniform is anyone's guess.
                if start == Step::One {
                    (steps[state.index()], steps[result.index()]) = (start, start);
                }
            }
        }
        inst.blocks.iter().for_each(|nested| guess(program, nested, steps));
        match (inst.op, &inst.results[..]) {
            (Op::If, results) => {
                for (k, result) in results.iter().enumerate() {
                    let [then, otherwise] = [0, 1].map(|b| steps[inst.blocks[b].yields[k].index()]);
                    steps[result.index()] = either(then, otherwise);
                }
            }
            (_, &[result]) if steps[result.index()] == Step::Other && !program.dtype(result).is_float() => {
                steps[result.index()] = of(program, inst, steps);
            }
            _ => {}
        }
    }
}

/// The step of a varying integer.
fn of(program: &Program, inst: &Inst, steps: &[Step]) -> Step {
    let step = |k: usize| steps[inst.args[k].index()];
    match inst.op {
        Op::Counter => Step::One,
        Op::Cast | Op::Bitcast if !program.dtype(inst.args[0]).is_float() => step(0),
        Op::Add => sum(step(0), step(1)),
        Op::Sub => match (step(0), step(1)) {
            (Step::One, Step::One) => Step::Zero,
            (one, Step::Zero) => one,
            _ => Step::Other,
        },
        Op::Mul => product(step(0), step(1)),
        Op::MulAdd => sum(product(step(0), step(1)), step(2)),
        Op::Min | Op::Max | Op::Minimum | Op::Maximum => either(step(0), step(1)),
        Op::Select => either(step(1), step(2)),
        Op::Rem | Op::And if step(1) == Step::Zero => step(0),
        // A line's number.
        Op::Div | Op::Shr if step(1) == Step::Zero && step(0) != Step::Other => Step::Zero,
        _ => Step::Other,
    }
}

fn sum(a: Step, b: Step) -> Step {
    match (a, b) {
        (Step::Zero, other) | (other, Step::Zero) => other,
        _ => Step::Other,
    }
}

fn product(a: Step, b: Step) -> Step {
    if (a, b) == (Step::Zero, Step::Zero) { Step::Zero } else { Step::Other }
}

/// A choice: the one that counts, if the other does not change.
fn either(a: Step, b: Step) -> Step {
    if a == b { a } else { sum(a, b) }
}

impl<'c> Gen<'c, '_> {
    /// Whether to expect elements in a row at an index, and to have an instruction for them.
    pub(super) fn expects_a_row(&self, index: Value, dtype: DType) -> bool {
        let masked = match dtype.size() {
            1 | 2 => self.e.target.masks_bytes,
            _ => self.e.target.masks_words,
        };
        masked && !self.remainder && self.steps[index.index()] == Step::One
    }

    /// A gather that is a load where the indices count.
    pub(super) fn gather_row(&mut self, inst: &Inst, dtype: DType) -> Val<'c> {
        let (index, active) = self.reached(inst);
        let (row, first) = self.row(inst, index);
        let (together, apart, done) = (self.e.block("row"), self.e.block("gather"), self.e.block("gathered"));
        self.e.branch(row, together, apart);
        self.e.continue_at(together);
        let e = &self.e;
        let ty = e.memory(dtype, Form::Varying);
        let in_row = from_memory(e, dtype, e.masked_load(ty, first, dtype.size() as u32, active));
        e.jump(done);
        e.continue_at(apart);
        let at = self.element_address(inst, index);
        let mask = self.mask_or_all(active);
        let gathered = self.gather_lanes(dtype, at, mask);
        let apart_end = self.e.here();
        self.e.jump(done);
        self.e.continue_at(done);
        self.e.merge(&[(in_row, together), (gathered, apart_end)])
    }

    /// A scatter that is a store where the indices count.
    pub(super) fn scatter_row(&mut self, inst: &Inst, dtype: DType) {
        let (index, active) = self.reached(inst);
        let value = self.lanes_of(inst.args[0]);
        let value = to_memory(&self.e, dtype, value);
        let (row, first) = self.row(inst, index);
        let (together, apart, done) =
            (self.e.block("row"), self.e.block("scatter"), self.e.block("scattered"));
        self.e.branch(row, together, apart);
        self.e.continue_at(together);
        self.e.masked_store(value, first, dtype.size() as u32, active);
        self.e.jump(done);
        self.e.continue_at(apart);
        let at = self.element_address(inst, index);
        let mask = self.mask_or_all(active);
        self.scatter_lanes(dtype, value, at, mask);
        self.e.jump(done);
        self.e.continue_at(done);
    }

    /// Whether the lanes' indices are the first one's successors, and the address of the first one's element. An index that
    /// wraps around in its type has no such successors in memory.
    fn row(&self, inst: &Inst, index: Val<'c>) -> (IntValue<'c>, PointerValue<'c>) {
        let e = &self.e;
        let ty = self.program.dtype(inst.index());
        let bits = ty.bits();
        let first = e.extract(index, 0);
        let successors = e.add(e.splat(first), e.iota(bits));
        let lanes = e.mask_bits(e.icmp(IntPredicate::EQ, index, successors));
        let all = lanes.get_type().const_all_ones();
        let counts = built(e.builder.build_int_compare(IntPredicate::EQ, lanes, all, "")).into();
        let row = if bits == 64 {
            counts
        } else {
            let (no_later, highest) = match ty.is_signed() {
                true => (IntPredicate::SLE, ty.mask() >> 1),
                false => (IntPredicate::ULE, ty.mask()),
            };
            let last_start = e.int_like(first, highest - u64::from(e.width - 1));
            e.and(counts, e.icmp(no_later, first, last_start))
        };
        (row.into_int_value(), self.element_address(inst, first).into_pointer_value())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codegen::uniform;

    fn step_of_the_last_value(body: &str) -> Step {
        let text = format!(
            "param p0: scalar u32\nparam p1: in u32\nbody {{ v0: u32 = counter\n v1: u32 = param p0\n {body} }}"
        );
        let program = jit_core::ir::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let forms = uniform::forms(&program, &program.body);
        *steps(&program, &forms).last().expect("a value")
    }

    #[test]
    fn clamped_coordinates_count() {
        let step = step_of_the_last_value(
            "v2: u32 = rem v0, v1\n v3: u32 = div v0, v1\n v4: u32 = add v2, v1\n v5: u32 = min v4, v1
             v6: i32 = cast v5\n v7: i32 = cast v3\n v8: i32 = cast v1\n v9: i32 = mul_add v7, v8, v6",
        );
        assert_eq!(step, Step::One);
    }

    #[test]
    fn hashes_strides_and_what_memory_holds_do_not() {
        for body in [
            "v2: u32 = shr v0, v1\n v3: u32 = xor v0, v2",
            "v2: u32 = mul v0, v1",
            "v2: u32 = add v0, v0",
            "v2: u32 = sub v1, v0",
            "v2: u32 = load p1",
        ] {
            assert_eq!(step_of_the_last_value(body), Step::Other, "{body}");
        }
        assert_eq!(step_of_the_last_value("v2: u32 = div v0, v1"), Step::Zero);
    }
}
