//! The observer: reads without changing the ring. It copies each record and checks afterwards
//! whether the copy is intact or was overwritten meanwhile.

use crate::aux_area;
use crate::counters::{ConsumerTotals, Count, ReaderId, Refused, ResumePoint, Saved};
use crate::lost::Lost;
use crate::oldest::{Milestone, oldest};
use crate::read_error::ReadError;
use crate::record::{
    AuxRange, Bounds, Corrupt, Frame, FrameWords, Next, Place, RecordAt, RecordShape, payload_of,
    words_of,
};
use crate::recount::newest_totals;
use crate::seq_latch::{self, SeqLatchWriter};
use crate::told::{CounterWatch, Past, Told};
use crate::told_latch::ToldLatch;
use crate::view::{POS_MAX, Ring, Shared};
use alloc::vec::Vec;
use perfring_abi::atomic::AtomicU64;
use perfring_abi::{Cause, Lead, Policy, RecordWord, SIZE_MAX};

/// After this many laps in a row without a record read in between, an observer continues from the
/// producer's last totals instead of from the oldest record, which it would never reach in time.
const LAPS_MAX: u32 = 4;
/// Bytes that are copied and checked together, unless a record is longer. A copy of this size is still in the nearest
/// cache when it is read.
const CHUNK: u64 = 16 << 10;

/// Where an observer starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// At the oldest record present.
    #[default]
    Oldest,
    /// At the next record to be published.
    Latest,
    /// Where another observer of the same ring stopped.
    At(Saved),
}

/// The private state of an observer. Also the consumer of an overwrite ring, which saves its
/// position in the page.
#[derive(Debug)]
pub struct CopyReader {
    id: ReaderId,
    pub(super) cursor: u64,
    head: u64,
    /// Count before `cursor`, since the ring was created: read and lost.
    pub(super) passed: Count,
    /// The lost part of `passed`.
    lapped: Count,
    pub(super) laps_in_a_row: u32,
    pub(super) policy: Policy,
    pub(super) shape: RecordShape,
    /// A copy of the last range that was fetched.
    pub(super) large: Vec<u64>,
    /// Whether the last record's payload is in `large`.
    pub(super) is_large: bool,
    /// Words of the ring from `from` to `upto`, checked to be intact.
    pub(super) copy: Vec<u64>,
    pub(super) from: u64,
    pub(super) upto: u64,
    /// A loss that was found by reading ahead, and the position before it. It is reported before
    /// the record at the cursor.
    pub(super) pending: Option<(Lost, ResumePoint)>,
    seq_latch: SeqLatchWriter,
    /// The refused records that were returned as losses.
    pub(super) told: Told,
    /// The refused records that were returned before it began.
    pub(super) past: Past,
    /// Set if it returns the losses in the counters.
    pub(super) watch: Option<CounterWatch>,
    /// The place where the consumer of an overwrite ring saves its returned losses.
    saved_told: ToldLatch,
}

pub(super) enum Refill {
    Empty,
    Copied,
    Lost(Lost),
}

impl CopyReader {
    /// Creates an observer of this ring, dead or alive.
    ///
    /// # Errors
    /// [`Corrupt`] if the positions are such as no producer leaves.
    pub fn new(ring: Ring<'_>, policy: Policy, start: Start) -> Result<Self, Corrupt> {
        let (place, past) = match start {
            Start::At(Saved { pos, before, told }) => {
                // A program that does not know this word has saved zeros.
                let exact = told != Refused::default();
                let past = if exact { Past::Exactly(told) } else { Past::AtLeast(told) };
                (Milestone { pos, before }, past)
            }
            Start::Oldest => (oldest(ring, policy)?, Past::AtLeast(Refused::default())),
            Start::Latest => {
                let totals = newest_totals(ring)?;
                (Milestone { pos: totals.pos, before: totals.written }, Past::Everything)
            }
        };
        let size = ring.data_size().min(SIZE_MAX.into());
        if !place.pos.is_multiple_of(8) {
            return Err(Corrupt { pos: place.pos });
        }
        Ok(CopyReader {
            id: ReaderId::unique(),
            cursor: place.pos,
            head: place.pos,
            passed: place.before,
            lapped: Count::default(),
            laps_in_a_row: 0,
            policy,
            shape: RecordShape::default(),
            large: Vec::new(),
            is_large: false,
            copy: alloc::vec![0; (size / 8) as usize],
            from: place.pos,
            upto: place.pos,
            pending: None,
            seq_latch: SeqLatchWriter::default(),
            told: Told::default(),
            past,
            watch: None,
            saved_told: ToldLatch::default(),
        })
    }

    /// Like [`CopyReader::new`], but continues at the position that the last consumer of this
    /// overwrite ring saved.
    ///
    /// # Errors
    /// [`Corrupt`] if the positions are such as no producer leaves.
    pub fn resume(ring: Ring<'_>) -> Result<Self, Corrupt> {
        let whole = seq_latch::find(&ring.header.consumer).ok_or(Corrupt { pos: 0 })?;
        let totals = ConsumerTotals::from_words(&whole.words);
        let saved_told = ToldLatch::of(&ring.header.consumer_told, 0);
        let (pos, before, told) = (totals.pos, totals.passed(), saved_told.saved);
        let saved = Saved { pos, before, told };
        let mut observer = CopyReader::new(ring, Policy::Overwrite, Start::At(saved))?;
        // An older program may have read further without saving its returned losses.
        observer.past = Past::AtLeast(told);
        observer.lapped = totals.lapped;
        observer.saved_told = saved_told;
        observer.seq_latch = SeqLatchWriter::after(&ring.header.consumer, Some(&whole));
        Ok(observer)
    }

    /// Sets the fields that each record has before its payload.
    #[must_use]
    pub fn with_lead(self, lead: Lead) -> Self {
        CopyReader { shape: RecordShape { lead, ..self.shape }, ..self }
    }

    /// Sets the size of the AUX area in bytes, 0 for none.
    #[must_use]
    pub fn with_aux(self, size: u64) -> Self {
        let aux = Bounds { size, floor: None };
        CopyReader { shape: RecordShape { aux, ..self.shape }, ..self }
    }

    /// Passes a record whose payload is in the AUX area. Returns a copy of the payload, or its loss, if the payload was
    /// overwritten. Without memory for the copy, the record is not passed, and the next call returns it.
    #[cold]
    fn fetch(
        &mut self,
        ring: Ring<'_>,
        aux: &[AtomicU64],
        frame: Frame,
        range: AuxRange,
    ) -> Result<Next<FrameWords<'_>>, ReadError> {
        // Checked before as well, so that nothing is copied in vain.
        let whole = aux_area::is_whole(ring, range);
        if whole {
            aux_area::space_for(range, &mut self.large)?;
        }
        self.cursor += frame.size;
        self.laps_in_a_row = 0;
        self.passed.add(frame.size);
        if whole && aux_area::copy(ring, aux, range, &mut self.large) {
            self.is_large = true;
            return Ok(Next::Record((frame, &self.large)));
        }
        self.lapped.add(frame.size);
        Ok(Next::Lost(aux_area::lost_payload(&frame)))
    }

    /// Saves the position in the page: only for the consumer of an overwrite ring.
    pub fn save(&mut self, ring: Ring<'_>) {
        self.save_resume_point(ring, &self.resume_point());
    }

    /// Returns the next record or loss, or `None` if the ring has nothing more now.
    ///
    /// Copies up to 16 KiB, or one longer record, and checks the tail once for all of it: each check takes the
    /// line of the positions from the producer.
    ///
    /// # Errors
    /// [`ReadError::Corrupt`] if the ring holds at the cursor something that no producer writes, and
    /// the cursor was not lapped; and [`ReadError::OutOfMemory`].
    pub fn next_in(
        &mut self,
        at: Shared<'_>,
        aux: &[AtomicU64],
    ) -> Result<Option<Next<FrameWords<'_>>>, ReadError> {
        let ring = at.ring;
        self.is_large = false;
        // An iteration passes a hole, or copies again, or continues after a lap that lost no
        // record, or returns. The ring has no more holes than words. Only a producer that
        // is faster causes more iterations.
        for _ in 0..=2 * ring.data.len() {
            let Some((word, len)) = self.copied()? else {
                match self.refill(ring)? {
                    Refill::Empty => return Ok(self.lost(at, false).map(Next::Lost)),
                    Refill::Lost(lost) if lost.records > 0 => return Ok(Some(Next::Lost(lost))),
                    Refill::Lost(_) | Refill::Copied => continue,
                }
            };
            let record = RecordAt { pos: self.cursor, word, len };
            let size = word.size();
            let body = record.body_in(self.from);
            match self.shape.decode(record, words_of(&self.copy[body.clone()]))? {
                Some(Next::Record(Place::Aux(frame, range))) => {
                    return self.fetch(ring, aux, frame, range).map(Some);
                }
                Some(Next::Record(Place::Ring(frame))) => {
                    self.cursor += size;
                    self.laps_in_a_row = 0;
                    self.passed.add(size);
                    let words = &self.copy[body.start + frame.lead.len() / 8..body.end];
                    return Ok(Some(Next::Record((frame, words))));
                }
                Some(Next::Lost(lost)) => {
                    self.cursor += size;
                    if let Some(lost) = self.told.pass(lost) {
                        return Ok(Some(Next::Lost(lost)));
                    }
                }
                None => self.cursor += size,
            }
        }
        Ok(None)
    }

    /// Returns the header at the cursor and its payload's length, if the whole record is in the
    /// copy.
    #[inline]
    pub(super) fn copied(&self) -> Result<Option<(RecordWord, usize)>, Corrupt> {
        let (pos, ready) = (self.cursor, self.upto - self.cursor);
        if ready == 0 {
            return Ok(None);
        }
        let word = RecordWord::from_raw(self.copy[((pos - self.from) / 8) as usize]);
        match payload_of(word, ready) {
            Some(len) => Ok(Some((word, len))),
            // The end of the copy cuts the record: a copy that begins here has all
            // of it.
            None if payload_of(word, self.head - pos).is_some() && pos != self.from => Ok(None),
            None => Err(Corrupt { pos }),
        }
    }

    /// Copies the words from the cursor on, and checks the copy.
    pub(super) fn refill(&mut self, ring: Ring<'_>) -> Result<Refill, Corrupt> {
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
        // At least a whole record. If the header is overwritten now, the check of the tail below finds out.
        let record = RecordWord::from_raw(ring.load(self.cursor)).size();
        let bytes =
            (self.head - self.cursor).min(CHUNK.max(record)).min(self.copy.len() as u64 * 8);
        let words = bytes / 8;
        (self.from, self.upto) = (self.cursor, self.cursor);
        ring.copy_out(self.cursor, &mut self.copy[..words as usize]);
        let copied_to = self.cursor + words * 8;
        if ring.tail() > self.cursor {
            let lost = self.resync(ring)?;
            // The words beyond the new cursor were intact when they were checked.
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

    /// Continues from the oldest valid record after a lap, and counts the records in between.
    #[cold]
    fn resync(&mut self, ring: Ring<'_>) -> Result<Lost, Corrupt> {
        self.laps_in_a_row = self.laps_in_a_row.saturating_add(1);
        let mut place = oldest(ring, self.policy)?;
        if self.laps_in_a_row > LAPS_MAX {
            // The position of the producer's last totals is a record boundary too, and most of a
            // ring away from the position where it overwrites.
            let totals = newest_totals(ring)?;
            if totals.pos > place.pos {
                place = Milestone { pos: totals.pos, before: totals.written };
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
        Ok(Lost {
            pos,
            records: lost.records,
            bytes: lost.bytes,
            cause: Cause::Lapped,
            at_end: false,
        })
    }

    /// Returns whether everything up to the last polled head was read.
    #[must_use]
    #[inline]
    pub fn must_poll(&self) -> bool {
        self.cursor == self.head
    }

    /// Returns where this observer would continue.
    #[must_use]
    pub fn saved(&self) -> Saved {
        self.resume_point().saved()
    }

    /// Returns the position after everything that was read, as a resume point.
    #[must_use]
    #[inline]
    pub fn resume_point(&self) -> ResumePoint {
        match &self.pending {
            Some((_, before)) => *before,
            None => {
                let (pos, before, told) = (self.cursor, self.passed, self.told.refused);
                let (lapped, ahead) = (self.lapped, self.told.is_ahead());
                ResumePoint { of: self.id, pos, before, lapped, range_end: 0, told, ahead }
            }
        }
    }

    /// Saves a resume point in the page, as [`CopyReader::save`] saves the present one: only for the
    /// consumer of an overwrite ring. A resume point of another reader has no effect.
    pub fn save_resume_point(&mut self, ring: Ring<'_>, resume_point: &ResumePoint) {
        if resume_point.of != self.id {
            return;
        }
        self.saved_told.save(&ring.header.consumer_told, resume_point.told);
        self.seq_latch.write(&ring.header.consumer, &resume_point.totals().to_words());
    }

    /// Returns the count of records that were overwritten before this observer came to them.
    #[must_use]
    pub fn lapped(&self) -> Count {
        self.lapped
    }
}
