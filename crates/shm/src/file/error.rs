//! Why a ring could not be attached to.

use crate::file::location::Location;
use crate::sys::clock::ClockError;
use crate::sys::rseq::NoRseq;
use perfring_abi::{BadRing, Producers};
use perfring_ring::{OwnerInfo, ReadError};
use rustix::io::Errno;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// A seat in a ring, which one process at a time can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The exclusive producer.
    Producer,
    /// The consumer.
    Consumer,
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Role::Producer => "producer",
            Role::Consumer => "consumer",
        })
    }
}

perfring_abi::debug_by_display!(AttachError);

/// The largest AUX area from which a reader copies payloads: 256 MiB.
pub(crate) const COPIED_AUX_MAX: u64 = 256 << 20;

/// Why a ring could not be attached to.
#[derive(Error)]
#[non_exhaustive]
pub enum AttachError {
    /// No file has this name, or the name is a symbolic link to a path that does not exist. A location `FILE@0xOFFSET` where
    /// no ring begins is no name of a file, either.
    #[error(
        "{location}{} does not exist{}",
        .leads_to.as_ref().map_or(String::new(), |to| format!(" is a symbolic link to {}, which", to.display())),
        .holder.as_ref().map_or(String::new(), |file| format!(": no ring begins at that offset of {}", file.display()))
    )]
    NotFound {
        /// The location that was asked for.
        location: Location,
        /// Where the symbolic link leads.
        leads_to: Option<PathBuf>,
        /// The larger file of a location `FILE@0xOFFSET`.
        holder: Option<PathBuf>,
    },
    /// The mode of a directory on the way to the file forbids to search it.
    #[error(
        "no permission to search {}, on the way to {location}: that takes execute permission (x) for the directory, \
         whatever the ring's mode is",
        .dir.display()
    )]
    NotReachable {
        /// The ring's location.
        location: Location,
        /// The directory.
        dir: PathBuf,
    },
    /// The file system is mounted read-only.
    #[error(
        "{location} is on a file system that is mounted read-only: observers can read it there, and nobody can produce to \
         it, consume from it or remove it"
    )]
    ReadOnly {
        /// The ring's location.
        location: Location,
    },
    /// The mode of the file's directory forbids to remove it.
    #[error(
        "no permission to remove {location}: that takes write permission for its directory, and where that is sticky, \
         such as /tmp and /dev/shm, the file's owner, the directory's or root"
    )]
    NotRemovable {
        /// The ring's location.
        location: Location,
    },
    /// The file's mode forbids it.
    #[error(
        "no permission to open {location} for {wanted}: an observer needs read permission, a producer \
         or consumer read and write; the ring's mode is set when it is made"
    )]
    Permission {
        /// The ring's location.
        location: Location,
        /// The access that was asked for, such as "reading".
        wanted: &'static str,
    },
    /// The file is not a ring that this code can use.
    #[error("{location}: {source}")]
    Bad {
        /// The file's location.
        location: Location,
        /// The fault of its header or its length.
        source: BadRing,
    },
    /// No producer leaves such positions or records.
    #[error("{location}: {source}; `perfring dump` shows what can still be read")]
    Corrupt {
        /// The ring's location.
        location: Location,
        /// Where the damage is.
        source: ReadError,
    },
    /// The file was truncated while it was in use, see [`install_sigbus_handler`](crate::install_sigbus_handler).
    #[error("{location} was truncated while it was in use: it is no ring any more, remove it")]
    Truncated {
        /// The ring's location.
        location: Location,
    },
    /// The file has holes, as a sparse copy has, and its file system has no room for their pages. Also if a page could not be
    /// had while the ring was read.
    #[error(
        "{location} lacks pages, as a sparse copy does, and its file system has no room for them: free some (for /dev/shm \
         in a container: raise its size), and attach again"
    )]
    NoSpace {
        /// The ring's location.
        location: Location,
    },
    /// By the time the seat was taken, the name had no ring, or another one.
    #[error(
        "{location} was removed while it was being attached to: attach again, or make a new one"
    )]
    Removed {
        /// The ring's location.
        location: Location,
    },
    /// Another process holds the seat.
    #[error(
        "{location} has a {role} already: {}, pid {} (in its own pid namespace), uid {}",
        if .holder.name.is_empty() { "unnamed" } else { &.holder.name }, .holder.pid, .holder.uid
    )]
    Busy {
        /// The ring's location.
        location: Location,
        /// The seat that is taken.
        role: Role,
        /// The process that holds it.
        holder: OwnerInfo,
    },
    /// A ring has as many named consumers as seats.
    #[error(
        "{location} has no free seat for a consumer (of {consumers}): wait until one ends, or make the ring \
         with more consumers"
    )]
    Consumers {
        /// The ring's location.
        location: Location,
        /// Its seats for named consumers.
        consumers: u32,
    },
    /// A shared ring has as many producers as slots.
    #[error(
        "{location} has no free slot for a producer (of {slots}): wait until one ends, or make the ring with \
         more slots"
    )]
    Slots {
        /// The ring's location.
        location: Location,
        /// How many slots it has.
        slots: u32,
    },
    /// The seat is free, and cannot be taken: a process that may read the file has a read lock on its
    /// byte. Programs of perfring take no such lock. (`perfring doctor` takes one for a moment, on a byte that no
    /// ring uses. A removal at that moment fails.)
    #[error(
        "{location} has a read lock on it, which prevents every attach: `perfring doctor` names the \
         process that has it; end that process, and let only the ring's readers open it (by its mode, or its \
         directory's)"
    )]
    ReadLocked {
        /// The ring's location.
        location: Location,
    },
    /// The file is in the upper directory of an overlay. A process that opens it through the overlay has its locks
    /// on another inode. The two processes would not see each other.
    #[error(
        "{location} is in the upper directory of an overlay, where the locks of processes that open it as {} are \
         not seen: attach by that path, or make the ring on a tmpfs that both mount",
        .shown.display()
    )]
    UnderOverlay {
        /// The ring's location.
        location: Location,
        /// Its path through the overlay.
        shown: PathBuf,
    },
    /// The ring is for the other kind of producers.
    #[error(
        "{location} is made for {} at a time: attach to it as such",
        match .producers {
            Producers::One => "one producer",
            Producers::Many => "many producers",
            Producers::Cpu => "the producers of one CPU",
        }
    )]
    Kind {
        /// The ring's location.
        location: Location,
        /// The kind that it is made for.
        producers: Producers,
    },
    /// A ring per CPU that was made before the machine started, or by another kernel: which CPU its number
    /// means there is not known. Or the boot is unknown: without `/proc/sys/kernel/random/boot_id`.
    #[error(
        "{location} is the ring of a CPU of another boot or another machine, or /proc does not say of which: read it, \
         and make a new directory to publish in"
    )]
    OtherBoot {
        /// The ring's location.
        location: Location,
    },
    /// Rings per CPU cannot be published to from here.
    #[error("{location} is a ring per CPU: {source}; use a ring for one producer, or for many")]
    Rseq {
        /// The ring's location.
        location: Location,
        /// The missing feature.
        source: NoRseq,
    },
    /// The lock of a shared ring is held by a live producer that does not continue.
    #[error(
        "{location} is held up by its producer in slot {slot}, which is alive and does not continue: {}, \
         pid {} (in its own pid namespace), uid {}; continue it or end it",
        if .holder.name.is_empty() { "unnamed" } else { &.holder.name }, .holder.pid, .holder.uid
    )]
    HeldUp {
        /// The ring's location.
        location: Location,
        /// The slot of the producer that holds the lock.
        slot: u32,
        /// The producer that holds the lock.
        holder: OwnerInfo,
    },
    /// A reader with [`Trust::Nobody`](crate::Trust::Nobody) copies payloads, and the payloads of this ring may
    /// be larger than its limit.
    #[error(
        "{location} has an AUX area of {size} bytes, and a reader that trusts nobody copies from no more than \
         {}: use Trust::Peers if all processes that may write the file keep to the protocol",
        COPIED_AUX_MAX
    )]
    TooLargeToCopy {
        /// The ring's location.
        location: Location,
        /// Bytes of its AUX area.
        size: u64,
    },
    /// The ring has timestamps, and their clock cannot be read here.
    #[error("{location} has timestamps, and this process cannot take them: {source}")]
    Clock {
        /// The ring's location.
        location: Location,
        /// The clock's error.
        source: ClockError,
    },
    /// The ring's pages are smaller than this machine's.
    #[error(
        "{location} was made with pages of {ring} bytes and this machine has pages of {host}: it can \
         be observed and dumped here, not produced to or consumed from"
    )]
    PageSize {
        /// The ring's location.
        location: Location,
        /// The page size that the ring was made for.
        ring: u32,
        /// This machine's page size.
        host: u64,
    },
    /// The system refused.
    #[error("cannot attach to {location}: {step}: {source}")]
    Io {
        /// The ring's location.
        location: Location,
        /// The step that failed, such as "opening it".
        step: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl AttachError {
    /// Returns whether the process or the machine lacks file descriptors, or memory for them. The ring itself may be good.
    #[doc(hidden)] // for other crates of perfring
    #[must_use]
    pub fn is_shortage(&self) -> bool {
        let AttachError::Io { source, .. } = self else { return false };
        let lacking = [Errno::MFILE, Errno::NFILE, Errno::NOMEM];
        source
            .raw_os_error()
            .is_some_and(|raw| lacking.iter().any(|errno| errno.raw_os_error() == raw))
    }
}
