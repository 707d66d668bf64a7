//! The witness of a recording: the kernel's switches around the rings' records, and what /proc says of their processes.
//!
//! What it sees of processes is published into a further ring, whose file has no name, and is recorded with the others.

use super::live::Live;
use super::seats::{SeatSeen, seats};
use super::tasks::{names, run_delays, tasks, threads};
use crate::failure::{Failure, note};
use perfring_consumer::{Location, Stat, advanced::MachineClock};
use perfring_figures::cgroup::CpuStat;
use perfring_figures::process::{Processes, stopped};
use perfring_kernel::{EventKind, OpenError, Options, Target, open};
use perfring_producer::{Options as RingOptions, Policy, Producer};
use perfring_types::PodRecord;
use perfring_why::witness::{
    Delay, FAULTS, NAME, Of, RingWriter, Stop, Throttle, Turn, Watch, schemas,
};
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often processes are looked at, at most. A look takes no more than a twentieth of this thread's time.
const LOOK: Duration = Duration::from_millis(20);
/// How often the seats of rings are looked at, likewise.
const SEATS: Duration = Duration::from_millis(100);
/// How often all that holds is said again, where that is needed.
const REPEAT: Duration = Duration::from_secs(5);
/// Bytes of the witness's ring.
const SIZE: u64 = 4 << 20;
/// Bytes of the kernel's rings for switches, if this user may have so much.
const KERNEL_SIZE: u64 = 4 << 20;
/// Bytes of the kernel's rings for a process, where the user may not have more.
const SMALL: u64 = 64 << 10;
/// The limit of processes whose page faults are recorded, and of descriptors for those of one.
const FAULTY: usize = 16;
const DESCRIPTORS: usize = 1024;

pub(crate) struct Witness {
    producer: Producer,
    clock: MachineClock,
    kernel: Kernel,
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
pub(crate) enum Files {
    /// One file.
    One,
    /// Several, of which the first ones may be removed.
    Several,
}

/// Whose switches are recorded.
enum Kernel {
    /// All threads' of the machine.
    Machine,
    /// Those of processes that this user may observe.
    Processes,
    /// None.
    Nothing,
}

struct Process {
    /// Whether its switches are recorded for itself, and its page faults.
    switches: bool,
    faults: bool,
    stopped: bool,
    /// When it was looked at last, ns of the timestamps' clock.
    looked: u64,
    cpu_stat: Option<CpuStat>,
    throttled: Option<u64>,
    /// For how long each thread has waited for a CPU so far, ns.
    delays: HashMap<u32, u64>,
}

impl Witness {
    /// Creates the ring, and opens the kernel's. Says what this user may not observe.
    pub(crate) fn begin(live: &mut Live, files: Files) -> Result<Self, Failure> {
        // Named only until it is attached.
        let memory = Path::new("/dev/shm");
        let home = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let dir = tempfile::Builder::new().prefix("perfring-why-").tempdir_in(&home);
        let dir = dir.map_err(|error| {
            Failure::General(format!(
                "cannot create the witness's ring in {}: {error}",
                home.display()
            ))
        })?;
        let location = Location::from(dir.path().join(NAME));
        let options = RingOptions {
            size: SIZE,
            time: true,
            policy: Policy::Overwrite,
            ..RingOptions::default()
        };
        let mut producer = Producer::create(&location, &options).map_err(Failure::general)?;
        for schema in schemas() {
            producer.register(&schema).map_err(Failure::general)?;
        }
        live.add_witness(&location, NAME)?;
        let now = Instant::now();
        let mut witness = Witness {
            producer,
            clock: MachineClock::find().map_err(Failure::general)?,
            kernel: Kernel::Nothing,
            processes: HashMap::new(),
            seats: HashMap::new(),
            next_look: now,
            next_seats: now,
            next_repeat: match files {
                Files::One => None,
                Files::Several => now.checked_add(REPEAT),
            },
        };
        witness.watch_machine(live);
        witness.look(live);
        witness.say_machine();
        Ok(witness)
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

    fn watch_machine(&mut self, live: &mut Live) {
        let events = vec![EventKind::Switches, EventKind::Tasks];
        let large = Options { events, data_size: Some(KERNEL_SIZE), ..Options::of(Target::System) };
        let opened = match open(&large) {
            Err(OpenError::Memory { .. }) => open(&Options { data_size: None, ..large }),
            opened => opened,
        };
        match opened {
            Ok(rings) => {
                for ring in rings {
                    let name = format!("kernel-{}", ring.cpu());
                    live.add_source(name.clone(), &name, Box::new(ring), true);
                }
                self.kernel = Kernel::Machine;
            }
            Err(error) => {
                self.kernel = match error {
                    OpenError::Missing | OpenError::Unknown { .. } => Kernel::Nothing,
                    _ => Kernel::Processes,
                };
                note(&without(&error));
            }
        }
    }

    /// Looks at the processes of the rings, if it is time. Returns how long the next look may wait.
    pub(crate) fn look(&mut self, live: &mut Live) -> Duration {
        let (now, begun) = (Instant::now(), own_time());
        if self.next_repeat.is_some_and(|next| now >= next) {
            self.next_repeat = now.checked_add(REPEAT);
            self.next_seats = now;
            self.repeat();
        }
        if now >= self.next_seats {
            let rings: Vec<_> =
                live.followed().map(|(location, uuid)| (location.clone(), *uuid)).collect();
            let mut processes = Processes::default();
            for (location, uuid) in rings {
                if let Ok(stat) = Stat::read(&location)
                    && stat.layout.uuid == uuid
                {
                    for seat in seats(&stat, &location, &mut processes) {
                        self.see(live, uuid, seat);
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
        let mut said: Vec<Said> = Vec::new();
        let clock = &self.clock;
        self.processes.retain(|pid, process| {
            // Read before the look, and so not later than what the look finds.
            let now = clock.now_ns();
            let found = stopped(*pid);
            // A process that is gone is not stopped any more.
            let is_stopped = found == Some(true);
            let before = std::mem::replace(&mut process.looked, now);
            if is_stopped || process.stopped {
                process.stopped = is_stopped;
                let turn = if is_stopped { Turn::Begin } else { Turn::End };
                said.push(Said::Stop(Stop { pid: *pid, turn: turn.into(), before, look: now }));
            }
            if let Some(stat) = &process.cpu_stat
                && let Some(total) = stat.throttled_ns()
            {
                // What it had been throttled for before the first look is not known.
                let known = process.throttled.replace(total).unwrap_or(total);
                let (pid, version, added) = (*pid, stat.version, total.saturating_sub(known));
                if added > 0 {
                    said.push(Said::Throttle(Throttle { pid, version, before, added }));
                }
            }
            for (tid, total) in run_delays(*pid) {
                // What it had waited before the first look is not known.
                let known = process.delays.insert(tid, total).unwrap_or(total);
                let added = total.saturating_sub(known);
                if added > 0 {
                    said.push(Said::Delay(Delay { pid: *pid, tid, before, added }));
                }
            }
            found.is_some()
        });
        for what in said {
            match what {
                Said::Stop(stop) => self.say(&stop),
                Said::Throttle(throttle) => self.say(&throttle),
                Said::Delay(delay) => self.say(&delay),
            }
        }
    }

    /// Says what has changed of a seat, and begins to watch its holder.
    fn see(&mut self, live: &mut Live, uuid: [u8; 16], seat: SeatSeen) {
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
            self.begin_process(live, pid);
        }
        self.say(&seat.record(uuid));
        self.seats.insert(key, seat);
    }

    /// Begins to watch a process that has a ring open.
    fn begin_process(&mut self, live: &mut Live, pid: u32) {
        let cpu_stat = CpuStat::of(pid);
        let looked = self.clock.now_ns();
        let faulty = self.processes.values().filter(|process| process.faults).count();
        // A process of another user has none.
        let switches = matches!(self.kernel, Kernel::Processes)
            && watch_process(live, pid, vec![EventKind::Switches, EventKind::Tasks], "kernel");
        let faults = !matches!(self.kernel, Kernel::Nothing)
            && faulty < FAULTY
            && watch_process(live, pid, vec![EventKind::PageFaults], FAULTS);
        let throttled = cpu_stat.as_ref().and_then(CpuStat::throttled_ns);
        let (stopped, delays) = (false, run_delays(pid).collect());
        let process = Process { switches, faults, stopped, looked, cpu_stat, throttled, delays };
        self.say_process(pid, &process);
        self.processes.insert(pid, process);
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
    pub(crate) fn end(&mut self) {
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
        let _ = self.producer.publish_pod(record);
    }
}

/// Opens events of a process, unless that takes too many descriptors. Returns whether the kernel allows them.
fn watch_process(live: &mut Live, pid: u32, events: Vec<EventKind>, name: &str) -> bool {
    let threads = threads(pid);
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if threads.saturating_mul(cpus) > DESCRIPTORS {
        return false;
    }
    let large = Options { events, ..Options::of(Target::Process(pid)) };
    let opened = match open(&large) {
        Err(OpenError::Memory { .. }) => open(&Options { data_size: Some(SMALL), ..large }),
        opened => opened,
    };
    let Ok(rings) = opened else { return false };
    for ring in rings {
        let name = format!("{name}-{pid}-{}", ring.cpu());
        live.add_source(name.clone(), &name, Box::new(ring), true);
    }
    true
}

/// Returns for how long this thread has had a CPU.
fn own_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs().try_into().unwrap_or(0))
}

enum Said {
    Stop(Stop),
    Throttle(Throttle),
    Delay(Delay),
}

/// Says what a recording has nevertheless.
fn without(error: &OpenError) -> String {
    let rest = match error {
        OpenError::Missing | OpenError::Unknown { .. } => {
            "without that, the recording has the holders of seats, stops by a signal, run delays, and throttling by a cgroup"
        }
        _ => {
            "without that, the recording has the holders of seats, stops by a signal, throttling by a cgroup and, where \
             the kernel allows that, the switches of this user's processes, but not which task came instead"
        }
    };
    format!("--why: {error}; {rest}")
}
