//! Loops and branches: their state, their width, and that they end.

use jit_core::dtype::{ALL_DTYPES, DType};
use jit_core::op::Op;

use super::super::choices::Choices;
use super::super::program::{Block, Slot, SlotInfo, Step};
use super::super::sketch::Move;
use super::Resolver;

impl Resolver {
    pub(super) fn region(
        &mut self,
        c: &mut Choices<'_>,
        inside: impl FnOnce(&mut Self, &mut Choices<'_>, u64),
    ) {
        let width = self.width(c);
        inside(self, c, width);
        if self.region.is_none() {
            self.places.iter_mut().for_each(|p| p.mode = None);
        }
    }

    pub(super) fn run_loop(&mut self, c: &mut Choices<'_>, width: u64, moves: &[Vec<Move>; 2]) {
        let ints: Vec<DType> = ALL_DTYPES.into_iter().filter(|d| d.is_int()).collect();
        let counts = *c.of(&ints);
        let wide = self.as_wide(c, width);
        let wide = self.cast(wide, counts);
        let most = self.constant(counts, if self.region.is_none() && c.next(4) == 3 { 7 } else { 3 });
        let limit = self.apply(Op::And, counts, vec![wide, most]);
        let mut init = vec![self.constant(counts, 0)];
        let bound = (c.next(4) == 3).then(|| self.operand(c, DType::F32, width));
        if bound.is_some() {
            init.push(self.constant(DType::F32, 0));
        }
        let fixed = init.len();
        for _ in 0..c.next(4) {
            // State of one type can change places.
            let like = if c.next(2) == 1 { init.get(fixed).copied() } else { None };
            init.push(match like {
                Some(like) => self.operand(c, self.info(like).dtype, width),
                None => self.any(c, width),
            });
        }

        let arrays = self.some_locals(c, width);
        let (outer, mark) = (self.region, self.mark());
        self.region = Some(width);
        self.blocks.push(Vec::new());
        let array_params = self.define_locals(&arrays, width);
        let params: Vec<Slot> = init
            .iter()
            .map(|&s| {
                let dtype = self.info(s).dtype;
                self.define(dtype, width, !dtype.is_float())
            })
            .collect();
        moves[0].iter().take(3).for_each(|m| self.step(m));
        let mut going = self.apply(Op::Lt, DType::Bool, vec![params[0], limit]);
        if let Some(bound) = bound {
            let below = self.apply(Op::Lt, DType::Bool, vec![params[1], bound]);
            going = self.apply(Op::And, DType::Bool, vec![going, below]);
        } else if c.next(3) == 2 {
            let also = self.operand(c, DType::Bool, width);
            going = self.apply(Op::And, DType::Bool, vec![going, also]);
        }
        let steps = self.blocks.pop().expect("the condition");
        let all: Vec<Slot> = params.iter().chain(&array_params).copied().collect();
        let condition = Block { params: all.clone(), steps, yields: vec![going] };

        self.leave(mark);
        self.visible.extend(&params);
        self.locals.extend(&array_params);
        self.blocks.push(Vec::new());
        moves[1].iter().for_each(|m| self.step(m));
        let mut next = Vec::new();
        for (i, &param) in params.iter().enumerate() {
            let dtype = self.info(param).dtype;
            let alike: Vec<Slot> =
                params[fixed..].iter().copied().filter(|&p| self.info(p).dtype == dtype).collect();
            next.push(if i < fixed {
                let one = self.constant(dtype, if dtype.is_float() { 0x3f80_0000 } else { 1 });
                self.apply(Op::Add, dtype, vec![param, one])
            } else {
                match c.next(4) {
                    0 => param,
                    1 | 2 if alike.len() > 1 => *c.of(&alike),
                    _ => self.operand(c, dtype, width),
                }
            });
        }
        for &array in &array_params {
            let after = self.local_like(c, array, width);
            next.push(after);
        }
        let steps = self.blocks.pop().expect("the body");
        let body = Block { params: all, steps, yields: next };
        self.leave(mark);
        self.region = outer;
        let mut results = self.results(&params, width);
        results.extend(self.define_locals(&arrays, width));
        init.extend(&arrays);
        self.emit(Step::Loop { init, blocks: [condition, body], results });
    }

    pub(super) fn branch(&mut self, c: &mut Choices<'_>, width: u64, moves: &[Vec<Move>; 2]) {
        let wide = self.as_wide(c, width);
        let condition = if self.info(wide).dtype == DType::Bool {
            wide
        } else {
            let dtype = self.info(wide).dtype;
            let other = self.operand(c, dtype, width);
            let compare = *c.of(&[Op::Lt, Op::Eq, Op::Ne, Op::Ge]);
            self.apply(compare, DType::Bool, vec![wide, other])
        };
        let (arguments, blocks, results) = self.sides(c, width, moves, 2);
        let blocks = blocks.try_into().expect("two sides");
        self.emit(Step::If { condition, arguments, blocks, results });
    }

    pub(super) fn switch(&mut self, c: &mut Choices<'_>, width: u64, moves: &[Vec<Move>; 2]) {
        let ints: Vec<DType> = ALL_DTYPES.into_iter().filter(|d| d.is_int()).collect();
        let dtype = *c.of(&ints);
        let wide = self.as_wide(c, width);
        let wide = self.cast(wide, dtype);
        // Mostly numbers of which some have a block; else whatever there is.
        let index = match c.next(4) {
            3 => wide,
            mask => {
                let mask = self.constant(dtype, [3, 3, 1][mask]);
                self.apply(Op::And, dtype, vec![wide, mask])
            }
        };
        let count = 1 + c.next(3);
        let (arguments, blocks, results) = self.sides(c, width, moves, count);
        self.emit(Step::Switch { index, arguments, blocks, results });
    }

    /// Arguments, blocks and results of a branch or switch.
    fn sides(
        &mut self,
        c: &mut Choices<'_>,
        width: u64,
        moves: &[Vec<Move>; 2],
        count: usize,
    ) -> (Vec<Slot>, Vec<Block>, Vec<Slot>) {
        let mut arguments: Vec<Slot> = (0..c.next(3)).map(|_| self.any(c, width)).collect();
        let scalars = arguments.len();
        arguments.extend(self.some_locals(c, width));
        let (outer, mark) = (self.region, self.mark());
        self.region = Some(width);
        let mut types: Option<Vec<DType>> = None;
        let mut arrays: Option<Vec<Slot>> = None;
        let mut blocks: Vec<Block> = Vec::new();
        for side in 0..count {
            self.leave(mark);
            self.blocks.push(Vec::new());
            let mut params: Vec<Slot> = arguments[..scalars]
                .iter()
                .map(|&s| {
                    let SlotInfo { dtype, exact, .. } = *self.info(s);
                    self.define(dtype, width, exact)
                })
                .collect();
            params.extend(self.define_locals(&arguments[scalars..], width));
            moves[side % 2].iter().for_each(|m| self.step(m));
            let mut yields: Vec<Slot> = match &types {
                None => (0..1 + c.next(3)).map(|_| self.any(c, width)).collect(),
                Some(types) => types.clone().into_iter().map(|d| self.operand(c, d, width)).collect(),
            };
            types.get_or_insert_with(|| yields.iter().map(|&s| self.info(s).dtype).collect());
            match &arrays {
                None => {
                    let given = self.some_locals(c, width);
                    yields.extend(&given);
                    arrays = Some(given);
                }
                Some(arrays) => {
                    for &array in &arrays.clone() {
                        let other = self.local_like(c, array, width);
                        yields.push(other);
                    }
                }
            }
            blocks.push(Block { params, steps: self.blocks.pop().expect("a side"), yields });
        }
        self.leave(mark);
        self.region = outer;
        let arrays = arrays.expect("a side was made");
        let values = blocks[0].yields.len() - arrays.len();
        let mut results = self.results(&blocks[0].yields[..values], width);
        results.extend(self.define_locals(&arrays, width));
        (arguments, blocks, results)
    }

    /// How much can be named here.
    fn mark(&self) -> (usize, usize) {
        (self.visible.len(), self.locals.len())
    }

    /// Forgets what a block defined.
    fn leave(&mut self, (visible, locals): (usize, usize)) {
        self.visible.truncate(visible);
        self.locals.truncate(locals);
    }

    pub(super) fn results(&mut self, like: &[Slot], width: u64) -> Vec<Slot> {
        let types: Vec<DType> = like.iter().map(|&s| self.info(s).dtype).collect();
        types.into_iter().map(|d| self.define(d, width, !d.is_float())).collect()
    }

    /// A value that gives a region its number of lanes.
    pub(super) fn as_wide(&mut self, c: &mut Choices<'_>, width: u64) -> Slot {
        if self.region.is_some() {
            return self.any(c, width);
        }
        let wide: Vec<Slot> = self.visible.iter().copied().filter(|&s| self.info(s).size == width).collect();
        if wide.is_empty() { self.counter(DType::U32, width) } else { *c.of(&wide) }
    }
}
