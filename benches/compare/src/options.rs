//! What to measure, and for how long.

use perfring_bench::case::Scale;
use perfring_bench::part::SENDERS_MAX;
use perfring_bench::payload::PAYLOADS;
use perfring_bench::workload::Workload;
use perfring_bench::{BenchError, Result};

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
    /// How much is measured of each kind.
    pub scale: Scale,
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
            scale: Scale::default(),
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
            scale: Scale {
                repetitions: 1,
                // Only the count ends a sample, however slow the machine is.
                seconds_per_sample: 30.0,
                max_records: 20_480,
                round_trips: 200,
                cold_starts: 2,
                ..Scale::default()
            },
            short: true,
            ..Options::default()
        }
    }

    /// Checks whether a run is possible with them.
    ///
    /// # Errors
    /// [`BenchError::Usage`] if one of them is invalid.
    pub fn check(&self) -> Result<()> {
        let complain = |what: String| Err(BenchError::Usage(what));
        if let Some(payload) = self.payloads.iter().find(|n| !PAYLOADS.contains(n)) {
            return complain(format!("payload {payload} is not one of {PAYLOADS:?}"));
        }
        if !self.scale.data_size.is_power_of_two()
            || !(1 << 17..=1 << 32).contains(&self.scale.data_size)
        {
            return complain(format!(
                "data size {} is not a power of two from 128 KiB to 4 GiB",
                self.scale.data_size
            ));
        }
        if !(self.scale.seconds_per_sample > 0.0 && self.scale.seconds_per_sample <= 3600.0) {
            return complain(format!("{} seconds per sample", self.scale.seconds_per_sample));
        }
        let crowd = self.senders.iter().chain(&self.receivers);
        if let Some(n) = crowd.clone().find(|n| !(1..=SENDERS_MAX).contains(*n)) {
            return complain(format!("{n} at once: 1 to 64 can be measured"));
        }
        if self.scale.repetitions == 0 {
            return complain("nothing to repeat".to_owned());
        }
        Ok(())
    }
}
