//! Rings with priority: for records that a flood of others must not drown.

use crate::dir::{RingSet, SetError};
use perfring_producer::Producer;

/// The last part of the name of a ring with priority.
const PRIORITY: &str = "priority";

/// The least severity of records for a ring with priority: OpenTelemetry's number of `ERROR`.
///
/// It is not the number of `WARN`, 13: many programs warn so often that their warnings would drown the errors.
pub const PRIORITY_SEVERITY: u64 = 17;

impl RingSet {
    /// Returns the name of the ring with priority beside the ring of this name: `NAME.priority`.
    #[must_use]
    pub fn priority_name(name: &str) -> String {
        format!("{name}.{PRIORITY}")
    }

    /// Attaches a producer, like [`RingSet::producer`], to the ring for records of this severity, by OpenTelemetry's
    /// numbers. From [`PRIORITY_SEVERITY`] on, this is the ring with priority beside the ring of this name.
    ///
    /// A flood of other records cannot fill that ring, and the sidecar reads it first. A program has a producer for each
    /// of the two. The set's merge puts the records of both in the order of time.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// let set = perfring_set::RingSet::open(dir.path().join("rings"))?;
    /// let (mut debug, mut error) = (set.producer_for("shop", 5)?, set.producer_for("shop", 17)?);
    /// while debug.publish(&[0; 1000]).is_ok() {} // until the ring is full
    /// error.publish(b"out of memory")?;
    /// assert!(set.dir().join("shop.priority").exists());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`SetError`].
    pub fn producer_for(&self, name: &str, severity: u64) -> Result<Producer, SetError> {
        match severity >= PRIORITY_SEVERITY {
            true => self.producer(&Self::priority_name(name)),
            false => self.producer(name),
        }
    }
}
