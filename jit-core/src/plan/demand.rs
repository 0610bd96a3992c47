//! Which stages need which nodes.

/// A stage of a schedule: its position in the order in which the stages were found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct StageId(pub(super) u32);

impl StageId {
    /// No stage.
    pub(super) const NONE: StageId = StageId(u32::MAX);

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }

    /// The stage, if it is one.
    pub(super) fn some(self) -> Option<StageId> {
        (self != StageId::NONE).then_some(self)
    }
}

/// For each node the stages that need its lanes. One list for all: nearly every node is needed by one stage, and then
/// has nothing but an entry of its own.
pub(super) struct Demand {
    /// The first ones are the nodes'; others are found through them.
    entries: Vec<Entry>,
    nodes: usize,
}

#[derive(Clone, Copy)]
struct Entry {
    stage: StageId,
    /// 0 at the end: the entry of the first node comes after no other.
    next: u32,
}

impl Demand {
    pub(super) fn new(nodes: usize) -> Demand {
        Demand { entries: vec![Entry { stage: StageId::NONE, next: 0 }; nodes], nodes }
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.entries.truncate(self.nodes);
        self.entries.fill(Entry { stage: StageId::NONE, next: 0 });
    }

    /// The stages that need a node.
    pub(super) fn of(&self, number: u32) -> impl Iterator<Item = StageId> {
        let mut at = Some(number);
        std::iter::from_fn(move || {
            let Entry { stage, next } = self.entries[at? as usize];
            at = (next != 0).then_some(next);
            stage.some()
        })
    }

    /// Each stage as often as there are nodes that it needs.
    pub(super) fn all(&self) -> impl Iterator<Item = StageId> {
        self.entries.iter().filter_map(|entry| entry.stage.some())
    }

    /// Notes that a stage needs a node.
    pub(super) fn add(&mut self, number: u32, stage: StageId) {
        let mut at = number as usize;
        loop {
            let entry = self.entries[at];
            if entry.stage == StageId::NONE {
                self.entries[at].stage = stage;
            }
            if entry.stage == StageId::NONE || entry.stage == stage {
                return;
            }
            if entry.next == 0 {
                break;
            }
            at = entry.next as usize;
        }
        self.entries[at].next = self.entries.len() as u32;
        self.entries.push(Entry { stage, next: 0 });
    }

    /// Notes that every stage that needs a node needs an operand of it.
    pub(super) fn pass_on(&mut self, number: u32, operand: u32) {
        let mut at = number as usize;
        loop {
            let Entry { stage, next } = self.entries[at];
            if stage != StageId::NONE {
                self.add(operand, stage);
            }
            if next == 0 {
                return;
            }
            at = next as usize;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(demand: &Demand, number: u32) -> Vec<u32> {
        demand.of(number).map(|stage| stage.0).collect()
    }

    #[test]
    fn each_stage_counts_once() {
        let mut demand = Demand::new(3);
        for stage in [5, 5, 0, 7, 0, 7, 5] {
            demand.add(1, StageId(stage));
        }
        demand.add(0, StageId(7));
        assert_eq!((of(&demand, 0), of(&demand, 1), of(&demand, 2)), (vec![7], vec![5, 0, 7], vec![]));
    }

    #[test]
    fn operands_are_needed_where_their_users_are() {
        let mut demand = Demand::new(3);
        demand.add(0, StageId(1));
        demand.add(0, StageId(2));
        demand.add(1, StageId(2));
        demand.pass_on(0, 1);
        demand.pass_on(2, 1);
        demand.pass_on(1, 2);
        assert_eq!((of(&demand, 1), of(&demand, 2)), (vec![2, 1], vec![2, 1]));
        demand.clear();
        assert!((0..3).all(|number| of(&demand, number).is_empty()));
        demand.add(2, StageId(3));
        assert_eq!((of(&demand, 0), of(&demand, 2)), (vec![], vec![3]));
    }
}
