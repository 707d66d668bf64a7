//! The observer: reads without leaving a trace, copies each record, and looks afterwards whether
//! the copy was of a record or of what was being written over it.

use crate::aux_area;
use crate::counters::{ConsumerTotals, Count, Front, ResumePoint, Saved};
use crate::oldest::oldest;
use crate::read_error::ReadError;
use crate::record::{
    Bounds, Corrupt, Frame, Lost, Range, Record, Shape, lost_of, payload_of, split_body,
};
use crate::recount::newest_totals;
use crate::seq_latch::{self, SeqLatchWriter};
use crate::view::{POS_MAX, Ring};
use alloc::vec::Vec;
use perfring_abi::atomic::AtomicU64;
use perfring_abi::{Cause, Policy, RecordType, RecordWord, SIZE_MAX, aux_record};

/// An observer that was lapped this often without reading a record in between goes on from the
/// producer's last book instead of from the oldest record, which it would never catch.
const LAPS_MAX: u32 = 4;
/// Where an observer starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// At the oldest record that is there.
    #[default]
    Oldest,
    /// At the next record to be published.
    Latest,
    /// Where another observer of the same ring left off.
    At(Saved),
}

/// What an observer saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen<'a> {
    /// A record: where it stood, and a copy of its payload.
    Record(Frame, &'a [u64]),
    /// Records that it will not see.
    Lost(Lost),
}

/// The private state of an observer. Also the consumer of an overwrite ring, which saves its
/// place in the page.
#[derive(Debug)]
pub struct Observer {
    cursor: u64,
    head: u64,
    /// Records before `cursor`, since the ring was made: read and lost.
    passed: Count,
    /// Of those, lost.
    lapped: Count,
    laps_in_a_row: u32,
    policy: Policy,
    shape: Shape,
    /// A copy of the last range that was fetched.
    large: Vec<u64>,
    /// Whether the last record was one.
    is_large: bool,
    /// Words of the ring from `from` to `upto`, judged to be whole.
    copy: Vec<u64>,
    from: u64,
    upto: u64,
    /// A loss that was found by looking ahead, and the place before it: it comes before what is at
    /// the cursor.
    pending: Option<(Lost, ResumePoint)>,
    seq_latch: SeqLatchWriter,
}

enum Refill {
    Empty,
    Copied,
    Lost(Lost),
}

impl Observer {
    /// An observer of this ring, dead or alive.
    ///
    /// # Errors
    /// [`Corrupt`] if the positions are such as no producer leaves.
    pub fn new(ring: Ring<'_>, policy: Policy, start: Start) -> Result<Self, Corrupt> {
        let place = match start {
            Start::At(saved) => saved,
            Start::Oldest => oldest(ring, policy)?,
            Start::Latest => {
                let totals = newest_totals(ring)?;
                Saved { pos: totals.pos, before: totals.written }
            }
        };
        let size = ring.data_size().min(SIZE_MAX.into());
        if !place.pos.is_multiple_of(8) {
            return Err(Corrupt { pos: place.pos });
        }
        Ok(Observer {
            cursor: place.pos,
            head: place.pos,
            passed: place.before,
            lapped: Count::default(),
            laps_in_a_row: 0,
            policy,
            shape: Shape::default(),
            large: Vec::new(),
            is_large: false,
            copy: alloc::vec![0; (size / 8) as usize],
            from: place.pos,
            upto: place.pos,
            pending: None,
            seq_latch: SeqLatchWriter::default(),
        })
    }

    /// As [`Observer::new`], going on where the last consumer of this overwrite ring saved itself.
    ///
    /// # Errors
    /// [`Corrupt`].
    pub fn resume(ring: Ring<'_>) -> Result<Self, Corrupt> {
        let whole = seq_latch::find(&ring.header.consumer).ok_or(Corrupt { pos: 0 })?;
        let totals = ConsumerTotals::from_words(&whole.words);
        let saved = Saved { pos: totals.pos, before: totals.passed() };
        let mut observer = Observer::new(ring, Policy::Overwrite, Start::At(saved))?;
        observer.lapped = totals.lapped;
        observer.seq_latch = SeqLatchWriter::after(&ring.header.consumer, Some(&whole));
        Ok(observer)
    }

    /// The same observer, of a ring with a stamp in each record or without.
    #[must_use]
    pub fn with_time(self, timed: bool) -> Self {
        Observer { shape: Shape { timed, ..self.shape }, ..self }
    }

    /// The same observer, of a ring with an AUX area of so many bytes, or without one.
    #[must_use]
    pub fn with_aux(self, size: u64) -> Self {
        let aux = Bounds { size, floor: None };
        Observer { shape: Shape { aux, ..self.shape }, ..self }
    }

    /// Passes a record whose payload is in the AUX area: a copy, or its loss, if it has been
    /// overwritten. Without memory for it, the record is not passed, and comes again.
    #[cold]
    fn fetch(
        &mut self,
        ring: Ring<'_>,
        aux: &[AtomicU64],
        frame: Frame,
        range: Range,
    ) -> Result<Seen<'_>, ReadError> {
        // A look before, so that nothing is copied in vain.
        let whole = aux_area::is_whole(ring, range);
        if whole {
            aux_area::space_for(range, &mut self.large)?;
        }
        self.cursor += frame.size;
        self.laps_in_a_row = 0;
        self.passed.add(frame.size);
        if whole && aux_area::copy(ring, aux, range, &mut self.large) {
            self.is_large = true;
            return Ok(Seen::Record(frame, &self.large));
        }
        self.lapped.add(frame.size);
        Ok(Seen::Lost(aux_area::gone(&frame)))
    }

    /// Saves the place in the page: for the consumer of an overwrite ring alone.
    pub fn save(&mut self, ring: Ring<'_>) {
        self.save_resume_point(ring, &self.resume_point());
    }

    /// The next record or loss, or `None` if there is none now.
    ///
    /// Copies as much as there is, up to 64 KiB, and looks at the tail once for all of it: every
    /// look takes the line of the positions from the producer.
    ///
    /// # Errors
    /// [`ReadError::Corrupt`] if the ring holds at the cursor what no producer writes, and the cursor
    /// was not lapped.
    pub fn next(&mut self, ring: Ring<'_>) -> Result<Option<Seen<'_>>, ReadError> {
        self.next_in(ring, &[])
    }

    /// As [`Observer::next`], of a ring with this AUX area.
    ///
    /// # Errors
    /// As there, and [`ReadError::OutOfMemory`].
    pub fn next_in(
        &mut self,
        ring: Ring<'_>,
        aux: &[AtomicU64],
    ) -> Result<Option<Seen<'_>>, ReadError> {
        self.is_large = false;
        // A turn passes a hole, or copies anew, or goes on after a lap that cost no record, or
        // returns. No more holes fit than the ring has words; only a producer that outruns them
        // makes more turns.
        for _ in 0..=2 * ring.data.len() {
            let Some((word, len)) = self.copied()? else {
                match self.refill(ring)? {
                    Refill::Empty => return Ok(None),
                    Refill::Lost(lost) if lost.records > 0 => return Ok(Some(Seen::Lost(lost))),
                    Refill::Lost(_) | Refill::Copied => continue,
                }
            };
            let record = Record { pos: self.cursor, word, len };
            let (pos, size, body) = (record.pos, word.size(), record.body_in(self.from));
            if self.shape.is_large(word) {
                let body = self.copy[body].try_into().map_err(|_| Corrupt { pos })?;
                let (frame, range) = self.shape.large(pos, body).ok_or(Corrupt { pos })?;
                return self.fetch(ring, aux, frame, range).map(Some);
            }
            if word.is_data() {
                let split = split_body(self.shape.timed, len, &self.copy[body]);
                let (len, time, words) = split.ok_or(Corrupt { pos })?;
                self.cursor += size;
                self.laps_in_a_row = 0;
                self.passed.add(size);
                let frame = Frame { pos, kind: word.kind(), len, size, time };
                return Ok(Some(Seen::Record(frame, words)));
            }
            self.cursor += size;
            if word.kind() == RecordType::LOST {
                let lost = lost_of(&self.copy[body], pos).ok_or(Corrupt { pos })?;
                return Ok(Some(Seen::Lost(lost)));
            }
        }
        Ok(None)
    }

    /// The header at the cursor and its payload's length, if the whole record is in the copy.
    #[inline]
    fn copied(&self) -> Result<Option<(RecordWord, usize)>, Corrupt> {
        let (pos, ready) = (self.cursor, self.upto - self.cursor);
        if ready == 0 {
            return Ok(None);
        }
        let word = RecordWord::from_raw(self.copy[((pos - self.from) / 8) as usize]);
        match payload_of(word, ready) {
            Some(len) => Ok(Some((word, len))),
            // Cut by the end of the copy: there is more, and a copy that begins here has it all.
            None if payload_of(word, self.head - pos).is_some() && pos != self.from => Ok(None),
            None => Err(Corrupt { pos }),
        }
    }

    /// Copies what is there from the cursor on, and judges the copy.
    fn refill(&mut self, ring: Ring<'_>) -> Result<Refill, Corrupt> {
        if let Some((lost, _)) = self.pending.take() {
            return Ok(Refill::Lost(lost));
        }
        let bad = Corrupt { pos: self.cursor };
        if self.cursor == self.head {
            let head = ring.head();
            if head == self.cursor {
                return Ok(Refill::Empty);
            }
            if head < self.cursor || head > POS_MAX || !head.is_multiple_of(8) {
                return Err(bad);
            }
            self.head = head;
        }
        let words = ((self.head - self.cursor) / 8).min(self.copy.len() as u64);
        (self.from, self.upto) = (self.cursor, self.cursor);
        ring.copy_out(self.cursor, &mut self.copy[..words as usize]);
        let copied_to = self.cursor + words * 8;
        if ring.tail() > self.cursor {
            let lost = self.resync(ring)?;
            // What was copied beyond the place where it goes on stood when it was judged.
            if self.cursor < copied_to {
                self.upto = copied_to;
            } else {
                (self.from, self.upto) = (self.cursor, self.cursor);
            }
            return Ok(Refill::Lost(lost));
        }
        // Not lapped, so the head that was acquired is less than a ring away.
        if self.head - self.cursor >= ring.data_size() {
            return Err(bad);
        }
        self.upto = copied_to;
        Ok(Refill::Copied)
    }

    /// Lapped: goes on from the oldest valid record, and counts what lies between.
    #[cold]
    fn resync(&mut self, ring: Ring<'_>) -> Result<Lost, Corrupt> {
        self.laps_in_a_row = self.laps_in_a_row.saturating_add(1);
        let mut place = oldest(ring, self.policy)?;
        if self.laps_in_a_row > LAPS_MAX {
            // Where the producer's last book was true is a record boundary too, and most of a ring
            // away from the place where it overwrites.
            let totals = newest_totals(ring)?;
            if totals.pos > place.pos {
                place = Saved { pos: totals.pos, before: totals.written };
            }
        }
        if place.pos <= self.cursor {
            return Err(Corrupt { pos: self.cursor });
        }
        let lost = place.before.since(self.passed);
        let pos = self.cursor;
        self.cursor = place.pos;
        self.head = self.head.max(place.pos);
        self.passed = place.before;
        self.lapped = self.lapped.plus(lost);
        Ok(Lost { pos, records: lost.records, bytes: lost.bytes, cause: Cause::Lapped })
    }

    /// Whether the next call of [`Observer::next`] has to look at what the producer shares.
    #[must_use]
    #[inline]
    pub fn must_poll(&self) -> bool {
        self.cursor == self.upto
    }

    /// Where this observer would go on.
    #[must_use]
    pub fn saved(&self) -> Saved {
        self.resume_point().saved()
    }

    /// The place after everything that was read.
    #[must_use]
    #[inline]
    pub fn resume_point(&self) -> ResumePoint {
        match &self.pending {
            Some((_, before)) => *before,
            None => {
                let (pos, before) = (self.cursor, self.passed);
                ResumePoint { pos, before, lapped: self.lapped, range_end: 0 }
            }
        }
    }

    /// Saves a place in the page, as [`Observer::save`] does that of now: for the consumer of an
    /// overwrite ring alone.
    pub fn save_resume_point(&mut self, ring: Ring<'_>, resume_point: &ResumePoint) {
        self.seq_latch.write(&ring.header.consumer, &resume_point.totals().to_words());
    }

    /// What is next, of what was copied.
    ///
    /// # Errors
    /// [`Corrupt`].
    #[inline]
    pub fn front(&mut self) -> Result<Front, Corrupt> {
        if self.pending.is_some() {
            return Ok(Front::Lost);
        }
        while let Some((word, _)) = self.copied()? {
            if word.is_data() {
                if !self.shape.timed {
                    return Ok(Front::Plain);
                }
                // Of a record with a range it stands elsewhere.
                let nth = if self.shape.is_large(word) { aux_record::TIME } else { 0 };
                let at = ((self.cursor - self.from) / 8) as usize + 1 + nth;
                return Ok(Front::Timestamped(self.copy.get(at).copied().unwrap_or(0)));
            }
            if word.kind() == RecordType::LOST {
                return Ok(Front::Lost);
            }
            self.cursor += word.size();
        }
        // The head may have been looked at long before this was copied.
        Ok(Front::More)
    }

    /// As [`Observer::front`], after a look at the ring if nothing is known of.
    ///
    /// # Errors
    /// [`Corrupt`].
    pub fn peek(&mut self, ring: Ring<'_>) -> Result<Front, Corrupt> {
        // As in `next`: a turn passes holes, or copies anew, or returns.
        for _ in 0..=2 * ring.data.len() {
            let front = self.front()?;
            if front != Front::More {
                return Ok(front);
            }
            let before = self.resume_point();
            match self.refill(ring)? {
                Refill::Empty => return Ok(Front::Empty),
                Refill::Lost(lost) if lost.records > 0 => {
                    self.pending = Some((lost, before));
                    // What was copied is copied again: so `next` comes to `refill` before it.
                    (self.from, self.upto) = (self.cursor, self.cursor);
                }
                Refill::Lost(_) | Refill::Copied => {}
            }
        }
        Ok(Front::More)
    }

    /// As [`Observer::next_in`], and what is next after it of what was copied.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn take(
        &mut self,
        ring: Ring<'_>,
        aux: &[AtomicU64],
    ) -> Result<Option<(Seen<'_>, Front)>, ReadError> {
        let (pos, what) = match self.next_in(ring, aux)? {
            None => return Ok(None),
            Some(Seen::Lost(lost)) => (lost.pos, Err(lost)),
            Some(Seen::Record(frame, words)) => (frame.pos, Ok((frame, words.len()))),
        };
        // What is wrong with the next is told by the next look.
        let front = self.front().unwrap_or(Front::More);
        Ok(Some(match what {
            Err(lost) => (Seen::Lost(lost), front),
            Ok((frame, _)) if self.is_large => (Seen::Record(frame, &self.large), front),
            Ok((frame, len)) => {
                let at = ((frame.payload_pos() - self.from) / 8) as usize;
                let words = self.copy.get(at..at + len).ok_or(Corrupt { pos })?;
                (Seen::Record(frame, words), front)
            }
        }))
    }

    /// Records that were gone before this observer came to them.
    #[must_use]
    pub fn lapped(&self) -> Count {
        self.lapped
    }
}
