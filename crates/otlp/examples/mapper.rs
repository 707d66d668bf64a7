//! What one thread converts to requests, of each kind of record: records per second.
//!
//! `cargo run --release -p perfring-otlp --example mapper -- [KIND [LOOPS [RECORDS [PATH]]]]`: kinds are `log`, `typed`, `plain`, `text` and
//! `span`; all of them by turns, if none is named. With a PATH the records are only written to a ring there; `series` makes one
//! with RECORDS counters. The difference of two runs with different LOOPS under `valgrind --tool=callgrind` is the number of instructions.

use perfring_consumer::{Item, Snapshot};
use perfring_events::{Event, Rec, Shapes, What};
use perfring_otlp::{Mapper, Mapping};
use perfring_telemetry::meter::{self, Instrument, Meter};
use perfring_telemetry::producer::{Options, Producer};
use perfring_telemetry::types::{Class, Constant, Encoding, Field, Kind, Schema, Shape};
use perfring_telemetry::{FIRST, Log, Resource, Severity, Sink, options};
use perfring_telemetry::{SpanEnd, SpanId, SpanStart, TraceId};
use std::error::Error;
use std::path::Path;
use std::time::Instant;

const KINDS: [&str; 5] = ["log", "typed", "plain", "text", "span"];

const ANY: Shape<'static> = Shape::ANY;
/// As of a call site of `tracing`.
const TYPED: [Field<'static>; 9] = [
    Field::new("trace_id", 0, ANY),
    Field::new("span_id", 0, ANY),
    Field::new("body", 0, ANY),
    Field::new("number", 0, ANY),
    Field::constant("severity_number", Constant::U64(9)),
    Field::constant("severity_text", Constant::Str("INFO")),
    Field::constant("otel.scope.name", Constant::Str("speed")),
    Field::constant("code.file.path", Constant::Str("src/speed.rs")),
    Field::constant("code.line.number", Constant::U64(40)),
];
const PLAIN: Schema<'static> = Schema::new("speed.Plain", Encoding::Pod)
    .with_fields(
        24,
        &[
            Field::new("number", 0, Shape::plain(Kind::U64, 8)),
            Field::new("celsius", 8, Shape::plain(Kind::F64, 8)),
            Field::new("port", 16, Shape::plain(Kind::U32, 4)),
            Field::new("state", 20, Shape::plain(Kind::U32, 4)),
        ],
    )
    .with_hashed_id();

/// Makes a ring with so many counters, each of which counted its number.
fn count(path: &Path, series: u64) -> Result<(), Box<dyn Error>> {
    let room = |each: u64| (each * series).next_power_of_two().max(1 << 16);
    let options = Options { metrics_size: room(160), types_size: room(640), ..meter::options() };
    let meter = Meter::open_or_create(path, &options, Resource::here())?;
    for number in 0..series {
        let attributes = &[("route", number.into())];
        let instrument =
            Instrument { unit: "{request}", attributes, ..Instrument::new("requests") };
        meter.counter::<u64>(&instrument)?.add(number);
    }
    Ok(())
}

fn write(kind: &str, path: &Path, records: u64) -> Result<(), Box<dyn Error>> {
    let size = (512 * records).next_power_of_two().max(1 << 16);
    if matches!(kind, "plain" | "text") {
        let mut producer =
            Producer::create(path, &Options { size, time: true, ..Options::default() })?;
        producer.register(&PLAIN)?;
        for number in 0..records {
            if kind == "plain" {
                let words = [number, 21.5f64.to_bits(), 8080 | 3 << 32];
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
                producer.publish_as(PLAIN.id, &bytes)?;
            } else {
                producer.publish(format!("GET /index.html HTTP/1.1 200 {number:08}").as_bytes())?;
            }
        }
        return Ok(());
    }
    let resource = Resource::default().with("service.name", "speed");
    let sink = Sink::create(path, &Options { size, ..options() }, resource)?;
    let typed = sink.declare(Class::Log, "speed", "", &TYPED)?;
    for number in 0..records {
        let attributes = [("number", number.into()), ("http.request.method", "GET".into())];
        match kind {
            "log" => {
                let severity = Some(Severity::Info);
                let body = "a request was served".into();
                sink.emit(&Log { severity, body, attributes: &attributes, ..Log::default() })?;
            }
            "typed" => sink.write(typed, |writer| {
                writer.text(FIRST + 2, "a request was served");
                writer.u64(FIRST + 3, number);
            })?,
            _ => {
                let of = (number / 2 + 1).to_be_bytes();
                let mut trace = [1; 16];
                trace[8..].copy_from_slice(&of);
                let (trace, span, name) = (TraceId(trace), SpanId(of), "GET /index.html");
                if number % 2 == 0 {
                    let start = SpanStart::new(trace, span, name);
                    sink.emit(&SpanStart { attributes: &attributes, ..start })?;
                } else {
                    let duration_nano = Some(1000);
                    sink.emit(&SpanEnd { duration_nano, ..SpanEnd::new(trace, span, name) })?;
                }
            }
        }
    }
    Ok(())
}

/// Converts all records so many times; returns how many there are, and the bytes of the requests.
fn convert(snapshot: &Snapshot, shapes: &Shapes, loops: u64) -> Result<(u64, u64), Box<dyn Error>> {
    let mut mapper = Mapper::new(&Mapping::default());
    let (mut seq, mut records, mut bytes) = (0, 0, 0);
    for _ in 0..loops {
        for item in snapshot {
            let Item::Record(record) = item? else { continue };
            let what = What::Record(Rec::new(record, shapes.origin()));
            seq += 1;
            mapper.take(&Event { seq, origin: shapes.origin(), what });
            for (_, batch) in mapper.ready() {
                records += batch.records();
                bytes += batch.into_message().len() as u64;
            }
        }
        mapper.tend();
    }
    mapper.close();
    for (_, batch) in mapper.ready() {
        records += batch.records();
        bytes += batch.into_message().len() as u64;
    }
    assert!(records + mapper.delivered() >= seq, "{records} of {seq}");
    Ok((seq, bytes))
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let named = args.next();
    let mut number = |or| args.next().map_or(Ok(or), |arg| arg.parse::<u64>());
    let (loops, records) = (number(20)?, number(20_000)?);
    if let (Some(kind), Some(path)) = (&named, args.next()) {
        let path = path.as_ref();
        return if kind == "series" { count(path, records) } else { write(kind, path, records) };
    }
    let dir = tempfile::tempdir()?;
    for kind in KINDS.into_iter().filter(|kind| named.as_ref().is_none_or(|named| named == kind)) {
        let path = dir.path().join(kind);
        write(kind, &path, records)?;
        let snapshot = Snapshot::take(&path)?;
        let shapes = Shapes::of_snapshot(&snapshot, &path.into(), 0);
        let begin = Instant::now();
        let (records, bytes) = convert(&snapshot, &shapes, loops)?;
        let ns = begin.elapsed().as_nanos() as f64 / records as f64;
        println!("{kind}: {ns:.0} ns a record, {} bytes a record", bytes / records);
    }
    Ok(())
}
