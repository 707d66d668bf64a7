//! Reads the kernel's own rings like perfring's: context switches, page faults, the clocks and the
//! other software events of `perf_event_open(2)`, on one timeline with the application's records.
//!
//! perfring's rings have the layout of the kernel's, so the same algorithm reads both. [`open`]
//! returns a [`KernelRing`] for each processor and event. Its records have types ([`types`]) and
//! timestamps of the same clock as perfring's.
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
//! A limitation of the kernel: since Linux 6.3 it prepares a sample once for all observers of the
//! same event of a task. If one of them uses another clock, as `perf record -e context-switches`
//! does, some samples have a timestamp of that clock. The records of `switches`, `tasks` and
//! `mappings` are prepared separately and always right.
//!
//! A [`KernelRecorder`] is a flight recorder: the kernel keeps its newest records and overwrites older ones, and a
//! [`KernelSnapshot`] has what is there at one moment.
//!
//! A [`BpfRing`] reads a BPF ring-buffer map (`BPF_MAP_TYPE_RINGBUF`), to which BPF programs submit records: as the map's
//! one consumer, or as an observer. Its records are bytes.
//!
//! A [`KernelRing`] is a [`Source`](perfring_set::Source): a [`Merge`](perfring_set::Merge) puts
//! its records in order of time with those of any perfring rings. So is a [`BpfRing`], and a [`KernelSnapshot`].
//!
//! Programs written for these records use [`records`]; others use the type table.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod ahead;
mod bpf_open;
mod bpf_options;
mod bpf_ring;
mod clock;
mod decode;
mod event;
mod open;
mod recorder;
pub mod records;
mod ring;
mod sandbox;
mod snapshot;
mod source;

/// Entry point for `tests/fuzz`: a real kernel writes no hostile records, so the test supplies
/// them.
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub mod fuzz {
    pub use crate::decode::{What as Decoded, decode as decoded};
}
pub use bpf_open::BpfOpenError;
pub use bpf_options::{BpfOptions, BpfTime, UnknownBpfOption};
pub use bpf_ring::{BpfRing, BpfStopper};
pub use event::{EventKind, UnknownEvent};
pub use open::{OpenError, Options, Target, cpus, open};
pub use perfring_ring::BpfFault;
pub use perfring_shm::BpfPlace;
pub use recorder::KernelRecorder;
pub use records::{schemas, types};
pub use ring::{KernelRing, Stopper};
pub use snapshot::KernelSnapshot;
