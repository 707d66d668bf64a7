//! What the kernel can be asked for.

use perfring_shm::{Also, KernelEventSpec};
use std::fmt;
use std::str::FromStr;

/// Defines the kinds by name and number.
macro_rules! kinds {
    ($(#[$doc:meta])* $kind:ident { $($(#[$each:meta])* $variant:ident $name:literal $config:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum $kind {
            $($(#[$each])* $variant,)*
        }

        impl $kind {
            /// All of them.
            pub const ALL: [$kind; [$($config),*].len()] = [$($kind::$variant),*];

            /// Its name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $($kind::$variant => $name,)*
                }
            }

            /// Its number in `enum perf_sw_ids`; `PERF_COUNT_SW_DUMMY` for those that are no samples.
            pub(crate) const fn config(self) -> u64 {
                match self {
                    $($kind::$variant => $config,)*
                }
            }
        }
    };
}

kinds! {
    /// A kind of the kernel's software events, by the name that `perf list` has; or of its records
    /// about tasks.
    ///
    /// ```
    /// use perfring_kernel::EventKind;
    /// assert_eq!("page-faults".parse(), Ok(EventKind::PageFaults));
    /// assert_eq!("cs".parse(), Ok(EventKind::ContextSwitches)); // as perf's other names
    /// assert!("cycles".parse::<EventKind>().unwrap_err().to_string().contains("context-switches"));
    /// ```
    EventKind {
        /// Where the processors are, at even distances of time.
        CpuClock "cpu-clock" 0,
        /// Where tasks are, at even distances of the time that they run.
        TaskClock "task-clock" 1,
        /// Page faults.
        PageFaults "page-faults" 2,
        /// Those that needed no reading.
        MinorFaults "minor-faults" 5,
        /// Those that needed reading from a disk.
        MajorFaults "major-faults" 6,
        /// Tasks that leave a processor.
        ContextSwitches "context-switches" 3,
        /// Tasks that go on on another processor.
        CpuMigrations "cpu-migrations" 4,
        /// Unaligned accesses that the kernel made good.
        AlignmentFaults "alignment-faults" 7,
        /// Instructions that the kernel stood in for.
        EmulationFaults "emulation-faults" 8,
        /// Switches between tasks of different control groups.
        CgroupSwitches "cgroup-switches" 11,
        /// Tasks that come and leave, with their reason: what also a user may see who may not see
        /// `context-switches`.
        Switches "switches" 9,
        /// Tasks that begin, end, and get a name.
        Tasks "tasks" 9,
        /// Files that are mapped as programs.
        Mappings "mappings" 9,
    }
}

use EventKind as E;

impl EventKind {
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
