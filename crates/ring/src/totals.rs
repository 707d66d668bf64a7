//! The books brought up to a position: the producer writes its book every so often, and whoever
//! needs a count in between walks the records from there.

use crate::book::{ConsumerBook, Count, ProducerBook};
use crate::reader::lost_at;
use crate::{Corrupt, Ring, latch};
use perfring_abi::atomic::Ordering;
use perfring_abi::{Cause, Policy, RecordType, RecordWord};

/// Everything that can be said of a ring's books at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// `data_head`.
    pub head: u64,
    /// `data_tail`.
    pub tail: u64,
    /// The producers' figures, true at `head`.
    pub producer: ProducerBook,
    /// The consumer's figures.
    pub consumer: ConsumerBook,
    /// Overwritten before `tail`.
    pub overwritten: Count,
    /// Written and neither released nor overwritten.
    pub present: Count,
}

impl Totals {
    /// The books of a ring, dead or alive. On a live one the figures are those of one moment each,
    /// and of nearly the same moment together; on one at rest they are exact.
    #[must_use]
    pub fn read(ring: Ring<'_>, policy: Policy) -> Option<Self> {
        for _ in 0..100 {
            let head = ring.head();
            let Some(book) = producer_book(ring) else {
                continue;
            };
            let Ok(producer) = bring_up(ring, book, head.max(book.pos)) else {
                continue;
            };
            let consumer = latch::find(&ring.header.consumer)
                .map(|whole| ConsumerBook::from_words(&whole.words))?;
            let tail = ring.tail();
            if tail > book.pos && ring.head() != head {
                continue; // the walk may have read what was being written over it
            }
            let Ok(place) = crate::observer::oldest(ring, policy) else {
                continue;
            };
            let overwritten =
                if policy == Policy::Overwrite { place.before } else { Count::default() };
            let present = producer.written.since(place.before);
            return Some(Totals {
                head: producer.pos,
                tail: place.pos,
                producer,
                consumer,
                overwritten,
                present,
            });
        }
        None
    }

    /// Losses that the counters know and the stream does not tell yet.
    #[must_use]
    pub fn untold(&self) -> Count {
        let full = self.producer.full.since(self.producer.told_full);
        full.plus(self.producer.too_large.since(self.producer.told_too_large))
    }
}

/// The newest whole book of the producer.
pub(crate) fn producer_book(ring: Ring<'_>) -> Option<ProducerBook> {
    latch::find(&ring.header.producer).map(|whole| ProducerBook::from_words(&whole.words))
}

/// The book as it was when `head` was published: walks the records since.
pub(crate) fn bring_up(
    ring: Ring<'_>,
    mut book: ProducerBook,
    head: u64,
) -> Result<ProducerBook, Corrupt> {
    if !book.pos.is_multiple_of(8) || book.pos > head || head - book.pos > ring.data_size() {
        return Err(Corrupt { pos: book.pos });
    }
    while book.pos != head {
        // Relaxed: the caller acquired the head, and judges by the tail whether this still stood.
        let word = RecordWord::from_raw(ring.word(book.pos).load(Ordering::Relaxed));
        let size = word.size();
        if word.payload_len().is_none() || size > head - book.pos {
            return Err(Corrupt { pos: book.pos });
        }
        match word.kind() {
            RecordType::NOP => book.discarded.add(size),
            RecordType::LOST => {
                let lost = lost_at(ring, book.pos, size).ok_or(Corrupt { pos: book.pos })?;
                let count = Count { records: lost.records, bytes: lost.bytes };
                match lost.cause {
                    Cause::TooLarge => book.told_too_large = book.told_too_large.plus(count),
                    _ => book.told_full = book.told_full.plus(count),
                }
                book.lost_markers += 1;
            }
            _ => book.written.add(size),
        }
        book.pos += size;
    }
    Ok(book)
}

/// How many records, and bytes of them, stand before a position that is a record boundary. `None`
/// if the place was passed while it was counted, or the ring is damaged.
pub(crate) fn count_at(ring: Ring<'_>, pos: u64) -> Option<Count> {
    let book = producer_book(ring)?;
    let (from, to) = (book.pos.min(pos), book.pos.max(pos));
    let start = ProducerBook { pos: from, ..ProducerBook::default() };
    let between = bring_up(ring, start, to).ok()?.written;
    if ring.tail() > from {
        return None;
    }
    Some(if book.pos <= pos { book.written.plus(between) } else { book.written.since(between) })
}
