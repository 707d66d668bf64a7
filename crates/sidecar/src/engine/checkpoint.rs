//! What may leave its ring once outputs have delivered it.

use perfring_consumer::advanced::Mark;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// More checkpoints are not kept: the newest are then one.
const MAX: usize = 1024;

/// Places in rings, by the events that stand before them: one for each turn of reading, not for
/// each record.
#[derive(Debug)]
pub(crate) struct Checkpoints<K> {
    /// By rising number.
    all: VecDeque<Checkpoint<K>>,
}

#[derive(Debug)]
struct Checkpoint<K> {
    /// All events with numbers below are before these places.
    before: u64,
    marks: HashMap<K, Mark>,
}

impl<K> Default for Checkpoints<K> {
    fn default() -> Self {
        Checkpoints { all: VecDeque::new() }
    }
}

impl<K: Copy + Eq + Hash> Checkpoints<K> {
    /// Remembers places that nothing stands before but events with numbers below `before`.
    pub(crate) fn add(&mut self, before: u64, marks: impl IntoIterator<Item = (K, Mark)>) {
        if self.all.len() >= MAX
            && let Some(last) = self.all.back_mut()
        {
            last.before = before;
            last.marks.extend(marks); // later ones are further
            return;
        }
        let marks: HashMap<K, Mark> = marks.into_iter().collect();
        if !marks.is_empty() {
            self.all.push_back(Checkpoint { before, marks });
        }
    }

    /// The furthest places of which all is delivered, if all events before `undelivered` are.
    pub(crate) fn delivered(&mut self, undelivered: u64) -> HashMap<K, Mark> {
        let mut marks = HashMap::new();
        while self.all.front().is_some_and(|first| first.before <= undelivered) {
            let Some(first) = self.all.pop_front() else { break };
            if marks.is_empty() {
                marks = first.marks;
            } else {
                marks.extend(first.marks);
            }
        }
        marks
    }

    /// Whether something waits to be delivered.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(pos: u64) -> Mark {
        Mark { pos, ..Mark::default() }
    }

    #[test]
    fn nothing_leaves_before_all_that_stands_before_it_is_delivered() {
        let mut checkpoints = Checkpoints::default();
        checkpoints.add(10, [('a', mark(100)), ('b', mark(200))]);
        checkpoints.add(20, [('a', mark(300))]);
        checkpoints.add(20, []);
        assert!(checkpoints.delivered(9).is_empty());
        assert_eq!(checkpoints.delivered(19), HashMap::from([('a', mark(100)), ('b', mark(200))]));
        assert!(!checkpoints.is_empty());
        assert_eq!(checkpoints.delivered(u64::MAX), HashMap::from([('a', mark(300))]));
        assert!(checkpoints.is_empty());
    }

    #[test]
    fn an_output_that_is_down_for_long_costs_no_memory_without_end() {
        let mut checkpoints = Checkpoints::default();
        for n in 1..=10 * MAX as u64 {
            checkpoints.add(n, [(n % 7, mark(8 * n))]);
        }
        assert_eq!(checkpoints.all.len(), MAX);
        // What was joined leaves together, when the last of it is delivered.
        let before_last = checkpoints.delivered(10 * MAX as u64 - 1);
        assert!(before_last.values().all(|mark| mark.pos < 8 * MAX as u64), "{before_last:?}");
        let last = checkpoints.delivered(10 * MAX as u64);
        let furthest = last.values().map(|mark| mark.pos).max();
        assert_eq!((last.len(), furthest), (7, Some(80 * MAX as u64)));
    }
}
