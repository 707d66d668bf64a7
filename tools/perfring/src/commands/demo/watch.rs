//! The demo's own sidecar output: counts, checks and times every record.

use super::records::Sample;
use super::says::Says;
use super::screen::Nanos;
use super::stations::{STATIONS, Topic, now_ns};
use crate::failure::Failure;
use hdrhistogram::Histogram;
use perfring_consumer::{Cause, Count};
use perfring_export::{Event, Figures, Loss, LossCause, Output, OutputError, Rec, Took, What};
use perfring_types::Class;
use perfring_types::read::Value;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// What was read of one ring.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) records: u64,
    /// Of the records, those in which a telemetry sink describes its process by itself.
    pub(super) resources: u64,
    /// Reported in the stream, by cause.
    pub(super) full: Count,
    pub(super) too_large: Count,
    pub(super) lapped: Count,
    /// Sequence numbers that are missing.
    pub(super) missing: u64,
    /// The next sequence number.
    pub(super) next_seq: u64,
    /// Records that do not match their type, or are out of order.
    pub(super) wrong: u64,
    /// The times of the first and the last record.
    first_ns: u64,
    last_ns: u64,
    /// From the record's timestamp to its reading, ns.
    pub(super) latency: Histogram<u64>,
    says: Says,
}

impl Seen {
    fn new() -> Result<Self, Failure> {
        const MINUTE: u64 = 60_000_000_000;
        let latency = Histogram::new_with_bounds(1, MINUTE, 3)
            .map_err(|error| Failure::General(format!("demo: {error}")))?;
        Ok(Seen {
            records: 0,
            resources: 0,
            full: Count::default(),
            too_large: Count::default(),
            lapped: Count::default(),
            missing: 0,
            next_seq: 0,
            wrong: 0,
            first_ns: 0,
            last_ns: 0,
            latency,
            says: Says::default(),
        })
    }

    pub(super) fn lost(&self) -> u64 {
        self.full.records + self.too_large.records + self.lapped.records
    }

    /// Records per second, from the first to the last.
    pub(super) fn rate(&self) -> u64 {
        let ns = self.last_ns.saturating_sub(self.first_ns).max(1);
        (self.records.saturating_sub(1) as f64 * 1e9 / ns as f64).round() as u64
    }

    pub(super) fn quantile(&self, quantile: f64) -> Nanos {
        Nanos(self.latency.value_at_quantile(quantile))
    }

    /// Returns the summary of the records since the last call.
    pub(super) fn says(&mut self) -> String {
        self.says.line()
    }

    fn record(&mut self, topic: Topic, record: &Rec<'_>) {
        let Some(time_ns) = record.time else {
            self.wrong += 1;
            return;
        };
        if self.records == 0 {
            self.first_ns = time_ns;
        }
        self.last_ns = time_ns;
        self.records += 1;
        self.latency.saturating_record(now_ns().saturating_sub(time_ns));
        if topic == Topic::Metrics {
            self.signal(record);
            return;
        }
        match Sample::decode(record.kind, record.bytes) {
            Some(sample) => {
                self.number(sample.seq());
                self.says.take(&sample);
            }
            None => self.wrong += 1,
        }
    }

    /// Counts one of OpenTelemetry's signals. Span ends and log records have a sequence number; the
    /// others in between are counted, so a gap shows at the next number.
    fn signal(&mut self, record: &Rec<'_>) {
        let class = record.kind_of().and_then(|kind| kind.class.known());
        let (Some(class), Some(Ok(value))) = (class, record.value()) else {
            self.wrong += 1;
            return;
        };
        if class == Class::Resource {
            self.resources += 1;
            return;
        }
        match value.get("seq") {
            Some(Value::U64(seq)) => self.number(*seq),
            _ => self.next_seq += 1,
        }
        if let (Class::Log, Some(Value::Str(body))) = (class, value.get("body")) {
            self.says.log(body);
        }
    }

    fn number(&mut self, seq: u64) {
        match seq.checked_sub(self.next_seq) {
            Some(gap) => {
                self.missing += gap;
                self.next_seq = seq + 1;
            }
            None => self.wrong += 1,
        }
    }

    fn lost_some(&mut self, loss: &Loss) {
        let count = match loss.cause {
            LossCause::Ring(Cause::Lapped) => &mut self.lapped,
            LossCause::Ring(Cause::TooLarge) => &mut self.too_large,
            _ => &mut self.full,
        };
        *count = count.plus(Count { records: loss.records, bytes: loss.bytes });
    }
}

/// What was read of all rings, in the order of [`STATIONS`]. The sidecar's engine fills it; the
/// screen shows it.
#[derive(Clone, Debug)]
pub(super) struct Watch(Arc<Mutex<Vec<Seen>>>);

impl Watch {
    pub(super) fn new() -> Result<Self, Failure> {
        let all: Result<Vec<Seen>, Failure> = STATIONS.iter().map(|_| Seen::new()).collect();
        Ok(Watch(Arc::new(Mutex::new(all?))))
    }

    pub(super) fn peek(&self) -> MutexGuard<'_, Vec<Seen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Output for Watch {
    fn take(&mut self, event: &Event<'_>) -> Result<Took, OutputError> {
        let at = STATIONS.iter().position(|station| station.name == event.origin.name);
        let mut all = self.peek();
        if let Some(at) = at
            && let Some(seen) = all.get_mut(at)
        {
            match &event.what {
                What::Record(record) => seen.record(STATIONS[at].topic, record),
                What::Lost(loss) => seen.lost_some(loss),
                What::Began | What::Ended => {}
            }
        }
        Ok(Took::Yes)
    }

    fn flush(&mut self) -> Result<(), OutputError> {
        Ok(())
    }

    fn unsettled(&mut self) -> Option<u64> {
        None
    }

    fn close(&mut self, _deadline: Instant) -> Result<(), OutputError> {
        Ok(())
    }

    fn figures(&self) -> Figures {
        let taken = self.peek().iter().map(|seen| seen.records).sum();
        Figures { taken, delivered: taken, ..Figures::default() }
    }
}
