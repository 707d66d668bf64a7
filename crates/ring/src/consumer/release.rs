//! The positions up to which the consumer of a drop ring has read and released: its totals, and the tail.

use crate::counters::{ConsumerTotals, Count, ResumePoint};
use crate::named::{NamedSeat, released};
use crate::record::Corrupt;
use crate::recount::count_surely;
use crate::seq_latch::{self, SeqLatchWriter};
use crate::told_latch::ToldLatch;
use crate::view::{Ring, sane};
use crate::wait::{Fences, Owed, claim_space_wake};
use perfring_abi::atomic::{Ordering, fence};

/// An interval for never releasing. Positions stay below a quarter of this range, so that the sum
/// of the two does not overflow.
const NEVER: u64 = u64::MAX >> 1;

/// The records that a named consumer has missed: they were released by other consumers, or gone, before it joined.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Missed {
    /// The missed records that it has returned as a loss and released.
    pub(crate) before: Count,
    /// The missed records that it has not returned as a loss yet.
    pub(crate) now: Count,
}

/// The tail's position, and when it is due to move.
#[derive(Debug)]
pub(crate) struct Release {
    /// The value of `data_tail`, or the tail of a named consumer's seat.
    pub(super) pos: u64,
    /// The number of bytes after which to release.
    interval: u64,
    /// The interval after a loss at the tail was reported. Before that, nothing is passed.
    later: u64,
    seq_latch: SeqLatchWriter,
    fences: Fences,
    /// The seat of a named consumer.
    seat: Option<NamedSeat>,
    /// The missed records of a named consumer in the ring's totals.
    pub(super) lapped: Count,
    pub(super) told: ToldLatch,
}

impl Release {
    /// Takes over from the last consumer at this tail. Also returns the count that it had read.
    pub(crate) fn take_over(
        ring: Ring<'_>,
        tail: u64,
        fences: Fences,
    ) -> Result<(Self, Count), Corrupt> {
        let page = &ring.header.consumer;
        // After a death between the totals and the tail, the totals that fit the tail count. After
        // a foreign perf reader, none fit: then everything written and no longer present was read.
        let fits =
            seq_latch::find_where(page, |words| ConsumerTotals::from_words(words).pos == tail);
        let passed = match &fits {
            Some(whole) => ConsumerTotals::from_words(&whole.words).passed(),
            None => count_surely(ring, tail)?,
        };
        let kept = fits.or_else(|| seq_latch::find(page));
        let seq_latch = SeqLatchWriter::after(page, kept.as_ref());
        let later = ring.data_size() / 8;
        let (lapped, told) = (Count::default(), ToldLatch::of(&ring.header.consumer_told, 0));
        let release = Release {
            pos: tail,
            interval: later,
            later,
            seq_latch,
            fences,
            seat: None,
            lapped,
            told,
        };
        Ok((release, passed))
    }

    /// Joins the awaited consumers. Also returns the count that was passed before the tail, and the part of it
    /// that this consumer has missed.
    ///
    /// If records were missed, the release is due at once, until [`Release::reported`]. The totals stay unchanged
    /// until the first release: after a consumer that ends before its first release, the next consumer of its name misses
    /// the same records.
    pub(crate) fn join(
        ring: Ring<'_>,
        seat: NamedSeat,
        fences: Fences,
    ) -> Result<(Self, Count, Missed), Corrupt> {
        let (pos, last) = seat.join(ring)?;
        let head = ring.header.data_head.load(Ordering::Acquire); // B, pairs with A
        let passed = match pos == last.pos {
            true => Ok(last.passed()),
            false => count_surely(ring, pos),
        };
        let passed = match passed {
            Ok(passed) if sane(ring, head, pos) => passed,
            _ => {
                seat.leave(ring, pos);
                return Err(Corrupt { pos });
            }
        };
        let now = passed.since(last.passed());
        let missed = Missed { before: last.lapped, now };
        let (lapped, told) = (last.lapped, seat.told());
        let seq_latch = seat.totals_writer(last.pos);
        let later = ring.data_size() / 8;
        let interval = if now == Count::default() { later } else { 0 };
        let seat = Some(seat);
        let release = Release { pos, interval, later, seq_latch, fences, seat, lapped, told };
        Ok((release, passed, missed))
    }

    /// Makes the release due at once, for a loss that is to be returned next.
    pub(crate) fn report(&mut self) {
        self.interval = 0;
    }

    /// Ends the wait for the report of missed records.
    pub(crate) fn reported(&mut self) {
        self.interval = self.later;
    }

    /// Leaves the awaited consumers, if this is a named consumer.
    pub(crate) fn leave(&self, ring: Ring<'_>) -> Owed {
        let Some(seat) = &self.seat else { return Owed::NOTHING };
        seat.leave(ring, self.pos);
        self.wakes_for(ring)
    }

    /// Returns the wake that is owed after a named consumer's tail was stored.
    fn wakes_for(&self, ring: Ring<'_>) -> Owed {
        self.fences.light(); // K, pairs with L
        // Relaxed: K orders it.
        if ring.header.space.armed.load(Ordering::Relaxed) == 0 {
            return Owed::NOTHING;
        }
        // If two consumers were the slowest, one of them sees the other's new tail.
        fence(Ordering::SeqCst);
        claim_space_wake(&ring.header.space, released(ring))
    }

    /// Returns the position at which a release is due.
    #[inline]
    pub(crate) fn due_at(&self) -> u64 {
        self.pos + self.interval
    }

    /// Makes the release never due.
    pub(crate) fn hold(&mut self) {
        if self.interval == self.later {
            self.interval = NEVER;
        }
        self.later = NEVER;
    }

    /// Returns whether [`Release::hold`] was called.
    #[inline]
    pub(crate) fn holds(&self) -> bool {
        self.later == NEVER
    }

    /// Releases everything before a resume point.
    pub(crate) fn release(&mut self, ring: Ring<'_>, to: &ResumePoint) -> Owed {
        let totals = &to.totals();
        self.lapped = totals.lapped;
        // Only if the markers before the tail do not report all of it. Stored before the tail: after a death between the
        // two stores, the next consumer reads markers again that report nothing new.
        if to.ahead {
            match &self.seat {
                None => self.told.save(&ring.header.consumer_told, to.told),
                Some(seat) => seat.save_told(&mut self.told, to.told),
            }
        }
        if let Some(seat) = &self.seat {
            seat.write_totals(&mut self.seq_latch, totals);
            self.pos = totals.pos;
            seat.store_tail(ring, totals.pos); // C, pairs with D
            return self.wakes_for(ring);
        }
        // The totals before the tail: after a death between the two stores, the older totals fit the tail.
        self.seq_latch.write(&ring.header.consumer, &totals.to_words());
        self.pos = totals.pos;
        ring.header.data_tail.store(totals.pos, Ordering::Release); // C, pairs with D
        self.fences.light(); // K, pairs with L
        // Relaxed: K orders it.
        if ring.header.space.armed.load(Ordering::Relaxed) == 0 {
            return Owed::NOTHING;
        }
        claim_space_wake(&ring.header.space, totals.pos)
    }
}

/// A position in the stream, and the end of the records that are known to be published after it.
#[derive(Debug)]
pub(crate) struct Progress {
    /// The next record.
    pub(super) pos: u64,
    /// `data_head` at the last poll.
    pub(super) head: u64,
    /// Records before `pos`, since the ring was created.
    records: u64,
    /// Bytes before `pos` that belong to no record: holes and markers.
    skipped: u64,
}

impl Progress {
    /// Starts at a tail before which `passed` was passed.
    pub(crate) fn at(pos: u64, passed: Count) -> Self {
        let skipped = pos.wrapping_sub(passed.bytes);
        Progress { pos, head: pos, records: passed.records, skipped }
    }

    /// Passes so many records, which end at `pos`.
    #[inline(always)]
    pub(crate) fn pass_records(&mut self, pos: u64, records: u64) {
        self.pos = pos;
        self.records = self.records.wrapping_add(records);
    }

    /// Passes the records that were counted up to `pos`.
    #[inline]
    pub(crate) fn pass(&mut self, pos: u64, count: Count) {
        // A position that was not found by a walk would break the totals, not memory: keep it in
        // range.
        if (self.pos..=self.head).contains(&pos) && pos.is_multiple_of(8) {
            let other = (pos - self.pos).wrapping_sub(count.bytes);
            self.skipped = self.skipped.wrapping_add(other);
            self.pass_records(pos, count.records);
        }
    }

    /// Returns the count passed since the ring was created.
    #[inline]
    pub(crate) fn passed(&self) -> Count {
        Count { records: self.records, bytes: self.pos.wrapping_sub(self.skipped) }
    }
}
