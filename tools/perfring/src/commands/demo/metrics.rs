//! A producer process of OpenTelemetry signals: gauges, spans and log records.

use super::host;
use super::pace::Pace;
use super::records::Cpu;
use crate::failure::Failure;
use perfring_telemetry::{
    Gauge, Log, Resource, Severity, Signal, Sink, SpanEnd, SpanId, SpanStart, TraceId, Value,
};
use std::path::Path;
use std::time::{Duration, Instant};

/// The time between two samples.
const PERIOD: Duration = Duration::from_millis(100);
/// Samples between two log records: one second.
const LOG: u64 = 10;

/// A sink, and the producer's own count of what it offered.
struct Feed {
    sink: Sink,
    offered: u64,
    refused: u64,
}

impl Feed {
    /// A refusal is counted here; the ring reports it as well.
    fn emit(&mut self, signal: &impl Signal) {
        self.offered += 1;
        self.refused += u64::from(self.sink.emit(signal).is_err());
    }

    fn gauge<'a>(&mut self, name: &'a str, unit: &'a str, value: impl Into<Value<'a>>) {
        self.emit(&Gauge { unit, ..Gauge::new(name, value) });
    }

    fn log(&mut self, severity: Severity, body: &str, trace: Option<(TraceId, SpanId)>) {
        let attributes = [("seq", self.offered.into())];
        self.emit(&Log {
            severity: Some(severity),
            body: body.into(),
            trace_id: trace.map(|(trace, _)| trace),
            span_id: trace.map(|(_, span)| span),
            attributes: &attributes,
            ..Log::default()
        });
    }

    /// Runs a closure within a span.
    fn span<T>(
        &mut self,
        name: &str,
        (trace_id, parent_span_id): (TraceId, Option<SpanId>),
        run: impl FnOnce(&mut Self, SpanId) -> T,
    ) -> T {
        let (span_id, began) = (SpanId::random(), Instant::now());
        let start = SpanStart::new(trace_id, span_id, name);
        self.emit(&SpanStart { parent_span_id, ..start });
        let done = run(self, span_id);
        let duration_nano = Some(began.elapsed().as_nanos() as u64);
        let attributes = [("seq", self.offered.into())];
        let end = SpanEnd::new(trace_id, span_id, name);
        self.emit(&SpanEnd { parent_span_id, duration_nano, attributes: &attributes, ..end });
        done
    }
}

/// Publishes until it is asked to end. Returns the records that were offered, and those refused.
pub(super) fn run(path: &Path, name: &str, pace: &mut Pace) -> Result<(u64, u64), Failure> {
    let resource = Resource::here().with("service.name", format!("demo {name}"));
    let sink = Sink::attach(path, resource)
        .map_err(|error| Failure::General(format!("demo: {}: {error}", path.display())))?;
    pace.ready();
    let mut feed = Feed { sink, offered: 0, refused: 0 };
    let mut before = Cpu::default();
    feed.log(Severity::Info, "samples this host", None);
    for turn in 1u64.. {
        if !pace.next(PERIOD) {
            break;
        }
        let trace = TraceId::random();
        feed.span("sample", (trace, None), |feed, sample| {
            let within = (trace, Some(sample));
            let cpus = feed.span("read /proc/stat", within, |_, _| host::cpus());
            let memory = feed.span("read /proc/meminfo", within, |_, _| host::memory());
            let now = cpus.last().copied().unwrap_or_default();
            let total = now.total().saturating_sub(before.total());
            let busy = now.busy().saturating_sub(before.busy()) as f64 / total.max(1) as f64;
            // Less than a clock tick may have passed.
            if total > 0 {
                feed.gauge("system.cpu.utilization", "1", busy);
                before = now;
            }
            feed.gauge("system.memory.available", "By", memory.available);
            feed.gauge("system.memory.cached", "By", memory.cached);
            feed.gauge("system.load_average.1m", "1", memory.load);
            if turn.is_multiple_of(LOG) {
                let free = memory.available * 100 / memory.total.max(1);
                let text = format!("{free}% RAM free, load {:.2}", memory.load);
                let severity = if busy > 0.9 { Severity::Warn } else { Severity::Info };
                feed.log(severity, &text, Some((trace, sample)));
            }
        });
    }
    Ok((feed.offered, feed.refused))
}
