//! The other end of a ring whose first end is a program in another language.
//!
//! `peer write POLICY TYPE RECORDS RING` creates the ring, prints `ready`, waits for a line,
//! publishes numbered records and prints the number of records. In a drop ring it waits for space; in an
//! overwrite ring it stops half-way, prints `half` and waits for a line, so that a reader is
//! certain to be late. `peer read POLICY TYPE RECORDS RING` prints `ready`, reads until that many
//! records were read or reported lost, and prints the number of each and the sum of the numbers
//! that were read.
//!
//! The policy is `drop` or `overwrite`. The type is `plain`, bytes that each follow from the
//! number, or `pod`, a [`Quote`] whose fields all do. A record whose content does not match its
//! number, or that is out of order, ends the program with an error.

use perfring_consumer::{Consumer, Item, Policy, RecordRef};
use perfring_producer::{Options, Producer};
use perfring_testkit::wait::WATCHDOG;
use perfring_tests::shapes::Quote;
use perfring_tests::{NUMBERED, number_of, numbered};
use perfring_types::Record as _;
use std::io::Write;

/// Payload bytes of a plain record.
const LEN: usize = 64;
/// Bytes of the ring: far less than the bytes that pass through it.
const SIZE: u64 = 1 << 18;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let [role, policy, kind, records, ring] = args[..] else {
        return Err(format!("unknown arguments: {args:?}").into());
    };
    let policy = match policy {
        "drop" => Policy::Drop,
        "overwrite" => Policy::Overwrite,
        _ => return Err(format!("{policy} is not a policy").into()),
    };
    let pod = match kind {
        "plain" => false,
        "pod" => true,
        _ => return Err(format!("{kind} is not a type").into()),
    };
    match role {
        "write" => write(policy, pod, records.parse()?, ring),
        "read" => read(pod, records.parse()?, ring),
        _ => Err(format!("{role} is not a role").into()),
    }
}

fn say(what: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{what}").and_then(|()| out.flush())
}

fn write(policy: Policy, pod: bool, records: u64, ring: &str) -> Outcome {
    let options = Options { policy, size: SIZE, ..Options::default() };
    let mut producer = Producer::create(ring, &options)?;
    producer.register(&Quote::SCHEMA)?;
    let stop = |what: &str| say(what).and_then(|()| std::io::stdin().read_line(&mut String::new()));
    stop("ready")?;
    for number in 0..records {
        if policy == Policy::Overwrite && number == records / 2 {
            stop("half")?;
        }
        if pod {
            let quote = Quote::of(number);
            producer.publish_timeout(Quote::SCHEMA.id, bytemuck::bytes_of(&quote), WATCHDOG)?;
        } else {
            producer.publish_timeout(NUMBERED, &numbered(number, LEN), WATCHDOG)?;
        }
    }
    Ok(say(&format!("written {}", producer.totals().written.records))?)
}

fn read(pod: bool, records: u64, ring: &str) -> Outcome {
    let mut consumer = Consumer::attach(ring)?;
    say("ready")?;
    let (mut next, mut read, mut lost, mut sum) = (0u64, 0u64, 0u64, 0u64);
    while next < records {
        match consumer.read()? {
            Some(Item::Record(record)) => {
                let number = if pod { quoted(&record)? } else { number_of(record.bytes) };
                if number != next {
                    return Err(format!("read {number} instead of {next}").into());
                }
                next += 1;
                read += 1;
                sum += number;
            }
            Some(Item::Lost(reported)) => {
                next += reported.records;
                lost += reported.records;
            }
            None => {
                if !consumer.wait(WATCHDOG) {
                    return Err(format!("nothing came after {next} records").into());
                }
            }
        }
    }
    Ok(say(&format!("read {read} lost {lost} sum {sum}"))?)
}

/// Returns the number of a quote, read in place, after comparing all fields.
fn quoted(record: &RecordRef<'_>) -> Outcome<u64> {
    let quote: &Quote = record.as_pod()?;
    if *quote != Quote::of(quote.number) {
        return Err(format!("{quote:?} is not what was published").into());
    }
    Ok(quote.number)
}
