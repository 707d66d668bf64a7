//! The rows of the report; `compare/ROWS.md` describes each field.

use crate::contestant::{Location, Role};
use crate::cores::Placed;
use crate::machine::Machine;
use crate::part::Audience;
use crate::player::Entry;
use crate::workload::Workload;
use serde::Serialize;

/// The unit of comparison: cases that differ only in the contestant.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Kind {
    pub workload: Workload,
    pub payload: usize,
    pub senders: usize,
    pub receivers: usize,
    pub audience: Audience,
    /// Records may be lost if readers do not keep up: it overwrites.
    pub lossy: bool,
}

impl Kind {
    /// Returns the kind with one sender and one receiver, lossless.
    pub fn of(workload: Workload, payload: usize) -> Self {
        let audience = Audience::Keen;
        Kind { workload, payload, senders: 1, receivers: 1, audience, lossy: false }
    }
}

/// The quantiles of round trips, halved.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    pub p50_ns: f64,
    pub p90_ns: f64,
    pub p99_ns: f64,
    pub p999_ns: f64,
    pub max_ns: f64,
}

/// Figures that samples and medians have in common.
#[allow(missing_docs)]
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    #[serde(flatten)]
    pub kind: Kind,
    pub contestant: &'static str,
    #[serde(skip)]
    pub role: Role,
    pub pace: &'static str,
    pub cores: Placed,
    pub records: u64,
    pub records_per_s: f64,
    pub ns_per_record: f64,
    pub lost: u64,
    pub reported_lost: Option<u64>,
    pub bad: u64,
    /// Records that came after younger ones of others, where an order between senders is promised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late: Option<u64>,
    pub hop_before_ns: Option<f64>,
    pub hop_after_ns: Option<f64>,
    pub distance: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// One-way times in nanoseconds, and the number of each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub histogram: Vec<(f64, u64)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cold_ns: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<f64>,
    /// The part of it that the kernel holds outside of any process, at most; `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ns_per_refusal: Option<f64>,
}

/// One sample.
#[allow(missing_docs)]
#[derive(Clone, Debug, Serialize)]
pub struct Sample {
    #[serde(flatten)]
    pub figures: Figures,
    pub round: usize,
    /// Whether nothing may be lost.
    pub lossless: bool,
}

impl Figures {
    /// Returns the figures of a sample that nothing is known of.
    pub fn of(kind: Kind, entry: &Entry) -> Self {
        Figures {
            kind,
            contestant: entry.name,
            role: entry.role,
            pace: "",
            cores: Placed::default(),
            records: 0,
            records_per_s: 0.0,
            ns_per_record: 0.0,
            lost: 0,
            reported_lost: None,
            bad: 0,
            late: None,
            hop_before_ns: None,
            hop_after_ns: None,
            distance: "-",
            latency: None,
            histogram: Vec::new(),
            cold_ns: None,
            memory_bytes: None,
            kernel_bytes: None,
            refused: None,
            ns_per_refusal: None,
        }
    }

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
}

/// One line.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "row", rename_all = "lowercase")]
pub enum Row {
    /// The machine.
    Machine(Box<Machine>),
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

/// A contestant.
#[allow(missing_docs)]
#[derive(Clone, Debug, Serialize)]
pub struct Contestant {
    pub name: &'static str,
    pub version: String,
    pub location: Location,
    pub role: Role,
}

/// The settings of a contestant for one kind of sample, and how its reader waits there.
#[allow(missing_docs)]
#[derive(Clone, Debug, Serialize)]
pub struct Use {
    pub contestant: &'static str,
    #[serde(flatten)]
    pub kind: Kind,
    pub settings: String,
    pub waits: String,
}

/// A contestant that was not measured, or not in one workload, or not to the end.
#[allow(missing_docs)]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Absent {
    pub name: &'static str,
    pub workload: Option<Workload>,
    /// The part from which it is absent, if not from all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<&'static str>,
    pub reason: String,
    /// It claims to support this, and failed.
    pub failed: bool,
}

/// All samples of one kind, contestant and distance.
#[allow(missing_docs)]
#[derive(Clone, Debug, Serialize)]
pub struct Median {
    #[serde(flatten)]
    pub figures: Figures,
    pub samples: usize,
    pub left_out: usize,
    pub min: f64,
    pub max: f64,
    pub figure: &'static str,
    pub higher_is_better: bool,
    pub of_floor: Option<f64>,
    pub of_line: Option<f64>,
    pub of_best: Option<f64>,
    pub best_rival: Option<&'static str>,
}
