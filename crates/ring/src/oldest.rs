//! Finds the oldest record of a ring and counts the records before it: by the tail mark of an
//! overwrite ring, or by the consumer's totals of a drop ring.

use crate::counters::{ConsumerTotals, Count};
use crate::record::{Corrupt, RecordAt};
use crate::recount::{count_at, newest_totals};
use crate::seq_latch::{self, SeqLatchWriter};
use crate::view::{POS_MAX, Ring};
use perfring_abi::atomic::spin_loop;
use perfring_abi::{MARK_AHEAD, Policy};

/// How often the search for the oldest record is repeated before the ring counts as corrupt.
const TRIES: u32 = if cfg!(loom) { 3 } else { 1000 };
/// How often the ring is walked to count the records before a tail that keeps moving.
const WALKS_MAX: u32 = 4;

/// A record, or the end of the stream, and the count of records before it since the ring was created.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Milestone {
    pub(crate) pos: u64,
    pub(crate) before: Count,
}

/// Returns the oldest valid record.
pub(crate) fn oldest(ring: Ring<'_>, policy: Policy) -> Result<Milestone, Corrupt> {
    let mut walks = 0;
    for _ in 0..TRIES {
        let tail = ring.tail();
        let place = match policy {
            Policy::Overwrite => marked(ring, tail),
            Policy::Drop => match released(ring, tail) {
                Some(place) => Some(place),
                // The consumer was faster, and has other totals for another tail.
                None if ring.tail() != tail => None,
                // A foreign perf reader moves the tail and keeps no totals: count from the
                // producer's totals, or as a last resort begin there.
                None => {
                    walks += 1;
                    counted(ring, tail, walks)?
                }
            },
        };
        // The mark, or the tail, was published after a head that is not before it.
        let head = ring.head();
        if head > POS_MAX || !tail.is_multiple_of(8) {
            return Err(Corrupt { pos: tail });
        }
        if let Some(place) = place.filter(|place| place.pos <= head) {
            return Ok(place);
        }
        spin_loop();
    }
    Err(Corrupt { pos: ring.tail() })
}

fn released(ring: Ring<'_>, tail: u64) -> Option<Milestone> {
    let fits = |words: &_| ConsumerTotals::from_words(words).pos == tail;
    let whole = seq_latch::find_where(&ring.header.consumer, fits)?;
    Some(Milestone { pos: tail, before: ConsumerTotals::from_words(&whole.words).passed() })
}

fn counted(ring: Ring<'_>, tail: u64, walks: u32) -> Result<Option<Milestone>, Corrupt> {
    if walks > WALKS_MAX {
        let totals = newest_totals(ring)?;
        let place = Milestone { pos: totals.pos, before: totals.written };
        return Ok((totals.pos >= tail).then_some(place));
    }
    let before = count_at(ring, tail)?;
    Ok(before.map(|before| Milestone { pos: tail, before }))
}

/// Writes the mark at `pos`, with the count that is overwritten before it.
pub(crate) fn write_mark(
    ring: Ring<'_>,
    seq_latch: &mut SeqLatchWriter,
    pos: u64,
    overwritten: Count,
) {
    let Count { records, bytes } = overwritten;
    seq_latch.write_as(&ring.header.tail_mark, pos, &[pos, records, bytes, pos]);
}

/// Returns the count that was overwritten before `tail`, and a sequence latch to continue with: for a
/// producer that takes over.
pub(crate) fn taken_over(ring: Ring<'_>, tail: u64) -> Option<(Count, SeqLatchWriter)> {
    let whole = seq_latch::find_least(&ring.header.tail_mark, tail)?;
    let ends = Boundaries::of(ring, tail, whole.words[0])?;
    let marked = Count::get(&whole.words, 1);
    let overwritten = marked.since(ends.count_from(tail)?);
    Some((overwritten, SeqLatchWriter::after(&ring.header.tail_mark, Some(&whole))))
}

/// Returns the oldest record of an overwrite ring, and the count that was overwritten before it. This is the record at
/// `data_tail`, or at the newest mark if the producer overwrites the records before they are counted.
fn marked(ring: Ring<'_>, tail: u64) -> Option<Milestone> {
    let whole = seq_latch::find_least(&ring.header.tail_mark, tail)?;
    let [pos, records, bytes, _] = whole.words;
    let ends = Boundaries::of(ring, tail, pos);
    let now = ring.tail(); // F
    if let Some(between) = ends.and_then(|ends| ends.count_from(now)) {
        let before = Count { records, bytes }.since(between);
        return Some(Milestone { pos: now, before });
    }
    if now == tail {
        return None;
    }
    let whole = seq_latch::find_least(&ring.header.tail_mark, now)?;
    let [pos, records, bytes, _] = whole.words;
    pos.is_multiple_of(8).then_some(Milestone { pos, before: Count { records, bytes } })
}

/// The start of each record from a tail to its mark, and whether it is data.
struct Boundaries {
    starts: [(u64, bool); MARK_AHEAD as usize],
    count: usize,
    mark: u64,
}

impl Boundaries {
    /// Returns `None` if no records lead from the tail to the mark. On a ring that is being written, the caller then
    /// retries. On any other ring the mark is invalid.
    fn of(ring: Ring<'_>, tail: u64, mark: u64) -> Option<Self> {
        let mut ends = Boundaries { starts: [(0, false); MARK_AHEAD as usize], count: 0, mark };
        for record in ring.records(tail, mark) {
            let RecordAt { pos, word, .. } = record.ok()?;
            *ends.starts.get_mut(ends.count)? = (pos, word.is_data());
            ends.count += 1;
        }
        Some(ends)
    }

    /// Counts the records from `tail` to the mark, if a record begins at `tail`.
    fn count_from(&self, tail: u64) -> Option<Count> {
        let starts = self.starts.get(..self.count)?;
        let first = starts.iter().position(|(pos, _)| *pos == tail);
        let from = first.or((tail == self.mark).then_some(self.count))?;
        let after = starts.iter().map(|(pos, _)| *pos).chain([self.mark]).skip(1);
        let mut count = Count::default();
        for ((pos, is_data), end) in starts.iter().zip(after).skip(from) {
            if *is_data {
                count.add(end - pos);
            }
        }
        Some(count)
    }
}
