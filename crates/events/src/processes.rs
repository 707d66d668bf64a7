//! The processes of a file, for readers that know a process by its number.
//!
//! A pid is unique in one pid namespace, and at one time. Two containers both have a process 1, and a restarted container
//! has it again. So each process gets a number that no other process of the same output has: the pid of the first one, and
//! a number from [`SYNTHETIC`] up for any other process of that pid. Threads likewise.

use super::event::Origin;
use perfring_context::Birth;
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// The first number that is no pid: the kernel's limit of pids (`PID_MAX_LIMIT`).
pub const SYNTHETIC: u32 = 1 << 22;
/// The limit of processes, and of threads, that are told apart.
const MOST: usize = 1 << 16;

/// All processes of an output so far.
#[derive(Debug)]
pub struct Processes {
    all: Vec<Process>,
    /// The processes that have this pid, by their places in `all`.
    by_pid: HashMap<u32, Vec<usize>>,
    /// By ring, epoch of its producer, and pid.
    seen: HashMap<(u32, u64, u32), usize>,
    /// The processes that have these numbers for themselves or for their threads.
    numbers: HashMap<u32, usize>,
    threads: HashMap<(usize, u32), u32>,
    next: u32,
}

impl Default for Processes {
    fn default() -> Self {
        Processes {
            all: Vec::new(),
            by_pid: HashMap::new(),
            seen: HashMap::new(),
            numbers: HashMap::new(),
            threads: HashMap::new(),
            next: SYNTHETIC,
        }
    }
}

/// What is known of a process.
#[derive(Debug)]
struct Process {
    number: u32,
    facts: Facts,
    /// The rings, or sets of them, that have it.
    places: HashSet<Place>,
}

/// What tells processes of one pid apart. What is unknown contradicts nothing.
#[derive(Clone, Debug, Default)]
struct Facts {
    /// The boot of its machine; zeros if unknown.
    boot: [u8; 16],
    birth: Option<Birth>,
    /// The start time that it reports in its resource.
    start: Option<u64>,
    /// The name under which it attached to a ring.
    name: String,
}

/// Where a pid means one process at a time, as far as anything says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Place {
    Ring([u8; 16]),
    /// The directory of a set of rings, one for each CPU.
    Set(String),
}

impl Place {
    fn of(origin: &Origin) -> Self {
        match Path::new(&origin.location).parent() {
            Some(set) if origin.per_cpu => Place::Set(set.to_string_lossy().into_owned()),
            _ => Place::Ring(origin.uuid),
        }
    }
}

impl Facts {
    fn of(origin: &Origin, pid: u32) -> Self {
        let is_owner = pid == origin.producer.pid && origin.policy.is_some();
        Facts {
            boot: origin.boot,
            birth: origin.birth.filter(|_| is_owner),
            start: None,
            name: if is_owner { origin.producer.name.clone() } else { String::new() },
        }
    }

    /// Returns whether both are of one process: `None` if nothing says so, nor the contrary.
    fn are_of(&self, other: &Facts) -> Option<bool> {
        let known = |boot: &[u8; 16]| *boot != [0; 16];
        if known(&self.boot) && known(&other.boot) && self.boot != other.boot {
            return Some(false);
        }
        if let (Some(one), Some(other)) = (self.birth, other.birth) {
            return Some(one == other);
        }
        if let (Some(one), Some(other)) = (self.start, other.start) {
            return Some(one == other);
        }
        match (self.name.is_empty(), other.name.is_empty()) {
            (false, false) => Some(self.name == other.name),
            _ => None,
        }
    }

    fn learn(&mut self, other: &Facts) {
        if self.boot == [0; 16] {
            self.boot = other.boot;
        }
        self.birth = self.birth.or(other.birth);
        self.start = self.start.or(other.start);
        if self.name.is_empty() {
            self.name.clone_from(&other.name);
        }
    }
}

impl Processes {
    /// Returns the number of the process that this ring calls `pid`; 0 for no process.
    pub fn number(&mut self, origin: &Origin, pid: u32) -> u32 {
        match self.place(origin, pid) {
            Some(at) => self.all.get(at).map_or(pid, |process| process.number),
            None => pid,
        }
    }

    /// Returns the number of a thread of the process that this ring calls `pid`.
    pub fn thread(&mut self, origin: &Origin, pid: u32, tid: u32) -> u32 {
        let Some(at) = self.place(origin, pid) else { return tid };
        if tid == pid {
            return self.all.get(at).map_or(pid, |process| process.number);
        }
        if let Some(number) = self.threads.get(&(at, tid)) {
            return *number;
        }
        if self.threads.len() >= MOST {
            return tid;
        }
        let number = self.claim(tid, at);
        self.threads.insert((at, tid), number);
        number
    }

    /// Learns from a resource when the process that this ring calls `pid` began to count. Another time than before is that
    /// of another process, which has the pid from now on.
    pub fn started(&mut self, origin: &Origin, pid: u32, start: u64) {
        let Some(at) = self.place(origin, pid) else { return };
        let key = key_of(origin, pid);
        // The birth that is known is that of the process before, if there was one.
        let now =
            self.all.get(at).filter(|process| process.facts.start.is_none_or(|its| its == start));
        let birth = now.and_then(|process| process.facts.birth);
        let told = Facts { boot: origin.boot, birth, start: Some(start), ..Facts::default() };
        let same = |process: &Process| {
            process.facts.start == Some(start) && process.facts.are_of(&told) == Some(true)
        };
        let known = self.by_pid.get(&pid).into_iter().flatten().copied();
        let other = known.filter(|at| self.all.get(*at).is_some_and(same)).min();
        let Some(process) = self.all.get_mut(at) else { return };
        let at = match (process.facts.start, other) {
            (_, Some(other)) => Some(other),
            (None, None) => {
                process.facts.start = Some(start);
                Some(at)
            }
            (Some(_), None) => self.add(pid, told),
        };
        if let Some(at) = at {
            self.note(at, Place::of(origin));
            self.seen.insert(key, at);
        }
    }

    /// Forgets a ring.
    pub fn ended(&mut self, origin: &Origin) {
        self.seen.retain(|(ring, ..), _| *ring != origin.id);
    }

    /// Finds or adds a process; `None` for pid 0, and beyond the limit.
    fn place(&mut self, origin: &Origin, pid: u32) -> Option<usize> {
        if pid == 0 {
            return None;
        }
        let key = key_of(origin, pid);
        if let Some(at) = self.seen.get(&key) {
            return Some(*at);
        }
        let facts = Facts::of(origin, pid);
        let place = Place::of(origin);
        let same = |process: &Process| match facts.are_of(&process.facts) {
            Some(is_it) => is_it,
            // The kernel's pids are those of the namespace that it was asked in.
            None if origin.policy.is_none() => match (origin.birth, process.facts.birth) {
                (Some(here), Some(born)) => here.namespace == born.namespace,
                _ => true,
            },
            None => process.places.contains(&place),
        };
        let known = self.by_pid.get(&pid).into_iter().flatten().copied();
        // The newest one has the pid now.
        let found = known.filter(|at| self.all.get(*at).is_some_and(same)).max();
        let at = match found {
            Some(at) => {
                self.all.get_mut(at)?.facts.learn(&facts);
                at
            }
            None => self.add(pid, facts)?,
        };
        self.note(at, place);
        if self.seen.len() >= MOST {
            self.seen.clear(); // they are found again by what is known of them
        }
        self.seen.insert(key, at);
        Some(at)
    }

    fn note(&mut self, at: usize, place: Place) {
        if let Some(process) = self.all.get_mut(at)
            && process.places.len() < MOST
        {
            process.places.insert(place);
        }
    }

    fn add(&mut self, pid: u32, facts: Facts) -> Option<usize> {
        let at = self.all.len();
        if at >= MOST {
            return None;
        }
        let number = self.claim(pid, at);
        self.all.push(Process { number, facts, places: HashSet::new() });
        self.by_pid.entry(pid).or_default().push(at);
        Some(at)
    }

    /// Returns this number if no other process has it, else a synthetic one.
    fn claim(&mut self, wanted: u32, at: usize) -> u32 {
        let mut number = wanted;
        while self.numbers.get(&number).is_some_and(|owner| *owner != at) {
            number = self.next;
            self.next = self.next.wrapping_add(1).max(SYNTHETIC);
        }
        self.numbers.insert(number, at);
        number
    }
}

fn key_of(origin: &Origin, pid: u32) -> (u32, u64, u32) {
    (origin.id, origin.producer.epoch, pid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfring_consumer::{Policy, stat::OwnerInfo};

    /// A ring with a number, which is its uuid as well, and its producer.
    fn ring(id: u8, pid: u32, name: &str) -> Origin {
        Origin {
            id: id.into(),
            uuid: [id; 16],
            location: format!("/dev/shm/{id}/ring"),
            policy: Some(Policy::Drop),
            producer: OwnerInfo { epoch: 1, pid, name: name.into(), ..OwnerInfo::default() },
            ..Origin::default()
        }
    }

    fn born(origin: Origin, namespace: u64, started_ns: u64) -> Origin {
        Origin { birth: Some(Birth { namespace, started_ns }), ..origin }
    }

    fn numbers(rings: &[Origin]) -> Vec<u32> {
        let mut processes = Processes::default();
        let mut number = |ring: &Origin| processes.number(ring, ring.producer.pid);
        let first: Vec<u32> = rings.iter().map(&mut number).collect();
        let again: Vec<u32> = rings.iter().map(&mut number).collect();
        assert_eq!(first, again, "a ring's process keeps its number");
        first
    }

    #[test]
    fn processes_of_one_pid_are_told_apart_by_all_that_is_known_of_them() {
        let shop = || ring(1, 1, "shop");
        // One process with two rings, and two processes of two names.
        assert_eq!(numbers(&[shop(), ring(2, 1, "shop")]), [1, 1]);
        assert_eq!(numbers(&[shop(), ring(2, 1, "pay")]), [1, SYNTHETIC]);
        // By birth: one process names itself differently in its rings; two containers run one program.
        assert_eq!(numbers(&[born(shop(), 7, 5), born(ring(2, 1, "log"), 7, 5)]), [1, 1]);
        assert_eq!(numbers(&[born(shop(), 7, 5), born(ring(2, 1, "shop"), 8, 5)]), [1, SYNTHETIC]);
        assert_eq!(numbers(&[born(shop(), 7, 5), born(ring(2, 1, "shop"), 7, 6)]), [1, SYNTHETIC]);
        // By boot: of two machines, or before and after a restart of one.
        let boot = |origin, byte| Origin { boot: [byte; 16], ..origin };
        assert_eq!(numbers(&[boot(shop(), 1), boot(ring(2, 1, "shop"), 2)]), [1, SYNTHETIC]);
        assert_eq!(numbers(&[boot(shop(), 1), boot(ring(2, 1, "shop"), 1)]), [1, 1]);
        // The next producer of a ring may have the pid of the one before.
        let mut next = born(shop(), 7, 9);
        next.producer.epoch = 2;
        assert_eq!(numbers(&[born(shop(), 7, 5), next]), [1, SYNTHETIC]);
        // A producer that has no name is not the one of another ring.
        assert_eq!(numbers(&[ring(1, 1, ""), ring(2, 1, "")]), [1, SYNTHETIC]);
    }

    #[test]
    fn no_number_is_used_twice_whatever_pids_there_are() {
        let rings = [
            ring(1, 5, "a"),
            ring(2, 5, "b"),
            ring(3, SYNTHETIC, "c"),
            ring(4, 5, "d"),
            ring(5, u32::MAX, "e"),
        ];
        let synthetic = SYNTHETIC;
        assert_eq!(numbers(&rings), [5, synthetic, synthetic + 1, synthetic + 2, u32::MAX]);
        // A thread of one process has the number of another process.
        let mut processes = Processes::default();
        let [one, two] = [ring(1, 5, "a"), ring(2, 6, "b")];
        assert_eq!(processes.number(&one, 5), 5);
        assert_eq!(processes.thread(&one, 5, 6), 6);
        assert_eq!(processes.number(&two, 6), SYNTHETIC);
        assert_eq!(processes.thread(&two, 6, 6), SYNTHETIC);
        assert_eq!(processes.thread(&two, 6, 5), SYNTHETIC + 1);
        assert_eq!(processes.thread(&one, 5, 6), 6);
    }

    #[test]
    fn a_pid_in_a_record_is_of_its_ring_or_of_its_set() {
        let mut processes = Processes::default();
        let [one, two] = [ring(1, 5, "a"), ring(2, 6, "b")];
        assert_eq!(processes.number(&one, 9), 9);
        assert_eq!(processes.number(&two, 9), SYNTHETIC);
        let of_set = |id, set: &str| Origin {
            location: format!("/dev/shm/{set}/{id}"),
            per_cpu: true,
            ..ring(id, 0, "")
        };
        let (cpu_0, cpu_1, other) = (of_set(3, "set"), of_set(4, "set"), of_set(5, "other"));
        assert_eq!(processes.number(&cpu_0, 77), 77);
        assert_eq!(processes.number(&cpu_1, 77), 77);
        assert_eq!(processes.number(&other, 77), SYNTHETIC + 1);
        // The kernel's process is the one of that pid, except if that is of another namespace.
        let here = |origin| Origin { policy: None, ..born(origin, 4, 0) };
        assert_eq!(processes.number(&here(ring(6, 0, "")), 5), 5);
        assert_eq!(processes.number(&born(ring(7, 1, "x"), 5, 1), 1), 1);
        assert_eq!(processes.number(&here(ring(6, 0, "")), 1), SYNTHETIC + 2);
        assert_eq!(processes.number(&one, 0), 0);
    }

    #[test]
    fn a_resource_says_which_process_it_is() {
        let mut processes = Processes::default();
        let [one, two] = [ring(1, 5, ""), ring(2, 5, "")];
        assert_eq!(processes.number(&one, 5), 5);
        assert_eq!(processes.number(&two, 5), SYNTHETIC);
        processes.started(&one, 5, 100);
        processes.started(&two, 5, 100);
        assert_eq!(processes.number(&two, 5), 5, "it is one process after all");
        // The pid was used again, for another process.
        processes.started(&two, 5, 200);
        assert_eq!(processes.number(&two, 5), SYNTHETIC + 1);
        assert_eq!(processes.number(&one, 5), 5);
    }
}
