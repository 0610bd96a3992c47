//! Reads the text form of a program; [`print`](super::print) describes it.
//!
//! The parser checks the form, not the rules of the language: [`verify`](super::verify()) does that. It needs time
//! linear in the text, and no stack that grows with anything but the nesting of blocks, which it limits to
//! [`MAX_NESTING`].

use rustc_hash::FxHashMap;

use super::{Block, Blocks, Inst, MAX_NESTING, Param, ParamKind, Program, Segments, Table, Value, ValueList};
use crate::dtype::{DType, Element};
use crate::error::Error;
use crate::float_mode;
use crate::op::{ALL_OPS, Class, Op, scalar};

/// Numbers of values lie below this, so that no text makes the parser allocate much more than its own size.
const MAX_VALUES: u32 = 1 << 26;

/// Reads the text form of a program.
///
/// Numbers of values may come in any order. Numbers that are left out belong to no instruction; their type is bool.
///
/// # Errors
/// [`Error::Parse`] with the line.
pub fn parse(text: &str) -> Result<Program, Error> {
    let ops = ALL_OPS.iter().map(|&op| (op.name(), op)).collect();
    let mut parser = Parser { text, at: 0, line: 1, ops, program: Program::default(), defined: Vec::new() };
    parser.program()?;
    Ok(parser.program)
}

/// The bits of a constant in text: decimal, `true`, `inf`, or the bits themselves in hexadecimal.
pub fn parse_constant(dtype: DType, text: &str) -> Option<u64> {
    if let Some(hex) = text.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).ok();
    }
    Some(match dtype {
        DType::Bool => text.parse::<bool>().ok()?.to_bits(),
        DType::F16 => scalar::cast(DType::F64, DType::F16, text.parse::<f64>().ok()?.to_bits()),
        DType::F32 => Element::to_bits(text.parse::<f32>().ok()?),
        DType::F64 => Element::to_bits(text.parse::<f64>().ok()?),
        DType::U64 => text.parse().ok()?,
        _ => {
            let value: i64 = text.parse().ok()?;
            let bits = value as u64 & dtype.mask();
            (scalar::cast(dtype, DType::I64, bits) as i64 == value).then_some(bits)?
        }
    })
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    ops: FxHashMap<&'static str, Op>,
    program: Program,
    /// Which numbers of `program.values` have a definition.
    defined: Vec<bool>,
}

impl<'a> Parser<'a> {
    fn program(&mut self) -> Result<(), Error> {
        if self.eat("segments") {
            let word = self.word()?;
            match Segments::ALL.into_iter().find(|segments| segments.name() == word) {
                Some(segments) => self.program.segments = segments,
                None => return self.error(format!("expected `all`, `rows` or `columns`, got `{word}`")),
            }
        }
        loop {
            match self.word()? {
                "param" => self.param()?,
                "table" => self.table()?,
                "body" => break,
                other => return self.error(format!("expected `param`, `table` or `body`, got `{other}`")),
            }
        }
        self.program.body = self.block("yield", 0)?;
        if self.peek().is_some() {
            match self.word()? {
                "finish" => self.program.finish = Some(self.block("yield", 0)?),
                other => return self.error(format!("expected `finish` or the end, got `{other}`")),
            }
        }
        match self.peek() {
            None => Ok(()),
            Some(c) => self.error(format!("expected the end, got `{c}`")),
        }
    }

    fn param(&mut self) -> Result<(), Error> {
        let number = self.numbered('p')?;
        if number as usize != self.program.params.len() {
            return self.error(format!("expected parameter p{}, got p{number}", self.program.params.len()));
        }
        self.expect(":")?;
        let kind = match self.word()? {
            "scalar" => ParamKind::Scalar,
            "in" => ParamKind::In,
            "out" => ParamKind::Out,
            "inout" => ParamKind::InOut,
            other => {
                return self.error(format!("expected `scalar`, `in`, `out` or `inout`, got `{other}`"));
            }
        };
        let mut param = Param { min_len: 0, spans_lanes: false, kind, dtype: self.dtype()? };
        if self.eat("min_len") {
            param.min_len = self.constant(DType::U64)?;
        }
        param.spans_lanes = self.eat("spans_lanes");
        self.program.params.push(param);
        Ok(())
    }

    fn table(&mut self) -> Result<(), Error> {
        let number = self.numbered('t')?;
        if number as usize != self.program.tables.len() {
            return self.error(format!("expected table t{}, got t{number}", self.program.tables.len()));
        }
        self.expect(":")?;
        let dtype = self.dtype()?;
        self.expect("=")?;
        self.expect("[")?;
        let mut bits = Vec::new();
        while !self.eat("]") {
            if !bits.is_empty() {
                self.expect(",")?;
            }
            bits.push(self.constant(dtype)?);
        }
        self.program.tables.push(Table { dtype, bits });
        Ok(())
    }

    /// A block with its parameters. `end` is the word before what it yields.
    fn block(&mut self, end: &str, depth: usize) -> Result<Block, Error> {
        let mut params = Vec::new();
        if self.eat("(") {
            while !self.eat(")") {
                if !params.is_empty() {
                    self.expect(",")?;
                }
                params.push(self.definition()?);
            }
        }
        self.block_body(params, end, depth)
    }

    fn block_body(&mut self, params: Vec<Value>, end: &str, depth: usize) -> Result<Block, Error> {
        if depth > MAX_NESTING {
            return self.error(format!("blocks are nested deeper than {MAX_NESTING}"));
        }
        self.expect("{")?;
        let mut block = Block { params, ..Block::default() };
        while !self.eat("}") {
            if self.eat(end) {
                block.yields = self.values()?.to_vec();
                self.expect("}")?;
                break;
            }
            let inst = self.inst(depth)?;
            block.insts.push(inst);
        }
        Ok(block)
    }

    fn inst(&mut self, depth: usize) -> Result<Inst, Error> {
        let mut results = ValueList::new();
        if self.behind_value().is_some() {
            results.push(self.definition()?);
            while self.eat(",") {
                results.push(self.definition()?);
            }
            self.expect("=")?;
        }
        let name = self.word()?;
        let Some(&op) = self.ops.get(name) else {
            return self.error(format!("`{name}` is no op"));
        };
        let mut inst =
            Inst { op, in_bounds: false, imm: 0, results, args: ValueList::new(), blocks: Blocks::default() };
        match op {
            Op::Loop => self.loop_blocks(&mut inst, depth)?,
            Op::If => {
                inst.args.push(self.value()?);
                inst.blocks.push(self.block("yield", depth + 1)?);
                self.expect("else")?;
                inst.blocks.push(self.block("yield", depth + 1)?);
            }
            Op::Switch => {
                inst.args.push(self.value()?);
                while !self.eat("else") {
                    inst.blocks.push(self.block("yield", depth + 1)?);
                }
                inst.blocks.push(self.block("yield", depth + 1)?);
            }
            Op::IfAny => {
                inst.args.push(self.value()?);
                if self.eat("else") {
                    inst.args.extend(self.values()?);
                }
                inst.blocks.push(self.block("yield", depth + 1)?);
            }
            Op::Reduce => {
                inst.args = self.values()?;
                self.expect("from")?;
                inst.args.extend(self.values()?);
                inst.blocks.push(self.block("yield", depth + 1)?);
            }
            Op::Literal => {
                let Some(&result) = inst.results.first() else {
                    return self.error("a literal defines a value: `v0: f32 = literal 1.0`".to_owned());
                };
                inst.imm = self.constant(self.program.dtype(result))?;
            }
            Op::Lookup => {
                inst.imm = u64::from(self.numbered('t')?);
                self.expect("[")?;
                inst.args = self.values()?;
                self.expect("]")?;
            }
            Op::Param | Op::Load | Op::LoadScalar | Op::Store => {
                inst.imm = u64::from(self.numbered('p')?);
                if self.eat(",") {
                    inst.args = self.values()?;
                }
            }
            Op::LocalZeros => {
                let Some(len) = inst.results.first().and_then(|result| self.program.locals.get(result))
                else {
                    return self
                        .error("`local_zeros` defines a local array: `v0: f32[8] = local_zeros`".to_owned());
                };
                inst.imm = u64::from(*len);
            }
            Op::LocalRead | Op::LocalWrite => {
                inst.args.push(self.value()?);
                self.indexed(&mut inst)?;
            }
            op if matches!(op.class(), Class::Read | Class::Effect) => {
                inst.imm = u64::from(self.numbered('p')?);
                self.indexed(&mut inst)?;
            }
            _ => inst.args = self.values()?,
        }
        inst.in_bounds = self.eat("in_bounds");
        if float_mode::may_carry(op) {
            let carried = float_mode::CARRIED.iter().position(|mode| self.eat(mode.name()));
            inst.imm = carried.map_or(0, |at| at as u64 + 1);
        }
        Ok(inst)
    }

    /// `[index], value where mask`.
    fn indexed(&mut self, inst: &mut Inst) -> Result<(), Error> {
        self.expect("[")?;
        let index = self.value()?;
        self.expect("]")?;
        if self.eat(",") {
            inst.args.extend(self.values()?);
        }
        inst.args.push(index);
        if self.eat("where") {
            inst.args.push(self.value()?);
        }
        Ok(())
    }

    fn loop_blocks(&mut self, inst: &mut Inst, depth: usize) -> Result<(), Error> {
        let mut state = Vec::new();
        self.expect("(")?;
        while !self.eat(")") {
            if !state.is_empty() {
                self.expect(",")?;
            }
            state.push(self.definition()?);
            self.expect("=")?;
            inst.args.push(self.value()?);
        }
        inst.blocks.push(self.block_body(state, "while", depth + 1)?);
        self.expect("do")?;
        inst.blocks.push(self.block("yield", depth + 1)?);
        Ok(())
    }

    /// `v3: f32`, or of a local array `v3: f32[8]`: gives the number its type.
    fn definition(&mut self) -> Result<Value, Error> {
        let value = self.value()?;
        self.expect(":")?;
        let dtype = self.dtype()?;
        let len = self.local_len()?;
        if value.0 >= MAX_VALUES {
            return self.error(format!("{value} is past the largest number of a value, v{}", MAX_VALUES - 1));
        }
        if value.index() >= self.defined.len() {
            self.defined.resize(value.index() + 1, false);
            self.program.values.resize(value.index() + 1, DType::Bool);
        }
        let slot = &mut self.program.values[value.index()];
        let before = (*slot, self.program.locals.get(&value).copied());
        if self.defined[value.index()] && before != (dtype, len) {
            let name = |(dtype, len): (DType, Option<u32>)| match len {
                Some(len) => format!("{dtype}[{len}]"),
                None => dtype.to_string(),
            };
            let message = format!("{value} is defined as {} and as {}", name(before), name((dtype, len)));
            return self.error(message);
        }
        self.defined[value.index()] = true;
        *slot = dtype;
        if let Some(len) = len {
            self.program.locals.insert(value, len);
        }
        Ok(value)
    }

    /// Values, perhaps none, with commas between them.
    fn values(&mut self) -> Result<ValueList, Error> {
        // A value with a type begins the next instruction.
        if self.behind_value().is_none_or(|sign| sign == b':') {
            return Ok(ValueList::new());
        }
        let mut values = ValueList::from([self.value()?]);
        while self.eat(",") {
            values.push(self.value()?);
        }
        Ok(values)
    }

    fn value(&mut self) -> Result<Value, Error> {
        self.numbered('v').map(Value)
    }

    fn dtype(&mut self) -> Result<DType, Error> {
        let word = self.word()?;
        match DType::from_name(word) {
            Some(dtype) => Ok(dtype),
            None => self.error(format!("expected an element type, got `{word}`")),
        }
    }

    fn local_len(&mut self) -> Result<Option<u32>, Error> {
        if !self.eat("[") {
            return Ok(None);
        }
        let len = self.constant(DType::U32)?;
        self.expect("]")?;
        match u32::try_from(len) {
            Ok(len) => Ok(Some(len)),
            Err(_) => self.error(format!("a local array of {len} elements is too large")),
        }
    }

    fn constant(&mut self, dtype: DType) -> Result<u64, Error> {
        self.skip_blanks();
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c)).unwrap_or(rest.len());
        let word = &rest[..end];
        self.at += end;
        match parse_constant(dtype, word) {
            Some(bits) => Ok(bits),
            None => self.error(format!("expected a constant of type {dtype}, got `{word}`")),
        }
    }

    /// A letter and a number, such as `p3`.
    fn numbered(&mut self, prefix: char) -> Result<u32, Error> {
        let word = self.word()?;
        let digits = word.strip_prefix(prefix).filter(|d| d.bytes().all(|b| b.is_ascii_digit()));
        match digits.and_then(|d| d.parse().ok()) {
            Some(number) => Ok(number),
            None => self.error(format!("expected `{prefix}` and a number, got `{word}`")),
        }
    }

    /// Letters, digits and underscores.
    fn word(&mut self) -> Result<&'a str, Error> {
        self.skip_blanks();
        let rest = &self.text[self.at..];
        let end = rest.bytes().position(|b| !is_word(b)).unwrap_or(rest.len());
        if end == 0 {
            return match rest.chars().next() {
                Some(c) => self.error(format!("expected a word, got `{c}`")),
                None => self.error("expected a word, got the end".to_owned()),
            };
        }
        self.at += end;
        Ok(&rest[..end])
    }

    /// The sign behind the name of a value, if one comes next (no op is named like one).
    fn behind_value(&mut self) -> Option<u8> {
        self.skip_blanks();
        let rest = &self.text.as_bytes()[self.at..];
        if rest.first() != Some(&b'v') || !rest.get(1).is_some_and(u8::is_ascii_digit) {
            return None;
        }
        let mut behind = rest.iter().skip_while(|&&b| is_word(b)).skip_while(|b| b.is_ascii_whitespace());
        Some(behind.next().copied().unwrap_or(b' '))
    }

    fn peek(&mut self) -> Option<char> {
        self.skip_blanks();
        self.text[self.at..].chars().next()
    }

    /// Takes a word or sign if it comes next.
    fn eat(&mut self, token: &str) -> bool {
        self.skip_blanks();
        let rest = &self.text.as_bytes()[self.at..];
        let found = rest.starts_with(token.as_bytes())
            && !(is_word(token.as_bytes()[0]) && rest.get(token.len()).is_some_and(|&b| is_word(b)));
        if found {
            self.at += token.len();
        }
        found
    }

    fn expect(&mut self, token: &str) -> Result<(), Error> {
        if self.eat(token) {
            return Ok(());
        }
        match self.peek() {
            Some(c) if is_word(c as u8) && c.is_ascii() => {
                let word = self.word()?;
                self.error(format!("expected `{token}`, got `{word}`"))
            }
            Some(c) => self.error(format!("expected `{token}`, got `{c}`")),
            None => self.error(format!("expected `{token}`, got the end")),
        }
    }

    fn skip_blanks(&mut self) {
        let bytes = self.text.as_bytes();
        while let Some(&byte) = bytes.get(self.at) {
            if byte == b'\n' {
                self.line += 1;
            } else if byte == b';' || byte == b'/' && bytes.get(self.at + 1) == Some(&b'/') {
                let rest = &bytes[self.at..];
                self.at += rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
                continue;
            } else if !byte.is_ascii_whitespace() {
                return;
            }
            self.at += 1;
        }
    }

    fn error<T>(&self, message: String) -> Result<T, Error> {
        Err(Error::Parse { line: self.line, message })
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}
