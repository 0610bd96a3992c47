//! Points in streams, and what a stream already waits for.

use smallvec::SmallVec;

/// A batch's place: the `sequence`-th of a stream, counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Point {
    /// Tells devices apart: clocks of one say nothing about another.
    pub(crate) device: u64,
    /// The stream's number on its device.
    pub(crate) stream: u32,
    pub(crate) sequence: u64,
}

/// For each stream of a device, how many of its batches are known to be done before some point: a vector clock.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Clock(SmallVec<[u64; 4]>);

impl Clock {
    /// Whether a batch is known to be done.
    pub(crate) fn covers(&self, point: Point) -> bool {
        self.0.get(point.stream as usize).is_some_and(|&known| known >= point.sequence)
    }

    /// From here on a batch is known to be done, and with it those before it on its stream.
    pub(crate) fn add(&mut self, point: Point) {
        let at = point.stream as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, 0);
        }
        self.0[at] = self.0[at].max(point.sequence);
    }

    /// From here on everything is known that the other knows.
    pub(crate) fn merge(&mut self, other: &Clock) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (own, &theirs) in self.0.iter_mut().zip(&other.0) {
            *own = theirs.max(*own);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knowing_a_batch_is_knowing_those_before_it() {
        let at = |stream, sequence| Point { device: 0, stream, sequence };
        let mut clock = Clock::default();
        assert!(!clock.covers(at(0, 1)));
        clock.add(at(2, 5));
        clock.add(at(2, 3));
        assert!(clock.covers(at(2, 5)) && clock.covers(at(2, 1)) && !clock.covers(at(2, 6)));
        assert!(!clock.covers(at(0, 1)) && !clock.covers(at(7, 1)));
        let mut other = Clock::default();
        other.add(at(6, 1));
        clock.merge(&other);
        assert!(clock.covers(at(6, 1)) && clock.covers(at(2, 5)));
        other.merge(&clock);
        assert_eq!(clock, other);
    }
}
