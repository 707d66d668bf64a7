//! Log records, spans, metrics and resources in a perfring, named and numbered as OpenTelemetry
//! does, so that a sidecar can forward them and a dump is read without the program.
//!
//! ```
//! use perfring_telemetry::{Log, Resource, Severity, Sink, Sum, options};
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("ring");
//! let resource = Resource::here().with("service.name", "shop");
//! let sink = Sink::create(&path, &options(), resource)?; // or `attach`
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
//! // What a reader makes of it, with the program gone:
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
//! `perfring-tracing` writes what a program says through `tracing`; the features `log` and `metrics`
//! of this crate have doors for the crates of these names.
//!
//! # What a reader must know
//!
//! A record's type has a [class](types::Class). In records of a class, the names of
//! [`names::reserved`] mean what OpenTelemetry says; all other fields are attributes
//! ([`names::attribute`]). It does not matter whether a field stands in the record by its number, in
//! the record by its name, or in the type as a constant: `Type::decode` gives all of them by name.
//! So there may be many types of a class, one for each place in a program or each instrument, and a
//! reader need not tell them apart. An attribute whose own name is reserved has `attributes.` before
//! it. A value named `…` counts what was cut because the record had no room for more.
//!
//! | class | field | OTLP |
//! |---|---|---|
//! | all | the record's stamp in a timed ring, else `time_unix_nano` | `time_unix_nano`; of a span's start and end `start_time_unix_nano` and `end_time_unix_nano` |
//! | all | `process.pid` | the resource: that of the last `resource` record before it with this pid, or else the first after it |
//! | all | `otel.scope.name` | `InstrumentationScope.name` |
//! | `log` | `severity_number`, `severity_text`, `body`, `trace_id`, `span_id`, `event_name`, `observed_time_unix_nano` | the same of `LogRecord` |
//! | `log`, `span_start` | `code.file.path`, `code.line.number`, `code.module.name` | attributes, as all others |
//! | `span_start` | `trace_id`, `span_id`, `parent_span_id`, `name`, `kind` | the same of `Span` |
//! | `span_start` | `link.trace_id`, `link.span_id` | one of `Span.links` |
//! | `span_end` | `trace_id`, `span_id`, `parent_span_id`, `name` | again, for who has not seen the start |
//! | `span_end` | `duration_nano` | `start_time_unix_nano` is that of the start's record, or else the end's less this |
//! | `span_end` | `status.code`, `status.message` | `Span.status` |
//! | `gauge`, `sum`, `histogram` | `name`, `unit`, `description` | the same of `Metric` |
//! | `gauge`, `sum` | `value` | `as_int` or `as_double` of a `NumberDataPoint` |
//! | `sum` | `is_monotonic`, `aggregation_temporality` (1 delta, 2 cumulative) | the same of `Sum` |
//! | `sum`, `histogram` | `start_time_unix_nano` | the same of the data point; if missing, that of the process's `resource` |
//! | `histogram` | `count`, `sum`, `min`, `max`, `explicit_bounds`, `bucket_counts`, `aggregation_temporality` | the same of `Histogram` and its `HistogramDataPoint` |
//! | `histogram` | `value` | one measurement, to be sorted into buckets by who forwards it |
//! | `resource` | `start_time_unix_nano` | when the process made its first sink: its sums and histograms count from there. The same in each of its resources |
//! | `resource` | all but these | attributes of `Resource` |
//!
//! A `span_start` without a `name` says more of a span that has begun: its attributes are added, a
//! later one in the place of an earlier of the same name, and a link if it has one. Of a span there
//! may be a start and no end (it is open, or the process died), or an end and no start (which was
//! overwritten). Of a cumulative sum from several threads, the greatest of neighbouring samples
//! counts. A child of `fork(2)` goes on with the sums that its parent had, under its own pid.
//!
//! The resource is told when a process attaches, and again after each quarter of the ring that the
//! process fills, as a ring that overwrites would lose it: of a process that writes much less than others
//! it may be missing, see [`Sink`]. Process ids are told apart within one pid
//! namespace: containers that share a ring may have the same. So [`Resource::here`] says which
//! namespace the pid is of, in `process.pid.namespace` ([`names::PID_NAMESPACE`], a decimal number,
//! the inode of `/proc/self/ns/pid`; perfring's own name, as OpenTelemetry has none), and in a container
//! `container.id` where it can be seen. In a ring that two namespaces write into, records of the same
//! pid still cannot be told apart: give each container a ring of its own (`perfring-set`), and the
//! resource in it is right for all of its records.
//!
//! Not carried: exemplars, exponential histograms and summaries, trace state and flags, links'
//! attributes, versions and attributes of scopes, schema URLs, counts of dropped attributes,
//! attributes within attributes, lists of text, and a span's events (they are log records with the
//! span's id).
#![forbid(unsafe_code)]

mod ids;
#[cfg(feature = "log")]
pub mod log;
#[cfg(feature = "metrics")]
pub mod metrics;
pub mod names;
mod resource;
mod ring;
mod severity;
mod signals;
mod sink;
mod value;

pub use ids::{SpanId, TraceId};
pub use perfring_producer as producer;
pub use perfring_producer::types;
pub use resource::Resource;
pub use severity::{Severity, SpanKind, Status, Temporality};
pub use signals::{
    Attributes, COMMON, FIRST, Gauge, Histogram, Log, Signal, SpanEnd, SpanStart, Sum,
};
pub use sink::{Sink, SinkError, options};
pub use value::Value;
