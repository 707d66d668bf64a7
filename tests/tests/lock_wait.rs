//! A producer of a shared ring that is off its core while it holds the lock: `publish` waits for it, a
//! timeout of zero does not, and each loss is counted.

use perfring_consumer::Consumer;
use perfring_producer::{Options, RecordType, ReserveError, SharedProducer, files::create};
use perfring_testkit::wait::{WATCHDOG, sleeps};
use perfring_tests::shared::{Raw, Reported, balance, said};
use perfring_tests::stepped::Stepped;
use perfring_tests::{NUMBERED, ring_dir};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

/// Starts a producer and stops it under the lock.
fn stopped_under_the_lock(ring: &Path) -> Stepped {
    let other = Stepped::start(env!("CARGO_BIN_EXE_sharer"), &["step", "publish"], ring);
    while Raw::read(ring).locked_by().is_none() {
        assert!(!other.step(), "it never takes the lock");
    }
    other
}

type Act = fn(&SharedProducer, seq: u64) -> Result<(), ReserveError>;

const ONCE_FREE: &str = "a timeout of zero, once it is free";

const ALL_THAT_WAIT: [(&str, Act); 5] = [
    ("publish_as", |own, seq| own.publish_as(NUMBERED, &said(0, seq, 100))),
    ("publish_as, large", |own, seq| own.publish_as(NUMBERED, &said(0, seq, 1000))),
    ("reserve", |own, seq| {
        let mut record = own.reserve(NUMBERED, 100)?;
        record.copy_from_slice(&said(0, seq, 100));
        record.commit();
        Ok(())
    }),
    ("reserve_batch", |own, seq| own.reserve_batch(400)?.push_as(NUMBERED, &said(0, seq, 100))),
    (ONCE_FREE, |own, seq| own.publish_timeout(NUMBERED, &said(0, seq, 100), Duration::ZERO)),
];

#[test]
fn a_publish_waits_for_a_holder_of_the_lock_that_comes_back() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    create(&ring, &Options::many()).unwrap();
    let own = SharedProducer::attach(&ring).unwrap();
    assert_eq!(own.lock_wait(), Duration::from_millis(5), "some milliseconds unless set otherwise");
    // However slow this machine is.
    own.set_lock_wait(WATCHDOG);
    let mut own = Some(own);
    for (seq, (name, act)) in (0..).zip(ALL_THAT_WAIT) {
        let other = stopped_under_the_lock(&ring);
        let (thread, done) = (AtomicI32::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let producer = own.take().unwrap();
            let publishing = scope.spawn(|| {
                thread.store(nix::unistd::gettid().as_raw(), Ordering::Relaxed);
                let outcome = match name == ONCE_FREE {
                    true => Ok(()),
                    false => act(&producer, seq),
                };
                done.store(true, Ordering::Relaxed);
                (producer, outcome)
            });
            // It has tried, and waits; or it has given up.
            while !done.load(Ordering::Relaxed) && !sleeps(thread.load(Ordering::Relaxed)) {
                std::thread::yield_now();
            }
            other.go_on(false);
            let (producer, outcome) = publishing.join().unwrap();
            assert_eq!(outcome, Ok(()), "{name}");
            if name == ONCE_FREE {
                assert_eq!(act(&producer, seq), Ok(()), "{name}");
            }
            own = Some(producer);
        });
    }
    let mut reported = Reported::default();
    reported.drain(&mut Consumer::attach(&ring).unwrap());
    assert_eq!(reported.by(0), (0..ALL_THAT_WAIT.len() as u64).collect::<Vec<_>>());
    assert_eq!(balance(&ring, true).totals.unwrap().producer.refused.total().records, 0);
}

#[test]
fn who_does_not_wait_for_the_lock_loses_one_record_a_call() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    create(&ring, &Options::many()).unwrap();
    let own = SharedProducer::attach(&ring).unwrap();
    let other = stopped_under_the_lock(&ring);
    let contended = |outcome| matches!(outcome, Err(ReserveError::Contended { slot: 1 }));
    assert!(contended(own.publish_timeout(RecordType::BYTES, b"lost", Duration::ZERO)));
    assert!(contended(own.publish_timeout(NUMBERED, &said(0, 0, 1000), Duration::ZERO)));
    assert!(contended(own.reserve_timeout(RecordType::BYTES, 8, Duration::ZERO).map(drop)));
    own.set_lock_wait(Duration::ZERO);
    assert!(contended(own.publish(b"lost")));
    // A holder that does not come back is waited for to the limit, and no longer.
    own.set_lock_wait(Duration::from_millis(5));
    assert!(contended(own.publish(b"lost")));
    assert!(contended(own.reserve(RecordType::BYTES, 8).map(drop)));
    assert_eq!(own.totals().refused.contended.records, 6);
    other.go_on(false);
    own.publish_timeout(NUMBERED, &said(0, 1, 100), Duration::ZERO).unwrap();
    let producer = balance(&ring, true).totals.unwrap().producer;
    assert_eq!((producer.refused.contended.records, producer.refused.total().records), (6, 6));
}
