//! Why a ring cannot be made, or attached to.

use crate::file::location::Location;
use crate::sys::clock::ClockError;
use perfring_abi::{BadRing, Producers};
use perfring_ring::{Corrupt, OwnerInfo};
use std::io;
use thiserror::Error;

/// Why a ring could not be made. Nothing is left behind.
#[derive(Debug, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "a field is what its error's text says with it")]
pub enum CreateError {
    /// Something has this name already.
    #[error("{location} exists already: remove it first, or attach to it")]
    Exists { location: Location },
    /// The data area's size cannot be used.
    #[error(
        "a data area of {size} bytes cannot be used: it must be a power of two from {min} bytes \
         to 1 TiB"
    )]
    Size { size: u64, min: u64 },
    /// Not enough room where the ring was to be.
    #[error(
        "no room for {location}: it needs {needed} bytes; free some (for /dev/shm in a container: \
         raise its size), or make a smaller ring"
    )]
    NoSpace { location: Location, needed: u64 },
    /// The name cannot be a named segment's.
    #[error("{name:?} cannot name a segment: 1 to 200 bytes without '/'")]
    Name { name: String },
    /// More producers than a ring can have, or none.
    #[error("a ring cannot have {slots} producers: 1 to 4096")]
    Slots { slots: u32 },
    /// A type table that is too large.
    #[error("a type table of {size} bytes is too large: up to 16 MiB")]
    Types { size: u64 },
    /// The AUX area's size cannot be used.
    #[error(
        "an AUX area of {size} bytes cannot be used: it must be a power of two from {min} bytes to \
         1 TiB, or 0 for none"
    )]
    Aux { size: u64, min: u64 },
    /// The ring is to have time, and the clock cannot be told from here.
    #[error("{location} cannot stamp its records: {source}")]
    Clock { location: Location, source: ClockError },
    /// Mode bits beyond `0o777`.
    #[error("mode {mode:#o} has bits beyond 0777")]
    Mode { mode: u32 },
    /// The system refused.
    #[error("cannot make {location}: {step}: {source}")]
    Io { location: Location, step: &'static str, source: io::Error },
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

/// The largest AUX area of which a guarded reader copies payloads: 256 MiB.
pub(crate) const COPIED_AUX_MAX: u64 = 256 << 20;

/// Why a ring could not be attached to.
#[derive(Debug, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "a field is what its error's text says with it")]
pub enum AttachError {
    /// There is nothing with this name.
    #[error("{location} does not exist")]
    NotFound { location: Location },
    /// The file's mode forbids it.
    #[error(
        "no permission to open {location} for {wanted}: an observer needs read permission, a producer \
         or consumer read and write; the ring's mode is set when it is made"
    )]
    Permission { location: Location, wanted: &'static str },
    /// The file is not a ring that this code can use.
    #[error("{location}: {source}")]
    Bad { location: Location, source: BadRing },
    /// Positions or records are such as no producer leaves.
    #[error("{location}: {source}; `perfring dump` shows what can still be read")]
    Corrupt { location: Location, source: Corrupt },
    /// The file was cut short while it was looked at, see [`install_sigbus_handler`](crate::install_sigbus_handler).
    #[error("{location} was cut short while it was looked at: it is no ring any more, remove it")]
    Truncated { location: Location },
    /// The name led to another ring, or to none, by the time the place was taken.
    #[error("{location} was removed while it was being attached to: attach again, or make it anew")]
    Removed { location: Location },
    /// Somebody else holds the place.
    #[error(
        "{location} has a {role} already: {}, pid {} (in its own pid namespace), uid {}",
        if .holder.name.is_empty() { "unnamed" } else { &.holder.name }, .holder.pid, .holder.uid
    )]
    Busy { location: Location, role: Role, holder: OwnerInfo },
    /// A shared ring has as many producers as slots.
    #[error(
        "{location} has {slots} producers already, and room for no more: wait until one ends, or make \
         the ring with more slots"
    )]
    Slots { location: Location, slots: u32 },
    /// The ring is for the other kind of producers.
    #[error(
        "{location} is made for {} at a time: attach to it as such",
        match .producers {
            Producers::One => "one producer",
            Producers::Many => "many producers",
        }
    )]
    Kind { location: Location, producers: Producers },
    /// The lock of a shared ring is held by a producer that lives and does not go on.
    #[error(
        "{location} is held up by its producer in slot {slot}, which is alive and does not go on: {}, \
         pid {} (in its own pid namespace), uid {}; continue it or end it",
        if .holder.name.is_empty() { "unnamed" } else { &.holder.name }, .holder.pid, .holder.uid
    )]
    HeldUp { location: Location, slot: u32, holder: OwnerInfo },
    /// A guarded reader copies payloads, and this ring's may be longer than it has memory for.
    #[error(
        "{location} has an AUX area of {size} bytes, and a reader that guards itself copies from no more than \
         {}: read it without a guard if all who may write the file are trusted",
        COPIED_AUX_MAX
    )]
    Unguarded { location: Location, size: u64 },
    /// The ring stamps its records, and the clock cannot be told from here.
    #[error("{location} stamps its records, and this process cannot: {source}")]
    Clock { location: Location, source: ClockError },
    /// The ring's pages are smaller than this machine's.
    #[error(
        "{location} was made with pages of {ring} bytes and this machine has pages of {host}: it can \
         be observed and dumped here, not produced to or consumed from"
    )]
    PageSize { location: Location, ring: u32, host: u64 },
    /// The system refused.
    #[error("cannot attach to {location}: {step}: {source}")]
    Io { location: Location, step: &'static str, source: io::Error },
}
