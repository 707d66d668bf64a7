//! Exporters for [OpenTelemetry's SDK](https://docs.rs/opentelemetry_sdk) that write spans, log records and metrics into a ring. A
//! program loses the network from its path: `perfring sidecar` forwards the ring by OTLP, also after the program was killed.
//!
//! ```toml
//! [dependencies]
//! perfring = { path = "../perfring/crates/perfring", features = ["opentelemetry"] } # as `perfring::opentelemetry`
//! opentelemetry = "0.33"
//! opentelemetry_sdk = "0.33"
//! ```
//!
//! A program that has the SDK changes one line, the one that makes the exporter:
//!
//! ```
//! use opentelemetry::trace::{Span, Tracer, TracerProvider};
//! use opentelemetry_sdk::trace::SdkTracerProvider;
//! use perfring_opentelemetry::{RingExporter, options};
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("shop");
//!
//! // let exporter = SpanExporter::builder().with_http().build()?;
//! let exporter = RingExporter::open(&path, &options())?.spans();
//! let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).build();
//!
//! let mut span = provider.tracer("shop").start("serve");
//! span.end();
//! provider.shutdown()?;
//! # use perfring_consumer::{Item, RecordType, Snapshot};
//! # use perfring_types::read::TypeTable;
//! # let snapshot = Snapshot::take(&path)?;
//! # let types = TypeTable::from_entries(snapshot.types().entries());
//! # let mut names = Vec::new();
//! # for item in &snapshot {
//! #     let Item::Record(record) = item? else { continue };
//! #     let kind = types.get(RecordType::new(record.kind).unwrap()).unwrap();
//! #     names.extend(kind.decode(record.bytes)?.get("name").map(ToString::to_string));
//! # }
//! # assert_eq!(names, ["serve", "serve"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Log records and metrics go into the same ring, by exporters of the same [`RingExporter`]:
//!
//! ```
//! use opentelemetry_sdk::logs::SdkLoggerProvider;
//! use opentelemetry_sdk::metrics::SdkMeterProvider;
//! use perfring_opentelemetry::{RingExporter, options};
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("shop");
//! let ring = RingExporter::open(&path, &options())?;
//! let logs = SdkLoggerProvider::builder().with_batch_exporter(ring.logs()).build();
//! let metrics = SdkMeterProvider::builder().with_periodic_exporter(ring.metrics()).build();
//! # logs.shutdown()?;
//! # metrics.shutdown()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Simple processors do as well: an export is some microseconds, and waits for nothing but the ring's lock.
//!
//! # What is written
//!
//! | OpenTelemetry | in the ring, see [`perfring_telemetry`] |
//! |---|---|
//! | the resource | a `resource` record, with the types of its values |
//! | a span | a `span_start` at its start, with kind, parent, scope and attributes, and a `span_end` at its end, with duration and status |
//! | a link | `link.trace_id` and `link.span_id` of the `span_start`; of each link but the first in another `span_start`, without a name |
//! | a span's event | a `log` record at its time, with the span's ids and its name as `event_name` |
//! | a log record | a `log` record |
//! | a point of a sum, a gauge or a histogram | a record of that class |
//! | a list | the attribute's name with each value. A list of one text, truth value or negative number is that value |
//! | the number of dropped attributes | `…`, the count of values that were left out |
//!
//! The SDK exports a span after its end, so the ring's own timestamp is that of the export. Each record therefore has
//! `time_unix_nano`, which readers prefer.
//!
//! # What is not carried
//!
//! Each [`Lack`] is counted, see [`RingExporter::lack`]. The result of the next export or flush says once that there is one; the
//! SDK logs it. Not counted, because all spans and points have them, are trace flags (of spans and log records), whether a
//! span's parent is remote, and the start time of a gauge.
//!
//! # When something fails
//!
//! The result of an export is an error if a record was refused or lost, or if something was not carried that was carried
//! before. All else of the batch is written. [`RingExporter::dropped`] counts records, and the ring's own counters say why.
//! After `shutdown`, an exporter's results are [`OTelSdkError::AlreadyShutdown`](opentelemetry_sdk::error::OTelSdkError).
//!
//! A forked child attaches again by itself. It has no threads of batch processors; simple processors work there.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod door;
mod exporter;
mod fields;
mod lacks;
mod logs;
mod metrics;
mod spans;

pub use exporter::RingExporter;
pub use lacks::Lack;
pub use logs::RingLogExporter;
pub use metrics::RingMetricExporter;
pub use perfring_telemetry::{SinkError, options};
pub use spans::RingSpanExporter;
