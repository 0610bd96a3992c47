//! Writes a program in its text form, which [`parse`](super::parse()) reads back.
//!
//! # The text form
//! ```text
//! ; a comment, to the end of the line; so is // this
//! param p0: in f32 min_len 4
//! param p1: out f32
//! param p2: inout u32 spans_lanes
//! table t0: f32 = [1.0, -0.0, 0x7fc00001, inf]
//! body {
//!   v0: u32 = counter
//!   v1: f32 = load p0
//!   v2: f32 = literal 1.5
//!   v3: f32 = mul_add v1, v2, v2
//!   v4: bool = lt v1, v2
//!   v5: u32, v6: f32 = loop (v7: u32 = v0, v8: f32 = v3) {
//!     v9: bool = lt v8, v2
//!     while v9
//!   } do {
//!     yield v7, v2
//!   }
//!   v10: f32 = if v4 {
//!     yield v3
//!   } else {
//!     yield v6
//!   }
//!   v24: f32 = switch v0 {
//!     yield v3
//!   } {
//!     yield v2
//!   } else {
//!     yield v6
//!   }
//!   v11: f32 = if_any v4 else v10 {
//!     v12: f32 = sqrt v10
//!     yield v12
//!   }
//!   v13: f32 = gather p0[v5] where v4 in_bounds
//!   v14: f32 = lookup t0[v5]
//!   scatter_add p2[v5], v0 where v4
//!   store p1, v11
//!   reduce_sum v14
//!   reduce v14, v0 from v2, v0 (v15: f32, v16: u32, v17: f32, v18: u32) {
//!     v19: f32 = add v15, v17
//!     v20: u32 = max v16, v18
//!     yield v19, v20
//!   }
//! }
//! finish (v21: f32, v22: f32, v23: u32) {
//!   store p3, v21
//! }
//! ```
//! In front of all may stand `segments rows` or `segments columns`.
//! Operands stand in the order of [`Inst::args`](super::Inst::args), except that the index of indexed memory
//! stands in brackets and its mask behind `where`. A constant is written as decimal where that gives the same bits
//! back, else as its bits in hexadecimal. `yield` is left out where a block yields nothing.
//!
//! Numbers of values are printed as they are. A number that nothing defines has no place in the text, so
//! `parse(print(p)) == p` holds for every valid program whose numbers are all defined
//! ([`Program::renumber`] makes any program so), and `print(parse(print(p))) == print(p)` for every valid program.
//!
//! A program that breaks the rules is printed as far as it goes, with `_` for what is missing.

use std::fmt::{self, Display, Formatter, Write};

use super::{Block, Inst, Param, ParamId, Program, Segments, TableId, Value};
use crate::dtype::{DType, Element, format_bits, is_nan};
use crate::op::{Class, Op};

impl Display for Program {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Printer { program: self, out: f, line: 1, depth: 0, watched: None, found: None }.program()
    }
}

/// A place in a program that a message can point at.
#[derive(Clone, Copy)]
pub(super) enum Place<'a> {
    Param(usize),
    Table(usize),
    Inst(&'a Inst),
    /// The end of a block, where it yields.
    End(&'a Block),
    /// The opening of the finish.
    Finish,
}

/// The line of the printed program that holds a place, from 1.
pub(super) fn line_of(program: &Program, place: Place<'_>) -> usize {
    let mut text = String::new();
    let mut printer =
        Printer { program, out: &mut text, line: 1, depth: 0, watched: Some(place), found: None };
    // Writing to a string does not fail.
    let _ = printer.program();
    printer.found.unwrap_or(0)
}

/// A constant in the form that reads back to the same bits.
pub(super) struct Constant(pub DType, pub u64);

impl Display for Constant {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Constant(dtype, bits) = *self;
        match dtype {
            _ if bits & !dtype.mask() != 0 || is_nan(dtype, bits) => write!(f, "{bits:#x}"),
            DType::U8 | DType::U16 | DType::U32 | DType::U64 => write!(f, "{bits}"),
            DType::F32 => write!(f, "{:?}", f32::from_bits(bits as u32)),
            DType::F64 => write!(f, "{:?}", f64::from_bits(bits)),
            DType::I32 => write!(f, "{}", <i32 as Element>::from_bits(bits)),
            _ => f.write_str(&format_bits(dtype, bits)),
        }
    }
}

struct Printer<'a, W> {
    program: &'a Program,
    out: &'a mut W,
    line: usize,
    depth: usize,
    watched: Option<Place<'a>>,
    found: Option<usize>,
}

impl<W: Write> Printer<'_, W> {
    fn program(&mut self) -> fmt::Result {
        let program = self.program;
        if program.segments != Segments::All {
            write!(self.out, "segments {}", program.segments.name())?;
            self.newline()?;
        }
        for (i, param) in program.params.iter().enumerate() {
            self.at(|p| matches!(p, Place::Param(at) if at == i));
            self.param(ParamId(i as u32), param)?;
            self.newline()?;
        }
        for (i, table) in program.tables.iter().enumerate() {
            self.at(|p| matches!(p, Place::Table(at) if at == i));
            write!(self.out, "table {}: {} = [", TableId(i as u32), table.dtype)?;
            for (k, &bits) in table.bits.iter().enumerate() {
                self.separator(k)?;
                write!(self.out, "{}", Constant(table.dtype, bits))?;
            }
            self.out.write_char(']')?;
            self.newline()?;
        }
        self.out.write_str("body ")?;
        self.block(&program.body, "yield")?;
        if let Some(finish) = &program.finish {
            self.newline()?;
            self.at(|p| matches!(p, Place::Finish));
            self.out.write_str("finish ")?;
            self.block(finish, "yield")?;
        }
        self.newline()
    }

    fn param(&mut self, id: ParamId, param: &Param) -> fmt::Result {
        write!(self.out, "param {id}: {} {}", param.kind.name(), param.dtype)?;
        if param.min_len != 0 {
            write!(self.out, " min_len {}", param.min_len)?;
        }
        if param.spans_lanes {
            self.out.write_str(" spans_lanes")?;
        }
        Ok(())
    }

    /// A block with its parameters, up to its closing brace.
    fn block(&mut self, block: &Block, yields: &str) -> fmt::Result {
        if !block.params.is_empty() {
            self.out.write_char('(')?;
            self.definitions(&block.params)?;
            self.out.write_str(") ")?;
        }
        self.block_body(block, yields)
    }

    fn block_body(&mut self, block: &Block, yields: &str) -> fmt::Result {
        self.out.write_char('{')?;
        self.depth += 1;
        for inst in &block.insts {
            self.newline()?;
            self.at(|p| matches!(p, Place::Inst(at) if std::ptr::eq(at, inst)));
            self.inst(inst)?;
        }
        if !block.yields.is_empty() {
            self.newline()?;
            self.at(|p| matches!(p, Place::End(at) if std::ptr::eq(at, block)));
            write!(self.out, "{yields} ")?;
            self.values(&block.yields)?;
        }
        self.depth -= 1;
        self.newline()?;
        if block.yields.is_empty() {
            self.at(|p| matches!(p, Place::End(at) if std::ptr::eq(at, block)));
        }
        self.out.write_char('}')
    }

    fn inst(&mut self, inst: &Inst) -> fmt::Result {
        if !inst.results.is_empty() {
            self.definitions(&inst.results)?;
            self.out.write_str(" = ")?;
        }
        self.out.write_str(inst.op.name())?;
        match inst.op {
            Op::Loop if inst.blocks.len() == 2 => return self.loop_blocks(inst),
            Op::If if inst.blocks.len() == 2 => {
                self.operands(&inst.args)?;
                self.out.write_char(' ')?;
                self.block(&inst.blocks[0], "yield")?;
                self.out.write_str(" else ")?;
                return self.block(&inst.blocks[1], "yield");
            }
            Op::Switch if !inst.blocks.is_empty() => {
                self.operands(&inst.args)?;
                let last = inst.blocks.len() - 1;
                for (k, block) in inst.blocks.iter().enumerate() {
                    self.out.write_str(if k == last { " else " } else { " " })?;
                    self.block(block, "yield")?;
                }
                return Ok(());
            }
            Op::IfAny if inst.blocks.len() == 1 => {
                let (mask, fallbacks) = inst.args.split_at(inst.args.len().min(1));
                self.operands(mask)?;
                if !fallbacks.is_empty() {
                    self.out.write_str(" else")?;
                    self.operands(fallbacks)?;
                }
                self.out.write_char(' ')?;
                return self.block(&inst.blocks[0], "yield");
            }
            Op::Reduce if inst.blocks.len() == 1 => {
                self.operands(inst.reduced())?;
                self.out.write_str(" from")?;
                self.operands(inst.identity())?;
                self.out.write_char(' ')?;
                return self.block(&inst.blocks[0], "yield");
            }
            Op::Literal => {
                let dtype = inst.results.first().and_then(|&v| self.dtype(v)).unwrap_or(DType::U64);
                write!(self.out, " {}", Constant(dtype, inst.imm))?;
                self.operands(&inst.args)?;
            }
            Op::Lookup => {
                write!(self.out, " {}[", inst.table())?;
                self.values(&inst.args)?;
                self.out.write_char(']')?;
            }
            Op::Param | Op::Load | Op::LoadScalar | Op::Store => {
                write!(self.out, " {}", inst.param())?;
                for &arg in &inst.args {
                    write!(self.out, ", {arg}")?;
                }
            }
            op if matches!(op.class(), Class::Read | Class::Effect) => {
                write!(self.out, " {}", inst.param())?;
                self.indexed(inst, 0)?;
            }
            Op::LocalRead | Op::LocalWrite if !inst.args.is_empty() => {
                write!(self.out, " {}", inst.args[0])?;
                self.indexed(inst, 1)?;
            }
            _ => self.operands(&inst.args)?,
        }
        if inst.in_bounds {
            self.out.write_str(" in_bounds")?;
        }
        if let Some(mode) = inst.float_mode() {
            write!(self.out, " {}", mode.name())?;
        }
        Ok(())
    }

    fn loop_blocks(&mut self, inst: &Inst) -> fmt::Result {
        let [condition, body] = &inst.blocks[..] else { unreachable!("the caller checked") };
        self.out.write_str(" (")?;
        for k in 0..condition.params.len().max(inst.args.len()) {
            self.separator(k)?;
            match condition.params.get(k) {
                Some(&param) => self.definition(param)?,
                None => self.out.write_char('_')?,
            }
            match inst.args.get(k) {
                Some(init) => write!(self.out, " = {init}")?,
                None => self.out.write_str(" = _")?,
            }
        }
        self.out.write_str(") ")?;
        self.block_body(condition, "while")?;
        self.out.write_str(" do ")?;
        self.block(body, "yield")
    }

    /// What comes behind `p0` or a local array, which is the first of `skipped` operands: `[index], value where mask`.
    fn indexed(&mut self, inst: &Inst, skipped: usize) -> fmt::Result {
        let before_mask = inst.operands_before_mask();
        self.out.write_char('[')?;
        match inst.args.get(before_mask - 1) {
            Some(index) => write!(self.out, "{index}]")?,
            None => self.out.write_str("_]")?,
        }
        for &value in inst.args.iter().take(before_mask - 1).skip(skipped) {
            write!(self.out, ", {value}")?;
        }
        if let Some(mask) = inst.mask() {
            write!(self.out, " where {mask}")?;
        }
        Ok(())
    }

    fn operands(&mut self, values: &[Value]) -> fmt::Result {
        if !values.is_empty() {
            self.out.write_char(' ')?;
        }
        self.values(values)
    }

    fn values(&mut self, values: &[Value]) -> fmt::Result {
        for (k, value) in values.iter().enumerate() {
            self.separator(k)?;
            write!(self.out, "{value}")?;
        }
        Ok(())
    }

    fn definitions(&mut self, values: &[Value]) -> fmt::Result {
        for (k, &value) in values.iter().enumerate() {
            self.separator(k)?;
            self.definition(value)?;
        }
        Ok(())
    }

    fn definition(&mut self, value: Value) -> fmt::Result {
        match self.dtype(value) {
            Some(dtype) => write!(self.out, "{value}: {dtype}")?,
            None => write!(self.out, "{value}: _")?,
        }
        match self.program.local_len(value) {
            Some(len) => write!(self.out, "[{len}]"),
            None => Ok(()),
        }
    }

    fn dtype(&self, value: Value) -> Option<DType> {
        self.program.values.get(value.index()).copied()
    }

    fn separator(&mut self, position: usize) -> fmt::Result {
        if position == 0 { Ok(()) } else { self.out.write_str(", ") }
    }

    fn newline(&mut self) -> fmt::Result {
        self.line += 1;
        self.out.write_char('\n')?;
        for _ in 0..self.depth {
            self.out.write_str("  ")?;
        }
        Ok(())
    }

    /// Notes the current line if the watched place is here.
    fn at(&mut self, here: impl Fn(Place<'_>) -> bool) {
        if self.found.is_none() && self.watched.is_some_and(here) {
            self.found = Some(self.line);
        }
    }
}
