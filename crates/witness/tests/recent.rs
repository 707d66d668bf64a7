//! The evidence of snapshots, on the running kernel.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use perfring_consumer::advanced::{MachineClock, SnapshotReader};
use perfring_consumer::{Item, Location, Snapshot};
use perfring_events::{FileMode, Shapes};
use perfring_producer::{CpuProducer, Options, Policy, Producer};
use perfring_recording::{Reader, write_snapshots};
use perfring_testkit::wait::Watchdog;
use perfring_why::witness::FAULTS;
use perfring_why::{Analysis, Facts, Finding, Kind, Options as Wanted, Report};
use perfring_witness::{Followed, Recent, missing};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::thread;

/// A ring of this process whose records name their thread, and its witness.
struct Stage {
    dir: tempfile::TempDir,
    ring: PathBuf,
    producer: CpuProducer,
    clock: MachineClock,
    recent: Recent,
}

impl Stage {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        // One CPU, and so one ring.
        let allowed = sched_getaffinity(None).unwrap();
        let cpu = (0..CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu)).unwrap();
        let mut one = CpuSet::new();
        one.set(cpu);
        sched_setaffinity(None, &one).unwrap();
        let policy = Policy::Overwrite;
        let options = Options { time: true, policy, sample_id: true, ..Options::default() };
        let set = dir.path().join("orders");
        let producer = CpuProducer::create(&set, &options).unwrap();
        producer.publish(b"the ring is there").unwrap();
        let [ring] = &perfring_set::list(&set).unwrap().0[..] else { panic!("one ring") };
        let (ring, recent) = (ring.path.clone(), Recent::begin([followed(&ring.path)]).unwrap());
        let clock = MachineClock::find().unwrap();
        Stage { dir, ring, producer, clock, recent }
    }

    /// Publishes two records with a wait in between. Returns a time within it.
    fn wait(&mut self) -> u64 {
        self.producer.publish(b"before").unwrap();
        let begun = self.clock.now_ns();
        let dog = Watchdog::default();
        while self.clock.now_ns() < begun + 20_000_000 {
            dog.pause("the time has passed");
        }
        self.producer.publish(b"after").unwrap();
        begun
    }

    /// Returns what is found in a snapshot.
    fn report(&mut self) -> Report {
        let snapshot = Snapshot::take(&*self.ring).unwrap();
        let until = self.clock.now_ns();
        let shapes = Shapes::of_snapshot(&snapshot, &Location::from(&*self.ring), 0);
        let mut rings = self.recent.freeze([followed(&self.ring)], until, 1).unwrap();
        rings.push((shapes.origin().clone(), Box::new(SnapshotReader::new(snapshot))));
        let path = self.dir.path().join("run.perfrec");
        write_snapshots(&path, FileMode::default(), rings).unwrap();
        let mut reader = Reader::open(&path).unwrap();
        let wanted = Wanted { slower_than: 15_000_000, since: 0 };
        let (mut analysis, mut facts) = (Analysis::new(wanted), Facts::default());
        while let Some(event) = reader.next().unwrap() {
            facts.read(&event).for_each(|evidence| analysis.add(evidence));
        }
        facts.end().for_each(|evidence| analysis.add(evidence));
        analysis.finish()
    }
}

fn followed(ring: &Path) -> Followed {
    let uuid = Snapshot::take(ring).unwrap().layout().uuid;
    Followed { location: Location::from(ring), uuid }
}

/// Returns the gap that has this time within.
fn gap_at(report: &Report, time: u64) -> &Finding {
    let of = |finding: &&Finding| {
        let end = finding.time + finding.length;
        finding.kind == Kind::Gap && (finding.time..end).contains(&time)
    };
    report.findings.iter().find(of).unwrap_or_else(|| panic!("no gap at {time}: {report:?}"))
}

/// Two threads wake each other so often: each time both are switched. They have the CPU of this one.
fn switch(times: u32) {
    let ((to, from), (back, returned)) = (sync_channel::<()>(0), sync_channel::<()>(0));
    thread::scope(|scope| {
        scope.spawn(move || from.iter().for_each(|()| back.send(()).unwrap()));
        for _ in 0..times {
            to.send(()).unwrap();
            returned.recv().unwrap();
        }
        drop(to);
    });
}

fn is_forbidden() -> bool {
    let Some(missing) = missing() else { return false };
    assert!(std::env::var_os("PERFRING_NO_SKIP").is_none(), "should run here, but {missing}");
    let _ = writeln!(std::io::stderr().lock(), "SKIPPED: {missing}");
    true
}

#[test]
fn a_snapshot_is_covered_from_the_latest_beginning_of_its_rings_on() {
    if is_forbidden() {
        return;
    }
    let mut stage = Stage::new();
    let time = stage.wait();
    let report = stage.report();
    let first = gap_at(&report, time);
    let cause = first.cause;
    println!("{}", first.sentence);
    // On a busy machine, anything may have come between but this thread's own work.
    assert!(first.parts.is_some() && !["unknown", "own code"].contains(&cause), "{first:?}");
    // The kernel overwrites the switches of that time, on one CPU at least.
    let dog = Watchdog::default();
    loop {
        dog.pause("the switches of the first gap are overwritten");
        switch(10_000);
        let report = stage.report();
        let first = gap_at(&report, time);
        assert!(report.covered <= report.length);
        if first.sentence.contains("no kernel events of that time") {
            println!("{}", first.sentence);
            assert_eq!(first.cause, "unknown", "{first:?}");
            break;
        }
        // The pause of a snapshot may have dropped events of a CPU that was idle since before the gap.
        assert!(first.cause == cause || first.cause == "unknown", "{first:?}");
    }
    // Each gap may be hit by what the last snapshot dropped. A later one is not.
    let last = loop {
        dog.check("a gap after that is explained");
        let time = stage.wait();
        stage.wait();
        let report = stage.report();
        let last = gap_at(&report, time);
        println!("{}", last.sentence);
        if last.parts.is_some() {
            assert!(report.covered > last.length && report.covered < report.length, "{report:?}");
            break last.cause;
        }
    };
    assert!(!["unknown", "own code"].contains(&last), "{last}");
}

/// Returns the time of the newest page fault of this process in the evidence.
fn newest_fault(recent: &mut Recent, followed: &Followed) -> Option<u64> {
    let until = MachineClock::find().unwrap().now_ns();
    let rings = recent.freeze([followed.clone()], until, 1).unwrap();
    let mut newest = None;
    for (origin, mut ring) in rings {
        let is_of_faults = origin.name.starts_with(FAULTS);
        while let Some((item, _)) = ring.take().unwrap() {
            if let (true, Item::Record(record)) = (is_of_faults, item) {
                newest = newest.max(record.time);
            }
        }
    }
    newest
}

fn touch(pages: usize) {
    let mut block = vec![0u8; pages * rustix::param::page_size()];
    block.iter_mut().step_by(rustix::param::page_size()).for_each(|byte| *byte = 1);
    std::hint::black_box(block);
}

#[test]
fn a_process_that_leaves_its_seat_is_recorded_no_more() {
    if is_forbidden() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("orders");
    let producer = Producer::create(&path, &Options::default()).unwrap();
    let followed = followed(&path);
    let mut recent = Recent::begin([followed.clone()]).unwrap();
    let clock = MachineClock::find().unwrap();
    let begun = clock.now_ns();
    touch(64);
    let newest = newest_fault(&mut recent, &followed);
    assert!(newest > Some(begun), "{newest:?} of {begun}");
    drop(producer);
    // This look finds the empty seat, after it has copied the rings.
    newest_fault(&mut recent, &followed);
    let left = clock.now_ns();
    touch(64);
    let newest = newest_fault(&mut recent, &followed);
    println!("left at {left}, and the newest page fault is of {newest:?}");
    assert!(newest < Some(left));
}
