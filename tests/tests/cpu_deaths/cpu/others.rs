//! A set of rings per CPU, three producers that are always at work in it, and all that is read from it.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use perfring_consumer::{
    Consumer, Item,
    files::{Recovered, recover},
    stat::Stat,
};
use perfring_producer::{CpuProducer, Options, ReserveError};
use perfring_tests::NUMBERED;
use perfring_tests::shared::{Raw, balance, reporter, said};
use std::path::{Path, PathBuf};

/// The number in the payloads of the process that is stopped and killed; the number of its signal handler; the others are
/// 1 to 3.
pub(crate) const VICTIM: u64 = 9;
pub(crate) const HANDLER: u64 = 8;
/// The number of a record without payload.
pub(crate) const EMPTY: u64 = u64::MAX;

/// The CPU of the ring, the producer, the number.
pub(crate) type Entry = (usize, u64, u64);

/// The CPUs that this thread may run on.
pub(crate) fn cpus() -> Vec<usize> {
    let may = sched_getaffinity(Pid::from_raw(0)).unwrap();
    (0..CpuSet::count()).filter(|cpu| may.is_set(*cpu).unwrap_or(false)).collect()
}

/// Moves this thread to a CPU.
pub(crate) fn go_to(cpu: usize) {
    may_run_on(&[cpu]);
}

/// Lets this thread, and its children, run on these CPUs.
pub(crate) fn may_run_on(cpus: &[usize]) {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(*cpu).unwrap());
    sched_setaffinity(Pid::from_raw(0), &set).unwrap();
}

/// A ring and its reader.
pub(crate) struct One {
    pub(crate) cpu: usize,
    pub(crate) path: PathBuf,
    consumer: Consumer,
    newest: u64,
    sample_id: bool,
    read: u64,
}

pub(crate) struct Others {
    pub(crate) dir: PathBuf,
    /// Where the victim runs.
    pub(crate) here: usize,
    /// Another CPU, if the machine has one.
    pub(crate) there: usize,
    pub(crate) rings: Vec<One>,
    producers: [CpuProducer; 3],
    seqs: [u64; 3],
    /// The records that must be read.
    expected: Vec<Entry>,
    /// The records that were read since.
    seen: Vec<Entry>,
    pub(crate) refused: u64,
    lost: u64,
}

impl Others {
    /// Makes the set, on two CPUs of these, and stays on the first.
    pub(crate) fn new(dir: &Path, cpus: &[usize], options: &Options) -> Self {
        let (here, there) = (cpus[0], cpus[cpus.len().min(2) - 1]);
        go_to(here);
        let producers = [
            CpuProducer::create(dir, options).unwrap(),
            CpuProducer::attach_as(dir, "two").unwrap(),
            CpuProducer::attach_as(dir, "three").unwrap(),
        ];
        let mut numbers = vec![here, there];
        numbers.dedup();
        for producer in &producers {
            for &cpu in &numbers {
                producer.attach_to(cpu as u32).unwrap();
            }
        }
        let ring = |cpu: usize| {
            let path = dir.join(format!("cpu{cpu}"));
            let consumer = Consumer::attach(&path).unwrap();
            One { cpu, path, consumer, newest: 0, sample_id: options.sample_id, read: 0 }
        };
        Others {
            dir: dir.to_owned(),
            here,
            there,
            rings: numbers.into_iter().map(ring).collect(),
            producers,
            seqs: [0; 3],
            expected: Vec::new(),
            seen: Vec::new(),
            refused: 0,
            lost: 0,
        }
    }

    /// Publishes a record by the `nth` producer: the last one has the other CPU to itself.
    pub(crate) fn publish(&mut self, nth: usize, len: usize) -> Result<(), ReserveError> {
        let cpu = if nth == 2 { self.there } else { self.here };
        if cpu != self.here {
            go_to(cpu);
        }
        let (who, seq) = (nth as u64 + 1, self.seqs[nth]);
        let done = self.producers[nth].publish_as(NUMBERED, &said(who, seq, len));
        if cpu != self.here {
            go_to(self.here);
        }
        match done {
            Ok(()) => self.expected.push((cpu, who, seq)),
            Err(_) => self.refused += 1,
        }
        self.seqs[nth] += 1;
        done
    }

    /// Publishes a few records by each, none of which is refused.
    pub(crate) fn publish_all(&mut self, each: u64) {
        for round in 0..each {
            for nth in 0..3 {
                self.publish(nth, 8 + (round as usize * 24 + nth * 8) % 80).unwrap();
            }
            if round % 8 == 7 {
                self.read();
            }
        }
    }

    /// Expects a record of another process, once.
    pub(crate) fn expect(&mut self, entry: Entry) {
        self.expected.push(entry);
    }

    /// The ring on the victim's CPU.
    pub(crate) fn ring(&self) -> &Path {
        &self.rings[0].path
    }

    /// Reads everything that is there.
    pub(crate) fn read(&mut self) {
        for ring in &mut self.rings {
            while let Some(item) = ring.consumer.read().unwrap() {
                match item {
                    Item::Record(record) => {
                        ring.read += 1;
                        let entry = match record.bytes.len() {
                            0 => (VICTIM, EMPTY),
                            _ => reporter(record.bytes),
                        };
                        self.seen.push((ring.cpu, entry.0, entry.1));
                        let time = record.time.unwrap_or_default();
                        assert!(time >= ring.newest, "{time} after {}", ring.newest);
                        ring.newest = time;
                        let by = record.writer.map(|by| by.pid.get() == std::process::id());
                        let here = (1..=3).contains(&entry.0);
                        assert_eq!(
                            by,
                            ring.sample_id.then_some(here),
                            "{entry:?} by {:?}",
                            record.writer
                        );
                    }
                    Item::Lost(lost) => self.lost += lost.records,
                }
            }
            ring.consumer.release();
        }
    }

    /// Returns the place of a record among the records read since the last check.
    pub(crate) fn position(&self, who: u64, seq: u64) -> Option<usize> {
        self.seen.iter().position(|entry| (entry.1, entry.2) == (who, seq))
    }

    /// Reads everything, and checks that each expected record is read once and in order, and that all
    /// totals are exact.
    pub(crate) fn check(&mut self, what: &str) {
        self.read();
        for who in [1, 2, 3, VICTIM] {
            let of = self.seen.iter().filter(|entry| entry.1 == who && entry.2 != EMPTY);
            let mut last = std::collections::BTreeMap::new();
            for entry in of {
                let before = last.insert(entry.0, entry.2);
                assert!(before < Some(entry.2), "{what}: {who} is not in order: {:?}", self.seen);
            }
        }
        let (mut seen, mut expected) =
            (std::mem::take(&mut self.seen), std::mem::take(&mut self.expected));
        seen.sort_unstable();
        expected.sort_unstable();
        assert_eq!(seen, expected, "{what}: read, and to be read");
        for ring in &self.rings {
            let totals = balance(&ring.path, false).totals.unwrap();
            // Of an overwrite ring everything is read, and nothing consumed.
            let left = totals.present.plus(totals.overwritten).records;
            assert!(left == 0 || left == ring.read, "{what}: {totals:?}");
            assert_eq!(totals.producer.written.records, ring.read, "{what}: {}", ring.cpu);
        }
    }

    /// Checks that the refusals, and no others, are counted and told.
    pub(crate) fn check_losses(&self) {
        let mut refused = 0;
        for ring in &self.rings {
            let totals = Stat::read(&ring.path).unwrap().totals.unwrap();
            refused += totals.producer.refused.total().records;
        }
        assert_eq!(refused, self.refused);
        assert_eq!(self.lost, refused);
    }

    /// Ends a dead process's reservations in the victim's ring, and checks that they equal the visible open reservations.
    pub(crate) fn recover(&self, what: &str) -> Recovered {
        let raw = Raw::read(self.ring());
        let recovered = recover(self.ring()).unwrap();
        assert_eq!(recovered.lock, raw.locked_by(), "{what}");
        let open = raw.beyond().iter().filter(|(_, word)| word.owner().is_some()).count() as u64;
        let swept: u64 = recovered.swept.iter().map(|(_, records)| records).sum();
        assert_eq!(swept, open, "{what}: {recovered:?}");
        recovered
    }

    /// Brings the ring on this CPU into a state in which a record of `size` bytes in all finds it open,
    /// with or without room before its limit.
    pub(crate) fn ready(&mut self, size: u64, room: bool) {
        for _ in 0..1000 {
            let raw = Raw::read(self.ring());
            let left = raw.field("cpu_limit").saturating_sub(raw.head());
            if raw.field("cpu_state") == 0 && (left >= size) == room {
                return;
            }
            // The smallest, which does not fill the block too far.
            self.publish(0, 8).unwrap();
            self.read();
        }
        panic!("the ring does not become ready");
    }
}
