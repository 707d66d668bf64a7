//! Polls rings and computes their rows.

use crate::figures::accounts::{Fill, counts, is_fed};
use crate::named::{self, is_read, slowest_pos};
use crate::owner;
use perfring_consumer::{Count, Location, Observer, Policy, Start, Stat};
use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longer than this without a step, and a ring is shown as quiet, or its consumer as stalled.
const STILL: Duration = Duration::from_secs(2);

/// A ring's state, from what needs no attention to what needs it now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    /// It is written to, and read if it must be.
    #[default]
    Ok,
    /// Nothing was written for this long.
    Quiet(Duration),
    /// No producer, and nothing to read.
    Ended,
    /// No producer, and unread records.
    NoProducer,
    /// Unread records, and no consumer.
    NoConsumer,
    /// The consumer is alive and has not moved for this long.
    Stalled(Duration),
    Losing,
    /// A reservation or the lock holds the ring up.
    HeldUp,
    /// It cannot be read.
    Damaged,
}

impl State {
    /// Formats it in a dozen columns.
    pub(super) fn text(self) -> String {
        match self {
            State::Ok => "ok".to_owned(),
            State::Quiet(time) => format!("quiet {}", short(time)),
            State::Ended => "ended".to_owned(),
            State::NoProducer => "no producer".to_owned(),
            State::NoConsumer => "no consumer".to_owned(),
            State::Stalled(time) => format!("stalled {}", short(time)),
            State::Losing => "losing".to_owned(),
            State::HeldUp => "held up".to_owned(),
            State::Damaged => "damaged".to_owned(),
        }
    }
}

/// Formats a time in four columns.
fn short(time: Duration) -> String {
    match time.as_secs() {
        s @ ..100 => format!("{s}s"),
        s @ 100..6_000 => format!("{}m", s / 60),
        s @ 6_000..360_000 => format!("{}h", s / 3_600),
        s => format!("{}d", s / 86_400),
    }
}

/// A ring at the last poll.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) location: String,
    pub(super) state: State,
    /// A message about what is wrong, if anything is.
    pub(super) trouble: Option<String>,
    pub(super) fill: Fill,
    /// Records and bytes a second, since the previous poll.
    pub(super) rate: Option<(f64, f64)>,
    /// Records that the consumer, or the slowest named one, has not read; `None` if an overwrite ring never had a consumer.
    pub(super) lag: Option<u64>,
    /// Records lost, by all causes, since the ring was created.
    pub(super) lost: u64,
    pub(super) lost_rate: f64,
    /// The producer, or how many.
    pub(super) producer: String,
    /// Names and values shown below the table.
    pub(super) details: Vec<(String, String)>,
}

/// What is remembered of a ring between two polls.
#[derive(Debug)]
struct Watched {
    name: String,
    observer: Observer,
    before: Option<Before>,
}

#[derive(Clone, Copy, Debug)]
struct Before {
    at: Instant,
    written: Count,
    lost: u64,
    read: u64,
    /// When records were last found to be written.
    wrote_at: Instant,
    /// When the consumer was last found to move, or to have nothing to do.
    read_at: Instant,
}

/// The paths that are watched, and the rings found present.
#[derive(Debug, Default)]
pub(super) struct Watch {
    paths: Vec<PathBuf>,
    rings: HashMap<(u64, u64), Watched>,
    /// Files that are no rings: not opened again.
    pub(super) others: HashSet<(u64, u64)>,
}

impl Watch {
    pub(super) fn new(paths: Vec<PathBuf>) -> Self {
        Watch { paths, ..Watch::default() }
    }

    pub(super) fn peek(&mut self, now: Instant) -> Vec<Row> {
        let mut present = HashMap::new();
        for path in &self.paths {
            find(path, &mut present);
        }
        self.rings.retain(|id, _| present.contains_key(id));
        self.others.retain(|id| present.contains_key(id));
        for (id, path) in present {
            if self.rings.contains_key(&id) || self.others.contains(&id) {
                continue;
            }
            let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
            match Observer::open(Location::File(path), Start::Latest) {
                Ok(observer) => {
                    self.rings.insert(id, Watched { name, observer, before: None });
                }
                // One that becomes a ring later gets another inode: rings are renamed into place.
                Err(_) => drop(self.others.insert(id)),
            }
        }
        self.rings.values_mut().map(|ring| ring.peek(now)).collect()
    }
}

/// Finds the ring at `path`, or the files in it.
fn find(path: &Path, present: &mut HashMap<(u64, u64), PathBuf>) {
    let mut add = |path: PathBuf| {
        if let Ok(meta) = std::fs::metadata(&path)
            && meta.is_file()
        {
            present.insert((meta.dev(), meta.ino()), path);
        }
    };
    match std::fs::read_dir(path) {
        Ok(entries) => {
            let hidden = |path: &Path| {
                path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
            };
            let paths = entries.flatten().map(|entry| entry.path());
            paths.filter(|path| !hidden(path)).for_each(&mut add);
        }
        Err(_) => add(path.to_owned()),
    }
}

impl Watched {
    fn peek(&mut self, now: Instant) -> Row {
        let location = self.observer.location().to_string();
        let damaged = |trouble: String| Row {
            name: self.name.clone(),
            location: location.clone(),
            state: State::Damaged,
            trouble: Some(trouble),
            fill: Fill { used: 0, size: self.observer.layout().data_size },
            ..Row::default()
        };
        let stat = match self.observer.stat() {
            Ok(stat) => stat,
            Err(error) => return damaged(error.to_string()),
        };
        let Some(totals) = &stat.totals else {
            return damaged("no producer writes such figures".to_owned());
        };
        // How far the one consumer has come, or the slowest named one.
        let read = slowest_pos(&stat).unwrap_or(totals.consumer.read.records);
        let written = totals.producer.written;
        let lost = totals.producer.refused.total();
        let lost = lost.plus(totals.consumer.lapped).plus(totals.producer.reclaimed).records;
        let lag = lag(&stat);
        let first = Before { at: now, written, lost, read, wrote_at: now, read_at: now };
        let before = self.before.unwrap_or(first);
        let after = Before {
            at: now,
            written,
            lost,
            read,
            wrote_at: if written == before.written { before.wrote_at } else { now },
            read_at: if read == before.read && lag.unwrap_or(0) > 0 { before.read_at } else { now },
        };
        self.before = Some(after);
        let seconds = now.duration_since(before.at).as_secs_f64();
        let rate = (seconds > 0.0).then(|| {
            let wrote = written.since(before.written);
            (wrote.records as f64 / seconds, wrote.bytes as f64 / seconds)
        });
        let lost_rate = match seconds {
            0.0 => 0.0,
            _ => lost.saturating_sub(before.lost) as f64 / seconds,
        };
        let state = state(&stat, lag, lost > before.lost, &after, now);
        Row {
            name: self.name.clone(),
            trouble: stat.held_up.as_ref().map(|held| {
                format!("held up {}", owner::held_up(self.observer.location(), &stat, held))
            }),
            location,
            state,
            fill: Fill::of_data(&stat, totals),
            rate,
            lag,
            lost,
            lost_rate,
            producer: producer(&stat),
            details: details(&stat, self.observer.location()),
        }
    }
}

/// Returns the records that the consumer has not read yet, or the slowest named one.
fn lag(stat: &Stat) -> Option<u64> {
    let totals = stat.totals.as_ref()?;
    match stat.layout.policy {
        Policy::Drop => {
            let waited_for = stat.consumers.iter().filter(|consumer| consumer.waited_for);
            let most = waited_for.map(|consumer| consumer.unread.records).max();
            Some(most.unwrap_or(totals.present.records))
        }
        Policy::Overwrite if stat.consumer.owner.epoch == 0 => None,
        Policy::Overwrite => {
            let passed = totals.consumer.read.plus(totals.consumer.lapped);
            Some(totals.producer.written.records.saturating_sub(passed.records))
        }
    }
}

fn state(stat: &Stat, lag: Option<u64>, losing: bool, moved: &Before, now: Instant) -> State {
    let (quiet, unread) = (now.duration_since(moved.wrote_at), now.duration_since(moved.read_at));
    let waiting = stat.layout.policy == Policy::Drop && lag.unwrap_or(0) > 0;
    match () {
        () if stat.held_up.is_some() => State::HeldUp,
        () if losing => State::Losing,
        () if is_read(stat) && lag.unwrap_or(0) > 0 && unread >= STILL => State::Stalled(unread),
        () if waiting && !is_read(stat) && is_fed(stat) => State::NoConsumer,
        () if waiting && !is_fed(stat) => State::NoProducer,
        () if !is_fed(stat) => State::Ended,
        () if quiet >= STILL => State::Quiet(quiet),
        () => State::Ok,
    }
}

fn producer(stat: &Stat) -> String {
    let alive = stat.producers.iter().filter(|member| member.alive).count();
    match (alive, &stat.producer.owner) {
        (2.., _) => format!("{alive} alive"),
        (_, owner) if owner.epoch == 0 => "none yet".to_owned(),
        (_, owner) => format!("{} {}", owner::name(owner), owner.pid),
    }
}

fn details(stat: &Stat, location: &Location) -> Vec<(String, String)> {
    let layout = &stat.layout;
    let holder = |holding: &perfring_consumer::Holding| {
        let owner = &holding.owner;
        match (owner.epoch, holding.alive) {
            (0, false) => "none so far".to_owned(),
            (0, true) => "attaching".to_owned(),
            (nth, alive) => {
                let state = if alive { "alive" } else { "detached" };
                let name = owner::name(owner);
                format!("{state}: {name}, pid {}, uid {} (attach {nth})", owner.pid, owner.uid)
            }
        }
    };
    let mut lines = vec![("producer".to_owned(), holder(&stat.producer))];
    for member in stat.producers.iter().filter(|member| member.alive).skip(1) {
        let owner = &member.figures.owner;
        lines.push((
            "producer".to_owned(),
            format!("alive: {}, pid {}", owner::name(owner), owner.pid),
        ));
    }
    if layout.consumers == 0 {
        lines.push(("consumer".to_owned(), holder(&stat.consumer)));
    } else if stat.consumers.is_empty() {
        lines.push(("consumers".to_owned(), "none so far".to_owned()));
    }
    let named = stat.consumers.iter().map(|consumer| named::line(consumer, location));
    lines.extend(named.map(|line| ("consumer".to_owned(), line)));
    lines.push(("uuid".to_owned(), uuid::Uuid::from_bytes(layout.uuid).to_string()));
    if let Some(totals) = &stat.totals {
        let counts = counts(layout, totals);
        lines.extend(counts.into_iter().map(|(name, count)| {
            (name.to_owned(), format!("{} records, {} bytes", count.records, count.bytes))
        }));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfring_consumer::Consumer;
    use perfring_producer::{Options, Producer};

    fn row(rows: &[Row], name: &str) -> Row {
        rows.iter().find(|row| row.name == name).expect("the ring").clone()
    }

    #[test]
    fn rates_lags_losses_and_states_are_those_of_the_rings() {
        let dir = tempfile::tempdir().expect("a directory");
        let small = Options { size: 4096, ..Options::default() };
        let mut one = Producer::create(dir.path().join("one"), &small).expect("a ring");
        let two = Producer::create(dir.path().join("two"), &small).expect("a ring");
        std::fs::write(dir.path().join("other"), "not a ring").expect("a file");
        let mut watch = Watch::new(vec![dir.path().to_owned()]);
        let start = Instant::now();
        assert_eq!(watch.peek(start).len(), 2);
        assert_eq!(watch.others.len(), 1);
        for _ in 0..10 {
            one.publish(&[0; 56]).expect("room");
        }
        let rows = watch.peek(start + Duration::from_secs(2));
        let at = row(&rows, "one");
        assert_eq!((at.rate, at.lag, at.fill.used), (Some((5.0, 320.0)), Some(10), 640));
        assert_eq!((at.state, row(&rows, "two").state), (State::NoConsumer, State::Quiet(STILL)));

        let mut consumer = Consumer::attach(dir.path().join("one")).expect("the ring");
        let _ = consumer.read();
        let rows = watch.peek(start + Duration::from_secs(3));
        assert_eq!(row(&rows, "one").state, State::Stalled(Duration::from_secs(3)));
        while one.publish(&[0; 56]).is_ok() {}
        let at = row(&watch.peek(start + Duration::from_secs(5)), "one");
        assert_eq!((at.state, at.lost, at.lost_rate), (State::Losing, 1, 0.5));
        drop((one, two));
        let rows = watch.peek(start + Duration::from_secs(6));
        assert_eq!(row(&rows, "two").state, State::Ended);
        while consumer.read().expect("sound").is_some() {}
        consumer.release();
        drop(consumer);
        let rows = watch.peek(start + Duration::from_secs(7));
        assert_eq!((row(&rows, "one").state, row(&rows, "one").lag), (State::Ended, Some(0)));
        std::fs::remove_file(dir.path().join("one")).expect("the ring");
        assert_eq!(watch.peek(start + Duration::from_secs(8)).len(), 1);
    }

    #[test]
    fn of_named_consumers_the_slowest_counts_and_each_is_shown() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("ring");
        let options = Options { size: 4096, consumers: 3, ..Options::default() };
        let mut producer = Producer::create(&path, &options).expect("a ring");
        let mut watch = Watch::new(vec![path.clone()]);
        let start = Instant::now();
        let mut peek = |seconds| row(&watch.peek(start + Duration::from_secs(seconds)), "ring");
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
        assert_eq!(peek(4).state, State::Stalled(Duration::from_secs(3)));
        slow.read().expect("sound");
        slow.release();
        let at = peek(5);
        assert_eq!((at.lag, at.fill.used), (Some(9), 576), "whether or not a producer has seen it");
        drop((fast, slow));
        assert_eq!(peek(6).state, State::NoConsumer);
    }
}
