//! What /proc says of the process that holds a seat.

use perfring_consumer::{
    Location,
    stat::{OwnerInfo, SeatState},
};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

/// How the holder of a seat is: what the ring and /proc say together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Neither of those below: the state that the ring says.
    Seat(SeatState),
    /// It is alive, and a signal or a debugger has stopped it: it keeps its seat, and is waited for.
    Stopped,
    /// A signal has ended it, and the kernel writes its memory to a file before it closes anything: until
    /// then it holds its seat as a process does that is alive.
    DumpingCore,
}

impl State {
    /// Asks about the holder of a seat, of which the ring says this.
    pub fn of(seat: SeatState, owner: &OwnerInfo, location: &Location) -> Self {
        Processes::default().state(seat, owner, location)
    }

    /// Returns the word for it.
    pub fn word(self) -> &'static str {
        match self {
            State::Seat(seat) => seat.word(),
            State::Stopped => "stopped",
            State::DumpingCore => "dumping core",
        }
    }
}

/// What /proc says of processes at one moment: each is asked about once, however many rings it has open.
#[derive(Debug, Default)]
pub struct Processes {
    statuses: HashMap<u32, String>,
    /// Devices and inodes of the files that they have open; `None` if this user may not see them.
    open: HashMap<u32, Option<HashSet<(u64, u64)>>>,
}

impl Processes {
    fn status(&mut self, pid: u32) -> &str {
        self.statuses.entry(pid).or_insert_with(|| status(pid))
    }

    /// Asks about the holder of a seat, as [`State::of`] does.
    pub fn state(&mut self, seat: SeatState, owner: &OwnerInfo, location: &Location) -> State {
        if seat != SeatState::Alive {
            return State::Seat(seat);
        }
        let status = self.status(owner.pid);
        let state = match () {
            () if dumps_core(status) => State::DumpingCore,
            () if is_stopped(status) => State::Stopped,
            () => return State::Seat(seat),
        };
        // The cheaper question came first.
        if self.has_open(owner.pid, location) { state } else { State::Seat(seat) }
    }

    /// Returns whether a process is visible and has this very ring open: a pid of another namespace, or a reused one, is
    /// no evidence.
    pub fn has_open(&mut self, pid: u32, location: &Location) -> bool {
        let Ok(ring) = fs::metadata(location.path()) else { return false };
        let open = self.open.entry(pid).or_insert_with(|| open_files(pid));
        open.as_ref().is_some_and(|open| open.contains(&(ring.dev(), ring.ino())))
    }

    /// Returns the processes whose open files were asked for, and are hidden from this user.
    pub fn unseen(&self) -> impl Iterator<Item = u32> {
        self.open.iter().filter(|(_, open)| open.is_none()).map(|(pid, _)| *pid)
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

/// Returns the devices and inodes of the files that a process has open; `None` if this user may not see them.
fn open_files(pid: u32) -> Option<HashSet<(u64, u64)>> {
    let descriptors = match fs::read_dir(format!("/proc/{pid}/fd")) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return None,
        descriptors => descriptors.into_iter().flatten().flatten(),
    };
    let files = descriptors.filter_map(|descriptor| fs::metadata(descriptor.path()).ok());
    Some(files.map(|file| (file.dev(), file.ino())).collect())
}

/// What `/proc/PID/stat` says of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// The start of the process, in ticks since the boot. Another process that gets the number has another start.
    pub began: u64,
    /// A signal or a debugger has stopped it.
    pub is_stopped: bool,
}

impl Life {
    /// Asks about a process. `None` if it is not visible.
    pub fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The program's name, in parentheses, may have spaces and parentheses itself.
        let (_, fields) = stat.rsplit_once(')')?;
        let mut fields = fields.split_ascii_whitespace();
        let is_stopped = fields.next()?.starts_with(['T', 't']);
        // The 22nd field; the state is the third.
        Some(Life { began: fields.nth(18)?.parse().ok()?, is_stopped })
    }
}

/// Asks once, as [`Processes::has_open`] does.
pub fn has_open(pid: u32, location: &Location) -> bool {
    Processes::default().has_open(pid, location)
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
        let own = Life::of(std::process::id()).unwrap();
        assert!(own.began > 0 && !own.is_stopped);
        assert_eq!((Life::of(std::process::id()), Life::of(0)), (Some(own), None));
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
        let of = |seat| State::of(seat, &owner, &here);
        let states =
            [of(SeatState::Alive), State::Stopped, State::DumpingCore, of(SeatState::Dead)];
        assert_eq!(states.map(State::word), ["alive", "stopped", "dumping core", "dead"]);
    }
}
