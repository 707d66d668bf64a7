//! Opening a ring file and checking it before anything is mapped.

use crate::file::denied;
use crate::file::error::AttachError;
use crate::file::file_system::FileSystem;
use crate::file::image::{self, ImagePart};
use crate::file::location::Location;
use crate::file::overlay;
use crate::sys::clock::{MachineClock, now_ns};
use crate::sys::ofd_lock::{ByteLock, ByteRange, LockFile, REMOVAL_BYTE};
use perfring_abi::{CONSUMER_LOCK_BYTE, HeaderPage, Layout, Producers, RECOVER_LOCK_BYTE};
use perfring_ring::{OwnerInfo, ReadError};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How often an attaching process polls for the end of a removal in progress. A removal takes some
/// microseconds unless its process is stopped.
const REMOVAL_POLLS: u32 = 1000;
const REMOVAL_PAUSE: Duration = Duration::from_millis(1);

/// Access that a file is opened with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileAccess {
    Read,
    Write,
}

/// The identity of a ring and its file. A ring that replaced another under the same name has a
/// different identity, also where the file system reuses an inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Device number, `st_dev`.
    pub dev: u64,
    /// Inode number, `st_ino`.
    pub ino: u64,
    /// The ring's own id, see [`Layout::uuid`].
    pub uuid: [u8; 16],
}

/// A seat that one process at a time can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeatId {
    /// A producer's slot: 0 in an exclusive ring.
    Producer(u32),
    /// The consumer's seat.
    Consumer,
    /// The seat of a named consumer, in a ring that has such seats.
    Named(u32),
}

/// An open ring file whose header has been checked.
#[derive(Clone, Debug)]
pub struct RingFile {
    pub(crate) file: Arc<LockFile>,
    pub(crate) location: Location,
    pub(crate) layout: Layout,
    /// A file that is only read holds no lock, so a forked child may go on with it.
    pub(crate) access: FileAccess,
    /// The ring's place in its file, if that is a larger one that holds it.
    within: Option<Arc<ImagePart>>,
}

impl RingFile {
    /// Opens a file to find out whether it is a ring, and which one. Maps nothing, leaves no trace
    /// in the ring, and does not follow a symbolic link.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn inspect(location: impl Into<Location>) -> Result<Self, AttachError> {
        Self::open_with(location.into(), FileAccess::Read, nix::libc::O_NOFOLLOW)
    }

    pub(crate) fn open(location: Location, access: FileAccess) -> Result<Self, AttachError> {
        Self::open_with(location, access, 0)
    }

    fn open_with(location: Location, access: FileAccess, flags: i32) -> Result<Self, AttachError> {
        let io = |step, source| AttachError::Io { location: location.clone(), step, source };
        let write = access == FileAccess::Write;
        // Does not block if the name is a FIFO.
        let flags = nix::libc::O_NONBLOCK | nix::libc::O_NOCTTY | flags;
        let opened =
            OpenOptions::new().read(true).write(write).custom_flags(flags).open(location.as_path());
        let wanted = if write { "reading and writing" } else { "reading" };
        let no_file = |kind, what: &str| io("opening it", io::Error::new(kind, what));
        let (file, base) = match opened {
            Ok(file) => (file, None),
            Err(source) => {
                let missing = source.kind() == io::ErrorKind::NotFound;
                let Some(within) = missing.then(|| image::within(&location)).flatten() else {
                    return Err(denied::opening(&location, source, wanted));
                };
                match within.open(flags, wanted)? {
                    Some(file) if !write => (file, Some(within.offset)),
                    Some(_) => return Err(no_file(io::ErrorKind::Unsupported, denied::WITHIN)),
                    None => {
                        let holder = Some(within.path);
                        return Err(AttachError::NotFound { location, leads_to: None, holder });
                    }
                }
            }
        };
        let within = base.map(|base| Arc::new(ImagePart::new(base)));
        let base = base.unwrap_or(0);
        let meta = file.metadata().map_err(|source| io("reading its metadata", source))?;
        if meta.is_dir() {
            return Err(no_file(io::ErrorKind::IsADirectory, denied::DIRECTORY));
        }
        if let Some(kind) = denied::irregular(&meta) {
            return Err(no_file(io::ErrorKind::InvalidInput, kind));
        }
        let mut bytes = [0; HeaderPage::LEN];
        let page = match file.read_exact_at(&mut bytes, base) {
            Ok(()) => HeaderPage::from_bytes(&bytes)
                .map_err(|len| perfring_abi::BadRing::Short { len: len as u64 }),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                // Or as short as that, by now.
                let len =
                    file.metadata().map_or(0, |now| now.len().min(HeaderPage::LEN as u64 - 1));
                Err(perfring_abi::BadRing::Short { len })
            }
            Err(source) => return Err(io("reading it", source)),
        };
        match page.and_then(|page| Layout::check(&page, meta.len().saturating_sub(base))) {
            Ok(layout) => {
                // A reader takes no lock. The state of others' locks that it finds may be wrong.
                if write && let Some(shown) = overlay::shown_at(&file) {
                    return Err(AttachError::UnderOverlay { location, shown });
                }
                let file = Arc::new(LockFile::new(file));
                Ok(RingFile { file, location, layout, access, within })
            }
            Err(source) => Err(AttachError::Bad { location, source }),
        }
    }

    /// Returns the ring's location.
    #[must_use]
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// Returns the ring's shape and identity.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the identity of the ring and its file.
    ///
    /// # Errors
    /// [`AttachError::Io`].
    pub fn identity(&self) -> Result<Identity, AttachError> {
        let meta =
            self.file.metadata().map_err(|source| self.io("reading its metadata", source))?;
        Ok(Identity { dev: meta.dev(), ino: meta.ino(), uuid: self.layout.uuid })
    }

    /// Returns the owner's uid and the mode bits.
    ///
    /// # Errors
    /// [`AttachError::Io`].
    pub fn owner(&self) -> Result<(u32, u32), AttachError> {
        let meta =
            self.file.metadata().map_err(|source| self.io("reading its metadata", source))?;
        Ok((meta.uid(), meta.mode() & 0o7777))
    }

    /// Returns the file, and how long it is unless it is truncated.
    pub(crate) fn watched(&self) -> (&Arc<LockFile>, u64) {
        (&self.file, self.offset() + self.layout.file_size())
    }

    /// Returns the ring's offset in its file.
    pub(crate) fn offset(&self) -> u64 {
        self.within.as_ref().map_or(0, |within| within.offset)
    }

    /// Returns whether the ring is inside a larger file.
    pub(crate) fn is_within(&self) -> bool {
        self.within.is_some()
    }

    /// Returns the file to map the ring from, and its offset there.
    pub(crate) fn mappable(&self) -> Result<(&File, u64), AttachError> {
        match &self.within {
            None => Ok((&self.file, 0)),
            Some(within) => within
                .mappable(&self.file, self.layout.file_size())
                .map_err(|source| self.io("copying it out of its file", source)),
        }
    }

    /// Returns whether a process of another user may read the file.
    pub(crate) fn is_exposed(&self) -> Result<bool, AttachError> {
        let (owner, mode) = self.owner()?;
        Ok(owner != nix::unistd::geteuid().as_raw() || mode & 0o044 != 0)
    }

    /// Returns the file system that the ring is on: its [`FileSystem::warning`] says which promise does not
    /// hold there.
    ///
    /// # Errors
    /// [`AttachError::Io`].
    pub fn file_system(&self) -> Result<FileSystem, AttachError> {
        FileSystem::of_file(&self.file)
            .map_err(|source| self.io("reading its file system's kind", source))
    }

    /// Returns where an overlay shows this file too. The file is in the upper directory of that overlay, and this process does
    /// not see the locks of processes that opened it there. `None` also where the mount is in another mount namespace.
    #[must_use]
    pub fn shown_through_overlay(&self) -> Option<PathBuf> {
        overlay::shown_at(&self.file)
    }

    /// Returns whether the ring's name still leads to this file.
    pub(crate) fn is_named(&self) -> Result<bool, AttachError> {
        let failed = |source| self.io("reading its metadata", source);
        let open = self.file.metadata().map_err(failed)?;
        match std::fs::metadata(self.location.as_path()) {
            Ok(named) => Ok((named.dev(), named.ino()) == (open.dev(), open.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(failed(error)),
        }
    }

    /// Returns whether the file has no name any more, or its name leads to another file. It returns
    /// `false` where the file system does not say, and where the name leads nowhere while the file
    /// has another (it was moved, or the path is relative to a directory that was left). Two system calls.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        if self.is_within() {
            return false;
        }
        let Ok(open) = self.file.metadata() else { return false };
        let is_other =
            |named: std::fs::Metadata| (named.dev(), named.ino()) != (open.dev(), open.ino());
        open.nlink() == 0 || std::fs::metadata(self.location.as_path()).is_ok_and(is_other)
    }

    pub(crate) fn lock_byte(&self, seat: SeatId) -> u64 {
        match seat {
            // The slot after the last one stands for a process that recovers the ring.
            SeatId::Producer(slot) if slot == self.layout.slots => RECOVER_LOCK_BYTE,
            SeatId::Producer(slot) => self.layout.slot_lock_byte(slot),
            SeatId::Consumer => CONSUMER_LOCK_BYTE,
            SeatId::Named(seat) => self.layout.consumer_lock_byte(seat),
        }
    }

    /// Returns whether a live process holds the seat, be it this one by this very handle. The
    /// kernel's lock decides, not a pid. Only a process that may write the file can hold a seat. Processes of another
    /// kernel are unknown here, and count as dead: those of a guest, if the ring is in its memory.
    ///
    /// # Errors
    /// [`AttachError::Io`] where the file system has no such locks.
    pub fn is_held(&self, seat: SeatId) -> Result<bool, AttachError> {
        if self.is_within() {
            return Ok(false);
        }
        let held = self.file.is_held(self.lock_byte(seat));
        held.map_err(|source| self.io("querying its locks", source))
    }

    /// Returns the error for bytes that nobody holds, and that cannot be locked: a process that may
    /// read the file has a read lock there. `None` if that is not so.
    pub(crate) fn read_locked(&self, range: ByteRange) -> Option<AttachError> {
        match self.file.is_read_locked(range) {
            Ok(true) => Some(AttachError::ReadLocked { location: self.location.clone() }),
            Ok(false) => None,
            Err(source) => Some(self.io("querying its locks", source)),
        }
    }

    /// Returns whether a live process produces to the ring.
    ///
    /// # Errors
    /// [`AttachError::Io`] where the file system has no such locks.
    pub fn has_producer(&self) -> Result<bool, AttachError> {
        let slots = match self.layout.producers {
            Producers::One => 1,
            Producers::Many | Producers::Cpu => self.layout.slots,
        };
        for slot in 0..slots {
            if self.is_held(SeatId::Producer(slot))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns whether a live process holds any seat.
    ///
    /// # Errors
    /// [`AttachError::Io`] where the file system has no such locks.
    pub fn is_in_use(&self) -> Result<bool, AttachError> {
        Ok(self.held_seat()?.is_some())
    }

    /// Returns a seat that a live process holds, if there is one.
    pub(crate) fn held_seat(&self) -> Result<Option<SeatId>, AttachError> {
        for seat in self.seats() {
            if self.is_held(seat)? {
                return Ok(Some(seat));
            }
        }
        Ok(None)
    }

    /// Returns all seats of the ring.
    pub fn seats(&self) -> impl Iterator<Item = SeatId> + use<> {
        let named = (0..self.layout.consumers).map(SeatId::Named);
        (0..self.layout.slots).map(SeatId::Producer).chain([SeatId::Consumer]).chain(named)
    }

    /// Fails if the ring is of the other kind.
    pub(crate) fn expect(&self, producers: Producers) -> Result<(), AttachError> {
        if self.layout.producers == producers {
            return Ok(());
        }
        Err(AttachError::Kind { location: self.location.clone(), producers: self.layout.producers })
    }

    /// Takes a lock on a ring that must stay in place: waits for a removal in progress and makes
    /// sure that the ring has survived it. A ring that is locked while it has its name keeps the
    /// name.
    pub(crate) fn take_with(
        &self,
        mut take: impl FnMut() -> Result<Option<ByteLock>, AttachError>,
    ) -> Result<Option<ByteLock>, AttachError> {
        let mut polls = REMOVAL_POLLS;
        loop {
            if let Some(lock) = take()? {
                return match self.is_named()? {
                    true => Ok(Some(lock)),
                    false => Err(AttachError::Removed { location: self.location.clone() }),
                };
            }
            if polls == 0 {
                return Ok(None);
            }
            let removing = (self.file.is_held(REMOVAL_BYTE))
                .map_err(|source| self.io("querying its locks", source))?;
            if removing {
                polls -= 1;
                std::thread::sleep(REMOVAL_PAUSE);
            } else {
                polls = 0; // poll again: the removal may have ended since the lock was tried
            }
        }
    }

    /// Returns the clock that a producer of this ring takes timestamps from.
    pub(crate) fn timestamp_clock(&self) -> Result<MachineClock, AttachError> {
        if !self.layout.time {
            return Ok(MachineClock::unused());
        }
        MachineClock::find()
            .map_err(|source| AttachError::Clock { location: self.location.clone(), source })
    }

    /// Returns the owner info of this process.
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

    /// Returns the error for a ring that turned out to be corrupt.
    #[must_use]
    pub fn corrupt(&self, source: impl Into<ReadError>) -> AttachError {
        let location = self.location.clone();
        match source.into() {
            ReadError::Truncated => AttachError::Truncated { location },
            ReadError::NoSpace => AttachError::NoSpace { location },
            ReadError::Removed => AttachError::Removed { location },
            source @ ReadError::OutOfMemory { .. } => {
                self.io("copying it", io::Error::new(io::ErrorKind::OutOfMemory, source))
            }
            source => AttachError::Corrupt { location, source },
        }
    }
}
