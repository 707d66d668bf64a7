//! The next item, for readers of many rings.

use crate::counters::Front;
use crate::observer::copy::{CopyReader, Refill};
use crate::read_error::ReadError;
use crate::record::{Corrupt, FrameWords, Next, RecordAt, lost_of, words_of};
use crate::view::Shared;
use perfring_abi::atomic::AtomicU64;
use perfring_abi::{Lead, RecordType, aux_record};

impl CopyReader {
    /// Returns the next item in the copy.
    ///
    /// # Errors
    /// [`Corrupt`] if there is no valid record at the cursor.
    #[inline]
    pub fn front(&mut self) -> Result<Front, Corrupt> {
        if self.pending.is_some() {
            return Ok(Front::Lost);
        }
        while let Some((word, _)) = self.copied()? {
            if word.is_data() {
                if self.shape.lead == Lead::None {
                    return Ok(Front::Plain);
                }
                // A record with a range has the timestamp elsewhere.
                let nth = if self.shape.is_large(word) { aux_record::TIME } else { 0 };
                let at = ((self.cursor - self.from) / 8) as usize + 1 + nth;
                return Ok(Front::Timestamped(self.copy.get(at).copied().unwrap_or(0)));
            }
            if word.kind() == RecordType::LOST {
                let (pos, mut told) = (self.cursor, self.told);
                let record = RecordAt { pos, word, len: 0 };
                let body = &self.copy[record.body_in(self.from)];
                if told.pass(lost_of(record, words_of(body)).ok_or(Corrupt { pos })?).is_some() {
                    return Ok(Front::Lost);
                }
                self.told = told;
            }
            self.cursor += word.size();
        }
        // The head may have been loaded long before the copy was made.
        Ok(Front::More)
    }

    /// Like [`CopyReader::front`], but polls the ring if nothing is known.
    ///
    /// # Errors
    /// [`Corrupt`] if there is no valid record at the cursor.
    pub fn peek(&mut self, at: Shared<'_>) -> Result<Front, Corrupt> {
        let ring = at.ring;
        // As in `next`: an iteration passes holes, or copies again, or returns.
        for _ in 0..=2 * ring.data.len() {
            let front = self.front()?;
            if front != Front::More {
                return Ok(front);
            }
            let before = self.resume_point();
            match self.refill(ring)? {
                Refill::Empty if self.has_lost(at, true) => {}
                Refill::Empty => return Ok(Front::Empty),
                Refill::Lost(lost) if lost.records > 0 => {
                    self.pending = Some((lost, before));
                    // Drops the copy, so that `next` comes to `refill` first.
                    (self.from, self.upto) = (self.cursor, self.cursor);
                }
                Refill::Lost(_) | Refill::Copied => {}
            }
        }
        Ok(Front::More)
    }

    /// Like [`CopyReader::next_in`], but also returns the item after it in the copy.
    ///
    /// # Errors
    /// See [`CopyReader::next_in`].
    #[inline]
    pub fn take(
        &mut self,
        at: Shared<'_>,
        aux: &[AtomicU64],
    ) -> Result<Option<(Next<FrameWords<'_>>, Front)>, ReadError> {
        self.is_large = false;
        let next = match self.next_copied() {
            Some(frame) => Next::Record(frame),
            None => match self.next_in(at, aux)? {
                Some(next) => next.map(|(frame, _)| frame),
                None => return Ok(None),
            },
        };
        // An error about the next record is returned by the next poll.
        let front = self.front().unwrap_or(Front::More);
        let words = |frame| match self.is_large {
            true => (frame, &self.large[..]),
            false => (frame, self.copied_payload(&frame)),
        };
        Ok(Some((next.map(words), front)))
    }
}
