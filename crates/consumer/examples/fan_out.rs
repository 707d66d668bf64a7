//! What it costs to be waited for: one ordinary consumer, and 1, 2 and 4 named ones, each of which
//! gets and verifies every byte of every record. Nothing is lost: the producer waits for the slowest.
//!
//! `cargo run --release -p perfring-consumer --example fan_out`. Each consumer is a thread with a
//! mapping of its own; with fewer cores than threads the figures are those of the scheduler.

use perfring_consumer::{Consumer, ConsumerOptions, Item, advanced::Lines};
use perfring_producer::{Options, Producer, RecordType};
use std::time::{Duration, Instant};

const LEN: usize = 64;
const RECORDS: u64 = 4_000_000;
const LONG: Duration = Duration::from_secs(60);

fn payload(id: u64) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    for (nth, word) in bytes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        *word = (id ^ nth as u64).to_ne_bytes();
    }
    bytes
}

/// Returns whether it got all, and no loss.
fn read_all(mut consumer: Consumer) -> bool {
    let mut next = 0;
    while next < RECORDS {
        consumer.wait(LONG);
        while let Some(item) = consumer.read().expect("a whole ring") {
            let Item::Record(record) = item else { return false };
            assert_eq!(record.bytes, payload(next), "record {next}");
            next += 1;
        }
    }
    true
}

/// Returns millions of records a second; each consumer gets all of them.
fn rate(consumers: u32, lines: Lines) -> Result<f64, Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir_in("/dev/shm")?;
    let path = dir.path().join("ring");
    let mut producer = Producer::create(&path, &Options { consumers, ..Options::default() })?;
    let readers = (0..consumers.max(1)).map(|nth| {
        let named = ConsumerOptions::named(format!("consumer {nth}"));
        let consumer = Consumer::attach_with(&path, &ConsumerOptions { lines, ..named })?;
        Ok(std::thread::spawn(move || read_all(consumer)))
    });
    let readers: Vec<_> = readers.collect::<Result<_, perfring_consumer::AttachError>>()?;
    let began = Instant::now();
    for id in 0..RECORDS {
        producer.publish_timeout(RecordType::BYTES, &payload(id), LONG)?;
    }
    let whole = |reader: std::thread::JoinHandle<bool>| reader.join().is_ok_and(|whole| whole);
    assert!(readers.into_iter().all(whole), "each gets every byte");
    Ok(RECORDS as f64 / began.elapsed().as_secs_f64() / 1e6)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("{RECORDS} records of {LEN} bytes, a ring of 1 MiB; the median of 5");
    let mut ordinary = 0.0;
    let all = [
        (0, Lines::WriteTouch),
        (0, Lines::Leave),
        (1, Lines::Leave),
        (2, Lines::Leave),
        (4, Lines::Leave),
    ];
    for (consumers, lines) in all {
        let mut rates = Vec::new();
        for _ in 0..5 {
            rates.push(rate(consumers, lines)?);
        }
        rates.sort_by(f64::total_cmp);
        let median = rates[2];
        let what = match consumers {
            0 if lines == Lines::Leave => "one, leaves its lines".to_owned(),
            0 => "one ordinary consumer".to_owned(),
            n => format!("{n} named"),
        };
        if ordinary == 0.0 {
            ordinary = median;
        }
        println!("{what:<22} {median:>7.1} million records/s, {:.2}", median / ordinary);
    }
    Ok(())
}
