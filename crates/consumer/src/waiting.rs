//! How a consumer waits.

use crate::consumer::Consumer;
use crate::wait_strategy::{Poll, SPIN, left};
use perfring_ring::ResumePoint;
use perfring_shm::{AttachError, SLICE, Sleeper, Ticket};
use std::time::{Duration, Instant};

impl Consumer {
    /// Waits until there may be something to read, for at most `timeout`: spins a little as its
    /// [`WaitStrategy`](crate::WaitStrategy) says, then sleeps. Returns whether there is.
    ///
    /// ```
    /// # use perfring_consumer::Consumer;
    /// # use perfring_producer::{Options, Producer};
    /// # use std::time::Duration;
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("ring");
    /// # let mut producer = Producer::create(&path, &Options::default())?;
    /// let mut consumer = Consumer::attach(&path)?;
    /// assert!(!consumer.wait(Duration::from_millis(1)));
    /// producer.publish(b"x")?;
    /// assert!(consumer.wait(Duration::MAX)); // for ever
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait(&mut self, timeout: Duration) -> bool {
        if self.spin(timeout.min(SPIN)) {
            return true;
        }
        let deadline = Instant::now().checked_add(timeout.saturating_sub(SPIN));
        while !self.cursor.is_behind() {
            let Some(left) = left(deadline) else { return false };
            self.sleep(left);
        }
        true
    }

    /// As [`Consumer::wait`], without ever sleeping: for a core of its own.
    #[inline]
    pub fn spin(&mut self, timeout: Duration) -> bool {
        let cursor = &self.cursor;
        self.distance.spin(self.wait_strategy, timeout, |poll| match poll {
            Poll::Near => cursor.is_behind_near(),
            Poll::Far => cursor.is_behind(),
        })
    }

    /// Sleeps at once, for at most `timeout`, until a producer publishes what was asked for with
    /// [`Consumer::set_wake_at`]; [`Consumer::wait`] without the spinning, and content with any
    /// wake. Releases first.
    pub fn sleep(&mut self, timeout: Duration) {
        if let Some(ticket) = self.prepare_sleep() {
            self.cursor.mapping().sleep(ticket, timeout);
            self.end_sleep();
        }
    }

    /// What sleeps for this consumer without having it: for who shares it between threads, behind a
    /// lock that a sleeping thread is not to hold.
    ///
    /// ```
    /// # use perfring_consumer::Consumer;
    /// # use perfring_producer::{Options, Producer};
    /// # use std::{sync::Mutex, time::Duration};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("ring");
    /// # let mut producer = Producer::create(&path, &Options::default())?;
    /// let consumer = Consumer::attach(&path)?;
    /// let sleeper = consumer.sleeper()?;
    /// let consumer = Mutex::new(consumer);
    /// # producer.publish(b"x")?;
    /// while consumer.lock().unwrap().fill().unread == 0 {
    ///     let ticket = consumer.lock().unwrap().prepare_sleep();
    ///     if let Some(ticket) = ticket {
    ///         sleeper.sleep(ticket, Duration::from_secs(1)); // others can read meanwhile
    ///         consumer.lock().unwrap().end_sleep();
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`AttachError::Io`] if the ring cannot be mapped once more.
    pub fn sleeper(&self) -> Result<Sleeper, AttachError> {
        self.cursor.mapping().sleeper()
    }

    /// Before [`Sleeper::sleep`]: asks to be woken. `None` if there is something to read. Releases
    /// first.
    pub fn prepare_sleep(&mut self) -> Option<Ticket> {
        self.release();
        // The wake of who waits for a reservation to end may be missed.
        let most = if self.tend() { SLICE } else { Duration::MAX };
        let ResumePoint { pos, before, .. } = self.resume_point();
        self.cursor.mapping().prepare_sleep(pos, before.records, self.wake_at, most)
    }

    /// After [`Sleeper::sleep`], once nobody sleeps for this consumer any more.
    pub fn end_sleep(&mut self) {
        self.cursor.mapping().end_sleep();
    }

    /// Ends what a dead producer of a shared ring left open before what others published since, if
    /// it stood there at the last call, too: what [`Consumer::sleep`] does as well, for those who
    /// sleep elsewhere. Returns whether something is open there.
    pub fn tend(&mut self) -> bool {
        let mapping = self.cursor.mapping();
        let lags = mapping.lags();
        if lags {
            // A live producer's reservation is not seen twice at the same place; or its owner is
            // slow, and there is nothing to do about it.
            let cursor = self.cursor.resume_point().pos;
            if self.lagged_at == Some(cursor) {
                mapping.end_dead();
            }
            self.lagged_at = Some(cursor);
        }
        lags
    }
}
