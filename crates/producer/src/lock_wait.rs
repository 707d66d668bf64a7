//! How a producer of a shared ring waits: for the lock, for space, and for an older reservation to end.

use crate::errors::ReserveError;
use crate::shared_producer::SharedProducer;
use crate::waiting::wait_once;
use perfring_abi::RecordType;
use perfring_ring::{Refusal, Wake};
use perfring_shm::SharedReservation;
use std::time::Duration;

impl SharedProducer {
    /// Sets for how long publishing and reserving wait for a live producer that holds the ring's lock and
    /// is off its core: 5 ms by default, 0 for not at all. They wait for nothing else, unless their
    /// name ends in `_timeout`. A stopped producer makes each wait that long, and then lose its record.
    ///
    /// ```
    /// # use perfring_producer::{Options, SharedProducer};
    /// # use std::time::Duration;
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("ring");
    /// let producer = SharedProducer::create(&path, &Options::many())?;
    /// producer.set_lock_wait(Duration::from_millis(1)); // a thread with a deadline
    /// producer.publish(b"in time, or counted as lost")?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_lock_wait(&self, limit: Duration) {
        self.window.set_lock_wait(limit);
    }

    /// Returns for how long publishing and reserving wait for the lock.
    #[must_use]
    pub fn lock_wait(&self) -> Duration {
        self.window.lock_wait()
    }

    /// Publishes one record as [`SharedProducer::publish`] does, but does not wait for a live producer
    /// that is off its core: after some ten microseconds the record is lost.
    ///
    /// ```
    /// # use perfring_producer::{Options, RecordType, SharedProducer};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("ring");
    /// let producer = SharedProducer::create(&path, &Options::many())?;
    /// producer.try_publish(b"now or never")?;
    /// producer.try_reserve(RecordType::BYTES, 8)?.commit();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`ReserveError`]; the loss is counted.
    pub fn try_publish(&self, payload: &[u8]) -> Result<(), ReserveError> {
        self.try_publish_as(RecordType::BYTES, payload)
    }

    /// Publishes one record of this type, as [`SharedProducer::try_publish`] does.
    ///
    /// # Errors
    /// See [`ReserveError`]; the loss is counted.
    pub fn try_publish_as(&self, kind: RecordType, payload: &[u8]) -> Result<(), ReserveError> {
        let refused = |refusal| self.refuse(refusal, payload.len());
        let other = || self.try_publish_other(kind, payload).map_err(refused);
        self.window.publish_at_once(kind, payload, Wake::Auto, refused, other)
    }

    /// Reserves space as [`SharedProducer::reserve`] does, and waits as little as
    /// [`SharedProducer::try_publish`].
    ///
    /// # Errors
    /// See [`ReserveError`]; the loss is counted.
    pub fn try_reserve(
        &self,
        kind: RecordType,
        len: usize,
    ) -> Result<SharedReservation<'_>, ReserveError> {
        self.reserve_timeout(kind, len, Duration::ZERO)
    }

    /// Attempts once without reading the clock, then for at most `timeout`. Returns what `refused` makes of the last
    /// refusal.
    #[inline(always)]
    pub(crate) fn wait_for<T, E>(
        &self,
        timeout: Duration,
        len: usize,
        mut attempt: impl FnMut() -> Result<T, Refusal>,
        refused: impl FnOnce(Refusal) -> E,
    ) -> Result<T, E> {
        let mut waiting = None;
        loop {
            // Here alone: the compiler then knows what was got where it is used.
            let refusal = match attempt() {
                Ok(got) => return Ok(got),
                Err(refusal) => refusal,
            };
            let for_space = |left| self.window.sleep_for_space(len, left);
            if let Err(refusal) = wait_once(&mut waiting, refusal, timeout, for_space) {
                return Err(refused(refusal));
            }
        }
    }
}
