//! The ledger of a shared ring: the producers' book as of `producer_pos`, kept under the lock.

use crate::counters::{Count, ProducerBook, Refused};
use crate::latch::{self, LatchWriter};
use crate::record::Corrupt;
use crate::recount::bring_up;
use crate::view::Shared;
use perfring_abi::atomic::Ordering;
use perfring_abi::{Hole, LEDGER, LOST_SIZE, RecordWord, SharedLine, ledger};

/// The ledger as a book that is true at `producer_pos`, if nothing is open: then nobody adds to it
/// without the lock either.
fn ledger_book(at: Shared<'_>, pos: u64) -> ProducerBook {
    // Relaxed throughout: the lock orders it.
    let line = &at.ring.header.shared;
    let words = line.ledger.each_ref().map(|word| word.load(Ordering::Relaxed));
    let discarded = Count::get(&words, ledger::DISCARDED_RECORDS);
    let reclaimed = Count::get(&words, ledger::RECLAIMED_RECORDS);
    let lost_markers = words[ledger::LOST_MARKERS];
    let markers = lost_markers.wrapping_mul(LOST_SIZE.into());
    let other = discarded.bytes.wrapping_add(reclaimed.bytes).wrapping_add(markers);
    ProducerBook {
        pos,
        written: Count { records: written(line), bytes: pos.wrapping_sub(other) },
        discarded,
        reclaimed,
        told: Refused::get(&words, ledger::TOLD),
        lost_markers,
        ..ProducerBook::default()
    }
}

/// Makes the ledger say what a counted book says.
fn set_ledger(at: Shared<'_>, book: &ProducerBook) {
    // Relaxed throughout: the lock orders it.
    let line = &at.ring.header.shared;
    let mut words = [0; LEDGER];
    book.discarded.put(&mut words, ledger::DISCARDED_RECORDS);
    book.reclaimed.put(&mut words, ledger::RECLAIMED_RECORDS);
    book.told.put(&mut words, ledger::TOLD);
    words[ledger::LOST_MARKERS] = book.lost_markers;
    for (to, word) in line.ledger.iter().zip(words) {
        to.store(word, Ordering::Relaxed);
    }
    line.ledger_written.store(book.written.records, Ordering::Relaxed);
    line.ledger_more.store(0, Ordering::Relaxed);
    line.ledger_stale.store(0, Ordering::Relaxed);
}

/// Writes the producers' book, true at `head`, under the lock.
///
/// With nothing open the ledger is the book. Else, or after an end that the ledger does not know
/// of, the records since the last book are counted.
pub(crate) fn write_book(at: Shared<'_>, head: u64, end: u64) -> Result<(), Corrupt> {
    let header = at.ring.header;
    let whole = latch::find(&header.producer).ok_or(Corrupt { pos: head })?;
    let settled = head == end;
    let book = if settled && header.shared.ledger_stale.load(Ordering::Relaxed) == 0 {
        ledger_book(at, head)
    } else {
        let old = ProducerBook::from_words(&whole.words);
        let book = bring_up(at.ring, old, head)?;
        if settled {
            set_ledger(at, &book);
        }
        book
    };
    LatchWriter::after(&header.producer, Some(&whole)).write(&header.producer, &book.to_words());
    Ok(())
}

/// Expects so many records more. Under the lock.
#[inline(always)]
pub(crate) fn expect(at: Shared<'_>, records: u64) {
    // Relaxed, and no addition in one: the lock orders it.
    let written = &at.ring.header.shared.ledger_written;
    written.store(written.load(Ordering::Relaxed).wrapping_add(records), Ordering::Relaxed);
}

/// Tells the ledger of an end that it does not expect. Before it comes: whoever finds nothing
/// open any more (B) finds this too. If it never comes, because this producer dies, the ledger
/// is counted anew.
pub(crate) fn correct(at: Shared<'_>, written: u64, discarded: Count) {
    let line = &at.ring.header.shared;
    let ledger = &line.ledger[ledger::DISCARDED_RECORDS..];
    let more = [discarded.records, discarded.bytes, written];
    for (word, more) in ledger[..2].iter().chain([&line.ledger_more]).zip(more) {
        if more != 0 {
            word.fetch_add(more, Ordering::Relaxed); // N publishes it
        }
    }
}

/// Counts losses that are told by so many markers. Under the lock.
pub(crate) fn add_told(at: Shared<'_>, losses: Refused, markers: u64) {
    let mut more = [0; LEDGER];
    losses.put(&mut more, ledger::TOLD);
    more[ledger::LOST_MARKERS] = markers;
    // No further ahead: those are added to without the lock.
    for (word, more) in at.ring.header.shared.ledger.iter().zip(more).skip(ledger::TOLD) {
        // Relaxed: the lock orders it.
        word.store(word.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }
}

/// How many records there are, open ones among them; very many where that is not known.
pub(crate) fn records(at: Shared<'_>) -> u64 {
    let line = &at.ring.header.shared;
    // Relaxed: who asks has a wish.
    match line.ledger_stale.load(Ordering::Relaxed) {
        0 => written(line),
        _ => u64::MAX,
    }
}

fn written(line: &SharedLine) -> u64 {
    let expected = line.ledger_written.load(Ordering::Relaxed);
    expected.wrapping_add(line.ledger_more.load(Ordering::Relaxed))
}

/// Opens a reservation, under the lock.
#[inline(always)]
pub(crate) fn open(at: Shared<'_>, start: u64, word: RecordWord) {
    // Relaxed: O publishes it.
    at.ring.word(start).store(word.raw(), Ordering::Relaxed);
    expect(at, 1);
    at.ring.header.shared.producer_pos.store(start + word.size(), Ordering::Release); // O
}

/// What is left of a reservation becomes a hole of its own, and the ledger hears of it, and of
/// records that it did not expect.
pub(crate) fn leave(at: Shared<'_>, pos: u64, rest: u64, more: u64) {
    if rest > 0 {
        // Relaxed: the swap publishes it.
        at.ring.word(pos).store(RecordWord::nop(rest, Hole::Rest).raw(), Ordering::Relaxed);
    }
    correct(at, more, Count { records: 0, bytes: rest });
}
