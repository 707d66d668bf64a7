//! How much is measured.

use crate::waits::WaitStrategy;
use std::time::Duration;

/// How much is measured of each kind.
#[derive(Clone, Debug)]
pub struct Scale {
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
    /// counts as hung. A sample that `max_records` ends has no time of its own.
    pub patience: Duration,
}

impl Default for Scale {
    fn default() -> Self {
        Scale {
            repetitions: 5,
            seconds_per_sample: 0.3,
            max_records: u64::MAX,
            round_trips: 100_000,
            cold_starts: 9,
            data_size: 1 << 20,
            pace: WaitStrategy::default(),
            patience: Duration::from_secs(20),
        }
    }
}
