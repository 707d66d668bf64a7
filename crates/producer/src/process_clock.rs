//! The clock of timestamps, for callers that read it before they publish.

use crate::threads_clock::ThreadsClock;
use perfring_ring::Reading;
use perfring_shm::{ClockError, MachineClock};
use std::sync::Arc;

/// The clock that timestamps come from, for all threads of a process: ns of `CLOCK_BOOTTIME`, at about 4 ns. For a caller that
/// needs a record's time before it has made the record. Clones are the same clock.
///
/// ```
/// use perfring_producer::{Options, ProcessClock, RecordType, SharedProducer};
/// # let dir = tempfile::tempdir()?;
/// let clock = ProcessClock::find()?;
/// let options = Options { time: true, ..Options::many() };
/// let producer = SharedProducer::create(dir.path().join("ring"), &options)?;
/// let now = clock.now();
/// producer.publish_at(RecordType::BYTES, b"hello", now, &clock)?;
/// assert!(clock.now() > now); // each timestamp of a thread is later than the last one
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ProcessClock(Arc<ThreadsClock<MachineClock>>);

impl ProcessClock {
    /// Returns the machine's clock, as seen from this process.
    ///
    /// # Errors
    /// See [`ClockError`].
    pub fn find() -> Result<Self, ClockError> {
        MachineClock::find().map(|clock| ProcessClock(Arc::new(ThreadsClock::new(clock))))
    }

    /// Returns the time.
    #[must_use]
    #[inline(always)]
    pub fn now(&self) -> u64 {
        self.0.now()
    }

    /// Returns what the clocks say, for a ring.
    pub(crate) fn read(&self) -> Reading {
        self.0.read()
    }
}
