//! Entries that are taken and not acknowledged.

use super::message::{Entry, State};
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// All entries that are not finished, in the order in which they were taken.
#[derive(Debug, Default)]
pub(super) struct Flight {
    entries: VecDeque<Entry>,
    /// The number of the first entry. Numbers only grow.
    base: u64,
    /// The number of the next entry to check for sending.
    next: u64,
    pub(super) in_flight: usize,
    /// The latest known message of the stream.
    latest: u64,
}

/// Entries that have left the front.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Finished {
    pub(super) entries: u64,
    pub(super) cost: u64,
}

impl Flight {
    pub(super) fn push(&mut self, entries: Vec<Entry>) {
        self.entries.extend(entries);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the next entry to send, and its number.
    pub(super) fn next_waiting(&mut self) -> Option<(u64, &Entry)> {
        loop {
            let at = (self.next - self.base) as usize;
            match self.entries.get(at)?.state {
                State::Waiting => return self.entries.get(at).map(|entry| (self.next, entry)),
                State::Sent | State::Done => self.next += 1,
            }
        }
    }

    /// Marks an entry as sent. Returns whether it was sent before.
    pub(super) fn sent(&mut self, number: u64, now: Instant) -> bool {
        let latest = self.latest;
        let Some(entry) = self.get(number) else { return false };
        let again = entry.sent.is_some();
        if !again {
            entry.sent = Some(now);
            entry.after = latest;
        }
        entry.state = State::Sent;
        self.in_flight += 1;
        self.next = self.next.max(number + 1);
        again
    }

    /// Returns the entry with this number, if it is awaited.
    pub(super) fn awaited(&self, number: u64) -> Option<&Entry> {
        let at = number.checked_sub(self.base)?;
        self.entries.get(at as usize).filter(|entry| entry.state == State::Sent)
    }

    /// Returns the entry with this number, if it is not finished.
    pub(super) fn any(&self, number: u64) -> Option<&Entry> {
        self.entries.get(number.checked_sub(self.base)? as usize)
    }

    /// Marks an entry as stored by the server as this message of the stream.
    pub(super) fn stored(&mut self, number: u64, sequence: u64) -> Finished {
        self.latest = self.latest.max(sequence);
        self.done(number)
    }

    /// Marks an entry as finished.
    pub(super) fn done(&mut self, number: u64) -> Finished {
        if let Some(entry) = self.get(number) {
            let was = std::mem::replace(&mut entry.state, State::Done);
            self.in_flight -= usize::from(was == State::Sent);
        }
        self.sweep()
    }

    /// Marks an entry as not stored; the server may store it later.
    pub(super) fn refused(&mut self, number: u64) {
        let Some(entry) = self.get(number).filter(|entry| entry.state == State::Sent) else {
            return;
        };
        entry.state = State::Waiting;
        if !entry.doubtful {
            entry.sent = None;
        }
        self.in_flight -= 1;
    }

    /// Starts from the front again: on the same connection, when no answer is awaited any more.
    pub(super) fn rewind(&mut self) {
        self.next = self.base;
    }

    /// The connection is lost: unanswered entries may be stored or not.
    pub(super) fn truncated(&mut self) {
        for entry in self.entries.iter_mut().filter(|entry| entry.state == State::Sent) {
            entry.state = State::Waiting;
            entry.doubtful = true;
        }
        self.in_flight = 0;
        self.rewind();
    }

    /// The stream is another one: its message numbers are unknown.
    pub(super) fn forget_sequence(&mut self) {
        self.latest = 0;
        for entry in &mut self.entries {
            entry.after = 0;
        }
    }

    /// Returns the entries that may be stored already but whose ids the server may have forgotten,
    /// as they were first sent so long ago: by subject the message after which they can be found,
    /// and their ids.
    pub(super) fn doubtful(&self, age: Duration) -> HashMap<String, Doubt> {
        let mut found: HashMap<String, Doubt> = HashMap::new();
        for (number, entry) in (self.base..).zip(&self.entries) {
            let old = entry.sent.is_some_and(|sent| sent.elapsed() >= age);
            if entry.state == State::Waiting && entry.doubtful && old {
                let doubt = found
                    .entry(entry.head.subject.to_string())
                    .or_insert(Doubt { after: entry.after, numbers: HashMap::new() });
                doubt.after = doubt.after.min(entry.after);
                doubt.numbers.insert(entry.id(), number);
            }
        }
        found
    }

    /// The entry was searched for and is not stored.
    pub(super) fn not_there(&mut self, number: u64) {
        if let Some(entry) = self.get(number) {
            entry.doubtful = false;
            entry.sent = None;
        }
    }

    fn get(&mut self, number: u64) -> Option<&mut Entry> {
        let at = number.checked_sub(self.base)?;
        self.entries.get_mut(at as usize)
    }

    fn sweep(&mut self) -> Finished {
        let mut finished = Finished::default();
        while self.entries.front().is_some_and(|entry| entry.state == State::Done) {
            if let Some(entry) = self.entries.pop_front() {
                finished.entries += 1;
                finished.cost += entry.cost();
                self.base += 1;
            }
        }
        self.next = self.next.max(self.base);
        finished
    }
}

/// Entries of one subject that may be stored.
#[derive(Debug)]
pub(super) struct Doubt {
    /// They follow this message of the stream, if they are stored.
    pub(super) after: u64,
    /// Their ids, with their numbers.
    pub(super) numbers: HashMap<String, u64>,
}
