//! Programs as structures: walks over all instructions, one canonical numbering, and the words that determine a
//! program up to its literals (what the kernel cache compares).

use super::{Block, Inst, Param, ParamId, ParamKind, Program, Value};
use crate::dtype::{DType, is_nan};
use crate::op::{Class, Op, scalar};

/// A literal whose value is left out of the canonical words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hole {
    /// What the literal defines.
    pub value: Value,
    /// Its type.
    pub dtype: DType,
    /// Its bits.
    pub bits: u64,
    /// It stands where its value decides how good the code is: an integer divisor, a shift amount, an operand of an
    /// integer `and`, or a side of a comparison in a loop's condition.
    pub specialising: bool,
}

/// A use of a literal by an integer `mul`, `div`, `rem` or `mul_add`, where a power of two gives other code.
const SCALES_INTEGER: u8 = 1;
/// A use in a specialising position.
const SPECIALISES: u8 = 2;

impl Program {
    /// Appends words that determine a verified program up to the numbers of its values and the bits of its literals.
    ///
    /// Equal words mean: equal programs, but for numbering, once each hole is filled with the same bits. Literals
    /// become holes, appended in order of appearance, unless they are *special*: any bool; float zeros, ±1,
    /// infinities and NaN; integer 0, 1 and all ones, and powers of two that an integer `mul`, `div`, `rem` or
    /// `mul_add` uses. Special literals stay in the words. Each literal instruction is a hole of its own: equal
    /// literals should be one instruction beforehand.
    pub fn canonical_words(&self, out: &mut Vec<u64>, holes: &mut Vec<Hole>) {
        let mut uses = vec![0; self.values.len()];
        for block in self.top_blocks() {
            note_uses(block, false, &self.values, &mut uses);
        }
        out.push(pack(self.params.len(), self.tables.len() << 2 | self.segments as usize));
        for param in &self.params {
            let spans = u64::from(param.spans_lanes);
            out.push(param.kind as u64 | (param.dtype as u64) << 8 | spans << 16);
            out.push(param.min_len);
        }
        for table in &self.tables {
            out.push(table.dtype as u64 | (table.bits.len() as u64) << 8);
            out.extend_from_slice(&table.bits);
        }
        let mut words =
            Words { program: self, uses, numbers: vec![u32::MAX; self.values.len()], next: 0, out, holes };
        words.block(&self.body);
        words.out.push(u64::from(self.finish.is_some()));
        if let Some(finish) = &self.finish {
            words.block(finish);
        }
    }

    /// Turns these literals into reads of new scalar parameters, appended in the order of the list.
    pub fn promote(&mut self, literal_values: &[Value]) {
        let mut params: Vec<Option<ParamId>> = vec![None; self.values.len()];
        for &value in literal_values {
            params[value.index()] = Some(ParamId(self.params.len() as u32));
            let dtype = self.dtype(value);
            self.params.push(Param { kind: ParamKind::Scalar, dtype, min_len: 0, spans_lanes: false });
        }
        self.for_each_inst_mut(&mut |inst| {
            if inst.op == Op::Literal
                && let Some(param) = params[inst.result().index()]
            {
                inst.op = Op::Param;
                inst.imm = u64::from(param.0);
            }
        });
    }

    /// Numbers values in the order of their definitions in the text, without gaps.
    pub fn renumber(&mut self) {
        let mut renumbering =
            Renumbering { numbers: vec![None; self.values.len()], old: &self.values, new: Vec::new() };
        renumbering.block(&mut self.body);
        if let Some(finish) = &mut self.finish {
            renumbering.block(finish);
        }
        let Renumbering { numbers, new, .. } = renumbering;
        let locals = self.locals.iter();
        self.locals = locals.filter_map(|(old, &len)| Some((numbers[old.index()]?, len))).collect();
        self.values = new;
    }

    /// For each parameter the number of elements that a launch of this many lanes from `base`, in segments of that length,
    /// needs to be safe.
    pub fn required_lens(&self, lanes: u64, base: u64, segment: u64) -> Vec<u64> {
        let spanned = |p: &Param| if p.spans_lanes { base.saturating_add(lanes) } else { 0 };
        let mut lens: Vec<u64> = self.params.iter().map(|p| p.min_len.max(spanned(p))).collect();
        let mut need = |inst: &Inst, len: u64| {
            let slot = &mut lens[inst.param().index()];
            *slot = len.max(*slot);
        };
        self.body.for_each_inst(&mut |inst| match inst.op {
            Op::Load | Op::Store => need(inst, lanes),
            Op::LoadScalar => need(inst, 1),
            _ => {}
        });
        if let Some(finish) = &self.finish {
            finish.for_each_inst(&mut |inst| match inst.op {
                Op::Load | Op::Store => need(inst, self.segments.count(lanes, segment)),
                Op::LoadScalar => need(inst, 1),
                _ => {}
            });
        }
        lens
    }

    /// The body and, if there is one, the finish.
    pub fn top_blocks(&self) -> impl Iterator<Item = &Block> {
        std::iter::once(&self.body).chain(&self.finish)
    }

    /// The body and, if there is one, the finish.
    pub fn top_blocks_mut(&mut self) -> impl Iterator<Item = &mut Block> {
        std::iter::once(&mut self.body).chain(&mut self.finish)
    }

    /// Calls `visit` with every instruction in the order of the text.
    pub fn for_each_inst<'a>(&'a self, visit: &mut impl FnMut(&'a Inst)) {
        self.top_blocks().for_each(|block| block.for_each_inst(visit));
    }

    /// Calls `visit` with every instruction in the order of the text.
    pub fn for_each_inst_mut(&mut self, visit: &mut impl FnMut(&mut Inst)) {
        self.top_blocks_mut().for_each(|block| block.for_each_inst_mut(visit));
    }
}

impl Block {
    /// Calls `visit` with every instruction in the order of the text, those of nested blocks included.
    pub fn for_each_inst<'a>(&'a self, visit: &mut impl FnMut(&'a Inst)) {
        for inst in &self.insts {
            visit(inst);
            inst.blocks.iter().for_each(|block| block.for_each_inst(visit));
        }
    }

    /// Calls `visit` with every instruction in the order of the text, those of nested blocks included.
    pub fn for_each_inst_mut(&mut self, visit: &mut impl FnMut(&mut Inst)) {
        for inst in &mut self.insts {
            visit(inst);
            inst.blocks.iter_mut().for_each(|block| block.for_each_inst_mut(visit));
        }
    }

    /// Replaces every use of a value, in nested blocks too.
    pub fn replace_uses(&mut self, replacement: &impl Fn(Value) -> Value) {
        for inst in &mut self.insts {
            inst.args.iter_mut().for_each(|arg| *arg = replacement(*arg));
            inst.blocks.iter_mut().for_each(|block| block.replace_uses(replacement));
        }
        self.yields.iter_mut().for_each(|value| *value = replacement(*value));
    }
}

/// Marks how literals are used. `condition`: the block lies in a loop's condition.
fn note_uses(block: &Block, condition: bool, types: &[DType], uses: &mut [u8]) {
    for inst in &block.insts {
        let integer = inst.args.last().is_some_and(|arg| types[arg.index()].is_int());
        let mut note = |position: usize, flag: u8| uses[inst.args[position].index()] |= flag;
        match inst.op {
            Op::Mul | Op::MulAdd if integer => (0..2).for_each(|k| note(k, SCALES_INTEGER)),
            Op::Div | Op::Rem if integer => {
                note(0, SCALES_INTEGER);
                note(1, SCALES_INTEGER | SPECIALISES);
            }
            Op::Shl | Op::Shr => note(1, SPECIALISES),
            Op::And if integer => (0..2).for_each(|k| note(k, SPECIALISES)),
            Op::Eq | Op::Ne | Op::Lt | Op::Le | Op::Gt | Op::Ge if condition => {
                (0..2).for_each(|k| note(k, SPECIALISES));
            }
            _ => {}
        }
        for (k, nested) in inst.blocks.iter().enumerate() {
            note_uses(nested, condition || inst.op == Op::Loop && k == 0, types, uses);
        }
    }
}

/// Whether a literal is structure. `scales_integer`: an integer `mul`, `div`, `rem` or `mul_add` may use it, where a power
/// of two gives other code; saying so where none does only makes structures finer.
pub(crate) fn is_special(dtype: DType, bits: u64, scales_integer: bool) -> bool {
    if dtype.is_float() {
        let sign = 1 << (dtype.bits() - 1);
        let constant = |value: f64| scalar::cast(DType::F64, dtype, value.to_bits());
        let magnitude = bits & !sign;
        return magnitude == 0
            || magnitude == constant(1.0)
            || magnitude == constant(f64::INFINITY)
            || is_nan(dtype, bits);
    }
    dtype == DType::Bool || bits <= 1 || bits == dtype.mask() || scales_integer && bits.is_power_of_two()
}

fn pack(low: usize, high: usize) -> u64 {
    low as u64 | (high as u64) << 32
}

struct Words<'a> {
    program: &'a Program,
    uses: Vec<u8>,
    /// Canonical numbers: the order of definitions in the text.
    numbers: Vec<u32>,
    next: u32,
    out: &'a mut Vec<u64>,
    holes: &'a mut Vec<Hole>,
}

impl Words<'_> {
    fn block(&mut self, block: &Block) {
        self.out.push(pack(block.params.len(), block.yields.len()));
        self.out.push(block.insts.len() as u64);
        self.define(&block.params);
        for inst in &block.insts {
            self.inst(inst);
        }
        self.values(&block.yields);
    }

    fn inst(&mut self, inst: &Inst) {
        let head = inst.op as u64 | u64::from(inst.in_bounds) << 8;
        if inst.op == Op::Literal {
            return self.literal(inst, head);
        }
        if inst.op.class() == Class::Region || matches!(inst.op, Op::IfAny | Op::Reduce) {
            self.out.push(head | (inst.blocks.len() as u64) << 32);
            self.out.push(pack(inst.results.len(), inst.args.len()));
            self.values(&inst.args);
            inst.blocks.iter().for_each(|block| self.block(block));
            return self.define(&inst.results);
        }
        // At most four operands and one result, by the rules of the language; parameters, tables and the elements of local
        // arrays are counted in u32. Which other values are local arrays, and of which length, follows from those.
        let result = inst.results.first().map_or(0xff, |&v| self.program.dtype(v) as u64);
        self.out.push(head | (inst.args.len() as u64) << 12 | result << 16 | inst.imm << 32);
        self.values(&inst.args);
        self.number(&inst.results);
    }

    fn literal(&mut self, inst: &Inst, head: u64) {
        let value = inst.result();
        let (dtype, bits, uses) = (self.program.dtype(value), inst.imm, self.uses[value.index()]);
        let special = is_special(dtype, bits, uses & SCALES_INTEGER != 0);
        self.out.push(head | u64::from(special) << 9 | (dtype as u64) << 16);
        if special {
            self.out.push(bits);
        } else {
            self.holes.push(Hole { value, dtype, bits, specialising: uses & SPECIALISES != 0 });
        }
        self.number(&inst.results);
    }

    /// Numbers values and writes their types, eight a word.
    fn define(&mut self, values: &[Value]) {
        self.number(values);
        for eight in values.chunks(8) {
            let types = eight.iter().rev().map(|&v| self.program.dtype(v) as u64);
            self.out.push(types.fold(0, |word, dtype| word << 8 | dtype));
        }
    }

    fn number(&mut self, values: &[Value]) {
        for value in values {
            self.numbers[value.index()] = self.next;
            self.next += 1;
        }
    }

    /// Writes values, two a word.
    fn values(&mut self, values: &[Value]) {
        for two in values.chunks(2) {
            let number = |k: usize| two.get(k).map_or(0, |v: &Value| self.numbers[v.index()] as usize);
            self.out.push(pack(number(0), number(1)));
        }
    }
}

struct Renumbering<'a> {
    numbers: Vec<Option<Value>>,
    old: &'a [DType],
    new: Vec<DType>,
}

impl Renumbering<'_> {
    fn block(&mut self, block: &mut Block) {
        self.define(&mut block.params);
        for inst in &mut block.insts {
            self.uses(&mut inst.args);
            // In the text the results stand before the blocks, and a loop's state before both of its blocks.
            self.define(&mut inst.results);
            inst.blocks.iter_mut().for_each(|nested| self.block(nested));
        }
        self.uses(&mut block.yields);
    }

    fn define(&mut self, values: &mut [Value]) {
        for value in values {
            let new = Value(self.new.len() as u32);
            self.new.push(self.old[value.index()]);
            self.numbers[value.index()] = Some(new);
            *value = new;
        }
    }

    fn uses(&self, values: &mut [Value]) {
        for value in values {
            *value =
                self.numbers[value.index()].expect("a verified program defines values before it uses them");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::parse;

    const TEXT: &str = "param p0: in u32\nparam p1: out u32\nbody {
      v0: u32 = literal 7
      v1: u32 = literal 8
      v2: u32 = literal 5
      v3: u32 = load p0
      v4: u32 = div v3, v0
      v5: u32 = mul v4, v1
      v6: u32 = add v5, v2
      store p1, v6
    }";

    fn words(text: &str) -> (Vec<u64>, Vec<Hole>) {
        let program = parse(text).expect("a program");
        crate::ir::verify(&program).expect("a valid program");
        let (mut words, mut holes) = (Vec::new(), Vec::new());
        program.canonical_words(&mut words, &mut holes);
        (words, holes)
    }

    #[test]
    fn values_of_literals_are_holes_unless_special() {
        let (_, holes) = words(TEXT);
        let found: Vec<(u64, bool)> = holes.iter().map(|h| (h.bits, h.specialising)).collect();
        assert_eq!(found, [(7, true), (5, false)], "8 is a power of two in a product");
    }

    #[test]
    fn words_ignore_holes_and_numbering_only() {
        let (plain, _) = words(TEXT);
        assert_eq!(plain, words(&TEXT.replace("literal 5", "literal 6")).0);
        assert_eq!(plain, words(&TEXT.replace("v6", "v60")).0);
        for (from, to) in [
            ("literal 8", "literal 16"),
            ("literal 5", "literal 1"),
            ("v5, v2", "v2, v5"),
            ("= add", "= sub"),
            ("p0: in u32", "p0: in u32 min_len 1"),
            ("p0: in u32", "p0: in u32 spans_lanes"),
            ("p0: in", "p0: inout"),
        ] {
            assert_ne!(plain, words(&TEXT.replace(from, to)).0, "{from} became {to}");
        }
    }

    #[test]
    fn special_floats_stay_in_the_words() {
        for (literal, special) in [
            ("0.0", true),
            ("-0.0", true),
            ("-1.0", true),
            ("inf", true),
            ("0x7fc00001", true),
            ("2.0", false),
        ] {
            let text = format!("param p0: out f32\nbody {{ v0: f32 = literal {literal} store p0, v0 }}");
            assert_eq!(words(&text).1.is_empty(), special, "{literal}");
        }
    }

    #[test]
    fn trip_bounds_specialise() {
        let (_, holes) = words(
            "param p0: out u32\nbody {
               v0: u32 = literal 9
               v1: u32 = literal 3
               v2: u32 = loop (v3: u32 = v1) { v4: bool = lt v3, v0 while v4 } do {
                 v5: u32 = add v3, v1
                 yield v5
               }
               store p0, v2
             }",
        );
        let found: Vec<(u64, bool)> = holes.iter().map(|h| (h.bits, h.specialising)).collect();
        assert_eq!(found, [(9, true), (3, false)]);
    }

    #[test]
    fn promotion_appends_scalars() {
        let mut program = parse(TEXT).expect("a program");
        program.promote(&[Value(2), Value(0)]);
        crate::ir::verify(&program).expect("still valid");
        let text = program.to_string();
        assert!(text.contains("param p2: scalar u32") && text.contains("param p3: scalar u32"), "{text}");
        assert!(text.contains("v2: u32 = param p2") && text.contains("v0: u32 = param p3"), "{text}");
    }

    #[test]
    fn renumbering_follows_the_text() {
        let mut program = parse(
            "param p0: out u32\nbody {
               v9: u32 = literal 3
               v1: u32 = loop (v8: u32 = v9) { v4: bool = lt v8, v9 while v4 } do { yield v9 }
               store p0, v1
             }",
        )
        .expect("a program");
        program.renumber();
        let text = program.to_string();
        assert!(text.contains("v1: u32 = loop (v2: u32 = v0)"), "{text}");
        assert_eq!(parse(&text).expect("its own text"), program);
        assert_eq!(program.values.len(), 4);
    }

    #[test]
    fn required_lengths_cover_lanes_scalars_and_finishes() {
        let program = parse(
            "param p0: in f32\nparam p1: in f32\nparam p2: out f32\nparam p3: in f32 min_len 9 spans_lanes
             body { v0: f32 = load p0 v1: f32 = load_scalar p1 v2: f32 = add v0, v1 reduce_sum v2 }
             finish (v3: f32) { store p2, v3 }",
        )
        .expect("a program");
        crate::ir::verify(&program).expect("a valid program");
        assert_eq!(program.required_lens(5, 0, 0), [5, 1, 1, 9]);
        assert_eq!(program.required_lens(5, 10, 0), [5, 1, 1, 15]);
    }
}
