//! The demo's own output of the sidecar: it counts, checks and times every record.

use super::common::{METRICS, STATIONS, now_ns};
use super::records::{Cpu, Pulse};
use super::screen::{bytes, nanos};
use super::why::Why;
use hdrhistogram::Histogram;
use indicatif::HumanCount;
use perfring_consumer::{Cause, stat::RingTotals};
use perfring_export::{Event, Figures, LossCause, Output, OutputError, Rec, Took, Totals, What};
use perfring_types::Class;
use perfring_types::read::Value;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// What was read of one ring.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) began: bool,
    /// Records, and what the stream reports as lost.
    pub(super) totals: Totals,
    /// Of the records, those in which a telemetry sink describes its process by itself.
    pub(super) resources: u64,
    /// Sequence numbers that are missing.
    pub(super) missing: u64,
    /// The next sequence number.
    pub(super) next_seq: u64,
    /// Records that do not match their type, or are out of order.
    pub(super) wrong: u64,
    /// The times of the first and the last record.
    times: Option<(u64, u64)>,
    /// From the record's timestamp to its reading, ns.
    latency: Option<Histogram<u64>>,
    /// The last record of which the table says something, and the one before the last line.
    now: Option<Value>,
    before: Option<Value>,
    /// The longest times of the pulses since the last line.
    gap_ns: u64,
    late_ns: u64,
    line: String,
}

impl Seen {
    /// Returns how many records the reader missed in an overwrite ring.
    pub(super) fn lapped(&self) -> u64 {
        let mut losses = self.totals.losses.iter();
        let lapped = losses.find(|(cause, ..)| *cause == LossCause::Ring(Cause::Lapped));
        lapped.map_or(0, |(_, records, _)| *records)
    }

    /// Returns whether these are all records and losses of the ring. A loss may stand after the
    /// last record.
    pub(super) fn is_all(&self, totals: Option<&RingTotals>) -> bool {
        let Some(RingTotals { producer, .. }) = totals else { return true };
        let lapped = self.lapped();
        self.totals.records + lapped >= producer.written.records
            && self.totals.lost() - lapped >= producer.refused.total().records
    }

    /// Records per second, from the first to the last.
    pub(super) fn rate(&self) -> u64 {
        let ns = self.times.map_or(0, |(first, last)| last.saturating_sub(first)).max(1);
        (self.totals.records.saturating_sub(1) as f64 * 1e9 / ns as f64).round() as u64
    }

    pub(super) fn quantile(&self, quantile: f64) -> String {
        nanos(self.latency.as_ref().map_or(0, |latency| latency.value_at_quantile(quantile)))
    }

    fn take(&mut self, ring: &str, record: &Rec<'_>) {
        let Some(time_ns) = record.time else {
            self.wrong += 1;
            return;
        };
        self.times = Some((self.times.map_or(time_ns, |(first, _)| first), time_ns));
        if let Some(latency) = &mut self.latency {
            latency.saturating_record(now_ns().saturating_sub(time_ns));
        }
        // Most records are pulses: these are read without their names.
        if let Some(Pulse { stamp, gap_ns, late_ns }) = Pulse::of(record.kind, record.bytes) {
            self.gap_ns = self.gap_ns.max(gap_ns);
            self.late_ns = self.late_ns.max(late_ns);
            return self.number(stamp.seq);
        }
        let Some(Ok(value)) = record.value() else {
            self.wrong += 1;
            return;
        };
        let class = record.kind_of().and_then(|kind| kind.class.known());
        if class == Some(Class::Resource) {
            self.resources += 1;
            return;
        }
        match value.get("seq").or_else(|| value.get("stamp.seq")) {
            Some(Value::U64(seq)) => self.number(*seq),
            // Of signals, span ends and log records have a number. The others in between are
            // counted, so a gap shows at the next number.
            _ => self.next_seq += 1,
        }
        let is_shown = match ring {
            METRICS => class == Some(Class::Log),
            "cpu" => number(value, "cpu") == Cpu::ALL,
            _ => true,
        };
        if is_shown {
            self.now = Some(value.clone());
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

    /// Returns a summary of the records since the last call.
    pub(super) fn says(&mut self, ring: &str) -> String {
        if self.gap_ns > 0 {
            self.line = format!("gap {}, late {}", nanos(self.gap_ns), nanos(self.late_ns));
            (self.gap_ns, self.late_ns) = (0, 0);
        } else if let Some(now) = self.now.take() {
            self.line = sentence(ring, &now, self.before.as_ref()).unwrap_or(self.line.clone());
            self.before = Some(now);
        }
        self.line.clone()
    }
}

/// Returns what a ring's record says, compared with one before it.
fn sentence(ring: &str, now: &Value, before: Option<&Value>) -> Option<String> {
    let earlier = |path: &str| before.map_or(0, |before| number(before, path));
    let grown = |path: &str| number(now, path).saturating_sub(earlier(path));
    let text = |path: &str| match now.get(path) {
        Some(Value::Str(text)) => Some(text.clone()),
        _ => None,
    };
    match ring {
        "cpu" => {
            let busy = grown("busy");
            // Less than a clock tick may have passed: the last summary stays.
            let percent = (busy * 100).checked_div(busy + grown("idle"))?;
            let switches = grown("switches") * 1_000_000_000 / grown("stamp.time_ns").max(1);
            Some(match before {
                None => format!("{percent}% busy since boot"),
                Some(_) => format!("{percent}% busy, {} cs/s", HumanCount(switches)),
            })
        }
        "io" => {
            before?;
            let seconds = grown("stamp.time_ns") as f64 / 1e9;
            let rate = |of| bytes((grown(of) as f64 / seconds) as u64);
            let [disk, net] = ["disk_bytes", "net_bytes"].map(rate);
            Some(format!("disk {disk}/s, net {net}/s"))
        }
        "processes" => {
            let busiest = text("busiest.0.name")
                .map(|name| format!(", {name} {}%", number(now, "busiest.0.cpu_permille") / 10));
            Some(format!("{} run{}", number(now, "count"), busiest.unwrap_or_default()))
        }
        _ => text("body"),
    }
}

/// Returns the number at this path.
fn number(value: &Value, path: &str) -> u64 {
    match value.get(path) {
        Some(Value::U64(number)) => *number,
        _ => 0,
    }
}

/// What was read of all rings, in the order of [`STATIONS`], and what explains their losses. The sidecar's engine fills it;
/// the screen shows it.
#[derive(Clone)]
pub(super) struct Watch(Arc<Mutex<[Seen; STATIONS.len()]>>, Arc<Mutex<Why>>);

impl Watch {
    pub(super) fn new() -> Self {
        // These bounds are valid ones: it is there.
        let latency = Histogram::new_with_bounds(1, 60_000_000_000, 3).ok();
        let seen = STATIONS.map(|_| Seen { latency: latency.clone(), ..Seen::default() });
        Watch(Arc::new(Mutex::new(seen)), Arc::new(Mutex::new(Why::new())))
    }

    pub(super) fn why(&self) -> MutexGuard<'_, Why> {
        self.1.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn peek(&self) -> MutexGuard<'_, [Seen; STATIONS.len()]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Output for Watch {
    fn take(&mut self, event: &Event<'_>) -> Result<Took, OutputError> {
        let name = &*event.origin.name;
        // The screen takes this lock, too.
        if !matches!(event.what, What::Record(_)) {
            self.why().read(event);
        }
        let mut all = self.peek();
        let mut all = STATIONS.iter().zip(all.iter_mut());
        if let Some((_, seen)) = all.find(|(station, _)| station.name == name) {
            seen.began = true;
            seen.totals.add(event);
            if let What::Record(record) = &event.what {
                seen.take(name, record);
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
        let taken = self.peek().iter().map(|seen| seen.totals.records).sum();
        Figures { taken, delivered: taken, ..Figures::default() }
    }
}
