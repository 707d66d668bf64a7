//! A sink of one producer takes one slot of the ring, however many threads write to it.
#![allow(clippy::unwrap_used, clippy::panic)]

use perfring_consumer::{Item, Snapshot};
use perfring_telemetry::producer::{Options, SharedProducer, create};
use perfring_telemetry::{Log, Resource, Sink, options};
use std::sync::Barrier;

#[test]
fn threads_together_take_one_slot() {
    const THREADS: usize = 6;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    create(&path, &Options { slots: 2, ..options() }).unwrap();
    let sink = Sink::attach_one(&path, Resource::default()).unwrap();
    let written = Barrier::new(THREADS + 1);
    let looked = Barrier::new(THREADS + 1);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                sink.emit(&Log { body: "here".into(), ..Log::default() }).unwrap();
                written.wait();
                looked.wait();
            });
        }
        written.wait();
        let other = SharedProducer::attach(&path).map(drop);
        looked.wait();
        other.unwrap();
    });
    assert_eq!(sink.dropped(), 0);
    let snapshot = Snapshot::take(&path).unwrap();
    let records = snapshot.iter().filter(|item| matches!(item, Ok(Item::Record(_)))).count();
    assert_eq!(records, THREADS + 1, "and the resource");
    println!("{records} records of {THREADS} threads through one slot");
}
