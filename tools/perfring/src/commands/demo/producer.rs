//! A producer process of the demo.

use super::pace::Pace;
use super::records::{self, Io, Processes, Pulse, Stamp};
use super::stations::{Station, Topic, now_ns};
use super::{host, metrics};
use crate::failure::Failure;
use perfring_export::Stream;
use perfring_producer::{Producer, ReserveError};
use perfring_types::{PodRecord, RkyvRecord};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

pub(super) fn run(station: &Station, dir: &Path) -> Result<(), Failure> {
    let mut pace = Pace::new()?;
    let path = dir.join(station.name);
    if station.topic == Topic::Metrics {
        let (offered, refused) = metrics::run(&path, station.name, &mut pace)?;
        return report(offered, refused);
    }
    let producer = Producer::attach_as(path, &format!("demo {}", station.name))?;
    pace.ready();
    let mut feed = Feed { producer, offered: 0, refused: 0 };
    match station.topic {
        Topic::Metrics => Ok(()), // handled above
        Topic::Cpu => cpu(&mut feed, &mut pace),
        Topic::Io => io(&mut feed, &mut pace),
        Topic::Processes => processes(&mut feed, &mut pace),
        Topic::Burst => pulse(&mut feed, &mut pace, Duration::from_millis(250), 4096),
        Topic::Flight => pulse(&mut feed, &mut pace, Duration::from_micros(200), 3),
    }?;
    let Feed { producer, offered, refused } = feed;
    drop(producer);
    report(offered, refused)
}

/// Prints the producer's own count, for the parent to compare with the ring's.
fn report(offered: u64, refused: u64) -> Result<(), Failure> {
    Stream::stdout().write_all(format!("{offered} {refused}\n").as_bytes()).map_err(Failure::output)
}

fn cpu(feed: &mut Feed, pace: &mut Pace) -> Result<(), Failure> {
    while pace.next(Duration::from_millis(50)) {
        for sample in host::cpus() {
            feed.in_place(|stamp| records::Cpu { stamp, ..sample })?;
        }
    }
    Ok(())
}

fn io(feed: &mut Feed, pace: &mut Pace) -> Result<(), Failure> {
    while pace.next(Duration::from_millis(100)) {
        let (disks, nets) = (host::disks(), host::nets());
        let Stamp { seq, time_ns } = feed.stamp();
        feed.archive(&Io { seq, time_ns, disks, nets })?;
    }
    Ok(())
}

fn processes(feed: &mut Feed, pace: &mut Pace) -> Result<(), Failure> {
    let mut table = host::ProcessTable::new();
    let mut period = Duration::from_millis(100);
    while pace.next(period) {
        let began = Instant::now();
        let (count, busiest) = table.peek();
        // At most a tenth of a processor, however many processes there are.
        period = (began.elapsed() * 10).max(Duration::from_millis(100));
        let Stamp { seq, time_ns } = feed.stamp();
        feed.archive(&Processes { seq, time_ns, count, busiest })?;
    }
    Ok(())
}

/// Reads the clock `reads` times in a row, every `period`.
fn pulse(feed: &mut Feed, pace: &mut Pace, period: Duration, reads: u32) -> Result<(), Failure> {
    while pace.next(period) {
        let late_ns = pace.late.as_nanos() as u64;
        let mut before = now_ns();
        for _ in 0..reads {
            feed.in_place(|stamp| {
                let gap_ns = stamp.time_ns.saturating_sub(before);
                before = stamp.time_ns;
                Pulse { stamp, gap_ns, late_ns }
            })?;
        }
    }
    Ok(())
}

/// The producer, and its own count of what it offered.
struct Feed {
    producer: Producer,
    offered: u64,
    refused: u64,
}

impl Feed {
    fn stamp(&self) -> Stamp {
        Stamp { seq: self.offered, time_ns: now_ns() }
    }

    /// Writes a plain struct in place, in the reservation.
    fn in_place<T: PodRecord>(&mut self, make: impl FnOnce(Stamp) -> T) -> Result<(), Failure> {
        let stamp = self.stamp();
        self.offered += 1;
        match self.producer.reserve_pod::<T>() {
            Ok(mut slot) => {
                *slot = make(stamp);
                slot.commit();
                Ok(())
            }
            Err(error) => refuse(&mut self.refused, error),
        }
    }

    /// Serialises a value in place, without an allocation.
    fn archive<T: RkyvRecord>(&mut self, value: &T) -> Result<(), Failure> {
        self.offered += 1;
        match self.producer.publish_rkyv(value) {
            Ok(()) => Ok(()),
            Err(error) => refuse(&mut self.refused, error),
        }
    }
}

/// Counts the refusal of a full ring; any other error ends the demo.
fn refuse(refused: &mut u64, error: ReserveError) -> Result<(), Failure> {
    *refused += 1;
    match error {
        ReserveError::Full => Ok(()),
        error => Err(Failure::General(format!("demo: {error}"))),
    }
}
