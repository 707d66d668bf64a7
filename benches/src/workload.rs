//! The comparisons, and the figure of each.

use crate::error::{BenchError, Result};
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// One of the comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// Lossless records a second, by payload.
    Throughput,
    /// Half a round trip, polling all the time.
    Latency,
    /// Half a round trip, sleeping in the kernel.
    Wakeup,
    /// Many senders, each on a core of its own where there are enough, and one receiver or none.
    Producers,
    /// The cost of a record for a sender that overwrites.
    Overwrite,
    /// Many receivers of every record.
    Fanout,
    /// The cost of a refused offer.
    Full,
    /// The time from nothing to the first record.
    Cold,
    /// The memory of a channel.
    Memory,
}

impl Workload {
    /// In the order of the report.
    pub const ALL: [Workload; 9] = [
        Workload::Throughput,
        Workload::Latency,
        Workload::Wakeup,
        Workload::Producers,
        Workload::Overwrite,
        Workload::Fanout,
        Workload::Full,
        Workload::Cold,
        Workload::Memory,
    ];

    /// Returns its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Workload::Throughput => "throughput",
            Workload::Latency => "latency",
            Workload::Wakeup => "wakeup",
            Workload::Producers => "producers",
            Workload::Overwrite => "overwrite",
            Workload::Fanout => "fanout",
            Workload::Full => "full",
            Workload::Cold => "cold",
            Workload::Memory => "memory",
        }
    }

    /// Returns the name of the figure that is compared.
    pub fn figure(self) -> &'static str {
        match self {
            Workload::Throughput | Workload::Producers | Workload::Fanout => "records_per_s",
            Workload::Latency | Workload::Wakeup => "p50_ns",
            Workload::Overwrite => "ns_per_record",
            Workload::Full => "ns_per_refusal",
            Workload::Cold => "cold_ns",
            Workload::Memory => "memory_bytes",
        }
    }

    /// Returns whether more of it is better.
    pub fn higher_is_better(self) -> bool {
        self.figure() == "records_per_s"
    }

    /// Describes the workload.
    pub fn title(self) -> &'static str {
        match self {
            Workload::Throughput => "Lossless, one sender, one receiver: verified records",
            Workload::Latency => "Half a round trip, polling all the time, 64 bytes",
            Workload::Wakeup => "Half a round trip, sleeping in the kernel, 64 bytes",
            Workload::Producers => {
                "Many senders, 64 bytes, each on a core of its own where there are enough: records of all \
                 together, verified by one receiver of a lossless channel; or sent, without a reader"
            }
            Workload::Overwrite => {
                "The cost of a record of 64 bytes to a sender that overwrites the oldest"
            }
            Workload::Fanout => {
                "Each record to every receiver, all receivers on one core, 64 bytes: verified records of \
                 all together; contestants that wait for their receivers (lossless) and others (lossy) apart"
            }
            Workload::Full => {
                "The cost of an offer of 64 bytes that is refused because the channel is full"
            }
            Workload::Cold => {
                "From nothing to the first record read, both processes running: making it and opening \
                 both ends"
            }
            Workload::Memory => {
                "Memory of a channel that has moved twice its size: growth of the proportional set of \
                 all processes, and what the kernel holds besides"
            }
        }
    }

    /// Returns the unit of the figure.
    pub fn unit(self) -> &'static str {
        match self {
            Workload::Throughput | Workload::Producers | Workload::Fanout => "M records/s",
            Workload::Latency | Workload::Wakeup => "p50 ns",
            Workload::Overwrite => "ns/record",
            Workload::Full => "ns/refusal",
            Workload::Cold => "us",
            Workload::Memory => "KiB",
        }
    }

    /// Returns the figure's value of one unit.
    pub fn scale(self) -> f64 {
        match self {
            Workload::Throughput | Workload::Producers | Workload::Fanout => 1e6,
            Workload::Cold => 1e3,
            Workload::Memory => 1024.0,
            _ => 1.0,
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Workload {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<Self> {
        Workload::ALL.into_iter().find(|workload| workload.name() == text).ok_or_else(|| {
            let names = Workload::ALL.map(Workload::name).join(", ");
            BenchError::Usage(format!("no workload {text:?}: there are {names}"))
        })
    }
}
