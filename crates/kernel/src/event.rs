//! What the kernel can be asked for.

use perfring_shm::{Also, KernelEventSpec};
use std::fmt;
use std::str::FromStr;

/// A kind of the kernel's software events, by the name that `perf list` has; or of its records
/// about tasks.
///
/// ```
/// use perfring_kernel::EventKind;
/// assert_eq!("page-faults".parse(), Ok(EventKind::PageFaults));
/// assert_eq!("cs".parse(), Ok(EventKind::ContextSwitches)); // as perf's other names
/// assert!("cycles".parse::<EventKind>().unwrap_err().to_string().contains("context-switches"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum EventKind {
    /// Where the processors are, at even distances of time.
    CpuClock,
    /// Where tasks are, at even distances of the time that they run.
    TaskClock,
    /// Page faults.
    PageFaults,
    /// Those that needed no reading.
    MinorFaults,
    /// Those that needed reading from a disk.
    MajorFaults,
    /// Tasks that leave a processor.
    ContextSwitches,
    /// Tasks that go on on another processor.
    CpuMigrations,
    /// Unaligned accesses that the kernel made good.
    AlignmentFaults,
    /// Instructions that the kernel stood in for.
    EmulationFaults,
    /// Switches between tasks of different control groups.
    CgroupSwitches,
    /// Tasks that come and leave, with their reason: what also a user may see who may not see
    /// `context-switches`.
    Switches,
    /// Tasks that begin, end, and get a name.
    Tasks,
    /// Files that are mapped as programs.
    Mappings,
}

use EventKind as E;

impl EventKind {
    /// All of them.
    pub const ALL: [EventKind; 13] = [
        E::CpuClock,
        E::TaskClock,
        E::PageFaults,
        E::MinorFaults,
        E::MajorFaults,
        E::ContextSwitches,
        E::CpuMigrations,
        E::AlignmentFaults,
        E::EmulationFaults,
        E::CgroupSwitches,
        E::Switches,
        E::Tasks,
        E::Mappings,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            E::CpuClock => "cpu-clock",
            E::TaskClock => "task-clock",
            E::PageFaults => "page-faults",
            E::MinorFaults => "minor-faults",
            E::MajorFaults => "major-faults",
            E::ContextSwitches => "context-switches",
            E::CpuMigrations => "cpu-migrations",
            E::AlignmentFaults => "alignment-faults",
            E::EmulationFaults => "emulation-faults",
            E::CgroupSwitches => "cgroup-switches",
            E::Switches => "switches",
            E::Tasks => "tasks",
            E::Mappings => "mappings",
        }
    }

    /// Its number in `enum perf_sw_ids`; `PERF_COUNT_SW_DUMMY` for those that are no samples.
    pub(crate) const fn config(self) -> u64 {
        match self {
            E::CpuClock => 0,
            E::TaskClock => 1,
            E::PageFaults => 2,
            E::ContextSwitches => 3,
            E::CpuMigrations => 4,
            E::MinorFaults => 5,
            E::MajorFaults => 6,
            E::AlignmentFaults => 7,
            E::EmulationFaults => 8,
            E::Switches | E::Tasks | E::Mappings => 9,
            E::CgroupSwitches => 11,
        }
    }

    /// Whether it happens in the kernel alone, so that whoever may not see that sees none.
    pub(crate) const fn is_the_kernels(self) -> bool {
        matches!(self, E::ContextSwitches | E::CpuMigrations | E::CgroupSwitches)
    }

    /// Whether it has samples.
    pub(crate) const fn has_samples(self) -> bool {
        self.config() != 9
    }

    /// What the kernel is asked for, with a clock's period, for each ring of a processor: the kind
    /// that its samples are of, and its events.
    ///
    /// Each kind of samples has a ring of its own, as nothing in a sample says of which kind it is.
    /// All that are no samples are one event, in the first ring: the kernel tells of tasks to each
    /// event that wants to know of them, or of mappings.
    pub(crate) fn rings(
        kinds: &[EventKind],
        clock_period_ns: u64,
        wakeup_bytes: u32,
    ) -> Vec<(EventKind, Vec<KernelEventSpec>)> {
        let plain = KernelEventSpec {
            config: 0,
            period: 0,
            also: Also::default(),
            user_only: false,
            wakeup_bytes,
        };
        let mut rings: Vec<(EventKind, Vec<KernelEventSpec>)> = Vec::new();
        let wanted = |kind: &EventKind| kinds.contains(kind);
        for kind in E::ALL.into_iter().filter(wanted).filter(|kind| kind.has_samples()) {
            let clock = matches!(kind, E::CpuClock | E::TaskClock);
            let period = if clock { clock_period_ns } else { 1 };
            rings.push((kind, vec![KernelEventSpec { config: kind.config(), period, ..plain }]));
        }
        if let Some(kind) = E::ALL.into_iter().filter(wanted).find(|kind| !kind.has_samples()) {
            let also = Also {
                tasks: wanted(&E::Tasks),
                mappings: wanted(&E::Mappings),
                switches: wanted(&E::Switches),
            };
            let spec = KernelEventSpec { config: kind.config(), also, ..plain };
            match rings.first_mut() {
                Some((_, specs)) => specs.push(spec),
                None => rings.push((kind, vec![spec])),
            }
        }
        rings
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no event has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownEvent(String);

impl fmt::Display for UnknownEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is none of the kernel's software events:", self.0)?;
        let mut comma = "";
        for kind in EventKind::ALL {
            write!(f, "{comma} {kind}")?;
            comma = ",";
        }
        Ok(())
    }
}

impl std::error::Error for UnknownEvent {}

impl FromStr for EventKind {
    type Err = UnknownEvent;

    fn from_str(text: &str) -> Result<Self, UnknownEvent> {
        let known = EventKind::ALL.into_iter().find(|kind| kind.name() == text);
        let short = match text {
            "faults" => Some(E::PageFaults),
            "cs" => Some(E::ContextSwitches),
            "migrations" => Some(E::CpuMigrations),
            _ => None,
        };
        known.or(short).ok_or_else(|| UnknownEvent(text.to_owned()))
    }
}
