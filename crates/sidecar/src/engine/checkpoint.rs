//! Checkpoints: what of each ring an output is done with, once it has settled some events.

use super::place::Place;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::rc::Rc;

/// The limit of checkpoints: beyond it the newest ones are merged.
const MAX: usize = 1024;
/// The limit of checkpoints that know the order of their events.
const RUNS_MAX: usize = 64;

/// Successive events of one ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run<K> {
    /// The number of the first.
    first: u64,
    count: u64,
    key: K,
}

/// Adds an event to runs.
#[inline]
pub(crate) fn note<K: Copy + Eq>(runs: &mut Vec<Run<K>>, key: K, seq: u64) {
    match runs.last_mut().filter(|run| run.key == key && run.first + run.count == seq) {
        Some(run) => run.count += 1,
        None => runs.push(Run { first: seq, count: 1, key }),
    }
}

/// Returns the number of events of one ring.
pub(crate) fn count<K: Copy + Eq>(runs: &[Run<K>], key: K) -> u64 {
    runs.iter().filter(|run| run.key == key).map(|run| run.count).sum()
}

/// Positions in rings, by the events that precede them: one for each turn of reading, not for each
/// record.
#[derive(Debug)]
pub(crate) struct Checkpoints<K> {
    /// By rising number.
    all: VecDeque<Checkpoint<K>>,
}

#[derive(Debug)]
struct Checkpoint<K> {
    /// All events with lower numbers precede these positions.
    before: u64,
    positions: Vec<(K, Place)>,
    runs: Rc<[Run<K>]>,
}

impl<K> Default for Checkpoints<K> {
    fn default() -> Self {
        Checkpoints { all: VecDeque::new() }
    }
}

impl<K: Copy + Eq + Hash> Checkpoints<K> {
    /// Adds positions that only events with numbers below `before` precede. `runs` are the events
    /// since the last checkpoint.
    pub(crate) fn add(
        &mut self,
        before: u64,
        positions: impl IntoIterator<Item = (K, Place)>,
        runs: Rc<[Run<K>]>,
    ) {
        if self.all.len() >= MAX
            && let Some(last) = self.all.back_mut()
        {
            last.before = before;
            let mut merged: HashMap<K, Place> = last.positions.drain(..).collect();
            merged.extend(positions); // later ones are further on
            last.positions.extend(merged);
            return;
        }
        let positions: Vec<(K, Place)> = positions.into_iter().collect();
        if !positions.is_empty() {
            let runs = if self.all.len() < RUNS_MAX { runs } else { Rc::default() };
            self.all.push_back(Checkpoint { before, positions, runs });
        }
    }

    /// Returns how many events of each ring are before event `unsettled` and after the last
    /// checkpoint that was taken, as far as that is known.
    pub(crate) fn partly(&self, unsettled: u64, mut take: impl FnMut(K, u64)) {
        for run in self.all.front().iter().flat_map(|first| first.runs.iter()) {
            let before = unsettled.saturating_sub(run.first).min(run.count);
            if before > 0 {
                take(run.key, before);
            }
        }
    }

    /// Takes the positions up to which all is settled, in order, if all events before
    /// `unsettled` are.
    pub(crate) fn settled(&mut self, unsettled: u64, mut take: impl FnMut(K, Place)) {
        while self.all.front().is_some_and(|first| first.before <= unsettled) {
            let Some(first) = self.all.pop_front() else { break };
            first.positions.into_iter().for_each(|(key, place)| take(key, place));
        }
    }

    /// Returns whether nothing waits to be settled.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfring_consumer::advanced::Saved;

    fn at(pos: u64) -> Place {
        Saved { pos, ..Saved::default() }.into()
    }

    fn settled<K: Copy + Eq + Hash>(
        checkpoints: &mut Checkpoints<K>,
        unsettled: u64,
    ) -> HashMap<K, u64> {
        let mut all = HashMap::new();
        checkpoints.settled(unsettled, |key, place| {
            all.insert(key, place.saved.pos);
        });
        all
    }

    #[test]
    fn nothing_is_released_before_all_earlier_events_are_delivered() {
        let mut checkpoints = Checkpoints::default();
        checkpoints.add(10, [('a', at(100)), ('b', at(200))], Rc::default());
        checkpoints.add(20, [('a', at(300))], Rc::default());
        checkpoints.add(20, [], Rc::default());
        assert!(settled(&mut checkpoints, 9).is_empty());
        assert_eq!(settled(&mut checkpoints, 19), HashMap::from([('a', 100), ('b', 200)]));
        assert!(!checkpoints.is_empty());
        assert_eq!(settled(&mut checkpoints, u64::MAX), HashMap::from([('a', 300)]));
        assert!(checkpoints.is_empty());
    }

    #[test]
    fn the_events_of_each_ring_before_another_event_are_counted() {
        let mut runs = Vec::new();
        let events = [(1, 'a'), (2, 'a'), (3, 'b'), (5, 'a'), (6, 'a'), (7, 'b')];
        events.iter().for_each(|(seq, ring)| note(&mut runs, *ring, *seq));
        assert_eq!(runs.len(), 4);
        let mut checkpoints = Checkpoints::default();
        checkpoints.add(8, [('a', at(100)), ('b', at(200))], runs.into());
        for unsettled in 0..9 {
            let mut counts = HashMap::new();
            checkpoints.partly(unsettled, |ring, count| *counts.entry(ring).or_default() += count);
            let of =
                |ring| events.iter().filter(move |event| event.1 == ring && event.0 < unsettled);
            let found = ['a', 'b'].map(|ring| counts.get(&ring).copied().unwrap_or(0));
            assert_eq!(found, ['a', 'b'].map(|ring| of(ring).count() as u64), "{unsettled}");
        }
    }

    #[test]
    fn an_output_that_is_down_for_long_costs_bounded_memory() {
        let mut checkpoints = Checkpoints::default();
        for n in 1..=10 * MAX as u64 {
            checkpoints.add(n, [(n % 7, at(8 * n))], Rc::default());
        }
        assert_eq!(checkpoints.all.len(), MAX);
        assert!(checkpoints.all.iter().all(|one| one.positions.len() <= 7));
        // Merged checkpoints are released together, when the last of them is delivered.
        let before_last = settled(&mut checkpoints, 10 * MAX as u64 - 1);
        assert!(before_last.values().all(|pos| *pos < 8 * MAX as u64), "{before_last:?}");
        let last = settled(&mut checkpoints, 10 * MAX as u64);
        assert_eq!((last.len(), last.values().max()), (7, Some(&(80 * MAX as u64))));
    }
}
