//! One error for each thing that can be asked: make, attach, reserve.

use crate::Home;
use perfring_abi::BadRing;
use perfring_ring::{Corrupt, Who};
use std::io;
use thiserror::Error;

/// Why a ring could not be made. Nothing is left behind.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CreateError {
    /// Something has this name already.
    #[error("{home} exists already: remove it first, or attach to it")]
    Exists {
        /// The name.
        home: Home,
    },
    /// The data area's size cannot be used.
    #[error(
        "a data area of {size} bytes cannot be used: it must be a power of two from {min} bytes \
         to 1 TiB"
    )]
    Size {
        /// The size asked for.
        size: u64,
        /// The smallest: a page.
        min: u64,
    },
    /// Not enough room where the ring was to be.
    #[error(
        "no room for {home}: it needs {needed} bytes; free some (for /dev/shm in a container: \
         raise its size), or make a smaller ring"
    )]
    NoSpace {
        /// The name.
        home: Home,
        /// Bytes of the whole file.
        needed: u64,
    },
    /// The name cannot be a named segment's.
    #[error("{name:?} cannot name a segment: 1 to 200 bytes without '/'")]
    Name {
        /// The name.
        name: String,
    },
    /// Mode bits beyond `0o777`.
    #[error("mode {mode:#o} has bits beyond 0777")]
    Mode {
        /// The mode asked for.
        mode: u32,
    },
    /// The system refused.
    #[error("cannot make {home}: {step}: {source}")]
    Io {
        /// The name.
        home: Home,
        /// What was being done.
        step: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// A place in a ring that only one can hold.
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

/// Why a ring could not be attached to.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AttachError {
    /// There is nothing with this name.
    #[error("{home} does not exist")]
    NotFound {
        /// The name.
        home: Home,
    },
    /// The file's mode forbids it.
    #[error(
        "no permission to open {home} for {wanted}: an observer needs read permission, a producer \
         or consumer read and write; the ring's mode is set when it is made"
    )]
    Permission {
        /// The name.
        home: Home,
        /// Reading, or reading and writing.
        wanted: &'static str,
    },
    /// The file is not a ring that this code can use.
    #[error("{home}: {source}")]
    Bad {
        /// The name.
        home: Home,
        /// What is wrong with it.
        source: BadRing,
    },
    /// Positions or records are such as no producer leaves.
    #[error("{home}: {source}; `perfring dump` shows what can still be read")]
    Corrupt {
        /// The name.
        home: Home,
        /// Where.
        source: Corrupt,
    },
    /// Somebody else holds the place.
    #[error(
        "{home} has a {role} already: {}, pid {} (in its own pid namespace), uid {}",
        if .holder.name.is_empty() { "unnamed" } else { &.holder.name }, .holder.pid, .holder.uid
    )]
    Busy {
        /// The name.
        home: Home,
        /// Which place.
        role: Role,
        /// Who holds it.
        holder: Who,
    },
    /// The ring's pages are smaller than this machine's.
    #[error(
        "{home} was made with pages of {ring} bytes and this machine has pages of {host}: it can \
         be observed and dumped here, not produced to or consumed from"
    )]
    PageSize {
        /// The name.
        home: Home,
        /// The ring's.
        ring: u32,
        /// This machine's.
        host: u64,
    },
    /// The system refused.
    #[error("cannot attach to {home}: {step}: {source}")]
    Io {
        /// The name.
        home: Home,
        /// What was being done.
        step: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// Why a record was not taken. Small and `Copy`: it is on the way of every record.
///
/// Each is counted, by cause, and told in the stream before the next record that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReserveError {
    /// A drop ring is full. An outcome rather than a fault: the consumer is behind.
    #[error("the ring is full")]
    Full,
    /// No ring of this size can hold the record.
    #[error("a payload of {len} bytes is too large: this ring takes at most {max}")]
    TooLarge {
        /// The payload's length.
        len: usize,
        /// The longest that the ring takes.
        max: usize,
    },
    /// `data_tail` is where no consumer can have put it.
    #[error("data_tail is {tail}, where no consumer can have put it: somebody damages the ring")]
    Corrupt {
        /// What it says.
        tail: u64,
    },
}
