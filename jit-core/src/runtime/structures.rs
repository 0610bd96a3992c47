//! Things by the words that determine them, with a bound: those that were not asked for longest go first.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::xxh3_128;

/// Things of which each is determined by a sequence of words.
pub(crate) struct Structures<T> {
    /// By a hash of the words. On a hit they are compared.
    by_hash: FxHashMap<u128, Vec<Held<T>>>,
    /// Of all words.
    weight: usize,
    /// Counts look-ups.
    clock: u64,
}

struct Held<T> {
    words: Arc<[u64]>,
    thing: Arc<T>,
    used: u64,
}

impl<T> Default for Structures<T> {
    fn default() -> Self {
        Structures { by_hash: FxHashMap::default(), weight: 0, clock: 0 }
    }
}

impl<T> Structures<T> {
    /// What these words determine, if it is there; else what `make` makes of them.
    pub(crate) fn get_or_insert_with(
        &mut self,
        words: &[u64],
        make: impl FnOnce(&Arc<[u64]>) -> T,
    ) -> Arc<T> {
        self.clock += 1;
        let same_hash = self.by_hash.entry(xxh3_128(bytemuck::cast_slice(words))).or_default();
        if let Some(found) = same_hash.iter_mut().find(|held| *held.words == *words) {
            found.used = self.clock;
            return Arc::clone(&found.thing);
        }
        let words = Arc::from(words);
        let thing = Arc::new(make(&words));
        self.weight += words.len();
        same_hash.push(Held { words, thing: Arc::clone(&thing), used: self.clock });
        thing
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.by_hash.values().flatten().map(|held| &held.thing)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.by_hash.values().map(Vec::len).sum()
    }

    /// Number of words of all of them.
    pub(crate) fn weight(&self) -> usize {
        self.weight
    }

    /// With more words than these in all, takes out the least recently used until half is left, but for those that
    /// somebody else holds. The caller drops them where that may take time.
    pub(crate) fn evict(&mut self, most: usize) -> Vec<Arc<T>> {
        if self.weight <= most {
            return Vec::new();
        }
        let free = |held: &Held<T>| Arc::strong_count(&held.thing) == 1;
        let held = self.by_hash.values().flatten().filter(|held| free(held));
        let mut ages: Vec<(u64, usize)> = held.map(|held| (held.used, held.words.len())).collect();
        ages.sort_unstable();
        let mut excess = self.weight - most / 2;
        // Every look-up has a time of its own, so that this tells exactly which go.
        let mut last = 0;
        for (used, words) in ages {
            last = used;
            excess = excess.saturating_sub(words);
            if excess == 0 {
                break;
            }
        }
        let mut gone = Vec::new();
        let weight = &mut self.weight;
        self.by_hash.retain(|_, same_hash| {
            gone.extend(same_hash.extract_if(.., |held| held.used <= last && free(held)).map(|held| {
                *weight -= held.words.len();
                held.thing
            }));
            !same_hash.is_empty()
        });
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_go_first() {
        let mut structures = Structures::default();
        let get = |s: &mut Structures<u64>, n: u64| s.get_or_insert_with(&[n, n], |words| words[0]);
        let held = get(&mut structures, 0);
        (1..10).for_each(|n| drop(get(&mut structures, n)));
        get(&mut structures, 2);
        assert!(structures.evict(20).is_empty(), "20 words are allowed");
        let mut gone: Vec<u64> = structures.evict(19).iter().map(|thing| **thing).collect();
        gone.sort_unstable();
        assert_eq!(gone, [1, 3, 4, 5, 6, 7], "0 is held, 2 was used again");
        assert_eq!((structures.len(), structures.weight), (4, 8));
        drop(held);
        assert_eq!(structures.evict(7).len(), 3);
        assert_eq!(structures.iter().map(|thing| **thing).collect::<Vec<_>>(), [2]);
        assert!(structures.evict(0).len() == 1 && structures.by_hash.is_empty());
    }

    #[test]
    fn what_is_there_is_not_made_again() {
        let mut structures = Structures::default();
        structures.get_or_insert_with(&[7], |_| 1);
        assert_eq!(*structures.get_or_insert_with(&[7], |_| 2), 1);
        assert_eq!(*structures.get_or_insert_with(&[7, 0], |_| 3), 3);
    }
}
