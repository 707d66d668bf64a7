//! What the processes of the demo have in common: rings, files, a clock.

use crate::failure::Failure;
use perfring_producer::Policy;
use rustix::time::{ClockId, clock_gettime};
use std::path::Path;
use std::process::{Child, Command};

/// One ring of the demo, with the process that feeds it.
pub(super) struct Station {
    /// The name of the ring's file, also shown to people.
    pub(super) name: &'static str,
    pub(super) policy: Policy,
    pub(super) size: u64,
}

pub(super) const STATIONS: [Station; 6] = [
    // So large that its sink can describe its process at any time.
    Station { name: METRICS, policy: Policy::Drop, size: 1024 << 10 },
    Station { name: "cpu", policy: Policy::Drop, size: 256 << 10 },
    Station { name: "io", policy: Policy::Drop, size: 256 << 10 },
    Station { name: "processes", policy: Policy::Drop, size: 256 << 10 },
    Station { name: "burst", policy: Policy::Drop, size: 64 << 10 },
    Station { name: VICTIM, policy: Policy::Overwrite, size: 1024 << 10 },
];

/// The ring of OpenTelemetry's signals: gauges, spans, log records.
pub(super) const METRICS: &str = "metrics";

/// The ring whose producer is killed.
pub(super) const VICTIM: &str = "flight";

/// The files that the sidecar writes: a trace, and JSON lines.
pub(super) const FILES: [&str; 2] = ["demo.pftrace", "demo.jsonl"];

/// Returns `CLOCK_BOOTTIME` in ns: all processes of a machine share it, and the rings' timestamps
/// use it.
pub(super) fn now_ns() -> u64 {
    // Cannot fail for this clock.
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Starts a process of the demo, as `set` completes its command.
pub(super) fn spawn(dir: &Path, set: impl FnOnce(&mut Command)) -> Result<Child, Failure> {
    let failed = |error| failed(format!("cannot start a process: {error}"));
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.arg("demo-child").arg(dir).arg(std::process::id().to_string());
    set(&mut command);
    command.spawn().map_err(failed)
}

pub(super) fn failed(why: impl std::fmt::Display) -> Failure {
    Failure::General(format!("demo: {why}"))
}
