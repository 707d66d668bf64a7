//! What an event, a span and a log record cost, as ratios: beside a timed publish of 64 bytes into a ring per CPU, and beside
//! `tracing_subscriber::fmt` to nowhere.
//!
//! `cargo run --release -p perfring-tracing --example cost`
//!
//! One thread. The contestants take turns in each of five rounds; a ratio is that of two times of one round, and the table
//! has the median and the range of the five. In a turn, a contestant first fills its ring once, so that it is as warm as in a
//! program that writes all the time; then some calls are timed. After that, a reader finds each value that these wrote,
//! once, or the program ends with an error.

mod cases;

use cases::{event, event_in_span, message, span};
use perfring_consumer::{Item, Snapshot};
use perfring_producer::{CpuProducer, Options, RecordType};
use perfring_telemetry::{Log, Severity};
use perfring_tracing::{PerfringLayer, Resource, Sink, options};
use perfring_types::Class;
use perfring_types::read::{TypeTable, Value};
use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tracing::Dispatch;
use tracing_subscriber::prelude::*;

type Failure = Box<dyn Error>;

const ROUNDS: usize = 5;
/// In each round.
const TURNS: u64 = 50;
/// Calls in a turn before those that are timed.
const WARM: u64 = 10_000;
/// Timed calls in a turn: their records fit into a ring.
const CALLS: u64 = 2_000;
const SIZE: u64 = 1 << 20;

/// A record that was read.
struct Row {
    class: Class,
    fields: Value,
}

impl Row {
    fn get(&self, name: &str) -> Option<&Value> {
        self.fields.get(name)
    }

    fn number(&self, name: &str) -> Option<u64> {
        match self.get(name) {
            Some(Value::U64(number)) => Some(*number),
            _ => None,
        }
    }

    fn is(&self, name: &str, text: &str) -> bool {
        matches!(self.get(name), Some(Value::Str(its)) if its == text)
    }
}

/// Checks the records of a turn that begins with this number.
type Check = fn(&[Row], u64, &mut HashSet<Vec<u8>>) -> bool;

/// What it is called, what is called, and how its records are checked.
type Case = (&'static str, fn(u64), Check);

/// Returns whether each number of the turn is there once, in a record that this accepts.
fn all_once(rows: &[Row], from: u64, field: &str, accept: impl Fn(&Row, u64) -> bool) -> bool {
    let mut seen = HashSet::new();
    for row in rows {
        let Some(n) = row.number(field) else { continue };
        if (from..from + CALLS).contains(&n) && !(accept(row, n) && seen.insert(n)) {
            return false;
        }
    }
    seen.len() as u64 == CALLS
}

fn is_event(row: &Row, n: u64) -> bool {
    row.class == Class::Log
        && row.is("body", "something happened")
        && row.is("severity_text", "INFO")
        && row.get("ratio") == Some(&Value::F64(n as f64 / 2.0))
        && row.get("ok") == Some(&Value::Bool(n.is_multiple_of(2)))
        && row.number("process.pid") == Some(std::process::id().into())
}

fn check_events(rows: &[Row], from: u64, _: &mut HashSet<Vec<u8>>) -> bool {
    all_once(rows, from, "user", |row, n| is_event(row, n) && row.get("span_id").is_none())
}

fn check_messages(rows: &[Row], from: u64, _: &mut HashSet<Vec<u8>>) -> bool {
    all_once(rows, from, "n", |row, _| row.is("body", "something happened"))
}

fn bytes<'a>(row: &'a Row, name: &str) -> Option<&'a Vec<u8>> {
    match row.get(name) {
        Some(Value::Bytes(bytes)) => Some(bytes),
        _ => None,
    }
}

/// Each span has a start and an end of the same ids, which no other span of the run has; events have them, too.
fn check_spans(rows: &[Row], from: u64, ids: &mut HashSet<Vec<u8>>) -> bool {
    let of = |class| rows.iter().filter(move |row| row.class == class);
    let ends: HashMap<_, _> =
        of(Class::SpanEnd).filter_map(|row| Some((bytes(row, "span_id")?, row))).collect();
    let starts: Vec<_> = of(Class::SpanStart)
        .filter(|row| row.number("user").is_some_and(|n| (from..from + CALLS).contains(&n)))
        .collect();
    let numbers: HashSet<_> = starts.iter().filter_map(|row| row.number("user")).collect();
    numbers.len() as u64 == CALLS
        && starts.len() as u64 == CALLS
        && starts.iter().all(|start| {
            let Some(id) = bytes(start, "span_id") else { return false };
            let Some(end) = ends.get(id) else { return false };
            let trace = bytes(start, "trace_id");
            ids.insert(id.clone())
                && start.is("name", "request")
                && end.is("name", "request")
                && end.number("duration_nano").is_some()
                && trace.is_some_and(|trace| ids.insert(trace.clone()))
                && bytes(end, "trace_id") == trace
        })
}

fn check_both(rows: &[Row], from: u64, ids: &mut HashSet<Vec<u8>>) -> bool {
    let starts = rows.iter().filter(|row| row.class == Class::SpanStart);
    let of: HashMap<_, _> = starts.map(|row| (row.number("user"), bytes(row, "span_id"))).collect();
    let logs = rows.iter().filter(|row| row.class == Class::Log);
    let mut logs = logs.filter(|row| row.number("user").is_some_and(|n| n >= from));
    logs.all(|row| {
        let user = row.number("user");
        is_event(row, user.unwrap_or_default()) && of.get(&user) == Some(&bytes(row, "span_id"))
    }) && check_spans(rows, from, ids)
}

fn check_logs(rows: &[Row], from: u64, _: &mut HashSet<Vec<u8>>) -> bool {
    let mut bodies: HashSet<String> = (from..from + CALLS).map(body).collect();
    for row in rows.iter().filter(|row| row.class == Class::Log) {
        let Some(Value::Str(body)) = row.get("body") else { continue };
        let is_whole = row.is("severity_text", "WARN") && row.number("severity_number") == Some(13);
        if bodies.remove(body) && !is_whole {
            return false;
        }
    }
    bodies.is_empty()
}

fn body(n: u64) -> String {
    format!("order {n:012} is late")
}

/// What the rings at a place have: a ring, or a directory of some.
fn rows(place: &Path) -> Result<Vec<Row>, Failure> {
    let rings: Vec<PathBuf> = match std::fs::read_dir(place) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect::<Result<_, Failure>>()?,
        Err(_) => vec![place.to_owned()],
    };
    let mut rows = Vec::new();
    for ring in rings {
        let snapshot = Snapshot::take(&ring)?;
        let types = TypeTable::from_entries(snapshot.types().entries());
        for item in &snapshot {
            let Item::Record(record) = item? else { continue };
            let of = RecordType::new(record.kind).and_then(|kind| types.get(kind));
            let Some((of, class)) = of.and_then(|of| Some((of, of.class.known()?))) else {
                continue;
            };
            rows.push(Row { class, fields: of.decode(record.bytes)? });
        }
    }
    Ok(rows)
}

/// A subscriber that is measured.
struct Contestant {
    name: &'static str,
    dispatch: Dispatch,
    /// Where the records are, if they are anywhere.
    place: Option<PathBuf>,
    sink: Option<Sink>,
}

fn time(from: u64, mut act: impl FnMut(u64)) -> Duration {
    (from - WARM..from).for_each(&mut act);
    let since = Instant::now();
    (from..from + CALLS).for_each(act);
    since.elapsed()
}

/// The unit: a timed publish of 64 bytes into a ring per CPU.
fn unit(producer: &CpuProducer, from: u64) -> Duration {
    let mut payload = [7u8; 64];
    time(from, |n| {
        payload[..8].copy_from_slice(&n.to_ne_bytes());
        let _ = black_box(producer.publish(black_box(&payload)));
    })
}

fn check_unit(dir: &Path, from: u64) -> Result<bool, Failure> {
    let mut seen = HashSet::new();
    for entry in std::fs::read_dir(dir)? {
        let snapshot = Snapshot::take(entry?.path())?;
        for item in &snapshot {
            let Item::Record(record) = item? else { continue };
            let Some(first) = record.bytes.first_chunk() else { continue };
            let n = u64::from_ne_bytes(*first);
            let is_whole = record.bytes.len() == 64 && record.bytes[8..] == [7; 56];
            if n >= from && !(is_whole && record.time.is_some() && seen.insert(n)) {
                return Ok(false);
            }
        }
    }
    Ok(seen.len() as u64 == CALLS)
}

/// The median, the least and the greatest.
fn of_rounds(mut ratios: [f64; ROUNDS]) -> String {
    ratios.sort_by(f64::total_cmp);
    format!("{:6.2} ({:.2} to {:.2})", ratios[ROUNDS / 2], ratios[0], ratios[ROUNDS - 1])
}

fn contestants(dir: &Path) -> Result<Vec<Contestant>, Failure> {
    let shared = dir.join("shared");
    let sink = Sink::create(&shared, &Options { size: SIZE, ..options() }, Resource::here())?;
    let layer = PerfringLayer::new(sink.clone());
    let fmt = tracing_subscriber::fmt::layer().with_writer(std::io::sink).with_ansi(false);
    let none = |name, dispatch| Contestant { name, dispatch, place: None, sink: None };
    let cpus = dir.join("cpus");
    let of_cpus = Sink::open(&cpus, &Options { size: SIZE, ..options() }, Resource::here())?;
    if let Some(reason) = of_cpus.no_cpu_rings() {
        return Err(reason.to_string().into());
    }
    let of_cpus_layer = PerfringLayer::new(of_cpus.clone());
    Ok(vec![
        Contestant {
            name: "rings per CPU",
            dispatch: Dispatch::new(tracing_subscriber::registry().with(of_cpus_layer)),
            place: Some(cpus),
            sink: Some(of_cpus),
        },
        Contestant {
            name: "shared ring",
            dispatch: Dispatch::new(tracing_subscriber::registry().with(layer)),
            place: Some(shared),
            sink: Some(sink),
        },
        none("fmt", Dispatch::new(tracing_subscriber::registry().with(fmt))),
        none("nobody", Dispatch::new(tracing_subscriber::registry())),
    ])
}

fn main() -> Result<(), Failure> {
    let dir = tempfile::tempdir()?;
    let unit_dir = dir.path().join("unit");
    let per_cpu = Options { time: true, size: SIZE, ..Options::per_cpu() };
    let producer = CpuProducer::create(
        &unit_dir,
        &Options { policy: perfring_producer::Policy::Overwrite, ..per_cpu },
    )?;
    let all = contestants(dir.path())?;
    let cases: [Case; 4] = [
        ("event, three fields", event, check_events),
        ("event, formatted", message, check_messages),
        ("span: new, enter, exit, close", span, check_spans),
        ("an event in a span", event_in_span, check_both),
    ];
    println!("median of {ROUNDS} (range)");
    println!("{:30} {:14} {:>24} {:>24}", "", "", "of a publish of 64 bytes", "of fmt to nowhere");
    let (mut from, mut ids, mut verified) = (WARM, HashSet::new(), 0);
    let mut units = Vec::new();
    let mut check = |is_right: bool, what: &str| {
        verified += CALLS;
        if is_right { Ok(()) } else { Err(format!("{what}: not what was written")) }
    };
    for (case, act, is_right) in cases {
        let mut times = vec![[Duration::ZERO; ROUNDS]; all.len() + 1];
        for turn in 0..ROUNDS as u64 * TURNS {
            let round = (turn / TURNS) as usize;
            let published = unit(&producer, from);
            units.push(published);
            times[all.len()][round] += published;
            check(check_unit(&unit_dir, from)?, "publish")?;
            for (at, one) in all.iter().enumerate() {
                times[at][round] +=
                    tracing::dispatcher::with_default(&one.dispatch, || time(from, act));
                if let Some(place) = &one.place {
                    check(is_right(&rows(place)?, from, &mut ids), case)?;
                }
            }
            from += WARM + CALLS;
        }
        let fmt = times[all.len() - 2];
        for (one, its) in all.iter().zip(&times) {
            let of = |other: &[Duration; ROUNDS]| {
                of_rounds(std::array::from_fn(|at| its[at].div_duration_f64(other[at])))
            };
            println!("{case:30} {:14} {:>24} {:>24}", one.name, of(&times[all.len()]), of(&fmt));
        }
    }
    for one in all {
        let (Some(sink), Some(place)) = (&one.sink, &one.place) else { continue };
        let (mut its, mut units) = ([Duration::ZERO; ROUNDS], [Duration::ZERO; ROUNDS]);
        for turn in 0..ROUNDS as u64 * TURNS {
            let round = (turn / TURNS) as usize;
            units[round] += unit(&producer, from);
            let bodies: Vec<String> = (from - WARM..from + CALLS).map(body).collect();
            its[round] += time(from, |n| {
                let body = bodies[(n + WARM - from) as usize].as_str().into();
                let log = Log { severity: Some(Severity::Warn), body, ..Log::default() };
                let _ = black_box(sink.emit(black_box(&log)));
            });
            check(check_logs(&rows(place)?, from, &mut ids), "Sink::emit")?;
            from += WARM + CALLS;
        }
        let ratios = std::array::from_fn(|at| its[at].div_duration_f64(units[at]));
        println!("{:30} {:14} {:>24}", "Sink::emit(Log) with a body", one.name, of_rounds(ratios));
    }
    let each = units.iter().sum::<Duration>() / units.len() as u32 / CALLS as u32;
    println!("a publish of 64 bytes: {each:?}, on average");
    println!("{verified} calls, whose values a reader has verified");
    Ok(())
}
