//! The content of a recorder at one moment.

use crate::ahead::{Ahead, Content, Read};
use crate::decode::{What, decode};
use crate::event::EventKind;
use perfring_consumer::advanced::{Front, ResumePoint};
use perfring_consumer::{Cause, Item, ReadError, RecordType, stat::Fill};
use perfring_ring::{KernelCopy, KernelFrame};
use std::mem;

/// The content of a [`KernelRecorder`](crate::KernelRecorder) at one moment, from the oldest record to the newest one.
///
/// The oldest bytes of a full ring are left out: a sixteenth of it, but at least 8 KiB, or half of a ring of less than
/// 16 KiB. A record that the kernel had begun before the copy may have damaged them.
///
/// If older records are overwritten or left out, the first item is an [`Item::Lost`] of [`Cause::Lapped`]. Its `bytes` are
/// all bytes that the kernel has written and that are not in the snapshot. Its `records` are 0, because the kernel does not
/// count these records.
///
/// The kernel drops records while a snapshot is taken. Each snapshot reports all records that the kernel has dropped since the
/// recorder was opened, as [`Item::Lost`] of [`Cause::Foreign`]: before the record that follows the loss, at the end if
/// no record follows yet, and after the first item if the record with the number is overwritten. Linux before 6.0 has no
/// such counter. Then the losses at the end, and those whose records are overwritten, are not reported.
///
/// Positions are bytes that the kernel has written since the recorder was opened. A loss whose next record is overwritten
/// has another position than before: that of the oldest record.
///
/// A snapshot is a [`Source`](perfring_set::Source): a [`Merge`](perfring_set::Merge) puts the snapshots of all
/// processors in order of time, with records of rings.
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
    dropped: Dropped,
    ahead: Ahead,
}

/// Records that the kernel has dropped and that no record in the snapshot reports.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Dropped {
    /// Those before the oldest record.
    pub(crate) before: u64,
    /// Those after the newest record.
    pub(crate) after: u64,
}

impl KernelSnapshot {
    /// `dropped` are all records that the kernel has dropped; `after` are those since it has written a record.
    pub(crate) fn new(
        copy: KernelCopy,
        (event, uuid, data_size): (EventKind, [u8; 16], u64),
        dropped: u64,
        after: u64,
    ) -> Self {
        let frames = copy.frames();
        let there = frames.iter().map(|frame| frame.size).sum();
        let cursor = copy.written().saturating_sub(there);
        let losses = frames.iter().filter(|frame| frame.kind == RecordType::LOST);
        let numbers = losses.filter_map(|frame| copy.body(frame).get(1));
        let reported = numbers.fold(0, |sum: u64, lost| sum.saturating_add(*lost));
        let unreported = dropped.saturating_sub(reported);
        let after = if cursor == 0 { unreported } else { after.min(unreported) };
        let dropped = Dropped { before: unreported - after, after };
        let mut ahead = Ahead::new(0);
        if cursor > 0 {
            let what = Some(Content::Lost { records: 0, bytes: cursor, cause: Cause::Lapped });
            let first = frames
                .first()
                .and_then(|first| decode(first, copy.body(first), event, &mut Vec::new()));
            let time = first.map_or(0, |(time, _)| time);
            ahead.set_next(Read { pos: 0, end: cursor, time, what, payload: Vec::new() });
        }
        KernelSnapshot { copy, frames, event, uuid, data_size, next: 0, cursor, dropped, ahead }
    }

    /// Returns the kind of the next item, without taking it.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn peek(&mut self) -> Result<Front, ReadError> {
        self.read_next()?;
        Ok(self.ahead.front())
    }

    /// Returns the time of the oldest record, if the next item is the loss before that record.
    pub(crate) fn begins_at(&self) -> Option<u64> {
        let lost = self.ahead.next().filter(|_| self.next == 0)?;
        (lost.time > 0).then_some(lost.time)
    }

    /// Takes the next item. Returns it and the kind of the item after it: [`Front::Empty`] at the end.
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
        let frame = self.frames.get(self.next);
        let records = match frame {
            _ if self.next == 0 && self.dropped.before > 0 => mem::take(&mut self.dropped.before),
            Some(_) => 0,
            None => mem::take(&mut self.dropped.after),
        };
        if records > 0 {
            let (pos, time) = (self.cursor, self.ahead.time());
            let what = Some(Content::Lost { records, bytes: 0, cause: Cause::Foreign });
            self.ahead.set_next(Read { pos, end: pos, time, what, payload: Vec::new() });
            return Ok(());
        }
        let Some(frame) = frame else { return Ok(()) };
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

    /// Returns how many bytes are left to take, of those that are in the snapshot.
    #[must_use]
    pub fn fill(&self) -> Fill {
        let there = self.frames.iter().map(|frame| frame.size).sum();
        let unread = self.copy.written().saturating_sub(self.ahead.end()).min(there);
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
