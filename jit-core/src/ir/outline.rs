//! What a launch needs to know of a program, without its instructions: kept beside a kernel in memory, and stored with
//! its object on disk.

use super::{Block, Inst, Param, ParamId, ParamKind, Places, Program, Reduction, Segments};
use crate::dtype::ALL_DTYPES;
use crate::op::{ALL_OPS, Class, Op};

/// A program as seen from outside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outline {
    /// The parameters, in the order of a launch's arguments.
    pub params: Vec<Param>,
    /// The reductions in order.
    pub reductions: Vec<Reduction>,
    /// What lanes they combine.
    pub segments: Segments,
    /// The parameters that every lane stores to.
    pub lane_outputs: Vec<ParamId>,
    /// The parameters that the program does nothing with but combine values into by one op, and that op.
    pub combined: Vec<(ParamId, Op)>,
    /// Whether there is an effect other than a plain scatter.
    pub has_atomics: bool,
    /// Whether there is a finish.
    pub has_finish: bool,
    /// Whether there is a loop.
    pub has_loop: bool,
    /// The number of instructions in all blocks.
    pub instructions: u64,
    /// Roughly the instructions that one lane executes: those in a loop count eightfold.
    pub cost: u64,
    /// The bytes that a lane's local arrays take, in whichever of body and finish they take more.
    pub local_bytes: u64,
}

impl Program {
    /// What a launch needs to know of it.
    pub fn outline(&self) -> Outline {
        let (mut has_loop, mut has_atomics) = (false, false);
        let mut uses = vec![Use::None; self.params.len()];
        let stores = self.body.insts.iter().filter(|inst| inst.op == Op::Store);
        self.for_each_inst(&mut |inst| {
            has_loop |= inst.op == Op::Loop;
            has_atomics |= inst.op.class() == Class::Effect && inst.op != Op::Scatter;
            if let Some(param) = touched(inst) {
                uses[param.index()].add(inst);
            }
        });
        let combined = uses.iter().enumerate().filter_map(|(k, used)| match used {
            Use::Combining(op) => Some((ParamId(k as u32), *op)),
            _ => None,
        });
        Outline {
            params: self.params.clone(),
            reductions: self.reductions(),
            segments: self.segments,
            lane_outputs: stores.map(Inst::param).collect(),
            combined: combined.collect(),
            has_atomics,
            has_finish: self.finish.is_some(),
            has_loop,
            instructions: self.inst_count() as u64,
            cost: cost(&self.body),
            local_bytes: self.top_blocks().map(|b| Places::of(self, b).bytes()).max().unwrap_or(0),
        }
    }
}

const KINDS: [ParamKind; 4] = [ParamKind::Scalar, ParamKind::In, ParamKind::Out, ParamKind::InOut];

impl Outline {
    /// Appends it as words.
    pub(crate) fn write(&self, out: &mut Vec<u64>) {
        let flags = [self.has_finish, self.has_loop, self.has_atomics];
        let flags = flags.iter().rev().fold(0, |all, &flag| all << 1 | u64::from(flag));
        let lens = [self.params.len(), self.reductions.len(), self.lane_outputs.len(), self.combined.len()];
        out.extend(lens.map(|len| len as u64));
        let flags = flags | (self.segments as u64) << 8;
        out.extend([flags, self.instructions, self.cost, self.local_bytes]);
        for param in &self.params {
            let spans = u64::from(param.spans_lanes);
            out.extend([param.kind as u64 | (param.dtype as u64) << 8 | spans << 16, param.min_len]);
        }
        for Reduction { combine, types } in &self.reductions {
            out.push(*combine as u64 | (types.len() as u64) << 8);
            out.extend(types.iter().map(|&dtype| (dtype as u64) << 8));
        }
        out.extend(self.lane_outputs.iter().map(|param| u64::from(param.0)));
        out.extend(self.combined.iter().flat_map(|&(param, op)| [u64::from(param.0), op as u64]));
    }

    /// What [`write`](Self::write) wrote; takes these words off the iterator. None if they are no outline.
    pub(crate) fn read(words: &mut impl Iterator<Item = u64>) -> Option<Outline> {
        let [params, reductions, outputs, combined] = std::array::from_fn(|_| words.next());
        let (params, reductions, outputs, combined) = (params?, reductions?, outputs?, combined?);
        let (flags, instructions, cost) = (words.next()?, words.next()?, words.next()?);
        let local_bytes = words.next()?;
        let dtype = |word: u64| ALL_DTYPES.get((word >> 8 & 0xff) as usize).copied();
        let param = |words: &mut dyn Iterator<Item = u64>| {
            let (word, min_len) = (words.next()?, words.next()?);
            let kind = *KINDS.get((word & 0xff) as usize)?;
            Some(Param { kind, dtype: dtype(word)?, min_len, spans_lanes: word >> 16 & 1 != 0 })
        };
        let reduction = |words: &mut dyn Iterator<Item = u64>| {
            let word = words.next()?;
            let combine = *ALL_OPS.get((word & 0xff) as usize)?;
            let types = (0..word >> 8).map(|_| dtype(words.next()?)).collect::<Option<_>>()?;
            Some(Reduction { combine, types })
        };
        let number = |words: &mut dyn Iterator<Item = u64>| Some(ParamId(u32::try_from(words.next()?).ok()?));
        let combination = |words: &mut dyn Iterator<Item = u64>| {
            Some((number(words)?, *ALL_OPS.get(usize::try_from(words.next()?).ok()?)?))
        };
        Some(Outline {
            params: (0..params).map(|_| param(words)).collect::<Option<_>>()?,
            reductions: (0..reductions).map(|_| reduction(words)).collect::<Option<_>>()?,
            lane_outputs: (0..outputs).map(|_| number(words)).collect::<Option<_>>()?,
            segments: *Segments::ALL.get((flags >> 8) as usize)?,
            has_finish: flags & 1 != 0,
            has_loop: flags & 2 != 0,
            has_atomics: flags & 4 != 0,
            combined: (0..combined).map(|_| combination(words)).collect::<Option<_>>()?,
            instructions,
            cost,
            local_bytes,
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    None,
    Combining(Op),
    Other,
}

impl Use {
    fn add(&mut self, inst: &Inst) {
        let used = match inst.op.combine().filter(|_| inst.op.class() == Class::Effect) {
            Some(combine) => Use::Combining(combine),
            None => Use::Other,
        };
        *self = if *self == Use::None || *self == used { used } else { Use::Other };
    }
}

/// The parameter that an instruction names.
fn touched(inst: &Inst) -> Option<ParamId> {
    let names = matches!(inst.op.class(), Class::Read | Class::Effect)
        || matches!(inst.op, Op::Param | Op::Load | Op::LoadScalar | Op::Store);
    names.then(|| inst.param())
}

fn cost(block: &Block) -> u64 {
    let inst = |i: &Inst| {
        let nested: u64 = i.blocks.iter().map(cost).fold(0, u64::saturating_add);
        nested.saturating_mul(if i.op == Op::Loop { 8 } else { 1 }).saturating_add(1)
    };
    block.insts.iter().map(inst).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::parse;

    #[test]
    fn an_outline_survives_as_words() {
        let program = parse(
            "segments columns\nparam p0: in u32 min_len 7\nparam p1: inout f64 spans_lanes\nparam p2: scalar i8\nparam p3: out f32\nparam p4: out u32\nparam p5: inout u32\nbody {
               v0: u32 = load p0
               v1: f32 = cast v0
               reduce_sum v1
               store p4, v0
               reduce_max v0
               scatter_add p5[v0], v0
               v4: u32 = literal 1
               reduce v0, v4 from v4, v4 (v5: u32, v6: u32, v7: u32, v8: u32) { yield v7, v6 }
             }
             finish (v2: f32, v3: u32, v9: u32, v10: u32) { store p3, v2 }",
        );
        let outline = program.expect("a program").outline();
        assert_eq!((outline.instructions, outline.reductions.len(), outline.has_finish), (9, 3, true));
        assert_eq!(outline.reductions[2].types[..], [crate::dtype::DType::U32; 2]);
        assert_eq!(outline.lane_outputs, [ParamId(4)]);
        assert_eq!(outline.combined, [(ParamId(5), Op::Add)]);
        let mut words = Vec::new();
        outline.write(&mut words);
        assert_eq!(Outline::read(&mut words.iter().copied()).as_ref(), Some(&outline));
        for len in 0..words.len() {
            assert_eq!(Outline::read(&mut words[..len].iter().copied()), None, "{len} words");
        }
    }
}
