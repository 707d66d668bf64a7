//! The totals of written, read and lost records, so that `written = read + present`.

use core::sync::atomic::{AtomicU64, Ordering};
use perfring_abi::{
    CONSUMER_TOTALS, Cause, PRODUCER_TOTALS, consumer_totals as c, producer_totals as p,
};

/// A number of records and the bytes that they use in the ring, headers and padding included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// How many records.
    pub records: u64,
    /// How many bytes.
    pub bytes: u64,
}

impl Count {
    /// Reads the count at this index of the totals' words.
    #[inline]
    pub(crate) fn get(words: &[u64], at: usize) -> Self {
        Count { records: words[at], bytes: words[at + 1] }
    }

    #[inline]
    pub(crate) fn store_in(self, words: &mut [u64], at: usize) {
        words[at..at + 2].copy_from_slice(&[self.records, self.bytes]);
    }

    /// Adds one record of `bytes`.
    #[inline]
    pub(crate) fn add(&mut self, bytes: u64) {
        self.records = self.records.wrapping_add(1);
        self.bytes = self.bytes.wrapping_add(bytes);
    }

    /// Returns the difference to `other`; zero if a hostile page has a smaller value here.
    #[must_use]
    pub fn since(self, other: Count) -> Count {
        Count {
            records: self.records.saturating_sub(other.records),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }

    /// Returns the sum, saturating, because a hostile page may hold any value.
    #[must_use]
    pub fn plus(self, other: Count) -> Count {
        Count {
            records: self.records.saturating_add(other.records),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

/// Refused records by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// A drop ring was full.
    pub full: Count,
    /// Too large for the ring.
    pub too_large: Count,
    /// The lock of a shared ring could not be taken.
    pub contended: Count,
    /// In a shared ring, an older reservation was open.
    pub pending: Count,
}

impl Refused {
    /// Returns each cause with its count, in the order of [`Cause::REFUSED`].
    ///
    /// ```
    /// # use perfring_ring::{Count, Refused};
    /// let refused = Refused { full: Count { records: 3, bytes: 72 }, ..Refused::default() };
    /// for (cause, count) in refused.by_cause().into_iter().filter(|(_, count)| count.records > 0) {
    ///     println!("{} records of {} bytes: {}", count.records, count.bytes, cause.name());
    /// }
    /// ```
    #[must_use]
    pub fn by_cause(&self) -> [(Cause, Count); Cause::REFUSED.len()] {
        Cause::REFUSED.map(|cause| (cause, self.of(cause)))
    }

    /// Returns the sum over all causes.
    #[must_use]
    pub fn total(&self) -> Count {
        self.by_cause().into_iter().fold(Count::default(), |sum, (_, count)| sum.plus(count))
    }

    /// Returns the difference to `other`, cause by cause.
    #[must_use]
    pub fn since(self, other: Refused) -> Refused {
        self.each(other, Count::since)
    }

    /// Returns how many causes differ.
    pub(crate) fn differences(&self, other: &Refused) -> u64 {
        u64::from(self.full != other.full)
            + u64::from(self.too_large != other.too_large)
            + u64::from(self.contended != other.contended)
            + u64::from(self.pending != other.pending)
    }

    /// Returns the sums, cause by cause.
    #[must_use]
    pub fn plus(self, other: Refused) -> Refused {
        self.each(other, Count::plus)
    }

    /// Returns for each cause the count with more records.
    pub(crate) fn later(self, other: Refused) -> Refused {
        self.each(other, |one, other| if one.records >= other.records { one } else { other })
    }

    /// Returns the count of a producer's cause. All other causes have the count of `full`, as in [`Refused::of_mut`].
    pub(crate) fn of(mut self, cause: Cause) -> Count {
        *self.of_mut(cause)
    }

    fn each(self, other: Refused, both: impl Fn(Count, Count) -> Count) -> Refused {
        Refused {
            full: both(self.full, other.full),
            too_large: both(self.too_large, other.too_large),
            contended: both(self.contended, other.contended),
            pending: both(self.pending, other.pending),
        }
    }

    /// Returns the count of a producer's cause. All other causes count as `full`, including those
    /// that another writer reported.
    pub(crate) fn of_mut(&mut self, cause: Cause) -> &mut Count {
        match cause {
            Cause::TooLarge => &mut self.too_large,
            Cause::Contended => &mut self.contended,
            Cause::Pending => &mut self.pending,
            Cause::Full | Cause::Lapped | Cause::Foreign => &mut self.full,
        }
    }

    pub(crate) fn get(words: &[u64], at: usize) -> Self {
        let count = |nth: usize| Count::get(words, at + 2 * nth);
        Refused { full: count(0), too_large: count(1), contended: count(2), pending: count(3) }
    }

    pub(crate) fn store_in(self, words: &mut [u64], at: usize) {
        for ((_, count), nth) in self.by_cause().into_iter().zip(0..) {
            count.store_in(words, at + 2 * nth);
        }
    }
}

/// The producers' counts since the ring was created, true at `pos`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProducerTotals {
    /// The `data_head` at which these totals are true.
    pub pos: u64,
    /// Committed.
    pub written: Count,
    /// Reserved and discarded.
    pub discarded: Count,
    /// Reserved by a producer of a shared ring that died.
    pub reclaimed: Count,
    /// Refused.
    pub refused: Refused,
    /// The part of `refused` that the stream has already reported.
    pub reported: Refused,
    /// Number of `PERF_RECORD_LOST` records in the stream.
    pub lost_markers: u64,
}

impl ProducerTotals {
    pub(crate) fn to_words(self) -> [u64; PRODUCER_TOTALS] {
        let mut words = [0; PRODUCER_TOTALS];
        words[p::POS] = self.pos;
        words[p::LOST_MARKERS] = self.lost_markers;
        self.written.store_in(&mut words, p::WRITTEN_RECORDS);
        self.discarded.store_in(&mut words, p::DISCARDED_RECORDS);
        self.reclaimed.store_in(&mut words, p::RECLAIMED_RECORDS);
        self.refused.store_in(&mut words, p::REFUSED);
        self.reported.store_in(&mut words, p::REPORTED);
        words
    }

    pub(crate) fn from_words(words: &[u64; PRODUCER_TOTALS]) -> Self {
        ProducerTotals {
            pos: words[p::POS],
            written: Count::get(words, p::WRITTEN_RECORDS),
            discarded: Count::get(words, p::DISCARDED_RECORDS),
            reclaimed: Count::get(words, p::RECLAIMED_RECORDS),
            refused: Refused::get(words, p::REFUSED),
            reported: Refused::get(words, p::REPORTED),
            lost_markers: words[p::LOST_MARKERS],
        }
    }
}

/// The consumer's counts since the ring was created, true at `pos`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConsumerTotals {
    /// Everything before this is released.
    pub pos: u64,
    /// Released.
    pub read: Count,
    /// Overwritten before the consumer read them.
    pub lapped: Count,
}

impl ConsumerTotals {
    pub(crate) fn to_words(self) -> [u64; CONSUMER_TOTALS] {
        let mut words = [0; CONSUMER_TOTALS];
        words[c::POS] = self.pos;
        self.read.store_in(&mut words, c::READ_RECORDS);
        self.lapped.store_in(&mut words, c::LAPPED_RECORDS);
        words
    }

    pub(crate) fn from_words(words: &[u64; CONSUMER_TOTALS]) -> Self {
        ConsumerTotals {
            pos: words[c::POS],
            read: Count::get(words, c::READ_RECORDS),
            lapped: Count::get(words, c::LAPPED_RECORDS),
        }
    }

    /// Everything before `pos`, read or not.
    pub(crate) fn passed(&self) -> Count {
        self.read.plus(self.lapped)
    }
}

/// A position in the stream to continue from later, with the counts that are needed to compute the losses in
/// between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// The position of the next record.
    pub pos: u64,
    /// Everything before it since the ring was created.
    pub before: Count,
    /// The refused records that the observer has returned as losses, since the ring was created.
    pub told: Refused,
}

/// The next item of a ring, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// Nothing: everything published before the last poll was taken.
    Empty,
    /// An unknown item: only a poll finds out which.
    More,
    /// A record with this timestamp, ns, or a loss of this time.
    Timestamped(u64),
    /// A record of a ring without time.
    Plain,
    /// A loss.
    Lost,
}

/// The reader that made a resume point. A reader releases only to its own resume points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReaderId(u64);

impl ReaderId {
    /// Returns an id that no other reader of this process has.
    #[must_use]
    pub fn unique() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        ReaderId(NEXT.fetch_add(1, Ordering::Relaxed)) // says nothing of other memory
    }
}

/// A position in a ring after a record that was read, with the totals that are true there. It is released
/// later.
///
/// Only a reader makes a resume point, after a whole record, and only that reader releases to it. A release in the
/// middle of a record, or by the totals of another ring, is therefore impossible. The default belongs to no reader
/// and is before everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResumePoint {
    pub(crate) of: ReaderId,
    pub(crate) pos: u64,
    pub(crate) before: Count,
    /// The part of `before` that was overwritten before the reader came to it.
    pub(crate) lapped: Count,
    /// The end of the last AUX range before the position, in a drop ring.
    pub(crate) range_end: u64,
    /// The refused records that the reader has returned as losses.
    pub(crate) told: Refused,
    /// Whether `told` is more than the markers before the position report.
    pub(crate) ahead: bool,
}

impl ResumePoint {
    /// Makes a resume point for a reader outside this crate. Readers of this crate compare ids, and do not release to
    /// such a point.
    #[must_use]
    pub fn new(of: ReaderId, pos: u64, before: Count) -> Self {
        ResumePoint { of, pos, before, ..ResumePoint::default() }
    }

    /// Returns whether this reader made the resume point.
    #[must_use]
    #[inline]
    pub fn is_of(&self, reader: ReaderId) -> bool {
        self.of == reader
    }

    /// Returns the position of the next record.
    #[must_use]
    #[inline]
    pub fn pos(&self) -> u64 {
        self.pos
    }

    /// Returns the count of everything before it since the ring was created.
    #[must_use]
    #[inline]
    pub fn before(&self) -> Count {
        self.before
    }

    /// Returns the part of [`before`](ResumePoint::before) that was overwritten before the reader came to it.
    #[must_use]
    pub fn lapped(&self) -> Count {
        self.lapped
    }

    /// Returns the position for an observer to continue from.
    #[must_use]
    pub fn saved(&self) -> Saved {
        Saved { pos: self.pos, before: self.before, told: self.told }
    }

    pub(crate) fn totals(&self) -> ConsumerTotals {
        let read = self.before.since(self.lapped);
        ConsumerTotals { pos: self.pos, read, lapped: self.lapped }
    }
}
