//! What a signal handler is told that has interrupted this producer.

use super::CpuProducer;
use crate::error::{CpuSetError, TypeError};
use crate::{Options, ReserveError};
use perfring_types::{Encoding, Schema};

/// A thread that attaches to a ring or registers a type has this mutex, and a signal handler that interrupts it runs
/// in the same thread.
#[test]
#[cfg_attr(miri, ignore = "maps files")]
fn a_handler_that_interrupts_what_attaches_is_refused_and_does_not_wait() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("set");
    let producer = match CpuProducer::create(&dir, &Options::per_cpu()) {
        Err(error @ CpuSetError::Rseq { .. }) => return println!("not tried: {error}"),
        made => made.unwrap(),
    };
    let other = (0..).find(|cpu| producer.cpus().all(|known| known != *cpu)).unwrap();
    let schema = Schema::new("sample", Encoding::Bytes);
    let held = producer.types.lock();
    let refused = producer.attach_to(other);
    assert!(matches!(refused, Err(CpuSetError::Interrupted { cpu }) if cpu == other));
    let busy = ReserveError::Type(TypeError::Busy);
    assert_eq!(producer.register(&schema), Err(busy));
    drop(held);
    producer.attach_to(other).unwrap();
    assert!(dir.join(format!("cpu{other}")).exists());
}
