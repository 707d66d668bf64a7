//! Closures and owners of reservations that panic: nothing half-written is published, and no lock stays taken.

use perfring_consumer::{Consumer, Item};
use perfring_producer::{
    CpuProducer, Options, Producer, RecordType, SharedProducer, error::CpuSetError,
};
use perfring_shm::{SharedWindow, Trust};
use perfring_tests::{ring_dir, skip};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

const KIND: RecordType = RecordType::BYTES;

/// Panics without a message.
fn fail() -> ! {
    resume_unwind(Box::new(()))
}

fn panics(what: impl FnOnce()) {
    assert!(catch_unwind(AssertUnwindSafe(what)).is_err());
}

fn read(ring: &Path) -> Vec<Vec<u8>> {
    let mut consumer = Consumer::attach(ring).unwrap();
    let mut all = Vec::new();
    while let Some(item) = consumer.read().unwrap() {
        match item {
            Item::Record(record) => all.push(record.bytes.to_vec()),
            Item::Lost(lost) => panic!("{lost:?}"),
        }
    }
    consumer.release();
    all
}

#[test]
fn a_batch_that_a_panic_drops_has_no_record_that_was_being_written() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    let producer = SharedProducer::create(&ring, &Options::many()).unwrap();
    let batch = || producer.reserve_batch(400).unwrap();
    panics(|| {
        let mut batch = batch();
        batch.push(b"one").unwrap();
        batch.push_in_place(KIND, 16).unwrap()[..3].copy_from_slice(b"hal");
        fail();
    });
    assert_eq!(read(&ring), [b"one"]);
    panics(|| {
        batch().push_in_place(KIND, 16).unwrap()[..3].copy_from_slice(b"hal");
        let mut batch = batch();
        batch.push_in_place(KIND, 3).unwrap().copy_from_slice(b"hal");
        fail();
    });
    assert_eq!(read(&ring).len(), 1, "that of the batch which was dropped in order");
    panics(|| {
        let mut batch = batch();
        batch.push_in_place(KIND, 3).unwrap().copy_from_slice(b"two");
        batch.push(b"three").unwrap(); // so the one before is written
        fail();
    });
    assert_eq!(read(&ring), [&b"two"[..], b"three"]);

    /// Publishes when it is dropped, by a panic or not.
    struct Last<'a>(&'a SharedProducer);
    impl Drop for Last<'_> {
        fn drop(&mut self) {
            let mut batch = self.0.reserve_batch(400).unwrap();
            batch.push_in_place(KIND, 4).unwrap().copy_from_slice(b"last");
        }
    }
    panics(|| {
        let _last = Last(&producer);
        fail();
    });
    producer.publish(b"more").unwrap();
    assert_eq!(read(&ring), [b"last", b"more"]);
}

#[test]
fn a_reservation_that_a_panic_drops_is_discarded() {
    let dir = ring_dir();
    let [one, many, set] = ["one", "many", "set"].map(|name| dir.path().join(name));
    let mut exclusive = Producer::create(&one, &Options::default()).unwrap();
    panics(|| {
        exclusive.reserve(KIND, 16).unwrap()[0] = 1;
        let mut record = exclusive.reserve(KIND, 16).unwrap();
        record[0] = 1;
        fail();
    });
    exclusive.publish(b"x").unwrap();
    let shared = SharedProducer::create(&many, &Options::many()).unwrap();
    panics(|| {
        let mut record = shared.reserve(KIND, 16).unwrap();
        record[0] = 1;
        fail();
    });
    shared.publish(b"x").unwrap();
    for ring in [one, many] {
        assert_eq!(read(&ring), [b"x"]);
    }
    let per_cpu = match CpuProducer::create(&set, &Options::per_cpu()) {
        Err(CpuSetError::Rseq { source }) => return skip(&source.to_string()),
        set => set.unwrap(),
    };
    let cpu = per_cpu.cpus().next().unwrap();
    panics(|| {
        let mut record = per_cpu.reserve(KIND, 16).unwrap();
        record[0] = 1;
        fail();
    });
    assert!(read(&set.join(format!("cpu{cpu}"))).is_empty());
}

#[test]
fn a_clock_that_panics_leaves_no_lock_taken() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    let other = SharedProducer::create(&ring, &Options { time: true, ..Options::many() }).unwrap();
    let window = SharedWindow::attach(&ring, "its clock fails", Trust::Auto).unwrap();
    panics(|| window.begin_time(|| fail()).unwrap());
    panics(|| assert!(window.keep_time(|| fail())));
    other.publish_timeout(KIND, b"x", std::time::Duration::ZERO).unwrap();
    assert_eq!(read(&ring), [b"x"]);
}
