//! Why a ring cannot be made, or attached to.

use crate::file::location::Location;
use crate::sys::clock::ClockError;
use perfring_abi::{BadRing, Producers};
use perfring_ring::{OwnerInfo, ReadError};
use std::io;
use thiserror::Error;

/// Why a ring could not be made. Nothing is left behind.
#[derive(Error)]
#[non_exhaustive]
pub enum CreateError {
    /// Something has this name already.
    #[error("{location} exists already: remove it first, or attach to it")]
    Exists {
        /// Where the ring was to be.
        location: Location,
    },
    /// The data area's size cannot be used.
    #[error(
        "a data area of {size} bytes cannot be used: it must be a power of two from {min} bytes \
         to 1 TiB"
    )]
    Size {
        /// What was asked for.
        size: u64,
        /// The least, on this machine.
        min: u64,
    },
    /// Not enough room where the ring was to be.
    #[error(
        "no room for {location}: it needs {needed} bytes; free some (for /dev/shm in a container: \
         raise its size), or make a smaller ring"
    )]
    NoSpace {
        /// Where the ring was to be.
        location: Location,
        /// Bytes of its file.
        needed: u64,
    },
    /// The name cannot be a named segment's.
    #[error("{name:?} cannot name a segment: 1 to 200 bytes without '/'")]
    Name {
        /// The name, without `shm:`.
        name: String,
    },
    /// More producers than a ring can have, or none.
    #[error("a ring cannot have {slots} producers: 1 to 4096")]
    Slots {
        /// What was asked for.
        slots: u32,
    },
    /// A type table that is too large.
    #[error("a type table of {size} bytes is too large: up to 16 MiB")]
    Types {
        /// What was asked for.
        size: u64,
    },
    /// The AUX area's size cannot be used.
    #[error(
        "an AUX area of {size} bytes cannot be used: it must be a power of two from {min} bytes to \
         1 TiB, or 0 for none"
    )]
    Aux {
        /// What was asked for.
        size: u64,
        /// The least above 0, on this machine.
        min: u64,
    },
    /// The ring is to have time, and the clock cannot be told from here.
    #[error("{location} cannot stamp its records: {source}")]
    Clock {
        /// Where the ring lives.
        location: Location,
        /// What is wrong with the clock.
        source: ClockError,
    },
    /// Mode bits beyond `0o777`.
    #[error("mode {mode:#o} has bits beyond 0777")]
    Mode {
        /// What was asked for.
        mode: u32,
    },
    /// The system refused.
    #[error("cannot make {location}: {step}: {source}")]
    Io {
        /// Where the ring lives.
        location: Location,
        /// What was being done, as "opening it".
        step: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

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

perfring_abi::debug_by_display!(CreateError, AttachError);

/// The largest AUX area of which a reader copies payloads: 256 MiB.
pub(crate) const COPIED_AUX_MAX: u64 = 256 << 20;

/// Why a ring could not be attached to.
#[derive(Error)]
#[non_exhaustive]
pub enum AttachError {
    /// There is nothing with this name.
    #[error("{location} does not exist")]
    NotFound {
        /// Where the ring was looked for.
        location: Location,
    },
    /// The file's mode forbids it.
    #[error(
        "no permission to open {location} for {wanted}: an observer needs read permission, a producer \
         or consumer read and write; the ring's mode is set when it is made"
    )]
    Permission {
        /// Where the ring lives.
        location: Location,
        /// What it was to be opened for, as "reading".
        wanted: &'static str,
    },
    /// The file is not a ring that this code can use.
    #[error("{location}: {source}")]
    Bad {
        /// Where the file is.
        location: Location,
        /// What is wrong with its header or its length.
        source: BadRing,
    },
    /// Positions or records are such as no producer leaves.
    #[error("{location}: {source}; `perfring dump` shows what can still be read")]
    Corrupt {
        /// Where the ring lives.
        location: Location,
        /// Where the damage is.
        source: ReadError,
    },
    /// The file was truncated while it was being read, see [`install_sigbus_handler`](crate::install_sigbus_handler).
    #[error("{location} was truncated while it was looked at: it is no ring any more, remove it")]
    Truncated {
        /// Where the ring lives.
        location: Location,
    },
    /// By the time the seat was taken, the name led to another ring, or to none.
    #[error("{location} was removed while it was being attached to: attach again, or make it anew")]
    Removed {
        /// Where the ring was.
        location: Location,
    },
    /// Another process holds the seat.
    #[error(
        "{location} has a {role} already: {}, pid {} (in its own pid namespace), uid {}",
        if .holder.name.is_empty() { "unnamed" } else { &.holder.name }, .holder.pid, .holder.uid
    )]
    Busy {
        /// Where the ring lives.
        location: Location,
        /// Which of its places is taken.
        role: Role,
        /// The process that has it.
        holder: OwnerInfo,
    },
    /// A shared ring has as many producers as slots.
    #[error(
        "{location} has {slots} producers already, and room for no more: wait until one ends, or make \
         the ring with more slots"
    )]
    Slots {
        /// Where the ring lives.
        location: Location,
        /// How many it has.
        slots: u32,
    },
    /// The ring is for the other kind of producers.
    #[error(
        "{location} is made for {} at a time: attach to it as such",
        match .producers {
            Producers::One => "one producer",
            Producers::Many => "many producers",
        }
    )]
    Kind {
        /// Where the ring lives.
        location: Location,
        /// The kind that it is for.
        producers: Producers,
    },
    /// The lock of a shared ring is held by a producer that lives and does not go on.
    #[error(
        "{location} is held up by its producer in slot {slot}, which is alive and does not go on: {}, \
         pid {} (in its own pid namespace), uid {}; continue it or end it",
        if .holder.name.is_empty() { "unnamed" } else { &.holder.name }, .holder.pid, .holder.uid
    )]
    HeldUp {
        /// Where the ring lives.
        location: Location,
        /// The slot of the producer that has the lock.
        slot: u32,
        /// That producer.
        holder: OwnerInfo,
    },
    /// A reader with [`Trust::Nobody`](crate::Trust::Nobody) copies payloads, and this ring's may be
    /// longer than it has memory for.
    #[error(
        "{location} has an AUX area of {size} bytes, and a reader that trusts nobody copies from no more than \
         {}: use Trust::Peers if all who may write the file are trusted",
        COPIED_AUX_MAX
    )]
    TooLargeToCopy {
        /// Where the ring lives.
        location: Location,
        /// Bytes of its AUX area.
        size: u64,
    },
    /// The ring stamps its records, and the clock cannot be told from here.
    #[error("{location} stamps its records, and this process cannot: {source}")]
    Clock {
        /// Where the ring lives.
        location: Location,
        /// What is wrong with the clock.
        source: ClockError,
    },
    /// The ring's pages are smaller than this machine's.
    #[error(
        "{location} was made with pages of {ring} bytes and this machine has pages of {host}: it can \
         be observed and dumped here, not produced to or consumed from"
    )]
    PageSize {
        /// Where the ring lives.
        location: Location,
        /// The page size that the ring was made for.
        ring: u32,
        /// This machine's page size.
        host: u64,
    },
    /// The system refused.
    #[error("cannot attach to {location}: {step}: {source}")]
    Io {
        /// Where the ring lives.
        location: Location,
        /// What was being done, as "opening it".
        step: &'static str,
        /// What the system said.
        source: io::Error,
    },
}
