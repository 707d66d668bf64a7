//! What a program says through `tracing`, in a perfring: events and spans with names, levels, fields
//! and ids. The file has it when the program has crashed, and whoever watches has it at once.
//!
//! ```
//! use perfring_tracing::{PerfringLayer, Resource, Sink, options};
//! use tracing_subscriber::prelude::*;
//!
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("ring");
//! let resource = Resource::here().with("service.name", "shop");
//! let layer = PerfringLayer::new(Sink::create(&path, &options(), resource)?);
//! let subscriber = tracing_subscriber::registry().with(layer);
//! # let _default = tracing::subscriber::set_default(subscriber);
//! // subscriber.init();
//!
//! let _span = tracing::info_span!("serve", order = 17).entered();
//! tracing::warn!(device = "sdb", "disk is nearly full");
//! # use perfring_consumer::{Item, Snapshot};
//! # use perfring_telemetry::producer::RecordType;
//! # use perfring_types::read::TypeTable;
//! # let snapshot = Snapshot::take(&path)?;
//! # let types = TypeTable::from_entries(snapshot.types().entries());
//! # let mut bodies = Vec::new();
//! # for item in &snapshot {
//! #     let Item::Record(record) = item? else { continue };
//! #     let kind = types.get(RecordType::new(record.kind).unwrap()).unwrap();
//! #     let value = kind.decode(record.bytes)?;
//! #     bodies.extend(value.get("body").map(ToString::to_string));
//! # }
//! # assert_eq!(bodies.len(), 1);
//! # assert!(bodies[0].contains("disk is nearly full"));
//! // Whatever happens now: `perfring dump RING`.
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `examples/crash.rs` is a program that dies with all this in its ring; `examples/cost.rs` measures.
//!
//! # What is written
//!
//! | `tracing` | in the ring, see [`perfring_telemetry`] |
//! |---|---|
//! | an event | a `log` record of a type of its own: what is always the same (level, target, file, line) stands in the ring's type table, once; the record has the values and the current span's ids |
//! | `message` | `body` |
//! | level | `severity_number` 1, 5, 9, 13, 17 and `severity_text`; of a span the attribute `level` |
//! | target | `otel.scope.name` |
//! | file, line, module | `code.file.path`, `code.line.number`; `code.module.name` where it is not the target |
//! | an event's name, if it was given one | `event_name` |
//! | a new span | a `span_start`, with random ids: a trace's is its first span's |
//! | `Span::record` | one more `span_start` without a name, at once |
//! | `follows_from` | the same, with a link |
//! | a span that is closed | a `span_end` with the time since the start |
//! | an error | its text and those of its sources |
//! | `log` records through `tracing-log` | as events of the target and source that they name |
//!
//! Fields are attributes under their own names, numbers and truth values as such, all else as text.
//! When a span is entered and left is not written.
//!
//! A span's `duration_nano` is measured on `CLOCK_MONOTONIC`, the ring's stamps on `CLOCK_BOOTTIME`: over
//! a suspension of the machine, the duration is less than the time between the two records.
//!
//! Filters are `tracing_subscriber`'s: `layer.with_filter(..)`. An event whose explicit parent is a
//! span that the filter has left out is in no span.
//!
//! # What it costs
//!
//! Once warm, nothing is allocated: the first event of each place in the program registers its type,
//! the first of each thread attaches to the ring. That registration takes the lock of the ring's type
//! table, and waits for up to 0.1 s while another process holds it. Where the table is full, names stand in the records.
//! A span's numbers are in one of 64 maps, each behind a lock.
//!
//! # Where it is safe
//!
//! In a `Debug` that itself logs, or panics; in destructors of thread-local values (but for new spans:
//! the registry of `tracing_subscriber` panics at those); in a child of `fork(2)`, which attaches
//! anew, unless another thread was doing something with a span at that moment: making, entering or
//! closing it, recording values, saying what it follows from. The child has a copy of that thread's lock
//! that nobody opens, and stops at it for ever when it does the same with a span in the same map. (It is
//! so with `metrics::RingRecorder` while another thread looks up or describes an instrument.) Not in
//! signal handlers.
#![forbid(unsafe_code)]

mod layer;
mod panics;
mod site;
mod spans;
mod visit;

pub use layer::PerfringLayer;
pub use perfring_telemetry::{Resource, Sink, SinkError, options};
