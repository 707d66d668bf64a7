//! The reading position of a consumer.

use crate::guarded::GuardedRing;
use crate::saving::Saving;
use perfring_ring::{Lost, ResumePoint};
use perfring_shm::{
    AttachError, ConsumerMapping, ConsumerWindow, Lines, Location, ReadWindow, Trust,
};

/// The three methods of reading.
#[derive(Debug)]
pub(crate) enum Cursor {
    /// Drop ring: records are borrowed.
    InPlace(ReadWindow),
    /// Drop ring whose producer is not trusted: each record is copied.
    Guarded(GuardedRing),
    /// Overwrite ring: records are copied, and the position is saved in the ring.
    Saving(Saving),
}

/// Evaluates one expression for the window of a drop ring, in place or guarded, and another for an overwrite ring.
macro_rules! either {
    ($cursor:expr, $window:ident => $drop:expr, $saving:pat => $overwrite:expr) => {
        match $cursor {
            $crate::cursor::Cursor::InPlace($window) => $drop,
            $crate::cursor::Cursor::Guarded($crate::guarded::GuardedRing {
                window: $window,
                ..
            }) => $drop,
            $crate::cursor::Cursor::Saving($saving) => $overwrite,
        }
    };
}
pub(crate) use either;

impl Cursor {
    /// Attaches as the consumer, where the last one released, or saved its position.
    pub(crate) fn attach(
        location: Location,
        name: &str,
        lines: Lines,
        trust: Trust,
    ) -> Result<Self, AttachError> {
        Ok(match ConsumerWindow::attach(location, name, lines, trust)? {
            ConsumerWindow::InPlace(window) => Cursor::InPlace(window),
            ConsumerWindow::Guarded(window) => Cursor::Guarded(GuardedRing::new(window)),
            ConsumerWindow::Saving(window) => Cursor::Saving(Saving::new(window)),
        })
    }

    #[inline]
    pub(crate) fn mapping(&self) -> &ConsumerMapping {
        either!(self, window => window.mapping(), saving => saving.window.mapping())
    }

    /// Returns the resume point after everything that was read.
    #[inline]
    pub(crate) fn resume_point(&self) -> ResumePoint {
        either!(self, window => window.reader().resume_point(), saving => saving.window.observer().resume_point())
    }

    /// Returns whether all that is known was read.
    pub(crate) fn must_poll(&self) -> bool {
        either!(self, window => window.reader().known() == 0, saving => saving.window.observer().must_poll())
    }

    /// Releases, or saves, everything that was read, unless that is on hold.
    pub(crate) fn release(&mut self) {
        either!(self, window => window.release(), saving => saving.save())
    }

    /// Returns whether there is a loss to read that no marker in the stream reports, once all else was read.
    pub(crate) fn has_lost(&mut self) -> bool {
        either!(self, window => window.has_lost(), saving => saving.window.has_lost())
    }

    /// Returns the next of these losses.
    pub(crate) fn lost(&mut self) -> Option<Lost> {
        either!(self, window => window.lost(), saving => saving.lost())
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
