//! The records of a witness: what the program that records rings sees of their processes in /proc, and what neither the
//! rings nor the kernel's events say. The witness publishes them into a further ring, which is recorded with the rest.

use bytemuck::{Pod, Zeroable};
use perfring_types::{Enum, Record, Schema};

/// The name of a witness's ring: records of these types in a ring of another name are another program's.
pub const NAME: &str = "perfring-why";

/// The beginning of the names of the kernel's rings that have page faults alone.
pub const FAULTS: &str = "kernel-page-faults";
/// What the names of all rings of the kernel's events begin with.
pub const KERNEL: &str = "kernel-";

/// Whether something begins or ends.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Record)]
pub enum Turn {
    /// It begins.
    #[record(name = "begin")]
    Begin,
    /// It ends.
    #[record(name = "end")]
    End,
}

/// What of the kernel's events is recorded.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Record)]
pub enum Of {
    /// Context switches, and tasks that begin and end.
    #[record(name = "switches")]
    Switches,
    /// Page faults.
    #[record(name = "page faults")]
    Faults,
}

/// How the holder of a seat is.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Record)]
pub enum How {
    /// No process has the seat.
    #[record(name = "free")]
    Free,
    /// It gave the seat up.
    #[record(name = "detached")]
    Detached,
    /// It ended without that.
    #[record(name = "dead")]
    Dead,
    /// It has the seat.
    #[record(name = "alive")]
    Alive,
    /// It has the seat, and a signal or a debugger has stopped it.
    #[record(name = "stopped")]
    Stopped,
    /// It has the seat, and the kernel writes its memory to a file.
    #[record(name = "dumping core")]
    DumpingCore,
}

/// What a seat is for.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Record)]
pub enum SeatOf {
    /// To publish.
    #[record(name = "producer")]
    Producer,
    /// To consume.
    #[record(name = "consumer")]
    Consumer,
}

/// Events of the kernel are recorded from now on, or until now.
#[repr(C)]
#[derive(Clone, Copy, Debug, Record, Pod, Zeroable)]
#[record(name = "why.Watch")]
pub struct Watch {
    /// The process whose threads are watched; 0: all threads of the machine.
    pub pid: u32,
    /// Which events.
    pub of: Enum<Of>,
    /// Whether it begins or ends.
    pub turn: Enum<Turn>,
}

/// A look at a process found it stopped by a signal or a debugger, as each look does until one finds it running again.
#[repr(C)]
#[derive(Clone, Copy, Debug, Record, Pod, Zeroable)]
#[record(name = "why.Stop")]
pub struct Stop {
    /// The process.
    pub pid: u32,
    /// Whether it was found stopped, or running again.
    pub turn: Enum<Turn>,
    /// When the look before this one was, `CLOCK_BOOTTIME`.
    #[record(unit = "ns")]
    pub before: u64,
    /// When this look began: it found that between then and the record's own time.
    #[record(unit = "ns")]
    pub look: u64,
}

/// The cgroup of a process has used its quota of CPU time up: `cpu.max`, or `cpu.cfs_quota_us`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Record, Pod, Zeroable)]
#[record(name = "why.Throttle")]
pub struct Throttle {
    /// The process.
    pub pid: u32,
    /// The version of cgroups that says so, 1 or 2.
    pub version: u32,
    /// When the look before this one was, `CLOCK_BOOTTIME`.
    #[record(unit = "ns")]
    pub before: u64,
    /// For how long it was throttled since then, by its `cpu.stat`. This number grows at the end of each throttling.
    #[record(unit = "ns")]
    pub added: u64,
}

/// For how long a thread could run and had no CPU, between two looks: the second number of its `schedstat`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Record, Pod, Zeroable)]
#[record(name = "why.Delay")]
pub struct Delay {
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// When the look before this one was, `CLOCK_BOOTTIME`.
    #[record(unit = "ns")]
    pub before: u64,
    /// For how long since then.
    #[record(unit = "ns")]
    pub added: u64,
}

/// A look at a thread found it in a system call, without a CPU. A thread that has not run since then is still in it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Record, Pod, Zeroable)]
#[record(name = "why.Call")]
pub struct Call {
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// When this look began: it found that between then and the record's own time.
    #[record(unit = "ns")]
    pub look: u64,
    /// The system call.
    #[record(text)]
    pub name: [u8; 32],
}

/// The hypervisor took a CPU away, between two looks: `steal` in `/proc/stat`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Record, Pod, Zeroable)]
#[record(name = "why.Steal")]
pub struct Steal {
    /// The CPU.
    pub cpu: u32,
    /// The unit in which the kernel counts that, µs.
    pub tick: u32,
    /// When the look before this one was, `CLOCK_BOOTTIME`.
    #[record(unit = "ns")]
    pub before: u64,
    /// For how long since then.
    #[record(unit = "ns")]
    pub added: u64,
}

/// Tasks of a process's cgroup waited for memory, between two looks, and the cgroup went over `memory.high`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Record, Pod, Zeroable)]
#[record(name = "why.Memory")]
pub struct Memory {
    /// The process.
    pub pid: u32,
    /// How often it went over `memory.high` since the look before, as its `memory.events` says.
    pub high: u32,
    /// When the look before this one was, `CLOCK_BOOTTIME`.
    #[record(unit = "ns")]
    pub before: u64,
    /// For how long some task waited since then, as its `memory.pressure` says.
    #[record(unit = "ns")]
    pub added: u64,
}

/// The machine was suspended between two looks: `CLOCK_BOOTTIME` went on, and `CLOCK_MONOTONIC` did not.
#[repr(C)]
#[derive(Clone, Copy, Debug, Record, Pod, Zeroable)]
#[record(name = "why.Suspend")]
pub struct Suspend {
    /// When the look before this one was, `CLOCK_BOOTTIME`.
    #[record(unit = "ns")]
    pub before: u64,
    /// For how long since then.
    #[record(unit = "ns")]
    pub added: u64,
}

/// The wall clock was set between two looks: `CLOCK_REALTIME` jumped, and `CLOCK_MONOTONIC` did not.
#[repr(C)]
#[derive(Clone, Copy, Debug, Record, Pod, Zeroable)]
#[record(name = "why.Clock")]
pub struct Clock {
    /// When the look before this one was, `CLOCK_BOOTTIME`.
    #[record(unit = "ns")]
    pub before: u64,
    /// By how much it was set forward, or back.
    #[record(unit = "ns")]
    pub by: i64,
}

/// A look found that other producers of a ring wait for the reservation or the lock of this one.
#[repr(C)]
#[derive(Clone, Copy, Debug, Record, Pod, Zeroable)]
#[record(name = "why.Held")]
pub struct Held {
    /// The ring's id.
    pub ring: [u8; 16],
    /// The number of the producer's seat.
    pub number: u32,
    /// The process that has it.
    pub pid: u32,
    /// When this look began.
    #[record(unit = "ns")]
    pub look: u64,
    /// For how long before that it was so, at least, as the ring says.
    #[record(unit = "ns")]
    pub since: u64,
}

/// A look found that a consumer has released what is before this position of its ring.
#[repr(C)]
#[derive(Clone, Copy, Debug, Record, Pod, Zeroable)]
#[record(name = "why.Reader")]
pub struct Reader {
    /// The ring's id.
    pub ring: [u8; 16],
    /// The number of the consumer's seat.
    pub number: u32,
    /// The process that has it.
    pub pid: u32,
    /// The position.
    pub pos: u64,
    /// When this look began.
    #[record(unit = "ns")]
    pub look: u64,
}

/// A ring has one producer at a time: its records are this process's from now on.
#[repr(C)]
#[derive(Clone, Copy, Debug, Record, Pod, Zeroable)]
#[record(name = "why.Writer")]
pub struct RingWriter {
    /// The ring's id.
    pub ring: [u8; 16],
    /// The process.
    pub pid: u32,
}

/// A seat of a ring is so from now on.
#[repr(C)]
#[derive(Clone, Copy, Debug, Record, Pod, Zeroable)]
#[record(name = "why.Seat")]
pub struct Seat {
    /// The ring's id.
    pub ring: [u8; 16],
    /// What it is for.
    pub role: Enum<SeatOf>,
    /// Its number.
    pub number: u32,
    /// The process that has it, or had it last.
    pub pid: u32,
    /// How that process is.
    pub how: Enum<How>,
    /// 1: its reservation or lock is what the other producers wait for.
    pub holds_up: u32,
    /// 1: the process of this number, as the kernel's events have it, has the ring open. (A process in a container has another
    /// number there.)
    pub here: u32,
    /// The name under which the process attached.
    #[record(text)]
    pub name: [u8; 64],
}

/// Returns the types of a witness's records. Names of threads are `perf.Comm`, the kernel's type.
#[must_use]
pub fn schemas() -> [Schema<'static>; 14] {
    [
        Watch::SCHEMA,
        Stop::SCHEMA,
        Throttle::SCHEMA,
        Delay::SCHEMA,
        Call::SCHEMA,
        Steal::SCHEMA,
        Memory::SCHEMA,
        Suspend::SCHEMA,
        Clock::SCHEMA,
        Held::SCHEMA,
        Reader::SCHEMA,
        RingWriter::SCHEMA,
        Seat::SCHEMA,
        perfring_kernel::records::Comm::SCHEMA,
    ]
}
