//! The books brought up to a position: the producer writes its book every so often, and whoever
//! needs a count in between walks the records from there.

use crate::book::{ConsumerBook, Count, ProducerBook};
use crate::observer::oldest;
use crate::record::{Corrupt, Record, lost_at};
use crate::room::reach;
use crate::{POS_MAX, Ring, Shared, latch};
use perfring_abi::atomic::{Ordering, spin_loop};
use perfring_abi::{Hole, Policy, RecordType};

/// How often a walk is begun again because the producer was faster.
const TRIES: u32 = if cfg!(loom) { 2 } else { 100 };

/// Everything that can be said of a ring's books at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// `data_head`.
    pub head: u64,
    /// `data_tail`.
    pub tail: u64,
    /// `aux_head`: end of the newest range of the AUX area; 0 in a ring without one. Not checked, as
    /// `aux_tail`.
    pub aux_head: u64,
    /// `aux_tail`: what the consumer has released of it, or before which no range is whole.
    pub aux_tail: u64,
    /// The producers' figures, true at `head`.
    pub producer: ProducerBook,
    /// The consumer's figures.
    pub consumer: ConsumerBook,
    /// Overwritten before `tail`.
    pub overwritten: Count,
    /// Written and neither released nor overwritten.
    pub present: Count,
    /// In a shared ring: committed, and not among the written, because a reservation before it is
    /// open whose producer is dead. Readers see it once the ring is recovered.
    pub stranded: Count,
}

impl Totals {
    /// The books of a ring, dead or alive. On a live one the figures are those of one moment each,
    /// and of nearly the same moment together; on one at rest they are exact.
    #[must_use]
    pub fn read(ring: Ring<'_>, policy: Policy) -> Option<Self> {
        Self::of(Shared::new(ring, &[]), policy, |_| false)
    }

    /// As [`Totals::read`], for a ring with slots; `is_dead` says whether a slot's producer is.
    #[must_use]
    pub fn of(at: Shared<'_>, policy: Policy, is_dead: impl Fn(u32) -> bool) -> Option<Self> {
        let ring = at.ring();
        // In the order of a record's life turned round: what is read or gone was written before.
        let consumer = latch::find(&ring.header.consumer)?;
        let place = oldest(ring, policy).ok()?;
        let mut producer = newest_book(ring).ok()?;
        producer.refused = producer.refused.plus(crate::slot::refused(at.slots));
        let stranded = Stranded::find(at, is_dead).written;
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
            // Relaxed: figures for people.
            aux_head: ring.header.aux.head.load(Ordering::Relaxed),
            aux_tail: ring.header.aux.tail.load(Ordering::Relaxed),
            producer,
            consumer,
            overwritten,
            present: producer.written.since(place.before),
            stranded,
        })
    }

    /// Losses that the counters know and the stream does not tell yet.
    #[must_use]
    pub fn untold(&self) -> Count {
        self.producer.refused.since(self.producer.told).total()
    }
}

/// The stamp of the newest record of a ring with time, or 0 if there was none; of a busy one perhaps
/// that of a record some time before. Of a hostile one anything.
#[must_use]
pub fn newest_stamp(ring: Ring<'_>) -> u64 {
    let head = ring.head();
    let from = match producer_book(ring) {
        Some(book) if book.pos <= head && head - book.pos <= reach(ring) => book.pos,
        _ => head, // what was noted alone
    };
    let walked = crate::time::newest_stamp(ring, from, head);
    if stood(ring, from) { walked } else { crate::time::newest_stamp(ring, head, head) }
}

/// What is committed behind reservations that dead producers left open.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stranded {
    /// Where `data_head` would be if the ring were recovered.
    pub(crate) upto: u64,
    pub(crate) written: Count,
}

impl Stranded {
    pub(crate) fn find(at: Shared<'_>, is_dead: impl Fn(u32) -> bool) -> Self {
        let (ring, head) = (at.ring(), at.ring().head());
        let mut found = Stranded { upto: head, written: Count::default() };
        let mut counted = Count::default();
        for record in at.unpublished(head).map_while(Result::ok) {
            match record.word.owner() {
                Some(owner) if !is_dead(owner) => break,
                None if record.word.is_data() => {
                    counted.add(record.size());
                    // Holes after the last record bring nobody anything.
                    found = Stranded { upto: record.end(), written: counted };
                }
                _ => {}
            }
        }
        // What is written over behind the eyes of who looks was no such record.
        if ring.tail() > head {
            found = Stranded { upto: ring.head(), written: Count::default() }; // F
        }
        found
    }
}

/// The newest whole book of the producer.
pub(crate) fn producer_book(ring: Ring<'_>) -> Option<ProducerBook> {
    latch::find(&ring.header.producer).map(|whole| ProducerBook::from_words(&whole.words))
}

/// The book as it was when `head` was published: walks the records since. Beyond `data_head`, where
/// only a shared ring's producers look, an open reservation counts as a record.
pub(crate) fn bring_up(
    ring: Ring<'_>,
    mut book: ProducerBook,
    head: u64,
) -> Result<ProducerBook, Corrupt> {
    if !book.pos.is_multiple_of(8) || book.pos > head || head - book.pos > ring.data_size() {
        return Err(Corrupt { pos: book.pos });
    }
    for record in ring.records(book.pos, head) {
        let Record { pos, word, .. } = record?;
        let size = word.size();
        match word.kind() {
            RecordType::NOP => match Hole::of(word.misc()) {
                Hole::Discarded => book.discarded.add(size),
                Hole::Reclaimed => book.reclaimed.add(size),
                Hole::Rest => book.discarded.bytes = book.discarded.bytes.wrapping_add(size),
            },
            RecordType::LOST => {
                let lost = lost_at(ring, pos, size).ok_or(Corrupt { pos })?;
                let count = Count { records: lost.records, bytes: lost.bytes };
                let told = book.told.of_mut(lost.cause);
                *told = told.plus(count);
                book.lost_markers = book.lost_markers.wrapping_add(1);
            }
            _ => book.written.add(size),
        }
    }
    book.pos = head;
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
