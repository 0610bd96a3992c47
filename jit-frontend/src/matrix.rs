//! [`Matrix`] of [`Real`] numbers.

use std::array;
use std::hash::Hasher;
use std::ops::{Add, Mul, Neg, Sub};

use crate::traverse::{Rebuilder, Traverse, Visitor};
use crate::{Real, Vec2, Vec3, Vec4};

/// A matrix of `ROWS` rows and `COLS` columns, stored row by row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Matrix<A, const ROWS: usize, const COLS: usize> {
    /// The rows.
    pub rows: [[A; COLS]; ROWS],
}

impl<A, const ROWS: usize, const COLS: usize> Matrix<A, ROWS, COLS> {
    /// A matrix of these rows.
    pub fn from_rows(rows: [[A; COLS]; ROWS]) -> Self {
        Matrix { rows }
    }

    /// The function's results at each row and column.
    #[track_caller]
    pub fn from_fn(mut f: impl FnMut(usize, usize) -> A) -> Self {
        Matrix { rows: array::from_fn(|r| array::from_fn(|c| f(r, c))) }
    }
}

impl<A: Clone, const ROWS: usize, const COLS: usize> Matrix<A, ROWS, COLS> {
    /// A matrix of these columns.
    pub fn from_columns(columns: [[A; ROWS]; COLS]) -> Self {
        Matrix::from_fn(|r, c| columns[c][r].clone())
    }

    /// Rows and columns exchanged.
    #[must_use]
    pub fn transpose(&self) -> Matrix<A, COLS, ROWS> {
        Matrix::from_fn(|r, c| self.rows[c][r].clone())
    }

    /// A column.
    ///
    /// # Panics
    /// If there is none of that number.
    #[track_caller]
    pub fn column(&self, c: usize) -> [A; ROWS] {
        array::from_fn(|r| self.rows[r][c].clone())
    }
}

impl<R: Real, const ROWS: usize, const COLS: usize> Matrix<R, ROWS, COLS> {
    /// All zeros.
    pub fn zeros() -> Self {
        Matrix::from_fn(|_, _| R::lit(0.0))
    }

    /// Each element multiplied by a number.
    #[must_use]
    #[track_caller]
    pub fn scale(&self, factor: &R) -> Self {
        Matrix::from_fn(|r, c| self.rows[r][c].clone() * factor.clone())
    }

    /// The product with a column: each element is the first product, the others added to it by `mul_add` in order.
    #[track_caller]
    pub fn mul_array(&self, column: &[R; COLS]) -> [R; ROWS] {
        array::from_fn(|r| inner(COLS, |k| (self.rows[r][k].clone(), column[k].clone())))
    }
}

impl<R: Real, const N: usize> Matrix<R, N, N> {
    /// Ones on the diagonal.
    pub fn identity() -> Self {
        Matrix::from_fn(|r, c| R::lit(if r == c { 1.0 } else { 0.0 }))
    }

    /// These numbers on the diagonal.
    pub fn from_diagonal(diagonal: [R; N]) -> Self {
        Matrix::from_fn(|r, c| if r == c { diagonal[r].clone() } else { R::lit(0.0) })
    }
}

/// The sum of `n` products, the first one rounded, the others added by `mul_add` in order.
#[track_caller]
fn inner<R: Real>(n: usize, factors: impl Fn(usize) -> (R, R)) -> R {
    if n == 0 {
        return R::lit(0.0);
    }
    let (a, b) = factors(0);
    let mut sum = a * b;
    for k in 1..n {
        let (a, b) = factors(k);
        sum = a.mul_add(b, sum);
    }
    sum
}

/// `a * d - b * c`, the first product unrounded.
#[track_caller]
fn minor<R: Real>([a, b, c, d]: [&R; 4]) -> R {
    a.mul_add(d.clone(), -(b.clone() * c.clone()))
}

impl<R: Real> Matrix<R, 2, 2> {
    /// The determinant.
    #[track_caller]
    pub fn determinant(&self) -> R {
        let [[a, b], [c, d]] = &self.rows;
        minor([a, b, c, d])
    }

    /// The inverse, by cofactors over the determinant. Infinite or NaN where the determinant is 0.
    #[must_use]
    #[track_caller]
    pub fn inverse(&self) -> Self {
        let [[a, b], [c, d]] = self.rows.clone();
        Matrix { rows: [[d, -b], [-c, a]] }.scale(&self.determinant().recip())
    }
}

impl<R: Real> Matrix<R, 3, 3> {
    fn cofactors(&self) -> Self {
        // Rows and columns after this one in turn make the signs by themselves.
        let at = |r: usize, c: usize| &self.rows[r % 3][c % 3];
        Matrix::from_fn(|r, c| {
            minor([at(r + 1, c + 1), at(r + 1, c + 2), at(r + 2, c + 1), at(r + 2, c + 2)])
        })
    }

    /// The determinant, along the first row.
    #[track_caller]
    pub fn determinant(&self) -> R {
        self.along_first_row(&self.cofactors())
    }

    #[track_caller]
    fn along_first_row(&self, cofactors: &Self) -> R {
        inner(3, |k| (self.rows[0][k].clone(), cofactors.rows[0][k].clone()))
    }

    /// The inverse, by cofactors over the determinant. Infinite or NaN where the determinant is 0.
    #[must_use]
    #[track_caller]
    pub fn inverse(&self) -> Self {
        let cofactors = self.cofactors();
        cofactors.transpose().scale(&self.along_first_row(&cofactors).recip())
    }
}

impl<R: Real> Matrix<R, 4, 4> {
    /// The determinants of the first two rows and of the last two, for the columns (0, 1), (0, 2), (0, 3), (1, 2), (1, 3),
    /// (2, 3): Laplace's expansion by pairs of rows.
    #[track_caller]
    fn pairs(&self) -> [[R; 6]; 2] {
        const COLUMNS: [(usize, usize); 6] = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)];
        [0, 2].map(|r| {
            let (upper, lower) = (&self.rows[r], &self.rows[r + 1]);
            COLUMNS.map(|(i, j)| minor([&upper[i], &upper[j], &lower[i], &lower[j]]))
        })
    }

    /// The determinant.
    #[track_caller]
    pub fn determinant(&self) -> R {
        Self::combined(&self.pairs())
    }

    #[track_caller]
    fn combined([s, c]: &[[R; 6]; 2]) -> R {
        inner(6, |k| {
            let negative = matches!(k, 1 | 4);
            (if negative { -s[k].clone() } else { s[k].clone() }, c[5 - k].clone())
        })
    }

    /// The inverse, by cofactors over the determinant. Infinite or NaN where the determinant is 0.
    #[must_use]
    #[track_caller]
    pub fn inverse(&self) -> Self {
        let pairs = self.pairs();
        let [s, c] = &pairs;
        // For each column, the other three, and the pairs that are left when one of them goes.
        const OTHERS: [([usize; 3], [usize; 3]); 4] =
            [([1, 2, 3], [5, 4, 3]), ([0, 2, 3], [5, 2, 1]), ([0, 1, 3], [4, 2, 0]), ([0, 1, 2], [3, 1, 0])];
        let adjugate = Matrix::from_fn(|r, column| {
            // Removing row `column` leaves its partner beside the other two rows' pairs.
            let (partner, pairs) = (&self.rows[column ^ 1], if column < 2 { c } else { s });
            let (others, left) = OTHERS[r];
            let sum = inner(3, |k| {
                let factor = partner[others[k]].clone();
                (if k == 1 { -factor } else { factor }, pairs[left[k]].clone())
            });
            if (r + column) % 2 == 1 { -sum } else { sum }
        });
        adjugate.scale(&Self::combined(&pairs).recip())
    }
}

impl<R: Real, const ROWS: usize, const COLS: usize> Add for Matrix<R, ROWS, COLS> {
    type Output = Self;
    #[track_caller]
    fn add(self, other: Self) -> Self {
        Matrix::from_fn(|r, c| self.rows[r][c].clone() + other.rows[r][c].clone())
    }
}

impl<R: Real, const ROWS: usize, const COLS: usize> Sub for Matrix<R, ROWS, COLS> {
    type Output = Self;
    #[track_caller]
    fn sub(self, other: Self) -> Self {
        Matrix::from_fn(|r, c| self.rows[r][c].clone() - other.rows[r][c].clone())
    }
}

impl<R: Real, const ROWS: usize, const COLS: usize> Neg for Matrix<R, ROWS, COLS> {
    type Output = Self;
    #[track_caller]
    fn neg(self) -> Self {
        Matrix::from_fn(|r, c| -self.rows[r][c].clone())
    }
}

impl<R: Real, const ROWS: usize, const N: usize, const COLS: usize> Mul<&Matrix<R, N, COLS>>
    for &Matrix<R, ROWS, N>
{
    type Output = Matrix<R, ROWS, COLS>;
    /// Each element is the first product, the others added to it by `mul_add` in order.
    #[track_caller]
    fn mul(self, other: &Matrix<R, N, COLS>) -> Matrix<R, ROWS, COLS> {
        Matrix::from_fn(|r, c| inner(N, |k| (self.rows[r][k].clone(), other.rows[k][c].clone())))
    }
}

impl<R: Real, const ROWS: usize, const N: usize, const COLS: usize> Mul<Matrix<R, N, COLS>>
    for Matrix<R, ROWS, N>
{
    type Output = Matrix<R, ROWS, COLS>;
    #[track_caller]
    fn mul(self, other: Matrix<R, N, COLS>) -> Matrix<R, ROWS, COLS> {
        &self * &other
    }
}

macro_rules! by_vector {
    ($($name:ident $n:literal;)*) => {$(
        impl<R: Real> Mul<$name<R>> for &Matrix<R, $n, $n> {
            type Output = $name<R>;
            #[track_caller]
            fn mul(self, vector: $name<R>) -> $name<R> {
                self.mul_array(&vector.into_array()).into()
            }
        }

        impl<R: Real> Mul<$name<R>> for Matrix<R, $n, $n> {
            type Output = $name<R>;
            #[track_caller]
            fn mul(self, vector: $name<R>) -> $name<R> {
                &self * vector
            }
        }
    )*};
}

by_vector! { Vec2 2; Vec3 3; Vec4 4; }

impl<A: Traverse, const ROWS: usize, const COLS: usize> Traverse for Matrix<A, ROWS, COLS> {
    fn visit(&self, visitor: &mut dyn Visitor) {
        self.rows.visit(visitor);
    }

    fn rebuild(&self, rebuilder: &mut dyn Rebuilder) -> Self {
        Matrix { rows: self.rows.rebuild(rebuilder) }
    }

    fn static_key(&self, state: &mut dyn Hasher) {
        self.rows.static_key(state);
    }
}
