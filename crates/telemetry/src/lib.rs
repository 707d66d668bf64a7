//! Publishes log records, spans, metrics and resources into a ring, with OpenTelemetry's names and
//! numbers: a sidecar forwards them, and a dump can be read without the program that wrote it.
//!
//! ```toml
//! [dependencies]
//! perfring = { path = "../perfring/crates/perfring", features = ["telemetry"] } # as `perfring::telemetry`
//! ```
//!
//! Or depend on `perfring-telemetry` itself. The features `log` and `metrics` add [`log`](https://docs.rs/log)
//! and [`metrics`](https://docs.rs/metrics) back ends. A program that decodes records needs
//! `perfring_types` with the feature `read` (`perfring` with the feature `decode`); `perfring_set` decodes
//! without a feature.
//!
//! ```
//! use perfring_telemetry::{Log, Resource, Severity, Sink, Sum, options};
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("ring");
//! let resource = Resource::here().with("service.name", "shop");
//! let sink = Sink::create(&path, &options(), resource)?; // one file; or `Sink::open`: see below
//!
//! sink.emit(&Log {
//!     severity: Some(Severity::Warn),
//!     body: "disk is nearly full".into(),
//!     attributes: &[("mount", "/var".into()), ("left", 12u64.into())],
//!     ..Log::default()
//! })?;
//! sink.emit(&Sum { unit: "{order}", ..Sum::cumulative("orders", 17u64) })?;
//! # use perfring_consumer::{Item, Snapshot};
//! # use perfring_telemetry::producer::RecordType;
//! # use perfring_types::read::TypeTable;
//! // A reader needs the file alone:
//! let snapshot = Snapshot::take(&path)?;
//! let types = TypeTable::from_entries(snapshot.types().entries());
//! # let mut shown = Vec::new();
//! for item in &snapshot {
//!     let Item::Record(record) = item? else { continue };
//!     let kind = types.get(RecordType::new(record.kind).unwrap()).unwrap();
//!     println!("{} {}", kind.name, kind.render_text(&kind.decode(record.bytes)?));
//! #   shown.push(kind.render_text(&kind.decode(record.bytes)?));
//! }
//! # assert_eq!(shown.len(), 3);
//! # assert!(shown[1].contains("disk is nearly full") && shown[1].contains("WARN"), "{shown:?}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `perfring-tracing` writes the events and spans of `tracing`.
//!
//! # Which rings
//!
//! | sink | the rings | for |
//! |---|---|---|
//! | [`Sink::open`] | a directory with a ring for each CPU, for all threads and processes | most programs: no record takes a lock, and no thread a slot |
//! | [`Sink::create`], [`Sink::attach`] | one shared ring | one file, or one order of all records |
//! | [`Sink::attach_one`] | one shared ring, of which the process takes one slot | callers that have a lock |
//!
//! # A directory of rings
//!
//! With [`perfring_set`](https://docs.rs/perfring-set), each process can have its own ring in one directory, and a reader
//! merges them by time, like rings per CPU:
//!
//! ```
//! use perfring_set::{Merge, RingSet};
//! use perfring_telemetry::{Log, Resource, Severity, Sink, options};
//! use std::time::Duration;
//! # let dir = tempfile::tempdir()?;
//! # let dir = dir.path().join("shop");
//! let set = RingSet::open(&dir)?;
//! let ring = set.ring_path("worker-1", &options())?; // or `&RingSet::own_name()`
//! let sink = Sink::attach(ring, Resource::here().with("service.name", "shop"))?;
//! sink.emit(&Log { severity: Some(Severity::Info), body: "ready".into(), ..Log::default() })?;
//!
//! # let mut logs = Vec::new();
//! let mut merge = Merge::follow(&dir)?; // in another process
//! while merge.wait(Duration::from_millis(200)) {
//!     while let Some(item) = merge.read() {
//!         let Some(fields) = item.decode().transpose()? else { continue };
//!         if let (Some(severity), Some(body)) = (fields.get("severity_text"), fields.get("body")) {
//!             println!("{:?} {} {severity} {body}", item.wall(), item.ring);
//! #           logs.push(format!("{} {severity} {body}", item.ring));
//!         }
//!     }
//!     merge.acknowledge();
//! }
//! # assert_eq!(logs, ["worker-1 INFO ready"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The format, for readers
//!
//! A record's type has a [class](types::Class). In records of a class, the names of
//! [`names::reserved`] mean what OpenTelemetry says; all other fields are attributes
//! ([`names::attribute`]). A field is in the record by its number, in the record by its name, or in the
//! type as a constant: `Type::decode` returns all of them by name. So there may be many types of a class,
//! one for each call site or instrument, and a reader does not distinguish them. An attribute whose own
//! name is reserved has the prefix `attributes.`. A value named `…` counts the values that were left out
//! because the record had no room.
//!
//! | class | field | OTLP |
//! |---|---|---|
//! | all | `time_unix_nano`, else the record's timestamp: a record in a timed ring has both only if it tells of the past | `time_unix_nano`; of a span's start and end `start_time_unix_nano` and `end_time_unix_nano` |
//! | all | `process.pid` | the resource: that of the last `resource` record before it with this pid, or else the first after it |
//! | all | `otel.scope.name` | `InstrumentationScope.name` |
//! | `log` | `severity_number`, `severity_text`, `body`, `trace_id`, `span_id`, `event_name`, `observed_time_unix_nano` | the same of `LogRecord` |
//! | `log`, `span_start` | `code.file.path`, `code.line.number`, `code.module.name` | attributes, as all others |
//! | `span_start` | `trace_id`, `span_id`, `parent_span_id`, `name`, `kind` | the same of `Span` |
//! | `span_start` | `link.trace_id`, `link.span_id` | one of `Span.links` |
//! | `span_end` | `trace_id`, `span_id`, `parent_span_id`, `name` | again, for a reader that missed the start |
//! | `span_end` | `duration_nano` | `start_time_unix_nano` is that of the start's record, or else the end's less this |
//! | `span_end` | `status.code`, `status.message` | `Span.status` |
//! | `gauge`, `sum`, `histogram` | `name`, `unit`, `description` | the same of `Metric` |
//! | `gauge`, `sum` | `value` | `as_int` or `as_double` of a `NumberDataPoint` |
//! | `sum` | `is_monotonic`, `aggregation_temporality` (1 delta, 2 cumulative) | the same of `Sum` |
//! | `sum`, `histogram` | `start_time_unix_nano` | the same of the data point; if missing, that of the process's `resource` |
//! | `histogram` | `count`, `sum`, `min`, `max`, `explicit_bounds`, `bucket_counts`, `aggregation_temporality` | the same of `Histogram` and its `HistogramDataPoint` |
//! | `histogram` | `scale`, `zero_count`, `zero_threshold`, `positive.offset`, `positive.bucket_counts`, `negative.offset`, `negative.bucket_counts` | the same of an `ExponentialHistogramDataPoint`, with `count`, `sum`, `min` and `max` |
//! | `histogram` | `value` | one measurement, which the forwarder sorts into buckets |
//! | `resource` | `start_time_unix_nano` | when the process created its first sink: its sums and histograms count from then. The same in each of its resources |
//! | `resource` | all but these | attributes of `Resource` |
//!
//! A `span_start` without a `name` adds to a span that has begun: attributes, of which a later one
//! replaces an earlier one of the same name, and a link if it has one. A span may have a start and no end
//! (it is open, or the process died), or an end and no start (it was overwritten). Of a cumulative sum
//! from several threads, the greatest of neighbouring samples counts. A child of `fork(2)` continues its
//! parent's sums, under its own pid.
//!
//! A process publishes its resource when it attaches, and again after each quarter of the ring that it fills, because an
//! overwrite ring loses it. The resource of a process that writes much less than others may be missing in a shared ring: see
//! [`Sink`]. Of rings per CPU, each has the resource. Process ids are unique within one pid namespace only: containers that
//! share a ring may use the same ones. So [`Resource::here`] adds the pid's namespace as `process.pid.namespace`
//! ([`names::PID_NAMESPACE`], a decimal number, the inode of `/proc/self/ns/pid`; perfring's own name, because OpenTelemetry
//! has none), and in a container `container.id` where it is visible. In a ring that two namespaces write into, records of the
//! same pid cannot be distinguished: give each container its own ring (`perfring-set`).
//!
//! Not carried: exemplars and summaries, trace state and flags, links'
//! attributes, versions and attributes of scopes, schema URLs,
//! attributes within attributes, lists of one value that is no number (they are the value), and a span's events (they are
//! log records with the span's id).
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod attached;
mod handle;
mod ids;
#[cfg(feature = "log")]
pub mod log;
pub mod meter;
#[cfg(feature = "metrics")]
pub mod metrics;
pub mod names;
mod opening;
mod place;
mod resource;
mod ring;
mod severity;
mod signals;
mod sink;
mod threads;
mod value;

pub use ids::{SpanId, TraceId};
pub use opening::options;
pub use perfring_producer as producer;
pub use perfring_producer::types;
pub use place::SinkError;
pub use resource::{Resource, ResourceValue};
pub use severity::{Severity, SpanKind, Status, Temporality};
pub use signals::{
    Attributes, COMMON, Exponential, FIRST, Gauge, Histogram, Log, Signal, SpanEnd, SpanStart, Sum,
};
pub use sink::Sink;
pub use value::Value;
