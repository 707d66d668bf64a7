//! The oldest records of an overwrite ring: what goes next, and how its count is kept.
//!
//! What an eviction costs is the way from one record to the next, each of which waits for the one
//! before it, and what is stored beside `data_tail`. So the exclusive producer walks ahead of the
//! tail, some records at a time, remembers where they end, and marks the last of these ends with
//! what will be overwritten before it. Up to there a move of the tail is one store. Whoever needs
//! the count at the tail takes the records between tail and mark from the mark's.

use crate::book::Count;
use crate::latch::{self, LatchWriter};
use crate::record::Record;
use crate::{Ring, Saved, Wake, Writer};
use perfring_abi::atomic::{AtomicU64, Ordering, fence};
use perfring_abi::{Header, MARK_AHEAD, RecordWord};

const AHEAD: usize = MARK_AHEAD as usize;
/// How many records are looked at together: all places are one and nine of these.
const GROUP: usize = 7;

/// What the exclusive producer knows of them.
#[derive(Debug)]
pub(crate) struct Oldest {
    /// Where the next records end.
    ends: [u64; AHEAD],
    /// Those of them that are still to go: from `next` on, up to `known`.
    next: usize,
    known: usize,
    /// What is overwritten once all of them are gone.
    marked: Count,
    latch: LatchWriter,
}

impl Oldest {
    /// Nothing is known but what was overwritten before the tail.
    pub(crate) fn new(overwritten: Count, latch: LatchWriter) -> Self {
        Oldest { ends: [0; AHEAD], next: 0, known: 0, marked: overwritten, latch }
    }

    /// Where the next one ends, if that is known.
    #[inline(always)]
    fn next(&mut self) -> Option<u64> {
        if self.next >= self.known {
            return None;
        }
        let end = self.ends.get(self.next).copied();
        self.next += 1;
        end
    }
}

impl Writer {
    /// Evicts record by record, at most all of them. Nothing is published but the mark.
    pub(crate) fn walk(&mut self, ring: Ring<'_>, end: u64) {
        let mask = ring.data_size() - 1;
        while end - self.tail > mask && self.tail != self.head() {
            match self.oldest.next() {
                Some(tail) => self.tail = tail,
                None => {
                    // Before the next mark the tail is at this one: there is always one after it.
                    if self.tail > self.book.pos {
                        self.write_book(ring);
                    }
                    self.publish_tail(ring);
                    self.look_on(ring);
                }
            }
        }
    }

    /// What most reservations of a full overwrite ring need: the oldest go, and nothing else is
    /// due. Returns whether that was so.
    ///
    /// As `end` is within a book's interval of the book, which is at most a quarter of the ring,
    /// the tail stays behind the book.
    #[inline(always)]
    pub(crate) fn evict_few(&mut self, ring: Ring<'_>, end: u64) -> bool {
        end <= self.evict_limit
            && (self.evict_known(ring, end) || self.evict_on(ring.header, ring.data, end))
    }

    /// As [`Writer::evict_few`] where `end` is not beyond its limit, if at most one record goes, and
    /// that is known of.
    #[inline(always)]
    pub(crate) fn evict_known(&mut self, ring: Ring<'_>, end: u64) -> bool {
        let mask = ring.data_size() - 1;
        if end - self.tail > mask {
            // No further than the head: what a batch holds back is not among what is known.
            let Some(tail) = self.oldest.next() else { return false };
            self.tail = tail;
            if end - tail > mask {
                return false;
            }
            self.publish_tail(ring);
            fence(Ordering::Release); // E, pairs with F
        }
        true
    }

    /// As [`Writer::evict_known`], whatever it takes. The ring in two, so that it is passed in registers.
    #[inline(never)]
    fn evict_on(&mut self, header: &Header, data: &[AtomicU64], end: u64) -> bool {
        let ring = Ring::new(header, data);
        self.walk(ring, end);
        self.publish_tail(ring);
        fence(Ordering::Release); // E, pairs with F
        end - self.tail < ring.data_size()
    }

    /// Finds where the next records end, at least one, and marks the last of them. The tail is not
    /// at the head.
    fn look_on(&mut self, ring: Ring<'_>) {
        let head = self.head();
        let (mut pos, mut count, mut known) = (self.tail, self.oldest.marked, 0);
        let ends = &mut self.oldest.ends;
        let mut records = ring.records(pos, head);
        while known < AHEAD
            && let Some(record) = records.next()
        {
            let Ok(Record { word, .. }) = record else {
                // Somebody else wrote into the data area. All that was ever written goes, and that
                // count is private: at the end of what is committed, so that is published.
                let _ = self.publish(ring, Wake::No);
                let head = self.head();
                self.forget(ring, head, self.written());
                (self.oldest.ends[0], self.oldest.known) = (head, 1);
                return;
            };
            let (size, mut like) = (word.size(), 1);
            pos += size;
            ends[known] = pos;
            known += 1;
            // While all are alike, none waits for the header before it.
            while let Some(group) = ends.get_mut(known..known + GROUP)
                && head - pos >= GROUP as u64 * size
                && (0..GROUP as u64)
                    .all(|nth| ring.word(pos + nth * size).load(Ordering::Relaxed) == word.raw())
            {
                for end in group {
                    pos += size;
                    *end = pos;
                }
                known += GROUP;
                like += GROUP as u64;
            }
            records.skip_to(pos);
            if word.is_data() {
                count = count.plus(Count { records: like, bytes: like * size });
            }
        }
        (self.oldest.next, self.oldest.known, self.oldest.marked) = (0, known, count);
        self.mark(ring, pos);
    }

    /// Goes on at `pos`, before which so much is overwritten.
    pub(crate) fn forget(&mut self, ring: Ring<'_>, pos: u64, overwritten: Count) {
        (self.oldest.next, self.oldest.known) = (0, 0);
        self.oldest.marked = overwritten;
        self.mark(ring, pos);
    }

    /// Writes the next mark. Whoever calls has published a tail that is at the mark before it, or not
    /// past it: after a death, that one is still there.
    fn mark(&mut self, ring: Ring<'_>, pos: u64) {
        let Count { records, bytes } = self.oldest.marked;
        self.oldest.latch.write_as(&ring.header.tail_mark, pos, &[pos, records, bytes, pos]);
    }

    /// Publishes the tail; the caller writes over what was before it only after its fence (E).
    #[inline(always)]
    pub(crate) fn publish_tail(&mut self, ring: Ring<'_>) {
        // The fence orders it before the records written over the old ones. Release: the mark that is
        // not behind it is out before it.
        ring.header.data_tail.store(self.tail, Ordering::Release); // E, pairs with F
    }

    /// Records and bytes evicted from an overwrite ring.
    #[must_use]
    pub fn overwritten(&self, ring: Ring<'_>) -> Count {
        let Oldest { ends, next, known, marked, .. } = &self.oldest;
        let (mut pos, mut count) = (self.tail, *marked);
        for end in ends.iter().take(*known).skip(*next) {
            // Relaxed, as above.
            let word = RecordWord::from_raw(ring.word(pos).load(Ordering::Relaxed));
            if word.is_data() {
                count = count.since(Count { records: 1, bytes: end - pos });
            }
            pos = *end;
        }
        count
    }
}

/// What was overwritten before `tail`, and a latch to go on with: for a producer that takes over.
pub(crate) fn taken_over(ring: Ring<'_>, tail: u64) -> Option<Oldest> {
    let whole = latch::find_least(&ring.header.tail_mark, tail)?;
    let ends = Ends::of(ring, tail, whole.words[0])?;
    let marked = Count { records: whole.words[1], bytes: whole.words[2] };
    let overwritten = marked.since(ends.count_from(tail)?);
    Some(Oldest::new(overwritten, LatchWriter::after(&ring.header.tail_mark, Some(&whole))))
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
