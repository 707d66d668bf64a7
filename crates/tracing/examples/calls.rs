//! Calls one contestant of `cost.rs` a number of times, and nothing else: for counting instructions.
//!
//! ```text
//! cargo build --release -p perfring-tracing --example calls
//! valgrind --tool=callgrind target/release/examples/calls event 100000
//! ```
//!
//! A call costs the difference between two such runs, divided by that of their numbers. valgrind has no restartable sequences:
//! benches/NOTES.md says how rings per CPU are counted.

mod cases;

use cases::{event, event_in_span, message, span};
use perfring_producer::{CpuProducer, Options, Policy};
use perfring_telemetry::meter::{self, Instrument, Meter};
use perfring_telemetry::{Log, Severity};
use perfring_tracing::{PerfringLayer, Resource, Sink, options};
use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use tracing::Dispatch;
use tracing_subscriber::prelude::*;

fn subscriber(name: &str, dir: &Path) -> Result<Dispatch, Box<dyn Error>> {
    let options = Options { size: 1 << 20, ..options() };
    let registry = tracing_subscriber::registry();
    let fmt = tracing_subscriber::fmt::layer().with_writer(std::io::sink).with_ansi(false);
    Ok(match name {
        "nobody" => Dispatch::new(registry),
        "fmt" => Dispatch::new(registry.with(fmt)),
        "shared" => Dispatch::new(registry.with(PerfringLayer::create(dir.join("one"), &options)?)),
        _ => Dispatch::new(registry.with(PerfringLayer::open(dir.join("many"), &options)?)),
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, what, calls, to @ ..] = &args[..] else {
        return Err("calls CASE NUMBER [cpus|shared|fmt|nobody]".into());
    };
    let (calls, to) = (calls.parse()?, to.first().map_or("cpus", String::as_str));
    let dir = tempfile::tempdir()?;
    let traced = |call: fn(u64)| -> Result<(), Box<dyn Error>> {
        let subscriber = subscriber(to, dir.path())?;
        tracing::dispatcher::with_default(&subscriber, || (0..calls).for_each(call));
        Ok(())
    };
    let meter = || {
        let path = dir.path().join("meter");
        Meter::open_or_create(path, &meter::options(), Resource::here())
    };
    match &what[..] {
        "event" => traced(event)?,
        "message" => traced(message)?,
        "span" => traced(span)?,
        "both" => traced(event_in_span)?,
        "publish" => {
            let policy = Policy::Overwrite;
            let per_cpu = Options { time: true, size: 1 << 20, policy, ..Options::per_cpu() };
            let producer = CpuProducer::create(dir.path().join("unit"), &per_cpu)?;
            let mut payload = [7u8; 64];
            for n in 0..calls {
                payload[..8].copy_from_slice(&n.to_ne_bytes());
                let _ = black_box(producer.publish(black_box(&payload)));
            }
        }
        "log" => {
            let sized = Options { size: 1 << 20, ..options() };
            let sink = match to {
                "shared" => Sink::create(dir.path().join("one"), &sized, Resource::here())?,
                _ => Sink::open(dir.path().join("many"), &sized, Resource::here())?,
            };
            for n in 0..calls {
                let body = if n.is_multiple_of(2) {
                    "order 000000000001 is late"
                } else {
                    "order 000000000002 is late"
                };
                let log = Log {
                    severity: Some(Severity::Warn),
                    body: black_box(body).into(),
                    ..Log::default()
                };
                let _ = black_box(sink.emit(black_box(&log)));
            }
        }
        "counter" => {
            let counter = meter()?.counter::<u64>(&Instrument::new("counter"))?;
            (0..calls).for_each(|n| counter.add(black_box(n)));
        }
        "histogram" => {
            let histogram = meter()?.histogram(&Instrument::new("histogram"))?;
            (0..calls).for_each(|n| histogram.record(black_box(n as f64)));
        }
        "loop" => (0..calls).for_each(|n| {
            black_box(n);
        }),
        _ => return Err("no such case".into()),
    }
    Ok(())
}
