//! A producer process of the demo.

use super::common::{METRICS, VICTIM, failed, now_ns};
use super::records::{Cpu, Io, Processes, Pulse, Stamp};
use crate::failure::Failure;
use crate::stop::Stop;
use perfring_export::{Stream, later};
use perfring_producer::{Producer, ReserveError};
use perfring_telemetry::{
    Gauge, Log, Resource, Severity, Signal, Sink, SpanEnd, SpanId, SpanStart, TraceId, Value,
};
use perfring_types::{PodRecord, RkyvRecord};
use procfs::Current;
use signal_hook::consts::SIGTERM;
use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{TryRecvError, channel};
use std::time::{Duration, Instant};

pub(super) fn run(name: &str, dir: &Path) -> Result<(), Failure> {
    let (path, title) = (dir.join(name), format!("demo {name}"));
    let often = Duration::from_millis(100);
    if name == METRICS {
        let resource = Resource::here().with("service.name", title);
        let sink = Sink::attach(&path, resource)
            .map_err(|error| failed(format!("{}: {error}", path.display())))?;
        let mut before = None;
        return Feed::run(sink, often, |feed| sample(feed, &mut before));
    }
    let producer = Producer::attach_as(path, &title)?;
    let mut last = (Instant::now(), HashMap::new());
    match name {
        "cpu" => Feed::run(producer, often / 2, |feed| {
            let mut cpus = Cpu::read().into_iter();
            cpus.try_for_each(|cpu| feed.in_place(|stamp| Cpu { stamp, ..cpu }))
        }),
        "io" => Feed::run(producer, often, |feed| feed.in_place(Io::read)),
        "processes" => Feed::run(producer, often, |feed| {
            let began = Instant::now();
            let processes = Processes::read(&mut last, feed.stamp());
            // At most a tenth of a processor, however many processes there are.
            feed.period = often.max(began.elapsed() * 10);
            feed.archive(&processes)
        }),
        // Bursts that are larger than the ring: it must refuse some.
        "burst" => Feed::run(producer, Duration::from_millis(250), |feed| pulse(feed, 4096)),
        VICTIM => Feed::run(producer, Duration::from_micros(200), |feed| pulse(feed, 3)),
        _ => Err(Failure::Usage("demo: no such ring".to_owned())),
    }
}

/// Reads the clock so many times in a row.
fn pulse(feed: &mut Feed<Producer>, reads: u32) -> Result<(), Failure> {
    let late_ns = feed.late.as_nanos() as u64;
    let mut before = now_ns();
    for _ in 0..reads {
        feed.in_place(|stamp| {
            let gap_ns = stamp.time_ns.saturating_sub(before);
            before = stamp.time_ns;
            Pulse { stamp, gap_ns, late_ns }
        })?;
    }
    Ok(())
}

/// Publishes gauges and spans, and a log record each second. `last` has the turn before this one,
/// and the ticks by then.
fn sample(feed: &mut Feed<Sink>, last: &mut Option<(u64, (u64, u64))>) -> Result<(), Failure> {
    let (turn, before) = last.unwrap_or_else(|| {
        feed.log(Severity::Info, "samples this host", None);
        Default::default()
    });
    let trace = TraceId::random();
    feed.span("sample", (trace, None), |feed, span| {
        let within = (trace, Some(span));
        let cpus = feed.span("read /proc/stat", within, |_, _| Cpu::read());
        let (memory, load) = feed.span("read /proc/meminfo", within, |_, _| {
            (procfs::Meminfo::current().ok(), procfs::LoadAverage::current())
        });
        let now = cpus.last().map_or((0, 0), |cpu| (cpu.busy, cpu.busy + cpu.idle));
        let total = now.1.saturating_sub(before.1);
        let busy = now.0.saturating_sub(before.0) as f64 / total.max(1) as f64;
        *last = Some((turn + 1, if total > 0 { now } else { before }));
        // Less than a clock tick may have passed.
        if total > 0 {
            feed.gauge("system.cpu.utilization", "1", busy);
        }
        let of = |figure: fn(&procfs::Meminfo) -> u64| memory.as_ref().map_or(0, figure);
        let available = of(|memory| memory.mem_available.unwrap_or(memory.mem_free));
        let load = load.map_or(0.0, |load| f64::from(load.one));
        feed.gauge("system.memory.available", "By", available);
        feed.gauge("system.memory.cached", "By", of(|memory| memory.cached));
        feed.gauge("system.load_average.1m", "1", load);
        if turn % 10 == 9 {
            let free = available * 100 / of(|memory| memory.mem_total).max(1);
            let severity = if busy > 0.9 { Severity::Warn } else { Severity::Info };
            let body = format!("{free}% RAM free, load {load:.2}");
            feed.log(severity, &body, Some((trace, span)));
        }
    });
    Ok(())
}

/// What a process publishes into, and its own count of what it offered.
struct Feed<To> {
    to: To,
    period: Duration,
    /// How much later than requested the last sleep ended.
    late: Duration,
    offered: u64,
    refused: u64,
}

impl<To> Feed<To> {
    /// Prints a line, as it is attached; publishes in each period, from a line of stdin to its end;
    /// and prints its own count.
    fn run(
        to: To,
        period: Duration,
        mut publish: impl FnMut(&mut Self) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let say = |text: String| Stream::stdout().write_all(text.as_bytes());
        // The demo's first process handles Ctrl-C.
        let stop = Stop::patient()?;
        let (line, stdin) = channel();
        std::thread::spawn(move || {
            io::stdin().lines().map_while(Result::ok).all(|_| line.send(()).is_ok())
        });
        // Makes sleeps as precise as the kernel allows.
        let _ = nix::sys::prctl::set_timerslack(1);
        say("\n".to_owned()).map_err(Failure::output)?;
        let _ = stdin.recv();
        let mut feed = Feed { to, period, late: Duration::ZERO, offered: 0, refused: 0 };
        let mut due = Instant::now();
        loop {
            due = later(due, feed.period);
            let now = Instant::now();
            match due.checked_duration_since(now) {
                Some(rest) => std::thread::sleep(rest),
                None => due = now, // behind schedule: do not catch up
            }
            feed.late = Instant::now().saturating_duration_since(due);
            let is_over = stdin.try_recv() == Err(TryRecvError::Disconnected);
            if is_over || stop.signal() == Some(SIGTERM) {
                break;
            }
            publish(&mut feed)?;
        }
        let Feed { to, offered, refused, .. } = feed;
        drop(to);
        say(format!("{offered} {refused}\n")).map_err(Failure::output)
    }

    fn stamp(&self) -> Stamp {
        Stamp { seq: self.offered, time_ns: now_ns() }
    }

    /// Counts an attempt. A full ring refuses; any other error ends the demo.
    fn count(&mut self, attempt: Result<(), ReserveError>) -> Result<(), Failure> {
        self.offered += 1;
        self.refused += u64::from(attempt.is_err());
        match attempt {
            Ok(()) | Err(ReserveError::Full) => Ok(()),
            Err(error) => Err(failed(error)),
        }
    }
}

impl Feed<Producer> {
    /// Writes a plain struct in place, in the reservation.
    fn in_place<T: PodRecord>(&mut self, make: impl FnOnce(Stamp) -> T) -> Result<(), Failure> {
        let stamp = self.stamp();
        let attempt = self.to.reserve_pod::<T>().map(|mut slot| {
            *slot = make(stamp);
            slot.commit();
        });
        self.count(attempt)
    }

    /// Serialises a value in place, without an allocation.
    fn archive<T: RkyvRecord>(&mut self, value: &T) -> Result<(), Failure> {
        let attempt = self.to.publish_rkyv(value);
        self.count(attempt)
    }
}

impl Feed<Sink> {
    /// Whatever the error, the ring reports the loss.
    fn emit(&mut self, signal: &impl Signal) {
        let attempt = self.to.emit(signal);
        let _ = self.count(attempt);
    }

    fn gauge<'a>(&mut self, name: &'a str, unit: &'a str, value: impl Into<Value<'a>>) {
        self.emit(&Gauge { unit, ..Gauge::new(name, value) });
    }

    fn log(&mut self, severity: Severity, body: &str, within: Option<(TraceId, SpanId)>) {
        let attributes = [("seq", self.offered.into())];
        let (trace_id, span_id) = within.unzip();
        let (severity, body) = (Some(severity), body.into());
        let log = Log { severity, body, trace_id, span_id, ..Log::default() };
        self.emit(&Log { attributes: &attributes, ..log });
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
