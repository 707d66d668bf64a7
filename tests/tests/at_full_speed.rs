//! Two processes at full speed, and the totals afterwards: `written = read + lost by each cause +
//! present`, exactly.

use perfring_consumer::{
    Cause, Consumer, ConsumerOptions, Item, Lost, Observer, Policy, ReadError, Snapshot, Start,
    WaitStrategy, stat::Stat,
};
use perfring_producer::{Evict, Options, files::create};
use perfring_tests::{actor, number_of, numbers, ring_dir};
use std::io::Read;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

const RECORDS: u64 = 300_000;

fn producer(ring: &Path, len: usize) -> Child {
    actor(env!("CARGO_BIN_EXE_actor"), &["produce", &RECORDS.to_string(), &len.to_string()], ring)
        .stdout(Stdio::piped())
        .spawn()
        .expect("an actor")
}

/// The counts of a reader.
#[derive(Default, Debug)]
struct Tally {
    read: u64,
    lapped: u64,
    reported: u64,
    /// The number of the next record, if all losses so far are older.
    next: u64,
    /// Losses at the end of the stream since the last record that all losses were older than. Their place is not known: the
    /// next records may be older.
    at_end: u64,
    /// One more than the number of the last record.
    least: u64,
}

impl Tally {
    fn take(&mut self, item: Item<'_>) {
        match item {
            Item::Record(record) => {
                let number = number_of(record.bytes);
                assert!(number >= self.least, "in order: {number}, {self:?}");
                assert!(number <= self.next, "every gap reported before: {number}, {self:?}");
                let early = self.next - number;
                assert!(early <= self.at_end, "nothing but losses at the end: {number}, {self:?}");
                self.at_end = if early == 0 { 0 } else { self.at_end };
                self.least = number + 1;
                self.next += 1;
                self.read += 1;
            }
            Item::Lost(Lost { records, cause: Cause::Lapped, .. }) => {
                self.lapped += records;
                self.next += records;
            }
            Item::Lost(lost) => {
                self.reported += lost.records;
                self.next += lost.records;
                self.at_end += if lost.at_end { lost.records } else { 0 };
            }
        }
    }
}

/// Reads until the producer is dead and nothing is left.
fn follow(
    child: &mut Child,
    mut read: impl FnMut(&mut Tally) -> Result<bool, ReadError>,
) -> (Tally, String) {
    let mut tally = Tally::default();
    loop {
        // Checked before the last poll, which then reads everything written before the end.
        let done = child.try_wait().expect("a child").is_some();
        while read(&mut tally).expect("an intact ring") {}
        if done {
            break;
        }
    }
    let mut said = String::new();
    child.stdout.take().expect("stdout").read_to_string(&mut said).expect("its words");
    assert!(child.wait().expect("a child").success());
    (tally, said.trim().to_owned())
}

#[test]
fn a_drop_ring_loses_only_what_it_reports() {
    for (size, len, pace) in [
        (4096, 8, WaitStrategy::Latency),
        (1 << 16, 8, WaitStrategy::Throughput),
        (1 << 16, 200, WaitStrategy::Adaptive),
        (1 << 20, 1000, WaitStrategy::Adaptive),
    ] {
        let dir = ring_dir();
        let ring = dir.path().join("ring");
        create(&ring, &Options { size, ..Options::default() }).unwrap();
        let options = ConsumerOptions { wait: pace, ..ConsumerOptions::default() };
        let mut consumer = Consumer::attach_with(&ring, &options).unwrap();
        let mut child = producer(&ring, len);
        let (tally, said) = follow(&mut child, |tally| {
            consumer.spin(Duration::from_micros(200));
            let Some(item) = consumer.read()? else { return Ok(false) };
            tally.take(item);
            Ok(true)
        });
        consumer.release();
        let totals = Stat::read(&ring).unwrap().totals.unwrap();
        let sums = totals.producer;
        println!("{size} bytes, {len} a record: {tally:?}; {said}");
        assert_eq!(RECORDS, sums.written.records + sums.refused.full.records);
        assert_eq!(sums.written.records, tally.read + totals.present.records);
        assert_eq!(totals.present.records, 0);
        assert_eq!(totals.consumer.read, sums.written);
        assert_eq!(sums.refused.full.records, tally.reported);
        assert_eq!(tally.lapped, 0);
    }
}

#[test]
fn an_overwrite_ring_counts_what_each_reader_missed() {
    for (size, len, evict) in [
        (4096, 8, Evict::Exact),
        (1 << 14, 40, Evict::Exact),
        (1 << 14, 40, Evict::Half),
        (1 << 20, 500, Evict::Exact),
    ] {
        let dir = ring_dir();
        let ring = dir.path().join("ring");
        let options = Options { size, evict, policy: Policy::Overwrite, ..Options::default() };
        create(&ring, &options).unwrap();
        let mut observer = Observer::attach(&ring, Start::Oldest).unwrap();
        let mut consumer = Consumer::attach(&ring).unwrap();
        let mut child = producer(&ring, len);
        let mut by_consumer = Tally::default();
        let mut snapshots = 0u64;
        let mut most = 0;
        let (tally, said) = follow(&mut child, |tally| {
            while let Some(item) = consumer.read()? {
                by_consumer.take(item);
            }
            if snapshots < 300 {
                let (found, _) = numbers(&observer.snapshot()?);
                assert!(found.is_sorted_by(|a, b| a + 1 == *b), "a snapshot without a gap");
                most = most.max(found.len());
                // Snapshots of a ring without records so far do not count.
                snapshots += u64::from(!found.is_empty());
            }
            let Some(item) = observer.read()? else { return Ok(false) };
            tally.take(item);
            Ok(true)
        });
        while let Some(item) = consumer.read().unwrap() {
            by_consumer.take(item);
        }
        consumer.release();
        let totals = Stat::read(&ring).unwrap().totals.unwrap();
        let still_there = numbers(&Snapshot::take(&ring).unwrap()).0.len() as u64;
        println!(
            "{size} bytes, {len} a record, {evict:?}: observer {tally:?}; consumer \
             {by_consumer:?}; {snapshots} snapshots of up to {most} records; {said}"
        );
        assert_eq!(totals.producer.written.records, RECORDS);
        assert_eq!(totals.overwritten.records + still_there, RECORDS);
        assert_eq!(totals.present.records, still_there);
        for tally in [&tally, &by_consumer] {
            assert_eq!(tally.read + tally.lapped, RECORDS);
        }
        assert_eq!(observer.lapped().records, tally.lapped);
        assert_eq!(totals.consumer.read.records, by_consumer.read);
        assert_eq!(totals.consumer.lapped.records, by_consumer.lapped);
        assert!(snapshots > 0 && most > 0);
    }
}
