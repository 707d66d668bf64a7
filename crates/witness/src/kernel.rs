//! Opens the rings of the kernel's events.

use crate::tasks::threads;
use perfring_kernel::{EventKind, KernelRing, OpenError, Options, Target, open};

/// Bytes of the kernel's rings for switches, if this user may have so much.
const SIZE: u64 = 4 << 20;
/// Bytes of the kernel's rings for a process, where the user may not have more.
const SMALL: u64 = 64 << 10;
/// The limit of descriptors for the events of a process.
const DESCRIPTORS: usize = 1024;

/// Opens the switches of all tasks.
pub(crate) fn of_machine() -> Result<Vec<KernelRing>, OpenError> {
    let events = vec![EventKind::Switches, EventKind::Tasks];
    let large = Options { events, data_size: Some(SIZE), ..Options::of(Target::System) };
    match open(&large) {
        Err(OpenError::Memory { .. }) => open(&Options { data_size: None, ..large }),
        opened => opened,
    }
}

/// Opens events of a process, unless that takes too many descriptors, or the kernel does not allow them.
pub(crate) fn of_process(pid: u32, events: Vec<EventKind>) -> Option<Vec<KernelRing>> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if threads(pid).saturating_mul(cpus) > DESCRIPTORS {
        return None;
    }
    let large = Options { events, ..Options::of(Target::Process(pid)) };
    let opened = match open(&large) {
        Err(OpenError::Memory { .. }) => open(&Options { data_size: Some(SMALL), ..large }),
        opened => opened,
    };
    opened.ok()
}

/// Says what a recording has nevertheless.
pub(crate) fn without(error: &OpenError) -> String {
    let rest = match error {
        OpenError::Missing | OpenError::Unknown { .. } => {
            "without that, the recording has the holders of seats, stops by a signal, run delays, and throttling by a cgroup"
        }
        _ => {
            "without that, the recording has the holders of seats, stops by a signal, throttling by a cgroup and, where \
             the kernel allows that, the switches of this user's processes, but not which task came instead"
        }
    };
    format!("{error}; {rest}")
}
