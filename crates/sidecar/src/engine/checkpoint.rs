//! What may leave its ring once outputs have delivered it.

use perfring_consumer::advanced::ResumePoint;
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
    resume_points: HashMap<K, ResumePoint>,
}

impl<K> Default for Checkpoints<K> {
    fn default() -> Self {
        Checkpoints { all: VecDeque::new() }
    }
}

impl<K: Copy + Eq + Hash> Checkpoints<K> {
    /// Remembers places that nothing stands before but events with numbers below `before`.
    pub(crate) fn add(
        &mut self,
        before: u64,
        resume_points: impl IntoIterator<Item = (K, ResumePoint)>,
    ) {
        if self.all.len() >= MAX
            && let Some(last) = self.all.back_mut()
        {
            last.before = before;
            last.resume_points.extend(resume_points); // later ones are further
            return;
        }
        let resume_points: HashMap<K, ResumePoint> = resume_points.into_iter().collect();
        if !resume_points.is_empty() {
            self.all.push_back(Checkpoint { before, resume_points });
        }
    }

    /// The furthest places of which all is delivered, if all events before `undelivered` are.
    pub(crate) fn delivered(&mut self, undelivered: u64) -> HashMap<K, ResumePoint> {
        let mut resume_points = HashMap::new();
        while self.all.front().is_some_and(|first| first.before <= undelivered) {
            let Some(first) = self.all.pop_front() else { break };
            if resume_points.is_empty() {
                resume_points = first.resume_points;
            } else {
                resume_points.extend(first.resume_points);
            }
        }
        resume_points
    }

    /// Whether something waits to be delivered.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resume_point(pos: u64) -> ResumePoint {
        ResumePoint { pos, ..ResumePoint::default() }
    }

    #[test]
    fn nothing_leaves_before_all_that_stands_before_it_is_delivered() {
        let mut checkpoints = Checkpoints::default();
        checkpoints.add(10, [('a', resume_point(100)), ('b', resume_point(200))]);
        checkpoints.add(20, [('a', resume_point(300))]);
        checkpoints.add(20, []);
        assert!(checkpoints.delivered(9).is_empty());
        assert_eq!(
            checkpoints.delivered(19),
            HashMap::from([('a', resume_point(100)), ('b', resume_point(200))])
        );
        assert!(!checkpoints.is_empty());
        assert_eq!(checkpoints.delivered(u64::MAX), HashMap::from([('a', resume_point(300))]));
        assert!(checkpoints.is_empty());
    }

    #[test]
    fn an_output_that_is_down_for_long_costs_no_memory_without_end() {
        let mut checkpoints = Checkpoints::default();
        for n in 1..=10 * MAX as u64 {
            checkpoints.add(n, [(n % 7, resume_point(8 * n))]);
        }
        assert_eq!(checkpoints.all.len(), MAX);
        // What was joined leaves together, when the last of it is delivered.
        let before_last = checkpoints.delivered(10 * MAX as u64 - 1);
        assert!(
            before_last.values().all(|resume_point| resume_point.pos < 8 * MAX as u64),
            "{before_last:?}"
        );
        let last = checkpoints.delivered(10 * MAX as u64);
        let furthest = last.values().map(|resume_point| resume_point.pos).max();
        assert_eq!((last.len(), furthest), (7, Some(80 * MAX as u64)));
    }
}
