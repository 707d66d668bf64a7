//! Opening a ring file and checking it before anything is mapped.

use crate::file::error::AttachError;
use crate::file::location::Location;
use crate::sys::clock::{MachineClock, now_ns};
use crate::sys::ofd_lock::{self, ByteLock};
use perfring_abi::{CONSUMER_LOCK_BYTE, HeaderPage, Layout, Producers, RECOVER_LOCK_BYTE};
use perfring_ring::{OwnerInfo, ReadError};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::sync::Arc;
use std::time::Duration;

/// How long whoever attaches waits for one that is about to remove the ring, which takes some
/// microseconds unless that process is stopped.
const REMOVAL_POLLS: u32 = 1000;
const REMOVAL_PAUSE: Duration = Duration::from_millis(1);

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// Which file a ring is, and which ring is in it: a ring that took the place of another under the
/// same name differs, also where a file system gives a number out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The file system's number.
    pub dev: u64,
    /// The file's number in it.
    pub ino: u64,
    /// The ring's own id, see [`Layout::uuid`].
    pub uuid: [u8; 16],
}

/// A place that one process at a time can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seat {
    /// A producer's slot: 0 in an exclusive ring.
    Producer(u32),
    /// The consumer's place.
    Consumer,
}

/// An open ring file whose header has been checked.
#[derive(Clone, Debug)]
pub struct RingFile {
    pub(crate) file: Arc<File>,
    pub(crate) location: Location,
    pub(crate) layout: Layout,
    /// What is only read cannot hold a lock, and a forked child may go on with it.
    pub(crate) access: Access,
}

impl RingFile {
    /// Opens a file to see whether it is a ring, and which. Nothing is mapped, nobody can tell, and
    /// a symbolic link is not followed.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn inspect(location: impl Into<Location>) -> Result<Self, AttachError> {
        Self::open_with(location.into(), Access::Read, nix::libc::O_NOFOLLOW)
    }

    pub(crate) fn open(location: Location, access: Access) -> Result<Self, AttachError> {
        Self::open_with(location, access, 0)
    }

    fn open_with(location: Location, access: Access, flags: i32) -> Result<Self, AttachError> {
        let io = |step, source| AttachError::Io { location: location.clone(), step, source };
        let write = access == Access::Write;
        // Not blocking: a FIFO of that name must not hold us up.
        let opened = OpenOptions::new()
            .read(true)
            .write(write)
            .custom_flags(nix::libc::O_NONBLOCK | nix::libc::O_NOCTTY | flags)
            .open(location.path());
        let wanted = if write { "reading and writing" } else { "reading" };
        let file = opened.map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => AttachError::NotFound { location: location.clone() },
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                AttachError::Permission { location: location.clone(), wanted }
            }
            _ => io("opening it", source),
        })?;
        let meta = file.metadata().map_err(|source| io("looking at it", source))?;
        if !meta.is_file() {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file");
            return Err(io("opening it", source));
        }
        let mut bytes = [0; HeaderPage::LEN];
        let page = match file.read_exact_at(&mut bytes, 0) {
            Ok(()) => HeaderPage::from_bytes(&bytes)
                .map_err(|len| perfring_abi::BadRing::Short { len: len as u64 }),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(perfring_abi::BadRing::Short { len: meta.len() })
            }
            Err(source) => return Err(io("reading it", source)),
        };
        match page.and_then(|page| Layout::check(&page, meta.len())) {
            Ok(layout) => Ok(RingFile { file: Arc::new(file), location, layout, access }),
            Err(source) => Err(AttachError::Bad { location, source }),
        }
    }

    /// Where the ring lives.
    #[must_use]
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// Its shape and identity.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Which file it is.
    ///
    /// # Errors
    /// [`AttachError::Io`].
    pub fn identity(&self) -> Result<Identity, AttachError> {
        let meta = self.file.metadata().map_err(|source| self.io("looking at it", source))?;
        Ok(Identity { dev: meta.dev(), ino: meta.ino(), uuid: self.layout.uuid })
    }

    /// The uid that it belongs to, and its mode bits.
    ///
    /// # Errors
    /// [`AttachError::Io`].
    pub fn owner(&self) -> Result<(u32, u32), AttachError> {
        let meta = self.file.metadata().map_err(|source| self.io("looking at it", source))?;
        Ok((meta.uid(), meta.mode() & 0o7777))
    }

    /// Whether its name still leads to this file, and not to nothing or to another.
    pub(crate) fn is_named(&self) -> Result<bool, AttachError> {
        let failed = |source| self.io("looking at it", source);
        let open = self.file.metadata().map_err(failed)?;
        match std::fs::metadata(self.location.path()) {
            Ok(named) => Ok((named.dev(), named.ino()) == (open.dev(), open.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(failed(error)),
        }
    }

    /// Returns whether the file has no name any more, or its name leads to another file. Whatever the
    /// file system does not tell, and a name that leads nowhere while the file has another (it was
    /// moved, or the path is relative to a directory that was left), is no removal.
    pub(crate) fn is_removed(&self) -> bool {
        let Ok(open) = self.file.metadata() else { return false };
        let is_other =
            |named: std::fs::Metadata| (named.dev(), named.ino()) != (open.dev(), open.ino());
        open.nlink() == 0 || std::fs::metadata(self.location.path()).is_ok_and(is_other)
    }

    pub(crate) fn lock_byte(&self, seat: Seat) -> u64 {
        match seat {
            // The slot after the last one stands for whoever recovers the ring.
            Seat::Producer(slot) if slot == self.layout.slots => RECOVER_LOCK_BYTE,
            Seat::Producer(slot) => self.layout.slot_lock_byte(slot),
            Seat::Consumer => CONSUMER_LOCK_BYTE,
        }
    }

    /// Whether a live process holds the place: the kernel's word, not a pid's.
    ///
    /// # Errors
    /// [`AttachError::Io`] where the file system has no such locks.
    pub fn is_held(&self, seat: Seat) -> Result<bool, AttachError> {
        ofd_lock::is_held(&self.file, self.lock_byte(seat))
            .map_err(|source| self.io("asking for its locks", source))
    }

    /// Whether a live process holds any place.
    ///
    /// # Errors
    /// [`AttachError::Io`] where the file system has no such locks.
    pub fn is_in_use(&self) -> Result<bool, AttachError> {
        Ok(self.held_seat()?.is_some())
    }

    /// A place that a live process holds, if there is one.
    pub(crate) fn held_seat(&self) -> Result<Option<Seat>, AttachError> {
        for seat in self.seats() {
            if self.is_held(seat)? {
                return Ok(Some(seat));
            }
        }
        Ok(None)
    }

    pub(crate) fn seats(&self) -> impl Iterator<Item = Seat> + use<> {
        (0..self.layout.slots).map(Seat::Producer).chain([Seat::Consumer])
    }

    /// Refuses a ring of the other kind.
    pub(crate) fn expect(&self, producers: Producers) -> Result<(), AttachError> {
        if self.layout.producers == producers {
            return Ok(());
        }
        Err(AttachError::Kind { location: self.location.clone(), producers: self.layout.producers })
    }

    /// Takes a lock on a ring that is to be there to stay: waits for a removal to be over, and
    /// makes sure that the ring has survived it. What is locked once it has its name keeps it.
    pub(crate) fn take_with(
        &self,
        mut take: impl FnMut() -> Result<Option<ByteLock>, AttachError>,
    ) -> Result<Option<ByteLock>, AttachError> {
        let mut looks = REMOVAL_POLLS;
        loop {
            if let Some(lock) = take()? {
                return match self.is_named()? {
                    true => Ok(Some(lock)),
                    false => Err(AttachError::Removed { location: self.location.clone() }),
                };
            }
            if looks == 0 {
                return Ok(None);
            }
            let removing = ofd_lock::is_held(&self.file, ofd_lock::REMOVAL_BYTE)
                .map_err(|source| self.io("asking for its locks", source))?;
            if removing {
                looks -= 1;
                std::thread::sleep(REMOVAL_PAUSE);
            } else {
                looks = 0; // once more: it may be over since the lock was tried
            }
        }
    }

    /// What a producer of this ring stamps by.
    pub(crate) fn timestamp_clock(&self) -> Result<MachineClock, AttachError> {
        if !self.layout.time {
            return Ok(MachineClock::unused());
        }
        MachineClock::find()
            .map_err(|source| AttachError::Clock { location: self.location.clone(), source })
    }

    /// What to sign with.
    pub(crate) fn me(name: &str) -> OwnerInfo {
        OwnerInfo {
            epoch: 0,
            attached_ns: now_ns(),
            pid: std::process::id(),
            uid: nix::unistd::Uid::current().as_raw(),
            name: name.to_owned(),
        }
    }

    pub(crate) fn io(&self, step: &'static str, source: io::Error) -> AttachError {
        AttachError::Io { location: self.location.clone(), step, source }
    }

    /// What to say of a ring that turned out to be damaged.
    #[must_use]
    pub fn corrupt(&self, source: impl Into<ReadError>) -> AttachError {
        let location = self.location.clone();
        match source.into() {
            ReadError::Truncated => AttachError::Truncated { location },
            ReadError::Removed => AttachError::Removed { location },
            source @ ReadError::OutOfMemory { .. } => {
                self.io("copying it", io::Error::new(io::ErrorKind::OutOfMemory, source))
            }
            source => AttachError::Corrupt { location, source },
        }
    }
}
