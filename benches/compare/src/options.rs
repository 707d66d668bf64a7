//! What to measure, and for how long.

use crate::CompareError;
use crate::workload::Workload;
use perfring_bench::{PAYLOADS, WaitStrategy};
use std::time::Duration;

/// The most senders, and the most receivers.
pub const SENDERS_MAX: usize = 64;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// The comparisons to run.
    pub workloads: Vec<Workload>,
    /// The contestants by name; empty means all.
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
    /// How readers wait where the harness can choose, except for latencies.
    pub pace: WaitStrategy,
    /// How long processes may take beyond a sample's own time: an end that has not answered by then
    /// counts as hung.
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
            pace: WaitStrategy::default(),
            patience: Duration::from_secs(20),
            short: false,
        }
    }
}

impl Options {
    /// Returns options for a few records of each kind: checks that everything works, measures
    /// nothing.
    #[must_use]
    pub fn short() -> Self {
        Options {
            payloads: vec![8, 64, 4096, 65_472],
            senders: vec![1, 3],
            receivers: vec![1, 3],
            repetitions: 1,
            // Only the count ends a sample, however slow the machine is.
            seconds_per_sample: 30.0,
            max_records: 20_480,
            round_trips: 200,
            cold_starts: 2,
            short: true,
            ..Options::default()
        }
    }

    /// Checks whether a run is possible with them.
    ///
    /// # Errors
    /// [`CompareError::Usage`] if one of them is invalid.
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
        if let Some(n) = crowd.clone().find(|n| !(1..=SENDERS_MAX).contains(*n)) {
            return complain(format!("{n} at once: 1 to 64 can be measured"));
        }
        if self.repetitions == 0 {
            return complain("nothing to repeat".to_owned());
        }
        Ok(())
    }
}
