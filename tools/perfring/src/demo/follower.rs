//! The sidecar's reader of one ring: a thread that counts, checks and times every record.

use super::records::{Cpu, Sample};
use super::screen::{Amount, Bytes, Nanos};
use super::{Station, now_ns};
use crate::failure::Failure;
use hdrhistogram::Histogram;
use perfring_consumer::{Cause, Consumer, Corrupt, Count, Item, Lost, Observer, Policy, Start};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// What was seen of one ring.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) records: u64,
    pub(super) bytes: u64,
    /// Told in the stream, by cause.
    pub(super) full: Count,
    pub(super) too_large: Count,
    pub(super) lapped: Count,
    /// Sequence numbers that did not come.
    pub(super) missing: u64,
    /// The sequence number that comes next.
    pub(super) next_seq: u64,
    /// Records that are not what their type says, or out of order.
    pub(super) wrong: u64,
    /// The times of the first and the last record.
    first_ns: u64,
    last_ns: u64,
    /// From the record's own time to the moment it was read, ns.
    pub(super) latency: Histogram<u64>,
    pub(super) damage: Option<Corrupt>,
    says: Says,
}

impl Seen {
    fn new() -> Result<Self, Failure> {
        const MINUTE: u64 = 60_000_000_000;
        let latency = Histogram::new_with_bounds(1, MINUTE, 3)
            .map_err(|error| Failure::General(format!("demo: {error}")))?;
        Ok(Seen {
            records: 0,
            bytes: 0,
            full: Count::default(),
            too_large: Count::default(),
            lapped: Count::default(),
            missing: 0,
            next_seq: 0,
            wrong: 0,
            first_ns: 0,
            last_ns: 0,
            latency,
            damage: None,
            says: Says::default(),
        })
    }

    pub(super) fn lost(&self) -> u64 {
        self.full.records + self.too_large.records + self.lapped.records
    }

    /// Records per second, from the first to the last.
    pub(super) fn rate(&self) -> u64 {
        let ns = self.last_ns.saturating_sub(self.first_ns).max(1);
        (self.records.saturating_sub(1) as f64 * 1e9 / ns as f64).round() as u64
    }

    pub(super) fn quantile(&self, quantile: f64) -> Nanos {
        Nanos(self.latency.value_at_quantile(quantile))
    }

    /// What the records say, since this was last asked.
    pub(super) fn says(&mut self) -> String {
        self.says.line()
    }

    fn item(&mut self, item: Item<'_>) {
        match item {
            Item::Record(record) => match Sample::decode(record.kind, record.bytes) {
                Some(sample) => self.sample(&sample, record.bytes.len()),
                None => self.wrong += 1,
            },
            Item::Lost(Lost { records, bytes, cause, .. }) => {
                let count = match cause {
                    Cause::Lapped => &mut self.lapped,
                    Cause::TooLarge => &mut self.too_large,
                    _ => &mut self.full,
                };
                *count = count.plus(Count { records, bytes });
            }
        }
    }

    fn sample(&mut self, sample: &Sample<'_>, len: usize) {
        let stamp = sample.stamp();
        if self.records == 0 {
            self.first_ns = stamp.time_ns;
        }
        self.last_ns = stamp.time_ns;
        self.records += 1;
        self.bytes += len as u64;
        match stamp.seq.checked_sub(self.next_seq) {
            Some(gap) => {
                self.missing += gap;
                self.next_seq = stamp.seq + 1;
            }
            None => self.wrong += 1,
        }
        self.latency.saturating_record(now_ns().saturating_sub(stamp.time_ns));
        self.says.take(sample);
    }
}

/// A thread that follows a ring.
#[derive(Debug)]
pub(super) struct Follower {
    seen: Arc<Mutex<Seen>>,
    end: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

enum Source {
    Consumer(Consumer),
    Observer(Observer),
}

impl Follower {
    /// Attaches to a station's ring: as the consumer where records wait for one, as an observer of
    /// a flight recorder.
    pub(super) fn start(station: &Station, dir: &Path) -> Result<Self, Failure> {
        let path = dir.join(station.name);
        let source = match station.policy {
            Policy::Drop => Source::Consumer(Consumer::attach_as(&path, "demo sidecar")?),
            Policy::Overwrite => Source::Observer(Observer::open(&path, Start::Oldest)?),
        };
        let seen = Arc::new(Mutex::new(Seen::new()?));
        let end = Arc::new(AtomicBool::new(false));
        let (to, until) = (Arc::clone(&seen), Arc::clone(&end));
        let thread = std::thread::spawn(move || follow(source, &to, &until));
        Ok(Follower { seen, end, thread })
    }

    /// What was seen so far.
    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        lock(&self.seen)
    }

    /// Reads what is still there, and leaves the ring.
    pub(super) fn finish(self) -> Arc<Mutex<Seen>> {
        self.end.store(true, Ordering::Relaxed); // Relaxed: hands nothing over
        // A thread that panicked leaves what it saw; the books will not balance.
        let _ = self.thread.join();
        self.seen
    }
}

pub(super) fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Items that are read under one lock: a screen never waits for long.
const TURN: usize = 512;

fn follow(mut source: Source, seen: &Mutex<Seen>, end: &AtomicBool) {
    loop {
        let last = end.load(Ordering::Relaxed); // Relaxed: as above
        let mut seen = lock(seen);
        let mut read = 0;
        while read < TURN {
            let item = match &mut source {
                Source::Consumer(consumer) => consumer.read(),
                Source::Observer(observer) => observer.read(),
            };
            match item {
                Ok(Some(item)) => seen.item(item),
                Ok(None) => break,
                Err(damage) => {
                    seen.damage = Some(damage);
                    return;
                }
            }
            read += 1;
        }
        drop(seen);
        if read == TURN {
            continue;
        }
        if last {
            return;
        }
        let limit = Duration::from_millis(50);
        match &mut source {
            Source::Consumer(consumer) => consumer.wait(limit),
            Source::Observer(observer) => observer.wait(limit),
        };
    }
}

/// The records in words.
#[derive(Debug, Default)]
struct Says {
    cpu: Option<Cpu>,
    cpu_before: Option<Cpu>,
    io: Option<IoSum>,
    io_before: Option<IoSum>,
    gap_ns: u64,
    late_ns: u64,
    line: String,
}

#[derive(Clone, Copy, Debug)]
struct IoSum {
    time_ns: u64,
    disk: u64,
    net: u64,
}

impl Says {
    fn take(&mut self, sample: &Sample<'_>) {
        match *sample {
            Sample::Cpu(sample) if sample.cpu == Cpu::ALL => self.cpu = Some(*sample),
            Sample::Cpu(_) => {}
            Sample::Memory(memory) => {
                let percent = memory.available * 100 / memory.total.max(1);
                let total = Bytes(memory.total);
                self.line = format!("{percent}% of {total} free, load {:.2}", memory.load);
            }
            Sample::Io(io) => {
                let disks = io.disks.iter();
                let disk = disks.map(|disk| disk.read_bytes + disk.written_bytes).sum();
                let nets = io.nets.iter();
                let net = nets.map(|net| net.received_bytes + net.sent_bytes).sum();
                self.io = Some(IoSum { time_ns: io.time_ns.to_native(), disk, net });
            }
            Sample::Processes(all) => {
                self.line = format!("{} run", all.count);
                if let Some(first) = all.busiest.first() {
                    let percent = first.cpu_permille.to_native() / 10;
                    self.line += &format!(", {} {percent}%", first.name);
                }
            }
            Sample::Pulse(pulse) => {
                self.gap_ns = self.gap_ns.max(pulse.gap_ns);
                self.late_ns = self.late_ns.max(pulse.late_ns);
            }
        }
    }

    /// What is to be said of the time since the last call.
    fn line(&mut self) -> String {
        if let Some(now) = self.cpu {
            let before = self.cpu_before.replace(now).unwrap_or_default();
            let total = now.total().saturating_sub(before.total());
            let busy = now.busy().saturating_sub(before.busy());
            // Less than a clock tick may have passed: then the last word stands.
            if let Some(percent) = (busy * 100).checked_div(total) {
                let switches = now.switches.saturating_sub(before.switches) * 1_000_000_000;
                let time = now.stamp.time_ns.saturating_sub(before.stamp.time_ns).max(1);
                self.line = match before.stamp.time_ns {
                    0 => format!("{percent}% busy since boot"),
                    _ => format!("{percent}% busy, {} cs/s", Amount(switches / time)),
                };
            }
        }
        if let (Some(now), Some(before)) = (self.io, self.io_before)
            && now.time_ns > before.time_ns
        {
            let seconds = (now.time_ns - before.time_ns) as f64 / 1e9;
            let rate =
                |now: u64, before: u64| Bytes((now.saturating_sub(before) as f64 / seconds) as u64);
            self.line = format!(
                "disk {}/s, net {}/s",
                rate(now.disk, before.disk),
                rate(now.net, before.net)
            );
        }
        self.io_before = self.io.or(self.io_before);
        if self.gap_ns > 0 {
            let (gap, late) = (Nanos(self.gap_ns), Nanos(self.late_ns));
            self.line = format!("gap {gap}, late {late}");
            (self.gap_ns, self.late_ns) = (0, 0);
        }
        self.line.clone()
    }
}
