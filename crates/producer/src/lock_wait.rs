//! How a producer of a shared ring waits: for the lock, for space, and for an older reservation to end.

use crate::shared_producer::SharedProducer;
use crate::waiting::{Limits, wait_once};
use perfring_ring::Refusal;
use std::time::Duration;

impl SharedProducer {
    /// Sets for how long publishing and reserving wait for a live producer that holds the ring's lock and
    /// is off its core: 5 ms by default, 0 for not at all. They wait for nothing else, unless their
    /// name ends in `_timeout`: then the timeout counts, for the lock too. `offer` and `offer_batch` attempt once. A stopped producer makes each wait that long, and then lose its record.
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
        self.lock_wait.set(limit);
    }

    /// Returns for how long publishing and reserving wait for the lock.
    #[must_use]
    pub fn lock_wait(&self) -> Duration {
        self.lock_wait.get()
    }

    /// Returns what waits after a refusal, for at most `timeout` in all; for the lock alone, and for at most
    /// [`SharedProducer::lock_wait`], if there is none. It returns the refusal that the call is to return.
    pub(crate) fn waiter(
        &self,
        timeout: Option<Duration>,
        len: usize,
    ) -> impl FnMut(Refusal) -> Result<(), Refusal> {
        let mut waiting = None;
        move |refusal| {
            let limits = timeout.map_or_else(|| Limits::lock(self.lock_wait()), Limits::all);
            let for_space = |left| self.window.sleep_for_space(len, left);
            wait_once(&mut waiting, refusal, limits, for_space)
        }
    }
}
