//! Brings the producers' totals up to a position. The totals are written at intervals. A reader that
//! needs a count in between walks the records after the last totals.

use crate::counters::{Count, ProducerTotals, Refused};
use crate::record::{Corrupt, RecordAt, lost_of};
use crate::seq_latch;
use crate::time;
use crate::view::{POS_MAX, Ring};
use perfring_abi::atomic::{Ordering, spin_loop};
use perfring_abi::{Cause, Hole, LOST_SIZE, RecordType, SIZE_MAX};

/// How often a walk restarts because the producer was faster.
const TRIES: u32 = if cfg!(loom) { 2 } else { 100 };

/// The number of records after which a long walk checks that none of them was overwritten before it was read.
const CHECK_EVERY: usize = 64;

/// The totals are written at least this often, so that a reader that needs the count at a position
/// walks no more than this many bytes of records.
const TOTALS_INTERVAL_MAX: u64 = 64 << 10;

pub(crate) fn totals_interval(ring: Ring<'_>) -> u64 {
    (ring.data_size() / 4).min(TOTALS_INTERVAL_MAX)
}

/// The most bytes that a producer can have written after its totals: an interval, and then one record with
/// the markers before it, but never over the position of the totals. In a shared ring an open
/// reservation holds the head and the totals back, so only the second limit is certain.
pub(crate) fn reach(ring: Ring<'_>) -> u64 {
    // Relaxed: never zero again once a shared ring has had a record, and zero in every other ring.
    if ring.header.shared.producer_pos.load(Ordering::Relaxed) != 0 {
        return ring.data_size() - 1;
    }
    (totals_interval(ring) + u64::from(SIZE_MAX) + 2 * u64::from(LOST_SIZE))
        .min(ring.data_size() - 1)
}

/// Returns the timestamp of the newest record of a timed ring, or 0 for a ring without records. In a busy
/// ring it may be the timestamp of an earlier record. A hostile ring may yield any value.
#[must_use]
pub fn newest_timestamp(ring: Ring<'_>) -> u64 {
    let head = ring.head();
    let from = match producer_totals(ring) {
        Some(totals) if totals.pos <= head && head - totals.pos <= reach(ring) => totals.pos,
        _ => head, // only the noted timestamp
    };
    let walked = time::newest_timestamp(ring, from, head);
    if is_intact(ring, from) { walked } else { time::newest_timestamp(ring, head, head) }
}

/// Finds the newest whole copy of the producer's totals.
pub(crate) fn producer_totals(ring: Ring<'_>) -> Option<ProducerTotals> {
    seq_latch::find(&ring.header.producer).map(|whole| ProducerTotals::from_words(&whole.words))
}

/// Returns the totals at the moment when `head` was published, by a walk over the records since. Beyond
/// `data_head`, where only a shared ring's producers read, an open reservation counts as a record.
pub(crate) fn bring_up(
    ring: Ring<'_>,
    totals: ProducerTotals,
    head: u64,
) -> Result<ProducerTotals, Corrupt> {
    bring_up_while(ring, totals, head, |_| true)
}

/// Like [`bring_up`], but stops before the first record for whose position `go_on` returns false.
pub(crate) fn bring_up_while(
    ring: Ring<'_>,
    mut totals: ProducerTotals,
    head: u64,
    mut go_on: impl FnMut(u64) -> bool,
) -> Result<ProducerTotals, Corrupt> {
    if !totals.pos.is_multiple_of(8) || totals.pos > head || head - totals.pos > ring.data_size() {
        return Err(Corrupt { pos: totals.pos });
    }
    for record in ring.records(totals.pos, head) {
        let record = record?;
        let RecordAt { pos, word, .. } = record;
        if !go_on(pos) {
            return Ok(ProducerTotals { pos, ..totals });
        }
        let size = word.size();
        match word.kind() {
            RecordType::NOP => match Hole::of(word.misc()) {
                Hole::Discarded => totals.discarded.add(size),
                Hole::Reclaimed => totals.reclaimed.add(size),
                Hole::Rest => totals.discarded.bytes = totals.discarded.bytes.wrapping_add(size),
            },
            RecordType::LOST => {
                let lost = lost_of(record, ring.body(pos)).ok_or(Corrupt { pos })?;
                let count = Count { records: lost.records, bytes: lost.bytes };
                let reported = totals.reported.of_mut(lost.cause);
                *reported = reported.plus(count);
                totals.lost_markers = totals.lost_markers.wrapping_add(1);
            }
            _ => totals.written.add(size),
        }
    }
    totals.pos = head;
    Ok(totals)
}

/// Returns the producer's totals, brought up to the newest head at which that is possible.
pub(crate) fn newest_totals(ring: Ring<'_>) -> Result<ProducerTotals, Corrupt> {
    for _ in 0..TRIES {
        if let Some(totals) = totals_at_head(ring)? {
            return Ok(totals);
        }
        spin_loop();
    }
    // The producer overtakes every walk: its stored totals are also true, and not far behind.
    producer_totals(ring).ok_or(Corrupt { pos: ring.head() })
}

/// Returns the producer's totals at `data_head`, or `None` if the producer was faster than the
/// walk.
fn totals_at_head(ring: Ring<'_>) -> Result<Option<ProducerTotals>, Corrupt> {
    let head = ring.head();
    let totals = producer_totals(ring).ok_or(Corrupt { pos: head })?;
    if totals.pos > head {
        // The totals are true at a later head, unless they are invalid.
        let invalid =
            totals.pos > ring.head() || totals.pos > POS_MAX || !totals.pos.is_multiple_of(8);
        return if invalid { Err(Corrupt { pos: totals.pos }) } else { Ok(Some(totals)) };
    }
    let walked = if head - totals.pos > reach(ring) {
        Err(Corrupt { pos: totals.pos })
    } else {
        bring_up(ring, totals, head)
    };
    if is_intact(ring, totals.pos) { walked.map(Some) } else { Ok(None) }
}

/// Returns whether the words that were just read from `from` on were not overwritten. A producer publishes
/// its tail and its totals before it overwrites records before them (E).
fn is_intact(ring: Ring<'_>, from: u64) -> bool {
    ring.tail() <= from // F
        || producer_totals(ring).is_some_and(|totals| {
            totals.pos.saturating_add(reach(ring)) <= from.saturating_add(ring.data_size())
        })
}

/// Counts the records, and their bytes, before a position that is a record boundary. `None` if the
/// tail passed the position during the count.
pub(crate) fn count_at(ring: Ring<'_>, pos: u64) -> Result<Option<Count>, Corrupt> {
    let totals = producer_totals(ring).ok_or(Corrupt { pos })?;
    let (from, to) = (totals.pos.min(pos), totals.pos.max(pos));
    let start = ProducerTotals { pos: from, ..ProducerTotals::default() };
    let between = bring_up(ring, start, to);
    if !is_intact(ring, from) {
        return Ok(None);
    }
    let between = between?.written;
    Ok(Some(if totals.pos <= pos {
        totals.written.plus(between)
    } else {
        totals.written.since(between)
    }))
}

/// Returns the losses that the markers before a position report. The position is a record boundary. `None` if the tail
/// passed it meanwhile.
pub(crate) fn reported_at(ring: Ring<'_>, pos: u64) -> Result<Option<Refused>, Corrupt> {
    let totals = producer_totals(ring).ok_or(Corrupt { pos })?;
    if pos <= totals.pos && totals.reported == Refused::default() {
        return Ok(Some(totals.reported));
    }
    let (from, to) = (totals.pos.min(pos), totals.pos.max(pos));
    if to - from > ring.data_size() {
        return Ok(None);
    }
    // Checked every few records: one check at the end would often find that a producer was faster than the walk.
    let (mut between, mut checked) = (Refused::default(), from);
    for (nth, record) in ring.records(from, to).enumerate() {
        let marker = match record {
            Ok(record) if record.word.kind() == RecordType::LOST => {
                let pos = record.pos;
                lost_of(record, ring.body(pos)).map(Some).ok_or(Corrupt { pos })
            }
            Ok(_) => Ok(None),
            Err(corrupt) => Err(corrupt),
        };
        if marker.is_err() || nth % CHECK_EVERY == 0 {
            if !is_intact(ring, checked) {
                return Ok(None);
            }
            checked = record?.pos;
        }
        if let Some(lost) = marker?.filter(|lost| Cause::REFUSED.contains(&lost.cause)) {
            let reported = between.of_mut(lost.cause);
            *reported = reported.plus(Count { records: lost.records, bytes: lost.bytes });
        }
    }
    if !is_intact(ring, checked) {
        return Ok(None);
    }
    Ok(Some(match totals.pos <= pos {
        true => totals.reported.plus(between),
        false => totals.reported.since(between),
    }))
}

/// Like [`count_at`], for the consumer at its own tail. Nothing after its tail is overwritten, so
/// only a walk from totals before the tail may have to be repeated.
pub(crate) fn count_surely(ring: Ring<'_>, tail: u64) -> Result<Count, Corrupt> {
    for _ in 0..TRIES {
        if let Some(count) = count_at(ring, tail)? {
            return Ok(count);
        }
        spin_loop();
    }
    Err(Corrupt { pos: tail })
}
