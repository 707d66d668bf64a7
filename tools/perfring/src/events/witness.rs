//! The witness of a recording: the kernel's switches around the rings' records, and what /proc says of their processes.
//!
//! What it sees of processes is published into a further ring, whose file has no name, and is recorded with the others.

use super::calls::call_of;
use super::live::Live;
use super::machine::Machine;
use super::seats::{SeatSeen, released, seats};
use super::tasks::{Scheduled, names, scheduled, tasks, threads};
use crate::failure::{Failure, note};
use perfring_consumer::{Location, advanced::MachineClock, stat::Stat};
use perfring_figures::cgroup::{CpuStat, MemoryStat};
use perfring_figures::process::{Processes, stopped};
use perfring_kernel::{EventKind, OpenError, Options, Target, open};
use perfring_producer::{Options as RingOptions, Policy, Producer};
use perfring_types::PodRecord;
use perfring_why::witness::{
    Call, Delay, FAULTS, Held, Memory, NAME, Of, Reader, RingWriter, SeatOf, Stop, Throttle, Turn,
    Watch, schemas,
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
    memory: Option<MemoryStat>,
    /// How often its cgroup went over `memory.high`, and for how long it waited for memory, ns.
    stalled: Option<(u64, u64)>,
    threads: HashMap<u32, Seen>,
}

/// A thread as the last look found it.
struct Seen {
    scheduled: Scheduled,
    /// It was found in a system call since it got a CPU last.
    in_call: bool,
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
        let clock = MachineClock::find().map_err(Failure::general)?;
        let mut witness = Witness {
            producer,
            machine: Machine::new(clock.now_ns()),
            clock,
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
                let look = self.clock.now_ns();
                if let Ok(stat) = Stat::read(&location)
                    && stat.layout.uuid == uuid
                {
                    let seats = seats(&stat, &location, &mut processes);
                    self.see_positions(uuid, look, &stat, &seats);
                    for seat in seats {
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
        let memory = MemoryStat::of(pid);
        let stalled = memory.as_ref().and_then(|memory| memory.high().zip(memory.stalled_ns()));
        let seen = |scheduled: Scheduled| (scheduled.tid, Seen { scheduled, in_call: false });
        let process = Process {
            switches,
            faults,
            stopped: false,
            looked,
            cpu_stat,
            throttled,
            memory,
            stalled,
            threads: scheduled(pid).map(seen).collect(),
        };
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
        say(&mut self.producer, record);
    }
}

fn say<T: PodRecord>(producer: &mut Producer, record: &T) {
    let _ = producer.publish_pod(record);
}

impl Process {
    /// Looks at it, and says what has changed. Returns whether it still exists.
    fn look(&mut self, pid: u32, clock: &MachineClock, producer: &mut Producer) -> bool {
        // Read before the look, and so not later than what the look finds.
        let now = clock.now_ns();
        let found = stopped(pid);
        // A process that is gone is not stopped any more.
        let is_stopped = found == Some(true);
        let before = std::mem::replace(&mut self.looked, now);
        if is_stopped || self.stopped {
            self.stopped = is_stopped;
            let turn = if is_stopped { Turn::Begin } else { Turn::End };
            say(producer, &Stop { pid, turn: turn.into(), before, look: now });
        }
        if let Some(stat) = &self.cpu_stat
            && let Some(total) = stat.throttled_ns()
        {
            // What it had been throttled for before the first look is not known.
            let known = self.throttled.replace(total).unwrap_or(total);
            let (version, added) = (stat.version, total.saturating_sub(known));
            if added > 0 {
                say(producer, &Throttle { pid, version, before, added });
            }
        }
        if let Some(memory) = &self.memory
            && let Some(total) = memory.high().zip(memory.stalled_ns())
        {
            let known = self.stalled.replace(total).unwrap_or(total);
            let (high, added) = (total.0.saturating_sub(known.0), total.1.saturating_sub(known.1));
            if high > 0 && added > 0 {
                let high = u32::try_from(high).unwrap_or(u32::MAX);
                say(producer, &Memory { pid, high, before, added });
            }
        }
        for scheduled in scheduled(pid) {
            self.look_at_thread(pid, before, scheduled, clock, producer);
        }
        found.is_some()
    }

    fn look_at_thread(
        &mut self,
        pid: u32,
        before: u64,
        scheduled: Scheduled,
        clock: &MachineClock,
        producer: &mut Producer,
    ) {
        let Scheduled { tid, delay, times } = scheduled;
        let now = Seen { scheduled, in_call: false };
        // What it had waited before the first look is not known.
        let last = self.threads.insert(tid, now);
        let added = last.as_ref().map_or(0, |last| delay.saturating_sub(last.scheduled.delay));
        if added > 0 {
            say(producer, &Delay { pid, tid, before, added });
        }
        // Since it got a CPU last, a look has found it in the call in which it still is.
        let mut in_call = last.is_some_and(|last| last.in_call && last.scheduled.times == times);
        if !in_call {
            let look = clock.now_ns();
            if let Some(call) = call_of(pid, tid) {
                let mut name = [0; 32];
                let len = call.len().min(name.len());
                name[..len].copy_from_slice(&call.as_bytes()[..len]);
                say(producer, &Call { pid, tid, look, name });
                in_call = true;
            }
        }
        self.threads.entry(tid).and_modify(|seen| seen.in_call = in_call);
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
