//! Evidence: what is known of a moment, from rings, from the kernel, or from a witness.

use perfring_events::LossCause;

/// A thread and its process, as the kernel numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Thread {
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
}

impl Thread {
    /// Returns whether it is the task that a CPU has when no thread can run there.
    #[must_use]
    pub fn is_idle(self) -> bool {
        self.tid == 0
    }
}

/// A fact and its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// ns of `CLOCK_BOOTTIME`.
    pub time: u64,
    /// What is known.
    pub fact: Fact,
}

/// The writer of a record, as far as its ring says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// This thread.
    Thread(Thread),
    /// A thread of this process.
    Process(u32),
    /// The ring has several producers, and does not say.
    Unknown,
}

/// How a thread was switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// It has a CPU from now on.
    In,
    /// It gave its CPU up, to sleep or to wait; or a signal stopped it.
    Out,
    /// It could run, and the kernel gave its CPU to another task.
    Preempted,
}

/// Which events of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Events {
    /// Switches, and tasks that begin and end.
    Switches,
    /// Page faults.
    Faults,
}

/// What /proc and a ring say of the holder of a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// It is alive, and not stopped.
    Alive,
    /// A signal or a debugger has stopped it.
    Stopped,
    /// It dumps core.
    DumpingCore,
    /// It ended without giving its seat up.
    Dead,
    /// No process has the seat now.
    Gone,
}

/// What a process has a seat for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// To publish.
    Producer,
    /// To consume.
    Consumer,
}

/// The state of a seat of a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeatNow {
    /// What it is for.
    pub role: Role,
    /// Its number among those for this role.
    pub number: u32,
    /// The process that has it, or had it last.
    pub pid: u32,
    /// The name under which that process attached.
    pub name: String,
    /// How it is.
    pub holder: Holder,
    /// Whether its reservation or lock is what the other producers wait for.
    pub holds_up: bool,
    /// Whether the process of this number here has the ring open. A process in a container has another number here.
    pub here: bool,
}

/// What is known.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fact {
    /// A ring is read from now on.
    Ring {
        /// Its number.
        ring: u32,
        /// Its name.
        name: String,
        /// Whether it keeps its records until they are read.
        drops: bool,
    },
    /// A record was published.
    Record {
        /// The ring's number.
        ring: u32,
        /// Its position in the ring.
        pos: u64,
        /// Its writer.
        writer: Writer,
    },
    /// Records were lost.
    Lost {
        /// The ring's number.
        ring: u32,
        /// How many.
        records: u64,
        /// The cause that the ring gives.
        cause: LossCause,
    },
    /// The state of a seat, which is reported when it changes.
    Seat {
        /// The ring's number.
        ring: u32,
        /// The state.
        seat: SeatNow,
    },
    /// The state of a seat of a live ring, now that all of its records are read.
    Present {
        /// The ring's number.
        ring: u32,
        /// The state.
        seat: SeatNow,
    },
    /// A thread came to a CPU, or left one.
    Switched {
        /// The kernel's ring that says so.
        source: u32,
        /// The thread.
        thread: Thread,
        /// The CPU.
        cpu: u32,
        /// Which way.
        how: Switch,
        /// The task that comes next, if the kernel says that.
        next: Option<Thread>,
    },
    /// A thread had a page fault.
    Fault {
        /// The kernel's ring that says so.
        source: u32,
        /// The thread.
        thread: Thread,
    },
    /// A thread is called this from now on.
    Named {
        /// The kernel's ring that says so, unless a witness does.
        source: Option<u32>,
        /// The thread.
        thread: Thread,
        /// Its name.
        name: String,
    },
    /// A thread was started.
    Started {
        /// The kernel's ring that says so.
        source: u32,
        /// The thread.
        thread: Thread,
        /// The thread that started it, whose name it has.
        parent: Thread,
    },
    /// A thread has ended.
    Ended {
        /// The kernel's ring that says so.
        source: u32,
        /// The thread.
        thread: Thread,
    },
    /// Another record of the kernel's, which says only that the kernel still writes.
    Other {
        /// The kernel's ring.
        source: u32,
    },
    /// The kernel had no room for this many of its records.
    Missing {
        /// Which events the ring has.
        of: Events,
        /// Of which process; 0: of all.
        pid: u32,
        /// The kernel's ring.
        source: u32,
        /// How many.
        records: u64,
    },
    /// From now on events of the kernel are recorded: of a process, or of the machine (0).
    Watched {
        /// Which events.
        of: Events,
        /// The process.
        pid: u32,
    },
    /// From now on they are not.
    Unwatched {
        /// Which events.
        of: Events,
        /// The process.
        pid: u32,
    },
    /// A look at a process found it stopped by a signal or a debugger, or running again.
    Stopped {
        /// The process.
        pid: u32,
        /// Whether it is stopped now.
        stopped: bool,
        /// The time of the look before, ns.
        before: u64,
        /// When this look began, ns.
        look: u64,
    },
    /// For how long a thread could run and had no CPU, since the look before.
    Delayed {
        /// The thread.
        thread: Thread,
        /// The time of the look before, ns.
        before: u64,
        /// ns since then.
        added: u64,
    },
    /// A look found a thread in a system call, without a CPU.
    InCall {
        /// The thread.
        thread: Thread,
        /// When this look began, ns.
        look: u64,
        /// The system call.
        name: String,
    },
    /// For how long the hypervisor had a CPU for others, since the look before.
    Stolen {
        /// The CPU.
        cpu: u32,
        /// The time of the look before, ns.
        before: u64,
        /// ns since then, less the unit in which that is counted.
        added: u64,
    },
    /// For how long tasks of a process's cgroup, which went over `memory.high`, waited for memory since the look before.
    Stalled {
        /// The process.
        pid: u32,
        /// The time of the look before, ns.
        before: u64,
        /// ns since then.
        added: u64,
    },
    /// For how long the machine was suspended, since the look before.
    Suspended {
        /// The time of the look before, ns.
        before: u64,
        /// ns since then.
        added: u64,
    },
    /// The wall clock was set, since the look before.
    ClockSet {
        /// The time of the look before, ns.
        before: u64,
        /// By how much, ns.
        by: i64,
    },
    /// The other producers of a ring waited for this process's reservation or lock, for all of a time.
    Held {
        /// The ring's number.
        ring: u32,
        /// The process.
        pid: u32,
        /// From then, ns,
        from: u64,
        /// until then.
        until: u64,
    },
    /// A look found that a consumer has released all before this position.
    Read {
        /// The ring's number.
        ring: u32,
        /// The number of the consumer's seat.
        number: u32,
        /// The process.
        pid: u32,
        /// The position.
        pos: u64,
        /// When this look began, ns.
        look: u64,
    },
    /// For how long the cgroup of a process was throttled, since the look before.
    Throttled {
        /// The process.
        pid: u32,
        /// The time of the look before, ns.
        before: u64,
        /// ns since then.
        added: u64,
    },
}

impl Fact {
    /// Returns the kernel's ring that says it.
    pub(crate) fn source(&self) -> Option<u32> {
        match self {
            Fact::Switched { source, .. }
            | Fact::Fault { source, .. }
            | Fact::Started { source, .. }
            | Fact::Ended { source, .. }
            | Fact::Other { source } => Some(*source),
            Fact::Named { source, .. } => *source,
            _ => None,
        }
    }
}
