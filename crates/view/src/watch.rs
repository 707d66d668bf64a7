//! Polls rings and computes their rows.

use crate::rates::{Counts, Rates};
use crate::row::{
    Holder, Reader, Row, State, consumer_pos, lag, losses, producer, producers, state,
};
use perfring_consumer::{
    AttachError, Location, Observer, Policy, Start,
    stat::{Count, Stat},
};
use perfring_figures::accounts::Fill;
use perfring_figures::named::slowest_pos;
use perfring_figures::owner;
use perfring_figures::process::Processes;
use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What is remembered of a ring between two polls.
#[derive(Debug)]
struct Watched {
    id: u32,
    name: String,
    observer: Observer,
    before: Option<Before>,
    rates: Rates,
}

/// The seat of a consumer without a name, among those of named ones.
const ONLY: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Before {
    written: Count,
    lost: u64,
    /// How far the consumer was, or the slowest named one.
    read_to: u64,
    /// When records were last found to be written.
    wrote_at: Instant,
    /// When the consumer was last found to move, or to have nothing to do.
    read_at: Instant,
}

/// The paths that are watched, and the rings found present.
#[derive(Debug, Default)]
pub struct Watch {
    paths: Vec<PathBuf>,
    /// Rates are over at least this time.
    span: Duration,
    rings: HashMap<(u64, u64), Watched>,
    ids: u32,
    /// Files that are no rings: not opened again.
    pub others: HashSet<(u64, u64)>,
    /// Why files could not be opened at the last poll: each is tried again at the next.
    pub closed: Vec<String>,
}

impl Watch {
    /// Watches rings, those of directories, and those of the directories in them, which are sets of rings. Rates are over at
    /// least this `span`, and otherwise since the previous poll.
    #[must_use]
    pub fn new(paths: Vec<PathBuf>, span: Duration) -> Self {
        Watch { paths, span, ..Watch::default() }
    }

    /// Reads the figures of all rings that are there now.
    pub fn peek(&mut self, now: Instant) -> Vec<Row> {
        let began = Instant::now();
        let mut present = HashMap::new();
        for path in &self.paths {
            find(path, 2, &mut present);
        }
        self.rings.retain(|id, _| present.contains_key(id));
        self.others.retain(|id| present.contains_key(id));
        self.closed.clear();
        for (id, path) in present {
            if self.rings.contains_key(&id) || self.others.contains(&id) {
                continue;
            }
            match Observer::attach(Location::File(path), Start::Latest) {
                Ok(observer) => {
                    let name = observer.location().name(observer.layout());
                    self.rings.insert(id, Watched::new(self.ids, name, observer));
                    self.ids += 1;
                }
                // One that becomes a ring later gets another inode: rings are renamed into place.
                Err(AttachError::Bad { .. }) => drop(self.others.insert(id)),
                Err(AttachError::NotFound { .. } | AttachError::Removed { .. }) => {}
                Err(error) => self.closed.push(error.to_string()),
            }
        }
        let mut processes = Processes::default();
        let span = self.span;
        let read_at = || now.checked_add(began.elapsed()).unwrap_or(now);
        let rings = self.rings.values_mut();
        rings.map(|ring| ring.peek((now, read_at()), span, &mut processes)).collect()
    }

    /// Returns another observer of a ring, also if its file was removed since the last poll; `None` if there is no
    /// such ring any more, or it cannot be read from there.
    #[must_use]
    pub fn observer(&self, id: u32, start: Start) -> Option<Observer> {
        let ring = self.rings.values().find(|ring| ring.id == id)?;
        ring.observer.again(start).ok()
    }
}

/// Finds the ring at `path`, or the files in it and in its directories, so many directories deep.
fn find(path: &Path, depth: u32, present: &mut HashMap<(u64, u64), PathBuf>) {
    let Ok(entries) = std::fs::read_dir(path) else { return add(path.to_owned(), present) };
    for entry in entries.flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        match is_dir {
            true if depth > 1 => find(&entry.path(), depth - 1, present),
            true => {}
            false => add(entry.path(), present),
        }
    }
}

fn add(path: PathBuf, present: &mut HashMap<(u64, u64), PathBuf>) {
    if let Ok(meta) = std::fs::metadata(&path)
        && meta.is_file()
    {
        present.insert((meta.dev(), meta.ino()), path);
    }
}

impl Watched {
    fn new(id: u32, name: String, observer: Observer) -> Self {
        Watched { id, name, observer, before: None, rates: Rates::default() }
    }

    fn peek(
        &mut self,
        (now, read_at): (Instant, Instant),
        span: Duration,
        processes: &mut Processes,
    ) -> Row {
        let location = self.observer.location().to_string();
        let damaged = |trouble: String, stat: Option<Stat>| Row {
            id: self.id,
            name: self.name.clone(),
            location: location.clone(),
            state: State::Damaged,
            trouble: Some(trouble),
            fill: Fill { used: 0, size: self.observer.layout().data_size },
            stat,
            ..Row::default()
        };
        let stat = match self.observer.stat() {
            Ok(stat) => stat,
            Err(error) => return damaged(error.to_string(), None),
        };
        let Some(totals) = stat.totals else {
            return damaged("no producer writes such figures".to_owned(), Some(stat));
        };
        // How far the one consumer has come, or the slowest named one.
        let read_to = slowest_pos(&stat).unwrap_or(totals.consumer.read.records);
        let (written, read) = (totals.producer.written, totals.consumer.read);
        let lost =
            losses(&totals).iter().fold(0, |sum: u64, (_, of)| sum.saturating_add(of.records));
        let lag = lag(&stat);
        let first = Before { written, lost, read_to, wrote_at: now, read_at: now };
        let before = self.before.unwrap_or(first);
        let stays = read_to == before.read_to && lag.unwrap_or(0) > 0;
        let after = Before {
            wrote_at: if written == before.written { before.wrote_at } else { now },
            read_at: if stays { before.read_at } else { now },
            ..first
        };
        self.before = Some(after);
        let named = stat.consumers.iter().map(|of| (of.number, of.figures.totals.read.records));
        let read_by = named.chain([(ONLY, read.records)]).collect();
        self.rates.renew(Counts { at: now, read_at, written, read, lost, read_by }, span);
        let quiet = now.duration_since(after.wrote_at);
        let unread = now.duration_since(after.read_at);
        let at = self.observer.location().clone();
        Row {
            id: self.id,
            name: self.name.clone(),
            trouble: (stat.held_up.as_ref())
                .map(|held| format!("held up {}", owner::held_up(&at, &stat, held)))
                .or_else(|| stat.metrics.trouble()),
            location,
            state: state(&stat, lag, lost > before.lost, quiet, unread),
            fill: Fill::of_data(&stat, &totals),
            rate: self.rates.written,
            read_rate: self.rates.read,
            lag,
            lost,
            lost_rate: self.rates.lost,
            producer: producer(&stat),
            producers: (producers(&stat).into_iter())
                .map(|(state, owner)| Holder::of(state, owner, &at, processes))
                .collect(),
            readers: self.readers(&stat, &at, processes),
            stat: Some(stat),
            details: Vec::new(),
        }
    }

    fn readers(&self, stat: &Stat, at: &Location, processes: &mut Processes) -> Vec<Reader> {
        let mut readers = Vec::new();
        let only = &stat.consumer;
        if stat.layout.consumers == 0
            && only.owner.epoch > 0
            && let Some(totals) = &stat.totals
        {
            let pos = consumer_pos(stat, totals);
            readers.push(Reader {
                holder: Holder::of(only.state, &only.owner, at, processes),
                unread: Count {
                    records: lag(stat).unwrap_or(0),
                    bytes: totals.head.saturating_sub(pos),
                },
                pos,
                missed: totals.consumer.lapped.records,
                slowest: stat.layout.policy == Policy::Drop,
                rate: self.rates.read_by.get(&ONLY).copied(),
            });
        }
        for named in &stat.consumers {
            readers.push(Reader {
                holder: Holder::of(named.state, &named.owner, at, processes),
                unread: named.figures.unread,
                pos: named.figures.totals.pos,
                missed: named.figures.totals.lapped.records,
                slowest: named.figures.slowest,
                rate: self.rates.read_by.get(&named.number).copied(),
            });
        }
        readers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfring_consumer::Consumer;
    use perfring_producer::{CpuProducer, Options, Producer};
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    use std::time::Duration;

    /// Polls of a test are so far apart that it does not matter how late they read. Rates are per unit.
    const UNIT: Duration = Duration::from_secs(1_000_000);

    fn row(rows: &[Row], name: &str) -> Row {
        let mut row = rows.iter().find(|row| row.name == name).expect("the ring").clone();
        row.describe();
        let unit = UNIT.as_secs_f64();
        row.rate =
            row.rate.map(|(records, bytes)| ((records * unit).round(), (bytes * unit).round()));
        row.lost_rate = (row.lost_rate * unit * 10.0).round() / 10.0;
        row
    }

    #[test]
    fn rates_lags_losses_and_states_are_those_of_the_rings() {
        let dir = tempfile::tempdir().expect("a directory");
        let small = Options { size: 4096, ..Options::default() };
        let mut one = Producer::create(dir.path().join("one"), &small).expect("a ring");
        let two = Producer::create(dir.path().join("two"), &small).expect("a ring");
        std::fs::write(dir.path().join("other"), "not a ring").expect("a file");
        let mut watch = Watch::new(vec![dir.path().to_owned()], Duration::ZERO);
        let start = Instant::now();
        assert_eq!(watch.peek(start).len(), 2);
        assert_eq!(watch.others.len(), 1);
        for _ in 0..10 {
            one.publish(&[0; 56]).expect("room");
        }
        let rows = watch.peek(start + 2 * UNIT);
        let at = row(&rows, "one");
        assert_eq!((at.rate, at.lag, at.fill.used), (Some((5.0, 320.0)), Some(10), 640));
        assert_eq!(
            (at.state, row(&rows, "two").state),
            (State::NoConsumer, State::Quiet(2 * UNIT))
        );

        let mut consumer = Consumer::attach(dir.path().join("one")).expect("the ring");
        let _ = consumer.read();
        let rows = watch.peek(start + 3 * UNIT);
        assert_eq!(row(&rows, "one").state, State::Stalled(3 * UNIT));
        while one.publish(&[0; 56]).is_ok() {}
        let at = row(&watch.peek(start + 5 * UNIT), "one");
        assert_eq!((at.state, at.lost, at.lost_rate), (State::Losing, 1, 0.5));
        drop((one, two));
        let rows = watch.peek(start + 6 * UNIT);
        assert_eq!(row(&rows, "two").state, State::Ended);
        while consumer.read().expect("sound").is_some() {}
        consumer.release();
        drop(consumer);
        let rows = watch.peek(start + 7 * UNIT);
        assert_eq!((row(&rows, "one").state, row(&rows, "one").lag), (State::Ended, Some(0)));
        std::fs::remove_file(dir.path().join("one")).expect("the ring");
        assert_eq!(watch.peek(start + 8 * UNIT).len(), 1);
    }

    #[test]
    fn a_producer_of_rings_per_cpu_that_has_ended_is_detached_and_forgotten_for_another() {
        let dir = tempfile::tempdir().expect("a directory");
        let set = dir.path().join("set");
        drop(CpuProducer::create(&set, &Options::per_cpu()).expect("rings per CPU"));
        let mut watch = Watch::new(vec![dir.path().to_owned()], Duration::ZERO);
        let hows = |watch: &mut Watch| -> Vec<Vec<&'static str>> {
            let rows = watch.peek(Instant::now());
            rows.iter().map(|row| row.producers.iter().map(|of| of.how).collect()).collect()
        };
        for how in hows(&mut watch) {
            assert_eq!(how, ["detached"]);
        }
        let second = CpuProducer::attach(&set).expect("a slot");
        second.publish(b"x").expect("room");
        assert!(hows(&mut watch).contains(&vec!["alive"]), "{:?}", hows(&mut watch));
    }

    #[test]
    fn of_named_consumers_the_slowest_counts_and_each_is_shown() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("ring");
        let options = Options { size: 4096, consumers: 3, ..Options::default() };
        let mut producer = Producer::create(&path, &options).expect("a ring");
        let mut watch = Watch::new(vec![path.clone()], Duration::ZERO);
        let start = Instant::now();
        let mut peek = |seconds| row(&watch.peek(start + seconds * UNIT), "ring");
        let [mut fast, mut slow] =
            ["fast", "slow"].map(|name| Consumer::attach_as(&path, name).expect("a seat"));
        for _ in 0..10 {
            producer.publish(&[0; 56]).expect("room");
        }
        while fast.read().expect("sound").is_some() {}
        fast.release();
        let shown = |row: &Row| {
            let lines = row.details.iter().filter(|(name, _)| name == "consumer");
            lines.map(|(_, line)| line.split(": ").last().expect("text").to_owned()).collect()
        };
        let at = peek(1);
        assert_eq!((at.lag, at.fill.used), (Some(10), 640));
        let lines: Vec<String> = shown(&at);
        assert_eq!(lines, ["caught up", "a full ring waits for it"]);
        assert_eq!(peek(4).state, State::Stalled(3 * UNIT));
        slow.read().expect("sound");
        slow.release();
        let at = peek(5);
        assert_eq!((at.lag, at.fill.used), (Some(9), 576), "whether or not a producer has seen it");
        drop((fast, slow));
        assert_eq!(peek(6).state, State::NoConsumer);
    }

    const RING: &str = "PERFRING_TEST_VIEW_RING";

    /// Runs only as a child of the test below: a producer, until it is killed.
    #[test]
    fn a_producer_on_request() {
        let Ok(ring) = std::env::var(RING) else { return };
        let producer = Producer::open_or_create(&*ring, &Options::default()).expect("a ring");
        println!("\nattached");
        let _ = std::io::stdin().read_line(&mut String::new());
        drop(producer);
    }

    #[test]
    fn a_producer_that_was_killed_is_dead_whoever_saw_it_and_one_that_detached_is_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("ring");
        let attached = || {
            let mut child = Command::new(std::env::current_exe().expect("this program"))
                .args(["--exact", "watch::tests::a_producer_on_request", "--nocapture"])
                .env(RING, &path)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("this program");
            let mut lines = BufReader::new(child.stdout.take().expect("its stdout")).lines();
            assert!(lines.by_ref().any(|line| line.is_ok_and(|line| line == "attached")));
            (child, lines)
        };
        let (mut child, _lines) = attached();
        let how = |watch: &mut Watch| watch.peek(Instant::now())[0].producers[0].how;
        let mut watch = Watch::new(vec![path.clone()], Duration::ZERO);
        assert_eq!(how(&mut watch), "alive");
        child.kill().expect("it runs");
        child.wait().expect("it was killed");
        assert_eq!(how(&mut watch), "dead");
        assert_eq!(
            how(&mut Watch::new(vec![path.clone()], Duration::ZERO)),
            "dead",
            "nobody saw it"
        );
        let producer = Producer::attach(&path).expect("a free seat");
        assert_eq!(how(&mut watch), "alive");
        drop(producer);
        assert_eq!(how(&mut watch), "detached", "its process goes on");
        let (mut child, _lines) = attached();
        assert_eq!(how(&mut watch), "alive");
        drop(child.stdin.take());
        assert!(child.wait().expect("it ends").success());
        assert_eq!(how(&mut watch), "detached", "its process has ended");
    }
}
