//! The running totals of a shared ring: the producers' totals as of `producer_pos`, kept under the
//! lock.

use crate::counters::{Count, ProducerTotals, Refused};
use crate::record::Corrupt;
use crate::recount::{bring_up_while, totals_interval};
use crate::seq_latch::{self, SeqLatchWriter};
use crate::shared::sweep::STEPS;
use crate::view::Shared;
use perfring_abi::atomic::Ordering;
use perfring_abi::{Header, Hole, LOST_SIZE, RUNNING, RecordWord, SharedLine, running};

/// Bytes between two counts of records that the running totals lack. Each count passes 256 records,
/// and these bytes hold at most 128.
const LAGGING: u64 = 1024;

pub(crate) fn lagging(at: Shared<'_>) -> u64 {
    LAGGING.min(totals_interval(at.ring) / 8)
}

/// Returns the bytes after which the producers' totals are due. They are few after a death, until a count has reached the
/// end. (Nearly always the first count does, and the totals are due at the usual interval:
/// GROWTH.md.)
pub(crate) fn interval(at: Shared<'_>, lags: bool) -> u64 {
    // Relaxed: the lock orders it.
    match at.ring.header.shared.running_stale.load(Ordering::Relaxed) {
        stale if stale != 0 && lags => lagging(at),
        _ => totals_interval(at.ring),
    }
}

/// Returns the running totals as totals that are true at `producer_pos`, if nothing is open. They do not
/// change without the lock then.
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

/// Sets the running totals to counted totals.
fn set_running(at: Shared<'_>, totals: &ProducerTotals) {
    // Relaxed throughout: the lock orders it.
    let line = &at.ring.header.shared;
    let mut words = [0; RUNNING];
    totals.discarded.store_in(&mut words, running::DISCARDED_RECORDS);
    totals.reclaimed.store_in(&mut words, running::RECLAIMED_RECORDS);
    totals.reported.store_in(&mut words, running::REPORTED);
    words[running::LOST_MARKERS] = totals.lost_markers;
    for (to, word) in line.running.iter().zip(words) {
        to.store(word, Ordering::Relaxed);
    }
    line.running_written.store(totals.written.records, Ordering::Relaxed);
    line.running_more.store(0, Ordering::Relaxed);
    line.running_stale.store(0, Ordering::Relaxed);
}

/// Writes the producers' totals under the lock, and returns the position at which they are true: `head`, or a
/// record before it.
///
/// With nothing open they are the running totals. Otherwise, or after an end that the running
/// totals did not count, the records since the last totals are counted: [`STEPS`] of them, and more
/// as long as `must` requires it.
pub(crate) fn write_totals(
    at: Shared<'_>,
    head: u64,
    end: u64,
    must: impl Fn(u64) -> bool,
) -> Result<u64, Corrupt> {
    let header = at.ring.header;
    let whole = seq_latch::find(&header.producer).ok_or(Corrupt { pos: head })?;
    let settled = head == end;
    let totals = if settled && header.shared.running_stale.load(Ordering::Relaxed) == 0 {
        running_totals(at, head)
    } else {
        let old = ProducerTotals::from_words(&whole.words);
        let mut steps = 0;
        let totals = bring_up_while(at.ring, old, head, |pos| {
            steps += 1;
            steps <= STEPS || must(pos)
        })?;
        if settled && totals.pos == head {
            set_running(at, &totals);
        }
        totals
    };
    SeqLatchWriter::after(&header.producer, Some(&whole))
        .write(&header.producer, &totals.to_words());
    Ok(totals.pos)
}

/// Expects so many more records. Under the lock.
#[inline(always)]
pub(crate) fn expect(header: &Header, records: u64) {
    // Relaxed, and no atomic addition: the lock orders it.
    let written = &header.shared.running_written;
    written.store(written.load(Ordering::Relaxed).wrapping_add(records), Ordering::Relaxed);
}

/// Adds an end that the running totals do not expect. Called before that end: a producer that finds
/// nothing open any more (B) also sees the addition. If the end never happens, because this producer dies,
/// the running totals are recomputed.
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

/// Counts losses that are reported by so many markers. Under the lock.
pub(crate) fn add_reported(at: Shared<'_>, losses: Refused, markers: u64) {
    let mut more = [0; RUNNING];
    losses.store_in(&mut more, running::REPORTED);
    more[running::LOST_MARKERS] = markers;
    // Only these words: producers add to the words before them without the lock.
    for (word, more) in at.ring.header.shared.running.iter().zip(more).skip(running::REPORTED) {
        // Relaxed: the lock orders it.
        word.store(word.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }
}

/// Returns the number of records, including open reservations; a very large number if it is
/// unknown.
pub(crate) fn records(header: &Header) -> u64 {
    let line = &header.shared;
    // Relaxed: the caller needs only an estimate.
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
    expect(at.ring.header, 1);
    at.ring.header.shared.producer_pos.store(start + word.size(), Ordering::Release); // O
}

/// Makes the rest of a reservation a separate hole, and adds the hole, and records that were not
/// expected, to the running totals.
pub(crate) fn leave(at: Shared<'_>, pos: u64, rest: u64, more: u64) {
    if rest > 0 {
        // Relaxed: the swap publishes it.
        at.ring.word(pos).store(RecordWord::nop(rest, Hole::Rest).raw(), Ordering::Relaxed);
    }
    correct(at, more, Count { records: 0, bytes: rest });
}
