//! Opening rings of the kernel.

use crate::event::EventKind;
use crate::ring::KernelRing;
use crate::sandbox::sandbox;
use perfring_shm::{KernelEvent, KernelEventSpec, KernelEvents, MappedKernel, NoEvent, Whose};
use std::fs;
use std::io;
use std::sync::Arc;
use thiserror::Error;

/// The events to request from the kernel.
///
/// ```
/// use perfring_kernel::{EventKind, Options, Target, open};
/// let options = Options {
///     events: vec![EventKind::Switches],
///     ..Options::of(Target::Process(std::process::id()))
/// };
/// match open(&options) {
///     Ok(rings) => assert!(!rings.is_empty()), // one for each processor
///     Err(error) => eprintln!("{error}"),      // this machine forbids it: the message says why
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The events. Default `context-switches`.
    pub events: Vec<EventKind>,
    /// The scope of the events.
    pub target: Target,
    /// Bytes of each ring's data area: a power of two of whole pages. By default the rings of a
    /// processor have 512 KiB together, which most systems allow a user
    /// (`/proc/sys/kernel/perf_event_mlock_kb`).
    pub data_size: Option<u64>,
    /// Sampling interval of the clocks, ns. Default 1 ms.
    pub clock_period_ns: u64,
}

/// The scope of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A process: all threads that it has now, and the threads and processes that those start. (A
    /// thread that starts during [`open`] can be missed.)
    Process(u32),
    /// All that happens on the machine.
    System,
}

impl Options {
    /// Requests context switches of this target.
    #[must_use]
    pub fn of(target: Target) -> Self {
        Options {
            events: vec![EventKind::ContextSwitches],
            target,
            data_size: None,
            clock_period_ns: 1_000_000,
        }
    }
}

/// The reason why the kernel gives no ring.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// No event was requested.
    #[error("no event was requested")]
    Nothing,
    /// The process does not exist.
    #[error("there is no process {pid}")]
    NoProcess {
        /// The process id that was requested.
        pid: u32,
    },
    /// The size is invalid.
    #[error("the kernel has no ring of {size} bytes: use a power of two of whole pages")]
    Size {
        /// The requested size.
        size: u64,
    },
    /// This user may not observe the kernel, and the event happens only there.
    #[error(
        "{event} happen in the kernel itself, which this user may not observe{}: use `switches` \
         instead, which the kernel reports for one's own processes; or be root, or have CAP_PERFMON, \
         or have /proc/sys/kernel/perf_event_paranoid set to 1 or less",
        paranoid()
    )]
    Kernel {
        /// The event.
        event: EventKind,
    },
    /// This user lacks the permission.
    #[error(
        "this user may not observe {event} {of}{}: {}{}",
        paranoid(),
        if *.system {
            "be root, or have CAP_PERFMON, or have /proc/sys/kernel/perf_event_paranoid set to 0 \
             or less; or observe a process of one's own"
        } else {
            "observe a process of one's own (where /proc/sys/kernel/perf_event_paranoid is more than \
             2, have it set to 2), or be root, or have CAP_PERFMON and CAP_SYS_PTRACE"
        },
        sandbox("perf_event_open")
    )]
    Forbidden {
        /// The event.
        event: EventKind,
        /// The target: a process or the machine.
        of: String,
        /// Whether the target was the machine.
        system: bool,
    },
    /// The kernel has no such events, or a sandbox reports that.
    #[error(
        "this kernel has no perf events: it was built without CONFIG_PERF_EVENTS, or emulates \
         Linux as gVisor does{}",
        sandbox("perf_event_open")
    )]
    Missing,
    /// The kernel does not support the request.
    #[error(
        "this kernel does not have {event} on the clock of perfring's timestamps: Linux 4.1 or later \
         has (`use_clockid` with CLOCK_BOOTTIME)"
    )]
    Unknown {
        /// The event.
        event: EventKind,
    },
    /// The kernel has no rings in overwrite mode.
    #[error(
        "this kernel has no recorders, which need Linux 4.7 (`write_backward`): read a ring that refuses records when it is \
         full"
    )]
    Overwrite,
    /// The limit for locked memory is too low.
    #[error(
        "this user may not have rings of {size} bytes for each processor: use smaller ones, or \
         raise /proc/sys/kernel/perf_event_mlock_kb or `ulimit -l`"
    )]
    Memory {
        /// Bytes of a ring.
        size: u64,
    },
    /// The limit for descriptors is too low.
    #[error(
        "{needed} descriptors are needed, one for each event, thread and processor, and this \
         process may not open so many: raise `ulimit -n`, or ask for fewer events"
    )]
    Descriptors {
        /// The number of descriptors needed.
        needed: usize,
    },
    /// Another error of the system.
    #[error("cannot open {event}: {step}: {source}")]
    Io {
        /// The event.
        event: EventKind,
        /// The step that failed.
        step: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl OpenError {
    /// Returns whether this machine, or its administrator, forbids it: the request itself is valid.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        matches!(
            self,
            OpenError::Kernel { .. }
                | OpenError::Forbidden { .. }
                | OpenError::Missing
                | OpenError::Unknown { .. }
                | OpenError::Overwrite
        )
    }
}

/// Returns the setting that most often forbids it.
fn paranoid() -> String {
    match fs::read_to_string("/proc/sys/kernel/perf_event_paranoid") {
        Ok(text) => format!(" (/proc/sys/kernel/perf_event_paranoid is {})", text.trim()),
        Err(_) => String::new(),
    }
}

/// Opens rings: on each processor one for each event that has samples, and one if there is none.
/// The kernel writes from now on.
///
/// # Errors
/// See [`OpenError`].
pub fn open(options: &Options) -> Result<Vec<KernelRing>, OpenError> {
    let mut rings = Vec::new();
    for one in opened(options, false)? {
        let (event, cpu, uuid) = (one.kind, one.cpu, one.uuid);
        rings.push(KernelRing::new(one.mapped_by(MappedKernel::map)?, event, cpu, uuid));
    }
    enable(options, rings.iter().map(KernelRing::events))?;
    Ok(rings)
}

/// The events of a ring that is not mapped yet.
#[derive(Debug)]
pub(crate) struct OpenedRing {
    events: Vec<KernelEvent>,
    data_size: u64,
    pub(crate) kind: EventKind,
    pub(crate) cpu: i32,
    pub(crate) uuid: [u8; 16],
}

impl OpenedRing {
    /// Maps the ring.
    pub(crate) fn mapped_by<T>(
        self,
        map: fn(Vec<KernelEvent>, u64) -> io::Result<T>,
    ) -> Result<T, OpenError> {
        let size = self.data_size;
        map(self.events, size).map_err(|source| match source.kind() {
            io::ErrorKind::PermissionDenied => OpenError::Memory { size },
            // The system's EINVAL is about an event.
            io::ErrorKind::InvalidInput if source.raw_os_error().is_none() => {
                OpenError::Size { size }
            }
            _ => OpenError::Io { event: self.kind, step: "mapping its ring", source },
        })
    }
}

/// Opens the events of all rings. At least one ring has some.
pub(crate) fn opened(options: &Options, overwrite: bool) -> Result<Vec<OpenedRing>, OpenError> {
    let kinds = EventKind::rings(&options.events, 0, 0, overwrite).len();
    let data_size = options
        .data_size
        .unwrap_or_else(|| (SIZE / kinds.max(1).next_power_of_two() as u64).max(SIZE_MIN));
    if !data_size.is_power_of_two() {
        return Err(OpenError::Size { size: data_size });
    }
    // Waiting readers are woken at a quarter of a ring: the rest is for records written before they
    // read. A recorder has no waiting readers.
    let wakeup = if overwrite { data_size } else { data_size / 4 };
    let wakeup = u32::try_from(wakeup).unwrap_or(u32::MAX);
    let wanted = EventKind::rings(&options.events, options.clock_period_ns, wakeup, overwrite);
    if wanted.is_empty() {
        return Err(OpenError::Nothing);
    }
    let cpus = cpus();
    let tids = match options.target {
        Target::Process(pid) => Some(threads(pid)?),
        Target::System => None,
    };
    let specs: usize = wanted.iter().map(|(_, specs)| specs.len()).sum();
    let needed = specs * cpus.len() * tids.as_ref().map_or(1, Vec::len);
    let asked = Asked { target: options.target, needed };
    let mut rings = Vec::new();
    for cpu in cpus {
        let whose: Vec<Whose> = match &tids {
            Some(tids) => tids.iter().map(|tid| Whose::Thread { tid: *tid, cpu }).collect(),
            None => vec![Whose::Cpu(cpu)],
        };
        for (kind, specs) in &wanted {
            let kind = *kind;
            let events = asked.events(kind, specs, &whose)?;
            // None if none of the threads lives any more, or the processor is off.
            if events.is_empty() {
                continue;
            }
            let mut id = [0; 16];
            getrandom::fill(&mut id).map_err(|source| OpenError::Io {
                event: kind,
                step: "drawing random bytes for its id",
                source: source.into(),
            })?;
            let uuid = uuid::Builder::from_random_bytes(id).into_uuid().into_bytes();
            rings.push(OpenedRing { events, data_size, kind, cpu, uuid });
        }
    }
    match (rings.is_empty(), options.target) {
        (true, Target::Process(pid)) => Err(OpenError::NoProcess { pid }),
        (true, Target::System) => Err(OpenError::Missing),
        _ => Ok(rings),
    }
}

/// Starts the events of all rings.
pub(crate) fn enable<'a>(
    options: &Options,
    mut rings: impl Iterator<Item = &'a Arc<KernelEvents>>,
) -> Result<(), OpenError> {
    let event = options.events.first().copied().unwrap_or(EventKind::ContextSwitches);
    let failed = |source| OpenError::Io { event, step: "enabling it", source };
    rings.try_for_each(|events| events.enable()).map_err(failed)
}

/// Bytes of all rings of a processor by default.
const SIZE: u64 = 512 << 10;
/// Smallest default size of a ring.
const SIZE_MIN: u64 = 64 << 10;

struct Asked {
    target: Target,
    needed: usize,
}

impl Asked {
    /// Opens the events of a ring of one processor.
    fn events(
        &self,
        kind: EventKind,
        specs: &[KernelEventSpec],
        whose: &[Whose],
    ) -> Result<Vec<KernelEvent>, OpenError> {
        let mut events = Vec::new();
        for whose in whose {
            for spec in specs {
                events.extend(self.event(kind, *spec, *whose)?);
            }
        }
        Ok(events)
    }

    /// Opens an event; none if its thread has ended, or its processor is off.
    fn event(
        &self,
        kind: EventKind,
        mut spec: KernelEventSpec,
        whose: Whose,
    ) -> Result<Option<KernelEvent>, OpenError> {
        let mut opened = KernelEvent::open(&spec, whose);
        if matches!(opened, Err(NoEvent::Forbidden)) {
            spec.user_only = true;
            opened = KernelEvent::open(&spec, whose);
            if opened.is_ok() && kind.is_the_kernels() {
                return Err(OpenError::Kernel { event: kind });
            }
        }
        let system = matches!(whose, Whose::Cpu(_));
        Err(match opened {
            Ok(event) => return Ok(Some(event)),
            Err(NoEvent::Ended) => return Ok(None),
            Err(NoEvent::Forbidden) => {
                let of = match self.target {
                    Target::Process(pid) => format!("of process {pid}"),
                    Target::System => "of the whole machine".to_owned(),
                };
                OpenError::Forbidden { event: kind, of, system }
            }
            Err(NoEvent::Missing) => OpenError::Missing,
            Err(NoEvent::Unknown) => {
                let plain = KernelEventSpec { overwrite: false, ..spec };
                match spec.overwrite && KernelEvent::open(&plain, whose).is_ok() {
                    true => OpenError::Overwrite,
                    false => OpenError::Unknown { event: kind },
                }
            }
            Err(NoEvent::Descriptors) => OpenError::Descriptors { needed: self.needed },
            Err(NoEvent::Other(source)) => {
                OpenError::Io { event: kind, step: "perf_event_open", source }
            }
        })
    }
}

/// Returns the threads that a process has now.
fn threads(pid: u32) -> Result<Vec<i32>, OpenError> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Err(OpenError::NoProcess { pid });
    };
    let mut tids: Vec<i32> =
        tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse().ok()).collect();
    tids.sort_unstable();
    match tids.is_empty() {
        true => Err(OpenError::NoProcess { pid }),
        false => Ok(tids),
    }
}

/// Returns the processors that are on: on each of them, rings are opened.
#[must_use]
pub fn cpus() -> Vec<i32> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let cpus = cpu_list(text.trim());
    if !cpus.is_empty() {
        return cpus;
    }
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    (0..i32::try_from(count).unwrap_or(1)).collect()
}

/// Parses a list in the kernel's notation: `0-3,8`.
fn cpu_list(text: &str) -> Vec<i32> {
    const MOST: i32 = 1 << 16;
    let mut cpus = Vec::new();
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        if let (Ok(first), Ok(last)) = (first.parse::<i32>(), last.parse::<i32>())
            && first >= 0
            && last < MOST
        {
            cpus.extend(first..=last);
        }
    }
    cpus
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_size_is_told_from_events_that_cannot_share_a_ring() {
        let opened = || OpenedRing {
            events: Vec::new(),
            data_size: 3,
            kind: EventKind::Tasks,
            cpu: 0,
            uuid: [0; 16],
        };
        let size = opened().mapped_by::<()>(|_, _| Err(io::ErrorKind::InvalidInput.into()));
        assert!(matches!(size, Err(OpenError::Size { size: 3 })));
        const EINVAL: i32 = 22;
        let events = opened().mapped_by::<()>(|_, _| Err(io::Error::from_raw_os_error(EINVAL)));
        assert!(matches!(events, Err(OpenError::Io { .. })));
    }

    #[test]
    fn processors_are_listed_as_the_kernel_writes_them() {
        assert_eq!(cpu_list("0"), [0]);
        assert_eq!(cpu_list("0-3,8,10-11"), [0, 1, 2, 3, 8, 10, 11]);
        for odd in ["", "x", "-1", "3-", "0-99999999", "5-4"] {
            assert!(cpu_list(odd).is_empty(), "{odd:?}");
        }
    }
}
