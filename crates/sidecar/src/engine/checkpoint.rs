//! Checkpoints: what may leave its ring once outputs have delivered it.

use perfring_consumer::advanced::ResumePoint;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// The limit of checkpoints: beyond it the newest ones are merged.
const MAX: usize = 1024;

/// Resume points in rings, by the events that precede them: one for each turn of reading, not for
/// each record.
#[derive(Debug)]
pub(crate) struct Checkpoints<K> {
    /// By rising number.
    all: VecDeque<Checkpoint<K>>,
}

#[derive(Debug)]
struct Checkpoint<K> {
    /// All events with lower numbers precede these resume points.
    before: u64,
    resume_points: HashMap<K, ResumePoint>,
}

impl<K> Default for Checkpoints<K> {
    fn default() -> Self {
        Checkpoints { all: VecDeque::new() }
    }
}

impl<K: Copy + Eq + Hash> Checkpoints<K> {
    /// Adds resume points that only events with numbers below `before` precede.
    pub(crate) fn add(
        &mut self,
        before: u64,
        resume_points: impl IntoIterator<Item = (K, ResumePoint)>,
    ) {
        if self.all.len() >= MAX
            && let Some(last) = self.all.back_mut()
        {
            last.before = before;
            last.resume_points.extend(resume_points); // later ones are further on
            return;
        }
        let resume_points: HashMap<K, ResumePoint> = resume_points.into_iter().collect();
        if !resume_points.is_empty() {
            self.all.push_back(Checkpoint { before, resume_points });
        }
    }

    /// Takes the last resume points of which all is delivered, if all events before `undelivered`
    /// are.
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

    /// Returns whether nothing waits to be delivered.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfring_consumer::Count;
    use perfring_consumer::advanced::ReaderId;

    fn resume_point(pos: u64) -> ResumePoint {
        ResumePoint::new(ReaderId::default(), pos, Count::default())
    }

    #[test]
    fn nothing_is_released_before_all_earlier_events_are_delivered() {
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
    fn an_output_that_is_down_for_long_costs_bounded_memory() {
        let mut checkpoints = Checkpoints::default();
        for n in 1..=10 * MAX as u64 {
            checkpoints.add(n, [(n % 7, resume_point(8 * n))]);
        }
        assert_eq!(checkpoints.all.len(), MAX);
        // Merged checkpoints are released together, when the last of them is delivered.
        let before_last = checkpoints.delivered(10 * MAX as u64 - 1);
        assert!(
            before_last.values().all(|resume_point| resume_point.pos() < 8 * MAX as u64),
            "{before_last:?}"
        );
        let last = checkpoints.delivered(10 * MAX as u64);
        let furthest = last.values().map(|resume_point| resume_point.pos()).max();
        assert_eq!((last.len(), furthest), (7, Some(80 * MAX as u64)));
    }
}
