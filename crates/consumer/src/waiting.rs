//! Waiting of a consumer.

use crate::consumer::Consumer;
use crate::wait_strategy::{Poll, SPIN, left};
use perfring_shm::{SLICE, Ticket};
use std::time::{Duration, Instant};

/// How long a spinning consumer goes without a look for losses that no marker reports.
const LOOK: Duration = Duration::from_secs(1);

impl Consumer {
    /// Waits until there may be something to read, for at most `timeout`: spins a little by its
    /// [`WaitStrategy`](crate::WaitStrategy), then sleeps. Returns whether there may be something.
    ///
    /// If the ring's file was removed or replaced, nothing more may ever come. A waiting consumer
    /// checks for that once a second and returns `true`: [`Consumer::read`] then returns the remaining
    /// items, and [`ReadError::Removed`](crate::ReadError::Removed) after them.
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
        if self.spin_only(timeout.min(SPIN)) {
            return true;
        }
        let deadline = Instant::now().checked_add(timeout.saturating_sub(SPIN));
        while !self.cursor.is_behind() && !self.has_lost() {
            let Some(left) = left(deadline) else { return false };
            self.sleep(left);
            if self.cursor.mapping().is_removed() {
                break;
            }
        }
        true
    }

    /// Waits as [`Consumer::wait`] does, but never sleeps: for a dedicated core. Looks once a second for losses that no
    /// marker reports. Checks for a removal only when the time is over.
    #[inline]
    pub fn spin(&mut self, timeout: Duration) -> bool {
        let mut left = timeout;
        loop {
            let slice = left.min(LOOK);
            if self.spin_only(slice) || self.has_lost() {
                return true;
            }
            left = left.saturating_sub(slice);
            if left.is_zero() {
                return self.check_removed();
            }
        }
    }

    #[inline]
    fn spin_only(&mut self, timeout: Duration) -> bool {
        let cursor = &self.cursor;
        self.distance.spin(self.wait_strategy, timeout, |poll| match poll {
            Poll::Near => cursor.is_behind_near(),
            Poll::Far => cursor.is_behind(),
        })
    }

    /// Sleeps at once, without spinning, for at most `timeout`, until a producer reaches the threshold of
    /// [`ConsumerOptions::wake_at`](crate::ConsumerOptions::wake_at), or the ring is found
    /// removed. Returns after any wake. Releases first.
    pub fn sleep(&mut self, timeout: Duration) {
        let deadline = Instant::now().checked_add(timeout);
        self.release();
        while !self.check_removed() {
            let Some(left) = left(deadline) else { return };
            let Some(ticket) = self.prepare_sleep() else { return };
            let (slice, began) = (left.min(self.removal.left()), Instant::now());
            self.cursor.mapping().sleep(ticket, slice);
            self.end_sleep();
            if began.elapsed() < slice {
                return; // woken
            }
        }
    }

    /// Returns whether there is a loss that no marker reports. Looks at most once a second.
    fn has_lost(&mut self) -> bool {
        self.losses.is_due() && self.cursor.has_lost()
    }

    /// Returns whether the ring's file was removed or replaced. Asks the file system at most once a
    /// second.
    pub(crate) fn check_removed(&mut self) -> bool {
        let mapping = self.cursor.mapping();
        if self.removal.is_due() { mapping.check_removed() } else { mapping.is_removed() }
    }

    /// See [`AdvancedConsumer::prepare_sleep`](crate::advanced::AdvancedConsumer::prepare_sleep).
    pub(crate) fn prepare_sleep(&mut self) -> Option<Ticket> {
        self.release();
        if self.has_lost() {
            return None;
        }
        // The wake at the end of an open reservation may be missed.
        let most = if self.tend() { SLICE } else { Duration::MAX };
        let here = self.cursor.resume_point();
        let (pos, before) = (here.pos(), here.before());
        self.cursor.mapping().prepare_sleep(pos, before.records, self.wake_at, most)
    }

    pub(crate) fn end_sleep(&mut self) {
        self.cursor.mapping().end_sleep();
    }

    /// See [`AdvancedConsumer::tend`](crate::advanced::AdvancedConsumer::tend).
    pub(crate) fn tend(&mut self) -> bool {
        let mapping = self.cursor.mapping();
        let lags = mapping.lags();
        if lags {
            // A live producer's reservation is not seen twice at the same position; or its producer
            // is slow, and nothing can be done about it.
            let cursor = self.cursor.resume_point().pos();
            if self.lagged_at == Some(cursor) {
                mapping.end_dead();
            }
            self.lagged_at = Some(cursor);
        }
        lags
    }
}
