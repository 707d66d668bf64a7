//! The process that tests stop, step and kill.
//!
//! `actor kill SCENARIO RING` stops itself, does one thing, stops itself again.
//! `actor quiet POLICY RING` moves a million records between two system calls, and counts allocations.
//! `actor produce COUNT RING`, `actor hold ROLE RING`: see their functions.

use nix::sys::signal::{Signal, raise};
use perfring_consumer::{Consumer, ConsumerOptions, Item, Observer, Start};
use perfring_producer::types::{Encoding, Schema};
use perfring_producer::{Batch, Options, Producer, ReserveError, SharedProducer};
use perfring_tests::shapes::{Line, Quote};
use perfring_tests::{NUMBERED, OTHER_TYPE, number_of, numbered, register as register_type};
use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts allocations.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: passes everything to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) };
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> Outcome {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["kill", scenario, ring] => kill(scenario, ring),
        ["quiet", policy, ring] => quiet(policy, ring),
        ["produce", count, len, ring] => produce(count.parse()?, len.parse()?, ring),
        ["hold", role, ring] => hold(role, ring),
        ["create", mode, ring] => make(mode, ring),
        ["observe", ring] => observe(ring),
        ["register", count, from, ring] => register(count.parse()?, from.parse()?, ring),
        _ => Err(format!("unknown arguments: {args:?}").into()),
    }
}

/// Takes one step between two stops. The published numbers continue those in the ring.
fn kill(scenario: &str, ring: &str) -> Outcome {
    nix::sys::ptrace::traceme()?;
    if scenario == "attach" {
        raise(Signal::SIGSTOP)?;
        let producer = Producer::attach(ring)?;
        raise(Signal::SIGSTOP)?;
        std::mem::forget(producer);
        return Ok(());
    }
    if scenario == "release" {
        let mut consumer = Consumer::attach(ring)?;
        while let Some(item) = consumer.read()? {
            std::hint::black_box(item);
        }
        raise(Signal::SIGSTOP)?;
        consumer.release();
        raise(Signal::SIGSTOP)?;
        std::mem::forget(consumer);
        return Ok(());
    }
    if let "consume" | "hand out" = scenario {
        let mut consumer = Consumer::attach(ring)?;
        raise(Signal::SIGSTOP)?;
        while let Some(Item::Record(record)) = consumer.read()? {
            std::hint::black_box(number_of(record.bytes));
        }
        if scenario == "consume" {
            consumer.release();
        }
        raise(Signal::SIGSTOP)?;
        std::mem::forget(consumer);
        return Ok(());
    }
    let mut producer = Producer::attach(ring)?;
    let next = producer.totals().written.records;
    // Made before the first stop: only the steps in the ring count.
    let payloads: Vec<Vec<u8>> = (next..next + 3).map(|number| numbered(number, 100)).collect();
    let large = numbered(next, 5000);
    if scenario == "refused again" {
        // From the third in a row on, only changed words are stored.
        for _ in 0..3 {
            assert_ne!(producer.publish_as(NUMBERED, &payloads[0]), Ok(()));
        }
    }
    raise(Signal::SIGSTOP)?;
    match scenario {
        "publish" | "refused again" => {
            let _ = std::hint::black_box(producer.publish_as(NUMBERED, &payloads[0]));
        }
        "reserve" => {
            if let Ok(mut record) = producer.reserve(NUMBERED, 200) {
                record[..100].copy_from_slice(&payloads[0]);
                record.commit_len(100);
            }
        }
        // A range of the AUX area, if the ring has one; all of it written, or its beginning.
        "large" => {
            let _ = std::hint::black_box(producer.publish_as(NUMBERED, &large));
        }
        "large shorter" => {
            if let Ok(mut record) = producer.reserve(NUMBERED, 5000) {
                record[..100].copy_from_slice(&payloads[0]);
                record.commit_len(100);
            }
        }
        "large discard" => {
            if let Ok(mut record) = producer.reserve(NUMBERED, 5000) {
                record[..100].copy_from_slice(&payloads[0]);
                record.discard();
            }
        }
        "large batch" => {
            let mut batch: Batch<'_> = producer.batch();
            let _ = std::hint::black_box(batch.push_as(NUMBERED, &payloads[0]));
            if let Ok(mut record) = batch.reserve(NUMBERED, 5000) {
                record[..100].copy_from_slice(&payloads[1]);
                record.commit_len(100);
            }
            let _ = std::hint::black_box(batch.push_as(NUMBERED, &payloads[2]));
            drop(batch);
        }
        "discard" => {
            if let Ok(mut record) = producer.reserve(NUMBERED, 100) {
                record.copy_from_slice(&payloads[0]);
                record.discard();
            }
        }
        "batch" => {
            let mut batch: Batch<'_> = producer.batch();
            for payload in &payloads {
                let _ = std::hint::black_box(batch.push_as(NUMBERED, payload));
            }
            drop(batch);
        }
        "register" => {
            let _ = std::hint::black_box(producer.register(&OTHER_TYPE));
        }
        "detach" => drop(producer),
        _ => return Err("unknown scenario".into()),
    }
    raise(Signal::SIGSTOP)?;
    Ok(())
}

/// Moves a million records through both hot paths, between two calls of `getppid` that a tracer
/// detects.
fn quiet(policy: &str, ring: &str) -> Outcome {
    if std::env::var_os("PERFRING_TRACED").is_some() {
        nix::sys::ptrace::traceme()?;
        raise(Signal::SIGSTOP)?;
    }
    let mut producer = Producer::attach(ring)?;
    let mut consumer = Consumer::attach(ring)?;
    let mut observer = Observer::attach(ring, Start::Oldest)?;
    let (mut moved, mut typed) = (0u64, 0u64);
    let tags = ["one", "of more than eight bytes"].map(str::to_owned).to_vec();
    let (message, code) = ("something happened".to_owned(), Some(-1));
    let mut line = Line { number: 0, message, took: 1.5, code, tags };
    let mut round = |count: u64| -> Outcome {
        for number in 0..count {
            producer.publish_as(NUMBERED, &number.to_le_bytes())?;
            let mut record = producer.reserve(NUMBERED, 72)?;
            record.fill(number as u8);
            record.commit();
            let mut batch = producer.batch();
            batch.push_as(NUMBERED, &[1; 24])?;
            batch.push_as(NUMBERED, &[2; 24])?;
            drop(batch);
            producer.publish_pod(&Quote::of(number))?;
            *producer.reserve_pod::<Quote>()? = Quote::of(number);
            line.number = number;
            producer.publish_rkyv(&line)?;
            while let Some(item) = consumer.read()? {
                if let Item::Record(record) = item {
                    typed +=
                        u64::from(record.as_pod::<Quote>().is_ok_and(|q| *q == Quote::of(number)));
                    typed += u64::from(record.archived::<Line>().is_ok_and(|read| *read == line));
                    moved += 1;
                }
            }
            while let Some(item) = observer.read()? {
                std::hint::black_box(item);
            }
        }
        Ok(())
    };
    round(1000)?; // page faults and lazy binding
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    std::hint::black_box(nix::unistd::getppid());
    round(150_000)?;
    std::hint::black_box(nix::unistd::getppid());
    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
    println!("{policy} moved {moved} typed {typed} allocations {allocations}");
    Ok(())
}

/// Publishes numbered records, `len` bytes each, waiting for space, then prints the result.
fn produce(count: u64, len: usize, ring: &str) -> Outcome {
    let mut producer = Producer::attach(ring)?;
    let mut refused = 0u64;
    for number in 0..count {
        let payload = numbered(number, len);
        match producer.publish_as(NUMBERED, &payload) {
            Ok(()) => {}
            Err(ReserveError::Full) => refused += 1,
            Err(error) => return Err(error.into()),
        }
    }
    let totals = producer.totals();
    println!(
        "written {} refused {refused} full {}",
        totals.written.records, totals.refused.full.records
    );
    Ok(())
}

/// Creates a ring with an octal mode, of `PERFRING_SIZE` bytes.
fn make(mode: &str, ring: &str) -> Outcome {
    let size = std::env::var("PERFRING_SIZE").map_or(Ok(4096), |size| size.parse())?;
    let mode = u32::from_str_radix(mode, 8)?;
    let made =
        perfring_producer::files::create(ring, &Options { size, mode, ..Options::default() });
    // The message, as a user sees it.
    made.map_err(|error| error.to_string().into())
}

/// Registers so many types, beginning somewhere among them, at a line on stdin.
fn register(count: u32, from: u32, ring: &str) -> Outcome {
    let producer = SharedProducer::attach(ring)?;
    println!("ready");
    std::io::stdin().read_line(&mut String::new())?;
    for number in (0..count).map(|number| (from + number) % count) {
        let name = format!("tests.Type{number}");
        register_type(&producer, &Schema::new(&name, Encoding::Json).with_hashed_id());
    }
    Ok(())
}

/// Prints the numbers that an observer reads.
fn observe(ring: &str) -> Outcome {
    let mut observer = Observer::attach(ring, Start::Oldest)?;
    while let Some(item) = observer.read()? {
        if let Item::Record(record) = item {
            println!("{}", number_of(record.bytes));
        }
    }
    Ok(())
}

/// Holds a seat until a line comes on stdin. Prints a line for each step.
fn hold(role: &str, ring: &str) -> Outcome {
    let mut out = std::io::stdout().lock();
    let mut lines = std::io::stdin().lock().lines();
    let mut say = |what: &str| writeln!(out, "{what}").and_then(|()| out.flush());
    match role {
        "producer" => {
            let mut producer = Producer::attach_as(ring, "the-holder")?;
            say("attached")?;
            while let Some(line) = lines.next().transpose()? {
                producer.publish_as(NUMBERED, &numbered(line.parse()?, 40))?;
                say("published")?;
            }
        }
        "consumer" => {
            let mut consumer = Consumer::attach_with(ring, &ConsumerOptions::named("the-holder"))?;
            say("attached")?;
            while let Some(line) = lines.next().transpose()? {
                // Reads the requested number of records, waiting as long as it takes.
                let mut left: u64 = line.parse()?;
                while left > 0 {
                    match consumer.read()? {
                        Some(Item::Record(record)) => {
                            let number = number_of(record.bytes);
                            left -= 1;
                            say(&number.to_string())?;
                        }
                        Some(Item::Lost(lost)) => say(&format!("lost {}", lost.records))?,
                        None => {
                            consumer.wait(std::time::Duration::MAX);
                        }
                    }
                }
                consumer.release();
                say("done")?;
            }
        }
        _ => return Err("unknown role".into()),
    }
    Ok(())
}
