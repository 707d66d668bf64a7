//! Reading ahead of what is released: marks, and what stands at the front before it is taken. For
//! readers of many rings, who hold records of each until it is their turn.

use crate::book::{ConsumerBook, Count};
use crate::observer::Refill;
use crate::record::{Corrupt, Found, Lost, Record, step};
use crate::{Observer, Reader, Ring, Saved, Seen};
use perfring_abi::atomic::{AtomicU64, Ordering};
use perfring_abi::{HEADER_LEN, RecordType, RecordWord, aux_record};

/// Release after so many bytes: never. Positions stay below a quarter of this range, so that the sum
/// of the two does not overflow.
pub(crate) const NEVER: u64 = u64::MAX >> 1;

/// What is next in a ring, of what is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// Nothing: all that was published before the last look was taken.
    Empty,
    /// Something, and only a look tells what.
    More,
    /// A record with this stamp, ns.
    Stamped(u64),
    /// A record of a ring without time.
    Plain,
    /// A loss.
    Lost,
}

/// A place in a ring after something that was read, with the books as they are true there: to be
/// released later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The position of the next record.
    pub pos: u64,
    /// What stood before it since the ring was made.
    pub before: Count,
    /// Of that, what was gone before the reader came to it.
    pub lapped: Count,
    /// Where the last range of the AUX area ends that belongs to it, in a drop ring.
    pub range_end: u64,
}

impl Mark {
    /// The place, for an observer to go on from.
    #[must_use]
    pub fn saved(&self) -> Saved {
        Saved { pos: self.pos, before: self.before }
    }

    fn book(&self) -> ConsumerBook {
        let read = self.before.since(self.lapped);
        ConsumerBook { pos: self.pos, read, lapped: self.lapped }
    }
}

impl Reader {
    /// From now on nothing is released but by [`Reader::release_to`].
    pub fn hold(&mut self) {
        self.interval = NEVER;
        self.set_stop();
        self.hand_on();
    }

    /// Bytes that were read and are not released.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.cursor() - self.released
    }

    /// Whether [`Reader::hold`] was called.
    #[inline]
    pub(crate) fn holds(&self) -> bool {
        self.interval == NEVER
    }

    /// The place after everything that was read.
    #[must_use]
    #[inline]
    pub fn mark(&self) -> Mark {
        Mark {
            pos: self.cursor(),
            before: self.passed(),
            lapped: Count::default(),
            range_end: self.area.end,
        }
    }

    /// Hands back everything before a mark. Returns whether a waiting producer is to be woken. A
    /// mark that is not after the last one, or of a place not read yet, does nothing.
    pub fn release_to(&mut self, ring: Ring<'_>, mark: &Mark) -> bool {
        if mark.pos <= self.released || mark.pos > self.cursor() || !mark.pos.is_multiple_of(8) {
            return false;
        }
        self.hand_back(ring, &mark.book(), mark.range_end.min(self.area.end))
    }

    /// What is next, of what is known of.
    ///
    /// # Errors
    /// [`Corrupt`].
    #[inline]
    pub fn front(&self, ring: Ring<'_>) -> Result<Front, Corrupt> {
        let pos = self.cursor();
        if pos < self.stop {
            // Relaxed, both: B ordered them.
            let word = RecordWord::from_raw(ring.word(pos).load(Ordering::Relaxed));
            if word.is_plain() && self.timed {
                let stamp = ring.word(pos + u64::from(HEADER_LEN)).load(Ordering::Relaxed);
                return Ok(Front::Stamped(stamp));
            }
        }
        self.front_beyond(ring)
    }

    /// As [`Reader::front`], after a look at how far the producer is. The second value says whether the
    /// caller owes a waiting producer a wake.
    ///
    /// Holes at the end are passed, as nobody takes them, and released if nothing else is held: a ring
    /// that is full of them would never have room again.
    ///
    /// # Errors
    /// [`Corrupt`].
    #[inline]
    pub fn look_held(&mut self, ring: Ring<'_>) -> Result<(Front, bool), Corrupt> {
        self.refresh(ring)?;
        match self.front(ring)? {
            Front::Empty => Ok((Front::Empty, self.pass_holes(ring)?)),
            front => Ok((front, false)),
        }
    }

    #[cold]
    fn pass_holes(&mut self, ring: Ring<'_>) -> Result<bool, Corrupt> {
        self.pass(self.cursor() + self.known(), Count::default());
        let holes =
            self.held() > 0 && step(ring, self.shape(), self.released, self.cursor())?.is_none();
        Ok(holes && self.hand_back(ring, &self.mark().book(), self.area.end))
    }

    #[cold]
    fn front_beyond(&self, ring: Ring<'_>) -> Result<Front, Corrupt> {
        Ok(match self.peek(ring, self.cursor())? {
            None => Front::Empty,
            Some((Found::Record(frame) | Found::Large(frame, _), _)) => match frame.time {
                Some(stamp) => Front::Stamped(stamp),
                None => Front::Plain,
            },
            Some((Found::Lost(_), _)) => Front::Lost,
        })
    }

    /// Passes records up to `to`, which must be where one ends: for a reader that found them by
    /// itself. Returns how many they were.
    ///
    /// # Errors
    /// [`Corrupt`] if `to` is not where a record ends that is published, or something stands before
    /// it that no producer writes. Nothing is passed then.
    pub fn pass_to(&mut self, ring: Ring<'_>, to: u64) -> Result<Count, Corrupt> {
        self.refresh(ring)?;
        let (mut pos, mut count, mut range_end) = (self.cursor(), Count::default(), 0);
        if to < pos || to > pos + self.known() {
            return Err(Corrupt { pos: to });
        }
        while pos < to {
            // No further than `to`, so that holes alone may stand there, too.
            match step(ring, self.shape(), pos, to)? {
                Some((found, after)) => {
                    match found {
                        Found::Record(frame) => count.add(frame.size),
                        Found::Large(frame, range) => {
                            count.add(frame.size);
                            range_end = range_end.max(range.end());
                        }
                        Found::Lost(_) => {}
                    }
                    pos = after;
                }
                None => pos = to,
            }
        }
        self.pass(to, count);
        self.area.end = self.area.end.max(range_end);
        Ok(count)
    }
}

/// A loss that an observer found and that was not taken from it yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    lost: Lost,
    /// The place before it.
    before: Mark,
}

impl Observer {
    /// The place after everything that was read.
    #[must_use]
    #[inline]
    pub fn mark(&self) -> Mark {
        match &self.pending {
            Some(pending) => pending.before,
            None => {
                let Saved { pos, before } = self.place();
                Mark { pos, before, lapped: self.lapped, range_end: 0 }
            }
        }
    }

    /// Saves a place in the page, as [`Observer::save`] does that of now: for the consumer of an
    /// overwrite ring alone.
    pub fn save_mark(&mut self, ring: Ring<'_>, mark: &Mark) {
        self.latch.write(&ring.header.consumer, &mark.book().to_words());
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
        while let Some(Record { word, .. }) = self.copied()? {
            if word.is_data() {
                if !self.shape.timed {
                    return Ok(Front::Plain);
                }
                // Of a record with a range it stands elsewhere.
                let nth = if self.shape.is_large(word) { aux_record::TIME } else { 0 };
                let at = ((self.place().pos - self.from) / 8) as usize + 1 + nth;
                return Ok(Front::Stamped(self.copy.get(at).copied().unwrap_or(0)));
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
    pub fn look(&mut self, ring: Ring<'_>) -> Result<Front, Corrupt> {
        // As in `next`: a turn passes holes, or copies anew, or returns.
        for _ in 0..=2 * ring.data.len() {
            let front = self.front()?;
            if front != Front::More {
                return Ok(front);
            }
            let before = self.mark();
            match self.refill(ring)? {
                Refill::Empty => return Ok(Front::Empty),
                Refill::Lost(lost) if lost.records > 0 => {
                    self.pending = Some(Pending { lost, before });
                    // What was copied is copied again: so `next` comes to `refill` before it.
                    (self.from, self.upto) = (self.cursor, self.cursor);
                }
                Refill::Lost(_) | Refill::Copied => {}
            }
        }
        Ok(Front::More)
    }

    /// As [`Observer::next`], and what is next after it of what was copied.
    ///
    /// # Errors
    /// [`Corrupt`].
    #[inline]
    pub fn take(
        &mut self,
        ring: Ring<'_>,
        aux: &[AtomicU64],
    ) -> Result<Option<(Seen<'_>, Front)>, Corrupt> {
        let (pos, what) = match self.next_in(ring, aux)? {
            None => return Ok(None),
            Some(Seen::Lost(lost)) => (lost.pos, Err(lost)),
            Some(Seen::Record(frame, words)) => (frame.pos, Ok((frame, words.len()))),
        };
        // What is wrong with the next is told by the next look.
        let front = self.front().unwrap_or(Front::More);
        Ok(Some(match what {
            Err(lost) => (Seen::Lost(lost), front),
            Ok((frame, _)) if self.is_large => (Seen::Record(frame, self.fetched()), front),
            Ok((frame, len)) => {
                let at = ((frame.payload_pos() - self.from) / 8) as usize;
                let words = self.copy.get(at..at + len).ok_or(Corrupt { pos })?;
                (Seen::Record(frame, words), front)
            }
        }))
    }

    /// The loss that [`Observer::look`] found.
    #[inline]
    pub(crate) fn take_pending(&mut self) -> Option<Lost> {
        self.pending.take().map(|pending| pending.lost)
    }
}
