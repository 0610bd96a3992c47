//! Where local arrays are stored, and where they must be copied.
//!
//! A local array is a value, but a lane's memory is not: this analysis gives every array of a block a *slot*, such that a
//! write happens in place wherever nobody can tell. Two arrays *interfere* if one is defined while the other, on the
//! same lane, is still needed; those have different slots. What is worth one slot, the array that a write changes and what
//! it gives, the state of a loop with its initial and its next value, the result of a branch with what its sides yield,
//! gets one unless it interferes, innermost loops first; what is left becomes a [`Move`]. (Coalescing of copies
//! after Chaitin and of φ-functions after Sreedhar et al., "Translating out of static single assignment form", 1999; that
//! blocks are nested makes liveness one backward walk.)
//!
//! `local_zeros` has no slot: what needs one fills it with zeros, and reading it gives 0.
//!
//! All of this is said of one lane. A code generator that runs many lanes at once keeps it true by moving and writing for
//! the active lanes alone.

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Block, Inst, Program, Value};
use crate::dtype::DType;
use crate::op::Op;

/// Where the local arrays of a body or finish are stored.
#[derive(Clone, Debug, Default)]
pub struct Places {
    slots: Vec<Slot>,
    /// The slots that arrays have; none for zeros.
    of: FxHashMap<Value, usize>,
    /// By kind of slot one that nothing else uses, where moves go round in a circle.
    spare: FxHashMap<Slot, usize>,
}

/// Memory of a lane.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Slot {
    /// The element type.
    pub dtype: DType,
    /// The number of elements.
    pub len: u32,
}

/// A slot becomes what another is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Move {
    /// The other one; zeros if there is none.
    pub from: Option<usize>,
    /// The one.
    pub to: usize,
}

impl Places {
    /// The places of the local arrays in a verified program's body or finish.
    pub fn of(program: &Program, block: &Block) -> Places {
        if program.locals.is_empty() {
            return Places::default();
        }
        let mut walk = Walk::new(program);
        walk.number(block);
        if walk.arrays.is_empty() {
            return Places::default();
        }
        let mut live = FxHashSet::default();
        walk.block(block, &mut live, 0);
        let mut places = walk.colour();
        places.find_circles(block);
        places
    }

    /// The memory of a lane.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// The bytes of all slots.
    pub fn bytes(&self) -> u64 {
        self.slots.iter().map(|slot| u64::from(slot.len) * slot.dtype.size() as u64).sum()
    }

    /// The slot of a local array; none of zeros, and of what is no local array.
    pub fn slot(&self, array: Value) -> Option<usize> {
        self.of.get(&array).copied()
    }

    /// What to do, in this order, so that the arrays among `targets` become those among `sources`, all at once.
    pub fn moves(&self, sources: &[Value], targets: &[Value]) -> Vec<Move> {
        let pairs = sources.iter().zip(targets);
        let wanted =
            pairs.filter_map(|(&from, &to)| Some(Move { from: self.slot(from), to: self.slot(to)? }));
        let mut open: Vec<Move> = wanted.filter(|m| m.from != Some(m.to)).collect();
        let mut done = Vec::with_capacity(open.len());
        while !open.is_empty() {
            let is_source = |slot: usize| open.iter().any(|m| m.from == Some(slot));
            if let Some(ready) = open.iter().position(|m| !is_source(m.to)) {
                done.push(open.swap_remove(ready));
                continue;
            }
            // Only circles are left. The first one's target is kept for who needs it.
            let kept = open[0].to;
            let spare = self.spare.get(&self.slots[kept]).copied().unwrap_or(usize::MAX);
            done.push(Move { from: Some(kept), to: spare });
            open.iter_mut().filter(|m| m.from == Some(kept)).for_each(|m| m.from = Some(spare));
        }
        done
    }

    /// The moves before a write to a local array, so that it changes its own slot.
    pub fn moves_of_write(&self, write: &Inst) -> Vec<Move> {
        self.moves(&write.args[..1], &write.results)
    }

    /// The number of moves from slot to slot, not counting zeros, that stand in a block and those nested in it.
    pub fn copies(&self, block: &Block) -> usize {
        let mut count = 0;
        let mut add = |moves: Vec<Move>| count += moves.iter().filter(|m| m.from.is_some()).count();
        block.for_each_inst(&mut |inst| self.edges(inst).into_iter().for_each(&mut add));
        count
    }

    /// All lists of moves of an instruction.
    fn edges(&self, inst: &Inst) -> Vec<Vec<Move>> {
        match inst.op {
            Op::LocalWrite => vec![self.moves_of_write(inst)],
            Op::Loop => {
                let state = &inst.blocks[0].params;
                vec![self.moves(&inst.args, state), self.moves(&inst.blocks[1].yields, state)]
            }
            _ => inst.blocks.iter().map(|side| self.moves(&side.yields, &inst.results)).collect(),
        }
    }

    /// Adds slots for where moves go round in a circle.
    fn find_circles(&mut self, block: &Block) {
        let mut kinds = Vec::new();
        block.for_each_inst(&mut |inst| {
            for moves in self.edges(inst) {
                for pair in moves.iter().filter(|m| m.to == usize::MAX) {
                    kinds.push(self.slots[pair.from.expect("a circle has no zeros")]);
                }
            }
        });
        for kind in kinds {
            self.spare.entry(kind).or_insert_with(|| {
                self.slots.push(kind);
                self.slots.len() - 1
            });
        }
    }
}

/// The numbers of arrays that some lane may still need.
type Live = FxHashSet<u32>;

struct Walk<'a> {
    program: &'a Program,
    /// The arrays that need a slot, in the order of their definitions; their positions are their numbers.
    arrays: Vec<Value>,
    numbers: FxHashMap<Value, u32>,
    interferes: Vec<FxHashSet<u32>>,
    /// What is worth one slot: how many loops there are around it, the number of the array that is there, and of the one
    /// that becomes of it. From the end of the program.
    worth: Vec<(usize, u32, u32)>,
    /// Results of loops with the state that they are.
    same: Vec<(u32, u32)>,
}

impl<'a> Walk<'a> {
    fn new(program: &'a Program) -> Self {
        let (arrays, numbers, interferes) = (Vec::new(), FxHashMap::default(), Vec::new());
        Walk { program, arrays, numbers, interferes, worth: Vec::new(), same: Vec::new() }
    }

    /// Numbers the arrays.
    fn number(&mut self, block: &Block) {
        let define = |walk: &mut Self, values: &[Value]| {
            for &value in values.iter().filter(|&&v| walk.program.local_len(v).is_some()) {
                walk.numbers.insert(value, walk.arrays.len() as u32);
                walk.arrays.push(value);
                walk.interferes.push(FxHashSet::default());
            }
        };
        define(self, &block.params);
        for inst in &block.insts {
            inst.blocks.iter().for_each(|nested| self.number(nested));
            if inst.op != Op::LocalZeros {
                define(self, &inst.results);
            }
        }
    }

    fn numbers(&self, values: &[Value]) -> Vec<u32> {
        values.iter().filter_map(|value| self.numbers.get(value).copied()).collect()
    }

    /// Values come to be, all at once, while others are needed.
    fn define(&mut self, values: &[Value], live: &mut Live) {
        let defined = self.numbers(values);
        for (k, &value) in defined.iter().enumerate() {
            let others = live.iter().chain(&defined[..k]).copied().filter(|&other| other != value);
            for other in others.collect::<Vec<_>>() {
                self.interferes[value as usize].insert(other);
                self.interferes[other as usize].insert(value);
            }
        }
        defined.iter().for_each(|value| {
            live.remove(value);
        });
    }

    fn wish(&mut self, depth: usize, sources: &[Value], targets: &[Value]) {
        for (source, target) in sources.iter().zip(targets).rev() {
            if let (Some(&from), Some(&to)) = (self.numbers.get(source), self.numbers.get(target)) {
                self.worth.push((depth, from, to));
            }
        }
    }

    /// From what is needed after a block to what is needed before it. What it yields counts as needed after it.
    fn block(&mut self, block: &Block, live: &mut Live, depth: usize) {
        live.extend(self.numbers(&block.yields));
        for inst in block.insts.iter().rev() {
            if inst.op == Op::Loop {
                self.run_loop(inst, live, depth);
            } else if !inst.blocks.is_empty() {
                self.branch(inst, live, depth);
            } else {
                self.define(&inst.results, live);
                if inst.op == Op::LocalWrite {
                    self.wish(depth, &inst.args[..1], &inst.results);
                }
                live.extend(self.numbers(&inst.args));
            }
        }
    }

    fn run_loop(&mut self, inst: &Inst, live: &mut Live, depth: usize) {
        let [condition, body] = &inst.blocks[..] else { unreachable!("a loop has two blocks") };
        let state = &condition.params;
        self.define(&inst.results, live);
        for (result, state) in inst.results.iter().zip(state) {
            if let (Some(&result), Some(&state)) = (self.numbers.get(result), self.numbers.get(state)) {
                self.same.push((result, state));
            }
        }
        // Whatever the loop uses from outside it may use again.
        let outside = self.used_from_outside(inst);
        live.extend(outside);
        let mut inside = live.clone();
        self.wish(depth + 1, &body.yields, state);
        self.block(body, &mut inside, depth + 1);
        inside.extend(self.numbers(state));
        self.block(condition, &mut inside, depth + 1);
        self.define(state, &mut inside);
        self.wish(depth, &inst.args, state);
        live.extend(inside);
        live.extend(self.numbers(&inst.args));
    }

    fn branch(&mut self, inst: &Inst, live: &mut Live, depth: usize) {
        self.define(&inst.results, live);
        let after = live.clone();
        for side in inst.blocks.iter().rev() {
            self.wish(depth, &side.yields, &inst.results);
            let mut inside = after.clone();
            self.block(side, &mut inside, depth);
            live.extend(inside);
        }
        live.extend(self.numbers(&inst.args));
    }

    /// The arrays that an instruction's blocks use and do not define.
    fn used_from_outside(&self, inst: &Inst) -> Live {
        let (mut used, mut defined) = (Live::default(), Live::default());
        for block in &inst.blocks {
            defined.extend(self.numbers(&block.params));
            used.extend(self.numbers(&block.yields));
            block.for_each_inst(&mut |inst| {
                used.extend(self.numbers(&inst.args));
                defined.extend(self.numbers(&inst.results));
                for nested in &inst.blocks {
                    defined.extend(self.numbers(&nested.params));
                    used.extend(self.numbers(&nested.yields));
                }
            });
        }
        used.retain(|value| !defined.contains(value));
        used
    }

    /// Puts together what is worth one slot and does not interfere, and gives the rest as few slots as it needs.
    fn colour(mut self) -> Places {
        let mut classes = Classes {
            parents: (0..self.arrays.len() as u32).collect(),
            interferes: std::mem::take(&mut self.interferes),
        };
        for &(result, state) in &self.same {
            classes.join(result, state);
        }
        self.worth.reverse();
        self.worth.sort_by_key(|&(depth, ..)| std::cmp::Reverse(depth));
        for &(_, from, to) in &self.worth {
            let (from, to) = (classes.find(from), classes.find(to));
            if from != to && !classes.interferes[from as usize].contains(&to) {
                classes.join(from, to);
            }
        }
        let mut places = Places::default();
        let mut slots: Vec<Option<usize>> = vec![None; self.arrays.len()];
        for (number, &array) in self.arrays.iter().enumerate() {
            let class = classes.find(number as u32) as usize;
            let slot = slots[class].unwrap_or_else(|| {
                let len = self.program.local_len(array).expect("a local array");
                let kind = Slot { dtype: self.program.dtype(array), len };
                let taken: FxHashSet<usize> =
                    classes.interferes[class].iter().filter_map(|&other| slots[other as usize]).collect();
                let free = (0..places.slots.len()).find(|s| places.slots[*s] == kind && !taken.contains(s));
                free.unwrap_or_else(|| {
                    places.slots.push(kind);
                    places.slots.len() - 1
                })
            });
            slots[class] = Some(slot);
            places.of.insert(array, slot);
        }
        places
    }
}

/// Arrays that have one slot together.
struct Classes {
    /// Each one's next towards the one that stands for its class.
    parents: Vec<u32>,
    /// By class the classes that it interferes with.
    interferes: Vec<FxHashSet<u32>>,
}

impl Classes {
    fn find(&mut self, array: u32) -> u32 {
        let mut end = array;
        while self.parents[end as usize] != end {
            end = self.parents[end as usize];
        }
        let mut at = array;
        while at != end {
            at = std::mem::replace(&mut self.parents[at as usize], end);
        }
        end
    }

    fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.find(a), self.find(b));
        if a == b {
            return;
        }
        self.parents[b as usize] = a;
        for other in std::mem::take(&mut self.interferes[b as usize]) {
            let others = &mut self.interferes[other as usize];
            others.remove(&b);
            others.insert(a);
            self.interferes[a as usize].insert(other);
        }
    }
}
