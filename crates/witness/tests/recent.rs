//! The evidence of snapshots, on the running kernel.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use perfring_consumer::{Location, Snapshot, advanced::SnapshotReader};
use perfring_events::{FileMode, Shapes};
use perfring_producer::{CpuProducer, Options, Policy};
use perfring_recording::{Reader, write_snapshots};
use perfring_testkit::wait::Watchdog;
use perfring_why::{Analysis, Facts, Finding, Kind, Options as Wanted, Report};
use perfring_witness::{Followed, Recent, missing};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

/// A ring of this process whose records name their thread, and its witness.
struct Stage {
    dir: tempfile::TempDir,
    ring: PathBuf,
    producer: CpuProducer,
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
        Stage { dir, ring, producer, recent }
    }

    /// Publishes two records with a wait in between.
    fn wait(&mut self) {
        self.producer.publish(b"before").unwrap();
        thread::sleep(Duration::from_millis(20));
        self.producer.publish(b"after").unwrap();
    }

    /// Returns what is found in a snapshot.
    fn report(&mut self) -> Report {
        let until = self.recent.look_last([followed(&self.ring)]);
        let snapshot = Snapshot::take(&*self.ring).unwrap();
        let shapes = Shapes::of_snapshot(&snapshot, &Location::from(&*self.ring), 0);
        let mut rings = self.recent.freeze(until, 1).unwrap();
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

/// Returns the gaps, in the order of time.
fn gaps(report: &Report) -> Vec<&Finding> {
    let mut gaps: Vec<_> =
        report.findings.iter().filter(|finding| finding.kind == Kind::Gap).collect();
    gaps.sort_by_key(|gap| gap.time);
    gaps
}

/// Two threads wake each other so often: each time both are switched.
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

#[test]
fn a_snapshot_is_covered_from_the_latest_beginning_of_its_rings_on() {
    if let Some(missing) = missing() {
        assert!(std::env::var_os("PERFRING_NO_SKIP").is_none(), "should run here, but {missing}");
        let _ = writeln!(std::io::stderr().lock(), "SKIPPED: {missing}");
        return;
    }
    let mut stage = Stage::new();
    stage.wait();
    let report = stage.report();
    let first = *gaps(&report).last().unwrap();
    let (begun, cause) = (first.time, first.cause);
    println!("{}", first.sentence);
    assert!(first.parts.is_some() && ["blocked", "system call", "run delay"].contains(&cause));
    // The kernel overwrites the switches of that time, on one CPU at least.
    let dog = Watchdog::default();
    loop {
        dog.pause("the switches of the first gap are overwritten");
        switch(10_000);
        let report = stage.report();
        let all = gaps(&report);
        let first = all.iter().find(|gap| gap.time == begun).unwrap();
        assert!(report.covered <= report.length);
        if first.cause == "unknown" {
            println!("{}", first.sentence);
            assert!(first.sentence.contains("no kernel events of that time"), "{first:?}");
            break;
        }
        // Until then, it is what it was.
        assert_eq!(first.cause, cause, "{first:?}");
    }
    stage.wait();
    let report = stage.report();
    let last = *gaps(&report).last().unwrap();
    println!("{}", last.sentence);
    assert!(last.parts.is_some() && last.cause != "unknown", "{last:?}");
    assert!(report.covered > last.length && report.covered < report.length, "{report:?}");
}
