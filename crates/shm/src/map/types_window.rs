//! A ring's type table, for processes that may add to it.

use crate::file::open::RingFile;
use crate::map::mirror::Mirror;
use crate::sys::fork::NotForChildren;
use crate::sys::ofd_lock::ByteLock;
use perfring_ring::{ReadError, TableFull, TypeTableArea, TypeTableWriter};
use std::io;

/// The type table of a ring that is mapped writable.
#[derive(Clone, Copy, Debug)]
pub struct TypesWindow<'a> {
    pub(super) children: &'a NotForChildren,
    pub(super) ring: &'a RingFile,
    /// Mapped with [`DataAccess::Write`](crate::map::address_range::DataAccess::Write).
    pub(super) map: &'a Mirror,
}

impl<'a> TypesWindow<'a> {
    /// Returns whether this process is a forked child of the one that attached.
    #[must_use]
    pub fn forked(&self) -> bool {
        self.children.forked()
    }

    /// Returns why the mapping is no longer the file's, if the file was truncated, or that was found out.
    #[must_use]
    pub fn cut_off(&self) -> Option<ReadError> {
        self.map.guard.look();
        self.map.guard.cut_off()
    }

    /// Returns the table.
    #[must_use]
    pub fn table(&self) -> TypeTableArea<'a> {
        self.map.types()
    }

    /// Takes the table's lock, which the kernel drops when its holder dies. `None` if another
    /// process holds it.
    ///
    /// # Errors
    /// The system's error.
    pub fn lock(&self) -> io::Result<Option<LockedTypes<'a>>> {
        let lock = ByteLock::take(&self.ring.file, self.ring.layout.types_offset())?;
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
