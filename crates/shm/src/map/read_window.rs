//! The consumer of a drop ring: records in place, or guarded records, which are copied first.
//!
//! The window owns the reader and the mapping that it reads, so nothing else moves the tail. It
//! moves the tail, or passes a record, only in methods that take `&mut self`. Therefore a record that a method
//! returns, as a borrow of the window, does not change during the borrow. Only a window without a guarded mapping
//! has such methods: [`ConsumerWindow`](crate::ConsumerWindow) chooses the kind of window.

use crate::file::error::AttachError;
use crate::map::consumer_mapping::{ConsumerMapping, Lines};
use crate::map::payload::FrameBytes;
use crate::map::pin_window::PinWindow;
use crate::map::raw::RawReader;
use crate::sys::futex;
use perfring_ring::{
    AuxRange, Count, Frame, Front, Lost, Next, Place, ReadError, Reader, ResumePoint,
};
use std::marker::PhantomData;

/// Distance ahead of the cursor at which a line is prefetched.
const AHEAD: u64 = 512;

/// How a [`ReadWindow`] reads that lends records as they are in the ring.
#[derive(Debug)]
pub enum InPlace {}

/// How a [`ReadWindow`] reads that only copies.
#[derive(Debug)]
pub enum Guarded {}

/// A drop ring as its consumer reads it.
#[derive(Debug)]
pub struct ReadWindow<How = InPlace> {
    mapping: ConsumerMapping,
    reader: Reader,
    how: PhantomData<How>,
}

impl<How> ReadWindow<How> {
    /// Continues where the last consumer released, and takes the seat with `name`. In place only if the mapping is of a drop
    /// ring and not guarded.
    pub(super) fn attach(mut mapping: ConsumerMapping, name: &str) -> Result<Self, AttachError> {
        let reader = mapping.reader()?;
        let (map, layout) = (&mapping.map, mapping.ring.layout());
        let reader = reader
            .with_aux(map.ring(), layout.aux_size)
            .with_lead(layout.lead())
            .with_losses(map.shared(), layout.loss_slots())
            .with_hands(mapping.lines == Lines::WriteTouch);
        mapping.sign(name);
        Ok(ReadWindow { mapping, reader, how: PhantomData })
    }

    /// Returns the mapping.
    #[inline]
    pub fn mapping(&self) -> &ConsumerMapping {
        &self.mapping
    }

    /// Returns the reader. Only the window can move it or its tail.
    #[inline]
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    #[inline]
    fn find(&mut self) -> Result<Option<Next<Place>>, ReadError> {
        let map = &self.mapping.map;
        let (found, owed) =
            self.reader.next(map.ring()).map_err(|corrupt| map.guard.report(corrupt))?;
        futex::wake_if(owed, map.ring().space_word());
        if found.is_none() {
            let holes = self.reader.release_holes(map.ring());
            let owed = holes.map_err(|corrupt| map.guard.report(corrupt))?;
            futex::wake_if(owed, map.ring().space_word());
            let removed = self.mapping.is_removed();
            if !removed && self.reader.is_told_all(map.ring()) {
                return Ok(None);
            }
            return match self.reader.lost(map.shared(), removed) {
                None if removed => Err(ReadError::Removed),
                lost => Ok(lost.map(Next::Lost)),
            };
        }
        Ok(found)
    }

    /// Returns a loss that producers have counted and no marker in the stream reports, if everything else was read.
    #[inline]
    pub fn lost(&mut self) -> Option<Lost> {
        self.reader.lost(self.mapping.map.shared(), false)
    }

    /// Returns whether there is such a loss: it is returned next.
    pub fn has_lost(&mut self) -> bool {
        self.reader.has_lost(self.mapping.map.shared(), true)
    }

    #[inline(always)]
    fn next_frame(&mut self) -> Option<Frame> {
        let ring = self.mapping.map.ring();
        match self.reader.is_plain() {
            true => self.reader.next_known::<true>(ring),
            false => self.reader.next_known::<false>(ring),
        }
    }

    /// Small records pass faster than a core that reads each of them can prefetch. Within a large
    /// one it needs no help, and more prefetches hinder the producer.
    #[inline(always)]
    fn ask_ahead(&self, frame: &Frame) {
        if frame.size <= AHEAD && self.reader.known() > AHEAD {
            self.mapping.map.prefetch(frame.pos + AHEAD);
        }
    }

    /// Returns the kind of the next item, without a poll. The next poll reports damage at the item.
    #[inline]
    pub fn front(&self) -> Front {
        self.reader.front(self.mapping.map.ring()).unwrap_or(Front::More)
    }

    /// Polls the producer's head. Returns the kind of the next item.
    #[inline]
    pub fn peek(&mut self) -> Result<Front, ReadError> {
        let map = &self.mapping.map;
        let looked = self.reader.peek_held(map.ring());
        let (front, owed) = looked.map_err(|corrupt| map.guard.report(corrupt))?;
        futex::wake_if(owed, map.ring().space_word());
        Ok(match front {
            Front::Empty if self.reader.has_lost(map.shared(), true) => Front::Lost,
            front => front,
        })
    }

    /// Releases everything that was passed: the producer gets the space. Does nothing after
    /// [`ReadWindow::hold`].
    pub fn release(&mut self) {
        let ring = self.mapping.map.ring();
        futex::wake_if(self.reader.release(ring), ring.space_word());
    }

    /// Releases everything before a resume point.
    pub fn release_to(&mut self, resume_point: &ResumePoint) {
        let ring = self.mapping.map.ring();
        futex::wake_if(self.reader.release_to(ring, resume_point), ring.space_word());
    }

    /// From now on only [`ReadWindow::release_to`] releases anything.
    pub fn hold(&mut self) {
        self.reader.hold();
    }
}

impl ReadWindow {
    /// Returns the next record on the common path: a known record, or a record that one poll of
    /// the head finds. Before the poll, `before_poll` is called with the count of passed records. In all other cases
    /// returns the window: [`ReadWindow::next_any`] decides then.
    #[inline(always)]
    pub fn next_fast(
        &mut self,
        before_poll: impl FnOnce(Count),
    ) -> Result<(Frame, &[u8]), &mut Self> {
        let ring = self.mapping.map.ring();
        // The records that the last call returned are read, and not released yet.
        self.reader.hand_lines(ring);
        let mut frame = self.reader.next_known::<true>(ring);
        if frame.is_none() && self.reader.known() == 0 {
            before_poll(self.reader.passed());
            if self.reader.poll_ahead(ring) {
                frame = self.reader.next_known::<true>(ring);
            }
        }
        self.passed_or_back(frame)
    }

    /// Returns the next known record, without a poll, in a ring with time or an AUX area. Otherwise
    /// returns the window: [`ReadWindow::read`] decides then.
    #[inline(always)]
    pub fn next_any(&mut self) -> Result<(Frame, &[u8]), &mut Self> {
        let frame = match self.reader.is_plain() {
            true => None,
            false => self.reader.next_known::<false>(self.mapping.map.ring()),
        };
        self.passed_or_back(frame)
    }

    #[inline(always)]
    fn passed_or_back(&mut self, frame: Option<Frame>) -> Result<(Frame, &[u8]), &mut Self> {
        let Some(frame) = frame else { return Err(self) };
        self.ask_ahead(&frame);
        // SAFETY: the callers have just had it from the reader, which found it before an acquired
        // head; what is returned borrows the window.
        Ok((frame, unsafe { self.mapping.map.pinned(&frame) }))
    }

    /// Returns the next item of any kind; `None` if the ring has nothing more now. Polls the head and
    /// releases when due.
    #[inline]
    pub fn read(&mut self) -> Result<Option<Next<FrameBytes<'_>>>, ReadError> {
        let found = self.find()?;
        // SAFETY: the reader has just found it before an acquired head; what is returned borrows the
        // window.
        Ok(found.map(|found| found.map(|place| unsafe { self.mapping.map.in_place(place) })))
    }

    /// Returns a known record and the kind of the item after it. Otherwise returns the window:
    /// [`ReadWindow::take`] decides then.
    #[inline(always)]
    pub fn take_known(&mut self) -> Result<(Frame, &[u8], Front), &mut Self> {
        let Some(frame) = self.next_frame() else { return Err(self) };
        self.ask_ahead(&frame);
        let front = self.front();
        // SAFETY: as in `passed_or_back`.
        Ok((frame, unsafe { self.mapping.map.pinned(&frame) }, front))
    }

    /// Returns the next item, and the kind of the item after it; `None` if the ring has nothing more now.
    #[inline]
    pub fn take(&mut self) -> Result<Option<(Next<FrameBytes<'_>>, Front)>, ReadError> {
        let Some(found) = self.find()? else { return Ok(None) };
        let front = self.front();
        // SAFETY: as in `read`.
        Ok(Some((found.map(|place| unsafe { self.mapping.map.in_place(place) }), front)))
    }

    /// Polls the head for [`ReadWindow::visit_known`], and calls `before_poll` before that with the count of
    /// passed records. Everything that earlier calls returned counts as read. Returns the head.
    #[inline(always)]
    pub fn poll_ahead(&mut self, before_poll: impl FnOnce(Count)) -> u64 {
        let ring = self.mapping.map.ring();
        self.reader.hand_lines(ring);
        before_poll(self.reader.passed());
        self.reader.poll_ahead(ring);
        self.reader.cursor() + self.reader.known()
    }

    /// Calls `visit` with the known records, up to the first thing that is not a record or whose
    /// payload stands in the AUX area. Each counts as read when `visit` returns. Returns their
    /// number.
    #[inline(always)]
    pub fn visit_known(&mut self, mut visit: impl FnMut(&Frame, &[u8])) -> u64 {
        let ring = self.mapping.map.ring();
        let (map, known) = (self.mapping.map.sight(), self.reader.cursor() + self.reader.known());
        let visit = &mut visit;
        let show = move |frame: &Frame| {
            if frame.size <= AHEAD && known - frame.pos > AHEAD {
                map.prefetch(frame.pos + AHEAD);
            }
            // SAFETY: the reader found it before an acquired head, and does not move the tail before
            // the visit is over, which the slice does not outlive.
            visit(frame, unsafe { map.pinned(frame) });
        };
        match self.reader.is_plain() {
            true => self.reader.visit_known::<true>(ring, show),
            false => self.reader.visit_known::<false>(ring, show),
        }
    }

    /// Returns the next known records of one type and one length, at most `max`: the first one's
    /// frame, their number, and the bytes of all of them from its header on.
    #[inline]
    pub fn next_run(&mut self, max: u64) -> Option<(Frame, u64, &[u8])> {
        let map = &self.mapping.map;
        self.reader.hand_lines(map.ring());
        let (first, count) = self.reader.next_run(map.ring(), max)?;
        let span = Frame { len: (count * first.size) as usize, ..first };
        // SAFETY: as in `passed_or_back`, of all of them: they end before the acquired head.
        Some((first, count, unsafe { map.pinned_records(&span) }))
    }

    /// Pins everything that is published now, to be held together. Releases the records that were read before.
    pub fn pin(&mut self) -> Result<PinWindow<'_>, ReadError> {
        self.release();
        let map = &self.mapping.map;
        self.reader.refresh(map.ring()).map_err(|corrupt| map.guard.report(corrupt))?;
        Ok(PinWindow::new(map, &mut self.reader))
    }

    /// Returns the ring's words and positions, for a custom reader.
    pub fn raw(&mut self) -> RawReader<'_> {
        RawReader { map: &self.mapping.map, reader: &mut self.reader }
    }
}

impl ReadWindow<Guarded> {
    /// Passes the next record, to be copied by [`ReadWindow::copy`]. Calls `room` before it passes
    /// one whose payload stands in the AUX area: if that fails, the record comes again.
    #[inline]
    pub fn next_to_copy(
        &mut self,
        room: impl FnOnce(AuxRange) -> Result<(), ReadError>,
    ) -> Result<Option<Next<Place>>, ReadError> {
        if let Some(frame) = self.next_frame() {
            return Ok(Some(Next::Record(Place::Ring(frame))));
        }
        if !self.reader.is_plain() {
            let ring = self.mapping.map.ring();
            let _ = self.reader.poll_ahead(ring);
            if let Ok(Some((Next::Record(Place::Aux(_, range)), _))) =
                self.reader.peek(ring, self.reader.cursor())
            {
                room(range)?;
            }
        }
        self.find()
    }

    /// Copies words of a record's payload.
    #[inline]
    pub fn copy(&self, frame: &Frame, to: &mut [u64]) {
        self.ask_ahead(frame);
        self.mapping.map.ring().copy_out(frame.payload_pos(), to);
    }

    /// Copies words of a payload in the AUX area.
    pub fn copy_range(&self, range: AuxRange, to: &mut [u64]) {
        self.mapping.map.ring().copy_range(self.mapping.map.aux(), range, to);
    }
}

impl<How> Drop for ReadWindow<How> {
    fn drop(&mut self) {
        // Before the lock is free, so that no producer has to find the consumer dead.
        if self.mapping.is_named() && !self.mapping.forked() {
            let ring = self.mapping.map.ring();
            futex::wake_if(self.reader.leave(ring), ring.space_word());
        }
    }
}
