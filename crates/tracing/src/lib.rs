//! Writes the events and spans of [`tracing`](https://docs.rs/tracing) into a ring, with their names, levels,
//! fields and ids. After a crash they are in the ring's file; readers see them at once.
//!
//! ```toml
//! [dependencies]
//! perfring = { path = "../perfring/crates/perfring", features = ["tracing"] } # as `perfring::tracing`
//! tracing = "0.1"
//! tracing-subscriber = "0.3"
//! ```
//!
//! Or depend on `perfring-tracing` itself. A program that decodes the records needs `perfring_types` with the
//! feature `read` (`perfring` with the feature `decode`); `perfring_set` decodes without a feature.
//!
//! ```
//! use perfring_tracing::{PerfringLayer, Resource, Sink, options};
//! use tracing_subscriber::prelude::*;
//!
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("ring");
//! let resource = Resource::here().with("service.name", "shop");
//! // One file. `Sink::open` makes a directory with a ring for each CPU, which costs less: most programs want that.
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
//! // Whatever happens to the program now: `perfring dump RING`.
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`PerfringLayer::panic_hook`] records panics. With `perfring_set::RingSet`, many processes log into one
//! directory, each into its own ring: `examples/tracing_many.rs` of the crate `perfring`. `examples/crash.rs` is
//! a program that crashes, with its last events in the ring; `examples/cost.rs` measures.
//!
//! # What is written
//!
//! | `tracing` | in the ring, see [`perfring_telemetry`] |
//! |---|---|
//! | an event | a `log` record of its own type: level, target, file and line are in the ring's type table, once; the record has the values and the current span's ids |
//! | `message` | `body` |
//! | level | `severity_number` 1, 5, 9, 13, 17 and `severity_text`; of a span the attribute `level` |
//! | target | `otel.scope.name` |
//! | file, line, module | `code.file.path`, `code.line.number`; `code.module.name` where it is not the target |
//! | an event's name, if it has an explicit one | `event_name` |
//! | a panic, see [`PerfringLayer::panic_hook`] | a `log` record of severity `FATAL` (21), `event_name` `panic` |
//! | a new span | a `span_start`, with random ids: a trace's id is made with its first span |
//! | `Span::record` | another `span_start` without a name, at once |
//! | `follows_from` | the same, with a link |
//! | a closed span | a `span_end` with the duration since the start |
//! | `otel.kind` of a span: `server`, `client` and so on | `kind`, 1 to 5; also by `Span::record` |
//! | `otel.status_code` of a span, `ok` or `error`; `otel.status_message` or `otel.status_description` | `status.code` and `status.message` of the `span_end`; a message alone is of an error |
//! | `otel.name` of a span | `name`; by `Span::record` that of the `span_end` |
//! | an error | its text and those of its sources |
//! | `log` records through `tracing-log` | like events, with their own target and source |
//!
//! With the feature `context`, the thread's context (OTEP 4947) is the span that the thread is in, so that profilers see it: see
//! `perfring::context::ThreadContext::publish` for what the program tells the linker.
//!
//! Fields are attributes under their own names. Numbers and booleans keep their type; anything else is
//! text. Entering and leaving a span is not recorded.
//!
//! A span's `duration_nano` is measured on the clock of timestamps, `CLOCK_BOOTTIME`: it includes the time for which the machine
//! is suspended. The clock is read once for each record.
//!
//! Filters are `tracing_subscriber`'s: `layer.with_filter(..)`. An event whose explicit parent is a span
//! that the filter excludes is in no span.
//!
//! # What it costs
//!
//! After a warm-up it allocates nothing: the first event of each call site registers its type, and the first
//! of each thread attaches to the ring. The registration takes the lock of the ring's type table, and waits
//! for up to 0.1 s while another process holds it. If the table is full, the field names are in the records.
//! With rings per CPU ([`PerfringLayer::open`]) a record takes no lock, and no locked instruction. Open spans are in a table of
//! atomics: a new one takes an entry by one compare-and-swap. To enter a span and to leave it touches the thread's own
//! memory, and reads that entry. Only `otel.` fields that a span's end has are behind a lock.
//!
//! # Where it is safe
//!
//! In a `Debug` that itself logs, or panics. In destructors of thread-local values, except for new spans: there the registry
//! of `tracing_subscriber` panics. In a child of `fork(2)`, which attaches again, unless another thread was noting `otel.`
//! fields of a span, or adding a table for more open spans, at the moment of the fork: the child has a copy of that thread's
//! lock that is never unlocked. (`metrics::RingRecorder` has the same limit while another thread looks up or describes an
//! instrument.) Not in signal handlers.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod layer;
mod otel;
mod panics;
mod site;
mod spans;
mod visit;

pub use layer::PerfringLayer;
pub use perfring_telemetry::{Resource, Sink, SinkError, options};
