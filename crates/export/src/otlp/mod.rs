//! Sends logs, metrics and traces to an OTLP receiver, over HTTP: by TCP or a Unix socket.
//!
//! | of a ring | becomes |
//! |---|---|
//! | a `log` record | a log record with all its attributes, and `perfring.key` |
//! | a record without a class | a log record with its fields as attributes, its type's name as event name and `perfring.type`; a decoding error is in `perfring.fault` |
//! | a loss | a log record `perfring.loss` at its position, and counts in the sums `perfring.lost_records` and `perfring.lost_bytes` by `ring` and `cause` |
//! | a span's start and end, in one ring or two | a span |
//! | an end without a start | a span with the fields of the end, and `perfring.span.start = "missing"` |
//! | a start whose ring was removed before the end arrived | a span with the status error, `perfring.span.end = "missing"` and the last known time of the ring as its end |
//! | samples | data points, collected for [`Options::metric_interval_ms`]: the newest of a gauge, the greatest of a cumulative sum that only grows, the sum of deltas. The temporality is kept |
//! | measurements of a histogram | a delta histogram with the bounds of OpenTelemetry's SDKs: it needs no state from before this process, so nothing is counted twice after a restart |
//!
//! A record is joined with the resource that its process reported last, and waits a while for it if
//! there is none yet. The resource also has `perfring.ring.name` and `perfring.ring.uuid`.
//!
//! # Delivery
//!
//! At least once: an event is delivered when the receiver has answered for what became of it; until
//! then [`Output::undelivered`] holds it in its ring. OTLP does not recognise duplicates: after a
//! broken answer, or a crash of this process, a batch may be sent again. Duplicate log records can
//! be recognised by `perfring.key`, spans by their ids; points of delta sums cannot.
//!
//! | answer | |
//! |---|---|
//! | none; 429, 502, 503, 504 | sent again, for ever: after growing pauses, varied at random, or after `Retry-After` |
//! | 401, 403, 404, 500 and all that is not listed here | the same, and reported as what an operator must mend. OTLP's specification calls them final. This departs from it on purpose: they say nothing about the records. [`Options::headers_file`] and [`Options::token_file`] are read for each request, and a change ends the pause |
//! | 413 | sent again in halves; a single item that is too large is refused |
//! | 400, 422; what a partial success rejects | refused for good: counted by cause in [`Figures::refused_by`], reported, and kept in the file [`Options::dead_letters`]. A partial success does not say which items it rejects, so all of its request is kept |
//!
//! Items that wait here (for a span's end, a resource, more samples) hold their records in the ring
//! for some seconds at most, and for no more than a quarter of the ring: then a data point is sent
//! early, a resource is no longer waited for, and the start of a span is sent as a log record
//! `perfring.span.start` (see [`Options::long_spans`]) while the span is still remembered.
//!
//! ```
//! use perfring_export::Output;
//! use perfring_export::otlp::{Options, Otlp};
//! use std::time::{Duration, Instant};
//! let endpoint = Some("http://localhost:4318".to_owned());
//! let mut otlp = Otlp::open("collector", &Options { endpoint, ..Options::default() })?;
//! assert_eq!(otlp.undelivered(), None);
//! otlp.close(Instant::now() + Duration::from_secs(1))?;
//! # Ok::<(), perfring_export::OutputError>(())
//! ```

mod answer;
mod batch;
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub mod door;
mod flow;
mod headers;
mod http;
mod lanes;
mod made;
mod options;
mod post;
mod rings;
mod samples;
mod spans;
mod split;
mod unix;
mod wire;

use crate::dead_letters::DeadLetters;
use crate::event::{Event, Loss, Rec, What};
use crate::output::{Figures, Output, OutputError, Took};
use crate::signal::{Number, Signal, Temporality};
use crate::timeline::wall_now;
use batch::Credit;
use flow::Flow;
use http::Client;
use lanes::Lanes;
use made::{Item, Made, Seen};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use options::Route;
pub use options::{Compression, Headers, Lane, LongSpans, Options, Plain};
use samples::{Data, Sample, Sort};
use std::sync::Arc;
use std::time::Instant;

/// The scope of perfring's own signals.
const OWN: &str = "perfring";

/// Sends records to an OTLP receiver. See the [module](self).
#[derive(Debug)]
pub struct Otlp {
    name: String,
    flow: Flow,
    taken: u64,
}

impl Otlp {
    /// Creates an output of this name. It connects when there is something to send.
    ///
    /// # Errors
    /// The options, or the environment, are invalid.
    pub fn open(name: &str, options: &Options) -> Result<Self, OutputError> {
        let env = |key: &str| std::env::var(key).ok();
        let letters = options.dead_letters.as_ref();
        let most = options.dead_letters_max_bytes;
        let letters = letters.map(|path| DeadLetters::open(name, path, most)).transpose()?;
        let mut clients = Vec::new();
        for lane in Lane::ALL.into_iter().filter(|lane| options.signals.contains(lane)) {
            clients.push(Client::new(name, Route::new(name, lane, options, &env)?)?);
        }
        Self::with(name, options, clients, letters)
    }

    fn with(
        name: &str,
        options: &Options,
        clients: Vec<Client>,
        letters: Option<DeadLetters>,
    ) -> Result<Self, OutputError> {
        let fault =
            |bad| OutputError::new(name, format!("a thread to send cannot be started: {bad}"));
        let lanes = Lanes::start(name, clients, letters).map_err(fault)?;
        Ok(Otlp { name: name.to_owned(), flow: Flow::new(options, lanes), taken: 0 })
    }

    fn record(&mut self, event: &Event<'_>, record: &Rec<'_>, now: Instant) {
        self.taken += 1;
        let wall = record.wall.unwrap_or_else(wall_now);
        let seen = Seen { ring: event.origin.id, pos: record.pos, seq: event.seq, now, wall };
        self.flow.ring(event.origin).see(event.origin, wall);
        self.flow.make_room(&seen, event.origin.data_size / 4);

        let credit = Credit { seq: seen.seq, records: 1 };
        let mut made = Made {
            ring: seen.ring,
            pid: None,
            reported: None,
            scope: String::new(),
            item: Item::Nothing,
            credit,
            pos: seen.pos,
        };
        let mut signal = Signal::of(record);
        let common = signal.common();
        made.pid = common.pid;
        common.scope.clone_into(&mut made.scope);
        match &signal {
            Signal::Resource(resource) => self.flow.learn(event, resource, now),
            Signal::Log(log) if self.flow.sends(Lane::Logs) => {
                made.item = Item::Log(self.keyed(wire::log(log, wall_now()), event));
            }
            Signal::Plain(plain)
                if self.flow.sends(Lane::Logs)
                    && (self.flow.options.plain == Plain::Logs || plain.fault.is_some()) =>
            {
                made.item = Item::Log(self.keyed(wire::plain(plain, wall_now()), event));
            }
            Signal::SpanStart(start) if self.flow.sends(Lane::Traces) => {
                return self.flow.start(&seen, start);
            }
            Signal::SpanEnd(end) if self.flow.sends(Lane::Traces) => {
                return self.flow.end(&seen, end);
            }
            Signal::Gauge(gauge) if self.flow.sends(Lane::Metrics) => {
                made.item = Item::Sample(Sample::gauge(gauge, wall));
            }
            Signal::Sum(sum) if self.flow.sends(Lane::Metrics) => {
                made.item = Item::Sample(Sample::sum(sum, wall));
            }
            Signal::Histogram(histogram) if self.flow.sends(Lane::Metrics) => {
                made.item = Item::Sample(Sample::histogram(histogram, wall));
            }
            _ => {}
        }
        self.flow.hand_on(made, now);
    }

    fn keyed(&self, mut record: LogRecord, event: &Event<'_>) -> LogRecord {
        if self.flow.options.key
            && let Some(key) = event.key()
        {
            record.attributes.push(wire::pair("perfring.key", wire::text(key.to_string())));
        }
        record
    }

    fn lost(&mut self, event: &Event<'_>, loss: &Loss, now: Instant) {
        let wall = loss.wall.unwrap_or_else(wall_now);
        let reported = self.flow.unknown(event.origin);
        let cause = loss.cause.name();
        let made = |item| Made {
            ring: event.origin.id,
            pid: None,
            reported: Some(Arc::clone(&reported)),
            scope: OWN.into(),
            item,
            credit: Credit { seq: event.seq, records: 0 },
            pos: loss.pos,
        };
        if self.flow.sends(Lane::Logs) {
            let count = |value: u64| wire::int(i64::try_from(value).unwrap_or(i64::MAX));
            let record = LogRecord {
                time_unix_nano: loss.wall.unwrap_or_default(),
                observed_time_unix_nano: wall_now(),
                severity_number: 13,
                severity_text: "WARN".into(),
                body: Some(wire::text(format!("{} records lost: {cause}", loss.records))),
                attributes: vec![
                    wire::pair("perfring.lost.records", count(loss.records)),
                    wire::pair("perfring.lost.bytes", count(loss.bytes)),
                    wire::pair("perfring.lost.cause", wire::text(cause)),
                ],
                event_name: "perfring.loss".into(),
                ..LogRecord::default()
            };
            let record = self.keyed(record, event);
            self.flow.hand_on(made(Item::Log(record)), now);
        }
        if self.flow.sends(Lane::Metrics) {
            let sort = Sort { monotonic: true, temporality: Temporality::Delta };
            let sums = [
                ("perfring.lost_records", "{record}", loss.records),
                ("perfring.lost_bytes", "By", loss.bytes),
            ];
            for (name, unit, value) in sums {
                let value = Number::Int(i64::try_from(value).unwrap_or(i64::MAX));
                let attributes: Vec<KeyValue> = vec![
                    wire::pair("cause", wire::text(cause)),
                    wire::pair("ring", wire::text(event.origin.name.clone())),
                ];
                let sample = Sample {
                    name: name.into(),
                    unit: unit.into(),
                    description: "what the ring lost before it could be read".into(),
                    attributes,
                    time: wall,
                    start: 0,
                    data: Data::Sum(value, sort),
                };
                self.flow.hand_on(made(Item::Sample(sample)), now);
            }
        }
    }
}

impl Output for Otlp {
    fn take(&mut self, event: &Event<'_>) -> Result<Took, OutputError> {
        if self.flow.is_full() {
            return Ok(Took::Busy);
        }
        let now = Instant::now();
        match &event.what {
            What::Began => {
                // A recording may contain a ring's beginning twice, and items that wait must not be
                // lost.
                self.flow.ring(event.origin);
            }
            What::Record(record) => self.record(event, record, now),
            What::Lost(loss) => self.lost(event, loss, now),
            What::Ended => self.flow.ended(event, now),
        }
        self.flow.tend_in_time(now);
        Ok(Took::Yes)
    }

    fn flush(&mut self) -> Result<(), OutputError> {
        self.flow.tend(Instant::now());
        Ok(())
    }

    fn hurry(&mut self) {
        self.flow.release_all(Instant::now());
    }

    fn undelivered(&mut self) -> Option<u64> {
        self.flow.oldest()
    }

    fn close(&mut self, deadline: Instant) -> Result<(), OutputError> {
        self.flow.close(deadline).map_err(|(records, trouble)| {
            let why = trouble.map(|why| format!(": {why}")).unwrap_or_default();
            let sentence = format!("{records} records were not delivered in time{why}");
            OutputError::new(&self.name, sentence)
        })
    }

    fn figures(&self) -> Figures {
        Figures { taken: self.taken, ..self.flow.figures() }
    }
}
