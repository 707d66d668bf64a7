//! Publishes records that contain the time of their publish, from the process's own reading of the
//! clock.
//!
//! `stamper one|many NUMBER COUNT RING`: each payload is the number, and `CLOCK_BOOTTIME` just
//! before the publish. A last reading of the clock is printed at the end.

use perfring_consumer::advanced::MachineClock;
use perfring_producer::{Producer, SharedProducer};
use perfring_testkit::wait::WATCHDOG;
use perfring_tests::NUMBERED;

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> Outcome {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let [kind, number, count, ring] = args[..] else {
        return Err(format!("unknown arguments: {args:?}").into());
    };
    let (number, count): (u64, u64) = (number.parse()?, count.parse()?);
    let clock = MachineClock::find()?;
    let payload = || [number.to_ne_bytes(), clock.now_ns().to_ne_bytes()].concat();
    match kind {
        "one" => {
            let mut producer = Producer::attach(ring)?;
            for _ in 0..count {
                producer.publish_as(NUMBERED, &payload())?;
            }
        }
        _ => {
            let producer = SharedProducer::attach(ring)?;
            for turn in 0..count {
                // By each of the methods, batches among them. Each waits for the lock: while its
                // holder is off its core, a producer that does not wait gets `Contended`.
                match turn % 4 {
                    0 | 1 => producer.publish_timeout(NUMBERED, &payload(), WATCHDOG)?,
                    2 => {
                        let payload = payload();
                        let mut record =
                            producer.reserve_timeout(NUMBERED, payload.len(), WATCHDOG)?;
                        record.copy_from_slice(&payload);
                        record.commit();
                    }
                    _ => {
                        let payload = payload();
                        let size = producer.layout().record_size(payload.len());
                        let mut batch = loop {
                            match producer.offer_batch(2 * size as usize)? {
                                Some(batch) => break batch,
                                None => std::thread::yield_now(),
                            }
                        };
                        for _ in 0..2 {
                            batch.push_as(NUMBERED, &payload)?; // room for two
                        }
                    }
                }
            }
        }
    }
    println!("{}", clock.now_ns());
    Ok(())
}
