//! The states of a seat, as far as the witness's ring may lack what was said of them.

use crate::named_ring::SIZE;
use crate::seats::SeatSeen;
use std::collections::VecDeque;

/// A state of a seat.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) seat: SeatSeen,
    /// Since when, ns of the timestamps' clock: the time of its record.
    pub(crate) since: u64,
    /// Whether the holder is the only writer of the ring.
    pub(crate) writes: bool,
    /// How many bytes the witness had published once the record of this state was published.
    pub(crate) published: u64,
}

/// The states of a seat, in the order of time: each until the next one.
#[derive(Debug, Default)]
pub(crate) struct History(VecDeque<Entry>);

impl History {
    /// Returns the state that holds.
    pub(crate) fn newest(&self) -> Option<&Entry> {
        self.0.back()
    }

    /// Adds a state. The witness's ring still has all records that were published within its size: a state that ended before
    /// them is forgotten.
    pub(crate) fn add(&mut self, entry: Entry) {
        let published = entry.published;
        self.0.push_back(entry);
        let is_over = |next: &Entry| published.saturating_sub(next.published) > SIZE;
        while self.0.get(1).is_some_and(is_over) {
            self.0.pop_front();
        }
    }

    /// Returns the state at a time, if it was known then.
    pub(crate) fn at(&self, time: u64) -> Option<&Entry> {
        self.0.iter().rev().find(|entry| entry.since <= time)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]
    use super::*;
    use perfring_consumer::stat::{OwnerInfo, SeatState};
    use perfring_figures::process::State;
    use perfring_why::witness::SeatOf;

    #[test]
    fn a_state_is_kept_while_the_ring_may_begin_within_it() {
        let add = |history: &mut History, since, published| {
            let (role, state) = (SeatOf::Consumer, State::Seat(SeatState::Alive));
            let owner = OwnerInfo::default();
            let (number, holds_up, writes_alone, here) = (0, false, false, true);
            let seat = SeatSeen { role, number, owner, state, holds_up, writes_alone, here };
            history.add(Entry { seat, since, writes: false, published });
        };
        let mut history = History::default();
        add(&mut history, 10, 0);
        add(&mut history, 20, 100);
        let at = |history: &History, time| history.at(time).map(|entry| entry.since);
        assert_eq!(
            [9, 10, 19, 20, 99].map(|time| at(&history, time)),
            [None, Some(10), Some(10), Some(20), Some(20)]
        );
        assert_eq!(history.newest().unwrap().since, 20);
        // The ring has the record of the time 20 until so many more bytes are published.
        add(&mut history, 30, 100 + SIZE);
        assert_eq!(at(&history, 15), Some(10));
        add(&mut history, 40, 101 + SIZE);
        assert_eq!((at(&history, 15), at(&history, 25)), (None, Some(20)));
    }
}
