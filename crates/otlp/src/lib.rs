//! Sends logs, metrics and traces to an OTLP receiver: over HTTP, or gRPC with the feature `grpc`;
//! by TCP or a Unix socket. Or writes them as lines of JSON to files (`OtlpFile`), with the feature `file`.
//!
//! | of a ring | becomes |
//! |---|---|
//! | a `log` record | a log record with all its attributes, and `perfring.key` |
//! | a record without a class | a log record with its fields as attributes, its type's name as event name and `perfring.type`; fields `trace_id` of 16 bytes and `span_id` of 8 say which trace it belongs to; a decoding error is in `perfring.fault` |
//! | a loss | a log record `perfring.loss` at its position, and counts in the sums `perfring.ring.lost_records` and `perfring.ring.lost_bytes` by `perfring.ring.name` and `error.type` |
//! | a span's start and end, in one ring or two | a span |
//! | an end without a start | a span with the fields of the end, and `perfring.span.start = "missing"` |
//! | a start whose ring was removed before the end arrived | a span with the status error, `perfring.span.end = "missing"` and the last known time of the ring as its end |
//! | samples | data points, collected for [`Mapping::metric_interval`]: the newest of a gauge, the greatest of a cumulative sum that only grows, the sum of deltas. The temporality is kept |
//! | measurements of a histogram | a delta histogram with the bounds of OpenTelemetry's SDKs: it needs no state from before this process, so nothing is counted twice after a restart |
//!
//! A record is joined with the resource that its process reported last, and waits a while for it if
//! there is none yet. The resource also has `perfring.ring.name` and `perfring.ring.uuid`.
//!
//! # Delivery
//!
//! At least once: an event leaves its ring when the receiver has answered for what became of it, also if it refused it for
//! good; until then [`Output::unsettled`](perfring_events::Output::unsettled) holds it there. OTLP does not recognise duplicates: after a
//! broken answer, or a crash of this process, a batch may be sent again. Duplicate log records can
//! be recognised by `perfring.key`, spans by their ids; points of delta sums cannot.
//!
//! | answer | |
//! |---|---|
//! | none; 429, 502, 503, 504 | sent again, for ever: after growing pauses, varied at random, or after `Retry-After` |
//! | 401, 403, 404, 500 and all that is not listed here | the same, and reported as what an operator must mend. OTLP's specification calls them final. This departs from it on purpose: they say nothing about the records. [`Options::headers_file`] and [`Options::token_file`] are read for each request, and a change ends the pause |
//! | 413 | sent again in halves, and what is as large from then on is divided before it is sent, until a restart; a single item that is too large is refused |
//! | of gRPC: UNAVAILABLE and what the specification calls retryable | sent again, after the receiver's `RetryInfo` if it has one |
//! | of gRPC: UNAUTHENTICATED, PERMISSION_DENIED, NOT_FOUND, UNIMPLEMENTED, INTERNAL and others | as 401 |
//! | 400, 422; INVALID_ARGUMENT; what a partial success rejects | refused for good: counted by cause in [`Figures::refused_by`](perfring_events::Figures::refused_by), reported, and kept in the file [`Options::dead_letters`] if there is one. A partial success does not say which items it rejects, so all of its request is kept |
//!
//! # Where things are
//!
//! A record goes from `output` (takes events, says what is unsettled) by `mapper` and `put` (encodes it) to `flow` (joins it
//! with its resource) and `batch` (a request as it grows), and from there by `lanes` (a thread for each signal) to `post`
//! (sends, waits, divides by `split`) and `client`.
//!
//! # OTLP/Arrow
//!
//! It is not spoken. What encodes it in Rust are parts of an engine, `otel-arrow-dfe-*` (0.63 in
//! November 2026, a release every few weeks that may change all): `otel-arrow-dfe-pdata` alone
//! brings 173 crates that a build with all features lacks, DataFusion and a second version of Arrow
//! among them, and the exporter is a node of that engine and no library. What Arrow saves is bytes
//! between machines. To a Collector on this machine a Unix socket saves more, and its `otelarrow`
//! exporter can go on from there.
//!
//! # What is held back
//!
//! Items that wait here (for a span's end, a resource, more samples) hold their records in the ring
//! for some seconds at most, and for no more than a quarter of the ring: then a data point is sent
//! early, a resource is no longer waited for, and the start of a span is sent as a log record
//! `perfring.span.start` (see [`Mapping::long_spans`]) while the span is still remembered.
//!
//! ```
//! use perfring_events::Output;
//! use perfring_otlp::{Options, Otlp};
//! use std::time::{Duration, Instant};
//! let endpoint = Some("http://localhost:4318".to_owned());
//! let mut otlp = Otlp::open("collector", &Options { endpoint, ..Options::default() })?;
//! assert_eq!(otlp.unsettled(), None);
//! otlp.close(Instant::now() + Duration::from_secs(1))?;
//! # Ok::<(), perfring_events::OutputError>(())
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod batch;
#[cfg(feature = "file")]
mod file;
mod flow;
mod made;
mod mapper;
mod mapping;
mod put;
#[cfg(test)]
mod put_tests;
mod rings;
mod samples;
#[cfg(feature = "http")]
mod send;
mod spans;
mod wire;

pub use batch::Batch;
#[cfg(feature = "file")]
pub use file::{FileOptions, OtlpFile};
pub use mapper::Mapper;
pub use mapping::{Lane, LongSpans, Mapping, Plain};
#[cfg(all(feature = "fuzz", feature = "http"))]
#[doc(hidden)]
pub use send::door;
#[cfg(feature = "http")]
pub use send::{Compression, Headers, Options, Otlp, Protocol};
