//! The content of a recorder at one moment.

use crate::ahead::{Ahead, Content, Read};
use crate::decode::{What, decode};
use crate::event::EventKind;
use perfring_consumer::advanced::{Front, ResumePoint};
use perfring_consumer::{Cause, Item, ReadError, stat::Fill};
use perfring_ring::{KernelCopy, KernelFrame};

/// What a [`KernelRecorder`](crate::KernelRecorder) held at one moment, the oldest record first. It ends with the newest
/// one.
///
/// If the ring had wrapped, the first item is an [`Item::Lost`] of [`Cause::Lapped`]: the kernel has overwritten older
/// records. Its `bytes` are all that the kernel has written and that is not in the snapshot. Its `records` are 0, because
/// the kernel does not count them. Of a ring that was full, the oldest sixteenth is left out: a record that the kernel had
/// begun before it was paused may have damaged that part.
///
/// Positions are bytes that the kernel has written since the recorder was opened.
///
/// It is a [`Source`](perfring_set::Source), so that a [`Merge`](perfring_set::Merge) puts the snapshots of all processors
/// in order of time, with records of rings.
#[derive(Debug)]
pub struct KernelSnapshot {
    copy: KernelCopy,
    frames: Vec<KernelFrame>,
    event: EventKind,
    uuid: [u8; 16],
    data_size: u64,
    /// Index and position of the next frame.
    next: usize,
    cursor: u64,
    ahead: Ahead,
}

impl KernelSnapshot {
    pub(crate) fn new(copy: KernelCopy, event: EventKind, uuid: [u8; 16], data_size: u64) -> Self {
        let frames = copy.frames();
        let there = frames.iter().map(|frame| frame.size).sum();
        let cursor = copy.written().saturating_sub(there);
        let mut ahead = Ahead::new(0);
        if cursor > 0 {
            let what = Some(Content::Lost { records: 0, bytes: cursor, cause: Cause::Lapped });
            ahead.set_next(Read { pos: 0, end: cursor, time: 0, what, payload: Vec::new() });
        }
        KernelSnapshot { copy, frames, event, uuid, data_size, next: 0, cursor, ahead }
    }

    /// Returns what is next, without taking it.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn peek(&mut self) -> Result<Front, ReadError> {
        self.read_next()?;
        Ok(self.ahead.front())
    }

    /// Takes the next item. Returns it and what is next: [`Front::Empty`] at the end.
    ///
    /// # Errors
    /// [`ReadError`] if the ring held something that no kernel writes; again at every call.
    pub fn take(&mut self) -> Result<Option<(Item<'_>, Front)>, ReadError> {
        self.read_next()?;
        if self.ahead.advance().is_none() {
            return Ok(None);
        }
        // An error of the next record is returned after this item.
        let front = self.read_next().map_or(Front::Empty, |()| self.ahead.front());
        Ok(self.ahead.item().map(|item| (item, front)))
    }

    fn read_next(&mut self) -> Result<(), ReadError> {
        if self.ahead.next().is_some() {
            return Ok(());
        }
        let Some(frame) = self.frames.get(self.next) else { return Ok(()) };
        let (pos, end) = (self.cursor, self.cursor + frame.size);
        let mut payload = self.ahead.buffer();
        let (time, what) = decode(frame, self.copy.body(frame), self.event, &mut payload)
            .ok_or(ReadError::Corrupt { pos })?;
        let what = Some(match what {
            What::Record(kind) => Content::Record(kind),
            // The ring refuses nothing because it is full: these are records of the time of a snapshot.
            What::Lost(records, _) => Content::Lost { records, bytes: 0, cause: Cause::Foreign },
        });
        self.ahead.set_next(Read { pos, end, time, what, payload });
        (self.next, self.cursor) = (self.next + 1, end);
        Ok(())
    }

    /// Returns the resume point after everything that was taken.
    #[must_use]
    pub fn resume_point(&self) -> ResumePoint {
        self.ahead.resume_point(self.ahead.end())
    }

    /// Returns how much is left to take.
    #[must_use]
    pub fn fill(&self) -> Fill {
        let unread = self.copy.written().saturating_sub(self.ahead.end());
        Fill { unread, held: 0, size: self.data_size }
    }

    /// Returns the recorder's id.
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// Returns the bytes of the ring's data area.
    #[must_use]
    pub fn data_size(&self) -> u64 {
        self.data_size
    }
}
