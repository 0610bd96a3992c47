//! Runs a program on a device.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use jit_core::dtype::{DType, is_nan};
use jit_core::op::{Op, scalar};
use jit_core::runtime::Device;
use jit_core::trace::{
    BufferVar, Case, Reducing, Var, checked_reduction, checked_switch, eval, if_else, while_loop,
};

use super::choices::{Choices, special};
use super::program::{Across, Block, Contents, Ending, Program, Slot, Source, Step, Target};
use crate::host::{read_bits_despite_reports, upload_bits};

/// What a program left: the elements of outputs, then of buffers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Outcome(pub(crate) Vec<Vec<u64>>);

/// When values are computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pace {
    /// As the program says.
    Lazy,
    /// Everything after each step.
    Eager,
}

/// Runs a program. NaNs whose bits are not defined come out as one NaN.
pub(crate) fn replay(program: &Program, device: Device, pace: Pace) -> Outcome {
    let replay = Replay {
        program,
        device,
        slots: RefCell::new(vec![None; program.slots.len()]),
        places: RefCell::new((0..program.places).map(|_| None).collect()),
    };
    replay.run(pace)
}

struct Replay<'a> {
    program: &'a Program,
    device: Device,
    slots: RefCell<Vec<Option<Var>>>,
    places: RefCell<Vec<Option<BufferVar>>>,
}

impl Replay<'_> {
    fn run(&self, pace: Pace) -> Outcome {
        let Program { steps, outputs, kept, ending, .. } = self.program;
        let last_uses = self.last_uses();
        for (at, step) in steps.iter().enumerate() {
            self.step(step);
            if *ending != Ending::HoldAll {
                last_uses[at].iter().for_each(|s| self.slots.borrow_mut()[s.0 as usize] = None);
            }
            if pace == Pace::Eager {
                self.eval_all();
            }
        }
        for (i, place) in self.places.borrow_mut().iter_mut().enumerate() {
            if !kept.iter().any(|k| k.0 as usize == i) {
                *place = None;
            }
        }
        if *ending != Ending::HoldAll {
            let wanted: HashSet<Slot> = outputs.iter().copied().collect();
            for (i, slot) in self.slots.borrow_mut().iter_mut().enumerate() {
                if !wanted.contains(&Slot(i as u32)) {
                    *slot = None;
                }
            }
        }
        if *ending == Ending::Together {
            self.eval_all();
        }
        let mut all = Vec::new();
        for &slot in outputs {
            let var = self.slots.borrow_mut()[slot.0 as usize].clone().expect("an output");
            all.push(fixed(&var, self.program.slots[slot.0 as usize].exact));
            if *ending == Ending::OneByOne {
                self.slots.borrow_mut()[slot.0 as usize] = None;
            }
        }
        for &place in kept {
            let value = self.places.borrow()[place.0 as usize].as_ref().expect("a kept buffer").value();
            all.push(fixed(&value, false));
        }
        Outcome(all)
    }

    fn eval_all(&self) {
        let (slots, places) = (self.slots.borrow(), self.places.borrow());
        let values: Vec<&Var> = slots.iter().flatten().collect();
        let buffers: Vec<&BufferVar> = places.iter().flatten().collect();
        eval(&values, &buffers).expect("evaluation");
    }

    /// For each step of the top level the values that nothing later uses.
    fn last_uses(&self) -> Vec<Vec<Slot>> {
        let mut last: HashMap<Slot, usize> = HashMap::new();
        for (at, step) in self.program.steps.iter().enumerate() {
            for slot in step.all_uses().into_iter().chain(step.defines()) {
                last.insert(slot, at);
            }
        }
        let mut lists = vec![Vec::new(); self.program.steps.len()];
        for (slot, at) in last {
            if !self.program.outputs.contains(&slot) {
                lists[at].push(slot);
            }
        }
        lists
    }

    fn step(&self, step: &Step) {
        let device = self.device;
        match step {
            Step::Literal { out, bits } => self.define(*out, Var::literal(self.dtype(*out), *bits)),
            Step::Full { out, bits } => {
                self.define(*out, Var::full(device, self.dtype(*out), *bits, self.size(*out)));
            }
            Step::Data { out, contents } => {
                let bits = elements(*contents, self.dtype(*out), self.size(*out));
                self.define(*out, upload_bits(device, self.dtype(*out), &bits));
            }
            Step::Counter { out } => {
                self.define(*out, Var::counter(device, self.dtype(*out), self.size(*out)));
            }
            Step::LaneCount { out, of } => self.define(*out, self.get(*of).lane_count()),
            Step::Lane { out, op, args } => {
                let args: Vec<Var> = args.iter().map(|&a| self.get(a)).collect();
                let args: Vec<&Var> = args.iter().collect();
                self.define(*out, Var::apply(*op, self.dtype(*out), &args));
            }
            Step::Gather { out, source, index, mask } => {
                let (index, mask) = (self.get(*index), mask.map(|m| self.get(m)));
                let value = match source {
                    Source::Array(slot) => self.get(*slot).gather(&index, mask.as_ref()),
                    Source::Buffer(place) => self.buffer(place.0).gather(&index, mask.as_ref()),
                };
                self.define(*out, value);
            }
            Step::Scatter { op, target, value, index, mask } => {
                let (value, index, mask) = (self.get(*value), self.get(*index), mask.map(|m| self.get(m)));
                match target {
                    Target::Array { of, out } => {
                        let mut array = self.get(*of).bind(device);
                        array.scatter(*op, &value, &index, mask.as_ref());
                        self.define(*out, array);
                    }
                    Target::Buffer(place) => {
                        self.buffer(place.0).scatter(*op, &value, &index, mask.as_ref());
                    }
                }
            }
            Step::AtomicInc { out, place, index, mask } => {
                let (index, mask) = (self.get(*index), mask.map(|m| self.get(m)));
                let old = self.buffer(place.0).atomic_inc(&index, mask.as_ref());
                self.define(*out, old);
            }
            Step::Exchange { out, place, expected, value, index, mask } => {
                let (value, index, mask) = (self.get(*value), self.get(*index), mask.map(|m| self.get(m)));
                let buffer = self.buffer(place.0);
                let old = match expected.map(|e| self.get(e)) {
                    None => buffer.exchange(&value, &index, mask.as_ref()),
                    Some(expected) => buffer.compare_exchange(&expected, &value, &index, mask.as_ref()),
                };
                self.define(*out, old);
            }
            Step::Across { out, across, arg } => {
                let arg = self.get(*arg).bind(device);
                let result = match *across {
                    Across::Scan { combine, exclusive, reverse, length } => {
                        arg.scan(combine, exclusive, reverse, length)
                    }
                    Across::Sort => arg.sort(),
                    Across::Argsort(index) => arg.argsort(index),
                    Across::Compress(index, room) => arg.compress(index, room),
                };
                self.define(*out, result);
            }
            Step::Reduce { out, op, arg, division } => {
                self.define(*out, self.get(*arg).reduce_by(*op, *division));
            }
            Step::Combine { outs, states, ops, identity, captured, division } => {
                let states: Vec<Var> = states.iter().map(|&s| self.get(s)).collect();
                let literal = |(state, &bits): (&Var, &u64)| Var::literal(state.dtype(), bits);
                let identity: Vec<Var> = states.iter().zip(identity).map(literal).collect();
                let captured = captured.map(|s| self.get(s));
                let reducing = Reducing { name: "combine", division: *division, partial: None };
                let results = checked_reduction(device, &reducing, &states, &identity, |a, b| {
                    let both = |(op, (a, b)): (&Op, (&Var, &Var))| Var::apply(*op, a.dtype(), &[a, b]);
                    let mut next: Vec<Var> = ops.iter().zip(a.iter().zip(b)).map(both).collect();
                    if let Some(captured) = &captured {
                        next[0] = Var::apply(ops[0], next[0].dtype(), &[&next[0], captured]);
                    }
                    let last = next.len() - 1;
                    if last > 0 {
                        let less = Var::apply(Op::Lt, DType::Bool, &[&a[0], &b[0]]);
                        let dtype = next[last].dtype();
                        next[last] = Var::apply(Op::Select, dtype, &[&less, &next[last], &b[last]]);
                    }
                    Ok(next)
                });
                self.define_all(outs, results);
            }
            Step::LocalZeros { out } => {
                let len = self.program.slots[out.0 as usize].local.expect("a local array");
                self.define(*out, Var::local_zeros(self.dtype(*out), len as usize));
            }
            Step::LocalRead { out, array, index, mask } => {
                let (array, index, mask) = (self.get(*array), self.get(*index), mask.map(|m| self.get(m)));
                self.define(*out, array.local_read(&index, mask.as_ref(), device));
            }
            Step::LocalWrite { out, array, value, index, mask } => {
                let (value, index, mask) = (self.get(*value), self.get(*index), mask.map(|m| self.get(m)));
                let written = self.get(*array).local_write(&value, &index, mask.as_ref(), device);
                self.define(*out, written);
            }
            Step::NewBuffer { place, from } => {
                let buffer = BufferVar::new(&self.get(*from).bind(device));
                self.places.borrow_mut()[place.0 as usize] = Some(buffer);
            }
            Step::Snapshot { out, place } => self.define(*out, self.buffer(place.0).value()),
            Step::Set { place, to } => self.buffer(place.0).set(&self.get(*to)),
            Step::DropBuffer { place } => self.places.borrow_mut()[place.0 as usize] = None,
            Step::Eval { slots, places } => {
                let values: Vec<Var> = slots.iter().map(|&s| self.get(s)).collect();
                let buffers: Vec<BufferVar> = places.iter().map(|p| self.buffer(p.0)).collect();
                let values: Vec<&Var> = values.iter().collect();
                eval(&values, &buffers.iter().collect::<Vec<_>>()).expect("evaluation");
            }
            Step::Loop { init, blocks: [condition, body], results } => {
                let init: Vec<Var> = init.iter().map(|&s| self.get(s)).collect();
                let test = |state: &[Var]| self.block(condition, state.to_vec()).remove(0);
                let values = while_loop(device, &init, test, |state| self.block(body, state));
                self.define_all(results, values);
            }
            Step::If { condition, arguments, blocks: [then, other], results } => {
                let arguments: Vec<Var> = arguments.iter().map(|&s| self.get(s)).collect();
                let condition = self.get(*condition);
                let values = if_else(
                    device,
                    &condition,
                    &arguments,
                    |a| self.block(then, a),
                    |a| self.block(other, a),
                );
                self.define_all(results, values);
            }
            Step::Switch { index, arguments, blocks, results } => {
                let arguments: Vec<Var> = arguments.iter().map(|&s| self.get(s)).collect();
                let index = self.get(*index);
                let cases = blocks.iter().map(|block| -> Case<'_> { Box::new(|a| Ok(self.block(block, a))) });
                let values = checked_switch(device, &index, &arguments, cases);
                self.define_all(results, values);
            }
        }
    }

    fn block(&self, block: &Block, arguments: Vec<Var>) -> Vec<Var> {
        self.define_all(&block.params, arguments);
        block.steps.iter().for_each(|s| self.step(s));
        let yields = block.yields.iter().map(|&s| self.get(s)).collect();
        // Handles do not outlive their region.
        let made = block.steps.iter().flat_map(Step::defines).chain(block.params.iter().copied());
        made.for_each(|s| self.slots.borrow_mut()[s.0 as usize] = None);
        yields
    }

    fn define_all(&self, slots: &[Slot], values: Vec<Var>) {
        assert_eq!(slots.len(), values.len(), "as many values as were asked for");
        slots.iter().zip(values).for_each(|(&slot, value)| self.define(slot, value));
    }

    fn define(&self, slot: Slot, value: Var) {
        let info = self.program.slots[slot.0 as usize];
        assert_eq!(value.dtype(), info.dtype, "the type of {slot:?}");
        if info.depth == 0 {
            assert_eq!(value.size(), info.size, "the size of {slot:?}");
        }
        // The old value's destructor must not run while the list is borrowed.
        drop(self.slots.borrow_mut()[slot.0 as usize].replace(value));
    }

    fn get(&self, slot: Slot) -> Var {
        self.slots.borrow()[slot.0 as usize].clone().unwrap_or_else(|| panic!("{slot:?} is not there"))
    }

    fn buffer(&self, place: u32) -> BufferVar {
        self.places.borrow()[place as usize].clone().expect("a live buffer")
    }

    fn dtype(&self, slot: Slot) -> DType {
        self.program.slots[slot.0 as usize].dtype
    }

    fn size(&self, slot: Slot) -> u64 {
        self.program.slots[slot.0 as usize].size
    }
}

/// The elements of an array, with one NaN for all whose bits are not defined.
fn fixed(var: &Var, exact: bool) -> Vec<u64> {
    let dtype = var.dtype();
    let mut bits = read_bits_despite_reports(var);
    if !exact && dtype.is_float() {
        let nan = scalar::cast(DType::F64, dtype, f64::NAN.to_bits());
        bits.iter_mut().filter(|b| is_nan(dtype, **b)).for_each(|b| *b = nan);
    }
    bits
}

/// The elements of an uploaded array.
fn elements(contents: Contents, dtype: DType, size: u64) -> Vec<u64> {
    let (Contents::Small(seed) | Contents::Mixed(seed) | Contents::Bits(seed) | Contents::Permutation(seed)) =
        contents;
    let mut state = seed.wrapping_mul(2).wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut random = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ mixed >> 27
    };
    let mut bits: Vec<u64> = (0..size)
        .map(|i| match contents {
            Contents::Small(_) => scalar::cast(DType::U32, dtype, random() % 8),
            Contents::Bits(_) => random() >> 5 & dtype.mask(),
            Contents::Permutation(_) => i,
            Contents::Mixed(_) => {
                let numbers = [0, 1, 2].map(|k| (random() >> (8 + k)) as u16);
                special(&mut Choices::new(&numbers), dtype)
            }
        })
        .collect();
    if matches!(contents, Contents::Permutation(_)) {
        for i in (1..bits.len()).rev() {
            bits.swap(i, (random() >> 8) as usize % (i + 1));
        }
    }
    bits
}
