//! What a contestant is: what is measured around it is the same code for all, and the loop that
//! sends or reads is each one's own.

use crate::CompareError;
use crate::workload::Workload;
use perfring_bench::WaitStrategy;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

/// Where a contestant's two ends live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Location {
    /// In two processes.
    Processes,
    /// In two threads of one process: an upper reference, not a rival.
    Threads,
    /// The kernel writes what a program of ours asks it to.
    Kernel,
}

impl Location {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Location::Processes => "processes",
            Location::Threads => "threads",
            Location::Kernel => "kernel and process",
        }
    }
}

/// What a contestant is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The least that moves the same bytes: no library.
    Limit,
    /// perfring.
    Ours,
    /// Another way between processes.
    Rival,
    /// Between threads of one process: an upper reference.
    Reference,
}

/// What to make.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setup {
    /// Bytes that the ring should hold, payloads only or with headers, as the contestant counts.
    /// A contestant of fixed slots takes `data_size / payload` of them.
    pub data_size: u64,
    /// Bytes of every record.
    pub payload: usize,
    /// Whether the oldest records go when it is full. If not, nothing is ever lost: senders wait.
    pub overwrite: bool,
    /// Senders at once.
    pub senders: usize,
    /// Receivers, each of which gets every record.
    pub receivers: usize,
    /// How a receiver that found nothing looks again, where that is ours to say.
    pub pace: WaitStrategy,
    /// Whether receivers sleep in the kernel while there is nothing, and senders wake them.
    pub sleeping: bool,
}

/// What a contestant can be asked to do. What it can't is told with the reason.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Can {
    /// Largest payload.
    pub payload: usize,
    /// Lossless streams from one sender to one receiver.
    pub lossless: Result<(), &'static str>,
    /// Several senders.
    pub senders: Result<(), &'static str>,
    /// The oldest records go.
    pub overwrite: Result<(), &'static str>,
    /// Several receivers of every record, that lose nothing or know what they lost.
    pub receivers: Result<(), &'static str>,
    /// A receiver that sleeps in the kernel.
    pub sleeping: Result<(), &'static str>,
    /// A sender can be told that there is no room.
    pub refuses: Result<(), &'static str>,
}

/// What a contestant can't do although it can do the parts of it, each with the reason.
#[derive(Clone, Copy, Debug)]
pub struct Cannot {
    /// A reader that follows while the oldest records go.
    pub follow: Result<(), &'static str>,
    /// To overwrite with one sender: it is there for several.
    pub overwrite_alone: Result<(), &'static str>,
    /// Several receivers of every record, for all of which the sender waits.
    pub wait_for_many: Result<(), &'static str>,
}

impl Cannot {
    /// It can do whatever it can do the parts of.
    pub const NOTHING: Self =
        Cannot { follow: Ok(()), overwrite_alone: Ok(()), wait_for_many: Ok(()) };
}

/// Who it is.
#[derive(Clone, Debug, Serialize)]
pub struct About {
    /// As tables name it.
    pub name: &'static str,
    /// Crate, library or kernel, with its version.
    pub version: String,
    /// Where its ends live.
    pub location: Location,
    /// What was set, in its own words: sizes, modes, batches.
    pub settings: String,
    /// How its reader waits while there is nothing.
    pub waits: String,
}

/// A way to hand records over.
///
/// A `path` is new and in memory; whoever needs a name makes it from the path. `create` is called
/// once, in the process of the first receiver, and what it returns lives until both sides are done.
/// Then all receivers and senders are made, the former first and in the same process for the first
/// of them, the latter in others (or threads, see [`Location`]); making one may wait for its other end,
/// as each is made in a process or thread of its own.
pub trait Contestant: 'static {
    /// Its writing end.
    type Sender: Sender;
    /// Its reading end.
    type Receiver: Receiver;
    /// What must live while it is used: a driver, a server's socket; removed when dropped.
    type Held;

    /// Whether it can run here at all, and if not, why: one sentence.
    ///
    /// # Errors
    /// The reason.
    fn check() -> Result<(), String> {
        Ok(())
    }

    /// What it can be asked to do.
    fn can() -> Can;

    /// What it can't be asked to do all the same.
    fn cannot() -> Cannot {
        Cannot::NOTHING
    }

    /// Who it is, as set up so.
    fn about(setup: &Setup) -> About;

    /// What must be known of its figures in a workload: a sentence for whoever reads them.
    fn remark(workload: Workload) -> Option<&'static str> {
        let _ = workload;
        None
    }

    /// Whether each sender has a ring, or a channel, of its own: senders do not meet then, and there
    /// is no order among them unless it says so.
    fn own_channels() -> bool {
        false
    }

    /// Bytes that the kernel holds for one channel, at most, and that the size of the processes does
    /// not show: a pipe's buffer, a socket's, a map of the kernel's. `Some(0)` for who has all in
    /// memory that its processes map, as most do; `None` if it can't be known.
    fn kernel_bytes(setup: &Setup) -> Option<u64> {
        let _ = setup;
        Some(0)
    }

    /// Makes what must be there before either end.
    ///
    /// # Errors
    /// Whatever it says.
    fn create(path: &Path, setup: &Setup) -> Result<Self::Held, CompareError>;

    /// Makes writing end number `index`.
    ///
    /// # Errors
    /// Whatever it says.
    fn sender(path: &Path, setup: &Setup, index: usize) -> Result<Self::Sender, CompareError>;

    /// Makes reading end number `index`.
    ///
    /// # Errors
    /// Whatever it says.
    fn receiver(path: &Path, setup: &Setup, index: usize) -> Result<Self::Receiver, CompareError>;
}

/// An error of this contestant's.
pub fn failed<E>(contestant: &'static str) -> impl Fn(E) -> CompareError
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    move |source| CompareError::Contestant { contestant, source: source.into() }
}

/// The writing end.
pub trait Sender {
    /// Sends a record for each number, which `fill` writes in its place or into what is copied.
    /// Where nothing may be lost, waits for room, and gives its core up now and then: the reader
    /// may be on it. When it returns, all of them are on their way, also those of a batch.
    ///
    /// The loop is the contestant's, so that it can batch and keep what it likes in registers.
    ///
    /// # Errors
    /// Whatever it says.
    fn send<const N: usize>(
        &mut self,
        numbers: Range<u64>,
        fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<(), CompareError>;

    /// Sends one record if there is room, and says whether there was. Never waits.
    ///
    /// # Errors
    /// Whatever it says.
    fn offer<const N: usize>(
        &mut self,
        number: u64,
        fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<bool, CompareError>;
}

/// The reading end.
pub trait Receiver {
    /// Shows `visit` every record that is there, in place where it can, hands the space back, and
    /// returns how many they were. Never waits.
    ///
    /// # Errors
    /// Whatever it says.
    fn drain<const N: usize>(&mut self, visit: impl FnMut(&[u8; N])) -> Result<u64, CompareError>;

    /// Shows `visit` the next record, if there is one, and returns whether there was. Never waits.
    ///
    /// # Errors
    /// Whatever it says.
    fn next<const N: usize>(&mut self, visit: impl FnMut(&[u8; N])) -> Result<bool, CompareError>;

    /// Waits by the pace of its set-up until there is something, or for some microseconds. Never
    /// sleeps.
    fn wait(&mut self);

    /// Sleeps in the kernel until there is something, or for so long.
    ///
    /// # Errors
    /// Whatever it says.
    fn sleep(&mut self, timeout: Duration) -> Result<(), CompareError> {
        let _ = timeout;
        Err(CompareError::Cannot("sleep"))
    }

    /// How many records it says it has lost so far, if it says.
    fn reported_lost(&mut self) -> Option<u64> {
        None
    }

    /// How many records came after younger ones of other senders, if it gives an order of time.
    fn late(&mut self) -> Option<u64> {
        None
    }
}
