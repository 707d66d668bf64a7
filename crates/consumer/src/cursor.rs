//! The reading position of a consumer.

use crate::guarded::Guarded;
use crate::saving::Saving;
use perfring_abi::Policy;
use perfring_ring::{Lost, ResumePoint};
use perfring_shm::{AttachError, ConsumerMapping, CopyWindow, Lines, Location, ReadWindow, Trust};

/// The three methods of reading.
#[derive(Debug)]
pub(crate) enum Cursor {
    /// Drop ring: records are borrowed.
    InPlace(ReadWindow),
    /// Drop ring whose producer is not trusted: each record is copied.
    Guarded(Guarded),
    /// Overwrite ring: records are copied, and the position is saved in the ring.
    Saving(Saving),
}

impl Cursor {
    /// Attaches as the consumer, where the last one released, or saved its position.
    pub(crate) fn attach(
        location: Location,
        name: &str,
        lines: Lines,
        trust: Trust,
    ) -> Result<Self, AttachError> {
        let (mapping, guarded) = ConsumerMapping::attach(location, name, lines, trust)?;
        Ok(match (mapping.file().layout().policy, guarded) {
            (Policy::Overwrite, _) => {
                Cursor::Saving(Saving::new(CopyWindow::resume(mapping, name)?))
            }
            (Policy::Drop, true) => {
                Cursor::Guarded(Guarded::new(ReadWindow::attach(mapping, name)?))
            }
            (Policy::Drop, false) => Cursor::InPlace(ReadWindow::attach(mapping, name)?),
        })
    }

    #[inline]
    pub(crate) fn mapping(&self) -> &ConsumerMapping {
        match self {
            Cursor::InPlace(window) | Cursor::Guarded(Guarded { window, .. }) => window.mapping(),
            Cursor::Saving(saving) => saving.window.mapping(),
        }
    }

    /// Returns the resume point after everything that was read.
    #[inline]
    pub(crate) fn resume_point(&self) -> ResumePoint {
        match self {
            Cursor::InPlace(window) | Cursor::Guarded(Guarded { window, .. }) => {
                window.reader().resume_point()
            }
            Cursor::Saving(saving) => saving.window.observer().resume_point(),
        }
    }

    /// Returns whether all that is known was read.
    pub(crate) fn must_poll(&self) -> bool {
        match self {
            Cursor::InPlace(window) | Cursor::Guarded(Guarded { window, .. }) => {
                window.reader().known() == 0
            }
            Cursor::Saving(saving) => saving.window.observer().must_poll(),
        }
    }

    /// Releases, or saves, everything that was read, unless that is on hold.
    pub(crate) fn release(&mut self) {
        match self {
            Cursor::InPlace(window) | Cursor::Guarded(Guarded { window, .. }) => window.release(),
            Cursor::Saving(saving) => saving.save(),
        }
    }

    /// Returns whether there is a loss to read that no marker in the stream reports, once all else was read.
    pub(crate) fn has_lost(&mut self) -> bool {
        match self {
            Cursor::InPlace(window) | Cursor::Guarded(Guarded { window, .. }) => window.has_lost(),
            Cursor::Saving(saving) => saving.window.has_lost(),
        }
    }

    /// Returns the next of these losses.
    pub(crate) fn lost(&mut self) -> Option<Lost> {
        match self {
            Cursor::InPlace(window) | Cursor::Guarded(Guarded { window, .. }) => window.lost(),
            Cursor::Saving(saving) => saving.lost(),
        }
    }

    /// Returns whether there may be something to read.
    #[inline]
    pub(crate) fn is_behind(&self) -> bool {
        self.mapping().head() != self.resume_point().pos()
    }

    /// Returns whether there may be something to read, for a reader that polls continuously:
    /// prefetches the next record's cache lines with the head's.
    #[inline]
    pub(crate) fn is_behind_near(&self) -> bool {
        let next = self.resume_point().pos();
        self.mapping().prefetch(next);
        self.mapping().prefetch(next.wrapping_add(64));
        self.is_behind()
    }
}
