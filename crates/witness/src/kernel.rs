//! Opens the rings of the kernel's events.

use crate::tasks::threads;
use perfring_kernel::{EventKind, KernelRecorder, KernelRing, OpenError, Options, Target, open};
use perfring_why::witness::{FAULTS, KERNEL, Of};

/// Bytes of the kernel's rings for switches, if this user may have so much.
const SIZE: u64 = 4 << 20;
/// The limit of all of them together, if the kernel overwrites their oldest events: they are copied at each snapshot.
const KEPT: u64 = 64 << 20;
/// Bytes of the kernel's rings for a process, where the user may not have more.
const SMALL: u64 = 64 << 10;
/// The limit of descriptors for the events of a process.
const DESCRIPTORS: usize = 1024;

/// A ring in which the kernel keeps its newest events.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) name: String,
    pub(crate) of: Of,
    /// The process; 0: all of them.
    pub(crate) pid: u32,
    pub(crate) ring: KernelRecorder,
    /// When it was there, ns of the timestamps' clock.
    pub(crate) since: u64,
}

/// The rings that were opened.
#[derive(Debug)]
pub(crate) enum Rings {
    /// They are read by the host, which has not taken these yet. With their names.
    Read(Vec<(String, KernelRing)>),
    /// They are read at snapshots.
    Kept(Vec<Kept>),
}

impl Rings {
    /// Opens the events of a process, or of all (0). `now` returns the time.
    pub(crate) fn open(
        &mut self,
        (of, pid): (Of, u32),
        now: impl Fn() -> u64,
    ) -> Result<(), OpenError> {
        let begins = match of {
            Of::Switches => KERNEL.trim_end_matches('-'),
            Of::Faults => FAULTS,
        };
        let name = |cpu: i32| match pid {
            0 => format!("{begins}-{cpu}"),
            pid => format!("{begins}-{pid}-{cpu}"),
        };
        match self {
            Rings::Read(rings) => {
                let opened = opened(of, pid, SIZE, open)?;
                rings.extend(opened.into_iter().map(|ring| (name(ring.cpu()), ring)));
            }
            Rings::Kept(rings) => {
                let each = KEPT / cpus() as u64;
                let size = (each.max(1) + 1).next_power_of_two() / 2;
                let opened = opened(of, pid, size.clamp(SMALL, SIZE), KernelRecorder::open)?;
                let since = now();
                rings.extend(opened.into_iter().map(|ring| {
                    let name = name(ring.cpu());
                    Kept { name, of, pid, ring, since }
                }));
            }
        }
        Ok(())
    }
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Opens rings of this size, or smaller ones where the user may not have more.
fn opened<R>(
    of: Of,
    pid: u32,
    size: u64,
    open: impl Fn(&Options) -> Result<Vec<R>, OpenError>,
) -> Result<Vec<R>, OpenError> {
    let events = match of {
        Of::Switches => vec![EventKind::Switches, EventKind::Tasks],
        Of::Faults => vec![EventKind::PageFaults],
    };
    // Those of a process have the default first.
    let (target, large, small) = match pid {
        0 => (Target::System, Some(size), None),
        pid => (Target::Process(pid), None, Some(SMALL)),
    };
    let needed = threads(pid).saturating_mul(cpus());
    if needed > DESCRIPTORS {
        return Err(OpenError::Descriptors { needed });
    }
    let large = Options { events, data_size: large, ..Options::of(target) };
    match open(&large) {
        Err(OpenError::Memory { .. }) => open(&Options { data_size: small, ..large }),
        opened => opened,
    }
}

/// Returns what this user may not observe for snapshots, and what is evidence nevertheless: it opens the rings, and closes them.
#[must_use]
pub fn missing() -> Option<String> {
    let opened = Rings::Kept(Vec::new()).open((Of::Switches, 0), || 0);
    opened.err().map(|error| without(&error))
}

/// Says what a recording has nevertheless.
pub(crate) fn without(error: &OpenError) -> String {
    let rest = match error {
        OpenError::Missing | OpenError::Unknown { .. } | OpenError::Overwrite => {
            "without that, the recording has the holders of seats and, of processes whose open files this user may see, stops by \
             a signal, run delays, and throttling by a cgroup"
        }
        _ => {
            "without that, the recording has the holders of seats and, of this user's processes, stops by a signal, throttling \
             by a cgroup and, where the kernel allows that, the switches, but not which task came instead"
        }
    };
    format!("{error}; {rest}")
}
