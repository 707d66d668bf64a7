//! The definition of a contestant: a ring between two processes, and its two ends.

use crate::error::BenchError;
use crate::options::WaitStrategy;
use crate::payload::Pool;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::Path;

/// The contestants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Contestant {
    /// One process copies the payload into a buffer.
    Memcpy,
    /// One cache line goes back and forth.
    Line,
    /// Two positions, raw pointers.
    Floor,
    /// The subject of this benchmark: each record is written in the ring, by `reserve_timeout` and `commit`.
    Perfring,
    /// `publish`, of a payload that exists, as below.
    Publish,
    /// `publish_timeout`.
    PublishTimeout,
    /// `reserve_timeout` and `commit`.
    ReserveTimeout,
    /// `publish_pod`.
    PublishPod,
}

impl Contestant {
    /// Returns its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Contestant::Memcpy => "memcpy",
            Contestant::Line => "line",
            Contestant::Floor => "floor",
            Contestant::Perfring => "perfring in place",
            Contestant::Publish => "perfring publish",
            Contestant::PublishTimeout => "perfring publish_timeout",
            Contestant::ReserveTimeout => "perfring reserve_timeout",
            Contestant::PublishPod => "perfring publish_pod",
        }
    }
}

/// What a full ring does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// The sender waits, as this measures lossless streams.
    Drop,
    /// The oldest records are evicted, as many as needed.
    Overwrite,
    /// The oldest half is evicted.
    OverwriteHalf,
}

impl Policy {
    /// Returns its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Drop => "drop",
            Policy::Overwrite => "overwrite",
            Policy::OverwriteHalf => "overwrite_half",
        }
    }
}

/// The reader: in drop mode the consumer and in overwrite mode an observer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Audience {
    /// A reader that follows as fast as it can.
    Keen,
    /// None, until the producer is done; then what is left is verified.
    Nobody,
}

impl Audience {
    /// Returns its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Audience::Keen => "keen",
            Audience::Nobody => "none",
        }
    }
}

/// What both ends of a ring agree on.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Setup {
    /// Bytes of the data area.
    pub data_size: u64,
    /// What a full ring does.
    pub policy: Policy,
    /// Bytes of a record.
    pub payload: usize,
    /// How the reader waits.
    pub reader: WaitStrategy,
}

impl Setup {
    /// Returns whether the payloads are of a pool. Where records may be lost each has its own
    /// number.
    pub fn has_pool(&self) -> bool {
        self.policy == Policy::Drop
    }
}

/// A ring between two processes.
pub trait Ring {
    /// Its writing end.
    type Sender: Sender;
    /// Its reading end: the consumer of a drop ring, an observer of any other.
    type Receiver: Receiver;

    /// Creates the ring's file.
    fn create(path: &Path, setup: &Setup) -> Result<(), BenchError>;

    /// Attaches to write.
    fn sender(path: &Path, setup: &Setup) -> Result<Self::Sender, BenchError>;

    /// Attaches to read, from the first record or the oldest that is left.
    fn receiver(path: &Path, setup: &Setup) -> Result<Self::Receiver, BenchError>;
}

/// The writing end.
pub trait Sender {
    /// Publishes a record for each number, one after the other, which `fill` writes in place in the
    /// ring; readers can see each before the next is begun. Waits while a drop ring is full.
    ///
    /// The loop is the contestant's, so that it can keep its state in registers.
    fn send<const N: usize>(
        &mut self,
        numbers: Range<u64>,
        fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<(), BenchError>;

    /// Publishes a record of each of these payloads, which exist, in the same way.
    #[inline(always)]
    fn send_from<const N: usize>(
        &mut self,
        numbers: Range<u64>,
        pool: &Pool<N>,
    ) -> Result<(), BenchError> {
        self.send(numbers, |slot, number| *slot = *pool.get(number))
    }
}

/// The reading end.
pub trait Receiver {
    /// Passes every record present to `visit`, in place where the mode allows it, releases the
    /// space, and returns how many records they were. Never waits.
    fn drain<const N: usize>(&mut self, visit: impl FnMut(&[u8; N])) -> Result<u64, BenchError>;

    /// Passes the next record to `visit`, if there is one, and returns whether there was: for a
    /// reader that answers each record before it polls for another. Never waits.
    fn next<const N: usize>(&mut self, visit: impl FnMut(&[u8; N])) -> Result<bool, BenchError> {
        Ok(self.drain(visit)? > 0)
    }

    /// Waits by its wait strategy until there is something to read, or for some microseconds, as
    /// the caller has other things to check. Never sleeps.
    fn wait(&mut self);
}

/// Wraps an error of a contestant.
pub fn failed(
    contestant: Contestant,
) -> impl Fn(Box<dyn std::error::Error + Send + Sync>) -> BenchError {
    move |source| BenchError::Contestant { contestant: contestant.name(), source }
}
