//! Checks that all records of many senders are accounted for.
//!
//! A record's number has its sender in the top byte and counts that sender's records in the rest. A
//! lost record leaves a gap.

use crate::part::SENDERS_MAX;
use crate::payload::verify;

const SHIFT: u32 = 56;

/// Returns the number of a sender's first record.
pub fn first_number(sender: usize) -> u64 {
    (sender as u64) << SHIFT
}

/// The records that a reader has seen.
#[derive(Clone, Debug)]
pub struct Seen {
    next: [u64; SENDERS_MAX],
    gaps: [u64; SENDERS_MAX],
    /// Records read.
    pub records: u64,
    /// Records that were damaged or out of order.
    pub bad: u64,
}

impl Default for Seen {
    fn default() -> Self {
        Seen { next: [0; SENDERS_MAX], gaps: [0; SENDERS_MAX], records: 0, bad: 0 }
    }
}

impl Seen {
    /// Checks the next record.
    #[inline(always)]
    pub fn see<const N: usize>(&mut self, bytes: &[u8; N]) {
        let number = bytes.first_chunk().map_or(u64::MAX, |first| u64::from_ne_bytes(*first));
        self.records += 1;
        let (sender, nth) = ((number >> SHIFT) as usize, number & ((1 << SHIFT) - 1));
        match self.next.get_mut(sender) {
            Some(next) if *next == nth && verify(bytes, number) => *next += 1,
            _ => self.puzzle(sender, nth, verify(bytes, number)),
        }
    }

    /// Handles a record that is not the expected one of its sender.
    #[cold]
    #[inline(never)]
    fn puzzle(&mut self, sender: usize, nth: u64, whole: bool) {
        match (self.next.get_mut(sender), self.gaps.get_mut(sender)) {
            (Some(next), Some(gap)) if whole && nth > *next => {
                *gap += nth - *next;
                *next = nth + 1;
            }
            _ => self.bad += 1,
        }
    }

    /// Called after all senders have ended and everything was read. Returns how many records of
    /// those that they sent are good, lost and bad: a number that no sender has sent is bad.
    pub fn settle(&self, sent: &[u64]) -> (u64, u64, u64) {
        let each = self.next.iter().zip(self.gaps).enumerate();
        let (lost, more) = each.fold((0, 0), |(lost, more), (sender, (next, gap))| {
            let sent = sent.get(sender).copied().unwrap_or_default();
            (lost + gap + sent.saturating_sub(*next), more + next.saturating_sub(sent))
        });
        // A damaged record is not among those that came: its number is a gap, too.
        let good = self.records.saturating_sub(self.bad);
        (good, lost.saturating_sub(self.bad), self.bad + more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::fill;

    fn see(seen: &mut Seen, sender: usize, nth: u64) {
        let mut bytes = [0; 64];
        fill(&mut bytes, first_number(sender) + nth);
        seen.see(&bytes);
    }

    #[test]
    fn every_record_is_read_or_lost() {
        let mut seen = Seen::default();
        for (sender, nth) in [(0, 0), (1, 0), (0, 1), (1, 3), (0, 2)] {
            see(&mut seen, sender, nth);
        }
        assert_eq!(seen.settle(&[3, 4]), (5, 2, 0));
        assert_eq!(seen.settle(&[4, 6]), (5, 5, 0), "the last ones did not come");
        assert_eq!(seen.settle(&[2, 4]), (5, 2, 1), "one was never sent");
    }

    #[test]
    fn records_out_of_order_or_damaged_are_bad() {
        let mut seen = Seen::default();
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
}
