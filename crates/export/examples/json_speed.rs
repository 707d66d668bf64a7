//! Lines of JSON per second of 64-byte Pod records, on one core: to memory, and to a file.
//!
//! `cargo run --release -p perfring-export --example json_speed [FILE]`

use bytemuck::{Pod, Zeroable};
use perfring_consumer::{Item, Snapshot};
use perfring_export::{Event, Output, Rec, Shapes, Took, What, json};
use perfring_producer::{Options, Producer};
use perfring_types::Record;
use std::error::Error;
use std::time::Instant;

/// A payload of eight words.
#[repr(C)]
#[derive(Clone, Copy, Record, Pod, Zeroable)]
struct Request {
    #[record(unit = "ns")]
    took: u64,
    #[record(unit = "By")]
    sent: u64,
    share: f64,
    status: u32,
    shard: u32,
    #[record(text)]
    route: [u8; 32],
}

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("requests");
    let options = Options { size: 16 << 20, time: true, ..Options::default() };
    let mut producer = Producer::create(&path, &options)?;
    for n in 0..100_000u64 {
        producer.publish_pod(&Request {
            took: 81_000 + n,
            sent: n * n,
            share: n as f64 / 3.0,
            status: 200,
            shard: n as u32 % 7,
            route: *b"/shop/orders/{order}\0\0\0\0\0\0\0\0\0\0\0\0",
        })?;
    }
    let snapshot = Snapshot::take(&path)?;
    let shapes = Shapes::of_snapshot(&snapshot, &path.into(), 0);
    let mut seq = 0;
    let mut line = Vec::new();
    for _ in 0..3 {
        let since = Instant::now();
        let mut bytes = 0;
        for item in &snapshot {
            let Item::Record(record) = item? else { continue };
            seq += 1;
            line.clear();
            let what = What::Record(Rec::new(record, shapes.origin()));
            let event = Event { seq, origin: shapes.origin(), what };
            json::encode(&event, json::Integers::Number, &Default::default(), &mut line);
            bytes += line.len();
        }
        let rate = 100_000.0 / since.elapsed().as_secs_f64();
        println!("to memory: {:.2} million lines/s, {} bytes each", rate / 1e6, bytes / 100_000);
    }
    println!("{}", String::from_utf8_lossy(&line));
    let file = std::env::args_os().nth(1).unwrap_or_else(|| dir.path().join("lines").into());
    let options =
        json::Options { path: file.into(), max_bytes: 64 << 20, keep: 1, ..Default::default() };
    let mut lines = json::JsonLines::open("json", &options)?;
    for _ in 0..5 {
        let since = Instant::now();
        for item in &snapshot {
            let Item::Record(record) = item? else { continue };
            seq += 1;
            let what = What::Record(Rec::new(record, shapes.origin()));
            let event = Event { seq, origin: shapes.origin(), what };
            while lines.take(&event)? == Took::Busy {}
        }
        lines.flush()?;
        println!("to a file: {:.2} million lines/s", 0.1 / since.elapsed().as_secs_f64());
    }
    Ok(())
}
