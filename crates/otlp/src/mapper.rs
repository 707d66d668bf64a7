//! Converts events to items.

use super::batch::{Batch, Credit};
use super::flow::Flow;
use super::made::{From, Item, Made, Seen};
use super::mapping::{Lane, Mapping, Plain};
use super::put;
use super::samples::{Data, Sample, Sort};
use super::wire;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use perfring_events::{
    Event, Key, Loss, Rec, What,
    delivery::left_out::LeftOut,
    figures::{CAUSE, LOST_BYTES, LOST_RECORDS, RING},
    signal::{DirectReader, Number, Plain as PlainSignal, Signal, Temporality},
    timeline::wall_now,
};
use perfring_types::read::Value;
use prost::Message as _;
use std::sync::Arc;
use std::time::Instant;

/// The scope of perfring's own signals.
const OWN: &str = "perfring";

/// The clocks are read once in so many events, and in each turn of the caller: a read takes as long as a tenth of a record.
const EVENTS: u32 = 64;

/// The clocks, as they were read last.
#[derive(Clone, Copy, Debug)]
struct Moment {
    now: Instant,
    /// ns since 1970.
    wall: u64,
    /// Events until they are read again.
    events: u32,
}

impl Moment {
    fn read() -> Self {
        Moment { now: Instant::now(), wall: wall_now(), events: EVENTS }
    }
}

/// Converts events to batches.
#[derive(Debug)]
pub struct Mapper {
    flow: Flow,
    moment: Moment,
    left_out: LeftOut,
    direct: DirectReader,
    /// The log record that is encoded.
    encoded: Vec<u8>,
}

impl Mapper {
    /// Creates a mapper that has converted nothing.
    #[must_use]
    pub fn new(mapping: &Mapping) -> Self {
        let moment = Moment::read();
        let (left_out, direct) = (LeftOut::default(), DirectReader::default());
        Mapper { flow: Flow::new(mapping), moment, left_out, direct, encoded: Vec::new() }
    }

    /// Adds attributes to each resource.
    pub fn add_resource(&mut self, attributes: &[(String, String)]) {
        self.flow.add_resource(attributes);
    }

    /// Takes an event; then some batches may be ready.
    pub fn take(&mut self, event: &Event<'_>) {
        match self.moment.events.checked_sub(1) {
            Some(events) => self.moment.events = events,
            None => self.moment = Moment::read(),
        }
        let now = self.moment.now;
        match &event.what {
            What::Began => {
                // A recording may contain a ring's beginning twice, and items that wait must not be
                // lost.
                self.flow.ring(event.origin);
            }
            What::Record(record) => self.record(event, record, now),
            What::Lost(loss) => self.lost(event, loss, now),
            What::Ended => {
                self.direct.forget(event.origin.id);
                self.flow.ended(event, now);
            }
        }
        self.flow.tend_in_time(now);
    }

    /// Returns the batches that are ready, for good.
    pub fn ready(&mut self) -> Vec<(Lane, Batch)> {
        self.flow.ready()
    }

    /// Handles timeouts.
    pub fn tend(&mut self) {
        let now = self.end_of_turn();
        self.flow.tend(now);
    }

    /// Makes all held items ready.
    pub fn hurry(&mut self) {
        let now = self.end_of_turn();
        self.flow.release_all(now);
    }

    /// Has the next event read the clocks: the caller may sleep before it, and no record is observed before it was written.
    fn end_of_turn(&mut self) -> Instant {
        self.moment.events = 0;
        Instant::now()
    }

    /// Makes everything ready: nothing follows.
    pub fn close(&mut self) {
        self.flow.close();
    }

    /// Makes everything ready but open spans.
    #[cfg(feature = "fuzz")]
    pub fn gather(&mut self) {
        self.flow.gather();
    }

    /// Returns the oldest event of which something is held back or ready.
    pub fn oldest(&self) -> Option<u64> {
        self.flow.oldest()
    }

    /// Returns the number of records for which nothing is sent, except samples that are left out.
    pub fn delivered(&self) -> u64 {
        self.flow.delivered().saturating_sub(self.left_out.records())
    }

    /// Returns the samples of metrics that are left out.
    pub fn left_out(&self) -> &LeftOut {
        &self.left_out
    }

    /// Reports a record that should have been a sample, and counts it unless it is sent as a log record.
    fn report(&mut self, plain: &PlainSignal<'_>, is_sent: bool) {
        let Some(fault) = plain.fault.as_ref().filter(|fault| fault.is_of_metric()) else { return };
        let why = fault.message(&plain.common.attributes, plain.name);
        if is_sent {
            self.left_out.report(format!("a sample is sent as a log record: {why}"));
        } else {
            self.left_out.count(fault.cause, format!("a sample is left out: {why}"));
        }
    }

    fn record(&mut self, event: &Event<'_>, record: &Rec<'_>, now: Instant) {
        let wall = record.wall.unwrap_or(self.moment.wall);
        let credit = Credit::of(event, 1);
        let seen = Seen { ring: event.origin.id, pos: record.pos, credit, now, wall };
        self.flow.ring(event.origin).see(event.origin, wall);
        self.flow.make_room(&seen, event.origin.data_size / 4);

        let (observed, key) = (self.moment.wall, self.key(event));
        let Mapper { flow, direct, encoded, .. } = self;
        let sends_plain = flow.options.plain == Plain::Logs;
        if flow.sends(Lane::Logs) {
            let record = (seen.ring, record);
            if let Some(log) = put::direct(direct, record, sends_plain, observed, key, encoded) {
                let from = From { seen, pid: log.pid, scope: log.scope };
                return flow.hand_on_log(&from, encoded, now);
            }
        }
        let mut signal = Signal::of(record);
        let common = signal.common();
        let from = From { seen, pid: common.pid, scope: common.scope };
        let item = match &signal {
            Signal::Log(log) if flow.sends(Lane::Logs) => {
                put::log(log, observed, key, encoded);
                return flow.hand_on_log(&from, encoded, now);
            }
            Signal::Plain(plain)
                if flow.sends(Lane::Logs) && (sends_plain || plain.fault.is_some()) =>
            {
                put::plain(plain, observed, key, encoded);
                flow.hand_on_log(&from, encoded, now);
                return self.report(plain, true);
            }
            Signal::Plain(plain) => {
                self.report(plain, false);
                Item::Nothing
            }
            Signal::Resource(resource) => {
                flow.learn(event, resource, now);
                Item::Nothing
            }
            Signal::SpanStart(start) if flow.sends(Lane::Traces) => {
                return flow.start(&seen, start);
            }
            Signal::SpanEnd(end) if flow.sends(Lane::Traces) => return flow.end(&seen, end),
            Signal::Gauge(gauge) if flow.sends(Lane::Metrics) => {
                Item::sample(Sample::gauge(gauge, wall))
            }
            Signal::Sum(sum) if flow.sends(Lane::Metrics) => Item::sample(Sample::sum(sum, wall)),
            Signal::Histogram(histogram) if flow.sends(Lane::Metrics) => {
                Item::sample(Sample::histogram(histogram, wall, &flow.options))
            }
            _ => Item::Nothing,
        };
        self.flow.hand_on(from.made(item), now);
    }

    /// Returns the key that identifies an event in its log record.
    fn key(&self, event: &Event<'_>) -> Option<Key> {
        event.key().filter(|_| self.flow.options.key)
    }

    fn lost(&mut self, event: &Event<'_>, loss: &Loss, now: Instant) {
        let wall = loss.wall.unwrap_or(self.moment.wall);
        let reported = self.flow.unknown(event.origin);
        let cause = loss.cause.name();
        let made = |item| Made {
            ring: event.origin.id,
            pid: None,
            reported: Some(Arc::clone(&reported)),
            scope: OWN.into(),
            item,
            credit: Credit::of(event, 0),
            pos: loss.pos,
        };
        if self.flow.sends(Lane::Logs) {
            let count = |value: u64| wire::int(i64::try_from(value).unwrap_or(i64::MAX));
            let mut record = LogRecord {
                time_unix_nano: loss.wall.unwrap_or_default(),
                observed_time_unix_nano: self.moment.wall,
                severity_number: 13,
                severity_text: "WARN".into(),
                body: Some(wire::text(match loss.counted() {
                    Some(records) => format!("{records} records lost: {cause}"),
                    None => format!("an unknown number of records lost: {cause}"),
                })),
                attributes: vec![
                    wire::pair("perfring.lost.bytes", count(loss.bytes)),
                    wire::pair("perfring.lost.cause", wire::text(cause)),
                ],
                event_name: "perfring.loss".into(),
                ..LogRecord::default()
            };
            if let Some(records) = loss.counted() {
                record.attributes.insert(0, wire::pair("perfring.lost.records", count(records)));
            }
            if loss.at_end {
                record
                    .attributes
                    .push(wire::pair("perfring.lost.at_end", wire::any(&Value::Bool(true))));
            }
            if let Some(key) = self.key(event) {
                record.attributes.push(wire::pair("perfring.key", wire::text(key.to_string())));
            }
            self.flow.hand_on(made(Item::Log(record.encode_to_vec())), now);
        }
        if self.flow.sends(Lane::Metrics) {
            let sort = Sort { monotonic: true, temporality: Temporality::Delta };
            let sums = [(LOST_RECORDS, loss.records), (LOST_BYTES, loss.bytes)];
            for ((name, unit, description), value) in sums {
                let value = Number::Int(i64::try_from(value).unwrap_or(i64::MAX));
                let attributes: Vec<KeyValue> = vec![
                    wire::pair(CAUSE, wire::text(cause)),
                    wire::pair(RING, wire::text(event.origin.name.clone())),
                ];
                let sample = Sample {
                    name: name.into(),
                    unit: unit.into(),
                    description: description.into(),
                    attributes,
                    time: wall,
                    start: 0,
                    data: Data::Sum(value, sort),
                };
                self.flow.hand_on(made(Item::sample(sample)), now);
            }
        }
    }
}
