//! Reading ahead of the released position, for readers of many rings that hold records of each until
//! their turn comes.

use crate::consumer::borrow::Reader;
use crate::counters::{Count, Front, ResumePoint};
use crate::record::{AuxRange, Corrupt, Next, Place, step};
use crate::view::Ring;
use crate::wait::Owed;
use perfring_abi::{HEADER_LEN, Lead, RecordWord};

impl Reader {
    /// Returns the number of bytes that were read and are not released.
    #[must_use]
    #[inline]
    pub fn held(&self) -> u64 {
        self.cursor() - self.release.pos
    }

    /// Returns the position after everything that was read, as a resume point.
    #[must_use]
    #[inline]
    pub fn resume_point(&self) -> ResumePoint {
        ResumePoint {
            of: self.id,
            pos: self.cursor(),
            before: self.passed(),
            lapped: self.lapped,
            range_end: self.area.end,
            told: self.told.refused,
            ahead: self.told.is_ahead(),
        }
    }

    /// Releases everything before a resume point. A resume point of another reader has no effect, nor has one that is not
    /// after the last release.
    pub fn release_to(&mut self, ring: Ring<'_>, resume_point: &ResumePoint) -> Owed {
        if resume_point.of != self.id
            || resume_point.pos < self.release.pos
            || resume_point.pos == self.release.pos && !self.is_news(resume_point)
            || resume_point.pos > self.cursor()
            || !resume_point.pos.is_multiple_of(8)
        {
            return Owed::NOTHING;
        }
        self.release_at(ring, resume_point, resume_point.range_end.min(self.area.end))
    }

    /// Returns whether a resume point at the tail has losses that were not released.
    fn is_news(&self, resume_point: &ResumePoint) -> bool {
        let ResumePoint { told, lapped, .. } = *resume_point;
        let saved = self.release.told.saved;
        self.news && (told.later(saved) != saved || lapped != self.release.lapped)
    }

    /// Returns the next item among the known records.
    ///
    /// # Errors
    /// [`Corrupt`] if there is no valid record at the cursor.
    #[inline]
    pub fn front(&self, ring: Ring<'_>) -> Result<Front, Corrupt> {
        let pos = self.cursor();
        // B ordered both words.
        if pos < self.stop && RecordWord::from_raw(ring.load(pos)).is_plain() {
            return Ok(match self.lead {
                Lead::None => Front::Plain,
                _ => Front::Timestamped(ring.load(pos + u64::from(HEADER_LEN))),
            });
        }
        self.front_beyond(ring)
    }

    /// Like [`Reader::front`], after a poll of the producer's position. The second value is the wake that
    /// the caller owes a waiting producer.
    ///
    /// Holes at the end are passed, because no record follows them. They are released if nothing else is
    /// held: otherwise a ring full of holes would never have room again.
    ///
    /// # Errors
    /// [`Corrupt`] if there is no valid record at the cursor.
    #[inline]
    pub fn peek_held(&mut self, ring: Ring<'_>) -> Result<(Front, Owed), Corrupt> {
        self.refresh(ring)?;
        match self.front(ring)? {
            Front::Empty => Ok((Front::Empty, self.pass_holes(ring)?)),
            front => Ok((front, Owed::NOTHING)),
        }
    }

    /// Releases the holes before the cursor, if this reader is on [`Reader::hold`] and nothing else
    /// is held. Otherwise a ring full of holes would never have room again. For
    /// a reader that found nothing.
    ///
    /// # Errors
    /// [`Corrupt`].
    pub fn release_holes(&mut self, ring: Ring<'_>) -> Result<Owed, Corrupt> {
        if self.release.holds() && self.known() == 0 {
            self.pass_holes(ring)
        } else {
            Ok(Owed::NOTHING)
        }
    }

    #[cold]
    fn pass_holes(&mut self, ring: Ring<'_>) -> Result<Owed, Corrupt> {
        self.pass(self.cursor() + self.known(), Count::default());
        let holes =
            self.held() > 0 && step(ring, self.shape(), self.release.pos, self.cursor())?.is_none();
        // Returned losses are not released with the holes.
        let (told, lapped) = (self.release.told.saved, self.release.lapped);
        let here = ResumePoint { told, lapped, ahead: false, ..self.resume_point() };
        if holes { Ok(self.release_at(ring, &here, self.area.end)) } else { Ok(Owed::NOTHING) }
    }

    #[cold]
    fn front_beyond(&self, ring: Ring<'_>) -> Result<Front, Corrupt> {
        if self.has_missed() {
            return Ok(Front::Lost);
        }
        let (mut cursor, mut told) = (self.cursor(), self.told);
        loop {
            cursor = match self.peek(ring, cursor)? {
                None => return Ok(Front::Empty),
                Some((Next::Record(place), _)) => {
                    return Ok(match place.frame().time {
                        Some(timestamp) => Front::Timestamped(timestamp),
                        None => Front::Plain,
                    });
                }
                Some((Next::Lost(lost), _)) if told.pass(lost).is_some() => {
                    return Ok(Front::Lost);
                }
                Some((Next::Lost(_), after)) => after,
            };
        }
    }

    /// Returns the next item at or after `cursor`, without passing it, so that many records can
    /// be held. Start from [`Reader::cursor`], continue from the returned position, and pass all of
    /// them at once with [`Reader::pass`].
    ///
    /// # Errors
    /// [`Corrupt`] if there is no valid record at that position, or the position is before [`Reader::cursor`]: it may be
    /// more than a ring before the head, and a record may seem longer than a ring.
    #[inline]
    pub fn peek(&self, ring: Ring<'_>, cursor: u64) -> Result<Option<(Next<Place>, u64)>, Corrupt> {
        if cursor < self.cursor() {
            return Err(Corrupt { pos: cursor });
        }
        step(ring, self.shape(), cursor, self.progress.head)
    }

    /// Passes the peeked records: `count` of them, up to `cursor`. Each range among them must have been
    /// passed by [`Reader::pass_range`].
    pub fn pass(&mut self, cursor: u64, count: Count) {
        self.progress.pass(cursor, count);
    }

    /// Passes a range together with its record.
    pub fn pass_range(&mut self, range: &AuxRange) {
        self.area.pass_to(range.end());
    }

    /// Passes records up to `to`, which must be the end of a record, for a reader that found them by
    /// itself. Returns the count of records.
    ///
    /// # Errors
    /// [`Corrupt`] if `to` is not the end of a published record, or something invalid comes before
    /// it. Nothing is passed then.
    pub fn pass_to(&mut self, ring: Ring<'_>, to: u64) -> Result<Count, Corrupt> {
        self.refresh(ring)?;
        self.forget_lost();
        let (mut pos, mut count, mut last) = (self.cursor(), Count::default(), None);
        let mut told = self.told;
        if to < pos || to > pos + self.known() {
            return Err(Corrupt { pos: to });
        }
        while pos < to {
            // No further than `to`: before it there may be only holes.
            match step(ring, self.shape(), pos, to)? {
                Some((found, after)) => {
                    match found {
                        Next::Record(place) => {
                            count.add(place.frame().size);
                            last = place.range().or(last);
                        }
                        Next::Lost(lost) => drop(told.pass(lost)),
                    }
                    pos = after;
                }
                None => pos = to,
            }
        }
        self.pass(to, count);
        self.set_told(told);
        last.iter().for_each(|range| self.pass_range(range));
        Ok(count)
    }
}
