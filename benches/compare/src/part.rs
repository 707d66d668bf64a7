//! What is asked of the processes of a sample, and what they say of it.

use crate::contestant::Setup;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Who reads while a sender overwrites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Audience {
    /// A reader that follows as fast as it can.
    Keen,
    /// One that looks once in a millisecond.
    Slow,
    /// Attached, but it reads only after the senders' end.
    None,
}

impl Audience {
    /// As reports name it.
    pub fn name(self) -> &'static str {
        match self {
            Audience::Keen => "keen",
            Audience::Slow => "slow",
            Audience::None => "none",
        }
    }
}

/// When a sender stops.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Limit {
    /// After this long.
    pub seconds: f64,
    /// Or after so many records.
    pub records: u64,
}

/// What one end does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Duty {
    /// Sends numbered records until the limit.
    Send(Limit),
    /// Reads and verifies until all senders have ended and nothing is left.
    Receive {
        /// How it looks.
        audience: Audience,
        /// Gives its core up after each look that found nothing: others need it.
        yields: bool,
    },
    /// Offers records to who does not read: counts those that are refused.
    Offer(Limit),
    /// Sends a record and waits for the answer, again and again; takes the time of each trip.
    Ask {
        /// For so long, or so many trips.
        limit: Limit,
        /// Trips before those that count.
        warm_up: u64,
        /// Where answers come from.
        back: PathBuf,
    },
    /// The other side of it.
    Answer {
        /// Where answers go.
        back: PathBuf,
    },
    /// Makes the channel, opens and reads the first record, so many times.
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
    /// Sends a bare cache line to and fro, so many times.
    AskLine(u64),
    /// The other side of it.
    AnswerLine(u64),
}

/// The part of one end in a sample.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Part {
    /// What it does.
    pub duty: Duty,
    /// What is made.
    pub setup: Setup,
    /// Where.
    pub path: PathBuf,
    /// Its number among senders, or among receivers.
    pub index: usize,
    /// The core that it runs on.
    pub core: Option<usize>,
}

/// All that one process does: a thread for each part, if there are several.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// Who is measured.
    pub contestant: String,
    /// A page that all parts of the sample share.
    pub page: PathBuf,
    /// What is to be done here.
    pub parts: Vec<Part>,
}

/// What one end found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Found {
    /// Sent, or verified.
    pub records: u64,
    /// By the clock that all processes share.
    pub start_ns: u64,
    /// When it had finished.
    pub end_ns: u64,
    /// Skipped numbers.
    pub lost: u64,
    /// What the contestant says was lost.
    pub reported_lost: Option<u64>,
    /// Damaged, out of turn, too many.
    pub bad: u64,
    /// What came out of the order of time, where one is promised.
    pub late: Option<u64>,
    /// Offers that were refused, and the time they took in all.
    pub refused: u64,
    /// See `refused`.
    pub refused_ns: u64,
    /// Half round trips in nanoseconds, and how often each.
    pub histogram: Vec<(f64, u64)>,
    /// From nothing to the first record, in nanoseconds, each time.
    pub cold_ns: Vec<u64>,
}

/// What a process says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Word {
    /// What must be there before the ends is.
    Created,
    /// The end is open.
    Ready,
    /// The part is played.
    Done(Box<Found>),
    /// It can't be played.
    Failed(String),
}
