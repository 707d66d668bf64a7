//! The witness: the kernel's switches around the rings' records, and what /proc says of their processes.

use crate::error::WitnessError;
use crate::history::{Entry, History};
use crate::kernel::{Kept, Rings, without};
use crate::machine::Machine;
use crate::named_ring::NamedRing;
use crate::process::Process;
use crate::seats::{SeatSeen, released, seats};
use crate::tasks::{names, tasks};
use crate::voice::Voice;
use perfring_consumer::{Location, Snapshot, advanced::MachineClock, stat::Stat};
use perfring_figures::process::Processes;
use perfring_kernel::{KernelRing, OpenError, Stopper};
use perfring_why::witness::{Held, Of, Reader, RingWriter, SeatOf, Turn, Watch};
use rustix::time::{ClockId, clock_gettime};
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// How often processes are looked at, at most. A look takes no more than a twentieth of this thread's time.
const LOOK: Duration = Duration::from_millis(20);
/// How often the seats of rings are looked at, likewise.
const SEATS: Duration = Duration::from_millis(100);
/// How often all that holds is said again, where that is needed.
const REPEAT: Duration = Duration::from_secs(5);
/// The limit of processes whose page faults are recorded.
const FAULTY: usize = 16;

/// A ring whose processes are looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    /// Where it is.
    pub location: Location,
    /// Its id: another ring may have taken its place.
    pub uuid: [u8; 16],
}

/// Opens the kernel's rings, looks at processes, and publishes what it sees of them into a ring of its own.
///
/// ```
/// use perfring_consumer::{Location, Observer, Start};
/// use perfring_witness::{Files, Followed, Witness};
/// # use perfring_producer::{Options, Producer};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("orders");
/// # let orders = Producer::create(&path, &Options::default())?;
/// let followed = Followed { location: Location::from(&*path), uuid: orders.layout().uuid };
/// let (mut witness, ring) = Witness::begin(Files::One, [followed.clone()])?;
/// let mut evidence = Observer::attach(ring.location(), Start::Oldest)?;
/// drop(ring); // the ring has no name from now on
/// for missing in witness.missing() {
///     eprintln!("{missing}");
/// }
/// let kernel: Vec<_> = witness.opened().collect(); // to be read with the rest
/// let _wait = witness.look([followed]); // from time to time
/// assert!(evidence.read()?.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Witness {
    voice: Voice,
    clock: MachineClock,
    kernel: Kernel,
    rings: Rings,
    /// What this user may not observe, by the kernel's answers when its rings were opened.
    missing: Option<String>,
    /// A process whose open files this user may not see.
    unseen: Option<u32>,
    machine: Machine,
    /// Processes that have a seat of a ring, and have that ring open, with what was last said of them.
    processes: HashMap<u32, Process>,
    /// What was said of each seat.
    seats: HashMap<([u8; 16], u32, u32), History>,
    next_look: Instant,
    next_seats: Instant,
    /// When all that still holds is said again, if it is: for a recording of several files.
    next_repeat: Option<Instant>,
}

/// What a recording consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Files {
    /// One file.
    One,
    /// Several, of which the first ones may be removed.
    Several,
    /// Snapshots of the last moments: see [`Recent`](crate::Recent).
    Snapshots,
}

/// Whose switches are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kernel {
    /// All threads' of the machine.
    Machine,
    /// Those of processes that this user may observe.
    Processes,
    /// None.
    Nothing,
}

impl Witness {
    /// Creates the witness's ring, opens the kernel's, and looks at these rings for the first time. The ring loses its name when
    /// the [`NamedRing`] is dropped: attach a reader before that.
    ///
    /// # Errors
    /// [`WitnessError`]. A missing permission is none: see [`Witness::missing`].
    pub fn begin(
        files: Files,
        rings: impl IntoIterator<Item = Followed>,
    ) -> Result<(Self, NamedRing), WitnessError> {
        let (voice, ring) = Voice::new()?;
        let clock = MachineClock::find()?;
        let mut rings_of_kernel = match files {
            Files::One | Files::Several => Rings::Read(Vec::new()),
            Files::Snapshots => Rings::Kept(Vec::new()),
        };
        let opened = rings_of_kernel.open((Of::Switches, 0), || clock.now_ns());
        let kernel = match &opened {
            Ok(_) => Kernel::Machine,
            Err(OpenError::Missing | OpenError::Unknown { .. } | OpenError::Overwrite) => {
                Kernel::Nothing
            }
            Err(_) => Kernel::Processes,
        };
        let missing = match opened {
            Ok(opened) => opened.smaller,
            Err(error) => Some(without(&error)),
        };
        let now = Instant::now();
        let mut witness = Witness {
            voice,
            machine: Machine::new(clock.now_ns()),
            clock,
            kernel,
            rings: rings_of_kernel,
            missing,
            unseen: None,
            processes: HashMap::new(),
            seats: HashMap::new(),
            next_look: now,
            next_seats: now,
            next_repeat: match files {
                Files::One | Files::Snapshots => None,
                Files::Several => now.checked_add(REPEAT),
            },
        };
        witness.look(rings);
        witness.say_machine();
        Ok((witness, ring))
    }

    /// Returns what this user may not observe, and what is evidence nevertheless: a sentence for each permission, as far as a look
    /// has found that it is missing.
    pub fn missing(&self) -> impl Iterator<Item = String> {
        let unseen = self.unseen.map(|pid| {
            format!(
                "this user may not see the open files of process {pid}: this needs the same user, or CAP_SYS_PTRACE; without \
                 that, the recording has no stops, run delays, throttling, system calls and page faults of such processes"
            )
        });
        self.missing.clone().into_iter().chain(unseen)
    }

    /// Returns the rings of the kernel that were opened since the last call, with their names: by these names they are evidence.
    pub fn opened(&mut self) -> impl Iterator<Item = (String, KernelRing)> {
        let rings = match &mut self.rings {
            Rings::Read(rings) => std::mem::take(rings),
            Rings::Kept(_) => Vec::new(),
        };
        rings.into_iter()
    }

    /// Says that the machine is watched, and the names of its tasks: those that began before have no record of theirs.
    fn say_machine(&self) {
        if self.kernel == Kernel::Machine && self.says_watches() {
            tasks(|comm| self.voice.say(&comm));
            self.say_watch(0, Of::Switches, Turn::Begin);
        }
    }

    /// Returns whether it is said at once what is watched, as the events are read: a snapshot says it for the time of which it
    /// has them.
    fn says_watches(&self) -> bool {
        matches!(self.rings, Rings::Read(_))
    }

    /// Forgets what was said, so that it is said again: a later file of a recording has nothing of the earlier ones.
    fn repeat(&mut self) {
        self.seats.clear();
        let mut processes = std::mem::take(&mut self.processes);
        for (pid, process) in &mut processes {
            process.stopped = false;
            self.say_process(*pid, process, Turn::Begin);
        }
        self.processes = processes;
        self.say_machine();
    }

    /// Looks at the processes of the rings, if it is time. Returns how long the next look may wait.
    pub fn look(&mut self, rings: impl IntoIterator<Item = Followed>) -> Duration {
        let (now, begun) = (Instant::now(), own_time());
        if self.next_repeat.is_some_and(|next| now >= next) {
            self.next_repeat = now.checked_add(REPEAT);
            self.next_seats = now;
            self.repeat();
        }
        if now >= self.next_seats {
            let (mut processes, mut known) = (Processes::default(), HashSet::new());
            for Followed { location, uuid } in rings {
                known.insert(uuid);
                let look = self.clock.now_ns();
                if let Ok(stat) = Stat::read(&location)
                    && stat.layout.uuid == uuid
                {
                    let seats = seats(&stat, &location, &mut processes);
                    self.see_positions(uuid, look, &stat, &seats);
                    self.see(uuid, seats);
                }
            }
            self.seats.retain(|(ring, _, _), _| known.contains(ring));
            self.watch_holders();
            let unseen: Vec<u32> = processes.unseen().collect();
            // The sentence names one process while that process is there.
            if self.unseen.is_none_or(|pid| !unseen.contains(&pid)) {
                self.unseen = unseen.into_iter().min();
            }
            let wait = SEATS.max(own_time().saturating_sub(begun).saturating_mul(20));
            self.next_seats = now.checked_add(wait).unwrap_or(now);
        }
        if now >= self.next_look {
            let begun = own_time();
            self.look_at_processes();
            let wait = LOOK.max(own_time().saturating_sub(begun).saturating_mul(20));
            self.next_look = now.checked_add(wait).unwrap_or(now);
        }
        self.next_look.saturating_duration_since(Instant::now())
    }

    fn look_at_processes(&mut self) {
        let Witness { voice, clock, processes, machine, .. } = self;
        processes.retain(|pid, process| process.look(*pid, clock, voice));
        let changes = machine.look(clock.now_ns());
        changes.steals.iter().for_each(|steal| voice.say(steal));
        changes.suspend.iter().for_each(|suspend| voice.say(suspend));
        changes.clock.iter().for_each(|clock| voice.say(clock));
    }

    /// Says how far consumers are, and for which producer the others wait.
    fn see_positions(&self, ring: [u8; 16], look: u64, stat: &Stat, seats: &[SeatSeen]) {
        for seat in seats.iter().filter(|seat| seat.here) {
            let (number, pid) = (seat.number, seat.owner.pid);
            if let (true, Some(held)) = (seat.holds_up, &stat.held_up) {
                let since = u64::try_from(held.since.as_nanos()).unwrap_or(u64::MAX);
                self.voice.say(&Held { ring, number, pid, look, since });
            }
            // This process reads late by its `--delay`.
            let is_other = pid != std::process::id();
            if let (SeatOf::Consumer, true, Some(pos)) =
                (seat.role, is_other, released(stat, number))
            {
                self.voice.say(&Reader { ring, number, pid, pos, look });
            }
        }
    }

    /// Says what has changed of a ring's seats. The records of one look have one time: a reader sees which seats were found together.
    fn see(&mut self, ring: [u8; 16], seats: Vec<SeatSeen>) {
        let since = self.clock.now_ns();
        for seat in seats {
            let history = self.seats.entry((ring, seat.role as u32, seat.number)).or_default();
            let before = history.newest();
            if before.is_some_and(|before| before.seat == seat) {
                continue;
            }
            let same = before.filter(|before| before.seat.here && before.seat.owner == seat.owner);
            let mut writes = same.is_some_and(|before| before.writes);
            if seat.writes_alone && seat.here && same.is_none() {
                self.voice.say_at(since, &RingWriter { ring, pid: seat.owner.pid });
                writes = true;
            }
            self.voice.say_at(since, &seat.record(ring));
            let published = self.voice.published();
            // A recording has all that was said.
            if !matches!(self.rings, Rings::Kept(_)) {
                *history = History::default();
            }
            history.add(Entry { seat, since, writes, published });
        }
    }

    /// Begins to watch the processes that now have a seat, and ends that of those without one.
    fn watch_holders(&mut self) {
        let seats = self.seats.values().filter_map(History::newest).map(|newest| &newest.seat);
        let holders: HashSet<u32> =
            seats.filter(|seat| seat.here).map(|seat| seat.owner.pid).collect();
        for pid in &holders {
            if !self.processes.contains_key(pid) {
                self.begin_process(*pid);
            }
        }
        // A process that is stopped is looked at until it continues.
        let is_left =
            |(pid, process): &(&u32, &Process)| !holders.contains(pid) && !process.stopped;
        let left: Vec<u32> = self.processes.iter().filter(is_left).map(|(pid, _)| *pid).collect();
        for pid in left {
            let Some(process) = self.processes.remove(&pid) else { continue };
            process.stop();
            self.say_process(pid, &process, Turn::End);
        }
    }

    /// Begins to watch a process that has a ring open.
    fn begin_process(&mut self, pid: u32) {
        let looked = self.clock.now_ns();
        let faulty = self.processes.values().filter(|process| process.faults.is_some()).count();
        // A process of another user has none.
        let switches =
            matches!(self.kernel, Kernel::Processes).then(|| self.watch(pid, Of::Switches));
        let faults = (!matches!(self.kernel, Kernel::Nothing) && faulty < FAULTY)
            .then(|| self.watch(pid, Of::Faults));
        let process = Process::begin(pid, looked, switches.flatten(), faults.flatten());
        self.say_process(pid, &process, Turn::Begin);
        self.processes.insert(pid, process);
    }

    /// Opens events of a process, if the kernel allows that.
    fn watch(&mut self, pid: u32, of: Of) -> Option<Vec<Stopper>> {
        let Witness { rings, clock, .. } = self;
        rings.open((of, pid), || clock.now_ns()).ok().map(|opened| opened.stoppers)
    }

    /// Says which events of a process are recorded from now on or no more, and the names of its threads where no others are
    /// known.
    fn say_process(&self, pid: u32, process: &Process, turn: Turn) {
        if !self.says_watches() {
            return;
        }
        if process.switches.is_some() {
            self.say_watch(pid, Of::Switches, turn);
            if turn == Turn::Begin {
                names(pid, |comm| self.voice.say(&comm));
            }
        }
        if process.faults.is_some() {
            self.say_watch(pid, Of::Faults, turn);
        }
    }

    /// Makes everything due for the next look.
    pub(crate) fn hurry(&mut self) {
        let now = Instant::now();
        (self.next_look, self.next_seats) = (now, now);
    }

    /// Returns the rings in which the kernel keeps its newest events.
    pub(crate) fn kept(&mut self) -> Option<&mut Vec<Kept>> {
        match &mut self.rings {
            Rings::Kept(rings) => Some(rings),
            Rings::Read(_) => None,
        }
    }

    /// Returns what held already at a time, in a separate ring: seats, writers and names; and when which events are there, up to
    /// `until`.
    pub(crate) fn standing(
        &self,
        from: u64,
        until: u64,
        watches: &[(Of, u32, u64)],
    ) -> Result<Snapshot, WitnessError> {
        let (standing, ring) = Voice::new()?;
        for ((uuid, _, _), history) in &self.seats {
            let Some(Entry { seat, writes, .. }) = history.at(from) else { continue };
            if *writes {
                standing.say_at(from, &RingWriter { ring: *uuid, pid: seat.owner.pid });
            }
            standing.say_at(from, &seat.record(*uuid));
        }
        match self.kernel {
            Kernel::Machine => tasks(|comm| standing.say_at(from, &comm)),
            _ => self
                .processes
                .keys()
                .for_each(|pid| names(*pid, |comm| standing.say_at(from, &comm))),
        }
        let mut watches = watches.to_vec();
        watches.sort_by_key(|(_, _, begun)| *begun);
        for (of, pid, begun) in &watches {
            let turn = Turn::Begin.into();
            standing.say_at(*begun, &Watch { pid: *pid, of: (*of).into(), turn });
        }
        for (of, pid, _) in watches.iter().filter(|(of, _, _)| *of == Of::Switches) {
            let turn = Turn::End.into();
            standing.say_at(until, &Watch { pid: *pid, of: (*of).into(), turn });
        }
        Ok(Snapshot::take(ring.location())?)
    }

    /// Ends the watch: what is published before this moment is evidence.
    pub fn end(&self) {
        match self.kernel {
            Kernel::Machine => self.say_watch(0, Of::Switches, Turn::End),
            Kernel::Processes => {
                let watched =
                    self.processes.iter().filter(|(_, process)| process.switches.is_some());
                watched.for_each(|(pid, _)| self.say_watch(*pid, Of::Switches, Turn::End));
            }
            Kernel::Nothing => {}
        }
    }

    fn say_watch(&self, pid: u32, of: Of, turn: Turn) {
        self.voice.say(&Watch { pid, of: of.into(), turn: turn.into() });
    }
}

/// Returns for how long this thread has had a CPU.
fn own_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs().try_into().unwrap_or(0))
}

#[cfg(test)]
#[path = "witness_tests.rs"]
mod tests;
