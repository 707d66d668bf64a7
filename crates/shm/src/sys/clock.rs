//! The machine's clocks: `CLOCK_BOOTTIME` in the initial time namespace, the wall clock, and the
//! processor's counter where the kernel itself trusts it.

use nix::libc;
use perfring_ring::Reading;
use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use thiserror::Error;

/// A reading of one clock around another that took longer is discarded.
const WIDTH_NS: u64 = 1_000;
/// A reading that took no longer is accepted at once.
const NARROW_NS: u64 = 64;
/// Number of readings, of which the narrowest counts.
const READINGS: u32 = 3;
/// Maximum number, if all were disturbed.
const READINGS_MOST: u32 = 20;

/// The reason why this process cannot take timestamps.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ClockError {
    /// The process has made a time namespace for its children, and is in another one itself.
    #[error(
        "this process made a time namespace for its children (unshare), and the kernel does not \
         show the offset of its own: attach before that, or in a child"
    )]
    OtherNamespace,
    /// `/proc/self/timens_offsets` exists, and its content is unknown.
    #[error("/proc/self/timens_offsets does not say how far the boot clock is shifted here")]
    Offsets,
}

perfring_abi::debug_by_display!(ClockError);

/// The initial time namespace's inode: `PROC_TIME_INIT_INO` in Linux.
const INITIAL_NAMESPACE: &str = "time:[4026531834]";

/// Clock sources of the kernel that are the scaled counter.
const TRUSTED: [&str; 3] = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page"];

/// The clock of timestamps: the same for all processes on the machine, in any time namespace.
///
/// ```
/// use perfring_shm::MachineClock;
/// let clock = MachineClock::find()?;
/// let before = clock.now_ns();
/// assert!(clock.now_ns() >= before);
/// # Ok::<(), perfring_shm::ClockError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MachineClock {
    counter: bool,
    /// How far this process's boot clock is ahead of the initial one, ns.
    ahead: i64,
    /// The same of its monotonic clock.
    monotonic_ahead: i64,
    boot: u64,
}

impl MachineClock {
    /// Returns this machine's clock, as seen from this process.
    ///
    /// # Errors
    /// See [`ClockError`].
    pub fn find() -> Result<Self, ClockError> {
        let id = boot_id();
        let boot = u64::from_ne_bytes([id[0], id[1], id[2], id[3], id[4], id[5], id[6], id[7]]);
        let [ahead, monotonic_ahead] = ahead_here(Path::new("/proc/self"))?;
        Ok(MachineClock { counter: counter_is_trusted(), ahead, monotonic_ahead, boot })
    }

    /// Returns a clock for a process that takes no timestamps.
    pub(crate) fn unused() -> Self {
        MachineClock { counter: false, ahead: 0, monotonic_ahead: 0, boot: 0 }
    }

    /// Returns the timestamp of a record made now, ns: `CLOCK_BOOTTIME`, read from the kernel.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        gettime(libc::CLOCK_BOOTTIME).wrapping_sub(self.ahead as u64)
    }

    /// Returns how long the machine was suspended since it was booted, ns: by so much the clock is ahead of
    /// `CLOCK_MONOTONIC`, which the kernel's `ktime_get` reads. Exact to the time of a reading.
    #[must_use]
    pub fn suspended_ns(&self) -> u64 {
        let mut narrowest = (u64::MAX, 0);
        for _ in 0..READINGS {
            let before = self.now_ns();
            let monotonic =
                gettime(libc::CLOCK_MONOTONIC).wrapping_sub(self.monotonic_ahead as u64);
            let width = self.now_ns().saturating_sub(before);
            if width < narrowest.0 {
                narrowest = (width, before.saturating_add(width / 2).saturating_sub(monotonic));
            }
        }
        narrowest.1
    }

    /// Returns whether timestamps are computed from the processor's counter (some 4 ns each).
    /// Otherwise each is a call of `clock_gettime` (some 22 ns in the vDSO; without a vDSO, a
    /// system call).
    #[must_use]
    pub fn has_counter(&self) -> bool {
        self.counter
    }
}

/// The counter at a moment of the clock.
#[derive(Clone, Copy, Debug)]
pub struct CounterSample {
    /// The counter's value.
    pub counter: u64,
    /// The clock's value, ns.
    pub ns: u64,
}

/// Clocks for timestamps: the machine's, or a test's.
pub trait Clocks {
    /// Returns whether there is a counter.
    fn counts(&self) -> bool;
    /// Reads a counter of some rate; it may stop, or restart.
    fn counter(&self) -> u64;
    /// Reads the clock of timestamps, ns. It never goes back.
    fn clock_ns(&self) -> u64;
    /// Reads the wall clock, ns.
    fn realtime_ns(&self) -> u64;
    /// Returns the boot's id.
    fn boot(&self) -> u64;

    /// Reads the counter between two readings of the clock. Returns the narrowest of some readings,
    /// or `None` if all took too long.
    fn sample(&self) -> Option<CounterSample> {
        let mut narrowest = (WIDTH_NS + 1, None);
        for _ in 0..READINGS {
            let before = self.clock_ns();
            let counter = self.counter();
            let width = self.clock_ns().wrapping_sub(before);
            if width < narrowest.0 {
                narrowest = (width, Some(CounterSample { counter, ns: before + width / 2 }));
            }
            if width <= NARROW_NS {
                break;
            }
        }
        narrowest.1
    }

    /// Reads all clocks at one moment, without a scale. Returns the narrowest of some readings.
    fn reading(&self) -> Reading {
        let mut narrowest = (u64::MAX, 0, 0);
        for n in 1..=READINGS_MOST {
            let before = self.clock_ns();
            let realtime = self.realtime_ns();
            let width = self.clock_ns().wrapping_sub(before);
            if width < narrowest.0 {
                narrowest = (width, before.wrapping_add(width / 2), realtime);
            }
            // An anchor stays in the ring, so a disturbed reading is not good enough.
            if width <= NARROW_NS || (n >= READINGS && narrowest.0 <= WIDTH_NS) {
                break;
            }
        }
        let (width, clock_ns, realtime_ns) = narrowest;
        Reading { boot: self.boot(), clock_ns, realtime_ns, error_ns: width / 2 + 1, scale: None }
    }
}

impl Clocks for MachineClock {
    fn counts(&self) -> bool {
        self.counter
    }

    #[inline(always)]
    fn counter(&self) -> u64 {
        #[cfg(target_arch = "x86_64")]
        {
            // SAFETY: reads a register. `counter_is_trusted` verified that this process may.
            unsafe { core::arch::x86_64::_rdtsc() }
        }
        #[cfg(not(target_arch = "x86_64"))]
        0
    }

    fn clock_ns(&self) -> u64 {
        self.now_ns()
    }

    fn realtime_ns(&self) -> u64 {
        gettime(libc::CLOCK_REALTIME)
    }

    fn boot(&self) -> u64 {
        self.boot
    }
}

fn gettime(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the struct is ours and lives through the call. All three clocks exist since Linux 2.6.39,
    // so it does not fail; if it did, the time would be zero.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// Returns whether the counter has one rate in every state of the processor, the kernel's own clock
/// is based on it, and this process may read it.
fn counter_is_trusted() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        let trusted = fs::read_to_string(source).is_ok_and(|name| TRUSTED.contains(&name.trim()));
        let invariant =
            cpuid(0x8000_0000).eax >= 0x8000_0007 && cpuid(0x8000_0007).edx & 1 << 8 != 0;
        let mut allowed: libc::c_int = 0;
        // SAFETY: stores an int at the given address, which is ours.
        let asked = unsafe { libc::prctl(libc::PR_GET_TSC, &raw mut allowed) };
        trusted && invariant && (asked != 0 || allowed == libc::PR_TSC_ENABLE)
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = TRUSTED;
        false
    }
}

#[cfg(target_arch = "x86_64")]
fn cpuid(leaf: u32) -> core::arch::x86_64::CpuidResult {
    #[allow(unused_unsafe, reason = "it is unsafe for the oldest supported compiler")]
    // SAFETY: every processor of this architecture has the instruction.
    unsafe {
        core::arch::x86_64::__cpuid(leaf)
    }
}

/// Returns how far this process's `CLOCK_BOOTTIME` and `CLOCK_MONOTONIC` are ahead of the initial time namespace's, ns,
/// according to `/proc/self`.
fn ahead_here(proc: &Path) -> Result<[i64; 2], ClockError> {
    let here = fs::read_link(proc.join("ns/time"));
    let children = fs::read_link(proc.join("ns/time_for_children"));
    let (Ok(here), Ok(children)) = (here, children) else {
        return Ok([0; 2]); // a kernel without time namespaces
    };
    if here.as_os_str() == INITIAL_NAMESPACE {
        return Ok([0; 2]);
    }
    // The offsets belong to the namespace into which children are born.
    if here != children {
        return Err(ClockError::OtherNamespace);
    }
    let offsets = fs::read_to_string(proc.join("timens_offsets")).unwrap_or_default();
    let of = |names| offset_of(names, &offsets).ok_or(ClockError::Offsets);
    Ok([of(BOOTTIME)?, of(MONOTONIC)?])
}

/// The names of a clock in `/proc/self/timens_offsets`.
const BOOTTIME: [&str; 2] = ["boottime", "7"];
const MONOTONIC: [&str; 2] = ["monotonic", "1"];

/// Returns a clock's line: seconds, which may be negative, and nanoseconds.
fn offset_of(names: [&str; 2], offsets: &str) -> Option<i64> {
    let mut words = offsets.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        words.next().is_some_and(|name| names.contains(&name)).then_some(words)
    })?;
    let mut number = || words.next()?.parse::<i64>().ok();
    let (seconds, nanos) = (number()?, number()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
}

/// Reads `CLOCK_REALTIME`, ns.
pub(crate) fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns when this boot began, by today's wall clock, ns since 1970. The clock may have been wrong then.
pub(crate) fn boot_began_ns() -> u64 {
    now_ns().saturating_sub(gettime(libc::CLOCK_BOOTTIME))
}

/// Returns the kernel's id of this boot, or zeros if it is not available.
pub(crate) fn boot_id() -> [u8; 16] {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .ok()
        .and_then(|text| uuid::Uuid::try_parse(text.trim()).ok())
        .map_or([0; 16], |id| *id.as_bytes())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_process_knows_its_time_namespace_or_says_why_not() {
        let dir = tempfile::tempdir().unwrap();
        let proc = dir.path();
        let ahead = |here: &str, children: &str, offsets: Option<&str>| {
            let _ = fs::remove_dir_all(proc.join("ns"));
            fs::create_dir(proc.join("ns")).unwrap();
            for (name, to) in [("time", here), ("time_for_children", children)] {
                std::os::unix::fs::symlink(to, proc.join("ns").join(name)).unwrap();
            }
            let _ = fs::remove_file(proc.join("timens_offsets"));
            if let Some(offsets) = offsets {
                fs::write(proc.join("timens_offsets"), offsets).unwrap();
            }
            ahead_here(proc)
        };
        assert_eq!(ahead_here(proc), Ok([0; 2]), "no time namespaces");
        let offsets = Some("monotonic -3 0\nboottime 1000 0\n");
        assert_eq!(ahead(INITIAL_NAMESPACE, INITIAL_NAMESPACE, offsets), Ok([0; 2]));
        // Its children are to be shifted, and not the process itself.
        assert_eq!(ahead(INITIAL_NAMESPACE, "time:[5]", offsets), Ok([0; 2]));
        assert_eq!(ahead("time:[5]", "time:[5]", offsets), Ok([1_000_000_000_000, -3_000_000_000]));
        assert_eq!(ahead("time:[5]", "time:[6]", offsets), Err(ClockError::OtherNamespace));
        assert_eq!(ahead("time:[5]", "time:[5]", None), Err(ClockError::Offsets));
    }

    #[test]
    fn offsets_are_read_as_the_kernel_writes_them() {
        let text = "monotonic           0         0\nboottime         1000         5\n";
        assert_eq!(offset_of(BOOTTIME, text), Some(1_000_000_000_005));
        assert_eq!(offset_of(MONOTONIC, text), Some(0));
        let text = "monotonic -1 999999999\nboottime -1 999999999\n";
        assert_eq!(offset_of(BOOTTIME, text), Some(-1));
        for text in ["", "monotonic 0 0\n", "boottime\n", "boottime x 0\n", "boottime 1\n"] {
            assert_eq!(offset_of(BOOTTIME, text), None, "{text:?}");
        }
        assert_eq!(offset_of(BOOTTIME, &format!("boottime {} 0", i64::MAX)), None);
    }
}
