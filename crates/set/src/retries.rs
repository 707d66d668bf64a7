//! Rings that could not be attached to.

use crate::entry::RingEntry;
use perfring_consumer::AttachError;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// How often a ring that could not be attached to is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// The rings of a directory that could not be attached to. A damaged one is set aside, and any other is tried again each
/// second: it may be allowed later, or have room for one more reader.
///
/// ```
/// use perfring_set::{Change, Follower, RingRetries};
/// use perfring_consumer::Consumer;
/// use std::time::{Duration, Instant};
/// # use perfring_producer::{Options, Producer};
/// # let dir = tempfile::tempdir()?;
/// # let producer = Producer::create(dir.path().join("one"), &Options::default())?;
/// # let dir = dir.path();
/// let mut follower = Follower::new(dir)?;
/// let mut retries = RingRetries::default();
/// let Some(Change::Appeared(ring)) = follower.next() else { panic!("nothing is there") };
/// let first = Consumer::attach(&ring.path)?;
/// let error = Consumer::attach(&ring.path).unwrap_err();
/// let (why, retried) = retries.failed(ring, &error, "").expect("it was not reported before");
/// assert!(retried && why.ends_with("it is tried again each second"));
/// drop(first);
/// for (ring, reported) in retries.due(Instant::now() + Duration::from_secs(1)) {
///     match Consumer::attach(&ring.path) {
///         Ok(_) => println!("{} is read now", ring.name),
///         Err(error) => drop(retries.failed(ring, &error, &reported)),
///     }
/// }
/// # assert!(retries.due(Instant::now() + Duration::from_secs(5)).is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct RingRetries {
    /// With the reason that was reported.
    waiting: Vec<(RingEntry, String)>,
    aside: HashSet<[u8; 16]>,
    retry_at: Option<Instant>,
}

impl RingRetries {
    /// Sets a ring aside that was read, and is damaged.
    pub fn set_aside(&mut self, uuid: [u8; 16]) {
        self.aside.insert(uuid);
    }

    /// Returns whether a ring is damaged, and not to be attached to.
    #[must_use]
    pub fn is_aside(&self, uuid: &[u8; 16]) -> bool {
        self.aside.contains(uuid)
    }

    /// Notes that a ring's file was removed: it is not tried again.
    pub fn vanished(&mut self, uuid: &[u8; 16]) {
        self.waiting.retain(|(entry, _)| entry.identity.uuid != *uuid);
    }

    /// Returns the rings to try again now, each with the reason that was reported. Those that fail again are handed to
    /// [`RingRetries::failed`].
    pub fn due(&mut self, now: Instant) -> Vec<(RingEntry, String)> {
        if self.waiting.is_empty() || self.retry_at.is_some_and(|next| now < next) {
            return Vec::new();
        }
        self.retry_at = None;
        std::mem::take(&mut self.waiting)
    }

    /// Notes that attaching to a ring failed. Returns the reason and whether it is tried again, unless `reported` is the
    /// same reason, or there is no such file any more, which a [`Follower`](crate::Follower) reports.
    pub fn failed(
        &mut self,
        entry: RingEntry,
        error: &AttachError,
        reported: &str,
    ) -> Option<(String, bool)> {
        if matches!(error, AttachError::NotFound { .. } | AttachError::Removed { .. }) {
            return None;
        }
        let damaged = matches!(
            error,
            AttachError::Bad { .. } | AttachError::Corrupt { .. } | AttachError::Truncated { .. }
        );
        let then = if damaged { "the ring is set aside" } else { "it is tried again each second" };
        let why = format!("{error}; {then}");
        if damaged {
            self.aside.insert(entry.identity.uuid);
        } else {
            let now = Instant::now();
            self.retry_at.get_or_insert(now.checked_add(RETRY).unwrap_or(now));
            self.waiting.push((entry, why.clone()));
        }
        (why != reported).then_some((why, !damaged))
    }
}
