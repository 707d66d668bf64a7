//! Evidence from the events of rings, of the kernel and of a witness.

use crate::evidence::{Events, Evidence, Fact, Holder, Role, SeatNow, Switch, Thread, Writer};
use crate::names::printable;
use crate::witness::{
    Call, Clock, Delay, FAULTS, Held, How, KERNEL, Memory, NAME, Of, Reader, RingWriter, Seat,
    SeatOf, Steal, Stop, Suspend, Throttle, Turn, Watch,
};
use perfring_consumer::Policy;
use perfring_events::{Event, Origin, Rec, What};
use perfring_kernel::records::{
    Comm, Exit, Fork, MajorFault, MinorFault, PageFault, SwitchCpuWide, Switched,
};
use perfring_types::PodRecord;
use std::collections::{HashMap, HashSet, VecDeque};

/// Returns whether this ring has evidence about others: it is of the kernel, or a witness's.
#[must_use]
pub fn is_evidence(origin: &Origin) -> bool {
    is_of_kernel(origin) || origin.name == NAME
}

/// Returns whether it is one of the kernel's perf rings, which have no file. A map of BPF programs and a metrics area are rings
/// without a policy, too, whatever their names are: their locations differ.
fn is_of_kernel(origin: &Origin) -> bool {
    let name = origin.name.rsplit('/').next().unwrap_or_default();
    origin.policy.is_none() && name.starts_with(KERNEL) && origin.location.starts_with(KERNEL)
}

/// Turns events into evidence.
///
/// ```
/// use perfring_events::{Event, Origin, What};
/// use perfring_why::{Analysis, Facts, Options};
/// let mut analysis = Analysis::new(Options { slower_than: 100_000, since: 0 });
/// let mut facts = Facts::default();
/// let origin = Origin { name: "orders".to_owned(), ..Origin::default() };
/// let event = Event { seq: 0, origin: &origin, what: What::Began }; // of a recording, one after the other
/// facts.read(&event).for_each(|evidence| analysis.add(evidence));
/// assert_eq!(analysis.finish().count(), 0);
/// ```
#[derive(Debug, Default)]
pub struct Facts {
    out: VecDeque<Evidence>,
    /// Numbers of rings by their ids.
    rings: HashMap<[u8; 16], u32>,
    /// The only writers of rings.
    writers: HashMap<[u8; 16], u32>,
    /// Processes that have a ring open, by the ring, once a witness says so.
    here: HashSet<([u8; 16], u32)>,
    has_witness: bool,
    /// The wall clock, less the timestamps' clock, ns.
    wall: Option<i128>,
    time: u64,
    /// Losses from before the first record with a time: they have its time.
    early: Vec<Fact>,
    /// Records without a time.
    untimed: u64,
}

impl Facts {
    /// Reads an event, and returns what it says.
    pub fn read(&mut self, event: &Event<'_>) -> impl Iterator<Item = Evidence> {
        let origin = event.origin;
        let is_kernels = is_of_kernel(origin);
        match &event.what {
            What::Began => {
                self.rings.insert(origin.uuid, origin.id);
                if !is_kernels {
                    let (ring, name) = (origin.id, origin.name.clone());
                    let drops = origin.policy == Some(Policy::Drop);
                    self.say(self.time, Fact::Ring { ring, name, drops });
                }
            }
            What::Record(record) => {
                if record.time.is_none() {
                    self.untimed += 1;
                }
                if let Some(time) = record.time {
                    self.time = self.time.max(time);
                    let early = std::mem::take(&mut self.early).into_iter();
                    self.out.extend(early.map(|fact| Evidence { time, fact }));
                    if let Some(wall) = record.wall {
                        self.wall = Some(i128::from(wall) - i128::from(time));
                    }
                    if is_kernels {
                        self.of_kernel(origin, record, time);
                    } else if origin.name == NAME {
                        self.of_witness(record, time);
                    } else {
                        let writer = self.writer(origin, record);
                        self.say(time, Fact::Record { ring: origin.id, pos: record.pos, writer });
                    }
                }
            }
            What::Lost(loss) => {
                let (ring, records, time) =
                    (origin.id, loss.records, loss.time.unwrap_or(self.time));
                if is_kernels {
                    let faults = origin.name.strip_prefix(FAULTS);
                    let of = faults.map_or(Events::Switches, |_| Events::Faults);
                    // `kernel-page-faults-PID-CPU`
                    let pid = faults.and_then(|rest| rest.split('-').nth(1)?.parse().ok());
                    let (pid, source) = (pid.unwrap_or(0), ring);
                    self.say(time, Fact::Missing { of, pid, source, records });
                } else {
                    let fact = Fact::Lost { ring, records, cause: loss.cause };
                    match time {
                        0 => self.early.push(fact),
                        _ => self.say(time, fact),
                    }
                }
            }
            What::Ended => {}
        }
        self.out.drain(..)
    }

    /// Says that the records of a ring are from this process: the ring has one producer at a time.
    pub fn set_writer(&mut self, ring: [u8; 16], pid: u32) {
        self.writers.insert(ring, pid);
    }

    /// Returns how many records have no timestamp: their rings have none.
    #[must_use]
    pub fn untimed(&self) -> u64 {
        self.untimed
    }

    /// Returns what is known at no time: losses of rings of which no record has one.
    pub fn end(&mut self) -> impl Iterator<Item = Evidence> {
        let time = self.time;
        self.early.drain(..).map(move |fact| Evidence { time, fact })
    }

    /// Returns what a seat of a live ring says now, if the ring is known.
    pub fn seat(&mut self, time: u64, seat: &Seat) -> impl Iterator<Item = Evidence> {
        let ring = self.rings.get(&seat.ring).copied();
        let fact = ring.zip(seat_of(seat)).map(|(ring, seat)| Fact::Present { ring, seat });
        fact.map(|fact| Evidence { time, fact }).into_iter()
    }

    fn say_seat(&mut self, time: u64, seat: &Seat) {
        if let Some(ring) = self.rings.get(&seat.ring).copied()
            && let Some(seat) = seat_of(seat)
        {
            self.say(time, Fact::Seat { ring, seat });
        }
    }

    /// Returns the wall-clock time of a timestamp, ns since 1970, if it is known.
    #[must_use]
    pub fn wall(&self, time: u64) -> Option<u64> {
        u64::try_from(i128::from(time).checked_add(self.wall?)?).ok()
    }

    fn say(&mut self, time: u64, fact: Fact) {
        self.out.push_back(Evidence { time, fact });
    }

    fn writer(&self, origin: &Origin, record: &Rec<'_>) -> Writer {
        // A pid of another namespace is another process here.
        let is_here = |pid| !self.has_witness || self.here.contains(&(origin.uuid, pid));
        match (record.writer, self.writers.get(&origin.uuid)) {
            (Some(writer), _) if is_here(writer.pid.get()) => {
                Writer::Thread(Thread { pid: writer.pid.get(), tid: writer.tid })
            }
            (Some(_), _) => Writer::Unknown,
            (None, Some(pid)) => Writer::Process(*pid),
            (None, None) => Writer::Unknown,
        }
    }

    fn of_kernel(&mut self, origin: &Origin, record: &Rec<'_>, time: u64) {
        let source = origin.id;
        let fact = if let Some(it) = pod::<SwitchCpuWide>(record) {
            let thread = Thread { pid: it.pid, tid: it.tid };
            let next = Thread { pid: it.other_pid, tid: it.other_tid };
            switched(source, thread, it.cpu, it.switched.get().ok(), Some(next))
        } else if let Some(it) = pod::<perfring_kernel::records::Switch>(record) {
            let thread = Thread { pid: it.pid, tid: it.tid };
            switched(source, thread, it.cpu, it.switched.get().ok(), None)
        } else if let Some(it) = pod::<PageFault>(record) {
            Fact::Fault { source, thread: Thread { pid: it.pid, tid: it.tid } }
        } else if let Some(it) = pod::<MinorFault>(record) {
            Fact::Fault { source, thread: Thread { pid: it.pid, tid: it.tid } }
        } else if let Some(it) = pod::<MajorFault>(record) {
            Fact::Fault { source, thread: Thread { pid: it.pid, tid: it.tid } }
        } else if let Some(it) = pod::<Comm>(record) {
            name_of(Some(source), &it)
        } else if let Some(it) = pod::<Fork>(record) {
            let thread = Thread { pid: it.pid, tid: it.tid };
            let parent = Thread { pid: it.parent_pid, tid: it.parent_tid };
            Fact::Started { source, thread, parent }
        } else if let Some(it) = pod::<Exit>(record) {
            Fact::Ended { source, thread: Thread { pid: it.pid, tid: it.tid } }
        } else {
            Fact::Other { source }
        };
        self.say(time, fact);
    }

    fn of_witness(&mut self, record: &Rec<'_>, time: u64) {
        if let Some(it) = pod::<Watch>(record) {
            let pid = it.pid;
            let of = match it.of.get() {
                Ok(Of::Switches) => Events::Switches,
                Ok(Of::Faults) => Events::Faults,
                Err(_) => return,
            };
            match it.turn.get() {
                Ok(Turn::Begin) => self.say(time, Fact::Watched { of, pid }),
                _ => self.say(time, Fact::Unwatched { of, pid }),
            }
        } else if let Some(it) = pod::<Stop>(record) {
            let stopped = it.turn.get() == Ok(Turn::Begin);
            self.say(
                time,
                Fact::Stopped { pid: it.pid, stopped, before: it.before, look: it.look },
            );
        } else if let Some(it) = pod::<Throttle>(record) {
            self.say(time, Fact::Throttled { pid: it.pid, before: it.before, added: it.added });
        } else if let Some(it) = pod::<Delay>(record) {
            let thread = Thread { pid: it.pid, tid: it.tid };
            self.say(time, Fact::Delayed { thread, before: it.before, added: it.added });
        } else if let Some(it) = pod::<Call>(record) {
            let thread = Thread { pid: it.pid, tid: it.tid };
            self.say(time, Fact::InCall { thread, look: it.look, name: text(&it.name) });
        } else if let Some(it) = pod::<Steal>(record) {
            // Both totals were rounded down, and the kernel adds to them a tick after the CPU is back.
            let tick = u64::from(it.tick) * 1_000;
            let (before, added) = (it.before.saturating_sub(tick), it.added.saturating_sub(tick));
            self.say(time, Fact::Stolen { cpu: it.cpu, before, added });
        } else if let Some(it) = pod::<Memory>(record) {
            self.say(time, Fact::Stalled { pid: it.pid, before: it.before, added: it.added });
        } else if let Some(it) = pod::<Suspend>(record) {
            self.say(time, Fact::Suspended { before: it.before, added: it.added });
        } else if let Some(it) = pod::<Clock>(record) {
            self.say(time, Fact::ClockSet { before: it.before, by: it.by });
        } else if let Some(it) = pod::<Held>(record) {
            if let Some(ring) = self.rings.get(&it.ring).copied() {
                let from = it.look.saturating_sub(it.since);
                self.say(time, Fact::Held { ring, pid: it.pid, from, until: it.look });
            }
        } else if let Some(it) = pod::<Reader>(record) {
            if let Some(ring) = self.rings.get(&it.ring).copied() {
                let Reader { number, pid, pos, look, .. } = it;
                self.say(time, Fact::Read { ring, number, pid, pos, look });
            }
        } else if let Some(it) = pod::<RingWriter>(record) {
            self.writers.insert(it.ring, it.pid);
        } else if let Some(it) = pod::<Seat>(record) {
            self.has_witness = true;
            if it.here != 0 {
                self.here.insert((it.ring, it.pid));
            }
            self.say_seat(time, &it);
        } else if let Some(it) = pod::<Comm>(record) {
            self.say(time, name_of(None, &it));
        }
    }
}

/// Reads a record, if it is of this type.
fn pod<T: PodRecord>(record: &Rec<'_>) -> Option<T> {
    let is_it = record.kind == T::SCHEMA.id.get() && record.bytes.len() >= size_of::<T>();
    is_it.then(|| bytemuck::pod_read_unaligned(&record.bytes[..size_of::<T>()]))
}

fn switched(
    source: u32,
    thread: Thread,
    cpu: u32,
    how: Option<Switched>,
    other: Option<Thread>,
) -> Fact {
    match how {
        Some(Switched::In) => Fact::Switched { source, thread, cpu, how: Switch::In, next: None },
        Some(Switched::Out) => {
            Fact::Switched { source, thread, cpu, how: Switch::Out, next: other }
        }
        Some(Switched::Preempted) => {
            Fact::Switched { source, thread, cpu, how: Switch::Preempted, next: other }
        }
        None => Fact::Other { source },
    }
}

/// Returns the evidence that a task exists, and what it is called, at any time.
#[must_use]
pub fn named(comm: &Comm) -> Evidence {
    Evidence { time: 0, fact: name_of(None, comm) }
}

fn name_of(source: Option<u32>, comm: &Comm) -> Fact {
    let thread = Thread { pid: comm.pid, tid: comm.tid };
    Fact::Named { source, thread, name: text(&comm.comm) }
}

/// Returns the text up to the first zero.
fn text(bytes: &[u8]) -> String {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

fn seat_of(seat: &Seat) -> Option<SeatNow> {
    let role = match seat.role.get().ok()? {
        SeatOf::Producer => Role::Producer,
        SeatOf::Consumer => Role::Consumer,
    };
    let holder = match seat.how.get().ok()? {
        How::Free | How::Detached => Holder::Gone,
        How::Dead => Holder::Dead,
        How::Alive => Holder::Alive,
        How::Stopped => Holder::Stopped,
        How::DumpingCore => Holder::DumpingCore,
    };
    let (number, pid) = (seat.number, seat.pid);
    let (holds_up, here) = (seat.holds_up != 0, seat.here != 0);
    Some(SeatNow { role, number, pid, name: printable(&text(&seat.name)), holder, holds_up, here })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_perf_rings_and_a_witness_are_evidence() {
        let is = |name: &str, location: &str, policy| {
            let (name, location) = (name.to_owned(), location.to_owned());
            is_evidence(&Origin { name, location, policy, ..Origin::default() })
        };
        assert!(is("kernel-0", "kernel-0", None));
        assert!(is("kernel-page-faults-17-1", "kernel-page-faults-17-1", None));
        assert!(is("host/kernel-0", "kernel-0", None), "an input's name is before it");
        assert!(is(NAME, "/dev/shm/perfring-why-x/perfring-why", Some(Policy::Overwrite)));
        assert!(!is("kernel-0", "/dev/shm/rings/kernel-0", Some(Policy::Drop)), "a user's ring");
        assert!(!is("kernel-events", "id:7", None), "a BPF map by its name");
        assert!(!is("kernel-0", "/sys/fs/bpf/kernel-0", None), "a BPF map by its path");
        assert!(!is("kernel-metrics", "/dev/shm/rings/kernel-metrics", None), "a metrics area");
    }
}
