//! The definition of a contestant: the measuring code around it is the same for all, and the loop
//! that sends or reads is each contestant's own.

use crate::error::{BenchError, Result};
use crate::payload::Pool;
use crate::waits::{Room, WaitStrategy};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

/// Where a contestant's two ends run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Location {
    /// In two processes.
    Processes,
    /// The kernel writes, as a BPF program requests.
    Kernel,
}

impl Location {
    /// Returns a description.
    pub fn words(self) -> &'static str {
        match self {
            Location::Processes => "processes",
            Location::Kernel => "kernel and process",
        }
    }
}

/// The role of a contestant in the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The least code that moves the same bytes: no library.
    Limit,
    /// perfring.
    Ours,
    /// Another means of transfer between processes.
    Rival,
}

/// The settings of a channel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setup {
    /// Bytes that the ring should hold, payloads only or with headers, as the contestant counts. A
    /// contestant with fixed slots takes `data_size / payload` of them.
    pub data_size: u64,
    /// Bytes of every record.
    pub payload: usize,
    /// Whether the oldest records are overwritten when it is full. If not, nothing is ever lost:
    /// senders wait.
    pub overwrite: bool,
    /// Senders at once.
    pub senders: usize,
    /// Receivers, each of which gets every record.
    pub receivers: usize,
    /// How a receiver that found nothing polls again, where the harness can choose.
    pub pace: WaitStrategy,
    /// Whether receivers sleep in the kernel while there is nothing, and senders wake them.
    pub sleeping: bool,
}

impl Setup {
    /// Returns how a reader waits: by its polls, or asleep in this way.
    pub fn polls_or(&self, asleep: &str) -> String {
        if self.sleeping { asleep.to_owned() } else { self.pace.polls() }
    }
}

/// What a contestant can be asked to do, with the reason for each thing that it cannot.
#[derive(Clone, Copy, Debug)]
pub struct Can {
    /// Largest payload.
    pub payload: usize,
    /// Lossless streams from one sender to one receiver.
    pub lossless: Result<(), &'static str>,
    /// Several senders.
    pub senders: Result<(), &'static str>,
    /// Overwriting the oldest records.
    pub overwrite: Result<(), &'static str>,
    /// Overwriting with one sender, where it overwrites with several.
    pub overwrite_alone: Result<(), &'static str>,
    /// A reader that follows while the oldest records are overwritten.
    pub follow: Result<(), &'static str>,
    /// Several receivers of every record, which lose nothing or know what they lost.
    pub receivers: Result<(), &'static str>,
    /// Several receivers of every record, for all of which the sender waits.
    pub wait_for_many: Result<(), &'static str>,
    /// A receiver that sleeps in the kernel.
    pub sleeping: Result<(), &'static str>,
    /// A sender can find out that there is no room.
    pub refuses: Result<(), &'static str>,
    /// Anything but latency.
    pub but_latency: Result<(), &'static str>,
}

impl Can {
    /// Everything, with payloads of this length.
    pub const fn all(payload: usize) -> Self {
        Can {
            payload,
            lossless: Ok(()),
            senders: Ok(()),
            overwrite: Ok(()),
            overwrite_alone: Ok(()),
            follow: Ok(()),
            receivers: Ok(()),
            wait_for_many: Ok(()),
            sleeping: Ok(()),
            refuses: Ok(()),
            but_latency: Ok(()),
        }
    }
}

/// The description of a contestant.
#[derive(Clone, Debug)]
pub struct About {
    /// Crate, library or kernel, with its version.
    pub version: String,
    /// Where its ends run.
    pub location: Location,
    /// Its settings, in its own terms: sizes, modes, batches.
    pub settings: String,
    /// How its reader waits while there is nothing.
    pub waits: String,
}

/// A means of transferring records.
///
/// A `path` is new and in memory; a contestant that needs a name derives it from the path. `create`
/// is called once, in the process of the first receiver, and its result lives until both sides are
/// done. Then all receivers and senders are opened: the first receiver in the same process, all
/// others in a process each. Opening one may wait for its other end.
pub trait Contestant: 'static {
    /// Its writing end.
    type Sender: Sender;
    /// Its reading end.
    type Receiver: Receiver;
    /// What must live while it is used, such as a driver or a server's socket; removed when
    /// dropped.
    type Held;

    /// Checks whether it can run here at all, and if not, explains why in one sentence.
    fn check() -> Result<(), String> {
        Ok(())
    }

    /// Returns what it can be asked to do.
    fn can() -> Can;

    /// Returns how long a sample of it may take, where a run has this patience. A contestant that is made to hang has less.
    fn patience(run: Duration) -> Duration {
        run
    }

    /// Describes it with these settings.
    fn about(setup: &Setup) -> About;

    /// Returns the bytes that the kernel holds for one channel, at most, and that the size of the
    /// processes does not show: the buffer of a pipe or a socket, or a BPF map. `Some(0)` if all
    /// memory is mapped by its processes, as for most; `None` if it cannot be known.
    fn kernel_bytes(setup: &Setup) -> Option<u64> {
        let _ = setup;
        Some(0)
    }

    /// Creates what must exist before either end.
    fn create(path: &Path, setup: &Setup) -> Result<Self::Held>;

    /// Opens the writing end of number `index`.
    fn sender(path: &Path, setup: &Setup, index: usize) -> Result<Self::Sender>;

    /// Opens the reading end of number `index`.
    fn receiver(path: &Path, setup: &Setup, index: usize) -> Result<Self::Receiver>;
}

/// Writes the record of a number.
pub trait Fill<const N: usize>: FnMut(&mut [u8; N], u64) {}

impl<const N: usize, F: FnMut(&mut [u8; N], u64)> Fill<N> for F {}

/// Gets a record's bytes.
pub trait Visit<const N: usize>: FnMut(&[u8; N]) {}

impl<const N: usize, F: FnMut(&[u8; N])> Visit<N> for F {}

/// The writing end.
pub trait Sender {
    /// Sends a record for each number, which `fill` writes in place or into what is copied. A
    /// lossless contestant waits for room, and yields its core from time to time, as the reader may
    /// be on it. When it returns, all of them are sent, including those of a batch.
    ///
    /// By default each record is offered until it is taken. A contestant that batches, or that
    /// keeps its state in registers, has a loop of its own.
    #[inline(always)]
    fn send<const N: usize>(&mut self, numbers: Range<u64>, mut fill: impl Fill<N>) -> Result<()> {
        let mut room = Room::default();
        for number in numbers {
            while !self.offer(number, &mut fill)? {
                room.wait();
            }
        }
        Ok(())
    }

    /// Sends records of these payloads, which exist, in the same way. To be overridden where the
    /// call takes a payload by reference.
    #[inline(always)]
    fn send_from<const N: usize>(&mut self, numbers: Range<u64>, pool: &Pool<N>) -> Result<()> {
        self.send(numbers, |slot, number| *slot = *pool.get(number))
    }

    /// Sends one record if there is room, and returns whether there was. Never waits.
    fn offer<const N: usize>(&mut self, number: u64, fill: impl Fill<N>) -> Result<bool>;
}

/// The reading end.
pub trait Receiver {
    /// Passes every record present to `visit`, in place where it can, releases the space, and
    /// returns how many records they were. Never waits. By default one record after the other.
    #[inline(always)]
    fn drain<const N: usize>(&mut self, mut visit: impl Visit<N>) -> Result<u64> {
        let mut count = 0;
        while self.next(&mut visit)? {
            count += 1;
        }
        Ok(count)
    }

    /// Passes the next record to `visit`, if there is one, and returns whether there was. Never
    /// waits.
    fn next<const N: usize>(&mut self, visit: impl Visit<N>) -> Result<bool>;

    /// Waits by the wait strategy of its setup until there is something, or for some microseconds.
    /// Never sleeps.
    fn wait(&mut self);

    /// Sleeps in the kernel until there is something, or for so long.
    fn sleep(&mut self, timeout: Duration) -> Result<()> {
        let _ = timeout;
        Err(BenchError::Cannot("sleep"))
    }

    /// Returns how many records it reports as lost so far, if it does.
    fn reported_lost(&mut self) -> Option<u64> {
        None
    }

    /// Returns how many records came after younger ones of other senders, if it orders by time.
    fn late(&mut self) -> Option<u64> {
        None
    }
}
