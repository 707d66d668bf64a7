//! The rings of the demo, and its clock.

use perfring_producer::Policy;
use rustix::time::{ClockId, clock_gettime};

/// One ring of the demo, with the process that feeds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Station {
    /// The name of the ring's file, also shown to people.
    pub(super) name: &'static str,
    pub(super) topic: Topic,
    pub(super) policy: Policy,
    pub(super) size: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Topic {
    /// OpenTelemetry's signals: gauges, spans, log records.
    Metrics,
    Cpu,
    Io,
    Processes,
    /// Bursts of clock readings, larger than the ring: it must refuse some.
    Burst,
    /// Clock readings in a steady stream.
    Flight,
}

const fn station(name: &'static str, topic: Topic, policy: Policy, kib: u64) -> Station {
    Station { name, topic, policy, size: kib << 10 }
}

pub(super) const STATIONS: [Station; 6] = [
    // So large that its sink can describe its process at any time.
    station("metrics", Topic::Metrics, Policy::Drop, 1024),
    station("cpu", Topic::Cpu, Policy::Drop, 256),
    station("io", Topic::Io, Policy::Drop, 256),
    station("processes", Topic::Processes, Policy::Drop, 256),
    station("burst", Topic::Burst, Policy::Drop, 64),
    station("flight", Topic::Flight, Policy::Overwrite, 1024),
];

/// The station whose producer is killed.
pub(super) const VICTIM: &str = "flight";

/// Returns `CLOCK_BOOTTIME` in ns: all processes of a machine share it, and the rings' timestamps
/// use it.
pub(super) fn now_ns() -> u64 {
    // Cannot fail for this clock.
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
