//! What /proc says of the process that holds a seat.

use perfring_consumer::{Location, OwnerInfo};
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// How the holder of a seat is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has the seat.
    Alive,
    /// A signal or a debugger has stopped it: it keeps its seat, and is waited for.
    Stopped,
    /// A signal has ended it, and the kernel writes its memory to a file before it closes anything: until
    /// then it holds its seat as a process does that is alive.
    DumpingCore,
    /// The seat is free.
    Gone,
}

impl State {
    /// Asks about the holder of a seat, which is held or not.
    pub fn of(held: bool, owner: &OwnerInfo, location: &Location) -> Self {
        if !held {
            return State::Gone;
        }
        Self::by(&status(owner.pid), owner, location)
    }

    fn by(status: &str, owner: &OwnerInfo, location: &Location) -> Self {
        let state = match () {
            () if dumps_core(status) => State::DumpingCore,
            () if is_stopped(status) => State::Stopped,
            () => State::Alive,
        };
        // The cheaper question came first.
        if state == State::Alive || has_open(owner.pid, location) { state } else { State::Alive }
    }

    /// Returns the word for it; that for [`State::Gone`] depends on the seat.
    pub fn word(self, gone: &'static str) -> &'static str {
        match self {
            State::Alive => "alive",
            State::Stopped => "stopped",
            State::DumpingCore => "dumping core",
            State::Gone => gone,
        }
    }
}

/// What /proc says of processes at one moment: each is asked about once.
#[derive(Debug, Default)]
pub struct Processes(HashMap<u32, String>);

impl Processes {
    fn status(&mut self, pid: u32) -> &str {
        self.0.entry(pid).or_insert_with(|| status(pid))
    }

    /// Asks about the holder of a seat, as [`State::of`] does.
    pub fn state(&mut self, held: bool, owner: &OwnerInfo, location: &Location) -> State {
        if held { State::by(self.status(owner.pid), owner, location) } else { State::Gone }
    }

    /// Returns whether there is such a process, as seen from this one.
    pub fn is_there(&mut self, pid: u32) -> bool {
        // One that has ended and is not waited for has a status, too.
        let status = self.status(pid);
        !status.is_empty() && !value(status, "State:").is_some_and(|state| state.starts_with('Z'))
    }
}

fn status(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default()
}

/// What is done about [`State::DumpingCore`].
pub const WHILE_DUMPING: &str = "it keeps its seat, and what it has locked or reserved, until the core is \
     written: that takes less time with a core_pattern that pipes to a fast program, or a smaller `ulimit -c` \
     (0: no core)";

/// Whether a `/proc/PID/status` says so: Linux 4.15 and later.
fn dumps_core(status: &str) -> bool {
    value(status, "CoreDumping:") == Some("1")
}

/// Whether a `/proc/PID/status` says so: by a signal (`T`), or by a debugger (`t`).
fn is_stopped(status: &str) -> bool {
    value(status, "State:").is_some_and(|state| state.starts_with(['T', 't']))
}

fn value<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// Returns whether a process is visible and has this very ring open: a pid of another namespace, or a
/// reused one, is no evidence.
pub fn has_open(pid: u32, location: &Location) -> bool {
    let Ok(ring) = fs::metadata(location.path()) else { return false };
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    descriptors.into_iter().any(|descriptor| {
        fs::metadata(descriptor.path())
            .is_ok_and(|file| (file.dev(), file.ino()) == (ring.dev(), ring.ino()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_dumps_core_is_recognized_by_its_status() {
        let status = |value: &str| {
            format!(
                "Name:\tshop\nUmask:\t0022\nState:\tD (disk sleep)\nCoreDumping:\t{value}\nTHP_enabled:\t1\n"
            )
        };
        assert!(dumps_core(&status("1")));
        assert!(!dumps_core(&status("0")));
        assert!(!dumps_core("Name:\tCoreDumping: 1\nState:\tR (running)\n"), "a name says nothing");
        let stops = |state: &str| is_stopped(&format!("Name:\tState: T\nState:\t{state}\n"));
        assert!(stops("T (stopped)") && stops("t (tracing stop)") && !stops("S (sleeping)"));
        let own = fs::read_to_string("/proc/self/status").unwrap();
        assert!(
            own.contains("\nCoreDumping:\t0\n") && !dumps_core(&own),
            "the kernel has the line"
        );
    }

    #[test]
    fn a_pid_is_evidence_only_if_the_process_has_the_ring_open() {
        let ring = tempfile::NamedTempFile::new().unwrap();
        let (here, other) = (Location::from(ring.path()), Location::from("/proc/self/exe"));
        let me = std::process::id();
        assert!(has_open(me, &here));
        assert!(!has_open(me, &other));
        let owner = OwnerInfo { pid: me, ..OwnerInfo::default() };
        let of = |held| State::of(held, &owner, &here);
        assert_eq!((of(true), of(false)), (State::Alive, State::Gone));
        assert_eq!(
            [of(true), State::Stopped, State::DumpingCore, of(false)]
                .map(|state| state.word("dead")),
            ["alive", "stopped", "dumping core", "dead"]
        );
    }
}
