//! Proves that indices lie within memory, so that no lane has to test.
//!
//! One walk in the order of the text gives each integer value the interval in which it lies, from the
//! operands' intervals: literals, casts of narrower types, `and` with a mask, `rem` and `div`, shifts, `min` and `max`,
//! `mul_hi`, tables, sums and products that do not wrap, and the sides of selects and branches joined. Where an index
//! lies in `0..=M`, the access becomes `in_bounds` and the parameter's `min_len` at least M + 1; where it is at
//! most `counter`, the parameter `spans_lanes`. Who launches checks that once; if memory is shorter, it takes a kernel that
//! was compiled without this pass, or with [`Bounds::Within`] of lengths that hold.
//!
//! Keeps: every result. Facts are about values alone, never about the path taken (`while i < 16` proves nothing):
//! they hold for each lane that computes the operands, whatever its masks. Leaves alone: floats; the state of
//! loops, which is unbounded inside (after a loop it is its initial or its next value); indices that may pass
//! 2^30, for which memory would hardly be long enough.

use rustc_hash::FxHashMap;

use crate::dtype::{ALL_DTYPES, DType};
use crate::ir::{Block, Inst, Program, Value};
use crate::op::{Class, Op, scalar};

/// What the pass may rely on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Bounds {
    /// Nothing: the pass does not run.
    Off,
    /// Any length: whatever can be proved raises `min_len`.
    #[default]
    Any,
    /// Only what holds for such a launch.
    Within {
        /// The length of each parameter.
        lens: Vec<u64>,
        /// Base plus number of lanes.
        counter_end: u64,
    },
}

/// Proves that indices lie within memory.
pub fn run(program: &mut Program, bounds: &Bounds) {
    if *bounds == Bounds::Off {
        return;
    }
    let Program { params, tables, values, locals, body, finish, .. } = program;
    let tables = tables.iter().map(|table| {
        let elements = table.bits.iter().map(|&bits| Range::constant(table.dtype, bits));
        elements.reduce(Range::join).unwrap_or(Range::all(table.dtype))
    });
    let mut pass = Pass {
        tables: tables.collect(),
        ranges: values.iter().map(|&dtype| Range::all(dtype)).collect(),
        types: values,
        locals,
        params,
        bounds,
        by_lane: true,
    };
    pass.block(body);
    if let Some(finish) = finish {
        pass.by_lane = false;
        pass.block(finish);
    }
}

/// Lengths above this are not demanded of memory: a demand that is not met costs a second kernel, and any u32 lies below
/// 2^32.
const MAX_LEN: i128 = 1 << 30;

/// The integers from `low` to `high`. Floats have the interval of all bits and take part in nothing.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Range {
    low: i128,
    high: i128,
    /// Not above the lane's u64 counter.
    up_to_counter: bool,
}

impl Range {
    const fn new(low: i128, high: i128) -> Range {
        Range { low, high, up_to_counter: false }
    }

    const fn all(dtype: DType) -> Range {
        const ALL: [Range; ALL_DTYPES.len()] = {
            let mut all = [Range::new(0, 0); ALL_DTYPES.len()];
            let mut k = 0;
            while k < all.len() {
                let mask = ALL_DTYPES[k].mask() as i128;
                all[k] = if ALL_DTYPES[k].is_signed() {
                    Range::new(-(mask >> 1) - 1, mask >> 1)
                } else {
                    Range::new(0, mask)
                };
                k += 1;
            }
            all
        };
        ALL[dtype as usize]
    }

    fn constant(dtype: DType, bits: u64) -> Range {
        let value = match dtype.is_signed() {
            true => i128::from(scalar::cast(dtype, DType::I64, bits) as i64),
            false => i128::from(bits),
        };
        Range::new(value, value)
    }

    fn join(self, other: Range) -> Range {
        Range {
            low: self.low.min(other.low),
            high: self.high.max(other.high),
            up_to_counter: self.up_to_counter && other.up_to_counter,
        }
    }

    fn counted(self, up_to_counter: bool) -> Range {
        Range { up_to_counter, ..self }
    }

    /// This, if a value of that type can be all of it; else, where the value may have wrapped, the type's own.
    fn or_wrapped(self, dtype: DType) -> Range {
        let all = Range::all(dtype);
        if all.low <= self.low && self.high <= all.high { self } else { all }
    }

    const fn is_natural(self) -> bool {
        self.low >= 0
    }
}

struct Pass<'a> {
    params: &'a mut [crate::ir::Param],
    types: &'a [DType],
    locals: &'a FxHashMap<Value, u32>,
    tables: Vec<Range>,
    ranges: Vec<Range>,
    bounds: &'a Bounds,
    /// The counter is that of lanes, not of segments.
    by_lane: bool,
}

impl Pass<'_> {
    fn block(&mut self, block: &mut Block) {
        for inst in &mut block.insts {
            inst.blocks.iter_mut().for_each(|nested| self.block(nested));
            self.define(inst);
            if matches!(inst.op.class(), Class::Read | Class::Effect) && !inst.in_bounds {
                self.promise(inst);
            }
            if matches!(inst.op, Op::LocalRead | Op::LocalWrite) {
                let range = self.of(inst.index());
                let len = self.locals.get(&inst.args[0]).copied().unwrap_or(0);
                inst.in_bounds |= range.is_natural() && range.high < i128::from(len);
            }
        }
    }

    /// Gives the results their ranges.
    fn define(&mut self, inst: &Inst) {
        match inst.op {
            Op::Loop => self.join_results(inst, &inst.args, &inst.blocks[1].yields),
            Op::If | Op::Switch => {
                for (k, &result) in inst.results.iter().enumerate() {
                    let yields = inst.blocks.iter().map(|block| self.of(block.yields[k]));
                    self.ranges[result.index()] = yields.reduce(Range::join).expect("a branch has blocks");
                }
            }
            Op::IfAny => self.join_results(inst, &inst.args[1..], &inst.blocks[0].yields),
            _ => {
                if let [result] = inst.results[..]
                    && !self.types[result.index()].is_float()
                {
                    self.ranges[result.index()] = self.range(inst, self.types[result.index()]);
                }
            }
        }
    }

    fn join_results(&mut self, inst: &Inst, ones: &[Value], others: &[Value]) {
        for ((&result, &one), &other) in inst.results.iter().zip(ones).zip(others) {
            self.ranges[result.index()] = self.of(one).join(self.of(other));
        }
    }

    fn of(&self, value: Value) -> Range {
        self.ranges[value.index()]
    }

    /// The range of an integer or bool that an instruction gives.
    fn range(&self, inst: &Inst, dtype: DType) -> Range {
        let all = Range::all(dtype);
        let arg = |k: usize| self.of(inst.args[k]);
        match inst.op {
            Op::Literal => Range::constant(dtype, inst.imm),
            Op::Counter => all.counted(self.by_lane),
            Op::Lookup => self.tables[inst.table().index()],
            Op::Select => arg(1).join(arg(2)),
            Op::Cast | Op::Bitcast if self.types[inst.args[0].index()].is_float() => all,
            Op::Cast if dtype == DType::Bool => all,
            Op::Cast | Op::Bitcast => converted(arg(0), dtype),
            Op::CountOnes | Op::LeadingZeros | Op::TrailingZeros => {
                Range::new(0, i128::from(self.types[inst.args[0].index()].bits()))
            }
            Op::Neg => Range::new(-arg(0).high, -arg(0).low).or_wrapped(dtype),
            Op::Not => Range::new(all.low + all.high - arg(0).high, all.low + all.high - arg(0).low),
            Op::Abs => absolute(arg(0)).or_wrapped(dtype),
            Op::MulAdd => match product(arg(0), arg(1)) {
                Some(scaled) => sum(scaled, arg(2)).or_wrapped(dtype),
                None => all,
            },
            Op::Add
            | Op::Sub
            | Op::Mul
            | Op::MulHi
            | Op::Div
            | Op::Rem
            | Op::Min
            | Op::Minimum
            | Op::Max
            | Op::Maximum
            | Op::And
            | Op::Or
            | Op::Xor
            | Op::Shl
            | Op::Shr => binary(inst.op, arg(0), arg(1), dtype).or_wrapped(dtype),
            _ => all,
        }
    }

    /// Marks an access as in bounds if it is, or can be by what its parameter demands.
    fn promise(&mut self, inst: &mut Inst) {
        let range = self.of(inst.index());
        let at = inst.param().index();
        if !range.is_natural() {
            return;
        }
        let (len, counter_end) = match self.bounds {
            Bounds::Within { lens, counter_end } => (lens[at], *counter_end),
            _ => (u64::MAX, 0),
        };
        let param = &mut self.params[at];
        if range.high < MAX_LEN && range.high < i128::from(len) {
            param.min_len = param.min_len.max(range.high as u64 + 1);
            inst.in_bounds = true;
        } else if range.up_to_counter && counter_end <= len {
            param.spans_lanes = true;
            inst.in_bounds = true;
        }
    }
}

/// A conversion among integers keeps the low bits.
fn converted(a: Range, dtype: DType) -> Range {
    let wrapped = a.or_wrapped(dtype);
    // Fewer bits of a natural number are no larger, unless the highest becomes a sign.
    wrapped.counted(a.up_to_counter && a.is_natural() && wrapped.is_natural())
}

fn absolute(a: Range) -> Range {
    let low = if a.low > 0 { a.low } else { (-a.high).max(0) };
    Range::new(low, a.high.max(-a.low))
}

fn sum(a: Range, b: Range) -> Range {
    Range::new(a.low + b.low, a.high + b.high)
}

fn product(a: Range, b: Range) -> Option<Range> {
    let corners = [
        a.low.checked_mul(b.low)?,
        a.low.checked_mul(b.high)?,
        a.high.checked_mul(b.low)?,
        a.high.checked_mul(b.high)?,
    ];
    // Room for the addition of a `mul_add`.
    let limit = i128::MAX / 2;
    let range = Range::new(corners.into_iter().min()?, corners.into_iter().max()?);
    (-limit < range.low && range.high < limit).then_some(range)
}

/// The range before wrapping; a range that no value of the type can be stands for "unknown".
fn binary(op: Op, a: Range, b: Range, dtype: DType) -> Range {
    let all = Range::all(dtype);
    let natural = a.is_natural() && b.is_natural();
    match op {
        Op::Add => sum(a, b),
        Op::Sub => Range::new(a.low - b.high, a.high - b.low),
        Op::Mul => product(a, b).unwrap_or(all),
        Op::MulHi if natural => {
            let high_half = |x: i128, y: i128| ((x as u128 * y as u128) >> dtype.bits()) as i128;
            Range::new(high_half(a.low, b.low), high_half(a.high, b.high))
        }
        Op::Div if a.is_natural() && b.low >= 1 => {
            Range::new(a.low / b.high, a.high / b.low).counted(a.up_to_counter)
        }
        // x % 0 is x.
        Op::Rem if natural && b.low == 0 => Range::new(0, a.high).counted(a.up_to_counter),
        Op::Rem if natural => Range::new(0, a.high.min(b.high - 1)).counted(a.up_to_counter),
        Op::Rem if b.low >= 1 => Range::new(1 - b.high, b.high - 1),
        Op::Min | Op::Minimum => {
            Range::new(a.low.min(b.low), a.high.min(b.high)).counted(a.up_to_counter || b.up_to_counter)
        }
        Op::Max | Op::Maximum => {
            Range::new(a.low.max(b.low), a.high.max(b.high)).counted(a.up_to_counter && b.up_to_counter)
        }
        Op::And if natural => Range::new(0, a.high.min(b.high)).counted(a.up_to_counter || b.up_to_counter),
        Op::And if a.is_natural() => Range::new(0, a.high).counted(a.up_to_counter),
        Op::And if b.is_natural() => Range::new(0, b.high).counted(b.up_to_counter),
        Op::Or | Op::Xor if natural => {
            let highest = 128 - a.high.max(b.high).leading_zeros();
            Range::new(0, (1 << highest) - 1)
        }
        Op::Shl if natural && b.high < i128::from(dtype.bits()) => {
            // At most 64 bits by at most 63.
            Range::new(a.low << b.low, a.high.checked_mul(1 << b.high).unwrap_or(i128::MAX))
        }
        Op::Shr if natural => {
            let shifted = |x: i128, by: i128| if by < 64 { x >> by } else { 0 };
            Range::new(shifted(a.low, b.high), shifted(a.high, b.low)).counted(a.up_to_counter)
        }
        // Toward 0 or, for negative values, toward -1.
        Op::Shr => Range::new(a.low.min(0), a.high.max(-1)),
        _ => all,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BINARY: [Op; 15] = [
        Op::Add,
        Op::Sub,
        Op::Mul,
        Op::MulHi,
        Op::Div,
        Op::Rem,
        Op::Min,
        Op::Minimum,
        Op::Max,
        Op::Maximum,
        Op::And,
        Op::Or,
        Op::Xor,
        Op::Shl,
        Op::Shr,
    ];

    /// Intervals about the places where ops change their behaviour.
    fn intervals(dtype: DType) -> Vec<Range> {
        let ends: &[i128] = match dtype.is_signed() {
            true => &[-128, -127, -9, -1, 0, 1, 5, 8, 127],
            false => &[0, 1, 3, 7, 8, 9, 130, 254, 255],
        };
        let upwards =
            |&low: &i128| ends.iter().filter(move |&&high| low <= high).map(move |&h| Range::new(low, h));
        ends.iter().flat_map(upwards).collect()
    }

    fn bits(dtype: DType, value: i128) -> u64 {
        value as u64 & dtype.mask()
    }

    #[test]
    fn ranges_hold_every_result() {
        for dtype in [DType::U8, DType::I8] {
            for (a, b) in
                intervals(dtype).into_iter().flat_map(|a| intervals(dtype).into_iter().map(move |b| (a, b)))
            {
                for op in BINARY {
                    let range = binary(op, a, b, dtype).or_wrapped(dtype);
                    // All of the operands' ends and neighbours, and every third between.
                    for x in (a.low..=a.high).step_by(3).chain([a.high]) {
                        for y in (b.low..=b.high).step_by(3).chain([b.high]) {
                            let got = scalar::evaluate(op, dtype, dtype, &[bits(dtype, x), bits(dtype, y)]);
                            let got = Range::constant(dtype, got).low;
                            assert!(
                                range.low <= got && got <= range.high,
                                "{op:?} of {dtype} {x} in {a:?} and {y} in {b:?} is {got}, outside {range:?}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_counted_is_at_most_the_counter() {
        let dtype = DType::U8;
        for (a, b) in
            intervals(dtype).into_iter().flat_map(|a| intervals(dtype).into_iter().map(move |b| (a, b)))
        {
            for (a_counted, b_counted) in [(true, false), (false, true), (true, true)] {
                for op in BINARY {
                    let range =
                        binary(op, a.counted(a_counted), b.counted(b_counted), dtype).or_wrapped(dtype);
                    if !range.up_to_counter {
                        continue;
                    }
                    for x in [a.low, a.high] {
                        for y in [b.low, b.high] {
                            let got = scalar::evaluate(op, dtype, dtype, &[bits(dtype, x), bits(dtype, y)]);
                            // The least counter that both operands allow.
                            let counter = (if a_counted { x } else { 0 }).max(if b_counted { y } else { 0 });
                            assert!(i128::from(got) <= counter, "{op:?} of {x} and {y} is {got}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn only_lengths_that_hold_are_demanded() {
        let text = "param p0: in u32\nparam p1: in u32\nparam p2: in u32\nbody {
          v0: u32 = counter
          v1: u8 = cast v0
          v2: u32 = gather p0[v1]
          v3: u32 = gather p1[v1]
          v4: u32 = gather p2[v0]
        }";
        let promised = |lens: [u64; 3], counter_end: u64| -> Vec<bool> {
            let mut program = crate::ir::parse(text).expect("a program");
            run(&mut program, &Bounds::Within { lens: lens.to_vec(), counter_end });
            let need = program.required_lens(counter_end, 0, 0);
            assert!(need.iter().zip(lens).all(|(&need, len)| need <= len), "{need:?} of {lens:?}");
            program.body.insts.iter().filter(|i| i.op == Op::Gather).map(|i| i.in_bounds).collect()
        };
        assert_eq!(promised([256, 255, 10], 10), [true, true, true], "the second by the lanes");
        assert_eq!(promised([256, 255, 10], 1000), [true, false, false]);
    }
}
