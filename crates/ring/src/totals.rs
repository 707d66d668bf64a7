//! The books brought up to a position: the producer writes its book every so often, and whoever
//! needs a count in between walks the records from there.

use crate::book::{ConsumerBook, Count, ProducerBook};
use crate::observer::oldest;
use crate::reader::lost_at;
use crate::room::reach;
use crate::{Corrupt, POS_MAX, Ring, latch};
use perfring_abi::atomic::{Ordering, spin_loop};
use perfring_abi::{Cause, Policy, RecordType, RecordWord};

/// How often a walk is begun again because the producer was faster.
const TRIES: u32 = if cfg!(loom) { 2 } else { 100 };

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
        // In the order of a record's life turned round: what is read or gone was written before.
        let consumer = latch::find(&ring.header.consumer)?;
        let place = oldest(ring, policy).ok()?;
        let producer = newest_book(ring).ok()?;
        let (consumer, overwritten) = match policy {
            Policy::Overwrite => (ConsumerBook::from_words(&consumer.words), place.before),
            // After a death between the book and the tail, the book that fits the tail counts;
            // after a foreign reader, what stood before the tail is what was read.
            Policy::Drop => {
                let read =
                    ConsumerBook { pos: place.pos, read: place.before, lapped: Count::default() };
                let fits = latch::find_where(&ring.header.consumer, |words| {
                    ConsumerBook::from_words(words).pos == place.pos
                });
                let book = fits.map_or(read, |whole| ConsumerBook::from_words(&whole.words));
                (book, Count::default())
            }
        };
        Some(Totals {
            head: producer.pos,
            tail: place.pos,
            producer,
            consumer,
            overwritten,
            present: producer.written.since(place.before),
        })
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
                book.lost_markers = book.lost_markers.wrapping_add(1);
            }
            _ => book.written.add(size),
        }
        book.pos += size;
    }
    Ok(book)
}

/// The producer's book, brought up to the newest head at which that can be done.
pub(crate) fn newest_book(ring: Ring<'_>) -> Result<ProducerBook, Corrupt> {
    for _ in 0..TRIES {
        if let Some(book) = book_at_head(ring)? {
            return Ok(book);
        }
        spin_loop();
    }
    // A producer that overtakes every walk: its book alone is true too, and not far behind.
    producer_book(ring).ok_or(Corrupt { pos: ring.head() })
}

/// The producer's book at `data_head`, or `None` if the producer was faster than the walk.
fn book_at_head(ring: Ring<'_>) -> Result<Option<ProducerBook>, Corrupt> {
    let head = ring.head();
    let book = producer_book(ring).ok_or(Corrupt { pos: head })?;
    if book.pos > head {
        // The book is true at a later head, unless it lies.
        let lies = book.pos > ring.head() || book.pos > POS_MAX || !book.pos.is_multiple_of(8);
        return if lies { Err(Corrupt { pos: book.pos }) } else { Ok(Some(book)) };
    }
    let walked = if head - book.pos > reach(ring) {
        Err(Corrupt { pos: book.pos })
    } else {
        bring_up(ring, book, head)
    };
    if stood(ring, book.pos) { walked.map(Some) } else { Ok(None) }
}

/// Whether what has just been read from `from` on was still there. A producer publishes its tail
/// and its book before it writes over what was before them (E).
fn stood(ring: Ring<'_>, from: u64) -> bool {
    ring.tail() <= from // F
        || producer_book(ring).is_some_and(|book| {
            book.pos.saturating_add(reach(ring)) <= from.saturating_add(ring.data_size())
        })
}

/// How many records, and bytes of them, stand before a position that is a record boundary. `None`
/// if the place was passed while it was counted.
pub(crate) fn count_at(ring: Ring<'_>, pos: u64) -> Result<Option<Count>, Corrupt> {
    let book = producer_book(ring).ok_or(Corrupt { pos })?;
    let (from, to) = (book.pos.min(pos), book.pos.max(pos));
    let start = ProducerBook { pos: from, ..ProducerBook::default() };
    let between = bring_up(ring, start, to);
    if !stood(ring, from) {
        return Ok(None);
    }
    let between = between?.written;
    Ok(Some(if book.pos <= pos { book.written.plus(between) } else { book.written.since(between) }))
}

/// As [`count_at`], for the consumer at its own tail: from there on nothing is overwritten, and
/// only the way from a book before it may have to be walked again.
pub(crate) fn count_surely(ring: Ring<'_>, tail: u64) -> Result<Count, Corrupt> {
    for _ in 0..TRIES {
        if let Some(count) = count_at(ring, tail)? {
            return Ok(count);
        }
        spin_loop();
    }
    Err(Corrupt { pos: tail })
}
