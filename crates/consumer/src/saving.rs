//! The consumer of an overwrite ring.

use crate::item::{Item, item};
use perfring_ring::{Front, Lost, Next, ReadError, ResumePoint};
use perfring_shm::{ConsumerMapping, CopyWindow, FrameBytes};

/// An overwrite ring whose records are copied, and whose consumer's position is saved in the ring.
#[derive(Debug)]
pub(crate) struct Saving {
    pub(crate) window: CopyWindow<ConsumerMapping>,
    /// Bytes that were read since the position was saved.
    unsaved: u64,
    /// Only resume points are saved.
    pub(crate) hold: bool,
}

impl Saving {
    pub(crate) fn new(window: CopyWindow<ConsumerMapping>) -> Self {
        Saving { window, unsaved: 0, hold: false }
    }

    /// Returns the next item.
    #[inline(never)] // consumers of other rings call the function that this would go into
    pub(crate) fn read(&mut self) -> Result<Option<Item<'_>>, ReadError> {
        self.save_if_due();
        let next = match self.window.next_fast() {
            Ok(found) => Next::Record(found),
            Err(window) => match window.read()? {
                Some(next) => next,
                None => return Ok(None),
            },
        };
        self.unsaved = self.unsaved.saturating_add(size(&next));
        Ok(Some(item(next)))
    }

    /// Returns the next item among those published at the last poll, and the kind of the item after it.
    #[inline]
    pub(crate) fn take(&mut self) -> Result<Option<(Item<'_>, Front)>, ReadError> {
        self.save_if_due();
        let Some((next, front)) = self.window.take()? else { return Ok(None) };
        self.unsaved = self.unsaved.saturating_add(size(&next));
        Ok(Some((item(next), front)))
    }

    /// Returns a loss that no marker in the stream reports.
    pub(crate) fn lost(&mut self) -> Option<Lost> {
        let lost = self.window.lost()?;
        self.unsaved = self.unsaved.saturating_add(1);
        Some(lost)
    }

    /// Saves if it is due: the item of the last call counts as read now.
    #[inline]
    fn save_if_due(&mut self) {
        if self.unsaved >= self.window.mapping().file().layout().data_size / 8 {
            self.save();
        }
    }

    /// Saves the position after everything that was read, unless that is on hold.
    pub(crate) fn save(&mut self) {
        if self.unsaved > 0 && !self.hold {
            self.window.save();
            self.unsaved = 0;
        }
    }

    /// Saves a resume point, whose records were read.
    pub(crate) fn save_resume_point(&mut self, resume_point: &ResumePoint) {
        if resume_point.pos() <= self.window.observer().resume_point().pos() {
            self.window.save_resume_point(resume_point);
            self.unsaved = 0;
        }
    }
}

/// Returns the bytes that it takes in the ring.
#[inline]
fn size(next: &Next<FrameBytes<'_>>) -> u64 {
    match next {
        Next::Record((frame, _)) => frame.size,
        Next::Lost(Lost { bytes, .. }) => (*bytes).max(1),
    }
}
