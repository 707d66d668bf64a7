//! Sleeping and waking between processes: no process sleeps past a record or past free space, and
//! none is woken for less than it requested.

use perfring_abi::FIELDS;
use perfring_consumer::{Consumer, ConsumerOptions, Item, WakeAt};
use perfring_producer::{Options, Producer, files::create};
use perfring_testkit::wait::{sleeps, until};
use perfring_tests::stepped::Stepped;
use perfring_tests::{NUMBERED, actor, number_of, numbered, ring_dir, second, within_a_second};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Stdio;
use std::thread::JoinHandle;
use std::time::Duration;

/// Returns a header field of 32 bits, read without perfring's code.
fn field(ring: &File, name: &str) -> u32 {
    let field = FIELDS.iter().find(|field| field.name == name).expect("a field of that name");
    let mut bytes = [0; 4];
    ring.read_exact_at(&mut bytes, field.offset as u64).expect("a header");
    u32::from_ne_bytes(bytes)
}

/// Waits until the consumer has announced its sleep. It always does: it has nothing to read.
fn until_armed(ring: &File) {
    while field(ring, "wait_armed") == 0 {
        std::thread::yield_now();
    }
}

#[test]
fn a_sleeping_consumer_is_woken_for_every_record() {
    const ROUNDS: u64 = 2000;
    let dir = ring_dir();
    let path = dir.path().join("ring");
    create(&path, &Options::default()).unwrap();
    let ring = File::open(&path).unwrap();
    let mut child = actor(env!("CARGO_BIN_EXE_actor"), &["hold", "consumer"], &path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut from = BufReader::new(child.stdout.take().unwrap());
    let mut to = child.stdin.take().unwrap();
    let mut line = || {
        let mut line = String::new();
        from.read_line(&mut line).unwrap();
        line.trim().to_owned()
    };
    assert_eq!(line(), "attached");
    writeln!(to, "{ROUNDS}").unwrap();
    let sleeper = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
    let mut producer = Producer::attach(&path).unwrap();
    let (mut certain, mut last) = (0, i64::MIN);
    for number in 0..ROUNDS {
        let (began, wakes) = (second(), field(&ring, "wait_seq"));
        // Half of the time it sleeps for certain, otherwise it may be anywhere on the path to that. It polls once more after it
        // is armed, and may find the record then.
        if number % 2 == 0 {
            until_armed(&ring);
            until("the consumer sleeps", || sleeps(sleeper));
        }
        producer.publish_as(NUMBERED, &numbered(number, 24)).unwrap();
        let woken = field(&ring, "wait_seq") - wakes;
        assert_eq!(line(), number.to_string());
        // From the record before this one on, it has not woken by itself.
        if number % 2 == 0 && second() == last {
            assert_eq!(woken, 1, "for record {number}");
            certain += 1;
        }
        last = began;
    }
    assert_eq!(line(), "done");
    drop(to);
    assert!(child.wait().unwrap().success());
    println!("{ROUNDS} records, {} wakes, {certain} looked at", field(&ring, "wait_seq"));
    assert!(certain > 0, "a second passed in each round");
    assert!(u64::from(field(&ring, "wait_seq")) <= ROUNDS, "one wake for each record at most");
}

/// A consumer asleep in a separate thread. Returns the numbers that it reads once it is woken.
fn asleep(path: &Path, at: WakeAt, ring: &File) -> JoinHandle<Vec<u64>> {
    let options = ConsumerOptions { wake_at: at, ..ConsumerOptions::default() };
    let mut consumer = Consumer::attach_with(path, &options).unwrap();
    let (report, reported) = std::sync::mpsc::channel();
    let sleeper = std::thread::spawn(move || {
        report.send(nix::unistd::gettid()).unwrap();
        // `wait` returns at once for present records; the test publishes only once it sleeps.
        consumer.sleep(Duration::MAX);
        let mut found = Vec::new();
        while let Some(Item::Record(record)) = consumer.read().unwrap() {
            found.push(number_of(record.bytes));
        }
        found
    });
    let thread = reported.recv().unwrap();
    until_armed(ring);
    // It polls once more after it is armed.
    until("the consumer sleeps", || sleeps(thread));
    sleeper
}

#[test]
fn a_sleeper_is_woken_at_its_threshold_and_not_before() {
    let dir = ring_dir();
    let path = dir.path().join("ring");
    let mut producer = Producer::create(&path, &Options::default()).unwrap();
    let ring = File::open(&path).unwrap();
    let mut number = 0;
    let mut publish = || {
        producer.publish_as(NUMBERED, &numbered(number, 24)).unwrap();
        number += 1;
    };
    // Waits until a sleeper is woken. Returns how many records it has read.
    let woken = |sleeper: JoinHandle<Vec<u64>>, began, publish: &mut dyn FnMut()| {
        until("the sleeper is woken", || {
            // It may have woken by itself, and sleeps again. Such a round does not count.
            if second() != began && !sleeper.is_finished() {
                publish();
            }
            sleeper.is_finished()
        });
        let read = sleeper.join().unwrap().len() as u64;
        let mut rest = Consumer::attach(&path).unwrap();
        while rest.read().unwrap().is_some() {}
        read
    };
    // After so many publishes of 32 bytes in the ring, the sleeper is still armed; after one more
    // it is not.
    let half = (1 << 20) / 2 / 32;
    for (at, before) in [
        (WakeAt::Record, 0),
        (WakeAt::Records(100), 99),
        (WakeAt::Bytes(3200), 99),
        (WakeAt::Records(u64::MAX), half - 1), // never more than half a ring
        (WakeAt::Bytes(u64::MAX), half - 1),
    ] {
        let seen = within_a_second(|| {
            let began = second();
            let sleeper = asleep(&path, at, &ring);
            let seq = field(&ring, "wait_seq");
            let now = || (field(&ring, "wait_armed"), field(&ring, "wait_seq") - seq);
            for _ in 0..before {
                publish();
            }
            let below = now();
            publish();
            (below, now(), woken(sleeper, began, &mut publish))
        });
        assert_eq!(seen, ((1, 0), (0, 1), before + 1), "{at:?}");
    }
}

#[test]
fn a_waiting_producer_gets_the_space_or_a_timeout() {
    const RECORDS: u64 = 20_000;
    let dir = ring_dir();
    let path = dir.path().join("ring");
    let mut producer =
        Producer::create(&path, &Options { size: 4096, ..Options::default() }).unwrap();
    let mut consumer = Consumer::attach(&path).unwrap();
    let reader = std::thread::spawn(move || {
        let mut next = 0;
        while next < RECORDS {
            match consumer.read().unwrap() {
                Some(Item::Record(record)) => {
                    assert_eq!(number_of(record.bytes), next);
                    next += 1;
                }
                Some(Item::Lost(lost)) => panic!("{lost:?}"),
                None => {
                    consumer.wait(Duration::MAX);
                }
            }
        }
        consumer
    });
    for number in 0..RECORDS {
        let payload = numbered(number, 8 + number as usize % 500);
        producer.publish_timeout(NUMBERED, &payload, Duration::MAX).unwrap();
    }
    let consumer = reader.join().unwrap();
    assert_eq!(producer.totals().refused.full.records, 0, "what waited is not lost");
    // There is no reader now: the wait ends, and only then is the record lost.
    while producer.publish_timeout(NUMBERED, &[0; 1000], Duration::from_millis(2)).is_ok() {}
    assert_eq!(producer.totals().refused.full.records, 1);
    assert_eq!(consumer.read_count().records, RECORDS);
}

/// A publisher that is stopped for ever, or killed, between taking a sleeper's flag and waking it.
#[test]
fn a_sleeper_whose_waker_stops_for_ever_wakes_by_itself() {
    let dir = ring_dir();
    for is_killed in [false, true] {
        let path = dir.path().join(format!("ring {is_killed}"));
        create(&path, &Options::many()).unwrap();
        let ring = File::open(&path).unwrap();
        let mut consumer = Consumer::attach(&path).unwrap();
        let sleeper = consumer.advanced().sleeper().unwrap();
        let waker = Stepped::start(env!("CARGO_BIN_EXE_sharer"), &["step", "publish"], &path);
        let ticket = consumer.advanced().prepare_sleep().expect("nothing to read");
        assert_eq!(field(&ring, "wait_armed"), 1);
        while field(&ring, "wait_armed") == 1 {
            assert!(!waker.step(), "it takes the flag");
        }
        let stopped = if is_killed {
            waker.kill();
            None
        } else {
            Some(waker)
        };
        // The ticket alone limits it.
        let sleeping = std::thread::spawn(move || sleeper.sleep(ticket, Duration::MAX));
        until("the sleeper wakes by itself", || sleeping.is_finished());
        sleeping.join().unwrap();
        consumer.advanced().end_sleep();
        assert!(matches!(consumer.read().unwrap(), Some(Item::Record(_))), "it is there");
        if let Some(waker) = stopped {
            waker.go_on(false);
        }
    }
}
