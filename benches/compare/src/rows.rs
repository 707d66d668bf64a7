//! The rows of the report; `ROWS.md` describes each field.

use perfring_bench::contestant::{Location, Role};
use perfring_bench::rows::{Figures, Kind, Sample};
use perfring_bench::workload::Workload;
use serde::Serialize;

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

/// Machine, compiler and what all samples have in common.
#[allow(missing_docs)]
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    #[serde(flatten)]
    pub here: perfring_bench::machine::Machine,
    /// Senders that can have processors of their own.
    pub sender_room: usize,
    /// The step of the clock that measures latencies, one way.
    pub clock_step_ns: f64,
    pub commit: &'static str,
    pub started: String,
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
