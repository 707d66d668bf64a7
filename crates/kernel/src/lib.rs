//! The kernel's own rings, read as rings of perfring's: context switches, page faults, the clocks
//! and what else `perf_event_open(2)` has in software, on one timeline with the application's
//! records.
//!
//! perfring's rings have the layout of the kernel's, so the same algorithm reads both. [`open`]
//! gives a [`KernelRing`] for each processor and event; its records come with a type ([`types`]) and a stamp
//! of the clock that perfring's stamps are of.
//!
//! | event | record |
//! |---|---|
//! | `context-switches`, `cpu-migrations`, `cgroup-switches` | `perf.ContextSwitch`, `perf.CpuMigration`, `perf.CgroupSwitch` |
//! | `page-faults`, `minor-faults`, `major-faults` | `perf.PageFault`, `perf.MinorFault`, `perf.MajorFault` |
//! | `cpu-clock`, `task-clock` | `perf.CpuClock`, `perf.TaskClock`; `perf.Throttle` and `perf.Unthrottle` if they come too often |
//! | `alignment-faults`, `emulation-faults` | `perf.AlignmentFault`, `perf.EmulationFault` |
//! | `switches` | `perf.Switch`; of the whole machine `perf.SwitchCpuWide` |
//! | `tasks` | `perf.Comm`, `perf.Fork`, `perf.Exit` |
//! | `mappings` | `perf.Mmap2`; the kernel adds `perf.Fork` and `perf.Exit`, without which mappings could not be followed |
//!
//! One thing is the kernel's to mend: since Linux 6.3 it prepares a sample once for all who watch the
//! same event of a task. If one of them has another clock, as `perf record -e context-switches` has, some
//! samples come with a stamp of that clock. The records of `switches`, `tasks` and `mappings` are each
//! their own, and always right.
//!
//! A [`KernelRing`] is a [`Source`](perfring_set::Source): what a [`Merge`](perfring_set::Merge) puts in
//! the order of time with any rings of perfring's.
//!
//! A program that reads them knows them as [`records`]; whoever does not, as what the types say.
#![forbid(unsafe_code)]

mod decode;
mod event;
mod open;
pub mod records;
mod ring;
mod source;

/// The door of `tests/fuzz`: a real kernel writes no hostile records, so they come from elsewhere.
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub mod door {
    pub use crate::decode::{What as Decoded, decode as decoded};
}
pub use event::{EventKind, UnknownEvent};
pub use open::{OpenError, Options, Target, open};
pub use records::{schemas, types};
pub use ring::{KernelRing, Stopper};
