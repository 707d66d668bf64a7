//! How long records stay in a ring until they are read, and how rates are distributed.
//!
//! A reader's position is looked at about once in a millisecond. A record that it was before, and is behind now, was
//! read in between, so its latency is at most the time from its timestamp to now. Where a record was read and freed
//! before anybody could look at it, that is at most the time since the previous look began.

use crate::row::consumer_pos;
use hdrhistogram::Histogram;
use perfring_consumer::{
    Item, Observer, Policy, Start,
    stat::{OwnerInfo, Stat},
};
use perfring_figures::owner::name;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// A ring is measured for so long after it was asked for.
const UNASKED: Duration = Duration::from_secs(5);
/// Rings that are measured, at most.
const METERS: usize = 4;
/// Records that are looked at in one look; others are skipped.
const RECORDS: usize = 500;
/// Records that are waited for until they are read.
const PENDING: usize = 20_000;
/// An hour: what takes longer counts as that.
const MOST: u64 = 3_600_000_000_000;
const PERCENTILES: [f64; 5] = [50.0, 90.0, 99.0, 99.9, 99.99];

/// The rings that are measured.
#[derive(Debug, Default)]
pub(super) struct Meters(HashMap<u32, Meter>);

#[derive(Debug)]
struct Meter {
    observer: Observer,
    asked: Instant,
    /// Records that a reader has not read: their positions and times, oldest first.
    pending: VecDeque<(u64, u64)>,
    readers: HashMap<(String, u32), Measured>,
    looked: Option<u64>,
    looks: u64,
    began: Instant,
    skipped: u64,
}

#[derive(Debug)]
struct Measured {
    pos: u64,
    latency: Distribution,
}

/// Values, by their size.
#[derive(Debug)]
pub(super) struct Distribution(Histogram<u64>);

/// A distribution as the page has it.
#[derive(Debug, Serialize)]
pub(super) struct Shown {
    count: u64,
    /// Percent, and the value that so many are not above.
    percentiles: Vec<(f64, u64)>,
    most: u64,
    /// The end of each part, and how many are in it.
    bars: Vec<(u64, u64)>,
}

#[derive(Debug, Serialize)]
pub(super) struct Answer {
    /// The mean time between two looks, ns: latencies are too high by so much at most.
    between: u64,
    skipped: u64,
    readers: Vec<ReaderShown>,
    /// Records a second, second by second.
    rate: Shown,
}

#[derive(Debug, Serialize)]
struct ReaderShown {
    name: String,
    pid: u32,
    latency: Shown,
}

impl Distribution {
    pub(super) fn new() -> Option<Self> {
        Histogram::new_with_bounds(1, MOST, 2).ok().map(Distribution)
    }

    pub(super) fn add(&mut self, value: u64, count: u64) {
        self.0.saturating_record_n(value, count);
    }

    /// Shows it, in parts that are each twice as large as the one before.
    pub(super) fn shown(&self) -> Shown {
        let of = &self.0;
        let least = of.min().max(1).next_power_of_two() / 2;
        let parts = of.iter_log(least.max(1), 2.0);
        let bars = parts.map(|part| (part.value_iterated_to(), part.count_since_last_iteration()));
        Shown {
            count: of.len(),
            percentiles: PERCENTILES.map(|at| (at, of.value_at_percentile(at))).into(),
            most: of.max(),
            bars: if of.is_empty() { Vec::new() } else { bars.collect() },
        }
    }
}

fn boot() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    u64::try_from(i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)).unwrap_or(0)
}

impl Meter {
    fn new(observer: Observer) -> Self {
        Meter {
            observer,
            asked: Instant::now(),
            pending: VecDeque::new(),
            readers: HashMap::new(),
            looked: None,
            looks: 0,
            began: Instant::now(),
            skipped: 0,
        }
    }

    /// Looks at the records first, and then how far the readers are.
    fn look(&mut self) {
        let began = boot();
        let gone = self.look_at_records();
        self.look_at_readers(began, gone);
    }

    /// Returns how many records were gone before anybody could look at them.
    fn look_at_records(&mut self) -> u64 {
        let mut gone = 0;
        for nth in 0.. {
            if nth == RECORDS {
                let before = self.observer.saved().before;
                let Ok(observer) = self.observer.again(Start::Latest) else { break };
                self.skipped += observer.saved().before.since(before).records;
                self.observer = observer;
                break;
            }
            match self.observer.read() {
                Ok(Some(Item::Record(record))) => {
                    if let Some(time) = record.time {
                        self.pending.push_back((record.pos, time));
                    }
                }
                Ok(Some(Item::Lost(lost))) if lost.cause.name() == "lapped" => gone += lost.records,
                Ok(Some(Item::Lost(_))) => {}
                Ok(None) | Err(_) => break,
            }
        }
        gone
    }

    fn look_at_readers(&mut self, began: u64, gone: u64) {
        self.looks += 1;
        let since = self.looked.replace(began);
        let seen = self.observer.saved().pos;
        let Ok(stat) = self.observer.stat() else { return };
        // Only now: what they have read was read before.
        let now = boot();
        let frees = stat.layout.policy == Policy::Drop;
        let mut least = u64::MAX;
        for (owner, pos) in readers(&stat) {
            // What was published since the records were looked at counts at the next look, even if it is read already.
            let pos = pos.min(seen);
            least = least.min(pos);
            let key = (name(owner), owner.pid);
            if !self.readers.contains_key(&key)
                && let Some(latency) = Distribution::new()
            {
                self.readers.insert(key.clone(), Measured { pos, latency });
            }
            let Some(measured) = self.readers.get_mut(&key) else { continue };
            let from = self.pending.partition_point(|(pos, _)| *pos < measured.pos);
            let to = self.pending.partition_point(|(at, _)| *at < pos);
            for (_, time) in self.pending.range(from..to.max(from)) {
                measured.latency.add(now.saturating_sub(*time), 1);
            }
            if frees && let Some(since) = since {
                measured.latency.add(now.saturating_sub(since), gone);
            }
            measured.pos = pos.max(measured.pos);
        }
        let read = self.pending.partition_point(|(pos, _)| *pos < least);
        self.pending.drain(..read.max(self.pending.len().saturating_sub(PENDING)));
    }
}

/// Returns the consumers that are alive, and how far each has come.
fn readers(stat: &Stat) -> Vec<(&OwnerInfo, u64)> {
    let named = stat
        .consumers
        .iter()
        .filter(|of| of.is_alive())
        .map(|of| (&of.owner, of.figures.totals.pos));
    let only = stat.totals.as_ref().filter(|_| stat.consumer.is_alive());
    named.chain(only.map(|totals| (&stat.consumer.owner, consumer_pos(stat, totals)))).collect()
}

impl Meters {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Measures a ring from the first question on, and returns what is known so far.
    pub(super) fn ask(
        &mut self,
        id: u32,
        observer: Option<Observer>,
        rate: &Distribution,
    ) -> Option<Answer> {
        if !self.0.contains_key(&id) {
            let observer = observer?;
            if self.0.len() >= METERS {
                let oldest = self.0.iter().min_by_key(|(_, meter)| meter.asked).map(|(id, _)| *id);
                oldest.and_then(|oldest| self.0.remove(&oldest));
            }
            self.0.insert(id, Meter::new(observer));
        }
        let meter = self.0.get_mut(&id)?;
        meter.asked = Instant::now();
        let took = u64::try_from(meter.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let readers = meter.readers.iter().map(|((name, pid), measured)| {
            let (name, latency) = (name.clone(), measured.latency.shown());
            ReaderShown { name, pid: *pid, latency }
        });
        let mut readers: Vec<ReaderShown> = readers.collect();
        readers.sort_by(|a, b| (&a.name, a.pid).cmp(&(&b.name, b.pid)));
        let between = took / meter.looks.max(1);
        Some(Answer { between, skipped: meter.skipped, readers, rate: rate.shown() })
    }

    pub(super) fn look(&mut self) {
        self.0.retain(|_, meter| meter.asked.elapsed() < UNASKED);
        self.0.values_mut().for_each(Meter::look);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]
    use super::*;
    use perfring_consumer::Consumer;
    use perfring_producer::{Options, Producer};

    #[test]
    fn a_latency_is_from_the_timestamp_to_the_look_that_finds_the_record_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ring");
        let options = Options { size: 1 << 16, time: true, consumers: 2, ..Options::default() };
        let mut producer = Producer::create(&path, &options).unwrap();
        let mut all = ["fast", "slow"].map(|name| Consumer::attach_as(&path, name).unwrap());
        let mut meter = Meter::new(Observer::attach(&path, Start::Latest).unwrap());
        let count = |meter: &Meter, name: &str| {
            let of = meter.readers.iter().find(|((its, _), _)| its == name).unwrap().1;
            (of.latency.0.len(), of.latency.0.min())
        };
        meter.look();
        let began = boot();
        (0..10).for_each(|_| producer.publish(b"x").unwrap());
        let published = boot();
        meter.look();
        let read = |consumer: &mut Consumer, records: usize| {
            (0..records).for_each(|_| assert!(consumer.read().unwrap().is_some()));
            consumer.release();
        };
        read(&mut all[0], 10);
        read(&mut all[1], 4);
        let looks = boot();
        meter.look();
        let (least, most) = (looks - published, boot() - began);
        assert_eq!((count(&meter, "fast").0, count(&meter, "slow").0), (10, 4));
        assert_eq!(meter.pending.len(), 6, "for the slow one");
        // The figures of a histogram are within a fiftieth.
        let shown = count(&meter, "slow").1;
        assert!(
            (least - least / 50..=most + most / 50).contains(&shown),
            "{shown} of {least} to {most}"
        );
        // Published, read and freed between two looks: no longer than the time between them.
        read(&mut all[1], 6);
        meter.look();
        (0..5).for_each(|_| producer.publish(b"x").unwrap());
        all.iter_mut().for_each(|consumer| read(consumer, 5));
        producer.publish(b"x").unwrap();
        meter.look();
        let shown = meter.readers.values().map(|of| of.latency.shown());
        for shown in shown {
            assert_eq!(shown.bars.iter().map(|(_, count)| count).sum::<u64>(), shown.count);
            assert!(shown.percentiles.is_sorted() && shown.count == 15, "{shown:?}");
        }
    }
    #[test]
    fn what_is_published_and_read_between_the_two_parts_of_a_look_counts_and_not_too_low() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ring");
        let policy = Policy::Overwrite;
        let options = Options { size: 1 << 16, time: true, policy, ..Options::default() };
        let mut producer = Producer::create(&path, &options).unwrap();
        let mut consumer = Consumer::attach(&path).unwrap();
        let mut meter = Meter::new(Observer::attach(&path, Start::Latest).unwrap());
        meter.look();
        let gone = meter.look_at_records();
        let began = boot();
        producer.publish(b"x").unwrap();
        let published = boot();
        assert!(consumer.read().unwrap().is_some());
        consumer.release();
        let least = boot() - published;
        meter.look_at_readers(began, gone);
        let counted =
            |meter: &Meter| meter.readers.values().map(|of| of.latency.0.len()).sum::<u64>();
        assert_eq!(counted(&meter), 0, "nobody has looked at the record");
        meter.look();
        assert_eq!(counted(&meter), 1);
        let shown = meter.readers.values().next().unwrap().latency.shown();
        assert!(shown.most >= least, "{} {least}", shown.most);
    }
}
