//! Timestamps across processes, time namespaces and restarts: one clock, one order, true dates.

use perfring_abi::record_size;
use perfring_consumer::{
    AttachError, Consumer, Item, Observer, Policy, Snapshot, Start, advanced::MachineClock,
    stat::Stat,
};
use perfring_producer::{
    Options, Producer, Producers, ReserveError, SharedProducer, files::create,
};
use perfring_tests::{NUMBERED, ring_dir, skip};
use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

/// ABI.md, "Time": the largest difference between a timestamp and the clock, while NTP in the
/// kernel adjusts it.
const ERROR_NS: u64 = 12_000;
/// ABI.md, "Time": the same for its wall-clock time and the wall clock.
const WALL_ERROR_NS: u64 = ERROR_NS + 25_000;

fn timed(policy: Policy, producers: Producers) -> Options {
    Options { size: 1 << 22, policy, producers, time: true, ..Options::default() }
}

fn stamper(kind: &str, number: u64, count: u64, ring: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stamper"));
    command.args([kind, &number.to_string(), &count.to_string()]).arg(ring);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[8 * at..][..8].try_into().unwrap())
}

/// Checks a stamper's records: the timestamps rise, and each is between the readings of the clock
/// that its own process took around it. Returns their number.
fn timestamps_hold(snapshot: &Snapshot, ended: &HashMap<u64, u64>) -> u64 {
    let (mut newest, mut count) = (0, 0);
    let mut last: HashMap<u64, (u64, u64)> = HashMap::new();
    for item in snapshot {
        let Item::Record(record) = item.unwrap() else { panic!("nothing was lost") };
        let timestamp = record.time.unwrap();
        assert!(timestamp >= newest, "a timestamp went back: {timestamp} after {newest}");
        newest = timestamp;
        let (number, before) = (word(record.bytes, 0), word(record.bytes, 1));
        assert!(
            timestamp + ERROR_NS >= before,
            "{timestamp} before its process came to it, {before}"
        );
        if let Some((then, timestamped)) = last.insert(number, (before, timestamp))
            && then != before
        {
            assert!(
                timestamped <= before + ERROR_NS,
                "{timestamped} after {before}, a record later"
            );
        }
        count += 1;
    }
    for (number, (_, timestamped)) in last {
        assert!(timestamped <= ended[&number] + ERROR_NS);
    }
    count
}

#[test]
fn producers_in_many_processes_stamp_in_one_order() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    create(&ring, &timed(Policy::Overwrite, Producers::Many)).unwrap();
    let crowd: Vec<_> =
        (0..3).map(|n| (n, stamper("many", n, 20_000, &ring).spawn().unwrap())).collect();
    let mut ended = HashMap::new();
    for (number, child) in crowd {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let said = String::from_utf8(output.stdout).unwrap();
        ended.insert(number, said.trim().parse().unwrap());
    }
    let count = timestamps_hold(&Snapshot::take(&ring).unwrap(), &ended);
    println!("{count} timestamps of three processes");
    assert_eq!(count, 3 * 25_000);
}

#[test]
fn producers_one_after_the_other_stamp_in_one_order() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    create(&ring, &timed(Policy::Overwrite, Producers::One)).unwrap();
    let mut ended = HashMap::new();
    for number in 0..5 {
        let output = stamper("one", number, 2_000, &ring).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        ended.insert(number, String::from_utf8(output.stdout).unwrap().trim().parse().unwrap());
    }
    let count = timestamps_hold(&Snapshot::take(&ring).unwrap(), &ended);
    assert_eq!(count, 10_000);
}

/// A process whose boot clock is 1,000 s ahead has the same timestamps and dates as the others.
#[test]
fn a_time_namespace_changes_nothing() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    let inside = || {
        let mut command = Command::new("unshare");
        command.args(["--time", "--boottime", "1000", "--fork"]);
        command
    };
    match inside().arg("true").output() {
        Err(_) => return skip("there is no unshare(1) (Debian: util-linux)"),
        Ok(output) if !output.status.success() => {
            return skip(&format!(
                "cannot make a time namespace: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            ));
        }
        Ok(_) => {}
    }
    create(&ring, &timed(Policy::Overwrite, Producers::One)).unwrap();
    let clock = MachineClock::find().unwrap();
    let (before, wall_before) = (clock.now_ns(), wall());
    let output =
        inside().arg(env!("CARGO_BIN_EXE_stamper")).args(["one", "1", "50"]).arg(&ring).output();
    let output = output.unwrap();
    let (after, wall_after) = (clock.now_ns(), wall());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // And one outside of it, afterwards.
    assert!(stamper("one", 2, 1, &ring).output().unwrap().status.success());

    let snapshot = Snapshot::take(&ring).unwrap();
    assert_eq!(snapshot.anchors().all().len(), 1, "the wall clock was not set");
    let mut newest = 0;
    for item in &snapshot {
        let Item::Record(record) = item.unwrap() else { panic!("nothing was lost") };
        let timestamp = record.time.unwrap();
        assert!(timestamp >= newest);
        newest = timestamp;
        if word(record.bytes, 0) == 1 {
            assert!(timestamp + ERROR_NS >= before && timestamp <= after + ERROR_NS);
            let date = record.wall(snapshot.anchors()).unwrap();
            assert!(date + WALL_ERROR_NS >= wall_before && date <= wall_after + WALL_ERROR_NS);
        }
    }
}

fn wall() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

#[test]
fn every_entry_point_gives_the_same_timestamps_and_true_dates() {
    for producers in [Producers::One, Producers::Many] {
        for policy in [Policy::Drop, Policy::Overwrite] {
            let dir = ring_dir();
            let ring = dir.path().join("ring");
            create(&ring, &timed(policy, producers)).unwrap();
            let mut consumer = Consumer::attach(&ring).unwrap();
            let mut observer = Observer::attach(&ring, Start::Oldest).unwrap();
            let mut dates = Vec::new();
            let publish = |payload: &[u8]| match producers {
                Producers::One => Producer::attach(&ring).unwrap().publish_as(NUMBERED, payload),
                Producers::Many | Producers::Cpu => {
                    SharedProducer::attach(&ring).unwrap().publish_as(NUMBERED, payload)
                }
            };
            for len in [0usize, 1, 7, 8, 600, 5000] {
                let before = wall();
                publish(&vec![len as u8; len]).unwrap();
                dates.push((len, before, wall()));
            }
            let snapshot = Snapshot::take(&ring).unwrap();
            let anchors = consumer.anchors();
            assert_eq!(anchors, observer.anchors());
            assert_eq!(&anchors, snapshot.anchors());
            assert_eq!(anchors, Stat::read(&ring).unwrap().anchors);
            let mut items = snapshot.iter();
            for (len, before, after) in dates {
                let Some(Ok(Item::Record(record))) = items.next() else { panic!("a record") };
                assert_eq!(record.bytes, vec![len as u8; len]);
                let date = record.wall(&anchors).unwrap();
                assert!(date + WALL_ERROR_NS >= before && date <= after + WALL_ERROR_NS, "{date}");
                assert_eq!(consumer.read(), Ok(Some(Item::Record(record))));
                assert_eq!(observer.read(), Ok(Some(Item::Record(record))));
            }
            if let Some(pinned) = consumer.pinned().unwrap() {
                assert_eq!(pinned.read(), Ok(None));
            }
        }
    }
}

#[test]
fn pinned_records_have_their_stamps() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    let mut producer = Producer::create(&ring, &timed(Policy::Drop, Producers::One)).unwrap();
    let mut batch = producer.batch();
    for n in 0..10u64 {
        batch.push_as(NUMBERED, &n.to_ne_bytes()).unwrap();
    }
    drop(batch);
    let mut consumer = Consumer::attach(&ring).unwrap();
    let pinned = consumer.pinned().unwrap().unwrap();
    let mut held = Vec::new();
    while let Some(Item::Record(record)) = pinned.read().unwrap() {
        held.push(record);
    }
    assert_eq!(held.len(), 10);
    assert!(held.is_sorted_by_key(|record| record.time.unwrap()));
    for (n, record) in held.iter().enumerate() {
        assert_eq!(record.bytes, (n as u64).to_ne_bytes());
    }
}

#[test]
fn a_stamp_takes_eight_bytes_of_the_longest_record() {
    let dir = ring_dir();
    for producers in [Producers::One, Producers::Many] {
        for size in [4096, 1 << 20] {
            let ring = dir.path().join(format!("{size}-{}", producers.name()));
            let options = Options { size, ..timed(Policy::Overwrite, producers) };
            create(&ring, &options).unwrap();
            let plain = (size - 8).min(65_528) as usize - 8;
            let max = plain - 8;
            let refused = ReserveError::TooLarge { len: plain, max };
            let layout = match producers {
                Producers::One => {
                    let mut producer = Producer::attach(&ring).unwrap();
                    assert_eq!(producer.max_len(), max);
                    producer.publish_as(NUMBERED, &vec![1; max]).unwrap();
                    assert_eq!(producer.publish_as(NUMBERED, &vec![1; plain]), Err(refused));
                    *producer.layout()
                }
                Producers::Many | Producers::Cpu => {
                    let producer = SharedProducer::attach(&ring).unwrap();
                    assert_eq!(producer.max_len(), max);
                    producer.publish_as(NUMBERED, &vec![1; max]).unwrap();
                    assert_eq!(producer.publish_as(NUMBERED, &vec![1; plain]), Err(refused));
                    *producer.layout()
                }
            };
            assert_eq!(layout.record_size(max), record_size(plain));
            let totals = Snapshot::take(&ring).unwrap().totals().producer;
            assert_eq!(totals.refused.too_large.bytes, record_size(plain + 8));
        }
    }
}

/// A refused batch in rings with and without time.
#[test]
fn a_refused_batch_is_counted_as_what_was_asked_for() {
    let dir = ring_dir();
    for time in [false, true] {
        let ring = dir.path().join(time.to_string());
        let options = Options { size: 4096, time, ..Options::many() };
        let producer = SharedProducer::create(&ring, &options).unwrap();
        drop(producer.reserve_batch(3600).unwrap()); // a hole that no consumer has read
        assert_eq!(producer.reserve_batch(1000).unwrap_err(), ReserveError::Full);
        assert_eq!(producer.totals().refused.full.bytes, 1000, "time {time}");
    }
}

#[test]
fn a_ring_without_time_has_no_stamps_and_no_anchors() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    let mut producer = Producer::create(&ring, &Options::default()).unwrap();
    producer.publish_as(NUMBERED, b"x").unwrap();
    let snapshot = Snapshot::take(&ring).unwrap();
    assert!(snapshot.anchors().all().is_empty());
    let Some(Ok(Item::Record(record))) = snapshot.iter().next() else { panic!("a record") };
    assert_eq!((record.time, record.wall(snapshot.anchors())), (None, None));
    assert_eq!(snapshot.span(), 0..16);
}

/// A header with an unknown value for time is refused with a message.
#[test]
fn an_unknown_clock_is_refused() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    create(&ring, &timed(Policy::Drop, Producers::One)).unwrap();
    let mut bytes = std::fs::read(&ring).unwrap();
    bytes[1304] = 1; // CLOCK_MONOTONIC
    std::fs::write(&ring, &bytes).unwrap();
    let error = Observer::attach(&ring, Start::Oldest).unwrap_err();
    assert!(matches!(error, AttachError::Bad { .. }) && error.to_string().contains("time_clock"));
    bytes[1168] = 0; // no time, but a clock
    std::fs::write(&ring, &bytes).unwrap();
    assert!(Observer::attach(&ring, Start::Oldest).is_err());
}
