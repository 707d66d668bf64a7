//! The cost of the engine: one core drains the rings of eight producers, full of 64-byte records
//! with timestamps, to an output that does nothing, in the order of time; and the same with records of eight types.
//!
//! `cargo run --release -p perfring-sidecar --example drain`

use perfring_consumer::Location;
use perfring_export::Null;
use perfring_producer::types::{Encoding, Schema};
use perfring_producer::{Options, Producer, RecordType};
use perfring_sidecar::config::{Delivery, Input, InputSource};
use perfring_sidecar::{Engine, Turn};
use std::error::Error;
use std::time::Duration;

const RINGS: usize = 8;

/// Returns this thread's CPU time, which excludes other processes.
fn busy() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(stat.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0))
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("bytes: {}", drain(&[])?);
    let names: [_; 8] = std::array::from_fn(|n| format!("drain.Kind{n}"));
    let kinds = names.each_ref().map(|name| Schema::new(name, Encoding::Utf8).with_hashed_id());
    println!("of eight types: {}", drain(&kinds)?);
    Ok(())
}

/// Drains records of these types by turns, or plain bytes. Returns what it took.
fn drain(kinds: &[Schema<'_>]) -> Result<String, Box<dyn Error>> {
    let dir = tempfile::tempdir_in("/dev/shm")?;
    let options = Options { size: 1 << 20, time: true, ..Options::default() };
    let paths: Vec<_> = (0..RINGS).map(|n| dir.path().join(format!("ring-{n}"))).collect();
    let mut producers = Vec::new();
    for path in &paths {
        let mut producer = Producer::create(path, &options)?;
        kinds.iter().try_for_each(|kind| producer.register(kind))?;
        producers.push(producer);
    }
    let mut engine = Engine::new(Duration::from_millis(1))?;
    engine.add_output("null", Delivery::Required, Default::default(), Box::new(Null::default()))?;
    for path in &paths {
        let location = Location::from(path.clone());
        engine
            .attach(&location, &Input::new(InputSource::Ring(location.clone())), None, |_| None)?;
    }
    let (mut all, mut took) = (0, Duration::ZERO);
    for _ in 0..200 {
        let mut written = 0u64;
        let mut ids = kinds.iter().map(|kind| kind.id).cycle();
        'full: loop {
            let id = ids.next().unwrap_or(RecordType::BYTES);
            for producer in &mut producers {
                if producer.publish_as(id, &[b'7'; 64]).is_err() {
                    break 'full;
                }
                written += 1;
            }
        }
        let read = |engine: &Engine| engine.rings().map(|ring| ring.figures.records).sum::<u64>();
        let before = read(&engine);
        std::thread::sleep(Duration::from_millis(2));
        let since = busy();
        while read(&engine) - before < written {
            if engine.turn() != Turn::More {
                engine.wait(Duration::from_millis(1));
            }
        }
        took += busy() - since;
        all += written;
    }
    let rate = all as f64 / took.as_secs_f64() / 1e6;
    Ok(format!("{all} records, {rate:.1} million for each second of one core"))
}
