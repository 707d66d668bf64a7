//! A case: something out of the ordinary, with all the evidence there is. Rules judge it.

use crate::evidence::{Holder, Role, SeatNow, Thread};
use crate::gap::{Gap, Parts};
use crate::names::Names;
use crate::stops::Stopped;
use perfring_events::LossCause;

/// The system calls in which a producer waits for the ring.
const NAPS: [&str; 4] = ["futex", "clock_nanosleep", "nanosleep", "sched_yield"];
/// The sleeps of a producer that waits for the ring take this long on average at most, ns: 2 ms, and the time to be woken.
const NAP_MOST: u64 = 5_000_000;
/// System calls that wait, and take no memory for that.
const WAITS: [&str; 29] = [
    "futex",
    "futex_waitv",
    "clock_nanosleep",
    "nanosleep",
    "sched_yield",
    "poll",
    "ppoll",
    "select",
    "pselect6",
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "wait4",
    "waitid",
    "pause",
    "rt_sigtimedwait",
    "rt_sigsuspend",
    "restart_syscall",
    "accept",
    "accept4",
    "connect",
    "recvfrom",
    "recvmsg",
    "recvmmsg",
    "flock",
    "io_getevents",
    "io_uring_enter",
    "semtimedop",
    "msgrcv",
];

/// Whether the kernel's switches are known for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coverage {
    /// All of them.
    Whole,
    /// They were not recorded, or not for all of the time.
    None,
    /// The kernel had no room for this many of its records.
    Lost(u64),
    /// Records came too late for the order of time.
    Late,
}

/// What happened.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// A thread wrote nothing for a while.
    Gap(GapCase),
    /// Records were lost.
    Loss(LossCase),
    /// A holder of a seat is dead or stopped, or holds others up.
    Owner {
        seat: SeatNow,
        /// Whether that is over.
        is_over: bool,
    },
    /// A consumer read records late.
    Read(ReadCase),
    /// The wall clock was set by this much, ns.
    Clock(i64),
}

#[derive(Clone, Debug)]
pub(crate) struct GapCase {
    pub(crate) gap: Gap,
    pub(crate) coverage: Coverage,
    /// Whether all page faults of the process are known for that time.
    pub(crate) has_faults: bool,
    /// For how long of it the process was stopped, as a witness found.
    pub(crate) stopped: Stopped,
    /// For how long the thread could run and had no CPU, at least, ns.
    pub(crate) delayed: u64,
    /// For how long the cgroup was throttled in that time, at least, ns.
    pub(crate) throttled: u64,
    /// For how long the cgroup, which went over `memory.high`, waited for memory, at least, ns.
    pub(crate) stalled: u64,
    /// For how long the machine was suspended, at least, ns.
    pub(crate) suspended: u64,
    /// For how long the hypervisor had the thread's CPU for others, at least, ns.
    pub(crate) stolen: u64,
    /// The system call in which the thread waited longest, and for how long, at most, ns.
    pub(crate) call: Option<(String, u64)>,
    /// The process for which the ring's producers waited.
    pub(crate) held: Option<HeldBy>,
}

/// The process for which the producers of a ring waited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeldBy {
    pub(crate) pid: u32,
    /// For how long, at least, ns.
    pub(crate) least: u64,
    /// What kept the process from its work meanwhile, if known.
    pub(crate) why: Option<String>,
}

/// Records were read late.
#[derive(Clone, Debug)]
pub(crate) struct ReadCase {
    pub(crate) reader: SeatNow,
    /// For how long there were records that were read as late.
    pub(crate) lasted: u64,
    /// For how long of that the process was stopped, as a witness found.
    pub(crate) stopped: Stopped,
    /// What its only thread did, in that time and in this time before it, ns; `None` if that is not known.
    pub(crate) parts: Option<(Parts, u64)>,
}

#[derive(Clone, Debug)]
pub(crate) struct LossCase {
    pub(crate) records: u64,
    pub(crate) cause: LossCause,
    /// Whether the ring keeps its records until they are read.
    pub(crate) drops: bool,
    /// The seats of the ring at that time, as far as a witness saw them.
    pub(crate) seats: Vec<SeatNow>,
    /// The seats changed about that time, or were not looked at before: what they say is not certain.
    pub(crate) changed: bool,
    /// Its seats now, if the ring is a live one and none was seen then.
    pub(crate) present: Vec<SeatNow>,
}

/// What happened, and when.
#[derive(Debug)]
pub(crate) struct Case<'a> {
    pub(crate) what: What,
    pub(crate) ring: u32,
    /// When it began, ns.
    pub(crate) time: u64,
    /// How long it took, ns.
    pub(crate) length: u64,
    pub(crate) names: &'a Names,
}

impl Case<'_> {
    /// Returns the gap, if it is one.
    pub(crate) fn gap(&self) -> Option<&GapCase> {
        match &self.what {
            What::Gap(gap) => Some(gap),
            _ => None,
        }
    }

    /// Returns what the kernel's switches say of a gap, if they are complete.
    pub(crate) fn watched(&self) -> Option<&Parts> {
        let gap = self.gap()?;
        let known = gap.coverage == Coverage::Whole && !gap.gap.parts.contradicted;
        known.then_some(&gap.gap.parts)
    }

    /// Returns for how long a thread waited for a CPU after it was woken, at least. Its time in the queue after a preemption is known.
    pub(crate) fn woken_late(&self) -> Option<u64> {
        let (gap, parts) = (self.gap()?, self.watched()?);
        Some(gap.delayed.saturating_sub(parts.off_cpu()).min(parts.waited))
    }

    /// Returns for how long the producers of a gap's ring waited for another one, at least. A producer waits by short sleeps, of
    /// 2 ms at most. A thread that slept longer, or that waited in another call, did not wait for the ring. Without the kernel's
    /// switches the thread may have slept.
    pub(crate) fn held_up(&self) -> Option<u64> {
        let (gap, parts) = (self.gap()?, self.watched()?);
        let call = gap.call.as_ref().map(|(call, _)| &**call);
        let waits_elsewhere = call.is_some_and(|call| !NAPS.contains(&call));
        let held = gap.held.as_ref().filter(|_| !waits_elsewhere)?;
        let napped = parts.waited.saturating_sub(self.woken_late()?);
        let is_short = napped <= parts.waits.saturating_mul(NAP_MOST);
        is_short.then(|| held.least.min(parts.waited))
    }

    /// Returns for how long a gap's thread waited while its cgroup waited for memory, at least. A thread that was found in a
    /// system call that takes no memory waited for that, and the cgroup's figure is another task's. (The kernel waits for
    /// `memory.high` at the end of a call, and shows the call.)
    pub(crate) fn stalled(&self) -> Option<u64> {
        let (gap, parts) = (self.gap()?, self.watched()?);
        let in_call = gap.call.as_ref().filter(|(call, _)| WAITS.contains(&&**call));
        let in_call = in_call.map_or(0, |(_, ns)| *ns);
        Some(gap.stalled.min(parts.waited.saturating_sub(in_call)))
    }

    /// Returns the loss, if it is one by this cause.
    pub(crate) fn loss(&self, by: perfring_consumer::Cause) -> Option<&LossCase> {
        match &self.what {
            What::Loss(loss) if loss.cause == LossCause::Ring(by) => Some(loss),
            _ => None,
        }
    }

    /// Returns the late read, if it is one.
    pub(crate) fn read(&self) -> Option<&ReadCase> {
        match &self.what {
            What::Read(read) => Some(read),
            _ => None,
        }
    }

    /// Returns a part of the time for which a consumer read late, as a part of the case's own time: how late a record was.
    pub(crate) fn of_read(&self, part: impl Fn(&Parts) -> u64) -> Option<u64> {
        let read = self.read()?;
        let (parts, before) = read.parts.as_ref()?;
        Some(self.scaled(part(parts).saturating_sub(*before), read.lasted))
    }

    /// Returns for how long of the time a consumer was surely stopped, likewise.
    pub(crate) fn stopped_reader(&self) -> Option<u64> {
        let read = self.read()?;
        Some(self.scaled(read.stopped.surely, read.lasted))
    }

    fn scaled(&self, part: u64, of: u64) -> u64 {
        let scaled = u128::from(part) * u128::from(self.length) / u128::from(of.max(1));
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }

    /// Returns the holder of a seat, if it is in this state.
    pub(crate) fn owner(&self, holder: Holder) -> Option<&SeatNow> {
        match &self.what {
            What::Owner { seat, .. } if seat.holder == holder => Some(seat),
            _ => None,
        }
    }

    /// Returns whether it is a seat whose holder is in trouble no more.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.what, What::Owner { is_over: true, .. })
    }

    pub(crate) fn task(&self, thread: Thread) -> String {
        self.names.task(thread)
    }
}

impl LossCase {
    /// Returns the consumer, if it is in this state, and the ring's only one: of several, nothing says which is behind.
    pub(crate) fn consumer(&self, holder: Holder) -> Option<&SeatNow> {
        let consumers = self.seats.iter().filter(|seat| seat.role == Role::Consumer);
        let mut consumers = consumers.filter(|seat| seat.holder != Holder::Gone);
        let only = consumers.next().filter(|_| consumers.next().is_none());
        only.filter(|seat| seat.holder == holder)
    }

    /// Returns whether the seats of consumers are known, and none has a holder.
    pub(crate) fn has_no_consumer(&self) -> bool {
        let mut seats = self.seats.iter().filter(|seat| seat.role == Role::Consumer).peekable();
        seats.peek().is_some() && seats.all(|seat| seat.holder == Holder::Gone)
    }

    /// Returns the producer for which the others wait.
    pub(crate) fn holder(&self) -> Option<&SeatNow> {
        self.seats.iter().find(|seat| seat.role == Role::Producer && seat.holds_up)
    }
}
