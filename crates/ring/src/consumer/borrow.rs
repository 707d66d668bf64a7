//! The consumer of a drop ring: borrows records in place and releases their space.

use crate::consumer::lines::LineTouch;
use crate::consumer::passed::Passed;
use crate::consumer::release::{Progress, Release};
use crate::counters::{Count, ReaderId, ResumePoint};
use crate::lost::Lost;
use crate::named::NamedSeat;
use crate::record::{Corrupt, Next, Place, RecordShape, step};
use crate::told::{CounterWatch, Told};
use crate::view::{Ring, sane};
use crate::wait::{Fences, Owed};
use alloc::boxed::Box;
use perfring_abi::atomic::Ordering;
use perfring_abi::{Cause, Lead};

/// Empty polls after which a reader that does nothing else releases what it has read.
const IDLE_POLLS: u32 = 64;

/// The private state of the consumer of a drop ring.
#[derive(Debug)]
pub struct Reader {
    pub(super) id: ReaderId,
    pub(super) progress: Progress,
    pub(super) release: Release,
    /// The fast path goes no further than this.
    pub(super) stop: u64,
    /// The same limit for a ring without timestamps and AUX area; 0 for any other, so that a plain
    /// ring pays nothing for them.
    pub(super) plain_stop: u64,
    /// Polls in a row that found nothing new.
    pub(super) idle: u32,
    pub(super) lead: Lead,
    pub(super) area: Passed,
    pub(super) lines: LineTouch,
    write_touch: bool,
    /// The part of the passed records that a named consumer has missed.
    pub(super) lapped: Count,
    /// The loss that is returned next: a part of `lapped`, or a loss that [`Reader::has_lost`] has found. With the state of
    /// `told` after it.
    pub(super) missed: Option<Box<(Lost, Told)>>,
    /// The refused records that were returned as losses.
    pub(super) told: Told,
    /// Whether a loss was returned that is not released and takes no place in the stream.
    pub(super) news: bool,
    pub(super) watch: CounterWatch,
}

impl Reader {
    /// Takes over as the one consumer, at the position that the last consumer released. Records that the
    /// last consumer had read and not released are returned again.
    ///
    /// # Errors
    /// [`Corrupt`] if the positions are such as no producer and consumer leave.
    pub fn attach(ring: Ring<'_>, fences: Fences) -> Result<Self, Corrupt> {
        let tail = ring.header.data_tail.load(Ordering::Acquire); // pairs with C of the last one
        let head = ring.header.data_head.load(Ordering::Acquire); // B, pairs with A
        if !sane(ring, head, tail) {
            return Err(Corrupt { pos: tail });
        }
        let (release, passed) = Release::take_over(ring, tail, fences)?;
        Ok(Self::new(release, passed, Count::default(), None))
    }

    /// Starts at the tail of `release`, before which `passed` was passed.
    fn new(release: Release, passed: Count, lapped: Count, missed: Option<Lost>) -> Self {
        let pos = release.pos;
        let told = Told::of(release.told.saved);
        Reader {
            id: ReaderId::unique(),
            progress: Progress::at(pos, passed),
            release,
            stop: pos,
            plain_stop: pos,
            idle: 0,
            lead: Lead::None,
            area: Passed::default(),
            lines: LineTouch::NEVER,
            write_touch: false,
            lapped,
            missed: missed.map(|lost| Box::new((lost, told))),
            told,
            news: false,
            watch: CounterWatch::new(0),
        }
    }

    /// Takes a seat as one of the consumers that the producers wait for, at the position that the seat's last holder
    /// released. If the tail has passed that position, the reader first returns a loss of cause
    /// [`Cause::Lapped`]. The caller holds the seat's lock and the lock for joining.
    ///
    /// # Errors
    /// [`Corrupt`] if the positions are such as no producer and consumer leave.
    pub fn join(ring: Ring<'_>, seat: NamedSeat, fences: Fences) -> Result<Self, Corrupt> {
        let (release, passed, missed) = Release::join(ring, seat, fences)?;
        let (pos, Count { records, bytes }) = (release.pos, missed.now);
        let lost = Lost { pos, records, bytes, cause: Cause::Lapped, at_end: false };
        let now = (missed.now != Count::default()).then_some(lost);
        Ok(Self::new(release, passed, missed.before, now))
    }

    /// Leaves the consumers that the producers wait for, if this is a named consumer.
    pub fn leave(&mut self, ring: Ring<'_>) -> Owed {
        self.release.leave(ring)
    }

    /// Sets the fields that each record has before its payload.
    #[must_use]
    pub fn with_lead(self, lead: Lead) -> Self {
        let mut reader = Reader { lead, ..self };
        reader.set_stop();
        reader
    }

    /// Sets the size of the AUX area in bytes, 0 for none.
    #[must_use]
    pub fn with_aux(self, ring: Ring<'_>, size: u64) -> Self {
        let mut reader = Reader { area: Passed::attach(ring, size), ..self };
        if let Some((after, count)) = reader.area.already_released(ring, reader.cursor()) {
            reader.progress.head = reader.progress.head.max(after);
            reader.pass(after, count);
        }
        reader.set_stop();
        reader
    }

    /// Returns the shape of the records before the head.
    #[inline]
    pub(crate) fn shape(&self) -> RecordShape {
        RecordShape { lead: self.lead, aux: self.area.bounds() }
    }

    /// Sets whether to write-touch the cache lines of records that were read, in [`Reader::hand_lines`] and
    /// at each release, so that the lines move to the producer's core at once. The data area must be
    /// writable.
    #[must_use]
    pub fn with_hands(self, write_touch: bool) -> Self {
        let mut reader = Reader { write_touch, ..self };
        reader.restart_lines();
        reader
    }

    /// Write-touches the lines before the cursor. Everything that earlier calls returned counts as
    /// read.
    #[inline]
    pub fn hand_lines(&mut self, ring: Ring<'_>) {
        self.lines.write_touch(ring, self.cursor());
    }

    /// From now on, only [`Reader::release_to`] releases anything.
    pub fn hold(&mut self) {
        self.release.hold();
        self.set_stop();
        self.restart_lines();
    }

    /// Restarts the lines at the tail. A reader on hold write-touches lines only when it releases.
    fn restart_lines(&mut self) {
        let now = self.write_touch && !self.release.holds();
        self.lines = if now { LineTouch::from_tail(self.release.pos) } else { LineTouch::NEVER };
    }

    /// Returns the next record or loss, or `None` if the ring has nothing more now. Everything that earlier
    /// calls returned counts as read. The second value is the wake that the caller
    /// owes a waiting producer.
    ///
    /// The tail is released when an eighth of the ring has been read, and after some polls in a row
    /// that found nothing: a reader that keeps up leaves the shared line alone.
    ///
    /// # Errors
    /// [`Corrupt`], at every further call with the same position.
    pub fn next(&mut self, ring: Ring<'_>) -> Result<(Option<Next<Place>>, Owed), Corrupt> {
        if let Some(lost) = self.take_missed() {
            return Ok((Some(Next::Lost(lost)), Owed::NOTHING));
        }
        if self.known() == 0 {
            return self.next_of_poll(ring);
        }
        let due = self.is_due();
        let stepped = step(ring, self.shape(), self.cursor(), self.progress.head)?;
        // After the last possible error, which would otherwise lose the wake that is owed.
        let owed = if due { self.release(ring) } else { Owed::NOTHING };
        if let Some(found) = self.stepped(stepped) {
            return Ok((Some(found), owed));
        }
        // The known part ended in holes: there may be more by now.
        match self.next_of_poll(ring) {
            Ok((found, also)) => Ok((found, owed.or(also))),
            Err(_) if owed.is_due() => Ok((None, owed)), // the next call returns the error again
            Err(error) => Err(error),
        }
    }

    fn next_of_poll(&mut self, ring: Ring<'_>) -> Result<(Option<Next<Place>>, Owed), Corrupt> {
        let due = self.poll(ring)?;
        let stepped = step(ring, self.shape(), self.cursor(), self.progress.head)?;
        let owed = if due { self.release(ring) } else { Owed::NOTHING }; // as in `next`
        match self.stepped(stepped) {
            None if self.known() != 0 => self.next_after_marker(ring, owed),
            found => Ok((found, owed)),
        }
    }

    pub(super) fn stepped(&mut self, stepped: Option<(Next<Place>, u64)>) -> Option<Next<Place>> {
        let Some((found, after)) = stepped else {
            self.pass(self.progress.head, Count::default());
            return None;
        };
        let count = match found {
            Next::Record(Place::Ring(frame)) => Count { records: 1, bytes: frame.size },
            Next::Record(Place::Aux(frame, range)) => {
                self.pass_range(&range);
                Count { records: 1, bytes: frame.size }
            }
            Next::Lost(lost) => {
                self.pass(after, Count::default());
                let mut told = self.told;
                let new = told.pass(lost);
                self.set_told(told);
                return new.map(Next::Lost);
            }
        };
        self.pass(after, count);
        if self.area_is_due() {
            // The fast path needs only this.
            let cursor = self.cursor();
            (self.stop, self.plain_stop) = (cursor, cursor.min(self.plain_stop));
        }
        Some(found)
    }

    /// Sets the end of the fast path: the end of the known records, or the position where a release is due.
    #[inline]
    pub(super) fn set_stop(&mut self) {
        self.stop = self.progress.head.min(self.release.due_at());
        self.plain_stop = if self.is_plain() { self.stop } else { 0 };
    }

    /// Polls `data_head`. Returns whether to release.
    fn poll(&mut self, ring: Ring<'_>) -> Result<bool, Corrupt> {
        let head = ring.header.data_head.load(Ordering::Acquire); // B, pairs with A
        if head == self.progress.head {
            // Relaxed: a hint; a waiting producer checks again by itself.
            let wanted =
                self.idle >= IDLE_POLLS || ring.header.space.armed.load(Ordering::Relaxed) != 0;
            self.idle = self.idle.saturating_add(1);
            return Ok(wanted);
        }
        self.accept_head(ring, head)?;
        self.idle = 0;
        Ok(self.is_due())
    }

    fn accept_head(&mut self, ring: Ring<'_>, head: u64) -> Result<(), Corrupt> {
        if !sane(ring, head, self.release.pos) || head < self.progress.head {
            return Err(Corrupt { pos: self.cursor() });
        }
        self.progress.head = head;
        self.set_stop();
        Ok(())
    }

    /// Returns whether enough was read for a release.
    fn is_due(&self) -> bool {
        self.cursor() >= self.release.due_at() || self.area_is_due()
    }

    #[inline]
    fn area_is_due(&self) -> bool {
        self.area.is_due() && !self.release.holds()
    }

    /// Releases everything before the cursor, unless the reader is on [`Reader::hold`].
    pub fn release(&mut self, ring: Ring<'_>) -> Owed {
        if self.release.holds() || self.cursor() == self.release.pos && !self.news {
            return Owed::NOTHING;
        }
        self.news = false;
        let here = self.resume_point();
        self.release_at(ring, &here, self.area.end)
    }

    /// Releases everything before a resume point of this reader, and the ranges before `range_end`.
    pub(super) fn release_at(
        &mut self,
        ring: Ring<'_>,
        resume_point: &ResumePoint,
        range_end: u64,
    ) -> Owed {
        let totals = &resume_point.totals();
        if self.area.exists() {
            self.area.release(ring, totals.pos, range_end);
        }
        if self.write_touch {
            if self.release.holds() {
                self.lines = LineTouch::from_tail(self.release.pos);
            }
            self.lines.write_touch(ring, totals.pos);
        }
        let owed = self.release.release(ring, resume_point);
        self.set_stop();
        self.restart_lines();
        owed
    }

    /// Polls how far the producer is.
    ///
    /// # Errors
    /// [`Corrupt`] if the head moved to an impossible position.
    pub fn refresh(&mut self, ring: Ring<'_>) -> Result<u64, Corrupt> {
        let head = ring.header.data_head.load(Ordering::Acquire); // B, pairs with A
        self.accept_head(ring, head)?;
        Ok(head)
    }

    /// Returns the number of bytes after the cursor that are known to be published.
    #[must_use]
    #[inline]
    pub fn known(&self) -> u64 {
        self.progress.head - self.progress.pos
    }

    /// Returns the position of the next record.
    #[must_use]
    #[inline]
    pub fn cursor(&self) -> u64 {
        self.progress.pos
    }

    /// Returns the count of records before the cursor, since the ring was created.
    #[must_use]
    #[inline]
    pub fn passed(&self) -> Count {
        self.progress.passed()
    }
}
