//! Opening a ring file and checking it before anything is mapped.

use crate::clock::Clock;
use crate::create::now_ns;
use crate::lock::{self, ByteLock};
use crate::{AttachError, Home, MachineClock, Role};
use perfring_abi::{CONSUMER_LOCK_BYTE, HeaderPage, Layout, Producers, RECOVER_LOCK_BYTE};
use perfring_ring::{Corrupt, Who};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::Arc;

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// A place that one process at a time can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A producer's slot: 0 in an exclusive ring.
    Producer(u32),
    /// The consumer's place.
    Consumer,
}

/// An open ring file whose header has been checked.
#[derive(Clone, Debug)]
pub struct RingFile {
    pub(crate) file: Arc<File>,
    pub(crate) home: Home,
    pub(crate) layout: Layout,
}

impl RingFile {
    pub(crate) fn open(home: Home, access: Access) -> Result<Self, AttachError> {
        let path = home.path();
        // Not blocking: a FIFO of that name must not hold us up.
        let opened = OpenOptions::new()
            .read(true)
            .write(access == Access::Write)
            .custom_flags(nix::libc::O_NONBLOCK | nix::libc::O_NOCTTY)
            .open(&path);
        let wanted = match access {
            Access::Read => "reading",
            Access::Write => "reading and writing",
        };
        let file = opened.map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => AttachError::NotFound { home: home.clone() },
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                AttachError::Permission { home: home.clone(), wanted }
            }
            _ => AttachError::Io { home: home.clone(), step: "opening it", source },
        })?;
        let failed = |step| move |source| AttachError::Io { home: home_of(&path), step, source };
        let meta = file.metadata().map_err(failed("looking at it"))?;
        if !meta.is_file() {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file");
            return Err(AttachError::Io { home, step: "opening it", source });
        }
        let mut bytes = [0; HeaderPage::LEN];
        let page = match file.read_exact_at(&mut bytes, 0) {
            Ok(()) => HeaderPage::from_bytes(&bytes)
                .map_err(|len| perfring_abi::BadRing::Short { len: len as u64 }),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(perfring_abi::BadRing::Short { len: meta.len() })
            }
            Err(source) => {
                return Err(AttachError::Io { home, step: "reading it", source });
            }
        };
        match page.and_then(|page| Layout::check(&page, meta.len())) {
            Ok(layout) => Ok(RingFile { file: Arc::new(file), home, layout }),
            Err(source) => Err(AttachError::Bad { home, source }),
        }
    }

    /// Where the ring lives.
    #[must_use]
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// Its shape and identity.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    fn lock_byte(&self, place: Place) -> u64 {
        match place {
            // The slot after the last one stands for whoever recovers the ring.
            Place::Producer(slot) if slot == self.layout.slots => RECOVER_LOCK_BYTE,
            Place::Producer(slot) => self.layout.slot_lock_byte(slot),
            Place::Consumer => CONSUMER_LOCK_BYTE,
        }
    }

    /// Whether a live process holds the place: the kernel's word, not a pid's.
    ///
    /// # Errors
    /// [`AttachError::Io`] where the file system has no such locks.
    pub fn is_held(&self, place: Place) -> Result<bool, AttachError> {
        lock::is_held(&self.file, self.lock_byte(place))
            .map_err(|source| self.io("asking for its locks", source))
    }

    /// Who holds the place, or held it last.
    ///
    /// # Errors
    /// [`AttachError::Io`] if the file cannot be mapped.
    pub fn holder(&self, place: Place) -> Result<Who, AttachError> {
        Ok(crate::map::Plain::map(self)?.holder(place))
    }

    /// Refuses a ring of the other kind.
    pub(crate) fn expect(&self, producers: Producers) -> Result<(), AttachError> {
        if self.layout.producers == producers {
            return Ok(());
        }
        Err(AttachError::Kind { home: self.home.clone(), producers: self.layout.producers })
    }

    /// Takes a place, or says who has it.
    pub(crate) fn take(&self, place: Place, role: Role) -> Result<ByteLock, AttachError> {
        match ByteLock::take(&self.file, self.lock_byte(place)) {
            Ok(Some(lock)) => Ok(lock),
            Ok(None) => Err(AttachError::Busy {
                home: self.home.clone(),
                role,
                holder: self.holder(place)?,
            }),
            Err(source) => Err(self.io("locking its place", source)),
        }
    }

    /// What a producer of this ring stamps by.
    pub(crate) fn clock(&self) -> Result<Clock<MachineClock>, AttachError> {
        if !self.layout.time {
            return Ok(Clock::new(MachineClock::unused()));
        }
        let clock = MachineClock::find()
            .map_err(|source| AttachError::Clock { home: self.home.clone(), source })?;
        Ok(Clock::new(clock))
    }

    /// What to sign with.
    pub(crate) fn me(name: &str) -> Who {
        Who {
            epoch: 0,
            attached_ns: now_ns(),
            pid: std::process::id(),
            uid: nix::unistd::Uid::current().as_raw(),
            name: name.to_owned(),
        }
    }

    pub(crate) fn io(&self, step: &'static str, source: io::Error) -> AttachError {
        AttachError::Io { home: self.home.clone(), step, source }
    }

    pub(crate) fn corrupt(&self, source: Corrupt) -> AttachError {
        AttachError::Corrupt { home: self.home.clone(), source }
    }
}

fn home_of(path: &std::path::Path) -> Home {
    Home::from(path)
}

/// This machine's page size.
pub(crate) fn host_page_size() -> u64 {
    rustix::param::page_size() as u64
}
