//! The rows of the report; `ROWS.md` describes each field.

use crate::contestant::{Location, Role};
use crate::part::Audience;
use crate::places::Placed;
use crate::workload::Workload;
use serde::{Deserialize, Serialize};

/// One line.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "row", rename_all = "lowercase")]
pub enum Row {
    /// The machine.
    Machine(Machine),
    /// A contestant that takes part.
    Contestant(Contestant),
    /// A contestant that does not.
    Absent(Absent),
    /// The settings of a contestant for one kind of sample.
    Use(Use),
    /// One sample.
    Sample(Box<Sample>),
    /// All samples of one kind at one distance.
    Median(Box<Median>),
}

/// Machine, compiler and what all samples have in common.
#[allow(missing_docs)]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    pub cpu: String,
    pub kernel: String,
    pub cores: Option<[usize; 2]>,
    /// Senders that can have processors of their own.
    #[serde(default)]
    pub sender_room: usize,
    /// The step of the clock that measures latencies, one way.
    #[serde(default)]
    pub clock_step_ns: f64,
    pub load: String,
    pub commit: String,
    pub rustc: String,
    pub target: String,
    pub rustflags: String,
    pub repetitions: usize,
    pub seconds_per_sample: f64,
    pub data_size: u64,
    pub started: String,
}

/// A contestant.
#[allow(missing_docs)]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Contestant {
    pub name: String,
    pub version: String,
    pub location: Location,
    pub role: Role,
    /// Each sender has a ring, or a channel, of its own.
    #[serde(default)]
    pub own_channels: bool,
}

/// The settings of a contestant for one kind of sample, and how its reader waits there.
#[allow(missing_docs)]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Use {
    pub contestant: String,
    #[serde(flatten)]
    pub kind: Kind,
    pub settings: String,
    pub waits: String,
    /// What readers of its figures must know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
}

/// A contestant that was not measured, or not in one workload, or not to the end.
#[allow(missing_docs)]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Absent {
    pub name: String,
    pub workload: Option<Workload>,
    /// The part from which it is absent, if not from all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    pub reason: String,
    /// It claims to support this, and failed.
    #[serde(default)]
    pub failed: bool,
}

/// The unit of comparison: cases that differ only in the contestant.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Kind {
    pub workload: Workload,
    pub payload: usize,
    pub senders: usize,
    pub receivers: usize,
    pub audience: Audience,
    /// Records may be lost if readers do not keep up: it overwrites.
    #[serde(default)]
    pub lossy: bool,
}

/// The quantiles of round trips, halved.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    pub p50_ns: f64,
    pub p90_ns: f64,
    pub p99_ns: f64,
    pub p999_ns: f64,
    pub max_ns: f64,
}

/// Figures that samples and medians have in common.
#[allow(missing_docs)]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Figures {
    #[serde(flatten)]
    pub kind: Kind,
    pub contestant: String,
    pub pace: String,
    #[serde(default)]
    pub cores: Placed,
    pub records: u64,
    pub records_per_s: f64,
    pub ns_per_record: f64,
    pub lost: u64,
    pub reported_lost: Option<u64>,
    pub bad: u64,
    /// Records that came after younger ones of others, where an order between senders is promised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<u64>,
    pub hop_before_ns: Option<f64>,
    pub hop_after_ns: Option<f64>,
    pub distance: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// One-way times in nanoseconds, and the number of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub histogram: Vec<(f64, u64)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cold_ns: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<f64>,
    /// The part of it that the kernel holds outside of any process, at most; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ns_per_refusal: Option<f64>,
}

/// One sample.
#[allow(missing_docs)]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sample {
    #[serde(flatten)]
    pub figures: Figures,
    pub round: usize,
    /// Whether nothing may be lost.
    pub lossless: bool,
}

/// All samples of one kind, contestant and distance.
#[allow(missing_docs)]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Median {
    #[serde(flatten)]
    pub figures: Figures,
    pub samples: usize,
    pub left_out: usize,
    pub min: f64,
    pub max: f64,
    pub figure: String,
    pub higher_is_better: bool,
    pub of_floor: Option<f64>,
    pub of_line: Option<f64>,
    pub of_best: Option<f64>,
    pub best_rival: Option<String>,
}

impl Figures {
    /// Returns the figure that is compared.
    pub fn figure(&self) -> Option<f64> {
        match self.kind.workload {
            Workload::Throughput | Workload::Producers | Workload::Fanout => {
                Some(self.records_per_s)
            }
            Workload::Latency | Workload::Wakeup => self.latency.map(|latency| latency.p50_ns),
            Workload::Overwrite => Some(self.ns_per_record),
            Workload::Full => self.ns_per_refusal,
            Workload::Cold => self.cold_ns,
            Workload::Memory => self.memory_bytes,
        }
    }

    /// Describes memory by its two parts.
    pub fn weighed(&self) -> String {
        let kernel = self.kernel_bytes.map(|bytes| bytes as f64);
        let all = self.memory_bytes.unwrap_or_default();
        let mapped = (all - kernel.unwrap_or_default()) / 1024.0;
        kernel.map_or_else(
            || format!("{mapped:.0} + unknown"),
            |kernel| format!("{mapped:.0} + {:.0}", kernel / 1024.0),
        )
    }
}

/// Formats with three digits or more.
pub fn number(value: f64) -> String {
    match value.abs() {
        small if small < 10.0 => format!("{value:.2}"),
        middle if middle < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Parses the rows of a file of JSON lines.
///
/// # Errors
/// If it holds anything else.
pub fn parse(text: &str) -> Result<Vec<Row>, serde_json::Error> {
    text.lines().filter(|line| !line.trim().is_empty()).map(serde_json::from_str).collect()
}
