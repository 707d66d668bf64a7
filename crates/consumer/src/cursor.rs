//! Where a consumer reads.

use crate::guarded::Guarded;
use crate::saving::Saving;
use perfring_abi::Policy;
use perfring_ring::Count;
use perfring_shm::{AttachError, ConsumerMapping, CopyWindow, Guard, Home, Lines, ReadWindow};

/// The three ways of reading.
#[derive(Debug)]
pub(crate) enum Cursor {
    /// Drop: records are borrowed.
    InPlace(ReadWindow),
    /// Drop, of a producer that is not trusted: each record is copied.
    Guarded(Guarded),
    /// Overwrite: records are copied, and the place is saved in the page.
    Saving(Saving),
}

impl Cursor {
    /// Attaches as the consumer, where the last one released, or saved itself.
    pub(crate) fn attach(
        home: Home,
        name: &str,
        lines: Lines,
        guard: Guard,
    ) -> Result<Self, AttachError> {
        let (mapping, guard) = ConsumerMapping::attach(home, lines, guard)?;
        Ok(match (mapping.file().layout().policy, guard) {
            (Policy::Overwrite, _) => {
                Cursor::Saving(Saving::new(CopyWindow::resume(mapping, name)?))
            }
            (Policy::Drop, Guard::Always) => {
                Cursor::Guarded(Guarded::new(ReadWindow::attach(mapping, name)?))
            }
            (Policy::Drop, Guard::Never | Guard::Auto) => {
                Cursor::InPlace(ReadWindow::attach(mapping, name)?)
            }
        })
    }

    #[inline]
    pub(crate) fn mapping(&self) -> &ConsumerMapping {
        match self {
            Cursor::InPlace(window) => window.mapping(),
            Cursor::Guarded(guarded) => guarded.window().mapping(),
            Cursor::Saving(saving) => saving.window().mapping(),
        }
    }

    /// The position of the next record.
    #[inline]
    pub(crate) fn position(&self) -> u64 {
        match self {
            Cursor::InPlace(window) => window.reader().cursor(),
            Cursor::Guarded(guarded) => guarded.window().reader().cursor(),
            Cursor::Saving(saving) => saving.window().observer().saved().pos,
        }
    }

    /// Records before that, since the ring was made, those that were overwritten included.
    pub(crate) fn passed(&self) -> Count {
        match self {
            Cursor::InPlace(window) => window.reader().passed(),
            Cursor::Guarded(guarded) => guarded.window().reader().passed(),
            Cursor::Saving(saving) => saving.window().observer().saved().before,
        }
    }

    /// Records that were overwritten before this consumer, or one before it, came to them.
    pub(crate) fn lapped(&self) -> Count {
        match self {
            Cursor::InPlace(_) | Cursor::Guarded(_) => Count::default(),
            Cursor::Saving(saving) => saving.window().observer().lapped(),
        }
    }

    /// Hands back, or saves, everything that was read, unless that is on hold.
    pub(crate) fn release(&mut self) {
        match self {
            Cursor::InPlace(window) => window.release(),
            Cursor::Guarded(guarded) => guarded.window_mut().release(),
            Cursor::Saving(saving) => saving.save(),
        }
    }

    /// Whether there may be something to read.
    #[inline]
    pub(crate) fn is_behind(&self) -> bool {
        self.mapping().head() != self.position()
    }

    /// The same, for a reader that does nothing but look: has the next record's cache lines come
    /// along with the head's.
    #[inline]
    pub(crate) fn is_behind_near(&self) -> bool {
        let next = self.position();
        self.mapping().prefetch(next);
        self.mapping().prefetch(next.wrapping_add(64));
        self.is_behind()
    }
}
