//! Operators, in every form: value, reference or number on either side, and assigning.

use std::ops::{
    Add, AddAssign, BitAnd, BitAndAssign, BitOr, BitOrAssign, BitXor, BitXorAssign, Div, DivAssign, Mul,
    MulAssign, Neg, Not, Rem, RemAssign, Shl, ShlAssign, Shr, ShrAssign, Sub, SubAssign,
};

use half::f16;
use jit_core::op::Op;
use jit_core::trace::Var;

use crate::Array;
use crate::element::{Bits, Element, Int, Num, Signed};
use crate::operand::Operand;

macro_rules! binary {
    ($($class:ident { $($op:ident $trait:ident $method:ident $assign:ident $assign_method:ident;)* } $scalars:tt)*) => {
        $($(
            impl<T: $class, R: Operand<T>> $trait<R> for Array<T> {
                type Output = Array<T>;
                #[track_caller]
                fn $method(mut self, other: R) -> Array<T> {
                    self.binary_assign(Op::$op, &other);
                    self
                }
            }

            impl<T: $class, R: Operand<T>> $trait<R> for &Array<T> {
                type Output = Array<T>;
                #[track_caller]
                fn $method(self, other: R) -> Array<T> {
                    self.binary(Op::$op, &other)
                }
            }

            impl<T: $class, R: Operand<T>> $assign<R> for Array<T> {
                #[track_caller]
                fn $assign_method(&mut self, other: R) {
                    self.binary_assign(Op::$op, &other);
                }
            }

            scalar_left! { $op $trait $method $scalars }
        )*)*
    };
}

macro_rules! scalar_left {
    ($op:ident $trait:ident $method:ident [$($scalar:ty)*]) => {$(
        impl $trait<Array<$scalar>> for $scalar {
            type Output = Array<$scalar>;
            #[track_caller]
            fn $method(self, other: Array<$scalar>) -> Array<$scalar> {
                scalar_first(Op::$op, self, &other)
            }
        }

        impl $trait<&Array<$scalar>> for $scalar {
            type Output = Array<$scalar>;
            #[track_caller]
            fn $method(self, other: &Array<$scalar>) -> Array<$scalar> {
                scalar_first(Op::$op, self, other)
            }
        }
    )*};
}

binary! {
    Num {
        Add Add add AddAssign add_assign;
        Sub Sub sub SubAssign sub_assign;
        Mul Mul mul MulAssign mul_assign;
        Div Div div DivAssign div_assign;
        Rem Rem rem RemAssign rem_assign;
    } [i8 u8 i16 u16 i32 u32 i64 u64 f16 f32 f64]
    Bits {
        And BitAnd bitand BitAndAssign bitand_assign;
        Or BitOr bitor BitOrAssign bitor_assign;
        Xor BitXor bitxor BitXorAssign bitxor_assign;
    } [bool i8 u8 i16 u16 i32 u32 i64 u64]
    Int {
        Shl Shl shl ShlAssign shl_assign;
        Shr Shr shr ShrAssign shr_assign;
    } [i8 u8 i16 u16 i32 u32 i64 u64]
}

impl<T: Signed> Neg for Array<T> {
    type Output = Array<T>;
    #[track_caller]
    fn neg(self) -> Array<T> {
        self.unary(Op::Neg)
    }
}

impl<T: Signed> Neg for &Array<T> {
    type Output = Array<T>;
    #[track_caller]
    fn neg(self) -> Array<T> {
        self.unary(Op::Neg)
    }
}

impl<T: Bits> Not for Array<T> {
    type Output = Array<T>;
    #[track_caller]
    fn not(self) -> Array<T> {
        self.unary(Op::Not)
    }
}

impl<T: Bits> Not for &Array<T> {
    type Output = Array<T>;
    #[track_caller]
    fn not(self) -> Array<T> {
        self.unary(Op::Not)
    }
}

#[track_caller]
fn scalar_first<T: Element>(op: Op, scalar: T, array: &Array<T>) -> Array<T> {
    Array::from_var(Var::apply(op, T::DTYPE, &[&scalar.operand(), &array.var]))
}
