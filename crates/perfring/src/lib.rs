//! perf's ring buffer between your own processes.
//!
//! A [`Producer`] publishes records into a ring in a file, at a few nanoseconds each. A [`Consumer`] reads them in
//! place; any number of [`Observer`]s copy them and write nothing to the ring. After `kill -9` the file still holds
//! the last records.
//!
//! ```
//! # if std::fs::exists("/dev/shm/ticks")? { return Ok(()) } // another program's ring
//! use perfring::{Consumer, Item, Options, Producer};
//!
//! let mut producer = Producer::open_or_create("/dev/shm/ticks", &Options::default())?;
//! producer.publish(b"hello")?;
//! let mut consumer = Consumer::attach("/dev/shm/ticks")?;
//! while let Some(item) = consumer.read()? {
//!     match item {
//!         Item::Record(record) => println!("{:?}", record.bytes),
//!         Item::Lost(lost) => eprintln!("{lost}"),
//!     }
//! }
//! # std::fs::remove_file("/dev/shm/ticks")?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The [`guide`] explains the rest: [which ring to choose](guide::application), [what an error
//! means](guide::errors), [what happens inside](guide::architecture).
//!
//! # Dependencies
//!
//! ```toml
//! [dependencies]
//! perfring = "0.1" # not on crates.io yet: { path = "CHECKOUT/crates/perfring" }
//! ```
//!
//! | feature | | adds |
//! |---|---|---|
//! | `derive` | default | [`#[derive(Record)]`](macro@Record) |
//! | `decode` | | `types::read`: payloads as values, by the field names in the ring's type table |
//! | `rkyv` | | records with strings, lists and options |
//! | `poll` | | `Consumer::pollable`: a descriptor for an event loop |
//! | `segments` | | rings can be made under the name of a POSIX segment, `shm:NAME` |
//! | `tokio` | | `perfring::tokio`: consumers and observers as streams |
//! | `set` | | `perfring::set`: directories of rings, merged in the order of time |
//! | `telemetry` | | `perfring::telemetry`: logs, spans and metrics with OpenTelemetry's names; `log` and `metrics` add sinks for the crates of these names |
//! | `context` | | `perfring::context`: who a process is, as OpenTelemetry has it published; `telemetry` publishes it, and reads the thread's trace |
//! | `tracing` | | `perfring::tracing`: a layer for the crate `tracing` |
//! | `opentelemetry` | | `perfring::opentelemetry`: exporters for OpenTelemetry's SDK |
//!
//! # Records with a shape
//!
//! A plain struct is a record type. Its schema goes into the ring's type table, so every reader of the file sees its
//! fields by name.
//!
//! ```
//! # #[cfg(feature = "derive")] {
//! use perfring::bytemuck::{Pod, Zeroable};
//! use perfring::{Consumer, Item, Options, Producer, Record};
//!
//! /// What one request cost.
//! #[repr(C)]
//! #[derive(Clone, Copy, Record, Pod, Zeroable)]
//! #[bytemuck(crate = "perfring::bytemuck")] // not needed in a crate that depends on bytemuck
//! struct Request {
//!     #[record(unit = "ns")]
//!     took: u64,
//!     status: u64,
//! }
//!
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("requests");
//! let mut producer = Producer::create(&path, &Options::default())?;
//! producer.publish_pod(&Request { took: 81_000, status: 200 })?;
//! # let mut seen = 0;
//! let mut consumer = Consumer::attach(&path)?;
//! while let Some(item) = consumer.read()? {
//!     let Item::Record(record) = item else { continue }; // a loss otherwise
//!     let request: &Request = record.as_pod()?; // borrowed from the ring
//!     println!("{} took {} ns", request.status, request.took);
//! #   seen += 1;
//! }
//! # assert_eq!(seen, 1);
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Examples
//!
//! Whole programs, a page each, in `examples`: `cargo run -p perfring --example NAME`; the top of each says with which
//! arguments.
//!
//! | | |
//! |---|---|
//! | `hello` | two processes |
//! | `flight_recorder` | typed events and metrics, and the last ten events after `kill -9` |
//! | `metrics` | counters, gauges and histograms of the crate `metrics` |
//! | `tracing_many` | what many processes log with `tracing`, in the order of time, with the panic of one |
//! | `tokio_forwarder` | a ring to a TCP socket, under tokio, with nothing lost |
//! | `per_cpu` | many processes, many threads, a ring for each CPU |
//! | `python` | a ring that Python writes and Rust reads, or the other way round, with `tools/python/examples/orders.py` |
//! | `from_c` | a producer in C, and a reader that knows none of its types |
//!
//! A program and its sidecar in a pod: `tools/kubernetes/pod.yaml`.
//!
//! # Names
//!
//! | for | |
//! |---|---|
//! | publishing | [`Producer`], [`SharedProducer`], [`CpuProducer`]; [`Options`] and [`ProducerOptions`]; [`Batch`], [`ReservedBatch`], [`Reservation`] ([`Reserves`] is its bound); [`ProcessClock`] |
//! | reading | [`Consumer`], [`Observer`], [`Snapshot`] and its [`Items`]; [`ConsumerOptions`] and [`ObserverOptions`] with [`Start`], [`Acknowledge`], [`WakeAt`] and [`WaitStrategy`] |
//! | what a reader gets | [`Item`]: a [`RecordRef`], or [`Lost`] with its [`Cause`]; [`OwnedItem`] and [`OwnedRecord`] to keep; [`WriterId`]; [`Anchors`], for the time of day |
//! | types of records | [`RecordType`]; [`Record`], the trait and its derive; [`Types`], the ring's table; [`mod@types`] has schemas and decoding; [`bytemuck`] |
//! | what a ring is | [`Location`], [`Layout`], [`Policy`], [`Producers`], [`Evict`], [`Report`]; [`Pages`], its memory; [`Trust`] and [`Promise`] |
//! | errors | [`AttachError`], [`OpenError`], [`ReserveError`], [`ReadError`]; [`error`] has their parts and others; [`metrics`], `poll` and [`mod@types`] have their own |
//! | figures | [`stat`]: totals, seats, counts of losses |
//! | counters, gauges and histograms in a ring's file | [`metrics`] |
//! | the process | [`install_sigbus_handler`], [`register_process`] |
//! | files of rings | [`files`]: to make, look at, recover and remove them |
//! | reading ahead, and waiting by other means | [`advanced`]; `poll`, with the feature |
//!
//! All of them come from [`producer`] and [`consumer`]: the crates `perfring-producer` and `perfring-consumer`, for programs that need
//! only one of the two.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

pub mod error;
pub mod guide;
pub mod metrics;
pub mod types;

pub use perfring_consumer as consumer;
#[doc(inline)]
pub use perfring_consumer::stat; // has all of the producer's
#[doc(inline)]
pub use perfring_consumer::*;
pub use perfring_producer as producer;
#[doc(inline)]
pub use perfring_producer::*;
#[doc(no_inline)]
pub use perfring_types::bytemuck;
pub use types::Record;

#[cfg(feature = "context")]
pub use perfring_context as context;
#[cfg(feature = "opentelemetry")]
pub use perfring_opentelemetry as opentelemetry;
#[cfg(feature = "set")]
pub use perfring_set as set;
#[cfg(feature = "telemetry")]
pub use perfring_telemetry as telemetry;
#[cfg(feature = "tokio")]
pub use perfring_tokio as tokio;
#[cfg(feature = "tracing")]
pub use perfring_tracing as tracing;

/// The programs in README are compiled and run with the other examples.
#[cfg(all(doctest, feature = "derive"))]
#[doc = include_str!("../README.md")]
struct Readme;
