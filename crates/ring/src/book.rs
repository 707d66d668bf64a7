//! The books: what was written, read and lost, so that `written = read + lost + still there`.

use perfring_abi::{CONSUMER_BOOK, PRODUCER_BOOK, consumer_book as c, producer_book as p};

/// Records and the bytes they take in the ring, headers and padding included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// How many records.
    pub records: u64,
    /// How many bytes.
    pub bytes: u64,
}

impl Count {
    /// One more record of `bytes`.
    #[inline]
    pub(crate) fn add(&mut self, bytes: u64) {
        self.records = self.records.wrapping_add(1);
        self.bytes = self.bytes.wrapping_add(bytes);
    }

    /// What this has more than `other`: zero where a hostile page says less.
    #[must_use]
    pub fn since(self, other: Count) -> Count {
        Count {
            records: self.records.saturating_sub(other.records),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }

    /// The sum, which a hostile page cannot make overflow.
    #[must_use]
    pub fn plus(self, other: Count) -> Count {
        Count {
            records: self.records.saturating_add(other.records),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

/// What producers have done since the ring was made, true at `pos`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProducerBook {
    /// The `data_head` at which this is true.
    pub pos: u64,
    /// Committed.
    pub written: Count,
    /// Reserved and given back.
    pub discarded: Count,
    /// Refused by a full ring.
    pub full: Count,
    /// Refused for their size.
    pub too_large: Count,
    /// Of `full`, already told in the stream.
    pub told_full: Count,
    /// Of `too_large`, already told in the stream.
    pub told_too_large: Count,
    /// `PERF_RECORD_LOST` records in the stream.
    pub lost_markers: u64,
}

impl ProducerBook {
    pub(crate) fn to_words(self) -> [u64; PRODUCER_BOOK] {
        let mut words = [0; PRODUCER_BOOK];
        words[p::POS] = self.pos;
        words[p::LOST_MARKERS] = self.lost_markers;
        for (at, count) in [
            (p::WRITTEN_RECORDS, self.written),
            (p::DISCARDED_RECORDS, self.discarded),
            (p::FULL_RECORDS, self.full),
            (p::TOO_LARGE_RECORDS, self.too_large),
            (p::TOLD_FULL_RECORDS, self.told_full),
            (p::TOLD_TOO_LARGE_RECORDS, self.told_too_large),
        ] {
            words[at] = count.records;
            words[at + 1] = count.bytes;
        }
        words
    }

    pub(crate) fn from_words(words: &[u64; PRODUCER_BOOK]) -> Self {
        let count = |at: usize| Count { records: words[at], bytes: words[at + 1] };
        ProducerBook {
            pos: words[p::POS],
            written: count(p::WRITTEN_RECORDS),
            discarded: count(p::DISCARDED_RECORDS),
            full: count(p::FULL_RECORDS),
            too_large: count(p::TOO_LARGE_RECORDS),
            told_full: count(p::TOLD_FULL_RECORDS),
            told_too_large: count(p::TOLD_TOO_LARGE_RECORDS),
            lost_markers: words[p::LOST_MARKERS],
        }
    }
}

/// What the consumer has done since the ring was made, true at `pos`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConsumerBook {
    /// Everything before this is released.
    pub pos: u64,
    /// Released.
    pub read: Count,
    /// Overwritten before the consumer came to them.
    pub lapped: Count,
}

impl ConsumerBook {
    pub(crate) fn to_words(self) -> [u64; CONSUMER_BOOK] {
        let mut words = [0; CONSUMER_BOOK];
        words[c::POS] = self.pos;
        words[c::READ_RECORDS] = self.read.records;
        words[c::READ_BYTES] = self.read.bytes;
        words[c::LAPPED_RECORDS] = self.lapped.records;
        words[c::LAPPED_BYTES] = self.lapped.bytes;
        words
    }

    pub(crate) fn from_words(words: &[u64; CONSUMER_BOOK]) -> Self {
        ConsumerBook {
            pos: words[c::POS],
            read: Count { records: words[c::READ_RECORDS], bytes: words[c::READ_BYTES] },
            lapped: Count { records: words[c::LAPPED_RECORDS], bytes: words[c::LAPPED_BYTES] },
        }
    }

    /// Everything that lies before `pos`, read or not.
    pub(crate) fn passed(&self) -> Count {
        self.read.plus(self.lapped)
    }
}
