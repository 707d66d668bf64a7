//! What an observer comes to next, before it is taken.

use crate::counters::Saved;
use crate::mark::{Front, Mark};
use crate::observer::copy::{Observer, Pending, Refill, Seen};
use crate::record::{Corrupt, Lost, Record};
use crate::view::Ring;
use perfring_abi::atomic::AtomicU64;
use perfring_abi::{RecordType, aux_record};

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
