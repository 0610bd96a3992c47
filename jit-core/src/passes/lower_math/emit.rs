//! The vocabulary in which the algorithms are written: every operator and method emits one instruction.
//!
//! `r - rz.mul_add(p, w)` emits a `mul_add` and a `sub`, in the order in which Rust evaluates them. Rust
//! numbers become literals of the type of their partner; equal literals are emitted once per block.

use std::cell::RefCell;
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Shl, Shr, Sub};

use rustc_hash::FxHashMap;

use crate::dtype::DType;
use crate::ir::{Builder, Inst, Program, Value};
use crate::op::{Op, scalar};

/// Where the instructions go.
pub(super) struct Emitter {
    builder: RefCell<Builder>,
    /// What each block that is being rebuilt has to offer, outermost block first.
    scopes: RefCell<Vec<Scope>>,
}

/// Values that later instructions of a block, and the blocks in it, may use again.
#[derive(Default)]
struct Scope {
    literals: FxHashMap<(DType, u64), Value>,
    /// The reduction of each angle, which its sine and cosine share. (It holds a cold block, and those are not
    /// merged by later passes.)
    angles: FxHashMap<Value, [Value; 3]>,
}

/// A value, and the emitter that takes what is computed from it.
#[derive(Clone, Copy)]
pub(super) struct Expr<'e> {
    emitter: &'e Emitter,
    value: Value,
}

/// What may stand beside an expression: another one, or a number.
pub(super) trait Operand<'e> {
    /// The expression; a number becomes a literal of the type of `like`.
    fn expr(self, like: Expr<'e>) -> Expr<'e>;
}

impl Emitter {
    /// An emitter whose values and tables are added to those of `program`.
    pub(super) fn extending(program: Program) -> Self {
        Emitter { builder: RefCell::new(Builder::extending(program)), scopes: RefCell::default() }
    }

    /// The program with the new values and tables.
    pub(super) fn into_program(self) -> Program {
        self.builder.into_inner().into_block().0
    }

    /// Runs `f` with a fresh scope: what is emitted in it is seen only in it.
    pub(super) fn scope<T>(&self, f: impl FnOnce() -> T) -> T {
        self.scopes.borrow_mut().push(Scope::default());
        let result = f();
        self.scopes.borrow_mut().pop();
        result
    }

    /// Makes a literal that the block already holds known for reuse.
    pub(super) fn remember_literal(&self, dtype: DType, bits: u64, value: Value) {
        let mut scopes = self.scopes.borrow_mut();
        scopes.last_mut().expect("an open scope").literals.entry((dtype, bits)).or_insert(value);
    }

    /// The instructions that `f` emits, and the value that it returns.
    pub(super) fn record<'e>(&'e self, f: impl FnOnce() -> Expr<'e>) -> (Vec<Inst>, Value) {
        self.builder.borrow_mut().open_block(&[]);
        let result = f();
        (self.builder.borrow_mut().close_block(&[]).insts, result.value)
    }

    /// An expression for a value of the program.
    pub(super) fn value(&self, value: Value) -> Expr<'_> {
        Expr { emitter: self, value }
    }

    /// A literal.
    pub(super) fn literal(&self, dtype: DType, bits: u64) -> Expr<'_> {
        let known = self.find(|scope| scope.literals.get(&(dtype, bits)).copied());
        let value = known.unwrap_or_else(|| {
            let value = self.builder.borrow_mut().literal(dtype, bits);
            self.remember_literal(dtype, bits, value);
            value
        });
        self.value(value)
    }

    /// The reduction of `angle`, by `f` if it is the first in scope.
    pub(super) fn once_per_angle<'e>(
        &'e self,
        angle: Expr<'e>,
        f: impl FnOnce() -> [Expr<'e>; 3],
    ) -> [Expr<'e>; 3] {
        let known = self.find(|scope| scope.angles.get(&angle.value).copied());
        let values = known.unwrap_or_else(|| {
            let values = f().map(|e| e.value);
            let mut scopes = self.scopes.borrow_mut();
            scopes.last_mut().expect("an open scope").angles.insert(angle.value, values);
            values
        });
        values.map(|v| self.value(v))
    }

    fn find<T>(&self, get: impl Fn(&Scope) -> Option<T>) -> Option<T> {
        self.scopes.borrow().iter().rev().find_map(get)
    }

    /// A float literal, rounded to the type.
    pub(super) fn float(&self, dtype: DType, value: f64) -> Expr<'_> {
        self.literal(dtype, scalar::cast(DType::F64, dtype, value.to_bits()))
    }

    /// An integer literal, wrapped to the type.
    pub(super) fn int(&self, dtype: DType, value: i64) -> Expr<'_> {
        self.literal(dtype, value as u64 & dtype.mask())
    }

    /// An element of a constant table.
    pub(super) fn lookup<'e>(&'e self, dtype: DType, table: &[u64], index: Expr<'e>) -> Expr<'e> {
        let mut builder = self.builder.borrow_mut();
        let table = builder.table(dtype, table);
        let value = builder.lookup(table, index.value);
        drop(builder);
        self.value(value)
    }
}

impl<'e> Expr<'e> {
    /// Its element type.
    pub(super) fn dtype(self) -> DType {
        self.emitter.builder.borrow().dtype(self.value)
    }

    /// The emitter.
    pub(super) fn emitter(self) -> &'e Emitter {
        self.emitter
    }

    /// A float of the same type.
    pub(super) fn float(self, value: f64) -> Expr<'e> {
        self.emitter.float(self.dtype(), value)
    }

    fn apply(self, op: Op, others: &[Expr<'e>]) -> Expr<'e> {
        let args: Vec<Value> = [self].iter().chain(others).map(|e| e.value).collect();
        let value = self.emitter.builder.borrow_mut().op(op, &args);
        self.emitter.value(value)
    }

    fn binary(self, op: Op, other: impl Operand<'e>) -> Expr<'e> {
        self.apply(op, &[other.expr(self)])
    }

    /// `self * factor + addend`, rounded once.
    pub(super) fn mul_add(self, factor: impl Operand<'e>, addend: impl Operand<'e>) -> Expr<'e> {
        self.apply(Op::MulAdd, &[factor.expr(self), addend.expr(self)])
    }

    /// The polynomial with these coefficients, constant first, by Horner's rule.
    pub(super) fn polynomial(self, coefficients: &[f64]) -> Expr<'e> {
        let [rest @ .., highest] = coefficients else { panic!("a polynomial without coefficients") };
        rest.iter().rev().fold(self.float(*highest), |sum, &c| sum.mul_add(self, c))
    }

    /// Where `self` (a bool) holds the first, else the second; one of them must be an expression.
    pub(super) fn select(self, then: impl Operand<'e>, otherwise: Expr<'e>) -> Expr<'e> {
        self.apply(Op::Select, &[then.expr(otherwise), otherwise])
    }

    /// The value of the block where `self` (a bool) holds, else the fallback; the block is cold.
    pub(super) fn if_any<const N: usize>(
        self,
        fallback: [Expr<'e>; N],
        block: impl FnOnce() -> [Expr<'e>; N],
    ) -> [Expr<'e>; N] {
        let emitter = self.emitter;
        emitter.builder.borrow_mut().open_block(&[]);
        let yields = emitter.scope(block).map(|e| e.value);
        let mut builder = emitter.builder.borrow_mut();
        let block = builder.close_block(&yields);
        let args: Vec<Value> = [self].iter().chain(&fallback).map(|e| e.value).collect();
        let types = yields.map(|v| builder.dtype(v));
        let results = builder.inst(Op::IfAny, 0, &args, &types, vec![block]);
        drop(builder);
        std::array::from_fn(|i| emitter.value(results[i]))
    }

    /// Conversion by value.
    pub(super) fn cast(self, to: DType) -> Expr<'e> {
        let value = self.emitter.builder.borrow_mut().cast(to, self.value);
        self.emitter.value(value)
    }

    /// The same bits as another type.
    pub(super) fn bitcast(self, to: DType) -> Expr<'e> {
        let value = self.emitter.builder.borrow_mut().bitcast(to, self.value);
        self.emitter.value(value)
    }
}

macro_rules! methods {
    ($($name:ident($($other:ident)?) $op:ident;)*) => {
        impl<'e> Expr<'e> {$(
            pub(super) fn $name(self $(, $other: impl Operand<'e>)?) -> Expr<'e> {
                self.apply(Op::$op, &[$($other.expr(self))?])
            }
        )*}
    };
}

methods! {
    abs() Abs;
    sqrt() Sqrt;
    floor() Floor;
    copysign(sign) CopySign;
    mul_hi(other) MulHi;
    max(other) Max;
    eq(other) Eq;
    ne(other) Ne;
    lt(other) Lt;
    gt(other) Gt;
}

macro_rules! operators {
    ($($trait:ident $method:ident $op:ident;)*) => {$(
        impl<'e, R: Operand<'e>> $trait<R> for Expr<'e> {
            type Output = Expr<'e>;
            fn $method(self, other: R) -> Expr<'e> {
                self.binary(Op::$op, other)
            }
        }
    )*};
}

operators! {
    Add add Add;
    Sub sub Sub;
    Mul mul Mul;
    Div div Div;
    BitAnd bitand And;
    BitOr bitor Or;
    BitXor bitxor Xor;
    Shl shl Shl;
    Shr shr Shr;
}

impl<'e> Neg for Expr<'e> {
    type Output = Expr<'e>;
    fn neg(self) -> Expr<'e> {
        self.apply(Op::Neg, &[])
    }
}

impl<'e> Not for Expr<'e> {
    type Output = Expr<'e>;
    fn not(self) -> Expr<'e> {
        self.apply(Op::Not, &[])
    }
}

impl<'e> Operand<'e> for Expr<'e> {
    fn expr(self, _: Expr<'e>) -> Expr<'e> {
        self
    }
}

impl<'e> Operand<'e> for f64 {
    fn expr(self, like: Expr<'e>) -> Expr<'e> {
        like.float(self)
    }
}

impl<'e> Operand<'e> for i64 {
    fn expr(self, like: Expr<'e>) -> Expr<'e> {
        like.emitter.int(like.dtype(), self)
    }
}
