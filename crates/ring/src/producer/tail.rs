//! The tail as the exclusive producer knows it, and the oldest records of an overwrite ring: the records to
//! evict next, and their count.
//!
//! The cost of an eviction is the steps from record to record, each of which waits for the step
//! before it, and the stores beside `data_tail`. Therefore the exclusive producer walks ahead of the
//! tail, some records at a time, and remembers where they end. It writes a tail mark at the last of
//! these ends, with the count that will be overwritten before it. Up to the mark, a move of the tail is
//! one store. A reader that needs the count at the tail subtracts the records between tail and mark
//! from the mark's count.
//!
//! A shared ring evicts by [`KnownTail`](crate::shared::evict). The two remain separate, because in a shared ring another
//! producer may have moved the tail since, and ends that were found ahead are worth nothing. Each
//! eviction there begins at the newest mark, and stores a mark with each tail. The shared parts are
//! the mark ([`write_mark`]), the walk over records, and its steps over groups of equal headers.

use crate::counters::Count;
use crate::oldest::{taken_over, write_mark};
use crate::record::{Corrupt, GROUP, RecordAt};
use crate::seq_latch::SeqLatchWriter;
use crate::view::Ring;
use perfring_abi::atomic::{Ordering, fence};
use perfring_abi::{MARK_AHEAD, RecordWord};

const AHEAD: usize = MARK_AHEAD as usize;
/// The number of slots in `ends` is one and nine groups.
const _: () = assert!(AHEAD == 1 + 9 * GROUP);

/// The tail, and the known ends of the records after it.
#[derive(Debug)]
pub(crate) struct Tail {
    /// Drop: the consumer's tail at the last poll. Overwrite: the value of `data_tail`.
    pub(super) pos: u64,
    /// The ends of the next records.
    ends: [u64; AHEAD],
    /// The range of the ends that are not evicted yet: from `next` up to `known`.
    next: usize,
    known: usize,
    /// The count that is overwritten once all of them are evicted.
    marked: Count,
    seq_latch: SeqLatchWriter,
    /// A record boundary half a ring back, and the count that was written before it.
    pub(super) half: Option<(u64, Count)>,
}

impl Tail {
    /// The tail of a drop ring.
    pub(crate) fn of_consumer(pos: u64) -> Self {
        Self::after(pos, Count::default(), SeqLatchWriter::default())
    }

    /// The tail of an overwrite ring, taken over from the last producer.
    pub(crate) fn take_over(ring: Ring<'_>, pos: u64) -> Option<Self> {
        let (overwritten, seq_latch) = taken_over(ring, pos)?;
        Some(Self::after(pos, overwritten, seq_latch))
    }

    /// A tail of which only the count overwritten before it is known.
    fn after(pos: u64, marked: Count, seq_latch: SeqLatchWriter) -> Self {
        Tail { pos, ends: [0; AHEAD], next: 0, known: 0, marked, seq_latch, half: None }
    }

    #[inline(always)]
    fn next(&mut self) -> Option<u64> {
        if self.next >= self.known {
            return None;
        }
        let end = self.ends.get(self.next).copied();
        self.next += 1;
        end
    }

    /// Makes room up to `end` if at most one record has to be evicted for that, and it is known.
    /// Returns whether there is room.
    #[inline(always)]
    pub(crate) fn evict_known(&mut self, ring: Ring<'_>, end: u64) -> bool {
        let mask = ring.data_size() - 1;
        if end - self.pos > mask {
            // No further than the head: records that a batch holds back are not among the known ends.
            let Some(tail) = self.next() else { return false };
            self.pos = tail;
            if end - tail > mask {
                return false;
            }
            self.store(ring);
            fence(Ordering::Release); // E, pairs with F
        }
        true
    }

    /// Passes known records one by one, until `end` fits. Publishes nothing. Returns true if there
    /// is room, or if nothing is left before `head`.
    pub(crate) fn pass_known(&mut self, ring: Ring<'_>, end: u64, head: u64) -> bool {
        let mask = ring.data_size() - 1;
        while end - self.pos > mask && self.pos != head {
            let Some(tail) = self.next() else { return false };
            self.pos = tail;
        }
        true
    }

    /// Finds the end of at least one next record, and marks the last end. The tail is not
    /// at the head, and is published. It is at the previous mark, or, after a death, not
    /// past it: that mark remains valid.
    ///
    /// # Errors
    /// [`Corrupt`] if another process wrote into the data area.
    pub(crate) fn poll_on(&mut self, ring: Ring<'_>, head: u64) -> Result<(), Corrupt> {
        let (mut pos, mut count, mut known) = (self.pos, self.marked, 0);
        let ends = &mut self.ends;
        let mut records = ring.records(pos, head);
        while known < AHEAD
            && let Some(record) = records.next()
        {
            let RecordAt { word, .. } = record?;
            let (size, mut like) = (word.size(), 1);
            pos += size;
            ends[known] = pos;
            known += 1;
            while let Some(group) = ends.get_mut(known..known + GROUP)
                && records.passes_group(word)
            {
                for end in group {
                    pos += size;
                    *end = pos;
                }
                known += GROUP;
                like += GROUP as u64;
            }
            if word.is_data() {
                count = count.plus(Count { records: like, bytes: like * size });
            }
        }
        (self.next, self.known, self.marked) = (0, known, count);
        write_mark(ring, &mut self.seq_latch, pos, self.marked);
        Ok(())
    }

    /// Evicts everything before `head`, after which no ends are known. `written` is the count
    /// before `head`.
    pub(crate) fn give_up(&mut self, ring: Ring<'_>, head: u64, written: Count) {
        self.forget(ring, head, written);
        (self.ends[0], self.known) = (head, 1);
    }

    /// Continues at `pos`, before which `overwritten` was overwritten.
    fn forget(&mut self, ring: Ring<'_>, pos: u64, overwritten: Count) {
        (self.next, self.known) = (0, 0);
        self.marked = overwritten;
        write_mark(ring, &mut self.seq_latch, pos, self.marked);
    }

    /// Continues at the boundary in the middle, if `end` fits then. Returns whether it did.
    pub(crate) fn jump(&mut self, ring: Ring<'_>, end: u64) -> bool {
        match self.half.take() {
            Some((pos, before)) if end - pos < ring.data_size() && pos > self.pos => {
                self.forget(ring, pos, before);
                self.pos = pos;
                true
            }
            _ => false,
        }
    }

    /// Publishes the tail; the caller overwrites the records before it only after its fence (E).
    #[inline]
    pub(crate) fn store(&mut self, ring: Ring<'_>) {
        // The fence orders it before the records that overwrite old records. Release: the mark at
        // or after the tail is published before the tail.
        ring.header.data_tail.store(self.pos, Ordering::Release); // E, pairs with F
    }

    /// Returns the count that was overwritten before the tail.
    pub(crate) fn overwritten(&self, ring: Ring<'_>) -> Count {
        let (mut pos, mut count) = (self.pos, self.marked);
        for end in self.ends.iter().take(self.known).skip(self.next) {
            // Relaxed: this producer wrote it, or an earlier producer whose head B acquired.
            let word = RecordWord::from_raw(ring.word(pos).load(Ordering::Relaxed));
            if word.is_data() {
                count = count.since(Count { records: 1, bytes: end - pos });
            }
            pos = *end;
        }
        count
    }
}
