//! The options of readers.

use crate::wait_strategy::WaitStrategy;
use perfring_ring::{Start, WakeAt};
use perfring_shm::{Lines, Trust};

/// When an item that a [`Consumer`](crate::Consumer) returned counts as read. Then it does not come
/// again, and its space goes back to the producer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Acknowledge {
    /// At the next call that reads. If the process ends in between, the next consumer may or may
    /// not get the item again.
    #[default]
    AtNextRead,
    /// When [`Consumer::acknowledge`](crate::Consumer::acknowledge) is called. The next consumer
    /// gets everything again that was not acknowledged (at-least-once delivery). Unacknowledged
    /// items keep their space: a producer that fills a drop ring finds it full.
    Explicit,
}

/// How a [`Consumer`](crate::Consumer) attaches.
///
/// ```
/// # use perfring_consumer::{advanced::Lines, Consumer, ConsumerOptions, Item};
/// # use perfring_producer::{Options, Producer};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("ring");
/// # let mut producer = Producer::create(&path, &Options::default())?;
/// # producer.publish(b"x")?;
/// let options = ConsumerOptions {
///     name: Some("auditor".to_owned()),
///     lines: Lines::Leave, // maps the records read-only: not even a bug can change them
///     ..ConsumerOptions::default()
/// };
/// let mut consumer = Consumer::attach_with(&path, &options)?;
/// assert!(matches!(consumer.read()?, Some(Item::Record(record)) if record.bytes == b"x"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsumerOptions {
    /// A name of up to 64 bytes that `perfring stat` shows. Default `None`: the program's name.
    pub name: Option<String>,
    /// The treatment of cache lines of records that were read in place.
    pub lines: Lines,
    /// Whether records are borrowed in place, or copied because others may change them. Default
    /// [`Trust::Auto`]: copied if other users than this process's may write the file.
    pub trust: Trust,
    /// How the consumer polls and waits. Default [`WaitStrategy::Adaptive`].
    pub wait: WaitStrategy,
    /// The condition that wakes a sleeping consumer. Default [`WakeAt::Record`]; the others cost
    /// the producer fewer wakes.
    pub wake_at: WakeAt,
    /// When items count as read. Default [`Acknowledge::AtNextRead`].
    pub acknowledge: Acknowledge,
}

impl ConsumerOptions {
    /// Returns the default options with a name of up to 64 bytes, which `perfring stat` shows.
    #[must_use]
    pub fn named(name: impl Into<String>) -> Self {
        ConsumerOptions { name: Some(name.into()), ..ConsumerOptions::default() }
    }
}

/// How an [`Observer`](crate::Observer) opens a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObserverOptions {
    /// Its first position. Default [`Start::Oldest`].
    pub start: Start,
    /// An observer always copies. With [`Trust::Nobody`], or if [`Trust::Auto`] (the default)
    /// chooses it, the observer also takes no more memory than [`Trust::MAX_AUX`] for a payload, and survives a
    /// file that is truncated.
    pub trust: Trust,
    /// How the observer polls. Default [`WaitStrategy::Adaptive`].
    pub wait: WaitStrategy,
}
