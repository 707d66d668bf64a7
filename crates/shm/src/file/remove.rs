//! Removing a ring without a race against a producer that attaches at that moment.

use crate::file::denied;
use crate::file::error::AttachError;
use crate::file::location::Location;
use crate::file::open::{FileAccess, RingFile};
use crate::sys::fork::{self, NotForChildren};
use crate::sys::ofd_lock::{ALL, ByteLock};
use std::{fs, io};

/// Removes a ring's name. Attached processes keep their mapping. A process that attaches at this
/// moment either counts as attached or finds the ring removed: no process publishes into a ring
/// that lost its name after the attach, unless `removal` is [`Removal::Always`].
///
/// # Errors
/// [`AttachError::Busy`] if a producer or consumer is attached and `removal` is not
/// [`Removal::Always`]; otherwise the errors of an attach. A file that is not a ring is not
/// removed.
pub fn remove(location: impl Into<Location>, removal: Removal) -> Result<(), AttachError> {
    let location = location.into();
    if removal == Removal::Always {
        return unlink(&RingFile::open(location, FileAccess::Read)?);
    }
    match Idle::hold(&location) {
        Ok(idle) => idle.remove(),
        // A user who may remove a file need not be able to write it, and cannot lock it then.
        Err(AttachError::Permission { .. } | AttachError::ReadOnly { .. }) => {
            let ring = RingFile::open(location, FileAccess::Read)?;
            match ring.held_seat()? {
                Some(seat) => Err(ring.busy(seat)),
                None => unlink(&ring),
            }
        }
        Err(error) => Err(error),
    }
}

/// Whether a ring in use may be removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Removal {
    /// Only if no producer or consumer is attached.
    #[default]
    IfFree,
    /// In any case.
    Always,
}

/// A ring that has neither producers nor a consumer, and gets none while this lives: processes that
/// try to attach wait. Observers are neither excluded nor detected.
///
/// ```
/// use perfring_shm::{AttachError, Idle, RingOptions, Trust, WriteWindow, create};
/// # use perfring_abi::RecordType;
/// # use perfring_ring::{End, Wake};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("ring");
/// create(&path, &RingOptions::default())?;
/// let mut writer = WriteWindow::attach(&path, Trust::Auto)?;
/// assert!(matches!(Idle::hold(&path), Err(AttachError::Busy { .. })));
/// # assert_eq!(writer.put(RecordType::BYTES, b"last words", End::Publish(Wake::Auto), |_| 0), Ok(()));
/// drop(writer);
///
/// let idle = Idle::hold(&path)?;
/// if idle.file().totals()?.is_some_and(|totals| totals.present.records == 0) {
///     idle.remove()?; // not this one: it has a record
/// }
/// assert!(path.exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Idle {
    // In drop order.
    _all: ByteLock,
    _children: NotForChildren,
    ring: RingFile,
}

impl Idle {
    /// Locks all seats of a ring in one step. Needs permission to read and write it.
    ///
    /// # Errors
    /// [`AttachError::Busy`] if a producer or consumer is attached; otherwise see [`AttachError`].
    pub fn hold(location: impl Into<Location>) -> Result<Self, AttachError> {
        let location = location.into();
        let opening = fork::hold_off();
        let ring = RingFile::open(location, FileAccess::Write)?;
        // Before it is locked: a child forked in between would keep the locks.
        let children = NotForChildren::descriptor(&ring.file);
        drop(opening);
        let taken = ring.take_with(|| {
            ByteLock::take_all(&ring.file).map_err(|source| ring.io("locking it", source))
        })?;
        match taken {
            Some(all) => Ok(Idle { ring, _children: children, _all: all }),
            None => Err(match ring.held_seat()? {
                Some(seat) => ring.busy(seat),
                None => ring.read_locked(ALL).unwrap_or_else(|| {
                    let now = "another process is recovering it or has just detached: try again";
                    ring.io("locking it", io::Error::new(io::ErrorKind::WouldBlock, now))
                }),
            }),
        }
    }

    /// Returns the open file. Its totals do not change while this lives.
    #[must_use]
    pub fn file(&self) -> &RingFile {
        &self.ring
    }

    /// Removes the ring's name. Processes that wait to attach get [`AttachError::Removed`].
    ///
    /// # Errors
    /// [`AttachError::Removed`] if the name was removed by other means (such as `rm`);
    /// [`AttachError::NotRemovable`] if the directory does not permit it.
    pub fn remove(self) -> Result<(), AttachError> {
        // No perfring process gives the name to another file while this one is locked.
        match self.ring.is_named()? {
            true => unlink(&self.ring),
            false => Err(AttachError::Removed { location: self.ring.location.clone() }),
        }
    }
}

fn unlink(ring: &RingFile) -> Result<(), AttachError> {
    if ring.is_within() {
        let source = io::Error::new(io::ErrorKind::Unsupported, denied::WITHIN);
        return Err(ring.io("removing it", source));
    }
    let location = ring.location();
    fs::remove_file(location.path()).map_err(|source| denied::removing(location, source))
}
