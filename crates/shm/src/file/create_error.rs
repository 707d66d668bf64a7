//! Why a ring could not be made.

use crate::file::location::Location;
use crate::sys::clock::ClockError;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

perfring_abi::debug_by_display!(CreateError);

/// Why a ring could not be made. No file is left behind.
#[derive(Error)]
#[non_exhaustive]
pub enum CreateError {
    /// The name exists already.
    #[error("{location} exists already: remove it first, or attach to it")]
    Exists {
        /// The location that was asked for.
        location: Location,
    },
    /// The name is a symbolic link to a path that does not exist.
    #[error(
        "{location} is a symbolic link to {}, which does not exist: name that path, or remove the link first",
        .leads_to.display()
    )]
    Link {
        /// The location that was asked for.
        location: Location,
        /// Where the link leads.
        leads_to: PathBuf,
    },
    /// The mode of a directory forbids to make a file in it.
    #[error(
        "no permission to make {location}: that takes write and execute permission for the directory {}",
        .dir.display()
    )]
    Permission {
        /// The location that was asked for.
        location: Location,
        /// The ring's directory, or a directory on the way that this process may not search.
        dir: PathBuf,
    },
    /// The data area's size cannot be used.
    #[error(
        "a data area of {size} bytes cannot be used: it must be a power of two from {min} bytes \
         to 1 TiB"
    )]
    Size {
        /// The size that was asked for.
        size: u64,
        /// The least size on this machine.
        min: u64,
    },
    /// There is not enough room at the location.
    #[error(
        "no room for {location}: it needs {needed} bytes; free some (for /dev/shm in a container: \
         raise its size), or make a smaller ring"
    )]
    NoSpace {
        /// The location that was asked for.
        location: Location,
        /// Bytes of its file.
        needed: u64,
    },
    /// This process may not write a file of that size: `RLIMIT_FSIZE`.
    #[error(
        "{location} needs {needed} bytes, and this process may write files of {limit}: raise that limit (`ulimit -f`), or make \
         a smaller ring"
    )]
    FileSizeLimit {
        /// The location that was asked for.
        location: Location,
        /// Bytes of its file.
        needed: u64,
        /// The limit.
        limit: u64,
    },
    /// The name is not valid for a named segment.
    #[error("{name:?} cannot name a segment: 1 to 200 bytes without '/'")]
    Name {
        /// The name, without `shm:`.
        name: String,
    },
    /// This build makes no named segments, but attaches to existing segments.
    #[error(
        "this build makes no segments such as shm:{name}: enable the feature `segments` of `perfring`, or \
         name the file, /dev/shm/{name}"
    )]
    NoSegments {
        /// The name, without `shm:`.
        name: String,
    },
    /// More producers than a ring can have, or none.
    #[error("a ring cannot have {slots} producers: 1 to 4096")]
    Slots {
        /// The number that was asked for.
        slots: u32,
    },
    /// The number of a CPU that no machine has.
    #[error("there is no CPU {cpu}: the highest is 8191")]
    Cpu {
        /// The number that was asked for.
        cpu: u32,
    },
    /// A type table that is too large.
    #[error("a type table of {size} bytes is too large: up to 16 MiB")]
    Types {
        /// The size that was asked for.
        size: u64,
    },
    /// The AUX area's size cannot be used.
    #[error(
        "an AUX area of {size} bytes cannot be used: it must be a power of two from {min} bytes to \
         1 TiB, or 0 for none"
    )]
    Aux {
        /// The size that was asked for.
        size: u64,
        /// The least above 0, on this machine.
        min: u64,
    },
    /// Named consumers, in a ring that cannot have them, or more than a ring can have.
    #[error(
        "a ring cannot have {consumers} named consumers like this: up to 32, with the policy drop, with one \
         producer or many (not cpu), and without aux_size"
    )]
    Consumers {
        /// The number that was asked for.
        consumers: u32,
    },
    /// The metrics area's size cannot be used.
    #[error(
        "a metrics area of {size} bytes cannot be used: up to 1 GiB, with a type table (types_size), which describes the \
         instruments"
    )]
    Metrics {
        /// The size that was asked for.
        size: u64,
    },
    /// `sample_id` is set for a ring whose records cannot have it.
    #[error(
        "sample_id needs rings per CPU with timestamps and without an AUX area: add the producers \
         cpu and time, and leave out aux_size"
    )]
    SampleId,
    /// The ring is to have timestamps, and their clock cannot be read here.
    #[error("{location} cannot have timestamps: {source}")]
    Clock {
        /// The location that was asked for.
        location: Location,
        /// The clock's error.
        source: ClockError,
    },
    /// Mode bits beyond `0o777`.
    #[error("mode {mode:#o} has bits beyond 0777")]
    Mode {
        /// The mode that was asked for.
        mode: u32,
    },
    /// The system refused.
    #[error("cannot make {location}: {step}: {source}")]
    Io {
        /// The location that was asked for.
        location: Location,
        /// The step that failed, such as "opening it".
        step: &'static str,
        /// The system's error.
        source: io::Error,
    },
}
