//! The events that the kernel supports.

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
            /// All kinds.
            pub const ALL: [$kind; [$($config),*].len()] = [$($kind::$variant),*];

            /// Returns its name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $($kind::$variant => $name,)*
                }
            }

            /// Returns its number in `enum perf_sw_ids`; `PERF_COUNT_SW_DUMMY` for kinds without
            /// samples.
            pub(crate) const fn config(self) -> u64 {
                match self {
                    $($kind::$variant => $config,)*
                }
            }
        }
    };
}

kinds! {
    /// A kind of the kernel's software events, by its name in `perf list`; or of its records about
    /// tasks.
    ///
    /// ```
    /// use perfring_kernel::EventKind;
    /// assert_eq!("page-faults".parse(), Ok(EventKind::PageFaults));
    /// assert_eq!("cs".parse(), Ok(EventKind::ContextSwitches)); // perf's other names work as well
    /// assert!("cycles".parse::<EventKind>().unwrap_err().to_string().contains("context-switches"));
    /// ```
    EventKind {
        /// Samples of each processor at regular intervals of time.
        CpuClock "cpu-clock" 0,
        /// Samples of tasks at regular intervals of their running time.
        TaskClock "task-clock" 1,
        /// Page faults.
        PageFaults "page-faults" 2,
        /// Page faults without a read from disk.
        MinorFaults "minor-faults" 5,
        /// Page faults with a read from disk.
        MajorFaults "major-faults" 6,
        /// Tasks that leave a processor.
        ContextSwitches "context-switches" 3,
        /// Tasks that move to another processor.
        CpuMigrations "cpu-migrations" 4,
        /// Unaligned accesses that the kernel fixed up.
        AlignmentFaults "alignment-faults" 7,
        /// Instructions that the kernel emulated.
        EmulationFaults "emulation-faults" 8,
        /// Switches between tasks of different control groups.
        CgroupSwitches "cgroup-switches" 11,
        /// Tasks that are scheduled in and out, with the reason. Also visible to users that may not
        /// see `context-switches`.
        Switches "switches" 9,
        /// Tasks that begin, end, or change their name.
        Tasks "tasks" 9,
        /// Files that are mapped as programs.
        Mappings "mappings" 9,
    }
}

use EventKind as E;

impl EventKind {
    /// Returns whether it happens only in the kernel, so that users who may not observe the kernel
    /// get no samples.
    pub(crate) const fn is_the_kernels(self) -> bool {
        matches!(self, E::ContextSwitches | E::CpuMigrations | E::CgroupSwitches)
    }

    /// Returns whether it has samples.
    pub(crate) const fn has_samples(self) -> bool {
        self.config() != 9
    }

    /// Returns the requests for each ring of a processor, with a clock's period: the kind of its
    /// samples, and its events.
    ///
    /// Each kind of samples has a ring of its own, as a sample does not contain its kind. All kinds
    /// without samples are one event, in the first ring: the kernel reports tasks to each event
    /// that requests tasks or mappings.
    pub(crate) fn rings(
        kinds: &[EventKind],
        clock_period_ns: u64,
        wakeup_bytes: u32,
        overwrite: bool,
    ) -> Vec<(EventKind, Vec<KernelEventSpec>)> {
        let plain = KernelEventSpec {
            config: 0,
            period: 0,
            also: Also::default(),
            user_only: false,
            wakeup_bytes,
            overwrite,
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

/// A name that is not an event's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownEvent(String);

impl fmt::Display for UnknownEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not one of the kernel's software events:", self.0)?;
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
