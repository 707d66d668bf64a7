//! The producer's door to perfring: publish records into a file-backed ring, at a few nanoseconds
//! each, without ever blocking unless asked to.
//!
//! ```
//! use perfring_producer::{Options, Producer, RecordType};
//!
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("ticks");
//! const TICK: RecordType = RecordType::new(5000).unwrap();
//!
//! let mut producer = Producer::create(&path, &Options::default())?;
//! producer.publish(b"copied in")?;
//! producer.publish_as(TICK, b"of a type")?;
//!
//! let mut record = producer.reserve(TICK, 8)?; // in the ring, in place
//! record.copy_from_slice(&42u64.to_le_bytes());
//! record.commit();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What happens to a record
//!
//! [`Producer::reserve`] takes space, [`Reservation::commit`] publishes it;
//! [`Producer::publish`] and [`Producer::publish_as`] do both for bytes that exist already, and
//! [`Producer::batch`] publishes many records by one store. That takes no system call, allocation, lock or locked instruction.
//!
//! A **drop** ring refuses records while it is full, with [`ReserveError::Full`], or
//! [waits](Producer::reserve_timeout); losses are counted by cause and told to the reader. An
//! **overwrite** ring never refuses for want of space: the oldest records go.
//!
//! A process that is killed at any instruction leaves every committed record readable and costs
//! the one that it was writing. The next [`Producer::attach`] goes on where it stopped.
//!
//! # Many producers
//!
//! A ring of its own for each thread is the fast way. Where all records must stand in one order, or
//! one file is wanted, make it with [`Options::many`] and attach a [`SharedProducer`] for each thread.
//!
//! # Records with a shape
//!
//! A plain struct with [`#[derive(Record)]`](types::Record) is published as it stands in memory; the
//! ring's type table then says what its fields are, to whoever has the file:
//!
//! ```
//! # #[cfg(feature = "derive")] {
//! use bytemuck::{Pod, Zeroable};
//! use perfring_producer::{Options, Producer, types::Record};
//!
//! /// What one request cost.
//! #[repr(C)]
//! #[derive(Clone, Copy, Record, Pod, Zeroable)]
//! #[record(crate = perfring_producer::types)] // not needed by who depends on perfring-types
//! struct Request {
//!     #[record(unit = "ns")]
//!     took: u64,
//!     status: u64,
//! }
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("ring");
//! let mut producer = Producer::create(&path, &Options::default())?;
//! producer.publish_pod(&Request { took: 81_000, status: 200 })?;
//! let mut request = producer.reserve_pod::<Request>()?; // in the ring, in place
//! request.took = 92_000;
//! request.status = 404;
//! request.commit();
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! With the feature `rkyv`, `publish_rkyv` archives values with strings and lists. Bytes of another
//! shape are told of with [`Producer::register`].
//!
//! # Time
//!
//! A ring that was made with [`Options::time`] stamps each record when it is reserved, in ns of
//! `CLOCK_BOOTTIME`, for some 4 ns: that clock is one for all processes of the machine. In the order
//! of the ring stamps never decrease; `proto/ABI.md`, "Time", says what else is sure. Readers find
//! them in `Record::time`, and the date by `Record::wall`. The longest payload is 8 bytes shorter.
//!
//! # Forks
//!
//! A forked child is not its parent. What it inherits refuses with [`ReserveError::Forked`] and
//! touches neither the parent's ring nor its place in it; the child attaches anew.
#![forbid(unsafe_code)]

#[cfg(feature = "rkyv")]
mod archive;
mod batch;
mod both_producers;
mod each;
mod errors;
mod exclusive_producer;
mod known_types;
mod reserved_batch;
mod shared_producer;
mod space;
mod timestamp;

#[cfg(feature = "rkyv")]
pub use archive::PublishError;
pub use batch::Batch;
pub use both_producers::{PodReservation, SharedPodReservation};
pub use each::Each;
pub use errors::{ReserveError, TypeError};
pub use exclusive_producer::Producer;
pub use perfring_abi::{
    BadRing, Evict, Layout, Policy, Producers, RecordType, Report, SLOTS_DEFAULT, record_size,
};
pub use perfring_ring::{Count, ProducerTotals, Refused, Wake};
pub use perfring_shm::{
    AttachError, ClockError, CreateError, Location, OpenError, Pages, PagesError, Removal,
    Reservation, RingOptions as Options, SharedReservation, create, create_if_missing,
    install_sigbus_handler, remove,
};
pub use perfring_types as types;
pub use reserved_batch::ReservedBatch;
pub use shared_producer::SharedProducer;
