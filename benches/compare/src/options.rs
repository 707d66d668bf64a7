//! What to measure, and for how long.

use crate::CompareError;
use crate::contest::all::{ALL, Entry, FAULTY, Role, by_name};
use perfring_bench::{PAYLOADS, Pace};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// One of the comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// Lossless records a second, by payload.
    Throughput,
    /// Half a round trip, looking all the time.
    Latency,
    /// Half a round trip, sleeping in the kernel.
    Wakeup,
    /// Many senders, each on a core of its own where there are enough, and one receiver or none.
    Producers,
    /// What a record costs a sender that overwrites.
    Overwrite,
    /// Many receivers of every record.
    Fanout,
    /// What a refused offer costs.
    Full,
    /// From nothing to the first record.
    Cold,
    /// What a channel holds of memory.
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

    /// As reports name it.
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
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Workload {
    type Err = CompareError;

    fn from_str(text: &str) -> Result<Self, CompareError> {
        Workload::ALL.into_iter().find(|workload| workload.name() == text).ok_or_else(|| {
            let names = Workload::ALL.map(Workload::name).join(", ");
            CompareError::Usage(format!("no workload {text:?}: there are {names}"))
        })
    }
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which comparisons.
    pub workloads: Vec<Workload>,
    /// Who takes part, by name; nobody named is everybody.
    pub contestants: Vec<String>,
    /// Payload lengths of [`Workload::Throughput`].
    pub payloads: Vec<usize>,
    /// Senders of [`Workload::Producers`].
    pub senders: Vec<usize>,
    /// Receivers of [`Workload::Fanout`].
    pub receivers: Vec<usize>,
    /// Samples of each kind, at one distance.
    pub repetitions: usize,
    /// How long a sender sends for one sample.
    pub seconds_per_sample: f64,
    /// It also stops after so many records of 64 bytes, or an eighth as many long ones.
    pub max_records: u64,
    /// Round trips of a latency sample.
    pub round_trips: u64,
    /// Cold starts of a sample.
    pub cold_starts: u64,
    /// Bytes of each ring.
    pub data_size: u64,
    /// How readers wait where that is ours to say, but for latencies.
    pub pace: Pace,
    /// How long processes may take beyond a sample's own time: an end that did not come by then does
    /// not come.
    pub patience: Duration,
    /// A few records of each kind: one round, and no more.
    pub short: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            workloads: Workload::ALL.to_vec(),
            contestants: Vec::new(),
            payloads: PAYLOADS.to_vec(),
            senders: vec![1, 2, 4, 8],
            receivers: vec![1, 4, 16],
            repetitions: 5,
            seconds_per_sample: 0.3,
            max_records: u64::MAX,
            round_trips: 100_000,
            cold_starts: 9,
            data_size: 1 << 20,
            pace: Pace::default(),
            patience: Duration::from_secs(20),
            short: false,
        }
    }
}

impl Options {
    /// A few records of each kind: checks that everything works, measures nothing.
    #[must_use]
    pub fn short() -> Self {
        Options {
            payloads: vec![8, 64, 4096, 65_472],
            senders: vec![1, 3],
            receivers: vec![1, 3],
            repetitions: 1,
            // The count alone ends a sample, however slow the machine is.
            seconds_per_sample: 30.0,
            max_records: 20_480,
            round_trips: 200,
            cold_starts: 2,
            short: true,
            ..Options::default()
        }
    }

    /// Whether a run can be made of them.
    ///
    /// # Errors
    /// [`CompareError::Usage`].
    pub fn check(&self) -> Result<(), CompareError> {
        let complain = |what: String| Err(CompareError::Usage(what));
        if let Some(payload) = self.payloads.iter().find(|n| !PAYLOADS.contains(n)) {
            return complain(format!("payload {payload} is not one of {PAYLOADS:?}"));
        }
        if !self.data_size.is_power_of_two() || !(1 << 17..=1 << 32).contains(&self.data_size) {
            return complain(format!(
                "data size {} is not a power of two from 128 KiB to 4 GiB",
                self.data_size
            ));
        }
        if !(self.seconds_per_sample > 0.0 && self.seconds_per_sample <= 3600.0) {
            return complain(format!("{} seconds per sample", self.seconds_per_sample));
        }
        let crowd = self.senders.iter().chain(&self.receivers);
        if let Some(n) = crowd.clone().find(|n| !(1..=crate::stage::SENDERS_MAX).contains(*n)) {
            return complain(format!("{n} at once: 1 to 64 can be measured"));
        }
        if self.repetitions == 0 {
            return complain("nothing to repeat".to_owned());
        }
        if let Some(name) = self.contestants.iter().find(|name| by_name(name).is_none()) {
            return complain(format!("no contestant {name:?}; --list has all"));
        }
        Ok(())
    }

    /// Who takes part. Limits always do: without them a figure says little.
    pub fn entries(&self) -> impl Iterator<Item = &'static Entry> + use<'_> {
        let named = |entry: &&Entry| self.contestants.iter().any(|name| name == entry.name);
        let wanted = move |entry: &&Entry| {
            self.contestants.is_empty() || named(entry) || entry.role == Role::Limit
        };
        ALL.iter().filter(wanted).chain(FAULTY.iter().filter(named))
    }
}
