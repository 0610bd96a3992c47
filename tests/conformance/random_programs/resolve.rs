//! From a sketch to a program: every choice becomes one among what is legal at that point.
//!
//! All results are defined to the last bit, by construction:
//! - Lanes do not race. A plain scatter, and a float sum or product in memory, has an index that is different on each
//!   lane; other atomics commute. In a region a buffer is only read, or each lane touches its own elements, or
//!   it is changed by one commuting op alone; the mode is chosen at the first use. What `atomic_inc` gives is used
//!   only where no other lane increments, or summed over all lanes.
//! - The payload of a computed NaN shows nowhere: a bitcast or the sign operand of `copysign` sees a fixed NaN instead.
//! - Loops end: each counts, up to a few trips.

mod indices;
mod locals;
mod regions;

use jit_core::dtype::{ALL_DTYPES, DType};
use jit_core::op::{ALL_OPS, Class, Op, Rule};
use jit_core::trace::Division;

use super::choices::{Choices, special};
use super::program::{Across, Contents, Ending, Place, Program, Slot, SlotInfo, Source, Step, Target};
use super::sketch::{Kind, Move, Sketch};

/// The program of a sketch.
pub(crate) fn resolve(sketch: &Sketch) -> Program {
    let mut resolver = Resolver {
        program: Program::default(),
        visible: Vec::new(),
        locals: Vec::new(),
        places: Vec::new(),
        blocks: vec![Vec::new()],
        sizes: sketch.sizes,
        region: None,
    };
    let mut frame = Choices::new(&sketch.frame);
    resolver.inputs(&mut frame);
    for step in &sketch.moves {
        resolver.step(step);
    }
    resolver.end(&mut frame)
}

struct Resolver {
    program: Program,
    /// What can be named here, and which local arrays can.
    visible: Vec<Slot>,
    locals: Vec<Slot>,
    places: Vec<PlaceInfo>,
    /// Steps of the open blocks.
    blocks: Vec<Vec<Step>>,
    sizes: [u64; 2],
    /// The number of lanes of the open region.
    region: Option<u64>,
}

struct PlaceInfo {
    dtype: DType,
    size: u64,
    /// Holds small integers as floats and is only added to, so that sums are exact in any order.
    tally: bool,
    alive: bool,
    /// How the open region uses it.
    mode: Option<Mode>,
}

/// How a region uses a buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    ReadOnly,
    /// Lane `i` touches elements from `i * stride` on.
    Own {
        stride: u64,
        reversed: bool,
    },
    /// Any lane changes any element, by this op.
    Shared(Op),
}

impl Resolver {
    fn inputs(&mut self, frame: &mut Choices<'_>) {
        let [n, m] = self.sizes;
        for size in [n, m, n] {
            let dtype = *frame.of(&ALL_DTYPES);
            self.data(frame, dtype, size);
        }
        let dtype = *frame.of(&ALL_DTYPES);
        self.literal(frame, dtype);
        for _ in 0..frame.next(3) {
            self.new_buffer(frame);
        }
    }

    fn end(mut self, frame: &mut Choices<'_>) -> Program {
        let steps = self.blocks.pop().expect("the top level");
        let used: std::collections::HashSet<Slot> = steps.iter().flat_map(Step::all_uses).collect();
        for &slot in &self.visible {
            let wanted = if used.contains(&slot) { frame.next(16) == 15 } else { frame.next(8) < 7 };
            if wanted && self.program.outputs.len() < 16 {
                self.program.outputs.push(slot);
            }
        }
        if self.program.outputs.is_empty() {
            self.program.outputs.extend(self.visible.last());
        }
        if frame.next(2) == 1 {
            self.program.outputs.reverse();
        }
        for (i, place) in self.places.iter().enumerate() {
            if place.alive && frame.next(4) < 3 {
                self.program.kept.push(Place(i as u32));
            }
        }
        self.program.ending =
            *frame.of(&[Ending::Together, Ending::OneByOne, Ending::OneByOne, Ending::HoldAll]);
        self.program.steps = steps;
        self.program.places = self.places.len() as u32;
        self.program
    }

    fn step(&mut self, step: &Move) {
        let mut choices = Choices::new(&step.choices);
        let c = &mut choices;
        let inside = self.region.is_some();
        match step.kind {
            Kind::Leaf => self.leaf(c),
            Kind::Gather => self.gather(c),
            Kind::GatherBuffer => self.gather_buffer(c),
            Kind::Scatter => self.scatter(c),
            Kind::AtomicInc => self.atomic_inc(c),
            Kind::Exchange => self.exchange(c),
            Kind::LocalRead => self.local_read(c),
            Kind::LocalWrite => self.local_write(c),
            Kind::Reduce => self.reduce(c),
            Kind::Combine => self.combine(c),
            Kind::Loop => self.region(c, |s, c, width| s.run_loop(c, width, &step.blocks)),
            Kind::If => self.region(c, |s, c, width| s.branch(c, width, &step.blocks)),
            Kind::Switch => self.region(c, |s, c, width| s.switch(c, width, &step.blocks)),
            Kind::Lane => self.lane(c),
            _ if inside => self.lane(c),
            Kind::ScatterArray => self.scatter_array(c),
            Kind::Across => self.across(c),
            Kind::NewBuffer => self.new_buffer(c),
            Kind::Snapshot => self.snapshot(c),
            Kind::Set => self.set(c),
            Kind::DropBuffer => {
                if let Some(place) = self.place(c, |_| true) {
                    self.places[place.0 as usize].alive = false;
                    self.emit(Step::DropBuffer { place });
                }
            }
            Kind::Eval => {
                let slots = (0..c.next(4)).map(|_| self.visible[c.next(self.visible.len())]).collect();
                let places = (0..c.next(2)).filter_map(|_| self.place(c, |_| true)).collect();
                self.emit(Step::Eval { slots, places });
            }
        }
    }

    // ---- pure steps ----

    fn leaf(&mut self, c: &mut Choices<'_>) {
        let width = self.width(c);
        let dtype = *c.of(&ALL_DTYPES);
        match c.next(6) {
            0 => drop(self.literal(c, dtype)),
            1 => {
                let out = self.define(dtype, width, true);
                self.emit(Step::Full { out, bits: special(c, dtype) });
            }
            2 => drop(self.counter(*c.of(&[DType::U32, DType::U64]), width)),
            3 => {
                let of = self.visible[c.next(self.visible.len())];
                // Inside a region a value does not know the number of its lanes.
                if self.info(of).depth == 0 {
                    let out = self.define(DType::U64, 1, true);
                    self.emit(Step::LaneCount { out, of });
                }
            }
            _ if self.region.is_some() => drop(self.literal(c, dtype)),
            _ => drop(self.data(c, dtype, width)),
        }
    }

    fn lane(&mut self, c: &mut Choices<'_>) {
        let width = self.width(c);
        if c.next(20) == 19 {
            // The one conversion that rounds differently by way of a third type.
            let first = self.operand(c, DType::F64, width);
            self.apply(Op::Cast, DType::F16, vec![first]);
            return;
        }
        // By value first, so that operands are what was computed, or by op first, so that each has its turn.
        let (op, first) = if c.next(2) == 0 {
            let first = self.any(c, width);
            let dtype = self.info(first).dtype;
            let ops: Vec<Op> = ALL_OPS.iter().copied().filter(|&op| takes(op, dtype)).collect();
            (*c.of(&ops), first)
        } else {
            let ops: Vec<Op> = ALL_OPS.iter().copied().filter(|op| op.is_lane()).collect();
            let op = *c.of(&ops);
            let types: Vec<DType> = ALL_DTYPES.into_iter().filter(|&d| takes(op, d)).collect();
            let dtype = *c.of(&types);
            (op, self.operand(c, dtype, width))
        };
        let dtype = self.info(first).dtype;
        match op {
            // Two roundings in one: new elements come close to where that shows.
            Op::Cast if c.next(4) == 3 => {
                let wide = self.operand(c, DType::F64, width);
                self.apply(Op::Cast, DType::F16, vec![wide]);
            }
            Op::Cast => {
                // Between floats is where rounding happens.
                let floats = dtype.is_float() && c.next(2) == 0;
                let to = *c.of(if floats { &ALL_DTYPES[9..] } else { &ALL_DTYPES });
                self.apply(Op::Cast, to, vec![first]);
            }
            Op::Bitcast => {
                let to: Vec<DType> = ALL_DTYPES
                    .into_iter()
                    .filter(|&d| d != DType::Bool && d.size() == dtype.size() && d != dtype)
                    .collect();
                let first = self.with_fixed_nan(first);
                self.apply(Op::Bitcast, *c.of(&to), vec![first]);
            }
            Op::Select => {
                let condition = self.operand(c, DType::Bool, width);
                let other = self.operand(c, dtype, width);
                let args = if c.next(2) == 0 { [condition, first, other] } else { [condition, other, first] };
                self.apply(op, dtype, args.to_vec());
            }
            _ => {
                let mut args = vec![first];
                args.extend((1..op.arity()).map(|_| self.operand(c, dtype, width)));
                if op == Op::CopySign {
                    args[1] = self.with_fixed_nan(args[1]);
                } else if c.next(2) == 1 {
                    args.reverse();
                }
                let wanted = op.result_type(&vec![dtype; args.len()], dtype).expect("operands that fit");
                self.apply(op, wanted, args);
            }
        }
    }

    fn gather(&mut self, c: &mut Choices<'_>) {
        let width = self.width(c);
        let tops: Vec<Slot> = self.visible.iter().copied().filter(|&s| self.info(s).depth == 0).collect();
        let source = *c.of(&tops);
        let (dtype, size) = (self.info(source).dtype, self.info(source).size);
        let index = self.index(c, size, width);
        let mask = self.mask(c, width);
        let exact = self.info(source).exact;
        let out = self.define_like(dtype, exact, &[Some(index), mask]);
        self.emit(Step::Gather { out, source: Source::Array(source), index, mask });
    }

    fn reduce(&mut self, c: &mut Choices<'_>) {
        let tops: Vec<Slot> = self.visible.iter().copied().filter(|&s| self.info(s).depth == 0).collect();
        let arg = *c.of(&tops);
        let dtype = self.info(arg).dtype;
        let takes = |op: &Op| op.class() == Class::Reduce && op.result_type(&[dtype], dtype).is_ok();
        let ops: Vec<Op> = ALL_OPS.iter().copied().filter(takes).collect();
        let division = self.division(c, self.info(arg).size);
        let op = *c.of(&ops);
        let out = self.define(dtype, division.count(self.info(arg).size), !dtype.is_float());
        self.emit(Step::Reduce { out, op, arg, division });
        self.spread(c, out);
    }

    /// A reduction of one to three values of one width.
    fn combine(&mut self, c: &mut Choices<'_>) {
        let width = *c.of(&[self.sizes[0], self.sizes[1], 1]);
        let outside = |s: &Slot| self.info(*s).depth == 0;
        let candidates: Vec<Slot> = self.candidates(width).into_iter().filter(outside).collect();
        if candidates.is_empty() {
            return self.reduce(c);
        }
        let states: Vec<Slot> = (0..1 + c.next(3)).map(|_| Self::recent(c, &candidates)).collect();
        let lanes = states.iter().map(|&s| self.info(s).size).find(|&n| n != 1).unwrap_or(1);
        let types: Vec<DType> = states.iter().map(|&s| self.info(s).dtype).collect();
        let two = |op: &Op, dtype: DType| {
            op.class() == Class::Lane
                && op.arity() == 2
                && *op != Op::CopySign
                && takes(*op, dtype)
                && op.result_type(&[dtype; 2], dtype) == Ok(dtype)
        };
        let choose = |c: &mut Choices<'_>, dtype: DType| {
            let ops: Vec<Op> = ALL_OPS.iter().copied().filter(|op| two(op, dtype)).collect();
            *c.of(&ops)
        };
        let ops = types.iter().map(|&dtype| choose(c, dtype)).collect();
        let identity = types.iter().map(|&dtype| special(c, dtype)).collect();
        let fits = |s: &Slot| outside(s) && self.info(*s).size == 1 && self.info(*s).dtype == types[0];
        let numbers: Vec<Slot> = self.visible.iter().copied().filter(fits).collect();
        let captured = (!numbers.is_empty() && c.next(2) == 1).then(|| *c.of(&numbers));
        let division = self.division(c, lanes);
        let count = division.count(lanes);
        let outs: Vec<Slot> =
            types.iter().map(|&dtype| self.define(dtype, count, !dtype.is_float())).collect();
        self.emit(Step::Combine { outs: outs.clone(), states, ops, identity, captured, division });
        self.spread(c, outs[0]);
    }

    /// All lanes, rows or columns of so many. In a region there is room for one result only.
    fn division(&self, c: &mut Choices<'_>, lanes: u64) -> Division {
        match c.next(4) {
            2 if self.region.is_none() => Division::rows(1 + c.next(lanes as usize + 2) as u64),
            3 if self.region.is_none() => {
                let whole: Vec<u64> = (1..=lanes.max(3)).filter(|&n| lanes.is_multiple_of(n)).collect();
                Division::columns(*c.of(&whole))
            }
            _ => Division::ALL,
        }
    }

    /// Brings results of segments to one of the widths, where others can use them.
    fn spread(&mut self, c: &mut Choices<'_>, results: Slot) {
        let SlotInfo { dtype, size, exact, .. } = *self.info(results);
        if size == 1 || self.sizes.contains(&size) || c.next(4) == 3 {
            return;
        }
        let width = *c.of(&self.sizes);
        let index = self.index(c, size, width);
        let out = self.define_like(dtype, exact, &[Some(index)]);
        self.emit(Step::Gather { out, source: Source::Array(results), index, mask: None });
    }

    // ---- memory ----

    fn new_buffer(&mut self, c: &mut Choices<'_>) {
        if self.places.len() >= 4 {
            return;
        }
        let place = Place(self.places.len() as u32);
        let tally = c.next(6) == 5;
        let from = match c.next(3) {
            _ if tally => {
                let out = self.define(*c.of(&[DType::F32, DType::F64]), self.sizes[c.next(2)], true);
                self.emit(Step::Data { out, contents: Contents::Small(c.next(1000) as u64) });
                out
            }
            0 => {
                let dtype = *c.of(&ALL_DTYPES);
                self.data(c, dtype, self.sizes[1])
            }
            1 => {
                let (dtype, size) = (*c.of(&ALL_DTYPES), *c.of(&self.sizes));
                let out = self.define(dtype, size, true);
                self.emit(Step::Full { out, bits: special(c, dtype) });
                out
            }
            _ => self.visible[c.next(self.visible.len())],
        };
        let SlotInfo { dtype, size, .. } = *self.info(from);
        self.places.push(PlaceInfo { dtype, size, tally, alive: true, mode: None });
        self.emit(Step::NewBuffer { place, from });
    }

    fn snapshot(&mut self, c: &mut Choices<'_>) {
        let Some(place) = self.place(c, |_| true) else { return };
        let PlaceInfo { dtype, size, .. } = self.places[place.0 as usize];
        let out = self.define(dtype, size, !dtype.is_float());
        self.emit(Step::Snapshot { out, place });
    }

    fn set(&mut self, c: &mut Choices<'_>) {
        let Some(place) = self.place(c, |p| !p.tally) else { return };
        let PlaceInfo { dtype, size, .. } = self.places[place.0 as usize];
        let to = self.operand(c, dtype, size);
        self.emit(Step::Set { place, to });
    }

    fn gather_buffer(&mut self, c: &mut Choices<'_>) {
        let Some(place) = self.place(c, |p| !matches!(p.mode, Some(Mode::Shared(_)))) else {
            return self.gather(c);
        };
        let width = self.width(c);
        let PlaceInfo { dtype, size, .. } = self.places[place.0 as usize];
        let own = Mode::Own { stride: 1 + c.next(3) as u64, reversed: c.next(2) == 1 };
        let index = match self.mode(place, *c.of(&[own, Mode::ReadOnly])) {
            Some(Mode::Own { stride, reversed }) => self.own_index(c, stride, reversed),
            _ => self.index(c, size, width),
        };
        let mask = self.mask(c, width);
        let out = self.define_like(dtype, !dtype.is_float(), &[Some(index), mask]);
        self.emit(Step::Gather { out, source: Source::Buffer(place), index, mask });
    }

    fn scatter(&mut self, c: &mut Choices<'_>) {
        let Some(place) = self.place(c, |p| p.mode != Some(Mode::ReadOnly)) else {
            return self.gather(c);
        };
        let width = self.width(c);
        let PlaceInfo { dtype, size, tally, .. } = self.places[place.0 as usize];
        let ops: Vec<Op> = if tally { vec![Op::ScatterAdd] } else { scatters(dtype) };
        let mut op = *c.of(&ops);
        let commutes = tally || commutes(op, dtype);
        let mut wish = Mode::Own { stride: 1 + c.next(3) as u64, reversed: c.next(2) == 1 };
        if tally || commutes && c.next(2) == 1 {
            wish = Mode::Shared(op);
        }
        let index = match self.mode(place, wish) {
            None if commutes || width == 1 => self.index(c, size, width),
            None => self.distinct_index(c, width),
            Some(Mode::Own { stride, reversed }) => self.own_index(c, stride, reversed),
            Some(Mode::Shared(shared)) => {
                op = shared;
                self.index(c, size, width)
            }
            Some(Mode::ReadOnly) => unreachable!("the place was chosen to be written"),
        };
        let value = if tally { self.small_float(c, dtype, width) } else { self.operand(c, dtype, width) };
        let mask = self.mask(c, width);
        self.emit(Step::Scatter { op, target: Target::Buffer(place), value, index, mask });
    }

    fn scatter_array(&mut self, c: &mut Choices<'_>) {
        let width = self.width(c);
        let of = self.visible[c.next(self.visible.len())];
        let (dtype, size) = (self.info(of).dtype, self.info(of).size);
        let op = *c.of(&scatters(dtype));
        let index = if commutes(op, dtype) || width == 1 {
            self.index(c, size, width)
        } else {
            self.distinct_index(c, width)
        };
        let value = self.operand(c, dtype, width);
        let mask = self.mask(c, width);
        let out = self.define(dtype, size, !dtype.is_float());
        self.emit(Step::Scatter { op, target: Target::Array { of, out }, value, index, mask });
    }

    fn atomic_inc(&mut self, c: &mut Choices<'_>) {
        let counts = |p: &PlaceInfo| {
            p.dtype.is_int() && matches!(p.mode, None | Some(Mode::Own { .. } | Mode::Shared(Op::ScatterAdd)))
        };
        let Some(place) = self.place(c, counts) else { return self.scatter(c) };
        let width = self.width(c);
        let PlaceInfo { dtype, size, .. } = self.places[place.0 as usize];
        let own = Mode::Own { stride: 1 + c.next(3) as u64, reversed: c.next(2) == 1 };
        let wish = *c.of(&[own, own, Mode::Shared(Op::ScatterAdd)]);
        let (index, alone) = match self.mode(place, wish) {
            None if width == 1 => (self.index(c, size, width), true),
            None if c.next(2) == 0 => (self.distinct_index(c, width), true),
            None => (self.index(c, size, width), false),
            Some(Mode::Own { stride, reversed }) => (self.own_index(c, stride, reversed), true),
            Some(_) => (self.index(c, size, width), false),
        };
        let mask = self.mask(c, width);
        let out = self.define_like(dtype, true, &[Some(index), mask]);
        self.emit(Step::AtomicInc { out, place, index, mask });
        if !alone {
            self.visible.pop();
            if self.region.is_none() && c.next(4) != 3 {
                let sum = self.define(dtype, 1, true);
                self.emit(Step::Reduce { out: sum, op: Op::ReduceSum, arg: out, division: Division::ALL });
            }
        }
    }

    /// Elements that no other lane touches are exchanged, of integers and bools perhaps only if they are what is expected
    /// (the bits of a computed NaN are nobody's business).
    fn exchange(&mut self, c: &mut Choices<'_>) {
        let own = |p: &PlaceInfo| !p.tally && matches!(p.mode, None | Some(Mode::Own { .. }));
        let Some(place) = self.place(c, own) else { return self.scatter(c) };
        let width = self.width(c);
        let PlaceInfo { dtype, size, .. } = self.places[place.0 as usize];
        let wish = Mode::Own { stride: 1 + c.next(3) as u64, reversed: c.next(2) == 1 };
        let index = match self.mode(place, wish) {
            Some(Mode::Own { stride, reversed }) => self.own_index(c, stride, reversed),
            _ if width == 1 => self.index(c, size, width),
            _ => self.distinct_index(c, width),
        };
        let value = self.operand(c, dtype, width);
        let expected = (!dtype.is_float() && c.next(2) == 1).then(|| self.operand(c, dtype, width));
        let mask = self.mask(c, width);
        let operands = [Some(index), Some(value), expected, mask];
        let out = self.define_like(dtype, !dtype.is_float(), &operands);
        self.emit(Step::Exchange { out, place, expected, value, index, mask });
    }

    /// A scan, a sort, its order, or what is true.
    fn across(&mut self, c: &mut Choices<'_>) {
        let local = |s: Slot| self.info(s).local.is_some();
        let tops: Vec<Slot> =
            self.visible.iter().copied().filter(|&s| self.info(s).depth == 0 && !local(s)).collect();
        let bools: Vec<Slot> = tops.iter().copied().filter(|&s| self.info(s).dtype == DType::Bool).collect();
        let kind = c.next(5);
        let arg = if kind == 4 && !bools.is_empty() { *c.of(&bools) } else { *c.of(&tops) };
        let SlotInfo { dtype, size, .. } = *self.info(arg);
        let index = *c.of(&[DType::U32, DType::U64]);
        let (across, result, room) = match kind {
            0 => (Across::Sort, dtype, size),
            1 => (Across::Argsort(index), index, size),
            _ if dtype == DType::Bool => {
                let room = *c.of(&[None, None, Some(size / 2), Some(1)]);
                // A literal that no device has is one element.
                (Across::Compress(index, room), index, room.unwrap_or(size))
            }
            _ => {
                let combine = *c.of(&[Op::Add, Op::Add, Op::Min, Op::Max]);
                let length = *c.of(&[None, None, Some(1), Some(5), Some(20)]);
                let (exclusive, reverse) = (c.next(2) == 1, c.next(2) == 1);
                (Across::Scan { combine, exclusive, reverse, length }, dtype, size)
            }
        };
        let out = self.define(result, room, !result.is_float());
        self.emit(Step::Across { out, across, arg });
        self.spread(c, out);
    }

    /// The mode of a place in the open region, settled now if it is not yet; none at the top level.
    fn mode(&mut self, place: Place, wish: Mode) -> Option<Mode> {
        self.region?;
        Some(*self.places[place.0 as usize].mode.get_or_insert(wish))
    }

    fn mask(&mut self, c: &mut Choices<'_>, width: u64) -> Option<Slot> {
        (c.next(3) == 2).then(|| self.operand(c, DType::Bool, width))
    }

    /// A float that is an integer from 0 to 7.
    fn small_float(&mut self, c: &mut Choices<'_>, dtype: DType, width: u64) -> Slot {
        let any = self.any(c, width);
        let any = self.cast(any, DType::U8);
        let seven = self.constant(DType::U8, 7);
        let small = self.apply(Op::And, DType::U8, vec![any, seven]);
        self.cast(small, dtype)
    }

    // ---- values ----

    /// The number of lanes of the next step.
    fn width(&mut self, c: &mut Choices<'_>) -> u64 {
        let [n, m] = self.sizes;
        self.region.unwrap_or_else(|| *c.of(&[n, n, n, m, n, 1]))
    }

    fn candidates(&self, width: u64) -> Vec<Slot> {
        self.visible
            .iter()
            .copied()
            .filter(|&s| self.info(s).size == 1 || self.info(s).size == width)
            .collect()
    }

    /// A value of any type, often a recent one.
    fn any(&mut self, c: &mut Choices<'_>, width: u64) -> Slot {
        let candidates = self.candidates(width);
        if candidates.is_empty() {
            return self.literal(c, DType::U32);
        }
        Self::recent(c, &candidates)
    }

    fn recent(c: &mut Choices<'_>, candidates: &[Slot]) -> Slot {
        let from = candidates.len().saturating_sub(8);
        *if c.next(2) == 0 { c.of(&candidates[from..]) } else { c.of(candidates) }
    }

    /// A value of that type: one that is there, a literal, or a conversion.
    fn operand(&mut self, c: &mut Choices<'_>, dtype: DType, width: u64) -> Slot {
        let all = self.candidates(width);
        let same: Vec<Slot> = all.iter().copied().filter(|&s| self.info(s).dtype == dtype).collect();
        match c.next(8) {
            0 => self.literal(c, dtype),
            1..=4 if same.len() > 1 => Self::recent(c, &same),
            // New elements hold special values; what is computed seldom does.
            1..=5 if self.region.is_none() => self.data(c, dtype, width),
            _ if all.is_empty() => self.literal(c, dtype),
            _ => {
                let other = Self::recent(c, &all);
                self.cast(other, dtype)
            }
        }
    }

    fn cast(&mut self, slot: Slot, to: DType) -> Slot {
        if self.info(slot).dtype == to { slot } else { self.apply(Op::Cast, to, vec![slot]) }
    }

    /// The value, its NaNs replaced by one fixed NaN.
    fn with_fixed_nan(&mut self, slot: Slot) -> Slot {
        let SlotInfo { dtype, exact, .. } = *self.info(slot);
        if exact {
            return slot;
        }
        let is_nan = self.apply(Op::Ne, DType::Bool, vec![slot, slot]);
        let nan = self.constant(dtype, jit_core::op::scalar::cast(DType::F64, dtype, f64::NAN.to_bits()));
        let fixed = self.apply(Op::Select, dtype, vec![is_nan, nan, slot]);
        self.program.slots[fixed.0 as usize].exact = true;
        fixed
    }

    fn apply(&mut self, op: Op, dtype: DType, args: Vec<Slot>) -> Slot {
        let exact = match op {
            _ if !dtype.is_float() => true,
            Op::Neg | Op::Abs | Op::CopySign => self.info(args[0]).exact,
            Op::Select => self.info(args[1]).exact && self.info(args[2]).exact,
            Op::Bitcast => true,
            Op::Cast => !self.info(args[0]).dtype.is_float(),
            _ => false,
        };
        let all: Vec<Option<Slot>> = args.iter().copied().map(Some).collect();
        let out = self.define_like(dtype, exact, &all);
        self.emit(Step::Lane { out, op, args });
        out
    }

    fn constant(&mut self, dtype: DType, bits: u64) -> Slot {
        let out = self.define(dtype, 1, true);
        // Nobody else should pick it: it would be named all the time.
        self.visible.pop();
        self.emit(Step::Literal { out, bits: bits & dtype.mask() });
        out
    }

    fn literal(&mut self, c: &mut Choices<'_>, dtype: DType) -> Slot {
        let out = self.define(dtype, 1, true);
        self.emit(Step::Literal { out, bits: special(c, dtype) });
        out
    }

    fn data(&mut self, c: &mut Choices<'_>, dtype: DType, size: u64) -> Slot {
        let out = self.define(dtype, size, true);
        let seed = c.next(1 << 16) as u64;
        let contents = *c.of(&[
            Contents::Small(seed),
            Contents::Mixed(seed),
            Contents::Mixed(seed),
            Contents::Bits(seed),
        ]);
        self.emit(Step::Data { out, contents });
        out
    }

    fn counter(&mut self, dtype: DType, size: u64) -> Slot {
        let out = self.define(dtype, size, true);
        self.emit(Step::Counter { out });
        out
    }

    fn define_like(&mut self, dtype: DType, exact: bool, operands: &[Option<Slot>]) -> Slot {
        self.define(dtype, self.joint_size(operands), exact)
    }

    fn joint_size(&self, operands: &[Option<Slot>]) -> u64 {
        let wide = operands.iter().flatten().map(|&s| self.info(s).size).find(|&s| s != 1);
        self.region.or(wide).unwrap_or(1)
    }

    fn define(&mut self, dtype: DType, size: u64, exact: bool) -> Slot {
        let slot = self.new_slot(dtype, size, exact, None);
        self.visible.push(slot);
        slot
    }

    fn new_slot(&mut self, dtype: DType, size: u64, exact: bool, local: Option<u32>) -> Slot {
        let depth = self.blocks.len() as u32 - 1;
        self.program.slots.push(SlotInfo { dtype, size, exact, depth, local });
        Slot(self.program.slots.len() as u32 - 1)
    }

    fn info(&self, slot: Slot) -> &SlotInfo {
        &self.program.slots[slot.0 as usize]
    }

    fn place(&self, c: &mut Choices<'_>, fits: impl Fn(&PlaceInfo) -> bool) -> Option<Place> {
        let alive = |&i: &usize| self.places[i].alive && fits(&self.places[i]);
        let places: Vec<usize> = (0..self.places.len()).filter(alive).collect();
        (!places.is_empty()).then(|| Place(*c.of(&places) as u32))
    }

    fn emit(&mut self, step: Step) {
        self.blocks.last_mut().expect("an open block").push(step);
    }
}

/// Whether an op works lane by lane on values of that type.
fn takes(op: Op, dtype: DType) -> bool {
    op.is_lane()
        && match op.rule() {
            Rule::Numeric => dtype != DType::Bool,
            Rule::Float => dtype.is_float(),
            Rule::Int | Rule::CountBits => dtype.is_int(),
            Rule::Bits => !dtype.is_float(),
            Rule::Bitcast => dtype != DType::Bool,
            _ => true,
        }
}

/// The scatters that memory of a type takes.
fn scatters(dtype: DType) -> Vec<Op> {
    let takes = |op: &Op| {
        op.class() == Class::Effect
            && !op.gives_old()
            && op.combine().is_none_or(|c| c.result_type(&[dtype, dtype], dtype).is_ok())
    };
    ALL_OPS.iter().copied().filter(takes).collect()
}

/// Whether the order of contributions changes nothing.
fn commutes(op: Op, dtype: DType) -> bool {
    op != Op::Scatter && !(dtype.is_float() && matches!(op, Op::ScatterAdd | Op::ScatterMul))
}
