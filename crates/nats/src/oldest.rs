//! The oldest event among the entries that are not finished.

use std::collections::VecDeque;

/// The numbers of entries' events, in the order of the entries: these finish in order, and their
/// numbers are not in order, as a batch may wait longer than others.
#[derive(Debug, Default)]
pub(super) struct Oldest {
    pushed: u64,
    /// Entries whose number is smaller than that of each later one, by their place.
    smallest: VecDeque<(u64, u64)>,
}

impl Oldest {
    pub(super) fn push(&mut self, number: u64) {
        while self.smallest.back().is_some_and(|(_, last)| *last >= number) {
            self.smallest.pop_back();
        }
        self.smallest.push_back((self.pushed, number));
        self.pushed += 1;
    }

    /// Returns the smallest number, when the last `left` entries are not finished.
    pub(super) fn of_last(&mut self, left: u64) -> Option<u64> {
        let finished = self.pushed.saturating_sub(left);
        while self.smallest.front().is_some_and(|(place, _)| *place < finished) {
            self.smallest.pop_front();
        }
        self.smallest.front().map(|(_, number)| *number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_smallest_of_those_that_are_left() {
        let numbers = [5, 7, 7, 3, 9, 4, 8];
        let mut oldest = Oldest::default();
        numbers.into_iter().for_each(|number| oldest.push(number));
        for done in 0..=numbers.len() {
            let left = (numbers.len() - done) as u64;
            assert_eq!(oldest.of_last(left), numbers[done..].iter().min().copied(), "{done}");
        }
    }
}
