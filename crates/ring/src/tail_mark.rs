//! The tail mark of an overwrite ring: what was overwritten before a record that is not far after
//! `data_tail`, or at it.

use crate::counters::{Count, Saved};
use crate::latch::{self, LatchWriter};
use crate::record::Record;
use crate::view::Ring;
use perfring_abi::MARK_AHEAD;

const AHEAD: usize = MARK_AHEAD as usize;

/// Writes the mark at `pos`, before which so much is overwritten.
pub(crate) fn write(ring: Ring<'_>, latch: &mut LatchWriter, pos: u64, overwritten: Count) {
    let Count { records, bytes } = overwritten;
    latch.write_as(&ring.header.tail_mark, pos, &[pos, records, bytes, pos]);
}

/// What was overwritten before `tail`, and a latch to go on with: for a producer that takes over.
pub(crate) fn taken_over(ring: Ring<'_>, tail: u64) -> Option<(Count, LatchWriter)> {
    let whole = latch::find_least(&ring.header.tail_mark, tail)?;
    let ends = Ends::of(ring, tail, whole.words[0])?;
    let marked = Count::get(&whole.words, 1);
    let overwritten = marked.since(ends.count_from(tail)?);
    Some((overwritten, LatchWriter::after(&ring.header.tail_mark, Some(&whole))))
}

/// The oldest record of an overwrite ring, and what was overwritten before it: at `data_tail`, or,
/// if the producer is so fast that this is gone before it is counted, at its newest mark.
pub(crate) fn marked(ring: Ring<'_>, tail: u64) -> Option<Saved> {
    let whole = latch::find_least(&ring.header.tail_mark, tail)?;
    let [pos, records, bytes, _] = whole.words;
    let ends = Ends::of(ring, tail, pos);
    let now = ring.tail(); // F
    if let Some(between) = ends.and_then(|ends| ends.count_from(now)) {
        let before = Count { records, bytes }.since(between);
        return Some(Saved { pos: now, before });
    }
    if now == tail {
        return None;
    }
    let whole = latch::find_least(&ring.header.tail_mark, now)?;
    let [pos, records, bytes, _] = whole.words;
    pos.is_multiple_of(8).then_some(Saved { pos, before: Count { records, bytes } })
}

/// Where the records from a tail to its mark begin, and whether each is data.
struct Ends {
    starts: [(u64, bool); AHEAD],
    count: usize,
    mark: u64,
}

impl Ends {
    /// `None` if no such records lead from one to the other: of a ring that is being written, look
    /// again; of one that is not, the mark lies.
    fn of(ring: Ring<'_>, tail: u64, mark: u64) -> Option<Self> {
        let mut ends = Ends { starts: [(0, false); AHEAD], count: 0, mark };
        for record in ring.records(tail, mark) {
            let Record { pos, word, .. } = record.ok()?;
            *ends.starts.get_mut(ends.count)? = (pos, word.is_data());
            ends.count += 1;
        }
        Some(ends)
    }

    /// Records from `tail` to the mark, if one begins there.
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
