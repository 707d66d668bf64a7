//! The ledger of a shared ring: the producers' book as of `producer_pos`, kept under the lock.

use crate::counters::{Count, ProducerTotals, Refused};
use crate::record::Corrupt;
use crate::recount::bring_up;
use crate::seq_latch::{self, SeqLatchWriter};
use crate::view::Shared;
use perfring_abi::atomic::Ordering;
use perfring_abi::{Hole, LOST_SIZE, RUNNING, RecordWord, SharedLine, running};

/// The ledger as a book that is true at `producer_pos`, if nothing is open: then nobody adds to it
/// without the lock either.
fn running_totals(at: Shared<'_>, pos: u64) -> ProducerTotals {
    // Relaxed throughout: the lock orders it.
    let line = &at.ring.header.shared;
    let words = line.running.each_ref().map(|word| word.load(Ordering::Relaxed));
    let discarded = Count::get(&words, running::DISCARDED_RECORDS);
    let reclaimed = Count::get(&words, running::RECLAIMED_RECORDS);
    let lost_markers = words[running::LOST_MARKERS];
    let markers = lost_markers.wrapping_mul(LOST_SIZE.into());
    let other = discarded.bytes.wrapping_add(reclaimed.bytes).wrapping_add(markers);
    ProducerTotals {
        pos,
        written: Count { records: written(line), bytes: pos.wrapping_sub(other) },
        discarded,
        reclaimed,
        reported: Refused::get(&words, running::REPORTED),
        lost_markers,
        ..ProducerTotals::default()
    }
}

/// Makes the ledger say what a counted book says.
fn set_running(at: Shared<'_>, totals: &ProducerTotals) {
    // Relaxed throughout: the lock orders it.
    let line = &at.ring.header.shared;
    let mut words = [0; RUNNING];
    totals.discarded.put(&mut words, running::DISCARDED_RECORDS);
    totals.reclaimed.put(&mut words, running::RECLAIMED_RECORDS);
    totals.reported.put(&mut words, running::REPORTED);
    words[running::LOST_MARKERS] = totals.lost_markers;
    for (to, word) in line.running.iter().zip(words) {
        to.store(word, Ordering::Relaxed);
    }
    line.running_written.store(totals.written.records, Ordering::Relaxed);
    line.running_more.store(0, Ordering::Relaxed);
    line.running_stale.store(0, Ordering::Relaxed);
}

/// Writes the producers' book, true at `head`, under the lock.
///
/// With nothing open the ledger is the book. Else, or after an end that the ledger does not know
/// of, the records since the last book are counted.
pub(crate) fn write_totals(at: Shared<'_>, head: u64, end: u64) -> Result<(), Corrupt> {
    let header = at.ring.header;
    let whole = seq_latch::find(&header.producer).ok_or(Corrupt { pos: head })?;
    let settled = head == end;
    let totals = if settled && header.shared.running_stale.load(Ordering::Relaxed) == 0 {
        running_totals(at, head)
    } else {
        let old = ProducerTotals::from_words(&whole.words);
        let totals = bring_up(at.ring, old, head)?;
        if settled {
            set_running(at, &totals);
        }
        totals
    };
    SeqLatchWriter::after(&header.producer, Some(&whole))
        .write(&header.producer, &totals.to_words());
    Ok(())
}

/// Expects so many records more. Under the lock.
#[inline(always)]
pub(crate) fn expect(at: Shared<'_>, records: u64) {
    // Relaxed, and no addition in one: the lock orders it.
    let written = &at.ring.header.shared.running_written;
    written.store(written.load(Ordering::Relaxed).wrapping_add(records), Ordering::Relaxed);
}

/// Tells the ledger of an end that it does not expect. Before it comes: whoever finds nothing
/// open any more (B) finds this too. If it never comes, because this producer dies, the ledger
/// is counted anew.
pub(crate) fn correct(at: Shared<'_>, written: u64, discarded: Count) {
    let line = &at.ring.header.shared;
    let running = &line.running[running::DISCARDED_RECORDS..];
    let more = [discarded.records, discarded.bytes, written];
    for (word, more) in running[..2].iter().chain([&line.running_more]).zip(more) {
        if more != 0 {
            word.fetch_add(more, Ordering::Relaxed); // N publishes it
        }
    }
}

/// Counts losses that are told by so many markers. Under the lock.
pub(crate) fn add_reported(at: Shared<'_>, losses: Refused, markers: u64) {
    let mut more = [0; RUNNING];
    losses.put(&mut more, running::REPORTED);
    more[running::LOST_MARKERS] = markers;
    // No further ahead: those are added to without the lock.
    for (word, more) in at.ring.header.shared.running.iter().zip(more).skip(running::REPORTED) {
        // Relaxed: the lock orders it.
        word.store(word.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }
}

/// How many records there are, open ones among them; very many where that is not known.
pub(crate) fn records(at: Shared<'_>) -> u64 {
    let line = &at.ring.header.shared;
    // Relaxed: who asks has a wish.
    match line.running_stale.load(Ordering::Relaxed) {
        0 => written(line),
        _ => u64::MAX,
    }
}

fn written(line: &SharedLine) -> u64 {
    let expected = line.running_written.load(Ordering::Relaxed);
    expected.wrapping_add(line.running_more.load(Ordering::Relaxed))
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
