//! A sink of one producer takes one slot of the ring, however many threads write to it.

use perfring_consumer::{Item, Snapshot};
use perfring_telemetry::producer::{
    Options, RecordType, ReserveError, SharedProducer, files::create,
};
use perfring_telemetry::{Log, Resource, Sink, options};
use std::sync::Barrier;
use std::time::{Duration, Instant};

#[test]
fn threads_together_take_one_slot() {
    const THREADS: usize = 6;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    create(&path, &Options { slots: 2, ..options() }).unwrap();
    let sink = Sink::attach_one(&path, Resource::default()).unwrap();
    let written = Barrier::new(THREADS + 1);
    let polled = Barrier::new(THREADS + 1);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                sink.emit(&Log { body: "here".into(), ..Log::default() }).unwrap();
                written.wait();
                polled.wait();
            });
        }
        written.wait();
        let other = SharedProducer::attach(&path).map(drop);
        polled.wait();
        other.unwrap();
    });
    assert_eq!(sink.dropped(), 0);
    let snapshot = Snapshot::take(&path).unwrap();
    let records = snapshot.iter().filter(|item| matches!(item, Ok(Item::Record(_)))).count();
    assert_eq!(records, THREADS + 1, "and the resource");
    println!("{records} records of {THREADS} threads through one slot");
}

#[test]
fn it_waits_for_an_open_reservation_that_blocks_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    create(&path, &Options { size: 4096, ..options() }).unwrap();
    let sink = Sink::attach_one(&path, Resource::default()).unwrap();
    let log = Log { body: "here".into(), ..Log::default() };
    let other = SharedProducer::attach(&path).unwrap();
    let open = other.reserve(RecordType::BYTES, 8).unwrap();
    let mut written = 0;
    let refused = loop {
        let since = Instant::now();
        match sink.emit(&log) {
            Ok(()) => written += 1,
            Err(error) => break (error, since.elapsed()),
        }
        assert!(written < 4096, "the ring goes round");
    };
    assert!(matches!(refused.0, ReserveError::Pending { .. }), "{refused:?}");
    assert!(refused.1 >= Duration::from_millis(20), "{refused:?}");
    assert_eq!(sink.dropped(), 1);
    open.commit();
    sink.emit(&log).unwrap();
    println!("{written} records, then {refused:?}");
}
