//! The task of many producers, and the result of one sample.

use crate::audit::Losses;
use crate::cores::Distance;
use crate::drive::Limit;
use crate::waits::WaitStrategy;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Who {
    /// perfring's, with any number of producers.
    Shared,
    /// perfring's, with one: shows what support for many costs.
    Exclusive,
    /// The kernel's.
    Bpf,
}

impl Who {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Who::Shared => "shared",
            Who::Exclusive => "exclusive",
            Who::Bpf => "bpf",
        }
    }
}

/// What happens to the ring meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Shape {
    /// Only producers, which overwrite.
    Alone,
    /// A consumer; a record that finds the ring full is lost and counted.
    Lossy,
    /// A consumer; producers wait for room.
    Lossless,
}

impl Shape {
    pub(crate) const ALL: [Shape; 3] = [Shape::Alone, Shape::Lossy, Shape::Lossless];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Shape::Alone => "alone",
            Shape::Lossy => "lossy",
            Shape::Lossless => "lossless",
        }
    }
}

/// How records are published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Way {
    /// One call a record.
    Publish,
    /// Reserved, written in place, committed.
    Reserve,
    /// 64 at a time.
    Batch,
}

impl Way {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Way::Publish => "publish",
            Way::Reserve => "reserve",
            Way::Batch => "batch",
        }
    }
}

/// The cores on which the producers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// Alternately on both, the first not on the consumer's.
    Spread,
    /// All on the core that is not the consumer's.
    Apart,
}

impl Placement {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Placement::Spread => "spread",
            Placement::Apart => "apart",
        }
    }
}

/// The task of one process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Race {
    pub(crate) who: Who,
    pub(crate) shape: Shape,
    pub(crate) way: Way,
    pub(crate) payload: usize,
    pub(crate) data_size: u64,
    pub(crate) path: PathBuf,
    /// The id of the kernel's ring.
    pub(crate) bpf: u32,
    /// How many producers there are, and which of them this one is; the consumer is none of them.
    pub(crate) producers: usize,
    pub(crate) producer: Option<usize>,
    pub(crate) limit: Limit,
    /// How the consumer waits, and whether it shares its core.
    pub(crate) reader: WaitStrategy,
    pub(crate) shares: bool,
}

/// The result of one sample.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) round: usize,
    /// Verified by the consumer; without one, published.
    pub(crate) records: u64,
    /// Of all producers together.
    pub(crate) records_per_s: f64,
    pub(crate) refused: Losses,
    pub(crate) bad: u64,
    pub(crate) hops_ns: [Option<f64>; 2],
    pub(crate) distance: Distance,
}
