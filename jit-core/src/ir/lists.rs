//! The lists of an instruction. Programs have tens of thousands of instructions with two operands, one result and no block:
//! what they take in memory is most of what it costs to build them.

use std::fmt;
use std::ops::{Deref, DerefMut};

use super::{Block, Value};

const FEW: usize = 3;

/// A list of values, in place while it is short.
#[derive(Clone)]
pub struct ValueList(Repr);

#[derive(Clone)]
enum Repr {
    Few {
        len: u8,
        values: [Value; FEW],
    },
    #[expect(clippy::box_collection, reason = "a vector in place is larger than all else")]
    Many(Box<Vec<Value>>),
}

const _: () = assert!(size_of::<ValueList>() == 16);

impl ValueList {
    /// No values.
    pub const fn new() -> ValueList {
        ValueList(Repr::Few { len: 0, values: [Value(0); FEW] })
    }

    /// Appends a value.
    pub fn push(&mut self, value: Value) {
        match &mut self.0 {
            Repr::Few { len, values } if usize::from(*len) < FEW => {
                values[usize::from(*len)] = value;
                *len += 1;
            }
            Repr::Few { values, .. } => {
                let mut many = Vec::with_capacity(2 * FEW + 2);
                many.extend_from_slice(values);
                many.push(value);
                self.0 = Repr::Many(Box::new(many));
            }
            Repr::Many(many) => many.push(value),
        }
    }

    /// Removes the values for which `keep` says no.
    pub fn retain(&mut self, mut keep: impl FnMut(Value) -> bool) {
        *self = self.iter().copied().filter(|&value| keep(value)).collect();
    }
}

impl Default for ValueList {
    fn default() -> Self {
        ValueList::new()
    }
}

impl Deref for ValueList {
    type Target = [Value];

    #[inline]
    fn deref(&self) -> &[Value] {
        match &self.0 {
            Repr::Few { len, values } => &values[..usize::from(*len)],
            Repr::Many(many) => many,
        }
    }
}

impl DerefMut for ValueList {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Value] {
        match &mut self.0 {
            Repr::Few { len, values } => &mut values[..usize::from(*len)],
            Repr::Many(many) => many,
        }
    }
}

impl From<&[Value]> for ValueList {
    #[inline]
    fn from(values: &[Value]) -> Self {
        match *values {
            [a] => ValueList(Repr::Few { len: 1, values: [a, Value(0), Value(0)] }),
            [a, b] => ValueList(Repr::Few { len: 2, values: [a, b, Value(0)] }),
            _ => values.iter().copied().collect(),
        }
    }
}

impl<const N: usize> From<[Value; N]> for ValueList {
    #[inline]
    fn from(values: [Value; N]) -> Self {
        ValueList::from(&values[..])
    }
}

impl FromIterator<Value> for ValueList {
    fn from_iter<I: IntoIterator<Item = Value>>(values: I) -> Self {
        let mut list = ValueList::new();
        list.extend(values);
        list
    }
}

impl Extend<Value> for ValueList {
    fn extend<I: IntoIterator<Item = Value>>(&mut self, values: I) {
        values.into_iter().for_each(|value| self.push(value));
    }
}

impl IntoIterator for ValueList {
    type Item = Value;
    type IntoIter = IntoValues;

    fn into_iter(self) -> IntoValues {
        IntoValues { list: self, next: 0 }
    }
}

/// The values of a list, one by one.
#[derive(Clone, Debug)]
pub struct IntoValues {
    list: ValueList,
    next: usize,
}

impl Iterator for IntoValues {
    type Item = Value;

    fn next(&mut self) -> Option<Value> {
        let value = self.list.get(self.next).copied();
        self.next += 1;
        value
    }
}

impl<'a> IntoIterator for &'a ValueList {
    type Item = &'a Value;
    type IntoIter = std::slice::Iter<'a, Value>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a> IntoIterator for &'a mut ValueList {
    type Item = &'a mut Value;
    type IntoIter = std::slice::IterMut<'a, Value>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

impl PartialEq for ValueList {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl fmt::Debug for ValueList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

/// The blocks of an instruction; a pointer, since nearly none has any.
#[derive(Clone, Default, PartialEq)]
#[expect(clippy::box_collection, reason = "a vector in place is larger than all else")]
pub struct Blocks(Option<Box<Vec<Block>>>);

impl Blocks {
    /// Appends a block.
    pub fn push(&mut self, block: Block) {
        self.0.get_or_insert_default().push(block);
    }
}

impl Deref for Blocks {
    type Target = [Block];

    #[inline]
    fn deref(&self) -> &[Block] {
        self.0.as_ref().map_or(&[], |blocks| blocks)
    }
}

impl DerefMut for Blocks {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Block] {
        self.0.as_mut().map_or(&mut [], |blocks| blocks)
    }
}

impl From<Vec<Block>> for Blocks {
    fn from(blocks: Vec<Block>) -> Self {
        Blocks((!blocks.is_empty()).then(|| Box::new(blocks)))
    }
}

impl FromIterator<Block> for Blocks {
    fn from_iter<I: IntoIterator<Item = Block>>(blocks: I) -> Self {
        Blocks::from(Vec::from_iter(blocks))
    }
}

impl IntoIterator for Blocks {
    type Item = Block;
    type IntoIter = std::vec::IntoIter<Block>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.map_or_else(Vec::new, |blocks| *blocks).into_iter()
    }
}

impl<'a> IntoIterator for &'a Blocks {
    type Item = &'a Block;
    type IntoIter = std::slice::Iter<'a, Block>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a> IntoIterator for &'a mut Blocks {
    type Item = &'a mut Block;
    type IntoIter = std::slice::IterMut<'a, Block>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

impl fmt::Debug for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_any_length_is_its_values() {
        for len in 0..10 {
            let values: Vec<Value> = (5..5 + len).map(Value).collect();
            let mut pushed = ValueList::new();
            values.iter().for_each(|&value| pushed.push(value));
            assert_eq!(*pushed, values[..]);
            assert_eq!(
                (ValueList::from(&values[..]), values.iter().copied().collect()),
                (pushed.clone(), pushed.clone())
            );
            let mut odd = pushed.clone();
            odd.retain(|value| value.0 % 2 == 1);
            assert_eq!(*odd, values.iter().copied().filter(|value| value.0 % 2 == 1).collect::<Vec<_>>()[..]);
            pushed.iter_mut().for_each(|value| value.0 += 1);
            assert_eq!(*pushed, (6..6 + len).map(Value).collect::<Vec<_>>()[..]);
            assert_eq!(pushed == values[..].into(), len == 0);
            assert_eq!(pushed.into_iter().collect::<Vec<_>>(), (6..6 + len).map(Value).collect::<Vec<_>>());
        }
    }

    #[test]
    fn blocks_are_what_was_pushed() {
        let block = |n: u32| Block { params: vec![Value(n)], ..Block::default() };
        let mut blocks = Blocks::default();
        assert!(
            blocks.is_empty()
                && blocks == Blocks::from(vec![])
                && blocks.clone().into_iter().next().is_none()
        );
        blocks.push(block(1));
        blocks.push(block(2));
        assert_eq!(blocks, [block(1), block(2)].into_iter().collect());
        blocks[0] = block(3);
        assert_eq!(blocks.into_iter().collect::<Vec<_>>(), [block(3), block(2)]);
    }
}
