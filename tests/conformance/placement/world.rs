//! Handles beside the model's idea of what they hold, and the calls that change both.

use std::fmt::Write as _;

use jit_core::dtype::DType;
use jit_core::op::Op;
use jit_core::runtime::Device;
use jit_core::trace::{BufferVar, Var, eval, if_else, while_loop};

use super::model::{Elements, apply, number};
use crate::host::{read_bits, upload_bits};
use crate::random_programs::Choices;

const TYPES: [DType; 3] = [DType::U32, DType::I32, DType::F32];
/// Sizes are few, so that arrays often fit each other.
const SIZES: [usize; 4] = [5, 1, 8, 19];

macro_rules! kinds {
    ($($weight:literal $name:ident,)*) => {
        /// A call.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(super) enum Kind {
            $($name,)*
        }

        impl Kind {
            /// All of them, with how often they are wanted.
            pub(super) const ALL: &[(u32, Kind)] = &[$(($weight, Kind::$name),)*];
        }
    };
}

kinds! {
    4 Make,
    10 Elementwise,
    5 Gather,
    4 Reduce,
    3 Cast,
    3 NewBuffer,
    6 GatherBuffer,
    8 ScatterBuffer,
    4 AtomicInc,
    4 Snapshot,
    3 SetBuffer,
    4 ScatterClone,
    3 ScatterArray,
    4 Loop,
    3 Branch,
    3 CloneArray,
    2 CloneBuffer,
    6 DropArray,
    2 DropBuffer,
    4 EvalArrays,
    3 EvalBuffers,
    3 ReadArray,
    2 ReadBuffer,
}

struct Array {
    var: Var,
    model: Elements,
    name: usize,
}

/// Buffers that are clones of each other.
struct Place {
    handles: Vec<BufferVar>,
    model: Elements,
    name: usize,
}

/// What one thread holds.
pub(super) struct World {
    device: Device,
    arrays: Vec<Array>,
    places: Vec<Place>,
    made: usize,
    log: String,
}

impl World {
    pub(super) fn new(device: Device) -> World {
        World { device, arrays: Vec::new(), places: Vec::new(), made: 0, log: String::new() }
    }

    /// The calls so far.
    pub(super) fn calls(&self) -> String {
        self.log.clone()
    }

    /// Gives part of everything to another thread's world; some arrays go to both.
    pub(super) fn split(&mut self, choices: &[u16]) -> World {
        let mut c = Choices::new(choices);
        let mut other = World::new(self.device);
        other.made = self.made + 1000;
        let _ = writeln!(self.log, "split");
        for array in std::mem::take(&mut self.arrays) {
            match c.next(3) {
                0 => other.arrays.push(array),
                1 => {
                    let Array { var, model, name } = &array;
                    other.arrays.push(Array { var: var.clone(), model: model.clone(), name: *name });
                    self.arrays.push(array);
                }
                _ => self.arrays.push(array),
            }
        }
        for place in std::mem::take(&mut self.places) {
            if c.next(2) == 0 { other.places.push(place) } else { self.places.push(place) }
        }
        other
    }

    pub(super) fn merge(&mut self, other: World) {
        self.arrays.extend(other.arrays);
        self.places.extend(other.places);
        for line in other.log.lines() {
            let _ = writeln!(self.log, "    | {line}");
        }
        let _ = writeln!(self.log, "joined");
    }

    /// Compares everything that is left.
    pub(super) fn read_everything(&self) -> Result<(), String> {
        for array in &self.arrays {
            compare(&format!("a{}", array.name), &array.var, &array.model)?;
        }
        for place in &self.places {
            compare(&format!("b{}", place.name), &place.handles[0].value(), &place.model)?;
        }
        Ok(())
    }

    pub(super) fn call(&mut self, kind: Kind, choices: &[u16]) -> Result<(), String> {
        let c = &mut Choices::new(choices);
        if self.arrays.is_empty() {
            self.make(c);
        }
        match kind {
            Kind::Make => self.make(c),
            Kind::Elementwise => self.elementwise(c),
            Kind::Gather => self.gather(c),
            Kind::Reduce => self.reduce(c),
            Kind::Cast => self.cast(c),
            Kind::CloneArray => {
                let from = c.next(self.arrays.len());
                let Array { var, model, name } = &self.arrays[from];
                let text = format!("clone a{name}");
                self.push(var.clone(), model.clone(), &text);
            }
            Kind::DropArray => {
                let array = self.arrays.swap_remove(c.next(self.arrays.len()));
                let _ = writeln!(self.log, "drop a{}", array.name);
            }
            Kind::EvalArrays => {
                let some: Vec<&Array> = (0..=c.next(3)).map(|_| c.of(&self.arrays)).collect();
                let names: Vec<usize> = some.iter().map(|a| a.name).collect();
                let _ = writeln!(self.log, "eval arrays {names:?}");
                let vars: Vec<&Var> = some.iter().map(|a| &a.var).collect();
                eval(&vars, &[]).map_err(|e| e.to_string())?;
            }
            Kind::ReadArray => {
                let array = c.of(&self.arrays);
                let _ = writeln!(self.log, "read a{}", array.name);
                compare(&format!("a{}", array.name), &array.var, &array.model)?;
            }
            Kind::ScatterClone => self.scatter_array(c, true),
            Kind::ScatterArray => self.scatter_array(c, false),
            Kind::NewBuffer => self.new_buffer(c),
            _ if self.places.is_empty() => self.new_buffer(c),
            Kind::GatherBuffer => self.gather_buffer(c),
            Kind::ScatterBuffer => self.scatter_buffer(c),
            Kind::AtomicInc => self.atomic_inc(c),
            Kind::Snapshot => {
                let place = c.of(&self.places);
                let (value, model) = (c.of(&place.handles).value(), place.model.clone());
                let text = format!("b{}.value()", place.name);
                self.push(value, model, &text);
            }
            Kind::SetBuffer => self.set_buffer(c),
            Kind::Loop => self.run_loop(c),
            Kind::Branch => self.branch(c),
            Kind::CloneBuffer => {
                let which = c.next(self.places.len());
                let place = &mut self.places[which];
                let clone = c.of(&place.handles).clone();
                place.handles.push(clone);
                let _ = writeln!(self.log, "clone b{}", place.name);
            }
            Kind::DropBuffer => {
                let which = c.next(self.places.len());
                let _ = writeln!(self.log, "drop a handle of b{}", self.places[which].name);
                let handles = &mut self.places[which].handles;
                handles.swap_remove(c.next(handles.len()));
                if handles.is_empty() {
                    self.places.swap_remove(which);
                }
            }
            Kind::EvalBuffers => {
                let some: Vec<&Place> = (0..=c.next(2)).map(|_| c.of(&self.places)).collect();
                let names: Vec<usize> = some.iter().map(|p| p.name).collect();
                let _ = writeln!(self.log, "eval buffers {names:?}");
                let buffers: Vec<&BufferVar> = some.iter().map(|p| &p.handles[0]).collect();
                eval(&[], &buffers).map_err(|e| e.to_string())?;
            }
            Kind::ReadBuffer => {
                let place = c.of(&self.places);
                let _ = writeln!(self.log, "read b{}", place.name);
                compare(&format!("b{}", place.name), &c.of(&place.handles).value(), &place.model)?;
            }
        }
        Ok(())
    }

    // ---- pure calls ----

    fn make(&mut self, c: &mut Choices<'_>) {
        let (dtype, size) = (*c.of(&TYPES), *c.of(&SIZES));
        let first = c.next(20) as i32;
        match c.next(4) {
            0 => {
                let bits = vec![number(dtype, first); size];
                let var = Var::full(self.device, dtype, u64::from(bits[0]), size as u64);
                self.push(var, Elements { dtype, bits }, &format!("full {dtype} {first}, {size}"));
            }
            1 => {
                let var = Var::counter(self.device, DType::U32, size as u64);
                let bits = (0..size as u32).collect();
                self.push(var, Elements { dtype: DType::U32, bits }, &format!("counter {size}"));
            }
            _ => {
                let bits: Vec<u32> = (0..size as i32).map(|i| number(dtype, (first + 7 * i) % 23)).collect();
                let wide: Vec<u64> = bits.iter().map(|&b| u64::from(b)).collect();
                let text = format!("upload {dtype} ({first} + 7 i) % 23, {size}");
                self.push(upload_bits(self.device, dtype, &wide), Elements { dtype, bits }, &text);
            }
        }
    }

    fn elementwise(&mut self, c: &mut Choices<'_>) {
        let a = c.of(&self.arrays);
        let dtype = a.model.dtype;
        let fits = |b: &&Array| b.model.dtype == dtype && sizes_fit(a.model.len(), b.model.len());
        let others: Vec<&Array> = self.arrays.iter().filter(fits).collect();
        let op = *c.of(if dtype == DType::F32 {
            &[Op::Add, Op::Sub, Op::Min, Op::Max]
        } else {
            &[Op::Add, Op::Sub, Op::Min, Op::Max, Op::Mul, Op::Xor]
        });
        let literal = c.next(9) as i32 - 1;
        let (var, other, name) = if c.next(3) == 0 {
            let bits = number(dtype, literal);
            let var = Var::literal(dtype, u64::from(bits));
            (var, Elements { dtype, bits: vec![bits] }, literal.to_string())
        } else {
            let b = c.of(&others);
            (b.var.clone(), b.model.clone(), format!("a{}", b.name))
        };
        let size = broadcast(a.model.len(), other.len());
        let bits = (0..size).map(|i| apply(op, dtype, a.model.at(i), other.at(i))).collect();
        let text = format!("{} a{}, {name}", op.name(), a.name);
        let value = Var::apply(op, dtype, &[&a.var, &var]);
        self.push(value, Elements { dtype, bits }, &text);
    }

    /// Between the integers, where every value has its bits.
    fn cast(&mut self, c: &mut Choices<'_>) {
        let a = c.of(&self.arrays);
        let (to, bits) = match a.model.dtype {
            DType::U32 => (DType::I32, a.model.bits.clone()),
            DType::I32 => (DType::U32, a.model.bits.clone()),
            _ => return self.make(c),
        };
        let (value, text) = (Var::apply(Op::Cast, to, &[&a.var]), format!("cast a{}", a.name));
        self.push(value, Elements { dtype: to, bits }, &text);
    }

    fn gather(&mut self, c: &mut Choices<'_>) {
        let source = c.next(self.arrays.len());
        let index = self.index(c, self.arrays[source].model.len());
        let a = &self.arrays[source];
        let bits = index.model.iter().map(|&i| a.model.gather(i)).collect();
        let text = format!("gather a{} at {}", a.name, index.text);
        let value = a.var.gather(&index.var, None);
        let dtype = a.model.dtype;
        self.push(value, Elements { dtype, bits }, &text);
    }

    fn reduce(&mut self, c: &mut Choices<'_>) {
        let a = c.of(&self.arrays);
        let dtype = a.model.dtype;
        let (op, combine) = *c.of(if dtype == DType::F32 {
            &[(Op::ReduceMin, Op::Min), (Op::ReduceMax, Op::Max)]
        } else {
            &[
                (Op::ReduceMin, Op::Min),
                (Op::ReduceMax, Op::Max),
                (Op::ReduceSum, Op::Add),
                (Op::ReduceXor, Op::Xor),
            ]
        });
        let all = a.model.bits.iter().copied().reduce(|x, y| apply(combine, dtype, x, y));
        let bits = vec![all.expect("no array is empty")];
        let (value, text) = (a.var.reduce(op), format!("{} a{}", op.name(), a.name));
        self.push(value, Elements { dtype, bits }, &text);
    }

    // ---- memory ----

    fn new_buffer(&mut self, c: &mut Choices<'_>) {
        let a = c.of(&self.arrays);
        let _ = writeln!(self.log, "b{} = buffer of a{}", self.made, a.name);
        let place = Place { handles: vec![BufferVar::new(&a.var)], model: a.model.clone(), name: self.made };
        self.made += 1;
        self.places.push(place);
    }

    fn gather_buffer(&mut self, c: &mut Choices<'_>) {
        let which = c.next(self.places.len());
        let index = self.index(c, self.places[which].model.len());
        let place = &self.places[which];
        let bits = index.model.iter().map(|&i| place.model.gather(i)).collect();
        let text = format!("gather b{} at {}", place.name, index.text);
        let value = c.of(&place.handles).gather(&index.var, None);
        let dtype = place.model.dtype;
        self.push(value, Elements { dtype, bits }, &text);
    }

    fn scatter_buffer(&mut self, c: &mut Choices<'_>) {
        let which = c.next(self.places.len());
        let scatter = self.scatter(c, &self.places[which].model);
        let place = &mut self.places[which];
        scatter.on_model(&mut place.model);
        let _ = writeln!(self.log, "b{}.{}", place.name, scatter.text);
        c.of(&place.handles).scatter(scatter.op, &scatter.value, &scatter.index.var, scatter.mask.as_ref());
    }

    fn scatter_array(&mut self, c: &mut Choices<'_>, clone: bool) {
        let which = c.next(self.arrays.len());
        let scatter = self.scatter(c, &self.arrays[which].model);
        let a = &self.arrays[which];
        let text = format!("a{} after {}", a.name, scatter.text);
        let (mut var, mut model) = (a.var.clone(), a.model.clone());
        if !clone {
            self.arrays.swap_remove(which);
        }
        scatter.on_model(&mut model);
        var.scatter(scatter.op, &scatter.value, &scatter.index.var, scatter.mask.as_ref());
        self.push(var, model, &text);
    }

    fn atomic_inc(&mut self, c: &mut Choices<'_>) {
        let which = c.next(self.places.len());
        if self.places[which].model.dtype == DType::F32 {
            return self.scatter_buffer(c);
        }
        let size = *c.of(&SIZES);
        let index = self.own_elements(c, size);
        let place = &mut self.places[which];
        let dtype = place.model.dtype;
        let mut bits = Vec::new();
        for &i in &index.model {
            bits.push(place.model.gather(i));
            place.model.scatter(Some(Op::Add), i, 1);
        }
        let text = format!("atomic_inc b{} at {}", place.name, index.text);
        let value = c.of(&place.handles).atomic_inc(&index.var, None);
        self.push(value, Elements { dtype, bits }, &text);
    }

    fn set_buffer(&mut self, c: &mut Choices<'_>) {
        let which = c.next(self.places.len());
        let Elements { dtype, bits } = &self.places[which].model;
        let (dtype, size) = (*dtype, bits.len());
        let fits = |a: &&Array| a.model.dtype == dtype && [1, size].contains(&a.model.len());
        let candidates: Vec<&Array> = self.arrays.iter().filter(fits).collect();
        if candidates.is_empty() {
            return self.new_buffer(c);
        }
        let to = *c.of(&candidates);
        let bits = (0..size).map(|i| to.model.at(i)).collect();
        let (var, name) = (to.var.clone(), to.name);
        let place = &mut self.places[which];
        let _ = writeln!(self.log, "b{} set to a{name}", place.name);
        c.of(&place.handles).set(&var);
        place.model.bits = bits;
    }

    // ---- regions ----

    /// Each lane adds to its own element of one buffer as often as `x` says, and to any element of another.
    fn run_loop(&mut self, c: &mut Choices<'_>) {
        let Some((x, trips)) = self.unsigned(c) else { return self.make(c) };
        let width = x.model.len();
        let own = c.next(self.places.len());
        let dtype = self.places[own].model.dtype;
        let shared = (0..self.places.len()).find(|&p| p != own && self.places[p].model.dtype != DType::F32);
        let start = c.next(5) as i32;
        let (text, x) = (format!("a{} & 3 times", x.name), x.var.clone());

        let device = self.device;
        let lane = Var::counter(device, DType::U32, width as u64);
        let limit = Var::apply(Op::And, DType::U32, &[&x, &lit(3)]);
        let init = [lit(0), Var::literal(dtype, u64::from(number(dtype, start)))];
        let buffer = c.of(&self.places[own].handles).clone();
        let other = shared.map(|s| (self.places[s].handles[0].clone(), self.places[s].model.dtype));
        let mut results = while_loop(
            device,
            &init,
            |s| Var::apply(Op::Lt, DType::Bool, &[&s[0], &limit]),
            |s| {
                buffer.scatter(Op::ScatterAdd, &s[1], &lane, None);
                let seen = buffer.gather(&lane, None);
                if let Some((other, dtype)) = &other {
                    let one = Var::literal(*dtype, 1);
                    other.scatter(Op::ScatterAdd, &one, &s[0], None);
                }
                let count = Var::apply(Op::Add, DType::U32, &[&s[0], &lit(1)]);
                vec![count, Var::apply(Op::Add, dtype, &[&s[1], &seen])]
            },
        );

        let mut bits = Vec::new();
        for (lane, trips) in trips.iter().enumerate() {
            let mut sum = number(dtype, start);
            for i in 0..trips & 3 {
                let lane = lane as u32;
                self.places[own].model.scatter(Some(Op::Add), lane, sum);
                sum = apply(Op::Add, dtype, sum, self.places[own].model.gather(lane));
                if let Some(shared) = shared {
                    self.places[shared].model.scatter(Some(Op::Add), i, 1);
                }
            }
            bits.push(sum);
        }
        let shared = shared.map_or(String::new(), |s| format!(", b{}[i] += 1", self.places[s].name));
        let text = format!(
            "loop from {start} {text}: b{}[lane] += sum, sum += b{0}[lane]{shared}",
            self.places[own].name
        );
        self.push(results.remove(1), Elements { dtype, bits }, &text);
    }

    /// Lanes where `x` is even store to a buffer, the others read it.
    fn branch(&mut self, c: &mut Choices<'_>) {
        let Some((x, values)) = self.unsigned(c) else { return self.make(c) };
        let width = x.model.len();
        let own = c.next(self.places.len());
        let dtype = self.places[own].model.dtype;
        let stored = number(dtype, c.next(50) as i32);
        let text = format!("if a{} even: b{}[lane] = .. else b{1}[lane]", x.name, self.places[own].name);
        let lane = Var::counter(self.device, DType::U32, width as u64);
        let low = Var::apply(Op::And, DType::U32, &[&x.var, &lit(1)]);
        let even = Var::apply(Op::Eq, DType::Bool, &[&low, &lit(0)]);
        let buffer = c.of(&self.places[own].handles).clone();
        let value = Var::literal(dtype, u64::from(stored));
        let mut results = if_else(
            self.device,
            &even,
            std::slice::from_ref(&value),
            |a| {
                buffer.scatter(Op::Scatter, &a[0], &lane, None);
                a
            },
            |_| vec![buffer.gather(&lane, None)],
        );
        let mut bits = Vec::new();
        for (lane, value) in values.iter().enumerate() {
            let lane = lane as u32;
            if value % 2 == 0 {
                self.places[own].model.scatter(None, lane, stored);
                bits.push(stored);
            } else {
                bits.push(self.places[own].model.gather(lane));
            }
        }
        self.push(results.remove(0), Elements { dtype, bits }, &text);
    }

    // ---- operands ----

    /// A u32 array and its elements.
    fn unsigned(&self, c: &mut Choices<'_>) -> Option<(&Array, Vec<u32>)> {
        let all: Vec<&Array> = self.arrays.iter().filter(|a| a.model.dtype == DType::U32).collect();
        let array = *(!all.is_empty()).then(|| c.of(&all))?;
        Some((array, array.model.bits.clone()))
    }

    /// Any index into `len` elements; now and then past them.
    fn index(&self, c: &mut Choices<'_>, len: usize) -> Index {
        let Some((x, values)) = self.unsigned(c) else {
            let at = c.next(len + 1) as u32;
            return Index { var: lit(at), model: vec![at], text: at.to_string() };
        };
        if c.next(4) == 0 {
            return Index { var: x.var.clone(), model: values, text: format!("a{}", x.name) };
        }
        let var = Var::apply(Op::Rem, DType::U32, &[&x.var, &lit(len as u32)]);
        let model = values.iter().map(|v| v % len as u32).collect();
        Index { var, model, text: format!("a{} % {len}", x.name) }
    }

    /// Another element on each of `size` lanes.
    fn own_elements(&self, c: &mut Choices<'_>, size: usize) -> Index {
        let lane = Var::counter(self.device, DType::U32, size as u64);
        let by = c.next(4) as u32;
        Index {
            var: Var::apply(Op::Xor, DType::U32, &[&lane, &lit(by)]),
            model: (0..size as u32).map(|i| i ^ by).collect(),
            text: format!("lane ^ {by} of {size}"),
        }
    }

    fn scatter(&self, c: &mut Choices<'_>, target: &Elements) -> Scatter {
        let dtype = target.dtype;
        let (op, combine) = *c.of(&[
            (Op::Scatter, None),
            (Op::ScatterAdd, Some(Op::Add)),
            (Op::ScatterMin, Some(Op::Min)),
            (Op::ScatterMax, Some(Op::Max)),
        ]);
        let any_order = combine.is_some() && !(dtype == DType::F32 && op == Op::ScatterAdd);
        let size = *c.of(&SIZES);
        let index = if any_order { self.index(c, target.len()) } else { self.own_elements(c, size) };
        let lanes = index.model.len();
        let fits = |a: &&Array| a.model.dtype == dtype && [1, lanes].contains(&a.model.len());
        let candidates: Vec<&Array> = self.arrays.iter().filter(fits).collect();
        let (value, values, name) = if candidates.is_empty() || c.next(3) == 0 {
            let bits = number(dtype, c.next(30) as i32);
            let elements = Elements { dtype, bits: vec![bits] };
            (Var::literal(dtype, u64::from(bits)), elements, format!("{bits:#x}"))
        } else {
            let a = *c.of(&candidates);
            (a.var.clone(), a.model.clone(), format!("a{}", a.name))
        };
        // The mask comes from the index, so that it always fits.
        let below = (c.next(3) == 0).then(|| c.next(8) as u32);
        let mask = below.map(|b| Var::apply(Op::Lt, DType::Bool, &[&index.var, &lit(b)]));
        let text = format!("{} {name} at {} if below {below:?}", op.name(), index.text);
        Scatter { op, combine, value, values, index, mask, below, text }
    }

    fn push(&mut self, var: Var, model: Elements, text: &str) {
        let _ = writeln!(self.log, "a{} = {text}", self.made);
        self.arrays.push(Array { var, model, name: self.made });
        self.made += 1;
    }
}

/// An index array, and its elements.
struct Index {
    var: Var,
    model: Vec<u32>,
    text: String,
}

/// A scatter to be done on both sides.
struct Scatter {
    op: Op,
    combine: Option<Op>,
    value: Var,
    values: Elements,
    index: Index,
    mask: Option<Var>,
    /// Lanes with an index below this take part.
    below: Option<u32>,
    text: String,
}

impl Scatter {
    fn on_model(&self, target: &mut Elements) {
        for (lane, &index) in self.index.model.iter().enumerate() {
            if self.below.is_none_or(|b| index < b) {
                target.scatter(self.combine, index, self.values.at(lane));
            }
        }
    }
}

fn compare(name: &str, var: &Var, model: &Elements) -> Result<(), String> {
    let bits: Vec<u32> = read_bits(var).into_iter().map(|b| b as u32).collect();
    if bits == model.bits {
        return Ok(());
    }
    Err(format!("{name} is {bits:x?}, not {:x?}", model.bits))
}

fn lit(value: u32) -> Var {
    Var::literal(DType::U32, u64::from(value))
}

fn sizes_fit(a: usize, b: usize) -> bool {
    a == b || a == 1 || b == 1
}

fn broadcast(a: usize, b: usize) -> usize {
    if a == 1 { b } else { a }
}
