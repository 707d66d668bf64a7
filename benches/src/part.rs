//! The tasks of the processes of a sample, and their messages.

use crate::contestant::Setup;
use crate::drive::Limit;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The reader while a sender overwrites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Audience {
    /// A reader that follows as fast as it can.
    Keen,
    /// A reader that polls once in a millisecond.
    Slow,
    /// Attached, but it reads only after the senders' end.
    None,
}

impl Audience {
    /// Returns its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Audience::Keen => "keen",
            Audience::Slow => "slow",
            Audience::None => "none",
        }
    }
}

/// The first argument of a process that plays parts; the next one is its parent's process id.
pub const CHILD_ARG: &str = "__bench-child";
/// The most senders of a sample, and the most receivers.
pub const SENDERS_MAX: usize = 64;

/// The task of one end.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Duty {
    /// Sends numbered records until the limit.
    Send(Limit),
    /// Reads and verifies until all senders have ended and nothing is left.
    Receive {
        /// How it polls.
        audience: Audience,
        /// Yields its core after each empty poll: others need it.
        yields: bool,
    },
    /// Offers records without a reader: counts those that are refused.
    Offer(Limit),
    /// Sends a record and waits for the answer, repeatedly; measures each trip.
    Ask {
        /// For so long, or so many trips.
        limit: Limit,
        /// Trips before those that count.
        warm_up: u64,
        /// The channel of the answers.
        back: PathBuf,
    },
    /// The other side of it.
    Answer {
        /// The channel of the answers.
        back: PathBuf,
    },
    /// Creates the channel, opens and reads the first record, so many times.
    ColdReceive(u64),
    /// The other side of it.
    ColdSend(u64),
    /// Holds so many channels, each of which has moved so many records.
    HoldReceive {
        /// Channels.
        rings: u64,
        /// Records through each.
        records: u64,
    },
    /// The other side of it.
    HoldSend {
        /// Channels.
        rings: u64,
        /// Records through each.
        records: u64,
    },
    /// Copies payloads within one process.
    Copy(Limit),
    /// Sends a bare cache line back and forth, so many times.
    AskLine(u64),
    /// The other side of it.
    AnswerLine(u64),
}

/// The part of one end in a sample.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Part {
    /// The task.
    pub duty: Duty,
    /// The settings of the channel.
    pub setup: Setup,
    /// Its path.
    pub path: PathBuf,
    /// Its number among senders, or among receivers.
    pub index: usize,
    /// The core that it runs on.
    pub core: Option<usize>,
    /// Whether the records that it sends or receives are of a pool of payloads that exist. If not,
    /// each is made of its number.
    pub pool: bool,
}

/// The task of one process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// The contestant.
    pub contestant: String,
    /// A page that all parts of the sample share.
    pub page: PathBuf,
    /// The part to be played here.
    pub part: Part,
}

/// The results of one end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Found {
    /// Number of records sent, or verified.
    pub records: u64,
    /// The start, by the clock that all processes share.
    pub start_ns: u64,
    /// The time at which it had finished.
    pub end_ns: u64,
    /// Skipped numbers.
    pub lost: u64,
    /// The losses that the contestant reports.
    pub reported_lost: Option<u64>,
    /// Damaged, out of order, or too many.
    pub bad: u64,
    /// Records out of the order of time, where one is promised.
    pub late: Option<u64>,
    /// Offers that were refused, and their total time.
    pub refused: u64,
    /// See `refused`.
    pub refused_ns: u64,
    /// Half round trips in nanoseconds, and the number of each.
    pub histogram: Vec<(f64, u64)>,
    /// Time from nothing to the first record, in nanoseconds, for each start.
    pub cold_ns: Vec<u64>,
}

/// A message of a process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Word {
    /// What must exist before the ends is created.
    Created,
    /// The end is open.
    Ready,
    /// The part is played.
    Done(Box<Found>),
    /// It cannot be played.
    Failed(String),
}
