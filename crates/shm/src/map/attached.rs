//! A ring's file in an attached process: its mapping, and the guard against forks. Every window of a producer and every
//! consumer has one.

use crate::file::error::AttachError;
use crate::file::location::Location;
use crate::file::open::{FileAccess, RingFile};
use crate::file::trust::Trust;
use crate::map::address_range::DataAccess;
use crate::map::mirror::Mirror;
use crate::map::pages::{Pages, PagesError};
use crate::sys::fork::{self, NotForChildren};
use crate::sys::ofd_lock::ByteLock;
use perfring_abi::{Layout, Producers};
use perfring_ring::{ReadError, TableFull, TypeTableArea, TypeTableWriter};
use std::io;

/// A mapped ring, and its open file. In a forked child, the mapping is private memory.
#[derive(Debug)]
pub struct Attached {
    // Drop order: first the registration for forked children.
    pub(super) children: NotForChildren,
    pub(super) map: Mirror,
    pub(crate) ring: RingFile,
}

impl Attached {
    /// Maps a ring for a producer. To be called before a lock is taken: a child forked in between would keep it.
    pub(super) fn as_producer(
        location: Location,
        kind: Producers,
        trust: Trust,
    ) -> Result<Self, AttachError> {
        let _opening = fork::hold_off();
        let ring = RingFile::open(location, FileAccess::Write)?;
        ring.expect(kind)?;
        let guarded = trust.guards_mapping(&ring)?;
        let mut map = Mirror::map(&ring, DataAccess::Write)?;
        let children = NotForChildren::new(map.ranges(), &ring.file);
        if guarded {
            map.lend(&ring)?;
        }
        Ok(Attached { children, map, ring })
    }

    /// Returns the open file.
    #[must_use]
    #[inline(always)]
    pub fn file(&self) -> &RingFile {
        &self.ring
    }

    /// Returns the ring's shape.
    #[must_use]
    #[inline(always)]
    pub fn layout(&self) -> &Layout {
        &self.ring.layout
    }

    /// Returns whether this process is a forked child of the process that attached.
    #[must_use]
    #[inline(always)]
    pub fn forked(&self) -> bool {
        self.children.forked()
    }

    /// Returns whether reservations are private memory, which a commit copies to the ring. The [`Trust`] at the attach
    /// decides it.
    #[must_use]
    pub fn is_guarded(&self) -> bool {
        self.map.lends()
    }

    /// Returns why the mapping is no longer the file's, if that was found out. Always `None` without
    /// [`install_sigbus_handler`](crate::install_sigbus_handler), which a guarded window has called.
    #[must_use]
    #[inline]
    pub fn cut_off(&self) -> Option<ReadError> {
        self.map.guard.cut_off()
    }

    /// Queries the file's size, and returns the result of [`Attached::cut_off`] after that. A system call.
    #[must_use]
    pub fn look(&self) -> Option<ReadError> {
        self.map.guard.look();
        self.cut_off()
    }

    /// Prefaults, locks or collapses this mapping's pages.
    ///
    /// # Errors
    /// See [`PagesError`].
    pub fn set_pages(&self, pages: Pages) -> Result<(), PagesError> {
        pages.set(&self.map, &self.ring)
    }

    /// Returns the type table, from which `perfring_types` makes types.
    #[must_use]
    pub fn types(&self) -> TypeTableArea<'_> {
        self.map.types()
    }

    /// Takes the type table's lock, which the kernel drops when its holder dies. `None` if another
    /// process holds it.
    ///
    /// # Errors
    /// The system's error.
    pub fn lock_types(&self) -> io::Result<Option<LockedTypes<'_>>> {
        let lock = ByteLock::take(&self.ring.file, self.ring.layout.areas().types.start)?;
        Ok(lock.map(|lock| LockedTypes { table: self.map.types_to_write(), _lock: lock }))
    }
}

/// The table's lock: no other process adds to the table while this lives.
#[derive(Debug)]
pub struct LockedTypes<'a> {
    table: TypeTableWriter<'a>,
    _lock: ByteLock,
}

impl LockedTypes<'_> {
    /// Adds an entry.
    ///
    /// # Errors
    /// [`TableFull`].
    pub fn append(&self, entry: &[u64]) -> Result<(), TableFull> {
        self.table.append(entry)
    }
}
