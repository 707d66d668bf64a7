//! The witness: the kernel's switches around the rings' records, and what /proc says of their processes.

use crate::error::WitnessError;
use crate::kernel;
use crate::machine::Machine;
use crate::named_ring::NamedRing;
use crate::process::{Process, say};
use crate::seats::{SeatSeen, released, seats};
use crate::tasks::{names, tasks};
use perfring_consumer::{Location, Stat, advanced::MachineClock};
use perfring_figures::process::Processes;
use perfring_kernel::{EventKind, KernelRing, OpenError};
use perfring_producer::Producer;
use perfring_types::PodRecord;
use perfring_why::witness::{FAULTS, Held, KERNEL, Of, Reader, RingWriter, SeatOf, Turn, Watch};
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashMap;
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
/// if let Some(missing) = witness.missing() {
///     eprintln!("{missing}");
/// }
/// let kernel: Vec<_> = witness.opened().collect(); // to be read with the rest
/// let _wait = witness.look([followed]); // from time to time
/// assert!(evidence.read()?.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Witness {
    producer: Producer,
    clock: MachineClock,
    kernel: Kernel,
    /// Rings of the kernel that were not taken yet, with their names.
    opened: Vec<(String, KernelRing)>,
    /// What this user may not observe.
    missing: Option<String>,
    machine: Machine,
    /// Processes that have a seat of a ring, and have that ring open, with what was last said of them.
    processes: HashMap<u32, Process>,
    /// What was last said of each seat.
    seats: HashMap<([u8; 16], u32, u32), SeatSeen>,
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
        let (ring, producer) = NamedRing::create()?;
        let clock = MachineClock::find()?;
        let (kernel, opened, missing) = match kernel::of_machine() {
            Ok(opened) => (Kernel::Machine, opened, None),
            Err(error @ (OpenError::Missing | OpenError::Unknown { .. })) => {
                (Kernel::Nothing, Vec::new(), Some(kernel::without(&error)))
            }
            Err(error) => (Kernel::Processes, Vec::new(), Some(kernel::without(&error))),
        };
        let named = |ring: KernelRing| (format!("{KERNEL}{}", ring.cpu()), ring);
        let now = Instant::now();
        let mut witness = Witness {
            producer,
            machine: Machine::new(clock.now_ns()),
            clock,
            kernel,
            opened: opened.into_iter().map(named).collect(),
            missing,
            processes: HashMap::new(),
            seats: HashMap::new(),
            next_look: now,
            next_seats: now,
            next_repeat: match files {
                Files::One => None,
                Files::Several => now.checked_add(REPEAT),
            },
        };
        witness.look(rings);
        witness.say_machine();
        Ok((witness, ring))
    }

    /// Returns what this user may not observe, and what is evidence nevertheless.
    #[must_use]
    pub fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }

    /// Returns the rings of the kernel that were opened since the last call, with their names: by these names they are evidence.
    pub fn opened(&mut self) -> impl Iterator<Item = (String, KernelRing)> {
        self.opened.drain(..)
    }

    /// Says that the machine is watched, and the names of its tasks: those that began before have no record of theirs.
    fn say_machine(&mut self) {
        if let Kernel::Machine = self.kernel {
            tasks(|comm| self.say(&comm));
            self.say_watch(0, Of::Switches, Turn::Begin);
        }
    }

    /// Forgets what was said, so that it is said again: a later file of a recording has nothing of the earlier ones.
    fn repeat(&mut self) {
        self.seats.clear();
        let mut processes = std::mem::take(&mut self.processes);
        for (pid, process) in &mut processes {
            process.stopped = false;
            self.say_process(*pid, process);
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
            let mut processes = Processes::default();
            for Followed { location, uuid } in rings {
                let look = self.clock.now_ns();
                if let Ok(stat) = Stat::read(&location)
                    && stat.layout.uuid == uuid
                {
                    let seats = seats(&stat, &location, &mut processes);
                    self.see_positions(uuid, look, &stat, &seats);
                    for seat in seats {
                        self.see(uuid, seat);
                    }
                }
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
        let Witness { producer, clock, processes, machine, .. } = self;
        processes.retain(|pid, process| process.look(*pid, clock, producer));
        let changes = machine.look(clock.now_ns());
        changes.steals.iter().for_each(|steal| say(producer, steal));
        changes.suspend.iter().for_each(|suspend| say(producer, suspend));
        changes.clock.iter().for_each(|clock| say(producer, clock));
    }

    /// Says how far consumers are, and for which producer the others wait.
    fn see_positions(&mut self, ring: [u8; 16], look: u64, stat: &Stat, seats: &[SeatSeen]) {
        for seat in seats.iter().filter(|seat| seat.here) {
            let (number, pid) = (seat.number, seat.owner.pid);
            if let (true, Some(held)) = (seat.holds_up, &stat.held_up) {
                let since = u64::try_from(held.since.as_nanos()).unwrap_or(u64::MAX);
                self.say(&Held { ring, number, pid, look, since });
            }
            // This process reads late by its `--delay`.
            let is_other = pid != std::process::id();
            if let (SeatOf::Consumer, true, Some(pos)) =
                (seat.role, is_other, released(stat, number))
            {
                self.say(&Reader { ring, number, pid, pos, look });
            }
        }
    }

    /// Says what has changed of a seat, and begins to watch its holder.
    fn see(&mut self, uuid: [u8; 16], seat: SeatSeen) {
        let pid = seat.owner.pid;
        let key = (uuid, seat.role as u32, seat.number);
        let before = self.seats.get(&key);
        if before == Some(&seat) {
            return;
        }
        let was_here = before.is_some_and(|before| before.here && before.owner == seat.owner);
        if seat.writes_alone && seat.here && !was_here {
            self.say(&RingWriter { ring: uuid, pid });
        }
        if seat.here && !self.processes.contains_key(&pid) {
            self.begin_process(pid);
        }
        self.say(&seat.record(uuid));
        self.seats.insert(key, seat);
    }

    /// Begins to watch a process that has a ring open.
    fn begin_process(&mut self, pid: u32) {
        let looked = self.clock.now_ns();
        let faulty = self.processes.values().filter(|process| process.faults).count();
        // A process of another user has none.
        let switches = matches!(self.kernel, Kernel::Processes)
            && self.watch(pid, vec![EventKind::Switches, EventKind::Tasks], KERNEL);
        let faults = !matches!(self.kernel, Kernel::Nothing)
            && faulty < FAULTY
            && self.watch(pid, vec![EventKind::PageFaults], FAULTS);
        let process = Process::begin(pid, looked, switches, faults);
        self.say_process(pid, &process);
        self.processes.insert(pid, process);
    }

    /// Opens events of a process. Returns whether the kernel allows them.
    fn watch(&mut self, pid: u32, events: Vec<EventKind>, name: &str) -> bool {
        let Some(rings) = kernel::of_process(pid, events) else { return false };
        let name = name.trim_end_matches('-');
        let named = |ring: KernelRing| (format!("{name}-{pid}-{}", ring.cpu()), ring);
        self.opened.extend(rings.into_iter().map(named));
        true
    }

    /// Says which events of a process are recorded, and the names of its threads where no others are known.
    fn say_process(&mut self, pid: u32, process: &Process) {
        if process.switches {
            self.say_watch(pid, Of::Switches, Turn::Begin);
            names(pid, |comm| self.say(&comm));
        }
        if process.faults {
            self.say_watch(pid, Of::Faults, Turn::Begin);
        }
    }

    /// Ends the watch: what is published before this moment is evidence.
    pub fn end(&mut self) {
        match self.kernel {
            Kernel::Machine => self.say_watch(0, Of::Switches, Turn::End),
            Kernel::Processes => {
                let watched = self.processes.iter().filter(|(_, process)| process.switches);
                let pids: Vec<u32> = watched.map(|(pid, _)| *pid).collect();
                pids.into_iter().for_each(|pid| self.say_watch(pid, Of::Switches, Turn::End));
            }
            Kernel::Nothing => {}
        }
    }

    fn say_watch(&mut self, pid: u32, of: Of, turn: Turn) {
        self.say(&Watch { pid, of: of.into(), turn: turn.into() });
    }

    /// Publishes a record. The ring takes any of them: it overwrites its oldest ones.
    fn say<T: PodRecord>(&mut self, record: &T) {
        say(&mut self.producer, record);
    }
}

/// Returns for how long this thread has had a CPU.
fn own_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs().try_into().unwrap_or(0))
}
