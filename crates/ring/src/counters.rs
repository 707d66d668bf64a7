//! The books: what was written, read and lost, so that `written = read + lost + still there`.

use perfring_abi::{
    CONSUMER_BOOK, Cause, LOST_SIZE, PRODUCER_BOOK, RecordWord, consumer_book as c,
    producer_book as p,
};

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

/// Refused records by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// A drop ring was full.
    pub full: Count,
    /// Too large for the ring.
    pub too_large: Count,
    /// The lock of a shared ring was not to be had.
    pub contended: Count,
    /// In a shared ring, an older reservation was still open.
    pub pending: Count,
}

impl Refused {
    /// The counts in the order of [`Cause::REFUSED`].
    #[must_use]
    pub fn all(&self) -> [Count; Cause::REFUSED.len()] {
        [self.full, self.too_large, self.contended, self.pending]
    }

    /// Of all causes together.
    #[must_use]
    pub fn total(&self) -> Count {
        self.all().into_iter().fold(Count::default(), Count::plus)
    }

    /// What this has more than `other`, cause by cause.
    #[must_use]
    pub fn since(self, other: Refused) -> Refused {
        Refused {
            full: self.full.since(other.full),
            too_large: self.too_large.since(other.too_large),
            contended: self.contended.since(other.contended),
            pending: self.pending.since(other.pending),
        }
    }

    /// The sums, cause by cause.
    #[must_use]
    pub fn plus(self, other: Refused) -> Refused {
        Refused {
            full: self.full.plus(other.full),
            too_large: self.too_large.plus(other.too_large),
            contended: self.contended.plus(other.contended),
            pending: self.pending.plus(other.pending),
        }
    }

    /// Of the producers' causes; all others count as `full`, as what another writer told does.
    pub(crate) fn of_mut(&mut self, cause: Cause) -> &mut Count {
        match cause {
            Cause::TooLarge => &mut self.too_large,
            Cause::Contended => &mut self.contended,
            Cause::Pending => &mut self.pending,
            Cause::Full | Cause::Lapped | Cause::Foreign => &mut self.full,
        }
    }

    pub(crate) fn to_words(self, words: &mut [u64]) {
        for (to, count) in words.chunks_exact_mut(2).zip(self.all()) {
            to.copy_from_slice(&[count.records, count.bytes]);
        }
    }

    pub(crate) fn from_words(words: &[u64]) -> Self {
        let mut counts = words.chunks_exact(2).map(|two| Count { records: two[0], bytes: two[1] });
        let mut next = || counts.next().unwrap_or_default();
        Refused { full: next(), too_large: next(), contended: next(), pending: next() }
    }
}

/// Words of [`Refused`].
pub(crate) const REFUSED: usize = 2 * Cause::REFUSED.len();

/// What producers have done since the ring was made, true at `pos`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProducerBook {
    /// The `data_head` at which this is true.
    pub pos: u64,
    /// Committed.
    pub written: Count,
    /// Reserved and given back.
    pub discarded: Count,
    /// Reserved by a producer of a shared ring that died.
    pub reclaimed: Count,
    /// Refused.
    pub refused: Refused,
    /// Of `refused`, already told in the stream.
    pub told: Refused,
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
            (p::RECLAIMED_RECORDS, self.reclaimed),
        ] {
            words[at] = count.records;
            words[at + 1] = count.bytes;
        }
        self.refused.to_words(&mut words[p::REFUSED..][..REFUSED]);
        self.told.to_words(&mut words[p::TOLD..][..REFUSED]);
        words
    }

    pub(crate) fn from_words(words: &[u64; PRODUCER_BOOK]) -> Self {
        let count = |at: usize| Count { records: words[at], bytes: words[at + 1] };
        ProducerBook {
            pos: words[p::POS],
            written: count(p::WRITTEN_RECORDS),
            discarded: count(p::DISCARDED_RECORDS),
            reclaimed: count(p::RECLAIMED_RECORDS),
            refused: Refused::from_words(&words[p::REFUSED..][..REFUSED]),
            told: Refused::from_words(&words[p::TOLD..][..REFUSED]),
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

/// A place in the stream to go on from later, with what is needed to count what was lost meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// The position of the next record.
    pub pos: u64,
    /// What stood before it since the ring was made.
    pub before: Count,
}

/// The words of a `PERF_RECORD_LOST`.
pub(crate) fn lost_words(cause: Cause, lost: Count) -> [u64; (LOST_SIZE / 8) as usize] {
    [RecordWord::lost().raw(), cause.code(), lost.records, lost.bytes]
}
