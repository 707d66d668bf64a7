//! The producer of perfring: publishes records into a file-backed ring, at a few nanoseconds each. No
//! call waits for space unless its name ends in `_timeout`.
//!
//! Most users depend on `perfring`, which re-exports all of this crate beside the consumer and the derive. This
//! one is for programs that only publish.
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
//! [`Producer::reserve`] reserves space and [`Reservation::commit`] publishes it. [`Producer::publish`]
//! and [`Producer::publish_as`] do both for bytes that exist already, and [`Producer::batch`] publishes
//! many records by one store. They make no system call, do not allocate, take no lock and execute no
//! locked instruction, unless they must wake a sleeping consumer.
//!
//! A full **drop** ring refuses records with [`ReserveError::Full`]; [`Producer::reserve_timeout`] waits.
//! Losses are counted by cause and reported to the reader. An **overwrite** ring never returns `Full`: it
//! overwrites the oldest records. A shared one returns [`ReserveError::Pending`] while an open
//! reservation is in the way.
//!
//! A process that is killed at any instruction leaves every committed record readable, and loses at most the
//! record that it was writing. The next [`Producer::attach`] continues where it stopped.
//! [`Producer::open_or_create`] attaches, and makes the ring first if there is none.
//!
//! # Many producers
//!
//! For many threads or processes and one directory use a [`CpuProducer`]: a ring for each CPU, about as fast as a
//! ring for each thread. One value serves all threads of a process. If it is not available, its error gives the
//! reason: [`NoRseq`](error::NoRseq).
//!
//! If all records must be in one order, or in one file, make the ring
//! with [`SharedProducer::open_or_create`] and attach a [`SharedProducer`] for each thread. It has the
//! methods of [`Producer`], with the same names, arguments and results; only batches differ: a shared one
//! reserves its space first. A publish takes a lock, and waits for at most 5 ms where the lock's holder was
//! preempted: see [`SharedProducer::set_lock_wait`]. A call with a timeout waits for the lock, too, for at most the timeout.
//!
//! # Records with a shape
//!
//! A plain struct with [`#[derive(Record)]`](types::Record) is published as it is in memory. The ring's type
//! table describes its fields to every reader of the file:
//!
//! ```
//! # #[cfg(feature = "derive")] {
//! use bytemuck::{Pod, Zeroable};
//! use perfring_producer::{Options, Producer, types::Record};
//!
//! /// What one request cost.
//! #[repr(C)]
//! #[derive(Clone, Copy, Record, Pod, Zeroable)]
//! #[record(crate = perfring_producer::types)] // not needed with a dependency on perfring-types
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
//! With the feature `rkyv`, `publish_rkyv` archives values with strings and lists.
//! [`Producer::register`] describes records of any other shape.
//!
//! # Time
//!
//! A ring that was made with [`Options::time`] gives each record a timestamp when it is reserved, in ns of
//! `CLOCK_BOOTTIME`, which all processes of the machine share. This takes about 4 ns. In the order of the
//! ring, timestamps never decrease; `proto/ABI.md`, "Time", has the other guarantees. Readers get the
//! timestamp as `RecordRef::time` and the wall-clock time from `RecordRef::wall`. The longest payload is 8 bytes
//! shorter.
//!
//! # Forks
//!
//! A producer belongs to the process that attached it. In a forked child, the inherited one returns
//! [`ReserveError::Forked`] and changes neither the parent's ring nor its seat: attach again in the child.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

#[cfg(feature = "rkyv")]
mod archive;
mod both_producers;
mod cpu_preface;
mod cpu_producer;
mod cpu_rings;
mod cpu_set;
mod cpu_wait;
pub mod error;
mod exclusive_producer;
mod known_types;
mod lock_wait;
pub mod metrics;
mod metrics_error;
mod options;
mod process_clock;
mod reserve_error;
mod reserved_batch;
mod shared_producer;
mod space;
pub mod stat;
mod threads_clock;
mod timestamp;
mod verbs;
mod waiting;

pub use cpu_producer::CpuProducer;
pub use exclusive_producer::{Batch, Producer};
pub use options::ProducerOptions;
#[doc(hidden)]
pub use perfring_abi::debug_by_display; // for `set` and `telemetry`
pub use perfring_abi::{Evict, Layout, Policy, Producers, RecordType, Report};
pub use perfring_ring::ReadError;
pub use perfring_shm::{
    AttachError, Location, OpenError, Pages, Promise, Reservation, Reserves,
    RingOptions as Options, Trust, files, install_sigbus_handler, register_process,
};
#[doc(hidden)]
pub use perfring_shm::{create_dir, fork_generation}; // for `telemetry`
pub use perfring_types as types;
pub use process_clock::ProcessClock;
pub use reserve_error::ReserveError;
pub use reserved_batch::ReservedBatch;
pub use shared_producer::SharedProducer;
