//! The lock of a sink's own producer.
#![allow(clippy::unwrap_used)]

use super::*;
use perfring_producer::{Options, SharedProducer};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;

#[test]
fn a_thread_that_has_the_lock_of_the_sinks_own_producer_does_not_wait_for_itself() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    perfring_producer::files::create(&path, &Options::many()).unwrap();
    let spare = SharedProducer::attach(&path).unwrap();
    let place = Place::of_ring(spare).unwrap();
    let ring = Ring::new(Threads::Together, place, Resource::here()).unwrap();
    let (done, is_done) = mpsc::channel();
    let nested = std::thread::spawn(move || {
        let again = ring.with_spare(|_| Ok(ring.with_spare(|_| Ok(()))));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            ring.with_spare(|_| -> Result<(), _> { std::panic::resume_unwind(Box::new(())) })
        }));
        let after = ring.with_spare(|_| Ok(()));
        done.send((again, panicked.is_err(), after)).unwrap();
    });
    let (again, panicked, after) = is_done.recv_timeout(perfring_testkit::wait::WATCHDOG).unwrap();
    assert!(matches!(again.unwrap(), Err(ReserveError::Contended { .. })));
    assert!(panicked);
    assert_eq!(after, Ok(()));
    nested.join().unwrap();
}
