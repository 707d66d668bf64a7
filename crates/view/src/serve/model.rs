//! What the page shows of all rings: their rows, what they did in the last minutes, and what happened to them.

use super::clock::Clock;
use super::who::Who;
use crate::row::{Holder, Reader, Row, losses};
use perfring_consumer::{Policy, Producers, advanced::Saved};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::Path;
use std::time::{Duration, Instant};

/// The time between two points of a ring's history.
pub(super) const STEP: Duration = Duration::from_secs(1);
/// Points of a ring's history: five minutes.
pub(super) const POINTS: usize = 300;
/// Marks that are kept.
const MARKS: usize = 2_000;
/// Ticks that a client may have missed before it has to ask for the history anew.
const TICKS: usize = 10;
/// Rings that were removed, of which clients are told.
const GONE: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct Model {
    version: u64,
    rows: BTreeMap<u32, Shown>,
    gone: VecDeque<(u64, u32)>,
    marks: VecDeque<(u64, String)>,
    ticks: VecDeque<(u64, String)>,
    ticked: Option<Instant>,
    files: Files,
}

/// Files that are not shown as rings.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// Those that are no rings.
    pub(super) others: usize,
    /// Why others could not be opened.
    pub(super) closed: Option<String>,
}

/// A ring as it was sent.
#[derive(Debug)]
struct Shown {
    version: u64,
    json: String,
    name: String,
    location: String,
    timed: bool,
    lost: HashMap<&'static str, u64>,
    /// How its producers and consumers were.
    how: HashMap<Who, &'static str>,
    past: VecDeque<Point>,
}

/// A ring at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Point {
    pub(super) at: i64,
    /// Records a second: written, read, lost.
    written: f64,
    read: f64,
    lost: f64,
    /// Percent of the ring.
    fill: f64,
    lag: Option<u64>,
    /// Where the ring's next record would be.
    pub(super) head: Saved,
}

#[derive(Serialize)]
struct RowJson<'a> {
    id: u32,
    name: &'a str,
    loc: &'a str,
    dir: String,
    /// One of a set, a ring for each CPU.
    cpu: bool,
    policy: &'a str,
    producers_kind: &'a str,
    timed: bool,
    state: &'a str,
    since: Option<i64>,
    trouble: Option<&'a str>,
    r#in: Option<[f64; 2]>,
    out: Option<[f64; 2]>,
    used: u64,
    size: u64,
    lag: Option<u64>,
    written: u64,
    over: Option<u64>,
    lost: u64,
    lost_rate: f64,
    losses: BTreeMap<&'static str, u64>,
    producers: Vec<HolderJson<'a>>,
    readers: Vec<ReaderJson<'a>>,
}

#[derive(Serialize)]
struct HolderJson<'a> {
    name: &'a str,
    pid: u32,
    alive: bool,
    how: &'a str,
}

#[derive(Serialize)]
struct ReaderJson<'a> {
    #[serde(flatten)]
    holder: HolderJson<'a>,
    lag: u64,
    bytes: u64,
    missed: u64,
    slowest: bool,
    rate: Option<f64>,
}

/// Something that happened to a ring.
#[derive(Serialize)]
struct Mark<'a> {
    t: i64,
    ring: u32,
    name: &'a str,
    what: &'a str,
    who: Option<&'a str>,
    cause: Option<&'a str>,
    records: Option<u64>,
}

impl<'a> Mark<'a> {
    fn of(t: i64, ring: u32, name: &'a str) -> Self {
        Mark { t, ring, name, what: "", who: None, cause: None, records: None }
    }
}

impl<'a> HolderJson<'a> {
    fn of(holder: &'a Holder) -> Self {
        HolderJson { name: &holder.name, pid: holder.pid, alive: holder.alive, how: holder.how }
    }
}

/// Rounds a rate, as more digits say nothing.
fn short(rate: f64) -> f64 {
    (rate * 10.0).round() / 10.0
}

impl<'a> RowJson<'a> {
    fn of(row: &'a Row, now: Instant, clock: &Clock) -> Self {
        let pair =
            |rate: Option<(f64, f64)>| rate.map(|(records, bytes)| [short(records), bytes.round()]);
        let stat = row.stat.as_ref();
        let layout = stat.map(|stat| &stat.layout);
        let totals = stat.and_then(|stat| stat.totals.as_ref());
        let all = totals.map(losses).into_iter().flatten();
        let is_flight = layout.is_some_and(|layout| layout.policy == Policy::Overwrite);
        RowJson {
            id: row.id,
            // The page shows a ring of a set below its set.
            name: match layout.is_some_and(|layout| layout.producers == Producers::Cpu) {
                true => row.name.rsplit('/').next().unwrap_or_default(),
                false => &row.name,
            },
            loc: &row.location,
            dir: Path::new(&row.location).parent().unwrap_or(Path::new("")).display().to_string(),
            cpu: layout.is_some_and(|layout| layout.producers == Producers::Cpu),
            policy: layout.map_or("", |layout| layout.policy.name()),
            producers_kind: layout.map_or("", |layout| layout.producers.name()),
            timed: layout.is_some_and(|layout| layout.time),
            state: row.state.word(),
            since: row.state.lasts().and_then(|time| Some(clock.near(now.checked_sub(time)?))),
            trouble: row.trouble.as_deref(),
            r#in: pair(row.rate),
            out: pair(row.read_rate),
            used: row.fill.used,
            size: row.fill.size,
            lag: row.lag,
            written: totals.map_or(0, |totals| totals.producer.written.records),
            over: totals.filter(|_| is_flight).map(|totals| totals.overwritten.records),
            lost: row.lost,
            lost_rate: short(row.lost_rate),
            losses: all
                .filter(|(_, of)| of.records > 0)
                .map(|(name, of)| (name, of.records))
                .collect(),
            producers: row.producers.iter().map(HolderJson::of).collect(),
            readers: row.readers.iter().map(ReaderJson::of).collect(),
        }
    }
}

impl<'a> ReaderJson<'a> {
    fn of(reader: &'a Reader) -> Self {
        ReaderJson {
            holder: HolderJson::of(&reader.holder),
            lag: reader.unread.records,
            bytes: reader.unread.bytes,
            missed: reader.missed,
            slowest: reader.slowest,
            rate: reader.rate.map(short),
        }
    }
}

impl Point {
    fn of(row: &Row, at: i64) -> Self {
        let rate = |of: Option<(f64, f64)>| of.map_or(0.0, |(records, _)| short(records));
        let totals = row.stat.as_ref().and_then(|stat| stat.totals.as_ref());
        let head = totals.map_or(Saved::default(), |totals| Saved {
            pos: totals.head,
            before: totals.producer.written,
            ..Saved::default()
        });
        Point {
            at,
            written: rate(row.rate),
            read: rate(row.read_rate),
            lost: short(row.lost_rate),
            fill: row.fill.rounded(1),
            lag: row.lag,
            head,
        }
    }

    fn numbers(&self) -> (f64, f64, f64, f64, Option<u64>) {
        (self.written, self.read, self.lost, self.fill, self.lag)
    }
}

fn json(value: &impl Serialize) -> String {
    // All keys are text, and numbers are finite or null.
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}

impl Model {
    /// Takes the rows of a poll. Returns its version.
    pub(super) fn update(
        &mut self,
        rows: &[Row],
        files: Files,
        now: Instant,
        clock: &Clock,
    ) -> u64 {
        let first = self.version == 0;
        self.version += 1;
        self.files = files;
        let t = clock.at(now);
        let due = self.ticked.is_none_or(|then| now.duration_since(then) >= STEP);
        let mut tick = Vec::new();
        for row in rows {
            self.row(row, now, clock, first);
            let Some(shown) = self.rows.get_mut(&row.id) else { continue };
            // A ring's first poll knows no rate, which is not a rate of 0.
            if due && (row.rate.is_some() || !shown.past.is_empty()) {
                let point = Point::of(row, t);
                shown.past.push_back(point);
                shown.past.drain(..shown.past.len().saturating_sub(POINTS));
                tick.push((row.id, point.numbers()));
            }
        }
        if due {
            self.ticked = Some(now);
            let text = format!("{{\"t\":{t},\"p\":{}}}", json(&tick));
            self.ticks.push_back((self.version, text));
            self.ticks.drain(..self.ticks.len().saturating_sub(TICKS));
        }
        let present: std::collections::HashSet<u32> = rows.iter().map(|row| row.id).collect();
        let gone: Vec<u32> = self.rows.keys().filter(|id| !present.contains(id)).copied().collect();
        for id in gone {
            if let Some(shown) = self.rows.remove(&id) {
                self.mark(&Mark { what: "removed", ..Mark::of(t, id, &shown.name) });
            }
            self.gone.push_back((self.version, id));
        }
        self.gone.drain(..self.gone.len().saturating_sub(GONE));
        self.version
    }

    fn row(&mut self, row: &Row, now: Instant, clock: &Clock, first: bool) {
        let t = clock.at(now);
        let totals = row.stat.as_ref().and_then(|stat| stat.totals.as_ref());
        let lost: HashMap<&'static str, u64> = match totals {
            Some(totals) => losses(totals).iter().map(|(cause, of)| (*cause, of.records)).collect(),
            None => HashMap::new(),
        };
        let producers = row.producers.iter().map(|holder| (true, holder));
        let readers = row.readers.iter().map(|reader| (false, &reader.holder));
        let how = producers.chain(readers);
        let how = how.map(|(writes, of)| (Who::of(writes, of), of.how)).collect();
        let text = json(&RowJson::of(row, now, clock));
        let name = row.name.clone();
        let known = self.rows.remove(&row.id);
        match &known {
            Some(known) => self.compare(known, row.id, t, &lost, &how),
            None if !first => self.mark(&Mark { what: "appeared", ..Mark::of(t, row.id, &name) }),
            None => {}
        }
        let (version, past) = match known {
            Some(known) if known.json == text => (known.version, known.past),
            Some(known) => (self.version, known.past),
            None => (self.version, VecDeque::new()),
        };
        let timed = row.stat.as_ref().is_some_and(|stat| stat.layout.time);
        let location = row.location.clone();
        let shown = Shown { version, json: text, name, location, timed, lost, how, past };
        self.rows.insert(row.id, shown);
    }

    /// Marks what happened since the previous poll.
    fn compare(
        &mut self,
        before: &Shown,
        id: u32,
        t: i64,
        lost: &HashMap<&'static str, u64>,
        how: &HashMap<Who, &'static str>,
    ) {
        for (cause, now) in lost {
            let then = before.lost.get(cause).copied().unwrap_or(0);
            if *now > then {
                let of = Mark::of(t, id, &before.name);
                self.mark(&Mark {
                    what: "lost",
                    cause: Some(cause),
                    records: Some(now - then),
                    ..of
                });
            }
        }
        for (who, now) in how {
            let then = before.how.get(who).copied();
            if then == Some(*now) || (then.is_none() && *now != "alive") {
                continue;
            }
            let what = match (*now, then) {
                ("alive", Some("stopped")) => "continued",
                ("alive", _) => "attached",
                (now, _) => now,
            };
            let who = who.to_string();
            self.mark(&Mark { what, who: Some(&who), ..Mark::of(t, id, &before.name) });
        }
        // A shared ring has forgotten those that have detached.
        let forgotten =
            before.how.iter().filter(|(who, was)| **was != "dead" && !how.contains_key(who));
        let forgotten: Vec<_> = forgotten.filter(|(_, was)| **was != "detached").collect();
        for (who, _) in forgotten {
            let who = who.to_string();
            self.mark(&Mark { what: "detached", who: Some(&who), ..Mark::of(t, id, &before.name) });
        }
    }

    /// Returns everything that changed since a version, as a JSON object, and the version of now; all there is since
    /// version 0.
    pub(super) fn since(&self, version: u64) -> (String, u64) {
        let join = |all: Vec<&str>| all.join(",");
        let rows = self.rows.values().filter(|row| row.version > version);
        let rows = join(rows.map(|row| row.json.as_str()).collect());
        let newer = |of: &'_ VecDeque<(u64, String)>| {
            let all = of.iter().filter(|(since, _)| *since > version);
            all.map(|(_, json)| json.as_str()).collect::<Vec<_>>().join(",")
        };
        let (all, gone) = match version {
            0 => (true, Vec::new()),
            _ => (
                false,
                self.gone.iter().filter(|(since, _)| *since > version).map(|(_, id)| *id).collect(),
            ),
        };
        // Who was away for so long that ticks are missing needs the whole history.
        let is_cut = self.ticks.len() == TICKS;
        let is_whole = all || is_cut && self.ticks[0].0 > version + 1;
        let (marks, ticks) =
            (newer(&self.marks), if all { String::new() } else { newer(&self.ticks) });
        let (gone, others, closed) = (json(&gone), self.files.others, json(&self.files.closed));
        let text = format!(
            "{{\"all\":{all},\"whole\":{is_whole},\"rows\":[{rows}],\"gone\":{gone},\"marks\":[{marks}],\"ticks\":[{ticks}],\"others\":{others},\"closed\":{closed}}}"
        );
        (text, self.version)
    }

    /// Returns what these rings did in the last minutes, as a JSON object.
    pub(super) fn history(&self, rings: &[u32]) -> String {
        let mut all = Vec::new();
        for id in rings {
            let Some(shown) = self.rows.get(id) else { continue };
            let points: Vec<_> =
                shown.past.iter().map(|point| (point.at, point.numbers())).collect();
            all.push(format!("\"{id}\":{}", json(&points)));
        }
        format!("{{{}}}", all.join(","))
    }

    /// Returns the name and the path of a ring.
    pub(super) fn ring(&self, id: u32) -> Option<(&str, &str)> {
        self.rows.get(&id).map(|shown| (shown.name.as_str(), shown.location.as_str()))
    }

    /// Returns where about so many of a ring's newest records begin; `None` if that is not known.
    pub(super) fn recent(&self, id: u32, records: u64) -> Option<Saved> {
        let past = &self.rows.get(&id)?.past;
        let written = past.back()?.head.before.records;
        let is_older = |point: &Point| written - point.head.before.records.min(written) > records;
        let at = past.partition_point(is_older).min(past.len().saturating_sub(1));
        (at > 0).then(|| past.get(at).map(|point| point.head)).flatten()
    }

    /// Returns how many records a second were written to a ring, second by second.
    pub(super) fn rates(&self, id: u32) -> Vec<f64> {
        self.rows
            .get(&id)
            .map(|shown| shown.past.iter().map(|of| of.written).collect())
            .unwrap_or_default()
    }

    /// Returns all rings.
    pub(super) fn rings(&self) -> Vec<u32> {
        self.rows.keys().copied().collect()
    }

    /// Returns where a ring's records after a time begin, as far as that is known.
    pub(super) fn before(&self, id: u32, t: i64) -> Option<Saved> {
        let shown = self.rows.get(&id).filter(|shown| shown.timed)?;
        // Read after the time was taken, so another one earlier.
        let at = shown.past.partition_point(|point| point.at < t).checked_sub(2)?;
        shown.past.get(at).map(|point| point.head)
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        self.marks.push_back((self.version, json(mark)));
        self.marks.drain(..self.marks.len().saturating_sub(MARKS));
    }
}
