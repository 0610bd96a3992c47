//! Ops on lanes: all values of a type with all others, in every form that operands have.

use jit_core::dtype::{ALL_DTYPES, DType};
use jit_core::op::{Class, Op, Rule, scalar};
use jit_core::runtime::Device;
use jit_core::trace::{Var, while_loop};

use super::values::{all, few, product};
use super::{Asked, meaning};
use crate::host::{lit, upload_bits};
use crate::semantics::check::{Column, apply, show};

/// An op whose last operand has this type, and, where that does not follow, the type of its result.
#[derive(Clone, Copy)]
pub(super) struct Typed {
    pub(super) op: Op,
    pub(super) dtype: DType,
    pub(super) wanted: DType,
}

impl Typed {
    fn operands(self) -> Vec<DType> {
        let mut types = vec![self.dtype; self.op.arity()];
        if self.op == Op::Select {
            types[0] = DType::Bool;
        }
        types
    }

    #[track_caller]
    fn apply(self, args: &[Var]) -> Var {
        Var::apply(self.op, self.wanted, &args.iter().collect::<Vec<_>>())
    }

    fn moves_bits(self) -> bool {
        matches!(self.op, Op::Neg | Op::Abs | Op::CopySign | Op::Select | Op::Bitcast)
            || self.op == Op::Cast && self.dtype == self.wanted
    }

    /// By its definition; what a mathematical function gives, its lowering says, on literals before any device.
    fn expected(self, args: &[u64]) -> u64 {
        let Typed { op, dtype, wanted } = self;
        if op.class() == Class::Math {
            let literals: Vec<Var> = args.iter().map(|&bits| Var::literal(dtype, bits)).collect();
            return self.apply(&literals).literal_bits().expect("an op on literals is a literal");
        }
        match op.rule() {
            Rule::Cast => meaning::cast(dtype, wanted, args[0]),
            Rule::Bitcast => args[0],
            Rule::CountBits => meaning::count_bits(op, dtype, args[0]),
            _ => meaning::of(op, dtype, args),
        }
    }

    fn column(self, args: &[Column]) -> Vec<u64> {
        let rows = 0..args[0].bits.len();
        rows.map(|row| self.expected(&args.iter().map(|c| c.bits[row]).collect::<Vec<_>>())).collect()
    }

    fn asked(self, form: &str, args: Vec<Column>, got: Var) -> Asked {
        let expected = self.column(&args);
        Asked { form: form.to_owned(), args, got, expected, moves_bits: self.moves_bits() }
    }

    /// All values of few operands, some of many or where each takes a while.
    fn sets(self) -> Vec<(DType, Vec<u64>)> {
        let some = self.op.arity() > 2 || self.op.class() == Class::Math && self.op.arity() > 1;
        self.operands().into_iter().map(|t| (t, if some { few(t) } else { all(t) })).collect()
    }

    /// The values of the op in every form.
    pub(super) fn ask(self, device: Device) -> Vec<Asked> {
        let upload = |args: &[Column]| -> Vec<Var> {
            args.iter().map(|c| upload_bits(device, c.dtype, &c.bits)).collect()
        };
        let columns = product(&self.sets());
        let arrays = upload(&columns);
        let mut asked = vec![self.asked("evaluated arrays", columns.clone(), self.apply(&arrays))];
        // Code that takes long to compile; the tests of mathematics ask for the other forms.
        if self.op.class() == Class::Math {
            return asked;
        }
        asked.push(self.asked("in a loop", columns.clone(), self.in_a_loop(device, &arrays)));
        let ones = self.operands().into_iter().map(|t| (t, few(t))).collect::<Vec<_>>();
        let rows = product(&ones);
        for row in 0..rows[0].bits.len() {
            let args: Vec<Column> =
                rows.iter().map(|c| Column { dtype: c.dtype, bits: vec![c.bits[row]] }).collect();
            let literals: Vec<Var> = args.iter().map(|c| Var::full(device, c.dtype, c.bits[0], 1)).collect();
            asked.push(self.asked("literals", args, self.apply(&literals)));
        }
        let positions = if columns.len() > 1 { columns.len() } else { 0 };
        for position in 0..positions {
            for literal in few(columns[position].dtype) {
                let mut sets = self.sets();
                sets[position].1 = vec![literal];
                let args = product(&sets);
                let mut operands = upload(&args);
                operands[position] = Var::literal(args[position].dtype, literal);
                let got = self.apply(&operands);
                asked.push(self.asked(&format!("operand {position} a literal"), args, got));
            }
        }
        asked
    }

    /// One operand is captured by a loop that runs once, the others are its state.
    fn in_a_loop(self, device: Device, arrays: &[Var]) -> Var {
        let (captured, carried) = arrays.split_at(usize::from(arrays.len() > 1));
        let result = self.apply(&self.operands().iter().map(|&t| Var::literal(t, 0)).collect::<Vec<_>>());
        let mut state = vec![lit(0u32), result];
        state.extend_from_slice(carried);
        let out = while_loop(
            device,
            &state,
            |s| apply(Op::Lt, &[&s[0], &lit(1u32)]),
            |s| {
                let operands: Vec<Var> = captured.iter().chain(&s[2..]).cloned().collect();
                let mut next = vec![apply(Op::Add, &[&s[0], &lit(1u32)]), self.apply(&operands)];
                next.extend_from_slice(&s[2..]);
                next
            },
        );
        out[1].clone()
    }
}

/// What folds literals agrees with the definitions, at all values.
#[test]
fn literals_fold_by_the_definitions() {
    let ops = super::rows::lane_ops().into_iter().filter(|(op, _)| op.class() == Class::Lane);
    for (op, wanted) in ops {
        for dtype in ALL_DTYPES {
            let typed = Typed { op, dtype, wanted: wanted.unwrap_or(dtype) };
            let Ok(out) = op.result_type(&typed.operands(), typed.wanted) else { continue };
            let columns = product(&typed.sets());
            for (row, &expected) in typed.column(&columns).iter().enumerate() {
                let args: Vec<u64> = columns.iter().map(|c| c.bits[row]).collect();
                let got = scalar::evaluate(op, dtype, out, &args);
                let fits = crate::semantics::check::same(out, expected, got, typed.moves_bits());
                let (got, expected) = (show(out, got), show(out, expected));
                assert!(fits, "{} on {dtype} {args:x?}: {got}, not {expected}", op.name());
            }
        }
    }
}
