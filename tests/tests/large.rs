//! Large payloads between processes: readers get every byte that was written, at full speed, in
//! rings of every kind, whether processes are killed, wait or fork.
//!
//! Deaths at every step are in `killed_at_every_instruction` and `shared_deaths`, random deaths of
//! many producers in `shared_storm`.

use perfring_consumer::{
    AttachError, Cause, Consumer, ConsumerOptions, Item, Observer, ObserverOptions, Policy,
    ReadError, Snapshot, Start, Trust, stat::Stat,
};
use perfring_producer::{Options, Producer, Producers, SharedProducer, files::create};
use perfring_testkit::rng::Rng;
use perfring_testkit::wait::WATCHDOG;
use perfring_tests::large::{END, LARGE, heavy, weigh};
use perfring_tests::shared::{Driven, balance};
use perfring_tests::{NUMBERED, actor, ring_dir};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

const MIB: u64 = 1 << 20;

fn spawn(args: &[&str], ring: &Path) -> Child {
    let mut command = actor(env!("CARGO_BIN_EXE_heavy"), args, ring);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()
}

/// The records that a reader read: the numbers of each producer, in order.
#[derive(Debug, Default)]
struct Met {
    next: BTreeMap<u64, u64>,
    records: u64,
    large: u64,
    reported: u64,
    lapped: u64,
    /// Whether nothing may be missing.
    all: bool,
}

impl Met {
    fn note(&mut self, item: Item<'_>) {
        match item {
            Item::Record(record) => {
                let (who, seq) = weigh(record.bytes);
                let next = self.next.entry(who).or_default();
                assert!(seq == *next || !self.all && seq > *next, "{who}: {seq} after {next}");
                *next = seq + 1;
                self.records += 1;
                self.large += u64::from(record.bytes.len() > 65_520);
            }
            Item::Lost(lost) if lost.cause == Cause::Lapped => self.lapped += lost.records,
            Item::Lost(lost) => self.reported += lost.records,
        }
    }
}

fn full_speed(policy: Policy, producers: Producers, time: bool) {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    let options =
        Options { size: 128 << 10, aux_size: MIB, policy, producers, time, ..Options::default() };
    create(&ring, &options).unwrap();
    let (kind, count) = match producers {
        Producers::One => ("one", 1),
        Producers::Many | Producers::Cpu => ("many", 4),
    };
    let mut consumer = Consumer::attach(&ring).unwrap();
    let mut observer = Observer::attach(&ring, Start::Oldest).unwrap();
    let mut children: Vec<_> = (1..=count)
        .map(|who: u64| {
            let name = who.to_string();
            spawn(&["produce", kind, &name, &(who * 77).to_string(), "600"], &ring)
        })
        .collect();
    let mut met = Met { all: policy == Policy::Drop, ..Met::default() };
    let (mut seen, mut snapshots, mut whole) = (Met::default(), 0u64, 0u64);
    loop {
        // Checked before the last poll, which then reads everything written before the end.
        let done = children.iter_mut().all(|child| child.try_wait().unwrap().is_some());
        // The observer is slower, and is lapped: its records are whole nevertheless.
        let mut turn = 0u64;
        while let Some(item) = consumer.read().unwrap() {
            met.note(item);
            turn += 1;
            if turn.is_multiple_of(8) {
                while let Some(item) = observer.read().unwrap() {
                    seen.note(item);
                }
            }
        }
        while let Some(item) = observer.read().unwrap() {
            seen.note(item);
        }
        if snapshots < 200 || done {
            let snapshot = Snapshot::take(&ring).unwrap();
            for item in &snapshot {
                if let Item::Record(record) = item.unwrap() {
                    let _ = weigh(record.bytes);
                    whole += 1;
                }
            }
            snapshots += 1;
        }
        if done {
            break;
        }
    }
    consumer.release();
    for (child, who) in children.iter_mut().zip(1..) {
        assert!(child.wait().unwrap().success(), "a producer failed");
        let mut said = String::new();
        child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        let end: u64 = said.trim().parse().unwrap();
        assert!(met.next[&who] == end || policy == Policy::Overwrite, "{met:?}");
    }
    let totals = Stat::read(&ring).unwrap().totals.unwrap();
    println!("{policy:?} {producers:?} {time}: {met:?}; {} seen, {whole} copied", seen.records);
    let p = totals.producer;
    assert_eq!(met.records + met.lapped, p.written.records);
    assert_eq!(seen.records + seen.lapped, p.written.records);
    // In an overwrite ring, the marker of a loss may also be overwritten. The loss is returned at the end of the stream.
    let refused = p.refused.total().records;
    assert_eq!((met.reported, seen.reported), (refused, refused), "{p:?}");
    // The last snapshot is of an overwrite ring at rest.
    assert!(if policy == Policy::Drop { met.large > 0 } else { whole > 0 });
    match policy {
        Policy::Drop => {
            assert_eq!((met.lapped, totals.consumer.read), (0, p.written));
            // The area is free to the last byte: a payload as long as all of it fits.
            let payload = heavy(END, 0, MIB as usize);
            match producers {
                Producers::One => Producer::attach(&ring).unwrap().publish_as(NUMBERED, &payload),
                Producers::Many | Producers::Cpu => {
                    // Ranges of discards in a shared ring's area are freed when everything is read.
                    while let Some(item) = consumer.read().unwrap() {
                        met.note(item);
                    }
                    SharedProducer::attach(&ring).unwrap().publish_as(NUMBERED, &payload)
                }
            }
            .unwrap();
            // Past the losses that ended producers had not reported yet.
            while let Some(item) = consumer.read().unwrap() {
                met.note(item);
            }
            assert_eq!(met.next.get(&END), Some(&1));
            let refused = Stat::read(&ring).unwrap().totals.unwrap().producer.refused;
            assert_eq!(met.reported, refused.total().records);
            consumer.release();
        }
        Policy::Overwrite => assert_eq!(totals.consumer.lapped.records, met.lapped),
    }
    if producers == Producers::Many {
        balance(&ring, false);
    }
}

#[test]
fn every_byte_arrives_at_full_speed_from_one_producer() {
    full_speed(Policy::Drop, Producers::One, false);
    full_speed(Policy::Drop, Producers::One, true);
    full_speed(Policy::Overwrite, Producers::One, false);
    full_speed(Policy::Overwrite, Producers::One, true);
}

#[test]
fn every_byte_arrives_at_full_speed_from_four_producers() {
    full_speed(Policy::Drop, Producers::Many, false);
    full_speed(Policy::Overwrite, Producers::Many, true);
}

/// The next producer takes over from a producer that was killed at a random moment, and has other numbers.
/// The records of each are in order, without a gap, up to a point after its last.
#[test]
fn a_producer_killed_at_random_loses_no_record_and_no_space() {
    for policy in [Policy::Drop, Policy::Overwrite] {
        let dir = ring_dir();
        let ring = dir.path().join("ring");
        let options = Options { size: 64 << 10, aux_size: MIB, policy, ..Options::default() };
        create(&ring, &options).unwrap();
        let mut consumer = Consumer::attach(&ring).unwrap();
        let mut met = Met { all: policy == Policy::Drop, ..Met::default() };
        let mut rng = Rng::new(4);
        for who in 1..=40u64 {
            let (name, seed) = (who.to_string(), rng.below(1 << 30).to_string());
            let mut child = spawn(&["produce", "one", &name, &seed, "1000000000"], &ring);
            let until = met.records + rng.below(150);
            while met.records <= until {
                assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
                while let Some(item) = consumer.read().unwrap() {
                    met.note(item);
                }
            }
            for _ in 0..rng.below(100_000) {
                std::hint::spin_loop();
            }
            child.kill().unwrap();
            child.wait().unwrap();
            while let Some(item) = consumer.read().unwrap() {
                met.note(item);
            }
        }
        consumer.release();
        // All of the area is available.
        let mut last = Producer::attach(&ring).unwrap();
        last.publish_as(NUMBERED, &heavy(END, 0, MIB as usize)).unwrap();
        while let Some(item) = consumer.read().unwrap() {
            met.note(item);
        }
        consumer.release();
        let totals = Stat::read(&ring).unwrap().totals.unwrap();
        println!("{policy:?}: {} records, {} lapped", met.records, met.lapped);
        assert_eq!(met.records + met.lapped, totals.producer.written.records);
        assert_eq!(met.reported, totals.producer.refused.total().records);
        assert_eq!(met.next.get(&END), Some(&1));
    }
}

/// Reads a line of a consumer that is killed at some point: whole lines only.
fn said(out: &mut BufReader<ChildStdout>, line: &mut String) -> bool {
    line.clear();
    out.read_line(line).unwrap() > 0 && line.ends_with('\n')
}

#[test]
fn unreleased_records_of_a_killed_consumer_come_again_and_none_is_missing() {
    for kind in ["one", "many"] {
        let dir = ring_dir();
        let ring = dir.path().join("ring");
        let producers = if kind == "one" { Producers::One } else { Producers::Many };
        let options = Options { size: 64 << 10, aux_size: MIB, producers, ..Options::default() };
        create(&ring, &options).unwrap();
        let producer = spawn(&["produce", kind, "1", "9", "1500"], &ring);
        let mut producer = Some(producer);
        let mut rng = Rng::new(11);
        let (mut next, mut again, mut deaths, mut reported, mut ended) = (0u64, 0u64, 0, 0, false);
        while !ended {
            // It stops with a record that it has read and not released; the last one reads to the end.
            let stop = if producer.is_some() { 1 + rng.below(200) } else { u64::MAX };
            let mut child = spawn(&["consume", &stop.to_string()], &ring);
            let mut out = BufReader::new(child.stdout.take().unwrap());
            let (mut line, mut first, mut left) = (String::new(), true, stop);
            while said(&mut out, &mut line) {
                if let Some(lost) = line.strip_prefix("lost ") {
                    reported += lost.trim().parse::<u64>().unwrap();
                    continue;
                }
                let (who, seq) = line.trim().split_once(' ').unwrap();
                if who == END.to_string() {
                    ended = true;
                    continue;
                }
                let seq: u64 = seq.parse().unwrap();
                assert!(seq == next || first && seq < next, "{seq}, not {next}");
                (again, next, first) = (again + next - seq, seq + 1, false);
                if next >= 1500
                    && let Some(mut done) = producer.take()
                {
                    assert!(done.wait().unwrap().success());
                    let last = heavy(END, 0, LARGE);
                    match producers {
                        Producers::One => {
                            let mut one = Producer::attach(&ring).unwrap();
                            one.publish_timeout(NUMBERED, &last, WATCHDOG)
                        }
                        Producers::Many | Producers::Cpu => {
                            let many = SharedProducer::attach(&ring).unwrap();
                            many.publish_timeout(NUMBERED, &last, WATCHDOG)
                        }
                    }
                    .unwrap();
                }
                left -= 1;
                if left == 0 {
                    child.kill().unwrap();
                    deaths += 1;
                }
            }
            child.wait().unwrap();
        }
        let totals = Stat::read(&ring).unwrap().totals.unwrap();
        println!(
            "{kind}: {next} records, {again} came again, after {deaths} deaths; {reported} reported"
        );
        assert!(deaths > 0 && again >= deaths, "each death has one come again");
        assert_eq!(totals.consumer.read, totals.producer.written);
    }
}

/// Each fits only when the one before has been read: a missing wake is never made up for by another
/// record.
#[test]
fn a_full_area_is_waited_for_and_a_consumer_sleeps_until_there_is_something() {
    for kind in ["one", "many"] {
        let dir = ring_dir();
        let ring = dir.path().join("ring");
        let producers = if kind == "one" { Producers::One } else { Producers::Many };
        let options =
            Options { size: 64 << 10, aux_size: 128 << 10, producers, ..Options::default() };
        create(&ring, &options).unwrap();
        let mut child = spawn(&["wait", kind, "300", "100000"], &ring);
        let mut consumer = Consumer::attach(&ring).unwrap();
        for expected in 0..300 {
            let seq = loop {
                match consumer.read().unwrap() {
                    Some(Item::Record(record)) => break weigh(record.bytes).1,
                    Some(Item::Lost(lost)) => panic!("{lost:?}"),
                    None => drop(consumer.wait(Duration::MAX)),
                }
            };
            assert_eq!(seq, expected);
            consumer.release();
        }
        assert!(child.wait().unwrap().success(), "{kind}");
        let totals = Stat::read(&ring).unwrap().totals.unwrap();
        assert_eq!(totals.producer.refused.total().records, 0, "{kind}");
    }
}

#[test]
fn a_forked_child_does_nothing_to_a_range_of_its_parents() {
    for kind in ["one", "many"] {
        let dir = ring_dir();
        let ring = dir.path().join("ring");
        let producers = if kind == "one" { Producers::One } else { Producers::Many };
        let options = Options { size: 4096, aux_size: 256 << 10, producers, ..Options::default() };
        create(&ring, &options).unwrap();
        assert!(spawn(&["fork", kind], &ring).wait().unwrap().success(), "{kind}");
        let snapshot = Snapshot::take(&ring).unwrap();
        let mut met = Met { all: true, ..Met::default() };
        for item in &snapshot {
            met.note(item.unwrap());
        }
        assert_eq!((met.records, met.large), (2, 2), "{kind}: {met:?}");
    }
}

/// A producer of a shared ring dies with as many open ranges as fit. Later records are not written
/// over ranges that may be open, and all the space is freed.
#[test]
fn ranges_that_a_dead_producer_left_open_come_back() {
    for policy in [Policy::Drop, Policy::Overwrite] {
        let dir = ring_dir();
        let ring = dir.path().join("ring");
        let options = Options { size: 64 << 10, aux_size: MIB, policy, ..Options::many() };
        create(&ring, &options).unwrap();
        let (mut dead, _) = Driven::start(env!("CARGO_BIN_EXE_sharer"), &["drive", "dead"], &ring);
        let other = SharedProducer::attach(&ring).unwrap();
        let mut consumer = Consumer::attach(&ring).unwrap();
        for nth in 0..10 {
            assert_eq!(dead.ask(&format!("reserve {nth} 5 {nth} 100000")), "ok");
        }
        // Nothing is overwritten that is open.
        let payload = heavy(1, 0, LARGE);
        assert!(other.publish_as(NUMBERED, &payload).is_err(), "{policy:?}");
        other.publish_as(NUMBERED, &heavy(1, 0, 100)).unwrap();
        dead.kill();
        let mut met = Met { all: true, ..Met::default() };
        let drain = |consumer: &mut Consumer, met: &mut Met| -> Result<(), ReadError> {
            while let Some(item) = consumer.read()? {
                met.note(item);
            }
            consumer.release();
            Ok(())
        };
        match policy {
            Policy::Drop => {
                perfring_consumer::files::recover(&ring).unwrap();
                drain(&mut consumer, &mut met).unwrap();
            }
            Policy::Overwrite => {}
        }
        other.publish_timeout(NUMBERED, &heavy(1, 1, MIB as usize), WATCHDOG).unwrap();
        drain(&mut consumer, &mut met).unwrap();
        assert_eq!((met.next[&1], met.large), (2, 1), "{policy:?}: {met:?}");
        drop(other);
        let stat = balance(&ring, false);
        assert_eq!(stat.totals.unwrap().producer.reclaimed.records, 10);
    }
}

#[test]
fn a_payload_of_64_mib_is_handed_over() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    create(&ring, &Options { aux_size: 64 * MIB, ..Options::default() }).unwrap();
    let mut child = spawn(&["wait", "one", "3", "67108864"], &ring);
    let mut consumer = Consumer::attach(&ring).unwrap();
    for expected in 0..3 {
        loop {
            match consumer.read().unwrap() {
                Some(Item::Record(record)) => {
                    assert_eq!(weigh(record.bytes), (1, expected));
                    assert_eq!(record.bytes.len(), 64 << 20);
                    break;
                }
                Some(Item::Lost(lost)) => panic!("{lost:?}"),
                None => drop(consumer.wait(Duration::MAX)),
            }
        }
        consumer.release();
    }
    assert!(child.wait().unwrap().success());
}

/// A file can claim any length, and take no space for it.
#[test]
fn a_reader_that_trusts_nobody_takes_no_more_memory_than_it_says() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    create(&ring, &Options { aux_size: MIB, ..Options::default() }).unwrap();
    Consumer::attach_with(
        &ring,
        &ConsumerOptions { trust: Trust::Nobody, ..ConsumerOptions::default() },
    )
    .unwrap();
    // The header's `aux_size` and `file_size`, at the offsets in proto/ABI.md.
    let file = std::fs::File::options().write(true).open(&ring).unwrap();
    let (size, len) = (2 * Trust::MAX_AUX, file.metadata().unwrap().len() - MIB);
    file.set_len(len + size).unwrap();
    file.write_all_at(&size.to_ne_bytes(), 1080).unwrap();
    file.write_all_at(&(len + size).to_ne_bytes(), 1232).unwrap();
    let refused = Consumer::attach_with(
        &ring,
        &ConsumerOptions { trust: Trust::Nobody, ..ConsumerOptions::default() },
    )
    .unwrap_err();
    assert!(
        matches!(refused, AttachError::TooLargeToCopy { size: of, .. } if of == size),
        "{refused}"
    );
    assert!(refused.to_string().contains("Trust::Peers"), "{refused}");
    let refused = Observer::attach_with(
        &ring,
        &ObserverOptions {
            start: Start::Oldest,
            trust: Trust::Nobody,
            ..ObserverOptions::default()
        },
    )
    .unwrap_err();
    assert!(
        matches!(refused, AttachError::TooLargeToCopy { size: of, .. } if of == size),
        "{refused}"
    );
    Consumer::attach(&ring).unwrap();
}
