//! Opens the rings of the kernel's events.

use crate::tasks::threads;
use perfring_kernel::{
    EventKind, KernelRecorder, KernelRing, OpenError, Options, Stopper, Target, cpus, open,
};
use perfring_why::witness::{FAULTS, KERNEL, Of};

/// Bytes of the kernel's rings for switches, if this user may have so much.
const SIZE: u64 = 4 << 20;
/// Bytes of the kernel's rings for a process; and for switches, where the user may not have more.
const PLAIN: u64 = 512 << 10;
/// Bytes of the kernel's rings for a process, where the user may not have more.
const SMALL: u64 = 64 << 10;
/// The limit of all rings for the machine's switches together, and of all rings for processes, if the kernel overwrites their
/// oldest events: they are copied at each snapshot.
const KEPT: u64 = 64 << 20;
/// A process gets this part of the bytes that are left for processes.
const SHARE: u64 = 16;
/// The least bytes of a ring.
const LEAST: u64 = 16 << 10;
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

/// What was opened.
#[derive(Debug, Default)]
pub(crate) struct Opened {
    pub(crate) stoppers: Vec<Stopper>,
    /// A sentence, if the rings are smaller than they should be.
    pub(crate) smaller: Option<String>,
}

impl Rings {
    /// Opens the events of a process, or of all (0). `now` returns the time.
    pub(crate) fn open(
        &mut self,
        (of, pid): (Of, u32),
        now: impl Fn() -> u64,
    ) -> Result<Opened, OpenError> {
        let begins = match of {
            Of::Switches => KERNEL.trim_end_matches('-'),
            Of::Faults => FAULTS,
        };
        let name = |cpu: i32| match pid {
            0 => format!("{begins}-{cpu}"),
            pid => format!("{begins}-{pid}-{cpu}"),
        };
        let (stoppers, smaller) = match self {
            Rings::Read(rings) => {
                let size = if pid == 0 { SIZE } else { PLAIN };
                let (opened, smaller) = opened(of, pid, size, open)?;
                let stoppers = opened.iter().map(KernelRing::stopper).collect();
                rings.extend(opened.into_iter().map(|ring| (name(ring.cpu()), ring)));
                (stoppers, smaller)
            }
            Rings::Kept(rings) => {
                let of_processes = rings.iter().filter(|kept| kept.pid != 0);
                let used = of_processes.map(|kept| kept.ring.data_size()).sum();
                let size = kept_size(pid, cpus().len(), used);
                let size = size.ok_or(OpenError::Memory { size: LEAST })?;
                let (opened, smaller) = opened(of, pid, size, KernelRecorder::open)?;
                let stoppers = opened.iter().map(KernelRecorder::stopper).collect();
                let since = now();
                rings.extend(opened.into_iter().map(|ring| {
                    let name = name(ring.cpu());
                    Kept { name, of, pid, ring, since }
                }));
                (stoppers, smaller)
            }
        };
        // Small rings of a process are the usual case of a user without privileges.
        let smaller = smaller.filter(|_| pid == 0).map(self::smaller);
        Ok(Opened { stoppers, smaller })
    }
}

/// Says that the rings of the machine's switches have no more bytes than this, because of a limit.
fn smaller(size: u64) -> String {
    format!(
        "the kernel's rings of context switches have {size} bytes for each CPU, and {SIZE} would be better: raise \
         /proc/sys/kernel/perf_event_mlock_kb or `ulimit -l` (LimitMEMLOCK= of a systemd unit)"
    )
}

/// Returns the bytes of each ring in which the kernel overwrites its oldest events. The rings of processes have `used` bytes so
/// far; `None` if too few are left.
fn kept_size(pid: u32, cpus: usize, used: u64) -> Option<u64> {
    let cpus = cpus.max(1) as u64;
    let size = |all: u64| (all / cpus).saturating_add(1).next_power_of_two() / 2;
    if pid == 0 {
        return Some(size(KEPT).clamp(SMALL, SIZE));
    }
    let left = KEPT.saturating_sub(used);
    let size = size(left / SHARE).clamp(LEAST, PLAIN);
    (size.saturating_mul(cpus) <= left).then_some(size)
}

/// Opens rings of this size, or smaller ones where the user may not have more: then also returns their size.
fn opened<R>(
    of: Of,
    pid: u32,
    size: u64,
    open: impl Fn(&Options) -> Result<Vec<R>, OpenError>,
) -> Result<(Vec<R>, Option<u64>), OpenError> {
    let events = match of {
        Of::Switches => vec![EventKind::Switches, EventKind::Tasks],
        Of::Faults => vec![EventKind::PageFaults],
    };
    let (target, small) = match pid {
        0 => (Target::System, PLAIN.min(size)),
        pid => (Target::Process(pid), SMALL.min(size)),
    };
    let needed = threads(pid).saturating_mul(cpus().len());
    if needed > DESCRIPTORS {
        return Err(OpenError::Descriptors { needed });
    }
    let large = Options { events, data_size: Some(size), ..Options::of(target) };
    match open(&large) {
        Err(OpenError::Memory { .. }) if small < size => {
            open(&Options { data_size: Some(small), ..large }).map(|rings| (rings, Some(small)))
        }
        opened => opened.map(|rings| (rings, None)),
    }
}

/// Returns what this user may not observe for snapshots, and what is evidence nevertheless: it opens the rings, and closes them.
#[must_use]
pub fn missing() -> Option<String> {
    match Rings::Kept(Vec::new()).open((Of::Switches, 0), || 0) {
        Ok(opened) => opened.smaller,
        Err(error) => Some(without(&error)),
    }
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]
    use super::*;
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    #[test]
    fn rings_that_are_smaller_because_of_a_limit_are_told_from_others() {
        let limited = |most: u64| {
            move |options: &Options| match options.data_size {
                Some(size) if size <= most => Ok(vec![size]),
                size => Err(OpenError::Memory { size: size.unwrap_or(0) }),
            }
        };
        let machine = |most| opened(Of::Switches, 0, SIZE, limited(most)).ok();
        assert_eq!(machine(SIZE), Some((vec![SIZE], None)));
        assert_eq!(machine(SIZE - 1), Some((vec![PLAIN], Some(PLAIN))));
        assert_eq!(machine(PLAIN - 1), None);
        assert!(smaller(PLAIN).contains("have 524288 bytes for each CPU, and 4194304 would be"));
    }

    #[test]
    fn all_rings_together_have_a_limit_whichever_cpus_this_process_may_use() {
        let all = cpus().len();
        let allowed = sched_getaffinity(None).unwrap();
        let first = (0..CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu)).unwrap();
        let mut one = CpuSet::new();
        one.set(first);
        sched_setaffinity(None, &one).unwrap();
        assert_eq!(cpus().len(), all, "rings are opened for each CPU that is on");
        sched_setaffinity(None, &allowed).unwrap();
        let machine = |cpus: usize| kept_size(0, cpus, 0).unwrap() * cpus as u64;
        assert_eq!(
            [1, 2, 16, 64, 1000].map(machine),
            [4 << 20, 8 << 20, 64 << 20, 64 << 20, 64_000 << 10]
        );
        for cpus in [1, 2, 7, 64, 300] {
            let (mut used, mut processes) = (0, 0);
            while let Some(size) = kept_size(17, cpus, used) {
                assert!(size <= PLAIN);
                used += size * cpus as u64;
                processes += 1;
            }
            println!("{cpus} CPUs: {processes} processes, {used} bytes");
            assert!(used <= KEPT, "{used} bytes of {cpus} CPUs");
        }
    }
}
