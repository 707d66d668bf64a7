//! The consumer side of perfring: read records in place, watch a ring through a read-only mapping,
//! or open the file of a dead process.
//!
//! Most users depend on `perfring`, which re-exports all of this crate beside the producer. This crate is
//! for programs that only read.
//!
//! | | [`Consumer`] | [`Observer`] | [`Snapshot`] |
//! |---|---|---|---|
//! | how many | one at a time | any number | any number |
//! | permission | read and write | read | read |
//! | drop ring | borrows in place, frees the space | copies | copies |
//! | overwrite ring | copies, saves its position | copies | copies |
//!
//! ```
//! use perfring_consumer::{Consumer, Item, Observer, Start};
//! # use perfring_producer::{Options, Producer};
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("ticks");
//! # let mut producer = Producer::create(&path, &Options::default())?;
//! # producer.publish(b"hello")?;
//!
//! let mut consumer = Consumer::attach(&path)?;
//! while let Some(item) = consumer.read()? {
//!     match item {
//!         Item::Record(record) => assert_eq!(record.bytes, b"hello"), // borrowed from the ring
//!         Item::Lost(lost) => eprintln!("{lost}"),
//!     }
//! }
//!
//! let mut observer = Observer::attach(&path, Start::Latest)?; // sees what comes from now on
//! assert_eq!(observer.read()?, None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A record of a type that this program knows is read with [`RecordRef::as_pod`], or with
//! `RecordRef::archived` (feature `rkyv`). `perfring_types::read` shows other records by the ring's
//! [`Types`]. [`advanced`] has functions that few readers need, such as reading ahead and releasing later.
//! With the feature `poll` a consumer has a descriptor for an event loop, `Consumer::pollable`, which
//! the crate `perfring-tokio` wraps.
//!
//! An empty ring is `None`, and a loss is an [`Item`]; a failure to read is a [`ReadError`]. With
//! [`Acknowledge::Explicit`] a record counts as read when it is acknowledged.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

pub mod advanced;
mod both_readers;
mod consumer;
mod cursor;
mod drain;
pub mod error;
mod fill;
mod guarded;
mod item;
pub mod metrics;
mod observer;
mod options;
mod owned;
mod pinned;
#[cfg(feature = "poll")]
pub mod poll;
mod run;
mod saving;
mod snapshot;
pub mod stat;
mod table;
mod tick;
mod wait_strategy;
mod waiting;

pub use consumer::Consumer;
pub use item::{Item, RecordRef};
pub use observer::Observer;
pub use options::{Acknowledge, ConsumerOptions, ObserverOptions};
pub use owned::{OwnedItem, OwnedRecord};
pub use perfring_abi::{Cause, Evict, Layout, Policy, Producers, RecordType, Report, WriterId};
pub use perfring_ring::{Anchors, Lost, ReadError, Start, WakeAt};
#[doc(hidden)]
pub use perfring_shm::create_dir; // for `set` and `export`
pub use perfring_shm::{
    AttachError, Location, Pages, Promise, Trust, files, install_sigbus_handler, register_process,
};
pub use perfring_types as types;
pub use snapshot::{Items, Snapshot};
pub use table::Types;
pub use wait_strategy::WaitStrategy;
