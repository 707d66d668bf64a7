//! Checks that all records of many producers are accounted for, and all losses reported.
//!
//! A record's number has its producer in the top byte and counts that producer's attempts in the
//! rest. A refused attempt leaves a gap, so gaps and refusals must agree, producer by producer. A
//! refused batch is one attempt, as the ring counts it.

use crate::part::SENDERS_MAX;
use crate::payload::verify;
use perfring_consumer::Cause;
use serde::Serialize;
use std::ops::{Add, Sub};

const SHIFT: u32 = 56;

/// Returns the number of a producer's first attempt.
pub fn first_number(producer: usize) -> u64 {
    (producer as u64) << SHIFT
}

/// Returns how many attempts came before this number.
pub fn attempts(number: u64) -> u64 {
    number & ((1 << SHIFT) - 1)
}

/// Refused attempts by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Losses {
    /// No room.
    pub full: u64,
    /// The lock was held.
    pub contended: u64,
    /// An older reservation was in the way.
    pub pending: u64,
    /// Anything else.
    pub other: u64,
}

impl Losses {
    /// Adds records of one cause.
    #[inline]
    pub fn count(&mut self, cause: Cause, records: u64) {
        *match cause {
            Cause::Full => &mut self.full,
            Cause::Contended => &mut self.contended,
            Cause::Pending => &mut self.pending,
            Cause::TooLarge | Cause::Lapped | Cause::Foreign => &mut self.other,
        } += records;
    }

    /// Returns the counts in the order of the fields.
    pub fn words(self) -> [u64; 4] {
        [self.full, self.contended, self.pending, self.other]
    }

    /// Returns the sum over all causes.
    pub fn total(self) -> u64 {
        self.words().iter().sum()
    }

    /// Returns by how much the two differ, cause by cause.
    fn apart(self, other: Losses) -> u64 {
        self.words().iter().zip(other.words()).map(|(a, b)| a.abs_diff(b)).sum()
    }
}

impl From<[u64; 4]> for Losses {
    fn from([full, contended, pending, other]: [u64; 4]) -> Self {
        Losses { full, contended, pending, other }
    }
}

impl From<perfring_consumer::Refused> for Losses {
    fn from(refused: perfring_consumer::Refused) -> Self {
        let [full, contended, pending, other] =
            [refused.full, refused.contended, refused.pending, refused.too_large]
                .map(|count| count.records);
        Losses { full, contended, pending, other }
    }
}

impl Add for Losses {
    type Output = Losses;

    fn add(self, other: Losses) -> Losses {
        let ([a, b, c, d], [e, f, g, h]) = (self.words(), other.words());
        Losses::from([a + e, b + f, c + g, d + h])
    }
}

impl Sub for Losses {
    type Output = Losses;

    fn sub(self, other: Losses) -> Losses {
        let ([a, b, c, d], [e, f, g, h]) = (self.words(), other.words());
        Losses::from([
            a.saturating_sub(e),
            b.saturating_sub(f),
            c.saturating_sub(g),
            d.saturating_sub(h),
        ])
    }
}

/// One producer's own counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Records.
    pub published: u64,
    /// Attempts that were refused.
    pub refused: Losses,
}

impl Tally {
    /// Returns the number of attempts.
    pub fn attempts(&self) -> u64 {
        self.published + self.refused.total()
    }

    /// Returns the sum over all producers.
    #[expect(clippy::arithmetic_side_effects, reason = "counts of one run")]
    pub fn sum(all: &[Tally]) -> Tally {
        all.iter().fold(Tally::default(), |sum, one| Tally {
            published: sum.published + one.published,
            refused: sum.refused + one.refused,
        })
    }
}

/// Where a reader begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// At every producer's first attempt.
    First,
    /// At the oldest record left in the ring: the first record of a producer determines it.
    Oldest,
}

const UNSEEN: u64 = u64::MAX;

/// The records and losses that a reader has seen.
#[derive(Clone, Debug)]
pub struct Seen {
    next: [u64; SENDERS_MAX],
    gaps: [u64; SENDERS_MAX],
    /// Records read.
    pub records: u64,
    /// Records that were damaged or out of order, and figures that disagree.
    pub bad: u64,
    /// Losses that were reported in the stream.
    pub reported: Losses,
}

impl Seen {
    /// Starts with nothing seen.
    pub fn new(from: Begin) -> Self {
        let next = if from == Begin::First { 0 } else { UNSEEN };
        Seen {
            next: [next; SENDERS_MAX],
            gaps: [0; SENDERS_MAX],
            records: 0,
            bad: 0,
            reported: Losses::default(),
        }
    }

    /// Checks the next record.
    #[inline(always)]
    pub fn see<const N: usize>(&mut self, bytes: &[u8; N]) {
        let number = bytes.first_chunk().map_or(u64::MAX, |first| u64::from_ne_bytes(*first));
        self.records += 1;
        match self.next.get_mut((number >> SHIFT) as usize) {
            Some(next) if *next == attempts(number) && verify(bytes, number) => *next += 1,
            _ => self.puzzle(number, verify(bytes, number)),
        }
    }

    /// Handles a record that is not the expected one of its producer.
    #[cold]
    #[inline(never)]
    fn puzzle(&mut self, number: u64, whole: bool) {
        let (producer, seq) = ((number >> SHIFT) as usize, attempts(number));
        match (self.next.get_mut(producer), self.gaps.get_mut(producer)) {
            (Some(next), Some(_)) if whole && *next == UNSEEN => *next = seq + 1,
            (Some(next), Some(gap)) if whole && seq > *next => {
                *gap += seq - *next;
                *next = seq + 1;
            }
            _ => self.bad += 1,
        }
    }

    /// Called after all producers have ended and everything was read: every attempt was either read
    /// or is reported, or is among the losses that could no longer be reported.
    #[expect(clippy::arithmetic_side_effects, reason = "counts of one run")]
    pub fn settle(&mut self, producers: &[Tally], unreported: Losses) {
        let sum = Tally::sum(producers);
        self.bad += self.records.abs_diff(sum.published);
        self.bad += (self.reported + unreported).apart(sum.refused);
        for (number, (next, gap)) in self.next.iter().zip(self.gaps).enumerate() {
            let tally = producers.get(number).copied().unwrap_or_default();
            let gap = gap + tally.attempts().saturating_sub(*next);
            self.bad += next.saturating_sub(tally.attempts());
            self.bad += gap.abs_diff(tally.refused.total());
        }
    }

    /// Called after all producers of an overwrite ring have ended: the records present, as many as
    /// the ring says, are the end of each producer's stream, and have no more gaps than it had
    /// refusals.
    pub fn settle_rest(&mut self, producers: &[Tally], present: u64) {
        let sum = Tally::sum(producers);
        self.bad += self.records.abs_diff(present);
        self.bad += self.reported.total().saturating_sub(sum.refused.total());
        for (number, (next, gap)) in self.next.iter().zip(self.gaps).enumerate() {
            let tally = producers.get(number).copied().unwrap_or_default();
            if *next != UNSEEN {
                let gap = gap + tally.attempts().saturating_sub(*next);
                self.bad += next.saturating_sub(tally.attempts());
                self.bad += gap.saturating_sub(tally.refused.total());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::fill;

    fn see(seen: &mut Seen, producer: usize, seq: u64) {
        let mut bytes = [0; 64];
        fill(&mut bytes, first_number(producer) + seq);
        seen.see(&bytes);
    }

    fn tally(published: u64, full: u64) -> Tally {
        Tally { published, refused: Losses { full, ..Losses::default() } }
    }

    #[test]
    fn every_attempt_is_read_or_reported() {
        let mut seen = Seen::new(Begin::First);
        for (producer, seq) in [(0, 0), (1, 0), (0, 1), (1, 3), (0, 2)] {
            see(&mut seen, producer, seq);
        }
        seen.reported.count(Cause::Full, 2);
        let unreported = Losses { full: 1, ..Losses::default() };
        let settled = |producers: &[Tally], unreported| {
            let mut seen = seen.clone();
            seen.settle(producers, unreported);
            seen.bad
        };
        assert_eq!(settled(&[tally(3, 0), tally(2, 3)], unreported), 0);
        assert_ne!(settled(&[tally(3, 0), tally(2, 3)], Losses::default()), 0, "one is unreported");
        assert_ne!(
            settled(&[tally(3, 2), tally(2, 1)], unreported),
            0,
            "reported for the wrong producer"
        );
        assert_ne!(settled(&[tally(4, 0), tally(2, 3)], unreported), 0, "one more was published");
        let wrong = Losses { pending: 1, ..Losses::default() };
        assert_ne!(settled(&[tally(3, 0), tally(2, 3)], wrong), 0, "reported with the wrong cause");
    }

    #[test]
    fn records_out_of_order_or_damaged_are_bad() {
        let mut seen = Seen::new(Begin::First);
        see(&mut seen, 0, 0);
        see(&mut seen, 0, 1);
        see(&mut seen, 0, 1);
        assert_eq!(seen.bad, 1);
        let mut bytes = [0; 64];
        fill(&mut bytes, 2);
        bytes[40] ^= 1;
        seen.see(&bytes);
        assert_eq!(seen.bad, 2);
        see(&mut seen, SENDERS_MAX, 0);
        assert_eq!(seen.bad, 3);
    }

    #[test]
    fn the_rest_of_an_overwrite_ring_is_the_end_of_each_stream() {
        let mut seen = Seen::new(Begin::Oldest);
        for (producer, seq) in [(0, 7), (2, 100), (0, 8), (2, 102)] {
            see(&mut seen, producer, seq);
        }
        let settled = |producers: &[Tally], present| {
            let mut seen = seen.clone();
            seen.settle_rest(producers, present);
            seen.bad
        };
        assert_eq!(settled(&[tally(9, 0), tally(5, 0), tally(102, 1)], 4), 0);
        assert_ne!(settled(&[tally(9, 0), tally(5, 0), tally(103, 0)], 4), 0, "a gap, no refusal");
        assert_ne!(
            settled(&[tally(10, 0), tally(5, 0), tally(102, 1)], 4),
            0,
            "the last is missing"
        );
        assert_ne!(settled(&[tally(9, 0), tally(5, 0), tally(102, 1)], 5), 0, "one is missing");
    }
}
