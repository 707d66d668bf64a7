//! The birth of a process, which distinguishes it from others with its pid: pids are unique in one pid
//! namespace, and at one time.

use crate::process::has_mapped;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;

/// When a process began, and in which pid namespace: with its pid, unique on one machine until that is rebooted.
///
/// ```
/// use perfring_context::Birth;
/// use std::process::id;
///
/// let file = std::fs::metadata("/proc/self/exe")?;
/// let born = Birth::of_who_maps(id(), &file).unwrap(); // this process has its own program mapped
/// assert_eq!(Some(born.namespace), Birth::namespace_here());
/// assert!(born.started_ns > 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Birth {
    /// The inode of its pid namespace.
    pub namespace: u64,
    /// When it began, `CLOCK_BOOTTIME`, ns. The kernel reports hundredths of a second.
    pub started_ns: u64,
}

/// The kernel's unit of a start time, `USER_HZ`, in ns: the same on all machines that perfring runs on.
const TICK_NS: u64 = 10_000_000;
/// The field of `/proc/PID/stat` with the start time, counted from the one behind the program's name.
const STARTED: usize = 19;

impl Birth {
    /// Returns the birth of the process that has this pid in its own pid namespace, and this file mapped. The process may
    /// be of any namespace below this one, for example in a container.
    ///
    /// `None` if there is no such process, if there are several, or if this process may not see its mappings (`ptrace(2)`).
    #[must_use]
    pub fn of_who_maps(pid: u32, file: &Metadata) -> Option<Self> {
        // The usual process is of this namespace, and found without a search.
        let here = pid.to_string();
        if is_it(&here, pid, file) {
            return Self::read(&here);
        }
        let mut found = None;
        for entry in fs::read_dir("/proc").ok()?.flatten() {
            let name = entry.file_name();
            let Some(process) = name.to_str().filter(|name| name.parse::<u32>().is_ok()) else {
                continue;
            };
            if is_it(process, pid, file) && found.replace(Self::read(process)?).is_some() {
                return None;
            }
        }
        found
    }

    /// Returns the pid namespace of this process.
    #[must_use]
    pub fn namespace_here() -> Option<u64> {
        namespace("self")
    }

    fn read(process: &str) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // The program's name, in parentheses, may have spaces and parentheses itself.
        let (_, fields) = stat.rsplit_once(')')?;
        let started: u64 = fields.split_ascii_whitespace().nth(STARTED)?.parse().ok()?;
        let started_ns = started.saturating_mul(TICK_NS);
        Some(Birth { namespace: namespace(process)?, started_ns })
    }
}

/// Returns whether the process has this pid in its own namespace, and the file mapped.
fn is_it(process: &str, pid: u32, file: &Metadata) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let pids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    // The last pid is the one in its own namespace.
    let own = pids.and_then(|pids| pids.split_ascii_whitespace().last());
    own.is_some_and(|own| own.parse() == Ok(pid)) && has_mapped(process, file).unwrap_or(false)
}

fn namespace(process: &str) -> Option<u64> {
    fs::metadata(format!("/proc/{process}/ns/pid")).ok().map(|meta| meta.ino())
}
